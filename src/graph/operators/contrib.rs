//! Dimensions of outputs of ONNX Runtime's own operators, and of trees over tables.

use super::error::{Open, ShapeError};
use super::size::{Size, Sizes};
use super::view::{Dims, Outputs, View};
use crate::graph::ir::Attr;

/// What is added to scores [batch, heads, queries, keys]. A mask of rank 1 has lengths, one of rank 2 a number for every
/// key, of rank 3 and 4 one for every query and key.
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

/// A label for each row, and a score for each class.
pub(super) fn tree_classes(view: &View<'_>, _: &mut Sizes) -> Result<Outputs, Open> {
    let (rows, attrs) = (rows(view)?, &view.node.attrs);
    let classes = match (attrs.get("classlabels_strings"), attrs.get("classlabels_int64s")) {
        (Some(Attr::Strs(names)), _) if !names.is_empty() => names.len(),
        (_, Some(Attr::Ints(numbers))) => numbers.len(),
        _ => 0,
    };
    let scores = [rows, Size::Known(classes as i64)].into_iter().collect();
    Ok([[rows].into_iter().collect(), scores].into_iter().collect())
}
