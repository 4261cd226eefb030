//! GroupQueryAttention of ONNX Runtime: a decoder's attention over a cache whose sequences have different lengths, with
//! rotary embeddings, norms of heads, a window and a sink.
//!
//! The cache is [batch, heads of keys, positions, head size]. New positions are written behind those that each sequence
//! has, rotated on their way, and attention reads them there. How long sequences are is an argument of the run, so that
//! one executor serves a cache for as long as it has room. A single new position is a query of each head; the heads that
//! share keys are queries over them, which read those together.
//!
//! Where there is more than causality and a window, executors are for one length: which keys a query sees is a condition
//! [batch, new positions, keys] there, and a sink is a key of zeros in front of all others, with a value of zeros, whose
//! score is the mask's.

mod sizes;
mod window;

use kiln_kernels::Parallel;
use kiln_kernels::cpu::attention::{Attention as Executor, AttentionShape, Cache, KeyRange, Operands, Strides};
use kiln_kernels::cpu::{Elements, Stored};
use kiln_kernels::memory::{self, Collect};
use kiln_kernels::parallel::{copy, for_each_chunk};

use self::sizes::{Sequence, Sizes};
use super::convert::through_f32;
use super::rotary::rotate;
use super::{LoadCx, OpError, Operator, index_of, optional, required, size_attribute};
use crate::exec::attention::AttentionKey;
use crate::graph::{Io, Node, NodeDesc, NodeError, PrepareCx, Prepared, RunCx};
use crate::tensor::{DType, Tensor, TensorSpec};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] =
    &[("com.microsoft", "GroupQueryAttention", |cx: &LoadCx<'_>| through_f32(cx, make))];

/// Places of the inputs.
mod input {
    pub(super) const QUERY: usize = 0;
    pub(super) const KEY: usize = 1;
    pub(super) const VALUE: usize = 2;
    pub(super) const PAST_KEY: usize = 3;
    pub(super) const PAST_VALUE: usize = 4;
    /// The last position of each sequence.
    pub(super) const LAST: usize = 5;
    pub(super) const TOTAL: usize = 6;
    pub(super) const COSINES: usize = 7;
    pub(super) const SINES: usize = 8;
    pub(super) const IDS: usize = 9;
    pub(super) const BIAS: usize = 10;
    pub(super) const SINK: usize = 11;
    pub(super) const KEY_SCALE: usize = 12;
    pub(super) const VALUE_SCALE: usize = 13;
    pub(super) const QUERY_NORM: usize = 14;
    pub(super) const KEY_NORM: usize = 15;
    pub(super) const QUERY_LENGTHS: usize = 16;
}

/// The least keys that an executor over a cache takes: caches that grow from nothing need no executor for each length.
const LEAST_ROOM: usize = 1 << 10;

/// Places of the outputs.
const OUTPUT: usize = 0;
const PRESENT_KEY: usize = 1;
const PRESENT_VALUE: usize = 2;

struct GroupQuery {
    heads: usize,
    kv_heads: usize,
    /// One over the root of a head's size where it is left out.
    scale: Option<f32>,
    /// Caps scores where it is not 0.
    cap: f32,
    causal: bool,
    /// Keys that a query sees, its own position's among them.
    window: Option<usize>,
    rotary: bool,
    interleaved: bool,
    /// Whether softmax has a sink of score 0.
    smooth: bool,
    /// Whether the cache has the last positions alone.
    slides: bool,
    /// Whether the cache is written where it is, and what lies behind its sequences does not matter.
    shared_buffer: bool,
    /// Of the norms of queries and of keys.
    epsilons: [f32; 2],
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let (node, attributes): (&NodeDesc, _) = (cx.node, cx.node.attributes());
    let unsupported = |what: String| Err(OpError::unsupported(node, what));
    for name in ["qk_output", "kv_cache_bit_width"] {
        if attributes.int(name) != 0 {
            return unsupported(format!("attribute {name} = {}", attributes.int(name)));
        }
    }
    for name in ["k_quant_type", "v_quant_type"] {
        if attributes.text(name) != "NONE" {
            return unsupported(format!("attribute {name} = {:?}", attributes.text(name)));
        }
    }
    for (index, name) in
        [(input::KEY_SCALE, "k_scale"), (input::VALUE_SCALE, "v_scale"), (input::QUERY_LENGTHS, "query_seqlens")]
    {
        if node.input(index).is_some() {
            return unsupported(format!("input {index} ({name})"));
        }
    }
    if node.output(PRESENT_VALUE + 1).is_some() {
        return unsupported(format!("output {} (output_qk)", PRESENT_VALUE + 1));
    }
    let [heads, kv_heads] = [size_attribute(node, "num_heads", 1)?, size_attribute(node, "kv_num_heads", 1)?];
    if heads % kv_heads != 0 {
        return Err(OpError::invalid(node, format!("{heads} heads of queries for {kv_heads} of keys")));
    }
    let window = match attributes.int("local_window_size") {
        -1 => None,
        size => match usize::try_from(size) {
            Ok(size) if size > 0 => Some(size),
            _ => return Err(OpError::invalid(node, format!("local_window_size = {size}"))),
        },
    };
    let causal = attributes.flag("causal");
    if window.is_some() && !causal {
        return unsupported("a window without causality".to_owned());
    }
    let (slides, smooth) = (attributes.flag("sliding_window_cache"), attributes.int("smooth_softmax") > 0);
    if slides && (window.is_none() || smooth) {
        let what = if smooth { "and smooth_softmax" } else { "without local_window_size" };
        return unsupported(format!("attribute sliding_window_cache = 1 {what}"));
    }
    let epsilon = attributes.float("qk_norm_epsilon");
    let epsilons = ["q_norm_epsilon", "k_norm_epsilon"].map(|name| attributes.number(name).unwrap_or(epsilon));
    Ok(Box::new(GroupQuery {
        heads,
        kv_heads,
        // A scale of 0 is none.
        scale: attributes.number("scale").filter(|&scale| scale != 0.0),
        cap: attributes.float("softcap"),
        causal,
        window,
        rotary: attributes.flag("do_rotary"),
        interleaved: attributes.flag("rotary_interleaved"),
        smooth,
        slides,
        shared_buffer: attributes.flag("past_present_share_buffer"),
        epsilons,
    }))
}

/// Rows of heads: those of queries, keys or values in an input.
#[derive(Clone, Copy)]
struct Rows<'a> {
    elements: &'a [f32],
    /// Elements from one position to the next.
    width: usize,
    /// Elements before the first head.
    first: usize,
    /// Elements of a head.
    size: usize,
}

impl<'a> Rows<'a> {
    fn head(&self, line: usize, head: usize) -> &'a [f32] {
        &self.elements[line * self.width + self.first + head * self.size..][..self.size]
    }
}

