//! MatMul, Gemm and the fused matrix product: what ONNX means by them, as one node.
//!
//! All three are `activation(scale * A B + bias + residual)` with either side transposed or not. [`dims`] finds out
//! which product the shapes ask for; weights known at load are packed when the node is made. Elements other than `f32`
//! go through plain loops ([`plain`]) or, for the narrower floats, through the adapter of [`convert`](super::convert).

mod device;
mod dims;
mod plain;

use std::sync::Arc;

use kiln_kernels::Isa;
use kiln_kernels::cpu::chain::{Step, UnaryOp};
use kiln_kernels::cpu::gemm::{Extras, Matmul, MatmulStored};
use kiln_kernels::cpu::{Elements, PackedWeights, Stored as Storage};
use kiln_model::{Attr, NodeDesc};
use kiln_run::DeviceCx;
use kiln_run::exec::matmul::{MatMulProblem, Stored};
use kiln_run::exec::weights::{self, MatMulWeights};
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Shape, Tensor, TensorSpec};

use self::dims::{Operand, Problem};
use super::apart::{self, After};
use super::convert::narrow_through_f32;
use super::stored::{self, STORED, activations, activations_mut};
use super::{LoadCx, OpError, Operator, optional, refused, required};

/// This group's operators.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "MatMul", |cx| narrow_through_f32(cx, make_matmul)),
    ("", "Gemm", |cx| narrow_through_f32(cx, make_gemm)),
    ("kiln", "FusedMatMul", fused_or_adapted),
];

/// A matrix product.
struct MatMul {
    trans_a: bool,
    trans_b: bool,
    /// Factor of the product.
    scale: f32,
    /// Factor of Gemm's third input.
    beta: f32,
    /// The meaning of input 2.
    third: Third,
    activation: Option<UnaryOp>,
    /// The type that its result is stored in, where the pass `bf16` has decided it: then the left-hand side and the
    /// residual may be of either type, too.
    output: Option<Storage>,
    /// The right-hand side with its shape, where it is known at load.
    weights: Option<(MatMulWeights, Shape)>,
}

/// The node as prepared for one set of shapes.
struct Ready {
    problem: Problem,
    addend: Addend,
    /// `None` for elements that are multiplied by plain loops.
    matmul: Option<Arc<Matmul>>,
    /// The activation, where the executor does not apply it.
    after: Option<After>,
}

/// The meaning of a third input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Third {
    /// Nothing: MatMul has none.
    Absent,
    /// Gemm's C, which broadcasts to the product.
    Broadcast,
    /// A row that is added to every row; a fourth input is a residual.
    Bias,
}

fn make_matmul(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    finish(cx, plain_node())
}

fn make_gemm(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = MatMul {
        trans_a: cx.node.attributes().int("transA") != 0,
        trans_b: cx.node.attributes().int("transB") != 0,
        scale: cx.node.attributes().float("alpha"),
        beta: cx.node.attributes().float("beta"),
        third: Third::Broadcast,
        ..plain_node()
    };
    finish(cx, node)
}

fn fused_or_adapted(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    if cx.node.attrs.contains_key(STORED) { make_fused(cx) } else { narrow_through_f32(cx, make_fused) }
}

fn make_fused(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = MatMul {
        trans_a: cx.node.attributes().int("trans_a") != 0,
        trans_b: cx.node.attributes().int("trans_b") != 0,
        scale: cx.node.attributes().float("alpha"),
        third: Third::Bias,
        activation: fused_activation(cx.node)?,
        output: stored::output(cx.node)?,
        ..plain_node()
    };
    finish(cx, node)
}

fn plain_node() -> MatMul {
    let (trans_a, trans_b, third, activation) = (false, false, Third::Absent, None);
    MatMul { trans_a, trans_b, scale: 1.0, beta: 1.0, third, activation, output: None, weights: None }
}

/// The activation that a pass has fused into a node, if there is one.
pub(crate) fn fused_activation(node: &NodeDesc) -> Result<Option<UnaryOp>, OpError> {
    let chain = match node.attrs.get("activation") {
        None => return Ok(None),
        Some(Attr::Chain(chain)) => chain,
        Some(other) => return Err(OpError::invalid(node, format!("activation {other:?} is not a chain"))),
    };
    match (chain.inputs.len(), chain.steps.as_slice()) {
        (1, []) => Ok(None),
        (1, &[Step::Unary(op, 0)]) => Ok(Some(op)),
        _ => Err(OpError::invalid(node, format!("activation {chain:?} is not one function of one value"))),
    }
}

/// Packs the right-hand side where it is known.
fn finish(cx: &LoadCx<'_>, mut node: MatMul) -> Result<Box<dyn Node>, OpError> {
    let constant = cx.graph.constant_input(cx.node, 1).filter(|tensor| tensor.dtype() == DType::F32);
    if let Some(tensor) = constant {
        node.pack(cx, tensor)?;
    }
    Ok(Box::new(node))
}

