//! Dimensions of outputs, for operators that do not slide windows (those are in [`spatial`](super::spatial)).

use super::size::{Size, Sizes};
use super::view::{Dims, View, axis};
use crate::graph::heads::Heads;

fn copy(view: &View<'_>, input: usize) -> Option<Dims> {
    view.dims(input).map(|dims| dims.iter().copied().collect())
}

fn one(size: Size) -> Option<Dims> {
    Some([size].into_iter().collect())
}

pub(super) fn scalar(_: &View<'_>, _: &mut Sizes) -> Option<Dims> {
    Some(Dims::new())
}

/// As many numbers as the operator gives dimensions.
pub(super) fn shape(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let count = super::elements::shape(view, sizes)?.len();
    one(Size::Known(count as i64))
}

pub(super) fn gemm(view: &View<'_>, _: &mut Sizes) -> Option<Dims> {
    let (a, b) = (view.dims(0)?, view.dims(1)?);
    let row = *a.get(usize::from(view.int("transA") != 0))?;
    let column = *b.get(usize::from(view.int("transB") == 0))?;
    (a.len() == 2 && b.len() == 2).then(|| [row, column].into_iter().collect())
}

pub(super) fn transpose(view: &View<'_>, _: &mut Sizes) -> Option<Dims> {
    let dims = view.dims(0)?;
    match view.node.ints("perm") {
        None => Some(dims.iter().rev().copied().collect()),
        Some(perm) if perm.len() == dims.len() => {
            perm.iter().map(|&place| dims.get(usize::try_from(place).ok()?).copied()).collect()
        }
        Some(_) => None,
    }
}

pub(super) fn flatten(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let dims = view.dims(0)?;
    let at = view.int("axis");
    let at = if at == dims.len() as i64 { dims.len() } else { axis(at, dims.len())? };
    Some([sizes.product(&dims[..at]), sizes.product(&dims[at..])].into_iter().collect())
}

pub(super) fn squeeze(view: &View<'_>, _: &mut Sizes) -> Option<Dims> {
    let dims = view.dims(0)?;
    let gone: Vec<usize> = match view.ints("axes", 1)? {
        Some(axes) => axes.iter().map(|&a| axis(a, dims.len())).collect::<Option<_>>()?,
        // Without axes every 1 goes, so every size has to be known to be 1 or not.
        None => {
            let known: Vec<i64> = dims.iter().map(|size| size.known()).collect::<Option<_>>()?;
            known.iter().enumerate().filter(|(_, size)| **size == 1).map(|(place, _)| place).collect()
        }
    };
    Some(dims.iter().enumerate().filter(|(place, _)| !gone.contains(place)).map(|(_, &size)| size).collect())
}

pub(super) fn unsqueeze(view: &View<'_>, _: &mut Sizes) -> Option<Dims> {
    let dims = view.dims(0)?;
    let axes = view.ints("axes", 1)??;
    let rank = dims.len().checked_add(axes.len()).filter(|&rank| rank <= 32)?;
    let new: Vec<usize> = axes.iter().map(|&a| axis(a, rank)).collect::<Option<_>>()?;
    let mut old = dims.iter().copied();
    (0..rank).map(|place| if new.contains(&place) { Some(Size::Known(1)) } else { old.next() }).collect()
}

pub(super) fn concat(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let mut dims = copy(view, 0)?;
    let at = axis(view.int("axis"), dims.len())?;
    for index in 1..view.node.inputs.len() {
        let other = view.dims(index).filter(|other| other.len() == dims.len())?;
        dims[at] = sizes.add(dims[at], other[at]);
    }
    Some(dims)
}

pub(super) fn gather(view: &View<'_>, _: &mut Sizes) -> Option<Dims> {
    let (data, indices) = (view.dims(0)?, view.dims(1)?);
    let at = axis(view.int("axis"), data.len())?;
    Some([&data[..at], indices, &data[at + 1..]].concat().into_iter().collect())
}

pub(super) fn expand(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let target: Dims = view.elements(1)?.iter().copied().collect();
    broadcast(view.dims(0)?, &target, sizes)
}

pub(super) fn constant_of_shape(view: &View<'_>, _: &mut Sizes) -> Option<Dims> {
    Some(view.elements(0)?.iter().copied().collect())
}

pub(super) fn tile(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let (dims, repeats) = (view.dims(0)?, view.elements(1)?);
    (dims.len() == repeats.len()).then_some(())?;
    Some(dims.iter().zip(repeats).map(|(&dim, &repeat)| sizes.mul(dim, repeat)).collect())
}

/// One dimension of a size that the contents decide.
pub(super) fn list(_: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    one(sizes.fresh())
}

pub(super) fn one_hot(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let indices = view.dims(0)?;
    let rank = indices.len() + 1;
    let at = axis(view.int("axis"), rank)?;
    let mut dims: Dims = indices.iter().copied().collect();
    dims.insert(at, sizes.fresh());
    Some(dims)
}

