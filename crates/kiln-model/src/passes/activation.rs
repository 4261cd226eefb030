//! Fuses a function of one element into the convolution or product before it, which applies it before the result is
//! stored, if kernels have code for it ([`is_fusible`], the check of the kernels too).

use std::sync::Arc;

use kiln_kernels::cpu::activation::is_fusible;
use kiln_tensor::DType;

use super::PassCx;
use super::chain::{lowered, may_be_element_wise};
use super::edit::Edit;
use super::matmul;
use super::residual::as_fused_conv;
use crate::facts::Facts;
use crate::ir::{Attr, Graph, NodeDesc};

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(node) = edit.cloned(slot, may_be_element_wise) else { continue };
        let Some(function) = lowered(&edit, &node, &cx.facts) else { continue };
        if !function.program.as_unary().is_some_and(is_fusible) {
            continue;
        }
        let Some(&x) = function.args.first() else { continue };
        let Some((maker, before)) = edit.sole_maker(x).filter(|(_, before)| takes_activation(before, &cx.facts)) else {
            continue;
        };
        let mut fused = as_fused(before);
        fused.attrs.insert("activation".to_owned(), Attr::Chain(Arc::new(function.program)));
        fused.outputs = vec![node.outputs[0]];
        edit.take(maker);
        edit.put(slot, fused);
    }
    edit.finish()
}

fn takes_activation(node: &NodeDesc, facts: &Facts) -> bool {
    let is_f32 = node.output(0).is_some_and(|output| facts.is(output, DType::F32));
    let is_conv = ["Conv", "ConvTranspose"].iter().any(|op| node.is(op))
        || ["FusedConv", "FusedConvTranspose"].iter().any(|op| node.is_fused(op));
    is_f32 && (is_conv || matmul::is_matmul(node, facts)) && !node.attrs.contains_key("activation")
}

fn as_fused(node: &NodeDesc) -> NodeDesc {
    match node.op.as_str() {
        "Conv" | "FusedConv" => as_fused_conv(node),
        "ConvTranspose" | "FusedConvTranspose" => {
            let mut fused = node.clone();
            "FusedConvTranspose".clone_into(&mut fused.op);
            "kiln".clone_into(&mut fused.domain);
            fused.inputs.resize(3, None);
            fused
        }
        _ => matmul::as_fused(node),
    }
}
