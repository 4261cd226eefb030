//! Convolution executors: the problem is the sizes, the element types of weights and activations, the fused steps, and
//! how far rounding may go; the choice is the strategy and how the work is cut. All strategies that take the same
//! elements read weights of one layout, which follows from the weights' sizes. The convolving is done by
//! [`kiln_kernels::cpu::conv`].

use kiln_kernels::cpu::chain::UnaryOp;
use kiln_kernels::cpu::conv::{Conv, ConvBlocks, ConvExtras, ConvShape, ConvStored};
use kiln_kernels::cpu::{Activations, ActivationsMut, Elements, Numerics, PackedWeights, Stored};
use kiln_kernels::{CodeSource, Parallel, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::key::{ExecutorKey, Problem};
use super::target::Target;
use super::tune::{Demand, Operands};

/// Everything that determines a convolution executor.
pub type ConvKey = ExecutorKey<ConvProblem>;

/// A convolution and the steps fused into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ConvProblem {
    /// Sizes.
    pub shape: ConvShape,
    /// What packed weights consist of, which decides how they are multiplied.
    pub elements: Elements,
    /// Types of activations.
    pub stored: ConvStored,
    /// What strategies may be used.
    pub numerics: Numerics,
    /// Applied last.
    pub activation: Option<UnaryOp>,
}

/// Most bytes that a convolution of that shape keeps about its taps, phases and channels.
pub(super) fn table_bytes(shape: &ConvShape) -> Option<u64> {
    shape.validate().ok()?;
    // A tap has a position in the kernel, an offset into the input and the range of outputs that it reaches, in each
    // list that a strategy makes; a phase of a transposed convolution has a plan of its own; and padding is read from a
    // row of zeros, one for each channel.
    const TAP: u64 = 160;
    const PHASE: u64 = 1024;
    const CHANNEL: u64 = 8;
    let product = |sizes: [u64; 3]| sizes.iter().try_fold(1, |product: u64, &size| product.checked_mul(size));
    let phases = if shape.transposed { product(shape.strides)? } else { 1 };
    let along: u64 = shape.kernel.iter().sum();
    let taps = product(shape.kernel)?.checked_add(along)?.checked_mul(TAP)?;
    taps.checked_add(phases.checked_mul(PHASE)?)?.checked_add(shape.channels.checked_mul(CHANNEL)?)
}

impl ConvProblem {
    /// Whether the policy allows the order of these blocks' additions. Where the order must not depend on the batch,
    /// the cost model picks the strategy, and no record or tuner chooses another.
    fn keeps_order(&self, blocks: &ConvBlocks, target: &Target) -> bool {
        self.numerics != Numerics::Invariant || blocks.strategy == self.choose(target).strategy
    }
}

impl Problem for ConvProblem {
    const FAMILY: &'static str = "conv";
    const REVISION: u32 = 9;
    type Value = Conv;
    type Choice = ConvBlocks;

    fn choose(&self, target: &Target) -> ConvBlocks {
        let (isa, threads) = (target.isa, target.threads());
        let picked = ConvBlocks::pick(isa, &self.shape, self.elements, self.numerics, threads);
        match self.stored.suits(picked.strategy, picked.elements, isa) {
            true => picked,
            false => ConvBlocks::untransformed(isa, &self.shape, self.elements, threads),
        }
    }

    fn accepts(&self, blocks: &ConvBlocks, target: &Target) -> bool {
        // A node packs its weights once, in the layout that fits the weights.
        let layout = blocks.layout() == self.shape.weights().layout(target.isa, self.elements);
        let suits = blocks.allowed(self.numerics) && self.stored.suits(blocks.strategy, blocks.elements, target.isa);
        layout && suits && blocks.fits(&self.shape, target.isa) && self.keeps_order(blocks, target)
    }

