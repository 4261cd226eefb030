//! Convolution executors: the key is the sizes, what weights and activations consist of, what is fused, and how far rounding may go; the choice
//! is the strategy and how the work is cut. Every strategy that takes the same elements reads weights of one layout, which
//! follows from their sizes. The convolving is done by [`kiln_kernels::cpu::conv`].

use kiln_kernels::cpu::chain::UnaryOp;
use kiln_kernels::cpu::conv::{Conv, ConvBlocks, ConvExtras, ConvShape, ConvStored, Strategy};
use kiln_kernels::cpu::{Activations, ActivationsMut, Elements, Numerics, PackedWeights, Stored};
use kiln_kernels::{Isa, Parallel, Result as KernelResult};
use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::context::BuildCx;
use super::family::Family;
use super::tune::{Demand, Operands};
use crate::cache::Key;
use crate::record::Recorded;

/// Everything that determines a convolution executor. Spatial sizes are depth, height, width.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "conv", value = Conv, laws = crate::record::laws::check)]
pub struct ConvKey {
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
    /// Kernel positions.
    pub kernel: [u64; 3],
    /// Strides.
    pub strides: [u64; 3],
    /// Dilations.
    pub dilations: [u64; 3],
    /// Padding before the first position.
    pub pads: [u64; 3],
    /// Whether it is the transposed operation.
    pub transposed: bool,
    /// What packed weights consist of, which decides how they are multiplied.
    pub elements: Elements,
    /// How activations lie in memory.
    pub stored: ConvStored,
    /// What strategies may be used.
    pub numerics: Numerics,
    /// Applied last.
    pub activation: Option<Activation>,
}

/// How a convolution is done and cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConvChoice {
    /// How it is computed.
    pub strategy: Strategy,
    /// Vectors that a tile is wide.
    pub vectors: u8,
    /// Tiles of rows that share a table.
    pub row_block: u32,
    /// Parts that rows are split into.
    pub row_tasks: u32,
    /// Parts that columns are split into.
    pub unit_tasks: u32,
}

impl ConvKey {
    /// The key of that convolution of `f32` with weights of those elements under that policy.
    #[must_use]
    pub fn new(
        shape: &ConvShape,
        elements: Elements,
        numerics: Numerics,
        activation: Option<UnaryOp>,
        isa: Isa,
        threads: usize,
    ) -> ConvKey {
        let wide = |sizes: [usize; 3]| sizes.map(|size| size as u64);
        ConvKey {
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
            transposed: shape.transposed,
            elements,
            stored: ConvStored::default(),
            numerics,
            activation: activation.map(Activation),
        }
    }

    /// The same on activations that are stored so.
    #[must_use]
    pub fn stored(self, stored: ConvStored) -> ConvKey {
        ConvKey { stored, ..self }
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
            transposed: self.transposed,
        }
    }
}

/// Bytes of what a convolution of that shape keeps of its taps, phases and channels, at most.
pub(super) fn table_bytes(shape: &ConvShape) -> Option<u64> {
    shape.validate().ok()?;
    // A tap is a place in the kernel, a distance and a reach, in each of the lists that a strategy may make of them; a phase of
    // a transposed convolution is a plan; and as many zeros as there are channels stand for what lies outside.
    const TAP: u64 = 160;
    const PHASE: u64 = 1024;
    const CHANNEL: u64 = 8;
    let product = |sizes: [usize; 3]| sizes.iter().try_fold(1, |product: u64, &size| product.checked_mul(size as u64));
    let phases = if shape.transposed { product(shape.strides)? } else { 1 };
    let along: u64 = shape.kernel.iter().map(|&size| size as u64).sum();
    let taps = product(shape.kernel)?.checked_add(along)?.checked_mul(TAP)?;
    taps.checked_add(phases.checked_mul(PHASE)?)?.checked_add((shape.channels as u64).checked_mul(CHANNEL)?)
}