/// What is done to heads of queries or of keys before they are multiplied.
struct Turn<'a> {
    /// Weights of the norm of a head.
    norm: Option<&'a [f32]>,
    epsilon: f32,
    angles: Option<&'a Angles<'a>>,
}

/// The angles of all new positions.
struct Angles<'a> {
    cosines: &'a [f32],
    sines: &'a [f32],
    /// Pairs of a head that are rotated.
    pairs: usize,
    interleaved: bool,
    /// The line of angles of each new position.
    lines: Vec<usize>,
}

impl Turn<'_> {
    const NOTHING: Turn<'static> = Turn { norm: None, epsilon: 0.0, angles: None };

    fn is_nothing(&self) -> bool {
        self.norm.is_none() && self.angles.is_none()
    }

    /// The head of the new position `line`.
    fn apply(&self, head: &mut [f32], line: usize) {
        if let Some(weights) = self.norm {
            let squares: f32 = head.iter().map(|value| value * value).sum();
            let factor = 1.0 / (squares / head.len().max(1) as f32 + self.epsilon).sqrt();
            head.iter_mut().zip(weights).for_each(|(value, weight)| *value *= factor * weight);
        }
        if let Some(Angles { cosines, sines, pairs, interleaved, lines }) = self.angles {
            let first = lines[line] * pairs;
            rotate(&mut head[..2 * pairs], &cosines[first..][..*pairs], &sines[first..][..*pairs], *interleaved);
        }
    }
}

impl GroupQuery {
    /// Whether queries and keys are anything else than what the inputs have.
    fn turns(&self, inputs: &[Option<&Tensor>]) -> bool {
        self.rotary || optional(inputs, input::QUERY_NORM).is_some()
    }

