//! Following the elements of small integer tensors: how exported models compute the shapes that they reshape to.

use kiln_tensor::DType;

use super::error::Open;
use super::size::{Size, Sizes};
use super::view::{Dims, MOST_ELEMENTS, View, axis};
use crate::ir::Attr;

pub(super) fn shape(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let dims = view.dims(0)?;
    let rank = dims.len() as i64;
    let at = |index: i64| (if index < 0 { index.saturating_add(rank) } else { index }).clamp(0, rank) as usize;
    let (start, end) = (at(view.int("start")), at(view.attributes.integer("end").unwrap_or(rank)));
    Ok(dims[start..end.max(start)].iter().copied().collect())
}

pub(super) fn size(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    Ok([sizes.product(&view.dims(0)?)].into_iter().collect())
}

/// The elements of the first input. Tensors of rank 2 and more are not followed, so a tensor that becomes one is
/// unknown from then on, not mistaken for one of rank 1.
pub(super) fn same(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    view.elements(0)
}

/// The same where that holds; otherwise nothing is known.
fn same_where(holds: bool, view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    if holds { same(view, sizes) } else { Err(Open::Unknown) }
}

pub(super) fn unsqueeze(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let axes = view.ints("axes", 1)?.ok_or(Open::Unknown)?;
    same_where(view.dims(0)?.is_empty() && axes.len() == 1, view, sizes)
}

pub(super) fn reshape(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let count = view.dims(1)?;
    same_where(count[..] == [Size::Known(1)] || count[..] == [Size::Known(0)], view, sizes)
}

pub(super) fn cast(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    same_where(matches!(view.attributes.dtype("to"), Some(DType::I64 | DType::I32)), view, sizes)
}

pub(super) fn gather(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let (data, indices) = (view.elements(0)?, view.known(1)?);
    // Only rank 1 is followed on the data's side, where the axis can only be 0.
    if view.dims(0)?.len() != 1 {
        return Err(Open::Unknown);
    }
    let of = |index| axis(index, data.len()).map(|place| data[place]);
    indices.into_iter().map(of).collect::<Option<Dims>>().ok_or(Open::Unknown)
}

pub(super) fn concat(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    // All parts have rank 1 in a valid model.
    let mut all = Dims::new();
    for index in 0..view.count() {
        all.extend(view.elements(index)?);
    }
    Ok(all)
}

/// A function of the elements of two inputs; either may be a single number.
fn pairs(view: &View<'_>, of: impl FnMut((Size, Size)) -> Size) -> Result<Dims, Open> {
    let (a, b) = (view.elements(0)?, view.elements(1)?);
    let count = if a.len() == 1 { b.len() } else { a.len() };
    if b.len() != 1 && b.len() != count {
        return Err(Open::Unknown);
    }
    Ok((0..count).map(|i| (a[i % a.len()], b[i % b.len()])).map(of).collect())
}

pub(super) fn add(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    pairs(view, |(a, b)| sizes.add(a, b))
}

pub(super) fn sub(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    pairs(view, |(a, b)| sizes.sub(a, b))
}

pub(super) fn mul(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    pairs(view, |(a, b)| sizes.mul(a, b))
}

pub(super) fn div(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    pairs(view, |(a, b)| sizes.div(a, b))
}

/// Truths as 0 and 1, where all are known.
pub(super) fn equal(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let mut is_open = false;
    let truths = pairs(view, |(a, b)| match sizes.equal(a, b) {
        Some(holds) => Size::Known(i64::from(holds)),
        None => {
            is_open = true;
            Size::Known(0)
        }
    })?;
    if is_open { Err(Open::Unknown) } else { Ok(truths) }
}

/// The elements that a known condition chooses.
pub(super) fn select(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let lists = [view.elements(0)?, view.elements(1)?, view.elements(2)?];
    let count = lists.iter().map(|list| list.len()).find(|&count| count != 1).unwrap_or(1);
    if lists.iter().any(|list| list.len() != 1 && list.len() != count) {
        return Err(Open::Unknown);
    }
    let [holds, then, other] = &lists;
    let at = |list: &Dims, place: usize| list[place % list.len()];
    let choose = |place: usize| match at(holds, place).known() {
        Some(0) => Ok(at(other, place)),
        Some(_) => Ok(at(then, place)),
        None => Err(Open::Unknown),
    };
    (0..count).map(choose).collect()
}

pub(super) fn constant_of_shape(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let (count, Some(Attr::Tensor(value))) = (view.known(0)?, view.node.attrs.get("value")) else {
        return Err(Open::Unknown);
    };
    let value = value.as_slice::<i64>().ok().and_then(|values| values.first().copied()).ok_or(Open::Unknown)?;
    match (count.as_slice(), MOST_ELEMENTS as i64) {
        (&[count], most) if (0..=most).contains(&count) => Ok((0..count).map(|_| Size::Known(value)).collect()),
        _ => Err(Open::Unknown),
    }
}

pub(super) fn slice(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let data = view.elements(0)?;
    let bound = |attribute, input| match view.ints(attribute, input)?.as_deref() {
        None => Ok(None),
        Some(&[value]) => Ok(Some(value)),
        Some(_) => Err(Open::Unknown),
    };
    // With one dimension there is one start and one end, and the axis is known.
    let (start, end) = (bound("starts", 1)?.ok_or(Open::Unknown)?, bound("ends", 2)?.ok_or(Open::Unknown)?);
    if bound("steps", 4)?.is_some_and(|step| step != 1) {
        return Err(Open::Unknown);
    }
    let count = data.len() as i64;
    let at = |index: i64| (if index < 0 { index.saturating_add(count) } else { index }).clamp(0, count) as usize;
    Ok(data[at(start)..at(end).max(at(start))].iter().copied().collect())
}
