//! Operators that carry a state from one part of a sequence to the next: CausalConvWithState, LinearAttention.

use kiln_kernels::memory::{self, Collect, Pace};

use super::wide::{narrow, widened};
use super::{LoadCx, OpError, Operator, optional, refused, required, size_attribute};
use crate::graph::{Io, Node, NodeError, Prepared, RunCx};
use crate::tensor::{Tensor, TensorSpec};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] =
    &[("", "CausalConvWithState", make_conv), ("", "LinearAttention", make_linear)];

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

struct LinearAttention {
    heads: [usize; 2],
    scale: Option<f64>,
    /// Whether the state decays, and whether it is corrected by what it already holds for a key (the delta rule).
    decays: bool,
    corrects: bool,
}

fn make_linear(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let (decays, corrects) = match node.attributes().text("update_rule") {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(OpError::unsupported(node, format!("update_rule = {other}"))),
    };
    let heads = [size_attribute(node, "q_num_heads", 1)?, size_attribute(node, "kv_num_heads", 1)?];
    if heads[0] % heads[1] != 0 {
        return Err(OpError::invalid(node, format!("{heads:?} heads of queries and of keys")));
    }
    let scale = f64::from(node.attributes().float("scale"));
    Ok(Box::new(LinearAttention { heads, scale: (scale != 0.0).then_some(scale), decays, corrects }))
}

/// Sizes of one run.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    steps: usize,
    key: usize,
    value: usize,
    /// Elements of the decay for a head: one, or one for each of the key's.
    decay: usize,
    /// Rates of a step: one, or one a head.
    rates: usize,
}

impl LinearAttention {
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<Sizes, NodeError> {
        let [queries, heads] = self.heads;
        let (query, key, value) =
            (required(inputs, 0)?.shape(), required(inputs, 1)?.shape(), required(inputs, 2)?.shape());
        let (&[batch, steps, query_size], &[.., key_size], &[.., value_size]) = (query, key, value) else {
            return Err(refused(format!("queries of {query:?}, keys of {key:?}, values of {value:?}")));
        };
        let fits = query_size % queries == 0
            && Some(key_size) == (query_size / queries).checked_mul(heads)
            && value_size % heads == 0
            && [key.len(), value.len()] == [3, 3]
            && key[..2] == query[..2]
            && value[..2] == query[..2];
        if !fits {
            return Err(refused(format!("queries of {query:?}, keys of {key:?}, values of {value:?}")));
        }
        let (key, value) = (key_size / heads, value_size / heads);
        shaped(inputs, 3, &[batch, heads, key, value])?;
        let last = |index: usize, wanted: bool, choices: [usize; 2]| match optional(inputs, index).map(Tensor::shape) {
            _ if !wanted => Ok(0),
            Some(&[b, t, size]) if [b, t] == [batch, steps] && choices.contains(&size) => Ok(size),
            found => Err(refused(format!("input {index} has shape {found:?}"))),
        };
        let decay = last(4, self.decays, [heads, heads * key])? / heads;
        let rates = last(5, self.corrects, [heads, 1])?;
        Ok(Sizes { batch, steps, key, value, decay, rates })
    }

    /// One step of one head's state: decay, correct, add.
    fn step(&self, state: &mut [f64], key: &[f64], value: &[f64], decay: &[f64], rate: f64) {
        if self.decays {
            for (row, line) in state.chunks_exact_mut(value.len().max(1)).enumerate() {
                let factor = decay[row % decay.len()].exp();
                line.iter_mut().for_each(|entry| *entry *= factor);
            }
        }
        let mut update = memory::copied(value);
        if self.corrects {
            for (factor, line) in key.iter().zip(state.chunks_exact(value.len().max(1))) {
                update.iter_mut().zip(line).for_each(|(update, entry)| *update -= factor * entry);
            }
            update.iter_mut().for_each(|update| *update *= rate);
        }
        for (factor, line) in key.iter().zip(state.chunks_exact_mut(value.len().max(1))) {
            line.iter_mut().zip(&update).for_each(|(entry, update)| *entry += factor * update);
        }
    }
}

