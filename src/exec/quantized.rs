//! Executors of quantised products and convolutions: the key is the sizes, how factors are multiplied and what becomes of
//! a sum; the choice is how the work is cut. Scales and zero points are in no key, because models may compute them. The
//! multiplying is done by [`kiln_kernels::cpu::quantized`].

use kiln_kernels::cpu::conv::ConvShape;
use kiln_kernels::cpu::quantized::bytes::Added;
use kiln_kernels::cpu::quantized::{Form, Output, Quantized, QuantizedBlocks};
use kiln_kernels::{Isa, Result as KernelResult};
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::conv::table_bytes;
use super::family::Family;
use crate::cache::Key;
use crate::record::Recorded;

/// Everything that determines an executor of a quantised product. A product of matrices is a convolution of one
/// position over its rows. Spatial sizes are depth, height, width.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "quantized", value = Quantized, laws = crate::record::laws::check)]
pub struct QuantizedKey {
    /// Instruction-set level.
    pub isa: Isa,
    /// Threads that work may be split for.
    pub threads: u32,
    /// Images.
    pub batch: u64,
    /// Input channels.
    pub channels: u64,
    /// Output channels.
    pub filters: u64,
    /// Groups.
    pub groups: u64,
    /// Input positions.
    pub input: [u64; 3],
    /// Output positions.
    pub output: [u64; 3],
    /// Positions of the window.
    pub kernel: [u64; 3],
    /// Strides.
    pub strides: [u64; 3],
    /// Dilations.
    pub dilations: [u64; 3],
    /// Padding before the first position.
    pub pads: [u64; 3],
    /// How factors are multiplied.
    pub form: Form,
    /// What becomes of a sum.
    pub result: Output,
    /// Whether a tensor of bytes is added to it.
    pub added: Added,
}

/// How the work is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuantizedChoice {
    /// Tiles of rows that are done before the next are begun; lines of outputs on the matrix unit.
    pub row_block: u32,
    /// Parts that rows are split into.
    pub row_tasks: u32,
    /// Parts that columns are split into.
    pub unit_tasks: u32,
}

impl QuantizedKey {
    /// The key of that convolution; what becomes of its sums, and whether a tensor is added to that.
    #[must_use]
    pub fn new(
        shape: &ConvShape,
        form: Form,
        (result, added): (Output, Added),
        isa: Isa,
        threads: usize,
    ) -> QuantizedKey {
        let wide = |sizes: [usize; 3]| sizes.map(|size| size as u64);
        QuantizedKey {
            isa,
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
            batch: shape.batch as u64,
            channels: shape.channels as u64,
            filters: shape.filters as u64,
            groups: shape.groups as u64,
            input: wide(shape.input),
            output: wide(shape.output),
            kernel: wide(shape.kernel),
            strides: wide(shape.strides),
            dilations: wide(shape.dilations),
            pads: wide(shape.pads),
            form,
            result,
            added,
        }
    }

    fn shape(&self) -> ConvShape {
        let narrow = |sizes: [u64; 3]| sizes.map(|size| size as usize);
        ConvShape {
            batch: self.batch as usize,
            channels: self.channels as usize,
            filters: self.filters as usize,
            groups: self.groups as usize,
            input: narrow(self.input),
            output: narrow(self.output),
            kernel: narrow(self.kernel),
            strides: narrow(self.strides),
            dilations: narrow(self.dilations),
            pads: narrow(self.pads),
            transposed: false,
        }
    }
}

impl QuantizedChoice {
    fn blocks(&self) -> QuantizedBlocks {
        QuantizedBlocks {
            row_block: self.row_block as usize,
            row_tasks: self.row_tasks as usize,
            unit_tasks: self.unit_tasks as usize,
        }
    }
}

impl Recorded for QuantizedKey {
    const REVISION: u32 = 3;
    type Choice = QuantizedChoice;
}

impl Family for QuantizedKey {
    fn choose(&self, _: &BuildCx) -> QuantizedChoice {
        let blocks = QuantizedBlocks::pick(self.isa, &self.shape(), self.form, self.threads as usize);
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        QuantizedChoice {
            row_block: count(blocks.row_block),
            row_tasks: count(blocks.row_tasks),
            unit_tasks: count(blocks.unit_tasks),
        }
    }

    fn fits(&self, cx: &BuildCx) -> bool {
        // Another processor may have written it.
        self.isa == cx.isa && self.form.usable(self.isa) && self.threads as usize == cx.threads
    }

    fn table_bytes(&self) -> Option<u64> {
        table_bytes(&self.shape())
    }

    fn accepts(&self, choice: &QuantizedChoice, _: &BuildCx) -> bool {
        choice.blocks().fits()
    }

    fn build(&self, choice: &QuantizedChoice, cx: &BuildCx) -> KernelResult<Quantized> {
        Quantized::new(self.isa, self.shape(), self.form, (self.result, self.added), choice.blocks(), cx)
    }
}

#[cfg(test)]
mod tests {}
