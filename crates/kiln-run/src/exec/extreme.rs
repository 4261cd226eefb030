//! Executors that find the greatest or least elements of lines. The problem is the collapsed shape, so that lines along
//! any axis of any rank share one where they are the same work. The graph is not known here; lines are searched by
//! [`kiln_kernels::cpu::extreme`].

use kiln_kernels::cpu::extreme::{Extreme, Extremes};
use kiln_kernels::{CodeSource, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::family::tasks_for;
use super::key::{ExecutorKey, Problem};
use super::target::{Target, Tasks};

/// Everything that determines an executor of a search.
pub type ExtremeKey = ExecutorKey<ExtremeProblem>;

/// A search for the greatest or least elements of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ExtremeProblem {
    /// The lines, and which element of each is found.
    pub extreme: Extreme,
}

impl Problem for ExtremeProblem {
    const FAMILY: &'static str = "extreme";
    const REVISION: u32 = 1;
    type Value = Extremes;
    type Choice = Tasks;

    fn choose(&self, target: &Target) -> Tasks {
        let Extreme { outer, length, inner, .. } = self.extreme;
        Tasks { tasks: tasks_for(outer.saturating_mul(length).saturating_mul(inner), target.threads) }
    }

    fn accepts(&self, choice: &Tasks, target: &Target) -> bool {
        target.has_tasks(choice.tasks)
    }

    fn build(&self, choice: &Tasks, target: &Target, source: &dyn CodeSource) -> KernelResult<Extremes> {
        Extremes::new(self.extreme, target.isa, choice.tasks as usize, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.extreme.lines().map(|_| 0)
    }
}
