//! Strided copies: slices, parts of a concatenation or of a split, repetition by broadcasting, and the inner part of a
//! pad.
//!
//! Elements are bytes of any meaning. Neighbours are copied as one element of up to 16 bytes where strides allow.

use serde::{Deserialize, Serialize};

use super::space::{IterationSpace, SpaceCode};
use super::{Kernel, KernelCode, launch_each, operand, parameters, refuse, source};
use crate::error::Result;
use crate::gpu::{Arg, Module, Region, Source};

pub(super) const FAMILY: &str = "device copy";

/// Bytes of the widest load.
const WIDEST: u64 = 16;

/// What shapes the instructions of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CopyCode {
    /// Bytes of an element: 1, 2, 4, 8 or 16.
    pub width: u8,
    /// Dimensions, and the strides of input and output.
    pub space: SpaceCode,
}

/// A copy at its sizes.
#[derive(Debug)]
pub struct CopyKernel {
    code: CopyCode,
    total: u64,
    /// Elements that input and output must have.
    extents: [u64; 2],
    space: Vec<u8>,
}

/// The C type of an element that is copied.
pub(super) fn moved(family: &'static str, width: u8) -> Result<&'static str> {
    Ok(match width {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "u32",
        8 => "u64",
        16 => "Word16",
        _ => return Err(refuse(family, format!("elements of {width} bytes"))),
    })
}

/// A strided view of an operand, in elements from the start of its memory.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// The first element.
    pub start: i64,
    /// From an element to the next along each dimension.
    pub strides: &'a [i64],
}

impl<'a> Strided<'a> {
    /// A view with this start and these strides.
    #[must_use]
    pub const fn new(start: i64, strides: &'a [i64]) -> Strided<'a> {
        Strided { start, strides }
    }
}

impl CopyKernel {
    /// Copies elements of `width` bytes, `counts` along each dimension, from one view to another. The other must not
    /// have two elements at one offset. Inputs: the elements.
    ///
    /// # Errors
    ///
    /// Unsupported where a view reaches outside of any memory, or more than eight dimensions remain.
    pub fn new(width: u8, counts: &[u64], from: Strided<'_>, to: Strided<'_>) -> Result<CopyKernel> {
        moved(FAMILY, width)?;
        let operands = [from, to].map(|steps| (steps.start, steps.strides));
        let mut space = IterationSpace::new(FAMILY, counts, &operands)?;
        let mut width = u64::from(width);
        while width < WIDEST && pair(&mut space) {
            width *= 2;
        }
        let code = CopyCode { width: width as u8, space: space.code(FAMILY)? };
        let extents = [space.extent(FAMILY, 0)?, space.extent(FAMILY, 1)?];
        Ok(CopyKernel { code, total: space.total(FAMILY)?, extents, space: space.bytes(code.space) })
    }
}

/// Makes two neighbours of the inner dimension one element of twice the width, where both operands allow.
fn pair(space: &mut IterationSpace) -> bool {
    let last = space.counts.len() - 1;
    let even = |value: i64| value % 2 == 0;
    let fits = space.counts[last].is_multiple_of(2)
        && space.operands.iter().all(|(start, strides)| {
            even(*start) && strides[last] == 1 && strides[..last].iter().all(|&stride| even(stride))
        });
    if fits {
        space.counts[last] /= 2;
        for (start, strides) in &mut space.operands {
            *start /= 2;
            strides[..last].iter_mut().for_each(|stride| *stride /= 2);
        }
    }
    fits
}

impl CopyCode {
    pub(super) fn source(self) -> Result<Source> {
        if !self.space.is_valid() || self.space.operands != 2 {
            return Err(refuse(FAMILY, "a copy has two operands"));
        }
        let kind = moved(FAMILY, self.width)?;
        let body = format!(
            "    for (Index at = KILN_START; at < space.total; at += KILN_STEP) {{\n{}        \
             out[offset1] = in[offset0];\n    }}\n",
            self.space.offsets("at", |_, _| false)
        );
        let (from, to) = (format!("const {kind}*"), format!("{kind}*"));
        let parameters = parameters(&[(&from, "in"), (&to, "out"), ("Space", "space")]);
        Ok(source("kiln_copy", &self.space.structure(), &parameters, &body))
    }
}

impl Kernel for CopyKernel {
    fn code(&self) -> KernelCode {
        KernelCode::Copy(self.code)
    }

    fn launch(&self, module: &dyn Module, inputs: &[Option<&Region>], output: &Region) -> Result<()> {
        let width = u64::from(self.code.width);
        let input = operand(FAMILY, inputs, 0, self.extents[0], width)?;
        output.holds(FAMILY, "output", self.extents[1], width)?;
        if self.total == 0 {
            return Ok(());
        }
        let args = [Arg::Memory(Some(input)), Arg::Memory(Some(output)), Arg::Bytes(&self.space)];
        launch_each(module, self.total, &args)
    }
}
