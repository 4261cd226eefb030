//! CausalConvWithState, a convolution that carries its last inputs from one part of a sequence to the next.

use kiln_kernels::memory::{self, Collect, Pace};

use super::wide::{narrow, widened};
use super::{LoadCx, OpError, Operator, optional, refused, required};
use crate::graph::{Io, Node, NodeError, Prepared, RunCx};
use crate::tensor::{Tensor, TensorSpec};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "CausalConvWithState", make_conv)];

/// Products that are summed between two steps of a loop's pace.
const LINE: usize = 1 << 12;

struct CausalConv {
    /// Whether the result x becomes x sigmoid(x).
    gated: bool,
}

fn make_conv(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    match cx.node.attributes().text("activation") {
        "none" => Ok(Box::new(CausalConv { gated: false })),
        "silu" | "swish" => Ok(Box::new(CausalConv { gated: true })),
        other => Err(OpError::unsupported(cx.node, format!("activation = {other}"))),
    }
}

/// Refuses an optional input of another shape.
fn shaped(inputs: &[Option<&Tensor>], index: usize, shape: &[usize]) -> Result<(), NodeError> {
    match optional(inputs, index) {
        Some(tensor) if tensor.shape() != shape => {
            Err(refused(format!("input {index} has shape {:?} where {shape:?} is needed", tensor.shape())))
        }
        _ => Ok(()),
    }
}

fn floats(inputs: &[Option<&Tensor>]) -> Result<(), NodeError> {
    match inputs.iter().flatten().find(|tensor| !tensor.dtype().is_float()) {
        Some(tensor) => Err(NodeError::Unsupported(format!("elements of type {}", tensor.dtype()))),
        None => Ok(()),
    }
}

impl CausalConv {
    /// Lines (batches times channels), channels, length and taps.
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<[usize; 4], NodeError> {
        let (input, weights) = (required(inputs, 0)?.shape(), required(inputs, 1)?.shape());
        match (input, weights) {
            (&[batch, channels, length], &[same, 1, taps]) if channels == same && taps > 0 => {
                shaped(inputs, 2, &[channels])?;
                shaped(inputs, 3, &[batch, channels, taps - 1])?;
                Ok([batch * channels, channels, length, taps])
            }
            _ => Err(refused(format!("weights of {weights:?} over {input:?}"))),
        }
    }
}

impl Node for CausalConv {
    fn family(&self) -> &'static str {
        "CausalConvWithState"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.sizes(inputs)?;
        floats(inputs)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let [lines, channels, length, taps] = self.sizes(&io.inputs())?;
        let (values, weights) = (widened::<f64>(io.input(0)?)?, widened::<f64>(io.input(1)?)?);
        let bias = io.optional(2).map(widened::<f64>).transpose()?;
        let past = io.optional(3).map(widened::<f64>).transpose()?;
        let (mut output, mut present) = (memory::with_capacity(values.len()), Vec::new());
        let mut pace = Pace::default();
        for line in 0..lines {
            let channel = line % channels;
            let mut seen = past
                .as_ref()
                .map_or(memory::zeroed(taps - 1), |past| memory::copied(&past[line * (taps - 1)..][..taps - 1]));
            values[line * length..][..length].iter().copied().collected_into(&mut seen);
            let start = bias.as_ref().map_or(0.0, |bias| bias[channel]);
            for window in seen.windows(taps) {
                let mut products = 0.0;
                for (values, weights) in window.chunks(LINE).zip(weights[channel * taps..].chunks(LINE)) {
                    pace.step(1 + values.len());
                    values.iter().zip(weights).for_each(|(a, b)| products += a * b);
                }
                let sum = start + products;
                output.push(if self.gated { sum / (1.0 + (-sum).exp()) } else { sum });
            }
            seen[seen.len() - (taps - 1)..].iter().copied().collected_into(&mut present);
        }
        let (output, present) = (narrow(&output, io.alloc(0)?)?, narrow(&present, io.alloc(1)?)?);
        io.push(output);
        io.push(present);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::trial::Trial;

    #[test]
    fn convolutions_see_the_past_and_keep_the_last_of_it() {
        let row = |past: &[f32]| {
            let trial = Trial::new("CausalConvWithState").outputs(2).input(&[1, 1, 3], &[1f32, 2.0, 3.0]);
            trial.input(&[1, 1, 3], &[1f32, 10.0, 100.0]).absent().input(&[1, 1, 2], past)
        };
        row(&[4.0, 5.0]).gives(&[1, 1, 3], &[154f32, 215.0, 321.0]);
        assert_eq!(row(&[0.0, 0.0]).run().unwrap()[1].as_slice::<f32>().unwrap(), [2.0, 3.0]);
        let short =
            Trial::new("CausalConvWithState").outputs(2).input(&[1, 1, 1], &[1f32]).input(&[1, 1, 3], &[1f32; 3]);
        let outputs = short.input(&[1], &[0.5f32]).run().unwrap();
        assert_eq!(outputs[0].as_slice::<f32>().unwrap(), [1.5]);
        assert_eq!(outputs[1].as_slice::<f32>().unwrap(), [0.0, 1.0]);
        row(&[4.0, 5.0]).text("activation", "relu").is_refused("relu");
        let wrong =
            Trial::new("CausalConvWithState").outputs(2).input(&[1, 1, 1], &[1f32]).input(&[2, 1, 1], &[1f32; 2]);
        wrong.is_refused("weights");
    }
}
