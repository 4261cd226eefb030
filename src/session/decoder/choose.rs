//! Choosing the next token by the logits after a text. Knows neither models nor caches.
//!
//! The rules and their order are those of Hugging Face's generation and of onnxruntime-genai: the repetition penalty,
//! suppressed tokens, the temperature, the `top_k` largest logits, the smallest set that has `top_p` of the
//! probability, and tokens with at least `min_p` of the likeliest token's probability. A token is then drawn from the
//! rest.
//!
//! The same logits, settings and seed choose the same token on every machine. The last bits of logarithms and powers
//! differ between systems' libraries, so [`numbers`] uses only sums and products, and the random generator ([`Random`])
//! only integers.

pub(in crate::session) mod numbers;
#[cfg(test)]
mod tests;
pub mod timestamps;

use std::cmp::Ordering;

use self::numbers::{exp, likeliest, ln, sum_of_exps};
use self::timestamps::Timed;

/// How the next token is chosen. The default is the likeliest one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The divisor of logits before a token is drawn. At 0 the likeliest token is taken (the first of equals), and of
    /// the fields below only the penalty has an effect.
    pub temperature: f32,
    /// This number of the largest logits is kept, with those that equal the last one; 0 keeps all.
    pub top_k: usize,
    /// The likeliest tokens are kept until they have this part of the probability; 1 keeps all.
    pub top_p: f32,
    /// Tokens are kept that have at least this part of the likeliest token's probability; 0 keeps all.
    pub min_p: f32,
    /// Logits of tokens in the text are divided by it where they are positive, otherwise multiplied; 1 changes none.
    pub repetition_penalty: f32,
    /// Where the random numbers begin.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, repetition_penalty: 1.0, seed: 0 }
    }
}

/// Why no token was chosen.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// A setting is out of range.
    #[error("{name} is {value}, which is not {expected}")]
    Setting {
        /// The field of [`Sampling`].
        name: &'static str,
        /// Its value.
        value: f32,
        /// The valid values.
        expected: &'static str,
    },
    /// A logit is NaN or positive infinity.
    #[error("the logit of token {token} is {value}")]
    Logit {
        /// The token.
        token: usize,
        /// Its logit.
        value: f32,
    },
    /// There are no logits, or all logits are negative infinity.
    #[error("none of {0} tokens is possible")]
    Nothing(usize),
}

/// What may not be chosen at a place of a text.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::session) struct Rules<'a> {
    /// Lists of tokens that are impossible, whatever their logits. Tokens without a logit are ignored.
    pub(in crate::session) never: &'a [&'a [i64]],
    /// The rules of timestamps, where a text has any.
    pub(in crate::session) timed: Option<Timed<'a>>,
}

impl Rules<'_> {
    /// Makes what may not be chosen impossible.
    fn apply(&self, scores: &mut [f32]) {
        for &token in self.never.iter().copied().flatten() {
            if let Some(score) = usize::try_from(token).ok().and_then(|token| scores.get_mut(token)) {
                *score = f32::NEG_INFINITY;
            }
        }
        if let Some(timed) = &self.timed {
            timed.apply(scores);
        }
    }
}

/// Chooses tokens of one text.
#[derive(Clone, Debug)]
pub struct Chooser {
    sampling: Sampling,
    random: Random,
    /// Logits after the penalty.
    scores: Vec<f32>,
    /// Tokens that the penalty was applied to; all false between two calls.
    penalised: Vec<bool>,
}

impl Chooser {
    /// A chooser whose random numbers begin at the seed.
    ///
    /// # Errors
    ///
    /// [`ChoiceError::Setting`].
    pub fn new(sampling: Sampling) -> Result<Chooser, ChoiceError> {
        let Sampling { temperature, top_p, min_p, repetition_penalty, seed, .. } = sampling;
        let finite = |value: f32| value.is_finite();
        let settings = [
            ("temperature", temperature, finite(temperature) && temperature >= 0.0, "0 or a positive number"),
            ("top_p", top_p, top_p > 0.0 && top_p <= 1.0, "above 0 and at most 1"),
            ("min_p", min_p, (0.0..=1.0).contains(&min_p), "between 0 and 1"),
            (
                "repetition_penalty",
                repetition_penalty,
                finite(repetition_penalty) && repetition_penalty > 0.0,
                "a positive number",
            ),
        ];
        if let Some(&(name, value, _, expected)) = settings.iter().find(|(_, _, fits, _)| !fits) {
            return Err(ChoiceError::Setting { name, value, expected });
        }
        Ok(Chooser { sampling, random: Random(seed), scores: Vec::new(), penalised: Vec::new() })
    }

    /// The token after `text`, which matters only for the penalty.
    ///
    /// # Errors
    ///
    /// [`ChoiceError::Logit`] and [`ChoiceError::Nothing`]. No random number is then used up.
    pub fn choose(&mut self, logits: &[f32], text: &[i64]) -> Result<i64, ChoiceError> {
        self.choose_but(logits, text, &[])
    }

    /// As [`Chooser::choose`], but never a token of these lists, whatever its logit. Listed tokens without a logit are
    /// ignored.
    ///
    /// # Errors
    ///
    /// As [`Chooser::choose`]; [`ChoiceError::Nothing`] also where the lists have all possible tokens.
    pub fn choose_but(&mut self, logits: &[f32], text: &[i64], not: &[&[i64]]) -> Result<i64, ChoiceError> {
        self.choose_by(logits, text, &Rules { never: not, timed: None })
    }

