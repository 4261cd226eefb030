//! Nodes between quantised products: sums, products of elements, means, maxima and moves of bytes, and the QOperator
//! form.

use kiln_tensor::{DType, Tensor};

use super::super::PassCx;
use super::super::edit::Edit;
use super::{dequantised, is_number};
use crate::facts::{Fact, Facts};
use crate::ir::{Graph, NodeDesc, ValueId};

/// The domain of ONNX Runtime's quantiser for operators that ONNX lacks.
const MICROSOFT: &str = "com.microsoft";

/// Whether a graph may have nodes for this pass.
pub(super) fn is_quantised(graph: &Graph) -> bool {
    let known = ["DequantizeLinear", "MatMulInteger", "ConvInteger", "QLinearConv"];
    graph.nodes.iter().any(|node| node.domain == MICROSOFT || known.iter().any(|op| node.is(op)))
}

/// Makes constants of Constant nodes and of QuantizeLinear of constants, which exporters write instead of initialisers.
/// Folding would do so too, but would also dequantise the bytes.
pub(super) fn constants(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) {
    for slot in edit.slots() {
        let known = |node: &NodeDesc| node.is("Constant") || node.is("QuantizeLinear");
        let Some(node) = edit.cloned(slot, known) else { continue };
        let inputs: Vec<Option<Tensor>> =
            node.inputs.iter().map(|input| input.and_then(|value| edit.graph.constant(value)).cloned()).collect();
        if node.inputs.iter().zip(&inputs).any(|(value, constant)| value.is_some() && constant.is_none()) {
            continue;
        }
        let Some(outputs) = (cx.evaluate)(edit.graph, &node, &inputs) else { continue };
        for (id, tensor) in node.outputs.iter().zip(&outputs) {
            if let Some(id) = id {
                cx.facts.set(*id, Fact::of_tensor(tensor));
            }
        }
        edit.make_constants(slot, outputs);
    }
}

/// The value without dimensions, if it is a constant of one element.
fn scalar(edit: &mut Edit<'_>, value: ValueId) -> Option<ValueId> {
    let tensor = edit.graph.constant(value).filter(|tensor| tensor.len() == 1)?;
    if tensor.shape().is_empty() {
        return Some(value);
    }
    let tensor = tensor.reshaped([]).ok()?;
    Some(edit.add_constant("scalar", tensor))
}

/// Bytes with their scale and zero point, from input `at` on.
fn operand(edit: &mut Edit<'_>, facts: &Facts, node: &NodeDesc, at: usize) -> Option<[Option<ValueId>; 3]> {
    let x = node.input(at)?;
    let dtype = [DType::U8, DType::I8].into_iter().find(|&dtype| facts.is(x, dtype))?;
    let [scale, zero] = parameters(edit, node, at + 1, dtype)?;
    Some([Some(x), scale, zero])
}

/// A scale and a zero point without dimensions; without a zero point, a new one of that type.
fn parameters(edit: &mut Edit<'_>, node: &NodeDesc, at: usize, dtype: DType) -> Option<[Option<ValueId>; 2]> {
    edit.constant(node, at).filter(|scale| is_number(scale))?;
    let scale = scalar(edit, node.input(at)?)?;
    let zero = match node.input(at + 1) {
        Some(zero) => scalar(edit, zero)?,
        None if dtype == DType::I8 => edit.add_constant("zero", Tensor::scalar(0i8)),
        None => edit.add_constant("zero", Tensor::scalar(0u8)),
    };
    let fits = |tensor: &Tensor| matches!(tensor.dtype(), DType::U8 | DType::I8);
    edit.graph.constant(zero).is_some_and(fits).then_some([Some(scale), Some(zero)])
}

/// Puts the fused operator into the slot of `node`.
fn put(edit: &mut Edit<'_>, slot: usize, node: &NodeDesc, op: &str, inputs: Vec<Option<ValueId>>) {
    let (domain, op) = ("kiln".to_owned(), op.to_owned());
    edit.put(slot, NodeDesc { domain, op, inputs, ..node.clone() });
}

