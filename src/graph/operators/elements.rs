//! Following the elements of small integer tensors: how exported models compute the shapes that they reshape to.

use super::size::{Size, Sizes};
use super::view::{Dims, MOST_ELEMENTS, View, axis};
use crate::graph::ir::Attr;
use crate::tensor::DType;

pub(super) fn shape(view: &View<'_>, _: &mut Sizes) -> Option<Dims> {
    let dims = view.dims(0)?;
    let rank = dims.len() as i64;
    let at = |index: i64| (if index < 0 { index.saturating_add(rank) } else { index }).clamp(0, rank) as usize;
    let (start, end) = (at(view.int("start")), at(view.node.int("end", rank)));
    Some(dims.get(start..end.max(start))?.iter().copied().collect())
}

pub(super) fn size(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    Some([sizes.product(view.dims(0)?)].into_iter().collect())
}

/// The elements of the first input. Rank 2 and more are not followed, and a tensor that becomes rank 2 on the way is
/// lost rather than mistaken for one of rank 1.
pub(super) fn same(view: &View<'_>, _: &mut Sizes) -> Option<Dims> {
    Some(view.elements(0)?.iter().copied().collect())
}

pub(super) fn unsqueeze(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let stays = view.dims(0)?.is_empty() && view.ints("axes", 1)??.len() == 1;
    same(view, sizes).filter(|_| stays)
}

pub(super) fn reshape(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let count = view.dims(1)?;
    same(view, sizes).filter(|_| count == [Size::Known(1)] || count == [Size::Known(0)])
}

pub(super) fn cast(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    same(view, sizes).filter(|_| matches!(view.node.dtype("to"), Some(DType::I64 | DType::I32)))
}

pub(super) fn gather(view: &View<'_>, _: &mut Sizes) -> Option<Dims> {
    let (data, indices) = (view.elements(0)?, view.known(1)?);
    // Only rank 1 is followed on the data's side, where the axis can only be 0.
    (view.dims(0)?.len() == 1).then_some(())?;
    indices.into_iter().map(|index| Some(data[axis(index, data.len())?])).collect()
}

pub(super) fn concat(view: &View<'_>, _: &mut Sizes) -> Option<Dims> {
    let parts = (0..view.node.inputs.len()).map(|index| view.elements(index)).collect::<Option<Vec<_>>>()?;
    // All parts have rank 1 in a valid model.
    Some(parts.concat().into_iter().collect())
}

/// An operator of two numbers, one of which may be a single one.
fn pairs(view: &View<'_>, of: impl FnMut((Size, Size)) -> Size) -> Option<Dims> {
    let (a, b) = (view.elements(0)?, view.elements(1)?);
    let count = if a.len() == 1 { b.len() } else { a.len() };
    (b.len() == 1 || b.len() == count).then_some(())?;
    Some((0..count).map(|i| (a[i % a.len()], b[i % b.len()])).map(of).collect())
}

pub(super) fn add(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    pairs(view, |(a, b)| sizes.add(a, b))
}

pub(super) fn sub(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    pairs(view, |(a, b)| sizes.sub(a, b))
}

pub(super) fn mul(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    pairs(view, |(a, b)| sizes.mul(a, b))
}

pub(super) fn div(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    pairs(view, |(a, b)| sizes.div(a, b))
}

pub(super) fn constant_of_shape(view: &View<'_>, _: &mut Sizes) -> Option<Dims> {
    let count = view.known(0)?;
    let [count] = count.as_slice() else { return None };
    let Some(Attr::Tensor(value)) = view.node.attrs.get("value") else { return None };
    let (count, value) = (usize::try_from(*count).ok()?, *value.as_slice::<i64>().ok()?.first()?);
    (count <= MOST_ELEMENTS).then(|| std::iter::repeat_n(Size::Known(value), count).collect())
}

pub(super) fn slice(view: &View<'_>, _: &mut Sizes) -> Option<Dims> {
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
