//! Sequences of different lengths that lie one behind the other, told apart by where each begins.

use std::ops::Range;

use kiln_run::NodeError;
use kiln_tensor::Tensor;

use super::{integers, refused};

/// The positions of each sequence, from where they begin and where the last one ends, which is after `total`.
pub(super) fn ranges(ends: &Tensor, total: usize) -> Result<Vec<Range<usize>>, NodeError> {
    let given = integers(ends)?;
    let wrong = || refused(format!("sequences that end at {:?} of {total} positions", &given[..given.len().min(8)]));
    let places: Option<Vec<usize>> = given.iter().map(|&end| usize::try_from(end).ok()).collect();
    let places = places.ok_or_else(wrong)?;
    if places.first() != Some(&0) || places.last() != Some(&total) || !places.is_sorted() {
        return Err(wrong());
    }
    Ok(places.windows(2).map(|pair| pair[0]..pair[1]).collect())
}

/// How many of the first positions of each sequence are an output: as many as `counts` says, and no more than the
/// sequence and `capacity` have.
pub(super) fn captured(
    counts: Option<&Tensor>,
    sequences: &[Range<usize>],
    capacity: usize,
) -> Result<Vec<usize>, NodeError> {
    let counts = counts.map_or_else(|| Ok(vec![0; sequences.len()]), integers)?;
    let bounded =
        |(&count, range): (&i64, &Range<usize>)| usize::try_from(count).unwrap_or(0).min(range.len()).min(capacity);
    Ok(counts.iter().zip(sequences).map(bounded).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_lie_one_behind_the_other() {
        let of = |ends: &[i32]| ranges(&Tensor::from_slice([ends.len()], ends).unwrap(), 5);
        assert_eq!(of(&[0, 2, 2, 5]).unwrap(), [0..2, 2..2, 2..5]);
        for wrong in [&[1, 5][..], &[0, 4], &[0, 3, 2, 5], &[0, -1, 5], &[]] {
            assert!(of(wrong).unwrap_err().to_string().contains("of 5 positions"), "{wrong:?}");
        }
    }

    #[test]
    fn no_more_is_given_out_than_there_is() {
        let counts = Tensor::from_slice([4], &[9i32, -1, 1, 9]).unwrap();
        assert_eq!(captured(Some(&counts), &[0..2, 2..4, 4..6, 6..20], 3).unwrap(), [2, 0, 1, 3]);
        assert_eq!(captured(None, &[0..2, 2..4], 3).unwrap(), [0, 0]);
    }
}