impl Node for LinearAttention {
    fn family(&self) -> &'static str {
        "LinearAttention"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.sizes(inputs)?;
        floats(inputs)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let sizes = self.sizes(&io.inputs())?;
        let wide = |index| io.optional(index).map(widened::<f64>).transpose().map(Option::unwrap_or_default);
        let (query, keys, values, decays, rates) = (wide(0)?, wide(1)?, wide(2)?, wide(4)?, wide(5)?);
        let [queries, heads] = self.heads;
        let area = sizes.key * sizes.value;
        let mut states = wide(3)?;
        if states.is_empty() {
            states = memory::zeroed(sizes.batch * heads * area);
        }
        let scale = self.scale.unwrap_or(1.0 / (sizes.key as f64).sqrt());
        let mut output = memory::zeroed::<f64>(sizes.batch * sizes.steps * queries * sizes.value);
        for step in 0..if area == 0 { 0 } else { sizes.batch * sizes.steps } {
            for head in 0..heads {
                cx.check_stop()?;
                let line = step * heads + head;
                let state = &mut states[(step / sizes.steps * heads + head) * area..][..area];
                let rate = if sizes.rates == 0 { 1.0 } else { rates[step * sizes.rates + head % sizes.rates] };
                let (key, value) =
                    (&keys[line * sizes.key..][..sizes.key], &values[line * sizes.value..][..sizes.value]);
                self.step(state, key, value, &decays[line * sizes.decay..][..sizes.decay], rate);
                let shared = queries / heads;
                for number in step * queries + head * shared..step * queries + (head + 1) * shared {
                    let to = &mut output[number * sizes.value..][..sizes.value];
                    let query = &query[number * sizes.key..][..sizes.key];
                    for (factor, row) in query.iter().zip(state.chunks_exact(sizes.value)) {
                        to.iter_mut().zip(row).for_each(|(to, entry)| *to += scale * factor * entry);
                    }
                }
            }
        }
        let (output, present) = (narrow(&output, io.alloc(0)?)?, narrow(&states, io.alloc(1)?)?);
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

    fn linear(rule: &str) -> Trial {
        let trial = Trial::new("LinearAttention").outputs(2).text("update_rule", rule).int("q_num_heads", 1);
        let trial = trial.int("kv_num_heads", 1).input(&[1, 2, 1], &[1f32, 1.0]);
        trial.input(&[1, 2, 1], &[1f32, 2.0]).input(&[1, 2, 1], &[3f32, 5.0])
    }

    #[test]
    fn states_decay_are_corrected_and_grow() {
        linear("linear").gives(&[1, 2, 1], &[3f32, 13.0]);
        let half = [0f32, 0.5f32.ln()];
        linear("gated").absent().input(&[1, 2, 1], &half).gives_about(&[1, 2, 1], &[3.0, 11.5]);
        linear("delta").absent().absent().input(&[1, 2, 1], &[1f32, 0.5]).gives(&[1, 2, 1], &[3f32, 2.0]);
        let both = linear("gated_delta").absent().input(&[1, 2, 1], &half).input(&[1, 2, 1], &[1f32, 0.5]);
        both.gives_about(&[1, 2, 1], &[3.0, 3.5]);
        linear("gated").is_refused("input 4");
        linear("square").is_refused("square");
    }

    #[test]
    fn earlier_states_go_on_and_heads_share_them() {
        linear("linear").input(&[1, 1, 1, 1], &[10f32]).gives(&[1, 2, 1], &[13f32, 23.0]);
        let shared = Trial::new("LinearAttention").outputs(2).text("update_rule", "linear").int("q_num_heads", 2);
        let shared = shared.int("kv_num_heads", 1).input(&[1, 1, 2], &[1f32, 2.0]).input(&[1, 1, 1], &[1f32]);
        shared.input(&[1, 1, 1], &[3f32]).gives(&[1, 1, 2], &[3f32, 6.0]);
    }
}
