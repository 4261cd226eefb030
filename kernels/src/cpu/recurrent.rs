//! Recurrent layers: LSTM, GRU and the simple cell, in one or both directions.
//!
//! One matrix product, computed first, multiplies the inputs of all steps by the input weights of all gates. Then, for
//! each step of each direction, follow the product of the state with packed weights, and the gates of every sequence in
//! one call of emitted code. Two directions are two tasks. [`problem::recurrent`](crate::problem::recurrent) describes
//! a layer, [`emit`] has the gates, [`plain`] does the same in Rust, and [`step`] offers both as one. The oracle is
//! [`reference::recurrent`](crate::reference::recurrent). Products are of the layer's
//! [`Elements`](crate::cpu::Elements); states and gates are `f32`.

pub mod emit;
mod plain;
pub mod step;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use smallvec::SmallVec;

pub use crate::problem::recurrent::{Activation, Cell, Direction, Outputs, RecurrentShape};
pub use emit::{GateArgs, GateCode, Gates};
use step::Step;
pub use step::{LstmForm, LstmStep, LstmSums};

use crate::cpu::gemm::{Epilogue, Extras, Left, Matmul, MatmulBlocks, MatmulShape, Right};
use crate::cpu::{CodeSource, PackedWeights};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::Given;
use crate::parallel::{Disjoint, Parallel, Serial, for_each_chunk};

/// The weights of one direction, as the layer's products read them: packed by
/// [`Panels::pack_as`](crate::cpu::gemm::Panels::pack_as) in panels of
/// [`Elements::panel_vectors`](crate::cpu::Elements::panel_vectors) vectors for their columns.
#[derive(Clone, Copy, Debug)]
pub struct DirectionWeights<'a> {
    /// `[input, gates x hidden]`
    pub input: PackedWeights<'a>,
    /// `[hidden, gates x hidden]`; without gate h for a GRU that applies its reset gate before the product.
    pub recurrent: PackedWeights<'a>,
    /// `[hidden, hidden]`: gate h of such a GRU, else empty.
    pub faded: PackedWeights<'a>,
    /// Added to the input's product, for every gate.
    pub bias: &'a [f32],
    /// Added to the recurrent product of gate h of a GRU that applies its reset gate after the product, else empty.
    pub reset_bias: &'a [f32],
    /// Weights of the state for gates i, o and f of an LSTM with peepholes, else empty.
    pub peepholes: &'a [f32],
}

/// The operands of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// The inputs of all steps of all sequences.
    pub x: &'a [f32],
    /// One element a direction.
    pub weights: &'a [DirectionWeights<'a>],
    /// Steps of each sequence, at most those of the layer; outputs of later steps are zero. `None`: all steps.
    pub lengths: Option<&'a [usize]>,
    /// Output before the first step, of each sequence; zeros without it.
    pub h: Option<&'a [f32]>,
    /// State before the first step, of each sequence; zeros without it.
    pub c: Option<&'a [f32]>,
}

/// A layer ready to run.
#[derive(Debug)]
pub struct Recurrent {
    shape: RecurrentShape,
    /// Whether each direction is a task.
    apart: bool,
    projection: Matmul,
    product: Matmul,
    /// The product with the output scaled by the reset gate, for a GRU that applies the gate before the product.
    faded: Option<Matmul>,
    /// The gate code of each direction, in the order of a step.
    steps: SmallVec<[SmallVec<[Step; 2]>; 2]>,
}

/// Offsets of the parts of a direction's scratch, in elements.
struct Scratch {
    product: usize,
    h: usize,
    faded: usize,
    z: usize,
    rows: usize,
    end: usize,
}

