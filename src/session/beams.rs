//! Beam search: the texts of the highest score, found by continuing several texts at the same time.
//!
//! The score of a text is the sum of the logarithms of its tokens' probabilities, over a power of the number of tokens
//! ([`Beams::length_penalty`]). A step continues [`Beams::number`] texts. Of all their continuations the likeliest ones
//! are continued by the next step, and those that end are kept by their scores. The rules are those of Hugging Face's
//! transformers 5, whose penalties and suppressed tokens, too, change logarithms of probabilities.
//!
//! Each text has a sequence of one cache. A text that has several continuations keeps its sequence for the first one;
//! each of the others gets a sequence that has none any more, which shares the pages of the text.

mod kept;
#[cfg(test)]
mod tests;

use kiln_tensor::Tensor;

use self::kept::{Candidate, Likeliest, Ranking};
use super::decoder::choose::{ChoiceError, Chooser, Rules};
use super::decoder::{Decoder, DecoderCache, DecoderError};
use super::encoder_decoder::Encoded;
use super::generate::forbidden::Standing;
use super::generate::{Ended, GenerateOptions, ROOM, chunk, keep};

/// How texts are searched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beams {
    /// Texts that a step continues, and the most that are returned.
    pub number: usize,
    /// The power of the number of tokens by which a text's sum is divided. Above 0 it favours long texts, below 0 short
    /// ones.
    pub length_penalty: f32,
    /// When the search ends before all texts are as long as they may be.
    pub stop: BeamStop,
    /// Tokens at the end of the prompt that count in the number of tokens, although they were not chosen: those that a
    /// model demands behind its first one (`forced_bos_token_id`).
    pub counted: usize,
}

/// When a search ends: the values of `early_stopping`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BeamStop {
    /// As soon as [`Beams::number`] texts have ended (`true`).
    Full,
    /// When the likeliest text that goes on, at its present length, has no higher score than the last of the ended ones
    /// (`false`).
    #[default]
    Unlikely,
    /// The same, at the length that would give it the highest score (`"never"`).
    Impossible,
}

impl Default for Beams {
    fn default() -> Beams {
        Beams { number: 4, length_penalty: 1.0, stop: BeamStop::default(), counted: 0 }
    }
}

/// A text that a search has found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hypothesis {
    /// The chosen tokens, without the prompt and without the one that ended the text.
    pub tokens: Vec<i64>,
    /// The sum of the logarithms of the probabilities, over the power of the number of tokens.
    pub score: f64,
    /// Why it ended.
    pub ended: Ended,
}

/// A text that goes on.
#[derive(Clone, Debug)]
struct Running {
    /// The sequence of the cache.
    sequence: usize,
    tokens: Vec<i64>,
    /// The sum of the logarithms of the probabilities.
    sum: f64,
}

impl Decoder {
    /// Searches for the likeliest continuations of a prompt, and returns up to [`Beams::number`] of them, the one of
    /// the highest score first.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Tokens`] for an empty prompt, one longer than the context, or a look-up;
    /// [`DecoderError::Choice`] for invalid settings, a temperature among them, because nothing is drawn; and as
    /// [`Decoder::step`].
    pub fn search(
        &self,
        prompt: &[i64],
        options: &GenerateOptions,
        beams: &Beams,
    ) -> Result<Vec<Hypothesis>, DecoderError> {
        let cache = || self.cache_beside(beams.number, ROOM.min(options.context), options.context, Vec::new());
        searched(self, prompt, options, beams, cache)
    }
}

impl Encoded {
    /// Searches for the likeliest texts about the encoder's only one, as [`Decoder::search`] does. The prompt begins
    /// with the model's `decoder_start_token_id`. Each beam has its own copy of the encoder's result.
    ///
    /// # Errors
    ///
    /// As [`Decoder::search`], and [`DecoderError::Tokens`] where the encoder has read several texts.
    pub fn search(
        &self,
        prompt: &[i64],
        options: &GenerateOptions,
        beams: &Beams,
    ) -> Result<Vec<Hypothesis>, DecoderError> {
        self.check_one()?;
        let cache = || self.cache_of(beams.number, ROOM.min(options.context), options.context);
        searched(&self.decoder, prompt, options, beams, cache)
    }
}