    fn build(&self, blocks: &ConvBlocks, target: &Target, source: &dyn CodeSource) -> KernelResult<Conv> {
        Conv::stored(target.isa, self.shape, *blocks, self.stored, self.activation, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        table_bytes(&self.shape)
    }

    fn suits(&self, cx: &BuildCx) -> bool {
        // A model's own element type is possible under every precision.
        [Elements::F32, Elements::F16, cx.elements()]
            .map(|wanted| self.shape.weights().elements(wanted))
            .contains(&self.elements)
    }

    const TUNED: bool = true;

    fn candidates(&self, target: &Target, most: usize) -> Vec<ConvBlocks> {
        let (isa, threads) = (target.isa, target.threads());
        let mut found = ConvBlocks::candidates(isa, &self.shape, self.elements, self.numerics, threads, most);
        found.retain(|blocks| {
            self.stored.suits(blocks.strategy, blocks.elements, isa) && self.keeps_order(blocks, target)
        });
        found
    }

    fn demand(&self, target: &Target, value: &Conv) -> Demand {
        let shape = &self.shape;
        Demand {
            input: shape.input_len(),
            weights: shape.weights().packed_len(target.isa, value.layout()),
            cold: true,
            output: shape.output_len(),
            scratch: value.scratch_len(),
        }
    }

    fn trial(&self, value: &Conv, operands: Operands<'_>, parallel: &dyn Parallel) -> KernelResult<()> {
        let Operands { input, weights, output, scratch } = operands;
        let shape = &self.shape;
        let x = match self.stored.input {
            Stored::F32 => Activations::F32(input),
            Stored::Bf16 => Activations::Bf16(&bytemuck::cast_slice(input)[..shape.input_len()]),
        };
        let y = match self.stored.output {
            Stored::F32 => ActivationsMut::F32(output),
            Stored::Bf16 => ActivationsMut::Bf16(&mut bytemuck::cast_slice_mut(output)[..shape.output_len()]),
        };
        let weights = PackedWeights::new(value.layout().elements(), bytemuck::cast_slice(weights));
        value.run_stored(x.into(), weights, y, ConvExtras::default(), scratch, parallel)
    }

    fn weigh(value: &Conv) -> usize {
        value.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kiln_cache::{Cache, Limits};
    use kiln_kernels::Isa;
    use kiln_kernels::cpu::conv::{Strategy, WinogradTile};

    use super::*;
    use crate::exec::Family;
    use crate::record::{Store, decode, encode};

    #[test]
    fn a_record_may_choose_tiles_only_where_shape_and_policy_allow_them() {
        let cx = BuildCx {
            isa: Isa::Portable,
            threads: 1,
            numerics: Numerics::Default,
            precision: Default::default(),
            cache: Arc::new(Cache::new(Limits { entries: 64, bytes: 1 << 20 })),
            records: Arc::new(Store::in_memory()),
            check: false,
            gpu: None,
        };
        let shape = ConvShape {
            batch: 1,
            channels: 64,
            filters: 64,
            groups: 1,
            input: [1, 28, 28],
            output: [1, 28, 28],
            kernel: [1, 3, 3],
            strides: [1; 3],
            dilations: [1; 3],
            pads: [0, 1, 1],
            transposed: false,
        };
        let key = |shape: &ConvShape, numerics| {
            let (elements, stored) = (Elements::F32, ConvStored::default());
            ConvKey::new(cx.target(), ConvProblem { shape: *shape, elements, stored, numerics, activation: None })
        };
        let choice = key(&shape, Numerics::Default).choose(&cx);
        assert!(matches!(choice.strategy, Strategy::Winograd(_)), "{choice:?}");
        let bytes = encode(&choice).expect("a choice is small");
        let choice: ConvBlocks = decode(&bytes).expect("what was encoded");
        let four = ConvBlocks { strategy: Strategy::Winograd(WinogradTile::Four), ..choice };
        let two = ConvBlocks { strategy: Strategy::Winograd(WinogradTile::Two), ..choice };
        for (numerics, allowed) in
            [(Numerics::Strict, [false, false]), (Numerics::Precise, [true, false]), (Numerics::Default, [true, true])]
        {
            let key = key(&shape, numerics);
            assert_eq!([&two, &four].map(|choice| key.accepts(choice, &cx)), allowed, "{numerics}");
            assert!(key.accepts(&key.choose(&cx), &cx));
        }
        let mut strided = shape;
        (strided.strides, strided.output) = ([1, 2, 2], [1, 14, 14]);
        let wide = ConvShape { kernel: [1, 3, 5], ..shape };
        let grouped = ConvShape { groups: 2, ..shape };
        for other in [strided, wide, grouped] {
            assert!(!key(&other, Numerics::Default).accepts(&four, &cx), "{other:?}");
        }
        assert!(!key(&shape, Numerics::Default).accepts(&ConvBlocks { vectors: 1, ..four }, &cx), "other panels");
        let absurd = ConvBlocks { row_block: u32::MAX, row_tasks: u32::MAX, ..four };
        assert!(!key(&shape, Numerics::Default).accepts(&absurd, &cx));
    }

    #[test]
    fn where_a_row_has_one_order_no_record_chooses_another_strategy() {
        let target = Target { in_order: true, ..Target::new(Isa::Avx2, 2) };
        let problem = |batch: u64, size: u64, channels: u64| ConvProblem {
            shape: ConvShape {
                batch,
                channels,
                filters: 64,
                groups: 1,
                input: [1, size, size],
                output: [1, size, size],
                kernel: [1, 3, 3],
                strides: [1; 3],
                dilations: [1; 3],
                pads: [0, 1, 1],
                transposed: false,
            },
            elements: Elements::F32,
            stored: ConvStored::default(),
            numerics: Numerics::Invariant,
            activation: None,
        };
        let mut by_default = Vec::new();
        for [size, channels] in [[28, 64], [7, 256], [4, 256], [2, 512], [9, 8], [14, 32]] {
            let strategy = problem(1, size, channels).choose(&target).strategy;
            for batch in [1, 2, 8, 64] {
                let problem = problem(batch, size, channels);
                assert_eq!(problem.choose(&target).strategy, strategy, "{batch} images of {size}");
                let candidates = problem.candidates(&target, 64);
                assert!(!candidates.is_empty() && candidates.iter().all(|found| found.strategy == strategy));
                let others = ConvProblem { numerics: Numerics::Default, ..problem }.candidates(&target, 64);
                assert!(others.iter().any(|other| other.strategy != strategy), "{batch} images of {size}");
                for other in others {
                    assert_eq!(problem.accepts(&other, &target), other.strategy == strategy, "{other:?}");
                }
            }
            by_default.push([1, 64].map(|batch| {
                let problem = ConvProblem { numerics: Numerics::Default, ..problem(batch, size, channels) };
                problem.choose(&target).strategy
            }));
        }
        assert!(by_default.iter().any(|[alone, many]| alone != many), "this shows nothing: {by_default:?}");
    }
}
