//! The graph of a language model, rewritten for steps over a cache.
//!
//! Models of onnxruntime-genai's builder compute the lengths of sequences from `attention_mask`, whose shape changes in
//! every step. The operator defines the meaning of the lengths that it reads, so they become inputs of their own, which
//! have the same shape in all steps: one plan serves all steps. Nodes that are no longer needed are dropped. Logits are
//! computed for one position of each sequence.

use std::collections::BTreeSet;

use kiln_model::facts::Facts;
use kiln_model::ir::{Attr, Attrs, Dim, Graph, NodeDesc, ValueId, ValueInfo};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::DecoderError;
use super::handed;
use super::states::State;

/// Names of the inputs that a rewritten graph adds to the model's. Models do not use such names.
pub(super) const LAST: &str = "kiln.last_positions";
pub(super) const PAGES: &str = "kiln.pages";
pub(super) const ROWS: &str = "kiln.rows_of_logits";

/// Names of dimensions of a decoder's inputs: positions before a step, and after it.
pub(super) const OF_PAST: &str = "kiln.past";
pub(super) const OF_TOTAL: &str = "kiln.total";

/// Inputs of GroupQueryAttention.
const PAST: [usize; 2] = [3, 4];
const LAST_INPUT: usize = 5;
const TOTAL_INPUT: usize = 6;
/// The further input in the domain kiln: the pages of each sequence of the step. It has no total length.
const PAGES_INPUT: usize = 17;

/// The roles of the inputs and outputs of a rewritten graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Roles {
    /// The tokens [sequences, positions].
    pub(super) tokens: String,
    /// The mask, 1 for each filled position [sequences, longest], where the graph reads it.
    pub(super) mask: Option<String>,
    /// The number of each new position [sequences, positions], where the graph reads it.
    pub(super) positions: Option<String>,
    /// Rows of positions, for models that count them in time, height and width: [rows, sequences, positions].
    pub(super) position_rows: Option<usize>,
    /// Pairs of an input and an output that share a buffer: keys and values of every layer.
    pub(super) cache: Vec<Pair>,
    /// States of a fixed size, whose next values are outputs behind those of the cache.
    pub(super) states: Vec<State>,
    /// The logits [sequences, 1, vocabulary].
    pub(super) logits: String,
    /// Whether the graph counts the positions of one sequence for the whole batch.
    pub(super) counts_one: bool,
    /// Whether a step is of one token.
    pub(super) takes_one: bool,
    /// Inputs that are the same in all steps of a text, where the graph reads them.
    pub(super) beside: Vec<String>,
}

/// A part of the cache, [pages, heads, positions of a page, size].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) past: String,
    pub(super) heads: usize,
    pub(super) size: usize,
    pub(super) dtype: DType,
}

impl Pair {
    /// The spec for that many pages.
    pub(super) fn spec(&self, pages: usize, positions: usize) -> TensorSpec {
        TensorSpec::new(self.dtype, [pages, self.heads, positions, self.size])
    }
}

/// Numbers of a step that nodes of a graph read before the graph is rewritten, which makes them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepNumbers {
    /// The last positions of sequences.
    pub(super) last: Option<ValueId>,
    /// The positions that a sequence has room for, a scalar.
    pub(super) room: Option<ValueId>,
}

pub(in crate::session) fn refused(reason: impl Into<String>) -> DecoderError {
    DecoderError::Model(reason.into())
}

