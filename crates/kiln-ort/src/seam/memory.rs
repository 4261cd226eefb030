//! Memory of tensors, which callers read and write between runs.
//!
//! A tensor's elements stay at one address from its making to its release, wherever they are: in the caller's memory,
//! in an allocator's, or where a run has made them. Outside of runs the caller may touch them at any time, so nothing
//! reads them then. By the header, a caller that touches memory while a run reads or writes it races with the run, as
//! in onnxruntime.

use std::any::Any;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use kiln::{Foreign, ForeignMut};

use crate::error::{Error, Result, invalid};
use crate::seam::Allocator;

/// Bytes of any use, as C passes them.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Memory(*mut c_void);

// SAFETY: it is an address; the functions that use it state their conditions.
unsafe impl Send for Memory {}

impl Memory {
    pub(crate) const NULL: Memory = Memory(std::ptr::null_mut());

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn raw(self) -> *mut c_void {
        self.0
    }

    pub(crate) fn of(raw: *mut c_void) -> Memory {
        Memory(raw)
    }

    /// A copy of the bytes.
    pub(crate) fn copy(self, len: usize, what: &str) -> Result<Vec<u8>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(Error::null(what));
        }
        if len > isize::MAX as usize {
            return Err(invalid!("{what}: {len} bytes are more than any memory has"));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| invalid!("{what}: there is no memory for {len} bytes"))?;
        // SAFETY: the caller has `len` bytes there, and the vector has room for them.
        unsafe {
            std::ptr::copy_nonoverlapping(self.0.cast::<u8>(), bytes.as_mut_ptr(), len);
            bytes.set_len(len);
        }
        Ok(bytes)
    }

    /// Writes bytes there; the caller has room for `room`.
    pub(crate) fn write(self, room: usize, bytes: &[u8], what: &str) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.0.is_null() {
            return Err(Error::null(what));
        }
        let count = bytes.len().min(room);
        // SAFETY: the caller has room for this many bytes there. They may be the same bytes, or overlap: tensors may
        // share memory, and a tensor may be copied to itself.
        unsafe { std::ptr::copy(bytes.as_ptr(), self.0.cast::<u8>(), count) };
        Ok(())
    }
}

/// The bytes of a tensor's elements, and the object that keeps them there.
#[derive(Clone)]
pub(crate) struct Block {
    start: NonNull<u8>,
    /// Bytes.
    len: usize,
    /// Dropped with the last run and value that use it.
    keeper: Arc<dyn Any + Send + Sync>,
}

// SAFETY: it is an address and the object that keeps its bytes; both may be sent and shared. Only runs touch the bytes,
// and the callers of runs have them.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

/// Addresses of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: usize,
    /// Bytes.
    len: usize,
}

impl Span {
    /// Whether there is a byte at that address.
    pub(crate) fn holds(self, address: usize) -> bool {
        address.wrapping_sub(self.start) < self.len
    }

    /// Whether some of the bytes belong to another span, too.
    pub(crate) fn overlaps(self, other: Span) -> bool {
        self.len > 0 && other.len > 0 && self.start < other.start + other.len && other.start < self.start + self.len
    }
}

/// Frees memory that an allocator gave.
struct Allocated {
    allocator: Allocator,
    memory: Memory,
}

// SAFETY: allocators are called from any thread, by the header.
unsafe impl Sync for Allocated {}

impl Drop for Allocated {
    fn drop(&mut self) {
        self.allocator.free(self.memory.0);
    }
}

/// An address without bytes that elements of every type may have.
fn nowhere() -> NonNull<u8> {
    #[repr(align(64))]
    struct Aligned([u8; 64]);
    static NOWHERE: Aligned = Aligned([0; 64]);
    NonNull::from(&NOWHERE.0).cast()
}

impl Block {
    /// The caller's memory, which outlives the value.
    pub(crate) fn of_caller(memory: Memory, len: usize, what: &str) -> Result<Block> {
        let start = NonNull::new(memory.0.cast()).or((len == 0).then(nowhere));
        Ok(Block { start: start.ok_or_else(|| Error::null(what))?, len, keeper: Arc::new(()) })
    }

    /// Memory that an allocator gives and gets back. It is zeroed, so that it may be read before it is written.
    pub(crate) fn of_allocator(allocator: Allocator, len: usize) -> Result<Block> {
        let memory = Memory(allocator.alloc(len, "allocator")?);
        let start = NonNull::new(memory.0.cast::<u8>()).or((len == 0).then(nowhere));
        let start = start.ok_or_else(|| Error::null("memory"))?;
        // SAFETY: the allocator has just given this many bytes.
        unsafe { start.write_bytes(0, len) };
        Ok(Block { start, len, keeper: Arc::new(Allocated { allocator, memory }) })
    }

    /// The caller's memory, which the allocator frees with the value.
    pub(crate) fn handed_over(allocator: Allocator, memory: Memory, len: usize, what: &str) -> Result<Block> {
        let start = NonNull::new(memory.0.cast()).or((len == 0).then(nowhere));
        let start = start.ok_or_else(|| Error::null(what))?;
        Ok(Block { start, len, keeper: Arc::new(Allocated { allocator, memory }) })
    }

    /// The bytes of a Rust value, which is dropped with the block.
    pub(crate) fn of_bytes<T: Any + Send + Sync>(owner: T, bytes: impl FnOnce(&mut T) -> &mut [u8]) -> Result<Block> {
        let mut keeper = Arc::new(owner);
        // Asked after the owner has its final place.
        let bytes = Arc::get_mut(&mut keeper).map(bytes).ok_or_else(|| Error::null("owner"))?;
        let (start, len) = (NonNull::from(&mut *bytes).cast(), bytes.len());
        Ok(Block { start, len, keeper })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where the bytes are.
    pub(crate) fn memory(&self) -> Memory {
        Memory(self.start.as_ptr().cast())
    }

    /// The address of an element.
    pub(crate) fn at(&self, offset: usize) -> Memory {
        // Within the block: callers in this crate ask only for elements that exist.
        Memory(self.start.as_ptr().wrapping_add(offset).cast())
    }

    /// Whether the bytes may hold elements of that alignment.
    pub(crate) fn is_aligned(&self, to: usize) -> bool {
        self.start.addr().get().is_multiple_of(to)
    }

    /// The addresses of the bytes, to compare with others.
    pub(crate) fn span(&self) -> Span {
        Span { start: self.start.addr().get(), len: self.len }
    }

    /// The bytes, for a run that reads them.
    pub(crate) fn reading(&self) -> Foreign {
        // SAFETY: the bytes are initialised and of one allocation, and the owner that goes along keeps them. Only runs
        // read them. During a run the caller does not write them, and the run itself does not either: outputs that
        // overlap an input are made elsewhere (`Span::overlaps`).
        unsafe { Foreign::new(self.start, self.len, self.keeper.clone()) }
    }

    /// The bytes, for a run that writes them.
    pub(crate) fn writing(&self) -> ForeignMut {
        // SAFETY: as in `reading`; a run writes each of its outputs to bytes that no other operand of the run has.
        unsafe { ForeignMut::new(self.start, self.len, self.keeper.clone()) }
    }

    /// A copy of the bytes.
    pub(crate) fn copy(&self) -> Result<Vec<u8>> {
        self.memory().copy(self.len, "tensor")
    }

    /// Writes bytes from the start on.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<()> {
        self.memory().write(self.len, bytes, "tensor")
    }
}
