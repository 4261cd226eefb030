//! TfIdfVectorizer: how often known n-grams occur in lists of words or numbers.

use hashbrown::HashMap;
use kiln_kernels::memory::{self, Collect};
use kiln_model::{Attr, NodeDesc};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::wide::{narrow, widened};
use super::{LoadCx, OpError, Operator, required, size_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "TfIdfVectorizer", make)];

/// Most elements of an output row: the model states the size, and nothing else limits it.
const MOST_COLUMNS: usize = 1 << 24;

/// Words and numbers alike, by their number in the pool.
type Gram = Vec<u32>;

/// Grams that are looked up between two checks whether the request goes on.
const BETWEEN_CHECKS: usize = 1024;

struct Vectorizer {
    words: HashMap<String, u32>,
    numbers: HashMap<i64, u32>,
    /// The output's column of each n-gram.
    columns: HashMap<Gram, usize>,
    width: usize,
    lengths: std::ops::RangeInclusive<usize>,
    skips: usize,
    mode: Mode,
    weights: Option<Vec<f32>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Tf,
    Idf,
    TfIdf,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let size = |name, least| size_attribute(node, name, least);
    let mode = match node.attributes().word("mode") {
        Some("TF") => Mode::Tf,
        Some("IDF") => Mode::Idf,
        Some("TFIDF") => Mode::TfIdf,
        other => return Err(OpError::invalid(node, format!("mode = {other:?}"))),
    };
    let indexes = sizes(node, "ngram_indexes")?;
    let width = indexes.iter().max().map_or(0, |last| last.saturating_add(1));
    if width > MOST_COLUMNS {
        return Err(OpError::unsupported(node, format!("{width} columns")));
    }
    let weights = node.floats("weights").map(<[f32]>::to_vec);
    if weights.as_ref().is_some_and(|weights| weights.len() != indexes.len()) {
        return Err(OpError::invalid(node, "weights and ngram_indexes differ in length"));
    }
    let mut made = Vectorizer {
        words: HashMap::new(),
        numbers: HashMap::new(),
        columns: HashMap::new(),
        width,
        lengths: size("min_gram_length", 1)?..=size("max_gram_length", 1)?,
        skips: size("max_skip_count", 0)?,
        mode,
        weights: None,
    };
    let pool = made.pool(node);
    made.index(node, &pool, &indexes)?;
    // By column, as the counts are.
    made.weights = weights.map(|weights| {
        let mut by_column = memory::zeroed(width);
        indexes.iter().zip(weights).for_each(|(&column, weight)| by_column[column] = weight);
        by_column
    });
    Ok(Box::new(made))
}

fn sizes(node: &NodeDesc, name: &str) -> Result<Vec<usize>, OpError> {
    let values = node.ints(name).unwrap_or_default();
    let checked = values.iter().map(|&value| usize::try_from(value).ok()).collect::<Option<Vec<usize>>>();
    checked.ok_or_else(|| OpError::invalid(node, format!("{name} = {values:?}")))
}

impl Vectorizer {
    /// The pool's entries by number; numbers are given out as entries appear.
    fn pool(&mut self, node: &NodeDesc) -> Vec<u32> {
        fn number<K: std::hash::Hash + Eq>(known: &mut HashMap<K, u32>, key: K) -> u32 {
            let next = known.len() as u32;
            *known.entry(key).or_insert(next)
        }
        match (node.attrs.get("pool_strings"), node.ints("pool_int64s")) {
            (Some(Attr::Strs(words)), _) => words.iter().map(|word| number(&mut self.words, word.clone())).collect(),
            (_, numbers) => numbers.unwrap_or_default().iter().map(|&n| number(&mut self.numbers, n)).collect(),
        }
    }

    /// The pool lists all 1-grams, then all 2-grams and so on; `ngram_counts` says where each kind begins.
    fn index(&mut self, node: &NodeDesc, pool: &[u32], indexes: &[usize]) -> Result<(), OpError> {
        let starts = sizes(node, "ngram_counts")?;
        let mut number = 0;
        for (at, &start) in starts.iter().enumerate() {
            let (length, end) = (at + 1, starts.get(at + 1).copied().unwrap_or(pool.len()));
            let entries = pool.get(start..end);
            let entries = entries.ok_or_else(|| OpError::invalid(node, format!("ngram_counts = {starts:?}")))?;
            for gram in entries.chunks_exact(length) {
                let column = *indexes.get(number).ok_or_else(|| OpError::invalid(node, "too few ngram_indexes"))?;
                number += 1;
                if self.lengths.contains(&length) {
                    self.columns.insert(gram.to_vec(), column);
                }
            }
        }
        Ok(())
    }

