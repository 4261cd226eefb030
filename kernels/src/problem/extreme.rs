//! The description of places of the greatest or least elements of lines.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::description::sizes;

/// Which element of a line is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Wanted {
    /// One that no other is greater than.
    Greatest,
    /// One that no other is less than.
    Least,
}

/// An array `[outer, length, inner]`, in each of whose `outer * inner` lines an element is looked for, by comparison
/// from the front: the first element is found, until a later one is greater (or less) than what was found. NaN is found
/// where it comes first, and never replaces a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Extreme {
    /// Blocks of lines.
    pub outer: u64,
    /// Elements of a line.
    pub length: u64,
    /// Lines of a block, which lie side by side.
    pub inner: u64,
    /// Which element is looked for.
    pub wanted: Wanted,
    /// Whether the last of equal elements is found, instead of the first.
    pub last: bool,
}

sizes!(Extreme { outer: usize, length: usize, inner: usize });

impl Extreme {
    /// Lines, each of which has a result; `None` where there cannot be as many, or where a line has no elements, or
    /// more than 32 bits count.
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
