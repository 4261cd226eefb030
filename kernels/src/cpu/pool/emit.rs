//! Instructions that pool images with channels last: one vector of channels at a time, window by window.
//!
//! Windows are described by arguments, so that one piece of code a kind serves every shape: the number of taps along
//! each axis (the driver clips them at the borders), and the strides between them. Sums are taken over a row of taps,
//! then over rows, so that a window as large as an image loses no precision.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::Stored;
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Extents, Gpr, Mask, Mem, Src, Vreg, arg, counted_down};

/// The operation on each tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Collect {
    /// Keeps the largest.
    Max,
    /// Adds, and multiplies the sum by the argument `scale`.
    Sum,
    /// Adds absolute values.
    Absolute,
    /// Adds squares, and takes the root of the sum.
    Square,
}

/// What determines the instructions of pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct PoolCode {
    /// Instruction-set level.
    pub isa: Isa,
    /// The operation on taps.
    pub collect: Collect,
    /// Element type of input and output.
    pub stored: Stored,
}

/// Arguments; strides are in bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PoolArgs {
    /// First channel of the first tap of the first window.
    pub src: *const u8,
    /// First channel of the first position of the output.
    pub dst: *mut u8,
    /// Channels, at least 1.
    pub channels: usize,
    /// Windows, one a position of the output, at least 1.
    pub pixels: usize,
    /// From one window to the next, less the channels' bytes.
    pub src_step: isize,
    /// From one position of the output to the next, less the channels' bytes.
    pub dst_step: isize,
    /// Taps of each axis, at least 1: depth, height, width.
    pub taps: [usize; 3],
    /// From one tap to the next along each axis.
    pub steps: [usize; 3],
    /// The factor of a sum.
    pub scale: f32,
}

impl Arguments for PoolArgs {
    const FAMILY: &'static str = "pool";
    /// Element type of input and output.
    type Kernel = Stored;

    fn extents(&self, stored: &Stored, extents: &mut Extents<'_>) {
        let (pixels, channels) = (counted_down(self.pixels), self.channels.saturating_mul(stored.bytes()));
        let windows = extents.read("input", self.src).over(pixels, channels.wrapping_add_signed(self.src_step));
        let taps = self.taps.iter().zip(self.steps);
        taps.fold(windows, |taps, (&count, step)| taps.over(counted_down(count), step)).bytes(channels);
        let output = extents.write("output", self.dst);
        output.over(pixels, channels.wrapping_add_signed(self.dst_step)).bytes(channels);
    }
}

const SRC: Gpr = Gpr::RSI;
const DST: Gpr = Gpr::RDX;
const LEFT: Gpr = Gpr::RCX;
const PIXELS: Gpr = Gpr::R14;
/// For each axis, the address of the current tap and the number of taps left; for two axes also the strides.
const AT: [Gpr; 3] = [Gpr::R8, Gpr::R9, Gpr::RAX];
const COUNT: [Gpr; 3] = [Gpr::R10, Gpr::R11, Gpr::RBX];
const STEP_H: Gpr = Gpr::R13;
const STEP_W: Gpr = Gpr::R12;

/// Emits the code of that key.
pub fn emit(code: &PoolCode, asm: &mut Asm) {
    let (lanes, bytes) = (asm.lanes() as i32, code.stored.bytes() as i32);
    // A sum needs two registers a vector; the rest hold the mask, the scale and the current tap.
    let wide: u8 = if asm.registers() == 16 { 4 } else { 8 };
    let registers = Registers::new(wide, asm);
    asm.prologue();
    asm.load(SRC, arg!(PoolArgs.src));
    asm.load(DST, arg!(PoolArgs.dst));
    asm.load(PIXELS, arg!(PoolArgs.pixels));
    asm.load(STEP_H, arg!(PoolArgs.steps).plus(8));
    asm.load(STEP_W, arg!(PoolArgs.steps).plus(16));
    if code.collect == Collect::Sum {
        asm.vbroadcast(registers.scale, arg!(PoolArgs.scale));
    }
    asm.repeat(PIXELS, |asm| {
        asm.load(LEFT, arg!(PoolArgs.channels));
        for vectors in [wide, 1] {
            let channels = i32::from(vectors) * lanes;
            asm.while_at_least(LEFT, channels, |asm| {
                window(code, asm, &registers, vectors, None);
                asm.add_imm(SRC, channels * bytes);
                asm.add_imm(DST, channels * bytes);
            });
        }
        asm.unless_zero(LEFT, |asm| {
            asm.mask_first(registers.mask, LEFT, AT[2]);
            window(code, asm, &registers, 1, Some(registers.mask));
            asm.lea(SRC, Mem::indexed(SRC, LEFT, bytes as u8, 0));
            asm.lea(DST, Mem::indexed(DST, LEFT, bytes as u8, 0));
        });
        asm.add_mem(SRC, arg!(PoolArgs.src_step));
        asm.add_mem(DST, arg!(PoolArgs.dst_step));
    });
    asm.epilogue();
}

