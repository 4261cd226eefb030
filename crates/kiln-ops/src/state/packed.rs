//! VarlenCausalConvWithState: sequences of any lengths, one behind the other, each with a state of its own.

use std::ops::Range;

use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::{Finish, Form, Operands, Past, Sizes, Steps, floats, shaped};
use crate::ragged::{captured, ranges};
use crate::wide::{filled, lent};
use crate::{LoadCx, OpError, optional, refused, required, size_attribute};

struct Packed {
    form: Form,
    /// How many of the first positions of each sequence have their inputs in an output.
    capacity: usize,
}

pub(super) fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let capacity = size_attribute(cx.node, "state_update_capacity", 0)?;
    if capacity > super::WIDEST {
        return Err(OpError::invalid(cx.node, format!("state_update_capacity = {capacity}")));
    }
    if let Some(index) = (6..8).find(|&index| cx.node.input(index).is_some()) {
        return Err(OpError::unsupported(cx.node, format!("input {index}, of weights that differ by positions")));
    }
    if (capacity > 0) != cx.node.input(5).is_some() {
        return Err(OpError::invalid(
            cx.node,
            format!("state_update_capacity = {capacity} and input 5 belong together"),
        ));
    }
    Ok(Box::new(Packed { form: Form::of(cx, size_attribute(cx.node, "dilation", 1)?)?, capacity }))
}

impl Packed {
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<Sizes, NodeError> {
        let (input, weights) = (required(inputs, 0)?.shape(), required(inputs, 1)?.shape());
        let (&[length, channels], &[same, 1, taps]) = (input, weights) else {
            return Err(refused(format!("weights of {weights:?} over {input:?}")));
        };
        if same != channels || taps == 0 {
            return Err(refused(format!("weights of {weights:?} over {input:?}")));
        }
        let kept = self.form.kept(taps)?;
        let batch = match *required(inputs, 2)?.shape() {
            [ends] if ends > 0 => ends - 1,
            ref shape => return Err(refused(format!("input 2 has shape {shape:?}"))),
        };
        shaped(inputs, 3, &[channels])?;
        required(inputs, 4)?;
        shaped(inputs, 4, &[batch, channels, kept])?;
        shaped(inputs, 5, &[batch])?;
        Ok(Sizes { batch, channels, length, taps, kept })
    }

    fn run(&self, io: &mut Io<'_>, cx: &RunCx<'_>, finish: Finish<'_, f32>) -> Result<(), NodeError> {
        let sizes = self.sizes(&io.inputs())?;
        let Sizes { channels, kept, .. } = sizes;
        let sequences = ranges(io.input(2)?, sizes.length)?;
        let (input, weights) = (lent::<f32>(io.input(0)?)?, lent::<f32>(io.input(1)?)?);
        let bias = io.optional(3).map(lent::<f32>).transpose()?;
        let past = lent::<f32>(io.input(4)?)?;
        let operands = Operands { form: self.form, input: &input, weights: &weights, bias: bias.as_deref() };
        let state =
            |sequence: usize| Past { values: Some(&past[sequence * channels * kept..]), kept, channel: kept, step: 1 };
        let output = filled(io.alloc(0)?, |output: &mut [f32]| {
            operands.rows(output, sizes, cx, &|row| {
                let sequence = sequences.partition_point(|range: &Range<usize>| range.end <= row);
                (sequences[sequence].start, row - sequences[sequence].start, state(sequence))
            })?;
            finish(output)
        })?;
        let last = filled(io.alloc(1)?, |states: &mut [f32]| {
            if kept * channels == 0 {
                return Ok(());
            }
            let steps = Steps { channel: 1, input: channels, kept: 1 };
            for (sequence, to) in states.chunks_exact_mut(kept * channels).enumerate() {
                let Range { start, end } = sequences[sequence];
                state(sequence).after(&input[start * channels..], steps, end - start, channels, to);
            }
            Ok(())
        })?;
        let updates = (io.specs().len() > 2).then(|| {
            let counts = captured(io.optional(5), &sequences, self.capacity)?;
            filled(io.alloc(2)?, |updates: &mut [f32]| {
                updates.fill(0.0);
                for (sequence, &count) in counts.iter().enumerate() {
                    let from = &input[sequences[sequence].start * channels..][..count * channels];
                    updates[sequence * self.capacity * channels..][..from.len()].copy_from_slice(from);
                }
                Ok(())
            })
        });
        let updates = updates.transpose()?;
        io.push(output);
        io.push(last);
        updates.into_iter().for_each(|updates| io.push(updates));
        Ok(())
    }
}

impl Node for Packed {
    fn family(&self) -> &'static str {
        "CausalConvWithState"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.sizes(inputs)?;
        for index in [2, 5] {
            if let Some(other) = optional(inputs, index).filter(|tensor| tensor.dtype() != DType::I32) {
                return Err(refused(format!("input {index} has elements of type {}", other.dtype())));
            }
        }
        floats(inputs, 0..2)?;
        floats(inputs, 3..5)
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        self.form.prepare(cx, required(inputs, 0)?, outputs[0].elements()?)
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        self.run(io, cx, &|results| self.form.finish(results, prepared, cx))
    }
}
