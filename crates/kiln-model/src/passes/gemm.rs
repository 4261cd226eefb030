//! `Gemm` of f32 matrices becomes the fused product, if its third operand is a row, a scalar or absent.

use kiln_tensor::{DType, Tensor};

use super::PassCx;
use super::edit::Edit;
use super::matmul::FUSED;
use crate::facts::{Facts, Size};
use crate::ir::{Attr, Attrs, Graph, NodeDesc, ValueId};

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(node) = edit.cloned(slot, |node| node.is("Gemm")) else { continue };
        if let Some(fused) = fused(&mut edit, &node, &cx.facts) {
            edit.put(slot, fused);
        }
    }
    edit.finish()
}

fn fused(edit: &mut Edit<'_>, node: &NodeDesc, facts: &Facts) -> Option<NodeDesc> {
    // Before version 7 the third operand broadcasts only with an attribute.
    if node.version < 7 || !facts.is(node.input(0)?, DType::F32) {
        return None;
    }
    let columns = *facts.dims(node.input(1)?)?.get(usize::from(!node.attributes().flag("transB")))?;
    let bias = match node.input(2) {
        None => None,
        Some(c) => Some(row(edit, c, node.attributes().float("beta"), columns, facts)?),
    };
    let mut attrs = Attrs::new();
    for (from, to) in [("transA", "trans_a"), ("transB", "trans_b")] {
        attrs.insert(to.to_owned(), Attr::Int(i64::from(node.attributes().flag(from))));
    }
    attrs.insert("alpha".to_owned(), Attr::Float(node.attributes().float("alpha")));
    Some(NodeDesc {
        domain: "kiln".to_owned(),
        op: FUSED.to_owned(),
        attrs,
        inputs: vec![node.inputs[0], node.inputs[1], bias],
        ..node.clone()
    })
}

/// beta * c as a vector of `columns`, if it is one.
fn row(edit: &mut Edit<'_>, c: ValueId, beta: f32, columns: Size, facts: &Facts) -> Option<ValueId> {
    let Some(constant) = edit.graph.constant(c) else {
        let is_vector = facts.dims(c) == Some(&[columns]) && facts.is(c, DType::F32);
        return (is_vector && beta == 1.0).then_some(c);
    };
    let columns = usize::try_from(columns.known()?).ok()?;
    let values = constant.as_slice::<f32>().ok()?;
    let leading = constant.shape().split_last().map_or(&[][..], |(_, leading)| leading);
    if leading.iter().any(|&dim| dim != 1)
        || constant.shape().len() > 2
        || !(values.len() == 1 || values.len() == columns)
    {
        return None;
    }
    if beta == 1.0 && constant.shape() == [columns] {
        return Some(c);
    }
    let scaled: Vec<f32> = values.iter().map(|value| beta * value).cycle().take(columns).collect();
    let row = Tensor::from_vec([columns], scaled).ok()?;
    Some(edit.add_constant("bias", row))
}
