//! The sizes of all experts' weights.

use std::fmt;

/// Sizes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) experts: usize,
    /// Columns.
    pub(super) n: usize,
    /// Length of the reduction.
    pub(super) k: usize,
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}, {}]", self.experts, self.n, self.k)
    }
}
