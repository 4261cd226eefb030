//! Pooling executors. The problem is the form of the windows; the moving is done by [`kiln_kernels::cpu::pool`], and
//! the graph is not known here.

use kiln_kernels::cpu::Stored;
use kiln_kernels::cpu::pool::{Path, Pool, PoolKind, PoolShape};
use kiln_kernels::{CodeSource, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::family::tasks_for;
use super::key::{ExecutorKey, Problem};
use super::target::Target;

/// Everything that determines a pooling executor.
pub type PoolKey = ExecutorKey<PoolProblem>;

/// A pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct PoolProblem {
    /// The kind of pooling.
    pub kind: PoolKind,
    /// Images and windows.
    pub shape: PoolShape,
    /// Type of elements in memory.
    pub stored: Stored,
}

/// What a builder of poolings decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolChoice {
    /// The strategy.
    pub path: Path,
    /// Tasks that the work is split into.
    pub tasks: u32,
}

impl Problem for PoolProblem {
    const FAMILY: &'static str = "pool";
    const REVISION: u32 = 5;
    type Value = Pool;
    type Choice = PoolChoice;

    /// The fastest strategy that fits. Reading an element from memory costs about as much as collecting eight taps from
    /// the cache.
    fn choose(&self, target: &Target) -> PoolChoice {
        let shape = &self.shape;
        let taps = shape.axes.iter().fold(1, |taps: u64, axis| taps.saturating_mul(axis.kernel.min(axis.input)));
        let work = (shape.inputs() as u64).max((shape.outputs() as u64).saturating_mul(taps) / 8);
        let path = match self.stored {
            Stored::F32 => Path::pick(self.kind, shape, target.isa),
            Stored::Bf16 => Path::Code,
        };
        PoolChoice { path, tasks: tasks_for(work, target.threads) }
    }

    fn accepts(&self, choice: &PoolChoice, target: &Target) -> bool {
        target.has_tasks(choice.tasks)
            && choice.path.fits(self.kind, &self.shape, target.isa)
            && choice.path.takes(self.stored, target.isa)
    }

    fn build(&self, choice: &PoolChoice, target: &Target, source: &dyn CodeSource) -> KernelResult<Pool> {
        let PoolChoice { path, tasks, .. } = *choice;
        Pool::stored(self.kind, self.shape, target.isa, path, self.stored, tasks as usize, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.shape.is_valid().then_some(0)
    }
}
