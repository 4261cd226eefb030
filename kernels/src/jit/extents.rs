//! Extents: the memory that one call of a kernel reads and writes, computed from the fields of its arguments and
//! checked against the operands of its driver.
//!
//! A driver lists its operands once for each run ([`Given`]), from slices whose lengths it has checked. Each argument
//! struct describes its calls ([`Arguments`]): loops over counts and strides around a number of bytes. Nothing wraps on
//! the way. A count beyond `isize::MAX` is a negative number that a driver got by subtracting. Such a count is a
//! violation, and so is a range outside of every operand. A violation is a panic before the first instruction runs,
//! with the kernel, the operand and the range.
//!
//! Calls are checked where [`CHECKED`] says so; elsewhere the list of operands is empty, and descriptions are not
//! computed. The emulator checks each access against the description of its call, so descriptions match the emitted
//! code.

use std::fmt;

use smallvec::SmallVec;

/// Whether calls are checked: in debug and in fuzz builds, and in others with the feature `extents`.
pub(crate) const CHECKED: bool = cfg!(any(debug_assertions, fuzzing, feature = "extents"));

/// Memory that a call may touch.
#[derive(Clone, Copy)]
struct Operand {
    name: &'static str,
    start: usize,
    bytes: usize,
    writable: bool,
}

impl Operand {
    fn has(&self, start: usize, end: usize, writes: bool) -> bool {
        self.start <= start && end <= self.start + self.bytes && (self.writable || !writes)
    }
}

impl fmt::Debug for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operand { name, start, bytes, writable } = *self;
        write!(f, "{name} {} {start:#x}..{:#x}", if writable { "written" } else { "read" }, start + bytes)
    }
}

/// The operands of a run: their addresses and lengths, and whether each may be written. Empty where calls are not
/// [`CHECKED`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Given(#[cfg(any(debug_assertions, fuzzing, feature = "extents"))] SmallVec<[Operand; 12]>);

impl Given {
    /// No operands.
    pub(crate) fn new() -> Given {
        Given::default()
    }

    /// Adds an operand that is read.
    pub(crate) fn read<T>(self, name: &'static str, operand: &[T]) -> Given {
        self.with(name, operand.as_ptr().cast(), size_of_val(operand), false)
    }

    /// Adds an operand that is read, if there is one.
    pub(crate) fn maybe<T>(self, name: &'static str, operand: Option<&[T]>) -> Given {
        operand.into_iter().fold(self, |given, operand| given.read(name, operand))
    }

    /// Adds an operand that is written, and may be read.
    pub(crate) fn write<T>(self, name: &'static str, operand: &mut [T]) -> Given {
        self.with(name, operand.as_mut_ptr().cast(), size_of_val(operand), true)
    }

    /// Adds an operand of `bytes` bytes.
    #[cfg_attr(
        not(any(debug_assertions, fuzzing, feature = "extents")),
        allow(unused_mut, unused_variables, reason = "nothing is listed")
    )]
    #[inline]
    pub(crate) fn with(mut self, name: &'static str, start: *const u8, bytes: usize, writable: bool) -> Given {
        #[cfg(any(debug_assertions, fuzzing, feature = "extents"))]
        self.0.push(Operand { name, start: start.addr(), bytes, writable });
        self
    }

    #[cfg(any(debug_assertions, fuzzing, feature = "extents"))]
    fn operands(&self) -> &[Operand] {
        &self.0
    }

    #[cfg(not(any(debug_assertions, fuzzing, feature = "extents")))]
    fn operands(&self) -> &[Operand] {
        &[]
    }

    /// Checks a call against the operands, where calls are [`CHECKED`].
    ///
    /// # Safety
    ///
    /// The operands are memory that may be read, and written where they say so.
    ///
    /// # Panics
    ///
    /// Where the call would touch other memory.
    #[inline]
    pub(crate) unsafe fn check<A: Arguments>(&self, args: &A, kernel: &A::Kernel) {
        if CHECKED {
            args.extents(kernel, &mut Extents::new(A::FAMILY, self, false));
        }
    }

    /// [`Given::check`], which returns the ranges that the call touches.
    ///
    /// # Safety
    ///
    /// As there.
    #[cfg(feature = "emulator")]
    pub(super) unsafe fn touched<A: Arguments>(&self, args: &A, kernel: &A::Kernel) -> Option<Vec<Touched>> {
        CHECKED.then(|| {
            let mut extents = Extents::new(A::FAMILY, self, true);
            args.extents(kernel, &mut extents);
            extents.touched
        })
    }
}

/// The arguments of a kernel, which describe the memory that a call with them touches.
pub(crate) trait Arguments {
    /// The family of the kernel, for messages.
    const FAMILY: &'static str;
    /// The part of the key that, besides the arguments, determines the extents; mostly the part that determined the
    /// instructions.
    type Kernel: ?Sized;

    /// Describes a call. Fields that the kernel advances count with their current values.
    fn extents(&self, kernel: &Self::Kernel, extents: &mut Extents<'_>);
}

/// A range that a call touches.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "emulator"), allow(dead_code, reason = "the emulator asks"))]
pub(super) struct Touched {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) writes: bool,
}

