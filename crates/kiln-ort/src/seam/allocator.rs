//! Allocators: structs of functions. Callers may make such structs too.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError};

use kiln_fork::Mutex;

use crate::error::{Code, Error, Result, invalid};
use crate::keyvalue::Pairs;
use crate::memory_info::MemoryInfo;
use crate::seam::{Chars, Handle, Status};
use crate::version::VERSION;

/// onnxruntime's `OrtAllocator`, as version 31 has it.
#[repr(C)]
#[allow(non_snake_case, reason = "C's names")]
pub(crate) struct Table {
    /// The version of the interface that its maker knows: fields of later versions are missing.
    version: u32,
    Alloc: Option<unsafe extern "C" fn(*mut Table, usize) -> *mut c_void>,
    Free: Option<unsafe extern "C" fn(*mut Table, *mut c_void)>,
    Info: Option<unsafe extern "C" fn(*const Table) -> Handle<MemoryInfo>>,
    Reserve: Option<unsafe extern "C" fn(*mut Table, usize) -> *mut c_void>,
    GetStats: Option<unsafe extern "C" fn(*const Table, *mut Handle<Pairs>) -> Status>,
    AllocOnStream: Option<unsafe extern "C" fn(*mut Table, usize, *mut c_void) -> *mut c_void>,
    Shrink: Option<unsafe extern "C" fn(*mut Table) -> Status>,
}

/// An allocator as C passes it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allocator(*mut Table);

// SAFETY: allocators are called from any thread, by the header.
unsafe impl Send for Allocator {}
// SAFETY: as above.
unsafe impl Sync for Allocator {}

/// The version that introduced `Reserve`, and the version that introduced `GetStats`.
const HAS_STATS: u32 = 23;

impl Allocator {
    pub(crate) const NULL: Allocator = Allocator(null_mut());

    /// The allocator that lives as long as the process.
    pub(crate) fn default() -> Allocator {
        static DEFAULT: OnceLock<Allocator> = OnceLock::new();
        *DEFAULT.get_or_init(|| Allocator(Box::into_raw(Box::new(own(MemoryInfo::cpu())))))
    }

    /// An allocator for a caller, which releases it.
    pub(crate) fn for_caller(info: Handle<MemoryInfo>) -> Allocator {
        let mut own_ones = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        let again = if own_ones.released.len() > RESTING { own_ones.released.pop_front() } else { None };
        let made = match again {
            Some(Allocator(table)) => {
                // SAFETY: the struct is the crate's own and was released; its functions refuse, so only callers that
                // break the rules use it.
                unsafe { table.write(own(info)) };
                Allocator(table)
            }
            None => Allocator(Box::into_raw(Box::new(own(info)))),
        };
        own_ones.live.insert(made.0.addr());
        made
    }

    /// Ends an allocator that was made for a caller. Others stay as they are.
    pub(crate) fn release(self) {
        if self.0.is_null() || self == Allocator::default() {
            return;
        }
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        if own.live.remove(&self.0.addr()) {
            // SAFETY: the struct is the crate's own and is never freed.
            let table = unsafe { &mut *self.0 };
            table.Alloc = Some(alloc_nothing);
            table.Reserve = Some(alloc_nothing);
            own.released.push_back(self);
        }
    }

    fn table(self, what: &str) -> Result<&'static Table> {
        // SAFETY: by the header, the caller's struct lives as long as the memory that it has allocated. `version` and
        // the first three functions exist in all versions.
        unsafe { self.0.as_ref() }.ok_or_else(|| Error::null(what))
    }

    /// Fails for null, and for an allocator that lacks a function that every allocator has.
    pub(crate) fn check(self, what: &str) -> Result<()> {
        let table = self.table(what)?;
        if table.Alloc.is_some() && table.Free.is_some() && table.Info.is_some() {
            return Ok(());
        }
        Err(invalid!("{what} has no Alloc, Free or Info"))
    }

    /// Memory of that many bytes; null for none.
    ///
    /// # Errors
    ///
    /// Where the allocator returns null.
    pub(crate) fn alloc(self, bytes: usize, what: &str) -> Result<*mut c_void> {
        self.check(what)?;
        let alloc = self.table(what)?.Alloc.ok_or_else(|| Error::null(what))?;
        // SAFETY: it is called as its type says, with its own struct.
        let memory = unsafe { alloc(self.0, bytes) };
        if memory.is_null() && bytes > 0 {
            return Err(Error::new(Code::OutOfMemory, format!("Failed to allocate memory: {bytes} bytes from {what}")));
        }
        Ok(memory)
    }

    /// Frees memory that `alloc` returned.
    pub(crate) fn free(self, memory: *mut c_void) {
        if let Some(free) = self.table("allocator").ok().and_then(|table| table.Free) {
            // SAFETY: it is called as its type says, with its own struct and memory that it returned.
            unsafe { free(self.0, memory) };
        }
    }

    /// The allocator's description of its memory.
    pub(crate) fn info(self, what: &str) -> Result<Handle<MemoryInfo>> {
        self.check(what)?;
        let info = self.table(what)?.Info.ok_or_else(|| Error::null(what))?;
        // SAFETY: it is called as its type says, with its own struct.
        Ok(unsafe { info(self.0) })
    }

    /// Its counters; `None` where it has none.
    pub(crate) fn stats(self, what: &str) -> Result<Option<Handle<Pairs>>> {
        self.check(what)?;
        let table = self.table(what)?;
        let Some(stats) = (if table.version >= HAS_STATS { table.GetStats } else { None }) else { return Ok(None) };
        let mut pairs = Handle::NULL;
        // SAFETY: it is called as its type says, with its own struct and a place for one handle.
        let status = unsafe { stats(self.0, &mut pairs) };
        match status.release() {
            Some(failure) => Err(failure.error()),
            None => Ok(Some(pairs)),
        }
    }

    /// A copy of the text that the caller frees.
    pub(crate) fn text(self, text: &[u8], what: &str) -> Result<Chars> {
        let memory = self.alloc(text.len() + 1, what)?.cast::<u8>();
        // SAFETY: the allocator has just given this many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), memory, text.len());
            memory.add(text.len()).write(0);
        }
        Ok(memory.cast())
    }

    /// A copy of the list that the caller frees; null where it is empty.
    pub(crate) fn list<T: Copy>(self, values: &[T], what: &str) -> Result<*mut T> {
        if values.is_empty() {
            return Ok(null_mut());
        }
        let memory = self.alloc(size_of_val(values), what)?.cast::<T>();
        // SAFETY: the allocator has just given this many bytes; bytes are copied, so that any alignment is fine.
        unsafe {
            std::ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), memory.cast::<u8>(), size_of_val(values));
        }
        Ok(memory)
    }

    /// A list of texts; the caller frees each text and then the list. Null where there are no texts.
    pub(crate) fn texts(self, texts: &[&str], what: &str) -> Result<*mut Chars> {
        let mut made: Vec<Chars> = Vec::with_capacity(texts.len());
        let mut make = || -> Result<*mut Chars> {
            for text in texts {
                made.push(self.text(text.as_bytes(), what)?);
            }
            self.list(&made, what)
        };
        make().inspect_err(|_| made.iter().for_each(|text| self.free(text.cast())))
    }
}

