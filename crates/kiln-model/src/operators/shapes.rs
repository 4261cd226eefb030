//! Dimensions of outputs, for operators that neither slide windows (those are in [`spatial`](super::spatial)) nor
//! transform signals ([`signals`](super::signals)).
//!
//! The same rules serve a graph at load, whose sizes may be symbols, and a running node, whose sizes are numbers: a
//! request is refused by the same rules.

use super::error::{Open, ShapeError};
use super::number;
use super::size::{Size, Sizes};
use super::view::{Dims, Ints, Outputs, View, axes_of, axis_of};

fn one(size: Size) -> Dims {
    [size].into_iter().collect()
}

/// Two sizes that are certainly not the same.
pub(super) fn differ(a: Size, b: Size) -> bool {
    matches!((a.known(), b.known()), (Some(a), Some(b)) if a != b)
}

/// A size for a sentence.
pub fn shown(size: Size) -> String {
    size.known().map_or_else(|| "?".to_owned(), |size| size.to_string())
}

/// The numbers of a list of sizes; `None` where some are not known.
fn numbers(sizes: &[Size]) -> Option<Ints> {
    sizes.iter().map(|size| size.known()).collect()
}

/// The elements of an input as sizes, none of which is negative.
pub(super) fn lengths(view: &View<'_>, input: usize) -> Result<Dims, Open> {
    let sizes = view.elements(input)?;
    match sizes.iter().find_map(|size| size.known().filter(|&size| size < 0)) {
        Some(negative) => {
            let all = ShapeError::extents(&sizes);
            Err(ShapeError::Lists(format!("{negative} is no dimension in {all}")).into())
        }
        None => Ok(sizes),
    }
}

pub(super) fn scalar(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    match view.has(0) {
        true => Ok(Dims::new()),
        false => Err(ShapeError::Missing(0).into()),
    }
}

/// A list with a number for each dimension that the operator asks for.
pub(super) fn shape(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    Ok(one(Size::Known(super::elements::shape(view, sizes)?.len() as i64)))
}

pub(super) fn gemm(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let (a, b) = (view.dims(0)?, view.dims(1)?);
    let (&[a0, a1], &[b0, b1]) = (&a[..], &b[..]) else {
        let (a, b) = (ShapeError::extents(&a), ShapeError::extents(&b));
        return Err(ShapeError::Lists(format!("Gemm of shapes {a} and {b}")).into());
    };
    let (row, inner) = if view.int("transA") != 0 { (a1, a0) } else { (a0, a1) };
    let (other, column) = if view.int("transB") != 0 { (b1, b0) } else { (b0, b1) };
    if differ(inner, other) {
        return Err(ShapeError::Product { left: a[..].into(), right: b[..].into() }.into());
    }
    Ok([row, column].into_iter().collect())
}

pub(super) fn transpose(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let dims = view.dims(0)?;
    let Some(perm) = view.node.ints("perm") else { return Ok(dims.iter().rev().copied().collect()) };
    if perm.len() != dims.len() {
        return Err(ShapeError::input(0, &dims, format!("perm {perm:?} does not fit")));
    }
    perm.iter().map(|&place| Ok(dims[axis_of(place, dims.len())?])).collect()
}

pub(super) fn flatten(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let dims = view.dims(0)?;
    let at = view.int("axis");
    // One past the last axis is allowed here.
    let at = if at == dims.len() as i64 { dims.len() } else { axis_of(at, dims.len())? };
    Ok([sizes.product(&dims[..at]), sizes.product(&dims[at..])].into_iter().collect())
}

pub(super) fn squeeze(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let dims = view.dims(0)?;
    let Some(axes) = view.ints("axes", 1)? else {
        // Without axes every 1 goes, so every size has to be known to be 1 or not.
        let known = numbers(&dims).ok_or(Open::Unknown)?;
        return Ok(known.into_iter().filter(|&size| size != 1).map(Size::Known).collect());
    };
    let gone = axes_of(&axes, dims.len())?;
    if let Some(axis) = gone.iter().find(|&&axis| differ(dims[axis], Size::Known(1))) {
        return Err(ShapeError::input(0, &dims, format!("axis {axis} is not 1")));
    }
    Ok(dims.iter().enumerate().filter(|(place, _)| !gone.contains(place)).map(|(_, &size)| size).collect())
}

