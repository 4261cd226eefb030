//! The target of executors: the level, what the machine has beside it, the threads, and whether additions have one
//! order. It is the same for all families.

use kiln_kernels::{Extensions, Isa};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

/// What executors are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
#[serde(from = "Kept", into = "Kept")]
pub struct Target {
    /// Instruction-set level.
    pub isa: Isa,
    /// What the machine has beside the level.
    pub extensions: Extensions,
    /// Threads that work may be split for.
    pub threads: u32,
    /// Whether additions have one order in any company ([`Numerics::Invariant`](kiln_kernels::cpu::Numerics)).
    pub in_order: bool,
}

/// A target as records keep it. Bit 7 of `beside` says whether additions have one order, so that all other targets have
/// the bytes that they had before that bit was introduced.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Target")]
struct Kept {
    isa: Isa,
    beside: u8,
    threads: u32,
}

/// The bit of [`Kept`].
const IN_ORDER: u8 = 1 << 7;

impl From<Kept> for Target {
    fn from(Kept { isa, beside, threads }: Kept) -> Target {
        let extensions = Extensions::from_bits(beside & !IN_ORDER);
        Target { isa, extensions, threads, in_order: beside & IN_ORDER != 0 }
    }
}

impl From<Target> for Kept {
    fn from(Target { isa, extensions, threads, in_order }: Target) -> Kept {
        let beside = extensions.bits() & !IN_ORDER | if in_order { IN_ORDER } else { 0 };
        Kept { isa, beside, threads }
    }
}

impl Target {
    /// This machine at that level, with `threads` threads.
    #[must_use]
    pub fn new(isa: Isa, threads: usize) -> Target {
        let (extensions, threads) = (Extensions::beside(isa), u32::try_from(threads).unwrap_or(u32::MAX));
        Target { isa, extensions, threads, in_order: false }
    }

    /// Threads that work may be split for.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads as usize
    }

    /// Whether work may be split into `tasks` tasks: at least one, and no more than there are threads.
    #[must_use]
    pub fn has_tasks(&self, tasks: u32) -> bool {
        (1..=self.threads.max(1)).contains(&tasks)
    }
}

/// The choice of families that decide only how far work is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tasks {
    /// Tasks.
    pub tasks: u32,
}
