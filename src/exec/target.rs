//! The target of executors: the level, what the machine has beside it, and the threads. It is the same for all
//! families.

use kiln_kernels::{Extensions, Isa};
use serde::{Deserialize, Serialize};

use crate::cache::Mutate;

/// What executors are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Target {
    /// Instruction-set level.
    pub isa: Isa,
    /// What the machine has beside the level.
    pub extensions: Extensions,
    /// Threads that work may be split for.
    pub threads: u32,
}

impl Target {
    /// This machine at that level, with so many threads.
    #[must_use]
    pub fn new(isa: Isa, threads: usize) -> Target {
        Target { isa, extensions: Extensions::beside(isa), threads: u32::try_from(threads).unwrap_or(u32::MAX) }
    }

    /// Threads that work may be split for.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads as usize
    }

    /// Whether work may be split into so many tasks: one at least, and no more than there are threads.
    #[must_use]
    pub fn has_tasks(&self, tasks: u32) -> bool {
        (1..=self.threads.max(1)).contains(&tasks)
    }
}

/// The choice of families that decide nothing but how far work is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tasks {
    /// Tasks.
    pub tasks: u32,
}
