//! Attention executors: the problem is the sizes, the strides of each operand, and what is done to scores; the choice
//! is how the work is cut. The computing is done by [`kiln_kernels::cpu::attention`], and the graph is not known here.

use kiln_kernels::cpu::Elements;
use kiln_kernels::cpu::attention::{Attention, AttentionBlocks, AttentionShape};
use kiln_kernels::{CodeSource, Result as KernelResult};

use super::context::BuildCx;
use super::key::{ExecutorKey, Problem};
use super::target::Target;

/// Everything that determines an attention executor.
pub type AttentionKey = ExecutorKey<AttentionShape>;

impl Problem for AttentionShape {
    const FAMILY: &'static str = "attention";
    const REVISION: u32 = 4;
    type Value = Attention;
    type Choice = AttentionBlocks;

    fn choose(&self, target: &Target) -> AttentionBlocks {
        AttentionBlocks::pick(target.isa, self, target.threads())
    }

    fn accepts(&self, blocks: &AttentionBlocks, target: &Target) -> bool {
        blocks.fits(self, target.isa)
    }

    fn build(&self, blocks: &AttentionBlocks, target: &Target, source: &dyn CodeSource) -> KernelResult<Attention> {
        Attention::new(target.isa, *self, *blocks, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.is_valid().then_some(0)
    }

    fn suits(&self, cx: &BuildCx) -> bool {
        self.elements == Elements::F32 || self.elements == cx.elements()
    }
}
