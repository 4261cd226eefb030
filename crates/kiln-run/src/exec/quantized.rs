//! Executors of quantised products and convolutions: the problem is the sizes, how factors are multiplied and how sums
//! are stored; the choice is how the work is cut. Scales and zero points are in no key, because models may compute
//! them. The multiplying is done by [`kiln_kernels::cpu::quantized`].

use kiln_kernels::cpu::conv::ConvShape;
use kiln_kernels::cpu::quantized::bytes::Added;
use kiln_kernels::cpu::quantized::{Form, Output, Quantized, QuantizedBlocks};
use kiln_kernels::{CodeSource, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::conv::table_bytes;
use super::key::{ExecutorKey, Problem};
use super::target::Target;

/// Everything that determines an executor of a quantised product.
pub type QuantizedKey = ExecutorKey<QuantizedProblem>;

/// A quantised product or convolution. A product of matrices is a convolution of one position over its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct QuantizedProblem {
    /// Sizes.
    pub shape: ConvShape,
    /// How factors are multiplied.
    pub form: Form,
    /// How a sum is stored.
    pub result: Output,
    /// Whether a tensor of bytes is added to it.
    pub added: Added,
}

impl Problem for QuantizedProblem {
    const FAMILY: &'static str = "quantized";
    const REVISION: u32 = 4;
    type Value = Quantized;
    type Choice = QuantizedBlocks;

    fn choose(&self, target: &Target) -> QuantizedBlocks {
        QuantizedBlocks::pick(target.isa, &self.shape, self.form, target.threads())
    }

    fn accepts(&self, blocks: &QuantizedBlocks, _: &Target) -> bool {
        !self.shape.transposed && blocks.fits()
    }

    fn build(&self, blocks: &QuantizedBlocks, target: &Target, source: &dyn CodeSource) -> KernelResult<Quantized> {
        Quantized::new(target.isa, self.shape, self.form, self.result, self.added, *blocks, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        table_bytes(&self.shape)
    }

    fn suits(&self, cx: &BuildCx) -> bool {
        self.form.usable(cx.isa)
    }
}
