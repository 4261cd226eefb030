//! Emitting a chain: two nested loops over rows and their elements, with the program's steps between loads and the
//! store.
//!
//! Registers are allocated once ([`super::allocate`]), and the body is emitted three times: for several vectors while
//! as many are left of the row, for one vector, and under a mask for the rest. Row lengths and strides are run-time
//! arguments. Everything here is `f32`; the driver converts booleans.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::allocate::{Body, Place, Planned, plan};
use super::geometry::{Geometry, Lane};
use crate::cpu::vecmath::{Copies, Interleaved, emit_binary, emit_select, emit_unary_interleaved};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::asm::Src;
use crate::jit::{Arguments, Asm, Extents, Gpr, Mask, Mem, Vreg, arg};
use crate::problem::chain::{MAX_INPUTS, Program, Step};

/// What determines the instructions of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ChainCode {
    /// Level.
    pub isa: Isa,
    /// The computation, over `f32` operands ([`Program::erased`]).
    pub program: Program,
    /// How each operand is read along a row.
    pub lanes: SmallVec<[Lane; 4]>,
    /// Vectors in flight, 1 to [`MAX_UNROLL`].
    pub unroll: u8,
}

/// Most vectors in flight: enough to hide the latency of loads and of short dependent steps.
pub const MAX_UNROLL: u8 = 4;

/// Arguments of an emitted chain. Strides are in bytes.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Args {
    pub(super) inputs: [*const f32; MAX_INPUTS],
    pub(super) output: *mut f32,
    pub(super) rows: usize,
    pub(super) inner: usize,
    pub(super) input_steps: [usize; MAX_INPUTS],
    pub(super) output_step: usize,
}

impl Arguments for Args {
    const FAMILY: &'static str = "chain";
    type Kernel = Geometry;

    fn extents(&self, geometry: &Geometry, extents: &mut Extents<'_>) {
        let row = self.inner.saturating_mul(4);
        for operand in 0..geometry.operands() {
            let bytes = if geometry.is_vector(operand) { row } else { 4 };
            extents.read("an operand", self.inputs[operand]).over(self.rows, self.input_steps[operand]).bytes(bytes);
        }
        extents.write("output", self.output).over(self.rows, self.output_step).bytes(row);
    }
}

const INPUTS: [Gpr; MAX_INPUTS] = [Gpr::R8, Gpr::R9, Gpr::R10, Gpr::R11, Gpr::R12, Gpr::R13];
const OUTPUT: Gpr = Gpr::R14;
/// Bytes of the row that are done, bytes of the row, and the last offsets at which a group of vectors or a vector still
/// fits.
const DONE: Gpr = Gpr::RAX;
const ROW: Gpr = Gpr::RCX;
const BLOCK_LIMIT: Gpr = Gpr::RDX;
const VECTOR_LIMIT: Gpr = Gpr::RSI;
const ROWS_LEFT: Gpr = Gpr::RBX;
const COUNT: Gpr = Gpr::R15;
const SCRATCH: Gpr = Gpr::RBP;

/// Bytes of a cache line.
const LINE: i32 = 64;

/// How far ahead operands and the result are prefetched, in bytes. Functions of many steps fill the processor's window,
/// so that it does not reach the next loads. Stores wait for their lines as loads do: on AVX-512, GELU over 128 MiB
/// took 0.8 of its time with it, and a sum 0.95. Between 1 and 2 KiB the distance makes no difference.
const AHEAD: i32 = 1536;

/// The mask register of the tail; the emitted functions use another one ([`crate::cpu::vecmath::MASK`]).
const TAIL: u8 = 0;

impl ChainCode {
    /// The most vectors in flight, up to `wanted`, for which the registers of `isa` are enough; `None` where they are
    /// not enough for one, or a step has no code: such programs are interpreted.
    #[must_use]
    pub fn unroll_for(isa: Isa, program: &Program, lanes: &[Lane], wanted: u8) -> Option<u8> {
        if !isa.is_jit() {
            return None;
        }
        let body = plan(program, lanes)?;
        (1..=wanted.clamp(1, MAX_UNROLL)).rev().find(|&unroll| registers(&body, unroll) <= usize::from(isa.registers()))
    }
}

/// Registers of a kernel with `unroll` vectors in flight: the larger number of the unrolled body, where each vector has
/// its own temporaries, and the tail with its mask and one more temporary.
fn registers(body: &Body, unroll: u8) -> usize {
    let each = body.temps + body.slots;
    body.scalars.len() + (each * usize::from(unroll)).max(each + 2)
}