pub(super) fn unsqueeze(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let dims = view.dims(0)?;
    let axes = view.ints("axes", 1)?.ok_or_else(|| ShapeError::Lists("no axes are given".to_owned()))?;
    let rank = dims.len() + axes.len();
    let new = axes_of(&axes, rank)?;
    let mut old = dims.iter().copied();
    let of = |place| if new.contains(&place) { Size::Known(1) } else { old.next().unwrap_or(Size::Known(1)) };
    Ok((0..rank).map(of).collect())
}

pub(super) fn concat(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let first = view.dims(0)?;
    let at = axis_of(view.int("axis"), first.len())?;
    let mut dims = first.clone();
    for index in 1..view.count() {
        let other = view.dims(index)?;
        let fits = |place: usize| place == at || !differ(other[place], first[place]);
        if other.len() != first.len() || !(0..first.len()).all(fits) {
            let first = ShapeError::extents(&first);
            return Err(ShapeError::input(index, &other, format!("it does not join {first} along axis {at}")));
        }
        dims[at] = sizes.add(dims[at], other[at]);
    }
    Ok(dims)
}

pub(super) fn gather(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let (data, indices) = (view.dims(0)?, view.dims(1)?);
    let at = axis_of(view.int("axis"), data.len())?;
    Ok(data[..at].iter().chain(&indices).chain(&data[at + 1..]).copied().collect())
}

pub(super) fn expand(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    broadcast(&view.dims(0)?, &lengths(view, 1)?, sizes)
}

pub(super) fn constant_of_shape(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    lengths(view, 0)
}

pub(super) fn tile(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let (dims, repeats) = (view.dims(0)?, lengths(view, 1)?);
    if dims.len() != repeats.len() {
        let repeats = ShapeError::extents(&repeats);
        return Err(ShapeError::input(0, &dims, format!("repeats {repeats} do not fit")));
    }
    Ok(dims.iter().zip(&repeats).map(|(&dim, &repeat)| sizes.mul(dim, repeat)).collect())
}

/// The numbers from the first input to the second in steps of the third.
pub(super) fn range(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let bounds = [view.number(0), view.number(1), view.number(2)];
    if bounds.contains(&Err(Open::Unknown)) {
        // From a size to the same size plus a number, as positions behind a past are counted.
        return Ok(one(match (view.size(0), view.size(1), view.size(2)) {
            (Ok(Size::Symbol { id, plus }), Ok(Size::Symbol { id: same, plus: limit }), Ok(Size::Known(1)))
                if id == same =>
            {
                Size::Known(limit.saturating_sub(plus).max(0))
            }
            _ => sizes.fresh(),
        }));
    }
    let [start, limit, delta] = bounds;
    let (start, limit, delta) = (start?, limit?, delta?);
    let count = number::count(start, limit, delta);
    let count = count.ok_or_else(|| ShapeError::Lists(format!("no range from {start} to {limit} in steps of {delta}")));
    Ok(one(Size::Known(count?)))
}

/// The first input's dimensions and, at the axis, the depth.
pub(super) fn one_hot(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let mut dims = view.dims(0)?;
    let at = axis_of(view.int("axis"), dims.len() + 1)?;
    let depth = match view.size(1) {
        Err(Open::Unknown) => sizes.fresh(),
        depth => depth?,
    };
    if depth.known().is_some_and(|depth| depth < 0) {
        return Err(ShapeError::Lists(format!("a depth of {}", shown(depth))).into());
    }
    dims.insert(at, depth);
    Ok(dims)
}

/// The dimensions that all inputs broadcast to.
pub(super) fn broadcast_all(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let mut dims = view.dims(0)?;
    for index in (1..view.count()).filter(|&index| view.has(index)) {
        dims = broadcast(&dims, &view.dims(index)?, sizes)?;
    }
    Ok(dims)
}

/// The dimensions that `whole` (of the operands before) and an operand of dimensions `other` broadcast to.
fn broadcast(whole: &[Size], other: &[Size], sizes: &mut Sizes) -> Result<Dims, Open> {
    let (long, short) = if whole.len() >= other.len() { (whole, other) } else { (other, whole) };
    let lead = long.len() - short.len();
    let mut dims: Dims = long[..lead].iter().copied().collect();
    for (&x, &y) in long[lead..].iter().zip(short) {
        if differ(x, y) && !x.is_one() && !y.is_one() {
            return Err(ShapeError::Broadcast { shape: other.into(), whole: whole.into() }.into());
        }
        dims.push(sizes.broadcast(x, y));
    }
    Ok(dims)
}

pub(super) fn matmul(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    product(view, [0, 1], sizes)
}