impl Recurrent {
    /// Prepares a layer for that many threads. `apart` makes two directions two tasks.
    pub fn new(
        shape: RecurrentShape,
        isa: Isa,
        apart: bool,
        threads: usize,
        source: &dyn CodeSource,
    ) -> Result<Recurrent> {
        if !shape.is_valid() || shape.clip.is_some_and(|clip| clip.get().is_nan() || clip.get() < 0.0) {
            return Err(KernelError::Unsupported { family: "recurrent", reason: format!("{shape:?}") });
        }
        let matmul = |rows: usize, columns: usize, k: usize, threads: usize, bias: bool| {
            let (elements, vectors) = (shape.elements, shape.elements.panel_vectors(isa, columns));
            let (left, right) = (Left::Rows { stride: k }, Right::Packed { vectors, elements });
            let shape = MatmulShape { m: rows, n: columns, k, batch: SmallVec::new(), left, right };
            let epilogue = Epilogue { bias, ..Epilogue::default() };
            let blocks = MatmulBlocks::pick(isa, &shape, &epilogue, threads);
            Matmul::new(isa, shape, blocks, epilogue, source)
        };
        let (rows, hidden) = (shape.steps() * shape.batch(), shape.hidden());
        let fades = fades(shape.cell);
        let columns = if fades { 2 * hidden } else { shape.gate_columns() };
        let within = if apart { 1 } else { threads };
        let mut steps = SmallVec::new();
        for direction in &shape.directions {
            let mut taken = SmallVec::new();
            for gates in gates_of(shape.cell, direction) {
                taken.push(Step::new(isa, gates, shape.clip, source)?);
            }
            steps.push(taken);
        }
        Ok(Recurrent {
            apart,
            projection: matmul(rows, shape.gate_columns(), shape.input(), threads, true)?,
            product: matmul(shape.batch(), columns, hidden, within, false)?,
            faded: if fades { Some(matmul(shape.batch(), hidden, hidden, within, false)?) } else { None },
            steps,
            shape,
        })
    }