/// The product of input 0 by a matrix that is known, columns by rows; other inputs are not read.
pub(crate) fn by_columns(cx: &LoadCx<'_>, matrix: &Tensor) -> Result<Box<dyn Node>, OpError> {
    let mut node = MatMul { trans_b: true, beta: 0.0, ..plain_node() };
    node.pack(cx, matrix)?;
    Ok(Box::new(node))
}

impl MatMul {
    /// Packs the right-hand side.
    fn pack(&mut self, cx: &LoadCx<'_>, tensor: &Tensor) -> Result<(), OpError> {
        let shape = tensor.shape();
        let (batch, matrix) = match *shape {
            [] => return Err(OpError::invalid(cx.node, "a scalar is no matrix")),
            [k] => (1, [k, 1]),
            [.., rows, columns] => (shape[..shape.len() - 2].iter().product(), [rows, columns]),
        };
        // A vector has nothing to transpose.
        let transposed = self.trans_b && shape.len() > 1;
        let [k, n] = if transposed { [matrix[1], matrix[0]] } else { matrix };
        let elements = weights::elements(cx.build.elements(), tensor, self.scale);
        let numbers = tensor.pieces().map_err(|error| OpError::invalid(cx.node, error.to_string()))?;
        let packed = weights::matmul(cx.packing, elements, numbers, [batch, k, n], transposed, self.scale)
            .map_err(|error| OpError::invalid(cx.node, error.to_string()))?;
        // The factor is in the weights now.
        self.scale = 1.0;
        self.weights = Some((packed, shape.into()));
        Ok(())
    }

    /// The product that these inputs ask for.
    fn problem(&self, inputs: &[Option<&Tensor>]) -> Result<Problem, NodeError> {
        let left = required(inputs, 0)?;
        let (right, dtype) = match &self.weights {
            Some((_, shape)) => (shape.as_slice(), DType::F32),
            None => (required(inputs, 1)?.shape(), required(inputs, 1)?.dtype()),
        };
        if left.dtype() != dtype && !self.takes_half(left, dtype) {
            return Err(refused(format!("a product of {} and {dtype}", left.dtype())));
        }
        if self.third == Third::Broadcast && (left.shape().len() != 2 || right.len() != 2) {
            return Err(refused(format!("Gemm of shapes {:?} and {right:?}", left.shape())));
        }
        let left = Operand { shape: left.shape(), transposed: self.trans_a };
        Problem::new(left, Operand { shape: right, transposed: self.trans_b })
    }

    /// Whether the left-hand side is `bf16` that kernels read as it is, beside that type of the right-hand side.
    fn takes_half(&self, left: &Tensor, right: DType) -> bool {
        self.output.is_some() && !self.trans_a && left.dtype() == DType::BF16 && right == DType::F32
    }

    /// How the third input is added: as a row, as a whole matrix or, where it broadcasts otherwise, as a matrix that is
    /// made from it first.
    fn addend(&self, third: Option<&Tensor>, problem: &Problem) -> Addend {
        let Some(third) = third.filter(|_| self.third == Third::Bias || self.beta != 0.0) else { return Addend::None };
        let row = third.len() == problem.n && third.shape().last().is_none_or(|&last| last == problem.n);
        match () {
            () if row && self.beta == 1.0 => Addend::Row,
            () if third.shape() == problem.output.as_slice() && self.beta == 1.0 => Addend::Matrix,
            () => Addend::Spread,
        }
    }

    /// Columns of the product; a vector on the right-hand side is one column, which is not in the output.
    fn columns(&self, inputs: &[Option<&Tensor>], output: &[usize]) -> Result<usize, NodeError> {
        let rank = match &self.weights {
            Some((_, shape)) => shape.len(),
            None => required(inputs, 1)?.shape().len(),
        };
        Ok(if rank > 1 { output.last().copied().unwrap_or(1) } else { 1 })
    }

    fn check_addends(&self, inputs: &[Option<&Tensor>], output: &[usize]) -> Result<(), NodeError> {
        let fits = |tensor: &Tensor, shape: &[usize]| {
            let offset = shape.len().checked_sub(tensor.shape().len());
            offset.is_some_and(|offset| tensor.shape().iter().zip(&shape[offset..]).all(|(&d, &s)| d == s || d == 1))
        };
        if let Some(third) = optional(inputs, 2) {
            let fits = match self.third {
                Third::Absent => true,
                Third::Broadcast => fits(third, output),
                Third::Bias => third.shape() == [self.columns(inputs, output)?],
            };
            if !fits {
                let third = third.shape();
                return Err(refused(format!("shape {third:?} cannot be added to a product of shape {output:?}")));
            }
        }
        match optional(inputs, 3) {
            Some(residual) if self.third != Third::Bias || residual.shape() != output => {
                let residual = residual.shape();
                Err(refused(format!("residual of shape {residual:?} for a product of shape {output:?}")))
            }
            _ => Ok(()),
        }
    }
}

