//! The description of rotations of heads by the angles of their positions.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::description::sizes;

/// Heads of sequences, and the pairs of their elements that are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Rotation {
    /// Sequences.
    pub batch: u64,
    /// Positions of a sequence.
    pub positions: u64,
    /// Heads of a position.
    pub heads: u64,
    /// Elements of a head.
    pub size: u64,
    /// Elements of a head that are rotated, from the first on: an even number.
    pub rotated: u64,
    /// Whether the elements of a pair are neighbours, instead of half of the rotated elements apart.
    pub interleaved: bool,
    /// Whether the positions of a head follow each other in memory; otherwise the heads of a position do.
    pub heads_first: bool,
}

sizes!(Rotation { batch: usize, positions: usize, heads: usize, size: usize, rotated: usize });

impl Rotation {
    /// Elements of all heads; `None` where memory could not hold that many, or where no pairs fit a head.
    #[must_use]
    pub fn elements(&self) -> Option<usize> {
        let sizes = [self.batch, self.positions, self.heads, self.size];
        let bytes = sizes.iter().try_fold(4u64, |bytes, &size| bytes.checked_mul(size.max(1)))?;
        let fits = self.rotated <= self.size && self.rotated.is_multiple_of(2) && bytes <= isize::MAX as u64;
        fits.then(|| if sizes.contains(&0) { 0 } else { (bytes / 4) as usize })
    }

    /// Pairs of a head.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.rotated() / 2
    }

    /// Positions of all sequences; each has a line of angles.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.batch() * self.positions()
    }
}
