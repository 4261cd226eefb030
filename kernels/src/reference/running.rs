//! The plain form of running sums and products: one line, kept in `f64` and rounded at each element.

/// Writes the running sums or products of the elements of a line, which are `stride` apart.
pub fn run(product: bool, exclusive: bool, reverse: bool, line: &[f32], stride: usize, to: &mut [f32]) {
    let mut value = if product { 1.0f64 } else { 0.0 };
    let count = line.len().div_ceil(stride.max(1));
    for step in 0..count {
        let at = if reverse { count - 1 - step } else { step } * stride;
        let before = value;
        value = if product { value * f64::from(line[at]) } else { value + f64::from(line[at]) };
        to[at] = if exclusive { before } else { value } as f32;
    }
}
