//! Softmax executors. The key is the shape around the axis; the computing is done by [`kiln_kernels::cpu::softmax`],
//! and the graph is not known here.

use kiln_kernels::cpu::softmax::{Around, Softmax};
use kiln_kernels::{Isa, Result as KernelResult};
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::family::{Family, tasks_for};
use crate::cache::Key;
use crate::record::Recorded;

/// Everything that determines a softmax executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "softmax", value = Softmax, laws = crate::record::laws::check)]
pub struct SoftmaxKey {
    /// Product of the dimensions before the axis.
    pub outer: u64,
    /// Size of the axis.
    pub length: u64,
    /// Product of the dimensions after it.
    pub inner: u64,
    /// Whether the logarithm is wanted.
    pub logarithm: bool,
    /// Instruction-set level.
    pub isa: Isa,
    /// Threads that work may be split for.
    pub threads: u32,
}

impl SoftmaxKey {
    fn around(&self) -> Around {
        Around { outer: self.outer as usize, length: self.length as usize, inner: self.inner as usize }
    }
}

/// What a builder of softmaxes decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoftmaxChoice {
    /// Tasks that the work is split into.
    pub tasks: u32,
}

impl Recorded for SoftmaxKey {
    const REVISION: u32 = 1;
    type Choice = SoftmaxChoice;
}

impl Family for SoftmaxKey {
    /// An exponential costs about as much as moving four elements.
    fn choose(&self, _: &BuildCx) -> SoftmaxChoice {
        let elements = self.outer.saturating_mul(self.length).saturating_mul(self.inner);
        SoftmaxChoice { tasks: tasks_for(elements.saturating_mul(4), self.threads) }
    }

    fn fits(&self, cx: &BuildCx) -> bool {
        self.isa == cx.isa && self.threads as usize == cx.threads
    }

    fn table_bytes(&self) -> Option<u64> {
        self.around().elements().map(|_| 0)
    }

    fn accepts(&self, choice: &SoftmaxChoice, _: &BuildCx) -> bool {
        (1..=self.threads.max(1)).contains(&choice.tasks)
    }

    fn build(&self, choice: &SoftmaxChoice, cx: &BuildCx) -> KernelResult<Softmax> {
        Softmax::new(self.around(), self.logarithm, self.isa, choice.tasks as usize, cx)
    }
}