impl ConvChoice {
    fn new(blocks: &ConvBlocks) -> ConvChoice {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        ConvChoice {
            strategy: blocks.strategy,
            vectors: blocks.vectors as u8,
            row_block: count(blocks.row_block),
            row_tasks: count(blocks.row_tasks),
            unit_tasks: count(blocks.unit_tasks),
        }
    }

    fn blocks(&self) -> ConvBlocks {
        ConvBlocks {
            strategy: self.strategy,
            vectors: usize::from(self.vectors),
            row_block: self.row_block as usize,
            row_tasks: self.row_tasks as usize,
            unit_tasks: self.unit_tasks as usize,
        }
    }
}

impl Recorded for ConvKey {
    const REVISION: u32 = 7;
    type Choice = ConvChoice;
}

impl Family for ConvKey {
    fn choose(&self, _: &BuildCx) -> ConvChoice {
        ConvChoice::new(&ConvBlocks::pick(self.isa, &self.shape(), self.elements, self.numerics, self.threads as usize))
    }

    fn fits(&self, cx: &BuildCx) -> bool {
        let alike = self.isa == cx.isa && self.threads as usize == cx.threads;
        alike && (self.elements == Elements::F32 || self.elements == self.shape().weights().elements(cx.elements()))
    }

    fn table_bytes(&self) -> Option<u64> {
        table_bytes(&self.shape())
    }

    fn accepts(&self, choice: &ConvChoice, _: &BuildCx) -> bool {
        let (blocks, shape) = (choice.blocks(), self.shape());
        // A node has packed its weights once, in the layout that fits them.
        let layout = blocks.layout() == shape.weights().layout(self.isa, self.elements);
        let suits = blocks.allowed(self.numerics) && self.stored.suits(blocks.strategy, self.isa);
        layout && suits && blocks.fits(&shape, self.isa)
    }

    fn build(&self, choice: &ConvChoice, cx: &BuildCx) -> KernelResult<Conv> {
        let how = (choice.blocks(), self.stored);
        Conv::stored(self.isa, self.shape(), how, self.activation.map(|activation| activation.0), cx)
    }

    const TUNED: bool = true;

    fn candidates(&self, _: &BuildCx, most: usize) -> Vec<ConvChoice> {
        let threads = self.threads as usize;
        let found = ConvBlocks::candidates(self.isa, &self.shape(), self.elements, self.numerics, threads, most);
        found.iter().filter(|blocks| self.stored.suits(blocks.strategy, self.isa)).map(ConvChoice::new).collect()
    }

    fn demand(&self, value: &Conv) -> Demand {
        let shape = self.shape();
        Demand {
            input: shape.input_len(),
            weights: shape.weights().packed_len(self.isa, value.layout()),
            cold: true,
            output: shape.output_len(),
            scratch: value.scratch_len(),
        }
    }

    fn trial(&self, value: &Conv, operands: Operands<'_>, parallel: &dyn Parallel) -> KernelResult<()> {
        let Operands { input, weights, output, scratch } = operands;
        let shape = self.shape();
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

    use kiln_kernels::cpu::conv::WinogradTile;

    use super::*;
    use crate::cache::{Cache, Limits};
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
        let key = |shape: &ConvShape, numerics| ConvKey::new(shape, Elements::F32, numerics, None, cx.isa, cx.threads);
        let choice = key(&shape, Numerics::Default).choose(&cx);
        assert!(matches!(choice.strategy, Strategy::Winograd(_)), "{choice:?}");
        let bytes = encode(&choice).expect("a choice is small");
        let choice: ConvChoice = decode(&bytes).expect("what was encoded");
        let four = ConvChoice { strategy: Strategy::Winograd(WinogradTile::Four), ..choice };
        let two = ConvChoice { strategy: Strategy::Winograd(WinogradTile::Two), ..choice };
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
        assert!(!key(&shape, Numerics::Default).accepts(&ConvChoice { vectors: 1, ..four }, &cx), "other panels");
        let absurd = ConvChoice { row_block: u32::MAX, row_tasks: u32::MAX, ..four };
        assert!(!key(&shape, Numerics::Default).accepts(&absurd, &cx));
    }
}
