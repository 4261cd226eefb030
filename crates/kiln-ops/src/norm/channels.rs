//! BatchNormalization, InstanceNormalization, GroupNormalization and LRN: everything that has one number a channel, or
//! looks across channels.

use kiln_kernels::cpu::norm::{Channels as Images, GroupOperands, Local};
use kiln_kernels::memory::{self, Collect};
use kiln_kernels::reference::norm::moments;
use kiln_key::F32Bits;
use kiln_run::DeviceCx;
use kiln_run::exec::norm::{ByChannel, ChannelNorm, ChannelNormProblem};
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::{by_channel, counted, floats, images};
use crate::{LoadCx, OpError, refused, required, size_attribute};

/// The kind of normalisation of images.
pub(super) enum Form {
    /// By known moments. Factor and summand of each channel are computed at load where all is known there.
    Batch {
        epsilon: f32,
        known: Option<(Vec<f32>, Vec<f32>)>,
    },
    /// By the moments of the batch itself, which are also mixed into the running ones. Outputs are the result, the
    /// running mean and variance and, before version 14, the batch's own mean and reciprocal deviation.
    Training {
        epsilon: f32,
        momentum: f32,
        outputs: usize,
    },
    /// By the moments of groups of channels; `None` is a group for each channel.
    Groups {
        epsilon: f32,
        groups: Option<u64>,
        by_group: bool,
    },
    Local {
        size: u64,
        alpha: f32,
        beta: f32,
        bias: f32,
    },
}

pub(super) struct Channels {
    pub(super) form: Form,
    last: bool,
}

fn node(cx: &LoadCx<'_>, form: Form) -> Result<Channels, OpError> {
    Ok(Channels { form, last: cx.node.is_channels_last() })
}

pub(super) fn batch(cx: &LoadCx<'_>) -> Result<Channels, OpError> {
    let epsilon = cx.node.attributes().float("epsilon");
    if cx.node.attributes().int("spatial") == 0 {
        return Err(OpError::unsupported(cx.node, "spatial = 0, which normalises each place by itself"));
    }
    let outputs = cx.node.outputs.len();
    if cx.node.attributes().int("training_mode") != 0 {
        if outputs > if cx.node.version < 14 { 5 } else { 3 } {
            return Err(OpError::invalid(cx.node, format!("{outputs} outputs")));
        }
        return node(cx, Form::Training { epsilon, momentum: cx.node.attributes().float("momentum"), outputs });
    }
    if cx.node.outputs.iter().flatten().count() > 1 {
        return Err(OpError::unsupported(cx.node, "moments of the batch without training_mode"));
    }
    let constant = |index| cx.graph.constant_input(cx.node, index).and_then(|tensor| tensor.as_slice::<f32>().ok());
    let known = match (constant(1), constant(2), constant(3), constant(4)) {
        (Some(scale), Some(bias), Some(mean), Some(variance))
            if [bias, mean, variance].iter().all(|other| other.len() == scale.len()) =>
        {
            Some(affine(scale, bias, mean, variance, epsilon))
        }
        _ => None,
    };
    node(cx, Form::Batch { epsilon, known })
}

pub(super) fn instance(cx: &LoadCx<'_>) -> Result<Channels, OpError> {
    node(cx, Form::Groups { epsilon: cx.node.attributes().float("epsilon"), groups: None, by_group: false })
}

pub(super) fn group(cx: &LoadCx<'_>) -> Result<Channels, OpError> {
    let groups = Some(size_attribute(cx.node, "num_groups", 1)? as u64);
    // Version 18 has a scale for each group, later ones for each channel.
    let by_group = cx.node.version < 21;
    node(cx, Form::Groups { epsilon: cx.node.attributes().float("epsilon"), groups, by_group })
}

pub(super) fn local(cx: &LoadCx<'_>) -> Result<Channels, OpError> {
    let size = size_attribute(cx.node, "size", 1)? as u64;
    let (alpha, beta) = (cx.node.attributes().float("alpha"), cx.node.attributes().float("beta"));
    node(cx, Form::Local { size, alpha, beta, bias: cx.node.attributes().float("bias") })
}

/// Factor and summand of each channel, from its scale, bias, mean and variance.
fn affine(scale: &[f32], bias: &[f32], mean: &[f32], variance: &[f32], epsilon: f32) -> (Vec<f32>, Vec<f32>) {
    let channels = scale.iter().zip(bias).zip(mean.iter().zip(variance));
    channels
        .map(|((&scale, &bias), (&mean, &variance))| {
            let factor = f64::from(scale) / (f64::from(variance) + f64::from(epsilon)).sqrt();
            (factor as f32, (f64::from(bias) - f64::from(mean) * factor) as f32)
        })
        .unzip()
}

impl Channels {
    pub(super) fn images(&self, shape: &[usize]) -> Result<Images, NodeError> {
        images(shape, self.last)
    }

    /// Refuses operands that do not have one number for each channel, or for each group.
    pub(super) fn check_sizes(&self, inputs: &[Option<&Tensor>]) -> Result<(), NodeError> {
        let channels = self.images(required(inputs, 0)?.shape())?.channels;
        match self.form {
            Form::Batch { .. } | Form::Training { .. } => {
                (1..5).try_for_each(|index| counted(inputs, index, channels).map(drop))
            }
            Form::Groups { groups, by_group, .. } => {
                let groups = groups.unwrap_or(channels);
                if channels != 0 && (groups == 0 || channels % groups != 0) {
                    return Err(refused(format!("{channels} channels do not form {groups} equal groups")));
                }
                let numbers = if by_group { groups } else { channels };
                (1..3).try_for_each(|index| counted(inputs, index, numbers).map(drop))
            }
            Form::Local { .. } => Ok(()),
        }
    }