/// Searches over a cache with a sequence for each beam, which is made once the settings are known to be valid.
fn searched(
    decoder: &Decoder,
    prompt: &[i64],
    options: &GenerateOptions,
    beams: &Beams,
    cache: impl FnOnce() -> Result<DecoderCache, DecoderError>,
) -> Result<Vec<Hypothesis>, DecoderError> {
    check(prompt, options, beams)?;
    let chooser = Chooser::new(options.sampling)?;
    let nothing = |ended| Ok(vec![Hypothesis { tokens: Vec::new(), score: 0.0, ended }]);
    match () {
        () if options.max_tokens == 0 => return nothing(Ended::MaxTokens),
        () if prompt.len() == options.context => return nothing(Ended::Context),
        () => {}
    }
    let mut search = Search {
        decoder,
        prompt,
        options,
        beams,
        cache: cache()?,
        chooser,
        running: Vec::new(),
        ranking: Ranking::new(beams, options.max_tokens.min(options.context - prompt.len())),
        logits: Vec::new(),
        words: 0,
        scores: Vec::new(),
        repeated: Vec::new(),
    };
    search.begin()?;
    while search.choose()? {
        search.step()?;
    }
    Ok(search.ranking.best())
}

/// Refuses settings that no search can have.
fn check(prompt: &[i64], options: &GenerateOptions, beams: &Beams) -> Result<(), DecoderError> {
    let setting = |name, value, expected| Err(DecoderError::Choice(ChoiceError::Setting { name, value, expected }));
    let (length, context) = (prompt.len(), options.context);
    match () {
        () if beams.number == 0 => setting("beams", 0.0, "at least 1"),
        () if !beams.length_penalty.is_finite() => setting("length_penalty", beams.length_penalty, "a number"),
        () if options.sampling.temperature != 0.0 => {
            setting("temperature", options.sampling.temperature, "0, as beams draw no tokens")
        }
        () if options.lookup.is_some() => {
            Err(DecoderError::Tokens("a search by beams proposes none by a look-up".to_owned()))
        }
        () if length == 0 => Err(DecoderError::Tokens("there is none to go on from".to_owned())),
        () if length > context => {
            Err(DecoderError::Tokens(format!("{length} in all, where the context has {context}")))
        }
        () => Ok(()),
    }
}

/// A search that has not ended.
struct Search<'a> {
    decoder: &'a Decoder,
    prompt: &'a [i64],
    options: &'a GenerateOptions,
    beams: &'a Beams,
    cache: DecoderCache,
    chooser: Chooser,
    /// The texts that go on, of falling sums; at first the empty one.
    running: Vec<Running>,
    ranking: Ranking,
    /// Logits behind the text of each sequence; behind the prompt those of the first one suffice.
    logits: Vec<f32>,
    /// Logits of a row.
    words: usize,
    /// Logarithms of the probabilities of a text's next tokens.
    scores: Vec<f32>,
    /// Tokens that would repeat a sequence.
    repeated: Vec<i64>,
}

