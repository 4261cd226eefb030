//! Following the elements of small integer tensors: how exported models compute the shapes that they reshape to.

use super::{Dims, Size, Sizes, View, axis};
use crate::graph::ir::Attr;
use crate::tensor::DType;

/// The elements of the first output, where they can be said.
pub(super) fn follow(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let node = view.node;
    if !node.domain.is_empty() {
        return None;
    }
    match node.op.as_str() {
        "Shape" => {
            let dims = view.dims(0)?;
            let rank = dims.len() as i64;
            let at = |index: i64| (if index < 0 { index.saturating_add(rank) } else { index }).clamp(0, rank) as usize;
            let (start, end) = (at(node.int("start", 0)), at(node.int("end", rank)));
            Some(dims.get(start..end.max(start))?.iter().copied().collect())
        }
        "Size" => Some([sizes.product(view.dims(0)?)].into_iter().collect()),
        "Identity" | "Squeeze" | "Unsqueeze" | "Reshape" | "Flatten" => elements_that_stay(view),
        "Cast" if matches!(node.dtype("to"), Some(DType::I64 | DType::I32)) => elements_that_stay(view),
        "Gather" => {
            let (data, indices) = (view.elements(0)?, view.known(1)?);
            // Only rank 1 is followed on the data's side, where the axis can only be 0.
            (view.dims(0)?.len() == 1).then_some(())?;
            indices.into_iter().map(|index| Some(data[axis(index, data.len())?])).collect()
        }
        "Concat" => {
            let parts = (0..node.inputs.len()).map(|index| view.elements(index)).collect::<Option<Vec<_>>>()?;
            // All parts have rank 1 in a valid model.
            Some(parts.concat().into_iter().collect())
        }
        "Slice" => slice(view),
        "Add" | "Sub" | "Mul" | "Div" => {
            let (a, b) = (view.elements(0)?, view.elements(1)?);
            let count = if a.len() == 1 { b.len() } else { a.len() };
            (b.len() == 1 || b.len() == count).then_some(())?;
            let pairs = (0..count).map(|i| (a[i % a.len()], b[i % b.len()]));
            let result = pairs.map(|(a, b)| match node.op.as_str() {
                "Add" => sizes.add(a, b),
                "Sub" => sizes.sub(a, b),
                "Mul" => sizes.mul(a, b),
                _ => sizes.div(a, b),
            });
            Some(result.collect())
        }
        "ConstantOfShape" => {
            let count = view.known(0)?;
            let [count] = count.as_slice() else { return None };
            let Some(Attr::Tensor(value)) = node.attrs.get("value") else { return None };
            let (count, value) = (usize::try_from(*count).ok()?, *value.as_slice::<i64>().ok()?.first()?);
            (count <= super::MOST_ELEMENTS).then(|| std::iter::repeat_n(Size::Known(value), count).collect())
        }
        _ => None,
    }
}

/// The elements of the first input, where the output has rank 0 or 1 too. Rank 2 and more are not followed, and a tensor
/// that becomes rank 2 on the way is lost rather than mistaken for one of rank 1.
fn elements_that_stay(view: &View<'_>) -> Option<Dims> {
    let elements: Dims = view.elements(0)?.iter().copied().collect();
    let rank = view.dims(0)?.len();
    let stays = match view.node.op.as_str() {
        "Unsqueeze" => rank == 0 && view.ints("axes", 1)??.len() == 1,
        "Squeeze" => true,
        "Reshape" => view.dims(1)? == [Size::Known(1)] || view.dims(1)? == [Size::Known(0)],
        "Flatten" => false,
        _ => true,
    };
    stays.then_some(elements)
}

fn slice(view: &View<'_>) -> Option<Dims> {
    let data = view.elements(0)?;
    let node = view.node;
    let bound = |attribute, input| -> Option<Option<i64>> {
        match view.ints(attribute, input)? {
            None => Some(None),
            Some(values) => <[i64; 1]>::try_from(values).ok().map(|[value]| Some(value)),
        }
    };
    // With one dimension there is one start and one end, and the axis says nothing new.
    let (start, end) = (bound("starts", 1)??, bound("ends", 2)??);
    if node.inputs.len() > 4 && bound("steps", 4)?.is_some_and(|step| step != 1) {
        return None;
    }
    let count = data.len() as i64;
    let at = |index: i64| (if index < 0 { index.saturating_add(count) } else { index }).clamp(0, count) as usize;
    Some(data.get(at(start)..at(end).max(at(start)))?.iter().copied().collect())
}
