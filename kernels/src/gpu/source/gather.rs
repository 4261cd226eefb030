//! Gathering along one axis: `output[o, c, i] = data[o, indices[c], i]`.
//!
//! Only the device knows the indices. For an index that is out of range, nothing is read or written, and a flag in
//! device memory is set. The launcher's caller reads the flag when it waits for the results.

use serde::{Deserialize, Serialize};

use super::copy::moved;
use super::space::{IterationSpace, SpaceCode};
use super::{Kernel, KernelCode, is_wide, launch_each, operand, parameters, product, refuse, source};
use crate::error::Result;
use crate::gpu::{Arg, Module, Region, Source};

pub(super) const FAMILY: &str = "device gather";

/// What shapes the instructions of a gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GatherCode {
    /// Bytes of an element as copied: 1, 2, 4, 8 or 16.
    pub width: u8,
    /// Bytes of an index: 4 or 8.
    pub index_width: u8,
    /// Dimensions, and the strides of data and indices.
    pub space: SpaceCode,
}

/// A gather at its sizes.
#[derive(Debug)]
pub struct GatherKernel {
    code: GatherCode,
    axis: u64,
    inner: u64,
    data: u64,
    count: u64,
    outputs: u64,
    space: Vec<u8>,
}

impl GatherKernel {
    /// Gathers `count` indices along the middle axis of `[outer, axis, inner]`. Elements have `width` bytes, indices 4
    /// or 8; negative ones count from the end. Inputs: the data, the indices, and 4 bytes that become 1 where an index
    /// is out of range.
    ///
    /// # Errors
    ///
    /// Unsupported for other widths and sizes beyond any memory.
    pub fn new(width: u8, outer: u64, axis: u64, inner: u64, count: u64, index_width: u8) -> Result<GatherKernel> {
        moved(FAMILY, width)?;
        index(index_width)?;
        // Neighbours are copied as one element.
        let (mut width, mut inner) = (width, inner);
        while width < 16 && inner > 0 && inner.is_multiple_of(2) {
            (width, inner) = (width * 2, inner / 2);
        }
        let (data, outputs) = (product(FAMILY, &[outer, axis, inner])?, product(FAMILY, &[outer, count, inner])?);
        let plane = product(FAMILY, &[axis, inner])?;
        let operands = vec![(0, vec![plane as i64, 0, 1]), (0, vec![0, 1, 0])];
        let space = IterationSpace { counts: vec![outer, count, inner], operands, tail: 0 };
        let mut code = space.code(FAMILY)?;
        code.wide |= is_wide(data.max(axis));
        let space_bytes = space.bytes(code);
        let code = GatherCode { width, index_width, space: code };
        Ok(GatherKernel { code, axis, inner, data, count, outputs, space: space_bytes })
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
        if !self.space.is_valid() || self.space.operands != 2 {
            return Err(refuse(FAMILY, "a gather has two operands"));
        }
        let body = format!(
            "    for (Index at = KILN_START; at < space.total; at += KILN_STEP) {{
{}        i64 index = indices[offset1];
        if (index < 0) index += axis;
        if (index < 0 || index >= axis) {{
            *fault = 1;
            continue;
        }}
        out[at] = data[offset0 + (Index)index * (Index)inner];
    }}
",
            self.space.offsets("at", |_, _| false)
        );
        let (from, of, to) = (format!("const {kind}*"), format!("const {index}*"), format!("{kind}*"));
        let parameters = parameters(&[
            (&from, "data"),
            (&of, "indices"),
            ("u32*", "fault"),
            (&to, "out"),
            ("Space", "space"),
            ("long long", "axis"),
            ("long long", "inner"),
        ]);
        Ok(source("kiln_gather", &self.space.structure(), &parameters, &body))
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
        launch_each(module, self.outputs, &[data, indices, fault, output, Arg::Bytes(&self.space), axis, inner])
    }
}
