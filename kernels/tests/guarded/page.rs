//! Buffers flush against a page that faults, at their end or at their start; the rest of their pages is NaN, which no
//! result survives, and is checked to be untouched.

use std::ops::{Deref, DerefMut};
use std::ptr::null_mut;

use half::f16;
use kiln_kernels::cpu::precision::to_bf16;
use kiln_kernels::cpu::{Activations, Stored};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

const PAGE: usize = 4096;

/// The value of unused bytes: NaN as floats.
const REST: u8 = 0xFF;

/// Numbers for which every pattern of bits is a value.
///
/// # Safety
///
/// Every pattern of bits must be a value of the type, and its size must divide a page.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: all patterns of bits are floats.
unsafe impl Plain for f32 {}
// SAFETY: as above.
unsafe impl Plain for f16 {}
// SAFETY: all are numbers.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for i8 {}
// SAFETY: all are numbers.
unsafe impl Plain for u16 {}
// SAFETY: all are numbers.
unsafe impl Plain for u32 {}
// SAFETY: all are numbers.
unsafe impl Plain for i32 {}
// SAFETY: all are numbers.
unsafe impl Plain for i64 {}

/// A buffer between pages that fault.
#[derive(Debug)]
pub(crate) struct Guarded<T: Plain> {
    /// The first of the pages that fault.
    map: *mut u8,
    /// Bytes of the pages between.
    inside: usize,
    /// The first element.
    data: *mut T,
    len: usize,
}

impl<T: Plain> Guarded<T> {
    /// `len` elements that have not been written, at the end of their pages or at the start.
    pub(crate) fn blank(len: usize, at_end: bool) -> Guarded<T> {
        let bytes = len * size_of::<T>();
        let inside = bytes.next_multiple_of(PAGE).max(PAGE);
        // SAFETY: fresh memory of our own; all writes lie between the first page and the last.
        unsafe {
            let map = mmap_anonymous(null_mut(), inside + 2 * PAGE, ProtFlags::empty(), MapFlags::PRIVATE)
                .expect("there is memory for small buffers")
                .cast::<u8>();
            let start = map.add(PAGE);
            mprotect(start.cast(), inside, MprotectFlags::READ | MprotectFlags::WRITE).expect("the pages are ours");
            start.write_bytes(REST, inside);
            let data = start.add(if at_end { inside - bytes } else { 0 }).cast();
            Guarded { map, inside, data, len }
        }
    }

    /// These values, in a buffer like that of [`Guarded::blank`].
    pub(crate) fn of(values: &[T], at_end: bool) -> Guarded<T> {
        let mut guarded = Guarded::blank(values.len(), at_end);
        guarded.copy_from_slice(values);
        guarded
    }

    /// The elements, if nothing around them was written.
    pub(crate) fn open(&self) -> &[T] {
        let before = self.data as usize - (self.map as usize + PAGE);
        let after = self.inside - before - self.len * size_of::<T>();
        // SAFETY: both lie in the pages of `blank`, which wrote all their bytes.
        let around = unsafe {
            let start = self.map.add(PAGE);
            let before = std::slice::from_raw_parts(start, before);
            [before, std::slice::from_raw_parts(start.add(self.inside - after), after)]
        };
        assert!(around.concat().iter().all(|&byte| byte == REST), "written outside of a buffer");
        self
    }
}

impl<T: Plain> Deref for Guarded<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements of `blank`, aligned as a page is or as its end less whole elements.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

impl<T: Plain> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and borrowed as the buffer is.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }
    }
}

impl<T: Plain> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: all pages of `blank`, which nothing refers to any more.
        unsafe { munmap(self.map.cast(), self.inside + 2 * PAGE).expect("the pages are ours") };
    }
}

/// An operand in both types; small whole numbers are exact in either.
pub(crate) struct Both {
    whole: Guarded<f32>,
    halves: Guarded<u16>,
}

impl Both {
    pub(crate) fn new(values: &[f32], at_end: bool) -> Both {
        let halves: Vec<u16> = values.iter().copied().map(to_bf16).collect();
        Both { whole: Guarded::of(values, at_end), halves: Guarded::of(&halves, at_end) }
    }

    pub(crate) fn get(&self, stored: Stored) -> Activations<'_> {
        match stored {
            Stored::F32 => Activations::F32(&self.whole),
            Stored::Bf16 => Activations::Bf16(&self.halves),
        }
    }
}
