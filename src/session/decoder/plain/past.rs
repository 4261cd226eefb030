//! The length of the past as a number that a graph computes with: positions that follow from the tokens, too
//! (M2M-100: those of padding differ). It is taken from the first of the input `position_ids` instead.

use std::collections::BTreeSet;

use kiln_model::ir::{Attr, Attrs, Graph, ValueId};
use kiln_tensor::{DType, Tensor};

use super::positions::ids;
use super::trial::{Follows, Lengths, Trial};
use super::{Part, list, made, unmake};
use crate::session::decoder::DecoderError;

/// A value that is the length of the past: a number, or a list of one.
pub(super) struct Length {
    value: ValueId,
    dtype: DType,
    is_list: bool,
}

/// All values that are the length of the past in requests of all these lengths.
pub(super) fn found(trial: &mut Trial<'_>, all: &[Lengths], parts: &[Part], mask: Option<ValueId>) -> Vec<Length> {
    let Trial { graph, facts, .. } = *trial;
    let mut follows: BTreeSet<ValueId> = parts.iter().flat_map(|part| [part.past, part.present]).chain(mask).collect();
    let mut found = Vec::new();
    for node in &graph.nodes {
        if !node.inputs.iter().flatten().any(|input| follows.contains(input)) {
            continue;
        }
        for &value in node.outputs.iter().flatten() {
            let dtype = [DType::I64, DType::I32].into_iter().find(|&dtype| facts.is(value, dtype));
            let length = dtype.zip(facts.rank(value).filter(|&rank| rank <= 1));
            match length.filter(|_| is_past(trial, value, all)) {
                Some((dtype, rank)) => found.push(Length { value, dtype, is_list: rank == 1 }),
                None => drop(follows.insert(value)),
            }
        }
    }
    found
}

fn is_past(trial: &mut Trial<'_>, value: ValueId, all: &[Lengths]) -> bool {
    all.iter().all(|&lengths| {
        let tensor = trial.compute(value, Follows::Comparisons, lengths);
        let numbers = tensor.and_then(|tensor| tensor.to_i64_vec().ok());
        numbers.is_some_and(|numbers| numbers == [lengths.past as i64])
    })
}

/// Takes lengths from the input `position_ids` instead. Returns their values, which are those of the first sequence.
pub(super) fn replace(graph: &mut Graph, lengths: Vec<Length>, tokens: ValueId) -> Result<Vec<ValueId>, DecoderError> {
    let (mut steps, mut of_one) = (Vec::new(), Vec::new());
    for Length { value, dtype, is_list } in lengths {
        let ids = ids(graph, tokens);
        unmake(graph, value);
        of_one.push(value);
        let (all, flat) = (list(graph, "past/all", vec![-1])?, graph.fresh("past/flat"));
        steps.push(made("Reshape", Attrs::new(), vec![Some(ids), Some(all)], flat));
        let first = match is_list {
            true => list(graph, "past/first", vec![0])?,
            false => graph.add_constant("past/first", Tensor::scalar(0i64)),
        };
        let gather = |output| made("Gather", Attrs::new(), vec![Some(flat), Some(first)], output);
        if dtype == DType::I64 {
            steps.push(gather(value));
        } else {
            let number = graph.fresh("past/number");
            let to_i32 = Attrs::from([("to".to_owned(), Attr::Int(6))]);
            steps.extend([gather(number), made("Cast", to_i32, vec![Some(number)], value)]);
        }
    }
    graph.nodes.splice(0..0, steps);
    Ok(of_one)
}
