//! An element-wise node's operation: its operator's row, and its attributes.

use kiln_model::NodeDesc;
use kiln_model::operators::attributes::Default as Otherwise;
use kiln_model::operators::row::{Broadcast, ElementWise, Operands, Types};
use kiln_model::operators::{self, Wide};
use kiln_run::NodeError;
use kiln_tensor::{DType, Tensor, TensorError};

use super::arithmetic::{Binary, Unary};
use crate::OpError;
use crate::wide::Width;

/// How a node's inputs make its output.
#[derive(Clone, Copy, Debug)]
pub(super) enum Computes {
    Unary(Unary),
    Binary(Binary),
    /// Any number of inputs, combined from left to right; the result may be divided by their number.
    Fold {
        step: Binary,
        mean: bool,
    },
    /// Bounds of the attributes; inputs 1 and 2 where there are no attributes.
    Clip {
        low: Option<f64>,
        high: Option<f64>,
    },
    Where,
    Concat,
    /// A function of the first input times the second.
    Gated(Unary),
}

/// A node's operator with its attributes.
#[derive(Clone, Copy)]
pub(super) struct Operation {
    pub(super) computes: Computes,
    row: &'static ElementWise,
    types: Types,
}

impl Operation {
    /// The operation of a node, with its attributes and their defaults.
    pub(super) fn of(node: &NodeDesc) -> Result<Operation, OpError> {
        let unknown = || OpError::Unknown(node.op.clone());
        let operator = operators::of(node).ok_or_else(unknown)?;
        let row = operator.element_wise.as_ref().ok_or_else(unknown)?;
        let attributes = operator.attributes_of(node);
        if let Some((name, word, default)) = attributes.unknown_word() {
            return Err(match default {
                Otherwise::Word(_) => OpError::invalid(node, format!("{name} = {word:?}")),
                _ => OpError::unsupported(node, format!("{name} = {word}")),
            });
        }
        let numbers = attributes.numbers();
        let bound = |name| attributes.number(name).map(f64::from);
        let computes = match row.wide.ok_or_else(unknown)? {
            Wide::Unary(function) => Computes::Unary(function),
            Wide::Float(function) => Computes::Unary(Unary::Float(function, numbers)),
            Wide::Binary(function) => Computes::Binary(function),
            Wide::Either(function, other) => Computes::Binary(if numbers[0] == 0.0 { function } else { other }),
            Wide::Fold { step, mean } => Computes::Fold { step, mean },
            Wide::Clip([low, high]) => Computes::Clip { low: bound(low), high: bound(high) },
            Wide::Where => Computes::Where,
            Wide::Concat => Computes::Concat,
            Wide::Gated(function) => Computes::Gated(Unary::Float(function, numbers)),
        };
        Ok(Operation { computes, row, types: operator.types })
    }

    /// Whether the result has the first operand's shape, to which the others stretch.
    pub(super) fn keeps_first(&self) -> bool {
        self.row.broadcast == Broadcast::ToFirst
    }

    /// The output's element type for a (first) operand of that type; a refusal where the operator does not take it.
    pub(super) fn result(&self, dtype: DType) -> Result<DType, NodeError> {
        if !self.row.takes.takes(dtype) {
            return Err(NodeError::Unsupported(format!("elements of type {dtype}")));
        }
        match self.types {
            Types::Is(result) => Ok(result),
            _ => Ok(dtype),
        }
    }

    /// The wide type that computes the operation on elements of these types.
    pub(super) fn width(&self, inputs: &[&Tensor]) -> Result<Width, NodeError> {
        let floats = inputs.iter().any(|input| input.dtype().is_float());
        if floats || matches!(self.computes, Computes::Unary(Unary::Float(..))) {
            return Ok(Width::F64);
        }
        Width::of(inputs[0].dtype())
    }

    /// Refuses operands of a type other than the first's.
    pub(super) fn same_type(&self, inputs: &[&Tensor]) -> Result<(), NodeError> {
        // The exponent of a power may be of a type of its own.
        if self.row.operands == Operands::Exponent {
            return Ok(());
        }
        let expected = inputs[0].dtype();
        match inputs.iter().find(|input| input.dtype() != expected) {
            Some(other) => Err(TensorError::Type { expected, found: other.dtype() }.into()),
            None => Ok(()),
        }
    }
}
