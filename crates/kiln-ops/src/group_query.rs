//! GroupQueryAttention of ONNX Runtime: a decoder's attention over a cache whose sequences have different lengths, with
//! rotary embeddings, norms of heads, a window and a sink.
//!
//! The cache is [batch, heads of keys, positions, head size]. New positions are written behind those of each sequence,
//! rotated on the way, and attention reads them there. The lengths of sequences are arguments of the run, so that one
//! executor serves a cache for as long as it has room. In a step of one position, the heads that share keys are queries
//! of one product, which reads the keys once.
//!
//! A cache may also be in pages, [pages, heads of keys, positions of a page, head size]. A request then names the pages
//! of each of its sequences. Several may have the same pages: sequences that begin alike share them, and rows of a
//! prompt may be sequences of one position each, beside those of other sequences. All are written before any is read.
//!
//! Sinks, biases and the valid positions of padded chunks (`query_seqlens`) are arguments of the run as well. A cache
//! may hold codes of 8 or 4 bits, with scales that the model gives: new positions are rounded when they are written,
//! and attention makes numbers of a block of positions at a time. A cache of `f16` is written and read in place, too.

mod cache;
mod heads;
mod pages;
mod scores;
mod sizes;
mod window;

use std::ops::Range;

use kiln_kernels::cpu::attention::{
    Attention as Executor, AttentionShape, Bias, Cache, Held, KeyRange, Pages as CachePages, Scales, Sink, Strides,
};
use kiln_kernels::cpu::{Elements, Stored};
use kiln_kernels::memory::Collect;
use kiln_kernels::parallel::for_each_chunk;
use kiln_kernels::{Isa, Parallel};
use kiln_model::NodeDesc;
use kiln_run::exec::attention::AttentionKey;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use self::heads::{Angles, Rows, Turn, lines_of_angles};
use self::pages::Pages;
use self::scores::Scores;
use self::sizes::{Sequence, Sizes};
use super::convert::{Kept, through_f32_but};
use super::{LoadCx, MakeNode, OpError, Operator, optional, required, size_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] =
    &[("com.microsoft", "GroupQueryAttention", LOAD), ("kiln", "GroupQueryAttention", LOAD)];

const LOAD: MakeNode = |cx| through_f32_but(cx, make, &CACHE);

/// The caches that go in and come out.
const CACHE: [Kept; 2] = [
    Kept { input: input::PAST_KEY, output: PRESENT_KEY, dtype: DType::F16 },
    Kept { input: input::PAST_VALUE, output: PRESENT_VALUE, dtype: DType::F16 },
];

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
    /// For each sequence of the request, its pages of the cache: only in the operator of domain kiln, which has no total
    /// length.
    pub(super) const PAGES: usize = 17;
}

/// The fewest keys of an executor over a cache, so that caches that grow from nothing need few executors.
const LEAST_ROOM: usize = 1 << 10;

/// Places of the outputs.
const OUTPUT: usize = 0;
const PRESENT_KEY: usize = 1;
const PRESENT_VALUE: usize = 2;
const SCORES: usize = 3;

struct GroupQuery {
    heads: usize,
    kv_heads: usize,
    /// Where it is left out, one over the root of a head's size.
    scale: Option<f32>,
    /// Caps scores where it is not 0.
    cap: f32,
    causal: bool,
    /// Keys that a query sees, including its own position's.
    window: Option<usize>,
    rotary: bool,
    interleaved: bool,
    /// Whether softmax has a sink of score 0.
    smooth: bool,
    /// Whether the cache has only the last positions.
    slides: bool,
    /// Whether the cache is written in place, with arbitrary contents behind its sequences.
    shared_buffer: bool,
    /// The epsilons of the norms of queries and of keys.
    epsilons: [f32; 2],
    /// How the cache stores its rows, where they are not floats.
    held: Held,
    /// Whether codes have a scale for each head and element, instead of one for all.
    per_channel: bool,
    /// The scores that are an output.
    scores: Option<Scores>,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let (node, attributes): (&NodeDesc, _) = (cx.node, cx.node.attributes());
    let unsupported = |what: String| Err(OpError::unsupported(node, what));
    let (held, per_channel) = held(node)?;
    let scores = scores(node)?;
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
    if node.input(input::QUERY_LENGTHS).is_some() {
        if !causal {
            return unsupported(format!("input {} (query_seqlens) without causality", input::QUERY_LENGTHS));
        }
        if node.input(input::PAST_KEY).is_none() {
            let what = format!("input {} (query_seqlens) without input {}", input::QUERY_LENGTHS, input::PAST_KEY);
            return Err(OpError::invalid(node, what));
        }
    }
    if node.input(input::PAGES).is_some() {
        if node.input(input::PAST_KEY).is_none() {
            return Err(OpError::invalid(node, format!("input {} without a cache", input::PAGES)));
        }
        if attributes.flag("sliding_window_cache") || scores.is_some() {
            return unsupported(format!("input {} with a cache that slides or with scores", input::PAGES));
        }
    }
    let (slides, smooth) = (attributes.flag("sliding_window_cache"), attributes.int("smooth_softmax") > 0);
    if slides && (window.is_none() || scores.is_some()) {
        let what = if window.is_some() { "and qk_output" } else { "without local_window_size" };
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
        held,
        per_channel,
        scores,
    }))
}