    /// As [`Chooser::choose_but`], by rules.
    ///
    /// # Errors
    ///
    /// As [`Chooser::choose_but`].
    pub(in crate::session) fn choose_by(
        &mut self,
        logits: &[f32],
        text: &[i64],
        rules: &Rules<'_>,
    ) -> Result<i64, ChoiceError> {
        check(logits)?;
        let mut scores = std::mem::take(&mut self.scores);
        scores.clear();
        scores.extend_from_slice(logits);
        self.penalise(&mut scores, text);
        rules.apply(&mut scores);
        let likeliest = likeliest(&scores).ok_or(ChoiceError::Nothing(scores.len()));
        let chosen = likeliest.map(|first| match self.sampling.temperature {
            0.0 => first,
            temperature => self.draw(&scores, scores[first], temperature),
        });
        self.scores = scores;
        Ok(chosen? as i64)
    }

    /// The logarithms of the tokens' probabilities after `text`, to which the penalty and the rules are then applied.
    ///
    /// # Errors
    ///
    /// [`ChoiceError::Logit`], and [`ChoiceError::Nothing`] where all logits are negative infinity.
    pub(in crate::session) fn log_probabilities(
        &mut self,
        logits: &[f32],
        text: &[i64],
        rules: &Rules<'_>,
        scores: &mut Vec<f32>,
    ) -> Result<(), ChoiceError> {
        check(logits)?;
        let largest = likeliest(logits).map(|token| logits[token]).ok_or(ChoiceError::Nothing(logits.len()))?;
        let sum = ln(sum_of_exps(logits, largest));
        scores.clear();
        scores.extend(logits.iter().map(|&logit| ((f64::from(logit) - f64::from(largest)) - sum) as f32));
        self.penalise(scores, text);
        rules.apply(scores);
        Ok(())
    }

    fn penalise(&mut self, scores: &mut [f32], text: &[i64]) {
        let penalty = self.sampling.repetition_penalty;
        if penalty == 1.0 {
            return;
        }
        self.penalised.resize(scores.len(), false);
        let known = || text.iter().filter_map(|&token| usize::try_from(token).ok().filter(|&at| at < scores.len()));
        let known: Vec<usize> = known().collect();
        for &token in &known {
            if !std::mem::replace(&mut self.penalised[token], true) {
                let score = &mut scores[token];
                // Bounded, so that a large logit and a small penalty give no infinity.
                *score = if *score < 0.0 { *score * penalty } else { (*score / penalty).min(f32::MAX) };
            }
        }
        known.iter().for_each(|&token| self.penalised[token] = false);
    }

    /// Draws one of the tokens; `largest` is the largest score.
    fn draw(&mut self, scores: &[f32], largest: f32, temperature: f32) -> usize {
        let Sampling { top_k, top_p, min_p, .. } = self.sampling;
        let weight = |score: f32| exp((f64::from(score) - f64::from(largest)) / f64::from(temperature));
        let possible = scores.iter().enumerate().filter(|(_, score)| **score > f32::NEG_INFINITY);
        let mut kept: Vec<Candidate> =
            possible.map(|(token, &score)| Candidate { token, score, weight: weight(score) }).collect();
        if top_k > 0 && top_k < kept.len() {
            let (_, last, _) = kept.select_nth_unstable_by(top_k - 1, Candidate::likelier);
            let least = last.score;
            kept.retain(|candidate| candidate.score >= least);
            kept.sort_unstable_by_key(|candidate| candidate.token);
        }
        if top_p < 1.0 {
            keep_mass(&mut kept, f64::from(top_p));
        }
        // The weight of the likeliest token is 1.
        kept.retain(|candidate| candidate.weight >= f64::from(min_p));
        kept.sort_unstable_by_key(|candidate| candidate.token);
        let total: f64 = kept.iter().map(|candidate| candidate.weight).sum();
        let place = self.random.unit() * total;
        let mut passed = 0.0;
        let drawn = kept.iter().find(|candidate| {
            passed += candidate.weight;
            place < passed
        });
        // The drawn number may be rounded up to the total, which no sum exceeds.
        drawn.or(kept.last()).map_or(0, |candidate| candidate.token)
    }
}

/// Refuses logits that are no numbers or too large.
fn check(logits: &[f32]) -> Result<(), ChoiceError> {
    let refused = logits.iter().position(|&logit| logit.is_nan() || logit == f32::INFINITY);
    refused.map_or(Ok(()), |token| Err(ChoiceError::Logit { token, value: logits[token] }))
}

/// A token that may be drawn.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    token: usize,
    score: f32,
    /// Its probability relative to the likeliest one's.
    weight: f64,
}

impl Candidate {
    /// Orders by falling score, then by rising number.
    fn likelier(&self, other: &Candidate) -> Ordering {
        other.score.total_cmp(&self.score).then(self.token.cmp(&other.token))
    }
}

/// Keeps the likeliest candidates: a candidate stays if all likelier ones together have less than `part` of the total
/// weight. Candidates come in the order of their numbers.
fn keep_mass(kept: &mut Vec<Candidate>, part: f64) {
    let enough = part * kept.iter().map(|candidate| candidate.weight).sum::<f64>();
    // A few tokens have most of the probability: only these are sorted, and more if they do not suffice.
    let mut sorted = 256;
    loop {
        if sorted < kept.len() {
            kept.select_nth_unstable_by(sorted - 1, Candidate::likelier);
        }
        let head = sorted.min(kept.len());
        kept[..head].sort_unstable_by(Candidate::likelier);
        let mut before = 0.0;
        let beyond = kept[..head].iter().position(|candidate| {
            let ends = before >= enough;
            before += candidate.weight;
            ends
        });
        match beyond {
            Some(end) => return kept.truncate(end),
            None if head == kept.len() => return,
            None => sorted *= 8,
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to 1, and less than 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
