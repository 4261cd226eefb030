//! Assembles the sliding kernel.
//!
//! Position `t` of the output starts with column `stride * t` of the block. At step `t` the columns up to the next
//! position's are loaded, and each is multiplied into the sums of all positions in flight that see it: the youngest,
//! `t`, with the first weights of a line, the oldest with the last ones. Then the oldest is stored and the others move
//! up by a register. Moves cost no execution slot; an unrolled loop would need an ending for every rotation.
//!
//! The first steps of a block have fewer positions in flight, and so have the steps after its last position.

use std::mem::offset_of;
use std::ops::Range;

use super::{Lanes, SlideArgs, SlideCode};
use crate::cpu::Stored;
use crate::cpu::activation::{self, Place};
use crate::cpu::chain::UnaryOp;
use crate::jit::{Asm, Cond, Gpr, Label, Mem, Src, Vreg};

/// The argument struct.
const ARGS: Gpr = Gpr::RDI;
/// Input lines.
const LINES: [Gpr; super::MOST_LINES] = [Gpr::R8, Gpr::R9, Gpr::R10, Gpr::R11, Gpr::R12, Gpr::R13, Gpr::R14, Gpr::R15];
/// The offset of the current column from the addresses of lines, with channels.
const COLUMN: Gpr = Gpr::RSI;
/// Stride of columns and of output positions.
const STEP: Gpr = Gpr::RDX;
/// The oldest position of the first output line, and the offset of the second line.
const Y: Gpr = Gpr::RCX;
const Y_ROW: Gpr = Gpr::RBX;
/// Three times that offset, where there are four output lines: they see one input line less than there are registers
/// for.
const Y_ROW3: Gpr = LINES[super::MOST_LINES - 1];
const COUNT: Gpr = Gpr::RBP;
const OTHER: Gpr = Gpr::RAX;

macro_rules! arg {
    ($field:ident) => {
        Mem::at(ARGS, offset_of!(SlideArgs, $field) as i32)
    };
}

/// Assembles the kernel of that key: a variant for each number of output lines.
pub(super) fn slide(asm: &mut Asm, key: &SlideCode) {
    let done = asm.label();
    let fewer: Vec<(usize, Label)> = (1..key.rows()).map(|rows| (rows, asm.label())).collect();
    asm.prologue();
    for (index, &line) in LINES.iter().enumerate() {
        asm.load(line, arg!(lines).plus(8 * index as i32));
    }
    asm.load(STEP, arg!(step));
    asm.load(Y_ROW, arg!(y_row));
    asm.load(OTHER, arg!(rows));
    for &(rows, label) in &fewer {
        asm.cmp_imm(OTHER, rows as i32);
        asm.jump_if(Cond::Equal, label);
    }
    Variant::new(asm, key, key.rows()).emit();
    for &(rows, label) in fewer.iter().rev() {
        asm.jump(done);
        asm.bind(label);
        Variant::new(asm, key, rows).emit();
    }
    asm.bind(done);
    asm.epilogue();
}

/// A step's place in the block: that decides which positions are in flight and which columns may be missing.
#[derive(Clone, Copy)]
enum Stage {
    /// One of the first steps.
    Head(usize),
    Steady,
    /// One of the steps after the last position.
    Tail(usize),
}

struct Variant<'a> {
    asm: &'a mut Asm,
    key: &'a SlideCode,
    rows: usize,
    /// Kernel and strides.
    height: usize,
    width: usize,
    down: usize,
    along: usize,
    flight: usize,
    /// Weights in registers.
    kept: usize,
    activation: Option<(UnaryOp, Place)>,
}