/// How the cache stores its rows, and whether codes have a scale for each head and element.
fn held(node: &NodeDesc) -> Result<(Held, bool), OpError> {
    let attributes = node.attributes();
    let [of_keys, of_values] = ["k_quant_type", "v_quant_type"].map(|name| attributes.text(name));
    if of_keys != of_values {
        let what = format!("attributes k_quant_type = {of_keys:?} and v_quant_type = {of_values:?}");
        return Err(OpError::unsupported(node, what));
    }
    let bits = attributes.int("kv_cache_bit_width");
    let per_channel = match of_keys {
        "NONE" if bits == 0 => return Ok((Held::F32, false)),
        "PER_TENSOR" => false,
        "PER_CHANNEL" => true,
        "NONE" => {
            return Err(OpError::invalid(node, format!("kv_cache_bit_width = {bits}, where k_quant_type is NONE")));
        }
        other => return Err(OpError::invalid(node, format!("attribute k_quant_type = {other:?}"))),
    };
    let held = match bits {
        8 => Held::Bytes,
        4 => Held::Nibbles,
        _ => return Err(OpError::invalid(node, format!("kv_cache_bit_width = {bits} of a quantised cache"))),
    };
    let needed = [input::PAST_KEY, input::PAST_VALUE, input::KEY_SCALE, input::VALUE_SCALE];
    match needed.into_iter().find(|&index| node.input(index).is_none()) {
        None => Ok((held, per_channel)),
        Some(index) => Err(OpError::invalid(node, format!("a quantised cache without input {index}"))),
    }
}

/// The scores that are an output.
fn scores(node: &NodeDesc) -> Result<Option<Scores>, OpError> {
    let scores = match node.attributes().int("qk_output") {
        0 => None,
        1 => Some(Scores::Before),
        2 => Some(Scores::After),
        other => return Err(OpError::invalid(node, format!("attribute qk_output = {other}"))),
    };
    match node.output(SCORES).is_some() == scores.is_some() {
        true => Ok(scores),
        false => {
            let beside = if scores.is_some() { "without" } else { "= 0, and" };
            Err(OpError::invalid(node, format!("attribute qk_output {beside} output {SCORES} (output_qk)")))
        }
    }
}

impl GroupQuery {
    /// Whether queries and keys are rotated or normalised.
    fn turns(&self, inputs: &[Option<&Tensor>]) -> bool {
        self.rotary || optional(inputs, input::QUERY_NORM).is_some()
    }

    /// How a cache stores its rows.
    fn held_in(&self, cache: Option<&Tensor>) -> Held {
        match cache.map(Tensor::dtype) {
            Some(DType::F16) if !self.held.is_quantized() => Held::F16,
            _ => self.held,
        }
    }

    /// The factor of products of heads of that size.
    fn scale_of(&self, size: usize) -> f32 {
        self.scale.unwrap_or(1.0 / (size as f32).sqrt())
    }

    /// The keys that a new position of a sequence sees.
    fn seen(&self, sequence: &Sequence, position: usize) -> Range<usize> {
        let own = sequence.before + position + 1;
        let end = if self.causal { own.min(sequence.filled) } else { sequence.filled };
        self.window.map_or(0, |window| end.saturating_sub(window))..end
    }

