//! The description of places of the greatest or least elements of lines.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::description::sizes;

/// The wanted element of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Wanted {
    /// The element that no other is greater than.
    Greatest,
    /// The element that no other is less than.
    Least,
}

/// An array `[outer, length, inner]`, with an element to find in each of its `outer * inner` lines. Comparison runs
/// from the front: the first element is taken, and replaced by each later one that is greater (or less). NaN is found
/// where it comes first, and never replaces a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Extreme {
    /// Blocks of lines.
    pub outer: u64,
    /// Elements of a line.
    pub length: u64,
    /// Lines of a block, which lie side by side.
    pub inner: u64,
    /// The wanted element.
    pub wanted: Wanted,
    /// Whether the last of equal elements is found, instead of the first.
    pub last: bool,
}

sizes!(Extreme { outer: usize, length: usize, inner: usize });

impl Extreme {
    /// Lines, each with a result. `None` where memory could not hold that many, where a line has no elements, or where
    /// places in a line need more than 32 bits.
    #[must_use]
    pub fn lines(&self) -> Option<usize> {
        let sizes = [self.outer, self.length, self.inner];
        // A result has eight bytes.
        let bytes = sizes.iter().try_fold(8u64, |bytes, &size| bytes.checked_mul(size.max(1)))?;
        let lines = self.outer.checked_mul(self.inner)?;
        let fits = bytes <= isize::MAX as u64 && self.length <= i32::MAX as u64 && (self.length > 0 || lines == 0);
        fits.then_some(lines as usize)
    }
}
