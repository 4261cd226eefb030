#![doc = include_str!("../README.md")]
//!
//! # Problem
//!
//! A child of `fork` has its parent's memory and one thread, the one that forked. A lock that another thread held at
//! that moment is held for ever in the child, and what it guards may be half changed.
//!
//! # Idea
//!
//! A thread that holds one of these locks is counted on a *slot* of its own, and a handler that the system calls before
//! each fork (`pthread_atfork`) waits until no other thread is counted, while threads that want to lock anything wait
//! for the fork. So the child begins with no such lock held. Threads find their slots without a lock; locking costs one
//! exchange more, on a cache line that no other thread writes.
//!
//! What has threads of its own cannot go on in a child, which does not have them. Such values store their [`Origin`]
//! and are inert in other processes: a pool runs tasks on its caller's thread, and wakes, awaits and joins no thread.
//! They may use the locks of `std` with their threads, condition variables among them, because a child does not touch
//! those.
//!
//! # Consequences
//!
//! - These locks are to be held briefly: not while building, compiling, or reading and writing files. A fork that has
//!   waited for [`PATIENCE`] goes on, and its child may find a lock held.
//! - `vfork` and `posix_spawn`, which start other programs, call no handlers and need none.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{LockResult, PoisonError};
use std::time::{Duration, Instant};

/// The longest that a fork waits for threads to let go of locks.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Whether a thread holds locks.
#[repr(align(128))]
struct Slot {
    /// How many [`Stay`]s it has.
    depth: AtomicU32,
    /// Whether a thread has the slot.
    taken: AtomicBool,
    /// The slot that was made before it. Slots are never freed: there are as many as threads that lived at once.
    next: *mut Slot,
}

// SAFETY: `next` is written before the slot is shared, and slots are never freed.
unsafe impl Sync for Slot {}

static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(null_mut());
/// Threads inside that have no slot any more, because they are ending.
static ENDING: AtomicU32 = AtomicU32::new(0);
/// Forks under way.
static FORKING: AtomicU32 = AtomicU32::new(0);
/// Forks between this process and the first.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Forks that this process has made.
static CHILDREN: AtomicU32 = AtomicU32::new(0);
/// Whether the system knows the handlers.
static WATCHED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static MINE: Cell<Option<&'static Slot>> = const { Cell::new(None) };
    /// Gives the slot back at the thread's end.
    static KEEPER: Keeper = const { Keeper };
    /// Whether the thread is between the handlers of a fork.
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

struct Keeper;

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(slot) = MINE.take() {
            slot.taken.store(false, Ordering::Release);
        }
    }
}

/// The process in which something began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(u32);

impl Origin {
    /// This process.
    #[must_use]
    pub fn here() -> Origin {
        watch();
        Origin(GENERATION.load(Ordering::Relaxed))
    }

    /// Whether it is this process, and not one that it was forked from.
    #[inline]
    #[must_use]
    pub fn is_here(self) -> bool {
        self.0 == GENERATION.load(Ordering::Relaxed)
    }
}

/// How many children this process has forked: what was in memory before the last of them may be in use there.
#[must_use]
pub fn children() -> u32 {
    CHILDREN.load(Ordering::Relaxed)
}

/// Has the system call the handlers, from the first call on.
fn watch() {
    if !WATCHED.load(Ordering::Relaxed) && !WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handlers are functions of this program that touch atomics and thread-locals without destructors
        // alone. Without memory for them nothing is watched, and a child is as safe as one of any other program with
        // threads.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
}

/// While it exists, its thread holds up forks: for what must not be half done in a child, and for locks.
#[derive(Debug)]
pub struct Stay {
    slot: Option<&'static Slot>,
    /// It belongs to its thread.
    _here: PhantomData<*const ()>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("depth", &self.depth).finish_non_exhaustive()
    }
}

/// Holds up forks until the returned value is dropped.
#[inline]
#[must_use]
pub fn stay() -> Stay {
    let slot = MINE.get().or_else(take_slot);
    let depth = slot.map_or(&ENDING, |slot| &slot.depth);
    let nested = slot.is_some() && depth.load(Ordering::Relaxed) > 0;
    // In one order of all these, either the fork sees this thread or this thread sees the fork.
    depth.fetch_add(1, Ordering::SeqCst);
    if !nested && FORKING.load(Ordering::SeqCst) > 0 {
        await_fork(depth);
    }
    Stay { slot, _here: PhantomData }
}

