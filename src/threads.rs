//! The threads of a session: a private rayon pool behind [`Parallel`]. The only file that names rayon.

use kiln_kernels::Parallel;

/// A fork-join pool in which the calling thread takes part.
#[derive(Debug)]
pub struct Threads {
    count: usize,
    /// `count - 1` workers; none for one thread, which then never leaves the caller.
    pool: Option<rayon::ThreadPool>,
}

/// The operating system refused to start threads.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {count} threads: {reason}")]
pub struct ThreadsError {
    count: usize,
    reason: String,
}

impl Threads {
    /// A pool of exactly `count` threads, the caller of [`Parallel::run`] included; 0 means all that this process may use.
    pub fn new(count: usize) -> Result<Threads, ThreadsError> {
        let count = if count == 0 { available() } else { count };
        let pool = match count {
            1 => None,
            _ => Some(
                rayon::ThreadPoolBuilder::new()
                    .num_threads(count - 1)
                    .thread_name(|index| format!("kiln-{index}"))
                    .build()
                    .map_err(|error| ThreadsError { count, reason: error.to_string() })?,
            ),
        };
        Ok(Threads { count, pool })
    }
}

/// Threads that this process may use at once.
#[must_use]
pub fn available() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl Parallel for Threads {
    fn threads(&self) -> usize {
        self.count
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let Some(pool) = self.pool.as_ref().filter(|_| tasks > 1) else {
            return (0..tasks).for_each(task);
        };
        // Tasks are handed out by a counter: whoever is free takes the next, so a slow core holds nobody up.
        let next = std::sync::atomic::AtomicUsize::new(0);
        let work = || {
            loop {
                let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if index >= tasks {
                    return;
                }
                task(index);
            }
        };
        pool.in_place_scope(|scope| {
            for _ in 0..(self.count - 1).min(tasks - 1) {
                scope.spawn(|_| work());
            }
            work();
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_task_runs_exactly_once_on_any_number_of_threads() {
        for count in [1, 2, 3, 8] {
            let threads = Threads::new(count).unwrap();
            for tasks in [0, 1, 2, 7, 1000] {
                let ran: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                threads.run(tasks, &|index| {
                    ran[index].fetch_add(1, Ordering::Relaxed);
                });
                assert!(ran.iter().all(|times| times.load(Ordering::Relaxed) == 1), "{count} threads, {tasks} tasks");
            }
        }
    }
}