/// How a third input is added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Addend {
    None,
    Row,
    Matrix,
    /// As a matrix that is made from it, `beta` times each element.
    Spread,
}

impl Node for MatMul {
    fn family(&self) -> &'static str {
        "matmul"
    }

    fn adds_in_order(&self, isa: Isa, rows: usize) -> bool {
        self.weights.as_ref().is_some_and(|(weights, _)| weights.adds_in_order(isa, rows))
    }

    fn kept_inputs(&self) -> u64 {
        if self.weights.is_some() { 1 << 1 } else { 0 }
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let left = required(inputs, 0)?;
        let right = self
            .weights
            .as_ref()
            .map_or_else(|| Ok(required(inputs, 1)?.dtype()), |_| Ok::<_, NodeError>(DType::F32))?;
        if left.dtype() != right && !self.takes_half(left, right) {
            return Err(refused(format!("a product of {} and {right}", left.dtype())));
        }
        if left.dtype() != DType::F32 && !self.takes_half(left, DType::F32) && !plain::multiplies(left.dtype()) {
            return Err(NodeError::Unsupported(format!("a matrix product of {} elements", left.dtype())));
        }
        self.check_addends(inputs, &outputs[0].shape)
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let problem = self.problem(inputs)?;
        let addend = self.addend(optional(inputs, 2), &problem);
        let left = required(inputs, 0)?;
        if left.dtype() != DType::F32 && !self.takes_half(left, DType::F32) {
            return Ok(Prepared::new(Arc::new(Ready { problem, addend, matmul: None, after: None })));
        }
        let (right, elements, step) = match &self.weights {
            Some((weights, _)) => (Stored::Packed(weights.vectors as u8), weights.elements, weights.step),
            None => (problem.right, Elements::F32, problem.n * problem.k),
        };
        let stored = MatmulStored {
            left: stored::stored(left),
            residual: optional(inputs, 3).map_or(Storage::F32, stored::stored),
            output: self.output.unwrap_or_default(),
        };
        let fused = |activation: Option<UnaryOp>| MatMulProblem {
            m: problem.m as u64,
            n: problem.n as u64,
            k: problem.k as u64,
            batch: problem.steps(step),
            left: problem.left,
            right,
            elements,
            scale: self.scale.into(),
            bias: addend == Addend::Row,
            activation,
            stored,
        };
        let (matmul, after) =
            apart::executor(cx, self.activation, &outputs[0], |activation| cx.key(fused(activation)))?;
        Ok(Prepared::new(Arc::new(Ready { problem, addend, matmul: Some(matmul), after })))
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        self.on_device(cx, inputs, outputs)
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let output = self.multiply(prepared.get()?, &io.inputs(), io.alloc(0)?, cx)?;
        io.push(output);
        Ok(())
    }
}

impl MatMul {
    fn multiply(
        &self,
        ready: &Ready,
        inputs: &[Option<&Tensor>],
        mut output: Tensor,
        cx: &RunCx<'_>,
    ) -> Result<Tensor, NodeError> {
        let Ready { problem, addend, matmul, after } = ready;
        let (left, third) = (required(inputs, 0)?, optional(inputs, 2));
        let Some(matmul) = matmul else {
            let factors = plain::Factors { alpha: self.scale, beta: self.beta };
            return plain::product(problem, [left, required(inputs, 1)?], third, factors, output, cx);
        };
        let spread = match (addend, third) {
            (Addend::Spread, Some(third)) => {
                let mut whole = cx.scratch::<f32>(problem.output.iter().product())?;
                plain::spread(third.as_slice()?, third.shape(), self.beta, &problem.output, whole.as_mut_slice()?);
                Some(whole)
            }
            _ => None,
        };
        let residual = match addend {
            Addend::Spread => spread.as_ref(),
            Addend::Matrix => third,
            Addend::None | Addend::Row => optional(inputs, 3),
        };
        let extras = Extras {
            bias: third.filter(|_| *addend == Addend::Row).map(Tensor::as_slice).transpose()?,
            residual: residual.map(activations).transpose()?,
        };
        let right = match &self.weights {
            Some((weights, _)) => weights.view(),
            None => PackedWeights::F32(required(inputs, 1)?.as_slice()?),
        };
        let mut scratch = cx.scratch::<f32>(matmul.scratch_len())?;
        let (left, c) = (activations(left)?, activations_mut(&mut output)?);
        matmul.run_stored(left, right, c, extras, scratch.as_mut_slice()?, cx.parallel)?;
        if let Some(after) = after {
            after.run(&mut output, cx)?;
        }
        Ok(output)
    }
}

#[cfg(test)]
mod tests;