    /// Whether a key of zeros stands in front of the others.
    fn has_sink(&self, inputs: &[Option<&Tensor>]) -> bool {
        self.smooth || optional(inputs, input::SINK).is_some()
    }

    /// Whether a condition says which keys are seen. In a prompt without a window, causality says it: what stands
    /// behind the end of a sequence is seen by queries alone that stand there too.
    fn has_condition(&self, sizes: &Sizes) -> bool {
        !sizes.is_prompt() || !self.causal || self.window.is_some_and(|window| window < sizes.total)
    }

    /// Whether lengths are arguments of the run.
    fn is_cached(&self, inputs: &[Option<&Tensor>]) -> bool {
        self.causal && !self.has_sink(inputs) && optional(inputs, input::BIAS).is_none()
    }

    /// The key of an executor that takes lengths when it runs, of caches with up to twice the room.
    fn cached_key(&self, sizes: &Sizes, inputs: &[Option<&Tensor>], cx: &PrepareCx<'_>) -> AttentionKey {
        let &Sizes { batch, new, size, query_width, .. } = sizes;
        let (shared, is_step) = (self.heads / self.kv_heads, new == 1);
        let keys = sizes.reach().max(LEAST_ROOM).checked_next_power_of_two().unwrap_or(sizes.reach());
        let rows = |width: usize| match is_step {
            true => [new * width, shared * size, size],
            false => [new * width, size, width],
        };
        let strides = |width: usize| {
            let [batch, head, row] = rows(width).map(|elements| elements as u64);
            Strides { batch, head, row }
        };
        let output = strides(self.heads * size);
        let cache = Strides { batch: 0, head: 0, row: size as u64 };
        let (heads, shared, queries) = if is_step { (self.kv_heads, 1, shared) } else { (self.heads, shared, new) };
        cx.key(AttentionShape {
            batch: batch as u64,
            heads: heads as u64,
            shared: shared as u64,
            queries: queries as u64,
            keys: keys as u64,
            size: size as u64,
            value_size: size as u64,
            query: if self.turns(inputs) { output } else { strides(query_width) },
            key: cache,
            key_columns: false,
            value: cache,
            output,
            mask: None,
            keep: None,
            inverted: false,
            fill: f32::NEG_INFINITY.into(),
            scale: self.scale.unwrap_or(1.0 / (size as f32).sqrt()).into(),
            cap: (self.cap > 0.0).then(|| self.cap.into()),
            causal: (!is_step).then_some(0),
            range: if self.window.is_some_and(|window| window < keys) { KeyRange::Window } else { KeyRange::Cache },
            blind_is_zero: true,
            elements: Elements::F32,
            stored: Stored::F32,
            written: Stored::F32,
        })
    }

    /// The key of an executor for these lengths.
    fn key(&self, sizes: &Sizes, inputs: &[Option<&Tensor>], cx: &PrepareCx<'_>) -> AttentionKey {
        let &Sizes { batch, new, size, total, .. } = sizes;
        let (has_sink, turned) = (self.has_sink(inputs), self.turns(inputs));
        let front = usize::from(has_sink);
        let (keys, room) = (front + total, if has_sink { 1 + total } else { sizes.room });
        let rows = |heads: usize, positions: usize, width: usize| Strides {
            batch: (positions * width) as u64,
            head: if heads == 0 { size } else { heads * size } as u64,
            row: width as u64,
        };
        let cache =
            Strides { batch: (self.kv_heads * room * size) as u64, head: (room * size) as u64, row: size as u64 };
        let output = rows(0, new, self.heads * size);
        let query = if turned { output } else { rows(0, new, sizes.query_width) };
        let bias = optional(inputs, input::BIAS).map(Tensor::shape);
        let mask = match bias {
            Some(shape) => Some([shape[0], shape[1], new]),
            None if has_sink => Some([1, 1, 1]),
            None => None,
        };
        let mask = mask.map(|[batches, heads, rows]| {
            // A sink has a score for each head.
            let heads = if has_sink { self.heads } else { heads };
            let step = |count: usize, elements: usize| if count > 1 { elements as u64 } else { 0 };
            Strides { batch: step(batches, heads * rows * keys), head: step(heads, rows * keys), row: step(rows, keys) }
        });
        let keep = Strides { batch: (new * keys) as u64, head: 0, row: keys as u64 };
        cx.key(AttentionShape {
            batch: batch as u64,
            heads: self.heads as u64,
            shared: (self.heads / self.kv_heads) as u64,
            queries: new as u64,
            keys: keys as u64,
            size: size as u64,
            value_size: size as u64,
            query,
            key: cache,
            key_columns: false,
            value: cache,
            output,
            mask,
            keep: self.has_condition(sizes).then_some(keep),
            inverted: false,
            fill: f32::NEG_INFINITY.into(),
            scale: self.scale.unwrap_or(1.0 / (size as f32).sqrt()).into(),
            cap: (self.cap > 0.0).then(|| self.cap.into()),
            // The longest sequence's; the condition says it of the others.
            causal: self.causal.then_some((front + total - new) as u64),
            range: KeyRange::Shape,
            blind_is_zero: true,
            elements: cx.computed_elements(),
            stored: Stored::F32,
            written: Stored::F32,
        })
    }