    /// The key of an executor that takes lengths at run time, for caches of up to twice the room.
    fn key(&self, sizes: &Sizes, inputs: &[Option<&Tensor>], cx: &PrepareCx<'_>) -> AttentionKey {
        let &Sizes { batch, new, size, query_width, .. } = sizes;
        let has_bias = optional(inputs, input::BIAS).is_some();
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
        let shape = AttentionShape {
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
            mask: has_bias.then(Strides::default),
            keep: None,
            inverted: false,
            fill: f32::NEG_INFINITY.into(),
            scale: self.scale_of(size).into(),
            cap: (self.cap > 0.0).then(|| self.cap.into()),
            causal: (self.causal && !is_step).then_some(0),
            range: if self.window.is_some_and(|window| window < keys) { KeyRange::Window } else { KeyRange::Cache },
            held: sizes.held,
            blind_is_zero: true,
            // Pairs are packed of numbers alone.
            elements: if sizes.held == Held::F32 { cx.computed_elements() } else { Elements::F32 },
            stored: Stored::F32,
            written: Stored::F32,
        };
        // One key, whatever was asked for.
        cx.key(if shape.is_paired() { shape } else { AttentionShape { elements: Elements::F32, ..shape } })
    }

    /// The scores of sinks and the bias of a request.
    fn beside<'a>(
        &self,
        sink: Option<&'a Tensor>,
        bias: Option<&'a Tensor>,
        sizes: &'a Sizes,
    ) -> Result<Beside<'a>, NodeError> {
        let sink = match sink {
            Some(sink) => Some(sink.as_slice::<f32>()?),
            None => self.smooth.then_some(&[0.0][..]),
        };
        let bias = match bias {
            None => None,
            Some(bias) => {
                // Axes of one element are the same for all sequences, heads or new positions.
                let [batches, heads, rows] = [0, 1, 2].map(|axis| bias.shape()[axis]);
                let of_head = rows * sizes.total;
                let step = |count: usize, elements: usize| if count > 1 { elements } else { 0 };
                let [batch, head, row] = [(batches, heads * of_head), (heads, of_head), (rows, sizes.total)]
                    .map(|(count, elements)| step(count, elements));
                Some(Bias { elements: bias.as_slice::<f32>()?, batch, head, row, first: &[] })
            }
        };
        Ok(Beside { sink, bias, total: sizes.total })
    }
}

/// The operands besides keys and values.
struct Beside<'a> {
    /// A score for each head of queries, or one for all.
    sink: Option<&'a [f32]>,
    /// The bias, by heads of queries and new positions.
    bias: Option<Bias<'a>>,
    total: usize,
}

impl<'a> Beside<'a> {
    fn sink_of(&self, head: usize) -> Option<f32> {
        self.sink.map(|scores| scores[head % scores.len()])
    }

    /// The elements of the bias of one query.
    fn row(&self, batch: usize, head: usize, position: usize) -> Option<&'a [f32]> {
        let at = |bias: &Bias<'_>| batch * bias.batch + head * bias.head + position * bias.row;
        self.bias.as_ref().map(|bias| &bias.elements[at(bias)..][..self.total])
    }

    /// The sink and the bias as a kernel takes them. In a step of one position, the `shared` heads of the same keys are
    /// its queries.
    fn given<'b>(&self, step: Option<usize>, first: &'b [usize]) -> (Option<Sink<'b>>, Option<Bias<'b>>)
    where
        'a: 'b,
    {
        let each = |scores: &[f32]| usize::from(scores.len() > 1);
        let sink = self.sink.map(|scores| match step {
            Some(shared) => Sink { scores, head: shared * each(scores), row: each(scores) },
            None => Sink { scores, head: each(scores), row: 0 },
        });
        let bias = self.bias.map(|bias| match step {
            Some(shared) => Bias { head: shared * bias.head, row: bias.head, first, ..bias },
            None => Bias { first, ..bias },
        });
        (sink, bias)
    }
}

/// The parameters that all steps of a request share.
#[derive(Clone, Copy)]
struct Request<'a> {
    sizes: &'a Sizes,
    sequences: &'a [Sequence],
    /// The pages of the sequences, where the cache is in pages.
    pages: Option<&'a Pages>,
    /// Scales of keys and of values, where they are codes.
    scales: [Scales<'a>; 2],
    isa: Isa,
    parallel: &'a dyn Parallel,
}

