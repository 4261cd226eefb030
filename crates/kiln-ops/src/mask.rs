//! AttentionMask: which keys are shown, in the forms of ONNX Runtime's operators, as numbers that are added to scores.

use kiln_kernels::memory::{self, Collect, Pace};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::wide::{narrow, widened};
use super::{LoadCx, OpError, Operator, optional, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("kiln", "AttentionMask", make)];

struct Mask {
    /// The number that is added where a key is not shown.
    fill: f32,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Mask { fill: cx.node.attributes().float("fill") }))
}

/// Positions before the new keys.
fn past(inputs: &[Option<&Tensor>]) -> usize {
    optional(inputs, 3).map_or(0, |past| past.shape()[past.shape().len() - 2])
}

impl Node for Mask {
    fn family(&self) -> &'static str {
        "AttentionMask"
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        let (mask, output) = (required(inputs, 0)?, &outputs[0]);
        let &[batch, _, rows, keys] = output.shape.as_slice() else { return Err(refused("a mask of another rank")) };
        let fits = match *mask.shape() {
            [lengths] => lengths == batch || Some(lengths) == batch.checked_mul(2),
            [of, columns] => [of, columns] == [batch, keys],
            [of, queries, columns] => [of, queries, columns] == [batch, rows, keys],
            [of, 1, most, same] => {
                let end = past(inputs).checked_add(rows);
                of == batch && most == same && most >= keys && end.is_some_and(|end| end <= most)
            }
            _ => false,
        };
        match () {
            () if !fits => Err(refused(format!("a mask of shape {:?} for {batch} x {rows} x {keys}", mask.shape()))),
            () if !output.dtype.is_float() => Err(NodeError::Unsupported(format!("queries of type {}", output.dtype))),
            () => Ok(()),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let (mask, to) = (io.input(0)?, io.alloc(0)?);
        let given = widened::<i64>(mask)?;
        let (batch, rows, keys) = (to.shape()[0], to.shape()[2], to.shape()[3]);
        let mut made = memory::with_capacity(to.len());
        let mut pace = Pace::default();
        let of = |shown: bool| if shown { 0.0 } else { self.fill };
        match *mask.shape() {
            // Lengths of all sequences; the first shown position of each may follow.
            [count] => (0..batch).for_each(|line| {
                let end = given[line];
                let start = if count == batch { 0 } else { given[batch + line] };
                (0..keys as i64).map(|key| of(key >= start && key < end)).collected_into(&mut made);
                pace.step(keys);
            }),
            // A whole mask, for as many positions as there may ever be.
            [_, _, most, _] => {
                let past = past(&io.inputs());
                for line in 0..batch * rows {
                    let row = line / rows * most + past + line % rows;
                    made.extend(given[row * most..][..keys].iter().map(|&shown| of(shown > 0)));
                    pace.step(keys);
                }
            }
            _ => given.iter().map(|&shown| of(shown > 0)).collected_into(&mut made),
        }
        let output = narrow(&made, to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kiln_model::Attr;

    use crate::trial::Trial;

    /// Two sequences of two positions.
    fn row(shape: &[usize], mask: &[i32]) -> Trial {
        let states = [0f32; 4];
        let trial = Trial::new("AttentionMask").attr("fill", Attr::Float(-1.0)).input(shape, mask);
        trial.input(&[2, 2, 1], &states).input(&[2, 2, 1], &states)
    }

    #[test]
    fn lengths_keys_and_pairs_tell_what_is_shown() {
        let [yes, no] = [0f32, -1.0];
        row(&[2], &[1, 2]).gives(&[2, 1, 1, 2], &[yes, no, yes, yes]);
        row(&[4], &[1, 2, 0, 1]).gives(&[2, 1, 1, 2], &[yes, no, no, yes]);
        row(&[2, 2], &[1, 0, 0, 1]).gives(&[2, 1, 1, 2], &[yes, no, no, yes]);
        let pairs = row(&[2, 2, 2], &[1, 0, 1, 1, 0, 0, 0, 1]);
        pairs.gives(&[2, 1, 2, 2], &[yes, no, yes, yes, no, no, no, yes]);
        let whole = row(&[2, 1, 3, 3], &[1, 0, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1, 1]);
        whole.gives(&[2, 1, 2, 2], &[yes, no, yes, yes, no, no, no, yes]);
    }

    #[test]
    fn masks_of_other_sizes_are_refused() {
        row(&[3], &[1, 2, 0]).is_refused("a mask of shape [3]");
        row(&[2, 1], &[1, 1]).is_refused("a mask of shape [2, 1]");
        row(&[2, 1, 1, 1], &[1, 1]).is_refused("a mask of shape");
        row(&[], &[1]).is_refused("rank 1 to 4");
        let short = Trial::new("AttentionMask").input(&[2], &[1, 2]).input(&[4], &[0f32; 4]).input(&[4], &[0f32; 4]);
        short.is_refused("expected rank 3 or 4");
    }
}
