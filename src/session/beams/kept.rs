//! What a search keeps: the likeliest continuations of a step, and the texts that have ended, by their scores.

use std::cmp::Ordering;

use super::{BeamStop, Beams, Hypothesis};
use crate::session::decoder::choose::numbers::{exp, ln};
use crate::session::generate::Ended;

/// A continuation of a text by a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    /// The place of the text among those that go on.
    pub(super) beam: usize,
    pub(super) token: i64,
    /// The sum of the logarithms of the probabilities, that of the token included.
    pub(super) sum: f64,
}

impl Candidate {
    /// Orders by falling sum, then by text and token.
    fn likelier(&self, other: &Candidate) -> Ordering {
        other.sum.total_cmp(&self.sum).then(self.beam.cmp(&other.beam)).then(self.token.cmp(&other.token))
    }
}

/// The likeliest continuations, up to a number of them.
pub(super) struct Likeliest {
    most: usize,
    /// Those of at least `least`; there may be more than `most` until they are cut.
    all: Vec<Candidate>,
    least: f64,
}

impl Likeliest {
    pub(super) fn new(most: usize) -> Likeliest {
        Likeliest { most, all: Vec::new(), least: f64::NEG_INFINITY }
    }

    /// Adds the continuations of a text: the sum of the text, and the logarithm of each token's probability. Those of
    /// probability 0 are none.
    pub(super) fn add(&mut self, beam: usize, sum: f64, scores: &[f32]) {
        for (token, &score) in scores.iter().enumerate() {
            let sum = sum + f64::from(score);
            if sum > self.least {
                self.all.push(Candidate { beam, token: token as i64, sum });
                if self.all.len() >= self.most.saturating_mul(4).max(64) {
                    self.cut();
                }
            }
        }
    }

    /// Keeps no more than `most`. Later continuations that equal the last of them come behind it in order.
    fn cut(&mut self) {
        if self.most < self.all.len() {
            let (_, last, _) = self.all.select_nth_unstable_by(self.most, Candidate::likelier);
            self.least = self.least.max(last.sum);
            self.all.truncate(self.most);
        }
    }

    /// The likeliest first.
    pub(super) fn in_order(mut self) -> Vec<Candidate> {
        self.cut();
        self.all.sort_unstable_by(Candidate::likelier);
        self.all
    }
}

/// Texts that have ended, and whether others can still have a higher score.
pub(super) struct Ranking {
    beams: Beams,
    /// The most tokens of a text.
    longest: usize,
    /// Of falling scores.
    ended: Vec<Hypothesis>,
}

impl Ranking {
    pub(super) fn new(beams: &Beams, longest: usize) -> Ranking {
        Ranking { beams: *beams, longest, ended: Vec::new() }
    }

    /// The score of a text of `length` tokens.
    fn score(&self, sum: f64, length: usize) -> f64 {
        let length = length.saturating_add(self.beams.counted) as f64;
        // length^-penalty
        let power = f64::from(self.beams.length_penalty) * ln(length);
        if power < 0.0 { sum / exp(power) } else { sum * exp(-power) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ended.is_empty()
    }

    fn is_full(&self) -> bool {
        self.ended.len() >= self.beams.number
    }

    /// Adds a text that has ended with its token `length`, the one that ended it included.
    pub(super) fn add(&mut self, tokens: Vec<i64>, sum: f64, length: usize, ended: Ended) {
        let score = self.score(sum, length);
        self.ended.push(Hypothesis { tokens, score, ended });
    }

    /// Ends a step, in which no text is added behind those that are kept.
    pub(super) fn close(&mut self) {
        // Stable: of equals the earlier one is kept.
        self.ended.sort_by(|one, other| other.score.total_cmp(&one.score));
        self.ended.truncate(self.beams.number);
    }

    /// Whether the search ends behind a step that made texts of `length` tokens. `running` is the sum of the likeliest
    /// one that goes on.
    pub(super) fn is_done(&self, running: Option<f64>, length: usize) -> bool {
        let Some(running) = running else { return true };
        let Some(worst) = self.ended.last().filter(|_| self.is_full()) else { return false };
        let at = match self.beams.stop {
            BeamStop::Full => return true,
            BeamStop::Impossible if self.beams.length_penalty > 0.0 => self.longest,
            BeamStop::Impossible | BeamStop::Unlikely => length,
        };
        self.score(running, at) <= worst.score
    }

    /// The texts that have ended, the one of the highest score first.
    pub(super) fn best(self) -> Vec<Hypothesis> {
        self.ended
    }
}
