//! Strided copies: slices, parts of a concatenation or of a split, repetition by broadcasting, and the inner part of a pad.
//!
//! Elements are bytes of any meaning. Neighbours that move together are moved as one element of up to 16 bytes.

use serde::{Deserialize, Serialize};

use super::walk::{Walk, WalkCode};
use super::{Kernel, KernelCode, launch_each, operand, parameters, refuse, source};
use crate::error::Result;
use crate::gpu::{Arg, Module, Region, Source};

pub(super) const FAMILY: &str = "device copy";

/// The most bytes that an instruction moves.
const WIDEST: u64 = 16;

/// What shapes the instructions of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CopyCode {
    /// Bytes of an element: 1, 2, 4, 8 or 16.
    pub width: u8,
    /// How input and output are walked through.
    pub walk: WalkCode,
}

/// A copy at its sizes.
#[derive(Debug)]
pub struct CopyKernel {
    code: CopyCode,
    total: u64,
    /// Elements of input and output that must be there.
    extents: [u64; 2],
    walk: Vec<u8>,
}

/// The C type of an element that is only moved.
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

/// Where an operand's elements are: in elements from the start of its memory.
#[derive(Clone, Copy, Debug)]
pub struct Steps<'a> {
    /// The first element.
    pub start: i64,
    /// From an element to the next along each dimension.
    pub strides: &'a [i64],
}

impl<'a> Steps<'a> {
    /// Those of a start and strides.
    #[must_use]
    pub const fn new(start: i64, strides: &'a [i64]) -> Steps<'a> {
        Steps { start, strides }
    }
}

impl CopyKernel {
    /// Copies `counts` elements of `width` bytes, of which input and output each have the first at a start and the others
    /// by strides, in elements; those of the output must not name a place twice. Inputs: what is copied.
    ///
    /// # Errors
    ///
    /// Unsupported where an operand would be left, or more than eight dimensions remain.
    pub fn new(width: u8, counts: &[u64], from: Steps<'_>, to: Steps<'_>) -> Result<CopyKernel> {
        moved(FAMILY, width)?;
        let operands = [from, to].map(|steps| (steps.start, steps.strides));
        let mut walk = Walk::new(FAMILY, counts, &operands)?;
        let mut width = u64::from(width);
        while width < WIDEST && pair(&mut walk) {
            width *= 2;
        }
        let code = CopyCode { width: width as u8, walk: walk.code(FAMILY)? };
        let extents = [walk.extent(FAMILY, 0)?, walk.extent(FAMILY, 1)?];
        Ok(CopyKernel { code, total: walk.total(FAMILY)?, extents, walk: walk.bytes(code.walk) })
    }
}

/// Makes two neighbours one, where they are neighbours everywhere.
fn pair(walk: &mut Walk) -> bool {
    let last = walk.counts.len() - 1;
    let even = |value: i64| value % 2 == 0;
    let fits = walk.counts[last].is_multiple_of(2)
        && walk.operands.iter().all(|(start, strides)| {
            even(*start) && strides[last] == 1 && strides[..last].iter().all(|&stride| even(stride))
        });
    if fits {
        walk.counts[last] /= 2;
        for (start, strides) in &mut walk.operands {
            *start /= 2;
            strides[..last].iter_mut().for_each(|stride| *stride /= 2);
        }
    }
    fits
}

impl CopyCode {
    pub(super) fn source(self) -> Result<Source> {
        if !self.walk.is_valid() || self.walk.operands != 2 {
            return Err(refuse(FAMILY, "a copy has two operands"));
        }
        let kind = moved(FAMILY, self.width)?;
        let body = format!(
            "    for (Index at = KILN_START; at < walk.total; at += KILN_STEP) {{\n{}        \
             out[offset1] = in[offset0];\n    }}\n",
            self.walk.offsets("at", |_, _| false)
        );
        let (from, to) = (format!("const {kind}*"), format!("{kind}*"));
        let parameters = parameters(&[(&from, "in"), (&to, "out"), ("Walk", "walk")]);
        Ok(source("kiln_copy", &self.walk.structure(), &parameters, &body))
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
        let args = [Arg::Memory(Some(input)), Arg::Memory(Some(output)), Arg::Bytes(&self.walk)];
        launch_each(module, self.total, &args)
    }
}
