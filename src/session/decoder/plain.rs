//! Plain exports of decoders, rewritten to attention that reads and writes its cache in place.
//!
//! Exporters without a cache operator write `Concat(past, new)`: attention reads the result, and the caller gives it
//! back with the next token. Every step would copy all keys and values, at new shapes. Here each attention over such a
//! part of the cache becomes a GroupQueryAttention, which [`super::rewrite`] knows: it appends the new rows and takes
//! lengths as arguments.
//!
//! This is done where both are found to be equal. Copies of the cache, and sizes that no step changes, are first read
//! from their sources ([`direct`]). [`attend`] matches the operators. Masks are computed for a few lengths beyond all
//! numbers that they depend on ([`trial`]); they must show each query its own and all earlier positions, or a window of
//! the last ones. Positions that the graph counts from the length of the past become the input `position_ids`, and so
//! does, if nothing else helps, that length itself ([`past`]). Biases by the distance of two positions become an input
//! too ([`super::bias`]), where steps have one token. Biases that grow along keys by a slope for each head are computed
//! in each step ([`slopes`]). No other node may read a value that changes with that length.

mod attend;
mod direct;
mod past;
mod positions;
mod sizes;
mod slopes;
mod table;
mod trial;

use std::cell::LazyCell;

use half::f16;
use kiln_model::facts::Facts;
use kiln_model::ir::{Attr, Attrs, Dim, Graph, NodeDesc, ValueId};
use kiln_model::passes::PassOptions;
use kiln_model::stop::Stop;
use kiln_run::exec::BuildCx;
use kiln_tensor::threads::Threads;
use kiln_tensor::{DType, Tensor};

use self::attend::{Attend, Kind, Mask, Matcher, Rows};
use self::trial::{BATCH, Follows, Given, Lengths, NEW, PAST, TOTAL, Trial};
use super::DecoderError;
use super::bias::{self, Found};
use super::handed::{Pair, pairs};
use super::narrow::narrow;
use super::rewrite::{StepNumbers, drop_unread, is_attention, refused};
use super::states::State;
use crate::session::compile::optimise;
use crate::session::{SessionOptions, structure};

/// A mask that hides a key adds at most this to its score.
const HIDDEN: f32 = -1e4;

/// The most new positions that masks are tried with.
const MOST_NEW: usize = 1 << 10;

/// The input that has the numbers of new positions.
const IDS: &str = "position_ids";

/// A part of the cache: an input, and the output that adds the new positions.
#[derive(Clone)]
pub(super) struct Part {
    past: ValueId,
    present: ValueId,
    /// The new rows [sequences, heads, positions, size], where Concat appends them.
    new: Option<ValueId>,
    heads: usize,
    size: usize,
}

fn refused_at(node: &NodeDesc, reason: &str) -> DecoderError {
    refused(format!("node '{}' ({}): {reason}", node.name, node.op))
}

/// Findings of the rewriting of attention.
#[derive(Default)]
pub(super) struct Lowered {
    /// Whether the graph counts the positions of one sequence for all sequences.
    pub(super) counts_one: bool,
    /// Biases that are added to scores by distance.
    pub(super) biases: Vec<Found>,
    /// Numbers of a step that nodes read.
    pub(super) numbers: StepNumbers,
    /// States of a fixed size.
    pub(super) states: Vec<Pair>,
}

