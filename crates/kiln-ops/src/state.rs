//! CausalConvWithState, a convolution that carries its last inputs from one part of a sequence to the next: ONNX's, and
//! ONNX Runtime's, whose taps may be apart, whose channels may come last, and which may keep the states of several
//! positions. VarlenCausalConvWithState is the same over sequences of any lengths, one behind the other.
//!
//! Computed in `f32`, in `f64` where the input is, on all threads: by channels where they come first, by positions
//! where they come last. The function of the results is an executor of one step.

use std::ops::Range;

use kiln_kernels::cpu::chain::{Chain, Geometry, Operand, Program, Target, UnaryOp};
use kiln_kernels::memory;
use kiln_run::exec::chain::ChainProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::linear_attention::Number;
use super::tasks::{share, try_each_chunk};
use super::wide::{filled, lent};
use super::{LoadCx, OpError, Operator, optional, refused, required, size_attribute};

mod packed;

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "CausalConvWithState", make_conv),
    ("com.microsoft", "CausalConvWithState", make_contrib),
    ("com.microsoft", "VarlenCausalConvWithState", packed::make),
];

/// Products that are summed between two checks whether the request goes on.
const LINE: usize = 1 << 16;

/// Positions up to which a line is read where it is, and weights are not turned.
const SHORT: usize = 4;

/// Most states of single positions that a window keeps.
const WIDEST: usize = 8;

/// The parameters of all forms: the function of the result, and how far apart the taps are.
#[derive(Clone, Copy)]
struct Form {
    /// Whether the result x becomes x sigmoid(x).
    gated: bool,
    dilation: usize,
}

struct CausalConv {
    form: Form,
    channels_last: bool,
    /// How many of the last positions have their states kept; `None` for only the last one, without an axis.
    window: Option<usize>,
}

impl Form {
    fn of(cx: &LoadCx<'_>, dilation: usize) -> Result<Form, OpError> {
        match cx.node.attributes().text("activation") {
            "none" => Ok(Form { gated: false, dilation }),
            "silu" | "swish" => Ok(Form { gated: true, dilation }),
            other => Err(OpError::unsupported(cx.node, format!("activation = {other}"))),
        }
    }

    /// Positions that a state has.
    fn kept(&self, taps: usize) -> Result<usize, NodeError> {
        let too_many = || refused(format!("{taps} taps, each {} positions after the one before", self.dilation));
        taps.checked_sub(1).and_then(|taps| taps.checked_mul(self.dilation)).ok_or_else(too_many)
    }

    /// The executor of the function over that many results; none where there is no function, or where results are
    /// `f64`.
    fn prepare(&self, cx: &PrepareCx<'_>, input: &Tensor, results: usize) -> Result<Prepared, NodeError> {
        if !self.gated || input.dtype() == DType::F64 || results == 0 {
            return Ok(Prepared::NONE);
        }
        let geometry = Geometry::new(&[results], &[&[results]])?;
        Ok(Prepared::new(cx.executor(&cx.key(ChainProblem::new(&Program::unary(UnaryOp::Silu), geometry)))?))
    }

    /// Applies the function to results of `f32`.
    fn finish(&self, results: &mut [f32], prepared: &Prepared, cx: &RunCx<'_>) -> Result<(), NodeError> {
        if self.gated && !results.is_empty() {
            let chain = prepared.get::<Chain>()?;
            chain.run(&[Operand::Output], &mut Target::F32(results), cx.parallel)?;
        }
        Ok(())
    }

    /// Applies the function to results of `f64`.
    fn finish_double(&self, results: &mut [f64], cx: &RunCx<'_>) -> Result<(), NodeError> {
        if !self.gated {
            return Ok(());
        }
        let each = share(results.len(), 8 * size_of::<f64>(), cx.parallel);
        try_each_chunk(cx.parallel, results, each, &|_, results| {
            results.iter_mut().for_each(|result| *result /= 1.0 + (-*result).exp());
            Ok(())
        })
    }
}

/// Applies the function of a form to all results.
type Finish<'a, F> = &'a dyn Fn(&mut [F]) -> Result<(), NodeError>;

fn make_conv(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(CausalConv { form: Form::of(cx, 1)?, channels_last: false, window: None }))
}

