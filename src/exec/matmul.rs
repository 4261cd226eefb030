//! Matrix-product executors: the problem is the sizes, how the operands are stored, and what is fused; the choice is
//! how the work is cut. Weights that are known at load come packed ([`weights`](super::weights)), in panels whose width
//! the problem names. The multiplying is done by [`kiln_kernels::cpu::gemm`].

use kiln_kernels::cpu::chain::UnaryOp;
use kiln_kernels::cpu::gemm::{
    BatchDim, Epilogue, Extras, Left, Matmul, MatmulBlocks, MatmulShape, MatmulStored, Panels, Right,
};
use kiln_kernels::cpu::{Activations, ActivationsMut, Elements, PackedWeights, Stored as Storage};
use kiln_kernels::{CodeSource, Parallel, Result as KernelResult};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::context::BuildCx;
use super::key::{ExecutorKey, Problem};
use super::target::Target;
use super::tune::{Demand, Operands};
use crate::cache::{F32Bits, Mutate};

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
pub type MatMulKey = ExecutorKey<MatMulProblem>;

/// Matrix products, with what is fused into them. Operands have no gaps.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct MatMulProblem {
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
    pub activation: Option<UnaryOp>,
    /// What activations are stored as.
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

impl MatMulProblem {
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
        Epilogue { scale: self.scale.get(), bias: self.bias, activation: self.activation }
    }
}

impl Problem for MatMulProblem {
    const FAMILY: &'static str = "matmul";
    const REVISION: u32 = 4;
    type Value = Matmul;
    type Choice = MatMulChoice;

    fn choose(&self, target: &Target) -> MatMulChoice {
        let blocks = MatmulBlocks::pick(target.isa, &self.shape(), &self.epilogue(), target.threads());
        MatMulChoice::new(&blocks)
    }

    fn accepts(&self, choice: &MatMulChoice, target: &Target) -> bool {
        let blocks = choice.blocks();
        blocks.fits(&self.shape(), target.isa) && blocks.takes(&self.epilogue())
    }

    fn build(&self, choice: &MatMulChoice, target: &Target, source: &dyn CodeSource) -> KernelResult<Matmul> {
        Matmul::stored(target.isa, self.shape(), (choice.blocks(), self.stored), self.epilogue(), source)
    }

    fn table_bytes(&self) -> Option<u64> {
        let shape = self.shape();
        (shape.is_addressable() && self.stored.suits(&shape)).then_some(0)
    }

    fn suits(&self, cx: &BuildCx) -> bool {
        self.elements == Elements::F32 || self.elements == cx.elements()
    }

    const TUNED: bool = true;

    fn candidates(&self, target: &Target, most: usize) -> Vec<MatMulChoice> {
        let found = MatmulBlocks::candidates(target.isa, &self.shape(), &self.epilogue(), target.threads(), most);
        found.iter().map(MatMulChoice::new).collect()
    }

    fn demand(&self, target: &Target, value: &Matmul) -> Demand {
        let shape = self.shape();
        // Where the last matrix of a batch starts.
        let last = |step: fn(&BatchDim) -> usize| -> usize {
            shape.batch.iter().map(|dim| dim.size.saturating_sub(1) * step(dim)).sum()
        };
        let matrix = match shape.right {
            Right::Packed { vectors, elements } => {
                Panels { rows: elements.words(shape.k), columns: shape.n, width: vectors * target.isa.lanes() }.len()
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
