//! A pool of threads that spin for a while before they sleep, because forks follow each other closely.
//!
//! A network forks hundreds of times a request, some ten microseconds apart. Waking a sleeping thread takes longer than
//! that; a spinning one sees the next fork within a tenth of a microsecond. No fork waits for a thread to wake: the
//! caller starts on the tasks at once, and when none is left it *closes* the fork, so that late threads do not enter.
//! The caller waits only for the threads inside.
//!
//! Where other threads are busy on the other cores, the system may wake a thread on the caller's own core, which the
//! caller then lacks. A thread that finds itself there yields while it spins. It does not sleep at once, because a
//! thread that can run is moved when another core is idle, and one that sleeps is woken on the same core again.
//!
//! A thread that waits prefetches what the next fork is expected to read ([`foresight`]).
//!
//! Independent of what tasks do.

mod foresight;

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::line::Line;
use super::{Parallel, Reads};
use crate::crash::Trail;
use crate::fork::Origin;

use foresight::{Foresight, Prefetch};

/// How long a thread without work spins before it sleeps: longer than the serial parts between the forks of a request,
/// and short enough that the core does not look busy afterwards.
const SPIN: Duration = Duration::from_micros(150);

/// Iterations between two readings of the clock, and before a waiting caller yields to other threads of its core.
const LOOKS: u32 = 64;

/// Threads that run numbered tasks, among them the caller's.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Whether a fork is under way. Another fork then runs on its caller's thread alone.
    busy: AtomicBool,
    /// The process that started the workers. In a forked child every fork runs on its caller's thread alone.
    origin: Origin,
}

/// The state that callers and workers share.
#[derive(Debug)]
struct Shared {
    gate: Line<AtomicU64>,
    /// The next task that no thread has taken.
    next: Line<AtomicUsize>,
    job: UnsafeCell<Job>,
    /// For each worker, whether it must be woken.
    sleeping: Vec<Line<AtomicBool>>,
    /// The core on which the last fork began.
    core: Line<AtomicUsize>,
    stop: AtomicBool,
    foresight: Foresight,
    /// The first panic of a worker's task.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the job is written only while the gate is closed and no thread is inside, and read only by threads inside;
// everything else synchronises itself.
unsafe impl Sync for Shared {}
// SAFETY: the pointer in the job is dereferenced only inside a fork, while its owner waits.
unsafe impl Send for Shared {}

/// The tasks of a fork.
#[derive(Clone, Copy, Debug)]
struct Job {
    task: *const (dyn Fn(usize) + Sync),
    tasks: Tasks,
    /// The caller's marks, for the last line of a crash.
    trail: Trail,
}

/// How often the task of a fork is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tasks {
    /// With each of as many numbers, on any thread.
    Numbered(usize),
    /// On each thread, with the thread's number. There are as many threads.
    Each(usize),
}

/// The state of a fork in one word: its number, how many workers may enter, whether it is closed, how many are inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gate(u64);

impl Gate {
    const CLOSED: u64 = 1 << 16;
    const INSIDE: u64 = Gate::CLOSED - 1;
    /// The most workers that the word can count.
    const MOST: usize = (1 << 15) - 1;

    fn open(number: u32, wanted: usize) -> Gate {
        Gate(u64::from(number) << 32 | (wanted.min(Gate::MOST) as u64) << 17)
    }

    fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn wants(self, worker: usize) -> bool {
        self.0 & Gate::CLOSED == 0 && (worker as u64) < (self.0 >> 17) & Gate::MOST as u64
    }
}

