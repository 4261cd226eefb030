//! Positions that a graph counts from the length of the past: found by trial, and taken from the input `position_ids`
//! instead. Rows that Slice takes from a table at that length are such positions too.

use std::collections::BTreeSet;

use kiln_model::ir::{Attr, Attrs, Graph, NodeDesc, ValueId, ValueInfo};
use kiln_tensor::{DType, Tensor};

use super::trial::{Follows, Lengths, Trial};
use super::{IDS, Part, list, made, unmake};
use crate::session::decoder::DecoderError;

/// The input that has the numbers of new positions once for all sequences.
const ROW: &str = "cache_position";

/// A value with the numbers of the new positions, counted from the length of the past.
pub(super) struct Counted {
    value: ValueId,
    dtype: DType,
    rank: usize,
    /// Whether it has a list for each sequence.
    of_each: bool,
    /// The table, if the value has its rows at these numbers instead.
    table: Option<ValueId>,
}

/// All values that count new positions from the length of the past or of the mask.
pub(super) fn counted(trial: &mut Trial<'_>, all: &[Lengths], parts: &[Part], mask: Option<ValueId>) -> Vec<Counted> {
    let Trial { graph, facts, .. } = *trial;
    // Values that depend on that length, except through positions that have been found.
    let mut follows: BTreeSet<ValueId> = parts.iter().flat_map(|part| [part.past, part.present]).chain(mask).collect();
    let mut found = Vec::new();
    for node in &graph.nodes {
        if !node.inputs.iter().flatten().any(|input| follows.contains(input)) {
            continue;
        }
        for &value in node.outputs.iter().flatten() {
            let rank = facts.rank(value).filter(|rank| (1..=3).contains(rank));
            let is_integer = facts.is(value, DType::I64) || facts.is(value, DType::I32);
            // A list of one length is no list of positions, though one token makes them equal.
            let is_length = facts.get(value).elements.is_some();
            let counted = rank.filter(|_| is_integer && !is_length && !node.is("Shape")).and_then(|rank| {
                let of_each = counts(trial, value, rank, all)?;
                let dtype = if facts.is(value, DType::I64) { DType::I64 } else { DType::I32 };
                Some(Counted { value, dtype, rank, of_each, table: None })
            });
            let counted = counted.or_else(|| rows_of_table(trial, node, value, all));
            match counted {
                Some(counted) => found.push(counted),
                None => drop(follows.insert(value)),
            }
        }
    }
    found
}

/// Whether a value that counts new positions has a list for each sequence; `None` where it does not count positions.
fn counts(trial: &mut Trial<'_>, value: ValueId, rank: usize, all: &[Lengths]) -> Option<bool> {
    let mut of_each = true;
    for &lengths in all {
        let tensor = trial.compute(value, Follows::Comparisons, lengths)?;
        let shape = tensor.shape();
        if shape.len() != rank {
            return None;
        }
        let first = if rank > 1 { shape[0] } else { 1 };
        let is_row = shape[rank - 1] == lengths.new && shape[1.min(rank - 1)..rank - 1].iter().all(|&size| size == 1);
        if !is_row || (first != 1 && first != lengths.batch) {
            return None;
        }
        of_each &= rank > 1 && first == lengths.batch;
        let numbers = tensor.to_i64_vec().ok()?;
        let expected = (0..first).flat_map(|_| (0..lengths.new).map(|at| (lengths.past + at) as i64));
        if !numbers.into_iter().eq(expected) {
            return None;
        }
    }
    Some(of_each)
}

