//! Many texts that one language model continues at the same time. Texts come and go between steps.
//!
//! Each running text has a sequence of one cache; others wait for a sequence. A step has a row for each token that the
//! model reads: the last token of every continuing text, and all tokens of short prompts. Weights are read once for all
//! rows. A longer prompt is read part by part, separately, so that its queries share the reads of keys. A text begins
//! with a copy of the rows of another text where their tokens are the same.

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::collections::VecDeque;

use super::decoder::choose::{Chooser, Rules};
use super::decoder::{Decoder, DecoderCache, DecoderError};
use super::generate::forbidden::Standing;
use super::generate::{CHUNK, Ended, GenerateOptions, ROOM, chunk, keep};
use super::{RunOptions, SessionError};

/// The least number of common tokens for which rows are copied. Fewer tokens are read as fast.
const SHARED: usize = 16;

/// The longest prompt that is read as rows beside those of other texts, in tokens.
const SHORT: usize = 16;

/// Continues many texts: each [`Batch::step`] gives a token of every text whose prompt has been read. `D` is a decoder,
/// or owns or borrows one.
///
/// ```no_run
/// use kiln::{Batch, Decoder, GenerateOptions, RunOptions, SessionOptions};
///
/// let decoder = Decoder::load("model.onnx".as_ref(), &SessionOptions::default())?;
/// let mut batch = Batch::new(&decoder, 8, 4096)?;
/// let options = GenerateOptions { ends: vec![2], ..GenerateOptions::default() };
/// let first = batch.push(&[1, 450, 7483], options.clone())?;
/// batch.push(&[1, 22172], options)?;
/// while !batch.is_idle() {
///     for (text, token) in batch.step(&RunOptions::default())? {
///         println!("{text}: {token}");
///     }
///     batch.finished().iter().for_each(|text| println!("{}: {:?}", text.id, text.ended));
/// }
/// # Ok::<(), kiln::DecoderError>(())
/// ```
pub struct Batch<D: Borrow<Decoder>> {
    decoder: D,
    cache: DecoderCache,
    /// The text of each sequence of the cache.
    running: Vec<Option<Text>>,
    waiting: VecDeque<Text>,
    finished: Vec<Finished>,
    context: usize,
    /// The number of the next text.
    next: u64,
    logits: Vec<f32>,
}

/// A text that has not ended.
struct Text {
    id: u64,
    tokens: Vec<i64>,
    chooser: Chooser,
    options: GenerateOptions,
    chosen: usize,
    /// Tokens that would repeat a sequence.
    repeated: Vec<i64>,
}

/// A text that has ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finished {
    /// Its number.
    pub id: u64,
    /// All tokens: the prompt and the chosen tokens, including the one that ended the text.
    pub text: Vec<i64>,
    /// Why it ended.
    pub ended: Ended,
    /// The error, where a failure ended it.
    pub error: Option<DecoderError>,
}

/// Some unread tokens of a text.
#[derive(Clone, Copy)]
struct Part {
    sequence: usize,
    count: usize,
}

impl Text {
    /// Why it has ended, if it has.
    fn ended(&self) -> Option<Ended> {
        match () {
            () if self.chosen >= self.options.max_tokens => Some(Ended::MaxTokens),
            () if self.tokens.len() >= self.options.context => Some(Ended::Context),
            () => None,
        }
    }

    fn finish(self, ended: Ended, error: Option<DecoderError>) -> Finished {
        Finished { id: self.id, text: self.tokens, ended, error }
    }
}

impl<D: Borrow<Decoder>> Batch<D> {
    /// A batch of up to `texts` texts at the same time, of at most `context` tokens each.
    ///
    /// # Errors
    ///
    /// As [`Decoder::cache`].
    pub fn new(decoder: D, texts: usize, context: usize) -> Result<Batch<D>, DecoderError> {
        let cache = decoder.borrow().cache(texts, ROOM.min(context), context)?;
        let running = (0..texts).map(|_| None).collect();
        let (waiting, finished, logits) = (VecDeque::new(), Vec::new(), Vec::new());
        Ok(Batch { decoder, cache, running, waiting, finished, context, next: 0, logits })
    }

