//! DynamicQuantizeLSTM of ONNX Runtime: an LSTM whose products are of bytes.
//!
//! The input is quantised as a whole, over all of its steps, and multiplied in one product. The state of each sequence
//! is quantised at every step, by its own range: other sequences do not change its codes. Weights, their scales, the
//! bias and the peepholes have to be constants; the weights are packed and the code of the gates is looked up when the
//! node is made.

use std::sync::{Arc, Mutex};

use kiln_kernels::cpu::conv::{ConvShape, Weights};
use kiln_kernels::cpu::quantized::bytes::Added;
use kiln_kernels::cpu::quantized::{Output, Quantized, Steps, Terms, WeightSource, prepare};
use kiln_kernels::cpu::recurrent::{LstmForm, LstmStep, LstmSums};
use kiln_kernels::memory;
use kiln_kernels::{Isa, Parallel, Serial};
use kiln_model::{Attr, NodeDesc};
use kiln_run::exec::quantized::QuantizedProblem;
use kiln_run::exec::weights::{self, QuantizedWeights};
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorError, TensorSpec};

use super::wide::widened;
use super::{LoadCx, OpError, Operator, optional, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("com.microsoft", "DynamicQuantizeLSTM", make)];

/// Places of the inputs.
const X: usize = 0;
const W: usize = 1;
const R: usize = 2;
const B: usize = 3;
const LENGTHS: usize = 4;
const H: usize = 5;
const C: usize = 6;
const P: usize = 7;
const W_SCALE: usize = 8;
const R_SCALE: usize = 10;

/// The functions of every cell: of the gates, of the new content, of the result.
const FUNCTIONS: [&str; 3] = ["sigmoid", "tanh", "tanh"];

/// Gates of a unit, in their order: input, output, forget, cell.
const GATES: usize = 4;

/// A right-hand matrix of bytes.
struct Matrix {
    packed: QuantizedWeights,
    /// One, or one for each column.
    scale: Vec<f32>,
    rows: usize,
    columns: usize,
}

struct Direction {
    reverse: bool,
    input: Matrix,
    state: Matrix,
    /// The sum of both products' biases, one for each column.
    bias: Vec<f32>,
    /// Peepholes of the gates i, o and f; empty where there are none.
    peepholes: Vec<f32>,
}

struct Layer {
    directions: Vec<Direction>,
    units: usize,
    gates: LstmStep,
    isa: Isa,
}