/// The operands are inputs 0 and 3, each with its scale and zero point behind it.
pub(super) fn quantized_matmul(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    product(view, [0, 3], sizes)
}

fn product(view: &View<'_>, operands: [usize; 2], sizes: &mut Sizes) -> Result<Dims, Open> {
    let (left, right) = (view.dims(operands[0])?, view.dims(operands[1])?);
    let swapped = |dims: &Dims, attributes: &[&str]| -> Dims {
        let mut dims = dims.clone();
        if let [.., a, b] = &mut dims[..]
            && attributes.iter().any(|name| view.attributes.declares(name) && view.attributes.flag(name))
        {
            std::mem::swap(a, b);
        }
        dims
    };
    let (a, b) = (swapped(&left, &["trans_a", "transA"]), swapped(&right, &["trans_b", "transB"]));
    let mismatch = || ShapeError::Product { left: left[..].into(), right: right[..].into() };
    let inner = match (&a[..], &b[..]) {
        ([.., a], [b] | [.., b, _]) => [*a, *b],
        _ => return Err(mismatch().into()),
    };
    if differ(inner[0], inner[1]) {
        return Err(mismatch().into());
    }
    let (x, y) = (a.len(), b.len());
    let mut dims = broadcast(&a[..x.saturating_sub(2)], &b[..y.saturating_sub(2)], sizes)?;
    if x > 1 {
        dims.push(a[x - 2]);
    }
    if y > 1 {
        dims.push(b[y - 1]);
    }
    Ok(dims)
}

/// The target with its 0 (the input's dimension) and -1 (whatever is left) resolved.
pub(super) fn reshape(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let target = view.elements(1)?;
    let copies_zeros = view.int("allowzero") == 0;
    let from = match view.dims(0) {
        Err(Open::Unknown) => None,
        known => Some(known?),
    };
    let refused = || {
        let (from, target) = (ShapeError::extents(from.as_deref().unwrap_or_default()), ShapeError::extents(&target));
        Open::from(ShapeError::Lists(format!("a tensor of shape {from} cannot become {target}")))
    };
    let mut dims = Dims::new();
    let mut rest = None;
    for (place, &size) in target.iter().enumerate() {
        dims.push(match size {
            Size::Known(0) if copies_zeros => {
                let from = from.as_ref().ok_or(Open::Unknown)?;
                *from.get(place).ok_or_else(refused)?
            }
            Size::Known(-1) if rest.is_none() => {
                rest = Some(place);
                Size::Known(1)
            }
            Size::Known(negative) if negative < 0 => return Err(refused()),
            size => size,
        });
    }
    let counts = from.as_deref().and_then(numbers).zip(numbers(&dims));
    let counts = counts.map(|(from, to)| (count(from.iter().copied()), count(to.iter().copied()), from, to));
    match (rest, counts) {
        (None, None) => {}
        (None, Some((from, to, ..))) => {
            if from.is_none() || from != to {
                return Err(refused());
            }
        }
        (Some(place), Some((whole, known, from, to))) => {
            // A size of 0 leaves nothing to divide by, so it is left out on both sides: an empty batch of images
            // flattens like a full one. With `allowzero` such a target is invalid by the standard; exporters write it
            // for any batch, and onnxruntime resolves it in this way.
            let left_out = |place: usize, size: i64| match copies_zeros {
                true => target.get(place) == Some(&Size::Known(0)),
                false => size == 0 && whole == Some(0),
            };
            let others = |sizes: &Ints| {
                count(sizes.iter().enumerate().filter(|&(at, &size)| !left_out(at, size)).map(|(_, &size)| size))
            };
            let (whole, known) = if known == Some(0) { (others(&from), others(&to)) } else { (whole, known) };
            let (whole, known) = whole.zip(known).ok_or_else(refused)?;
            if known == 0 || whole % known != 0 {
                return Err(refused());
            }
            dims[place] = Size::Known(whole / known);
        }
        (Some(place), None) => {
            let others = dims.iter().enumerate().filter(|(other, _)| *other != place);
            let others: Dims = others.map(|(_, &size)| size).collect();
            dims[place] = match &from {
                Some(from) => sizes.ratio(from, &others),
                None => sizes.fresh(),
            };
        }
    }
    Ok(dims)
}

/// The product of sizes, where it is a number that fits.
fn count(sizes: impl Iterator<Item = i64>) -> Option<i64> {
    // If there is a zero, the product of the other sizes may overflow.
    let (mut product, mut empty) = (Some(1i64), false);
    for size in sizes {
        empty |= size == 0;
        product = product.and_then(|product| product.checked_mul(size));
    }
    if empty { Some(0) } else { product }
}

