//! One node as a program: finds out what its inputs are, and asks [`exec::chain::lower`](crate::exec::chain::lower), which
//! the operators ask too, so that a node computes the same fused or alone.

use kiln_kernels::cpu::chain::Storage;

use super::Lowered;
use crate::exec::chain::lower::{Input, Param, lower as lower_operator};
use crate::graph::facts::Facts;
use crate::graph::ir::{Attr, Graph, NodeDesc, ValueId};
use crate::tensor::{DType, Tensor};

/// A quick look before the node is copied.
pub(super) fn may_be_element_wise(node: &NodeDesc) -> bool {
    node.outputs.len() == 1 && (node.domain.is_empty() || node.is_fused("Chain"))
}

/// The node as a program; `None` where it is not element-wise, or not certainly on `f32` and booleans.
pub(super) fn lower(node: &NodeDesc, graph: &Graph, facts: &Facts) -> Option<Lowered> {
    if !node.domain.is_empty() || node.outputs.len() != 1 {
        return None;
    }
    let mut args = Vec::new();
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for (index, value) in node.inputs.iter().enumerate() {
        let input = match *value {
            None => None,
            Some(value) => Some(input(node, index, value, graph, facts)?),
        };
        if let (Some(Input { constant: None, .. }), Some(value)) = (input, *value) {
            args.push(value);
        }
        inputs.push(input);
    }
    // What is constant altogether is folded, and a program without operands has no shape to work on.
    if args.is_empty() {
        return None;
    }
    let program = lower_operator(&node.op, &|name| attribute(node, name), &inputs)?;
    (program.inputs.len() == args.len()).then_some(Lowered { program, args })
}

fn attribute<'a>(node: &'a NodeDesc, name: &str) -> Option<Param<'a>> {
    match node.attrs.get(name)? {
        Attr::Float(value) => Some(Param::Number(*value)),
        Attr::Int(value) => Some(Param::Number(*value as f32)),
        Attr::Str(text) => Some(Param::Text(text)),
        _ => None,
    }
}

fn input(node: &NodeDesc, index: usize, value: ValueId, graph: &Graph, facts: &Facts) -> Option<Input> {
    let number = graph.constant(value).filter(|constant| constant.len() == 1);
    if let Some((constant, storage)) = number.and_then(|tensor| number_of(node, index, tensor)) {
        // A number of several dimensions may add dimensions to the result, unless another operand has as many.
        let rank = graph.constant(value).map_or(0, |tensor| tensor.shape().len());
        let others = node.inputs.iter().flatten().filter(|&&other| graph.constant(other).is_none());
        if rank <= others.filter_map(|&other| facts.rank(other)).max().unwrap_or(0) {
            return Some(Input { storage, constant: Some(constant) });
        }
    }
    match facts.get(value).dtype? {
        DType::F32 => Some(Input::dynamic(Storage::F32)),
        DType::Bool => Some(Input::dynamic(Storage::Bool)),
        _ => None,
    }
}

/// The only element of a constant, if it can be a step. The exponent of a power may be an integer.
fn number_of(node: &NodeDesc, index: usize, constant: &Tensor) -> Option<(f32, Storage)> {
    match constant.dtype() {
        DType::F32 => Some((*constant.as_slice::<f32>().ok()?.first()?, Storage::F32)),
        DType::Bool => Some((if constant.bytes().first() == Some(&0) { 0.0 } else { 1.0 }, Storage::Bool)),
        DType::I32 | DType::I64 if node.op == "Pow" && index == 1 => {
            let exponent = *constant.to_i64_vec().ok()?.first()?;
            // Beyond 24 bits an `f32` would be another number.
            (exponent.unsigned_abs() < 1 << 24).then_some((exponent as f32, Storage::F32))
        }
        _ => None,
    }
}
