//! How the rows of an expert are cut into batches of a few sizes, each a power of two.
//!
//! Executors are made for a number of rows, and an expert's number of rows differs from request to request. A batch
//! that is not full has zeros behind its rows.

/// Most rows of a batch: larger batches are no faster.
const MOST: usize = 256;

/// Rows up to which a batch of any fullness is taken: reading the weights takes longer than multiplying with them.
const FEW: usize = 8;

/// Rows that are multiplied at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// Rows without padding.
    pub(super) rows: usize,
    /// The number of the batch's size.
    pub(super) index: usize,
}

impl Batch {
    /// Rows with padding.
    pub(super) fn size(self) -> usize {
        1 << self.index
    }
}

/// Sizes of batches for an expert of at most `rows` rows, the least first.
pub(super) fn sizes(rows: usize) -> impl Iterator<Item = usize> {
    let largest = largest(rows);
    (0..usize::BITS).map(|index| 1 << index).take_while(move |&size| size <= largest)
}

/// The largest batch for `rows` rows; 0 for none.
pub(super) fn largest(rows: usize) -> usize {
    if rows == 0 { 0 } else { rows.min(MOST).next_power_of_two() }
}

/// The first batch for `rows` rows. A long batch that would be padded by more than a quarter is halved.
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