/// Rewrites a model's graph. The inputs `beside` are the same in all steps of a text, the inputs `biases` are rows that
/// each step makes, `states` are pairs of an input and its next value, and nodes read the `numbers` of a step.
///
/// # Errors
///
/// Where it is not the graph of a decoder with a cache that GroupQueryAttention reads, or with states.
pub(super) fn rewrite(
    graph: &mut Graph,
    beside: &[String],
    biases: &[String],
    states: &[handed::Pair],
    numbers: StepNumbers,
) -> Result<Roles, DecoderError> {
    let facts = Facts::of(graph, true);
    let layers: Vec<usize> = (0..graph.nodes.len()).filter(|&at| is_attention(&graph.nodes[at])).collect();
    if layers.is_empty() && states.is_empty() {
        return Err(refused("no node is a GroupQueryAttention: its cache is not known"));
    }
    let batch = layers.first().map_or(Dim::Any, |&layer| batch_of(graph, layer));
    // Without attention nothing reads them, and they go.
    let last = input(graph, LAST, DType::I32, vec![batch.clone()]);
    let pages = input(graph, PAGES, DType::I32, vec![batch, Dim::Any]);
    let (mut cache, mut presents) = (Vec::new(), Vec::new());
    for &at in &layers {
        let node = &graph.nodes[at];
        for (own, past_input) in PAST.into_iter().enumerate() {
            let (past, present) = pair(graph, node, past_input, 1 + own)?;
            let (info, (heads, size)) = (graph.value(past), heads_of(node, &facts)?);
            let dtype = info.dtype.unwrap_or(DType::F32);
            cache.push(Pair { past: info.name.clone(), heads, size, dtype });
            presents.push(present);
        }
        let node = &mut graph.nodes[at];
        node.inputs[LAST_INPUT] = Some(last);
        // The pages that a request gives decide how long sequences can be.
        node.inputs[TOTAL_INPUT] = None;
        if node.inputs.len() <= PAGES_INPUT {
            node.inputs.resize(PAGES_INPUT + 1, None);
        }
        node.inputs[PAGES_INPUT] = Some(pages);
        "kiln".clone_into(&mut node.domain);
        node.attrs.insert("past_present_share_buffer".to_owned(), Attr::Int(1));
        // The window tells which positions are read; the cache has all positions.
        node.attrs.remove("sliding_window_cache");
    }
    if let Some(&layer) = layers.first() {
        give(graph, numbers, layer, last, pages);
    }
    allow_any_pages(graph, &cache, &presents);
    let mut own = Vec::new();
    for pair in states {
        if !presents.contains(&pair.present) {
            own.extend(State::at(graph, pair.past));
            presents.push(pair.present);
            allow_any_batch(graph, pair);
        }
    }
    let logits = logits_of(graph, &presents)?;
    let logits = at_rows(graph, logits, &facts)?;
    graph.outputs = std::iter::once(logits).chain(presents).collect();
    drop_unread(graph);
    let mut roles = Roles { cache, states: own, logits: graph.value(logits).name.clone(), ..Roles::default() };
    for &value in &graph.inputs {
        let info = graph.value(value);
        let name = info.name.clone();
        let is_known = [LAST, PAGES, ROWS].contains(&name.as_str()) || graph.constants.contains_key(&value);
        let is_state = roles.states.iter().any(|state| state.past == name);
        if is_known || is_state || biases.contains(&name) || roles.cache.iter().any(|pair| pair.past == name) {
            continue;
        }
        if beside.contains(&name) {
            roles.beside.push(name);
            continue;
        }
        let position_rows = rows_of_positions(info.dims.as_deref());
        match name.as_str() {
            "position_ids" if position_rows.is_some() && info.dtype == Some(DType::I64) => {
                (roles.position_rows, roles.positions) = (position_rows, Some(name));
            }
            _ if info.dims.as_ref().is_none_or(|dims| dims.len() != 2) || info.dtype != Some(DType::I64) => {
                return Err(refused(format!("input '{name}' is none that a decoder is known to have")));
            }
            "attention_mask" => roles.mask = Some(name),
            "position_ids" => roles.positions = Some(name),
            _ if roles.tokens.is_empty() => {
                roles.takes_one = matches!(info.dims.as_deref(), Some([_, Dim::Fixed(1)]));
                roles.tokens = name;
            }
            _ => return Err(refused(format!("inputs '{}' and '{name}' may both be the tokens", roles.tokens))),
        }
    }
    if roles.tokens.is_empty() {
        return Err(refused("no input has the tokens"));
    }
    Ok(roles)
}

/// The rows of an input of positions with three dimensions: time, height and width, and in some models the text's own.
pub(super) fn rows_of_positions(dims: Option<&[Dim]>) -> Option<usize> {
    match dims {
        Some(&[Dim::Fixed(rows @ 1..=4), _, _]) => Some(rows),
        _ => None,
    }
}

pub(super) fn is_attention(node: &NodeDesc) -> bool {
    node.domain == "com.microsoft" && node.op == "GroupQueryAttention"
}

