//! Dimensions of outputs of a decoder's operators with a state besides attention, and of branches of features.

use super::error::{Open, ShapeError};
use super::size::{Size, Sizes};
use super::view::{Dims, Outputs, View};

/// Positions that a convolution keeps: one less than it has taps, each `dilation` positions from the next.
fn kept(view: &View<'_>, sizes: &mut Sizes, taps: Size) -> Size {
    let others = sizes.sub(taps, Size::Known(1));
    sizes.mul(others, Size::Known(view.int("dilation")))
}

/// The result, and the state of each sequence; several states where a window of positions is kept.
pub(super) fn causal_conv(view: &View<'_>, sizes: &mut Sizes) -> Result<Outputs, Open> {
    let (x, weights) = (view.dims(0)?, view.dims(1)?);
    let wrong = || {
        let (x, weights) = (ShapeError::extents(&x), ShapeError::extents(&weights));
        Err(ShapeError::Lists(format!("weights of {weights} over {x}")).into())
    };
    let &[_, _, taps] = &weights[..] else { return wrong() };
    let kept = kept(view, sizes, taps);
    let state: Dims = match &x[..] {
        [batch, _, last @ ..] if view.int("channels_last") != 0 && !last.is_empty() => {
            [*batch, kept].into_iter().chain(last.iter().copied()).collect()
        }
        &[batch, channels, _] if view.int("channels_last") == 0 => [batch, channels, kept].into_iter().collect(),
        _ => return wrong(),
    };
    let window = Some(Size::Known(view.int("state_window"))).filter(|_| view.int("state_window") > 0);
    let state = window.into_iter().chain(state).collect();
    Ok([x, state].into_iter().collect())
}

/// The result, the states, and the first inputs of each sequence.
pub(super) fn packed_conv(view: &View<'_>, sizes: &mut Sizes) -> Result<Outputs, Open> {
    let (x, weights, ends) = (view.dims(0)?, view.dims(1)?, view.dims(2)?);
    let (&[_, channels], &[_, _, taps], &[ends]) = (&x[..], &weights[..], &ends[..]) else {
        let [x, weights, ends] = [&x, &weights, &ends].map(|dims| ShapeError::extents(dims));
        return Err(ShapeError::Lists(format!("weights of {weights} over {x}, whose sequences end at {ends}")).into());
    };
    let batch = sizes.sub(ends, Size::Known(1));
    let state = [batch, channels, kept(view, sizes, taps)].into_iter().collect();
    let first = [batch, Size::Known(view.int("state_update_capacity")), channels].into_iter().collect();
    Ok([x, state, first].into_iter().take(view.node.outputs.len()).collect())
}

/// The result, the states [sequences, heads of values, size of values, size of keys], and the transitions of the first
/// positions of each sequence.
pub(super) fn delta_net(view: &View<'_>, sizes: &mut Sizes) -> Result<Outputs, Open> {
    let query = view.dims(0)?;
    let lead = query.len().saturating_sub(if view.has(1) { 2 } else { 1 });
    let wrong = || ShapeError::input(0, &query, "expected positions, or sequences and positions");
    if !(1..=2).contains(&lead) {
        return Err(wrong());
    }
    let [keys, heads, value, key] = match view.has(1) {
        true => {
            let values = view.dims(2)?;
            match values[..] {
                [.., heads, value] if values.len() == query.len() => [query[lead], heads, value, query[lead + 1]],
                _ => return Err(ShapeError::input(2, &values, "expected heads of values")),
            }
        }
        false => {
            let state = view.dims(6)?;
            let &[_, heads, value, key] = &state[..] else {
                return Err(ShapeError::input(6, &state, "expected rank 4"));
            };
            let values = sizes.mul(heads, value);
            let others = sizes.sub(query[lead], values);
            let pair = sizes.mul(Size::Known(2), key);
            [sizes.div(others, pair), heads, value, key]
        }
    };
    let batch = match (view.has(3), lead) {
        (true, _) => match view.dims(3)?[..] {
            [ends] => sizes.sub(ends, Size::Known(1)),
            _ => return Err(ShapeError::input(3, &view.dims(3)?, "expected rank 1")),
        },
        (false, 2) => query[0],
        (false, _) => match view.dims(6)?.first() {
            Some(&batch) => batch,
            None => return Err(wrong()),
        },
    };
    let result = query[..lead].iter().copied().chain([heads, value]).collect();
    let state = [batch, heads, value, key].into_iter().collect();
    let mut outputs: Outputs = [result, state].into_iter().take(view.node.outputs.len()).collect();
    if view.node.outputs.len() > 2 {
        let of_keys = view.has(4) && view.dims(4)?.len() == lead + 2;
        let decay = if of_keys { sizes.mul(heads, key) } else { heads };
        let (of_keys, of_values) = (sizes.mul(keys, key), sizes.mul(heads, value));
        let transition = sizes.add(decay, of_keys);
        let transition = sizes.add(transition, of_values);
        let capacity = Size::Known(view.int("state_update_capacity"));
        outputs.push([batch, sizes.mul(capacity, transition)].into_iter().collect());
    }
    Ok(outputs)
}

/// The result [sequences, positions, heads * size], and the caches as they are given.
pub(super) fn sparse_attention(view: &View<'_>, sizes: &mut Sizes) -> Result<Outputs, Open> {
    let query = view.dims(0)?;
    let &[batch, positions, width] = &query[..] else {
        return Err(ShapeError::input(0, &query, "expected rank 3"));
    };
    // Without keys, queries, keys and values are one tensor.
    let hidden = if view.has(1) {
        width
    } else {
        let [heads, kv_heads] = ["num_heads", "kv_num_heads"].map(|name| view.int(name));
        let all = heads.saturating_add(kv_heads.saturating_mul(2));
        let size = sizes.div(width, Size::Known(all));
        sizes.mul(size, Size::Known(heads))
    };
    let result = [batch, positions, hidden].into_iter().collect();
    Ok([result, view.dims(3)?, view.dims(4)?].into_iter().collect())
}

/// One branch of several: branches are an axis before the features, or parts of the last axis.
pub(super) fn one_branch(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let given = view.dims(0)?;
    let mut dims = given.clone();
    match (dims.pop(), view.int("num_branches")) {
        (Some(last), branches @ 1..) => dims.push(sizes.div(last, Size::Known(branches))),
        (Some(last), _) if dims.pop().is_some() => dims.push(last),
        _ => return Err(ShapeError::input(0, &given, "no branches")),
    }
    Ok(dims)
}

/// The gated values, and these normalised.
pub(super) fn twice(view: &View<'_>, _: &mut Sizes) -> Result<Outputs, Open> {
    let dims = view.dims(0)?;
    Ok(std::iter::repeat_n(dims, view.node.outputs.len()).collect())
}

/// Numbers of all experts for each token.
pub(super) fn router(view: &View<'_>, sizes: &mut Sizes) -> Result<Outputs, Open> {
    let (rows, experts) = (view.dims(0)?, view.dims(1)?);
    let (Some((_, lead)), &[experts]) = (rows.split_last(), &experts[..]) else {
        let (rows, experts) = (ShapeError::extents(&rows), ShapeError::extents(&experts));
        return Err(ShapeError::Lists(format!("scores of {rows} with a bias of {experts}")).into());
    };
    let dims: Dims = [sizes.product(lead), experts].into_iter().collect();
    Ok(std::iter::repeat_n(dims, view.node.outputs.len()).collect())
}