/// The first element and the number of elements of a slice along an axis of `size` elements, as in numpy: negative
/// bounds count from the end, and bounds are clamped. `None` where the step is zero.
///
/// As in ONNX Runtime, the greatest integer of 32 or 64 bits stands for the far end in either direction.
pub fn cut(start: i64, end: i64, step: i64, size: i64) -> Option<(i64, i64)> {
    let is_open = [i64::from(i32::MAX), i64::MAX].contains(&end);
    let end = if step < 0 && is_open { i64::MIN } else { end };
    let from_start = |bound: i64| if bound < 0 { bound.saturating_add(size) } else { bound };
    let (start, end) = (from_start(start), from_start(end));
    let (start, length) = match step {
        0 => return None,
        1.. => {
            let (start, end) = (start.clamp(0, size), end.clamp(0, size));
            (start, end - start)
        }
        // A step backwards ends before `end`, and -1 stands for "the first element too".
        _ => {
            let (start, end) = (start.clamp(-1, size - 1), end.clamp(-1, size - 1));
            (start, start - end)
        }
    };
    let count = length.max(0).unsigned_abs().div_ceil(step.unsigned_abs()) as i64;
    Some((if count == 0 { 0 } else { start }, count))
}

/// A list that may not be known yet: the outer `None` if it is not known, the inner `None` if there is no list.
fn unless_open(list: Result<Option<Ints>, Open>) -> Result<Option<Option<Ints>>, Open> {
    match list {
        Ok(list) => Ok(Some(list)),
        Err(Open::Unknown) => Ok(None),
        Err(refused) => Err(refused),
    }
}

pub(super) fn slice(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let mut dims = view.dims(0)?;
    // Bounds are attributes, otherwise inputs.
    let fixed = view.node.ints("starts").is_some();
    let list = |attribute, input| match view.node.ints(attribute) {
        list if fixed => Ok(list.map(Ints::from_slice)),
        _ if view.has(input) => view.known(input).map(Some),
        _ => Ok(None),
    };
    let bound = |attribute, input| match list(attribute, input)? {
        Some(list) => Ok(Some(list)),
        None => Err(ShapeError::Missing(input).into()),
    };
    let (starts, ends) = (unless_open(bound("starts", 1))?.flatten(), unless_open(bound("ends", 2))?.flatten());
    let steps = unless_open(list("steps", 4))?;
    let open_ends = if fixed { None } else { view.elements(2).ok() };
    let axes = match list("axes", 3)? {
        Some(axes) => axes,
        None => {
            let given = starts.as_ref().or(ends.as_ref()).map(|list| list.len() as i64);
            let count = given.or_else(|| view.dims(1).ok()?.first()?.known()).ok_or(Open::Unknown)?;
            (0..count).collect()
        }
    };
    let lists = [starts.as_ref(), ends.as_ref(), steps.as_ref().and_then(Option::as_ref)];
    let places = axes_of(&axes, dims.len())?;
    if lists.into_iter().flatten().any(|list| list.len() != places.len()) {
        return Err(ShapeError::Lists("starts, ends, axes and steps differ in length".to_owned()).into());
    }
    for (n, at) in places.into_iter().enumerate() {
        let of = |list: &Option<Ints>| list.as_ref().map(|list| list[n]);
        let step = steps.as_ref().map(|steps| of(steps).unwrap_or(1));
        if step == Some(0) {
            return Err(ShapeError::Lists("a step of zero".to_owned()).into());
        }
        dims[at] = match (of(&starts), of(&ends), step, dims[at]) {
            (Some(start), Some(end), Some(step), Size::Known(size)) => {
                Size::Known(cut(start, end, step, size).map_or(0, |(_, count)| count))
            }
            // The whole axis, as exporters write it.
            (Some(0), Some(end), Some(1), size) if end >= i64::from(i32::MAX) => size,
            // As many elements from the front as another size.
            (Some(0), None, Some(1), size) => match open_ends.as_ref().and_then(|ends| ends.get(n)) {
                Some(&end) => sizes.front(end, size),
                None => sizes.fresh(),
            },
            _ => sizes.fresh(),
        };
    }
    Ok(dims)
}

