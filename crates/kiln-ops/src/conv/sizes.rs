//! The geometry that shapes ask for: padding and output sizes, after ONNX.

use kiln_kernels::cpu::conv::ConvShape;
use kiln_model::operators::spatial::positions;
use kiln_run::NodeError;

use super::super::refused;
use super::attributes::{Attributes, AutoPad, solid};

/// One spatial dimension.
#[derive(Clone, Copy, Debug)]
struct Along {
    input: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    /// As the model gives them.
    pads: [usize; 2],
    output_padding: usize,
    output: Option<usize>,
}

impl Attributes {
    /// The convolution of an input of that many images and channels with weights of that shape.
    pub(crate) fn shape(
        &self,
        batch: usize,
        channels: usize,
        spatial: &[usize],
        weights: &[usize],
    ) -> Result<ConvShape, NodeError> {
        let sizes = self.weights(weights)?;
        if sizes.channels != channels {
            let groups = self.groups;
            return Err(refused(format!("{channels} channels for weights of shape {weights:?} in {groups} groups")));
        }
        let rank = spatial.len();
        let output_shape = match &self.output_shape {
            None => None,
            // Some exporters write batch and channels too.
            Some(shape) if shape.len() == rank || shape.len() == rank + 2 => Some(&shape[shape.len() - rank..]),
            Some(shape) => return Err(refused(format!("output_shape {shape:?} for {rank} spatial dimensions"))),
        };
        let (kernel, input) = (&weights[2..], solid(spatial, 1));
        let (mut pads, mut output) = ([0; 3], [1; 3]);
        for dim in 0..rank {
            let pad = |end: usize| self.pads.get(end * rank + dim).copied().unwrap_or(0);
            let along = Along {
                input: spatial[dim],
                kernel: kernel[dim],
                stride: self.strides.get(dim).copied().unwrap_or(1),
                dilation: self.dilations.get(dim).copied().unwrap_or(1),
                pads: [pad(0), pad(1)],
                output_padding: self.output_padding.get(dim).copied().unwrap_or(0),
                output: output_shape.map(|shape| shape[dim]),
            };
            let found = if self.transposed { along.transposed(self.auto_pad) } else { along.plain(self.auto_pad) };
            let Some((pad, size)) = found else {
                return Err(refused(format!("a kernel of {kernel:?} does not fit an input of {spatial:?}")));
            };
            (pads[3 - rank + dim], output[3 - rank + dim]) = (pad, size);
        }
        let wide = |sizes: [usize; 3]| sizes.map(|size| size as u64);
        Ok(ConvShape {
            batch: batch as u64,
            channels: channels as u64,
            filters: sizes.filters as u64,
            groups: self.groups as u64,
            input: wide(input),
            output: wide(output),
            kernel: wide(sizes.kernel),
            strides: wide(solid(&self.strides, 1)),
            dilations: wide(solid(&self.dilations, 1)),
            pads: wide(pads),
            transposed: self.transposed,
        })
    }
}

impl Along {
    /// Positions from the kernel's first to its last.
    fn reach(&self) -> Option<usize> {
        (self.kernel - 1).checked_mul(self.dilation)?.checked_add(1)
    }

    /// Padding at the start, and the output's size; `None` where nothing fits.
    fn plain(&self, auto_pad: AutoPad) -> Option<(usize, usize)> {
        let reach = self.reach()?;
        let pads = match auto_pad {
            AutoPad::Given => self.pads,
            AutoPad::Valid => [0, 0],
            AutoPad::SameUpper | AutoPad::SameLower => {
                let output = self.input.div_ceil(self.stride);
                let needed = output.saturating_sub(1).checked_mul(self.stride)?.checked_add(reach)?;
                let pads = split_evenly(needed.saturating_sub(self.input), auto_pad == AutoPad::SameUpper);
                return Some((pads[0], output));
            }
        };
        let padded = self.input.checked_add(pads[0])?.checked_add(pads[1])?;
        Some((pads[0], positions(self.input, padded, reach, self.stride)?))
    }

    /// As [`Along::plain`] for the transposed operation, whose output the padding makes smaller.
    fn transposed(&self, auto_pad: AutoPad) -> Option<(usize, usize)> {
        let reach = self.output_padding.checked_add(self.reach()?)?;
        let whole = match self.input.checked_sub(1) {
            Some(steps) => steps.checked_mul(self.stride)?.checked_add(reach)?,
            // The same formula for -1 steps.
            None => reach.checked_sub(self.stride)?,
        };
        let same = matches!(auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
        let wanted = match self.output {
            Some(output) => Some(output),
            None if same => Some(self.input.checked_mul(self.stride)?),
            None => None,
        };
        let found = match wanted {
            Some(output) => {
                // The odd one is at the start unless the model says otherwise.
                Some((split_evenly(whole.saturating_sub(output), auto_pad == AutoPad::SameUpper)[0], output))
            }
            None => {
                let pads = if auto_pad == AutoPad::Given { self.pads } else { [0, 0] };
                Some((pads[0], whole.checked_sub(pads[0])?.checked_sub(pads[1])?))
            }
        };
        // An empty input has nothing to spread over an output.
        found.filter(|&(_, size)| self.input > 0 || size == 0)
    }
}

/// Padding in two parts.
fn split_evenly(total: usize, odd_at_end: bool) -> [usize; 2] {
    let (small, large) = (total / 2, total - total / 2);
    if odd_at_end { [small, large] } else { [large, small] }
}