    /// Adds a text, which begins when a sequence is free, and gives its number. The time limit of its options is
    /// ignored: each step has its own.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Tokens`] for an empty prompt, one longer than the context, or a look-up;
    /// [`DecoderError::Choice`] for invalid settings.
    pub fn push(&mut self, prompt: &[i64], options: GenerateOptions) -> Result<u64, DecoderError> {
        let chooser = Chooser::new(options.sampling)?;
        if options.lookup.is_some() {
            return Err(DecoderError::Tokens("a batch proposes none by a look-up".to_owned()));
        }
        let options = GenerateOptions { context: options.context.min(self.context), ..options };
        let (length, context) = (prompt.len(), options.context);
        if length > context {
            return Err(DecoderError::Tokens(format!("{length} in all, where the context has {context}")));
        }
        if length == 0 {
            return Err(DecoderError::Tokens("there is none to go on from".to_owned()));
        }
        let id = self.next;
        self.next += 1;
        let text = Text { id, tokens: prompt.to_vec(), chooser, options, chosen: 0, repeated: Vec::new() };
        match text.ended() {
            Some(ended) => self.finished.push(text.finish(ended, None)),
            None => self.waiting.push_back(text),
        }
        Ok(id)
    }

    /// Forgets a running or waiting text; returns whether there was one of that number.
    pub fn cancel(&mut self, id: u64) -> bool {
        let is_it = |text: &Text| text.id == id;
        if let Some(place) = self.waiting.iter().position(is_it) {
            return self.waiting.remove(place).is_some();
        }
        let found = self.running.iter_mut().find(|text| text.as_ref().is_some_and(is_it));
        found.and_then(Option::take).is_some()
    }

