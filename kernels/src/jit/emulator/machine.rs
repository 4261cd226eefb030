//! The state that emulated instructions work on: registers, flags and the memory of this process.

use std::ops::Range;

use crate::jit::extents::Touched;

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

/// What a call said that it touches, with what every kernel has: its arguments, its constants and a stack.
pub(crate) struct Described {
    /// Disjoint and rising.
    read: Vec<Range<u64>>,
    written: Vec<Range<u64>>,
}

impl Described {
    pub(crate) fn new<A>(touched: &[Touched], code: &[u8], args: &A) -> Described {
        let code = code.as_ptr_range();
        let args = std::ptr::from_ref(args).addr() as u64;
        let args = args..args + size_of::<A>() as u64;
        let range = |touched: &Touched| touched.start as u64..touched.end as u64;
        let written = touched.iter().filter(|touched| touched.writes).map(range);
        let read = touched.iter().map(range).chain([code.start.addr() as u64..code.end.addr() as u64, args.clone()]);
        Described { read: joined(read.collect()), written: joined(written.chain([args]).collect()) }
    }
}

/// The same places, in rising ranges that do not touch each other.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let meets = next.start <= last.end;
        if meets {
            last.end = last.end.max(next.end);
        }
        meets
    });
    ranges
}

/// The memory of this process, as a kernel sees it.
pub(super) struct Memory<'a> {
    described: Option<&'a Described>,
    stack: Range<u64>,
}

impl<'a> Memory<'a> {
    /// # Safety
    ///
    /// Every address that is given to the methods may be read, or written, as they say, where it is among what was
    /// described; where nothing was, every address.
    pub(super) unsafe fn vouched_for(described: Option<&'a Described>, stack: Range<*const u64>) -> Memory<'a> {
        Memory { described, stack: stack.start.addr() as u64..stack.end.addr() as u64 }
    }

    #[inline(always)]
    pub(super) fn read<T: Copy>(&self, address: u64) -> T {
        if let Some(described) = self.described {
            self.hold(&described.read, "reads", address, size_of::<T>());
        }
        // SAFETY: the maker of this value vouched for the address.
        unsafe { (address as *const T).read_unaligned() }
    }

    #[inline(always)]
    pub(super) fn write<T>(&self, address: u64, value: T) {
        if let Some(described) = self.described {
            self.hold(&described.written, "writes", address, size_of::<T>());
        }
        // SAFETY: the maker of this value vouched for the address.
        unsafe { (address as *mut T).write_unaligned(value) }
    }

    #[inline(never)]
    fn hold(&self, ranges: &[Range<u64>], verb: &str, address: u64, bytes: usize) {
        let end = address.wrapping_add(bytes as u64);
        let inside = |range: &Range<u64>| range.start <= address && address <= end && end <= range.end;
        let before = ranges.partition_point(|range| range.start <= address);
        let described = before.checked_sub(1).is_some_and(|index| inside(&ranges[index]));
        assert!(
            described || inside(&self.stack),
            "the kernel {verb} {bytes} bytes at {address:#x}, which the extents of its call do not say: {ranges:#x?}"
        );
    }
}
