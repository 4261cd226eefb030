//! The memory of this process as emulated instructions access it, checked against the description of a call.

use std::ops::Range;

use crate::jit::extents::Touched;

/// The memory of a described call: its extents, and the memory of every kernel: arguments, constants and a stack.
pub(crate) struct Described {
    /// Disjoint and rising ranges.
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

/// The same addresses, in rising ranges that do not touch each other.
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

/// Access to the memory of this process.
pub(super) struct Memory<'a> {
    described: Option<&'a Described>,
    stack: Range<u64>,
}

impl<'a> Memory<'a> {
    /// # Safety
    ///
    /// Every address that is given to the methods and lies in `described` may be read, or written, as the method says.
    /// Without a description this holds for every address.
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