/// Rows that Slice takes from a table at the length of the past.
fn rows_of_table(trial: &mut Trial<'_>, node: &NodeDesc, value: ValueId, all: &[Lengths]) -> Option<Counted> {
    let table = node.input(0).filter(|_| node.is("Slice"))?;
    let is_first = |index: usize, only: i64| match node.input(index) {
        Some(list) => trial.graph.constant(list).and_then(|list| list.to_i64_vec().ok()) == Some(vec![only]),
        None => true,
    };
    let rows = trial.graph.constant(table)?.shape();
    if rows.len() != 2 || !is_first(3, 0) || !is_first(4, 1) {
        return None;
    }
    for &lengths in all {
        let mut bound =
            |index: usize| trial.compute(node.input(index)?, Follows::Comparisons, lengths)?.to_i64_vec().ok();
        let (from, to) = (lengths.past as i64, (lengths.past + lengths.new) as i64);
        if bound(1)? != [from] || bound(2)? != [to] {
            return None;
        }
    }
    Some(Counted { value, dtype: DType::I64, rank: 1, of_each: false, table: Some(table) })
}

/// The input `position_ids`, which is added to a graph that has none.
pub(super) fn ids(graph: &mut Graph, tokens: ValueId) -> ValueId {
    if let Some(ids) = graph.inputs.iter().copied().find(|&input| graph.value(input).name == IDS) {
        return ids;
    }
    for info in graph.values.iter_mut().filter(|info| info.name == IDS) {
        info.name.push_str("#counted");
    }
    let (name, dims) = (IDS.to_owned(), graph.value(tokens).dims.clone());
    let ids = graph.add_value(ValueInfo { name, dtype: Some(DType::I64), dims, ..ValueInfo::default() });
    graph.inputs.push(ids);
    ids
}

/// Takes `cache_position`, the numbers of the new positions of all sequences [new], from the input `position_ids`
/// instead, as optimum writes it for Whisper. Returns its value.
pub(super) fn of_row(graph: &mut Graph, tokens: ValueId) -> Option<ValueId> {
    let is_row = |&input: &ValueId| {
        let info = graph.value(input);
        let rank = info.dims.as_ref().map(Vec::len);
        info.name == ROW && info.dtype == Some(DType::I64) && rank.is_none_or(|rank| rank == 1)
    };
    let row = graph.inputs.iter().copied().find(is_row)?;
    graph.inputs.retain(|&input| input != row);
    let (ids, zero) = (ids(graph, tokens), graph.add_constant("zero", Tensor::scalar(0i64)));
    graph.nodes.insert(0, made("Gather", Attrs::new(), vec![Some(ids), Some(zero)], row));
    Some(row)
}

/// Takes counted positions from the input `position_ids` instead. Returns the values with a single list, that of the
/// first sequence, for all sequences.
pub(super) fn replace(graph: &mut Graph, counted: Vec<Counted>, tokens: ValueId) -> Result<Vec<ValueId>, DecoderError> {
    let (mut steps, mut of_one) = (Vec::new(), Vec::new());
    for Counted { value, dtype, rank, of_each, table } in counted {
        let ids = ids(graph, tokens);
        unmake(graph, value);
        let (from, first) = match of_each {
            true => (ids, 0),
            false => {
                of_one.push(value);
                let (row, zero) = (graph.fresh("positions/row"), graph.add_constant("zero", Tensor::scalar(0i64)));
                steps.push(made("Gather", Attrs::new(), vec![Some(ids), Some(zero)], row));
                (row, 1)
            }
        };
        let shape = match rank {
            1 => vec![-1],
            2 => vec![first, -1],
            _ => vec![first, 1, -1],
        };
        let shape = list(graph, "positions/shape", shape)?;
        let as_is = if dtype == DType::I64 && table.is_none() { value } else { graph.fresh("positions") };
        steps.push(made("Reshape", Attrs::new(), vec![Some(from), Some(shape)], as_is));
        if table.is_some() {
            steps.push(made("Gather", Attrs::new(), vec![table, Some(as_is)], value));
        }
        if dtype != DType::I64 {
            let attrs = Attrs::from([("to".to_owned(), Attr::Int(6))]);
            steps.push(made("Cast", attrs, vec![Some(as_is)], value));
        }
    }
    graph.nodes.splice(0..0, steps);
    Ok(of_one)
}