/// One buffer with pointers to texts and the texts behind them, which [`free_block`] frees.
pub(crate) fn text_block(texts: &[&str]) -> Result<*mut Chars> {
    let pointers = texts.len() * size_of::<*mut c_char>();
    let bytes: usize = texts.iter().map(|text| text.len() + 1).sum();
    let block = Allocator::default().alloc(pointers + bytes, "memory")?.cast::<u8>();
    let mut end = pointers;
    for (place, text) in texts.iter().enumerate() {
        // SAFETY: the block has room for all pointers and, behind them, all texts with their zeros; it is aligned for
        // pointers.
        unsafe {
            let at = block.add(end);
            std::ptr::copy_nonoverlapping(text.as_ptr(), at, text.len());
            at.add(text.len()).write(0);
            block.cast::<*mut c_char>().add(place).write(at.cast());
        }
        end += text.len() + 1;
    }
    Ok(block.cast())
}

/// Frees a block of [`text_block`].
pub(crate) fn free_block(block: *mut Chars) {
    Allocator::default().free(block.cast());
}

/// Allocators that were made for callers.
struct Own {
    /// The addresses of allocators in use.
    live: BTreeSet<usize>,
    /// Released allocators, the earliest first.
    released: VecDeque<Allocator>,
}

static OWN: Mutex<Own> = Mutex::new(Own { live: BTreeSet::new(), released: VecDeque::new() });
/// Allocators that are released before the first of these is used again.
const RESTING: usize = 256;

/// Bytes of the crate's own allocators that programs hold, and the number of allocations.
static HELD: AtomicU64 = AtomicU64::new(0);
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The alignment of all memory, in bytes: a cache line, and AVX-512's vectors.
const ALIGNED: usize = 64;

/// The functions of the crate's own allocators. `Info` returns the memory of the process, whatever name the caller's
/// info has.
fn own(_info: Handle<MemoryInfo>) -> Table {
    Table {
        version: VERSION,
        Alloc: Some(alloc),
        Free: Some(free),
        Info: Some(info),
        Reserve: Some(alloc),
        GetStats: Some(stats),
        AllocOnStream: None,
        Shrink: Some(shrink),
    }
}

unsafe extern "C" fn alloc(_table: *mut Table, bytes: usize) -> *mut c_void {
    // No object is larger than half of the addresses.
    if bytes == 0 || bytes > isize::MAX as usize {
        return null_mut();
    }
    let mut memory = null_mut();
    // SAFETY: the alignment is a power of two and a multiple of a pointer's size; the pointer is written on success.
    if unsafe { libc::posix_memalign(&mut memory, ALIGNED, bytes) } != 0 {
        return null_mut();
    }
    // SAFETY: it was allocated just now.
    let size = unsafe { libc::malloc_usable_size(memory) };
    HELD.fetch_add(size as u64, Ordering::Relaxed);
    TAKEN.fetch_add(1, Ordering::Relaxed);
    memory
}

unsafe extern "C" fn alloc_nothing(_table: *mut Table, _bytes: usize) -> *mut c_void {
    null_mut()
}

unsafe extern "C" fn free(_table: *mut Table, memory: *mut c_void) {
    if memory.is_null() {
        return;
    }
    // SAFETY: the caller frees memory that `alloc` returned, once.
    unsafe {
        HELD.fetch_sub(libc::malloc_usable_size(memory) as u64, Ordering::Relaxed);
        libc::free(memory);
    }
}

unsafe extern "C" fn info(_table: *const Table) -> Handle<MemoryInfo> {
    MemoryInfo::cpu()
}

unsafe extern "C" fn stats(_table: *const Table, out: *mut Handle<Pairs>) -> Status {
    crate::seam::guard("GetStats", || {
        if out.is_null() {
            return Err(Error::null("out"));
        }
        let pairs = Pairs::default();
        pairs.add("NumAllocs", &TAKEN.load(Ordering::Relaxed).to_string());
        pairs.add("InUse", &HELD.load(Ordering::Relaxed).to_string());
        // SAFETY: it is not null, and the caller has room for a handle there.
        unsafe { out.write(Handle::new(pairs)?) };
        Ok(())
    })
}

unsafe extern "C" fn shrink(_table: *mut Table) -> Status {
    Status::NULL
}
