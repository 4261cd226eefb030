//! Joins branches that are added: convolutions of one input, and a batch normalisation of it, become one convolution
//! whose weights are the sum of theirs. Networks that are trained with such branches (RepVGG, MobileOne, PP-LCNet) are
//! often exported with them.
//!
//! A smaller window has to lie within the larger one, on its taps, and both have to give outputs of the same size for
//! every input.

use kiln_kernels::memory;
use kiln_tensor::{DType, Tensor};

use super::PassCx;
use super::affine::{Affine, of_batch_norm};
use super::edit::Edit;
use crate::ir::{Graph, NodeDesc};

pub(super) fn run(graph: &mut Graph, _: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let is_sum = |node: &NodeDesc| (node.is("Add") || node.is("Sum")) && node.inputs.len() == 2;
        let Some(sum) = edit.cloned(slot, is_sum) else { continue };
        let maker = |operand| sum.input(operand).and_then(|value| edit.sole_maker(value)).map(|(maker, _)| maker);
        let (Some(a), Some(b)) = (maker(0), maker(1)) else { continue };
        let [Some(first), Some(second)] = [a, b].map(|maker| edit.cloned(maker, |_| true)) else { continue };
        let joined = joined(&mut edit, &first, &second).or_else(|| joined(&mut edit, &second, &first));
        if let Some(mut joined) = joined {
            joined.outputs.clone_from(&sum.outputs);
            edit.take(a);
            edit.take(b);
            edit.put(slot, joined);
        }
    }
    edit.finish()
}

/// Where a convolution reads.
struct Window {
    groups: usize,
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// Padding at the beginning of each axis, and at its end.
    begins: Vec<i64>,
    ends: Vec<i64>,
}

impl Window {
    /// The window of a plain convolution with weights of that shape.
    fn of(conv: &NodeDesc, weights: &[usize]) -> Option<Window> {
        let attributes = conv.attributes();
        let auto = attributes.text("auto_pad");
        if !conv.is("Conv") || conv.is_channels_last() || !matches!(auto, "NOTSET" | "VALID") {
            return None;
        }
        let kernel: Vec<i64> = weights.get(2..)?.iter().map(|&size| size as i64).collect();
        let space = kernel.len();
        let list = |name: &str, count: usize, none: i64| {
            let given = conv.ints(name).filter(|_| auto == "NOTSET" || name != "pads");
            let list = given.map_or_else(|| vec![none; count], <[i64]>::to_vec);
            (list.len() == count && list.iter().all(|&each| each >= none)).then_some(list)
        };
        let mut begins = list("pads", 2 * space, 0)?;
        let ends = begins.split_off(space);
        let (strides, dilations) = (list("strides", space, 1)?, list("dilations", space, 1)?);
        let groups = usize::try_from(attributes.int("group")).ok().filter(|&groups| groups > 0)?;
        Some(Window { groups, kernel, strides, dilations, begins, ends })
    }

    /// The window that reads the element at the output's own position.
    fn of_itself(groups: usize, space: usize) -> Window {
        let (ones, zeros) = (vec![1; space], vec![0; space]);
        Window {
            groups,
            kernel: ones.clone(),
            strides: ones.clone(),
            dilations: ones,
            begins: zeros.clone(),
            ends: zeros,
        }
    }

    /// The tap of this window on which the first tap of `other` lies, along each axis; `None` where not all of its taps
    /// lie on taps of this one, or the outputs may differ in size.
    fn place_of(&self, other: &Window) -> Option<Vec<usize>> {
        if self.groups != other.groups || self.strides != other.strides || self.kernel.len() != other.kernel.len() {
            return None;
        }
        let place = |axis: usize| {
            let [own, others] = [self, other].map(|window| {
                let reach = (window.kernel[axis] - 1).checked_mul(window.dilations[axis])?;
                window.begins[axis].checked_add(window.ends[axis])?.checked_sub(reach)
            });
            let same_steps = other.kernel[axis] == 1 || self.dilations[axis] == other.dilations[axis];
            let before = self.begins[axis] - other.begins[axis];
            let (first, beside) = (before / self.dilations[axis], before % self.dilations[axis]);
            let fits = first >= 0 && beside == 0 && first <= self.kernel[axis] - other.kernel[axis];
            (own? == others? && same_steps && fits).then_some(first as usize)
        };
        (0..self.kernel.len()).map(place).collect()
    }
}

