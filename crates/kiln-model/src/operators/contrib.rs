//! Dimensions of outputs of ONNX Runtime's own operators, and of classical models over tables.

use kiln_tensor::DType;

use super::error::{Open, ShapeError};
use super::shapes::{differ, lengths};
use super::size::{Size, Sizes};
use super::view::{Dims, Outputs, View, axis_of};
use crate::ir::Attr;

/// The term that is added to scores [batch, heads, queries, keys]. A mask of rank 1 has lengths, one of rank 2 a number
/// for every key, one of rank 3 or 4 a number for every query and key.
pub(super) fn attention_mask(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let (mask, query, key) = (view.dims(0)?, view.dims(1)?, view.dims(2)?);
    let positions = |index: usize, dims: &Dims| match dims[..] {
        [_, positions, _] | [_, _, positions, _] => Ok(positions),
        _ => Err(ShapeError::input(index, dims, "expected rank 3 or 4")),
    };
    let (queries, mut keys) = (positions(1, &query)?, positions(2, &key)?);
    if view.has(3) {
        let past = view.dims(3)?;
        keys = sizes.add(positions(3, &past)?, keys);
    }
    let rows = match mask.len() {
        1 | 2 => Size::Known(1),
        3 | 4 => queries,
        _ => return Err(ShapeError::input(0, &mask, "expected a mask of rank 1 to 4")),
    };
    Ok([query[0], Size::Known(1), rows, keys].into_iter().collect())
}

/// A number for each sequence of the first input.
pub(super) fn sequences(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let dims = view.dims(0)?;
    match dims.first() {
        Some(&batch) => Ok([batch].into_iter().collect()),
        None => Err(ShapeError::input(0, &dims, "expected a batch")),
    }
}

/// A stack of square matrices, one for each of the input's.
pub(super) fn square(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let dims = view.dims(0)?;
    match &dims[..] {
        [.., rows, columns] if !differ(*rows, *columns) => Ok(dims),
        _ => Err(ShapeError::input(0, &dims, "no square matrices")),
    }
}

/// Hashes are numbers without a sign, unless a node asks for one.
pub(super) fn hash(view: &View<'_>, _: usize) -> Option<DType> {
    Some(if view.int("positive") == 0 { DType::I32 } else { DType::U32 })
}

/// Slices of `size` elements along an axis, in steps of `step`; the elements of a slice become a last axis.
pub(super) fn unfold(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let mut dims = view.dims(0)?;
    let at = axis_of(view.int("dim"), dims.len())?;
    let (size, step) = (view.int("size"), view.int("step"));
    if dims[at].known().is_some_and(|whole| whole < size) || size < 0 || step < 1 {
        return Err(ShapeError::input(0, &dims, format!("no slices of {size} elements along axis {at}")));
    }
    let room = sizes.sub(dims[at], Size::Known(size));
    let steps = sizes.div(room, Size::Known(step));
    dims[at] = sizes.add(steps, Size::Known(1));
    dims.push(Size::Known(size));
    Ok(dims)
}

/// Boxes [boxes, 4] of images [batch, channels, height, width], each of the size that input 3 has.
pub(super) fn crops(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let (images, boxes, size) = (view.dims(0)?, view.dims(1)?, lengths(view, 3)?);
    match (&images[..], &boxes[..], &size[..]) {
        (&[_, channels, _, _], &[count, corners], &[height, width]) if !differ(corners, Size::Known(4)) => {
            Ok([count, channels, height, width].into_iter().collect())
        }
        _ => {
            let [images, boxes, size] = [&images, &boxes, &size].map(|dims| ShapeError::extents(dims));
            Err(ShapeError::Lists(format!("boxes of {boxes} in images of {images}, cropped to {size}")).into())
        }
    }
}

