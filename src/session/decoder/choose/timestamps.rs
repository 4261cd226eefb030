//! Whisper's rules of timestamps, as in transformers' `WhisperTimeStampLogitsProcessor`.

use super::numbers::{likeliest, ln, sum_of_exps};

/// Tokens of times, which a model puts around the text of a sound. They are the last tokens of the model, in the order
/// of their times; the token before the first one says that no timestamps are wanted, and is never chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// The token of the time 0.
    pub begin: i64,
    /// The largest place of the first timestamp behind `begin`, if it is limited: 50 is a second
    /// (`max_initial_timestamp_index`).
    pub most_first: Option<usize>,
}

/// The rules at a place of a text.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Timed<'a> {
    pub(in crate::session) timestamps: Timestamps,
    /// The tokens that were chosen.
    pub(in crate::session) chosen: &'a [i64],
    /// The token that ends a text. Tokens before it are words.
    pub(in crate::session) end: Option<i64>,
}

impl Timed<'_> {
    /// Makes tokens impossible that the rules forbid.
    ///
    /// A text begins with a timestamp. Timestamps come in pairs and do not decrease; the second one of a pair may end
    /// the text. A timestamp is chosen where all of them together are likelier than any other token.
    pub(super) fn apply(&self, scores: &mut [f32]) {
        let place = |token: i64, scores: &[f32]| usize::try_from(token).unwrap_or(0).min(scores.len());
        let begin = place(self.timestamps.begin, scores);
        forbid(&mut scores[begin.saturating_sub(1)..begin]);
        let is_time = |token: &i64| *token >= self.timestamps.begin;
        let ends_in_time = self.chosen.last().is_some_and(is_time);
        // A text that has one token counts as one after a timestamp.
        let is_pair = self.chosen.len() < 2 || is_time(&self.chosen[self.chosen.len() - 2]);
        match (ends_in_time, is_pair) {
            (true, true) => forbid(&mut scores[begin..]),
            (true, false) => {
                let end = place(self.end.unwrap_or(self.timestamps.begin), scores);
                forbid(&mut scores[..end]);
            }
            (false, _) => {}
        }
        if let Some(&last) = self.chosen.iter().rfind(|token| is_time(token)) {
            // The second one of a pair may have the same time; the next pair begins later.
            let first = place(last, scores) + usize::from(!ends_in_time || is_pair);
            let first = first.min(scores.len());
            forbid(&mut scores[begin..first]);
        }
        if self.chosen.is_empty() {
            forbid(&mut scores[..begin]);
            let most =
                self.timestamps.most_first.map_or(scores.len(), |most| begin.saturating_add(most).saturating_add(1));
            let most = most.min(scores.len());
            forbid(&mut scores[most..]);
        }
        let (words, times) = scores.split_at_mut(begin);
        let word = likeliest(words).map_or(f64::NEG_INFINITY, |word| f64::from(words[word]));
        let time = likeliest(times).map(|time| f64::from(times[time]) + ln(sum_of_exps(times, times[time])));
        if time.is_some_and(|time| time > word) {
            forbid(words);
        }
    }
}

fn forbid(scores: &mut [f32]) {
    scores.fill(f32::NEG_INFINITY);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words 0 to 4, the end 5, a token 6 for the language, 7 for no timestamps, and timestamps from 8 to 13.
    const TIMES: Timestamps = Timestamps { begin: 8, most_first: Some(2) };

    /// The tokens that are possible behind the chosen ones, where every word is likelier than all timestamps.
    fn possible(chosen: &[i64]) -> Vec<usize> {
        possible_of(chosen, 5.0)
    }

    fn possible_of(chosen: &[i64], word: f32) -> Vec<usize> {
        let mut scores: Vec<f32> = (0..14).map(|token| if token < 8 { word } else { 1.0 }).collect();
        Timed { timestamps: TIMES, chosen, end: Some(5) }.apply(&mut scores);
        (0..14).filter(|&token| scores[token] > f32::NEG_INFINITY).collect()
    }

    #[test]
    fn a_text_begins_with_an_early_timestamp() {
        assert_eq!(possible(&[]), [8, 9, 10]);
        let mut scores = vec![0.0; 14];
        let open = Timestamps { most_first: None, ..TIMES };
        Timed { timestamps: open, chosen: &[], end: Some(5) }.apply(&mut scores);
        assert!(scores[13] == 0.0 && scores[7] == f32::NEG_INFINITY);
    }

    #[test]
    fn words_follow_the_first_timestamp_and_a_pair() {
        let words = [0, 1, 2, 3, 4, 5, 6];
        assert_eq!(possible(&[9]), words);
        assert_eq!(possible(&[9, 1, 11, 11]), words);
    }

    #[test]
    fn a_timestamp_behind_words_is_followed_by_another_one_or_the_end() {
        assert_eq!(possible(&[9, 1, 11]), [5, 6, 11, 12, 13]);
        assert_eq!(possible(&[9, 1, 2]), [0, 1, 2, 3, 4, 5, 6, 10, 11, 12, 13], "times do not repeat nor decrease");
        assert_eq!(possible(&[9, 1, 13]), [5, 6, 13]);
    }

    #[test]
    fn a_timestamp_is_chosen_where_all_together_are_likelier_than_a_word() {
        // Four timestamps of a logit of 1 together have 1 + ln 4.
        let least = 1.0 + 4f32.ln();
        assert_eq!(possible_of(&[9, 1, 2], least - 0.01), [10, 11, 12, 13]);
        assert_eq!(possible_of(&[9, 1, 2], least + 0.01), [0, 1, 2, 3, 4, 5, 6, 10, 11, 12, 13]);
    }

    #[test]
    fn odd_tokens_and_vocabularies_are_no_trouble() {
        for begin in [i64::MIN, 0, 14, 15, i64::MAX] {
            for chosen in [&[][..], &[i64::MAX], &[3, i64::MIN], &[i64::MAX, 1]] {
                let mut scores = vec![1.0; 14];
                Timed { timestamps: Timestamps { begin, most_first: Some(0) }, chosen, end: None }.apply(&mut scores);
                Timed { timestamps: TIMES, chosen, end: Some(i64::MAX) }.apply(&mut scores[..3]);
                let late = Timestamps { begin, most_first: Some(usize::MAX) };
                Timed { timestamps: late, chosen, end: Some(-1) }.apply(&mut scores);
            }
        }
    }
}