/// Makes the numbers of a step from its inputs; `layer` is the place of a node of attention.
fn give(graph: &mut Graph, numbers: StepNumbers, layer: usize, last: ValueId, pages: ValueId) {
    let past = graph.nodes[layer].input(PAST[0]);
    let mut steps = Vec::new();
    let mut step = |op: &str, attrs: Attrs, inputs: &[ValueId], output: ValueId| {
        let inputs = inputs.iter().copied().map(Some).collect();
        let (name, op) = (format!("kiln.numbers/{op}"), op.to_owned());
        steps.push(NodeDesc {
            name,
            op,
            version: 15,
            attrs,
            inputs,
            outputs: vec![Some(output)],
            ..NodeDesc::default()
        });
    };
    if let Some(value) = numbers.last {
        step("Identity", Attrs::new(), &[last], value);
    }
    if let Some((room, past)) = numbers.room.zip(past) {
        let of_axis =
            |axis: i64| [("start", axis), ("end", axis + 1)].map(|(name, at)| (name.to_owned(), Attr::Int(at)));
        let sizes = [(pages, 1), (past, 2)].map(|(value, axis)| {
            let size = graph.fresh("room/size");
            step("Shape", Attrs::from(of_axis(axis)), &[value], size);
            size
        });
        let product = graph.fresh("room/product");
        step("Mul", Attrs::new(), &sizes, product);
        step("Squeeze", Attrs::new(), &[product], room);
    }
    graph.nodes.splice(0..0, steps);
}

/// The number of sequences, as the model declares it.
fn batch_of(graph: &Graph, layer: usize) -> Dim {
    let past = graph.nodes[layer].input(PAST[0]);
    let dims = past.and_then(|past| graph.value(past).dims.as_deref());
    dims.and_then(|dims| dims.first().cloned()).unwrap_or(Dim::Any)
}

/// Adds an input.
fn input(graph: &mut Graph, name: &str, dtype: DType, dims: Vec<Dim>) -> ValueId {
    let info = ValueInfo { name: name.to_owned(), dtype: Some(dtype), dims: Some(dims), ..ValueInfo::default() };
    let value = graph.add_value(info);
    graph.inputs.push(value);
    value
}

/// Lets the cache have any number of pages of any number of positions, whatever the model says of sequences and of
/// their length.
fn allow_any_pages(graph: &mut Graph, cache: &[Pair], presents: &[ValueId]) {
    presents.iter().for_each(|present| graph.values[present.index()].dims = None);
    for value in &mut graph.values {
        if cache.iter().any(|pair| pair.past == value.name)
            && let Some([pages, _, positions, _]) = value.dims.as_deref_mut()
        {
            [*pages, *positions] = [Dim::Any, Dim::Any];
        }
    }
}

/// Lets a state have rows of any number of sequences: not all steps are of the same number.
fn allow_any_batch(graph: &mut Graph, pair: &handed::Pair) {
    for value in [pair.past, pair.present] {
        if let Some([batch, ..]) = graph.values[value.index()].dims.as_deref_mut() {
            *batch = Dim::Any;
        }
    }
}

/// The input and the output of a part of the cache.
fn pair(graph: &Graph, node: &NodeDesc, past: usize, present: usize) -> Result<(ValueId, ValueId), DecoderError> {
    let given = node.input(past).filter(|past| graph.inputs.contains(past));
    let given = given.ok_or_else(|| refused(format!("node '{}': input {past} is no input of the model", node.name)))?;
    let made = node.output(present).filter(|present| graph.outputs.contains(present));
    let made =
        made.ok_or_else(|| refused(format!("node '{}': output {present} is no output of the model", node.name)))?;
    Ok((given, made))
}

/// Heads of keys and values, and the elements of a head as the cache stores it.
fn heads_of(node: &NodeDesc, facts: &Facts) -> Result<(usize, usize), DecoderError> {
    let count = |name: &str| match node.attrs.get(name) {
        Some(Attr::Int(count)) => usize::try_from(*count).ok().filter(|count| (1..1 << 20).contains(count)),
        _ => None,
    };
    let width = |input: usize| {
        let dims = facts.dims(node.input(input)?)?;
        usize::try_from(dims.last()?.known()?).ok()
    };
    // An element holds two codes of 4 bits.
    let is_halved = matches!(node.attrs.get("kv_cache_bit_width"), Some(Attr::Int(4)));
    let sizes = count("num_heads").zip(count("kv_num_heads")).and_then(|(queries, heads)| {
        // Without keys, queries, keys and values are one tensor.
        let of_rows = match node.input(1) {
            Some(_) => width(1).map(|width| width / heads),
            None => width(0).map(|width| width / (queries + 2 * heads)),
        };
        let size = of_rows.map(|size| if is_halved { size.div_ceil(2) } else { size });
        // The cache may declare what its new rows do not show.
        Some((heads, size.or_else(|| width(PAST[0]))?))
    });
    sizes.ok_or_else(|| refused(format!("node '{}': it is not known how large a head is", node.name)))
}

/// The output that does not belong to the cache.
fn logits_of(graph: &Graph, presents: &[ValueId]) -> Result<ValueId, DecoderError> {
    let others: Vec<ValueId> = graph.outputs.iter().copied().filter(|output| !presents.contains(output)).collect();
    let named = others.iter().copied().find(|&output| graph.value(output).name == "logits");
    named.or(others.first().copied()).ok_or_else(|| refused("no output has the logits"))
}

