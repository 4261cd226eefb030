//! The description of running sums and products along an axis.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::description::sizes;

/// Lines along an axis, and what runs along them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Running {
    /// Elements of the axes before.
    pub outer: u64,
    /// Elements of a line.
    pub length: u64,
    /// Elements of the axes behind: lines that lie side by side.
    pub inner: u64,
    /// Products instead of sums.
    pub product: bool,
    /// Each result is without its own element.
    pub exclusive: bool,
    /// From the last element to the first.
    pub reverse: bool,
}

sizes!(Running { outer: usize, length: usize, inner: usize });

impl Running {
    /// Elements of all lines; `None` where memory could not hold that many.
    #[must_use]
    pub fn elements(&self) -> Option<usize> {
        let sizes = [self.outer, self.length, self.inner];
        let bytes = sizes.iter().try_fold(4u64, |bytes, &size| bytes.checked_mul(size.max(1)))?;
        (bytes <= isize::MAX as u64).then(|| sizes.iter().product::<u64>() as usize)
    }
}
