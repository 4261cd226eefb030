//! Transposition executors: the problem is the collapsed permutation, so that transposing one image from NCHW to NHWC
//! and transposing a matrix share one. The graph is not known here; elements are moved by
//! [`kiln_kernels::cpu::transpose`].

use kiln_kernels::cpu::transpose::geometry::MAX_RANK;
use kiln_kernels::cpu::transpose::{Collapsed, Method, Transpose};
use kiln_kernels::{CodeSource, Result as KernelResult};
use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::family::tasks_for_bytes;
use super::key::{ExecutorKey, Problem};
use super::target::Target;

/// Everything that determines a transposition executor.
pub type TransposeKey = ExecutorKey<TransposeProblem>;

/// A transposition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct TransposeProblem {
    /// Dimensions and permutation after collapsing.
    pub collapsed: Collapsed,
    /// Bytes of an element.
    pub element: u8,
}

impl TransposeProblem {
    /// The moving of elements of `element` bytes by `perm`, a permutation of the axes of `shape`.
    #[must_use]
    pub fn new(shape: &[usize], perm: &[usize], element: usize) -> TransposeProblem {
        TransposeProblem { collapsed: Collapsed::new(shape, perm), element: element as u8 }
    }

    /// Whether there are few enough axes for a kernel, after those that stay together have become one.
    #[must_use]
    pub fn has_kernel(&self) -> bool {
        self.collapsed.rank() <= MAX_RANK
    }

    fn element(&self) -> usize {
        usize::from(self.element)
    }

    fn bytes(&self) -> u64 {
        self.collapsed.shape.iter().fold(u64::from(self.element), |bytes, &dim| bytes.saturating_mul(dim))
    }
}

/// What a builder of transpositions decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransposeChoice {
    /// How the elements are moved.
    pub method: Method,
    /// Tasks that the work is split into.
    pub tasks: u32,
}

impl Problem for TransposeProblem {
    const FAMILY: &'static str = "transpose";
    const REVISION: u32 = 4;
    type Value = Transpose;
    type Choice = TransposeChoice;

    /// The fastest way that fits.
    fn choose(&self, target: &Target) -> TransposeChoice {
        TransposeChoice {
            method: Method::pick(&self.collapsed, self.element(), target.isa),
            tasks: tasks_for_bytes(self.bytes(), target.threads),
        }
    }

    fn accepts(&self, choice: &TransposeChoice, target: &Target) -> bool {
        target.has_tasks(choice.tasks) && choice.method.fits(&self.collapsed, self.element(), target.isa)
    }

    fn build(&self, choice: &TransposeChoice, target: &Target, source: &dyn CodeSource) -> KernelResult<Transpose> {
        let (collapsed, tasks) = (self.collapsed.clone(), choice.tasks as usize);
        Transpose::new(collapsed, self.element(), target.isa, choice.method, tasks, source)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.collapsed.is_valid(self.element()).then_some(0)
    }
}
