//! LayerNormalization and RMSNormalization: the axes from `axis` on are a row.

use std::borrow::Cow;

use kiln_kernels::cpu::Stored;
use kiln_kernels::cpu::norm::{RowForm, RowNorm as Executor, RowOperands, RowResults};
use kiln_kernels::gpu::source::norm::{RowNormKernel, Scaling};
use kiln_kernels::memory;
use kiln_run::DeviceCx;
use kiln_run::device::Operand;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::floats;
use crate::stored::{self, STORED, activations_mut};
use crate::{LoadCx, OpError, View, axis_of, optional, required};

pub(super) struct RowNorm {
    pub(super) centred: bool,
    pub(super) axis: i64,
    pub(super) epsilon: f32,
    /// Outputs in the node's list: the result, then the rows' means and reciprocal deviations.
    pub(super) outputs: usize,
    /// The type that the result is stored in.
    output: Stored,
}

/// Makes a layer normalisation, or an RMS normalisation where the mean is not subtracted.
pub(super) fn make(cx: &LoadCx<'_>, centred: bool) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(RowNorm::read(cx, centred)?))
}

impl RowNorm {
    /// The node's attributes and outputs.
    pub(super) fn read(cx: &LoadCx<'_>, centred: bool) -> Result<RowNorm, OpError> {
        let outputs = cx.node.outputs.len();
        if outputs > if centred { 3 } else { 1 } {
            return Err(OpError::invalid(cx.node, format!("{outputs} outputs")));
        }
        let (axis, epsilon) = (cx.node.attributes().int("axis"), cx.node.attributes().float("epsilon"));
        let output = if cx.node.attrs.contains_key(STORED) { stored::written(cx.node)? } else { Stored::F32 };
        Ok(RowNorm { centred, axis, epsilon, outputs: outputs.max(1), output })
    }
}

/// A scale or bias as the kernel reads it: one row, or as many as the input. Anything that broadcasts is stretched.
fn stretched<'t>(operand: &'t Tensor, shape: &[usize], axis: usize) -> Result<Cow<'t, [f32]>, NodeError> {
    let values = operand.as_slice::<f32>()?;
    let own = operand.shape();
    // Leading dimensions of one do not matter.
    let own = &own[own.iter().take_while(|&&dim| dim == 1).count().min(own.len().saturating_sub(1))..];
    let row = &shape[axis..];
    if own == row || operand.shape() == shape {
        return Ok(Cow::Borrowed(values));
    }
    let to = if own.len() <= row.len() { row } else { shape };
    let view = View::broadcast(own, to)?;
    let mut whole = memory::zeroed(to.iter().product());
    if !whole.is_empty() {
        view.copy(values, &mut whole);
    }
    Ok(Cow::Owned(whole))
}

impl Node for RowNorm {
    fn family(&self) -> &'static str {
        "norm"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let input = floats(inputs, 0)?;
        let operands = [Some(floats(inputs, 1)?), inputs.get(2).copied().flatten()];
        for (index, operand) in operands.into_iter().enumerate().filter_map(|(index, one)| Some((index, one?))) {
            floats(inputs, index + 1)?;
            View::broadcast(operand.shape(), input.shape())?;
        }
        Ok(())
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let shape = required(inputs, 0)?.shape();
        let axis = axis_of(self.axis, shape.len())?;
        let form = RowForm {
            rows: shape[..axis].iter().product::<usize>() as u64,
            length: shape[axis..].iter().product::<usize>() as u64,
            centred: self.centred,
            scale: true,
            bias: optional(inputs, 2).is_some(),
            moments: self.outputs > 1,
            output: self.output,
        };
        Ok(Prepared::new(cx.executor(&cx.key(form))?))
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<(), NodeError> {
        let shape = required(inputs, 0)?.shape();
        let axis = axis_of(self.axis, shape.len())?;
        let [rows, length] = [&shape[..axis], &shape[axis..]].map(|dims| dims.iter().product::<usize>() as u64);
        let mut operands = [Some(Operand::Input(0)), None, None];
        for (index, operand) in operands.iter_mut().enumerate().skip(1) {
            let Some(tensor) = optional(inputs, index) else { continue };
            let same = tensor.len() as u64 == length && tensor.shape().ends_with(&shape[axis..]);
            // What broadcasts to a row is stretched to one first.
            *operand = Some(if same {
                Operand::Input(index)
            } else {
                let row = View::broadcast(tensor.shape(), &shape[axis..])?;
                let whole = cx.scratch(length * size_of::<f32>() as u64);
                cx.kernel(row.copying(size_of::<f32>())?, &[Some(Operand::Input(index))], whole)?;
                whole
            });
        }
        let scaling = Some(Scaling { period: 1, step: 1 });
        let bias = operands[2].is_some();
        let kernel = RowNormKernel::new(rows, length, self.epsilon, self.centred, scaling, bias)?;
        cx.kernel(kernel, &operands, Operand::Output(0))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        // The input's memory becomes the output's where no other value has it.
        let (input, mut output) =
            if io.can_reuse(0, 0) { (None, io.take(0)?) } else { (Some(io.input(0)?), io.alloc(0)?) };
        let shape = &io.spec(0).shape;
        let axis = axis_of(self.axis, shape.len())?;
        let scale = stretched(io.input(1)?, shape, axis)?;
        let bias = io.optional(2).map(|bias| stretched(bias, shape, axis)).transpose()?;
        let operands = RowOperands { scale: Some(&scale), bias: bias.as_deref(), epsilon: self.epsilon };
        let mut moments = match self.outputs {
            1 => None,
            _ => Some((io.alloc(1)?, Tensor::from_pool(cx.buffers, io.spec(1).clone())?)),
        };
        let results = RowResults {
            output: activations_mut(&mut output)?,
            moments: match &mut moments {
                Some((mean, deviation)) => Some((mean.as_mut_slice()?, deviation.as_mut_slice()?)),
                None => None,
            },
        };
        let executor = prepared.get::<Executor>()?;
        match input {
            Some(input) => executor.run(input.as_slice()?, operands, results, cx.parallel)?,
            None => executor.run_in_place(operands, results, cx.parallel)?,
        }
        let moments = moments.into_iter().flat_map(|(mean, deviation)| [mean, deviation]);
        let made: Vec<Tensor> = [output].into_iter().chain(moments).take(self.outputs).collect();
        drop((scale, bias));
        made.into_iter().for_each(|made| io.push(made));
        Ok(())
    }
}