    /// Counts the n-grams of one list; entries that are in no pool are `None`.
    fn count(&self, list: &[Option<u32>], row: &mut [f32], cx: &RunCx<'_>) -> Result<(), NodeError> {
        let longest = *self.lengths.end().min(&list.len());
        for step in 1..=self.skips.saturating_add(1).min(list.len().max(1)) {
            for length in *self.lengths.start()..=longest {
                // A single entry has no gaps and is counted once.
                if length == 1 && step > 1 {
                    continue;
                }
                let Some(reach) = (length - 1).checked_mul(step).filter(|&reach| reach < list.len()) else { break };
                for start in 0..list.len() - reach {
                    if start % BETWEEN_CHECKS == 0 {
                        cx.check_stop()?;
                    }
                    let gram: Option<Gram> = (0..length).map(|at| list[start + at * step]).collect();
                    if let Some(&column) = gram.and_then(|gram| self.columns.get(&gram)) {
                        row[column] += 1.0;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Node for Vectorizer {
    fn family(&self) -> &'static str {
        "TfIdfVectorizer"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        match required(inputs, 0)?.dtype() {
            DType::String | DType::I32 | DType::I64 => Ok(()),
            dtype => Err(NodeError::Unsupported(format!("elements of type {dtype}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, to) = (io.input(0)?, io.alloc(0)?);
        let entries: Vec<Option<u32>> = match input.dtype() {
            DType::String => input.as_strings()?.iter().map(|word| self.words.get(word).copied()).collected(),
            _ => widened::<i64>(input)?.iter().map(|number| self.numbers.get(number).copied()).collected(),
        };
        let length = input.shape().last().copied().unwrap_or(0);
        let mut counts = memory::zeroed::<f32>(to.len());
        for (row, list) in counts.chunks_exact_mut(self.width.max(1)).zip(entries.chunks_exact(length.max(1))) {
            self.count(list, row, cx)?;
        }
        for (index, count) in counts.iter_mut().enumerate() {
            let weight = self.weights.as_ref().map_or(1.0, |weights| weights[index % self.width]);
            *count = match self.mode {
                Mode::Tf => *count,
                Mode::Idf => {
                    if *count > 0.0 {
                        weight
                    } else {
                        0.0
                    }
                }
                Mode::TfIdf => *count * weight,
            };
        }
        let output = narrow(&counts, to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, strings};

    /// The pool: 2, 3, 5, 4 | 5 6, 7 8, 6 7.
    fn vectorizer(mode: &str, lengths: [i64; 2], skips: i64) -> Trial {
        let trial = Trial::new("TfIdfVectorizer").text("mode", mode).int("min_gram_length", lengths[0]);
        let trial = trial.int("max_gram_length", lengths[1]).int("max_skip_count", skips).ints("ngram_counts", &[0, 4]);
        trial.ints("ngram_indexes", &[0, 1, 2, 3, 4, 5, 6]).ints("pool_int64s", &[2, 3, 5, 4, 5, 6, 7, 8, 6, 7])
    }

    #[test]
    fn grams_are_counted_with_gaps() {
        let list = [1i32, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8];
        vectorizer("TF", [2, 2], 0).input(&[12], &list).gives(&[7], &[0f32, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        vectorizer("TF", [2, 2], 5).input(&[12], &list).gives(&[7], &[0f32, 0.0, 0.0, 0.0, 1.0, 3.0, 1.0]);
        vectorizer("TF", [1, 2], 5).input(&[12], &list).gives(&[7], &[0f32, 3.0, 1.0, 0.0, 1.0, 3.0, 1.0]);
        vectorizer("TF", [1, 1], i64::MAX).input(&[2, 2], &[2i64, 2, 3, 9]).run().unwrap();
    }

    #[test]
    fn weights_stand_for_rarity() {
        let weights = Attr::Floats(vec![0.5; 7]);
        let row = |mode| vectorizer(mode, [1, 1], 0).attr("weights", weights.clone()).input(&[2], &[2i64, 2]);
        row("IDF").gives(&[7], &[0.5f32, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        row("TFIDF").gives(&[7], &[1f32, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn words_are_counted_like_numbers() {
        let trial =
            Trial::new("TfIdfVectorizer").text("mode", "TF").int("min_gram_length", 1).int("max_gram_length", 1);
        let trial = trial.int("max_skip_count", 0).ints("ngram_counts", &[0]).ints("ngram_indexes", &[1, 0]);
        let trial = trial.attr("pool_strings", Attr::Strs(vec!["a".to_owned(), "b".to_owned()]));
        trial.tensor(strings(&[3], &["b", "c", "b"])).gives(&[2], &[2f32, 0.0]);
    }

    #[test]
    fn broken_pools_are_refused() {
        let list = [1i64];
        vectorizer("TF", [0, 1], 0).input(&[1], &list).is_refused("min_gram_length");
        vectorizer("TF", [1, 1], 0).ints("ngram_counts", &[0, 99]).input(&[1], &list).is_refused("ngram_counts");
        vectorizer("TF", [1, 1], 0).ints("ngram_indexes", &[0]).input(&[1], &list).is_refused("too few");
        vectorizer("TF", [1, 1], 0).ints("ngram_indexes", &[i64::MAX; 7]).input(&[1], &list).is_refused("columns");
        vectorizer("?", [1, 1], 0).input(&[1], &list).is_refused("mode");
    }
}