impl<'a> Variant<'a> {
    fn new(asm: &'a mut Asm, key: &'a SlideCode, rows: usize) -> Variant<'a> {
        let ([height, width], [down, along]) = (key.kernel.map(usize::from), key.strides.map(usize::from));
        let (activation, more) = key.place(rows);
        let free = usize::from(key.isa.registers()) - rows * key.flight() - 1;
        let kept = key.taps().min(free - more.min(free));
        Variant { asm, key, rows, height, width, down, along, flight: key.flight(), kept, activation }
    }

    fn emit(mut self) {
        let (channels, more, done) = (self.asm.label(), self.asm.label(), self.asm.label());
        if self.rows > 3 {
            self.asm.lea(Y_ROW3, Mem::indexed(Y_ROW, Y_ROW, 2, 0));
        }
        self.asm.align(16);
        self.asm.bind(channels);
        self.start();
        for step in 0..self.flight - 1 {
            self.step(Stage::Head(step));
        }
        let (steady, ending) = (self.asm.label(), self.asm.label());
        self.asm.load(COUNT, arg!(steady));
        self.asm.test(COUNT);
        self.asm.jump_if(Cond::Equal, ending);
        self.asm.align(32);
        self.asm.bind(steady);
        self.step(Stage::Steady);
        self.asm.sub_imm(COUNT, 1);
        self.asm.test(COUNT);
        self.asm.jump_if(Cond::NotEqual, steady);
        self.asm.bind(ending);
        for step in 0..self.flight - 1 {
            self.step(Stage::Tail(step));
        }
        if let Some((op, Place::Memory)) = self.activation {
            self.again(op);
        }
        self.asm.load(OTHER, arg!(channel));
        self.asm.load(COUNT, arg!(last));
        self.asm.cmp(OTHER, COUNT);
        self.asm.jump_if(Cond::GreaterEqual, done);
        self.asm.add_imm(OTHER, self.asm.lanes() as i32 * self.key.stored.bytes() as i32);
        self.asm.cmp(OTHER, COUNT);
        self.asm.jump_if(Cond::LessEqual, more);
        self.asm.mov(OTHER, COUNT);
        self.asm.bind(more);
        self.asm.store(arg!(channel), OTHER);
        self.asm.jump(channels);
        self.asm.bind(done);
    }

    /// Prefetches the weights and the bias of a vector of channels.
    fn start(&mut self) {
        let (zero, ready) = (self.asm.label(), self.asm.label());
        let x = self.x();
        // Weights and bias are `f32`: their channels and taps are `times` times as far apart as the input's.
        let times = Stored::F32.bytes() / self.key.stored.bytes();
        self.asm.load(COLUMN, arg!(channel));
        self.asm.load(Y, arg!(weights));
        (0..times).for_each(|_| self.asm.add(Y, COLUMN));
        for tap in 0..self.key.taps() {
            if tap > 0 {
                (0..times).for_each(|_| self.asm.add(Y, STEP));
            }
            if let Src::Mem(slot) = self.weight(tap) {
                self.asm.vload(x, Mem::at(Y, 0));
                self.asm.vstore(slot, x);
            } else {
                self.asm.vload(self.kept_weight(tap), Mem::at(Y, 0));
            }
        }
        self.asm.load(Y, arg!(bias));
        self.asm.test(Y);
        self.asm.jump_if(Cond::Equal, zero);
        self.asm.vload(x, Mem::indexed(Y, COLUMN, times as u8, 0));
        self.asm.jump(ready);
        self.asm.bind(zero);
        self.asm.vzero(x);
        self.asm.bind(ready);
        self.asm.vstore(arg!(first), x);
        self.asm.load(Y, arg!(y));
        self.asm.add(Y, COLUMN);
        self.asm.add_mem(COLUMN, arg!(start));
    }

    fn step(&mut self, stage: Stage) {
        let ages = match stage {
            Stage::Head(step) => 0..step + 1,
            Stage::Steady => 0..self.flight,
            Stage::Tail(step) => step + 1..self.flight,
        };
        if ages.start == 0 {
            for row in 0..self.rows {
                self.asm.vload(self.sum(row, 0), arg!(first));
            }
        }
        for column in 0..self.along {
            self.column(stage, &ages, column);
            let oldest = self.flight - 1;
            if ages.contains(&oldest) && self.along * oldest + column + 1 == self.width {
                self.epilogue();
            }
            self.asm.add(COLUMN, STEP);
        }
        for age in (ages.start..ages.end.min(self.flight - 1)).rev() {
            for row in 0..self.rows {
                self.asm.vmov(self.sum(row, age + 1), self.sum(row, age));
            }
        }
    }

    /// One column of all lines: multiplied into every sum that sees it.
    fn column(&mut self, stage: Stage, ages: &Range<usize>, column: usize) {
        let taps: Vec<(usize, usize)> =
            ages.clone().map(|age| (age, self.along * age + column)).filter(|&(_, along)| along < self.width).collect();
        if taps.is_empty() {
            return;
        }
        let missing = self.asm.label();
        match stage {
            Stage::Steady => (),
            Stage::Head(step) => {
                self.asm.load(OTHER, arg!(missing));
                self.asm.cmp_imm(OTHER, (step * self.along + column) as i32);
                self.asm.jump_if(Cond::Greater, missing);
            }
            Stage::Tail(step) => {
                self.asm.load(OTHER, arg!(ending));
                self.asm.cmp_imm(OTHER, (step * self.along + column) as i32);
                self.asm.jump_if(Cond::LessEqual, missing);
            }
        }
        for (line, &address) in LINES.iter().enumerate().take(self.key.lines(self.rows)) {
            // The kernel's line with which each output line sees it.
            let down: Vec<(usize, usize)> = (0..self.rows)
                .filter_map(|row| Some((row, line.checked_sub(self.down * row)?)))
                .filter(|&(_, down)| down < self.height)
                .collect();
            if down.is_empty() {
                continue;
            }
            let outside = self.asm.label();
            self.asm.test(address);
            self.asm.jump_if(Cond::Equal, outside);
            let x = self.x();
            self.key.stored.load(self.asm, x, None, Mem::indexed(address, COLUMN, 1, 0));
            for &(age, along) in &taps {
                for &(row, down) in &down {
                    let weight = self.weight(down * self.width + along);
                    self.asm.vfma231(self.sum(row, age), x, weight);
                }
            }
            self.asm.bind(outside);
        }
        self.asm.bind(missing);
    }

    /// Stores the oldest position.
    fn epilogue(&mut self) {
        let spare = self.rows * self.flight + 1 + self.kept..usize::from(self.asm.registers());
        let temps: Vec<Vreg> = std::iter::once(self.x()).chain(spare.map(|register| Vreg(register as u8))).collect();
        for row in 0..self.rows {
            let sum = self.sum(row, self.flight - 1);
            if let Some((op, Place::Registers)) = self.activation {
                activation::emit(self.asm, op, sum, &temps);
            }
            self.key.stored.store(self.asm, self.output(row), None, sum, self.x());
        }
        self.asm.add(Y, STEP);
    }

    /// Applies an activation to all stored outputs.
    fn again(&mut self, op: UnaryOp) {
        let position = self.asm.label();
        let temps: Vec<Vreg> = (1..self.asm.registers()).map(Vreg).collect();
        self.asm.load(Y, arg!(y));
        self.asm.add_mem(Y, arg!(channel));
        self.asm.load(COUNT, arg!(positions));
        self.asm.bind(position);
        for row in 0..self.rows {
            self.key.stored.load(self.asm, Vreg(0), None, self.output(row));
            activation::emit(self.asm, op, Vreg(0), &temps);
            self.key.stored.store(self.asm, self.output(row), None, Vreg(0), Vreg(1));
        }
        self.asm.add(Y, STEP);
        self.asm.sub_imm(COUNT, 1);
        self.asm.test(COUNT);
        self.asm.jump_if(Cond::NotEqual, position);
    }

    fn output(&self, row: usize) -> Mem {
        match row {
            0 => Mem::at(Y, 0),
            3 => Mem::indexed(Y, Y_ROW3, 1, 0),
            _ => Mem::indexed(Y, Y_ROW, row as u8, 0),
        }
    }

    // Registers from the bottom: sums, the input element, kept weights, and the other registers of an activation.

    /// The sum of the position that started `age` steps ago.
    fn sum(&self, row: usize, age: usize) -> Vreg {
        Vreg((row * self.flight + age) as u8)
    }

    fn x(&self) -> Vreg {
        Vreg((self.rows * self.flight) as u8)
    }

    fn kept_weight(&self, tap: usize) -> Vreg {
        Vreg((self.rows * self.flight + 1 + tap) as u8)
    }

    fn weight(&self, tap: usize) -> Src {
        if tap < self.kept {
            return self.kept_weight(tap).into();
        }
        arg!(table).plus((tap * size_of::<Lanes>()) as i32).into()
    }
}