    /// Elements of scratch that [`Recurrent::run`] needs.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        self.shape.directions.len() * self.scratch().end + self.projection.scratch_len()
    }

    fn scratch(&self) -> Scratch {
        let shape = &self.shape;
        let mut end = 0;
        // Each part starts on a cache line.
        let mut part = |len: usize| {
            let start = end;
            end += len.next_multiple_of(16);
            start
        };
        part(shape.steps() * shape.batch() * shape.gate_columns());
        let product = part(shape.batch() * shape.gate_columns());
        let [h, faded, z] = [(); 3].map(|()| part(shape.batch() * shape.hidden()));
        let rows = part(self.products().map(Matmul::scratch_len).max().unwrap_or(0));
        Scratch { product, h, faded, z, rows, end }
    }

    /// The products of a step.
    fn products(&self) -> impl Iterator<Item = &Matmul> {
        [Some(&self.product), self.faded.as_ref()].into_iter().flatten()
    }

    /// Runs the layer.
    ///
    /// # Errors
    ///
    /// Where an operand is shorter than the shape says, or a sequence longer.
    pub fn run(
        &self,
        operands: &Operands<'_>,
        outputs: &mut Outputs<'_>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        self.check(operands, outputs, scratch)?;
        let each = self.scratch().end;
        let (scratch, rows) = scratch.split_at_mut(each * self.shape.directions.len());
        let gates = self.shape.steps() * self.shape.batch() * self.shape.gate_columns();
        for (part, weights) in scratch.chunks_exact_mut(each.max(1)).zip(operands.weights) {
            let extras = Extras { bias: Some(weights.bias), residual: None };
            self.projection.run(operands.x, weights.input, &mut part[..gates], extras, rows, parallel)?;
        }
        let given = Given::new().write("y", outputs.y).write("the last c", outputs.c);
        let ends =
            &Ends { y: Disjoint::new(outputs.y), h: Disjoint::new(outputs.h), c: Disjoint::new(outputs.c), given };
        let failed = OnceLock::new();
        let (between, within): (&dyn Parallel, &dyn Parallel) =
            if self.apart { (parallel, &Serial) } else { (&Serial, parallel) };
        for_each_chunk(between, scratch, each, &|direction, part| {
            if let Err(error) = self.direction(direction, operands, ends, part, within) {
                // The first failure is kept.
                let _ = failed.set(error);
            }
        });
        failed.into_inner().map_or(Ok(()), Err)
    }

    fn check(&self, operands: &Operands<'_>, outputs: &Outputs<'_>, scratch: &[f32]) -> Result<()> {
        let shape = &self.shape;
        let (states, hidden) = (shape.states(), shape.hidden());
        let memory = if shape.cell.has_memory() { states } else { 0 };
        let mut sizes = vec![
            ("x", operands.x.len(), shape.xs()),
            ("weights", operands.weights.len(), shape.directions.len()),
            ("lengths", operands.lengths.map_or(shape.batch(), <[usize]>::len), shape.batch()),
            ("h", operands.h.map_or(states, <[f32]>::len), states),
            ("c", operands.c.map_or(states, <[f32]>::len), memory),
            ("y", outputs.y.len(), shape.ys()),
            ("the last h", outputs.h.len(), states),
            ("the last c", outputs.c.len(), memory),
            ("scratch", scratch.len(), self.scratch_len()),
        ];
        for weights in operands.weights {
            let after = matches!(shape.cell, Cell::Gru { linear_before_reset: true });
            let peepholes = matches!(shape.cell, Cell::Lstm { peepholes: true, .. });
            sizes.push(("reset bias", weights.reset_bias.len(), if after { hidden } else { 0 }));
            sizes.push(("peepholes", weights.peepholes.len(), if peepholes { 3 * hidden } else { 0 }));
        }
        let longest = operands.lengths.and_then(|lengths| lengths.iter().max()).copied().unwrap_or(0);
        sizes.push(("steps", shape.steps(), longest));
        match sizes.into_iter().find(|&(_, have, need)| have < need) {
            None => Ok(()),
            Some((operand, have, need)) => Err(KernelError::Bounds { family: "recurrent", operand, have, need }),
        }
    }

    /// All steps of one direction.
    fn direction(
        &self,
        direction: usize,
        operands: &Operands<'_>,
        ends: &Ends<'_>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let shape = &self.shape;
        let (hidden, columns) = (shape.hidden(), shape.gate_columns());
        let weights = &operands.weights[direction];
        let parts = self.scratch();
        let given = ends.given.clone().write("scratch", scratch);
        let given = given.read("reset bias", weights.reset_bias).read("peepholes", weights.peepholes);
        let (gates, rest) = scratch.split_at_mut(parts.product);
        let (product, rest) = rest.split_at_mut(parts.h - parts.product);
        let (h, rest) = rest.split_at_mut(parts.faded - parts.h);
        let (faded, rest) = rest.split_at_mut(parts.z - parts.faded);
        let (z, rows) = rest.split_at_mut(parts.rows - parts.z);
        let length = |sequence: usize| operands.lengths.map_or(shape.steps(), |lengths| lengths[sequence]);
        for sequence in 0..shape.batch() {
            let state = shape.state(direction, sequence);
            let row = &mut h[sequence * hidden..][..hidden];
            match operands.h {
                Some(first) => row.copy_from_slice(&first[state..state + hidden]),
                None => row.fill(0.0),
            }
            for unit in (0..hidden).filter(|_| shape.cell.has_memory()) {
                let first = operands.c.map_or(0.0, |first| first[state + unit]);
                // SAFETY: the states of this direction belong to this task, and `c` was checked to hold them.
                unsafe { ends.c.at(state + unit).write(first) };
            }
        }
        let row_of_product = if self.faded.is_some() { 2 * hidden } else { columns };
        let reverse = shape.directions[direction].reverse;
        let steps = (0..shape.batch()).map(length).max().unwrap_or(0);
        for index in 0..steps {
            if parallel.is_stopped() {
                break;
            }
            let (h_rows, products) = (shape.batch() * hidden, shape.batch() * row_of_product);
            self.product.run(
                &h[..h_rows],
                weights.recurrent,
                &mut product[..products],
                Extras::default(),
                rows,
                parallel,
            )?;
            for (stage, step) in self.steps[direction].iter().enumerate() {
                let last = stage + 1 == self.steps[direction].len();
                if let Some(second) = self.faded.as_ref().filter(|_| stage == 1) {
                    let out = &mut product[..h_rows];
                    second.run(&faded[..h_rows], weights.faded, out, Extras::default(), rows, parallel)?;
                }
                let row_of_product = if stage == 1 { hidden } else { row_of_product };
                for sequence in (0..shape.batch()).filter(|&sequence| index < length(sequence)) {
                    let at = if reverse { length(sequence) - 1 - index } else { index };
                    let state = h[sequence * hidden..].as_mut_ptr();
                    let out = if last { state } else { faded[sequence * hidden..].as_mut_ptr() };
                    let args = GateArgs {
                        x: gates[shape.row(at, sequence) * columns..].as_ptr(),
                        r: product[sequence * row_of_product..].as_ptr(),
                        bias: weights.reset_bias.as_ptr(),
                        peepholes: weights.peepholes.as_ptr(),
                        before: state,
                        c: ends.c.at(shape.state(direction, sequence)),
                        z: z[sequence * hidden..].as_mut_ptr(),
                        out,
                        y: ends.y.at(shape.y(at, direction, sequence)),
                        hidden,
                    };
                    // SAFETY: every row has `hidden` elements (for all gates that the form reads) inside of its checked
                    // buffer, and rows of `y` and `c` belong to this direction.
                    unsafe { step.run(&args, &given) };
                }
            }
        }
        for sequence in 0..shape.batch() {
            for at in length(sequence)..shape.steps() {
                let y = ends.y.at(shape.y(at, direction, sequence));
                // SAFETY: a row of `y` of this direction.
                unsafe { std::slice::from_raw_parts_mut(y, hidden) }.fill(0.0);
            }
            let state = shape.state(direction, sequence);
            // SAFETY: a row of the last outputs of this direction.
            let out = unsafe { std::slice::from_raw_parts_mut(ends.h.at(state), hidden) };
            if length(sequence) > 0 {
                out.copy_from_slice(&h[sequence * hidden..][..hidden]);
                continue;
            }
            // A sequence without steps has no last output: its states are zero like its outputs, whatever its first
            // states were.
            out.fill(0.0);
            if shape.cell.has_memory() {
                // SAFETY: a row of this direction's states, which `c` was checked to hold.
                unsafe { std::slice::from_raw_parts_mut(ends.c.at(state), hidden) }.fill(0.0);
            }
        }
        Ok(())
    }
}

/// Whether the reset gate acts before a product, which then depends on it.
fn fades(cell: Cell) -> bool {
    matches!(cell, Cell::Gru { linear_before_reset: false })
}

/// The gate code of one step, in order.
fn gates_of(cell: Cell, direction: &Direction) -> SmallVec<[Gates; 2]> {
    let [f, g, _] = direction.activations;
    match cell {
        Cell::Lstm { input_forget, peepholes } => {
            let activations = direction.activations;
            SmallVec::from_slice(&[Gates::Lstm { activations, input_forget, peepholes, clip_state: true }])
        }
        Cell::Gru { linear_before_reset: true } => SmallVec::from_slice(&[Gates::GruLinear { activations: [f, g] }]),
        Cell::Gru { linear_before_reset: false } => {
            SmallVec::from_slice(&[Gates::GruReset { activation: f }, Gates::GruUpdate { activation: g }])
        }
        Cell::Rnn => SmallVec::from_slice(&[Gates::Rnn { activation: f }]),
    }
}

/// The outputs, whose rows are divided between directions.
struct Ends<'a> {
    y: Disjoint<'a, f32>,
    h: Disjoint<'a, f32>,
    c: Disjoint<'a, f32>,
    given: Given,
}