/// Rewrites attention over joined keys and values, if there is any. The inputs `beside` are the same in all steps of a
/// text. `is_branch` tells whether the graph is the branch with a cache of a merged decoder.
///
/// # Errors
///
/// Where the graph has a cache by the names of its inputs and outputs, and its use is not recognised.
pub(super) fn lower(
    graph: &mut Graph,
    beside: &[String],
    is_branch: bool,
    options: &SessionOptions,
    stop: Option<&Stop>,
) -> Result<Lowered, DecoderError> {
    let (states, pairs): (Vec<Pair>, Vec<Pair>) =
        pairs(graph, &options.alias)?.into_iter().partition(|pair| State::at(graph, pair.past).is_some());
    let without_parts = |states| Lowered { states, ..Lowered::default() };
    if narrow(graph, &pairs) {
        direct::skip_copies(graph, &pairs);
    }
    if graph.nodes.iter().any(is_attention) {
        return Ok(without_parts(states));
    }
    direct::skip_copies(graph, &pairs);
    let may_join = |node: &&NodeDesc| node.is("Concat") || node.is("Attention");
    let reads = |node: &NodeDesc| pairs.iter().any(|pair| node.inputs.contains(&Some(pair.past)));
    if !graph.nodes.iter().filter(may_join).any(reads) {
        return Ok(without_parts(states));
    }
    sizes::declare(graph, &pairs);
    let parts: Result<Vec<Part>, DecoderError> = pairs.into_iter().map(|pair| part(graph, pair)).collect();
    let parts = parts?;
    let written = graph.clone();
    let [first, others @ ..] = WAYS;
    let reason = match lower_by(first, graph, parts.clone(), beside, stop) {
        Ok(lowered) => return Ok(Lowered { states, ..lowered }),
        Err(reason) => reason,
    };
    let may_be = |way: &Way| !way.of_one_token || is_branch;
    let folded = LazyCell::new(|| folded(&written, stop));
    let as_written = others.into_iter().map(|way| (way, false));
    for (way, is_folded) in as_written.chain(WAYS.map(|way| (way, true))).filter(|(way, _)| may_be(way)) {
        graph.clone_from(if is_folded { &folded } else { &written });
        if let Ok(lowered) = lower_by(way, graph, parts.clone(), beside, stop) {
            return Ok(Lowered { states, ..lowered });
        }
    }
    Err(reason)
}

/// The graph with its constants computed, from which sizes may follow that are not known as it is written: rotary
/// embeddings of pairs (GLM, Cohere) take elements at places that NonZero gives.
fn folded(graph: &Graph, stop: Option<&Stop>) -> Graph {
    let mut folded = graph.clone();
    if let Ok(build) = alone() {
        let fold = SessionOptions { passes: PassOptions::none().with("fold"), ..SessionOptions::default() };
        optimise(&mut folded, &fold, &build, stop);
    }
    folded
}

/// The context in which values of a graph are computed, on one thread.
fn alone() -> Result<BuildCx, DecoderError> {
    let threads = Threads::new(1).map_err(crate::session::SessionError::from)?;
    let plain = SessionOptions { threads: 1, ..SessionOptions::default() };
    Ok(plain.build_cx(&threads, &structure::digest(&Graph::default())))
}

/// A way to lower a graph.
#[derive(Clone, Copy)]
struct Way {
    /// Whether steps have one token. Exporters write the branch with a cache of a merged decoder for such steps, many
    /// without a mask.
    of_one_token: bool,
    /// Whether the length of the past as a number is replaced ([`past`]). All sequences are then as long as the first.
    of_one_length: bool,
}

/// The ways in the order in which they are tried: the first restricts least.
const WAYS: [Way; 4] = [
    Way { of_one_token: false, of_one_length: false },
    Way { of_one_token: false, of_one_length: true },
    Way { of_one_token: true, of_one_length: false },
    Way { of_one_token: true, of_one_length: true },
];