    /// The new heads of keys (`PRESENT_KEY`) or of values.
    fn new_rows<'a>(&self, io: &'a Io<'_>, sizes: &Sizes, output: usize) -> Result<Rows<'a>, NodeError> {
        let own = output - PRESENT_KEY;
        let size = sizes.size;
        let (index, first) = match sizes.is_packed {
            true => (input::QUERY, (self.heads + own * self.kv_heads) * size),
            false => (input::KEY + own, 0),
        };
        let width = if sizes.is_packed { sizes.query_width } else { self.kv_heads * size };
        Ok(Rows { elements: io.input(index)?.as_slice()?, width, first, size })
    }

    /// The cache of keys or values with the new positions of each sequence behind its own. Zeros follow unless the
    /// buffer is shared, when a step touches no row but its own.
    fn present(
        &self,
        io: &mut Io<'_>,
        output: usize,
        request: &Request<'_>,
        turn: &Turn<'_>,
    ) -> Result<Tensor, NodeError> {
        let Request { sizes, sequences, parallel } = *request;
        let past_index = input::PAST_KEY + output - PRESENT_KEY;
        let in_place = io.can_reuse(past_index, output);
        let mut present = if in_place { io.take(past_index)? } else { io.alloc(output)? };
        let past = io.optional(past_index).filter(|_| !in_place).map(Tensor::as_slice::<f32>).transpose()?;
        let (rows, size) = (self.new_rows(io, sizes, output)?, sizes.size);
        for_each_chunk(parallel, present.as_mut_slice()?, sizes.room * size, &|line, to| {
            let (sequence, head) = (line / self.kv_heads, line % self.kv_heads);
            let before = sequences[sequence].before;
            if let Some(past) = past {
                copy(&past[line * sizes.past * size..][..before * size], to);
            }
            let (new, rest) = to[before * size..].split_at_mut(sizes.new * size);
            for (position, to) in new.chunks_exact_mut(size.max(1)).enumerate() {
                let line = sequence * sizes.new + position;
                to.copy_from_slice(rows.head(line, head));
                turn.apply(to, line);
            }
            if !self.shared_buffer {
                rest.fill(0.0);
            }
        });
        Ok(present)
    }

    /// The keys that each new position sees, nonzero where it does.
    fn condition(&self, request: &Request<'_>, front: usize, to: &mut [u8]) {
        let sizes = request.sizes;
        let keys = front + sizes.total;
        to.fill(0);
        for (line, to) in to.chunks_exact_mut(keys.max(1)).enumerate() {
            let Sequence { before, filled, .. } = request.sequences[line / sizes.new.max(1)];
            let own = before + line % sizes.new.max(1) + 1;
            let end = if self.causal { own.min(filled) } else { filled };
            let start = self.window.map_or(0, |window| own.saturating_sub(window)).min(end);
            to[..front].fill(1);
            to[front..][start..end].fill(1);
        }
    }

