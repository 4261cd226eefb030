//! The plain form of the matrix product: sums in `f64`, so that the difference to a kernel is the kernel's rounding.

/// C = A B for row-major A (`m` by `k`) and B (`k` by `n`), rounded to `f32` once.
#[must_use]
pub fn matmul(m: usize, n: usize, k: usize, a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut sums = vec![0.0f64; n];
    let mut c = Vec::with_capacity(m * n);
    for row in 0..m {
        sums.fill(0.0);
        for (at, &left) in a[row * k..][..k].iter().enumerate() {
            for (sum, &right) in sums.iter_mut().zip(&b[at * n..][..n]) {
                *sum += f64::from(left) * f64::from(right);
            }
        }
        c.extend(sums.iter().map(|&sum| sum as f32));
    }
    c
}