/// A reduction along one axis.
pub(super) fn reduce_axis(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let dims = view.dims(0)?;
    let axis = view.int("axis");
    if is_whole_scalar(&[axis], dims.len()) {
        return Ok(dims);
    }
    Ok(reduced(view, &dims, &[axis_of(axis, dims.len())?]))
}

/// Whether a reduction along these axes is one of a scalar, whose only element PyTorch's exporters address by axis 0
/// or -1, as PyTorch does.
pub fn is_whole_scalar(axes: &[i64], rank: usize) -> bool {
    rank == 0 && axes.iter().all(|axis| (-1..=0).contains(axis))
}

/// A reduction along a list of axes.
pub(super) fn reduce(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let dims = view.dims(0)?;
    Ok(match view.ints("axes", 1)? {
        Some(axes) if is_whole_scalar(&axes, dims.len()) => dims,
        Some(axes) if !axes.is_empty() => reduced(view, &dims, &axes_of(&axes, dims.len())?),
        _ if view.int("noop_with_empty_axes") != 0 => dims,
        _ => reduced(view, &dims, &(0..dims.len()).collect::<smallvec::SmallVec<[usize; 8]>>()),
    })
}

fn reduced(view: &View<'_>, dims: &[Size], gone: &[usize]) -> Dims {
    let places = dims.iter().enumerate();
    if view.int("keepdims") != 0 {
        places.map(|(place, &size)| if gone.contains(&place) { Size::Known(1) } else { size }).collect()
    } else {
        places.filter(|(place, _)| !gone.contains(place)).map(|(_, &size)| size).collect()
    }
}

pub(super) fn split(view: &View<'_>, sizes: &mut Sizes) -> Result<Outputs, Open> {
    let dims = view.dims(0)?;
    let at = axis_of(view.int("axis"), dims.len())?;
    let count = view.node.outputs.len();
    let whole = dims[at];
    let parts = match view.ints("split", 1)? {
        Some(parts) => {
            let sum = parts.iter().try_fold(0i64, |sum, &size| sum.checked_add(size).filter(|_| size >= 0));
            if sum.is_none() || parts.len() != count || sum.is_some_and(|sum| differ(whole, Size::Known(sum))) {
                let reason = format!("{:?} does not split {} into {count} parts", &parts[..], shown(whole));
                return Err(ShapeError::input(0, &dims, reason));
            }
            parts.into_iter().map(Size::Known).collect()
        }
        None => equal_parts(view, whole, count, sizes).ok_or_else(|| {
            ShapeError::input(0, &dims, format!("{} does not split into {count} equal parts", shown(whole)))
        })?,
    };
    let of = |size| {
        let mut dims = dims.clone();
        dims[at] = size;
        dims
    };
    Ok(parts.into_iter().map(of).collect())
}

/// A size in equal parts. Since version 18 the last parts may be smaller.
fn equal_parts(view: &View<'_>, whole: Size, count: usize, sizes: &mut Sizes) -> Option<Dims> {
    let Size::Known(whole) = whole else { return Some((0..count).map(|_| sizes.fresh()).collect()) };
    let parts = i64::try_from(count).ok().filter(|&parts| parts > 0)?;
    if whole % parts != 0 && view.node.version < 18 {
        return None;
    }
    let each = whole / parts + i64::from(whole % parts != 0);
    let start = |index: i64| each.saturating_mul(index).min(whole);
    Some((0..parts).map(|index| Size::Known(start(index + 1) - start(index))).collect())
}

/// The numbers, and their scale and zero point.
pub(super) fn quantized_with_parameters(view: &View<'_>, _: &mut Sizes) -> Result<Outputs, Open> {
    Ok([view.dims(0)?, Dims::new(), Dims::new()].into_iter().collect())
}

/// The first input's dimensions for every output that the node has, at most two.
pub(super) fn alike(view: &View<'_>, _: &mut Sizes) -> Result<Outputs, Open> {
    let dims = view.dims(0)?;
    Ok((0..view.node.outputs.len().clamp(1, 2)).map(|_| dims.clone()).collect())
}

/// The first input's dimensions, and those of the moments: 1 from the axis on.
pub(super) fn with_moments(view: &View<'_>, _: &mut Sizes) -> Result<Outputs, Open> {
    let dims = view.dims(0)?;
    let axis = axis_of(view.int("axis"), dims.len())?;
    let moments: Dims =
        dims.iter().enumerate().map(|(at, &size)| if at < axis { size } else { Size::Known(1) }).collect();
    let more = view.node.outputs.len().saturating_sub(1).min(2);
    Ok([dims].into_iter().chain((0..more).map(|_| moments.clone())).collect())
}