/// The convolution with what `other` adds to it, without outputs.
fn joined(edit: &mut Edit<'_>, conv: &NodeDesc, other: &NodeDesc) -> Option<NodeDesc> {
    if conv.input(0)? != other.input(0)? || other.outputs.iter().skip(1).any(Option::is_some) {
        return None;
    }
    let weights = weights_of(edit, conv)?;
    let [filters, channels, ref kernel @ ..] = *weights.shape() else { return None };
    let window = Window::of(conv, weights.shape())?;
    let bias = bias_of(edit, conv, filters)?;
    let (place, added, added_bias) = if other.is("BatchNormalization") {
        let Affine { scale, shift } = of_batch_norm(edit, other)?;
        let place = window.place_of(&Window::of_itself(window.groups, kernel.len()))?;
        let is_square = scale.len() == filters && channels.checked_mul(window.groups)? == filters;
        (place, is_square.then(|| diagonal(&scale, channels, kernel.len()))??, Some(shift))
    } else {
        let added = weights_of(edit, other)?;
        let place = window.place_of(&Window::of(other, added.shape())?)?;
        (added.shape()[..2] == [filters, channels]).then_some(())?;
        (place, added, bias_of(edit, other, filters)?)
    };
    let mut sum = weights.clone();
    add_at(&mut sum, &added, &place)?;
    let mut joined = conv.clone();
    joined.inputs.resize(3, None);
    joined.inputs[1] = Some(edit.add_constant("weights", sum));
    joined.inputs[2] = match (bias, added_bias) {
        (None, None) => None,
        (one, other) => {
            let [one, other] = [one, other].map(|bias| bias.unwrap_or_else(|| vec![0.0; filters]));
            let sum: Vec<f32> = one.iter().zip(&other).map(|(one, other)| (one + other) as f32).collect();
            Some(edit.add_constant("bias", Tensor::from_vec([filters], sum).ok()?))
        }
    };
    Some(joined)
}

/// The weights of a convolution, if no other node reads them: else each sum would be one more constant of their size.
fn weights_of(edit: &Edit<'_>, conv: &NodeDesc) -> Option<Tensor> {
    let sole = edit.uses(conv.input(1)?) == 1;
    edit.constant(conv, 1).filter(|weights| sole && weights.dtype() == DType::F32 && weights.shape().len() > 2).cloned()
}

/// The bias of a convolution: `Some(None)` where it has no bias, `None` where its bias is not a constant of one number
/// for each filter.
fn bias_of(edit: &Edit<'_>, conv: &NodeDesc, filters: usize) -> Option<Option<Vec<f64>>> {
    if conv.input(2).is_none() {
        return Some(None);
    }
    let bias = edit.constant(conv, 2)?.as_slice::<f32>().ok()?;
    (bias.len() == filters).then(|| Some(bias.iter().map(|&each| f64::from(each)).collect()))
}

/// Weights of one tap that multiply each channel by its own number: as many filters in a group as channels.
fn diagonal(scale: &[f64], channels: usize, space: usize) -> Option<Tensor> {
    let mut weights = memory::zeroed::<f32>(scale.len().checked_mul(channels)?);
    for (filter, (row, &scale)) in weights.chunks_exact_mut(channels.max(1)).zip(scale).enumerate() {
        row[filter % channels] = scale as f32;
    }
    let shape = [scale.len(), channels].into_iter().chain(std::iter::repeat_n(1, space));
    Tensor::from_vec(shape, weights).ok()
}

/// Adds weights of a smaller window to `sum`, with their first tap on tap `place`.
fn add_at(sum: &mut Tensor, added: &Tensor, place: &[usize]) -> Option<()> {
    let [kernel, own] = [&*sum, added].map(|weights| weights.shape()[2..].to_vec());
    let taps = [&kernel, &own].map(|sizes| sizes.iter().product::<usize>());
    let positions: Vec<usize> = (0..taps[1])
        .map(|tap| {
            let (mut rest, mut position, mut step) = (tap, 0, 1);
            for axis in (0..kernel.len()).rev() {
                let size = own[axis];
                position += (rest % size + place[axis]) * step;
                rest /= size;
                step *= kernel[axis];
            }
            position
        })
        .collect();
    let added = added.as_slice::<f32>().ok()?;
    let windows = sum.as_mut_slice::<f32>().ok()?.chunks_exact_mut(taps[0].max(1));
    for (window, added) in windows.zip(added.chunks_exact(taps[1].max(1))) {
        positions.iter().zip(added).for_each(|(&position, added)| window[position] += added);
    }
    Some(())
}