/// The executors of each direction: of the input at all steps, and of one sequence's state.
struct Ready(Vec<[Arc<Quantized>; 2]>);

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let reverses: &[bool] = match node.attributes().text("direction") {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        other => return Err(OpError::invalid(node, format!("direction '{other}'"))),
    };
    for list in ["activation_alpha", "activation_beta"] {
        if let Some(values) = node.floats(list).filter(|values| !values.is_empty()) {
            return Err(OpError::unsupported(node, format!("attribute {list} = {values:?}")));
        }
    }
    if let Some(Attr::Strs(names)) = node.attrs.get("activations") {
        let plain = names.len() == FUNCTIONS.len() * reverses.len()
            && names.iter().zip(FUNCTIONS.iter().cycle()).all(|(name, own)| name.eq_ignore_ascii_case(own));
        if !plain {
            return Err(OpError::unsupported(node, format!("attribute activations = {names:?}")));
        }
    }
    let clip = match node.attrs.get("clip") {
        Some(Attr::Float(clip)) if *clip > 0.0 => Some(*clip),
        // A clip of 0 is none.
        Some(Attr::Float(0.0)) | None => None,
        Some(_) => return Err(OpError::invalid(node, "clip is not a number of at least 0")),
    };
    let invalid = |error: NodeError| OpError::invalid(node, error.to_string());
    let (w, r) = (constant(cx, W, "W")?, constant(cx, R, "R")?);
    let (&[count, input, columns], &[same, units, others]) = (w.shape(), r.shape()) else {
        return Err(OpError::invalid(node, format!("weights of shapes {:?} and {:?}", w.shape(), r.shape())));
    };
    let fits =
        count == reverses.len() && same == count && columns == others && units.checked_mul(GATES) == Some(columns);
    if !fits {
        return Err(OpError::invalid(node, format!("weights of shapes {:?} and {:?}", w.shape(), r.shape())));
    }
    let lists = |index: usize, name: &str, each: usize| -> Result<Option<Vec<f32>>, OpError> {
        if node.input(index).is_none() {
            return Ok(None);
        }
        let tensor = constant(cx, index, name)?;
        if tensor.shape() != [count, each] {
            let reason = format!("{name} is of shape {:?}, expected [{count}, {each}]", tensor.shape());
            return Err(OpError::invalid(node, reason));
        }
        widened::<f32>(tensor).map(Some).map_err(invalid)
    };
    let bias = lists(B, "B", 2 * columns)?;
    let peepholes = lists(P, "P", 3 * units)?;
    let directions = reverses.iter().enumerate().map(|(direction, &reverse)| {
        let bias = match &bias {
            None => memory::zeroed(columns),
            Some(all) => {
                let (own, state) = all[direction * 2 * columns..][..2 * columns].split_at(columns);
                own.iter().zip(state).map(|(own, state)| own + state).collect()
            }
        };
        let own = |all: &Vec<f32>| all[direction * 3 * units..][..3 * units].to_vec();
        let peepholes = peepholes.as_ref().map(own).unwrap_or_default();
        let input = matrix(cx, [W, W_SCALE], direction, [count, input, columns])?;
        let state = matrix(cx, [R, R_SCALE], direction, [count, units, columns])?;
        Ok(Direction { reverse, input, state, bias, peepholes })
    });
    let directions = directions.collect::<Result<_, OpError>>()?;
    let input_forget = node.attributes().int("input_forget") != 0;
    let form = LstmForm { hidden: units, input_forget, peepholes: peepholes.is_some(), clip };
    let gates = LstmStep::new(cx.build.isa, form, cx.build);
    let gates = gates.map_err(|error| OpError::invalid(node, error.to_string()))?;
    Ok(Box::new(Layer { directions, units, gates, isa: cx.build.isa }))
}

fn constant<'a>(cx: &'a LoadCx<'_>, index: usize, name: &str) -> Result<&'a Tensor, OpError> {
    let found = cx.graph.constant_input(cx.node, index);
    found.ok_or_else(|| OpError::unsupported(cx.node, format!("input {index} ({name}) that is not a constant")))
}

/// One direction's weights; input `places[1]` has their scales, and the input behind it has their zero points.
fn matrix(
    cx: &LoadCx<'_>,
    places: [usize; 2],
    direction: usize,
    [count, rows, columns]: [usize; 3],
) -> Result<Matrix, OpError> {
    let node: &NodeDesc = cx.node;
    let invalid = |error: NodeError| OpError::invalid(node, error.to_string());
    let [at, scale_at] = places;
    let (weights, scale) = (constant(cx, at, "weights")?, constant(cx, scale_at, "scale of weights")?);
    let zero = constant(cx, scale_at + 1, "zero point of weights")?;
    let signed = match weights.dtype() {
        DType::I8 => true,
        DType::U8 => false,
        other => return Err(OpError::invalid(node, format!("weights of type {other}"))),
    };
    // One for each direction, or one for each column of each.
    let of = |list: &Tensor| match *list.shape() {
        [all] | [all, 1] if all == count => Ok(1),
        [all, each] if [all, each] == [count, columns] => Ok(each),
        ref other => Err(OpError::invalid(node, format!("scales or zero points of shape {other:?}"))),
    };
    let (scales, zeros) = (of(scale)?, of(zero)?);
    let scale = widened::<f32>(scale).map_err(invalid)?[direction * scales..][..scales].to_vec();
    let zeros: Vec<i32> =
        widened::<i64>(zero).map_err(invalid)?[direction * zeros..][..zeros].iter().map(|&zero| zero as i32).collect();
    let bytes = || &weights.bytes()[direction * rows * columns..][..rows * columns];
    let source = |bytes| WeightSource::matrix(bytes, signed, &zeros, [rows, columns], false);
    let sizes = Weights { channels: rows, filters: columns, groups: 1, kernel: [1; 3], transposed: None };
    let packed = weights::quantized(cx.packing, source, bytes, &sizes, Steps::ONE);
    let packed = packed.map_err(|error| OpError::invalid(node, error.to_string()))?;
    Ok(Matrix { packed, scale, rows, columns })
}

