//! Memory of tensors, aligned to cache lines. It is lent by a [pool](BufferPool) and given back on drop, or read from a
//! file or made of smaller elements at the first access. Independent of how a pool divides memory.

use std::sync::{Arc, OnceLock, PoisonError};

use kiln_fork::{Mutex, stay};
use kiln_kernels::extent::{Foreign, ForeignMut};
use kiln_kernels::memory::Refused;

use super::backing::Backing;
use super::compact::Compact;
use super::dtype::DType;
use super::memory::Memory;
use super::pool::BufferPool;

/// Aligned bytes. Dropping a buffer gives its memory back to its lender.
#[derive(Debug)]
pub struct Buffer {
    /// Empty until the first access if the bytes are in a file, or numbers in compact form.
    memory: OnceLock<Memory>,
    /// The place in the file, or the compact form, until then.
    later: Mutex<Option<Deferred>>,
    lender: Lender,
    /// Bytes that were requested.
    asked: usize,
    /// The lease to which it returns when it is freed, if any; otherwise it returns to the pool.
    home: Home,
}

/// The owner to which a buffer's memory returns.
#[derive(Debug, Default)]
enum Lender {
    /// It is freed.
    #[default]
    Heap,
    /// A pool.
    Pool(Arc<BufferPool>),
    /// A loan, which lends it to one buffer after the other.
    Loan(Arc<Loan>),
}

/// Memory that is lent to one buffer at a time, and comes back when that one is dropped.
#[derive(Debug)]
pub(super) struct Loan(Mutex<Option<Memory>>);

impl Loan {
    pub(super) fn of(memory: Memory) -> Arc<Loan> {
        Arc::new(Loan(Mutex::new(Some(memory))))
    }

    /// The memory; `None` while a buffer has it.
    pub(super) fn take(&self) -> Option<Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn give_back(&self, memory: Memory) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory);
    }
}

/// A buffer's memory, without its users.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) memory: Memory,
    /// Bytes that were requested.
    pub(super) asked: usize,
    /// The pool that lent it.
    pub(super) pool: Option<Arc<BufferPool>>,
}

/// A buffer's place in a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Home {
    /// The lease's number; 0 is none.
    pub holder: u64,
    /// The place.
    pub place: u32,
}

/// Where bytes are that have not been accessed yet.
#[derive(Clone, Debug)]
enum Deferred {
    /// In a file.
    File { backing: Arc<Backing>, offset: u64 },
    /// Numbers of that float type, from the first one of the form on.
    Compact(Arc<Compact>, DType),
}

impl Buffer {
    /// At least `bytes` bytes of zeros, owned.
    ///
    /// # Errors
    ///
    /// Where the system has too little memory, or this thread's work is ended before the memory is present.
    pub fn zeroed(bytes: usize) -> Result<Buffer, Refused> {
        Ok(Buffer::of(Memory::zeroed(bytes)?, bytes, None))
    }

    /// Bytes that belong to a caller. They are read in place; a writer gets a copy.
    #[must_use]
    pub fn foreign(bytes: Foreign) -> Buffer {
        let len = bytes.bytes().len();
        Buffer::of(Memory::Foreign(bytes), len, None)
    }

    /// Bytes that belong to a caller, and are written in place.
    #[must_use]
    pub fn foreign_mut(bytes: ForeignMut) -> Buffer {
        let len = bytes.bytes().len();
        Buffer::of(Memory::ForeignMut(bytes), len, None)
    }

    /// At least `bytes` bytes of the pool's memory, with arbitrary contents.
    ///
    /// # Errors
    ///
    /// As [`Buffer::zeroed`].
    pub fn lent(pool: &Arc<BufferPool>, bytes: usize) -> Result<Buffer, Refused> {
        Ok(Buffer::of(pool.lend(bytes, 2)?, bytes, Some(pool.clone())))
    }

    /// At least `bytes` bytes of the pool's memory, hardly more, for a buffer that is kept for long.
    ///
    /// # Errors
    ///
    /// As [`Buffer::zeroed`].
    pub fn lent_to_keep(pool: &Arc<BufferPool>, bytes: usize) -> Result<Buffer, Refused> {
        Ok(Buffer::of(pool.lend_to_keep(bytes)?, bytes, Some(pool.clone())))
    }

    /// `bytes` bytes of a file from `offset` on, which are read at the first access.
    #[must_use]
    pub fn deferred(backing: Arc<Backing>, offset: u64, bytes: usize) -> Buffer {
        let lender = Lender::Pool(backing.pool().clone());
        Buffer::later(Deferred::File { backing, offset }, bytes, lender)
    }

    /// `bytes` bytes of numbers of the float type `dtype`, which are made at the first access.
    pub(super) fn compact(form: Arc<Compact>, dtype: DType, bytes: usize) -> Buffer {
        Buffer::later(Deferred::Compact(form, dtype), bytes, Lender::Heap)
    }

