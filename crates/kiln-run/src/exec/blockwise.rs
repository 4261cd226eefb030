//! Executors of products by block-quantised weights: the problem is the sizes and how weights are quantised; the choice
//! is how the work is cut. The multiplying is done by [`kiln_kernels::cpu::blockwise`].

use kiln_kernels::cpu::blockwise::{BlockProduct, BlockProductBlocks, BlockProductShape};
use kiln_kernels::cpu::machine::Speeds;
use kiln_kernels::{CodeSource, Extension, Extensions, Result as KernelResult};

use super::key::{ExecutorKey, Problem};
use super::target::Target;

/// Everything that determines an executor of such a product.
pub type BlockwiseKey = ExecutorKey<BlockProductShape>;

impl Problem for BlockProductShape {
    const FAMILY: &'static str = "blockwise";
    const REVISION: u32 = 4;
    type Value = BlockProduct;
    type Choice = BlockProductBlocks;

    fn choose(&self, target: &Target) -> BlockProductBlocks {
        BlockProductBlocks::pick(target.isa, extensions(target), self, target.threads())
    }

    fn accepts(&self, blocks: &BlockProductBlocks, target: &Target) -> bool {
        // The target alone decides the precision of rows, so that no record changes the results.
        let dots = self.dots(target.isa, extensions(target));
        self.is_valid() && blocks.dots == dots && target.has_tasks(blocks.tasks) && blocks.fits(self, target.isa)
    }

    fn build(
        &self,
        blocks: &BlockProductBlocks,
        target: &Target,
        source: &dyn CodeSource,
    ) -> KernelResult<BlockProduct> {
        BlockProduct::new(target.isa, *self, *blocks, Speeds::of_process(target.isa).ahead, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.is_valid().then_some(0)
    }
}

/// The extensions that products use. Where a row's numbers may not depend on how many rows there are, AMX is not used,
/// because single rows are computed by vectors.
fn extensions(target: &Target) -> Extensions {
    if target.in_order { target.extensions.without(Extension::Amx) } else { target.extensions }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::Isa;
    use kiln_kernels::cpu::blockwise::{BlockFormat, Codes, LeftElements, Products, ZeroPoints};

    use super::*;

    #[test]
    fn a_choice_that_multiplies_in_another_way_is_not_taken() {
        let format = BlockFormat { codes: Codes::Int4, zeros: ZeroPoints::Middle, block: 32 };
        let few = BlockProductShape { m: 2, n: 40, k: 96, format, bias: false, left: LeftElements::Bytes };
        let many = BlockProductShape { m: 128, n: 96, k: 960, ..few };
        let with = |extension| Extensions::default().with(extension);
        let amx = with(Extension::Vnni).with(Extension::Amx);
        for (shape, isa, extensions, dots) in [
            (few, Isa::Portable, Extensions::default(), None),
            (few, Isa::Avx2, Extensions::default(), Some(Products::Pairs)),
            (few, Isa::Avx2, with(Extension::AvxVnni), Some(Products::Fours)),
            (few, Isa::Avx512, Extensions::default(), Some(Products::Pairs)),
            (few, Isa::Avx512, with(Extension::Vnni), Some(Products::Fours)),
            (few, Isa::Avx512, amx, Some(Products::Fours)),
            (many, Isa::Avx512, with(Extension::Vnni), Some(Products::Fours)),
            (many, Isa::Avx512, amx, Some(Products::Bf16Tiles)),
        ] {
            let target = Target { isa, extensions, threads: 2, in_order: false };
            let chosen = shape.choose(&target);
            assert_eq!(chosen.dots, dots, "{target:?}");
            for other in [None, Some(Products::Pairs), Some(Products::Fours), Some(Products::Bf16Tiles)] {
                let accepted = shape.accepts(&BlockProductBlocks { dots: other, ..chosen }, &target);
                assert_eq!(accepted, other == dots, "{target:?} {other:?}");
            }
        }
        let in_order = Target { isa: Isa::Avx512, extensions: amx, threads: 2, in_order: true };
        assert_eq!(many.choose(&in_order).dots, Some(Products::Fours), "a row's numbers depend on no other rows");
    }
}
