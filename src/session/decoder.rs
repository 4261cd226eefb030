//! Language models a step at a time: a session over a graph that is rewritten for it, and caches that grow in place.
//!
//! A [`Decoder`] loads a model as onnxruntime-genai's builder writes it. A [`DecoderCache`] holds the keys and values
//! of some sequences, each of its own length. [`Decoder::step`] appends tokens: the step writes its own rows of the
//! cache, which is lent to the request and comes back when it ends or fails. All steps of one number of tokens have the
//! same shapes, whatever the lengths: after the first one nothing is planned, chosen or emitted. Layers of other kinds
//! hand [states](states) of a fixed size from step to step.

mod bias;
pub(in crate::session) mod branch;
mod cache;
pub mod choose;
mod embedding;
mod handed;
mod inputs;
mod narrow;
pub(super) mod packed;
mod pages;
mod plain;
pub(super) mod rewrite;
mod states;
#[cfg(test)]
pub(super) mod tests;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use kiln_kernels::cpu::attention::PAGE;
use kiln_kernels::memory::{self, Collect};
use kiln_model::onnx::{self, Bytes, ExternalData};
use kiln_model::{Graph, Value};
use kiln_tensor::destination::Destination;
use kiln_tensor::{Tensor, TensorError};

use self::bias::{Bias, Found};
use self::choose::ChoiceError;
use self::pages::{Copied, Pages};
use self::rewrite::{Pair, Roles};
use self::states::States;
use super::pack::Packer;
use super::{LoadClock, RunOptions, Session, SessionError, SessionOptions, attempt};

