//! BatchNormalization with `spatial = 0`, which operator sets 7 and 8 have: every place of an image has a scale, a
//! bias, a mean and a variance of its own. No network of today has it, so that a plain loop is enough.

use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::floats;
use crate::{LoadCx, OpError, refused};

struct Places {
    epsilon: f32,
}

/// Makes the node.
pub(super) fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    if cx.node.outputs.iter().flatten().count() > 1 {
        return Err(OpError::unsupported(cx.node, "moments of the batch without training_mode"));
    }
    Ok(Box::new(Places { epsilon: cx.node.attributes().float("epsilon") }))
}

impl Node for Places {
    fn family(&self) -> &'static str {
        "norm"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let input = floats(inputs, 0)?;
        let places = input.shape().get(1..).ok_or_else(|| refused("a scalar has no places"))?;
        for index in 1..5 {
            let given = floats(inputs, index)?.shape();
            if given != places {
                return Err(refused(format!("input {index} is of shape {given:?} for places of shape {places:?}")));
            }
        }
        Ok(())
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let mut output = io.alloc(0)?;
        let given = |index: usize| -> Result<&[f32], NodeError> { Ok(io.input(index)?.as_slice()?) };
        let (from, scale, bias, mean, variance) = (given(0)?, given(1)?, given(2)?, given(3)?, given(4)?);
        let places = scale.len().max(1);
        for (at, (to, from)) in output.as_mut_slice::<f32>()?.iter_mut().zip(from).enumerate() {
            let place = at % places;
            *to = (from - mean[place]) / (variance[place] + self.epsilon).sqrt() * scale[place] + bias[place];
        }
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn every_place_is_normalised_by_itself() {
        let row = |places: usize| {
            let trial = Trial::new("BatchNormalization").version(7).int("spatial", 0);
            let trial = trial.attr("epsilon", kiln_model::Attr::Float(0.0)).input(&[2, 1, 2], &[1f32, 2.0, 3.0, 4.0]);
            let constant = |trial: Trial, values: &[f32]| trial.input(&[1, places], &values[..places]);
            let trial = constant(constant(trial, &[1.0, 10.0]), &[0.0, 1.0]);
            constant(constant(trial, &[1.0, 2.0]), &[4.0, 1.0])
        };
        row(2).gives(&[2, 1, 2], &[0f32, 1.0, 1.0, 21.0]);
        row(1).is_refused("for places of shape");
    }
}