/// [`lower`] in one way, without states.
fn lower_by(
    way: Way,
    graph: &mut Graph,
    mut parts: Vec<Part>,
    beside: &[String],
    stop: Option<&Stop>,
) -> Result<Lowered, DecoderError> {
    let (tokens, mask) = name_dimensions(graph, &parts, beside, way)?;
    let row = positions::of_row(graph, tokens);
    direct::settle_sizes(graph, &parts, tokens)?;
    for node in &graph.nodes {
        let joins = node.is("Concat") && [2, -2].contains(&node.attributes().int("axis"));
        if let ([Some(past), Some(new)], [Some(present)], true) = (&node.inputs[..], &node.outputs[..], joins)
            && let Some(part) = parts.iter_mut().find(|part| part.past == *past && part.present == *present)
        {
            part.new = Some(*new);
        }
    }
    let build = alone()?;
    let fixed = |axis: usize| match graph.value(tokens).dims.as_deref().and_then(|dims| dims.get(axis)) {
        Some(Dim::Fixed(size)) => Some(*size),
        _ => None,
    };
    let grid = Grid { batch: fixed(0), new: fixed(1) };
    let lengths = grid.lengths(5, 7);
    if let Some(Lengths { batch, new, .. }) = lengths.iter().find(|lengths| !lengths.can_be_tried()) {
        let name = &graph.value(tokens).name;
        return Err(refused(format!("input '{name}' is for {batch} sequences of {new} tokens, more than are tried")));
    }
    let ids = |graph: &Graph| graph.inputs.iter().copied().find(|&input| graph.value(input).name == IDS);
    let (counted, numbers) = {
        let facts = Facts::of(graph, true);
        let given = Given { mask, positions: ids(graph) };
        let mut trial = Trial::new(graph, &facts, given, build.clone(), stop);
        let counted = positions::counted(&mut trial, &lengths, &parts, mask);
        let numbers = way.of_one_length.then(|| past::found(&mut trial, &lengths, &parts, mask));
        (counted, numbers.unwrap_or_default())
    };
    // Graphs of biases count positions from the length of the past, as in the model.
    let original = (grid.new == Some(1)).then(|| graph.clone());
    let mut of_one = positions::replace(graph, counted, tokens)?;
    of_one.extend(row);
    of_one.extend(past::replace(graph, numbers, tokens)?);
    let given = Given { mask, positions: ids(graph) };
    let mut used = vec![0usize; parts.len()];
    let mut tried: Vec<(bool, Vec<Mask>, Option<usize>)> = Vec::new();
    let mut biases: Vec<Found> = Vec::new();
    let mut of_slopes = slopes::Made::default();
    let mut begin = 0;
    loop {
        // Sizes after a layer are known when the layer has been rewritten.
        let facts = Facts::of(graph, true);
        let mut trial = Trial::new(graph, &facts, given, build.clone(), stop);
        let mut found = None;
        for at in begin..graph.nodes.len() {
            found = Matcher { trial: &mut trial, parts: &parts, lengths: &lengths }.attend(at)?;
            if found.is_some() {
                break;
            }
        }
        let Some(mut attend) = found else { break };
        let bias = match &original {
            Some(original) => take_bias(&mut trial, original, &mut attend.masks)
                .map_err(|reason| refused_at(&graph.nodes[attend.at], reason))?,
            None => None,
        };
        let known = tried.iter().find(|(causal, masks, _)| *causal == attend.is_causal && *masks == attend.masks);
        let window = match known {
            Some((.., window)) => *window,
            None => {
                let window = window_of(&mut trial, &attend, grid)
                    .map_err(|reason| refused_at(&graph.nodes[attend.at], &reason))?;
                tried.push((attend.is_causal, attend.masks.clone(), window));
                window
            }
        };
        attend.parts.iter().for_each(|&part| used[part] += 1);
        let bias = bias.zip(original.as_ref());
        let bias = bias.map(|(value, original)| bias::input(graph, original, value, &mut biases));
        let bias = match (&attend.slopes, bias) {
            (Some(_), Some(_)) => {
                return Err(refused_at(&graph.nodes[attend.at], "several biases are added to scores"));
            }
            (Some(slopes), None) => {
                let before = graph.nodes.len();
                let bias = of_slopes.bias(graph, slopes)?;
                attend.at += graph.nodes.len() - before;
                Some(bias)
            }
            (None, bias) => bias,
        };
        begin = rewrite(graph, &parts, &attend, window, bias)?;
    }
    if let Some(place) = used.iter().position(|&count| count != 1) {
        let name = &graph.value(parts[place].present).name;
        return Err(refused(format!("output '{name}' is not the cache of one node of attention that is known")));
    }
    drop_unread(graph);
    check_readers(graph, &parts, mask)?;
    let is_read = |value: &ValueId| graph.nodes.iter().any(|node| node.inputs.contains(&Some(*value)));
    let counts_one = of_one.iter().any(is_read);
    Ok(Lowered { counts_one, biases, numbers: of_slopes.numbers, ..Lowered::default() })
}

