//! Reduction executors. The key is the collapsed shape, so that the mean of pictures and the mean of rows share one
//! where they are the same work. The graph is not known here; the folding is done by [`kiln_kernels::cpu::reduce`].

use kiln_kernels::cpu::reduce::{Collapsed, Reduce, Reduction};
use kiln_kernels::{Isa, Result as KernelResult};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::context::BuildCx;
use super::family::{Family, tasks_for};
use crate::cache::Key;
use crate::record::Recorded;

/// Everything that determines a reduction executor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "reduce", value = Reduce, laws = crate::record::laws::check)]
pub struct ReduceKey {
    /// What is made of the elements.
    pub reduction: Reduction,
    /// Dimensions after collapsing, kept and reduced ones by turns.
    pub dims: SmallVec<[u64; 4]>,
    /// Whether the first of them is reduced.
    pub reduced_first: bool,
    /// Instruction-set level.
    pub isa: Isa,
    /// Threads that work may be split for.
    pub threads: u32,
}

impl ReduceKey {
    /// The key of a reduction of a tensor of that shape over some of its axes.
    #[must_use]
    pub fn new(
        reduction: Reduction,
        shape: &[usize],
        reduced: impl Fn(usize) -> bool,
        isa: Isa,
        threads: usize,
    ) -> ReduceKey {
        let collapsed = Collapsed::new(shape, reduced);
        ReduceKey {
            reduction,
            dims: collapsed.dims.iter().map(|&dim| dim as u64).collect(),
            reduced_first: collapsed.reduced_first,
            isa,
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
        }
    }

    fn collapsed(&self) -> Collapsed {
        Collapsed { dims: self.dims.iter().map(|&dim| dim as usize).collect(), reduced_first: self.reduced_first }
    }
}

/// What a builder of reductions decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReduceChoice {
    /// Tasks that the work is split into.
    pub tasks: u32,
}

impl Recorded for ReduceKey {
    const REVISION: u32 = 1;
    type Choice = ReduceChoice;
}

impl Family for ReduceKey {
    fn choose(&self, _: &BuildCx) -> ReduceChoice {
        let elements = self.dims.iter().fold(1, |elements: u64, &dim| elements.saturating_mul(dim));
        ReduceChoice { tasks: tasks_for(elements, self.threads) }
    }

    fn fits(&self, cx: &BuildCx) -> bool {
        self.isa == cx.isa && self.threads as usize == cx.threads
    }

    fn table_bytes(&self) -> Option<u64> {
        self.collapsed().is_valid().then_some(0)
    }

    fn accepts(&self, choice: &ReduceChoice, _: &BuildCx) -> bool {
        (1..=self.threads.max(1)).contains(&choice.tasks)
    }

    fn build(&self, choice: &ReduceChoice, cx: &BuildCx) -> KernelResult<Reduce> {
        Reduce::new(self.reduction, &self.collapsed(), self.isa, choice.tasks as usize, cx)
    }
}
