//! The queue of requests and the lanes that empty it: as many threads as requests may run at a time. What does not fit
//! is refused at once, so that a client hears of it before it has waited.
//!
//! A lane that becomes free takes the request that has waited longest, and with it what waits and may run in one group
//! with it, up to its share: the other lanes take theirs. With a window, a lane that has taken all of it also waits for
//! requests that are still to come. It begins earlier where another lane has nothing to do, or where anything waits that
//! does not join.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::model::Load;

/// What a lane does.
pub(crate) trait Work: Send + Sized + 'static {
    /// What counts for running it in a group; `None` if it runs alone.
    fn joining(&self) -> Option<&Joining>;

    /// Whether it may run in one group with another, where both may run in groups.
    fn joins(&self, other: &Self) -> bool;

    /// Whether its answer is no longer wanted. It is run all the same, to be answered so, and takes no room in a group.
    fn is_over(&self) -> bool;

    /// Runs it alone, or several as one group. The load is that when they begin.
    fn run(group: Vec<Self>, load: Load);
}

/// What counts for running a request in a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joining {
    pub(crate) rows: usize,
    /// Most rows of a group.
    pub(crate) most: usize,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Option<Instant>,
}

/// What a lane has taken: one request, or several that run together.
struct Group<W> {
    works: Vec<W>,
    rows: usize,
    /// When it begins at the latest.
    until: Instant,
}

impl<W: Work> Group<W> {
    /// A group of one, which waits for others until that time after its arrival.
    fn of(first: W, window: Duration) -> Group<W> {
        let now = Instant::now();
        let until = first.joining().filter(|_| !window.is_zero()).and_then(|first| first.arrived.checked_add(window));
        let mut group = Group { works: Vec::new(), rows: 0, until: until.unwrap_or(now) };
        group.add(first);
        group
    }

    /// Whether a request may run with these and has room.
    fn takes(&self, work: &W) -> bool {
        let (Some(first), Some(joining)) = (self.works.first(), work.joining()) else { return false };
        first.joining().is_some() && first.joins(work) && self.rows.saturating_add(rows(work)) <= joining.most
    }

    /// Adds a request. It waits for half of the time that it has left, so that the model has the other half.
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

/// The rows that a request has in a group.
fn rows<W: Work>(work: &W) -> usize {
    work.joining().filter(|_| !work.is_over()).map_or(0, |joining| joining.rows)
}

struct Waiting<W> {
    jobs: VecDeque<W>,
    /// By lanes, what each has taken that has not begun.
    open: Vec<Option<Group<W>>>,
    /// Lanes that have taken something.
    busy: usize,
    /// Requests that have begun.
    running: usize,
    is_closed: bool,
}

impl<W: Work> Waiting<W> {
    /// The load of so many lanes.
    fn load(&self, lanes: usize) -> Load {
        if self.busy + self.jobs.len() >= lanes { Load::Full } else { Load::Light }
    }

    /// The request that has waited longest, and this lane's share of those that may run with it.
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

    /// Adds a request to what a lane has taken, if it joins that.
    fn join(&mut self, work: W) -> Result<(), W> {
        match self.open.iter_mut().flatten().find(|group| group.takes(&work)) {
            Some(group) if !work.is_over() => {
                group.add(work);
                Ok(())
            }
            _ => Err(work),
        }
    }

    /// How long a lane still waits for others that join what it has taken.
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
                // Where this lane has nothing to do, the others wait no longer.
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

    /// Waits for requests that join what the lane has taken, as long as it may.
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
    /// So many lanes, and room for so many requests beside those that run. A lane waits for others that can run together
    /// with a request for the time of `window` after its arrival.
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
    /// Runs what waits still, and ends the lanes.
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
