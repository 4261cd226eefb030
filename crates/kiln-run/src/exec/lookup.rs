//! Executors of functions of bytes that are tables. The problem is the number of bytes; the table is an argument. The
//! looking up is done by [`kiln_kernels::cpu::quantized::lookup`], and the graph is not known here.

use kiln_kernels::cpu::quantized::lookup::Lookup;
use kiln_kernels::{CodeSource, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::family::tasks_for_bytes;
use super::key::{ExecutorKey, Problem};
use super::target::{Target, Tasks};

/// Everything that determines an executor of look-ups.
pub type LookupKey = ExecutorKey<LookupProblem>;

/// Look-ups of bytes. The table is no part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct LookupProblem {
    /// Bytes.
    pub bytes: u64,
}

impl Problem for LookupProblem {
    const FAMILY: &'static str = "lookup";
    const REVISION: u32 = 1;
    type Value = Lookup;
    type Choice = Tasks;

    /// Each byte is read and another one written.
    fn choose(&self, target: &Target) -> Tasks {
        Tasks { tasks: tasks_for_bytes(self.bytes.saturating_mul(2), target.threads) }
    }

    fn accepts(&self, choice: &Tasks, target: &Target) -> bool {
        target.has_tasks(choice.tasks)
    }

    fn build(&self, choice: &Tasks, target: &Target, source: &dyn CodeSource) -> KernelResult<Lookup> {
        let bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        Lookup::new(target.isa, target.extensions, bytes, choice.tasks as usize, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        (self.bytes < 1 << 62).then_some(0)
    }
}