/// The logits of one position of each sequence: rows are picked before the last product, or else from the logits.
fn at_rows(graph: &mut Graph, logits: ValueId, facts: &Facts) -> Result<ValueId, DecoderError> {
    let rows = input(graph, ROWS, DType::I64, vec![Dim::Any]);
    let (from, reader) = match head(graph, logits) {
        Some((product, left)) if facts.rank(left) == Some(3) => (left, Some(product)),
        _ if facts.rank(logits) == Some(3) => (logits, None),
        _ => {
            return Err(refused(format!("output '{}' is not [sequences, positions, words]", graph.value(logits).name)));
        }
    };
    let axes = Tensor::from_vec([1], vec![1i64]).map_err(|error| refused(error.to_string()))?;
    let axes = graph.add_constant("axes", axes);
    let [flat, picked, row] = ["flat", "picked", "row"].map(|name| graph.fresh(name));
    let axis = |axis: i64| Attrs::from([("axis".to_owned(), Attr::Int(axis))]);
    // Positions of all sequences become rows; one row is picked for each sequence.
    let steps = [
        step("Flatten", axis(2), [Some(from), None], flat),
        step("Gather", axis(0), [Some(flat), Some(rows)], picked),
        step("Unsqueeze", Attrs::new(), [Some(picked), Some(axes)], row),
    ];
    let place = reader.unwrap_or(graph.nodes.len());
    graph.nodes.splice(place..place, steps);
    let Some(reader) = reader.map(|reader| reader + 3) else { return Ok(row) };
    graph.nodes[reader].inputs[0] = Some(row);
    // The model's declarations for all positions no longer hold.
    for value in graph.nodes[reader..].iter().flat_map(|node| node.outputs.iter().flatten()) {
        graph.values[value.index()].dims = None;
    }
    Ok(logits)
}

/// A node of the steps that pick rows.
fn step(op: &str, attrs: Attrs, inputs: [Option<ValueId>; 2], output: ValueId) -> NodeDesc {
    NodeDesc {
        name: format!("{ROWS}/{op}"),
        op: op.to_owned(),
        version: 13,
        attrs,
        inputs: inputs.into_iter().filter(Option::is_some).collect(),
        outputs: vec![Some(output)],
        ..NodeDesc::default()
    }
}

/// The product from which the logits are computed element by element, and its left-hand side. `None` where other nodes
/// read values in between.
fn head(graph: &Graph, logits: ValueId) -> Option<(usize, ValueId)> {
    let (producers, counts) = (graph.producers(), graph.use_counts());
    let mut value = logits;
    loop {
        let place = producers[value.index()].filter(|_| counts[value.index()] == 1)?;
        let node = &graph.nodes[place];
        let left = node.input(0)?;
        if is_product(node) {
            return Some((place, left));
        }
        value = Some(left).filter(|_| is_elementwise(graph, node))?;
    }
}

fn is_product(node: &NodeDesc) -> bool {
    let products = ["MatMulNBits", "MatMulBnb4"];
    node.is("MatMul") || node.domain == "com.microsoft" && products.contains(&node.op.as_str())
}

/// Whether a node computes each element from one element of its first input and from constants of a single number.
fn is_elementwise(graph: &Graph, node: &NodeDesc) -> bool {
    let functions = ["Mul", "Div", "Add", "Sub", "Tanh", "Cast", "Identity"];
    let single = |value: &Option<ValueId>| {
        value
            .and_then(|value| graph.constant(value))
            .is_some_and(|constant| constant.len() == 1 && constant.shape().len() <= 1)
    };
    functions.iter().any(|op| node.is(op)) && node.inputs[1..].iter().all(single)
}

/// Drops nodes, inputs and constants that no output needs.
pub(in crate::session) fn drop_unread(graph: &mut Graph) {
    let mut needed: BTreeSet<ValueId> = graph.outputs.iter().copied().collect();
    let mut kept = Vec::with_capacity(graph.nodes.len());
    for node in std::mem::take(&mut graph.nodes).into_iter().rev() {
        if node.outputs.iter().flatten().any(|value| needed.contains(value)) {
            needed.extend(node.inputs.iter().flatten());
            kept.push(node);
        }
    }
    kept.reverse();
    graph.nodes = kept;
    graph.inputs.retain(|value| needed.contains(value));
    graph.constants.retain(|value, _| needed.contains(value));
}
