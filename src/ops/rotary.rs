//! RotaryEmbedding: pairs of a head's elements rotated by angles that depend on the position.

use super::wide::{narrow, widened};
use super::{LoadCx, OpError, Operator, index_of, optional, refused, required, size_attribute};
use crate::graph::{Io, Node, NodeError, Prepared, RunCx};
use crate::tensor::{Tensor, TensorSpec};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "RotaryEmbedding", make)];

struct Rotary {
    /// Whether the two of a pair are neighbours, instead of half a head apart.
    interleaved: bool,
    /// Elements of a head that are rotated; all where it is zero.
    rotated: usize,
    /// Heads that are packed in the last axis of three.
    heads: Option<usize>,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let attributes = cx.node.attributes();
    let interleaved = attributes.flag("interleaved");
    let rotated = size_attribute(cx.node, "rotary_embedding_dim", 0)?;
    let heads = attributes.integer("num_heads").map(|_| size_attribute(cx.node, "num_heads", 0)).transpose()?;
    // None says so by 0, too.
    Ok(Box::new(Rotary { interleaved, rotated, heads: heads.filter(|&heads| heads > 0) }))
}

/// Sizes, and the order of heads and positions in memory.
struct Sizes {
    batch: usize,
    positions: usize,
    heads: usize,
    size: usize,
    /// Elements of a head that are rotated.
    rotated: usize,
    heads_first: bool,
}

impl Rotary {
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<Sizes, NodeError> {
        let shape = required(inputs, 0)?.shape();
        let (batch, positions, heads, size, heads_first) = match *shape {
            [batch, heads, positions, size] => (batch, positions, heads, size, true),
            [batch, positions, hidden] => match self.heads.filter(|heads| hidden % heads == 0) {
                Some(heads) => (batch, positions, heads, hidden / heads, false),
                None => return Err(refused(format!("no heads in shape {shape:?}"))),
            },
            _ => return Err(refused(format!("no heads in shape {shape:?}"))),
        };
        let rotated = if self.rotated == 0 { size } else { self.rotated };
        let fits = rotated <= size && rotated % 2 == 0;
        let (cosines, sines) = (required(inputs, 1)?.shape(), required(inputs, 2)?.shape());
        // By position through the ids, or one line for each batch and position.
        let lines = match (optional(inputs, 3), cosines) {
            (Some(ids), [_, half]) if ids.shape() == [batch, positions] => Some(*half),
            (None, [b, p, half]) if [*b, *p] == [batch, positions] => Some(*half),
            _ => None,
        };
        if !fits || cosines != sines || lines != Some(rotated / 2) {
            return Err(refused(format!("angles of {cosines:?} for {rotated} elements of heads in {shape:?}")));
        }
        Ok(Sizes { batch, positions, heads, size, rotated, heads_first })
    }
}

impl Node for Rotary {
    fn family(&self) -> &'static str {
        "RotaryEmbedding"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.sizes(inputs)?;
        match required(inputs, 0)?.dtype() {
            dtype if dtype.is_float() => Ok(()),
            dtype => Err(NodeError::Unsupported(format!("elements of type {dtype}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let sizes = self.sizes(&io.inputs())?;
        let (input, to) = (io.input(0)?, io.alloc(0)?);
        let (mut values, cosines, sines) =
            (widened::<f32>(input)?, widened::<f32>(io.input(1)?)?, widened::<f32>(io.input(2)?)?);
        let half = sizes.rotated / 2;
        let known = io.input(1)?.shape()[0];
        let ids = io.optional(3).map(Tensor::to_i64_vec).transpose()?;
        let count = if input.is_empty() { 0 } else { sizes.batch * sizes.positions };
        for line in 0..count {
            let angles = match &ids {
                Some(ids) => index_of(ids[line], known)?,
                None => line,
            };
            let (cosines, sines) = (&cosines[angles * half..][..half], &sines[angles * half..][..half]);
            let (batch, position) = (line / sizes.positions, line % sizes.positions);
            for head in 0..sizes.heads {
                let place = match sizes.heads_first {
                    true => (batch * sizes.heads + head) * sizes.positions + position,
                    false => line * sizes.heads + head,
                };
                let head = &mut values[place * sizes.size..][..sizes.rotated];
                for (pair, (cosine, sine)) in cosines.iter().zip(sines).enumerate() {
                    let [a, b] = if self.interleaved { [2 * pair, 2 * pair + 1] } else { [pair, pair + half] };
                    let (x, y) = (head[a], head[b]);
                    head[a] = cosine * x - sine * y;
                    head[b] = sine * x + cosine * y;
                }
            }
        }
        let output = narrow(&values, to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::trial::Trial;

    /// A quarter turn at position 1, none at position 0.
    fn angles(trial: Trial) -> Trial {
        trial.input(&[2, 1], &[1f32, 0.0]).input(&[2, 1], &[0f32, 1.0])
    }

    #[test]
    fn pairs_turn_by_their_positions_angle() {
        let row = || angles(Trial::new("RotaryEmbedding").input(&[1, 1, 2, 2], &[1f32, 2.0, 3.0, 4.0]));
        row().input(&[1, 2], &[0i64, 1]).gives(&[1, 1, 2, 2], &[1f32, 2.0, -4.0, 3.0]);
        row().input(&[1, 2], &[1i64, 0]).gives(&[1, 1, 2, 2], &[-2f32, 1.0, 3.0, 4.0]);
        row().input(&[1, 2], &[2i64, 0]).is_refused("outside of 0..2");
        row().is_refused("angles");
    }

    #[test]
    fn part_of_a_head_may_turn_as_neighbours_or_halves() {
        let row = |interleaved| {
            let trial = Trial::new("RotaryEmbedding").int("num_heads", 1).int("interleaved", interleaved);
            trial.int("rotary_embedding_dim", 4).input(&[1, 1, 5], &[1f32, 2.0, 3.0, 4.0, 5.0])
        };
        let quarter = |trial: Trial| trial.input(&[1, 1, 2], &[0f32, 0.0]).input(&[1, 1, 2], &[1f32, 1.0]);
        quarter(row(1)).gives(&[1, 1, 5], &[-2f32, 1.0, -4.0, 3.0, 5.0]);
        quarter(row(0)).gives(&[1, 1, 5], &[-3f32, -4.0, 1.0, 2.0, 5.0]);
        quarter(row(0).int("rotary_embedding_dim", 6)).is_refused("angles");
        Trial::new("RotaryEmbedding").input(&[1, 1, 5], &[0f32; 5]).is_refused("no heads");
    }
}
