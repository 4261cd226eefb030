//! The state that emulated instructions work on: registers, flags and the memory of this process.

/// The number of rsp.
pub(super) const RSP: usize = 4;
/// A register that holds zero for ever, so that an address without base or index needs no branch.
pub(super) const ZERO: u8 = 16;
/// Registers that a kernel must hand back as it got them: rbx, rbp, r12-r15.
pub(super) const CALLEE_SAVED: [usize; 6] = [3, 5, 12, 13, 14, 15];

/// A vector register: the bits of sixteen lanes.
pub(super) type Vector = [u32; 16];

/// What conditional jumps can ask. Kernels compare signed numbers only, so carry and parity are not kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flags {
    /// ZF
    pub(super) zero: bool,
    /// SF != OF
    pub(super) less: bool,
    /// Whether the manual defines them after the last instruction that touched them.
    pub(super) defined: bool,
}

impl Flags {
    pub(super) const UNDEFINED: Flags = Flags { zero: false, less: false, defined: false };

    /// Flags of a result without overflow.
    pub(super) fn of(result: i64) -> Flags {
        Flags { zero: result == 0, less: result < 0, defined: true }
    }

    /// Flags of a result whose sign is wrong where it overflowed.
    pub(super) fn of_overflowing((result, overflow): (i64, bool)) -> Flags {
        Flags { zero: result == 0, less: (result < 0) != overflow, defined: true }
    }
}

/// The registers.
pub(super) struct Machine {
    pub(super) gpr: [u64; 17],
    pub(super) vectors: [Vector; 32],
    pub(super) masks: [u16; 8],
    pub(super) flags: Flags,
    pub(super) tiles: super::tiles::Tiles,
}

impl Machine {
    /// Registers full of values that no kernel can use unnoticed: signalling NaNs and addresses that fault.
    pub(super) fn new() -> Machine {
        // No address of x86-64, and another one in each register.
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

/// The memory of this process, as a kernel sees it.
pub(super) struct Memory(());

impl Memory {
    /// # Safety
    ///
    /// Every address that is given to the methods may be read, or written, as they say.
    pub(super) unsafe fn vouched_for() -> Memory {
        Memory(())
    }

    #[inline(always)]
    pub(super) fn read<T: Copy>(&self, address: u64) -> T {
        // SAFETY: whoever made this value vouched for the address.
        unsafe { (address as *const T).read_unaligned() }
    }

    #[inline(always)]
    pub(super) fn write<T>(&self, address: u64, value: T) {
        // SAFETY: whoever made this value vouched for the address.
        unsafe { (address as *mut T).write_unaligned(value) }
    }
}