    /// Whether no text runs or waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.iter().all(Option::is_none)
    }

    /// The texts that have ended since the last call.
    pub fn finished(&mut self) -> Vec<Finished> {
        std::mem::take(&mut self.finished)
    }

    /// Has the model read the last token of every continuing text, short prompts, and up to 256 tokens of one longer
    /// prompt. Returns the next token of every text that is then read to its end: first of continuing texts, by number,
    /// then of prompts. A token that ends its text is not returned. There may be none: while only parts of prompts are
    /// read, and where nothing runs.
    ///
    /// If a text makes a step fail, by a token that the model does not know, only that text ends ([`Ended::Failed`]):
    /// texts are then served one by one.
    ///
    /// # Errors
    ///
    /// Where the step was ended by its time limit or cancelled, or there is no memory for a longer cache. Texts are
    /// unchanged, and the next step tries again.
    pub fn step(&mut self, run: &RunOptions) -> Result<Vec<(u64, i64)>, DecoderError> {
        self.begin()?;
        let (rows, prompt) = self.parts();
        let mut said = Vec::new();
        self.read(&rows, run, &mut said)?;
        match prompt.map_or(Ok(()), |part| self.read(&[part], run, &mut said)) {
            Err(error) if said.is_empty() => Err(error),
            // Tokens so far are returned; the prompt is tried again.
            _ => Ok(said),
        }
    }

    /// Reads these parts. If a text makes that fail, only that text ends.
    fn read(&mut self, parts: &[Part], run: &RunOptions, said: &mut Vec<(u64, i64)>) -> Result<(), DecoderError> {
        let Err(error) = self.serve(parts, run, said) else { return Ok(()) };
        if !is_of_texts(&error) {
            return Err(error);
        }
        if let [part] = *parts {
            self.end(part.sequence, Ended::Failed, Some(error));
            return Ok(());
        }
        for &part in parts {
            match self.serve(&[part], run, said) {
                Ok(()) => {}
                Err(error) if is_of_texts(&error) => self.end(part.sequence, Ended::Failed, Some(error)),
                // Tokens so far are returned; the rest is tried again.
                Err(_) if !said.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives free sequences to waiting texts.
    fn begin(&mut self) -> Result<(), DecoderError> {
        for sequence in 0..self.running.len() {
            if self.running[sequence].is_some() {
                continue;
            }
            let Some(text) = self.waiting.front() else { return Ok(()) };
            // The last token is always read, for the logits after it.
            let own = &text.tokens[..text.tokens.len() - 1];
            let read =
                |other: usize| self.running[other].as_ref().map(|text| &text.tokens[..self.cache.lengths()[other]]);
            let common = |tokens: &[i64]| tokens.iter().zip(own).take_while(|(one, other)| one == other).count();
            let ends =
                |&(positions, other): &(usize, usize)| self.cache.can_end_at(self.cache.lengths()[other], positions);
            let all = (0..self.running.len()).filter_map(|other| Some((common(read(other)?), other)));
            let shared = all.filter(ends).max();
            match shared {
                Some((positions, other)) if positions >= SHARED => self.cache.fork(other, sequence, positions)?,
                _ => self.cache.rewind(sequence, 0)?,
            }
            self.cache.announce(sequence, text.tokens.len())?;
            self.running[sequence] = self.waiting.pop_front();
        }
        Ok(())
    }

    /// The parts that a step reads: continuing texts and then short prompts as rows, by the texts' numbers; and a part
    /// of the first longer prompt.
    fn parts(&self) -> (Vec<Part>, Option<Part>) {
        let unread = |(sequence, text): (usize, &Option<Text>)| {
            let text = text.as_ref()?;
            let count = text.tokens.len() - self.cache.lengths()[sequence];
            Some((count > 1, text.id, Part { sequence, count }))
        };
        let mut parts: Vec<(bool, u64, Part)> = self.running.iter().enumerate().filter_map(unread).collect();
        parts.sort_unstable_by_key(|(is_prompt, id, _)| (*is_prompt, *id));
        let mut left = CHUNK.max(self.running.len());
        let (mut rows, mut prompt) = (Vec::with_capacity(parts.len()), None);
        for (_, _, part) in parts {
            if part.count > SHORT {
                prompt.get_or_insert(Part { count: chunk(part.count), ..part });
                continue;
            }
            let count = part.count.min(left);
            left -= count;
            if count > 0 {
                rows.push(Part { count, ..part });
            }
        }
        (rows, prompt)
    }

    /// Reads these parts, and chooses the next token of texts that are then read to their ends.
    fn serve(&mut self, parts: &[Part], run: &RunOptions, said: &mut Vec<(u64, i64)>) -> Result<(), DecoderError> {
        if parts.is_empty() {
            return Ok(());
        }
        let mut tokens: Vec<(usize, &[i64])> = Vec::with_capacity(parts.len());
        for &Part { sequence, count } in parts {
            if let Some(text) = &self.running[sequence] {
                let first = self.cache.lengths()[sequence];
                tokens.push((sequence, &text.tokens[first..first + count]));
            }
        }
        let decoder = self.decoder.borrow();
        let logits = match tokens[..] {
            [(sequence, tokens)] if tokens.len() > SHORT => decoder.step_one(&mut self.cache, sequence, tokens, run)?,
            _ => decoder.step_some(&mut self.cache, &tokens, run)?,
        };
        keep(&logits, &mut self.logits)?;
        let words = logits.shape()[1];
        for (at, &Part { sequence, .. }) in parts.iter().enumerate() {
            let Some(text) = &mut self.running[sequence] else { continue };
            if self.cache.lengths()[sequence] < text.tokens.len() {
                continue;
            }
            let standing = Standing { text: &text.tokens, chosen: text.chosen, is_first: text.chosen == 0 };
            let never = text.options.forbidden(standing, &mut text.repeated);
            let rules = Rules { never: &never, timed: text.options.timed(standing) };
            let ended = match text.chooser.choose_by(&self.logits[at * words..][..words], &text.tokens, &rules) {
                Err(error) => Some((Ended::Failed, Some(error.into()))),
                Ok(token) => {
                    text.tokens.push(token);
                    text.chosen += 1;
                    match text.options.ends.contains(&token) {
                        true => Some((Ended::Token(token), None)),
                        false => {
                            said.push((text.id, token));
                            text.ended().map(|ended| (ended, None))
                        }
                    }
                }
            };
            if let Some((ended, error)) = ended {
                self.end(sequence, ended, error);
            }
        }
        Ok(())
    }

    fn end(&mut self, sequence: usize, ended: Ended, error: Option<DecoderError>) {
        self.finished.extend(self.running[sequence].take().map(|text| text.finish(ended, error)));
    }
}

/// Whether a text may have caused a failure, and not a limit of the step or of memory.
fn is_of_texts(error: &DecoderError) -> bool {
    matches!(error, DecoderError::Session(SessionError::Run(error)) if error.stopped().is_none())
}
