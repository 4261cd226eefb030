//! Biases that grow along keys, each head by its own slope (ALiBi: BLOOM, MPT).
//!
//! Such a bias is computed again in each step, for all keys that the cache has room for: positions, counted from the
//! first key or from the last one, times slopes. Each number is the product that the model's own table has.

use half::f16;
use kiln_model::ir::{Attr, Attrs, Graph, NodeDesc, ValueId};
use kiln_tensor::{DType, Tensor, TensorError};

use super::made;
use super::trial::{Follows, Lengths, Trial};
use crate::session::decoder::DecoderError;
use crate::session::decoder::rewrite::{StepNumbers, refused};

/// Keys at which a bias is tried, besides the sizes of its tables. A model fails behind the end of a table.
const KEYS: [usize; 4] = [FEWEST_KEYS, 1, 65, 1000];

/// At least this number of keys must have a value.
const FEWEST_KEYS: usize = 8;

/// The most keys of a table that are tried.
const MOST_KEYS: usize = 1 << 14;

/// ONNX's numbers of element types.
const FLOAT: i64 = 1;
const INT64: i64 = 7;
const FLOAT16: i64 = 10;

/// A bias by heads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slopes {
    /// The slope of each head.
    of_heads: Vec<f32>,
    /// Whether the last key of all has the bias 0; otherwise the first one has it.
    from_last: bool,
    /// Whether the products are rounded to `f16`.
    is_half: bool,
}

impl Slopes {
    /// The slopes of a value that is added to scores, if it is such a bias.
    pub(super) fn of(trial: &mut Trial<'_>, value: ValueId) -> Option<Slopes> {
        // Masks have a row for each new position, which their dimensions mostly show.
        let several = Lengths { batch: 1, new: 3, past: FEWEST_KEYS - 3 };
        if trial.dims(value, several).is_some_and(|dims| !matches!(dims[..], [.., 1, FEWEST_KEYS])) {
            return None;
        }
        rows(&trial.compute(value, Follows::Comparisons, several)?, FEWEST_KEYS)?;
        let mut found: Option<Slopes> = None;
        let mut most = 0;
        let keys: Vec<usize> = KEYS.into_iter().chain(trial.sizes_of(value, MOST_KEYS)).collect();
        let one = keys.iter().flat_map(|&keys| {
            [(1, 3), (1, 1)].map(|(batch, new)| Lengths { batch, new, past: keys.saturating_sub(new) })
        });
        for lengths in one.chain([Lengths { batch: 2, new: 2, past: 9 }]) {
            let Some(tensor) = trial.compute(value, Follows::Comparisons, lengths) else { continue };
            let total = lengths.past + lengths.new;
            let Some(rows) = rows(&tensor, total) else {
                // Tables that are too short are cut otherwise.
                if total > FEWEST_KEYS && most >= FEWEST_KEYS {
                    continue;
                }
                return None;
            };
            if found.is_none() && total > 1 {
                found = Some(Slopes::first(&rows, tensor.dtype() == DType::F16));
            }
            if let Some(found) = &found
                && !found.fits(&rows)
            {
                return None;
            }
            most = most.max(total);
        }
        found.filter(|found| most >= FEWEST_KEYS && found.of_heads.iter().any(|&slope| slope != 0.0))
    }

    /// The slopes of these rows, of at least two keys, if they have any.
    fn first(rows: &[Vec<f32>], is_half: bool) -> Slopes {
        let from_last = rows.iter().any(|row| row[0] != 0.0);
        let slope = |row: &Vec<f32>| if from_last { -row[row.len() - 2] } else { row[1] };
        Slopes { of_heads: rows.iter().map(slope).collect(), from_last, is_half }
    }

    fn fits(&self, rows: &[Vec<f32>]) -> bool {
        let heads = self.of_heads.len();
        let rounded = |number: f32| if self.is_half { f16::from_f32(number).to_f32() } else { number };
        let fits = |(at, row): (usize, &Vec<f32>)| {
            let first = if self.from_last { row.len() as i64 - 1 } else { 0 };
            let slope = self.of_heads[at % heads];
            row.iter().enumerate().all(|(key, &bias)| bias == rounded(slope * (key as i64 - first) as f32))
        };
        rows.len().is_multiple_of(heads) && rows.iter().enumerate().all(fits)
    }