    /// The bias with the sink's scores in front: [batches of the bias, heads, rows of the bias, 1 + keys].
    fn mask_with_sink(&self, inputs: &[Option<&Tensor>], sizes: &Sizes) -> Result<Vec<f32>, NodeError> {
        let sink = optional(inputs, input::SINK).map(Tensor::as_slice::<f32>).transpose()?;
        let bias = optional(inputs, input::BIAS);
        let [batches, heads, rows] = bias.map_or([1, 1, 1], |bias| [bias.shape()[0], bias.shape()[1], sizes.new]);
        let bias = bias.map(Tensor::as_slice::<f32>).transpose()?;
        let mut mask = memory::with_capacity(batches * self.heads * rows * (1 + sizes.total));
        for line in 0..batches * self.heads * rows {
            let (batch, head, row) = (line / rows / self.heads, line / rows % self.heads, line % rows);
            mask.push(sink.map_or(0.0, |sink| sink[head]));
            match bias {
                None => mask.resize(mask.len() + sizes.total, 0.0),
                Some(bias) => {
                    let line = (batch * heads + head % heads) * rows + row;
                    mask.extend_from_slice(&bias[line * sizes.total..][..sizes.total]);
                }
            }
        }
        Ok(mask)
    }
}

/// What all steps of a request need.
#[derive(Clone, Copy)]
struct Request<'a> {
    sizes: &'a Sizes,
    sequences: &'a [Sequence],
    parallel: &'a dyn Parallel,
}

/// Copies the filled positions of a cache behind a row of zeros for each head.
fn behind_zeros(present: &[f32], request: &Request<'_>, to: &mut [f32]) {
    let sizes = request.sizes;
    for_each_chunk(request.parallel, to, (1 + sizes.total) * sizes.size, &|line, to| {
        let (zeros, rows) = to.split_at_mut(sizes.size);
        zeros.fill(0.0);
        copy(&present[line * sizes.room * sizes.size..][..rows.len()], rows);
    });
}

/// The line of angles of each new position: in a prompt, they count on from the first id.
fn lines_of_angles(
    ids: Option<&Tensor>,
    sizes: &Sizes,
    sequences: &[Sequence],
    known: usize,
) -> Result<Vec<usize>, NodeError> {
    let ids = ids.map(Tensor::to_i64_vec).transpose()?;
    let first = ids.as_deref().and_then(|ids| ids.first().copied()).unwrap_or(0);
    let line = |line: usize| {
        let (sequence, position) = (line / sizes.new, line % sizes.new);
        let id = match &ids {
            _ if sizes.is_prompt() => first.saturating_add(position as i64),
            Some(ids) => ids[line],
            None => (sequences[sequence].before + position) as i64,
        };
        index_of(id, known)
    };
    (0..sizes.batch * sizes.new).map(line).try_collected()
}