/// Rewrites operators of the QOperator form to fused ones.
pub(super) fn qoperator(edit: &mut Edit<'_>, slot: usize, node: &NodeDesc, facts: &Facts) -> Option<()> {
    match (node.domain.as_str(), node.op.as_str()) {
        (MICROSOFT, "QLinearAdd") => {
            let mut inputs = operand(edit, facts, node, 0)?.to_vec();
            inputs.extend(operand(edit, facts, node, 3)?);
            inputs.extend(parameters(edit, node, 6, kind(facts, inputs[0]))?);
            put(edit, slot, node, "QuantizedAdd", inputs);
        }
        (MICROSOFT, "QLinearGlobalAveragePool") if !node.is_channels_last() => {
            let mut inputs = operand(edit, facts, node, 0)?.to_vec();
            inputs.extend(parameters(edit, node, 3, kind(facts, inputs[0]))?);
            put(edit, slot, node, "QuantizedGlobalAveragePool", inputs);
        }
        ("", "QLinearConv") => {
            let weights = edit.constant(node, 3).filter(|weights| (3..=5).contains(&weights.shape().len()))?;
            let filters = weights.shape()[0];
            let row = |index: usize| match node.input(index) {
                None => true,
                Some(_) => edit.constant(node, index).is_some_and(|row| row.len() == 1 || row.shape() == [filters]),
            };
            let single = |index: usize| edit.constant(node, index).is_some_and(|tensor| tensor.len() == 1);
            let bias = node.input(8).is_none() || edit.constant(node, 8).is_some_and(|bias| bias.shape() == [filters]);
            let fits = row(4) && row(5) && bias && [1, 2, 6, 7].into_iter().all(single);
            let floats = [1, 4, 6].iter().all(|&at| edit.constant(node, at).is_some_and(|s| s.dtype() == DType::F32));
            (fits && floats).then_some(())?;
            let inputs = [0, 3, 8, 1, 2, 4, 5, 6, 7].map(|index| node.input(index)).to_vec();
            put(edit, slot, node, "QuantizedConv", inputs);
        }
        _ => return None,
    }
    Some(())
}

fn kind(facts: &Facts, value: Option<ValueId>) -> DType {
    if value.is_some_and(|value| facts.is(value, DType::I8)) { DType::I8 } else { DType::U8 }
}

/// The fused operator, without outputs, of a quantised sum, product of elements or mean of dequantised tensors.
pub(super) fn computed(edit: &mut Edit<'_>, facts: &Facts, maker: &NodeDesc, node: &NodeDesc) -> Option<NodeDesc> {
    let (op, count) = match maker.op.as_str() {
        "Add" if maker.domain.is_empty() => ("QuantizedAdd", 2),
        "Mul" if maker.domain.is_empty() => ("QuantizedMul", 2),
        "GlobalAveragePool" if maker.domain.is_empty() => ("QuantizedGlobalAveragePool", 1),
        "AveragePool" if maker.domain.is_empty() && reads_little(maker) => ("QuantizedAveragePool", 1),
        "ReduceMean" if is_over_space(edit, facts, maker) => ("QuantizedGlobalAveragePool", 1),
        _ => return None,
    };
    let mut inputs = Vec::new();
    for index in 0..count {
        let bytes = dequantised(edit, maker.input(index)?)?;
        inputs.extend(operand(edit, facts, &bytes, 0)?);
    }
    inputs.extend(parameters(edit, node, 1, DType::U8)?);
    let (domain, op) = ("kiln".to_owned(), op.to_owned());
    let mut fused = NodeDesc { domain, op, inputs, outputs: Vec::new(), ..maker.clone() };
    if maker.op == "ReduceMean" {
        fused.attrs.clear();
    }
    Some(fused)
}

/// The most reads of each input element by windows for which bytes are faster than `f32`. Bytes are widened once for
/// each window: compared with `f32`, 3x3 windows take as long at steps of 2 and twice as long at steps of 1.
const MOST_READS: i64 = 4;

/// Whether the windows of a pool read each input element at most [`MOST_READS`] times.
fn reads_little(pool: &NodeDesc) -> bool {
    let product = |name: &str| pool.ints(name).unwrap_or(&[]).iter().fold(1i64, |all, &each| all.saturating_mul(each));
    product("kernel_shape") <= product("strides").saturating_mul(MOST_READS)
}

