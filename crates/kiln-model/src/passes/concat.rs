//! Convolutions read the inputs of a Concat of channels in place, and the Concat is removed.
//!
//! Kernels that transform tiles, or that make im2col for AMX, take an input in parts
//! ([`Conv::takes_parts`](kiln_kernels::cpu::conv::Conv::takes_parts)), which saves writing and reading the joined
//! tensor: a U-shaped network took 0.95 to 0.98 of its time. Convolutions without such a kernel keep their Concat; if
//! another kernel is chosen at run time, the node joins its input itself.

use kiln_kernels::cpu::Elements;
use kiln_kernels::cpu::conv::Weights;
use kiln_tensor::DType;

use super::PassCx;
use super::edit::Edit;
use super::residual::as_fused_conv;
use super::weights::convolution;
use crate::facts::{self, Facts};
use crate::ir::{Graph, NodeDesc};

/// Channels of a vector of the widest level: parts that start at multiples of them do so at every level.
const LANES: i64 = 16;
/// Channels of an AMX step.
const STEP: i64 = kiln_kernels::cpu::amx::STEP as i64;

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let is_conv = |node: &NodeDesc| (node.is("Conv") || node.is_fused("FusedConv")) && node.inputs.len() <= 4;
        let Some(conv) = edit.cloned(slot, is_conv) else { continue };
        let Some(sizes) = convolution(edit.graph, &conv) else { continue };
        let Some((maker, concat)) = conv.input(0).and_then(|joined| edit.sole_maker(joined)) else { continue };
        let Some(unit) = whole_channels(&conv, &sizes, cx.elements) else { continue };
        if !joins_channels(concat, &cx.facts, unit) {
            continue;
        }
        let mut fused = as_fused_conv(&conv);
        let mut parts = concat.inputs.clone().into_iter();
        fused.inputs[0] = parts.next().flatten();
        fused.inputs.extend(parts);
        edit.take(maker);
        edit.put(slot, fused);
    }
    edit.finish()
}

/// All parts but the last must have a multiple of this number of channels; `None` where the kernels of the convolution
/// read their input in place.
fn whole_channels(conv: &NodeDesc, sizes: &Weights, elements: Elements) -> Option<i64> {
    let is_one = |name: &str| conv.ints(name).is_none_or(|steps| steps.iter().all(|&step| step == 1));
    if sizes.groups != 1 || sizes.kernel == [1; 3] {
        return None;
    }
    if sizes.elements(elements) == Elements::Bf16Tiles {
        return Some(STEP);
    }
    let tiles = sizes.kernel == [1, 3, 3] && is_one("strides") && is_one("dilations");
    (tiles && sizes.elements(elements) == Elements::F32).then_some(LANES)
}

/// Whether a node joins tensors of floats along the last axis, each of a multiple of `unit` channels.
fn joins_channels(node: &NodeDesc, facts: &Facts, unit: i64) -> bool {
    let (Some(joined), true) = (node.output(0), node.is("Concat") && node.inputs.len() > 1) else { return false };
    let Some(rank) = facts.rank(joined) else { return false };
    let along_last = facts::axis(node.attributes().int("axis"), rank) == Some(rank - 1);
    let floats = facts.is(joined, DType::F32) || facts.is(joined, DType::BF16);
    let whole = |input: &Option<_>| {
        let channels = input.and_then(|part| facts.dims(part)?.last()?.known());
        channels.is_some_and(|channels| channels > 0 && channels % unit == 0)
    };
    let Some((Some(_), before)) = node.inputs.split_last() else { return false };
    along_last && floats && before.iter().all(whole)
}