    /// For each channel, the number of its group, where numbers are given by group.
    fn spread(&self, values: &[f32], channels: u64) -> Vec<f32> {
        let each = channels as usize / values.len().max(1);
        values.iter().flat_map(|&value| std::iter::repeat_n(value, each)).collected()
    }

    /// The result, and in training the running moments.
    fn outputs(&self, prepared: &Prepared, io: &Io<'_>, cx: &RunCx<'_>) -> Result<Vec<Tensor>, NodeError> {
        let inputs = io.inputs();
        let tensor = required(&inputs, 0)?;
        let images = self.images(tensor.shape())?;
        let input = tensor.as_slice()?;
        let mut output = io.alloc(0)?;
        let to = output.as_mut_slice()?;
        let mut running = Vec::new();
        match (&self.form, prepared.get::<ChannelNorm>()?) {
            (Form::Batch { known: Some((factor, summand)), .. }, ChannelNorm::Affine(executor)) => {
                executor.run(input, factor, summand, to, cx.parallel)?;
            }
            (Form::Batch { epsilon, known: None }, ChannelNorm::Affine(executor)) => {
                let given = |index| by_channel(&inputs, index, images.channels);
                let (factor, summand) = affine(given(1)?, given(2)?, given(3)?, given(4)?, *epsilon);
                executor.run(input, &factor, &summand, to, cx.parallel)?;
            }
            (&Form::Training { epsilon, momentum, outputs }, ChannelNorm::Affine(executor)) => {
                let given = |index| by_channel(&inputs, index, images.channels);
                let (mean, variance) = batch_moments(&images, input);
                let (factor, summand) = affine(given(1)?, given(2)?, &mean, &variance, epsilon);
                executor.run(input, &factor, &summand, to, cx.parallel)?;
                let mixed = |old: &[f32], now: &[f32]| -> Vec<f32> {
                    old.iter().zip(now).map(|(old, now)| old * momentum + now * (1.0 - momentum)).collected()
                };
                let running_mean = mixed(given(3)?, &mean);
                let running_variance = mixed(given(4)?, &variance);
                let deviation = variance.iter().map(|variance| 1.0 / (variance + epsilon).sqrt()).collected();
                let moments = [running_mean, running_variance, mean, deviation];
                for (index, values) in (1..outputs).zip(moments) {
                    let mut made = io.alloc(index)?;
                    made.as_mut_slice::<f32>()?.copy_from_slice(&values);
                    running.push(made);
                }
            }
            (&Form::Groups { epsilon, by_group, .. }, ChannelNorm::Groups(executor)) => {
                let (scale, bias) =
                    (required(&inputs, 1)?.as_slice::<f32>()?, required(&inputs, 2)?.as_slice::<f32>()?);
                let mut scratch = cx.scratch::<f32>(executor.scratch_len())?;
                let scratch = scratch.as_mut_slice()?;
                if by_group {
                    let (scale, bias) = (self.spread(scale, images.channels), self.spread(bias, images.channels));
                    let operands = GroupOperands { scale: &scale, bias: &bias, epsilon };
                    executor.run(input, operands, to, scratch, cx.parallel)?;
                } else {
                    executor.run(input, GroupOperands { scale, bias, epsilon }, to, scratch, cx.parallel)?;
                }
            }
            (Form::Local { .. }, ChannelNorm::Local(executor)) => executor.run(input, to, cx.parallel)?,
            _ => return Err(refused("the node was prepared for another form")),
        }
        running.insert(0, output);
        Ok(running)
    }
}

impl Node for Channels {
    fn family(&self) -> &'static str {
        "norm"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let operands = match self.form {
            Form::Batch { .. } | Form::Training { .. } => 5,
            Form::Groups { .. } => 3,
            Form::Local { .. } => 1,
        };
        (0..operands).try_for_each(|index| floats(inputs, index).map(drop))?;
        self.check_sizes(inputs)
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let images = self.images(required(inputs, 0)?.shape())?;
        let form = match self.form {
            Form::Batch { .. } | Form::Training { .. } => ByChannel::Affine,
            Form::Groups { groups, .. } => ByChannel::Groups(groups.unwrap_or(images.channels)),
            Form::Local { size, alpha, beta, bias } => {
                let [alpha, beta, bias] = [alpha, beta, bias].map(F32Bits::new);
                ByChannel::Local(Local { size, alpha, beta, bias })
            }
        };
        Ok(Prepared::new(cx.executor(&cx.key(ChannelNormProblem { form, images }))?))
    }

    fn prepare_device(
        &self,
        cx: &mut DeviceCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<(), NodeError> {
        self.on_device(cx, inputs, outputs)
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        self.outputs(prepared, io, cx)?.into_iter().for_each(|output| io.push(output));
        Ok(())
    }
}

/// Mean and variance of each channel over all images.
fn batch_moments(images: &Images, input: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let [_, channels, spatial] = images.sizes();
    if input.is_empty() {
        return (memory::zeroed(channels), memory::zeroed(channels));
    }
    let one = |channel: usize| {
        let values = (0..input.len())
            .filter(move |&at| if images.last { at % channels == channel } else { at / spatial % channels == channel });
        // Without epsilon, the variance follows from the reciprocal deviation.
        let (mean, deviation) = moments(values.map(|at| &input[at]), true, 0.0);
        (mean as f32, deviation.powi(-2) as f32)
    };
    (0..channels).map(one).unzip()
}
