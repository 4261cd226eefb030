//! Matrix-product executors: the key is the sizes, how the operands lie, and what is fused; the choice is how the work
//! is cut. Weights that are known at load come packed ([`weights`](super::weights)), in panels whose width the key
//! names. The multiplying is done by [`kiln_kernels::cpu::gemm`].

use kiln_kernels::cpu::gemm::{
    BatchDim, Epilogue, Extras, Left, Matmul, MatmulBlocks, MatmulShape, MatmulStored, Panels, Right,
};
use kiln_kernels::cpu::{Activations, ActivationsMut, Elements, PackedWeights, Stored as Storage};
use kiln_kernels::{Isa, Parallel, Result as KernelResult};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::activation::Activation;
use super::context::BuildCx;
use super::family::Family;
use super::tune::{Demand, Operands};
use crate::cache::{F32Bits, Key, Mutate};
use crate::record::Recorded;

/// How a matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Stored {
    /// Row by row.
    Rows,
    /// Transposed: column by column.
    Columns,
    /// Packed in panels of that many vectors; the right-hand side only.
    Packed(u8),
}

/// One batch dimension: matrices, and the distance of each side's in elements (0 repeats it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct BatchStep {
    /// Matrices.
    pub size: u64,
    /// Distance of left-hand matrices.
    pub left: u64,
    /// Distance of right-hand matrices.
    pub right: u64,
}

/// Everything that determines a matrix-product executor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "matmul", value = Matmul, laws = crate::record::laws::check)]
pub struct MatMulKey {
    /// Instruction-set level.
    pub isa: Isa,
    /// Threads that work may be split for.
    pub threads: u32,
    /// Rows of the product.
    pub m: u64,
    /// Columns.
    pub n: u64,
    /// Length of the reduction.
    pub k: u64,
    /// Batch dimensions, outermost first.
    pub batch: SmallVec<[BatchStep; 3]>,
    /// The left-hand side.
    pub left: Stored,
    /// The right-hand side.
    pub right: Stored,
    /// What a packed right-hand side consists of, which decides how it is multiplied.
    pub elements: Elements,
    /// Factor of the product.
    pub scale: F32Bits,
    /// Whether a row is added to every row.
    pub bias: bool,
    /// Applied last.
    pub activation: Option<Activation>,
    /// How activations lie in memory.
    pub stored: MatmulStored,
}

/// How the work is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatMulChoice {
    /// Vectors that a tile is wide.
    pub vectors: u8,
    /// Whether an unpacked right-hand side is packed first.
    pub pack: bool,
    /// Tiles of rows that are done before the next panel is begun.
    pub row_block: u32,
    /// Panels that all rows see before the next panels are begun.
    pub panel_block: u32,
    /// Longest reduction before sums are put down.
    pub k_block: u32,
    /// Parts that the batch is split into.
    pub batch_tasks: u32,
    /// Parts that rows are split into.
    pub row_tasks: u32,
    /// Parts that columns are split into.
    pub panel_tasks: u32,
}

impl MatMulChoice {
    fn new(blocks: &MatmulBlocks) -> MatMulChoice {
        // The model's numbers are small; one that is not only means "all of it".
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        MatMulChoice {
            vectors: blocks.vectors as u8,
            pack: blocks.pack,
            row_block: count(blocks.row_block),
            panel_block: count(blocks.panel_block),
            k_block: count(blocks.k_block),
            batch_tasks: count(blocks.batch_tasks),
            row_tasks: count(blocks.row_tasks),
            panel_tasks: count(blocks.panel_tasks),
        }
    }

    fn blocks(&self) -> MatmulBlocks {
        MatmulBlocks {
            vectors: usize::from(self.vectors),
            pack: self.pack,
            row_block: self.row_block as usize,
            panel_block: self.panel_block as usize,
            k_block: self.k_block as usize,
            batch_tasks: self.batch_tasks as usize,
            row_tasks: self.row_tasks as usize,
            panel_tasks: self.panel_tasks as usize,
        }
    }
}

