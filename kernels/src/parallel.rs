//! How a kernel family asks for threads without knowing whose they are.

/// A fork-join over numbered tasks. The caller's thread takes part; `run` returns when every task has returned.
pub trait Parallel: Sync {
    /// Threads that take part, the caller included; at least 1.
    fn threads(&self) -> usize;

    /// Calls `task(0)` to `task(tasks - 1)`, each exactly once, in any order and on any of the threads.
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));
}

/// No threads but the caller's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Parallel for Serial {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        for index in 0..tasks {
            task(index);
        }
    }
}