    fn later(later: Deferred, asked: usize, lender: Lender) -> Buffer {
        Buffer { memory: OnceLock::new(), later: Mutex::new(Some(later)), lender, asked, home: Home::default() }
    }

    /// A buffer that reads `bytes` bytes of this one's file, from its byte `start` on; `None` if this buffer has been
    /// read or is not from a file.
    pub(super) fn unread(&self, start: usize, bytes: usize) -> Option<Buffer> {
        self.place().map(|(backing, offset)| Buffer::deferred(backing, offset + start as u64, bytes))
    }

    /// The file that has the bytes, and their offset in it, while they are not read.
    pub(super) fn place(&self) -> Option<(Arc<Backing>, u64)> {
        match self.later.lock().unwrap_or_else(PoisonError::into_inner).as_ref()? {
            Deferred::File { backing, offset } => Some((backing.clone(), *offset)),
            Deferred::Compact(..) => None,
        }
    }

    /// The form from which the bytes will be made; `None` once they are.
    pub(super) fn form(&self) -> Option<Arc<Compact>> {
        match self.later.lock().unwrap_or_else(PoisonError::into_inner).as_ref()? {
            Deferred::Compact(form, _) => Some(form.clone()),
            Deferred::File { .. } => None,
        }
    }

    pub(super) fn of(memory: Memory, asked: usize, pool: Option<Arc<BufferPool>>) -> Buffer {
        let lender = pool.map_or(Lender::Heap, Lender::Pool);
        Buffer { memory: OnceLock::from(memory), later: Mutex::new(None), lender, asked, home: Home::default() }
    }

    /// The memory of a loan, of at least `asked` bytes; `None` while another buffer has it.
    pub(super) fn on_loan(loan: &Arc<Loan>, asked: usize) -> Option<Buffer> {
        let mut buffer = Buffer::of(loan.take()?, asked, None);
        buffer.lender = Lender::Loan(loan.clone());
        Some(buffer)
    }

    /// Whether it has the memory of this loan.
    pub(super) fn is_on(&self, loan: &Arc<Loan>) -> bool {
        matches!(&self.lender, Lender::Loan(own) if Arc::ptr_eq(own, loan))
    }

    /// The memory, detached from its lender; `None` where it may not be written, is still in a file, or is on loan.
    pub(super) fn into_writable(mut self) -> Option<Parts> {
        if !self.is_own() || matches!(self.lender, Lender::Loan(_)) {
            return None;
        }
        let pool = if let Lender::Pool(pool) = std::mem::take(&mut self.lender) { Some(pool) } else { None };
        self.memory.take().map(|memory| Parts { memory, asked: self.asked, pool })
    }

    /// The same buffer, with a place in a lease.
    pub fn at_home(self, home: Home) -> Buffer {
        let mut buffer = self;
        buffer.home = home;
        buffer
    }

    /// Its place in a lease.
    #[inline]
    pub fn home(&self) -> Home {
        self.home
    }

    /// At least how many bytes it has, without reading any.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.get().map_or(self.asked, |memory| memory.bytes().len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes, rounded up to whole cache lines. Raises [`Refused`] where they have to be read or made and there is
    /// no memory for them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self.memory.get() {
            Some(memory) => memory.bytes(),
            None => {
                // A forked child must not wait for a reading thread of its parent.
                let _stay = stay();
                self.memory.get_or_init(|| self.read()).bytes()
            }
        }
    }

    /// All bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let _ = self.bytes();
        self.memory.get_mut().map_or(&mut [], Memory::bytes_mut)
    }

    /// Whether the bytes may be written as they are: they are in memory, and no caller's read-only bytes.
    pub(super) fn is_own(&self) -> bool {
        !matches!(self.memory.get(), None | Some(Memory::Foreign(_)))
    }

    /// Reads the bytes from the file, or makes them.
    fn read(&self) -> Memory {
        let later = self.later.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let memory = match later {
            Some(Deferred::File { backing, offset }) => {
                let mut memory = backing.pool().lend_exactly(self.asked).unwrap_or_else(|refused| refused.raise());
                backing.read(offset, &mut memory.bytes_mut()[..self.asked]);
                memory
            }
            Some(Deferred::Compact(form, dtype)) => {
                let mut memory = Memory::zeroed(self.asked).unwrap_or_else(|refused| refused.raise());
                form.write_as(dtype, &mut memory.bytes_mut()[..self.asked]);
                memory
            }
            None => Memory::default(),
        };
        // Cleared only now, so that bytes for which there was no memory can be asked for again.
        *self.later.lock().unwrap_or_else(PoisonError::into_inner) = None;
        memory
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match std::mem::take(&mut self.lender) {
            Lender::Heap => {}
            Lender::Pool(pool) => self.memory.take().into_iter().for_each(|memory| pool.give_back(memory)),
            Lender::Loan(loan) => self.memory.take().into_iter().for_each(|memory| loan.give_back(memory)),
        }
    }
}
