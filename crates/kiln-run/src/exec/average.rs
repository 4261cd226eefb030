//! Executors of average pools of bytes. The problem is the form of the windows: scales, zero points and signs are in no
//! key, because models may compute them. The averaging is done by [`kiln_kernels::cpu::quantized::averages`], and the
//! graph is not known here.

use kiln_kernels::cpu::pool::PoolShape;
use kiln_kernels::cpu::quantized::averages::Averages;
use kiln_kernels::{CodeSource, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::family::tasks_for;
use super::key::{ExecutorKey, Problem};
use super::target::{Target, Tasks};

/// Everything that determines an executor of an average pool of bytes.
pub type AverageKey = ExecutorKey<AverageProblem>;

/// An average pool of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct AverageProblem {
    /// Images and windows.
    pub shape: PoolShape,
    /// Whether padding counts.
    pub include_pad: bool,
}

impl Problem for AverageProblem {
    const FAMILY: &'static str = "average";
    const REVISION: u32 = 1;
    type Value = Averages;
    type Choice = Tasks;

    /// Rounding a mean costs about as much as reading 16 bytes.
    fn choose(&self, target: &Target) -> Tasks {
        let shape = &self.shape;
        let taps = shape.axes.iter().fold(1, |taps: u64, axis| taps.saturating_mul(axis.kernel.min(axis.input)));
        let outputs = shape
            .axes
            .iter()
            .fold(shape.batch.saturating_mul(shape.channels), |all: u64, axis| all.saturating_mul(axis.output));
        Tasks { tasks: tasks_for(outputs.saturating_mul(taps.saturating_add(16)) / 8, target.threads) }
    }

    fn accepts(&self, choice: &Tasks, target: &Target) -> bool {
        target.has_tasks(choice.tasks)
    }

    fn build(&self, choice: &Tasks, target: &Target, _: &dyn CodeSource) -> KernelResult<Averages> {
        Averages::new(self.shape, self.include_pad, target.isa, choice.tasks as usize)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.shape.is_valid().then_some(0)
    }
}
