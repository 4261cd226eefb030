//! The queue of requests and the lanes that empty it: as many threads as requests may run at a time. A request that
//! does not fit is refused at once, so that the client learns it before it has waited.
//!
//! A free lane takes the request that has waited longest, and with it, up to its share, waiting requests that may run
//! in one group with it; the other lanes take their shares. With a window, a lane that has taken all such requests also
//! waits for further ones. It begins earlier where another lane is idle, or where a request waits that does not join.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::model::Load;

/// The work of a lane.
pub(crate) trait Work: Send + Sized + 'static {
    /// The facts that decide about running it in a group; `None` if it runs alone.
    fn joining(&self) -> Option<&Joining>;

    /// Whether it may run in one group with another request, where both may run in groups.
    fn joins(&self, other: &Self) -> bool;

    /// Whether its answer is no longer wanted. It is still run, to be answered so, and takes no room in a group.
    fn is_over(&self) -> bool;

    /// Runs it alone, or several as one group, with the load at their begin.
    fn run(group: Vec<Self>, load: Load);
}

/// The facts that decide about running a request in a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joining {
    pub(crate) rows: usize,
    /// Most rows of a group.
    pub(crate) most: usize,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Option<Instant>,
}

/// The work that a lane has taken: one request, or several that run together.
struct Group<W> {
    works: Vec<W>,
    rows: usize,
    /// The latest time when it begins.
    until: Instant,
}

impl<W: Work> Group<W> {
    /// A group of one request, which waits for others until `window` after its arrival.
    fn of(first: W, window: Duration) -> Group<W> {
        let now = Instant::now();
        let until = first.joining().filter(|_| !window.is_zero()).and_then(|first| first.arrived.checked_add(window));
        let mut group = Group { works: Vec::new(), rows: 0, until: until.unwrap_or(now) };
        group.add(first);
        group
    }

    /// Whether a request may run with this group and has room in it.
    fn takes(&self, work: &W) -> bool {
        let (Some(first), Some(joining)) = (self.works.first(), work.joining()) else { return false };
        first.joining().is_some() && first.joins(work) && self.rows.saturating_add(rows(work)) <= joining.most
    }

    /// Adds a request. It waits for half of its remaining time, so that the model has the other half.
    fn add(&mut self, work: W) {
        self.rows = self.rows.saturating_add(rows(&work));
        if let Some(deadline) = work.joining().and_then(|joining| joining.deadline) {
            let now = Instant::now();
            self.until = self.until.min(now + deadline.saturating_duration_since(now) / 2);
        }
        self.works.push(work);
    }

    fn is_full(&self) -> bool {
        let most = self.works.first().and_then(W::joining).map_or(0, |joining| joining.most);
        self.rows >= most
    }
}

/// The rows of a request in a group.
fn rows<W: Work>(work: &W) -> usize {
    work.joining().filter(|_| !work.is_over()).map_or(0, |joining| joining.rows)
}

struct Waiting<W> {
    jobs: VecDeque<W>,
    /// For each lane, the group that it has taken and not begun.
    open: Vec<Option<Group<W>>>,
    /// Lanes that have taken a group.
    busy: usize,
    /// Requests that have begun.
    running: usize,
    is_closed: bool,
}

impl<W: Work> Waiting<W> {
    /// The load with `lanes` lanes.
    fn load(&self, lanes: usize) -> Load {
        if self.busy + self.jobs.len() >= lanes { Load::Full } else { Load::Light }
    }

    /// The request that has waited longest, and this lane's share of the requests that may run with it.
    fn take(&mut self, lanes: usize, window: Duration) -> Option<Group<W>> {
        let mut group = Group::of(self.jobs.pop_front()?, window);
        let others = self.jobs.iter().filter(|work| group.takes(work) && !work.is_over()).count();
        let share = (others + 1).div_ceil(lanes);
        if share > 1 {
            let mut wanted = 1;
            for work in std::mem::take(&mut self.jobs) {
                let is_over = work.is_over();
                if group.takes(&work) && (is_over || wanted < share) {
                    wanted += usize::from(!is_over);
                    group.add(work);
                } else {
                    self.jobs.push_back(work);
                }
            }
        }
        Some(group)
    }

    /// Adds a request to a group that a lane has taken, if it joins it.
    fn join(&mut self, work: W) -> Result<(), W> {
        match self.open.iter_mut().flatten().find(|group| group.takes(&work)) {
            Some(group) if !work.is_over() => {
                group.add(work);
                Ok(())
            }
            _ => Err(work),
        }
    }