/// Rows of `K` elements become rows of `N`, which attributes state.
pub(super) fn stated_columns(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let mut dims = view.dims(0)?;
    match dims.last_mut() {
        Some(last) if !differ(*last, Size::Known(view.int("K"))) => {
            *last = Size::Known(view.int("N"));
            Ok(dims)
        }
        _ => Err(ShapeError::input(0, &dims, "its last dimension is not K")),
    }
}

/// Elements of the data by index; bytes hold several along the last axis.
pub(super) fn gather_block_quantized(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let (mut data, indices) = (view.dims(0)?, view.dims(1)?);
    let at = axis_of(view.int("gather_axis"), data.len())?;
    let dtype = view.dtype(0).ok_or(Open::Unknown)?;
    let bits = view.int("bits");
    if let (DType::U8, Some(last), 1..=8) = (dtype, data.last_mut(), bits) {
        *last = sizes.mul(*last, Size::Known(8 / bits));
    }
    Ok(data[..at].iter().chain(&indices).chain(&data[at + 1..]).copied().collect())
}

/// X is [steps, batch, size], the weights of the states are [directions, units, gates * units].
pub(super) fn quantized_lstm(view: &View<'_>, _: &mut Sizes) -> Result<Outputs, Open> {
    let (x, weights) = (view.dims(0)?, view.dims(2)?);
    let (&[steps, batch, _], &[directions, units, _]) = (&x[..], &weights[..]) else {
        let (x, weights) = (ShapeError::extents(&x), ShapeError::extents(&weights));
        return Err(ShapeError::Lists(format!("weights of {weights} over {x}")).into());
    };
    let state = || [directions, batch, units].into_iter().collect();
    Ok([[steps, directions, batch, units].into_iter().collect(), state(), state()].into_iter().collect())
}

/// The result [batch, positions, heads * size], and the cache of keys and of values [batch, heads of keys, positions,
/// size], which has room for the given cache and for the longest sequence. Where the request names the cache's
/// sequences that it continues, the result has as many sequences as the given cache.
pub(super) fn group_query(view: &View<'_>, sizes: &mut Sizes) -> Result<Outputs, Open> {
    let query = view.dims(0)?;
    let &[batch, positions, width] = &query[..] else {
        return Err(ShapeError::input(0, &query, "expected rank 3"));
    };
    let [heads, kv_heads] = ["num_heads", "kv_num_heads"].map(|name| view.int(name));
    // Without keys, queries, keys and values are one tensor.
    let all = if view.has(1) { heads } else { heads.saturating_add(kv_heads.saturating_mul(2)) };
    let size = sizes.div(width, Size::Known(all));
    let hidden = if view.has(1) { width } else { sizes.mul(size, Size::Known(heads)) };
    // A cache in pages keeps its shape, and the request has no total length.
    let total = if view.has(17) { Size::Known(0) } else { view.size(6)? };
    let (mut room, mut cached) = (total, batch);
    if view.has(3) {
        let past = view.dims(3)?;
        let &[sequences, _, past, _] = &past[..] else { return Err(ShapeError::input(3, &past, "expected rank 4")) };
        room = match (past, total) {
            (past, _) if view.has(17) => past,
            // The room of a sliding cache does not change.
            (past, _) if view.int("sliding_window_cache") != 0 => past,
            (Size::Known(past), Size::Known(total)) => Size::Known(past.max(total)),
            (past, total) => sizes.other("max", past, total),
        };
        if view.has(17) {
            cached = sequences;
        }
    }
    // A byte holds two codes of 4 bits.
    let stored = match view.int("kv_cache_bit_width") {
        4 => {
            let whole = sizes.add(size, Size::Known(1));
            sizes.div(whole, Size::Known(2))
        }
        _ => size,
    };
    let cache = || [cached, Size::Known(kv_heads), room, stored].into_iter().collect();
    let mut outputs: Outputs =
        [[batch, positions, hidden].into_iter().collect(), cache(), cache()].into_iter().collect();
    if view.node.outputs.len() > 3 {
        outputs.push([batch, Size::Known(heads), positions, total].into_iter().collect());
    }
    Ok(outputs)
}

