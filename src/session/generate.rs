//! One text that a language model continues: an iterator of tokens over a decoder, its cache and a chooser.

pub(in crate::session) mod forbidden;
pub(crate) mod lookup;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::ops::Range;

use kiln_tensor::compact::{widen, widens};
use kiln_tensor::{DType, Tensor};

use self::forbidden::Standing;
use self::lookup::{Ahead, Lookup, LookupStats};
use super::RunOptions;
use super::decoder::choose::timestamps::Timestamps;
use super::decoder::choose::{Chooser, Rules, Sampling};
use super::decoder::{Decoder, DecoderCache, DecoderError};

/// The most tokens of a prompt in a step.
pub(super) const CHUNK: usize = 256;

/// Positions that a cache has room for at first. It doubles from there.
pub(super) const ROOM: usize = 512;

/// How a text is continued.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Tokens that end the text. The iterator does not return them.
    pub ends: Vec<i64>,
    /// Tokens that are never chosen.
    pub suppress: Vec<i64>,
    /// Tokens that are never chosen first in a text.
    pub begin_suppress: Vec<i64>,
    /// The length of the sequences of tokens that no text has twice, those of the prompt included; 0 forbids none.
    pub no_repeat_ngram: usize,
    /// The fewest tokens that are chosen after the last append before one of `ends`.
    pub min_tokens: usize,
    /// The rules of timestamps, for texts about sounds that have any. The first one of `ends` ends a text.
    pub timestamps: Option<Timestamps>,
    /// The most tokens that are chosen after the last append.
    pub max_tokens: usize,
    /// The most tokens of the whole text: the model's limit.
    pub context: usize,
    /// Limits of each step. A step takes one token, or up to 256 of a prompt.
    pub run: RunOptions,
    /// Whether tokens are proposed from the text itself, so that a step may give several. None by default, and in a
    /// [`Batch`](super::batch::Batch).
    pub lookup: Option<Lookup>,
}

impl Default for GenerateOptions {
    fn default() -> GenerateOptions {
        GenerateOptions {
            sampling: Sampling::default(),
            ends: Vec::new(),
            suppress: Vec::new(),
            begin_suppress: Vec::new(),
            no_repeat_ngram: 0,
            min_tokens: 0,
            timestamps: None,
            max_tokens: 256,
            context: 4096,
            run: RunOptions::default(),
            lookup: None,
        }
    }
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The model chose that token, one of [`GenerateOptions::ends`].
    Token(i64),
    /// [`GenerateOptions::max_tokens`] were chosen.
    MaxTokens,
    /// The text has as many tokens as its context.
    Context,
    /// A step failed.
    Failed,
}

/// Continues one text, a token for each call of [`Iterator::next`]. `D` is a decoder, or owns or borrows one:
/// `&Decoder` and `Arc<Decoder>` let many texts share a model.
///
/// ```no_run
/// use kiln::{Decoder, GenerateOptions, Generator, SessionOptions};
///
/// let decoder = Decoder::load("model.onnx".as_ref(), &SessionOptions::default())?;
/// let mut generator = Generator::new(&decoder, GenerateOptions { ends: vec![2], ..GenerateOptions::default() })?;
/// generator.append(&[1, 450, 7483, 310, 3444, 338])?;
/// for token in &mut generator {
///     println!("{}", token?);
/// }
/// # Ok::<(), kiln::DecoderError>(())
/// ```
pub struct Generator<D: Borrow<Decoder>> {
    decoder: D,
    cache: DecoderCache,
    chooser: Chooser,
    options: GenerateOptions,
    text: Vec<i64>,
    /// Tokens that were chosen since the last call of `append`.
    chosen: usize,
    /// Whether a token was ever chosen.
    is_begun: bool,
    /// Why the text has ended, if it has.
    ended: Option<Ended>,
    /// Logits after the text and after each proposed token.
    logits: Vec<f32>,
    /// Tokens that would repeat a sequence.
    repeated: Vec<i64>,
    /// Proposed tokens that the cache has.
    ahead: Ahead,
    stats: LookupStats,
}

impl<D: Borrow<Decoder>> Generator<D> {
    /// An empty text.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Choice`] for invalid settings, [`DecoderError::Tokens`] for an invalid look-up,
    /// [`DecoderError::Model`] for a look-up with a model whose tokens cannot be separate rows or which has states, and as
    /// [`Decoder::cache`].
    pub fn new(decoder: D, options: GenerateOptions) -> Result<Generator<D>, DecoderError> {
        let cache = decoder.borrow().cache(1, ROOM.min(options.context), options.context)?;
        Generator::over(decoder, cache, options)
    }

    /// An empty text over an empty cache of the decoder, for one sequence.
    pub(super) fn over(
        decoder: D,
        cache: DecoderCache,
        options: GenerateOptions,
    ) -> Result<Generator<D>, DecoderError> {
        let chooser = Chooser::new(options.sampling)?;
        if let Some(lookup) = &options.lookup {
            if let Some(refused) = lookup.refused() {
                return Err(DecoderError::Tokens(refused));
            }
            decoder.borrow().check_rows()?;
            decoder.borrow().check_rewinds()?;
        }
        Ok(Generator {
            decoder,
            cache,
            chooser,
            options,
            text: Vec::new(),
            chosen: 0,
            is_begun: false,
            ended: None,
            logits: Vec::new(),
            repeated: Vec::new(),
            ahead: Ahead::default(),
            stats: LookupStats::default(),
        })
    }

