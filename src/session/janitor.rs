//! A thread of the process that has sessions give memory back once they have rested.
//!
//! # Problem
//!
//! Memory that a peak has left is kept for requests that may never come. Requests cannot give it back if none come any
//! more.
//!
//! # Idea
//!
//! A session is [watched](watch) from its load on, and again after a request that leaves more memory than requests use.
//! A thread sleeps until the first watched session will have rested, has it [shed](Rests::shed) memory, and stops
//! watching it. The thread is started when there is a session to watch and ends when there is none. While their session
//! is watched, requests write the time of their end, and wake no thread.
//!
//! # Forked children
//!
//! A child does not have the thread, and sessions that it has inherited are not watched. Sessions that it loads itself
//! are watched by a thread of its own.

use std::sync::{Arc, PoisonError, Weak};
use std::thread::Thread;
use std::time::Instant;

use kiln_fork::{Mutex, MutexGuard, Origin};
use kiln_run::exec::weights;

use super::heap::Heap;

/// The memory of a session, for the janitor.
pub(super) trait Rests: Send + Sync {
    /// When the session will have rested, if no request comes.
    fn rested_at(&self, now: Instant) -> Instant;

    /// The janitor has stopped watching; the next request that leaves more than requests use calls it again.
    fn unwatch(&self);

    /// Gives memory beyond the use of the last requests back to the system. Ends early if a request begins.
    fn shed(&self);
}

/// The janitor's tasks.
struct Duty {
    watched: Vec<Weak<dyn Rests>>,
    /// When shared memory is to be given back, after a session was dropped.
    clear_at: Option<Instant>,
    worker: Option<Worker>,
}

/// The thread.
struct Worker {
    origin: Origin,
    /// Its handle, once it has begun to sleep.
    thread: Option<Thread>,
}

static DUTY: Mutex<Duty> = Mutex::new(Duty { watched: Vec::new(), clear_at: None, worker: None });

/// Bytes of the thread's stack; it needs little.
const STACK: usize = 256 << 10;

fn lock() -> MutexGuard<'static, Duty> {
    let mut duty = DUTY.lock().unwrap_or_else(PoisonError::into_inner);
    if duty.worker.as_ref().is_some_and(|worker| !worker.origin.is_here()) {
        *duty = Duty { watched: Vec::new(), clear_at: None, worker: None };
    }
    duty
}

/// Watches a session until it has shed.
pub(super) fn watch(kept: Weak<dyn Rests>) {
    let mut duty = lock();
    duty.watched.push(kept);
    summon(duty);
}

/// Has shared memory given back at that time.
pub(super) fn clear(at: Instant) {
    let mut duty = lock();
    duty.clear_at = Some(duty.clear_at.map_or(at, |before| before.max(at)));
    summon(duty);
}

/// Wakes the thread, or starts one, for new tasks.
fn summon(mut duty: MutexGuard<'_, Duty>) {
    if let Some(worker) = &duty.worker {
        return worker.thread.iter().for_each(Thread::unpark);
    }
    duty.worker = Some(Worker { origin: Origin::here(), thread: None });
    drop(duty);
    let thread = std::thread::Builder::new().name("kiln-janitor".to_owned()).stack_size(STACK);
    if let Err(error) = thread.spawn(work) {
        tracing::warn!(%error, "no thread gives memory back after a peak");
        let duty = std::mem::replace(&mut *lock(), Duty { watched: Vec::new(), clear_at: None, worker: None });
        duty.watched.iter().filter_map(Weak::upgrade).for_each(|kept| kept.unwatch());
    }
}

/// Sleeps and has sessions shed, until none is watched.
fn work() {
    while let Some(next) = look() {
        std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
    }
}

/// Has rested sessions shed memory. Returns when to look again, if at all.
fn look() -> Option<Instant> {
    let mut duty = lock();
    let now = Instant::now();
    duty.watched.retain(|kept| kept.strong_count() > 0);
    let watched: Vec<Arc<dyn Rests>> = duty.watched.iter().filter_map(Weak::upgrade).collect();
    if watched.is_empty() && duty.clear_at.is_none() {
        duty.worker = None;
        return None;
    }
    if let Some(worker) = &mut duty.worker {
        worker.thread.get_or_insert_with(std::thread::current);
    }
    let is_due = duty.clear_at.take_if(|at| *at <= now).is_some();
    let mut next = duty.clear_at;
    drop(duty);
    let mut has_shed = is_due;
    for kept in watched {
        let at = kept.rested_at(now);
        if at <= now {
            lock().watched.retain(|other| !std::ptr::addr_eq(other.as_ptr(), Arc::as_ptr(&kept)));
            // Before it sheds, so that a request that ends meanwhile has it watched again.
            kept.unwatch();
            kept.shed();
            has_shed = true;
        } else {
            next = Some(next.map_or(at, |next| next.min(at)));
        }
    }
    if has_shed {
        // Memory that sessions share: packed weights, slots, the heap.
        weights::trim();
        Heap::trim_now();
    }
    Some(next.unwrap_or(now))
}
