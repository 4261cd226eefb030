//! Gathering along one axis: `output[o, c, i] = data[o, indices[c], i]`.
//!
//! An index is only known on the device. One that is out of range reads nothing, leaves its elements as they are, and is
//! told by a word that the launcher's caller reads when it waits for the results.

use serde::{Deserialize, Serialize};

use super::copy::moved;
use super::walk::{Walk, WalkCode};
use super::{Kernel, KernelCode, is_wide, launch_each, operand, parameters, product, refuse, source};
use crate::error::Result;
use crate::gpu::{Arg, Module, Region, Source};

pub(super) const FAMILY: &str = "device gather";

/// What shapes the instructions of a gathering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GatherCode {
    /// Bytes that are moved at once: 1, 2, 4, 8 or 16.
    pub width: u8,
    /// Bytes of an index: 4 or 8.
    pub index_width: u8,
    /// How the output is walked through.
    pub walk: WalkCode,
}

/// A gathering at its sizes.
#[derive(Debug)]
pub struct GatherKernel {
    code: GatherCode,
    axis: u64,
    inner: u64,
    data: u64,
    count: u64,
    outputs: u64,
    walk: Vec<u8>,
}

impl GatherKernel {
    /// Takes `count` places of the middle axis of `[outer, axis, inner]`, with elements of `width` bytes and indices of 4 or
    /// 8, of which negative ones count from the end. Inputs: the data, the indices, and 4 bytes that become 1 where an
    /// index is out of range.
    ///
    /// # Errors
    ///
    /// Unsupported for other widths and sizes beyond any memory.
    pub fn new(width: u8, outer: u64, axis: u64, inner: u64, count: u64, index_width: u8) -> Result<GatherKernel> {
        moved(FAMILY, width)?;
        index(index_width)?;
        // Neighbours that move together move at once.
        let (mut width, mut inner) = (width, inner);
        while width < 16 && inner > 0 && inner.is_multiple_of(2) {
            (width, inner) = (width * 2, inner / 2);
        }
        let (data, outputs) = (product(FAMILY, &[outer, axis, inner])?, product(FAMILY, &[outer, count, inner])?);
        let picture = product(FAMILY, &[axis, inner])?;
        let operands = vec![(0, vec![picture as i64, 0, 1]), (0, vec![0, 1, 0])];
        let walk = Walk { counts: vec![outer, count, inner], operands, tail: 0 };
        let mut code = walk.code(FAMILY)?;
        code.wide |= is_wide(data.max(axis));
        let walk_bytes = walk.bytes(code);
        let code = GatherCode { width, index_width, walk: code };
        Ok(GatherKernel { code, axis, inner, data, count, outputs, walk: walk_bytes })
    }
}

fn index(width: u8) -> Result<&'static str> {
    match width {
        4 => Ok("int"),
        8 => Ok("i64"),
        _ => Err(refuse(FAMILY, format!("indices of {width} bytes"))),
    }
}

impl GatherCode {
    pub(super) fn source(self) -> Result<Source> {
        let (kind, index) = (moved(FAMILY, self.width)?, index(self.index_width)?);
        if !self.walk.is_valid() || self.walk.operands != 2 {
            return Err(refuse(FAMILY, "data and indices are walked through"));
        }
        let body = format!(
            "    for (Index at = KILN_START; at < walk.total; at += KILN_STEP) {{
{}        i64 index = indices[offset1];
        if (index < 0) index += axis;
        if (index < 0 || index >= axis) {{
            *fault = 1;
            continue;
        }}
        out[at] = data[offset0 + (Index)index * (Index)inner];
    }}
",
            self.walk.offsets("at", |_, _| false)
        );
        let (from, of, to) = (format!("const {kind}*"), format!("const {index}*"), format!("{kind}*"));
        let parameters = parameters(&[
            (&from, "data"),
            (&of, "indices"),
            ("u32*", "fault"),
            (&to, "out"),
            ("Walk", "walk"),
            ("long long", "axis"),
            ("long long", "inner"),
        ]);
        Ok(source("kiln_gather", &self.walk.structure(), &parameters, &body))
    }
}

impl Kernel for GatherKernel {
    fn code(&self) -> KernelCode {
        KernelCode::Gather(self.code)
    }

    fn launch(&self, module: &dyn Module, inputs: &[Option<&Region>], output: &Region) -> Result<()> {
        let width = u64::from(self.code.width);
        let data = operand(FAMILY, inputs, 0, self.data, width)?;
        let indices = operand(FAMILY, inputs, 1, self.count, u64::from(self.code.index_width))?;
        let fault = operand(FAMILY, inputs, 2, 1, 4)?;
        output.holds(FAMILY, "output", self.outputs, width)?;
        if self.outputs == 0 {
            return Ok(());
        }
        let [data, indices, fault, output] = [data, indices, fault, output].map(|region| Arg::Memory(Some(region)));
        let [axis, inner] = [self.axis, self.inner].map(|size| Arg::I64(size as i64));
        launch_each(module, self.outputs, &[data, indices, fault, output, Arg::Bytes(&self.walk), axis, inner])
    }
}
