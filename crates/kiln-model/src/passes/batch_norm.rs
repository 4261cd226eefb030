//! A batch normalisation without a convolution before it becomes a multiplication and an addition per channel:
//! element-wise nodes, which then join the chain around them.

use kiln_tensor::{DType, Tensor};

use super::PassCx;
use super::affine::{Affine, of_batch_norm};
use super::edit::Edit;
use crate::ir::{Attrs, Graph, NodeDesc};

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(node) = edit.cloned(slot, |node| node.is("BatchNormalization")) else { continue };
        let Some(x) = node.input(0).filter(|&x| cx.facts.is(x, DType::F32)) else { continue };
        // A convolution before it will take it in, in this round or, after other passes, in the next.
        if edit
            .sole_maker(x)
            .is_some_and(|(_, maker)| maker.op.contains("Conv") && !maker.attrs.contains_key("activation"))
        {
            continue;
        }
        let Some(rank) = cx.facts.rank(x).filter(|&rank| rank >= 2) else { continue };
        let Some(Affine { scale, shift }) = of_batch_norm(&edit, &node) else { continue };
        if node.outputs.iter().skip(1).any(Option::is_some) {
            continue;
        }
        let constants = [scale, shift].map(|values| {
            let shape = [values.len()].into_iter().chain(std::iter::repeat_n(1, rank - 2));
            Tensor::from_vec(shape, values.iter().map(|&value| value as f32).collect())
        });
        let [Ok(scale), Ok(shift)] = constants else { continue };
        let (scale, shift) = (edit.add_constant("scale", scale), edit.add_constant("shift", shift));
        let scaled = edit.add_value_like(x);
        let element_wise = |op: &str, inputs, outputs| NodeDesc {
            name: format!("{}.{op}", node.name),
            op: op.to_owned(),
            version: node.version,
            attrs: Attrs::new(),
            inputs,
            outputs,
            ..NodeDesc::default()
        };
        edit.put_before(slot, element_wise("Mul", vec![Some(x), Some(scale)], vec![Some(scaled)]));
        edit.put(slot, element_wise("Add", vec![Some(scaled), Some(shift)], vec![node.outputs[0]]));
    }
    edit.finish()
}
