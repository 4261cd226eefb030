//! Instructions of weighted sums of rows of channels.
//!
//! Each vector of channels of a place is summed over all rows that the place reads. Rows, places and channels are
//! counts at run time; only how many rows a round of the inner loop has is fixed in the code.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::loops;
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Extents, Gpr, Mem, Vreg, arg, counted_down};

/// What determines the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct BlendCode {
    /// Instruction-set level.
    pub isa: Isa,
    /// Rows that are added in a round, at least 1.
    pub round: u8,
}

/// Arguments of a run of places.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BlendArgs {
    /// First row of the image.
    pub src: *const f32,
    /// The first place's sums.
    pub dst: *mut f32,
    /// Bytes from the first row of the image to the first row that each place reads, then to each second one, and so
    /// on.
    pub offsets: *const usize,
    /// The weights of these rows.
    pub weights: *const f32,
    /// Places, at least 1.
    pub places: usize,
    /// Rounds of a place, at least 1.
    pub rounds: usize,
    /// Channels, at least 1.
    pub channels: usize,
    /// Bytes from one place's sums to the next.
    pub stride: usize,
}

impl Arguments for BlendArgs {
    const FAMILY: &'static str = super::FAMILY;
    type Kernel = BlendCode;

    fn extents(&self, code: &BlendCode, extents: &mut Extents<'_>) {
        let (places, row) = (counted_down(self.places), self.channels.saturating_mul(4));
        let rows = places.saturating_mul(counted_down(self.rounds)).saturating_mul(code.round.into());
        extents.write("sums", self.dst).over(places, self.stride).bytes(row);
        extents.read("weights", self.weights).over(rows, 4).bytes(4);
        for &offset in extents.list("offsets", self.offsets, rows) {
            extents.read("rows", self.src).from(offset.min(isize::MAX as usize) as isize).bytes(row);
        }
    }
}

const SRC: Gpr = Gpr::RSI;
const DST: Gpr = Gpr::RDX;
const PLACES: Gpr = Gpr::RCX;
/// Offset and weight of the place's first row.
const OFFSETS: Gpr = Gpr::R11;
const WEIGHTS: Gpr = Gpr::RBX;
/// From there to those of the row that is added, in elements; and to the next row's.
const AT: Gpr = Gpr::R12;
const STEP: Gpr = Gpr::R13;
const ROUNDS: Gpr = Gpr::R14;
/// The row that is added; later bytes between places.
const ROW: Gpr = Gpr::RBP;

const SUM: Vreg = Vreg(0);
const VALUE: Vreg = Vreg(1);
const FACTOR: Vreg = Vreg(2);

/// Emits the code of that key.
pub fn emit(code: &BlendCode, asm: &mut Asm) {
    asm.prologue();
    asm.load(SRC, arg!(BlendArgs.src));
    asm.load(DST, arg!(BlendArgs.dst));
    asm.load(OFFSETS, arg!(BlendArgs.offsets));
    asm.load(WEIGHTS, arg!(BlendArgs.weights));
    asm.load(PLACES, arg!(BlendArgs.places));
    asm.mov(STEP, PLACES);
    loops::prepare_rows(asm, arg!(BlendArgs.channels));
    asm.repeat(PLACES, |asm| {
        loops::row(asm, |asm, place| {
            asm.mov_imm(AT, 0);
            asm.load(ROUNDS, arg!(BlendArgs.rounds));
            asm.vzero(SUM);
            asm.repeat(ROUNDS, |asm| {
                for _ in 0..code.round {
                    asm.load(ROW, Mem::indexed(OFFSETS, AT, 8, 0));
                    asm.add(ROW, SRC);
                    asm.vbroadcast(FACTOR, Mem::indexed(WEIGHTS, AT, 4, 0));
                    asm.add(AT, STEP);
                    place.load(asm, VALUE, ROW);
                    asm.vmul(VALUE, VALUE, FACTOR);
                    asm.vadd(SUM, SUM, VALUE);
                }
            });
            place.store(asm, DST, SUM);
        });
        asm.add_imm(OFFSETS, 8);
        asm.add_imm(WEIGHTS, 4);
        asm.load(ROW, arg!(BlendArgs.stride));
        asm.add(DST, ROW);
    });
    asm.epilogue();
}
