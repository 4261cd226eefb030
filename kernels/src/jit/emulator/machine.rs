//! The state that emulated instructions work on: registers and flags.

use super::lanes::Vector;
use super::lower::ZERO;
use super::tiles::Tiles;

/// The number of rsp.
pub(super) const RSP: usize = 4;
/// Registers that a kernel must restore: rbx, rbp, r12-r15.
pub(super) const CALLEE_SAVED: [usize; 6] = [3, 5, 12, 13, 14, 15];

/// The flags that conditional jumps test. Kernels compare signed numbers only, so there is no carry and no parity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flags {
    /// ZF
    pub(super) zero: bool,
    /// SF != OF
    pub(super) less: bool,
    /// Whether the last instruction that changed the flags defines them.
    pub(super) defined: bool,
}

impl Flags {
    pub(super) const UNDEFINED: Flags = Flags { zero: false, less: false, defined: false };

    /// Flags of a result without overflow.
    pub(super) fn of(result: i64) -> Flags {
        Flags { zero: result == 0, less: result < 0, defined: true }
    }

    /// Flags of a result whose sign is wrong if it overflowed.
    pub(super) fn of_overflowing(result: i64, overflow: bool) -> Flags {
        Flags { zero: result == 0, less: (result < 0) != overflow, defined: true }
    }
}

/// The registers.
pub(super) struct Machine {
    pub(super) gpr: [u64; 17],
    pub(super) vectors: [Vector; 32],
    pub(super) masks: [u16; 8],
    pub(super) flags: Flags,
    pub(super) tiles: Tiles,
}

impl Machine {
    /// Registers with values that reveal a kernel that uses them: signalling NaNs and addresses that fault.
    pub(super) fn new() -> Machine {
        // Not an address of x86-64; a different one in each register.
        let mut gpr: [u64; 17] = std::array::from_fn(|register| 0xDEAD_BEEF_0000_0000 + register as u64);
        gpr[usize::from(ZERO)] = 0;
        Machine {
            gpr,
            vectors: [[0x7FA0_DEAD; 16]; 32],
            masks: [0xA5A5; 8],
            flags: Flags::UNDEFINED,
            tiles: Default::default(),
        }
    }

    /// Whether the upper halves of the registers that SSE code shares are zero.
    pub(super) fn uppers_are_clear(&self) -> bool {
        self.vectors[..16].iter().all(|vector| vector[4..] == [0; 12])
    }
}
