//! Reduction executors. The problem is the collapsed shape, so that the mean of images and the mean of rows share one
//! where they are the same work. The graph is not known here; the folding is done by [`kiln_kernels::cpu::reduce`].

use kiln_kernels::cpu::reduce::{Collapsed, Reduce, Reduction};
use kiln_kernels::{CodeSource, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::family::tasks_for;
use super::key::{ExecutorKey, Problem};
use super::target::{Target, Tasks};

/// Everything that determines a reduction executor.
pub type ReduceKey = ExecutorKey<ReduceProblem>;

/// A reduction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ReduceProblem {
    /// How the elements are combined.
    pub reduction: Reduction,
    /// Dimensions after collapsing, kept and reduced ones alternating.
    pub collapsed: Collapsed,
}

impl ReduceProblem {
    /// The reduction of a tensor of that shape over some of its axes.
    #[must_use]
    pub fn new(reduction: Reduction, shape: &[usize], reduced: impl Fn(usize) -> bool) -> ReduceProblem {
        ReduceProblem { reduction, collapsed: Collapsed::new(shape, reduced) }
    }
}

impl Problem for ReduceProblem {
    const FAMILY: &'static str = "reduce";
    const REVISION: u32 = 2;
    type Value = Reduce;
    type Choice = Tasks;

    fn choose(&self, target: &Target) -> Tasks {
        let elements = self.collapsed.dims.iter().fold(1, |elements: u64, &dim| elements.saturating_mul(dim));
        Tasks { tasks: tasks_for(elements, target.threads) }
    }

    fn accepts(&self, choice: &Tasks, target: &Target) -> bool {
        target.has_tasks(choice.tasks)
    }

    fn build(&self, choice: &Tasks, target: &Target, source: &dyn CodeSource) -> KernelResult<Reduce> {
        Reduce::new(self.reduction, &self.collapsed, target.isa, choice.tasks as usize, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.collapsed.is_valid().then_some(0)
    }
}
