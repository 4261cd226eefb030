//! Memory that a session keeps between requests, and how much of it stays when no more come.
//!
//! Memory is kept because fresh pages cost more than most operators take to fill them, and plans because shapes return.
//! After a peak most of it is not needed. So each request adds the memory that it used to an exponential mean over
//! requests, and checks whether more than that is kept. If so, the [janitor] watches the session until it has rested,
//! and then has it [shed](Rests::shed) memory beyond the mean. A session is watched from its load on, and no longer
//! once it has rested, until a request leaves more again. A request that comes meanwhile ends the shedding, and takes
//! fresh memory where it needs more.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use kiln_cache::{Cache, Spared};
use kiln_fork::{Mutex, MutexGuard, Origin};
use kiln_kernels::memory::ceiling::{self, Keeps, Spare};
use kiln_run::RunState;
use kiln_run::exec::BuildCx;
use kiln_tensor::{BufferPool, Usage};

use super::ceiling::sweep_records;
use super::idle::{Idle, Popped};
use super::janitor::{self, Rests};
use super::options::SessionOptions;
use super::overrides::Variants;

/// Bytes of executors, code and plans that always stay: some thousand executors. With 16 MiB of them, 30 MiB more
/// stayed in the heap after 10,000 shapes, because gaps between them keep pages in use.
const FEW: usize = 2 << 20;

/// Bytes of free memory, beyond the use of requests and a quarter of it, that are not worth a thread.
const SLACK: usize = 4 << 20;

/// The longest rest: a bound for sums of times.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Memory, run states and plans between the requests of a session.
pub(super) struct Kept {
    pub(super) buffers: Arc<BufferPool>,
    /// States of finished requests, which hold memos and buffers.
    pub(super) idle: Mutex<Idle>,
    /// The cache of plans, if plans are kept.
    pub(super) plans: Option<Cache>,
    executors: Arc<Cache>,
    /// Executables beside the main one, with states of their own.
    variants: OnceLock<Arc<Variants>>,
    /// States of joined requests, which have an executable for each stage.
    joined: OnceLock<Arc<Mutex<Idle>>>,
    /// How long the session rests before it sheds; `None` is for ever.
    after: Option<Duration>,
    /// Bytes that were lent when the last request without concurrent ones began, without its state's bytes.
    before: AtomicUsize,
    /// The memory that requests used, as an exponential mean.
    usual: AtomicUsize,
    /// The time of the executors' account when the session shed last.
    shed_at: AtomicU64,
    /// When the last request began, where the process has a ceiling.
    used_at: AtomicU64,
    /// Whether the janitor looks at it.
    is_watched: AtomicBool,
    /// The process in which it was made: another process has no janitor for it.
    origin: Origin,
}