impl MatMulKey {
    /// The shape as the driver takes it: operands without gaps.
    fn shape(&self) -> MatmulShape {
        let (m, n, k) = (self.m as usize, self.n as usize, self.k as usize);
        let step = |step: &BatchStep| BatchDim {
            size: step.size as usize,
            left: step.left as usize,
            right: step.right as usize,
        };
        let left = match self.left {
            Stored::Columns => Left::Columns { stride: m },
            Stored::Rows | Stored::Packed(_) => Left::Rows { stride: k },
        };
        let right = match self.right {
            Stored::Packed(vectors) => Right::Packed { vectors: usize::from(vectors), elements: self.elements },
            Stored::Rows => Right::Rows { stride: n },
            Stored::Columns => Right::Columns { stride: k },
        };
        MatmulShape { m, n, k, batch: self.batch.iter().map(step).collect(), left, right }
    }

    fn epilogue(&self) -> Epilogue {
        Epilogue {
            scale: self.scale.get(),
            bias: self.bias,
            activation: self.activation.map(|activation| activation.0),
        }
    }
}

impl Recorded for MatMulKey {
    const REVISION: u32 = 3;
    type Choice = MatMulChoice;
}

impl Family for MatMulKey {
    fn choose(&self, _: &BuildCx) -> MatMulChoice {
        let blocks = MatmulBlocks::pick(self.isa, &self.shape(), &self.epilogue(), self.threads as usize);
        MatMulChoice::new(&blocks)
    }

    fn fits(&self, cx: &BuildCx) -> bool {
        let possible = self.elements == Elements::F32 || self.elements == cx.elements();
        possible && self.isa == cx.isa && self.threads as usize == cx.threads
    }

    fn table_bytes(&self) -> Option<u64> {
        let shape = self.shape();
        (shape.is_addressable() && self.stored.suits(&shape)).then_some(0)
    }

    fn accepts(&self, choice: &MatMulChoice, _: &BuildCx) -> bool {
        let blocks = choice.blocks();
        blocks.fits(&self.shape(), self.isa) && blocks.takes(&self.epilogue())
    }

    fn build(&self, choice: &MatMulChoice, cx: &BuildCx) -> KernelResult<Matmul> {
        Matmul::stored(self.isa, self.shape(), (choice.blocks(), self.stored), self.epilogue(), cx)
    }

    const TUNED: bool = true;

    fn candidates(&self, _: &BuildCx, most: usize) -> Vec<MatMulChoice> {
        let threads = self.threads as usize;
        let found = MatmulBlocks::candidates(self.isa, &self.shape(), &self.epilogue(), threads, most);
        found.iter().map(MatMulChoice::new).collect()
    }

    fn demand(&self, value: &Matmul) -> Demand {
        let shape = self.shape();
        // Where the last matrix of a batch starts.
        let last = |step: fn(&BatchDim) -> usize| -> usize {
            shape.batch.iter().map(|dim| dim.size.saturating_sub(1) * step(dim)).sum()
        };
        let matrix = match shape.right {
            Right::Packed { vectors, elements } => {
                Panels { rows: elements.words(shape.k), columns: shape.n, width: vectors * self.isa.lanes() }.len()
            }
            Right::Rows { .. } | Right::Columns { .. } => shape.k * shape.n,
        };
        Demand {
            input: last(|dim| dim.left) + shape.m * shape.k,
            weights: last(|dim| dim.right) + matrix,
            cold: matches!(self.right, Stored::Packed(_)),
            output: shape.batches() * shape.m * shape.n,
            scratch: value.scratch_len(),
        }
    }

    fn trial(&self, value: &Matmul, operands: Operands<'_>, parallel: &dyn Parallel) -> KernelResult<()> {
        let Operands { input, weights, output, scratch } = operands;
        // As many elements, in the first half of their places.
        let (inputs, outputs) = (input.len(), output.len());
        let left = match self.stored.left {
            Storage::F32 => Activations::F32(input),
            Storage::Bf16 => Activations::Bf16(&bytemuck::cast_slice(input)[..inputs]),
        };
        let c = match self.stored.output {
            Storage::F32 => ActivationsMut::F32(output),
            Storage::Bf16 => ActivationsMut::Bf16(&mut bytemuck::cast_slice_mut(output)[..outputs]),
        };
        let right = PackedWeights::new(self.shape().elements(), bytemuck::cast_slice(weights));
        value.run_stored(left, right, c, Extras::default(), scratch, parallel)
    }
}

#[cfg(test)]
mod tests {}
