//! Prompt look-up: the last tokens of a text are looked up earlier in it, and the tokens that followed them there are
//! proposed to the model, which reads all proposals in one step. Knows neither models nor caches.

/// How tokens are proposed from the text itself ([`GenerateOptions::lookup`](super::GenerateOptions::lookup)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The most tokens that are proposed for a step, from 1 to [`Lookup::MOST`].
    pub tokens: usize,
    /// The number of last tokens that must occur earlier in the text, at least 1.
    pub ngram: usize,
}

/// Counts of proposed tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LookupStats {
    /// Tokens that were proposed.
    pub proposed: u64,
    /// Proposed tokens that were chosen.
    pub kept: u64,
}

impl Default for Lookup {
    fn default() -> Lookup {
        Lookup { tokens: 7, ngram: 2 }
    }
}

impl Lookup {
    /// The most tokens of a step, less one.
    pub const MOST: usize = super::CHUNK - 1;

    /// The reason why the settings are invalid, if they are.
    pub(super) fn refused(&self) -> Option<String> {
        if !(1..=Lookup::MOST).contains(&self.tokens) {
            return Some(format!("a look-up proposes {}, which is not between 1 and {}", self.tokens, Lookup::MOST));
        }
        (self.ngram == 0).then(|| "a look-up looks for the last 0".to_owned())
    }

    /// The tokens that followed the latest earlier occurrence of the last tokens of `text`, at most `most`. Where the
    /// text ends first, they repeat themselves.
    pub(super) fn propose(&self, text: &[i64], most: usize) -> Vec<i64> {
        let most = most.min(self.tokens);
        if self.ngram >= text.len() || most == 0 {
            return Vec::new();
        }
        let before = &text[..text.len() - 1];
        let wanted = &text[text.len() - self.ngram..];
        let Some(at) = before.windows(self.ngram).rposition(|tokens| tokens == wanted) else { return Vec::new() };
        let follows = at + self.ngram;
        let mut proposed: Vec<i64> = Vec::with_capacity(most);
        for at in follows..follows + most {
            proposed.push(if at < text.len() { text[at] } else { proposed[at - text.len()] });
        }
        proposed
    }
}

/// Tokens that the model has read after a text before they were chosen.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The length of the text then.
    from: usize,
    tokens: Vec<i64>,
}

impl Ahead {
    pub(super) fn new(from: usize, tokens: Vec<i64>) -> Ahead {
        Ahead { from, tokens }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Rows of logits of the step that read them.
    pub(super) fn rows(&self) -> usize {
        self.tokens.len() + 1
    }

    /// The number of tokens of the text that have been read as they are now.
    pub(super) fn agreed(&self, text: &[i64]) -> usize {
        let chosen = text.get(self.from..).unwrap_or(&[]);
        self.from + chosen.iter().zip(&self.tokens).take_while(|(chosen, proposed)| chosen == proposed).count()
    }

    /// The row of the step's logits that is after the text, if there is one.
    pub(super) fn row(&self, text: &[i64]) -> Option<usize> {
        (self.agreed(text) == text.len()).then(|| text.len() - self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_followed_the_last_place_of_the_last_tokens_is_proposed() {
        let propose = |tokens: usize, ngram: usize, text: &[i64]| Lookup { tokens, ngram }.propose(text, 100);
        assert_eq!(propose(3, 2, &[1, 2, 3, 4, 5, 1, 2]), [3, 4, 5]);
        assert_eq!(propose(3, 2, &[1, 2, 3, 1, 2, 9, 8, 7, 1, 2]), [9, 8, 7], "the last place");
        assert_eq!(propose(5, 1, &[7, 8, 7]), [8, 7, 8, 7, 8], "behind the end, they go on with themselves");
        assert_eq!(propose(4, 2, &[5, 5, 5]), [5, 5, 5, 5]);
        for (ngram, text) in [(2, &[1, 2, 3][..]), (2, &[1, 2]), (1, &[1]), (1, &[]), (3, &[1, 2, 1, 2])] {
            assert_eq!(propose(4, ngram, text), [0i64; 0], "{ngram} {text:?}");
        }
        assert_eq!(Lookup::default().propose(&[1, 2, 3, 1, 2], 0), [0i64; 0]);
        assert_eq!(Lookup::default().propose(&[1, 2, 3, 1, 2], 1), [3]);
    }

    #[test]
    fn settings_that_cannot_be_are_refused() {
        let refused = |tokens: usize, ngram: usize| Lookup { tokens, ngram }.refused().is_some();
        assert!(refused(0, 2) && refused(256, 2) && refused(4, 0));
        assert!(!refused(1, 1) && !refused(255, 2) && !refused(4, usize::MAX));
        assert_eq!(Lookup { tokens: 4, ngram: usize::MAX }.propose(&[1, 1, 1], 4), [0i64; 0]);
    }

    #[test]
    fn a_row_is_behind_a_text_whose_tokens_are_those_that_were_read() {
        let ahead = Ahead::new(2, vec![7, 8]);
        let rows = [&[1, 2][..], &[1, 2, 7], &[1, 2, 7, 8], &[1, 2, 9], &[1, 2, 7, 8, 1]].map(|text| ahead.row(text));
        assert_eq!(rows, [Some(0), Some(1), Some(2), None, None]);
        assert_eq!([ahead.agreed(&[1, 2, 9]), ahead.agreed(&[1, 2, 7, 8, 1]), ahead.agreed(&[1, 2, 7, 9])], [2, 4, 3]);
    }
}
