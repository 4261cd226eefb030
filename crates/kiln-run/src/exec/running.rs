//! Executors of running sums and products. The problem is the collapsed shape, so that lines along any axis of any rank
//! share one where they are the same work. The graph is not known here; values are computed by
//! [`kiln_kernels::cpu::running`].

use kiln_kernels::cpu::running::{Runner, Running};
use kiln_kernels::{CodeSource, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::family::tasks_for;
use super::key::{ExecutorKey, Problem};
use super::target::{Target, Tasks};

/// Everything that determines an executor of running values.
pub type RunningKey = ExecutorKey<RunningProblem>;

/// Running sums or products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct RunningProblem {
    /// The lines, and what runs along them.
    pub running: Running,
}

/// An element takes as long as moving this many.
const RUNNING: u64 = 4;

impl Problem for RunningProblem {
    const FAMILY: &'static str = "running";
    const REVISION: u32 = 1;
    type Value = Runner;
    type Choice = Tasks;

    fn choose(&self, target: &Target) -> Tasks {
        let elements = self.running.elements().unwrap_or(usize::MAX) as u64;
        Tasks { tasks: tasks_for(elements.saturating_mul(RUNNING), target.threads) }
    }

    fn accepts(&self, choice: &Tasks, target: &Target) -> bool {
        target.has_tasks(choice.tasks)
    }

    fn build(&self, choice: &Tasks, target: &Target, _: &dyn CodeSource) -> KernelResult<Runner> {
        Runner::new(self.running, target.isa, choice.tasks as usize)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.running.elements().map(|_| 0)
    }
}