/// ONNX Runtime's. Forms that it has only on devices are refused.
fn make_contrib(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let attributes = cx.node.attributes();
    for (name, only) in [
        ("ndim", 1),
        ("state_update_capacity", 0),
        ("state_length", 0),
        ("state_channels_last", -1),
        ("input_channel_offset", 0),
        ("input_channels", 0),
    ] {
        let found = attributes.int(name);
        if found != only {
            return Err(OpError::unsupported(cx.node, format!("attribute {name} = {found}")));
        }
    }
    let window = size_attribute(cx.node, "state_window", 0)?;
    if window > WIDEST {
        return Err(OpError::invalid(cx.node, format!("state_window = {window}")));
    }
    let form = Form::of(cx, size_attribute(cx.node, "dilation", 1)?)?;
    Ok(Box::new(CausalConv {
        form,
        channels_last: attributes.flag("channels_last"),
        window: Some(window).filter(|&window| window > 0),
    }))
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

/// Sizes of one run.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    channels: usize,
    length: usize,
    taps: usize,
    /// Positions that a state has.
    kept: usize,
}

impl CausalConv {
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<Sizes, NodeError> {
        let (input, weights) = (required(inputs, 0)?.shape(), required(inputs, 1)?.shape());
        let (batch, channels, length) = match *input {
            [batch, length, ref last @ ..] if self.channels_last && !last.is_empty() => {
                (batch, last.iter().product(), length)
            }
            [batch, channels, length] if !self.channels_last => (batch, channels, length),
            _ => return Err(refused(format!("no channels and positions in shape {input:?}"))),
        };
        let &[same, 1, taps] = weights else { return Err(refused(format!("weights of {weights:?} over {input:?}"))) };
        if same != channels || taps == 0 {
            return Err(refused(format!("weights of {weights:?} over {input:?}")));
        }
        let kept = self.form.kept(taps)?;
        shaped(inputs, 2, &[channels])?;
        let state = match self.channels_last {
            true => [&[batch, kept], &input[2..]].concat(),
            false => vec![batch, channels, kept],
        };
        shaped(inputs, 3, &[self.window.as_slice(), &state].concat())?;
        Ok(Sizes { batch, channels, length, taps, kept })
    }

    fn run<F: Number>(&self, io: &mut Io<'_>, cx: &RunCx<'_>, finish: Finish<'_, F>) -> Result<(), NodeError> {
        let sizes = self.sizes(&io.inputs())?;
        let given = |index| io.optional(index).map(lent::<F>).transpose();
        let (input, weights) = (lent::<F>(io.input(0)?)?, lent::<F>(io.input(1)?)?);
        let (bias, past) = (given(2)?, given(3)?);
        let area = sizes.batch * sizes.channels * sizes.kept;
        // The last position's state is the last of the window.
        let past = past.as_deref().map(|past| &past[past.len() - area..]);
        let steps = match self.channels_last {
            true => Steps { channel: 1, input: sizes.channels, kept: sizes.channels },
            false => Steps { channel: sizes.length, input: 1, kept: 1 },
        };
        let operands = Operands { form: self.form, input: &input, weights: &weights, bias: bias.as_deref() };
        let state = |batch: usize| Past {
            values: past.map(|past| &past[batch * sizes.channels * sizes.kept..]),
            kept: sizes.kept,
            channel: if self.channels_last { 1 } else { sizes.kept },
            step: steps.kept,
        };
        let output = filled(io.alloc(0)?, |output: &mut [F]| {
            match self.channels_last {
                true => operands.rows(output, sizes, cx, &|row| {
                    let (batch, position) = (row / sizes.length, row % sizes.length);
                    (batch * sizes.length, position, state(batch))
                })?,
                false => operands.lines(output, sizes, past, cx)?,
            }
            finish(output)
        })?;
        let present = filled(io.alloc(1)?, |present: &mut [F]| {
            if area == 0 {
                return Ok(());
            }
            let window = self.window.unwrap_or(1);
            for (slot, states) in present.chunks_exact_mut(area).enumerate() {
                // Positions that this state has seen; without any, only the last state is computed.
                let left = window - 1 - slot;
                let Some(seen) = sizes.length.checked_sub(left).filter(|&seen| seen > 0 || left == 0) else {
                    states.fill(F::default());
                    continue;
                };
                for (batch, state_of) in states.chunks_exact_mut(area / sizes.batch).enumerate() {
                    let input = &input[batch * sizes.channels * sizes.length..];
                    state(batch).after(input, steps, seen, sizes.channels, state_of);
                }
            }
            Ok(())
        })?;
        io.push(output);
        io.push(present);
        Ok(())
    }
}

/// Elements from one channel or position to the next, of the input and of a state.
#[derive(Clone, Copy)]
struct Steps {
    channel: usize,
    input: usize,
    kept: usize,
}