/// What all inputs broadcast to.
pub(super) fn broadcast_all(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let mut dims = copy(view, 0)?;
    for index in 1..view.node.inputs.len() {
        dims = broadcast(&dims, view.dims(index)?, sizes)?;
    }
    Some(dims)
}

fn broadcast(a: &[Size], b: &[Size], sizes: &mut Sizes) -> Option<Dims> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let lead = long.len() - short.len();
    let tail = long[lead..].iter().zip(short).map(|(&x, &y)| sizes.broadcast(x, y));
    Some(long[..lead].iter().copied().chain(tail).collect())
}

pub(super) fn matmul(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let swapped = |dims: &[Size], attribute: &str| -> Dims {
        let mut dims: Dims = dims.iter().copied().collect();
        if view.node.int(attribute, 0) != 0 && dims.len() >= 2 {
            let last = dims.len() - 1;
            dims.swap(last, last - 1);
        }
        dims
    };
    let (a, b) = (swapped(view.dims(0)?, "trans_a"), swapped(view.dims(1)?, "trans_b"));
    match (a.len(), b.len()) {
        (0, _) | (_, 0) => None,
        (1, 1) => Some(Dims::new()),
        (1, rank) => Some(b[..rank - 2].iter().chain(&b[rank - 1..]).copied().collect()),
        (rank, 1) => Some(a[..rank - 1].iter().copied().collect()),
        (x, y) => {
            let mut dims = broadcast(&a[..x - 2], &b[..y - 2], sizes)?;
            dims.extend([a[x - 2], b[y - 1]]);
            Some(dims)
        }
    }
}

/// Batch, head, position and feature of each operand, wherever they lie, broadcast, and put where the result has them.
pub(super) fn attention(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let rank = usize::try_from(view.int("rank")).ok()?;
    let apart = |index: usize, attribute: &str| -> Option<[Size; 4]> {
        let (dims, heads) = (view.dims(index)?, Heads::of(view.node, attribute)?);
        let mut sizes = [Size::Known(1); 4];
        for (size, place) in sizes.iter_mut().zip(heads.places(dims.len())?) {
            *size = place.map_or(*size, |axis| dims[axis]);
        }
        if heads == Heads::Joined {
            let count = view.node.int(&format!("{attribute}_heads"), 1);
            (sizes[1], sizes[3]) = (Size::Known(count), Size::Known(sizes[3].known()?.checked_div(count)?));
        }
        Some(sizes)
    };
    let (query, key, value) = (apart(0, "query")?, apart(1, "key")?, apart(2, "value")?);
    let mut lead = [query[0], query[1], query[2]];
    for other in [key, value] {
        (lead[0], lead[1]) = (sizes.broadcast(lead[0], other[0]), sizes.broadcast(lead[1], other[1]));
    }
    // Masks and conditions may have rows of their own.
    for index in (3..5).filter(|&index| view.has(index)) {
        let dims = view.dims(index)?;
        let missing = rank.checked_sub(dims.len())?;
        for (size, place) in lead.iter_mut().zip(Heads::First.places(rank)?) {
            if let Some(axis) = place.and_then(|axis| axis.checked_sub(missing)) {
                *size = sizes.broadcast(*size, dims[axis]);
            }
        }
    }
    let ([batch, heads, rows], size) = (lead, value[3]);
    Some(match Heads::of(view.node, "output")? {
        Heads::Behind => [batch, rows, heads, size].into_iter().collect(),
        Heads::Joined => {
            let width = heads.known()?.checked_mul(size.known()?)?;
            [batch, rows, Size::Known(width)].into_iter().collect()
        }
        _ => [batch, heads, rows, size]
            .into_iter()
            .enumerate()
            .filter(|&(axis, _)| match rank {
                4 => true,
                3 => axis != 1,
                _ => axis > 1,
            })
            .map(|(_, size)| size)
            .collect(),
    })
}

pub(super) fn reshape(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let target = view.elements(1)?;
    let copies_zeros = view.int("allowzero") == 0;
    let mut dims = Dims::new();
    let mut rest = None;
    for (place, &size) in target.iter().enumerate() {
        match size {
            Size::Known(0) if copies_zeros => dims.push(*view.dims(0)?.get(place)?),
            Size::Known(-1) if rest.is_none() => {
                rest = Some(place);
                dims.push(Size::Known(1));
            }
            Size::Known(negative) if negative < 0 => return None,
            size => dims.push(size),
        }
    }
    if let Some(place) = rest {
        let others: Dims =
            dims.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, &size)| size).collect();
        dims[place] = match view.dims(0) {
            Some(from) => sizes.ratio(from, &others),
            None => sizes.fresh(),
        };
    }
    Some(dims)
}

