//! Register allocation of a chain, for one vector in flight; the emitter repeats it for the others.
//!
//! A value lives from the step that computes it to the last step that reads it, and the registers (here: slots,
//! numbered from 0) of dead values are used again. Constants have no slot, since instructions read them from the
//! constant table. An operand that one step reads as its second has none either: the instruction reads memory. Depends
//! on no instruction set and no loop.

use smallvec::SmallVec;

use super::geometry::Lane;
use crate::cpu::vecmath;
use crate::problem::chain::{BinaryOp, Program, Step};

/// The location that a step reads a value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A slot.
    Slot(usize),
    /// The register of an operand that is one element a row, by its index in [`Body::scalars`].
    Scalar(usize),
    /// The constant table; the bits of the constant.
    Const(u32),
    /// An operand's vector in memory.
    Memory(usize),
}

/// A step and the locations of its values.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) step: Step,
    /// Operands to load first, and the slots that they are loaded into.
    pub(super) loads: SmallVec<[(usize, usize); 2]>,
    /// The location of each value that the step reads, in the step's order.
    pub(super) reads: SmallVec<[Place; 3]>,
    /// The slot of its result.
    pub(super) dst: usize,
}

/// A program with its register allocation.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) steps: Vec<Planned>,
    /// The slot of the result.
    pub(super) result: usize,
    /// Slots of one vector in flight.
    pub(super) slots: usize,
    /// The most temporaries that a step needs.
    pub(super) temps: usize,
    /// Operands that are one element a row, of those that are read.
    pub(super) scalars: SmallVec<[usize; 4]>,
}

/// Temporaries of a selection: one for each read that is a constant, of its three reads, and the mask.
const SELECT_TEMPS: usize = 4;

/// Allocates registers; `None` where a step has no code.
pub(super) fn plan(program: &Program, lanes: &[Lane]) -> Option<Body> {
    let temps = program.steps.iter().map(temps_of).try_fold(0, |most, temps| temps.map(|temps| most.max(temps)))?;
    let mut planner = Planner::new(program, lanes);
    let last = program.steps.len() - 1;
    let steps: Vec<Planned> = program
        .steps
        .iter()
        .enumerate()
        // Constants are read where they are used. The last step gives the result, so it has a slot in any case.
        .filter(|(index, step)| *index == last || !matches!(step, Step::Const(_)))
        .map(|(index, step)| planner.step(index, *step))
        .collect();
    let result = steps.last()?.dst;
    Some(Body { steps, result, slots: planner.used, temps, scalars: planner.scalars })
}

fn temps_of(step: &Step) -> Option<usize> {
    match *step {
        Step::Const(_) => Some(0),
        Step::Unary(op, _) => vecmath::emits(op).then(|| vecmath::temps(op)),
        Step::Binary(op, _, _) => vecmath::emits_binary(op).then(|| vecmath::binary_temps(op)),
        Step::Select { .. } => Some(SELECT_TEMPS),
    }
}

struct Planner<'p> {
    program: &'p Program,
    lanes: &'p [Lane],
    /// The last step that reads each value.
    last_read: Vec<usize>,
    /// How often each value is read.
    reads: Vec<usize>,
    /// The slot of each value that has one.
    slots: Vec<Option<usize>>,
    free: Vec<usize>,
    used: usize,
    scalars: SmallVec<[usize; 4]>,
}

impl<'p> Planner<'p> {
    fn new(program: &'p Program, lanes: &'p [Lane]) -> Planner<'p> {
        let values = program.inputs.len() + program.steps.len();
        let mut last_read = vec![0; values];
        let mut reads = vec![0; values];
        for (index, step) in program.steps.iter().enumerate() {
            for value in step.reads() {
                last_read[usize::from(value)] = index;
                reads[usize::from(value)] += 1;
            }
        }
        let scalars = (0..program.inputs.len()).filter(|&i| lanes[i] == Lane::Scalar && reads[i] > 0).collect();
        Planner { program, lanes, last_read, reads, slots: vec![None; values], free: Vec::new(), used: 0, scalars }
    }

    fn step(&mut self, index: usize, step: Step) -> Planned {
        let mut loads = SmallVec::new();
        let mut values: SmallVec<[u8; 3]> = step.reads().collect();
        let step = match step {
            // A commutative step reads memory as its second operand.
            Step::Binary(op, a, b) if commutes(op) && self.in_memory(a) && !self.in_memory(b) => {
                values.swap(0, 1);
                Step::Binary(op, b, a)
            }
            other => other,
        };
        let second = match step {
            Step::Binary(_, a, b) if self.in_memory(b) && a != b => Some(1),
            _ => None,
        };
        let reads: SmallVec<[Place; 3]> = values
            .iter()
            .enumerate()
            .map(|(position, &value)| self.place(value, second == Some(position), &mut loads))
            .collect();
        // A first operand without a register is loaded into the result's register before the second is read, so the
        // result must not share the second's register then.
        let loads_first = matches!(step, Step::Binary(..)) && matches!(reads[0], Place::Const(_) | Place::Memory(_));
        let dst = if loads_first {
            let dst = self.take();
            self.release(index, &values);
            dst
        } else {
            self.release(index, &values);
            // In place if possible: a function of one value works on the register of its argument.
            let preferred = reads.first().and_then(|place| match place {
                Place::Slot(slot) => self.free.iter().position(|free| free == slot),
                _ => None,
            });
            match preferred {
                Some(position) => self.free.swap_remove(position),
                None => self.take(),
            }
        };
        self.slots[self.program.inputs.len() + index] = Some(dst);
        Planned { step, loads, reads, dst }
    }

    /// Whether the value is an operand that varies along the row, is read once and has not been loaded.
    fn in_memory(&self, value: u8) -> bool {
        let value = usize::from(value);
        value < self.program.inputs.len() && self.lanes[value] == Lane::Vector && self.reads[value] == 1
    }

    fn place(&mut self, value: u8, from_memory: bool, loads: &mut SmallVec<[(usize, usize); 2]>) -> Place {
        let number = usize::from(value);
        if let Some(slot) = self.slots[number] {
            return Place::Slot(slot);
        }
        if number >= self.program.inputs.len() {
            // Only constants are without a slot here.
            return Place::Const(self.program.constant_of(value).unwrap_or(f32::NAN).to_bits());
        }
        if self.lanes[number] == Lane::Scalar {
            return Place::Scalar(self.scalars.iter().position(|&operand| operand == number).unwrap_or(0));
        }
        if from_memory {
            return Place::Memory(number);
        }
        let slot = self.take();
        self.slots[number] = Some(slot);
        loads.push((number, slot));
        Place::Slot(slot)
    }

    fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        })
    }

    /// Frees the slots of the values that step `index` reads last.
    fn release(&mut self, index: usize, values: &[u8]) {
        for &value in values {
            let number = usize::from(value);
            if self.last_read[number] == index
                && let Some(slot) = self.slots[number]
                && !self.free.contains(&slot)
            {
                self.free.push(slot);
            }
        }
    }
}

/// Whether `emit_binary` may have its operands exchanged with the same result, NaN included.
fn commutes(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Add
            | BinaryOp::Mul
            | BinaryOp::Equal
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::Max
            | BinaryOp::Min
    )
}
