//! One node as a program, by [`operators::lower`](crate::operators::lower). The node itself uses that too, so its
//! results are the same fused or alone.

use kiln_kernels::cpu::chain::Storage;
use kiln_tensor::{DType, Tensor};

use super::Lowered;
use crate::facts::Facts;
use crate::ir::{Graph, NodeDesc, ValueId};
use crate::operators::lower::{Input, lower as lower_operator};
use crate::operators::{self, Operands};

/// A quick check before the node is copied.
pub(in crate::passes) fn may_be_element_wise(node: &NodeDesc) -> bool {
    node.outputs.len() == 1
        && (node.is_fused("Chain") || operators::of(node).is_some_and(operators::Operator::is_element_wise))
}

/// The node as a program; `None` if it is not element-wise, or not known to be on `f32` and booleans.
pub(super) fn lower(node: &NodeDesc, graph: &Graph, facts: &Facts) -> Option<Lowered> {
    let operands = operators::of(node)?.element_wise.as_ref()?.operands;
    if node.outputs.len() != 1 {
        return None;
    }
    let mut args = Vec::new();
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for (index, value) in node.inputs.iter().enumerate() {
        let input = match *value {
            None => None,
            Some(value) => Some(input(node, is_exponent(operands, index), value, graph, facts)?),
        };
        if let (Some(Input { constant: None, .. }), Some(value)) = (input, *value) {
            args.push(value);
        }
        inputs.push(input);
    }
    // A constant node is folded; a program without operands would have no shape.
    if args.is_empty() {
        return None;
    }
    let program = lower_operator(node, &inputs)?;
    (program.inputs.len() == args.len()).then_some(Lowered { program, args })
}

/// Whether input number `index` may be of another type than the others.
fn is_exponent(operands: Operands, index: usize) -> bool {
    operands == Operands::Exponent && index == 1
}

fn input(node: &NodeDesc, exponent: bool, value: ValueId, graph: &Graph, facts: &Facts) -> Option<Input> {
    let number = graph.constant(value).filter(|constant| constant.len() == 1);
    if let Some((constant, storage)) = number.and_then(|tensor| number_of(exponent, tensor)) {
        // A scalar of several dimensions may add dimensions to the result, unless another operand has as many.
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
fn number_of(exponent: bool, constant: &Tensor) -> Option<(f32, Storage)> {
    match constant.dtype() {
        DType::F32 => Some((*constant.as_slice::<f32>().ok()?.first()?, Storage::F32)),
        DType::Bool => Some((if constant.bytes().first() == Some(&0) { 0.0 } else { 1.0 }, Storage::Bool)),
        DType::I32 | DType::I64 if exponent => {
            let exponent = *constant.to_i64_vec().ok()?.first()?;
            // Beyond 24 bits an `f32` would round it.
            (exponent.unsigned_abs() < 1 << 24).then_some((exponent as f32, Storage::F32))
        }
        _ => None,
    }
}
