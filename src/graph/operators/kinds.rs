//! Element types of outputs that more than one input's type decides.

use kiln_kernels::cpu::chain::Storage;

use super::view::View;
use crate::graph::ir::Attr;
use crate::tensor::DType;

/// The type that an attribute names.
pub(super) fn named(view: &View<'_>, attribute: &str) -> Option<DType> {
    view.node.dtype(attribute)
}

/// The type that `to` names, which passes add to what may store its result so; else that of the first input.
pub(super) fn stored(view: &View<'_>, _: usize) -> Option<DType> {
    if view.node.attrs.contains_key("to") { named(view, "to") } else { view.dtype(0) }
}

/// The same for a single output, of several.
pub(super) fn first_stored(view: &View<'_>, output: usize) -> Option<DType> {
    (output == 0).then(|| stored(view, output)).flatten()
}

/// The same of attention, which computes `f32`.
pub(super) fn stored_or_f32(view: &View<'_>, _: usize) -> Option<DType> {
    if view.node.attrs.contains_key("to") { named(view, "to") } else { Some(DType::F32) }
}

/// Of the first input; of other outputs nothing is said.
pub(super) fn first(view: &View<'_>, output: usize) -> Option<DType> {
    (output == 0).then(|| view.dtype(0)).flatten()
}

/// The first output is of the first input's type, others are places.
pub(super) fn first_and_places(view: &View<'_>, output: usize) -> Option<DType> {
    if output == 0 { view.dtype(0) } else { Some(DType::I64) }
}

/// The first output is of the first input's type, the second a mask.
pub(super) fn first_and_mask(view: &View<'_>, output: usize) -> Option<DType> {
    if output == 1 { Some(DType::Bool) } else { view.dtype(0) }
}

/// What a program's result is stored as.
pub(super) fn chain(view: &View<'_>, _: usize) -> Option<DType> {
    match view.node.attrs.get("program") {
        Some(Attr::Chain(program)) => Some(match program.output {
            Storage::F32 => DType::F32,
            Storage::Bool => DType::Bool,
        }),
        _ => None,
    }
}

/// Of the zero point's type where there is one, else sums as `f32`.
pub(super) fn quantized_product(view: &View<'_>, _: usize) -> Option<DType> {
    if view.has(8) { view.dtype(8) } else { Some(DType::F32) }
}

/// Of the type of the zero point that is input 7, or else of the operand's.
pub(super) fn zero_point_7(view: &View<'_>, _: usize) -> Option<DType> {
    if view.has(7) { view.dtype(7) } else { view.dtype(0) }
}

/// Of the type of the zero point that is input 4, or else of the operand's.
pub(super) fn zero_point_4(view: &View<'_>, _: usize) -> Option<DType> {
    if view.has(4) { view.dtype(4) } else { view.dtype(0) }
}

/// Half floats become whole ones, everything else stays.
pub(super) fn widened(view: &View<'_>, _: usize) -> Option<DType> {
    match view.dtype(0) {
        Some(DType::F16 | DType::BF16) => Some(DType::F32),
        other => other,
    }
}

/// Of the scale's type, unless the node names one.
pub(super) fn dequantized(view: &View<'_>, _: usize) -> Option<DType> {
    (view.int("output_dtype") == 0).then(|| view.dtype(1)).flatten()
}

/// Of the zero point's type where there is one, or bytes unless the node names a type.
pub(super) fn quantized(view: &View<'_>, _: usize) -> Option<DType> {
    match view.has(2) {
        true => view.dtype(2),
        false => (view.int("output_dtype") == 0).then_some(DType::U8),
    }
}

/// Bytes, their scale, and their zero point.
pub(super) fn quantized_with_parameters(_: &View<'_>, output: usize) -> Option<DType> {
    Some(if output == 1 { DType::F32 } else { DType::U8 })
}

/// Of the value that fills it, which is a float unless the node has one.
pub(super) fn filled(view: &View<'_>, _: usize) -> Option<DType> {
    match view.node.attrs.get("value") {
        Some(Attr::Tensor(value)) => Some(value.dtype()),
        _ => Some(DType::F32),
    }
}

/// The type that `dtype` names, or else the first input's.
pub(super) fn drawn_like(view: &View<'_>, _: usize) -> Option<DType> {
    if view.node.attrs.contains_key("dtype") { named(view, "dtype") } else { view.dtype(0) }
}

/// The type that `dtype` names, floats by default.
pub(super) fn drawn(view: &View<'_>, _: usize) -> Option<DType> {
    if view.node.attrs.contains_key("dtype") { named(view, "dtype") } else { Some(DType::F32) }
}
