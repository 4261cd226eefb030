//! Products of `f64` matrices, in loops that the compiler vectorises.
//!
//! The right-hand side is packed in panels of [`WIDTH`] columns. Some rows are multiplied with one panel at a time, in
//! sums that stay in registers. An element is the sum of its terms in their order. Where the processor multiplies and
//! adds in one instruction, only the sum is rounded, and a product takes half the time.

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
    /// Multiplies rows of `k` elements with a panel of as many rows, and stores the products in the columns from
    /// `first` on of `c`, whose rows have `n` columns and are as many as those of `left`. Where `k` is 0, `c` stays as
    /// it is.
    pub fn multiply_rows(left: &[f64], k: usize, panel: &[f64], c: &mut [f64], n: usize, first: usize) fused fused {
        let add = |sum: &mut f64, left: f64, right: f64| {
            *sum = if fused { left.mul_add(right, *sum) } else { *sum + left * right };
        };
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
                        add(&mut first[at], *a, right[at]);
                        add(&mut second[at], *b, right[at]);
                        add(&mut third[at], *d, right[at]);
                        add(&mut fourth[at], *e, right[at]);
                    }
                }
                sums = [first, second, third, fourth];
            } else {
                for (sums, left) in sums.iter_mut().zip(left.chunks_exact(k.max(1))) {
                    let mut own = [0f64; WIDTH];
                    for (right, left) in panel.iter().zip(left) {
                        for at in 0..WIDTH {
                            add(&mut own[at], *left, right[at]);
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

multiversion! {
    /// Adds to `c` the rows of `right`, which are as long, each times its factor, as [`multiply_rows`] does.
    pub fn add_rows(factors: &[f64], right: &[f64], c: &mut [f64]) fused fused {
        for (factor, right) in factors.iter().zip(right.chunks_exact(c.len().max(1))) {
            for (sum, right) in c.iter_mut().zip(right) {
                *sum = if fused { factor.mul_add(*right, *sum) } else { *sum + factor * right };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;

    #[test]
    fn products_have_the_bits_of_sums_in_order() {
        for (m, n, k) in [(1, 1, 1), (4, 16, 3), (7, 37, 11), (8, 33, 64), (9, 17, 1)] {
            let number = |at: usize| ((at * 7919 + 13) % 1009) as f64 / 504.5 - 1.0;
            let left: Vec<f64> = (0..m * k).map(number).collect();
            let right: Vec<f64> = (0..k * n).map(|at| number(at + 5)).collect();
            let expected = |fused: bool| -> Vec<f64> {
                let terms = |at: usize| (0..k).map(move |step| (at / n * k + step, step * n + at % n));
                let add = |sum: f64, (a, b): (usize, usize)| match fused {
                    true => left[a].mul_add(right[b], sum),
                    false => sum + left[a] * right[b],
                };
                (0..m * n).map(|at| terms(at).fold(0.0, add)).collect()
            };
            for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
                let expected = expected(isa.min(Isa::detect()) >= Isa::Avx2);
                let (mut c, mut panel) = (vec![f64::NAN; m * n], vec![f64::NAN; k * WIDTH]);
                for first in (0..n).step_by(WIDTH) {
                    pack_panel(&mut panel, first, n, |at, column| right[at * n + column]);
                    multiply_rows(isa, &left, k, &panel, &mut c, n, first);
                }
                assert_eq!(c, expected, "{m}x{n}x{k} at {isa}");
                let mut c = vec![0.0; m * n];
                for (row, c) in c.chunks_exact_mut(n).enumerate() {
                    add_rows(isa, &left[row * k..][..k], &right, c);
                }
                assert_eq!(c, expected, "{m}x{n}x{k} by rows at {isa}");
            }
        }
    }
}
