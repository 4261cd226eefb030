//! Functions of bytes as tables of their 256 values.
//!
//! Where the level has AVX512_VBMI, emitted code keeps the table in four registers and looks up 64 bytes at once: a
//! permutation looks each byte up in both halves of the table, and the byte's highest bit says which half counts.
//!
//! Elsewhere it looks bytes up in pieces of sixteen, the reach of a shuffle within 128 bits. A shuffle gives zero where
//! an index is negative, and otherwise reads the index's lowest four bits. From step to step through a half of the
//! table, 16 is subtracted from the index, so that a byte of piece p gives something in steps 0 to p, and zeros
//! afterwards. The results of the steps are joined by `xor`. The piece of a step is the table's piece `xor` the one
//! before it, so that all pieces but p cancel out. The index for the upper half is the byte with its highest bit
//! flipped: a byte's index is negative in one half.
//!
//! Bytes that fill no step, and all bytes without emitted code, are looked up one by one. Both ways give the same
//! bytes.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::{CodeKey, CodeSource, Emitted};
use crate::error::{KernelError, Result};
use crate::isa::{Extension, Extensions, Isa};
use crate::jit::{Arguments, Asm, Extents, Given, Gpr, Mem, Src, Vreg, arg};
use crate::parallel::{Parallel, for_each_chunk};

/// The values of a byte.
pub const VALUES: usize = 256;

/// Bytes of a vector of AVX-512.
const VECTOR: usize = 64;

/// Bytes of a piece of the table, and pieces of a half.
const PIECE: usize = 16;
const PIECES: usize = VALUES / PIECE / 2;

/// Bytes that are looked up in pieces at a time: a piece is loaded once for all these bytes.
const SHUFFLED: usize = 128;

/// Most bytes of a task: some hundred microseconds byte by byte.
const TASK: usize = 1 << 18;

/// Look-ups between two checks whether a loop has ended.
const TOGETHER: usize = 16;

/// The name of the code.
pub(crate) const FAMILY: &str = "lookup";

/// How bytes are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum LookupForm {
    /// In halves of the table (`vpermi2b`). Only on AVX-512.
    Halves,
    /// In pieces of sixteen (`vpshufb`).
    Pieces,
}

impl LookupForm {
    /// The extension that the processor needs besides the level.
    pub(crate) fn extension(self) -> Option<Extension> {
        (self == LookupForm::Halves).then_some(Extension::Vbmi)
    }

    /// The fastest form of code of that level with these extensions.
    fn pick(isa: Isa, extensions: Extensions) -> Option<LookupForm> {
        match isa {
            Isa::Portable => None,
            Isa::Avx512 if extensions.contains(Extension::Vbmi) => Some(LookupForm::Halves),
            Isa::Avx2 | Isa::Avx512 => Some(LookupForm::Pieces),
        }
    }

    /// Bytes that are looked up at a time.
    fn step(self) -> usize {
        match self {
            LookupForm::Halves => VECTOR,
            LookupForm::Pieces => SHUFFLED,
        }
    }

    /// The table in the layout that the code reads.
    fn laid_out(self, table: &[u8; VALUES]) -> [u8; VALUES] {
        match self {
            LookupForm::Halves => *table,
            LookupForm::Pieces => std::array::from_fn(|at| {
                let first_of_half = at % (PIECES * PIECE) < PIECE;
                if first_of_half { table[at] } else { table[at] ^ table[at - PIECE] }
            }),
        }
    }
}

/// What shapes the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct LookupCode {
    /// Level.
    pub isa: Isa,
    /// How bytes are looked up.
    pub form: LookupForm,
}

/// The arguments of one call.
#[repr(C)]
struct LookupArgs {
    from: *const u8,
    to: *mut u8,
    /// Laid out for the form.
    table: *const u8,
    /// Steps, at least 1. The form says how many bytes a step looks up.
    steps: usize,
}

impl Arguments for LookupArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = LookupCode;

    fn extents(&self, code: &LookupCode, extents: &mut Extents<'_>) {
        let bytes = self.steps.saturating_mul(code.form.step());
        extents.read("bytes", self.from).bytes(bytes);
        extents.read("table", self.table).bytes(VALUES);
        extents.write("results", self.to).bytes(bytes);
    }
}

/// Look-ups that are ready to run.
#[derive(Clone, Debug)]
pub struct Lookup {
    code: Option<Emitted<LookupCode>>,
    bytes: usize,
    /// Bytes of a task.
    chunk: usize,
}

impl Lookup {
    /// Prepares look-ups of `bytes` bytes for a level with those extensions, split into at least `tasks` tasks where
    /// there are enough steps.
    ///
    /// # Errors
    ///
    /// Where no memory can be made executable.
    pub fn new(
        isa: Isa,
        extensions: Extensions,
        bytes: usize,
        tasks: usize,
        source: &dyn CodeSource,
    ) -> Result<Lookup> {
        let form = LookupForm::pick(isa, extensions);
        let code = form.map(|form| Emitted::new(LookupCode { isa, form }, CodeKey::Lookup, source));
        let step = form.map_or(VECTOR, LookupForm::step);
        let chunk = bytes.div_ceil(tasks.max(1)).min(TASK).next_multiple_of(step).max(step);
        Ok(Lookup { code: code.transpose()?, bytes, chunk })
    }

