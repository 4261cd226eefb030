//! Fuses sums of bytes into the product before them, whose rounded result is still in registers when the other operand
//! is added.
//!
//! Results are rounded as in two steps. Sums are fused only if all bytes have one type and nothing broadcasts. The pass
//! runs after the layout pass, so that both operands have one layout.

use kiln_tensor::DType;

use super::super::PassCx;
use super::super::edit::Edit;
use super::{INPUTS, Y_SCALE};
use crate::ir::{Attr, Graph, NodeDesc};

pub(in super::super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(node) = edit.cloned(slot, |node| node.is_fused("QuantizedAdd")) else { continue };
        let (Some(a), Some(b)) = (node.input(0), node.input(3)) else { continue };
        if a == b || !cx.facts.same_dims(a, b) {
            continue;
        }
        // Into the later of two makers: the other operand exists by then.
        let mut makers =
            [(a, 3), (b, 0)].map(|(own, other)| edit.sole_maker(own).map(|(maker, _)| (maker, own, other)));
        makers.sort_by_key(|maker| std::cmp::Reverse(maker.map(|(slot, ..)| slot)));
        for (maker, own, other) in makers.into_iter().flatten() {
            let Some(mut fused) = edit.cloned(maker, takes) else { continue };
            let values = [own, if other == 0 { a } else { b }];
            let alike = |dtype: DType| node.output(0).into_iter().chain(values).all(|value| cx.facts.is(value, dtype));
            if !alike(DType::U8) && !alike(DType::I8) {
                continue;
            }
            fused.inputs.extend_from_slice(&node.inputs[other..other + 3]);
            fused.inputs.extend_from_slice(&node.inputs[6..8]);
            for (from, to) in [("low", "sum_low"), ("high", "sum_high")] {
                if let Some(bound) = node.attrs.get(from) {
                    fused.attrs.insert(to.to_owned(), bound.clone());
                }
            }
            if other == 0 {
                // Keeps the order of the addition.
                fused.attrs.insert("sum_second".to_owned(), Attr::Int(1));
            }
            fused.outputs.clone_from(&node.outputs);
            edit.take(maker);
            edit.put(slot, fused);
            break;
        }
    }
    edit.finish()
}

/// Whether a sum can be fused into a node: a product with a rounded result and no sum yet.
fn takes(node: &NodeDesc) -> bool {
    let product = node.is_fused("QuantizedConv") || node.is_fused("QuantizedMatMul");
    product && node.inputs.len() == INPUTS && node.input(Y_SCALE).is_some()
}
