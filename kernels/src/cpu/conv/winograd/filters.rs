//! The transform of weights: one row of a panel's points from its nine taps, emitted, and in Rust.
//!
//! A tap of a packed panel is a run of numbers, channel by channel, and so is a point: the transform is the same small
//! sum at every place of nine runs. It costs about as much as multiplying three tiles of four by four outputs. It saves
//! reading four times as many weights, from memory where no cache holds a network's weights. So weights are never kept
//! transformed. A call makes one row of points: the sums of a row of the first matrix then stay in registers, and the
//! taps in L2 for the rows after it.
//!
//! A row of bf16 pairs holds two neighbouring channels: it is widened to two rows of each point.

use std::mem::offset_of;

use smallvec::SmallVec;

use super::args::FilterArgs;
use super::matrices::WinogradTile;
use crate::cpu::gemm::operands::BF16_WIDENED;
use crate::jit::{Asm, Cond, Gpr, Mem, Src, Vreg};

/// The argument struct.
const ARGS: Gpr = Gpr::RDI;
/// The first tap of each row of the kernel.
const TAPS: [Gpr; 3] = [Gpr::RAX, Gpr::RCX, Gpr::RDX];
const TAP_STEP: Gpr = Gpr::RBX;
/// The first point and the fourth.
const POINTS: [Gpr; 2] = [Gpr::RSI, Gpr::R8];
const POINT_STEP: Gpr = Gpr::R9;
/// Bytes left.
const LEFT: Gpr = Gpr::R10;
const T0: Gpr = Gpr::R11;
/// Bytes of a row of the panel, and bytes left of it.
const ROW: Gpr = Gpr::R12;
const ROW_LEFT: Gpr = Gpr::R13;

/// Bytes of a cache line. Strides of runs are mostly powers of two, so that their lines map to the same sets of L1.
/// Therefore a line is used whole before the next.
const LINE: i32 = 64;

/// Elements of a line. Runs of whole lines need no code for a rest.
pub(super) const LINE_ELEMENTS: usize = LINE as usize / 4;

/// The address of the `index`th of three runs at that stride.
fn third(base: Gpr, step: Gpr, index: usize, byte: i32) -> Mem {
    if index == 0 { Mem::at(base, byte) } else { Mem::indexed(base, step, index as u8, byte) }
}

/// Registers of a kernel: three sums of taps for each vector of a line, four results in turn, factors.
struct Registers {
    results: [Vreg; 4],
    factors: SmallVec<[(f64, Vreg); 8]>,
}

impl Registers {
    fn load(asm: &mut Asm, tile: WinogradTile) -> Registers {
        let mut distinct: SmallVec<[f64; 8]> = SmallVec::new();
        for factor in tile.filter().iter().flatten().map(|factor| factor.abs()) {
            if factor != 0.0 && factor != 1.0 && !distinct.contains(&factor) {
                distinct.push(factor);
            }
        }
        let factors: SmallVec<[(f64, Vreg); 8]> = distinct.into_iter().zip((10..asm.registers()).map(Vreg)).collect();
        for &(factor, register) in &factors {
            asm.vload(register, factor as f32);
        }
        Registers { results: [6, 7, 8, 9].map(Vreg), factors }
    }

    /// The sum of `operands` times the factors of a row, in `out`. The row has a factor above zero.
    fn sum(&self, asm: &mut Asm, row: &[f64; 3], out: Vreg, operands: [Src; 3]) {
        let terms =
            |above: bool| row.iter().copied().zip(operands).filter(move |&(f, _)| f != 0.0 && (f > 0.0) == above);
        for (index, (factor, operand)) in terms(true).chain(terms(false)).enumerate() {
            let held = self.factors.iter().find(|(have, _)| *have == factor.abs());
            match held {
                None => asm.vload(out, operand),
                Some(&(_, held)) if index == 0 => asm.vmul(out, held, operand),
                Some(&(_, held)) if factor > 0.0 => asm.vfma231(out, held, operand),
                Some(&(_, held)) => asm.vfnma231(out, held, operand),
            }
        }
    }
}

/// Emits the transform to a row of points: a loop for each row; a call runs one loop. Without `rest`, runs are whole
/// lines; with `pairs` they are whole rows of the panel.
pub(super) fn emit(asm: &mut Asm, tile: WinogradTile, pairs: bool, rest: bool) {
    macro_rules! arg {
        ($field:ident) => {
            Mem::at(ARGS, offset_of!(FilterArgs, $field) as i32)
        };
    }
    let done = asm.label();
    asm.prologue();
    asm.load(TAP_STEP, arg!(tap_stride));
    asm.load(TAPS[0], arg!(from));
    asm.lea(T0, Mem::indexed(TAP_STEP, TAP_STEP, 2, 0));
    asm.lea(TAPS[1], Mem::indexed(TAPS[0], T0, 1, 0));
    asm.lea(TAPS[2], Mem::indexed(TAPS[0], T0, 2, 0));
    asm.load(POINT_STEP, arg!(point_stride));
    asm.load(POINTS[0], arg!(to));
    asm.lea(T0, Mem::indexed(POINT_STEP, POINT_STEP, 2, 0));
    asm.lea(POINTS[1], Mem::indexed(POINTS[0], T0, 1, 0));
    asm.load(LEFT, arg!(bytes));
    if pairs {
        asm.load(ROW, arg!(row_bytes));
    }
    let registers = Registers::load(asm, tile);
    asm.load(T0, arg!(row));
    for row in 0..tile.side() {
        let other = asm.label();
        asm.cmp_imm(T0, row as i32);
        asm.jump_if(Cond::NotEqual, other);
        match pairs {
            true => rows_of_pairs(asm, &registers, tile, row),
            false => runs(asm, &registers, tile, row, rest),
        }
        asm.jump(done);
        asm.bind(other);
    }
    asm.bind(done);
    asm.epilogue();
}

