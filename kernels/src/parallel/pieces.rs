//! Work on equal parts of memory, such as the panels of a matrix, some of them read side by side.

use std::ops::Range;

use smallvec::SmallVec;

/// Units of work that one call computes: `count` of them, `stride` apart, from number `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Number of the first unit.
    pub first: usize,
    /// Distance from one unit to the next.
    pub stride: usize,
    /// Number of units.
    pub count: usize,
}

impl Piece {
    /// A single unit.
    #[must_use]
    pub fn one(unit: usize) -> Piece {
        Piece { first: unit, stride: 1, count: 1 }
    }

    /// Its units, in the order in which they are read side by side.
    pub fn units(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |index| self.first + index * self.stride)
    }
}

/// Consecutive units of work, cut into pieces whose units are read side by side.
///
/// Pieces of four cut 12 units into 0, 3, 6, 9, then 1, 4, 7, 10, then 2, 5, 8, 11. So memory is read as four runs that
/// go on from piece to piece, and what is prefetched behind the end of a unit is read next. Pieces of neighbours (0, 1,
/// 2, 3) would end each run with its unit: panels of 18 KB took 1.5 times as long a byte as panels of 97 KB (a row by
/// int4 weights on a Zen 4).
///
/// The last units are neighbours in smaller pieces, so that threads that share the work end together.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    first: usize,
    large: usize,
    small: usize,
    /// Number of large pieces.
    rounds: usize,
    /// Number of units behind them.
    rest: usize,
}

impl Pieces {
    /// Cuts `units` into pieces of `sizes[0]` units, and the last ones into pieces of at most `sizes[1]`.
    #[must_use]
    pub fn new(units: Range<usize>, sizes: [usize; 2]) -> Pieces {
        let [large, small] = sizes.map(|size| size.max(1));
        let small = small.min(large);
        let (mut rounds, mut rest) = (units.len() / large, units.len() % large);
        if small < large && rest < small && rounds > 0 {
            (rounds, rest) = (rounds - 1, rest + large);
        }
        Pieces { first: units.start, large, small, rounds, rest }
    }

    /// Number of pieces.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rounds + self.rest.div_ceil(self.small)
    }

    /// Piece number `index`.
    #[must_use]
    pub fn piece(&self, index: usize) -> Piece {
        if index < self.rounds {
            return Piece { first: self.first + index, stride: self.rounds, count: self.large };
        }
        let at = (index - self.rounds) * self.small;
        Piece { first: self.first + self.large * self.rounds + at, stride: 1, count: self.small.min(self.rest - at) }
    }

    /// All pieces in turn.
    pub fn all(self) -> impl Iterator<Item = Piece> {
        (0..self.count()).map(move |index| self.piece(index))
    }

    /// The first units of the runs that large pieces read; of all units, where there is no large piece.
    #[must_use]
    pub fn starts(&self) -> SmallVec<[usize; 4]> {
        let runs = if self.rounds == 0 { 1 } else { self.large };
        (0..runs).map(|run| self.first + run * self.rounds).collect()
    }

    /// Number of units in each of these runs.
    #[must_use]
    pub fn run_len(&self) -> usize {
        if self.rounds == 0 { self.rest } else { self.rounds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(units: Range<usize>, sizes: [usize; 2]) -> Vec<Vec<usize>> {
        Pieces::new(units, sizes).all().map(|piece| piece.units().collect()).collect()
    }

    #[test]
    fn each_run_goes_on_from_piece_to_piece_and_the_last_units_are_small_pieces() {
        assert_eq!(cut(0..14, [4, 2]), [vec![0, 3, 6, 9], vec![1, 4, 7, 10], vec![2, 5, 8, 11], vec![12, 13]]);
        assert_eq!(cut(5..13, [4, 2]), [vec![5, 6, 7, 8], vec![9, 10], vec![11, 12]]);
        assert_eq!(cut(0..9, [4, 2]), [vec![0, 1, 2, 3], vec![4, 5], vec![6, 7], vec![8]]);
        assert_eq!(cut(0..9, [4, 4]), [vec![0, 2, 4, 6], vec![1, 3, 5, 7], vec![8]]);
        assert_eq!(cut(0..5, [2, 1]), [vec![0, 2], vec![1, 3], vec![4]]);
        assert_eq!(cut(2..4, [1, 1]), [vec![2], vec![3]]);
        assert!(cut(3..3, [4, 2]).is_empty());
    }

    #[test]
    fn every_unit_is_in_one_piece() {
        for length in 0..40 {
            for sizes in [[4, 2], [4, 4], [2, 1], [1, 1], [0, 0], [1, 4]] {
                let mut units = cut(7..7 + length, sizes).concat();
                units.sort_unstable();
                assert_eq!(units, Vec::from_iter(7..7 + length), "{length} by {sizes:?}");
            }
        }
    }

    #[test]
    fn runs_are_what_large_pieces_read() {
        let runs = |units, sizes| {
            let pieces = Pieces::new(units, sizes);
            (pieces.starts().to_vec(), pieces.run_len())
        };
        assert_eq!(runs(0..14, [4, 2]), (vec![0, 3, 6, 9], 3));
        assert_eq!(runs(5..8, [4, 2]), (vec![5], 3), "no large piece");
        assert_eq!(runs(0..6, [1, 1]), (vec![0], 6));
    }
}
