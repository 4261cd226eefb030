//! LSTM, GRU and RNN: attributes, shapes and optional inputs. Execution is in
//! [`exec::recurrent`](kiln_run::exec::recurrent).
//!
//! Weights that are constants are packed when the node is made; others at every run.

mod double;

use kiln_kernels::cpu::Elements;
use kiln_kernels::cpu::chain::Bits;
use kiln_kernels::cpu::recurrent::{
    Activation, Cell, Direction, DirectionWeights, Operands, Outputs, Recurrent, RecurrentShape,
};
use kiln_kernels::memory;
use kiln_model::operators::Applied;
use kiln_model::operators::lower::function;
use kiln_model::{Attr, NodeDesc, operators};
use kiln_run::exec::recurrent::{PackedDirection, PlainWeights, elements, pack};
use kiln_run::exec::weights::Packing;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorError, TensorSpec};
use smallvec::SmallVec;

use super::convert::through_f32;
use super::double::with_double;
use super::{LoadCx, OpError, Operator, optional, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "LSTM", make_layer), ("", "GRU", make_layer), ("", "RNN", make_layer)];

/// Places of the inputs that the three operators share, and of the LSTM's own.
const X: usize = 0;
const W: usize = 1;
const R: usize = 2;
const B: usize = 3;
const LENGTHS: usize = 4;
const H: usize = 5;
const C: usize = 6;
const P: usize = 7;

struct Layer {
    cell: Cell,
    clip: Option<Bits>,
    directions: SmallVec<[Direction; 2]>,
    batch_first: bool,
    packed: Option<Vec<PackedDirection>>,
    /// The element type of packed weights; weights that come with a request keep `f32`.
    elements: Elements,
    isa: kiln_kernels::Isa,
}

fn make_layer(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    with_double(cx, double::make, |cx| through_f32(cx, make))
}

impl Layer {
    /// The node's attributes.
    fn read(cx: &LoadCx<'_>) -> Result<Layer, OpError> {
        let node = cx.node;
        let cell = match node.op.as_str() {
            "LSTM" => Cell::Lstm {
                input_forget: node.attributes().int("input_forget") != 0,
                peepholes: node.input(P).is_some(),
            },
            "GRU" => Cell::Gru { linear_before_reset: node.attributes().int("linear_before_reset") != 0 },
            _ => Cell::Rnn,
        };
        let reverses: &[bool] = match node.attributes().text("direction") {
            "forward" => &[false],
            "reverse" => &[true],
            "bidirectional" => &[false, true],
            other => return Err(OpError::invalid(node, format!("direction '{other}'"))),
        };
        let clip = match node.attrs.get("clip") {
            Some(Attr::Float(clip)) if *clip >= 0.0 => Some(Bits::from(*clip)),
            Some(_) => return Err(OpError::invalid(node, "clip is not a number of at least 0")),
            None => None,
        };
        let directions = directions(node, cell, reverses)?;
        let isa = cx.build.isa;
        let batch_first = node.attributes().int("layout") != 0;
        Ok(Layer { cell, clip, directions, batch_first, packed: None, elements: Elements::F32, isa })
    }
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let mut layer = Layer::read(cx)?;
    let cell = layer.cell;
    let constant = |index: usize| cx.graph.constant_input(node, index);
    let known = |index: usize| node.input(index).is_none() || constant(index).is_some();
    if let (Some(w), Some(r), true, true) = (constant(W), constant(R), known(B), known(P) || !cell.has_memory()) {
        let peepholes = if cell.has_memory() { constant(P) } else { None };
        layer.elements = elements(cx.build.elements(), w, r);
        let packed = layer.pack(cx.packing, w, r, constant(B), peepholes);
        layer.packed = Some(packed.map_err(|error| OpError::invalid(node, error.to_string()))?);
    }
    Ok(Box::new(layer))
}

