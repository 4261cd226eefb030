//! Fuses products and convolutions between quantised tensors into nodes that compute on bytes.
//!
//! Exporters write a quantised model as one of floats: `DequantizeLinear` before an operator, `QuantizeLinear` after
//! it. The operator with both becomes one node whose sums are exact integers; without `QuantizeLinear` the node gives
//! `f32`. The sum of integers less their zero points, times both scales, is the model's result up to rounding: the
//! model's `f32` sums are rounded at every step, the node's once. Where this moves a value across the midpoint of two
//! bytes, the byte differs by one. Dynamic quantisation (sums of integers that are cast and scaled) becomes one node in
//! the same way ([`sums`]).
//!
//! A node is fused only if the left-hand side and the output have one constant scale each, and the weights have one
//! scale, or one for each filter. This pass comes before folding, which would dequantise the weights. `Relu` and `Clip`
//! before the rounding are bounds of the node.
//!
//! Additions and average pools between such tensors become nodes on bytes too, and operators that move or pick elements
//! do so on the bytes ([`between`]); functions of single elements become tables ([`tables`]). Operators in QOperator
//! form are rewritten to the same nodes.

mod between;
pub(super) mod plus;
mod sums;
pub(super) mod tables;

use kiln_tensor::{DType, Tensor};

use super::PassCx;
use super::edit::Edit;
use crate::facts::Facts;
use crate::ir::{Attr, Attrs, Graph, NodeDesc, ValueId};

/// Indices of the fused operators' inputs.
const BIAS: usize = 2;
const Y_SCALE: usize = 7;
const Y_ZERO: usize = 8;
const INPUTS: usize = 9;

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    if !between::is_quantised(graph) {
        return 0;
    }
    let mut edit = Edit::new(graph);
    between::constants(&mut edit, cx);
    for slot in edit.slots() {
        let Some(node) = edit.cloned(slot, |node| node.domain != "kiln") else { continue };
        if between::qoperator(&mut edit, slot, &node, &cx.facts).is_some() || !node.domain.is_empty() {
            continue;
        }
        match node.op.as_str() {
            "QuantizeLinear" => requantised(&mut edit, slot, &node, &cx.facts),
            "Mul" => sums::scaled(&mut edit, slot, &node, &cx.facts),
            "Add" => sums::biased(&mut edit, slot, &node, &cx.facts),
            _ => None,
        };
    }
    // Then products whose results are not quantised again.
    for slot in edit.slots() {
        let Some(node) = edit.cloned(slot, is_product) else { continue };
        if let Some(mut fused) = fused(&mut edit, &node, &cx.facts) {
            fused.outputs.clone_from(&node.outputs);
            edit.put(slot, fused);
        }
    }
    edit.finish()
}

fn is_product(node: &NodeDesc) -> bool {
    ["Conv", "MatMul", "Gemm"].iter().any(|op| node.is(op))
}

/// Fuses a quantised product, with its bounds if any.
fn requantised(edit: &mut Edit<'_>, slot: usize, node: &NodeDesc, facts: &Facts) -> Option<()> {
    let scale = edit.constant(node, 1).filter(|scale| is_number(scale))?.clone();
    let zero = zero_point(edit, node, &scale)?;
    let mut taken = Vec::new();
    let (mut low, mut high) = (f32::NEG_INFINITY, f32::INFINITY);
    let mut value = node.input(0)?;
    if let Some((bounding, bounds)) = edit.sole_maker(value).filter(|(_, node)| node.is("Relu") || node.is("Clip")) {
        let bounds = bounds.clone();
        (low, high) = limits(edit, &bounds)?;
        taken.push(bounding);
        value = bounds.input(0)?;
    }
    let (maker, before) = edit.sole_maker(value)?;
    let before = before.clone();
    let on_bytes = if taken.is_empty() { between::moved(edit, slot, &before, node, facts) } else { None };
    let mut fused = if let Some(on_bytes) = on_bytes {
        on_bytes
    } else {
        let mut fused = if is_product(&before) {
            let mut product = fused(edit, &before, facts).or_else(|| of_activations(edit, &before, facts))?;
            product.inputs[Y_SCALE] = node.inputs[1];
            product.inputs[Y_ZERO] = Some(zero);
            product
        } else {
            between::computed(edit, facts, &before, node)?
        };
        fused.attrs.insert("low".to_owned(), Attr::Float(low));
        fused.attrs.insert("high".to_owned(), Attr::Float(high));
        fused
    };
    taken.push(maker);
    fused.outputs.clone_from(&node.outputs);
    taken.into_iter().for_each(|slot| {
        edit.take(slot);
    });
    let rank = before.input(0).and_then(|x| facts.rank(x));
    match rank.filter(|_| before.is("ReduceMean") && !before.attributes().flag("keepdims")) {
        Some(rank) => between::put_without_space(edit, slot, rank, fused),
        None => {
            edit.put(slot, fused);
            Some(())
        }
    }
}