    /// Appends tokens to the text and lets it go on, also after its end and after a failed step: that step is then
    /// tried again. The model reads them when the next token is asked for.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Tokens`] where the text would be longer than its context. The text is then unchanged.
    pub fn append(&mut self, tokens: &[i64]) -> Result<(), DecoderError> {
        let (length, context) = (self.text.len().saturating_add(tokens.len()), self.options.context);
        if length > context {
            return Err(DecoderError::Tokens(format!("{length} in all, where the context has {context}")));
        }
        self.text.extend_from_slice(tokens);
        (self.chosen, self.ended) = (0, None);
        Ok(())
    }

    /// Sets the limits of the steps from now on.
    pub fn set_run(&mut self, run: RunOptions) {
        self.options.run = run;
    }

    /// All tokens: the appended and the chosen ones, including the one that ended the text.
    #[must_use]
    pub fn text(&self) -> &[i64] {
        &self.text
    }

    /// Why the text ended, once it has.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Counts of the look-up's proposals.
    #[must_use]
    pub fn lookup_stats(&self) -> LookupStats {
        self.stats
    }

    /// The next token, or why there is none.
    fn advance(&mut self) -> Result<Result<i64, Ended>, DecoderError> {
        if self.chosen >= self.options.max_tokens {
            return Ok(Err(Ended::MaxTokens));
        }
        if self.text.len() >= self.options.context {
            return Ok(Err(Ended::Context));
        }
        let row = self.read()?;
        let standing = Standing { text: &self.text, chosen: self.chosen, is_first: !self.is_begun };
        let never = self.options.forbidden(standing, &mut self.repeated);
        let rules = Rules { never: &never, timed: self.options.timed(standing) };
        let token = self.chooser.choose_by(&self.logits[row], &self.text, &rules)?;
        self.text.push(token);
        self.is_begun = true;
        self.chosen += 1;
        // There is a row only after a proposed token that was chosen.
        self.stats.kept += u64::from(self.ahead.row(&self.text).is_some());
        Ok(if self.options.ends.contains(&token) { Err(Ended::Token(token)) } else { Ok(token) })
    }

    /// Has the model read the unread part of the text, and returns the range of the logits after it.
    fn read(&mut self) -> Result<Range<usize>, DecoderError> {
        if self.text.is_empty() {
            return Err(DecoderError::Tokens("there is none to go on from".to_owned()));
        }
        if !self.ahead.is_empty() {
            if let Some(row) = self.ahead.row(&self.text) {
                return Ok(self.row(row));
            }
            // The text went on differently than proposed.
            self.cache.rewind(0, self.ahead.agreed(&self.text))?;
            self.ahead = Ahead::default();
        }
        self.cache.announce(0, self.text.len())?;
        // After a failed choice, the logits are still those after the text.
        while self.cache.lengths()[0] < self.text.len() {
            let unread = &self.text[self.cache.lengths()[0]..];
            let decoder = self.decoder.borrow();
            let tokens = &unread[..chunk(unread.len()).min(decoder.most_tokens())];
            let proposed = if unread.len() == 1 { self.proposed() } else { Vec::new() };
            if proposed.is_empty() {
                let logits = decoder.step(&mut self.cache, &[tokens], &self.options.run)?;
                keep(&logits, &mut self.logits)?;
                continue;
            }
            let tokens: Vec<i64> = tokens.iter().chain(&proposed).copied().collect();
            let logits = decoder.step_each(&mut self.cache, 0, &tokens, &self.options.run)?;
            self.stats.proposed += proposed.len() as u64;
            self.ahead = Ahead::new(self.text.len(), proposed);
            keep(&logits, &mut self.logits)?;
        }
        Ok(self.row(0))
    }

    /// The range of a row of the present logits.
    fn row(&self, row: usize) -> Range<usize> {
        let words = self.logits.len() / self.ahead.rows();
        row * words..(row + 1) * words
    }

    /// Proposals for tokens after the next one: at most as many as may still be chosen and read.
    fn proposed(&self) -> Vec<i64> {
        let Some(lookup) = &self.options.lookup else { return Vec::new() };
        let wanted = self.options.max_tokens.saturating_sub(self.chosen + 1);
        let room = self.options.context.saturating_sub(self.text.len() + 1);
        lookup.propose(&self.text, wanted.min(room))
    }
}

impl<D: Borrow<Decoder>> Iterator for Generator<D> {
    type Item = Result<i64, DecoderError>;

    fn next(&mut self) -> Option<Result<i64, DecoderError>> {
        if self.ended.is_some() {
            return None;
        }
        match self.advance() {
            Ok(Ok(token)) => Some(Ok(token)),
            Ok(Err(ended)) => {
                self.ended = Some(ended);
                None
            }
            Err(error) => {
                self.ended = Some(Ended::Failed);
                Some(Err(error))
            }
        }
    }
}

impl<D: Borrow<Decoder>> std::iter::FusedIterator for Generator<D> {}

/// The number of tokens that a step takes of `unread` tokens, at least one: a power of two, so that prompts of all
/// lengths have nine shapes.
pub(super) fn chunk(unread: usize) -> usize {
    1 << unread.min(CHUNK).ilog2()
}

/// Keeps logits as `f32`.
pub(super) fn keep(logits: &Tensor, kept: &mut Vec<f32>) -> Result<(), DecoderError> {
    kept.clear();
    let dtype = logits.dtype();
    if dtype == DType::F32 {
        kept.extend_from_slice(logits.as_slice::<f32>()?);
    } else if widens(dtype) {
        kept.resize(logits.shape().iter().product(), 0.0);
        widen(dtype, logits.bytes(), kept);
    } else {
        return Err(DecoderError::Model(format!("its logits are of {dtype}")));
    }
    Ok(())
}