/// A part of the cache, which declares its heads and their size.
fn part(graph: &Graph, Pair { past, present }: Pair) -> Result<Part, DecoderError> {
    let info = graph.value(past);
    match info.dims.as_deref() {
        Some(&[_, Dim::Fixed(heads), Dim::Named(_) | Dim::Any, Dim::Fixed(size)]) if heads > 0 && size > 0 => {
            Ok(Part { past, present, new: None, heads, size })
        }
        _ => Err(refused(format!("input '{}' is not [sequences, N, positions, N] with two known sizes", info.name))),
    }
}

/// Gives the dimensions of a decoder's inputs, except those in `beside`, names of their own. Returns the tokens and the
/// mask.
fn name_dimensions(
    graph: &mut Graph,
    parts: &[Part],
    beside: &[String],
    way: Way,
) -> Result<(ValueId, Option<ValueId>), DecoderError> {
    let (mut tokens, mut mask) = (None, None);
    let named = |dim: &Dim, name: &str| match dim {
        Dim::Fixed(size) => Dim::Fixed(*size),
        Dim::Named(_) | Dim::Any => Dim::from(name),
    };
    for value in graph.inputs.clone() {
        let info = &mut graph.values[value.index()];
        if beside.contains(&info.name) {
            continue;
        }
        let Some(dims) = info.dims.as_mut() else { continue };
        if parts.iter().any(|part| part.past == value) {
            let (first, third) = (named(&dims[0], BATCH), named(&dims[2], PAST));
            (dims[0], dims[2]) = (first, third);
        } else if dims.len() == 2 && info.dtype == Some(DType::I64) {
            let second = if info.name == "attention_mask" { TOTAL } else { NEW };
            if second == TOTAL && matches!(dims[1], Dim::Fixed(_)) {
                return Err(refused(format!("input '{}' has a fixed length", info.name)));
            }
            (dims[0], dims[1]) = (named(&dims[0], BATCH), named(&dims[1], second));
            if way.of_one_token && second == NEW && dims[1] == Dim::from(NEW) {
                dims[1] = Dim::Fixed(1);
            }
            match info.name.as_str() {
                "attention_mask" => mask = Some(value),
                IDS => {}
                _ => tokens = tokens.or(Some(value)),
            }
        }
    }
    // The model's declarations of present positions no longer hold.
    parts.iter().for_each(|part| graph.values[part.present.index()].dims = None);
    Ok((tokens.ok_or_else(|| refused("no input has the tokens"))?, mask))
}

/// The lengths that are tried, as far as the model leaves them open.
#[derive(Clone, Copy)]
struct Grid {
    batch: Option<usize>,
    new: Option<usize>,
}

impl Grid {
    /// Some lengths with up to `past` earlier positions, and up to `new` new ones.
    fn lengths(self, new: usize, past: usize) -> Vec<Lengths> {
        let mut all = Vec::new();
        for (batch, new, past) in [(1, 3, past), (1, 1, past + 1), (2, 2, past), (1, 4, 0), (1, 1, 0), (1, new, 1)] {
            let lengths = Lengths { batch: self.batch.unwrap_or(batch), new: self.new.unwrap_or(new), past };
            if !all.contains(&lengths) {
                all.push(lengths);
            }
        }
        all
    }
}