/// The bounds of a `Relu` or `Clip`, if they are constants.
fn limits(edit: &Edit<'_>, node: &NodeDesc) -> Option<(f32, f32)> {
    if node.is("Relu") {
        return Some((0.0, f32::INFINITY));
    }
    let bound = |index: usize, name: &str, none: f32| match node.input(index) {
        None => Some(node.attributes().number(name).unwrap_or(none)),
        Some(_) => edit.constant(node, index)?.as_slice::<f32>().ok()?.first().copied(),
    };
    let (low, high) = (bound(1, "min", f32::NEG_INFINITY)?, bound(2, "max", f32::INFINITY)?);
    (low <= high).then_some((low, high))
}

fn is_number(scale: &Tensor) -> bool {
    scale.len() == 1 && scale.dtype() == DType::F32
}

/// The zero point of a node that quantises to bytes; a new one if it has none.
fn zero_point(edit: &mut Edit<'_>, node: &NodeDesc, scale: &Tensor) -> Option<ValueId> {
    let plain = |name: &str| !node.attributes().flag(name);
    if !(plain("output_dtype") && plain("block_size") && plain("precision")) {
        return None;
    }
    match node.input(2) {
        Some(zero) => {
            let tensor = edit.graph.constant(zero)?;
            let bytes = matches!(tensor.dtype(), DType::U8 | DType::I8);
            (bytes && tensor.len() == scale.len()).then_some(zero)
        }
        None => Some(edit.add_constant("zero", Tensor::scalar(0u8))),
    }
}

/// The node that dequantises a value from bytes.
fn dequantised(edit: &Edit<'_>, value: ValueId) -> Option<NodeDesc> {
    let (_, node) = edit.maker(value).filter(|(_, node)| node.is("DequantizeLinear"))?;
    let plain = |name: &str| !node.attributes().flag(name);
    let scale = edit.constant(node, 1).filter(|scale| scale.dtype() == DType::F32)?;
    let zero = match node.input(2) {
        None => true,
        Some(_) => edit.constant(node, 2).is_some_and(|zero| zero.len() == scale.len()),
    };
    (plain("output_dtype") && plain("block_size") && zero).then(|| node.clone())
}

/// The node that dequantises a value from bytes by one scale.
fn dequantised_by_number(edit: &Edit<'_>, value: ValueId, facts: &Facts) -> Option<NodeDesc> {
    let node = dequantised(edit, value)?;
    let bytes = |value: ValueId| facts.is(value, DType::U8) || facts.is(value, DType::I8);
    (edit.constant(&node, 1).is_some_and(is_number) && bytes(node.input(0)?)).then_some(node)
}

/// A product of dequantised tensors with one scale each: of two that other nodes make, as in attention, or by a stack
/// of constants. Only where the result is quantised: as `f32` it may be part of an attention, which is faster.
fn of_activations(edit: &Edit<'_>, node: &NodeDesc, facts: &Facts) -> Option<NodeDesc> {
    let operand = |index| dequantised_by_number(edit, node.input(index)?, facts);
    let inputs = inputs_of(&operand(0)?, &operand(1)?, None);
    let (domain, op) = ("kiln".to_owned(), "QuantizedMatMul".to_owned());
    let fused = NodeDesc { domain, op, attrs: Attrs::new(), inputs, outputs: Vec::new(), ..node.clone() };
    node.is("MatMul").then_some(fused)
}

