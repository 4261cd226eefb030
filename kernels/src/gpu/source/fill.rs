//! One value in all elements.
//!
//! Writes always have eight bytes, which repeat the element: one kernel for all widths.

use super::{Kernel, KernelCode, index_type, launch_each, parameters, refuse};
use crate::error::Result;
use crate::gpu::{Arg, Module, Region, Source};

pub(super) const FAMILY: &str = "device fill";

/// Fills a tensor.
#[derive(Debug)]
pub struct FillKernel {
    /// The value, repeated.
    pattern: u64,
    bytes: u64,
}

impl FillKernel {
    /// Writes `value`, of 1, 2, 4 or 8 bytes, to that many elements. No inputs.
    ///
    /// # Errors
    ///
    /// Unsupported for values of another size.
    pub fn new(value: &[u8], elements: u64) -> Result<FillKernel> {
        let width = value.len() as u64;
        if ![1, 2, 4, 8].contains(&width) {
            return Err(refuse(FAMILY, format!("elements of {width} bytes")));
        }
        let mut pattern = [0; 8];
        pattern.chunks_exact_mut(value.len()).for_each(|to| to.copy_from_slice(value));
        let bytes = super::product(FAMILY, &[elements, width])?;
        Ok(FillKernel { pattern: u64::from_ne_bytes(pattern), bytes })
    }
}

pub(super) fn source() -> Source {
    let body = "    Index words = (Index)bytes / 8, left = (Index)bytes % 8;
    for (Index at = KILN_START; at < words; at += KILN_STEP) ((i64*)out)[at] = pattern;
    if (KILN_START < left) out[words * 8 + KILN_START] = (unsigned char)((u64)pattern >> (8 * KILN_START));
";
    let parameters = parameters(&[("unsigned char*", "out"), ("long long", "pattern"), ("long long", "bytes")]);
    super::source("kiln_fill", index_type(true), &parameters, body)
}

impl Kernel for FillKernel {
    fn code(&self) -> KernelCode {
        KernelCode::Fill
    }

    fn launch(&self, module: &dyn Module, _: &[Option<&Region>], output: &Region) -> Result<()> {
        output.holds(FAMILY, "output", self.bytes, 1)?;
        if self.bytes == 0 {
            return Ok(());
        }
        let args = [Arg::Memory(Some(output)), Arg::I64(self.pattern as i64), Arg::I64(self.bytes as i64)];
        launch_each(module, self.bytes.div_ceil(8), &args)
    }
}
