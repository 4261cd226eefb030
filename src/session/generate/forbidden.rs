//! Tokens that may not be chosen next: those that the options name, those that would end a text too early, and those
//! that would repeat a sequence of tokens.

use super::GenerateOptions;
use crate::session::decoder::choose::timestamps::Timed;

/// Where a text stands.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Standing<'a> {
    /// All its tokens.
    pub(in crate::session) text: &'a [i64],
    /// Tokens that were chosen since the last append.
    pub(in crate::session) chosen: usize,
    /// Whether none was ever chosen.
    pub(in crate::session) is_first: bool,
}

impl GenerateOptions {
    /// The rules of timestamps, where the text has any.
    pub(in crate::session) fn timed<'a>(&self, Standing { text, chosen, .. }: Standing<'a>) -> Option<Timed<'a>> {
        let chosen = &text[text.len().saturating_sub(chosen)..];
        self.timestamps.map(|timestamps| Timed { timestamps, chosen, end: self.ends.first().copied() })
    }

    /// Lists of tokens that may not be chosen now. `repeated` is memory for those that would repeat a sequence.
    pub(in crate::session) fn forbidden<'a>(
        &'a self,
        Standing { text, chosen, is_first }: Standing<'_>,
        repeated: &'a mut Vec<i64>,
    ) -> [&'a [i64]; 4] {
        repeated.clear();
        repeat(text, self.no_repeat_ngram, repeated);
        let begin: &[i64] = if is_first { &self.begin_suppress } else { &[] };
        let ends: &[i64] = if chosen < self.min_tokens { &self.ends } else { &[] };
        [&self.suppress, begin, ends, repeated]
    }
}

/// Adds the tokens behind which the last `length` tokens would be a sequence that the text has already.
fn repeat(text: &[i64], length: usize, repeated: &mut Vec<i64>) {
    if length == 0 || text.len() < length {
        return;
    }
    let last = &text[text.len() - (length - 1)..];
    repeated.extend(text.windows(length).filter(|window| window.starts_with(last)).map(|window| window[length - 1]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(text: &[i64], length: usize) -> Vec<i64> {
        let mut repeated = Vec::new();
        repeat(text, length, &mut repeated);
        repeated
    }

    #[test]
    fn a_token_is_forbidden_where_it_repeats_a_sequence() {
        assert_eq!(repeated(&[1, 2, 3, 1, 2, 4, 1, 2], 3), [3, 4]);
        assert_eq!(repeated(&[1, 2, 3, 1, 2], 2), [3], "what follows 2");
        assert_eq!(repeated(&[5, 6, 5], 1), [5, 6, 5], "every token that there is");
        assert_eq!(repeated(&[7, 7, 7], 3), [7], "sequences may overlap");
        for (text, length) in [(&[1, 2][..], 3), (&[], 1), (&[1, 1], 0), (&[1], usize::MAX)] {
            assert!(repeated(text, length).is_empty(), "{text:?}, {length}");
        }
    }

    #[test]
    fn lists_are_those_of_the_options_at_that_place_of_the_text() {
        let options = GenerateOptions {
            suppress: vec![1],
            begin_suppress: vec![2],
            ends: vec![3],
            min_tokens: 2,
            no_repeat_ngram: 2,
            ..GenerateOptions::default()
        };
        let mut memory = vec![9];
        let text = [4, 5, 4];
        let first = Standing { text: &text, chosen: 0, is_first: true };
        assert_eq!(options.forbidden(first, &mut memory), [&[1][..], &[2], &[3], &[5]]);
        let later = Standing { text: &text[..2], chosen: 2, is_first: false };
        assert_eq!(options.forbidden(later, &mut memory), [&[1][..], &[], &[], &[]]);
    }
}