impl Matrix {
    /// The executor of `rows` rows times this matrix.
    fn executor(&self, cx: &PrepareCx<'_>, rows: usize) -> Result<Arc<Quantized>, NodeError> {
        let (positions, ones) = ([1, 1, rows as u64], [1; 3]);
        let shape = ConvShape {
            batch: 1,
            channels: self.rows as u64,
            filters: self.columns as u64,
            groups: 1,
            input: positions,
            output: positions,
            kernel: ones,
            strides: ones,
            dilations: ones,
            pads: [0; 3],
            transposed: false,
        };
        shape.validate().map_err(|error| refused(error.to_string()))?;
        let form = self.packed.form.of_shape(cx.isa(), &shape);
        let problem = QuantizedProblem { shape, form, result: Output::Floats, added: Added::Nothing };
        cx.executor(&cx.key(problem))
    }

    /// Multiplies bytes; the results are numbers to which each column's `shift` is added.
    fn multiply(
        &self,
        executor: &Quantized,
        left: &Bytes<'_>,
        shift: Option<&[f32]>,
        to: &mut [f32],
        scratch: &mut Scratch,
        parallel: &dyn Parallel,
    ) -> Result<(), NodeError> {
        let Scratch { sums, scale } = scratch;
        scale.clear();
        scale.extend(self.scale.iter().map(|own| own * left.scale));
        let terms = Terms {
            signed: false,
            left_zero: left.zero,
            bias: None,
            scale,
            shift,
            low: f32::NEG_INFINITY,
            high: f32::INFINITY,
            zero: 0,
            plus: None,
        };
        let to = bytemuck::cast_slice_mut(to);
        Ok(executor.run(
            left.elements,
            self.packed.view()?,
            to,
            &terms,
            &mut sums[..executor.scratch_len()],
            parallel,
        )?)
    }
}

/// Memory for the products of one direction.
struct Scratch {
    sums: Vec<i32>,
    /// The scale of each column, or of all columns.
    scale: Vec<f32>,
}

/// Numbers as bytes over their own range.
struct Bytes<'a> {
    elements: &'a [u8],
    scale: f32,
    zero: i32,
}

impl<'a> Bytes<'a> {
    fn of(isa: Isa, from: &[f32], to: &'a mut [u8], parallel: &dyn Parallel) -> Bytes<'a> {
        // Zero must have an exact code, so the range includes it.
        let [least, greatest] = prepare::extremes(isa, from, parallel);
        let scale = (greatest - least) / 255.0;
        let scale = if scale == 0.0 { 1.0 } else { scale };
        let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even() as i32;
        prepare::quantize(isa, from, scale, false, zero, to, parallel);
        Bytes { elements: to, scale, zero }
    }
}

/// The results of one direction.
#[derive(Default)]
struct Made {
    /// [steps, batch, units]
    y: Vec<f32>,
    /// [batch, units]
    h: Vec<f32>,
    c: Vec<f32>,
}

/// The operands of one run.
struct Operands<'a> {
    x: Bytes<'a>,
    lengths: Vec<usize>,
    steps: usize,
    h: Option<&'a [f32]>,
    c: Option<&'a [f32]>,
}

