//! The layout of attention heads in a tensor, as an attribute of the fused operator.
//!
//! Exporters move heads around before and after attention, by reshapes and transpositions. Kernels read and write heads
//! with any strides, so a pass removes those nodes and notes the layout of the tensor that remains.

use super::operators::attributes::Attributes;

/// The order of batches, heads, rows (positions) and features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heads {
    /// `[batch, head, row, feature]`, or fewer axes at the front.
    First,
    /// `[batch, row, head, feature]`.
    Behind,
    /// `[batch, head, feature, row]`, or without heads.
    Columns,
    /// `[batch, row, head x feature]`.
    Joined,
}

/// The axes of batch, head, row and feature; `None` for an axis that the tensor lacks. Joined heads are in the axis of
/// features.
pub(crate) type Places = [Option<usize>; 4];

impl Heads {
    const ALL: [Heads; 4] = [Heads::First, Heads::Behind, Heads::Columns, Heads::Joined];

    /// The attribute's value.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Heads::First => "first",
            Heads::Behind => "behind",
            Heads::Columns => "columns",
            Heads::Joined => "joined",
        }
    }

    /// The layout that an attribute names; `None` for an unknown value.
    pub fn of(attributes: &Attributes<'_>, name: &str) -> Option<Heads> {
        let word = attributes.text(name);
        Heads::ALL.into_iter().find(|heads| heads.word() == word)
    }

    /// The axes in a tensor of that rank.
    pub fn places(self, rank: usize) -> Option<Places> {
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

    /// The layout of these axes: the inverse of [`Heads::places`] for tensors whose heads are not joined.
    pub(crate) fn at(places: Places, rank: usize) -> Option<Heads> {
        let candidates = [Heads::First, Heads::Behind, Heads::Columns];
        candidates.into_iter().find(|heads| heads.places(rank) == Some(places))
    }
}