impl Search<'_> {
    /// Reads the prompt.
    fn begin(&mut self) -> Result<(), DecoderError> {
        let &mut Search { decoder, prompt, options, beams, .. } = self;
        let reads_rows = decoder.check_rows().is_ok();
        let readers = if reads_rows { 1 } else { beams.number };
        (0..readers).try_for_each(|sequence| self.cache.announce(sequence, prompt.len()))?;
        let mut read = 0;
        while read < prompt.len() {
            let unread = &prompt[read..];
            let tokens = &unread[..chunk(unread.len()).min(decoder.most_tokens())];
            let logits = match reads_rows {
                true => decoder.step_one(&mut self.cache, 0, tokens, &options.run)?,
                // Sequences that go on together read the prompt together.
                false => decoder.step(&mut self.cache, &vec![tokens; readers], &options.run)?,
            };
            read += tokens.len();
            self.keep(&logits)?;
        }
        (readers..beams.number).try_for_each(|sequence| self.cache.fork(0, sequence, read))?;
        self.running.push(Running { sequence: 0, tokens: Vec::new(), sum: 0.0 });
        Ok(())
    }

    /// Chooses the texts that go on, and returns whether the search does.
    fn choose(&mut self) -> Result<bool, DecoderError> {
        // So that enough texts go on where the likeliest continuations end.
        let ends = &self.options.ends;
        let mut candidates = Likeliest::new(self.beams.number.saturating_mul(2.max(1 + ends.len())));
        for (beam, text) in self.running.iter().enumerate() {
            let all = [self.prompt, &text.tokens].concat();
            let standing = Standing { text: &all, chosen: text.tokens.len(), is_first: text.tokens.is_empty() };
            let never = self.options.forbidden(standing, &mut self.repeated);
            let rules = Rules { never: &never, timed: self.options.timed(standing) };
            let row = &self.logits[text.sequence * self.words..][..self.words];
            self.chooser.log_probabilities(row, &all, &rules, &mut self.scores)?;
            candidates.add(beam, text.sum, &self.scores);
        }
        let candidates = candidates.in_order();
        if candidates.is_empty() {
            // No text can go on: those that have ended are what there is.
            let nothing = ChoiceError::Nothing(self.words);
            return if self.ranking.is_empty() { Err(DecoderError::Choice(nothing)) } else { Ok(false) };
        }
        let length = self.running[0].tokens.len() + 1;
        let ended = |candidate: &Candidate| match () {
            () if ends.contains(&candidate.token) => Some(Ended::Token(candidate.token)),
            () if length >= self.options.max_tokens => Some(Ended::MaxTokens),
            () if self.prompt.len() + length >= self.options.context => Some(Ended::Context),
            () => None,
        };
        let mut next = Vec::new();
        for (place, candidate) in candidates.iter().enumerate() {
            match ended(candidate) {
                Some(ended) if place < self.beams.number => {
                    let mut tokens = self.running[candidate.beam].tokens.clone();
                    tokens.extend((!matches!(ended, Ended::Token(_))).then_some(candidate.token));
                    self.ranking.add(tokens, candidate.sum, length, ended);
                }
                None if next.len() < self.beams.number => next.push(*candidate),
                _ => {}
            }
        }
        self.ranking.close();
        if self.ranking.is_done(next.first().map(|candidate| candidate.sum), length) {
            return Ok(false);
        }
        self.go_on(&next)?;
        Ok(true)
    }

    /// Gives each continuation a sequence.
    fn go_on(&mut self, next: &[Candidate]) -> Result<(), DecoderError> {
        let mut is_taken = vec![false; self.beams.number];
        let mut sequences = vec![None; next.len()];
        for (candidate, own) in next.iter().zip(&mut sequences) {
            let sequence = self.running[candidate.beam].sequence;
            if !std::mem::replace(&mut is_taken[sequence], true) {
                *own = Some(sequence);
            }
        }
        let mut free = (0..self.beams.number).filter(|&sequence| !is_taken[sequence]);
        let mut running = Vec::with_capacity(next.len());
        for (candidate, own) in next.iter().zip(sequences) {
            let text = &self.running[candidate.beam];
            let sequence = match own {
                Some(sequence) => sequence,
                None => {
                    // There are as many sequences as continuations, or more.
                    let Some(to) = free.next() else { break };
                    self.cache.fork(text.sequence, to, self.cache.lengths()[text.sequence])?;
                    to
                }
            };
            let tokens = text.tokens.iter().copied().chain([candidate.token]).collect();
            running.push(Running { sequence, tokens, sum: candidate.sum });
        }
        self.running = running;
        Ok(())
    }

    /// Has the model read the last token of each text. A sequence without a text reads some token.
    fn step(&mut self) -> Result<(), DecoderError> {
        let mut tokens = vec![0; self.beams.number];
        for text in &self.running {
            tokens[text.sequence] = text.tokens.last().copied().unwrap_or(0);
        }
        let each: Vec<&[i64]> = tokens.chunks(1).collect();
        let logits = self.decoder.step(&mut self.cache, &each, &self.options.run)?;
        self.keep(&logits)
    }

    fn keep(&mut self, logits: &Tensor) -> Result<(), DecoderError> {
        self.words = logits.shape().last().copied().unwrap_or(0);
        keep(logits, &mut self.logits)
    }
}