    /// Writes the table's value of each byte of `from` to `to`.
    ///
    /// # Errors
    ///
    /// Where either side has fewer bytes than the look-ups were prepared for.
    pub fn run(&self, table: &[u8; VALUES], from: &[u8], to: &mut [u8], parallel: &dyn Parallel) -> Result<()> {
        let need = self.bytes;
        for (operand, have) in [("input", from.len()), ("output", to.len())] {
            if have < need {
                return Err(KernelError::Bounds { family: FAMILY, operand, have, need });
            }
        }
        let emitted = self.code.as_ref().map(|code| (code, code.key().form.laid_out(table)));
        for_each_chunk(parallel, &mut to[..need], self.chunk, &|index, to| {
            let from = &from[index * self.chunk..][..to.len()];
            let done = emitted.as_ref().map_or(0, |(code, table)| many(code, table, from, to));
            one_by_one(table, &from[done..], &mut to[done..]);
        });
        Ok(())
    }
}

/// Looks up whole steps in a table that is laid out for them. Returns the number of bytes looked up.
fn many(code: &Emitted<LookupCode>, table: &[u8; VALUES], from: &[u8], to: &mut [u8]) -> usize {
    let step = code.key().form.step();
    let steps = from.len().min(to.len()) / step;
    if steps == 0 {
        return 0;
    }
    let given = Given::new().read("bytes", from).read("table", table).write("results", to);
    let args = LookupArgs { from: from.as_ptr(), to: to.as_mut_ptr(), table: table.as_ptr(), steps };
    // SAFETY: both sides have that many steps, the table its 256 bytes; the struct is the one the emitter reads.
    unsafe { code.call(&args, &given) };
    steps * step
}

fn one_by_one(table: &[u8; VALUES], from: &[u8], to: &mut [u8]) {
    let (many, few) = to.as_chunks_mut::<TOGETHER>();
    let (from_many, from_few) = from.as_chunks::<TOGETHER>();
    for (to, from) in many.iter_mut().zip(from_many) {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = table[usize::from(from)]);
    }
    few.iter_mut().zip(from_few).for_each(|(to, &from)| *to = table[usize::from(from)]);
}

const FROM: Gpr = Gpr::RSI;
const TO: Gpr = Gpr::RDX;
const TABLE: Gpr = Gpr::R8;
const COUNT: Gpr = Gpr::RCX;

impl LookupCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) {
        asm.prologue();
        asm.load(FROM, arg!(LookupArgs.from));
        asm.load(TO, arg!(LookupArgs.to));
        asm.load(TABLE, arg!(LookupArgs.table));
        asm.load(COUNT, arg!(LookupArgs.steps));
        match self.form {
            LookupForm::Halves => halves(asm),
            LookupForm::Pieces => pieces(asm, self.isa.lanes() * 4),
        }
        asm.epilogue();
    }
}

/// The loop of [`LookupForm::Halves`].
fn halves(asm: &mut Asm) {
    let quarters = [0, 1, 2, 3].map(Vreg);
    let (ones, byte, low, high, shifted) = (Vreg(4), Vreg(5), Vreg(6), Vreg(7), Vreg(8));
    for (quarter, at) in quarters.into_iter().zip(0..) {
        asm.vload(quarter, Mem::at(TABLE, at * VECTOR as i32));
    }
    asm.vload(ones, Src::Const(0x0101_0101));
    asm.align(16);
    asm.repeat(COUNT, |asm| {
        asm.vload(byte, Mem::at(FROM, 0));
        asm.vmov(low, byte);
        asm.vlookup_bytes(low, quarters[0], quarters[1]);
        asm.vmov(high, byte);
        asm.vlookup_bytes(high, quarters[2], quarters[3]);
        // The highest bit of each byte is copied to all its bits: 256 b - b, where the bit shifted into the next byte
        // pays the borrow.
        asm.vishr(byte, byte, 7);
        asm.vand(byte, byte, ones);
        asm.vishl(shifted, byte, 8);
        asm.visub(byte, shifted, byte);
        asm.vand(high, byte, high);
        asm.vandn(low, byte, low);
        asm.vor(low, low, high);
        asm.vstore(Mem::at(TO, 0), low);
        asm.add_imm(FROM, VECTOR as i32);
        asm.add_imm(TO, VECTOR as i32);
    });
}