/// The window of attention whose masks show each query its own and earlier positions: `None` for all earlier positions.
fn window_of(trial: &mut Trial<'_>, attend: &Attend, grid: Grid) -> Result<Option<usize>, String> {
    let mut most = 7;
    for mask in &attend.masks {
        let name = &trial.graph.value(mask.value).name;
        let beyond = trial.beyond(mask.value);
        let beyond = beyond.ok_or_else(|| format!("its mask '{name}' follows from more than lengths"))?;
        most = most.max(beyond);
    }
    let mut window: Option<Option<usize>> = None;
    let mut all = grid.lengths(most.min(MOST_NEW), most);
    let mut at = 0;
    while let Some(&lengths) = all.get(at) {
        at += 1;
        let Lengths { batch, new, past } = lengths;
        if !lengths.can_be_tried() {
            return Err(format!("{batch} sequences of {new} new positions are more than are tried"));
        }
        let mut hidden = Vec::with_capacity(attend.masks.len());
        for mask in &attend.masks {
            let name = &trial.graph.value(mask.value).name;
            let tensor = trial.compute(mask.value, Follows::Comparisons, lengths);
            if tensor.is_none() && trial.is_contradicted(lengths) {
                break;
            }
            let tensor = tensor.ok_or_else(|| format!("its mask '{name}' cannot be computed from lengths alone"))?;
            let view = Hidden::of(&tensor, mask.kind, lengths);
            hidden.push(view.ok_or_else(|| format!("its mask '{name}' is none that hides keys"))?);
        }
        if hidden.len() < attend.masks.len() {
            // The model itself fails at these lengths: its results for one new position, and at the beginning of a
            // text, decide.
            let one = Lengths { new: grid.new.unwrap_or(1), ..lengths };
            for other in [one, Lengths { past: 0, ..lengths }] {
                if !all.contains(&other) {
                    all.push(other);
                }
            }
            continue;
        }
        let sees = |batch: usize, query: usize, key: usize| {
            (!attend.is_causal || key <= past + query) && !hidden.iter().any(|mask| mask.at(batch, query, key))
        };
        if window.is_none() && past < most {
            return Err("its masks have no value behind earlier positions".to_owned());
        }
        let window = *window.get_or_insert_with(|| {
            let seen = (0..past + new).filter(|&key| sees(0, new - 1, key)).count();
            (seen < past + new).then_some(seen)
        });
        if window == Some(0) {
            return Err("its mask hides all keys of a query".to_owned());
        }
        for (batch, query) in (0..batch).flat_map(|batch| (0..new).map(move |query| (batch, query))) {
            if trial.is_stopped() {
                return Err("there is no time left to try its masks".to_owned());
            }
            let own = past + query;
            let first = window.map_or(0, |window| (own + 1).saturating_sub(window));
            if (0..past + new).any(|key| sees(batch, query, key) != (first..=own).contains(&key)) {
                return Err(format!(
                    "with {past} positions before, new position {query} of {new} does not see its own and earlier ones"
                ));
            }
        }
    }
    window.ok_or_else(|| "its masks have no value at any lengths".to_owned())
}