/// Puts a mean over the spatial axes before the slot, and a node that drops those axes into the slot.
pub(super) fn put_without_space(edit: &mut Edit<'_>, slot: usize, rank: usize, mut mean: NodeDesc) -> Option<()> {
    let axes: Vec<i64> = (2..rank as i64).collect();
    let axes = edit.add_constant("axes", Tensor::from_vec([axes.len()], axes).ok()?);
    let outputs = std::mem::take(&mut mean.outputs);
    let pooled = edit.add_value_like((*outputs.first()?)?);
    let squeeze = NodeDesc {
        name: mean.name.clone(),
        op: "Squeeze".to_owned(),
        version: 13,
        inputs: vec![Some(pooled), Some(axes)],
        outputs,
        ..NodeDesc::default()
    };
    mean.outputs = vec![Some(pooled)];
    edit.put_before(slot, mean);
    edit.put(slot, squeeze);
    Some(())
}

/// Whether a ReduceMean is one over all spatial axes.
fn is_over_space(edit: &Edit<'_>, facts: &Facts, maker: &NodeDesc) -> bool {
    let axes = match maker.input(1) {
        Some(_) => edit.constant(maker, 1).and_then(|axes| axes.as_slice::<i64>().ok()).map(<[i64]>::to_vec),
        None => maker.ints("axes").map(<[i64]>::to_vec),
    };
    let rank = maker.input(0).and_then(|x| facts.rank(x)).unwrap_or(0) as i64;
    let Some(mut axes) = axes.filter(|_| maker.domain.is_empty()) else { return false };
    axes.iter_mut().for_each(|axis| *axis += if *axis < 0 { rank } else { 0 });
    axes.sort_unstable();
    rank > 2 && axes.into_iter().eq(2..rank)
}

/// A node that moves, joins or picks dequantised elements that are then quantised again does so on the bytes. Bytes
/// with the scale of the result are not rounded, because a byte times the scale is quantised to the same byte. Others
/// are rounded to the result's scale before they are moved, which gives the same bytes, because rounding keeps their
/// order.
pub(super) fn moved(
    edit: &mut Edit<'_>,
    slot: usize,
    maker: &NodeDesc,
    node: &NodeDesc,
    facts: &Facts,
) -> Option<NodeDesc> {
    let moves = ["Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "DepthToSpace", "SpaceToDepth"];
    let joins = maker.is("Concat");
    let picks = maker.is("MaxPool") && maker.output(1).is_none();
    if !(joins || picks || moves.iter().any(|op| maker.is(op))) {
        return None;
    }
    let scale = edit.constant(node, 1).filter(|scale| is_number(scale))?.as_slice::<f32>().ok()?[0];
    // Such a scale gives the byte again when the number is divided by it.
    (scale.is_normal() && scale > 0.0 && (scale * 512.0).is_normal()).then_some(())?;
    let count = if joins { maker.inputs.len() } else { 1 };
    let operands = (0..count).map(|index| {
        let number = maker.input(index)?;
        let bytes = dequantised(edit, number)?;
        let eight_bits = |value: ValueId| facts.is(value, DType::U8) || facts.is(value, DType::I8);
        let single = edit.constant(&bytes, 1).is_some_and(is_number) && bytes.input(0).is_some_and(eight_bits);
        single.then_some((number, bytes))
    });
    let operands = operands.collect::<Option<Vec<(ValueId, NodeDesc)>>>()?;
    let mut on_bytes = maker.clone();
    for (index, (number, bytes)) in operands.into_iter().enumerate() {
        on_bytes.inputs[index] = match is_same_scale(edit, &bytes, node) {
            true => bytes.input(0),
            false => {
                let rounded = edit.add_value_like(node.output(0)?);
                let mut inputs = node.inputs.clone();
                inputs[0] = Some(number);
                edit.put_before(slot, NodeDesc { inputs, outputs: vec![Some(rounded)], ..node.clone() });
                Some(rounded)
            }
        };
    }
    Some(on_bytes)
}

/// Whether bytes have the scale and the zero point with which they are quantised again.
fn is_same_scale(edit: &Edit<'_>, bytes: &NodeDesc, node: &NodeDesc) -> bool {
    let same = |index: usize| {
        let (a, b) = (edit.constant(bytes, index), edit.constant(node, index));
        let numbers = a.zip(b).filter(|(a, b)| a.len() == 1 && b.len() == 1 && a.dtype() == b.dtype());
        numbers.is_some_and(|(a, b)| a.bytes() == b.bytes())
    };
    same(1) && same(2)
}