impl Layer {
    /// One direction of all sequences, one after the other.
    fn run(
        &self,
        number: usize,
        executors: &[Arc<Quantized>; 2],
        operands: &Operands<'_>,
        gates: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<Made, NodeError> {
        let own = &self.directions[number];
        let (units, columns, batch) = (self.units, own.input.columns, operands.lengths.len());
        let [of_input, of_state] = executors;
        let sums = memory::zeroed::<i32>(of_input.scratch_len().max(of_state.scratch_len()));
        let mut scratch = Scratch { sums, scale: memory::with_capacity(columns) };
        own.input.multiply(of_input, &operands.x, Some(&own.bias), gates, &mut scratch, parallel)?;
        let mut bytes = memory::zeroed::<u8>(units);
        let mut made = Made {
            y: memory::zeroed(operands.steps * batch * units),
            h: memory::zeroed(batch * units),
            c: memory::zeroed(batch * units),
        };
        let mut added = memory::zeroed::<f32>(columns);
        for (sequence, &length) in operands.lengths.iter().enumerate().filter(|(_, length)| **length > 0) {
            let first = (number * batch + sequence) * units;
            let of = |given: Option<&[f32]>| {
                given.map_or(memory::zeroed(units), |all| memory::copied(&all[first..][..units]))
            };
            let (mut h, mut c) = (of(operands.h), of(operands.c));
            for step in 0..length {
                if parallel.is_stopped() {
                    return Ok(made);
                }
                let step = if own.reverse { length - 1 - step } else { step };
                let place = step * batch + sequence;
                let state = Bytes::of(self.isa, &h, &mut bytes, &Serial);
                own.state.multiply(of_state, &state, None, &mut added, &mut scratch, parallel)?;
                let input = &gates[place * columns..][..columns];
                let sums = LstmSums { input, state: &added, peepholes: &own.peepholes };
                self.gates.run(&sums, &mut c, &mut h, &mut made.y[place * units..][..units])?;
            }
            made.h[sequence * units..][..units].copy_from_slice(&h);
            made.c[sequence * units..][..units].copy_from_slice(&c);
        }
        Ok(made)
    }
}

impl Node for Layer {
    fn family(&self) -> &'static str {
        "DynamicQuantizeLSTM"
    }

