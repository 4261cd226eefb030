//! Widening `f16` to `f32`: parts of panels, before a product's tiles or a convolution's transforms read them.

use half::slice::HalfBitsSliceExt;
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::{CodeKey, CodeSource, Emitted, halves};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Extents, Given, Gpr, Mem, Vreg, arg};

/// What shapes the instructions: the level alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct WidenCode {
    /// Level.
    pub isa: Isa,
}

/// The name of the code.
pub(crate) const FAMILY: &str = "widening";

/// Vectors of an iteration.
const UNROLL: usize = 4;

/// Bytes from a read to its prefetch: panels come from memory.
const AHEAD: i32 = 2048;

/// The arguments of one call.
#[repr(C)]
struct WidenArgs {
    from: *const u16,
    to: *mut f32,
    /// Iterations, of [`UNROLL`] vectors each, and the vectors behind them.
    groups: usize,
    rest: usize,
}

impl Arguments for WidenArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = WidenCode;

    fn extents(&self, key: &WidenCode, extents: &mut Extents<'_>) {
        let elements = (self.groups.saturating_mul(UNROLL).saturating_add(self.rest)).saturating_mul(key.isa.lanes());
        extents.read("f16", self.from).bytes(elements.saturating_mul(2));
        extents.write("f32", self.to).bytes(elements.saturating_mul(4));
    }
}

/// The kernel; plain Rust where no code is emitted.
#[derive(Clone, Debug)]
pub(crate) struct Widen {
    code: Option<Emitted<WidenCode>>,
    lanes: usize,
}

impl Widen {
    pub(crate) fn new(isa: Isa, source: &dyn CodeSource) -> Result<Widen> {
        let code = isa.is_jit().then(|| Emitted::new(WidenCode { isa }, CodeKey::Widen, source));
        Ok(Widen { code: code.transpose()?, lanes: isa.lanes() })
    }

    /// Widens all of `from`, which must be whole vectors.
    ///
    /// # Panics
    ///
    /// Where the two sides differ in length, or are not whole vectors.
    pub(crate) fn run(&self, from: &[u16], to: &mut [f32]) {
        assert_eq!(from.len(), to.len(), "as many elements on both sides");
        let Some(code) = &self.code else {
            return halves::widen(Isa::Portable, from.reinterpret_cast(), to);
        };
        assert!(from.len().is_multiple_of(self.lanes), "whole vectors");
        let (groups, rest) = (from.len() / self.lanes / UNROLL, from.len() / self.lanes % UNROLL);
        let given = Given::new().read("f16", from).write("f32", to);
        let args = WidenArgs { from: from.as_ptr(), to: to.as_mut_ptr(), groups, rest };
        // SAFETY: both sides have that many whole vectors; the struct is the one that the emitter reads.
        unsafe { code.call(&args, &given) };
    }
}

impl WidenCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) {
        const LINE: i32 = 64;
        let (from, to, count) = (Gpr::RSI, Gpr::RDX, Gpr::RCX);
        let (bytes, value) = (asm.vector_bytes(), Vreg(0));
        let widen = |asm: &mut Asm, vectors: i32| {
            for vector in 0..vectors {
                let to_widen = Mem::at(from, vector * bytes / 2);
                if to_widen.disp % LINE == 0 && vectors > 1 {
                    asm.prefetch(to_widen.plus(AHEAD));
                }
                asm.vload_f16(value, to_widen);
                asm.vstore(Mem::at(to, vector * bytes), value);
            }
            asm.add_imm(from, vectors * bytes / 2);
            asm.add_imm(to, vectors * bytes);
        };
        asm.prologue();
        asm.load(from, arg!(WidenArgs.from));
        asm.load(to, arg!(WidenArgs.to));
        for (number, vectors) in [(arg!(WidenArgs.groups), UNROLL as i32), (arg!(WidenArgs.rest), 1)] {
            asm.load(count, number);
            asm.unless_zero(count, |asm| asm.repeat(count, |asm| widen(asm, vectors)));
        }
        asm.epilogue();
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::cpu::EmitEach;
    use crate::cpu::canaries::levels;

    #[test]
    fn every_f16_is_widened_exactly_at_every_level() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        for isa in levels() {
            let widen = Widen::new(isa, &EmitEach).unwrap();
            let mut to = vec![0.0; all.len()];
            widen.run(&all, &mut to);
            for (&bits, found) in all.iter().zip(&to) {
                let number = f16::from_bits(bits).to_f32();
                assert!(found.to_bits() == number.to_bits() || number.is_nan() && found.is_nan(), "{isa}: {bits:#x}");
            }
            for count in [0, 16, 48, 96] {
                let mut some = vec![0.0; count];
                widen.run(&all[0x3C00..][..count], &mut some);
                assert_eq!(some, to[0x3C00..][..count]);
            }
        }
    }
}
