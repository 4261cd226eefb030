//! Attention executors: the problem is the sizes, the strides of each operand, and how scores are scaled, capped and
//! masked; the choice is how the work is cut. The computing is done by [`kiln_kernels::cpu::attention`], and the graph
//! is not known here.

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
    const REVISION: u32 = 7;
    type Value = Attention;
    type Choice = AttentionBlocks;

    fn choose(&self, target: &Target) -> AttentionBlocks {
        match target.in_order {
            true => AttentionBlocks::in_order(target.isa, self, target.threads()),
            false => AttentionBlocks::pick(target.isa, self, target.threads()),
        }
    }

    fn accepts(&self, blocks: &AttentionBlocks, target: &Target) -> bool {
        blocks.fits(self, target.isa) && (!target.in_order || blocks.is_in_order(self))
    }

    fn build(&self, blocks: &AttentionBlocks, target: &Target, source: &dyn CodeSource) -> KernelResult<Attention> {
        Attention::new(target.isa, *self, *blocks, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.is_valid().then_some(0)
    }

    fn suits(&self, cx: &BuildCx) -> bool {
        self.elements == Elements::F32 || self.elements == cx.computed_elements()
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::Isa;
    use kiln_kernels::cpu::attention::{Held, KeyRange, Strides};

    use super::*;

    #[test]
    fn where_a_row_has_one_order_no_record_streams_or_cuts_keys_in_another_way() {
        let steps = Strides { batch: 0, head: 0, row: 32 };
        let shape = |queries: u64, keys: u64| AttentionShape {
            batch: 1,
            heads: 1,
            shared: 1,
            queries,
            keys,
            size: 32,
            value_size: 32,
            query: steps,
            key: steps,
            key_columns: false,
            value: steps,
            output: steps,
            mask: None,
            keep: None,
            inverted: false,
            fill: f32::NEG_INFINITY.into(),
            scale: 1.0.into(),
            cap: None,
            causal: None,
            range: KeyRange::Shape,
            held: Held::F32,
            blind_is_zero: false,
            stored: Default::default(),
            written: Default::default(),
            elements: Elements::F32,
        };
        let plain = Target::new(Isa::Avx2, 2);
        let in_order = Target { in_order: true, ..plain };
        let mut refused = 0;
        for (queries, keys) in [(1, 40), (2, 900), (3, 500), (4, 500), (64, 64), (64, 2000)] {
            let shape = shape(queries, keys);
            let [usual, ordered] = [plain, in_order].map(|target| shape.choose(&target));
            assert!(shape.accepts(&usual, &plain) && shape.accepts(&ordered, &in_order), "{queries} {keys}");
            assert!(!ordered.stream && ordered.keys() == shape.keys().min(384), "{ordered:?}");
            let same = usual.stream == ordered.stream && usual.keys == ordered.keys;
            assert_eq!(shape.accepts(&usual, &in_order), same, "{usual:?}");
            refused += usize::from(!same);
        }
        assert!(refused >= 4, "this shows nothing: {refused}");
    }
}
