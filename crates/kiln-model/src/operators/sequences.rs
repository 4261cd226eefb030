//! Dimensions of outputs of operators over sequences: attention, recurrent layers, and other operators with a state.

use smallvec::SmallVec;

use super::error::{Open, ShapeError};
use super::size::{Size, Sizes};
use super::view::{Dims, Outputs, View};
use crate::heads::Heads;

/// The batches, heads, positions and features of all operands, read in the order of each operand's axes and broadcast,
/// in the order of the result's axes.
pub(super) fn fused_attention(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let rank = usize::try_from(view.int("rank")).map_err(|_| Open::Unknown)?;
    let apart = |index: usize, attribute: &str| -> Result<[Size; 4], Open> {
        let (dims, heads) = (view.dims(index)?, Heads::of(&view.attributes, attribute).ok_or(Open::Unknown)?);
        let places = heads.places(dims.len());
        let places = places.ok_or_else(|| ShapeError::input(index, &dims, "heads have no place there"))?;
        let mut sizes = [Size::Known(1); 4];
        for (size, place) in sizes.iter_mut().zip(places) {
            *size = place.map_or(*size, |axis| dims[axis]);
        }
        if heads == Heads::Joined {
            let count = view.int(&format!("{attribute}_heads"));
            let width = sizes[3].known().and_then(|all| all.checked_div(count)).ok_or(Open::Unknown)?;
            (sizes[1], sizes[3]) = (Size::Known(count), Size::Known(width));
        }
        Ok(sizes)
    };
    let (query, key, value) = (apart(0, "query")?, apart(1, "key")?, apart(2, "value")?);
    let mut lead = [query[0], query[1], query[2]];
    for other in [key, value] {
        (lead[0], lead[1]) = (sizes.broadcast(lead[0], other[0]), sizes.broadcast(lead[1], other[1]));
    }
    // Masks and conditions may have rows of their own.
    for index in (3..5).filter(|&index| view.has(index)) {
        let dims = view.dims(index)?;
        let missing = rank.checked_sub(dims.len());
        let missing = missing.ok_or_else(|| ShapeError::input(index, &dims, format!("a mask of rank {rank}")))?;
        for (size, place) in lead.iter_mut().zip(Heads::First.places(rank).ok_or(Open::Unknown)?) {
            if let Some(axis) = place.and_then(|axis| axis.checked_sub(missing)) {
                *size = sizes.broadcast(*size, dims[axis]);
            }
        }
    }
    let ([batch, heads, rows], size) = (lead, value[3]);
    Ok(match Heads::of(&view.attributes, "output").ok_or(Open::Unknown)? {
        Heads::Behind => [batch, rows, heads, size].into_iter().collect(),
        Heads::Joined => {
            let width = heads.known().zip(size.known()).and_then(|(heads, size)| heads.checked_mul(size));
            [batch, rows, Size::Known(width.ok_or(Open::Unknown)?)].into_iter().collect()
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

/// X is [steps, batch, size]; layout 1 has the batch first, in the outputs too. The weights of the states are
/// [directions, gates * units, units].
pub(super) fn recurrent(view: &View<'_>, _: &mut Sizes) -> Result<Outputs, Open> {
    let x = view.dims(0)?;
    if let Some(missing) = (1..3).find(|&weights| !view.has(weights)) {
        return Err(ShapeError::Missing(missing).into());
    }
    let &[outer, inner, _] = &x[..] else {
        return Err(ShapeError::input(0, &x, "expected rank 3"));
    };
    let units = match view.dims(2) {
        Ok(weights) => match weights[..] {
            [_, _, units] => units,
            _ => return Err(ShapeError::input(2, &weights, "expected rank 3")),
        },
        Err(Open::Unknown) => Size::Known(Some(view.int("hidden_size")).filter(|&size| size > 0).ok_or(Open::Unknown)?),
        Err(refused) => return Err(refused),
    };
    let directions = Size::Known(if view.attributes.text("direction") == "bidirectional" { 2 } else { 1 });
    let (all, state): ([Size; 4], [Size; 3]) = match view.int("layout") {
        0 => ([outer, directions, inner, units], [directions, inner, units]),
        _ => ([outer, inner, directions, units], [outer, directions, units]),
    };
    let states = if view.node.op == "LSTM" { 2 } else { 1 };
    let states = (0..states).map(|_| state.into_iter().collect());
    Ok([all.into_iter().collect()].into_iter().chain(states).collect())
}

/// Queries, keys or values: [batch, heads, positions, size].
fn in_heads(view: &View<'_>, input: usize, heads: Option<i64>, sizes: &mut Sizes) -> Result<[Size; 4], Open> {
    let dims = view.dims(input)?;
    match (&dims[..], heads) {
        (&[batch, heads, positions, size], _) => Ok([batch, heads, positions, size]),
        (&[batch, positions, width], Some(heads)) => {
            let heads = Size::Known(heads);
            Ok([batch, heads, positions, sizes.div(width, heads)])
        }
        (_, heads) => {
            let dims = ShapeError::extents(&dims);
            Err(ShapeError::Lists(format!("no {heads:?} heads in shape {dims} of input {input}")).into())
        }
    }
}

/// The result in the form of the queries, the keys and values appended to those of the cache, and the scores.
pub(super) fn attention(view: &View<'_>, sizes: &mut Sizes) -> Result<Outputs, Open> {
    let of = |name: &str| view.attributes.integer(name).filter(|&heads| heads > 0);
    let (queries, others) = (of("q_num_heads"), of("kv_num_heads"));
    let packed = view.dims(0)?.len() == 3;
    let [batch, heads, positions, _] = in_heads(view, 0, queries, sizes)?;
    let (key, value) = (in_heads(view, 1, others, sizes)?, in_heads(view, 2, others, sizes)?);
    let keys = match view.has(4) {
        true => match view.dims(4)?[..] {
            [_, _, past, _] => sizes.add(past, key[2]),
            _ => return Err(ShapeError::input(4, &view.dims(4)?, "expected rank 4")),
        },
        false => key[2],
    };
    let result: Dims = match packed {
        true => [batch, positions, sizes.mul(heads, value[3])].into_iter().collect(),
        false => [batch, heads, positions, value[3]].into_iter().collect(),
    };
    let cached = |of: [Size; 4]| [of[0], of[1], keys, of[3]].into_iter().collect();
    let scores = [batch, heads, positions, keys].into_iter().collect();
    let all: SmallVec<[Dims; 4]> = [result, cached(key), cached(value), scores].into_iter().collect();
    Ok(all.into_iter().take(view.node.outputs.len().max(1)).collect())
}

/// The result in the form of the input, and the state for the next part of the sequence.
pub(super) fn causal_conv(view: &View<'_>, sizes: &mut Sizes) -> Result<Outputs, Open> {
    let (x, weights) = (view.dims(0)?, view.dims(1)?);
    let (&[batch, channels, _], &[_, _, taps]) = (&x[..], &weights[..]) else {
        let (x, weights) = (ShapeError::extents(&x), ShapeError::extents(&weights));
        return Err(ShapeError::Lists(format!("weights of {weights} over {x}")).into());
    };
    let state = [batch, channels, sizes.sub(taps, Size::Known(1))].into_iter().collect();
    Ok([x, state].into_iter().collect())
}

/// The result, and a matrix of keys by values for each head.
pub(super) fn linear_attention(view: &View<'_>, sizes: &mut Sizes) -> Result<Outputs, Open> {
    let (query, value) = (view.dims(0)?, view.dims(2)?);
    let (&[batch, steps, width], &[_, _, values]) = (&query[..], &value[..]) else {
        let (query, value) = (ShapeError::extents(&query), ShapeError::extents(&value));
        return Err(ShapeError::Lists(format!("queries of {query}, values of {value}")).into());
    };
    let (queries, heads) = (Size::Known(view.int("q_num_heads")), Size::Known(view.int("kv_num_heads")));
    let (size, each) = (sizes.div(width, queries), sizes.div(values, heads));
    let result = [batch, steps, sizes.mul(queries, each)].into_iter().collect();
    Ok([result, [batch, heads, size, each].into_iter().collect()].into_iter().collect())
}