/// Collects the description of a call, and checks it against the operands.
pub(crate) struct Extents<'a> {
    family: &'static str,
    given: &'a Given,
    /// Constants of the program that the kernel may read.
    constants: SmallVec<[Operand; 2]>,
    /// The ranges so far, where the emulator needs them.
    touched: Vec<Touched>,
    keeps: bool,
}

impl<'a> Extents<'a> {
    fn new(family: &'static str, given: &'a Given, keeps: bool) -> Extents<'a> {
        Extents { family, given, constants: SmallVec::new(), touched: Vec::new(), keeps }
    }

    /// Adds a constant of the program to the memory that the kernel may read.
    pub(crate) fn constant<T>(&mut self, name: &'static str, constant: &'static [T]) {
        let (start, bytes) = (constant.as_ptr().addr(), size_of_val(constant));
        self.constants.push(Operand { name, start, bytes, writable: false });
    }

    /// Describes a read from `first` on; [`Span::bytes`] gives the number of bytes.
    pub(crate) fn read<T>(&mut self, name: &'static str, first: *const T) -> Span<'_, 'a> {
        self.span(name, first.addr(), false)
    }

    /// Describes a write from `first` on; the same memory may be read before.
    pub(crate) fn write<T>(&mut self, name: &'static str, first: *mut T) -> Span<'_, 'a> {
        self.span(name, first.addr(), true)
    }

    /// Describes a list that the kernel reads, and returns it, so that its entries can be described.
    pub(crate) fn list<'l, T: Copy>(&mut self, name: &'static str, first: *const T, count: usize) -> &'l [T] {
        self.read(name, first).over(count, size_of::<T>()).bytes(size_of::<T>());
        if count == 0 {
            return &[];
        }
        // SAFETY: the list was just found inside an operand, and the caller of the check vouches for all operands.
        unsafe { std::slice::from_raw_parts(first, count) }
    }

    fn span(&mut self, name: &'static str, first: usize, writes: bool) -> Span<'_, 'a> {
        let first = first as i128;
        Span { extents: self, name, writes, low: first, high: first, empty: false }
    }

    fn touch(&mut self, name: &'static str, start: usize, end: usize, writes: bool) {
        let listed = self.given.operands().iter().chain(&self.constants);
        if !listed.clone().any(|operand| operand.has(start, end, writes)) {
            let verb = if writes { "writes" } else { "reads" };
            panic!(
                "{}: {verb} {} bytes of {name} at {start:#x}..{end:#x}, which no operand has: {:?}",
                self.family,
                end - start,
                listed.collect::<Vec<_>>()
            );
        }
        if self.keeps {
            self.touched.push(Touched { start, end, writes });
        }
    }

    #[cold]
    fn refuse(&self, name: &'static str, writes: bool, reason: fmt::Arguments<'_>) -> ! {
        panic!("{}: {} {name} {reason}", self.family, if writes { "writes" } else { "reads" })
    }
}

/// A range while it is described: from the first byte of the first iteration of all loops to the last byte of the last.
#[must_use = "it is described by its number of bytes"]
pub(crate) struct Span<'e, 'a> {
    extents: &'e mut Extents<'a>,
    name: &'static str,
    writes: bool,
    /// The lowest and the highest address at which an innermost iteration starts.
    low: i128,
    high: i128,
    empty: bool,
}

impl Span<'_, '_> {
    /// Moves the range by `offset` bytes.
    pub(crate) fn from(mut self, offset: isize) -> Self {
        self.low = self.low.saturating_add(offset as i128);
        self.high = self.high.saturating_add(offset as i128);
        self
    }

    /// Repeats the range in a loop of `count` iterations, `step` bytes apart; a step beyond `isize::MAX` is negative.
    pub(crate) fn over(mut self, count: usize, step: usize) -> Self {
        if count > isize::MAX as usize {
            self.extents.refuse(self.name, self.writes, format_args!("{} times", count as isize));
        }
        self.empty |= count == 0;
        let reach = (count as i128 - 1).saturating_mul(step as isize as i128);
        self.low = self.low.saturating_add(reach.min(0));
        self.high = self.high.saturating_add(reach.max(0));
        self
    }

    /// Ends the description: each innermost iteration touches `bytes` bytes.
    pub(crate) fn bytes(self, bytes: usize) {
        if bytes > isize::MAX as usize {
            self.extents.refuse(self.name, self.writes, format_args!("in {} bytes", bytes as isize));
        }
        if self.empty || bytes == 0 {
            return;
        }
        let range = (usize::try_from(self.low), usize::try_from(self.high.saturating_add(bytes as i128)));
        let (Ok(start), Ok(end)) = range else {
            let Span { low, high, .. } = self;
            self.extents.refuse(self.name, self.writes, format_args!("from {low:#x} to {high:#x}"));
        };
        self.extents.touch(self.name, start, end, self.writes);
    }
}

/// Iterations of a loop that counts down to zero and tests at its end: a count of 0 at the start would wrap, so it
/// describes a loop that does not end.
pub(crate) const fn counted_down(count: usize) -> usize {
    if count == 0 { usize::MAX } else { count }
}

// Only where calls are checked: elsewhere a call that these tests expect to be refused would run.
#[cfg(all(test, any(debug_assertions, fuzzing, feature = "extents")))]
mod tests;
