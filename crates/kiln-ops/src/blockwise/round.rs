//! Numbers rounded to integers by blocks, as quantisers for MatMulNBits do without zero points: a block's number
//! farthest from zero becomes the least integer, and so decides the scale, which may be negative.

use kiln_kernels::memory;
use kiln_tensor::Pieces;

/// Sizes of a matrix, and of its blocks.
pub(super) struct Bounds {
    /// Length of the reduction.
    pub(super) k: usize,
    /// Columns.
    pub(super) n: usize,
    /// Weights of a column that share a scale.
    pub(super) block: usize,
    /// The largest magnitude of a code: 8 for 4 bits, 128 for 8.
    pub(super) largest: f32,
}

/// A rounded matrix: a code for each number, in the same order, and a scale for each block in the order of codes.
pub(super) struct Rounded {
    /// Signed bytes.
    pub(super) codes: Vec<u8>,
    pub(super) scales: Vec<f32>,
}

impl Bounds {
    /// Rounds a matrix of `k` rows, or of `n` rows if `transposed`; `None` where numbers are missing. Raises
    /// [`Refused`](memory::Refused) where there is no memory for the codes.
    ///
    /// A block with an infinity or a NaN has a scale that makes NaN of its column.
    pub(super) fn round(&self, numbers: &mut Pieces<'_>, transposed: bool) -> Option<Rounded> {
        if self.k == 0 || self.n == 0 {
            return None;
        }
        let blocks = self.k.div_ceil(self.block);
        let mut codes = memory::zeroed::<u8>(self.k.checked_mul(self.n)?);
        let mut scales = memory::with_capacity(blocks.checked_mul(self.n)?);
        if transposed {
            for (column, codes) in codes.chunks_exact_mut(self.k).enumerate() {
                let column = numbers.get(column * self.k..(column + 1) * self.k)?;
                for (numbers, codes) in column.chunks(self.block).zip(codes.chunks_mut(self.block)) {
                    let scale = self.scale(numbers.iter().copied().fold(0.0, farther));
                    codes.iter_mut().zip(numbers).for_each(|(code, &number)| *code = self.code(number, scale));
                    scales.push(scale);
                }
            }
            return Some(Rounded { codes, scales });
        }
        let mut farthest = memory::zeroed::<f32>(self.n);
        for (block, codes) in codes.chunks_mut(self.block * self.n).enumerate() {
            let first = block * self.block * self.n;
            let rows = numbers.get(first..first + codes.len())?;
            farthest.fill(0.0);
            for row in rows.chunks_exact(self.n) {
                farthest.iter_mut().zip(row).for_each(|(farthest, &number)| *farthest = farther(*farthest, number));
            }
            let start = scales.len();
            scales.extend(farthest.iter().map(|&farthest| self.scale(farthest)));
            for (codes, row) in codes.chunks_exact_mut(self.n).zip(rows.chunks_exact(self.n)) {
                let pairs = codes.iter_mut().zip(row).zip(&scales[start..]);
                pairs.for_each(|((code, &number), &scale)| *code = self.code(number, scale));
            }
        }
        Some(Rounded { codes, scales })
    }

    /// The scale of a block whose farthest number is this one.
    fn scale(&self, farthest: f32) -> f32 {
        farthest / -self.largest
    }

    /// The code of a number; its bits as a byte.
    fn code(&self, number: f32, scale: f32) -> u8 {
        let code = if scale == 0.0 { 0.0 } else { (number / scale).round() };
        code.clamp(-self.largest, self.largest - 1.0) as i8 as u8
    }
}

/// The number that is farther from zero; a NaN is farther than any number.
fn farther(one: f32, other: f32) -> f32 {
    if one.abs() >= other.abs() || one.is_nan() { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: f32 = 8.0;

    fn rounded(numbers: &[f32], [k, n, block]: [usize; 3], largest: f32, transposed: bool) -> (Vec<i8>, Vec<f32>) {
        let bounds = Bounds { k, n, block, largest };
        let Rounded { codes, scales } = bounds.round(&mut Pieces::from(numbers), transposed).unwrap();
        (codes.into_iter().map(|code| code as i8).collect(), scales)
    }

    #[test]
    fn the_farthest_number_of_a_block_becomes_the_least_integer() {
        let (codes, scales) = rounded(&[1.0, -0.5, 0.25, 0.0, -4.0, 4.0, 1.0, 3.4], [8, 1, 4], FOUR, true);
        assert_eq!(scales, [-0.125, 0.5]);
        assert_eq!(codes, [-8, 4, -2, 0, -8, 7, 2, 7], "4 and 3.4 are cut off at 7 steps, 3.4 is 6.8 of them");
        assert_eq!(rounded(&[2.0, -1.0], [2, 1, 32], 128.0, true), (vec![-128, 64], vec![-2.0 / 128.0]));
    }

    #[test]
    fn both_orders_of_a_matrix_give_the_same_codes_with_a_last_block_that_is_shorter() {
        let (k, n, block) = (7, 3, 4);
        let rows: Vec<f32> = (0..k * n).map(|at| ((at * 37 % 19) as f32 - 9.0) * 0.3).collect();
        let columns: Vec<f32> = (0..k * n).map(|at| rows[at % k * n + at / k]).collect();
        let (by_rows, row_scales) = rounded(&rows, [k, n, block], FOUR, false);
        let (by_columns, column_scales) = rounded(&columns, [k, n, block], FOUR, true);
        assert!((0..k * n).all(|at| by_columns[at] == by_rows[at % k * n + at / k]));
        assert!((0..2 * n).all(|at| column_scales[at] == row_scales[at % 2 * n + at / 2]));
        for (at, &code) in by_rows.iter().enumerate() {
            let scale = row_scales[at / n / block * n + at % n];
            let error = f32::from(code) * scale - rows[at];
            // Half a step, or a whole one where the largest integer is too small.
            assert!(error.abs() <= if code == 7 { scale.abs() } else { scale.abs() / 2.0 } + 1e-6);
        }
    }

    #[test]
    fn zeros_stay_zeros_and_what_is_not_finite_is_no_number_afterwards() {
        assert_eq!(rounded(&[0.0, -0.0], [2, 1, 2], FOUR, false), (vec![0, 0], vec![-0.0]));
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for transposed in [false, true] {
                let (codes, scales) = rounded(&[1.0, odd, 2.0], [3, 1, 3], FOUR, transposed);
                assert!(codes.iter().all(|&code| (f32::from(code) * scales[0]).is_nan()), "{odd}");
            }
        }
        let bounds = Bounds { k: 2, n: 2, block: 2, largest: FOUR };
        assert!(bounds.round(&mut Pieces::from(&[0.0; 3][..]), false).is_none(), "too few");
    }
}
