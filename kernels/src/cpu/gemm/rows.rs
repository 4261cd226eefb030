//! Cutting rows into tiles. Seven rows become tiles of four and three, not of six and one: a tile of one row costs
//! nearly as much as one of three, because it waits for the same columns.

use std::ops::Range;

/// `total` rows in as few tiles as possible. Tiles have at most `most` rows, and heights differ by at most one, taller
/// tiles first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    total: usize,
    count: usize,
}

/// Consecutive tiles of one height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first row.
    pub row: usize,
    /// Rows of each tile.
    pub height: usize,
    /// Tiles.
    pub count: usize,
}

impl Tiles {
    /// The cut of `total` rows into tiles of at most `most` rows.
    #[must_use]
    pub fn new(total: usize, most: usize) -> Tiles {
        Tiles { total, count: total.div_ceil(most.max(1)) }
    }

    /// The cut into tiles of at least `least` rows. Tiles are higher than `most` where both bounds cannot be met;
    /// `None` if all rows are fewer than `least`.
    #[must_use]
    pub fn between(total: usize, most: usize, least: usize) -> Option<Tiles> {
        let count = total.div_ceil(most.max(1)).min(total / least.max(1));
        (total == 0 || count > 0).then_some(Tiles { total, count })
    }

    /// Tiles.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first row of a tile; for the tile past the last, the number of rows.
    #[must_use]
    pub fn start(&self, tile: usize) -> usize {
        let count = self.count.max(1);
        tile * (self.total / count) + tile.min(self.total % count)
    }

    /// The number of leading tiles for which `holds` is true. It must be false for every tile behind the first for
    /// which it is false.
    #[must_use]
    pub fn leading(&self, holds: impl Fn(usize) -> bool) -> usize {
        let (mut least, mut most) = (0, self.count);
        while least < most {
            let middle = least.midpoint(most);
            if holds(middle) { least = middle + 1 } else { most = middle }
        }
        least
    }

    /// The heights that occur: none, one or two.
    pub fn heights(self) -> impl Iterator<Item = usize> + use<> {
        self.runs(0..self.count).map(|run| run.height)
    }

    /// The tiles of a range as one or two runs of equal height.
    pub fn runs(&self, tiles: Range<usize>) -> impl Iterator<Item = Run> + use<> {
        let count = self.count.max(1);
        let (low, taller) = (self.total / count, self.total % count);
        let split = taller.clamp(tiles.start, tiles.end);
        let this = *self;
        [(tiles.start..split, low + 1), (split..tiles.end, low)]
            .into_iter()
            .filter(|(range, _)| !range.is_empty())
            .map(move |(range, height)| Run { row: this.start(range.start), height, count: range.len() })
    }
}

/// Part `index` of `parts` nearly equal consecutive parts of `0..total`.
pub(crate) fn part(total: usize, parts: usize, index: usize) -> Range<usize> {
    let tiles = Tiles { total, count: parts.max(1) };
    tiles.start(index)..tiles.start(index + 1)
}

/// The sizes of those parts that are not empty.
pub(crate) fn part_sizes(total: usize, parts: usize) -> impl Iterator<Item = usize> + use<> {
    Tiles { total, count: parts.max(1) }.heights().filter(|&size| size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_tiles_are_found_by_halves() {
        let tiles = Tiles::new(100, 7);
        for end in 0..=101 {
            let one_by_one = (0..tiles.count()).take_while(|&tile| tiles.start(tile + 1) <= end).count();
            assert_eq!(tiles.leading(|tile| tiles.start(tile + 1) <= end), one_by_one);
        }
    }

    #[test]
    fn no_tile_is_lower_than_the_least_nor_higher_than_needed() {
        for (total, most, least) in
            (0..200).flat_map(|total| (1..9).flat_map(move |most| (1..9).map(move |least| (total, most, least))))
        {
            let Some(tiles) = Tiles::between(total, most, least) else {
                assert!(total > 0 && total < least, "{total} rows hold a tile of {least}");
                continue;
            };
            let heights: Vec<usize> = tiles.heights().collect();
            assert!(heights.iter().all(|&height| height >= least), "{total} {most} {least}: {heights:?}");
            assert!(
                heights.iter().all(|&height| height <= most.max(2 * least - 1)),
                "{total} {most} {least}: {heights:?}"
            );
            assert_eq!(tiles.start(tiles.count()), total);
        }
    }

    #[test]
    fn runs_cover_all_rows_in_order_with_heights_that_differ_by_one_at_most() {
        for most in 1..9 {
            for total in 0..200 {
                let tiles = Tiles::new(total, most);
                assert_eq!(tiles.count(), total.div_ceil(most));
                let (mut row, mut heights) = (0, vec![]);
                for run in tiles.runs(0..tiles.count()) {
                    assert_eq!(run.row, row);
                    row += run.height * run.count;
                    heights.push(run.height);
                }
                assert_eq!(row, total);
                assert_eq!(tiles.heights().collect::<Vec<_>>(), heights);
                assert!(heights.iter().all(|&height| height <= most && height > 0));
                assert!(heights.len() < 2 || heights[0] == heights[1] + 1);
            }
        }
    }

    #[test]
    fn runs_of_a_part_are_those_of_the_whole() {
        let tiles = Tiles::new(47, 6);
        for start in 0..tiles.count() {
            for end in start..=tiles.count() {
                let rows: usize = tiles.runs(start..end).map(|run| run.height * run.count).sum();
                assert_eq!(rows, tiles.start(end) - tiles.start(start));
            }
        }
    }
}