/// The result [batch, positions, heads * size], with as many heads as queries or values have, and the state [batch,
/// heads of values, size of keys, size of values]; where states of a window of positions are kept, they are its first
/// axis.
pub(super) fn linear_attention(view: &View<'_>, sizes: &mut Sizes) -> Result<Outputs, Open> {
    let (query, value) = (view.dims(0)?, view.dims(2)?);
    let (&[batch, steps, width], &[_, _, values]) = (&query[..], &value[..]) else {
        let (query, value) = (ShapeError::extents(&query), ShapeError::extents(&value));
        return Err(ShapeError::Lists(format!("queries of {query}, values of {value}")).into());
    };
    let [queries, heads, window] = ["q_num_heads", "kv_num_heads", "state_window"].map(|name| view.int(name));
    let (size, each) = (sizes.div(width, Size::Known(queries)), sizes.div(values, Size::Known(heads)));
    let result = [batch, steps, sizes.mul(Size::Known(queries.max(heads)), each)].into_iter().collect();
    let state = [batch, Size::Known(heads), size, each];
    let window = Some(Size::Known(window)).filter(|_| window > 0);
    Ok([result, window.into_iter().chain(state).collect()].into_iter().collect())
}

/// The query's type; caches have the type of the given cache.
pub(super) fn group_query_types(view: &View<'_>, output: usize) -> Option<DType> {
    let given = if view.has(3) { 3 } else { 0 };
    view.dtype(if [1, 2].contains(&output) { given } else { 0 })
}

/// How many rows of features there are; a list is one row.
fn rows(view: &View<'_>) -> Result<Size, Open> {
    let dims = view.dims(0)?;
    match dims[..] {
        [_] => Ok(Size::Known(1)),
        [rows, _] => Ok(rows),
        _ => Err(ShapeError::input(0, &dims, "no rows of features")),
    }
}

/// The targets of trees for each row.
pub(super) fn tree_targets(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    Ok([rows(view)?, Size::Known(view.int("n_targets"))].into_iter().collect())
}

/// One number for each row.
pub(super) fn one_target(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    Ok([rows(view)?, Size::Known(1)].into_iter().collect())
}

/// How many classes are named, by texts or by the numbers of that attribute.
fn classes(view: &View<'_>, numbers: &str) -> usize {
    match (view.node.attrs.get("classlabels_strings"), view.node.attrs.get(numbers)) {
        (Some(Attr::Strs(names)), _) if !names.is_empty() => names.len(),
        (_, Some(Attr::Ints(numbers))) => numbers.len(),
        _ => 0,
    }
}

/// A label and `scores` scores for each row.
fn labels_and_scores(view: &View<'_>, scores: usize) -> Result<Outputs, Open> {
    let rows = rows(view)?;
    let scores = [rows, Size::Known(scores as i64)].into_iter().collect();
    Ok([[rows].into_iter().collect(), scores].into_iter().collect())
}

/// A score for each class.
pub(super) fn tree_classes(view: &View<'_>, _: &mut Sizes) -> Result<Outputs, Open> {
    labels_and_scores(view, classes(view, "classlabels_int64s"))
}

/// A score for each class; for more than two classes with support vectors and without probabilities, one for each pair.
pub(super) fn machine_classes(view: &View<'_>, _: &mut Sizes) -> Result<Outputs, Open> {
    let count = classes(view, "classlabels_ints");
    let has_vectors = view.node.ints("vectors_per_class").is_some_and(|counts| !counts.is_empty());
    let has_chances = view.node.floats("prob_a").is_some_and(|slopes| !slopes.is_empty());
    let is_by_pairs = has_vectors && !has_chances && count > 2;
    labels_and_scores(view, if is_by_pairs { count * (count - 1) / 2 } else { count })
}
