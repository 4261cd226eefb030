//! The plain form of softmax and its logarithm: one column at a time, in `f64`, rounded once.

/// Writes to `output` the softmax, or its logarithm, of `input` in each of `columns` neighbouring columns, along
/// `count` elements that are `stride` apart. A contiguous row is one column with a stride of one.
pub fn softmax(logarithm: bool, input: &[f32], stride: usize, count: usize, columns: usize, output: &mut [f32]) {
    for column in 0..columns {
        let positions = || (0..count).map(|position| column + position * stride);
        let largest = positions().fold(f64::NEG_INFINITY, |max, at| max.max(f64::from(input[at])));
        let sum: f64 = positions().map(|at| (f64::from(input[at]) - largest).exp()).sum();
        for at in positions() {
            let x = f64::from(input[at]) - largest;
            output[at] = if logarithm { x - sum.ln() } else { x.exp() / sum } as f32;
        }
    }
}
