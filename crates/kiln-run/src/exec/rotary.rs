//! Executors of rotations of heads. The problem is their shape and which pairs are rotated; positions, and how many
//! angles are known, are arguments of a run. The graph is not known here; heads are rotated by
//! [`kiln_kernels::cpu::rotary`].

use kiln_kernels::cpu::rotary::{Rotary, Rotation};
use kiln_kernels::{CodeSource, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::family::tasks_for;
use super::key::{ExecutorKey, Problem};
use super::target::{Target, Tasks};

/// Everything that determines an executor of a rotation.
pub type RotaryKey = ExecutorKey<RotaryProblem>;

/// A rotation of heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct RotaryProblem {
    /// The shape of the heads, and the pairs that are rotated.
    pub rotation: Rotation,
}

impl Problem for RotaryProblem {
    const FAMILY: &'static str = "rotary";
    const REVISION: u32 = 1;
    type Value = Rotary;
    type Choice = Tasks;

    fn choose(&self, target: &Target) -> Tasks {
        let elements = self.rotation.elements().unwrap_or(usize::MAX);
        Tasks { tasks: tasks_for(elements as u64, target.threads) }
    }

    fn accepts(&self, choice: &Tasks, target: &Target) -> bool {
        target.has_tasks(choice.tasks)
    }

    fn build(&self, choice: &Tasks, target: &Target, source: &dyn CodeSource) -> KernelResult<Rotary> {
        Rotary::new(self.rotation, target.isa, choice.tasks as usize, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.rotation.elements().map(|_| 0)
    }
}