impl Pool {
    /// A pool of `threads` threads, the caller's included; at least one.
    ///
    /// # Errors
    ///
    /// If the operating system cannot start that many threads, or they are more than the word can count (32,767).
    pub fn new(threads: usize, name: &str) -> std::io::Result<Pool> {
        let count = threads.max(1) - 1;
        if count > Gate::MOST {
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                format!("more than {} threads", Gate::MOST),
            ));
        }
        let shared = Arc::new(Shared {
            gate: Line(AtomicU64::new(Gate::CLOSED)),
            next: Line::default(),
            job: UnsafeCell::new(Job { task: &|_| (), tasks: Tasks::Numbered(0), trail: Trail::NONE }),
            sleeping: (0..count).map(|_| Line::default()).collect(),
            core: Line(AtomicUsize::new(usize::MAX)),
            stop: AtomicBool::new(false),
            foresight: Foresight::default(),
            panic: Mutex::new(None),
        });
        let (workers, busy, origin) = (Vec::with_capacity(count), AtomicBool::new(false), Origin::here());
        let mut pool = Pool { shared, workers, busy, origin };
        for index in 0..count {
            let shared = Arc::clone(&pool.shared);
            let builder = std::thread::Builder::new().name(format!("{name}-{index}"));
            // If one cannot be started, dropping the pool stops the others.
            pool.workers.push(builder.spawn(move || shared.work(index))?);
        }
        Ok(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            // A forked child has no such threads to wake or join.
            return std::mem::forget(std::mem::take(&mut self.workers));
        }
        self.shared.stop.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker catches the panics of its tasks and does not panic itself.
            let _ = worker.join();
        }
    }
}

impl Parallel for Pool {
    fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.fork(Tasks::Numbered(tasks), task);
    }

    fn each_thread(&self, task: &(dyn Fn(usize) + Sync)) {
        self.fork(Tasks::Each(self.threads()), task);
    }

    fn expect(&self, reads: Reads) {
        // While another caller has the threads, this one works alone.
        if self.workers.is_empty() || self.busy.load(Ordering::Relaxed) || !self.origin.is_here() {
            Foresight::interrupt();
        } else {
            self.shared.foresight.expect(reads);
        }
    }
}