pub(super) fn top_k(view: &View<'_>, sizes: &mut Sizes) -> Result<Outputs, Open> {
    let mut dims = view.dims(0)?;
    let at = axis_of(view.int("axis"), dims.len())?;
    let given = match view.attributes.integer("k") {
        Some(count) => Ok([count].into_iter().collect()),
        None => view.known(1),
    };
    dims[at] = match given {
        Ok(given) => {
            let &[count] = &given[..] else {
                return Err(ShapeError::Lists(format!("expected one integer, found {}", given.len())).into());
            };
            if count < 0 || dims[at].known().is_some_and(|size| count > size) {
                let reason = format!("{count} of the {} elements of axis {at}", shown(dims[at]));
                return Err(ShapeError::input(0, &dims, reason));
            }
            Size::Known(count)
        }
        Err(Open::Unknown) => sizes.fresh(),
        Err(refused) => return Err(refused),
    };
    Ok([dims.clone(), dims].into_iter().collect())
}

/// Each tuple of indices becomes the part of the data that it names: the axes after those that it indexes.
pub(super) fn gather_nd(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let (data, indices) = (view.dims(0)?, view.dims(1)?);
    let Some((depth, tuples)) = indices.split_last() else {
        return Err(ShapeError::input(1, &indices, "a scalar holds no tuples"));
    };
    let depth = depth.known().ok_or(Open::Unknown)?;
    let behind = usize::try_from(view.int("batch_dims").saturating_add(depth)).ok().and_then(|at| data.get(at..));
    let behind = behind.ok_or_else(|| {
        let (data, batch) = (ShapeError::extents(&data), view.int("batch_dims"));
        ShapeError::input(1, &indices, format!("they name no parts of {data} behind {batch} batch axes"))
    })?;
    Ok(tuples.iter().chain(behind).copied().collect())
}

/// The shape that the node has as an attribute.
pub(super) fn own(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    Ok(view.node.ints("shape").ok_or(Open::Unknown)?.iter().map(|&size| Size::Known(size)).collect())
}

/// A sum of inputs 0 and 3. The scale and the zero point of each follow it.
pub(super) fn quantized_sum(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    broadcast(&view.dims(0)?, &view.dims(3)?, sizes)
}

/// A number for each matrix of a stack.
pub(super) fn determinants(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let dims = view.dims(0)?;
    match &dims[..] {
        [stack @ .., rows, columns] if !differ(*rows, *columns) => Ok(stack.iter().copied().collect()),
        _ => Err(ShapeError::input(0, &dims, "no square matrices")),
    }
}

/// One loss for all targets or one for each, and the logarithms where they are wanted.
pub(super) fn losses(view: &View<'_>, _: &mut Sizes) -> Result<Outputs, Open> {
    let (scores, targets) = (view.dims(0)?, view.dims(1)?);
    let loss = if view.attributes.text("reduction") == "none" { targets } else { Dims::new() };
    let logarithms = view.node.op == "SoftmaxCrossEntropyLoss" && view.node.outputs.len() > 1;
    Ok([loss].into_iter().chain(logarithms.then_some(scores)).collect())
}

/// The named elements of the last axis; a single observation becomes a row.
pub(super) fn features(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let (dims, numbers) = (view.dims(0)?, view.dims(1)?);
    let count = sizes.product(&numbers);
    match &dims[..] {
        [] => Err(ShapeError::input(0, &dims, "a scalar has no features")),
        [_] => Ok([Size::Known(1), count].into_iter().collect()),
        [outer @ .., _] => Ok(outer.iter().copied().chain([count]).collect()),
    }
}

/// The targets of a tree ensemble for each row.
pub(super) fn targets(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let dims = view.dims(0)?;
    match dims[..] {
        [rows, _] => Ok([rows, Size::Known(view.int("n_targets"))].into_iter().collect()),
        _ => Err(ShapeError::input(0, &dims, "no rows of features")),
    }
}

/// A column for each n-gram, for one list or for several.
pub(super) fn n_grams(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let dims = view.dims(0)?;
    let columns = view.node.ints("ngram_indexes").unwrap_or_default().iter().max().map_or(0, |last| last + 1);
    match dims[..] {
        [_] => Ok(one(Size::Known(columns))),
        [rows, _] => Ok([rows, Size::Known(columns)].into_iter().collect()),
        _ => Err(ShapeError::input(0, &dims, "a list or lists are needed")),
    }
}
