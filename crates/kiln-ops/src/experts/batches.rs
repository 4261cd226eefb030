//! How the rows of an expert are cut into batches, of which there are few sizes: a power of two each.
//!
//! Executors are made for a number of rows, and an expert has another number of them in each request. A batch that is
//! not full has zeros behind its rows.

/// Most rows of a batch: from here on more rows are no faster.
const MOST: usize = 256;

/// Rows up to which a batch of any fullness is taken: reading the weights takes longer than multiplying with them.
const FEW: usize = 8;

/// Rows that are multiplied at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// Rows that count.
    pub(super) rows: usize,
    /// Which size it is.
    pub(super) index: usize,
}

impl Batch {
    /// Rows, with those that do not count.
    pub(super) fn size(self) -> usize {
        1 << self.index
    }
}

/// Sizes of batches for an expert that has so many rows at most, the least first.
pub(super) fn sizes(rows: usize) -> impl Iterator<Item = usize> {
    let largest = largest(rows);
    (0..usize::BITS).map(|index| 1 << index).take_while(move |&size| size <= largest)
}

/// The largest batch of so many rows; none of no rows.
pub(super) fn largest(rows: usize) -> usize {
    if rows == 0 { 0 } else { rows.min(MOST).next_power_of_two() }
}

/// The first batch of so many rows. More than a quarter of a long one counts for nothing: then it is half as long.
pub(super) fn next(rows: usize) -> Batch {
    let size = largest(rows);
    let full = size <= FEW || rows.min(MOST) * 4 > size * 3;
    let size = if full { size } else { size / 2 };
    Batch { rows: rows.min(size), index: size.trailing_zeros() as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_are_in_batches_of_sizes_that_there_are() {
        assert_eq!(sizes(0).count(), 0);
        assert_eq!(sizes(5).collect::<Vec<_>>(), [1, 2, 4, 8]);
        assert_eq!(sizes(10_000).last(), Some(256));
        for rows in 1..1200 {
            let (mut left, mut computed) = (rows, 0);
            while left > 0 {
                let batch = next(left);
                assert!(sizes(rows).any(|size| size == batch.size()), "{rows}");
                assert!((1..=batch.size()).contains(&batch.rows));
                left -= batch.rows;
                computed += batch.size();
            }
            assert!(computed <= rows.max(6) * 4 / 3 + 3, "{computed} for {rows}");
        }
        assert_eq!(next(13), Batch { rows: 13, index: 4 });
        assert_eq!(next(12), Batch { rows: 8, index: 3 });
    }
}
