//! Dimensions of outputs, for operators that do not slide windows (those are in [`spatial`](super::spatial)).

use super::{Dims, Fact, Size, Sizes, View, axis, spatial};
use crate::graph::heads::Heads;

/// Facts of the outputs in order, with their dimensions where these can be said. Missing ones are unknown.
pub(super) fn infer(view: &View<'_>, sizes: &mut Sizes) -> Option<Vec<Fact>> {
    if matches!(view.node.op.as_str(), "Split" | "LSTM" | "GRU" | "RNN" | "TopK" | "DynamicQuantizeLinear") {
        let outputs = many(view, sizes)?;
        return Some(outputs.into_iter().map(|dims| Fact { dims, ..Fact::default() }).collect());
    }
    let dims = first(view, sizes)?;
    Some(vec![Fact { dims: Some(dims), ..Fact::default() }])
}

fn copy(view: &View<'_>, input: usize) -> Option<Dims> {
    view.dims(input).map(|dims| dims.iter().copied().collect())
}

fn first(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let node = view.node;
    match node.domain.as_str() {
        "" => {}
        "kiln" if node.op == "Chain" || node.op == "QuantizedAdd" => return broadcast_all(view, sizes),
        "kiln" => {}
        _ => return None,
    }
    match node.op.as_str() {
        "Abs"
        | "BatchNormalization"
        | "Cast"
        | "CastLike"
        | "Ceil"
        | "Celu"
        | "Clip"
        | "Cos"
        | "CumSum"
        | "Dropout"
        | "Elu"
        | "Erf"
        | "Exp"
        | "Floor"
        | "Gelu"
        | "GroupNormalization"
        | "HardSigmoid"
        | "HardSwish"
        | "Hardmax"
        | "Identity"
        | "InstanceNormalization"
        | "IsInf"
        | "IsNaN"
        | "LRN"
        | "LayerNormalization"
        | "LeakyRelu"
        | "Log"
        | "LogSoftmax"
        | "LpNormalization"
        | "MeanVarianceNormalization"
        | "Mish"
        | "Neg"
        | "Not"
        | "PRelu"
        | "RMSNormalization"
        | "Reciprocal"
        | "Relu"
        | "ReverseSequence"
        | "Round"
        | "ScatterElements"
        | "ScatterND"
        | "Selu"
        | "Sigmoid"
        | "Sign"
        | "Sin"
        | "Softmax"
        | "Softplus"
        | "Softsign"
        | "Sqrt"
        | "Swish"
        | "Tan"
        | "Tanh"
        | "ThresholdedRelu"
        | "Trilu" => copy(view, 0),
        "Add" | "And" | "BitwiseAnd" | "BitwiseOr" | "Div" | "Equal" | "Greater" | "GreaterOrEqual" | "Less"
        | "LessOrEqual" | "Max" | "Mean" | "Min" | "Mod" | "Mul" | "Or" | "Pow" | "Sub" | "Sum" | "Where" | "Xor" => {
            broadcast_all(view, sizes)
        }
        "Shape" => {
            let count = super::elements::follow(view, sizes)?.len();
            Some([Size::Known(count as i64)].into_iter().collect())
        }
        "Size" => Some(Dims::new()),
        "QuantizeLinear" | "DequantizeLinear" => copy(view, 0),
        "MatMul" | "FusedMatMul" | "QuantizedMatMul" | "MatMulInteger" => matmul(view, sizes),
        "FusedAttention" => attention(view, sizes),
        "Gemm" => {
            let (a, b) = (view.dims(0)?, view.dims(1)?);
            let row = *a.get(usize::from(node.int("transA", 0) != 0))?;
            let column = *b.get(usize::from(node.int("transB", 0) == 0))?;
            (a.len() == 2 && b.len() == 2).then(|| [row, column].into_iter().collect())
        }
        "Transpose" => {
            let dims = view.dims(0)?;
            match node.ints("perm") {
                None => Some(dims.iter().rev().copied().collect()),
                Some(perm) if perm.len() == dims.len() => {
                    perm.iter().map(|&place| dims.get(usize::try_from(place).ok()?).copied()).collect()
                }
                Some(_) => None,
            }
        }
        "Reshape" => reshape(view, sizes),
        "Flatten" => {
            let dims = view.dims(0)?;
            let at = node.int("axis", 1);
            let at = if at == dims.len() as i64 { dims.len() } else { axis(at, dims.len())? };
            Some([sizes.product(&dims[..at]), sizes.product(&dims[at..])].into_iter().collect())
        }
        "Squeeze" => {
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
        "Unsqueeze" => {
            let dims = view.dims(0)?;
            let axes = view.ints("axes", 1)??;
            let rank = dims.len().checked_add(axes.len()).filter(|&rank| rank <= 32)?;
            let new: Vec<usize> = axes.iter().map(|&a| axis(a, rank)).collect::<Option<_>>()?;
            let mut old = dims.iter().copied();
            (0..rank).map(|place| if new.contains(&place) { Some(Size::Known(1)) } else { old.next() }).collect()
        }
        "Concat" => {
            let mut dims = copy(view, 0)?;
            let at = axis(node.int("axis", 1), dims.len())?;
            for index in 1..node.inputs.len() {
                let other = view.dims(index).filter(|other| other.len() == dims.len())?;
                dims[at] = sizes.add(dims[at], other[at]);
            }
            Some(dims)
        }
        "Gather" => {
            let (data, indices) = (view.dims(0)?, view.dims(1)?);
            let at = axis(node.int("axis", 0), data.len())?;
            Some([&data[..at], indices, &data[at + 1..]].concat().into_iter().collect())
        }
        "GatherElements" => copy(view, 1),
        "Expand" => {
            let target: Dims = view.elements(1)?.iter().copied().collect();
            broadcast(view.dims(0)?, &target, sizes)
        }
        "ConstantOfShape" => Some(view.elements(0)?.iter().copied().collect()),
        "Tile" => {
            let (dims, repeats) = (view.dims(0)?, view.elements(1)?);
            (dims.len() == repeats.len()).then_some(())?;
            Some(dims.iter().zip(repeats).map(|(&dim, &repeat)| sizes.mul(dim, repeat)).collect())
        }
        "Range" => Some([sizes.fresh()].into_iter().collect()),
        "Slice" => slice(view, sizes),
        "OneHot" => {
            let indices = view.dims(0)?;
            let rank = indices.len() + 1;
            let at = axis(node.int("axis", -1), rank)?;
            let mut dims: Dims = indices.iter().copied().collect();
            dims.insert(at, sizes.fresh());
            Some(dims)
        }
        op if op.starts_with("Reduce") || op.starts_with("Arg") => reduce(view),
        _ => spatial::infer(view, sizes),
    }
}

fn broadcast_all(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
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

fn matmul(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
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
fn attention(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let rank = usize::try_from(view.node.int("rank", 4)).ok()?;
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

fn reshape(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let target = view.elements(1)?;
    let copies_zeros = view.node.int("allowzero", 0) == 0;
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

fn slice(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
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

fn reduce(view: &View<'_>) -> Option<Dims> {
    let node = view.node;
    let dims = view.dims(0)?;
    let keep = node.int("keepdims", 1) != 0;
    let gone: Vec<usize> = if node.op.starts_with("Arg") {
        vec![axis(node.int("axis", 0), dims.len())?]
    } else {
        match view.ints("axes", 1)? {
            Some(axes) if !axes.is_empty() => axes.iter().map(|&a| axis(a, dims.len())).collect::<Option<_>>()?,
            _ if node.int("noop_with_empty_axes", 0) != 0 => Vec::new(),
            _ => (0..dims.len()).collect(),
        }
    };
    let places = dims.iter().enumerate();
    Some(if keep {
        places.map(|(place, &size)| if gone.contains(&place) { Size::Known(1) } else { size }).collect()
    } else {
        places.filter(|(place, _)| !gone.contains(place)).map(|(_, &size)| size).collect()
    })
}

/// Operators with several outputs that have dimensions worth knowing.
fn many(view: &View<'_>, sizes: &mut Sizes) -> Option<Vec<Option<Dims>>> {
    let node = view.node;
    match node.op.as_str() {
        "Split" => {
            let dims = view.dims(0)?;
            let at = axis(node.int("axis", 0), dims.len())?;
            let parts = view.ints("split", 1)?;
            let count = node.outputs.len() as i64;
            let outputs = (0..node.outputs.len()).map(|n| {
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
        "DynamicQuantizeLinear" => Some(vec![copy(view, 0), Some(Dims::new()), Some(Dims::new())]),
        "TopK" => {
            let mut dims: Dims = view.dims(0)?.iter().copied().collect();
            let at = axis(node.int("axis", -1), dims.len())?;
            dims[at] = sizes.fresh();
            Some(vec![Some(dims.clone()), Some(dims)])
        }
        _ => {
            // Recurrent: X is [steps, batch, size]; layout 1 swaps the first two everywhere.
            let x = view.dims(0).filter(|x| x.len() == 3 && node.int("layout", 0) == 0)?;
            let directions = Size::Known(if node.string("direction", "forward") == "bidirectional" { 2 } else { 1 });
            let hidden = Size::Known(node.int("hidden_size", 0)).known().filter(|&size| size > 0).map(Size::Known)?;
            let state = || Some([directions, x[1], hidden].into_iter().collect());
            Some(vec![Some([x[0], directions, x[1], hidden].into_iter().collect()), state(), state()])
        }
    }
}