/// A product of dequantised tensors by constant weights as the fused operator, without outputs.
fn fused(edit: &mut Edit<'_>, node: &NodeDesc, facts: &Facts) -> Option<NodeDesc> {
    let x = dequantised_by_number(edit, node.input(0)?, facts)?;
    let weights = dequantised(edit, node.input(1)?)?;
    let tensor = edit.constant(&weights, 0).filter(|tensor| matches!(tensor.dtype(), DType::U8 | DType::I8))?;
    let rank = tensor.shape().len();
    let transposed = node.is("Gemm") && node.attributes().flag("transB");
    let mut attrs = Attrs::new();
    let (op, axis) = match node.op.as_str() {
        "Conv" => {
            attrs.clone_from(&node.attrs);
            ("QuantizedConv", 0)
        }
        _ if rank != 2 => return None,
        "Gemm" => {
            let attributes = node.attributes();
            let plain =
                !attributes.flag("transA") && attributes.float("alpha") == 1.0 && attributes.float("beta") == 1.0;
            (plain && node.version >= 7).then_some(())?;
            attrs.insert("trans_b".to_owned(), Attr::Int(i64::from(transposed)));
            ("QuantizedMatMul", usize::from(!transposed))
        }
        _ => ("QuantizedMatMul", 1),
    };
    let filters = *tensor.shape().get(axis)?;
    let scale = edit.constant(&weights, 1)?;
    let along = weights.attributes().int("axis");
    let along = if along < 0 { along + rank as i64 } else { along };
    if scale.len() != 1 && (scale.shape() != [filters] || along != axis as i64) {
        return None;
    }
    let bias = match node.input(2) {
        None => None,
        Some(bias) => Some(row(edit, bias, filters)?),
    };
    let inputs = inputs_of(&x, &weights, bias);
    Some(NodeDesc { domain: "kiln".to_owned(), op: op.to_owned(), attrs, inputs, outputs: Vec::new(), ..node.clone() })
}

/// The inputs of a fused operator whose operands those nodes dequantise, without a scale of the result.
fn inputs_of(x: &NodeDesc, weights: &NodeDesc, bias: Option<ValueId>) -> Vec<Option<ValueId>> {
    let mut inputs = vec![x.inputs[0], weights.inputs[0], bias];
    inputs.extend([x.input(1), x.input(2), weights.input(1), weights.input(2)]);
    inputs.resize(INPUTS, None);
    inputs
}

/// A bias of one element for each filter: a constant of `f32`, dequantised if it is quantised.
fn row(edit: &mut Edit<'_>, bias: ValueId, filters: usize) -> Option<ValueId> {
    let fits = |tensor: &Tensor| {
        let leading = tensor.shape().split_last().map_or(&[][..], |(_, leading)| leading);
        tensor.len() == filters && tensor.shape().last() == Some(&filters) && leading.iter().all(|&dim| dim == 1)
    };
    let values: Vec<f32> = if let Some(constant) = edit.graph.constant(bias) {
        fits(constant).then_some(())?;
        if constant.dtype() == DType::F32 && constant.shape() == [filters] {
            return Some(bias);
        }
        constant.as_slice::<f32>().ok()?.to_vec()
    } else {
        let node = dequantised(edit, bias)?;
        let (tensor, scale) = (edit.constant(&node, 0).filter(|tensor| fits(tensor))?, edit.constant(&node, 1)?);
        let zeros = edit.constant(&node, 2).map(|zero| zero.as_slice::<i32>()).transpose().ok()?.unwrap_or(&[0]);
        let (numbers, scales) = (tensor.as_slice::<i32>().ok()?, scale.as_slice::<f32>().ok()?);
        let scales = scales.iter().zip(zeros.iter().cycle()).cycle();
        (scale.len() == 1 || scale.len() == filters).then_some(())?;
        numbers.iter().zip(scales).map(|(&number, (scale, zero))| number.wrapping_sub(*zero) as f32 * scale).collect()
    };
    Some(edit.add_constant("bias", Tensor::from_vec([filters], values).ok()?))
}

/// The two operands of a node, in both orders.
fn operands(node: &NodeDesc) -> Option<[(ValueId, ValueId); 2]> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    Some([(a, b), (b, a)])
}