    /// The number of heads.
    pub(super) fn heads(&self) -> usize {
        self.of_heads.len()
    }

    /// The same bias where scores are multiplied by a number after it is added. `None` where both are rounded.
    pub(super) fn scaled(self, scale: f32) -> Option<Slopes> {
        let of_heads = self.of_heads.iter().map(|slope| slope * scale).collect();
        (scale == 1.0 || !self.is_half).then_some(Slopes { of_heads, ..self })
    }
}

/// The biases that have been made for a graph.
#[derive(Default)]
pub(super) struct Made {
    biases: Vec<(Slopes, ValueId)>,
    /// What they are made from.
    pub(super) numbers: StepNumbers,
}

impl Made {
    /// The bias by these slopes in a step, [1 or sequences, heads, 1, room]. Layers with the same slopes share it.
    pub(super) fn bias(&mut self, graph: &mut Graph, slopes: &Slopes) -> Result<ValueId, DecoderError> {
        if let Some((_, value)) = self.biases.iter().find(|(known, _)| known == slopes) {
            return Ok(*value);
        }
        let value = self.make(graph, slopes).map_err(|error| refused(error.to_string()))?;
        self.biases.push((slopes.clone(), value));
        Ok(value)
    }

    fn make(&mut self, graph: &mut Graph, slopes: &Slopes) -> Result<ValueId, TensorError> {
        let of_heads = Tensor::from_vec([1, slopes.of_heads.len(), 1, 1], slopes.of_heads.clone())?;
        let of_heads = graph.add_constant("slopes/heads", of_heads);
        let [none, one] = [0i64, 1].map(|number| graph.add_constant("slopes/number", Tensor::scalar(number)));
        let room = *self.numbers.room.get_or_insert_with(|| graph.fresh("room"));
        let mut steps: Vec<NodeDesc> = Vec::new();
        let mut step = |graph: &mut Graph, op: &str, attrs: Attrs, inputs: &[ValueId]| {
            let output = graph.fresh("slopes");
            steps.push(made(op, attrs, inputs.iter().copied().map(Some).collect(), output));
            output
        };
        let to = |dtype: i64| Attrs::from([("to".to_owned(), Attr::Int(dtype))]);
        let mut keys = step(graph, "Range", Attrs::new(), &[none, room, one]);
        if slopes.from_last {
            let last = *self.numbers.last.get_or_insert_with(|| graph.fresh("last"));
            let axes = graph.add_constant("slopes/axes", Tensor::from_vec([3], vec![1i64, 2, 3])?);
            let last = step(graph, "Cast", to(INT64), &[last]);
            let last = step(graph, "Unsqueeze", Attrs::new(), &[last, axes]);
            keys = step(graph, "Sub", Attrs::new(), &[keys, last]);
        }
        let keys = step(graph, "Cast", to(FLOAT), &[keys]);
        let mut bias = step(graph, "Mul", Attrs::new(), &[keys, of_heads]);
        if slopes.is_half {
            bias = step(graph, "Cast", to(FLOAT16), &[bias]);
        }
        graph.nodes.splice(0..0, steps);
        Ok(bias)
    }
}

/// The rows of each sequence and head, if the tensor has one row of `keys` numbers for all queries.
fn rows(tensor: &Tensor, keys: usize) -> Option<Vec<Vec<f32>>> {
    let has_rows = matches!(tensor.shape(), [.., 1, last] if *last == keys) && !tensor.is_empty();
    let numbers = match tensor.dtype() {
        DType::F32 if has_rows => tensor.as_slice::<f32>().ok()?.to_vec(),
        DType::F16 if has_rows => tensor.as_slice::<f16>().ok()?.iter().map(|number| number.to_f32()).collect(),
        _ => return None,
    };
    Some(numbers.chunks_exact(keys).map(<[f32]>::to_vec).collect())
}
