//! Element-wise chains with broadcasting: any number of unary, binary and selecting steps in one pass over memory.
//!
//! [`problem::chain`](crate::problem::chain) says what is computed for each element, [`geometry`] how operands of
//! different shapes broadcast. Emitted code ([`emit`]) runs over rows of `f32`; this file, the driver, divides the rows
//! into tasks, and converts booleans, which are bytes in memory, to `f32` and back in pieces that stay in L1. Programs of
//! booleans alone are computed on bytes. Programs without code (with a function that has none, or too many values alive
//! at once) and levels without JIT are interpreted block by block.
//!
//! Programs are made by [`build`] and [`simplify`].

mod allocate;
mod booleans;
pub mod build;
pub mod emit;
pub mod geometry;
mod logic;
pub mod simplify;
mod split;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use smallvec::SmallVec;

pub use crate::problem::chain::{BinaryOp, Bits, Program, Step, Storage, UnaryOp};
pub use build::Builder;
pub use emit::{ChainCode, MAX_UNROLL};
pub use geometry::{Geometry, Lane};

use super::{CodeKey, CodeSource};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Code, Given};
use crate::memory;
use crate::parallel::{Disjoint, InPlaceInput, Parallel};
use crate::problem::chain::MAX_INPUTS;
use crate::reference::chain::{BLOCK, Interpreter};
use emit::Args;
use split::{Piece, Split};

/// Elements of a piece in which booleans are converted: L1 holds a few operands of it together.
const CONVERTED: usize = 1024;

/// What a builder chooses once program, shapes and level are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainPlan {
    /// Vectors in flight; 0 interprets.
    pub unroll: u8,
    /// Tasks that the rows are divided into.
    pub tasks: usize,
}