/// The directions with their functions; alphas and betas are taken in the order of the functions that have them.
fn directions(node: &NodeDesc, cell: Cell, reverses: &[bool]) -> Result<SmallVec<[Direction; 2]>, OpError> {
    let defaults: &[&str] = match cell {
        Cell::Lstm { .. } => &["Sigmoid", "Tanh", "Tanh"],
        Cell::Gru { .. } => &["Sigmoid", "Tanh"],
        Cell::Rnn => &["Tanh"],
    };
    let each = defaults.len();
    let names: Vec<&str> = match node.attrs.get("activations") {
        Some(Attr::Strs(names)) if names.len() == each * reverses.len() => names.iter().map(String::as_str).collect(),
        Some(_) => {
            let reason = format!("activations must be {} names", each * reverses.len());
            return Err(OpError::invalid(node, reason));
        }
        None => defaults.repeat(reverses.len()),
    };
    let mut alphas = node.floats("activation_alpha").unwrap_or_default().iter().copied();
    let mut betas = node.floats("activation_beta").unwrap_or_default().iter().copied();
    let mut functions = memory::with_capacity(names.len());
    for name in names {
        let function = activation(name, &mut alphas, &mut betas);
        functions.push(function.ok_or_else(|| OpError::unsupported(node, format!("activation '{name}'")))?);
    }
    let of = |functions: &[Activation]| {
        // Cells with fewer functions never read the others.
        let last = functions[each - 1];
        std::array::from_fn(|index| functions.get(index).copied().unwrap_or(last))
    };
    let directions = reverses.iter().zip(functions.chunks(each));
    Ok(directions.map(|(&reverse, functions)| Direction { reverse, activations: of(functions) }).collect())
}

/// A function by ONNX's name, with the operator's defaults: an operator that cells apply, or one of two functions that
/// are no operators. It takes the values of its attributes from both lists.
fn activation(
    name: &str,
    alphas: &mut dyn Iterator<Item = f32>,
    betas: &mut dyn Iterator<Item = f32>,
) -> Option<Activation> {
    let or = |default: f32, list: &mut dyn Iterator<Item = f32>| Bits::from(list.next().unwrap_or(default));
    match name.to_ascii_lowercase().as_str() {
        "affine" => return Some(Activation::Affine { alpha: or(1.0, alphas), beta: or(0.0, betas) }),
        "scaledtanh" => return Some(Activation::ScaledTanh { alpha: or(1.0, alphas), beta: or(1.0, betas) }),
        _ => {}
    }
    let mut rows = operators::all().filter(|row| row.applied == Applied::ByCells);
    let row = rows.find(|row| row.name.eq_ignore_ascii_case(name))?;
    let mut node = NodeDesc { op: row.name.to_owned(), ..NodeDesc::default() };
    for attribute in row.attribute_names() {
        let given = if attribute == "alpha" { alphas.next() } else { betas.next() };
        node.attrs.extend(given.map(|value| (attribute.to_owned(), Attr::Float(value))));
    }
    function(&node).map(Activation::Unary)
}

/// Sizes that weights decide.
struct Sizes {
    input: usize,
    hidden: usize,
}

impl Layer {
    /// Checks every weight's shape against the others'.
    fn sizes(&self, w: &Tensor, r: &Tensor, b: Option<&Tensor>, p: Option<&Tensor>) -> Result<Sizes, NodeError> {
        let (directions, gates) = (self.directions.len(), self.cell.gates());
        let (&[_, _, input], &[_, _, hidden]) = (w.shape(), r.shape()) else {
            return Err(refused(format!("weights of shapes {:?} and {:?}, expected rank 3", w.shape(), r.shape())));
        };
        let columns = gates.checked_mul(hidden).ok_or_else(|| refused("too many units"))?;
        expect("W", w, &[directions, columns, input])?;
        expect("R", r, &[directions, columns, hidden])?;
        if let Some(b) = b {
            expect("B", b, &[directions, 2 * columns])?;
        }
        if let Some(p) = p {
            expect("P", p, &[directions, 3 * hidden])?;
        }
        Ok(Sizes { input, hidden })
    }

    fn pack(
        &self,
        packing: &Packing<'_>,
        w: &Tensor,
        r: &Tensor,
        b: Option<&Tensor>,
        p: Option<&Tensor>,
    ) -> Result<Vec<PackedDirection>, NodeError> {
        let Sizes { input, hidden } = self.sizes(w, r, b, p)?;
        let plain =
            PlainWeights { w, r, b: b.map(Tensor::as_slice).transpose()?, p: p.map(Tensor::as_slice).transpose()? };
        Ok(pack(packing, self.elements, self.cell, [self.directions.len(), input, hidden], &plain)?)
    }

