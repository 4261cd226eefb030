//! Memory on its way back to the system, independent of its former owner.
//!
//! # Problem
//!
//! The system takes 17 ms or more to take a gigabyte of pages back. A request that holds gigabytes when it ends would
//! return that much later.
//!
//! # Idea
//!
//! An owner of much memory leaves it here and goes on; a thread gives it back in pieces. The thread is started when
//! there is memory to give back and ends when none is left, so it is never idle. Memory on its way still counts
//! ([`bytes`]), and code that needs it sooner gives pieces back on its own thread ([`give_piece`]). Where the system
//! cannot start a thread, the owner gives the memory back itself.
//!
//! # Forked children
//!
//! A child has no such thread. Memory that was on its way belongs to the child, and is given back with the next memory
//! that the child leaves. No fork happens while a piece is given back, so in a child each piece has an owner.

use std::collections::VecDeque;
use std::sync::PoisonError;

use crate::fork::{Mutex, MutexGuard, Origin, stay};

/// Memory of at least this many bytes is left here. Giving back less takes some milliseconds at most, which is not
/// worth a thread.
pub const LEAST: usize = 64 << 20;

/// Bytes of a piece: half a millisecond, for which forks wait.
pub const PIECE: usize = 32 << 20;

/// Memory that goes back to the system piece by piece.
pub trait Leaving: Send {
    /// Gives a [piece](PIECE) back. Returns whether there is more.
    fn give_piece(&mut self) -> bool;

    /// Bytes that are still to be given back.
    fn bytes(&self) -> usize;

    /// Whether it is the only owner of address space, which is unmapped when it is dropped.
    fn takes_addresses(&self) -> bool {
        false
    }
}

/// Memory on its way, in the order in which it was left.
struct Queue {
    waiting: VecDeque<Box<dyn Leaving>>,
    /// The process in which a thread is at work.
    worker: Option<Origin>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { waiting: VecDeque::new(), worker: None });

fn lock() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves memory to the thread that gives it back.
pub fn leave(memory: Box<dyn Leaving>) {
    lock().waiting.push_back(memory);
    go_on();
}

/// Makes sure that memory on its way is given back: in a forked child, memory that its parent has left.
pub fn go_on() {
    let mut queue = lock();
    if queue.waiting.is_empty() || queue.worker.is_some_and(Origin::is_here) {
        return;
    }
    queue.worker = Some(Origin::here());
    drop(queue);
    let thread = std::thread::Builder::new().name("kiln-free".to_owned()).stack_size(STACK);
    if thread.spawn(work).is_err() {
        work();
    }
}

/// Bytes of the thread's stack; it needs little.
const STACK: usize = 256 << 10;

/// Gives back everything that is on its way and that no other thread is giving back.
fn work() {
    loop {
        while give_piece() {}
        let mut queue = lock();
        if queue.waiting.is_empty() {
            queue.worker = None;
            return;
        }
    }
}

/// Gives a piece back on this thread. Returns whether there was one that no other thread is giving back.
pub fn give_piece() -> bool {
    let whole = stay();
    let Some(mut memory) = lock().waiting.pop_front() else { return false };
    if memory.give_piece() {
        lock().waiting.push_front(memory);
    }
    drop(whole);
    // The thread may have ended while this one held the last memory.
    go_on();
    true
}

/// Unmaps address space on its way back at once, on this thread. Returns whether there was any.
pub fn unmap() -> bool {
    let _whole = stay();
    let mut queue = lock();
    let found = queue.waiting.iter().position(|memory| memory.takes_addresses());
    let memory = found.and_then(|place| queue.waiting.remove(place));
    drop(queue);
    memory.is_some()
}

/// Bytes on their way, without pieces that threads are giving back now.
#[must_use]
pub fn bytes() -> usize {
    lock().waiting.iter().map(|memory| memory.bytes()).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    use super::super::Extent;
    use super::*;

    /// Held by each test: there is one queue.
    static ALONE: Mutex<()> = Mutex::new(());

    /// Pieces to be given back; none are while the gate is closed.
    struct Counted {
        gate: Receiver<()>,
        left: Arc<AtomicUsize>,
    }

    impl Leaving for Counted {
        fn give_piece(&mut self) -> bool {
            let _open = self.gate.recv();
            self.left.fetch_sub(1, Ordering::Relaxed) > 1
        }

        fn bytes(&self) -> usize {
            self.left.load(Ordering::Relaxed) * PIECE
        }
    }

    fn counted(pieces: usize) -> (Sender<()>, Arc<AtomicUsize>) {
        let ((open, gate), left) = (channel(), Arc::new(AtomicUsize::new(pieces)));
        leave(Box::new(Counted { gate, left: left.clone() }));
        (open, left)
    }

    fn wait(what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A mapping whose pages are present.
    fn present(bytes: usize) -> Extent {
        let mut extent = Extent::reserve(bytes).unwrap();
        assert_eq!(extent.populate_wanted(), extent.len());
        extent
    }

    #[test]
    fn who_leaves_goes_on_and_all_is_given_back() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..20 {
            let (open, first) = counted(3);
            wait("the thread has the first", || bytes() == 0);
            let (opened, second) = counted(5);
            assert_eq!((first.load(Ordering::Relaxed), bytes()), (3, 5 * PIECE), "nothing has been given back");
            drop((open, opened));
            wait("the thread ends", || lock().worker.is_none());
            assert_eq!((first.load(Ordering::Relaxed), second.load(Ordering::Relaxed), bytes()), (0, 0, 0));
        }
        assert!(!give_piece() && !unmap());
    }

    #[test]
    fn who_needs_memory_gives_pieces_back_while_the_thread_is_busy() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (open, _) = counted(1);
        wait("the thread has it", || bytes() == 0);
        let (opened, left) = counted(2);
        drop(opened);
        assert!(give_piece());
        assert_eq!((left.load(Ordering::Relaxed), bytes()), (1, PIECE));
        assert!(give_piece() && !give_piece(), "the rest, and then none");
        assert_eq!(left.load(Ordering::Relaxed), 0);
        drop(open);
        wait("the thread ends", || lock().worker.is_none());
    }

    #[test]
    fn a_large_mapping_is_unmapped_later_and_at_once_where_its_addresses_are_needed() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (open, _) = counted(1);
        wait("the thread has it", || bytes() == 0);
        drop(present(LEAST / 2));
        present(LEAST).unmap();
        let mut discarded = present(LEAST);
        discarded.discard();
        drop(discarded);
        assert_eq!(bytes(), 0, "a small one, one without pages, and one that is to go now");
        let mut first = present(LEAST);
        let second = first.split_off(LEAST / 2);
        drop(first);
        assert_eq!(bytes(), 0, "a part is in use");
        drop(second);
        let one = bytes();
        assert!(one >= LEAST);
        drop(present(LEAST));
        assert_eq!(bytes(), 2 * one);
        assert!(unmap());
        assert_eq!(bytes(), one);
        drop(open);
        wait("the other is unmapped", || bytes() == 0 && lock().worker.is_none());
        assert!(!unmap());
    }
}