impl Pool {
    fn fork(&self, tasks: Tasks, task: &(dyn Fn(usize) + Sync)) {
        let (Tasks::Numbered(count) | Tasks::Each(count)) = tasks;
        let here = self.origin.is_here();
        let alone = count < 2 || self.workers.is_empty() || !here || self.busy.swap(true, Ordering::Acquire);
        if alone {
            return match tasks {
                Tasks::Numbered(count) => (0..count).for_each(task),
                Tasks::Each(_) => task(0),
            };
        }
        let fork = Fork::open(self, tasks, count - 1, task);
        self.shared.take_part(tasks, 0, task);
        drop(fork);
        let panic = self.shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

/// A fork that workers may enter. Dropping it, also in a panic of the caller's own task, closes it and waits.
struct Fork<'a> {
    pool: &'a Pool,
}

impl<'a> Fork<'a> {
    fn open(pool: &'a Pool, tasks: Tasks, most: usize, task: &(dyn Fn(usize) + Sync)) -> Fork<'a> {
        let shared = &*pool.shared;
        let wanted = pool.workers.len().min(most);
        // SAFETY: only the lifetime changes. Workers dereference the pointer only inside the gate, and the fork that is
        // returned is not dropped before all have left.
        let task: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(task) };
        // SAFETY: `busy` keeps other callers out, and the gate is closed and no thread is inside.
        unsafe { *shared.job.get() = Job { task, tasks, trail: Trail::here() } };
        shared.next.0.store(0, Ordering::Relaxed);
        shared.core.0.store(this_core(), Ordering::Relaxed);
        let number = Gate(shared.gate.0.load(Ordering::Relaxed)).number().wrapping_add(1);
        shared.gate.0.store(Gate::open(number, wanted).0, Ordering::SeqCst);
        // A worker sets its sleeping flag before it reads the gate for the last time. All of these are sequentially
        // consistent, so either it sees this fork or this thread sees the flag.
        for (worker, sleeping) in pool.workers[..wanted].iter().zip(&shared.sleeping) {
            if sleeping.0.load(Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
        Fork { pool }
    }
}

impl Drop for Fork<'_> {
    fn drop(&mut self) {
        let gate = &self.pool.shared.gate.0;
        gate.fetch_or(Gate::CLOSED, Ordering::AcqRel);
        let mut looks = 0;
        while gate.load(Ordering::Acquire) & Gate::INSIDE != 0 {
            looks += 1;
            // A thread inside may need this very core.
            if looks % (LOOKS * 16) == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        if std::thread::panicking() {
            // The caller's own panic is the one that it sees; a worker's must not surface in its next fork.
            self.pool.shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        self.pool.busy.store(false, Ordering::Release);
    }
}

/// The core that this thread runs on, as the system numbers them.
fn this_core() -> usize {
    rustix::thread::sched_getcpu()
}

impl Shared {
    /// The part of a thread in a fork. Numbered tasks are run until none is left. Each is taken when a thread is free
    /// for it, so a slow core does not delay others.
    fn take_part(&self, tasks: Tasks, thread: usize, task: &(dyn Fn(usize) + Sync)) {
        let Tasks::Numbered(tasks) = tasks else { return task(thread) };
        loop {
            let index = self.next.0.fetch_add(1, Ordering::Relaxed);
            if index >= tasks {
                return;
            }
            task(index);
        }
    }

    /// The loop of a worker.
    fn work(&self, worker: usize) {
        let mut seen = Gate(self.gate.0.load(Ordering::SeqCst)).number();
        let mut prefetch = Prefetch::default();
        // The first fork may be older than this thread.
        self.join(worker);
        while self.await_fork(worker, &mut seen, &mut prefetch) {
            self.join(worker);
        }
    }

    /// Waits for a fork with another number than `seen` that wants this worker; false when the pool is dropped.
    fn await_fork(&self, worker: usize, seen: &mut u32, prefetch: &mut Prefetch) -> bool {
        prefetch.turn_to(&self.foresight, self.sleeping.len() + 1, worker + 1);
        let mut start = Instant::now();
        loop {
            let before = *seen;
            for _ in 0..LOOKS {
                let gate = Gate(self.gate.0.load(Ordering::Acquire));
                if gate.number() != *seen {
                    *seen = gate.number();
                    if gate.wants(worker) {
                        return true;
                    }
                }
                if !prefetch.step() {
                    std::hint::spin_loop();
                }
            }
            if *seen != before {
                // This worker was too late for it, but another fork will follow.
                start = Instant::now();
            }
            if self.stop.load(Ordering::SeqCst) {
                return false;
            }
            if start.elapsed() > SPIN {
                self.sleep(worker, *seen);
            } else if self.core.0.load(Ordering::Relaxed) == this_core() {
                std::thread::yield_now();
            }
        }
    }

    /// Sleeps until woken, unless there is a new fork.
    fn sleep(&self, worker: usize, seen: u32) {
        self.sleeping[worker].0.store(true, Ordering::SeqCst);
        let idle = || Gate(self.gate.0.load(Ordering::SeqCst)).number() == seen && !self.stop.load(Ordering::SeqCst);
        while idle() {
            std::thread::park();
        }
        self.sleeping[worker].0.store(false, Ordering::SeqCst);
    }

    /// Takes part in the current fork, unless it is closed.
    fn join(&self, worker: usize) {
        let mut gate = self.gate.0.load(Ordering::Acquire);
        loop {
            if !Gate(gate).wants(worker) {
                return;
            }
            match self.gate.0.compare_exchange_weak(gate, gate + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => gate = now,
            }
        }
        // SAFETY: inside the gate, so that the job is not written, and the task's owner waits.
        let (task, tasks, trail) = unsafe {
            let job = *self.job.get();
            (&*job.task, job.tasks, job.trail)
        };
        // SAFETY: the caller, whose marks these are, waits until this thread has left the gate.
        let work = || unsafe { trail.follow(|| self.take_part(tasks, worker + 1, task)) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        }
        self.gate.0.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