    fn kept_inputs(&self) -> u64 {
        1 << W | 1 << R
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let x = required(inputs, X)?;
        let &[steps, batch, _] = x.shape() else {
            return Err(refused(format!("input of shape {:?}, expected rank 3", x.shape())));
        };
        let state = [self.directions.len(), batch, self.units];
        let size = self.directions[0].input.rows;
        let floats = [("X", Some(x), [steps, batch, size]), ("initial_h", optional(inputs, H), state)];
        for (name, tensor, shape) in floats.into_iter().chain([("initial_c", optional(inputs, C), state)]) {
            let Some(tensor) = tensor else { continue };
            if tensor.dtype() != DType::F32 {
                return Err(TensorError::Type { expected: DType::F32, found: tensor.dtype() }.into());
            }
            if tensor.shape() != shape {
                return Err(refused(format!("{name} is of shape {:?}, expected {shape:?}", tensor.shape())));
            }
        }
        match optional(inputs, LENGTHS) {
            Some(lengths) if lengths.dtype() != DType::I32 || lengths.shape() != [batch] => {
                Err(refused(format!("sequence_lens is {:?}, expected {batch} of int32", lengths.spec())))
            }
            _ => Ok(()),
        }
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let shape = required(inputs, X)?.shape();
        let rows = shape[0] * shape[1];
        let pair = |own: &Direction| Ok([own.input.executor(cx, rows)?, own.state.executor(cx, 1)?]);
        let executors = self.directions.iter().map(pair).collect::<Result<_, NodeError>>()?;
        Ok(Prepared::new(Arc::new(Ready(executors))))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let Ready(executors) = prepared.get()?;
        let x = io.input(X)?;
        let (steps, batch) = (x.shape()[0], x.shape()[1]);
        let lengths = match io.optional(LENGTHS) {
            None => memory::filled(steps, batch),
            Some(lengths) => {
                let fits = |&length: &i32| usize::try_from(length).ok().filter(|&length| length <= steps);
                let lengths = lengths.as_slice::<i32>()?.iter().map(fits).collect::<Option<_>>();
                lengths.ok_or_else(|| refused(format!("a sequence length is not in 0..={steps}")))?
            }
        };
        let mut bytes = cx.scratch::<u8>(x.len())?;
        let operands = Operands {
            x: Bytes::of(self.isa, x.as_slice()?, bytes.as_mut_slice()?, cx.parallel),
            lengths,
            steps,
            h: io.optional(H).map(Tensor::as_slice).transpose()?,
            c: io.optional(C).map(Tensor::as_slice).transpose()?,
        };
        let count = self.directions.len();
        let (mut y, mut h, mut c) = (io.alloc(0)?, io.alloc(1)?, io.alloc(2)?);
        let sums = steps.checked_mul(batch).and_then(|rows| rows.checked_mul(GATES * self.units));
        let sums = sums.ok_or_else(|| refused("more gates than can be counted"))?;
        let gates = (0..count).map(|_| cx.scratch::<f32>(sums)).collect::<Result<Vec<_>, _>>()?;
        let results: Vec<Mutex<(Tensor, Result<Made, NodeError>)>> =
            gates.into_iter().map(|gates| Mutex::new((gates, Ok(Made::default())))).collect();
        // Steps wait for each other, directions do not.
        let inner: &dyn Parallel = if count > 1 { &Serial } else { cx.parallel };
        let outer: &dyn Parallel = if count > 1 { cx.parallel } else { &Serial };
        outer.run(count, &|number| {
            if let Ok(mut slot) = results[number].lock() {
                let (gates, made) = &mut *slot;
                *made = match gates.as_mut_slice() {
                    Ok(gates) => self.run(number, &executors[number], &operands, gates, inner),
                    Err(error) => Err(error.into()),
                };
            }
        });
        cx.check_whole()?;
        let line = batch * self.units;
        for (number, slot) in results.into_iter().enumerate() {
            let made = slot.into_inner().map_err(|_| refused("a direction that was not computed"))?.1?;
            for (step, from) in made.y.chunks_exact(line.max(1)).enumerate() {
                y.as_mut_slice()?[(step * count + number) * line..][..line].copy_from_slice(from);
            }
            h.as_mut_slice()?[number * line..][..line].copy_from_slice(&made.h);
            c.as_mut_slice()?[number * line..][..line].copy_from_slice(&made.c);
        }
        [y, h, c].into_iter().for_each(|tensor| io.push(tensor));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kiln_model::operators::float::sigmoid;

    use crate::trial::Trial;

    /// One unit and one feature over two steps of one sequence, all weights one half.
    fn layer() -> Trial {
        let layer = Trial::new("DynamicQuantizeLSTM").outputs(3).input(&[2, 1, 1], &[1f32, -1.0]);
        layer.input(&[1, 1, 4], &[50i8; 4]).input(&[1, 1, 4], &[50i8; 4])
    }

    /// Scales of weights, and their zero points.
    fn scaled(layer: Trial) -> Trial {
        let layer = layer.input(&[1], &[0.01f32]).input(&[1], &[0i8]);
        layer.input(&[1], &[0.01f32]).input(&[1], &[0i8])
    }

    /// The new result and content of a cell, from its input and its state.
    fn step(x: f32, [h, c]: [f32; 2]) -> [f32; 2] {
        let sum = 0.5 * x + 0.5 * h;
        let memory = sigmoid(sum) * c + sigmoid(sum) * sum.tanh();
        [sigmoid(sum) * memory.tanh(), memory]
    }

    #[test]
    fn a_cell_follows_its_equations_within_the_steps_of_bytes() {
        let run = |layer: Trial| scaled(layer).run().expect("the row is valid");
        let found = run(layer().absent().absent().absent().absent().absent());
        let first = step(1.0, [0.0; 2]);
        let second = step(-1.0, first);
        for (output, expected) in [(0, first[0]), (1, second[0]), (2, second[1])] {
            let found = found[output].as_slice::<f32>().unwrap()[0];
            assert!((found - expected).abs() < 4e-3, "output {output}: {found} for {expected}");
        }
        // A sequence of one step has zeros in the second; a given state is where a sequence starts.
        let short = layer().absent().input(&[1], &[1i32]).input(&[1, 1, 1], &[0.5f32]).input(&[1, 1, 1], &[0.25f32]);
        let short = run(short.absent());
        let [h, c] = step(1.0, [0.5, 0.25]);
        let y = short[0].as_slice::<f32>().unwrap();
        assert!((y[0] - h).abs() < 4e-3 && y[1] == 0.0, "{y:?} for {h}");
        assert!((short[2].as_slice::<f32>().unwrap()[0] - c).abs() < 4e-3);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let whole = |layer: Trial| scaled(layer.absent().absent().absent().absent().absent());
        whole(layer().int("input_forget", 1)).run().expect("the row is valid");
        whole(layer().text("direction", "bidirectional")).is_refused("weights of shapes");
        whole(layer().attr("activations", kiln_model::Attr::Strs(vec!["Relu".to_owned()]))).is_refused("activations");
        let long = layer().absent().input(&[1], &[3i32]).absent().absent().absent();
        scaled(long).is_refused("a sequence length is not in 0..=2");
    }
}
