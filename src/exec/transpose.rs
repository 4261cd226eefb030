//! Transposition executors: the key is the collapsed permutation, so that a turn from NCHW to NHWC of one image and the
//! turn of a matrix share one. The graph is not known here; the moving is done by
//! [`kiln_kernels::cpu::transpose`].

use kiln_kernels::cpu::transpose::geometry::MAX_RANK;
use kiln_kernels::cpu::transpose::{Collapsed, Method, Transpose};
use kiln_kernels::{Isa, Result as KernelResult};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::context::BuildCx;
use super::family::{Family, tasks_for_bytes};
use crate::cache::Key;
use crate::record::Recorded;

/// Everything that determines a transposition executor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "transpose", value = Transpose, laws = crate::record::laws::check)]
pub struct TransposeKey {
    /// Dimensions of the input after collapsing.
    pub shape: SmallVec<[u64; 6]>,
    /// The permutation after collapsing.
    pub perm: SmallVec<[u8; 8]>,
    /// Bytes of an element.
    pub element: u8,
    /// Instruction-set level.
    pub isa: Isa,
    /// Threads that work may be split for.
    pub threads: u32,
}

impl TransposeKey {
    /// The key of moving elements of `element` bytes by `perm`, a permutation of the axes of `shape`.
    #[must_use]
    pub fn new(shape: &[usize], perm: &[usize], element: usize, isa: Isa, threads: usize) -> TransposeKey {
        let collapsed = Collapsed::new(shape, perm);
        TransposeKey {
            shape: collapsed.shape.iter().map(|&dim| dim as u64).collect(),
            perm: collapsed.perm.iter().map(|&axis| axis as u8).collect(),
            element: element as u8,
            isa,
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
        }
    }

    /// Whether there are few enough axes for a kernel, after those that stay together have become one.
    #[must_use]
    pub fn has_kernel(&self) -> bool {
        self.shape.len() <= MAX_RANK
    }

    fn collapsed(&self) -> Collapsed {
        Collapsed {
            shape: self.shape.iter().map(|&dim| dim as usize).collect(),
            perm: self.perm.iter().map(|&axis| usize::from(axis)).collect(),
        }
    }

    fn bytes(&self) -> u64 {
        self.shape.iter().fold(u64::from(self.element), |bytes, &dim| bytes.saturating_mul(dim))
    }
}

/// What a builder of transpositions decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransposeChoice {
    /// The way that the data go.
    pub method: Method,
    /// Tasks that the work is split into.
    pub tasks: u32,
}

impl Recorded for TransposeKey {
    const REVISION: u32 = 2;
    type Choice = TransposeChoice;
}

impl Family for TransposeKey {
    /// The fastest way that fits.
    fn choose(&self, _: &BuildCx) -> TransposeChoice {
        TransposeChoice {
            method: Method::pick(&self.collapsed(), usize::from(self.element), self.isa),
            tasks: tasks_for_bytes(self.bytes(), self.threads),
        }
    }

    fn fits(&self, cx: &BuildCx) -> bool {
        self.isa == cx.isa && self.threads as usize == cx.threads
    }

    fn table_bytes(&self) -> Option<u64> {
        self.collapsed().is_valid(usize::from(self.element)).then_some(0)
    }

    fn accepts(&self, choice: &TransposeChoice, _: &BuildCx) -> bool {
        (1..=self.threads.max(1)).contains(&choice.tasks)
            && choice.method.fits(&self.collapsed(), usize::from(self.element), self.isa)
    }

    fn build(&self, choice: &TransposeChoice, cx: &BuildCx) -> KernelResult<Transpose> {
        let element = usize::from(self.element);
        Transpose::new(self.collapsed(), element, self.isa, choice.method, choice.tasks as usize, cx)
    }
}
