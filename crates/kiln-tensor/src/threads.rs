//! The threads of a session, exactly as many as requested.

use std::sync::Arc;

use kiln_kernels::parallel::Reads;
use kiln_kernels::{Parallel, Pool, Serial};

/// A fork-join pool in which the calling thread takes part. Its clones are the same pool, which many sessions may use:
/// a request that finds it in use by another runs on its caller's thread alone.
#[derive(Clone, Debug)]
pub struct Threads {
    pool: Arc<Pool>,
}

/// The caller's thread in place of a pool. Work is divided as for the pool and done one part after the other, so it
/// gives the same bits and needs nothing that the pool's work does not need.
#[derive(Clone, Copy, Debug)]
pub struct Narrow {
    threads: usize,
}

/// The operating system did not start the threads.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {count} threads: {reason}")]
pub struct ThreadsError {
    count: usize,
    reason: String,
}

impl Threads {
    /// A pool of exactly `count` threads, including the caller of [`Parallel::run`]; 0 means all that this process may
    /// use.
    ///
    /// # Errors
    ///
    /// If the operating system does not start that many.
    pub fn new(count: usize) -> Result<Threads, ThreadsError> {
        let count = if count == 0 { available() } else { count };
        let pool = Pool::new(count, "kiln").map_err(|error| ThreadsError { count, reason: error.to_string() })?;
        Ok(Threads { pool: Arc::new(pool) })
    }

    /// The caller's thread, for work that leaves the pool to others.
    #[must_use]
    pub fn narrow(&self) -> Narrow {
        Narrow { threads: self.threads() }
    }
}

/// Threads that this process may use at once.
#[must_use]
pub fn available() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl Parallel for Threads {
    fn threads(&self) -> usize {
        self.pool.threads()
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.pool.run(tasks, task);
    }

    fn each_thread(&self, task: &(dyn Fn(usize) + Sync)) {
        self.pool.each_thread(task);
    }

    fn expect(&self, reads: Reads) {
        self.pool.expect(reads);
    }
}

impl Parallel for Narrow {
    fn threads(&self) -> usize {
        self.threads
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        Serial.run(tasks, task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_threads_as_asked_for() {
        assert_eq!(Threads::new(3).unwrap().threads(), 3);
        assert_eq!(Threads::new(0).unwrap().threads(), available());
    }

    #[test]
    fn clones_are_one_pool() {
        let threads = Threads::new(3).unwrap();
        let clone = threads.clone();
        assert!(Arc::ptr_eq(&threads.pool, &clone.pool));
        drop(threads);
        let done = std::sync::atomic::AtomicUsize::new(0);
        clone.run(100, &|_| {
            done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 100);
    }

    #[test]
    fn narrow_work_is_cut_as_for_the_pool_and_done_by_its_caller() {
        let narrow = Threads::new(3).unwrap().narrow();
        let (here, done) = (std::thread::current().id(), std::sync::Mutex::new(Vec::new()));
        narrow.run(4, &|task| {
            assert_eq!(std::thread::current().id(), here);
            done.lock().unwrap().push(task);
        });
        assert_eq!((narrow.threads(), done.into_inner().unwrap()), (3, vec![0, 1, 2, 3]));
    }

    #[test]
    fn too_many_threads_are_an_error_that_says_how_many() {
        let error = Threads::new(1 << 40).unwrap_err();
        assert!(error.to_string().starts_with("cannot start 1099511627776 threads"), "{error}");
    }
}
