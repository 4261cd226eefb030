//! How the heads of attention lie in a tensor: the words in which a pass tells the fused operator.
//!
//! Exporters move heads around before and after attention, by reshapes and transpositions. Kernels read and write them
//! wherever they are, so the passes take those nodes out and say here what the tensor is that remains.

use super::ir::NodeDesc;

/// Where batches, heads, rows (positions) and features are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heads {
    /// `[batch, head, row, feature]`, or fewer axes at the front.
    First,
    /// `[batch, row, head, feature]`.
    Behind,
    /// `[batch, head, feature, row]`, or without heads.
    Columns,
    /// `[batch, row, head x feature]`.
    Joined,
}

/// The axes of batch, head, row and feature; none for what a tensor has not. Joined heads are in the axis of features.
pub(crate) type Places = [Option<usize>; 4];

impl Heads {
    const ALL: [Heads; 4] = [Heads::First, Heads::Behind, Heads::Columns, Heads::Joined];

    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Heads::First => "first",
            Heads::Behind => "behind",
            Heads::Columns => "columns",
            Heads::Joined => "joined",
        }
    }

    /// What an attribute says; [`Heads::First`] where it is absent, nothing for an unknown word.
    pub(crate) fn of(node: &NodeDesc, attribute: &str) -> Option<Heads> {
        let word = node.string(attribute, Heads::First.word());
        Heads::ALL.into_iter().find(|heads| heads.word() == word)
    }

    /// The axes in a tensor of that rank.
    pub(crate) fn places(self, rank: usize) -> Option<Places> {
        Some(match (self, rank) {
            (Heads::First, 4) => [Some(0), Some(1), Some(2), Some(3)],
            (Heads::First, 3) => [Some(0), None, Some(1), Some(2)],
            (Heads::First, 2) => [None, None, Some(0), Some(1)],
            (Heads::Columns, 4) => [Some(0), Some(1), Some(3), Some(2)],
            (Heads::Columns, 3) => [Some(0), None, Some(2), Some(1)],
            (Heads::Columns, 2) => [None, None, Some(1), Some(0)],
            (Heads::Behind, 4) => [Some(0), Some(2), Some(1), Some(3)],
            (Heads::Joined, 3) => [Some(0), None, Some(1), Some(2)],
            _ => return None,
        })
    }

    /// What lies so: the inverse of [`Heads::places`] for tensors whose heads are not joined.
    pub(crate) fn at(places: Places, rank: usize) -> Option<Heads> {
        let candidates = [Heads::First, Heads::Behind, Heads::Columns];
        candidates.into_iter().find(|heads| heads.places(rank) == Some(places))
    }
}