impl Node for GroupQuery {
    fn family(&self) -> &'static str {
        "attention"
    }

    fn value_inputs(&self) -> u64 {
        1 << input::TOTAL
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let cache_type = match Sizes::of(self, inputs)?.held {
            Held::F32 => DType::F32,
            Held::Bytes => DType::I8,
            Held::Nibbles => DType::U8,
            Held::F16 => DType::F16,
        };
        let is_other =
            |index: &usize| [input::LAST, input::TOTAL, input::IDS, input::QUERY_LENGTHS, input::PAGES].contains(index);
        for (index, tensor) in inputs.iter().enumerate().filter_map(|(index, tensor)| Some((index, (*tensor)?))) {
            let dtype = match index {
                input::PAST_KEY | input::PAST_VALUE => cache_type,
                _ => DType::F32,
            };
            if tensor.dtype() != dtype && !is_other(&index) {
                let what = format!("input {index} of type {}, not {dtype}", tensor.dtype());
                return Err(NodeError::Unsupported(what));
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
        let key = self.key(&sizes, inputs, cx);
        Ok(Prepared::new(cx.executor(&key)?))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let executor = prepared.get::<Executor>()?;
        let sizes = Sizes::of(self, &io.inputs())?;
        let lengths = io.optional(input::QUERY_LENGTHS);
        let sequences = sizes.sequences(required(&io.inputs(), input::LAST)?, lengths)?;
        let pages = match (io.optional(input::PAGES), sizes.page) {
            (Some(table), Some(page)) => Some(Pages::of(table, [sizes.cached, page], &sequences)?),
            _ => None,
        };
        // The parameters are held on their own, because the cache may be taken out of the inputs.
        let held = |index: usize| io.optional(index).cloned();
        let scales =
            [input::KEY_SCALE, input::VALUE_SCALE].map(|index| held(index).filter(|_| self.held.is_quantized()));
        let scales_of = |own: usize| -> Result<Scales<'_>, NodeError> {
            Ok(Scales(scales[own].as_ref().map_or(Ok(&[][..]), Tensor::as_slice::<f32>)?))
        };
        let scales = [scales_of(0)?, scales_of(1)?];
        let [sink, bias] = [input::SINK, input::BIAS].map(held);
        let beside = self.beside(sink.as_ref(), bias.as_ref(), &sizes)?;
        let (isa, parallel) = (executor.isa(), cx.parallel);
        let request = Request { sizes: &sizes, sequences: &sequences, pages: pages.as_ref(), scales, isa, parallel };
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
        let query = match &queries {
            Some(turned) => Rows { elements: turned.as_slice()?, width, ..given },
            None => given,
        };
        // A step that drops positions reads its rows before the drop.
        let rows = |sequence: &Sequence| {
            sequence.rows + sequence.own() - if staged.is_some() { 0 } else { sequence.dropped() }
        };
        let ends: Vec<usize> = sequences.iter().map(rows).collected();
        let before: Vec<usize> = sequences.iter().zip(&ends).map(|(sequence, end)| end - sequence.own()).collected();
        let first: Vec<usize> = sequences.iter().zip(&ends).map(|(sequence, end)| sequence.filled - end).collected();
        let (key, value) = staged.as_ref().map_or((&keys, &values), |(keys, values)| (keys, values));
        let head = key.shape()[2];
        let step = (sizes.new == 1).then_some(self.heads / self.kv_heads);
        let (sink, bias) = beside.given(step, &first);
        let cache = Cache {
            key: self.cells(key, 0, &request)?,
            value: self.cells(value, 1, &request)?,
            keys: &ends,
            before: &before,
            pages: match &pages {
                Some(pages) => pages.rows(self.kv_heads),
                None => CachePages { table: &[], of_batch: 1, keys: head, page: self.kv_heads * head, head },
            },
            window: self.window.unwrap_or(0),
            sink,
            bias,
        };
        let (mut output, mut scratch) = (io.alloc(OUTPUT)?, cx.scratch::<f32>(executor.scratch_len())?);
        let (to, scratch) = (output.as_mut_slice()?, scratch.as_mut_slice()?);
        executor.run_cached(query.elements, &cache, to, scratch, cx.parallel)?;
        let scores = match self.scores {
            None => None,
            Some(scores) => {
                let mut made = io.alloc(SCORES)?;
                self.scores(scores, &query, &cache.key, &request, &beside, made.as_mut_slice()?);
                Some(made)
            }
        };
        drop(staged);
        io.push(output);
        io.push(keys);
        io.push(values);
        if let Some(scores) = scores {
            io.push(scores);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