    /// The layer on that many steps, sequences, features of a step and features of the output.
    fn shape(&self, sizes: [usize; 4]) -> RecurrentShape {
        let [steps, batch, input, hidden] = sizes.map(|size| size as u64);
        let (cell, clip, directions) = (self.cell, self.clip, self.directions.clone());
        let (batch_first, elements) = (self.batch_first, self.elements);
        RecurrentShape { cell, clip, directions, steps, batch, input, hidden, batch_first, elements }
    }

    /// Steps and sequences of an input.
    fn time_and_batch(&self, x: &Tensor) -> Result<(usize, usize), NodeError> {
        match (x.shape(), self.batch_first) {
            (&[steps, batch, _], false) | (&[batch, steps, _], true) => Ok((steps, batch)),
            (shape, _) => Err(refused(format!("input of shape {shape:?}, expected rank 3"))),
        }
    }

    fn state_shape(&self, batch: usize, hidden: usize) -> [usize; 3] {
        let directions = self.directions.len();
        if self.batch_first { [batch, directions, hidden] } else { [directions, batch, hidden] }
    }

    /// Inputs that only an LSTM has.
    fn memory<'t>(&self, inputs: &[Option<&'t Tensor>], index: usize) -> Option<&'t Tensor> {
        if self.cell.has_memory() { optional(inputs, index) } else { None }
    }
}

/// Whether a tensor is of floats and of that shape.
fn expect(name: &str, tensor: &Tensor, shape: &[usize]) -> Result<(), NodeError> {
    if !tensor.dtype().is_float() {
        return Err(TensorError::Type { expected: DType::F32, found: tensor.dtype() }.into());
    }
    if tensor.shape() == shape {
        return Ok(());
    }
    Err(refused(format!("{name} is of shape {:?}, expected {shape:?}", tensor.shape())))
}

impl Node for Layer {
    fn family(&self) -> &'static str {
        "recurrent"
    }

    fn kept_inputs(&self) -> u64 {
        if self.packed.is_some() { 1 << W | 1 << R | 1 << B | u64::from(self.cell.has_memory()) << P } else { 0 }
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let x = required(inputs, X)?;
        let (w, r) = (required(inputs, W)?, required(inputs, R)?);
        let Sizes { input, hidden } = self.sizes(w, r, optional(inputs, B), self.memory(inputs, P))?;
        let (steps, batch) = self.time_and_batch(x)?;
        expect("X", x, &if self.batch_first { [batch, steps, input] } else { [steps, batch, input] })?;
        let state = self.state_shape(batch, hidden);
        for (name, tensor) in [("initial_h", optional(inputs, H)), ("initial_c", self.memory(inputs, C))] {
            tensor.map_or(Ok(()), |tensor| expect(name, tensor, &state))?;
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
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let x = required(inputs, X)?;
        let (steps, batch) = self.time_and_batch(x)?;
        let shape = self.shape([steps, batch, x.shape()[2], outputs[0].shape[3]]);
        Ok(Prepared::new(cx.executor(&cx.key(shape))?))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let executor = prepared.get::<Recurrent>()?;
        let x = io.input(X)?;
        let (steps, _) = self.time_and_batch(x)?;
        let lengths = io.optional(LENGTHS).map(|tensor| lengths(tensor, steps)).transpose()?;
        let peepholes = if self.cell.has_memory() { io.optional(P) } else { None };
        let c = if self.cell.has_memory() { io.optional(C) } else { None };
        let fresh = match &self.packed {
            Some(_) => None,
            None => Some(self.pack(&self.isa.into(), io.input(W)?, io.input(R)?, io.optional(B), peepholes)?),
        };
        let packed = self.packed.as_ref().or(fresh.as_ref()).map_or(&[][..], Vec::as_slice);
        let weights: Vec<DirectionWeights<'_>> = packed.iter().map(PackedDirection::view).collect();
        let operands = Operands {
            x: x.as_slice()?,
            weights: &weights,
            lengths: lengths.as_deref(),
            h: io.optional(H).map(Tensor::as_slice).transpose()?,
            c: c.map(Tensor::as_slice).transpose()?,
        };
        let (mut y, mut last_h) = (io.alloc(0)?, io.alloc(1)?);
        let mut last_c = if self.cell.has_memory() { Some(io.alloc(2)?) } else { None };
        let mut scratch = cx.scratch::<f32>(executor.scratch_len())?;
        let mut outputs = Outputs {
            y: y.as_mut_slice()?,
            h: last_h.as_mut_slice()?,
            c: last_c.as_mut().map(Tensor::as_mut_slice).transpose()?.unwrap_or_default(),
        };
        executor.run(&operands, &mut outputs, scratch.as_mut_slice()?, cx.parallel)?;
        io.push(y);
        io.push(last_h);
        last_c.into_iter().for_each(|c| io.push(c));
        Ok(())
    }
}