struct Registers {
    wide: u8,
    mask: Mask,
    tap: Vreg,
    scale: Vreg,
}

impl Registers {
    fn new(wide: u8, asm: &Asm) -> Registers {
        Registers { wide, mask: asm.mask(0, Vreg(15)), tap: Vreg(2 * wide), scale: Vreg(2 * wide + 1) }
    }

    /// The accumulator of vector `index` of the window.
    fn total(&self, index: u8) -> Vreg {
        Vreg(index)
    }

    /// Its accumulator for the current row of taps; sums only.
    fn row(&self, index: u8) -> Vreg {
        Vreg(self.wide + index)
    }
}

/// Emits one window over `vectors` vectors of channels; a masked one is a single vector.
fn window(code: &PoolCode, asm: &mut Asm, registers: &Registers, vectors: u8, mask: Option<Mask>) {
    let PoolCode { collect, stored, .. } = *code;
    let width = asm.lanes() as i32 * stored.bytes() as i32;
    for index in 0..vectors {
        match collect {
            Collect::Max => asm.vload(registers.total(index), f32::NEG_INFINITY),
            _ => asm.vzero(registers.total(index)),
        }
    }
    asm.mov(AT[0], SRC);
    asm.load(COUNT[0], arg!(PoolArgs.taps));
    asm.repeat(COUNT[0], |asm| {
        asm.mov(AT[1], AT[0]);
        asm.load(COUNT[1], arg!(PoolArgs.taps).plus(8));
        asm.repeat(COUNT[1], |asm| {
            row_of_taps(code, asm, registers, vectors, mask);
            asm.add(AT[1], STEP_H);
        });
        asm.add_mem(AT[0], arg!(PoolArgs.steps));
    });
    for index in 0..vectors {
        let total = registers.total(index);
        match collect {
            Collect::Max | Collect::Absolute => {}
            Collect::Sum => asm.vmul(total, total, registers.scale),
            Collect::Square => asm.vsqrt(total, total),
        }
        let to = Mem::at(DST, i32::from(index) * width);
        stored.store(asm, to, mask, total, registers.tap);
    }
}

/// Emits the taps along the innermost axis, and adds their sums to the window's.
fn row_of_taps(code: &PoolCode, asm: &mut Asm, registers: &Registers, vectors: u8, mask: Option<Mask>) {
    let width = asm.lanes() as i32 * code.stored.bytes() as i32;
    asm.mov(AT[2], AT[1]);
    asm.load(COUNT[2], arg!(PoolArgs.taps).plus(16));
    if code.collect != Collect::Max {
        (0..vectors).for_each(|index| asm.vzero(registers.row(index)));
    }
    asm.align(16);
    asm.repeat(COUNT[2], |asm| {
        for index in 0..vectors {
            tap(code, asm, registers, Mem::at(AT[2], i32::from(index) * width), index, mask);
        }
        asm.add(AT[2], STEP_W);
    });
    if code.collect != Collect::Max {
        for index in 0..vectors {
            asm.vadd(registers.total(index), registers.total(index), registers.row(index));
        }
    }
}

fn tap(code: &PoolCode, asm: &mut Asm, registers: &Registers, from: Mem, index: u8, mask: Option<Mask>) {
    let PoolCode { collect, stored, .. } = *code;
    let (tap, row) = (registers.tap, registers.row(index));
    if (stored, mask, collect) == (Stored::F32, None, Collect::Sum) {
        return asm.vadd(row, row, from);
    }
    stored.load(asm, tap, mask, from);
    match collect {
        // x86 returns the second operand where either is NaN: the accumulator stays.
        Collect::Max => asm.vmax(registers.total(index), tap, registers.total(index)),
        Collect::Sum => asm.vadd(row, row, tap),
        Collect::Absolute => {
            asm.vand(tap, tap, Src::Const(0x7fff_ffff));
            asm.vadd(row, row, tap);
        }
        Collect::Square => asm.vfma231(row, tap, tap),
    }
}
