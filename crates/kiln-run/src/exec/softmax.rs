//! Softmax executors. The problem is the shape around the axis; the computing is done by
//! [`kiln_kernels::cpu::softmax`], and the graph is not known here.

use kiln_kernels::cpu::softmax::{Around, Softmax};
use kiln_kernels::{CodeSource, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::family::tasks_for;
use super::key::{ExecutorKey, Problem};
use super::target::{Target, Tasks};

/// Everything that determines a softmax executor.
pub type SoftmaxKey = ExecutorKey<SoftmaxProblem>;

/// A softmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct SoftmaxProblem {
    /// The shape around the axis.
    pub around: Around,
    /// Whether the logarithm is wanted.
    pub logarithm: bool,
}

impl Problem for SoftmaxProblem {
    const FAMILY: &'static str = "softmax";
    const REVISION: u32 = 2;
    type Value = Softmax;
    type Choice = Tasks;

    /// An exponential costs about as much as moving four elements.
    fn choose(&self, target: &Target) -> Tasks {
        let Around { outer, length, inner } = self.around;
        let elements = outer.saturating_mul(length).saturating_mul(inner);
        Tasks { tasks: tasks_for(elements.saturating_mul(4), target.threads) }
    }

    fn accepts(&self, choice: &Tasks, target: &Target) -> bool {
        target.has_tasks(choice.tasks)
    }

    fn build(&self, choice: &Tasks, target: &Target, source: &dyn CodeSource) -> KernelResult<Softmax> {
        Softmax::new(self.around, self.logarithm, target.isa, choice.tasks as usize, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.around.elements().map(|_| 0)
    }
}
