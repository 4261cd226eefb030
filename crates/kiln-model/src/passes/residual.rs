//! Fuses the addition of a residual of the same shape into the convolution or product before it, which adds it before
//! the result is stored.

use kiln_tensor::DType;

use super::PassCx;
use super::edit::Edit;
use super::matmul;
use crate::facts::Facts;
use crate::ir::{Graph, NodeDesc};

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let is_sum = |node: &NodeDesc| (node.is("Add") || node.is("Sum")) && node.inputs.len() == 2;
        let Some(node) = edit.cloned(slot, is_sum) else { continue };
        let (Some(a), Some(b)) = (node.input(0), node.input(1)) else { continue };
        if a == b || !cx.facts.same_dims(a, b) || !cx.facts.is(a, DType::F32) {
            continue;
        }
        // Into the later of two makers: the other operand exists by then, and its own result is still in registers.
        let mut makers =
            [(a, b), (b, a)].map(|(value, other)| edit.sole_maker(value).map(|(maker, _)| (maker, value, other)));
        makers.sort_by_key(|maker| std::cmp::Reverse(maker.map(|(slot, _, _)| slot)));
        for (maker, _, residual) in makers.into_iter().flatten() {
            let Some(mut fused) =
                edit.cloned(maker, |node| takes_residual(node, &cx.facts)).map(|node| as_fused(&node))
            else {
                continue;
            };
            fused.inputs[3] = Some(residual);
            fused.outputs.clone_from(&node.outputs);
            edit.take(maker);
            edit.put(slot, fused);
            break;
        }
    }
    edit.finish()
}

fn takes_residual(node: &NodeDesc, facts: &Facts) -> bool {
    let kind = node.is("Conv") || node.is_fused("FusedConv") || matmul::is_matmul(node, facts);
    kind && node.input(3).is_none() && !node.attrs.contains_key("activation")
}

fn as_fused(node: &NodeDesc) -> NodeDesc {
    if node.op == "Conv" || node.op == "FusedConv" { as_fused_conv(node) } else { matmul::as_fused(node) }
}

/// A convolution as the fused operator with all its inputs.
pub(super) fn as_fused_conv(node: &NodeDesc) -> NodeDesc {
    let mut fused = node.clone();
    "FusedConv".clone_into(&mut fused.op);
    "kiln".clone_into(&mut fused.domain);
    fused.inputs.resize(4, None);
    fused
}