/// Emits the chain.
pub(crate) fn emit(code: &ChainCode, asm: &mut Asm) -> Result<()> {
    let refuse = |reason: &str| KernelError::Unsupported { family: "chain", reason: reason.to_owned() };
    if !code.program.is_valid() || code.lanes.len() != code.program.inputs.len() {
        return Err(refuse("the program and its operands do not fit together"));
    }
    if ChainCode::unroll_for(code.isa, &code.program, &code.lanes, code.unroll) != Some(code.unroll) {
        return Err(refuse("the program needs more registers than there are, or has a step without code"));
    }
    let body = plan(&code.program, &code.lanes).ok_or_else(|| refuse("a step without code"))?;
    Emitter { body: &body, lanes: &code.lanes }.kernel(asm, code.unroll);
    Ok(())
}

struct Emitter<'a> {
    body: &'a Body,
    lanes: &'a [Lane],
}

impl Emitter<'_> {
    fn kernel(&self, asm: &mut Asm, unroll: u8) {
        let (vector, operands) = (asm.vector_bytes(), &INPUTS[..self.lanes.len()]);
        asm.prologue();
        for (index, &pointer) in operands.iter().enumerate() {
            asm.load(pointer, arg!(Args.inputs).plus(index as i32 * 8));
        }
        asm.load(OUTPUT, arg!(Args.output));
        asm.load(ROWS_LEFT, arg!(Args.rows));
        asm.load(ROW, arg!(Args.inner));
        asm.shl_imm(ROW, 2);
        asm.lea(BLOCK_LIMIT, Mem::at(ROW, -vector * i32::from(unroll)));
        asm.lea(VECTOR_LIMIT, Mem::at(ROW, -vector));
        asm.for_each(ROWS_LEFT, 1, |asm| {
            self.row(asm, unroll);
            for (index, &pointer) in operands.iter().enumerate() {
                asm.add_mem(pointer, arg!(Args.input_steps).plus(index as i32 * 8));
            }
            asm.add_mem(OUTPUT, arg!(Args.output_step));
        });
        asm.epilogue();
    }

    fn row(&self, asm: &mut Asm, unroll: u8) {
        for (place, &operand) in self.body.scalars.iter().enumerate() {
            asm.vbroadcast(self.scalar(place), Mem::at(INPUTS[operand], 0));
        }
        asm.mov_imm(DONE, 0);
        if unroll > 1 {
            self.vectors(asm, unroll, BLOCK_LIMIT);
        }
        self.vectors(asm, 1, VECTOR_LIMIT);
        self.tail(asm);
    }

    /// A loop over `copies` vectors at a time, while DONE is at most `limit`.
    fn vectors(&self, asm: &mut Asm, copies: u8, limit: Gpr) {
        // Large operands spend their time in the loop over several vectors.
        let align = if copies > 1 { 32 } else { 1 };
        asm.while_at_most(DONE, limit, align, |asm| {
            if copies > 1 {
                self.prefetch(asm, copies);
            }
            self.steps(asm, copies, None);
            asm.add_imm(DONE, asm.vector_bytes() * i32::from(copies));
        });
    }

    /// Prefetches what `copies` vectors will read and write [`AHEAD`] bytes further on.
    fn prefetch(&self, asm: &mut Asm, copies: u8) {
        let vectors = self.lanes.iter().zip(INPUTS).filter(|(lane, _)| **lane == Lane::Vector);
        let pointers: SmallVec<[Gpr; 8]> = vectors.map(|(_, pointer)| pointer).chain([OUTPUT]).collect();
        for copy in (0..copies).step_by((LINE / asm.vector_bytes()).max(1) as usize) {
            pointers.iter().for_each(|&pointer| asm.prefetch(at(asm, pointer, copy).plus(AHEAD)));
        }
    }

    /// The rest of the row, less than a vector.
    fn tail(&self, asm: &mut Asm) {
        asm.unless_equal(DONE, ROW, |asm| {
            asm.mov(COUNT, ROW);
            asm.sub(COUNT, DONE);
            asm.shr_imm(COUNT, 2);
            let mask = asm.mask(TAIL, self.extra(0));
            asm.mask_first(mask, COUNT, SCRATCH);
            self.steps(asm, 1, Some(mask));
        });
    }

    /// All steps for `copies` vectors from DONE on. Each step is emitted for every vector before the next step, so that
    /// neighbouring instructions are independent.
    fn steps(&self, asm: &mut Asm, copies: u8, tail: Option<Mask>) {
        for planned in &self.body.steps {
            if let Step::Unary(op, _) = planned.step {
                (0..copies).for_each(|copy| self.argument(asm, planned, copy, tail));
                let (dst, temps) = (self.slot(planned.dst, 0), self.temps(0));
                let copies = self.copies(asm, copies);
                emit_unary_interleaved(&mut Interleaved::new(asm, copies), op, dst, &temps);
                continue;
            }
            for copy in 0..copies {
                self.step(asm, planned, copy, tail);
            }
        }
        for copy in 0..copies {
            asm.vstore_lanes(at(asm, OUTPUT, copy), tail, self.slot(self.body.result, copy));
        }
    }

    fn loads(&self, asm: &mut Asm, planned: &Planned, copy: u8, tail: Option<Mask>) {
        for &(operand, slot) in &planned.loads {
            let register = self.slot(slot, copy);
            self.load(asm, register, operand, copy, tail);
        }
    }

    /// Loads the argument of a function of one value into the register of its result.
    fn argument(&self, asm: &mut Asm, planned: &Planned, copy: u8, tail: Option<Mask>) {
        self.loads(asm, planned, copy, tail);
        let value = self.source(asm, planned.reads[0], copy, tail);
        let dst = self.slot(planned.dst, copy);
        asm.vload(dst, value);
    }

    /// Emits any step but a function of one value.
    fn step(&self, asm: &mut Asm, planned: &Planned, copy: u8, tail: Option<Mask>) {
        self.loads(asm, planned, copy, tail);
        let dst = self.slot(planned.dst, copy);
        let temps = self.temps(copy);
        match planned.step {
            Step::Const(bits) => asm.vload(dst, Src::Const(bits.0)),
            Step::Unary(..) => {}
            Step::Binary(op, _, _) => {
                let a = match self.source(asm, planned.reads[0], copy, tail) {
                    Src::Reg(register) => register,
                    other => {
                        asm.vload(dst, other);
                        dst
                    }
                };
                let b = self.source(asm, planned.reads[1], copy, tail);
                emit_binary(asm, op, dst, a, b, &temps);
            }
            Step::Select { .. } => {
                // Each of the three may be a constant, which is then loaded into a temporary.
                let registers: SmallVec<[Vreg; 3]> = (0..3)
                    .map(|index| match self.source(asm, planned.reads[index], copy, tail) {
                        Src::Reg(register) => register,
                        other => {
                            asm.vload(temps[index], other);
                            temps[index]
                        }
                    })
                    .collect();
                emit_select(asm, dst, registers[0], registers[1], registers[2], temps[3]);
            }
        }
    }

    /// Where a step reads a value. In the tail, an operand in memory is loaded under the mask first, because memory
    /// beyond its end must not be read.
    fn source(&self, asm: &mut Asm, place: Place, copy: u8, tail: Option<Mask>) -> Src {
        match place {
            Place::Slot(slot) => Src::Reg(self.slot(slot, copy)),
            Place::Scalar(index) => Src::Reg(self.scalar(index)),
            Place::Const(bits) => Src::Const(bits),
            Place::Memory(operand) if tail.is_some() => {
                let register = self.extra(1);
                self.load(asm, register, operand, copy, tail);
                Src::Reg(register)
            }
            Place::Memory(operand) => Src::Mem(at(asm, INPUTS[operand], copy)),
        }
    }

    fn load(&self, asm: &mut Asm, register: Vreg, operand: usize, copy: u8, tail: Option<Mask>) {
        asm.vload_lanes(register, tail, at(asm, INPUTS[operand], copy));
    }

    // Registers from 0 on: scalars, then temporaries and slots of each vector in flight, then, where a register is
    // left, the constant that they share. The tail has one vector, and its mask and one more temporary after it.

    fn scalar(&self, index: usize) -> Vreg {
        Vreg(index as u8)
    }

    /// Registers of one vector in flight.
    fn each(&self) -> usize {
        self.body.temps + self.body.slots
    }

    fn temps(&self, copy: u8) -> SmallVec<[Vreg; 8]> {
        let first = self.body.scalars.len() + usize::from(copy) * self.each();
        (0..self.body.temps).map(|index| Vreg((first + index) as u8)).collect()
    }

    fn slot(&self, slot: usize, copy: u8) -> Vreg {
        Vreg((self.body.scalars.len() + usize::from(copy) * self.each() + self.body.temps + slot) as u8)
    }

    fn extra(&self, index: usize) -> Vreg {
        Vreg((self.body.scalars.len() + self.each() + index) as u8)
    }

    fn copies(&self, asm: &Asm, count: u8) -> Copies {
        let (first, each) = (self.body.scalars.len() as u8, self.each() as u8);
        let next = first + count * each;
        let constant = (count > 1 && next < asm.registers()).then_some(Vreg(next));
        Copies { count, first, each, constant }
    }
}

/// The address of vector `copy` of those in flight.
fn at(asm: &Asm, base: Gpr, copy: u8) -> Mem {
    Mem::indexed(base, DONE, 1, i32::from(copy) * asm.vector_bytes())
}
