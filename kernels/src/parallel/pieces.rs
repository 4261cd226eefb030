//! Units of work that are read side by side, each from a run of memory of its own.

use std::ops::Range;

use smallvec::SmallVec;

/// Units that are computed together: `count` units from `first` on, each `stride` units behind the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first unit.
    pub first: usize,
    /// Units from one to the next.
    pub stride: usize,
    /// Units.
    pub count: usize,
}

impl Piece {
    /// The units.
    pub fn units(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |index| self.first + index * self.stride)
    }
}

/// A run of units, cut into pieces.
///
/// A large piece has a unit of each of as many equal runs, and the next piece has the units behind these. So memory is
/// read as several runs that go on from piece to piece, and prefetches behind the end of a unit are of the next one. If
/// each piece had neighbours, every run would end with its unit: rows by int4 weights, four panels of 18 KB side by
/// side, took 1.5 times as long a byte as panels of 97 KB.
///
/// The last units are neighbours, in small pieces, so that threads that share the work end together.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    first: usize,
    large: usize,
    small: usize,
    /// Large pieces.
    rounds: usize,
    /// Units behind them.
    rest: usize,
}

impl Pieces {
    /// Cuts `units`. `sizes` are the units of a large piece, and of a small one.
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

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rounds + self.rest.div_ceil(self.small)
    }

    /// The units of a piece.
    #[must_use]
    pub fn piece(&self, index: usize) -> Piece {
        if index < self.rounds {
            return Piece { first: self.first + index, stride: self.rounds, count: self.large };
        }
        let at = (index - self.rounds) * self.small;
        Piece { first: self.first + self.large * self.rounds + at, stride: 1, count: self.small.min(self.rest - at) }
    }

    /// All of them in turn.
    pub fn all(self) -> impl Iterator<Item = Piece> {
        (0..self.count()).map(move |index| self.piece(index))
    }

    /// The first units of the runs that large pieces read; of all units, where there is no large piece.
    #[must_use]
    pub fn starts(&self) -> SmallVec<[usize; 4]> {
        let runs = if self.rounds == 0 { 1 } else { self.large };
        (0..runs).map(|run| self.first + run * self.rounds).collect()
    }

    /// Units of each of these runs.
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