/// Steps of each sequence, refused beyond those that there are.
fn lengths(tensor: &Tensor, steps: usize) -> Result<Vec<usize>, NodeError> {
    let one = |&length: &i32| {
        let length = usize::try_from(length).ok().filter(|length| *length <= steps);
        length.ok_or_else(|| refused(format!("a sequence length is not in 0..={steps}")))
    };
    tensor.as_slice::<i32>()?.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    /// One unit, one feature, weights of one half, no bias.
    fn cell(op: &str, gates: usize) -> Trial {
        Trial::new(op)
            .input(&[2, 1, 1], &[1f32, -1.0])
            .input(&[1, gates, 1], &vec![0.5f32; gates])
            .input(&[1, gates, 1], &vec![0.5f32; gates])
    }

    #[test]
    fn a_plain_cell_follows_its_equation() {
        let first = 0.5f32.tanh();
        let second = (-0.5 + 0.5 * first).tanh();
        cell("RNN", 1).gives_about(&[2, 1, 1, 1], &[first, second]);
    }

    #[test]
    fn a_sequence_without_steps_ends_in_zeros_whatever_it_began_with() {
        for (op, gates) in [("RNN", 1), ("GRU", 3), ("LSTM", 4)] {
            for direction in ["forward", "reverse"] {
                let layer = Trial::new(op).text("direction", direction).outputs(if op == "LSTM" { 3 } else { 2 });
                let layer = layer.input(&[2, 2, 1], &[1f32, -1.0, 0.5, 0.25]);
                let layer =
                    layer.input(&[1, gates, 1], &vec![0.5f32; gates]).input(&[1, gates, 1], &vec![0.5f32; gates]);
                let layer = layer.absent().input(&[2], &[0i32, 2]).input(&[1, 2, 1], &[7f32, 0.0]);
                let outputs = if op == "LSTM" { layer.input(&[1, 2, 1], &[7f32, 0.0]) } else { layer }.run().unwrap();
                let y = outputs[0].as_slice::<f32>().unwrap();
                assert_eq!([y[0], y[2]], [0.0; 2], "{op} {direction}");
                for state in &outputs[1..] {
                    let state = state.as_slice::<f32>().unwrap();
                    assert!(state[0] == 0.0 && state[1] != 0.0, "{op} {direction}: {state:?}");
                }
            }
            let none = Trial::new(op).outputs(2).input(&[0, 1, 1], &[0f32; 0]);
            let none = none.input(&[1, gates, 1], &vec![0.5f32; gates]).input(&[1, gates, 1], &vec![0.5f32; gates]);
            let none = none.absent().absent().input(&[1, 1, 1], &[7f32]).run().unwrap();
            assert_eq!((none[0].shape(), none[1].as_slice::<f32>().unwrap()), (&[0, 1, 1, 1][..], &[0f32][..]), "{op}");
        }
    }

    #[test]
    fn weights_and_states_of_other_shapes_are_refused() {
        Trial::new("RNN").input(&[2, 1], &[1f32, -1.0]).is_refused("missing");
        Trial::new("RNN")
            .input(&[2, 1, 3], &[0f32; 6])
            .input(&[1, 1, 1], &[0.5f32])
            .input(&[1, 1, 1], &[0.5f32])
            .is_refused("X is of shape");
        Trial::new("LSTM")
            .input(&[2, 1, 1], &[0f32; 2])
            .input(&[1, 3, 1], &[0f32; 3])
            .input(&[1, 4, 1], &[0f32; 4])
            .is_refused("W is of shape");
    }
}
