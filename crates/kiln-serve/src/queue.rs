//! The queue of requests and the lanes that empty it: as many threads as requests may run at a time. What does not fit
//! is refused at once, so that a client hears of it before it has waited.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::model::Load;

/// Work of a request, which is told the load when it begins.
pub(crate) type Job = Box<dyn FnOnce(Load) + Send>;

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    running: usize,
    is_closed: bool,
}

impl Waiting {
    /// The load of so many lanes.
    fn load(&self, lanes: usize) -> Load {
        if self.running + self.jobs.len() >= lanes { Load::Full } else { Load::Light }
    }
}

struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    lanes: usize,
    most: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut waiting = self.lock();
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                waiting.running += 1;
                let load = waiting.load(self.lanes);
                drop(waiting);
                // A job answers for its own panics; one that escapes must not take the lane with it.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(load)));
                waiting = self.lock();
                waiting.running -= 1;
            } else if waiting.is_closed {
                return;
            } else {
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// A bounded queue and its lanes.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The queue is full.
#[derive(Debug)]
pub(crate) struct Full {
    pub(crate) waiting: usize,
}

impl Queue {
    /// So many lanes, and room for so many requests beside those that run.
    pub(crate) fn new(lanes: usize, most: usize) -> io::Result<Queue> {
        let shared = Shared { waiting: Mutex::default(), changed: Condvar::new(), lanes, most };
        let queue = Queue { shared: Arc::new(shared), threads: Mutex::default() };
        for lane in 0..lanes {
            let shared = Arc::clone(&queue.shared);
            let thread = std::thread::Builder::new().name(format!("kiln-lane-{lane}"));
            let thread = thread.spawn(move || shared.work())?;
            queue.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(queue)
    }

    /// Adds a request.
    pub(crate) fn push(&self, job: Job) -> Result<(), Full> {
        let mut waiting = self.shared.lock();
        let idle = self.shared.lanes.saturating_sub(waiting.running);
        if waiting.jobs.len() >= idle.saturating_add(self.shared.most) {
            return Err(Full { waiting: waiting.jobs.len() });
        }
        waiting.jobs.push_back(job);
        drop(waiting);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.lock().jobs.len()
    }

    /// Requests that run.
    pub(crate) fn running(&self) -> usize {
        self.shared.lock().running
    }

    /// Runs what waits still, and ends the lanes.
    pub(crate) fn close(&self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A lane ends by returning.
            let _ = thread.join();
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_and_the_rest_runs() {
        let queue = Queue::new(1, 2).unwrap();
        let (go, gate) = mpsc::channel::<()>();
        let (started, is_running) = mpsc::channel();
        queue
            .push(Box::new(move |_| {
                started.send(()).unwrap();
                gate.recv().unwrap();
            }))
            .unwrap();
        is_running.recv().unwrap();
        let (done, count) = mpsc::channel();
        for _ in 0..2 {
            let done = done.clone();
            queue.push(Box::new(move |_| done.send(()).unwrap())).unwrap();
        }
        assert_eq!(queue.push(Box::new(|_| {})).unwrap_err().waiting, 2);
        assert_eq!((queue.waiting(), queue.running()), (2, 1));
        go.send(()).unwrap();
        queue.close();
        assert_eq!(count.try_iter().count(), 2);
    }

    #[test]
    fn the_load_is_full_once_there_is_a_request_for_each_lane() {
        let queue = Queue::new(3, 2).unwrap();
        let (told, loads) = mpsc::channel();
        let gates = [0; 3].map(|_| {
            let (go, gate) = mpsc::channel::<()>();
            let told = told.clone();
            queue
                .push(Box::new(move |load| {
                    told.send(load).unwrap();
                    gate.recv().unwrap();
                }))
                .unwrap();
            // It runs before the next one comes.
            (go, loads.recv().unwrap())
        });
        let [(one, first), (two, second), (three, third)] = gates;
        assert_eq!([first, second, third], [Load::Light, Load::Light, Load::Full]);
        [one, two, three].iter().for_each(|go| go.send(()).unwrap());
        queue.close();
    }

    #[test]
    fn a_panic_takes_no_lane_with_it() {
        let queue = Queue::new(1, 8).unwrap();
        queue.push(Box::new(|_| std::panic::resume_unwind(Box::new(())))).unwrap();
        let (done, ran) = mpsc::channel();
        queue.push(Box::new(move |_| done.send(()).unwrap())).unwrap();
        ran.recv().unwrap();
    }
}
