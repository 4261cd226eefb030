//! Products of `f64` matrices, in loops that the compiler vectorises.
//!
//! The right-hand side is packed in panels of [`WIDTH`] columns. Some rows are multiplied with one panel at a time, in
//! sums that stay in registers. An element is the sum of its terms in their order, each rounded, at every level.

use super::multiversion::multiversion;

/// Columns of a panel.
pub const WIDTH: usize = 16;

/// Rows whose sums are in registers at once.
const ROWS: usize = 4;

/// Columns `first` to `first` + [`WIDTH`] of a right-hand side of `n` columns, whose element of row `at` and column
/// `column` is `element(at, column)`, as a panel of [`WIDTH`] elements a row. Columns that there are not are 0.
pub fn pack_panel(panel: &mut [f64], first: usize, n: usize, element: impl Fn(usize, usize) -> f64) {
    for (at, row) in panel.chunks_exact_mut(WIDTH).enumerate() {
        for (column, to) in row.iter_mut().enumerate() {
            *to = if first + column < n { element(at, first + column) } else { 0.0 };
        }
    }
}

multiversion! {
    /// Multiplies rows of `k` elements with a panel of as many rows, and stores the products in the columns from `first`
    /// on of `c`, whose rows have `n` columns and are as many as those of `left`. Where `k` is 0, `c` stays as it is.
    pub fn multiply_rows(left: &[f64], k: usize, panel: &[f64], c: &mut [f64], n: usize, first: usize) {
        let columns = WIDTH.min(n - first);
        let panel = panel.as_chunks::<WIDTH>().0;
        let groups = left.chunks(ROWS * k.max(1)).zip(c.chunks_mut(ROWS * n.max(1)));
        for (left, c) in groups {
            let mut sums = [[0f64; WIDTH]; ROWS];
            if left.len() == ROWS * k {
                let (front, back) = left.split_at(2 * k);
                let rows = [front.split_at(k), back.split_at(k)];
                let rows = rows[0].0.iter().zip(rows[0].1).zip(rows[1].0.iter().zip(rows[1].1));
                // Arrays of their own and indices: the compiler keeps such sums in registers.
                let [mut first, mut second, mut third, mut fourth] = sums;
                for (right, ((a, b), (d, e))) in panel.iter().zip(rows) {
                    for at in 0..WIDTH {
                        first[at] += a * right[at];
                        second[at] += b * right[at];
                        third[at] += d * right[at];
                        fourth[at] += e * right[at];
                    }
                }
                sums = [first, second, third, fourth];
            } else {
                for (sums, left) in sums.iter_mut().zip(left.chunks_exact(k.max(1))) {
                    let mut own = [0f64; WIDTH];
                    for (right, left) in panel.iter().zip(left) {
                        for at in 0..WIDTH {
                            own[at] += left * right[at];
                        }
                    }
                    *sums = own;
                }
            }
            for (c, sums) in c.chunks_exact_mut(n).zip(&sums) {
                c[first..first + columns].copy_from_slice(&sums[..columns]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;

    #[test]
    fn products_have_the_bits_of_sums_in_order_at_every_level() {
        for (m, n, k) in [(1, 1, 1), (4, 16, 3), (7, 37, 11), (8, 33, 64), (9, 17, 1)] {
            let number = |at: usize| ((at * 7919 + 13) % 1009) as f64 / 504.5 - 1.0;
            let left: Vec<f64> = (0..m * k).map(number).collect();
            let right: Vec<f64> = (0..k * n).map(|at| number(at + 5)).collect();
            let mut expected = vec![0.0; m * n];
            for (at, sum) in expected.iter_mut().enumerate() {
                (0..k).for_each(|step| *sum += left[at / n * k + step] * right[step * n + at % n]);
            }
            for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
                let (mut c, mut panel) = (vec![f64::NAN; m * n], vec![f64::NAN; k * WIDTH]);
                for first in (0..n).step_by(WIDTH) {
                    pack_panel(&mut panel, first, n, |at, column| right[at * n + column]);
                    multiply_rows(isa, &left, k, &panel, &mut c, n, first);
                }
                assert_eq!(c, expected, "{m}x{n}x{k} at {isa}");
            }
        }
    }
}
