//! The products of experts: packed at load where weights are constants, numbers of a request otherwise.

use std::sync::Arc;

use kiln_kernels::cpu::blockwise::{BlockProduct, BlockProductShape};
use kiln_kernels::cpu::gemm::{Extras, Matmul, MatmulStored};
use kiln_kernels::cpu::{Elements, PackedWeights};
use kiln_run::exec::matmul::{MatMulProblem, Stored};
use kiln_run::exec::weights::{self, BlockWeights, MatMulWeights};
use kiln_run::{NodeError, PrepareCx};
use kiln_tensor::{DType, Tensor};
use smallvec::SmallVec;

use super::super::{LoadCx, OpError, optional, refused, required};
use super::sizes::Sizes;
use super::{Call, quantised};

/// A product of each expert.
pub(super) struct Product {
    weights: Weights,
    /// The input that has the weights.
    input: usize,
    /// The input that has a row for each expert, which is added.
    bias: Option<usize>,
    /// Inputs that were packed.
    kept: u64,
}

/// Weights of all experts.
enum Weights {
    /// They come with the request.
    Given,
    Numbers(MatMulWeights),
    Blocks {
        /// The shape of the product of one row.
        shape: BlockProductShape,
        experts: Vec<BlockWeights>,
    },
}

/// The executor of a number of rows.
pub(super) enum Executor {
    Numbers(Arc<Matmul>),
    Blocks(Arc<BlockProduct>),
}

impl Product {
    /// A product by numbers `[experts, n, k]`.
    pub(super) fn of_numbers(cx: &LoadCx<'_>, input: usize, bias: usize) -> Result<Product, OpError> {
        let invalid = |error: String| OpError::invalid(cx.node, format!("input {input}: {error}"));
        let weights = match cx.graph.constant_input(cx.node, input) {
            Some(tensor) if tensor.dtype() == DType::F32 => {
                let &[experts, n, k] = tensor.shape() else {
                    return Err(invalid(format!("weights of shape {:?}, not of rank 3", tensor.shape())));
                };
                let elements = weights::elements(cx.build.elements(), tensor, 1.0);
                let numbers = tensor.pieces().map_err(|error| invalid(error.to_string()))?;
                let packed = weights::matmul(cx.packing, elements, numbers, [experts, k, n], true, 1.0);
                Weights::Numbers(packed.map_err(|error| invalid(error.to_string()))?)
            }
            _ => Weights::Given,
        };
        let kept = if matches!(weights, Weights::Given) { 0 } else { 1 << input };
        Ok(Product { weights, input, bias: cx.node.input(bias).map(|_| bias), kept })
    }

    /// A product by codes: the scales and the bias are the inputs behind the weights. `bits` is the attribute with this
    /// product's bits of a code, where they differ from the other products'.
    pub(super) fn of_codes(cx: &LoadCx<'_>, input: usize, zeros: usize, bits: &str) -> Result<Product, OpError> {
        let (shape, experts) = quantised::pack(cx, input, zeros, bits)?;
        let kept = [input, input + 1, zeros].map(|index| 1 << index).into_iter().sum();
        let bias = cx.node.input(input + 2).map(|_| input + 2);
        Ok(Product { weights: Weights::Blocks { shape, experts }, input, bias, kept })
    }

    /// Inputs that were packed.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    /// Its sizes.
    pub(super) fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<Sizes, NodeError> {
        match &self.weights {
            Weights::Numbers(weights) => Ok(Sizes { experts: weights.count, n: weights.n, k: weights.k }),
            Weights::Blocks { shape, experts } => Ok(Sizes { experts: experts.len(), n: shape.n(), k: shape.k() }),
            Weights::Given => match *required(inputs, self.input)?.shape() {
                [experts, n, k] => Ok(Sizes { experts, n, k }),
                ref shape => Err(refused(format!("input {} has shape {shape:?}, not of rank 3", self.input))),
            },
        }
    }

    /// Refuses weights and biases of other types and shapes.
    pub(super) fn check(&self, inputs: &[Option<&Tensor>]) -> Result<(), NodeError> {
        let Sizes { experts, n, .. } = self.sizes(inputs)?;
        let weights = optional(inputs, self.input).filter(|_| matches!(self.weights, Weights::Given));
        let bias = self.bias.and_then(|index| optional(inputs, index));
        if let Some(other) = [weights, bias].into_iter().flatten().find(|tensor| tensor.dtype() != DType::F32) {
            return Err(NodeError::Unsupported(format!("weights or a bias of {}", other.dtype())));
        }
        match bias {
            Some(bias) if bias.shape() != [experts, n] => {
                Err(refused(format!("a bias of shape {:?} where {:?} is needed", bias.shape(), [experts, n])))
            }
            _ => Ok(()),
        }
    }

    /// The executor for that many rows.
    pub(super) fn executor(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        rows: usize,
    ) -> Result<Executor, NodeError> {
        let (right, elements) = match &self.weights {
            Weights::Blocks { shape, .. } => {
                let problem = BlockProductShape { m: rows as u64, bias: self.bias.is_some(), ..*shape };
                return Ok(Executor::Blocks(cx.executor(&cx.key(problem))?));
            }
            Weights::Numbers(weights) => (Stored::Packed(weights.vectors as u8), weights.elements),
            Weights::Given => (Stored::Columns, Elements::F32),
        };
        let Sizes { n, k, .. } = self.sizes(inputs)?;
        let problem = MatMulProblem {
            m: rows as u64,
            n: n as u64,
            k: k as u64,
            batch: SmallVec::new(),
            left: Stored::Rows,
            right,
            elements,
            scale: 1.0f32.into(),
            bias: self.bias.is_some(),
            activation: None,
            stored: MatmulStored::default(),
        };
        Ok(Executor::Numbers(cx.executor(&cx.key(problem))?))
    }

    /// Multiplies rows with an expert's weights.
    pub(super) fn run(
        &self,
        call: &Call<'_>,
        executors: &[Executor],
        rows: &[f32],
        out: &mut [f32],
    ) -> Result<(), NodeError> {
        let Sizes { n, k, .. } = self.sizes(call.inputs)?;
        let bias = self.bias.and_then(|index| optional(call.inputs, index)).map(Tensor::as_slice).transpose()?;
        let bias = bias.map(|bias: &[f32]| &bias[call.expert * n..][..n]);
        match (&executors[call.batch], &self.weights) {
            (Executor::Blocks(product), Weights::Blocks { experts, .. }) => {
                let mut scratch = call.cx.scratch::<f32>(product.scratch_len())?;
                let weights = experts[call.expert].bytes();
                product.run(rows, weights, bias, out, scratch.as_mut_slice()?, call.cx.parallel)?;
            }
            (Executor::Numbers(product), weights) => {
                let right = match weights {
                    Weights::Numbers(weights) => weights.matrix(call.expert),
                    _ => {
                        let given = required(call.inputs, self.input)?.as_slice::<f32>()?;
                        PackedWeights::F32(&given[call.expert * n * k..][..n * k])
                    }
                };
                let mut scratch = call.cx.scratch::<f32>(product.scratch_len())?;
                let extras = Extras { bias, residual: None };
                product.run(rows, right, out, extras, scratch.as_mut_slice()?, call.cx.parallel)?;
            }
            (Executor::Blocks(_), _) => return Err(refused("an executor of other weights")),
        }
        Ok(())
    }
}