/// Why a decoder could not be made, or a step could not be served. A failed step leaves the lengths of its cache
/// unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecoderError {
    /// The model cannot be run a step at a time.
    #[error("the model is no decoder: {0}")]
    Model(String),
    /// The tokens of a step do not fit its cache.
    #[error("tokens: {0}")]
    Tokens(String),
    /// The cache has no room for a step and may not have more, or is another model's.
    #[error("cache: {0}")]
    Cache(String),
    /// The cache could not have its memory.
    #[error("cache: {0}")]
    Memory(#[from] TensorError),
    /// No token could be chosen by the logits.
    #[error("choosing a token: {0}")]
    Choice(#[from] ChoiceError),
    /// The session refused it.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// A language model that is run a step at a time.
pub struct Decoder {
    session: Session,
    roles: Roles,
    biases: Vec<Bias>,
}

/// A graph of steps.
struct Rewritten {
    graph: Graph,
    roles: Roles,
    biases: Vec<Found>,
}

impl Rewritten {
    /// Rewrites a model's graph, whose inputs `beside` are the same in all steps of a text.
    fn of(
        mut graph: Graph,
        beside: &[String],
        options: &SessionOptions,
        begun: &LoadClock,
    ) -> Result<Rewritten, DecoderError> {
        let is_merged = branch::is_merged(&graph);
        if is_merged {
            graph = branch::taken(&graph, true)?;
        }
        let lowered = plain::lower(&mut graph, beside, is_merged, options, begun.stop.as_ref())?;
        let names: Vec<String> = lowered.biases.iter().map(|found| found.name.clone()).collect();
        let roles = rewrite::rewrite(&mut graph, beside, &names, &lowered.states, lowered.numbers)?;
        let roles = Roles { counts_one: lowered.counts_one, ..roles };
        Ok(Rewritten { graph, roles, biases: lowered.biases })
    }
}

/// Tokens of a sequence; all entries of a step have the same number of tokens.
#[derive(Clone, Copy)]
struct Entry<'a> {
    /// The sequence of the cache.
    sequence: usize,
    /// Positions before these.
    before: usize,
    tokens: &'a [i64],
}

/// The rows of a step whose logits are returned.
#[derive(Clone, Copy)]
enum Logits {
    /// The last one of each sequence.
    Last,
    Each,
}

/// What a step gives: the logits of the wanted rows, and the next states of its entries' sequences.
struct Served {
    logits: Tensor,
    states: Vec<Tensor>,
}

/// The keys and values of some sequences. They are in pages of up to [`PAGE`] positions: sequences take pages as they
/// grow, and those that begin alike share them ([`DecoderCache::fork`]). Models may have states besides, one for each
/// sequence.
pub struct DecoderCache {
    /// For each part of the cache, [pages, heads, positions of a page, size].
    parts: Vec<Arc<Destination>>,
    pages: Pages,
    states: States,
    /// For each bias, its row for the last position of the room.
    rows: Vec<Tensor>,
    /// Tensors that the model gets in every step, in the order of their names.
    beside: Vec<Tensor>,
    lengths: Vec<usize>,
    /// For each sequence, the length that its text is known to have.
    announced: Vec<usize>,
    /// Positions of as many pages as a table has for a sequence.
    room: usize,
    most: usize,
}

impl Decoder {
    /// Loads an ONNX file, or a packed model ([`Decoder::pack`]).
    ///
    /// # Errors
    ///
    /// As [`Session::load`], and [`DecoderError::Model`], with the node and the reason, for a model whose cache is
    /// neither read and written by GroupQueryAttention of com.microsoft nor proved to allow that, and which has no
    /// states.
    pub fn load(path: &Path, options: &SessionOptions) -> Result<Decoder, DecoderError> {
        let begun = LoadClock::now(options);
        let name = path.display().to_string();
        if let Some(decoder) = attempt(&name, &begun, || Decoder::ready(path, &name, options, &begun))? {
            return Ok(decoder);
        }
        let read = || {
            let graph = onnx::load(path, &options.onnx_limits())?;
            let packing = Packer::wanted(path, &[&graph], options);
            Ok((graph, packing))
        };
        let (graph, packing) = attempt(&name, &begun, read)?;
        let mut decoder = Decoder::make(graph, &[], name, options, &begun)?;
        decoder.pack_behind(packing.and_then(|packing| packed::start(packing, path, options)));
        Ok(decoder)
    }

    /// Loads an ONNX file of a decoder that reads embeddings (`inputs_embeds`), behind the file of the model that makes
    /// embeddings of tokens: `embedding.onnx` of onnxruntime-genai, `embed_tokens.onnx` of transformers.js. Features of
    /// images and sounds, which such a model may read as well, are those of none. The decoder is not packed.
    ///
    /// # Errors
    ///
    /// As [`Decoder::load`]; [`DecoderError::Model`] also where the two do not belong together.
    pub fn load_embedded(path: &Path, embedding: &Path, options: &SessionOptions) -> Result<Decoder, DecoderError> {
        let begun = LoadClock::now(options);
        let read = |path: &Path| {
            attempt(&path.display().to_string(), &begun, || Ok(onnx::load(path, &options.onnx_limits())?))
        };
        let (mut graph, before) = (read(path)?, read(embedding)?);
        embedding::prepend(before, &mut graph)?;
        Decoder::make(graph, &[], path.display().to_string(), options, &begun)
    }

    /// Loads an ONNX model from memory, with the files that it names.
    ///
    /// # Errors
    ///
    /// As [`Decoder::load`] and [`Session::load_bytes_with`].
    pub fn load_bytes_with(
        bytes: impl Into<Bytes>,
        external: ExternalData,
        options: &SessionOptions,
    ) -> Result<Decoder, DecoderError> {
        let begun = LoadClock::now(options);
        let bytes = bytes.into();
        let limits = options.onnx_limits();
        let graph = attempt("in memory", &begun, || Ok(onnx::load_bytes_with(bytes, external, &limits)?))?;
        let name = graph.name.clone();
        Decoder::make(graph, &[], name, options, &begun)
    }

    /// Makes a decoder of a graph built in memory.
    ///
    /// # Errors
    ///
    /// As [`Decoder::load`].
    pub fn from_graph(graph: Graph, options: &SessionOptions) -> Result<Decoder, DecoderError> {
        let begun = LoadClock::now(options);
        let name = graph.name.clone();
        Decoder::make(graph, &[], name, options, &begun)
    }

    /// Makes a decoder of a graph whose inputs `beside` are the same in all steps of a text.
    pub(super) fn make(
        graph: Graph,
        beside: &[String],
        name: String,
        options: &SessionOptions,
        begun: &LoadClock,
    ) -> Result<Decoder, DecoderError> {
        let rewritten = || -> Result<(Graph, Roles, Vec<Bias>), DecoderError> {
            let Rewritten { graph, roles, biases } = Rewritten::of(graph, beside, options, begun)?;
            let biases = biases.into_iter().map(|found| Bias::new(found, options, begun));
            Ok((graph, roles, biases.collect::<Result<_, _>>()?))
        };
        let (graph, roles, biases) = attempt(&name, begun, || Ok(rewritten()))??;
        let own = SessionOptions { prepare_memory: false, ..options.clone() };
        let session = attempt(&name, begun, || Session::make(graph, name.clone(), &own, begun))?;
        Ok(Decoder { session, roles, biases })
    }

    /// Keeps the packer that packs the model after its load.
    pub(super) fn pack_behind(&mut self, packer: Option<Packer>) {
        self.session.packer = packer;
    }

    /// The session that serves the steps.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// An empty cache for `sequences` sequences of up to `most` positions, with memory for `room` positions each. Memory
    /// is taken in pages of [`PAGE`] positions, which sequences take as they grow, and doubles where a step needs more.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Memory`] where the session has too little memory left.
    pub fn cache(&self, sequences: usize, room: usize, most: usize) -> Result<DecoderCache, DecoderError> {
        self.check_apart(sequences)?;
        self.cache_beside(sequences, room, most, Vec::new())
    }

    /// Whether a cache may have that many sequences of different lengths.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Cache`] where it may not.
    pub(super) fn check_apart(&self, sequences: usize) -> Result<(), DecoderError> {
        match sequences > 1 && self.roles.counts_one {
            true => Err(DecoderError::Cache("the model counts positions of one sequence for all".to_owned())),
            false => Ok(()),
        }
    }

    /// As [`Decoder::cache`], for texts whose steps get these tensors, in the order of [`Decoder::beside`]. Where
    /// [`Decoder::check_apart`] refuses them, all sequences must have one length.
    pub(super) fn cache_beside(
        &self,
        sequences: usize,
        room: usize,
        most: usize,
        beside: Vec<Tensor>,
    ) -> Result<DecoderCache, DecoderError> {
        if beside.len() != self.roles.beside.len() {
            return Err(DecoderError::Cache("the model's texts have an encoder's outputs".to_owned()));
        }
        if sequences == 0 {
            return Err(DecoderError::Cache("it is for no sequence".to_owned()));
        }
        let page = most.clamp(1, PAGE);
        let of_sequence = room.clamp(1, most.max(1)).div_ceil(page);
        let count = sequences.saturating_mul(of_sequence);
        // Too large a number ends here.
        let parts = self.parts(count, page)?.into_iter().map(Destination::of).collect::<Result<_, _>>()?;
        let mut pages = Pages::new(sequences, page);
        pages.grow(count);
        let room = of_sequence * page;
        let rows = self.rows(room, &RunOptions::default())?;
        let states = States::new(&self.roles.states, sequences, &self.session.kept.buffers)?;
        let [lengths, announced] = [0, 0].map(|none| vec![none; sequences]);
        Ok(DecoderCache { parts, pages, states, rows, beside, lengths, announced, room, most })
    }

    /// The inputs that are the same in all steps of a text.
    pub(super) fn beside(&self) -> &[String] {
        &self.roles.beside
    }

    /// Whether a cache can forget some of a sequence's positions.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Model`] where it cannot.
    pub(super) fn check_rewinds(&self) -> Result<(), DecoderError> {
        match self.roles.states.first() {
            Some(state) => {
                Err(DecoderError::Model(format!("its state '{}' cannot go back to fewer tokens", state.past)))
            }
            None => Ok(()),
        }
    }

    /// The most tokens of a sequence that are read together.
    pub(super) fn most_tokens(&self) -> usize {
        if self.roles.takes_one && self.check_rows().is_err() { 1 } else { usize::MAX }
    }

    fn rows(&self, room: usize, options: &RunOptions) -> Result<Vec<Tensor>, DecoderError> {
        self.biases.iter().map(|bias| bias.row(room, options)).collect()
    }

    /// Memory of `pages` pages of `positions` positions for each part.
    fn parts(&self, pages: usize, positions: usize) -> Result<Vec<Tensor>, TensorError> {
        let part = |pair: &Pair| {
            let spec = pair.spec(pages, positions);
            let mut part = Tensor::from_pool(&self.session.kept.buffers, spec)?;
            // Rows of no sequence may be multiplied by weights of zero, so they must be finite.
            memory::fill(part.bytes_mut(), &0);
            Ok(part)
        };
        self.roles.cache.iter().map(part).collect()
    }

    /// Appends the same number of tokens to every sequence of the cache, and returns the logits after the last one:
    /// [sequences, words].
    ///
    /// # Errors
    ///
    /// [`DecoderError::Tokens`] for another number of sequences or for unequal numbers of tokens,
    /// [`DecoderError::Cache`] where a sequence would exceed the cache's limit or the cache is another model's, and
    /// errors of the session. Lengths are then unchanged.
    pub fn step(
        &self,
        cache: &mut DecoderCache,
        tokens: &[&[i64]],
        options: &RunOptions,
    ) -> Result<Tensor, DecoderError> {
        let sequences = cache.lengths.len();
        let new = tokens.first().map_or(0, |tokens| tokens.len());
        if tokens.len() != sequences {
            return Err(DecoderError::Tokens(format!("{} lists of them for {sequences} sequences", tokens.len())));
        }
        if new == 0 || tokens.iter().any(|tokens| tokens.len() != new) {
            let counts: Vec<usize> = tokens.iter().map(|tokens| tokens.len()).collect();
            return Err(DecoderError::Tokens(format!("sequences get {counts:?} of them, not as many each and some")));
        }
        if self.roles.takes_one && new > 1 {
            return self.step_by_ones(cache, tokens, options);
        }
        let own = |(sequence, &length): (usize, &usize)| (sequence, length..length.saturating_add(new));
        self.reserve(cache, &cache.lengths.iter().enumerate().map(own).collected(), options)?;
        let entry = |(sequence, &tokens)| Entry { sequence, before: cache.lengths[sequence], tokens };
        let entries: Vec<Entry<'_>> = tokens.iter().enumerate().map(entry).collected();
        let last = (1..=sequences).map(|sequence| sequence * new - 1).collected();
        let Served { logits, states } = self.serve(cache, &entries, last, options)?;
        cache.states.take(&entries.iter().map(|entry| entry.sequence).collected(), states)?;
        cache.lengths.iter_mut().for_each(|length| *length += new);
        Ok(logits)
    }

    /// Several tokens of each sequence for a model whose steps have one: all in a step of as many rows, or where
    /// sequences go on together, one after the other.
    fn step_by_ones(
        &self,
        cache: &mut DecoderCache,
        tokens: &[&[i64]],
        options: &RunOptions,
    ) -> Result<Tensor, DecoderError> {
        if self.check_rows().is_ok() {
            let named: Vec<(usize, &[i64])> = tokens.iter().copied().enumerate().collected();
            return self.step_rows(cache, &named, Logits::Last, options);
        }
        self.check_rewinds()?;
        let before = memory::copied(&cache.lengths);
        let mut logits = None;
        for at in 0..tokens[0].len() {
            let one: Vec<&[i64]> = tokens.iter().map(|tokens| &tokens[at..=at]).collected();
            match self.step(cache, &one, options) {
                Ok(last) => logits = Some(last),
                Err(error) => {
                    cache.lengths = before;
                    return Err(error);
                }
            }
        }
        logits.ok_or_else(|| DecoderError::Tokens("no sequence gets any".to_owned()))
    }

    /// Appends tokens to some sequences of the cache, any number to each, and returns the logits after the last one of
    /// each: [named sequences, words]. Products have a row for each token, and up to a half more, so that steps of
    /// similar numbers of tokens have the same shapes (1, 2, 3, 4, 6, 8, 12 and so on), whatever the sequences.
    /// Sequences that are not named take no part. Attention reads the rows of a sequence again for each of its new
    /// tokens: long prompts are faster by [`Decoder::step`] or [`Decoder::step_one`].
    ///
    /// # Errors
    ///
    /// As [`Decoder::step`]; [`DecoderError::Tokens`] also for a sequence that the cache does not have, that is named
    /// twice or gets no token. Lengths are then unchanged.
    pub fn step_some(
        &self,
        cache: &mut DecoderCache,
        tokens: &[(usize, &[i64])],
        options: &RunOptions,
    ) -> Result<Tensor, DecoderError> {
        self.step_rows(cache, tokens, Logits::Last, options)
    }

    /// Appends tokens to one sequence of the cache, and returns the logits after the last one: [1, words]. Attention
    /// reads the keys of a block once for several tokens, so this is the step for a long prompt beside other texts.
    ///
    /// # Errors
    ///
    /// As [`Decoder::step_some`]. Lengths are then unchanged.
    pub fn step_one(
        &self,
        cache: &mut DecoderCache,
        sequence: usize,
        tokens: &[i64],
        options: &RunOptions,
    ) -> Result<Tensor, DecoderError> {
        self.check_rows()?;
        let refused = |what: &str| DecoderError::Tokens(format!("sequence {sequence} {what}"));
        let before = *cache.lengths.get(sequence).ok_or_else(|| refused("is none of the cache's"))?;
        let last = tokens.len().checked_sub(1).ok_or_else(|| refused("gets none"))?;
        if self.roles.takes_one && last > 0 {
            return self.step_rows(cache, &[(sequence, tokens)], Logits::Last, options);
        }
        self.reserve(cache, &[(sequence, before..before.saturating_add(tokens.len()))], options)?;
        let served = self.serve(cache, &[Entry { sequence, before, tokens }], vec![last], options)?;
        cache.states.take(&[sequence], served.states)?;
        cache.lengths[sequence] += tokens.len();
        Ok(served.logits)
    }

    /// Appends tokens to one sequence of the cache, and returns the logits after each: [tokens, words]. The rows are
    /// those of [`Decoder::step_some`].
    ///
    /// # Errors
    ///
    /// As [`Decoder::step_some`]. Lengths are then unchanged.
    pub fn step_each(
        &self,
        cache: &mut DecoderCache,
        sequence: usize,
        tokens: &[i64],
        options: &RunOptions,
    ) -> Result<Tensor, DecoderError> {
        self.step_rows(cache, &[(sequence, tokens)], Logits::Each, options)
    }

    /// Whether tokens of a sequence may be rows of a step.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Model`] where they may not.
    pub(super) fn check_rows(&self) -> Result<(), DecoderError> {
        let reason = match (self.roles.counts_one, self.roles.beside.is_empty()) {
            (true, _) => "it counts positions of one sequence for all",
            (_, false) => "all its sequences have an encoder's outputs and go on together",
            _ => return Ok(()),
        };
        Err(DecoderError::Model(reason.to_owned()))
    }

    /// A step with a row for each token.
    fn step_rows(
        &self,
        cache: &mut DecoderCache,
        tokens: &[(usize, &[i64])],
        wanted: Logits,
        options: &RunOptions,
    ) -> Result<Tensor, DecoderError> {
        self.check_rows()?;
        let sequences = cache.lengths.len();
        let mut is_named = memory::zeroed::<u8>(sequences);
        for &(sequence, tokens) in tokens {
            let refused = |what: &str| Err(DecoderError::Tokens(format!("sequence {sequence} {what}")));
            let Some(named) = is_named.get_mut(sequence) else { return refused("is none of the cache's") };
            if std::mem::replace(named, 1) == 1 {
                return refused("is named twice");
            }
            if tokens.is_empty() {
                return refused("gets none");
            }
        }
        if tokens.is_empty() {
            return Err(DecoderError::Tokens("no sequence gets any".to_owned()));
        }
        let own = |&(sequence, tokens): &(usize, &[i64])| {
            let length = cache.lengths[sequence];
            (sequence, length..length.saturating_add(tokens.len()))
        };
        self.reserve(cache, &tokens.iter().map(own).collected(), options)?;
        let count: usize = tokens.iter().map(|(_, tokens)| tokens.len()).sum();
        if !self.roles.states.is_empty() && count > tokens.len() {
            return self.step_in_turn(cache, tokens, wanted, options);
        }
        let rows = row_class(count);
        let mut entries = memory::with_capacity(rows);
        let mut last = memory::with_capacity(rows);
        for &(sequence, tokens) in tokens {
            let before = cache.lengths[sequence];
            let each = tokens.chunks(1).enumerate();
            entries.extend(each.map(|(at, tokens)| Entry { sequence, before: before + at, tokens }));
            match wanted {
                Logits::Last => last.push(entries.len() - 1),
                Logits::Each => last.extend(entries.len() - tokens.len()..entries.len()),
            }
        }
        let given = last.len();
        // Rows that fill up the number repeat the last one: they write the same values.
        let (end, most) = (count - 1, if matches!(wanted, Logits::Each) { rows } else { sequences });
        entries.resize(rows, entries[end]);
        last.resize(rows.min(most), end);
        let Served { logits, states } = self.serve(cache, &entries, last, options)?;
        cache.states.take(&entries.iter().map(|entry| entry.sequence).collected(), states)?;
        for &(sequence, tokens) in tokens {
            cache.lengths[sequence] += tokens.len();
        }
        let shape = [given, logits.shape()[1]];
        match logits.part(0, shape)? {
            Some(logits) => Ok(logits),
            None => Err(DecoderError::Model("its logits are no numbers".to_owned())),
        }
    }

    /// A step of one sequence after the other, for models whose states follow from token to token.
    fn step_in_turn(
        &self,
        cache: &mut DecoderCache,
        tokens: &[(usize, &[i64])],
        wanted: Logits,
        options: &RunOptions,
    ) -> Result<Tensor, DecoderError> {
        let mut served = memory::with_capacity(tokens.len());
        for &(sequence, tokens) in tokens {
            let rows = match wanted {
                Logits::Last => vec![tokens.len() - 1],
                Logits::Each => (0..tokens.len()).collected(),
            };
            let entry = Entry { sequence, before: cache.lengths[sequence], tokens };
            served.push(self.serve(cache, &[entry], rows, options)?);
        }
        let mut logits = memory::with_capacity(tokens.len());
        for (Served { logits: own, states }, &(sequence, tokens)) in served.into_iter().zip(tokens) {
            cache.states.take(&[sequence], states)?;
            cache.lengths[sequence] += tokens.len();
            logits.push(own);
        }
        states::joined(&logits)
    }

    /// Runs a step over entries of equal numbers of tokens, and returns the logits of the wanted rows.
    fn serve(
        &self,
        cache: &DecoderCache,
        entries: &[Entry<'_>],
        rows: Vec<usize>,
        options: &RunOptions,
    ) -> Result<Served, DecoderError> {
        let wanted = rows.len();
        let inputs = self.inputs(cache, entries, rows)?;
        let inputs = self.session.bind_owned(inputs)?;
        let mut outputs = self.session.serve_bound(inputs, options)?;
        let tensor = |value: Value| value.into_tensor().map_err(|error| DecoderError::Model(error.to_string()));
        let states = outputs.split_off(1 + self.roles.cache.len());
        let states = states.into_iter().map(tensor).collect::<Result<_, _>>()?;
        let logits = tensor(outputs.swap_remove(0))?;
        drop(outputs);
        let words = logits.shape().last().copied().unwrap_or(0);
        Ok(Served { logits: logits.reshaped([wanted, words])?, states })
    }

    /// Gives sequences pages of their own for the positions that a step writes.
    fn reserve(
        &self,
        cache: &mut DecoderCache,
        written: &[(usize, Range<usize>)],
        options: &RunOptions,
    ) -> Result<(), DecoderError> {
        let longest = written.iter().map(|(_, positions)| positions.end).max().unwrap_or(0);
        let mut pairs = self.roles.cache.iter().zip(&cache.parts);
        let is_own = |(pair, part): (&Pair, &Arc<Destination>)| {
            *part.spec() == pair.spec(cache.pages.count(), cache.pages.positions())
        };
        let is_served = self.roles.beside.len() == cache.beside.len()
            && self.biases.len() == cache.rows.len()
            && cache.states.are_of(&self.roles.states, cache.lengths.len());
        if self.roles.cache.len() != cache.parts.len() || !is_served || !pairs.all(is_own) {
            return Err(DecoderError::Cache("it is another model's".to_owned()));
        }
        if longest > cache.most || i32::try_from(longest).is_err() {
            let DecoderCache { most, lengths, .. } = cache;
            return Err(DecoderError::Cache(format!(
                "{longest} positions, where {most} are the most; it has {lengths:?}"
            )));
        }
        let page = cache.pages.positions();
        let most = cache.most.div_ceil(page);
        if longest > cache.room {
            let of_sequence = longest.max(cache.room.saturating_mul(2)).div_ceil(page).min(most);
            cache.rows = self.rows(of_sequence * page, options)?;
            cache.room = of_sequence * page;
        }
        let needed = cache.pages.needed(written);
        if needed == 0 {
            return Ok(());
        }
        if !cache.pages.has_free(needed) {
            self.grow(cache, needed, most)?;
        }
        let parts = cache.lent()?;
        let copies = cache.pages.take(written);
        copy_pages(parts, &copies);
        Ok(())
    }

    /// Adds pages until `needed` are free: as many again as there are, or what all sequences of `most` pages need.
    fn grow(&self, cache: &mut DecoderCache, needed: usize, most: usize) -> Result<(), DecoderError> {
        let had = cache.pages.count();
        let all = cache.lengths.len().saturating_mul(most);
        let count = had.saturating_add(needed).max(had.saturating_mul(2).min(all));
        let mut parts = self.parts(count, cache.pages.positions())?;
        for (from, to) in cache.lent()?.iter().zip(&mut parts) {
            to.bytes_mut()[..from.bytes().len()].copy_from_slice(from.bytes());
        }
        cache.parts = parts.into_iter().map(Destination::of).collect::<Result<_, _>>()?;
        cache.pages.grow(count);
        Ok(())
    }
}

/// Copies the first positions of pages of all parts, [pages, heads, positions, size].
fn copy_pages(parts: Vec<Tensor>, copies: &[Copied]) {
    for mut part in parts {
        let &[pages, heads, positions, _] = part.shape() else { continue };
        let bytes = part.bytes_mut();
        let head = bytes.len() / (pages * heads).max(1);
        for &Copied { from, to, positions: kept } in copies {
            for of in 0..heads {
                let [from, to] = [from, to].map(|page| (page * heads + of) * head);
                bytes.copy_within(from..from + head / positions.max(1) * kept, to);
            }
        }
    }
}

/// The rows of a step of `count` tokens: a power of two, or 1.5 times one.
fn row_class(count: usize) -> usize {
    let power = count.next_power_of_two();
    let between = power / 4 * 3;
    if power >= 4 && count <= between { between } else { power }
}