/// An operand of one run.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// Floats.
    F32(&'a [f32]),
    /// Booleans: any byte but 0 is true.
    Bool(&'a [u8]),
    /// The output itself, whose memory holds the operand's elements before it is written. Shape and storage are the
    /// output's.
    Output,
}

/// The output of one run.
#[derive(Debug)]
pub enum Target<'a> {
    /// Floats.
    F32(&'a mut [f32]),
    /// Booleans, written as 0 and 1.
    Bool(&'a mut [u8]),
}

/// A chain for one geometry, ready to run.
#[derive(Debug)]
pub struct Chain {
    program: Program,
    geometry: Geometry,
    code: Option<Arc<Code>>,
    /// The level of a program that is computed on bytes.
    on_bytes: Option<Isa>,
    split: Split,
    /// Elements of the output, and those that each operand must hold. Computed once, because small chains run in less
    /// time than computing these takes.
    elements: usize,
    extents: SmallVec<[usize; 4]>,
    /// All rows, where one call of the code is enough.
    whole: Option<Piece>,
}

/// Buffers of one run in bytes, shared by its tasks. They write disjoint pieces of the output, and read an input that
/// is the output only where they write.
struct Buffers<'a> {
    inputs: SmallVec<[InPlaceInput<'a, u8>; MAX_INPUTS]>,
    output: Disjoint<'a, u8>,
    given: Given,
}

impl Chain {
    /// How each operand is read along a row of that geometry.
    #[must_use]
    pub fn lanes(geometry: &Geometry) -> SmallVec<[Lane; 4]> {
        let lane = |operand| if geometry.is_vector(operand) { Lane::Vector } else { Lane::Scalar };
        (0..geometry.operands()).map(lane).collect()
    }

    /// The most vectors in flight, up to `wanted`; 0 where the program has to be interpreted.
    #[must_use]
    pub fn unroll_for(isa: Isa, program: &Program, geometry: &Geometry, wanted: u8) -> u8 {
        ChainCode::unroll_for(isa, &program.erased(), &Chain::lanes(geometry), wanted).unwrap_or(0)
    }

    /// A chain with its code.
    pub fn new(
        isa: Isa,
        program: &Program,
        geometry: &Geometry,
        plan: ChainPlan,
        codes: &dyn CodeSource,
    ) -> Result<Chain> {
        if !program.is_valid() || !geometry.is_valid() || geometry.operands() != program.inputs.len() {
            return Err(refuse("the program and its operands do not fit together"));
        }
        let on_bytes = Some(isa).filter(|_| logic::is_logical(program));
        let code = match plan.unroll {
            0 => None,
            _ if on_bytes.is_some() => None,
            unroll => {
                let (program, lanes) = (program.erased(), Chain::lanes(geometry));
                Some(codes.code(&CodeKey::Chain(ChainCode { isa, program, lanes, unroll }))?)
            }
        };
        let split = Split::new(geometry, plan.tasks);
        let has_bools = program.output == Storage::Bool || program.inputs.contains(&Storage::Bool);
        let whole = if code.is_none() || has_bools { None } else { split.whole(geometry) };
        let elements = geometry.elements();
        let extents = (0..geometry.operands()).map(|operand| geometry.extent(operand)).collect();
        let (program, geometry) = (program.clone(), geometry.clone());
        Ok(Chain { program, geometry, code, on_bytes, split, elements, extents, whole })
    }

    /// Bytes that the chain holds besides its code.
    #[must_use]
    pub fn size(&self) -> usize {
        size_of::<Chain>() + std::mem::size_of_val(self.program.steps.as_slice())
    }

    /// Whether emitted code runs.
    #[cfg(test)]
    pub(super) fn is_emitted(&self) -> bool {
        self.code.is_some()
    }

    /// Computes the output.
    pub fn run(&self, operands: &[Operand<'_>], target: &mut Target<'_>, parallel: &dyn Parallel) -> Result<()> {
        let buffers = self.check(operands, target)?;
        if let (Some(code), Some(piece)) = (&self.code, self.whole) {
            let strides = (0..operands.len()).map(|operand| self.geometry.row_stride(operand));
            let inputs = buffers.inputs.iter().map(|input| input.at(0).cast()).zip(strides);
            self.call(code, inputs, buffers.output.at(0).cast(), piece.count, piece, &buffers.given);
            return Ok(());
        }
        let has_bools = self.program.output == Storage::Bool || self.program.inputs.contains(&Storage::Bool);
        let task = |task: usize| match &self.code {
            None if self.on_bytes.is_some() => self.compute_bytes(task, &buffers),
            None => self.interpret(task, &buffers),
            Some(code) if has_bools => self.converted(task, code, &buffers),
            Some(code) => self.split.pieces(&self.geometry, task, usize::MAX, |piece| {
                let inputs = (0..self.program.inputs.len()).map(|operand| {
                    // SAFETY: `check` proved that the operand holds all elements of the geometry.
                    let from = unsafe { buffers.inputs[operand].at(0).cast::<f32>().add(self.start(operand, piece)) };
                    (from, self.geometry.row_stride(operand))
                });
                let inner = self.geometry.inner();
                // SAFETY: the piece lies within the output, which `check` measured.
                let output = unsafe { buffers.output.at(0).cast::<f32>().add(piece.row * inner + piece.from) };
                self.call(code, inputs, output, inner, piece, &buffers.given);
            }),
        };
        match self.split.tasks() {
            1 => task(0),
            tasks => parallel.run(tasks, &task),
        }
        Ok(())
    }

    /// Checks operands and output against the geometry.
    fn check<'a>(&self, operands: &[Operand<'a>], target: &'a mut Target<'_>) -> Result<Buffers<'a>> {
        let elements = self.elements;
        let mut given = Given::new();
        let (output, have, storage) = match target {
            Target::F32(slice) => {
                given = given.write("output", slice);
                let have = slice.len();
                (Disjoint::new(bytemuck::cast_slice_mut(slice)), have, Storage::F32)
            }
            Target::Bool(slice) => {
                let have = slice.len();
                (Disjoint::new(slice), have, Storage::Bool)
            }
        };
        if storage != self.program.output || operands.len() != self.program.inputs.len() {
            return Err(refuse("an operand or the output has another storage than the program says"));
        }
        bounds("output", have, elements)?;
        let mut inputs = SmallVec::new();
        for (index, operand) in operands.iter().enumerate() {
            let (input, have, found) = match operand {
                Operand::F32(slice) => {
                    given = given.read("operand", slice);
                    (InPlaceInput::apart(bytemuck::cast_slice(slice)), slice.len(), Storage::F32)
                }
                Operand::Bool(slice) => (InPlaceInput::apart(slice), slice.len(), Storage::Bool),
                Operand::Output => {
                    // An operand with other strides than the output's would be overwritten before it is read.
                    if self.extents[index] != elements {
                        return Err(refuse("an operand that is broadcast cannot be the output"));
                    }
                    (InPlaceInput::of_output(&output), have, storage)
                }
            };
            if found != self.program.inputs[index] {
                return Err(refuse("an operand has another storage than the program says"));
            }
            bounds("operand", have, self.extents[index])?;
            inputs.push(input);
        }
        Ok(Buffers { inputs, output, given })
    }

    /// Calls the kernel for one piece. Each input is the address of the piece's first element and the number of
    /// elements from row to row; `output_step` is that number for the output.
    fn call(
        &self,
        code: &Code,
        inputs: impl Iterator<Item = (*const f32, usize)>,
        output: *mut f32,
        output_step: usize,
        piece: Piece,
        given: &Given,
    ) {
        let mut args = Args {
            inputs: [std::ptr::null(); MAX_INPUTS],
            output,
            rows: piece.rows,
            inner: piece.count,
            input_steps: [0; MAX_INPUTS],
            output_step: output_step * size_of::<f32>(),
        };
        for (index, (pointer, step)) in inputs.enumerate().take(MAX_INPUTS) {
            args.inputs[index] = pointer;
            args.input_steps[index] = step * size_of::<f32>();
        }
        // SAFETY: the code was emitted for this struct by `Chain::new`; every pointer is valid for the rows and
        // elements of the piece, as the callers show.
        unsafe { code.call(&args, &self.geometry, given) };
    }

    /// The offset of the operand's first element of the piece.
    fn start(&self, operand: usize, piece: Piece) -> usize {
        let along = if self.geometry.is_vector(operand) { piece.from } else { 0 };
        self.geometry.offset(operand, piece.row) + along
    }

    /// One task with booleans, converted piece by piece.
    fn converted(&self, task: usize, code: &Code, buffers: &Buffers<'_>) {
        let inputs = self.program.inputs.len();
        let mut scratch = vec![0f32; CONVERTED * (inputs + 1)];
        let given = buffers.given.clone().write("scratch", &mut scratch);
        let (results, operands) = scratch.split_at_mut(CONVERTED);
        self.split.pieces(&self.geometry, task, CONVERTED, |piece| {
            let elements = piece.rows * piece.count;
            let sources = operands.chunks_mut(CONVERTED).enumerate().map(|(operand, scratch)| {
                match self.program.inputs[operand] {
                    Storage::F32 => {
                        // SAFETY: as in `run`.
                        let from =
                            unsafe { buffers.inputs[operand].at(0).cast::<f32>().add(self.start(operand, piece)) };
                        (from, self.geometry.row_stride(operand))
                    }
                    Storage::Bool => {
                        self.gather(operand, piece, buffers, &mut scratch[..elements]);
                        // A scalar is spread over its row too; the kernel reads the first element of each row.
                        (scratch.as_ptr(), piece.count)
                    }
                }
            });
            let at = piece.row * self.geometry.inner() + piece.from;
            match self.program.output {
                Storage::F32 => {
                    // SAFETY: as in `run`.
                    let output = unsafe { buffers.output.at(0).cast::<f32>().add(at) };
                    self.call(code, sources, output, self.geometry.inner(), piece, &given);
                }
                Storage::Bool => {
                    self.call(code, sources, results.as_mut_ptr(), piece.count, piece, &given);
                    self.scatter(piece, buffers, &results[..elements]);
                }
            }
        });
    }

    /// One task of a program of booleans alone.
    fn compute_bytes(&self, task: usize, buffers: &Buffers<'_>) {
        let isa = self.on_bytes.unwrap_or(Isa::Portable);
        let mut values = memory::zeroed::<u8>((self.program.inputs.len() + self.program.steps.len()) * logic::BLOCK);
        self.split.pieces(&self.geometry, task, logic::BLOCK, |piece| {
            for (operand, values) in values.chunks_mut(logic::BLOCK).enumerate().take(self.program.inputs.len()) {
                for (index, row) in values[..piece.rows * piece.count].chunks_mut(piece.count).enumerate() {
                    let start = self.start(operand, piece) + index * self.geometry.row_stride(operand);
                    let count = if self.geometry.is_vector(operand) { piece.count } else { 1 };
                    // SAFETY: as in `run`; where the operand is the output, only this task writes these elements.
                    let from = unsafe { std::slice::from_raw_parts(buffers.inputs[operand].at(0).add(start), count) };
                    match from {
                        [only] => row.fill(u8::from(*only != 0)),
                        from => logic::normalise(isa, from, row),
                    }
                }
            }
            let result = logic::compute(isa, &self.program, &mut values, piece.rows * piece.count);
            for (index, row) in result.chunks(piece.count).enumerate() {
                let at = (piece.row + index) * self.geometry.inner() + piece.from;
                // SAFETY: the piece lies within the output, and no other task writes to it.
                unsafe { std::slice::from_raw_parts_mut(buffers.output.at(at), row.len()) }.copy_from_slice(row);
            }
        });
    }

    /// One task, interpreted.
    fn interpret(&self, task: usize, buffers: &Buffers<'_>) {
        let mut interpreter = Interpreter::new(&self.program);
        self.split.pieces(&self.geometry, task, BLOCK, |piece| {
            let elements = piece.rows * piece.count;
            for operand in 0..self.program.inputs.len() {
                self.gather(operand, piece, buffers, &mut interpreter.operand(operand)[..elements]);
            }
            self.scatter(piece, buffers, interpreter.run(elements));
        });
    }

    /// Reads an operand's elements of a piece to `to`, row after row, broadcast.
    fn gather(&self, operand: usize, piece: Piece, buffers: &Buffers<'_>, to: &mut [f32]) {
        for (index, row) in to.chunks_mut(piece.count).enumerate() {
            let start = self.start(operand, piece) + index * self.geometry.row_stride(operand);
            let count = if self.geometry.is_vector(operand) { piece.count } else { 1 };
            let from = buffers.inputs[operand].at(0);
            match self.program.inputs[operand] {
                Storage::F32 => {
                    // SAFETY: as in `run`; where the operand is the output, only this task writes these elements.
                    let from = unsafe { std::slice::from_raw_parts(from.cast::<f32>().add(start), count) };
                    spread(from, row, <[f32]>::copy_from_slice);
                }
                Storage::Bool => {
                    // SAFETY: as above.
                    let from = unsafe { std::slice::from_raw_parts(from.add(start), count) };
                    spread(from, row, |row, from| booleans::to_numbers(Isa::detect(), from, row));
                }
            }
        }
    }

    /// Writes a piece of the output, which is row after row in `from`.
    fn scatter(&self, piece: Piece, buffers: &Buffers<'_>, from: &[f32]) {
        let inner = self.geometry.inner();
        for (index, row) in from.chunks(piece.count).enumerate() {
            let at = (piece.row + index) * inner + piece.from;
            match self.program.output {
                Storage::F32 => {
                    // SAFETY: the piece lies within the output, and no other task writes to it.
                    let to = unsafe {
                        std::slice::from_raw_parts_mut(buffers.output.at(0).cast::<f32>().add(at), row.len())
                    };
                    to.copy_from_slice(row);
                }
                Storage::Bool => {
                    // SAFETY: as above.
                    let to = unsafe { std::slice::from_raw_parts_mut(buffers.output.at(at), row.len()) };
                    booleans::to_bytes(Isa::detect(), row, to);
                }
            }
        }
    }
}

/// Converts `from` into `to`, or its one element into all of it.
fn spread<T>(from: &[T], to: &mut [f32], convert: impl Fn(&mut [f32], &[T])) {
    if let ([_], [first, ..]) = (from, &mut *to) {
        convert(std::slice::from_mut(first), from);
        let value = *first;
        to.fill(value);
    } else {
        convert(to, from);
    }
}

fn refuse(reason: &str) -> KernelError {
    KernelError::Unsupported { family: "chain", reason: reason.to_owned() }
}

fn bounds(operand: &'static str, have: usize, need: usize) -> Result<()> {
    if have < need { Err(KernelError::Bounds { family: "chain", operand, have, need }) } else { Ok(()) }
}