    /// How long a lane still waits for others that join its group.
    fn left(&self, lane: usize) -> Duration {
        let must_begin = self.is_closed || self.busy < self.open.len() || !self.jobs.is_empty();
        match &self.open[lane] {
            Some(group) if !must_begin && !group.is_full() => group.until.saturating_duration_since(Instant::now()),
            _ => Duration::ZERO,
        }
    }
}

struct Shared<W> {
    waiting: Mutex<Waiting<W>>,
    changed: Condvar,
    lanes: usize,
    most: usize,
    window: Duration,
}

impl<W: Work> Shared<W> {
    fn lock(&self) -> MutexGuard<'_, Waiting<W>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, lane: usize) {
        let mut waiting = self.lock();
        loop {
            if let Some(group) = waiting.take(self.lanes, self.window) {
                waiting.busy += 1;
                waiting.open[lane] = Some(group);
                waiting = self.wait_for_company(waiting, lane);
                let works = waiting.open[lane].take().map_or_else(Vec::new, |group| group.works);
                let count = works.len();
                waiting.running += count;
                let load = waiting.load(self.lanes);
                drop(waiting);
                // A job answers for its own panics; one that escapes must not take the lane with it.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| W::run(works, load)));
                waiting = self.lock();
                waiting.running -= count;
                waiting.busy -= 1;
                // While this lane is idle, the others stop waiting.
                if waiting.open.iter().any(Option::is_some) {
                    self.changed.notify_all();
                }
            } else if waiting.is_closed {
                return;
            } else {
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Waits for requests that join the lane's group, as long as it may.
    fn wait_for_company<'a>(
        &'a self,
        mut waiting: MutexGuard<'a, Waiting<W>>,
        lane: usize,
    ) -> MutexGuard<'a, Waiting<W>> {
        loop {
            let left = waiting.left(lane);
            if left.is_zero() {
                return waiting;
            }
            waiting = self.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A bounded queue and its lanes.
pub(crate) struct Queue<W> {
    shared: Arc<Shared<W>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The queue is full.
#[derive(Debug)]
pub(crate) struct Full {
    pub(crate) waiting: usize,
}

impl<W: Work> Queue<W> {
    /// A queue with `lanes` lanes, and room for `most` requests beside the running ones. A lane waits for others that
    /// can run together with a request until `window` after the request's arrival.
    pub(crate) fn new(lanes: usize, most: usize, window: Duration) -> io::Result<Queue<W>> {
        let open = (0..lanes).map(|_| None).collect();
        let waiting = Waiting { jobs: VecDeque::new(), open, busy: 0, running: 0, is_closed: false };
        let shared = Shared { waiting: Mutex::new(waiting), changed: Condvar::new(), lanes, most, window };
        let shared = Arc::new(shared);
        let queue = Queue { shared: Arc::clone(&shared), threads: Mutex::default() };
        for lane in 0..lanes {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(format!("kiln-lane-{lane}"));
            let thread = thread.spawn(move || shared.work(lane))?;
            queue.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(queue)
    }

    /// Adds a request.
    pub(crate) fn push(&self, job: W) -> Result<(), Full> {
        let mut waiting = self.shared.lock();
        let is_open = waiting.open.iter().any(Option::is_some);
        if let Err(job) = waiting.join(job) {
            let idle = self.shared.lanes.saturating_sub(waiting.busy);
            if waiting.jobs.len() >= idle.saturating_add(self.shared.most) {
                return Err(Full { waiting: waiting.jobs.len() });
            }
            waiting.jobs.push_back(job);
        }
        drop(waiting);
        if is_open {
            self.shared.changed.notify_all()
        } else {
            self.shared.changed.notify_one()
        }
        Ok(())
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        let waiting = self.shared.lock();
        waiting.jobs.len() + waiting.open.iter().flatten().map(|group| group.works.len()).sum::<usize>()
    }

    /// Requests that run.
    pub(crate) fn running(&self) -> usize {
        self.shared.lock().running
    }
}

impl<W> Queue<W> {
    /// Runs the waiting requests, and ends the lanes.
    pub(crate) fn close(&self) {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.shared.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A lane ends by returning.
            let _ = thread.join();
        }
    }
}

impl<W> Drop for Queue<W> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
