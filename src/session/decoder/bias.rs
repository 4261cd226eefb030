//! Biases that a model adds to the scores of attention by the distance of two positions, as T5 does.
//!
//! The graph computes it from the length of the past, for all keys of a step. Here it is computed once, for the last
//! position of a cache's room: that row has every distance, and a step at an earlier position reads its end. This is
//! the same where the bias depends on the distance alone, which is tested at some lengths.

use std::sync::Arc;

use kiln_model::ir::{Attr, Dim, Graph, ValueId, ValueInfo};
use kiln_tensor::{BufferPool, DType, Tensor, TensorSpec};

use super::DecoderError;
use super::rewrite::{OF_PAST, OF_TOTAL, drop_unread, refused};
use crate::session::{LoadClock, RunOptions, Session, SessionOptions};

/// Positions at which a row is compared with the end of a longer one: on both sides of the ends of buckets of
/// distances.
const TRIED: [usize; 14] = [1, 2, 3, 4, 8, 9, 16, 17, 33, 64, 128, 129, 130, 257];

/// The positions of that longer one.
const LONG: usize = 300;

/// A bias of a graph.
pub(super) struct Found {
    /// The input of the rewritten graph that replaces it, [sequences, heads, 1, room].
    pub(super) name: String,
    value: ValueId,
    /// The graph that computes only the bias.
    graph: Graph,
}

impl Found {
    /// The bias of a graph that computes nothing else.
    pub(super) fn of(name: String, graph: Graph) -> Option<Found> {
        let &[value] = &graph.outputs[..] else { return None };
        Some(Found { name, value, graph })
    }

    /// The input, and the graph that computes it.
    pub(super) fn parts(&self) -> (String, Graph) {
        (self.name.clone(), self.graph.clone())
    }
}

/// Whether a value depends only on the shapes of inputs and on constants.
pub(super) fn follows_from_shapes(graph: &Graph, value: ValueId) -> bool {
    let producers = graph.producers();
    let (mut open, mut is_seen) = (vec![value], vec![false; graph.values.len()]);
    while let Some(value) = open.pop() {
        if graph.constants.contains_key(&value) || std::mem::replace(&mut is_seen[value.index()], true) {
            continue;
        }
        let Some(place) = producers[value.index()] else { return false };
        let node = &graph.nodes[place];
        let has_body = node.attrs.values().any(|attr| matches!(attr, Attr::Graph(_)));
        if has_body || !node.is_repeatable() {
            return false;
        }
        if !node.is("Shape") && !node.is("Size") {
            open.extend(node.inputs.iter().flatten());
        }
    }
    true
}

/// The input of the rewritten graph for a bias that `original` computes.
pub(super) fn input(graph: &mut Graph, original: &Graph, value: ValueId, all: &mut Vec<Found>) -> ValueId {
    if let Some(known) = all.iter().find(|found| found.value == value)
        && let Some(input) = graph.inputs.iter().copied().find(|&input| graph.value(input).name == known.name)
    {
        return input;
    }
    let name = format!("kiln.bias.{}", all.len());
    let dims = Some(vec![Dim::Any, Dim::Any, Dim::Fixed(1), Dim::Any]);
    let info = ValueInfo { name: name.clone(), dtype: Some(DType::F32), dims, ..ValueInfo::default() };
    let input = graph.add_value(info);
    graph.inputs.push(input);
    let mut own = Graph { outputs: vec![value], ..original.clone() };
    own.values[value.index()].dims = None;
    drop_unread(&mut own);
    all.push(Found { name, value, graph: own });
    input
}

/// A bias from which rows are made.
pub(super) struct Bias {
    name: String,
    session: Session,
}

impl Bias {
    /// # Errors
    ///
    /// [`DecoderError::Model`] where it depends on more than the distance of positions.
    pub(super) fn new(found: Found, options: &SessionOptions, begun: &LoadClock) -> Result<Bias, DecoderError> {
        let left = || options.load_time_limit.map(|limit| limit.saturating_sub(begun.at.elapsed()));
        let run = || RunOptions { time_limit: left(), cancel: options.load_cancel.clone(), ..RunOptions::default() };
        let own = SessionOptions { rehearse: false, taps: Vec::new(), ..options.clone() };
        let bias = Bias { name: found.name, session: Session::from_graph(found.graph, &own)? };
        let long = bias.row(LONG, &run())?;
        for room in TRIED {
            let row = bias.row(room, &run())?;
            let ends = long.as_slice::<f32>()?.chunks_exact(LONG).map(|head| &head[LONG - room..]);
            if row.shape()[0] != long.shape()[0] || !ends.eq(row.as_slice::<f32>()?.chunks_exact(room)) {
                let value = &bias.session.outputs()[0].name;
                return Err(refused(format!("what '{value}' adds to scores follows from more than distances")));
            }
        }
        Ok(bias)
    }

    /// The input that has the bias of a step.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The bias of position `room - 1` for itself and all earlier positions, [heads, room].
    pub(super) fn row(&self, room: usize, options: &RunOptions) -> Result<Tensor, DecoderError> {
        let mut inputs = Vec::new();
        for port in self.session.inputs() {
            let size = |dim: &Dim| match dim {
                Dim::Fixed(size) => *size,
                Dim::Named(name) if name == OF_PAST => room - 1,
                Dim::Named(name) if name == OF_TOTAL => room,
                Dim::Named(_) | Dim::Any => 1,
            };
            let shape: Vec<usize> = port.dims.iter().flatten().map(size).collect();
            let spec = TensorSpec::new(port.dtype.unwrap_or(DType::F32), shape);
            inputs.push((port.name.as_str(), Tensor::zeros(spec)?));
        }
        let mut outputs = self.session.run_with(&inputs, options)?;
        let (name, row) = outputs.swap_remove(0);
        match *row.shape() {
            [1, heads, 1, keys] if keys == room && heads > 0 && row.dtype() == DType::F32 => {
                Ok(row.reshaped([heads, room])?)
            }
            _ => Err(refused(format!("'{name}' is {} {:?}, and no bias of {room} keys", row.dtype(), row.shape()))),
        }
    }
}

/// The bias of a step whose sequences have `before` earlier positions, cut from the row of the last position; 0 after
/// the end of a sequence.
pub(super) fn at(
    row: &Tensor,
    before: impl ExactSizeIterator<Item = usize>,
    room: usize,
    pool: &Arc<BufferPool>,
) -> Result<Tensor, DecoderError> {
    let heads = row.shape()[0];
    let mut made = Tensor::from_pool(pool, TensorSpec::new(DType::F32, [before.len(), heads, 1, room]))?;
    let (from, to) = (row.as_slice::<f32>()?, made.as_mut_slice::<f32>()?);
    for (sequence, before) in to.chunks_exact_mut(heads * room).zip(before) {
        for (to, from) in sequence.chunks_exact_mut(room).zip(from.chunks_exact(room)) {
            let (seen, behind) = to.split_at_mut(before + 1);
            seen.copy_from_slice(&from[room - 1 - before..]);
            behind.fill(0.0);
        }
    }
    Ok(made)
}