pub(super) fn slice(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let mut dims = copy(view, 0)?;
    let (starts, ends) = (view.ints("starts", 1), view.ints("ends", 2));
    let axes: Vec<usize> = match view.ints("axes", 3)? {
        Some(axes) => axes.iter().map(|&a| axis(a, dims.len())).collect::<Option<_>>()?,
        None => (0..view.dims(1).map_or_else(
            || view.node.ints("starts").map(<[i64]>::len),
            |d| usize::try_from(d.first()?.known()?).ok(),
        )?)
            .collect(),
    };
    let steps = view.ints("steps", 4);
    for (n, &at) in axes.iter().enumerate() {
        let start = starts.as_ref().and_then(|s| s.as_ref()?.get(n).copied());
        let end = ends.as_ref().and_then(|e| e.as_ref()?.get(n).copied());
        let step = match &steps {
            Some(None) => Some(1),
            Some(Some(steps)) => steps.get(n).copied(),
            None => None,
        };
        let size = dims.get_mut(at)?;
        *size = match (start, end, step, *size) {
            // Everything, in the form that exporters write it.
            (Some(0), Some(end), Some(1), size) if end >= i64::from(i32::MAX) => size,
            (Some(start), Some(end), Some(1), Size::Known(size)) => {
                let at = |i: i64| (if i < 0 { i.saturating_add(size) } else { i }).clamp(0, size);
                Size::Known((at(end) - at(start)).max(0))
            }
            _ => sizes.fresh(),
        };
    }
    Some(dims)
}

/// A reduction along one axis.
pub(super) fn reduce_axis(view: &View<'_>, _: &mut Sizes) -> Option<Dims> {
    let dims = view.dims(0)?;
    reduced(view, dims, &[axis(view.int("axis"), dims.len())?])
}

/// A reduction along a list of axes.
pub(super) fn reduce(view: &View<'_>, _: &mut Sizes) -> Option<Dims> {
    let dims = view.dims(0)?;
    let gone: Vec<usize> = match view.ints("axes", 1)? {
        Some(axes) if !axes.is_empty() => axes.iter().map(|&a| axis(a, dims.len())).collect::<Option<_>>()?,
        _ if view.int("noop_with_empty_axes") != 0 => Vec::new(),
        _ => (0..dims.len()).collect(),
    };
    reduced(view, dims, &gone)
}

fn reduced(view: &View<'_>, dims: &[Size], gone: &[usize]) -> Option<Dims> {
    let places = dims.iter().enumerate();
    Some(if view.int("keepdims") != 0 {
        places.map(|(place, &size)| if gone.contains(&place) { Size::Known(1) } else { size }).collect()
    } else {
        places.filter(|(place, _)| !gone.contains(place)).map(|(_, &size)| size).collect()
    })
}

pub(super) fn split(view: &View<'_>, sizes: &mut Sizes) -> Option<Vec<Option<Dims>>> {
    let dims = view.dims(0)?;
    let at = axis(view.int("axis"), dims.len())?;
    let parts = view.ints("split", 1)?;
    let count = view.node.outputs.len() as i64;
    let outputs = (0..view.node.outputs.len()).map(|n| {
        let mut dims: Dims = dims.iter().copied().collect();
        dims[at] = match (&parts, dims[at]) {
            (Some(parts), _) => Size::Known(*parts.get(n)?),
            (None, Size::Known(size)) if size % count == 0 => Size::Known(size / count),
            _ => sizes.fresh(),
        };
        Some(dims)
    });
    Some(outputs.collect())
}

/// The numbers, and their scale and zero point.
pub(super) fn quantized_with_parameters(view: &View<'_>, _: &mut Sizes) -> Option<Vec<Option<Dims>>> {
    Some(vec![copy(view, 0), Some(Dims::new()), Some(Dims::new())])
}

pub(super) fn top_k(view: &View<'_>, sizes: &mut Sizes) -> Option<Vec<Option<Dims>>> {
    let mut dims = copy(view, 0)?;
    let at = axis(view.int("axis"), dims.len())?;
    dims[at] = sizes.fresh();
    Some(vec![Some(dims.clone()), Some(dims)])
}

/// X is [steps, batch, size]; layout 1 swaps the first two everywhere.
pub(super) fn recurrent(view: &View<'_>, _: &mut Sizes) -> Option<Vec<Option<Dims>>> {
    let x = view.dims(0).filter(|x| x.len() == 3 && view.int("layout") == 0)?;
    let directions = Size::Known(if view.attributes.text("direction") == "bidirectional" { 2 } else { 1 });
    let hidden = Size::Known(view.int("hidden_size")).known().filter(|&size| size > 0).map(Size::Known)?;
    let state = || Some([directions, x[1], hidden].into_iter().collect());
    Some(vec![Some([x[0], directions, x[1], hidden].into_iter().collect()), state(), state()])
}