fn lock(idle: &Mutex<Idle>) -> MutexGuard<'_, Idle> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    pub(super) fn new(buffers: Arc<BufferPool>, options: &SessionOptions, build: &BuildCx) -> Kept {
        Kept {
            buffers,
            idle: Mutex::new(Idle::new(options.buffer_bytes)),
            plans: options.plans(build),
            executors: build.cache.clone(),
            variants: OnceLock::new(),
            joined: OnceLock::new(),
            after: options.trim_after.map(|after| after.min(LONGEST)),
            before: AtomicUsize::new(0),
            usual: AtomicUsize::new(0),
            shed_at: AtomicU64::new(0),
            used_at: AtomicU64::new(0),
            is_watched: AtomicBool::new(false),
            origin: Origin::here(),
        }
    }

    /// Counts the states of these executables, too.
    pub(super) fn add(&self, variants: Arc<Variants>) {
        self.variants.get_or_init(|| variants);
    }

    /// States of joined requests, within `limit` bytes.
    pub(super) fn join(&self, limit: usize) -> Arc<Mutex<Idle>> {
        self.joined.get_or_init(|| Arc::new(Mutex::new(Idle::new(limit)))).clone()
    }

    /// A state for a request.
    pub(super) fn begin(&self, idle: &Mutex<Idle>) -> RunState {
        if ceiling::limit().is_some() {
            self.used_at.store(ceiling::tick(), Ordering::Relaxed);
        }
        let Popped { state, bytes, is_alone } = lock(idle).pop();
        if is_alone {
            self.before.store(self.buffers.lent_bytes().saturating_sub(bytes), Ordering::Relaxed);
        }
        state
    }

    /// Keeps the state of a request that has ended, and notes what it used.
    pub(super) fn end(self: &Arc<Kept>, idle: &Mutex<Idle>, mut state: RunState) -> Usage {
        let usage = self.buffers.usage();
        let is_watched = self.is_watched.load(Ordering::Relaxed);
        let mut bytes = state.kept_bytes();
        let mut idle = lock(idle);
        if idle.bytes + bytes > idle.limit {
            state.release();
            bytes = 0;
        }
        idle.relieve(self.executors.account());
        idle.push(state, bytes);
        let kept = usage.free + idle.bytes;
        if is_watched {
            idle.note_end(Instant::now());
        }
        drop(idle);
        let used = usage.peak.saturating_sub(self.before.load(Ordering::Relaxed));
        let usual = match self.usual.load(Ordering::Relaxed) {
            0 => used,
            usual => usual - usual / 8 + used / 8,
        };
        self.usual.store(usual, Ordering::Relaxed);
        let has_more = kept > usual + usual / 4 + SLACK;
        // New shapes have left executors, plans, and free pages in the heap.
        let is_new = self.executors.account().time() != self.shed_at.load(Ordering::Relaxed);
        // Checked again: a janitor that has found this request running has stopped watching.
        if (has_more || is_new) && !self.is_watched.load(Ordering::Relaxed) {
            self.watch();
        }
        usage
    }

    /// Has the janitor look at the session from now on.
    #[cold]
    pub(super) fn watch(self: &Arc<Kept>) {
        if self.after.is_some() && self.origin.is_here() && !self.is_watched.swap(true, Ordering::Relaxed) {
            lock(&self.idle).note_end(Instant::now());
            let this = Arc::downgrade(self);
            janitor::watch(this);
        }
    }

    /// What `look` sees in each [`Idle`] of the session.
    fn each_idle<T>(&self, mut look: impl FnMut(&mut Idle) -> T) -> Vec<T> {
        let variants = self.variants.get().into_iter().flat_map(|variants| variants.all());
        let mut seen = vec![look(&mut lock(&self.idle))];
        seen.extend(variants.map(|variant| look(&mut lock(&variant.idle))));
        seen.extend(self.joined.get().map(|idle| look(&mut lock(idle))));
        seen
    }

    fn is_busy(&self) -> bool {
        self.each_idle(|idle| idle.is_busy()).contains(&true)
    }

    /// Gives all memory that no request uses now back to the system.
    pub(super) fn trim(&self) {
        self.each_idle(Idle::release);
        self.buffers.trim();
    }

    /// The session is dropped: free memory that it has left in memory that sessions share is given back if that pays.
    pub(super) fn leave(&self) {
        if let Some(after) = self.after.filter(|_| self.origin.is_here()) {
            janitor::clear(Instant::now() + after);
        }
    }
}

impl Keeps for Kept {
    fn used_at(&self) -> u64 {
        self.used_at.load(Ordering::Relaxed)
    }

    fn let_go(&self, spare: Spare, bytes: usize) -> bool {
        match spare {
            Spare::Memory => {
                sweep_records();
                self.buffers.trim();
                false
            }
            Spare::States => {
                // Dropped outside of the locks.
                drop(self.each_idle(Idle::clear));
                self.buffers.trim();
                false
            }
            Spare::Plans => self.plans.as_ref().is_some_and(|plans| plans.let_go(bytes)),
            Spare::Executors => self.executors.let_go(bytes),
        }
    }

    fn plans(&self) -> usize {
        self.plans.as_ref().map_or(0, Cache::bytes)
    }
}

impl Rests for Kept {
    fn rested_at(&self, now: Instant) -> Instant {
        let ended = self.each_idle(|idle| if idle.is_busy() { Some(now) } else { idle.ended() });
        ended.into_iter().flatten().max().unwrap_or(now) + self.after.unwrap_or(LONGEST)
    }

    fn unwatch(&self) {
        self.is_watched.store(false, Ordering::Relaxed);
    }

    /// Gives back buffers of states, states of concurrent requests, free memory, plans of shapes that have not
    /// returned, and unused executors.
    fn shed(&self) {
        let time = self.executors.account().time();
        if self.is_busy() {
            return;
        }
        // Dropped outside of the locks.
        drop(self.each_idle(Idle::shed));
        self.buffers.trim_to(self.usual.load(Ordering::Relaxed), &|| !self.is_busy());
        if self.is_busy() {
            return;
        }
        self.plans.iter().for_each(|plans| plans.shed(FEW, Spared::Returned));
        self.executors.shed(FEW, Spared::Used);
        self.shed_at.store(time, Ordering::Relaxed);
    }
}
