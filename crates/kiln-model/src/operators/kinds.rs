//! Element types of outputs that depend on more than the type of one input.

use kiln_kernels::cpu::chain::Storage;
use kiln_tensor::DType;

use super::view::View;
use crate::ir::Attr;

/// The type that an attribute names.
pub(super) fn named(view: &View<'_>, attribute: &str) -> Option<DType> {
    view.attributes.dtype(attribute)
}

/// The type that `to` names: passes add this attribute to nodes that can store another type. Otherwise the first
/// input's type.
pub(super) fn stored(view: &View<'_>, _: usize) -> Option<DType> {
    if view.node.attrs.contains_key("to") { named(view, "to") } else { view.dtype(0) }
}

/// [`stored`] for the first output; the moments after it are `f32`.
pub(super) fn stored_and_moments(view: &View<'_>, output: usize) -> Option<DType> {
    if output == 0 { stored(view, output) } else { Some(DType::F32) }
}

/// The type that `to` names, otherwise `f32`, in which attention computes.
pub(super) fn stored_or_f32(view: &View<'_>, _: usize) -> Option<DType> {
    if view.node.attrs.contains_key("to") { named(view, "to") } else { Some(DType::F32) }
}

/// The first output has the first input's type; running moments have the types of the earlier ones, inputs 3 and 4.
pub(super) fn first_and_running(view: &View<'_>, output: usize) -> Option<DType> {
    match output {
        0 => view.dtype(0),
        1 | 2 => view.dtype(output + 2),
        _ => view.dtype(output),
    }
}

/// The first output has the first input's type, others are positions.
pub(super) fn first_and_places(view: &View<'_>, output: usize) -> Option<DType> {
    if output == 0 { view.dtype(0) } else { Some(DType::I64) }
}

/// The first output is of the first input's type, the second a mask.
pub(super) fn first_and_mask(view: &View<'_>, output: usize) -> Option<DType> {
    // The mask was a number before version 10.
    if output == 1 && view.node.version >= 10 { Some(DType::Bool) } else { view.dtype(0) }
}

/// The type in which a program's result is stored.
pub(super) fn chain(view: &View<'_>, _: usize) -> Option<DType> {
    match view.node.attrs.get("program") {
        Some(Attr::Chain(program)) => Some(match program.output {
            Storage::F32 => DType::F32,
            Storage::Bool => DType::Bool,
        }),
        _ => None,
    }
}

/// The result and the scores are of the queries' type, the cache is of the keys' and the values'.
pub(super) fn attention(view: &View<'_>, output: usize) -> Option<DType> {
    view.dtype(if output == 3 { 0 } else { output })
}

/// The result is of the first input's type, the state behind it of input 3's where that is given.
pub(super) fn with_state_3(view: &View<'_>, output: usize) -> Option<DType> {
    if output == 1 && view.has(3) { view.dtype(3) } else { view.dtype(0) }
}

/// The first output is of the first input's type, others are `f32`.
pub(super) fn first_and_f32(view: &View<'_>, output: usize) -> Option<DType> {
    if output == 0 { view.dtype(0) } else { Some(DType::F32) }
}

/// The queries' type; a cache has the type of the given cache.
pub(super) fn first_and_caches(view: &View<'_>, output: usize) -> Option<DType> {
    view.dtype(if output == 0 { 0 } else { output + 2 })
}

/// The zero point's type where the result has a scale (input 7), otherwise `f32` sums.
pub(super) fn quantized_product(view: &View<'_>, _: usize) -> Option<DType> {
    if view.has(7) && view.has(8) { view.dtype(8) } else { Some(DType::F32) }
}

/// The type of the zero point (input 7), or else the operand's.
pub(super) fn zero_point_7(view: &View<'_>, _: usize) -> Option<DType> {
    if view.has(7) { view.dtype(7) } else { view.dtype(0) }
}

/// The type of the zero point (input 4), or else the operand's.
pub(super) fn zero_point_4(view: &View<'_>, _: usize) -> Option<DType> {
    if view.has(4) { view.dtype(4) } else { view.dtype(0) }
}

/// 16-bit floats become `f32`; other types stay.
pub(super) fn widened(view: &View<'_>, _: usize) -> Option<DType> {
    match view.dtype(0) {
        Some(DType::F16 | DType::BF16) => Some(DType::F32),
        other => other,
    }
}

/// The scale's type, unless the node names one.
pub(super) fn dequantized(view: &View<'_>, _: usize) -> Option<DType> {
    if view.int("output_dtype") == 0 { view.dtype(1) } else { named(view, "output_dtype") }
}

/// The zero point's type; without a zero point, the type that the node names, or bytes.
pub(super) fn quantized(view: &View<'_>, _: usize) -> Option<DType> {
    match view.has(2) {
        true => view.dtype(2),
        false if view.int("output_dtype") == 0 => Some(DType::U8),
        false => named(view, "output_dtype"),
    }
}

/// Of the type of the table's entries.
pub(super) fn looked_up(view: &View<'_>, _: usize) -> Option<DType> {
    match view.node.attrs.get("table") {
        Some(Attr::Tensor(table)) => Some(table.dtype()),
        _ => None,
    }
}

/// Bytes, their scale, and their zero point.
pub(super) fn quantized_with_parameters(_: &View<'_>, output: usize) -> Option<DType> {
    Some(if output == 1 { DType::F32 } else { DType::U8 })
}

/// The type of the values that labels are mapped to; in version 1, strings for numbers and numbers for strings.
pub(super) fn labels(view: &View<'_>, _: usize) -> Option<DType> {
    let has = |name: &str| view.node.attrs.contains_key(name);
    if let Some(Attr::Tensor(values)) = view.node.attrs.get("values_tensor") {
        return Some(values.dtype());
    }
    match () {
        () if has("values_strings") => Some(DType::String),
        () if has("values_int64s") => Some(DType::I64),
        () if has("values_floats") => Some(DType::F32),
        () if has("classes_strings") && view.dtype(0) == Some(DType::String) => Some(DType::I64),
        () if has("classes_strings") => view.dtype(0).map(|_| DType::String),
        () => None,
    }
}

/// Integers for texts, and texts for integers.
pub(super) fn category(view: &View<'_>, _: usize) -> Option<DType> {
    view.dtype(0).map(|dtype| if dtype == DType::String { DType::I64 } else { DType::String })
}

/// A label, of the type of the classes' names, and scores.
pub(super) fn label_and_scores(view: &View<'_>, output: usize) -> Option<DType> {
    Some(match view.node.attrs.get("classlabels_strings") {
        _ if output == 1 => DType::F32,
        Some(Attr::Strs(names)) if !names.is_empty() => DType::String,
        _ => DType::I64,
    })
}

/// The type that `output_datatype` names.
pub(super) fn window(view: &View<'_>, _: usize) -> Option<DType> {
    named(view, "output_datatype")
}

/// The type of the fill value, `f32` if the node has none.
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

/// The type that `dtype` names.
pub(super) fn drawn(view: &View<'_>, _: usize) -> Option<DType> {
    named(view, "dtype")
}