/// Transforms the rest of the run to a row of points.
fn runs(asm: &mut Asm, registers: &Registers, tile: WinogradTile, row: usize, rest: bool) {
    let (vector, line, last, done) = (asm.vector_bytes(), asm.label(), asm.label(), asm.label());
    asm.cmp_imm(LEFT, LINE);
    asm.jump_if(Cond::Less, last);
    asm.bind(line);
    vectors(asm, registers, tile, row, LINE / vector);
    asm.sub_imm(LEFT, LINE);
    asm.cmp_imm(LEFT, LINE);
    asm.jump_if(Cond::GreaterEqual, line);
    asm.bind(last);
    if rest && vector < LINE {
        asm.test(LEFT);
        asm.jump_if(Cond::Equal, done);
        vectors(asm, registers, tile, row, 1);
    }
    asm.bind(done);
}

/// Transforms all remaining rows of pairs to a row of points.
fn rows_of_pairs(asm: &mut Asm, registers: &Registers, tile: WinogradTile, row: usize) {
    let (next_row, next) = (asm.label(), asm.label());
    let bytes = asm.vector_bytes();
    asm.bind(next_row);
    asm.mov(ROW_LEFT, ROW);
    asm.bind(next);
    pair(asm, registers, tile, row, 0);
    POINTS.into_iter().for_each(|pointer| asm.add(pointer, ROW));
    pair(asm, registers, tile, row, 1);
    POINTS.into_iter().for_each(|pointer| asm.sub(pointer, ROW));
    TAPS.into_iter().chain(POINTS).for_each(|pointer| asm.add_imm(pointer, bytes));
    asm.sub_imm(ROW_LEFT, bytes);
    asm.cmp_imm(ROW_LEFT, 0);
    asm.jump_if(Cond::Greater, next);
    // The second of the two rows has been made along with the first.
    POINTS.into_iter().for_each(|pointer| asm.add(pointer, ROW));
    asm.sub(LEFT, ROW);
    asm.cmp_imm(LEFT, 0);
    asm.jump_if(Cond::Greater, next_row);
}

/// Transforms one element of each pair of a vector.
fn pair(asm: &mut Asm, registers: &Registers, tile: WinogradTile, row: usize, element: usize) {
    let (sums, widened) = ([0, 1, 2].map(Vreg), [3, 4, 5].map(Vreg));
    let taps = &tile.filter()[row];
    for (column, sum) in sums.into_iter().enumerate() {
        for tap in (0..3).filter(|&tap| taps[tap] != 0.0) {
            BF16_WIDENED.load(asm, element, widened[tap], third(TAPS[tap], TAP_STEP, column, 0), None);
        }
        registers.sum(asm, taps, sum, widened.map(Src::from));
    }
    for (point, factors) in tile.filter().iter().enumerate() {
        let result = registers.results[point % registers.results.len()];
        registers.sum(asm, factors, result, sums.map(Src::from));
        asm.vstore(third(POINTS[point / 3], POINT_STEP, point % 3, 0), result);
    }
}

/// Transforms some vectors and moves on.
fn vectors(asm: &mut Asm, registers: &Registers, tile: WinogradTile, row: usize, count: i32) {
    let bytes = asm.vector_bytes();
    let sum = |vector: i32, column: usize| Vreg((vector as usize * 3 + column) as u8);
    for column in 0..3 {
        for vector in 0..count {
            let taps = TAPS.map(|tap| Src::from(third(tap, TAP_STEP, column, vector * bytes)));
            registers.sum(asm, &tile.filter()[row], sum(vector, column), taps);
        }
    }
    for (point, factors) in tile.filter().iter().enumerate() {
        for vector in 0..count {
            let result = registers.results[(point * 2 + vector as usize) % registers.results.len()];
            registers.sum(asm, factors, result, [0, 1, 2].map(|column| Src::from(sum(vector, column))));
            asm.vstore(third(POINTS[point / 3], POINT_STEP, point % 3, vector * bytes), result);
        }
    }
    for pointer in TAPS.into_iter().chain(POINTS) {
        asm.add_imm(pointer, count * bytes);
    }
}

/// The transform in Rust.
///
/// # Safety
///
/// Nine taps are readable over `bytes`; the row's points are writable, and no other task touches them.
pub(super) unsafe fn portable(tile: WinogradTile, args: &FilterArgs) {
    let (factors, row) = (tile.filter(), args.row);
    for element in 0..args.bytes / 4 {
        let tap = |index: usize| {
            let at = args.from.wrapping_add(index * args.tap_stride).cast::<f32>().wrapping_add(element);
            // SAFETY: the caller's contract.
            unsafe { at.read() }
        };
        let weighted = |row: &[f64; 3], values: [f32; 3]| -> f32 {
            row.iter().zip(values).map(|(&factor, value)| factor as f32 * value).sum()
        };
        let sums = [0, 1, 2].map(|column| weighted(&factors[row], [tap(column), tap(3 + column), tap(6 + column)]));
        for (point, factors) in factors.iter().enumerate() {
            let to = args.to.wrapping_byte_add(point * args.point_stride).wrapping_add(element);
            // SAFETY: the caller's contract.
            unsafe { to.write(weighted(factors, sums)) };
        }
    }
}