/// Takes a summand that is no mask and depends on lengths alone out of the masks of attention for one new position.
fn take_bias(trial: &mut Trial<'_>, original: &Graph, masks: &mut Vec<Mask>) -> Result<Option<ValueId>, &'static str> {
    let lengths = Lengths { batch: 1, new: 1, past: 5 };
    let mut hides = |mask: &Mask| {
        let tensor = trial.compute(mask.value, Follows::Comparisons, lengths);
        tensor.is_some_and(|tensor| Hidden::of(&tensor, mask.kind, lengths).is_some())
    };
    let is_bias =
        |mask: &&Mask| mask.kind == Kind::Added && !hides(mask) && bias::follows_from_shapes(original, mask.value);
    let found: Vec<ValueId> = masks.iter().filter(is_bias).map(|mask| mask.value).collect();
    match found[..] {
        [] => Ok(None),
        [value] => {
            masks.retain(|mask| mask.value != value);
            Ok(Some(value))
        }
        _ => Err("several biases are added to its scores"),
    }
}

/// A computed mask.
struct Hidden {
    /// Whether each of its keys is hidden.
    keys: Vec<bool>,
    /// Elements from one sequence, query and key to the next.
    steps: [usize; 3],
}

impl Hidden {
    /// `None` where it adds anything but 0 or a value that hides a key, or does not fit.
    fn of(tensor: &Tensor, kind: Kind, lengths: Lengths) -> Option<Hidden> {
        let Lengths { batch, new, past } = lengths;
        let shape = tensor.shape();
        let mut dims = [1; 4];
        match (kind, shape) {
            (Kind::Shown, &[of_batch, keys]) => dims = [of_batch, 1, 1, keys],
            (Kind::Shown, &[of_batch, queries, keys]) => dims = [of_batch, 1, queries, keys],
            (Kind::Added | Kind::AddedBefore | Kind::Hides, _) if shape.len() <= 4 => {
                dims[4 - shape.len()..].copy_from_slice(shape)
            }
            _ => return None,
        }
        let [of_batch, 1, queries, keys] = dims else { return None };
        let fits = |size: usize, whole: usize| size == 1 || size == whole;
        if !fits(of_batch, batch) || !fits(queries, new) || !fits(keys, past + new) {
            return None;
        }
        let steps = [(of_batch, queries * keys), (queries, keys), (keys, 1)];
        let hides = |added: f32| Some(added <= HIDDEN).filter(|&hides| hides || added == 0.0);
        let hidden: Option<Vec<bool>> = match (kind, tensor.dtype()) {
            (Kind::Added | Kind::AddedBefore, DType::F32) => {
                tensor.as_slice::<f32>().ok()?.iter().map(|&added| hides(added)).collect()
            }
            (Kind::Added | Kind::AddedBefore, DType::F16) => {
                tensor.as_slice::<f16>().ok()?.iter().map(|added| hides(added.to_f32())).collect()
            }
            (Kind::Added | Kind::AddedBefore | Kind::Hides, DType::Bool) => {
                let is_hidden = kind == Kind::Hides;
                Some(tensor.bytes().iter().map(|&byte| (byte != 0) == is_hidden).collect())
            }
            (Kind::Shown, _) => Some(tensor.to_i64_vec().ok()?.into_iter().map(|shown| shown == 0).collect()),
            _ => None,
        };
        Some(Hidden { keys: hidden?, steps: steps.map(|(size, step)| if size == 1 { 0 } else { step }) })
    }

    fn at(&self, batch: usize, query: usize, key: usize) -> bool {
        let [of_batch, of_query, of_key] = self.steps;
        self.keys[batch * of_batch + query * of_query + key * of_key]
    }
}

fn list(graph: &mut Graph, stem: &str, values: Vec<i64>) -> Result<ValueId, DecoderError> {
    let tensor = Tensor::from_vec([values.len()], values).map_err(|error| refused(error.to_string()))?;
    Ok(graph.add_constant(stem, tensor))
}

/// A node of the rewritten graph.
fn made(op: &str, attrs: Attrs, inputs: Vec<Option<ValueId>>, output: ValueId) -> NodeDesc {
    let (name, op) = (format!("kiln.cached/{op}"), op.to_owned());
    NodeDesc { name, op, version: 13, attrs, inputs, outputs: vec![Some(output)], ..NodeDesc::default() }
}

/// Leaves a value to be made by another node.
fn unmake(graph: &mut Graph, value: ValueId) {
    let outputs = graph.nodes.iter_mut().flat_map(|node| &mut node.outputs);
    outputs.filter(|output| **output == Some(value)).for_each(|output| *output = None);
}

/// Replaces the matched nodes by attention over the cache. Returns the place of the node after it.
fn rewrite(
    graph: &mut Graph,
    parts: &[Part],
    attend: &Attend,
    window: Option<usize>,
    bias: Option<ValueId>,
) -> Result<usize, DecoderError> {
    let node = std::mem::take(&mut graph.nodes[attend.at]);
    let steps = cached(graph, parts, &node, attend, window, bias)?;
    // Attention makes the output of the cache now.
    let presents = attend.parts.map(|part| Some(parts[part].present));
    for output in graph.nodes.iter_mut().flat_map(|node| &mut node.outputs) {
        if presents.contains(output) {
            *output = None;
        }
    }
    let behind = attend.at + steps.len();
    graph.nodes.splice(attend.at..=attend.at, steps);
    Ok(behind)
}

/// GroupQueryAttention and the transposes of heads for it.
fn cached(
    graph: &mut Graph,
    parts: &[Part],
    node: &NodeDesc,
    attend: &Attend,
    window: Option<usize>,
    bias: Option<ValueId>,
) -> Result<Vec<NodeDesc>, DecoderError> {
    let &Attend { query, key, value, parts: own, heads, kv_heads, size, scale, cap, folded, .. } = attend;
    if !scale.is_finite() || scale == 0.0 {
        return Err(refused_at(node, "its scores are scaled by no number"));
    }
    let Some(result) = node.output(0) else { return Err(refused_at(node, "its result is not wanted")) };
    let turned = || Attrs::from([("perm".to_owned(), Attr::Ints(vec![0, 2, 1, 3]))]);
    let mut steps = Vec::new();
    let mut flat = |graph: &mut Graph, rows: Rows, heads: usize| -> Result<ValueId, DecoderError> {
        if !rows.heads_first {
            return Ok(rows.value);
        }
        let (behind, joined) = (graph.fresh("heads/behind"), graph.fresh("heads/joined"));
        let shape = list(graph, "heads/shape", vec![0, 0, (heads * size) as i64])?;
        steps.push(made("Transpose", turned(), vec![Some(rows.value)], behind));
        steps.push(made("Reshape", Attrs::new(), vec![Some(behind), Some(shape)], joined));
        Ok(joined)
    };
    let inputs = [flat(graph, query, heads)?, flat(graph, key, kv_heads)?, flat(graph, value, kv_heads)?];
    let [keys, values] = own.map(|place| &parts[place]);
    // `rewrite` replaces the last positions and the total by the step's inputs.
    let total = graph.fresh("total");
    let of_positions = Attrs::from([("start".to_owned(), Attr::Int(2)), ("end".to_owned(), Attr::Int(3))]);
    steps.push(NodeDesc { version: 15, ..made("Shape", of_positions, vec![Some(keys.past)], total) });
    let inputs = inputs.into_iter().chain([keys.past, values.past]).map(Some).chain([None, Some(total)]);
    let sinks = attend.sinks.clone().map(|sinks| graph.add_constant("sinks", sinks));
    let mut inputs: Vec<Option<ValueId>> = inputs.chain([None, None, None, bias, sinks]).collect();
    let given = inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    inputs.truncate(given);
    let mut attrs = Attrs::from([
        ("num_heads".to_owned(), Attr::Int(heads as i64)),
        ("kv_num_heads".to_owned(), Attr::Int(kv_heads as i64)),
        ("scale".to_owned(), Attr::Float(scale)),
        ("softcap".to_owned(), Attr::Float(cap)),
    ]);
    if let Some(window) = window {
        attrs.insert("local_window_size".to_owned(), Attr::Int(window as i64));
    }
    let joined = if query.heads_first { graph.fresh("result/joined") } else { result };
    steps.push(NodeDesc {
        name: node.name.clone(),
        domain: "com.microsoft".to_owned(),
        op: "GroupQueryAttention".to_owned(),
        version: 1,
        attrs,
        inputs,
        outputs: vec![Some(joined), Some(keys.present), Some(values.present)],
    });
    if query.heads_first {
        let behind = graph.fresh("result/behind");
        let shape = list(graph, "result/shape", vec![0, 0, heads as i64, size as i64])?;
        steps.push(made("Reshape", Attrs::new(), vec![Some(joined), Some(shape)], behind));
        let apart = if folded.is_some() { graph.fresh("result/apart") } else { result };
        steps.push(made("Transpose", turned(), vec![Some(behind)], apart));
        if let Some(queries) = folded {
            let shape = graph.fresh("result/folded");
            steps.push(made("Shape", Attrs::new(), vec![Some(queries)], shape));
            steps.push(made("Reshape", Attrs::new(), vec![Some(apart), Some(shape)], result));
        }
    }
    Ok(steps)
}

/// Refuses graphs in which anything but attention reads the cache, its length or the mask.
fn check_readers(graph: &Graph, parts: &[Part], mask: Option<ValueId>) -> Result<(), DecoderError> {
    let is_cache = |value: ValueId| parts.iter().any(|part| part.past == value || part.present == value);
    let is_total = |node: &NodeDesc| {
        let reads =
            |other: &&NodeDesc| other.inputs.iter().any(|input| input.is_some() && node.outputs.contains(input));
        node.is("Shape") && graph.nodes.iter().filter(reads).all(is_attention)
    };
    for node in graph.nodes.iter().filter(|node| !is_attention(node) && !is_total(node)) {
        if let Some(value) = node.inputs.iter().flatten().find(|&&input| is_cache(input) || Some(input) == mask) {
            let name = &graph.value(*value).name;
            return Err(refused_at(node, &format!("it reads '{name}', whose length changes in each step")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
