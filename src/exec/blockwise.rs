//! Executors of products by block-quantised weights: the problem is the sizes and how weights are quantised; the choice
//! is how the work is cut. The multiplying is done by [`kiln_kernels::cpu::blockwise`].

use kiln_kernels::cpu::blockwise::{BlockProduct, BlockProductBlocks, BlockProductShape};
use kiln_kernels::{CodeSource, Result as KernelResult};

use super::key::{ExecutorKey, Problem};
use super::target::Target;

/// Everything that determines an executor of such a product.
pub type BlockwiseKey = ExecutorKey<BlockProductShape>;

impl Problem for BlockProductShape {
    const FAMILY: &'static str = "blockwise";
    const REVISION: u32 = 3;
    type Value = BlockProduct;
    type Choice = BlockProductBlocks;

    fn choose(&self, target: &Target) -> BlockProductBlocks {
        BlockProductBlocks::pick(target.isa, target.extensions, self, target.threads())
    }

    fn accepts(&self, blocks: &BlockProductBlocks, target: &Target) -> bool {
        // Whether rows are bytes follows from the target alone: no record changes what is computed.
        let dots = self.dots(target.isa, target.extensions);
        self.is_valid() && blocks.dots == dots && target.has_tasks(blocks.tasks) && blocks.fits(self, target.isa)
    }

    fn build(
        &self,
        blocks: &BlockProductBlocks,
        target: &Target,
        source: &dyn CodeSource,
    ) -> KernelResult<BlockProduct> {
        BlockProduct::new(target.isa, *self, *blocks, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.is_valid().then_some(0)
    }
}