/// The loop of [`LookupForm::Pieces`] with vectors of `vector` bytes.
fn pieces(asm: &mut Asm, vector: usize) {
    let count = SHUFFLED / vector;
    let index = |at: usize| Vreg(at as u8);
    let found = |at: usize| Vreg((count + at) as u8);
    let part = |at: usize| Vreg((2 * count + at) as u8);
    let (piece, less, top) = (Vreg(13), Vreg(14), Vreg(15));
    let place = |from: Gpr, at: usize| Mem::at(from, (at * vector) as i32);
    asm.vload(less, Src::Const(u32::from_ne_bytes([(-(PIECE as i8)).cast_unsigned(); 4])));
    asm.vload(top, Src::Const(0x8080_8080));
    asm.align(16);
    asm.repeat(COUNT, |asm| {
        for at in 0..2 * PIECES {
            asm.vbroadcast_group(piece, Mem::at(TABLE, (at * PIECE) as i32));
            for vector in 0..count {
                match at {
                    0 => asm.vload(index(vector), place(FROM, vector)),
                    PIECES => asm.vxor(index(vector), top, place(FROM, vector)),
                    // Saturated: negative indices stay negative.
                    _ => asm.vadd_bytes_saturated(index(vector), index(vector), less),
                }
                let to = if at == 0 { found(vector) } else { part(vector) };
                asm.vshuffle_bytes(to, piece, index(vector));
                if at > 0 {
                    asm.vxor(found(vector), found(vector), part(vector));
                }
            }
        }
        for vector in 0..count {
            asm.vstore(place(TO, vector), found(vector));
        }
        asm.add_imm(FROM, SHUFFLED as i32);
        asm.add_imm(TO, SHUFFLED as i32);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::EmitEach;
    use crate::cpu::canaries::levels;
    use crate::jit::interpreted;
    use crate::parallel::Serial;

    /// The lists of extensions that this machine can run at a level.
    fn sets(isa: Isa) -> Vec<Extensions> {
        let vbmi = Extensions::default().with(Extension::Vbmi);
        let runs = isa == Isa::Avx512 && Extension::Vbmi.usable();
        [Some(Extensions::default()), runs.then_some(vbmi)].into_iter().flatten().collect()
    }

    #[test]
    fn every_byte_has_its_value_at_every_length_and_level() {
        let table: [u8; VALUES] = std::array::from_fn(|byte| (byte as u8).wrapping_mul(183).rotate_left(3) ^ 0x5A);
        for isa in levels() {
            for extensions in sets(isa) {
                for (count, tasks) in
                    [0, 1, 63, 64, 65, 127, 128, 129, 256, 300, TASK + 170].into_iter().zip([1, 3].into_iter().cycle())
                {
                    let lookup = Lookup::new(isa, extensions, count, tasks, &EmitEach).unwrap();
                    let from: Vec<u8> = (0..count).map(|at| (at * 37 % 256) as u8).collect();
                    let expected: Vec<u8> = from.iter().map(|&byte| table[usize::from(byte)]).collect();
                    let mut to = vec![0xEE; count + 3];
                    lookup.run(&table, &from, &mut to, &Serial).unwrap();
                    assert_eq!(to[..count], expected, "{isa} {extensions:?} {count}");
                    assert_eq!(to[count..], [0xEE; 3], "{isa} {extensions:?} {count}");
                }
                let two = Lookup::new(isa, extensions, 2, 1, &EmitEach).unwrap();
                assert!(two.run(&table, &[0; 2], &mut [0; 1], &Serial).is_err());
                assert!(two.run(&table, &[0; 1], &mut [0; 2], &Serial).is_err());
            }
        }
    }

    #[test]
    fn every_byte_has_its_value_in_the_emulator() {
        let table: [u8; VALUES] = std::array::from_fn(|byte| (byte as u8).wrapping_mul(91).rotate_right(2) ^ 0xC3);
        let from: [u8; 2 * VALUES] = std::array::from_fn(|at| at as u8);
        for isa in levels() {
            for extensions in sets(isa) {
                let lookup = Lookup::new(isa, extensions, from.len(), 2, &EmitEach).unwrap();
                let mut to = [0; 2 * VALUES];
                interpreted(|| lookup.run(&table, &from, &mut to, &Serial).unwrap());
                assert_eq!(to, std::array::from_fn(|at| table[at % VALUES]), "{isa} {extensions:?}");
            }
        }
    }

    #[test]
    fn a_level_looks_up_in_the_largest_parts_that_it_can() {
        let (none, vbmi) = (Extensions::default(), Extensions::default().with(Extension::Vbmi));
        for (isa, extensions, form) in [
            (Isa::Portable, vbmi, None),
            (Isa::Avx2, none, Some(LookupForm::Pieces)),
            (Isa::Avx2, vbmi, Some(LookupForm::Pieces)),
            (Isa::Avx512, none, Some(LookupForm::Pieces)),
            (Isa::Avx512, vbmi, Some(LookupForm::Halves)),
        ] {
            assert_eq!(LookupForm::pick(isa, extensions), form, "{isa} {extensions:?}");
        }
    }
}
