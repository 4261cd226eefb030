//! Functions of bytes as tables of their 256 values.
//!
//! Where the level has AVX512_VBMI, emitted code keeps the table in four registers and looks up 64 bytes at once: a
//! permutation finds each byte in either half of the table, and its highest bit says which half it is. Bytes that fill no
//! vector, and all bytes on other levels, are looked up one by one. Both ways read the same table.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::{CodeKey, CodeSource, Emitted};
use crate::error::{KernelError, Result};
use crate::isa::{Extension, Extensions, Isa};
use crate::jit::{Arguments, Asm, Extents, Given, Gpr, Mem, Src, Vreg, arg};
use crate::parallel::{Parallel, for_each_chunk};

/// The values of a byte.
pub const VALUES: usize = 256;

/// Bytes of a vector.
const VECTOR: usize = 64;

/// Most bytes of a task: some hundred microseconds byte by byte.
const TASK: usize = 1 << 18;

/// Look-ups between two tests whether a loop is over.
const TOGETHER: usize = 16;

/// The name of the code.
pub(crate) const FAMILY: &str = "lookup";

/// What shapes the instructions: the level alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct LookupCode {
    /// Level.
    pub isa: Isa,
}

/// The arguments of one call.
#[repr(C)]
struct LookupArgs {
    from: *const u8,
    to: *mut u8,
    table: *const u8,
    /// Vectors, at least 1.
    vectors: usize,
}

impl Arguments for LookupArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = LookupCode;

    fn extents(&self, _: &LookupCode, extents: &mut Extents<'_>) {
        let bytes = self.vectors.saturating_mul(VECTOR);
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
    /// Prepares look-ups of `bytes` bytes for a level with those extensions, split into at least `tasks` tasks where there
    /// are as many vectors.
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
        let permutes = isa == Isa::Avx512 && extensions.contains(Extension::Vbmi);
        let code = permutes.then(|| Emitted::new(LookupCode { isa }, CodeKey::Lookup, source));
        let chunk = bytes.div_ceil(tasks.max(1)).min(TASK).next_multiple_of(VECTOR).max(VECTOR);
        Ok(Lookup { code: code.transpose()?, bytes, chunk })
    }

    /// Writes the table's value of each byte of `from` to `to`.
    ///
    /// # Errors
    ///
    /// Where one of both has fewer bytes than the look-ups were prepared for.
    pub fn run(&self, table: &[u8; VALUES], from: &[u8], to: &mut [u8], parallel: &dyn Parallel) -> Result<()> {
        let need = self.bytes;
        for (operand, have) in [("input", from.len()), ("output", to.len())] {
            if have < need {
                return Err(KernelError::Bounds { family: FAMILY, operand, have, need });
            }
        }
        for_each_chunk(parallel, &mut to[..need], self.chunk, &|index, to| {
            let from = &from[index * self.chunk..][..to.len()];
            let done = self.permute(table, from, to);
            one_by_one(table, &from[done..], &mut to[done..]);
        });
        Ok(())
    }

    /// Looks up whole vectors, and says how many bytes those were.
    fn permute(&self, table: &[u8; VALUES], from: &[u8], to: &mut [u8]) -> usize {
        let vectors = from.len().min(to.len()) / VECTOR;
        let Some(code) = self.code.as_ref().filter(|_| vectors > 0) else { return 0 };
        let given = Given::new().read("bytes", from).read("table", table).write("results", to);
        let args = LookupArgs { from: from.as_ptr(), to: to.as_mut_ptr(), table: table.as_ptr(), vectors };
        // SAFETY: both sides have that many vectors, the table its 256 bytes; the struct is the one the emitter reads.
        unsafe { code.call(&args, &given) };
        vectors * VECTOR
    }
}

fn one_by_one(table: &[u8; VALUES], from: &[u8], to: &mut [u8]) {
    let (many, few) = to.as_chunks_mut::<TOGETHER>();
    let (from_many, from_few) = from.as_chunks::<TOGETHER>();
    for (to, from) in many.iter_mut().zip(from_many) {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = table[usize::from(from)]);
    }
    few.iter_mut().zip(from_few).for_each(|(to, &from)| *to = table[usize::from(from)]);
}

impl LookupCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) {
        let (from, to, table, count) = (Gpr::RSI, Gpr::RDX, Gpr::R8, Gpr::RCX);
        let quarters = [0, 1, 2, 3].map(Vreg);
        let (ones, byte, low, high, shifted) = (Vreg(4), Vreg(5), Vreg(6), Vreg(7), Vreg(8));
        asm.prologue();
        asm.load(from, arg!(LookupArgs.from));
        asm.load(to, arg!(LookupArgs.to));
        asm.load(table, arg!(LookupArgs.table));
        asm.load(count, arg!(LookupArgs.vectors));
        for (quarter, at) in quarters.into_iter().zip(0..) {
            asm.vload(quarter, Mem::at(table, at * VECTOR as i32));
        }
        asm.vload(ones, Src::Const(0x0101_0101));
        asm.align(16);
        asm.repeat(count, |asm| {
            asm.vload(byte, Mem::at(from, 0));
            asm.vmov(low, byte);
            asm.vlookup_bytes(low, quarters[0], quarters[1]);
            asm.vmov(high, byte);
            asm.vlookup_bytes(high, quarters[2], quarters[3]);
            // The highest bit of each byte becomes all its bits: 256 b - b, the carries of which are the next byte's own.
            asm.vishr(byte, byte, 7);
            asm.vand(byte, byte, ones);
            asm.vishl(shifted, byte, 8);
            asm.visub(byte, shifted, byte);
            asm.vand(high, byte, high);
            asm.vandn(low, byte, low);
            asm.vor(low, low, high);
            asm.vstore(Mem::at(to, 0), low);
            asm.add_imm(from, VECTOR as i32);
            asm.add_imm(to, VECTOR as i32);
        });
        asm.epilogue();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::EmitEach;
    use crate::cpu::canaries::levels;
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
                    [0, 1, 63, 64, 65, 256, 300, TASK + 70].into_iter().zip([1, 3].into_iter().cycle())
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
}