/// The state of one sequence: its inputs before the first position. Zeros where there is none.
#[derive(Clone, Copy)]
struct Past<'a, F> {
    values: Option<&'a [F]>,
    kept: usize,
    /// Elements from one channel to the next.
    channel: usize,
    /// Elements from one position to the next.
    step: usize,
}

impl<F: Number> Past<'_, F> {
    /// The input of a channel `before` positions before the first one; 1 is the last.
    fn before(&self, channel: usize, before: usize) -> F {
        let place = channel * self.channel + (self.kept - before) * self.step;
        self.values.map_or(F::default(), |values| values[place])
    }

    /// Writes the state after `seen` positions of the input.
    fn after(&self, input: &[F], steps: Steps, seen: usize, channels: usize, to: &mut [F]) {
        if steps.input == 1 && self.step == 1 {
            return self.after_lines(input, steps.channel, seen, channels, to);
        }
        for channel in 0..channels {
            for place in 0..self.kept {
                // Counted from the first position that is kept.
                let position = seen + place;
                to[channel * self.channel + place * self.step] = match position.checked_sub(self.kept) {
                    Some(position) => input[channel * steps.channel + position * steps.input],
                    None => self.before(channel, self.kept - position),
                };
            }
        }
    }

    /// [`Past::after`] where the positions of a channel, which lie `length` elements before the next one's, follow each
    /// other.
    fn after_lines(&self, input: &[F], length: usize, seen: usize, channels: usize, to: &mut [F]) {
        let new = seen.min(self.kept);
        let old = self.kept - new;
        for channel in 0..channels {
            let to = &mut to[channel * self.kept..][..self.kept];
            for (place, to) in to[..old].iter_mut().enumerate() {
                *to = self.values.map_or(F::default(), |values| values[channel * self.kept + new + place]);
            }
            let input = &input[channel * length + seen - new..][..new];
            to[old..].iter_mut().zip(input).for_each(|(to, from)| *to = *from);
        }
    }
}

/// Operands of all channels.
struct Operands<'a, F> {
    form: Form,
    input: &'a [F],
    /// The taps of one channel after those of another.
    weights: &'a [F],
    bias: Option<&'a [F]>,
}

