//! The registers and addresses that the instructions of a kernel name, or-ed together. They are checked once at the
//! kernel's end, without a branch for each instruction. The limits are powers of two, so a number beyond a limit shows
//! after or-ing.

use super::Mem;
use super::encode::RSP;

/// General-purpose registers.
const GPRS: u8 = 16;

/// Numbers of registers, and mistakes.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) vectors: u8,
    pub(super) gprs: u8,
    bases: u8,
    indices: u8,
    /// An index was rsp, which means "none".
    rsp: bool,
    /// A scale was not 1, 2, 4 or 8.
    unscaled: bool,
}

impl Named {
    #[inline(always)]
    pub(super) fn address(&mut self, mem: Mem) {
        // No index is encoded as a valid one.
        let (index, scale) = mem.index.map_or((0, 1), |(index, scale)| (index.0, scale));
        self.bases |= mem.base.0;
        self.indices |= index;
        self.rsp |= index == RSP;
        self.unscaled |= (scale & scale.wrapping_sub(1) != 0) | (scale.wrapping_sub(1) >= 8);
    }

    /// Why a kernel with these operands cannot be encoded, if it cannot.
    pub(super) fn refusal(&self, vectors: u8) -> Option<&'static str> {
        let refusals = [
            (self.vectors >= vectors, "a vector register that this level lacks"),
            (self.gprs >= GPRS, "a general-purpose register above r15"),
            (self.bases >= GPRS, "an address whose base is no register, or a spill slot that was not reserved"),
            (self.indices >= GPRS || self.rsp, "an address whose index is no register or is rsp"),
            (self.unscaled, "an address whose scale is not 1, 2, 4 or 8"),
        ];
        refusals.into_iter().find_map(|(refused, why)| refused.then_some(why))
    }
}