/// Steps back until no fork is under way.
#[cold]
fn await_fork(depth: &AtomicU32) {
    // The forking thread's other handlers may want locks, too.
    while !FORKS.get() && FORKING.load(Ordering::SeqCst) > 0 {
        depth.fetch_sub(1, Ordering::Release);
        while FORKING.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        depth.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Stay {
    #[inline]
    fn drop(&mut self) {
        match self.slot {
            // The thread alone writes its slot, so the difference needs no atomic subtraction.
            Some(slot) => slot.depth.store(slot.depth.load(Ordering::Relaxed) - 1, Ordering::Release),
            None => drop(ENDING.fetch_sub(1, Ordering::Release)),
        }
    }
}

/// All slots.
fn slots() -> impl Iterator<Item = &'static Slot> {
    let mut next = SLOTS.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: slots are never freed, and whole before they are linked.
        let slot: &'static Slot = unsafe { next.as_ref()? };
        next = slot.next;
        Some(slot)
    })
}

/// A slot for this thread: one that is free, or a new one. None where the thread is about to end.
#[cold]
fn take_slot() -> Option<&'static Slot> {
    watch();
    KEEPER.try_with(|_| ()).ok()?;
    let free = slots().find(|slot| !slot.taken.swap(true, Ordering::Acquire));
    let slot = free.unwrap_or_else(|| {
        let fresh =
            Box::leak(Box::new(Slot { depth: AtomicU32::new(0), taken: AtomicBool::new(true), next: null_mut() }));
        let link = |before: *mut Slot| {
            fresh.next = before;
            Some(&raw mut *fresh)
        };
        let _always = SLOTS.fetch_update(Ordering::Release, Ordering::Acquire, link);
        fresh
    });
    MINE.set(Some(slot));
    Some(slot)
}

/// Before a fork, on the thread that forks.
extern "C" fn before() {
    FORKS.set(true);
    FORKING.fetch_add(1, Ordering::SeqCst);
    let mine = MINE.get();
    let others = slots().filter(|slot| mine.is_none_or(|mine| !std::ptr::eq(*slot, mine))).map(|slot| &slot.depth);
    let begun = Instant::now();
    for depth in others.chain([&ENDING]) {
        while depth.load(Ordering::SeqCst) > 0 && begun.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
    }
}

/// After it, in the parent.
extern "C" fn in_parent() {
    CHILDREN.fetch_add(1, Ordering::Relaxed);
    FORKING.fetch_sub(1, Ordering::SeqCst);
    FORKS.set(false);
}

/// After it, in the child, which has this thread alone.
extern "C" fn in_child() {
    let mine = MINE.get();
    for slot in slots().filter(|slot| mine.is_none_or(|mine| !std::ptr::eq(*slot, mine))) {
        slot.depth.store(0, Ordering::Relaxed);
        slot.taken.store(false, Ordering::Relaxed);
    }
    ENDING.store(0, Ordering::Relaxed);
    CHILDREN.store(0, Ordering::Relaxed);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    FORKING.store(0, Ordering::SeqCst);
    FORKS.set(false);
}

/// A lock that no child of a fork finds held. Otherwise that of `std`.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

/// A lock that is held.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    // Let go of before the thread stops holding up forks.
    held: std::sync::MutexGuard<'a, T>,
    _stay: Stay,
}

impl<T> Mutex<T> {
    /// A lock around a value.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    ///
    /// # Errors
    ///
    /// Where a thread has panicked while it held the lock; the error has the lock all the same.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let _stay = stay();
        match self.0.lock() {
            Ok(held) => Ok(MutexGuard { held, _stay }),
            Err(poisoned) => Err(PoisonError::new(MutexGuard { held: poisoned.into_inner(), _stay })),
        }
    }

    /// The value, of which this is the only owner.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`].
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }

    /// The value, to which no other thread has access meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`].
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.held
    }
}