impl<F: Number> Operands<'_, F> {
    fn start(&self, channel: usize) -> F {
        self.bias.map_or(F::default(), |bias| bias[channel])
    }

    /// Channels first: a line of positions after another.
    fn lines(&self, output: &mut [F], sizes: Sizes, past: Option<&[F]>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let Sizes { channels, length, taps, kept, .. } = sizes;
        if output.is_empty() {
            return Ok(());
        }
        let width = size_of::<F>().saturating_mul(taps);
        let each = share(output.len(), width, cx.parallel).next_multiple_of(length);
        // Lines between two looks at whether the request goes on.
        let together = (LINE / length.saturating_mul(taps)).max(1);
        try_each_chunk(cx.parallel, output, each, &|number, lines| {
            let nothing: Vec<F> = memory::zeroed(if past.is_none() { kept } else { 0 });
            let mut seen: Vec<F> = memory::zeroed(if length > SHORT { kept + length } else { 0 });
            let mut line = number * (each / length);
            let mut channel = line % channels;
            for lines in lines.chunks_mut(together * length) {
                cx.check_stop()?;
                for out in lines.chunks_exact_mut(length) {
                    let past = past.map_or(&nothing[..], |past| &past[line * kept..][..kept]);
                    let input = &self.input[line * length..][..length];
                    let weights = &self.weights[channel * taps..][..taps];
                    if length <= SHORT {
                        self.short_line(weights, self.start(channel), past, input, out);
                    } else {
                        seen[..kept].copy_from_slice(past);
                        seen[kept..].copy_from_slice(input);
                        self.long_line(weights, self.start(channel), &seen, out, cx)?;
                    }
                    line += 1;
                    channel = if channel + 1 == channels { 0 } else { channel + 1 };
                }
            }
            Ok(())
        })
    }

    /// A line of few positions: the first taps see the past, the others the input.
    fn short_line(&self, weights: &[F], start: F, past: &[F], input: &[F], out: &mut [F]) {
        let dilation = self.form.dilation;
        let add = |sum, (weight, value): (&F, &F)| sum + *weight * *value;
        for (position, out) in out.iter_mut().enumerate() {
            let taps = past.len().saturating_sub(position).div_ceil(dilation);
            let (before, since) = weights.split_at(taps);
            // The first value behind the past that a tap sees.
            let first = &input[position + taps * dilation - past.len()..];
            *out = if dilation == 1 {
                let sum = before.iter().zip(&past[past.len() - taps..]).fold(start, add);
                since.iter().zip(first).fold(sum, add)
            } else {
                let sum = before.iter().zip(past[position.min(past.len())..].iter().step_by(dilation)).fold(start, add);
                since.iter().zip(first.iter().step_by(dilation)).fold(sum, add)
            };
        }
    }

    /// A line of many positions, tap by tap; `seen` is the past, then the input.
    fn long_line(&self, weights: &[F], start: F, seen: &[F], out: &mut [F], cx: &RunCx<'_>) -> Result<(), NodeError> {
        for (place, out) in out.chunks_mut(LINE).enumerate() {
            out.fill(start);
            let between = (LINE / out.len()).max(1);
            for (tap, &weight) in weights.iter().enumerate() {
                if place + tap > 0 && tap % between == 0 {
                    cx.check_stop()?;
                }
                let values = &seen[place * LINE + tap * self.form.dilation..];
                out.iter_mut().zip(values).for_each(|(out, &value)| *out += weight * value);
            }
        }
        Ok(())
    }

    /// Channels last: a row of channels for each position. For each row, `place` returns where its sequence begins,
    /// which of its positions it is, and the state before the sequence.
    fn rows<'p>(
        &self,
        output: &mut [F],
        sizes: Sizes,
        cx: &RunCx<'_>,
        place: &(dyn Fn(usize) -> (usize, usize, Past<'p, F>) + Sync),
    ) -> Result<(), NodeError> {
        let Sizes { channels, taps, .. } = sizes;
        if output.is_empty() {
            return Ok(());
        }
        // The weights tap by tap, all channels of each. Turning them takes as long as some rows.
        let turns = output.len() / channels > SHORT;
        let mut turned: Vec<F> = memory::zeroed(if turns { channels * taps } else { 0 });
        for (place, to) in turned.iter_mut().enumerate() {
            *to = self.weights[place % channels * taps + place / channels];
        }
        let width = size_of::<F>().saturating_mul(taps);
        let each = share(output.len(), width, cx.parallel).next_multiple_of(channels);
        try_each_chunk(cx.parallel, output, each, &|number, rows| {
            for (offset, out) in rows.chunks_exact_mut(channels).enumerate() {
                let (first, position, past) = place(number * (each / channels) + offset);
                out.iter_mut().enumerate().for_each(|(channel, out)| *out = self.start(channel));
                for tap in 0..taps {
                    if tap % (LINE / channels).max(1) == 0 {
                        cx.check_stop()?;
                    }
                    let apart = self.weights[tap..].iter().step_by(taps);
                    let weights = turns.then(|| &turned[tap * channels..][..channels]);
                    let back = (taps - 1 - tap) * self.form.dilation;
                    let values =
                        position.checked_sub(back).map(|at| &self.input[(first + at) * channels..][..channels]);
                    let before = (0..channels).map(|channel| past.before(channel, back - position));
                    match (weights, values) {
                        (Some(weights), Some(values)) => add_products(out, weights, values.iter().copied()),
                        (Some(weights), None) => add_products(out, weights, before),
                        (None, Some(values)) => add_products(out, apart, values.iter().copied()),
                        (None, None) => add_products(out, apart, before),
                    }
                }
            }
            Ok(())
        })
    }
}

/// Adds products of weights and values.
fn add_products<'w, F: Number + 'w>(
    out: &mut [F],
    weights: impl IntoIterator<Item = &'w F>,
    values: impl Iterator<Item = F>,
) {
    out.iter_mut().zip(weights).zip(values).for_each(|((out, weight), value)| *out += *weight * value);
}

/// Refuses elements that are no floats among these inputs.
fn floats(inputs: &[Option<&Tensor>], among: Range<usize>) -> Result<(), NodeError> {
    let mut among = among.filter_map(|index| optional(inputs, index));
    match among.find(|tensor| !tensor.dtype().is_float()) {
        Some(tensor) => Err(NodeError::Unsupported(format!("elements of type {}", tensor.dtype()))),
        None => Ok(()),
    }
}

impl Node for CausalConv {
    fn family(&self) -> &'static str {
        "CausalConvWithState"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.sizes(inputs)?;
        floats(inputs, 0..inputs.len())
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
        match io.input(0)?.dtype() {
            DType::F64 => self.run::<f64>(io, cx, &|results| self.form.finish_double(results, cx)),
            _ => self.run::<f32>(io, cx, &|results| self.form.finish(results, prepared, cx)),
        }
    }
}

#[cfg(test)]
mod tests;
