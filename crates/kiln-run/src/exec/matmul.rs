//! Matrix-product executors: the problem is the sizes, how the operands are stored, and the fused steps; the choice is
//! how the work is cut. Weights that are known at load come packed ([`weights`](super::weights)), in panels whose width
//! the problem names. The multiplying is done by [`kiln_kernels::cpu::gemm`].

use kiln_kernels::cpu::chain::UnaryOp;
use kiln_kernels::cpu::gemm::{
    BatchDim, Epilogue, Extras, Left, Matmul, MatmulBlocks, MatmulShape, MatmulStored, Panels, Right,
};
use kiln_kernels::cpu::{Activations, ActivationsMut, Elements, PackedWeights, Stored as Storage};
use kiln_kernels::{CodeSource, Parallel, Result as KernelResult};
use kiln_key::{F32Bits, Mutate};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::context::BuildCx;
use super::key::{ExecutorKey, Problem};
use super::target::Target;
use super::tune::{Demand, Operands};

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

/// One batch dimension: its matrices, and the distance between two matrices of each side in elements (0 repeats one).
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

/// Matrix products and the steps fused into them. Operands have no gaps.
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
    /// The element type of a packed right-hand side, which decides how it is multiplied.
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
    type Choice = MatmulBlocks;

    fn choose(&self, target: &Target) -> MatmulBlocks {
        MatmulBlocks::pick(target.isa, &self.shape(), &self.epilogue(), target.threads())
    }

    fn accepts(&self, blocks: &MatmulBlocks, target: &Target) -> bool {
        blocks.fits(&self.shape(), target.isa) && blocks.takes(&self.epilogue())
    }

    fn build(&self, blocks: &MatmulBlocks, target: &Target, source: &dyn CodeSource) -> KernelResult<Matmul> {
        Matmul::stored(target.isa, self.shape(), *blocks, self.stored, self.epilogue(), source)
    }

    fn table_bytes(&self) -> Option<u64> {
        let shape = self.shape();
        (shape.is_addressable() && self.stored.suits(&shape)).then_some(0)
    }

    fn suits(&self, cx: &BuildCx) -> bool {
        // Weights that a model stores as `f16` or `bf16` keep their type in `f32` sessions.
        let kept = matches!(self.elements, Elements::F32 | Elements::F16 | Elements::Bf16);
        kept || self.elements == cx.elements()
    }

    const TUNED: bool = true;

    fn candidates(&self, target: &Target, most: usize) -> Vec<MatmulBlocks> {
        MatmulBlocks::candidates(target.isa, &self.shape(), &self.epilogue(), target.threads(), most)
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
        // 16-bit operands have as many elements, in the first half of the memory.
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
