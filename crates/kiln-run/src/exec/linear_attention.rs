//! Executors of linear attention. The problem is the heads and what a position does to their states; how many sequences
//! and positions there are is an argument of a run, so that a prompt of any length has one executor. The graph is not
//! known here; states are walked by [`kiln_kernels::cpu::linear_attention`].

use kiln_kernels::cpu::linear_attention::{LinearAttention, StateHeads};
use kiln_kernels::{CodeSource, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::key::{ExecutorKey, Problem};
use super::target::Target;

/// Everything that determines an executor of linear attention.
pub type LinearAttentionKey = ExecutorKey<LinearAttentionProblem>;

/// Heads of linear attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct LinearAttentionProblem {
    /// The heads, and what a position does to their states.
    pub heads: StateHeads,
}

impl Problem for LinearAttentionProblem {
    const FAMILY: &'static str = "linear-attention";
    const REVISION: u32 = 1;
    type Value = LinearAttention;
    type Choice = ();

    fn choose(&self, _: &Target) {}

    fn accepts(&self, (): &(), _: &Target) -> bool {
        true
    }

    fn build(&self, (): &(), target: &Target, source: &dyn CodeSource) -> KernelResult<LinearAttention> {
        LinearAttention::new(self.heads, target.isa, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.heads.elements().map(|_| 0)
    }
}