impl Node for GroupQuery {
    fn family(&self) -> &'static str {
        "attention"
    }

    fn value_inputs(&self) -> u64 {
        1 << input::TOTAL
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        Sizes::of(self, inputs)?;
        let floats = (0..=input::KEY_NORM).filter(|index| ![input::LAST, input::TOTAL, input::IDS].contains(index));
        for (index, tensor) in floats.filter_map(|index| Some((index, optional(inputs, index)?))) {
            if tensor.dtype() != DType::F32 {
                return Err(NodeError::Unsupported(format!("input {index} of type {}", tensor.dtype())));
            }
        }
        Ok(())
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let sizes = Sizes::of(self, inputs)?;
        let key = match self.is_cached(inputs) {
            true => self.cached_key(&sizes, inputs, cx),
            false => self.key(&sizes, inputs, cx),
        };
        Ok(Prepared::new(cx.executor(&key)?))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let executor = prepared.get::<Executor>()?;
        let sizes = Sizes::of(self, &io.inputs())?;
        let sequences = sizes.sequences(required(&io.inputs(), input::LAST)?)?;
        let request = Request { sizes: &sizes, sequences: &sequences, parallel: cx.parallel };
        // The parameters are held on their own, because the cache may be taken out of the inputs.
        let held = |index: usize| io.optional(index).cloned();
        let tables = held(input::COSINES).zip(held(input::SINES)).filter(|_| self.rotary);
        let norms = [input::QUERY_NORM, input::KEY_NORM].map(held);
        let angles = match &tables {
            None => None,
            Some((cosines, sines)) => Some(Angles {
                pairs: cosines.shape()[1],
                interleaved: self.interleaved,
                lines: lines_of_angles(io.optional(input::IDS), &sizes, &sequences, cosines.shape()[0])?,
                cosines: cosines.as_slice()?,
                sines: sines.as_slice()?,
            }),
        };
        let turn = |which: usize| -> Result<Turn<'_>, NodeError> {
            let norm = norms[which].as_ref().map(Tensor::as_slice::<f32>).transpose()?;
            Ok(Turn { norm, epsilon: self.epsilons[which], angles: angles.as_ref() })
        };
        let (of_queries, of_keys) = (turn(0)?, turn(1)?);
        let (keys, values, staged) = match sizes.sliding {
            None => {
                let keys = self.present(io, PRESENT_KEY, &request, &of_keys)?;
                (keys, self.present(io, PRESENT_VALUE, &request, &Turn::NOTHING)?, None)
            }
            Some(_) => {
                let (keys, staged_keys) = self.slid(io, PRESENT_KEY, &request, &of_keys, cx)?;
                let (values, staged_values) = self.slid(io, PRESENT_VALUE, &request, &Turn::NOTHING, cx)?;
                (keys, values, staged_keys.zip(staged_values))
            }
        };

        let given = Rows {
            elements: io.input(input::QUERY)?.as_slice()?,
            width: sizes.query_width,
            first: 0,
            size: sizes.size,
        };
        let width = self.heads * sizes.size;
        let mut queries = None;
        if !of_queries.is_nothing() {
            let mut turned = cx.scratch::<f32>(sizes.batch * sizes.new * width)?;
            for_each_chunk(cx.parallel, turned.as_mut_slice()?, width, &|line, to| {
                for (head, to) in to.chunks_exact_mut(sizes.size.max(1)).enumerate() {
                    to.copy_from_slice(given.head(line, head));
                    of_queries.apply(to, line);
                }
            });
            queries = Some(turned);
        }
        let query = queries.as_ref().map_or(Ok(given.elements), Tensor::as_slice::<f32>)?;
        if executor.shape().is_cached() {
            let rows = |sequence: &Sequence| match &staged {
                Some(_) => sequence.whole(sizes.new),
                None => sequence.whole(sizes.new) - sequence.dropped(),
            };
            let ends: Vec<usize> = sequences.iter().map(rows).collected();
            let (key, value) = staged.as_ref().map_or((&keys, &values), |(keys, values)| (keys, values));
            let head = key.len() / (sizes.batch * self.kv_heads).max(1);
            let cache = Cache { keys: &ends, batch: self.kv_heads * head, head, window: self.window.unwrap_or(0) };
            let operands = Operands { query, key: key.as_slice()?, value: value.as_slice()?, mask: None, keep: None };
            let (mut output, mut scratch) = (io.alloc(OUTPUT)?, cx.scratch::<f32>(executor.scratch_len())?);
            executor.run_cached(&operands, &cache, output.as_mut_slice()?, scratch.as_mut_slice()?, cx.parallel)?;
            io.push(output);
            io.push(keys);
            io.push(values);
            return Ok(());
        }
        let has_sink = self.has_sink(&io.inputs());
        let front = usize::from(has_sink);
        let keep = match self.has_condition(&sizes) {
            false => None,
            true => {
                let mut keep = cx.scratch::<u8>(sizes.batch * sizes.new * (front + sizes.total))?;
                self.condition(&request, front, keep.as_mut_slice()?);
                Some(keep)
            }
        };
        let mask = if has_sink { Some(self.mask_with_sink(&io.inputs(), &sizes)?) } else { None };
        let bias = io.optional(input::BIAS).map(Tensor::as_slice::<f32>).transpose()?;
        let joined = |present: &Tensor| -> Result<Tensor, NodeError> {
            if !has_sink {
                return Ok(present.clone());
            }
            let count = sizes.batch * self.kv_heads * (1 + sizes.total) * sizes.size;
            let mut all = cx.scratch::<f32>(count)?;
            behind_zeros(present.as_slice()?, &request, all.as_mut_slice()?);
            Ok(all)
        };
        let (all_keys, all_values) = (joined(&keys)?, joined(&values)?);
        let operands = Operands {
            query,
            key: all_keys.as_slice()?,
            value: all_values.as_slice()?,
            mask: mask.as_deref().or(bias),
            keep: keep.as_ref().map(Tensor::bytes),
        };
        let (mut output, mut scratch) = (io.alloc(OUTPUT)?, cx.scratch::<f32>(executor.scratch_len())?);
        executor.run(&operands, output.as_mut_slice()?, scratch.as_mut_slice()?, cx.parallel)?;
        drop((all_keys, all_values));
        io.push(output);
        io.push(keys);
        io.push(values);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
