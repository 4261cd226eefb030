//! NGramRepeatBlock: tokens after which an n-gram of a sequence would be there twice get a score of minus infinity.

use kiln_kernels::memory::Pace;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::{LoadCx, OpError, Operator, refused, required, size_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("com.microsoft", "NGramRepeatBlock", make)];

struct Repeats {
    /// Tokens of an n-gram.
    size: usize,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Repeats { size: size_attribute(cx.node, "ngram_size", 1)? }))
}

impl Repeats {
    /// Bars the tokens that would repeat an n-gram of one sequence.
    fn bar(&self, tokens: &[i64], scores: &mut [f32], pace: &mut Pace) -> Result<(), NodeError> {
        // The last tokens, which the next token would complete to an n-gram.
        let Some(start) = (tokens.len() + 1).checked_sub(self.size) else { return Ok(()) };
        let begun = &tokens[start..];
        for (begin, next) in (0..).zip(tokens.get(self.size - 1..).unwrap_or_default()) {
            pace.step(1 + self.size / 8);
            if tokens[begin..][..begun.len()] == *begun {
                let count = scores.len();
                let score = usize::try_from(*next).ok().and_then(|next| scores.get_mut(next));
                *score
                    .ok_or_else(|| refused(format!("token {next} at {begin}, where {count} tokens have scores")))? =
                    f32::NEG_INFINITY;
            }
        }
        Ok(())
    }
}

impl Node for Repeats {
    fn family(&self) -> &'static str {
        "NGramRepeatBlock"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let (tokens, scores) = (required(inputs, 0)?, required(inputs, 1)?);
        tokens.as_slice::<i64>()?;
        scores.as_slice::<f32>()?;
        match (tokens.shape(), scores.shape()) {
            (&[sequences, _], &[same, _]) if sequences == same => Ok(()),
            (tokens, scores) => Err(refused(format!("tokens of shape {tokens:?} with scores of shape {scores:?}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let (tokens, scores, mut output) = (io.input(0)?, io.input(1)?, io.alloc(0)?);
        let (length, count) = (tokens.shape()[1], scores.shape()[1]);
        let to = output.as_mut_slice::<f32>()?;
        to.copy_from_slice(scores.as_slice()?);
        let (tokens, mut pace) = (tokens.as_slice::<i64>()?, Pace::default());
        for sequence in 0..tokens.len().checked_div(length).unwrap_or(0) {
            let own = &tokens[sequence * length..][..length];
            let barred = self.bar(own, &mut to[sequence * count..][..count], &mut pace);
            barred.map_err(|error| refused(format!("sequence {sequence}: {error}")))?;
        }
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    const GONE: f32 = f32::NEG_INFINITY;

    fn barred(size: i64, tokens: &[i64]) -> Trial {
        let trial = Trial::new("NGramRepeatBlock").int("ngram_size", size).input(&[1, tokens.len()], tokens);
        trial.input(&[1, 4], &[0f32, 1.0, 2.0, 3.0])
    }

    #[test]
    fn what_would_repeat_an_n_gram_is_barred() {
        barred(2, &[1, 2, 0, 1, 3, 1]).gives(&[1, 4], &[0.0, 1.0, GONE, GONE]);
        barred(3, &[1, 2, 0, 1, 2]).gives(&[1, 4], &[GONE, 1.0, 2.0, 3.0]);
        barred(1, &[1, 3]).gives(&[1, 4], &[0.0, GONE, 2.0, GONE]);
        // Too short to have an n-gram.
        barred(4, &[1, 1]).gives(&[1, 4], &[0f32, 1.0, 2.0, 3.0]);
        barred(i64::MAX, &[1, 1]).gives(&[1, 4], &[0f32, 1.0, 2.0, 3.0]);
        let two = Trial::new("NGramRepeatBlock").int("ngram_size", 2).input(&[2, 3], &[0i64, 1, 0, 1, 1, 1]);
        two.input(&[2, 2], &[5f32; 4]).gives(&[2, 2], &[5.0, GONE, 5.0, GONE]);
        let none = Trial::new("NGramRepeatBlock").int("ngram_size", 1).input::<i64>(&[2, 0], &[]);
        none.input(&[2, 1], &[5f32; 2]).gives(&[2, 1], &[5f32; 2]);
    }

    #[test]
    fn tokens_without_a_score_are_refused_with_their_place() {
        barred(2, &[1, 9, 1]).is_refused("sequence 0: token 9 at 0, where 4 tokens have scores");
        barred(1, &[-1]).is_refused("token -1");
        barred(0, &[1]).is_refused("ngram_size = 0");
        let other = Trial::new("NGramRepeatBlock").int("ngram_size", 1).input(&[2, 1], &[0i64; 2]);
        other.input(&[1, 4], &[0f32; 4]).is_refused("tokens of shape [2, 1] with scores of shape [1, 4]");
    }
}
