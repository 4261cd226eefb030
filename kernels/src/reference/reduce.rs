//! The plain form of reductions: one element at a time, in `f64`, rounded once.

use crate::problem::reduce::{Fold, Map, Pass, PostOp};

/// Columns that are folded together, so that rows are read in order.
const COLUMNS: usize = 64;

/// `output[c] = finish(scale * fold(map(input[r * stride + c])))` over `r` in `0..count`, for every `c` of `output`.
/// A contiguous row is the case of one column and a stride of one.
pub fn reduce(pass: Pass, scale: f32, input: &[f32], stride: usize, count: usize, output: &mut [f32]) {
    for (block, columns) in output.chunks_mut(COLUMNS).enumerate() {
        let input = input.get(block * COLUMNS..).unwrap_or_default();
        let (mut folded, mut largest) = ([0f64; COLUMNS], [0f64; COLUMNS]);
        let folded = &mut folded[..columns.len()];
        let width = columns.len();
        match pass.fold {
            Fold::LogAddExp => {
                largest.fill(f64::NEG_INFINITY);
                (0..count).for_each(|row| {
                    let row = &input[row * stride..][..width];
                    largest.iter_mut().zip(row).for_each(|(to, &x)| *to = to.max(f64::from(x)));
                });
                // Infinite maxima are subtracted as zero: their exponential is right without subtraction.
                largest.iter_mut().filter(|max| max.is_infinite()).for_each(|max| *max = 0.0);
            }
            Fold::Add => {}
            Fold::Mul => folded.fill(1.0),
            Fold::Max => folded.fill(f64::NEG_INFINITY),
            Fold::Min => folded.fill(f64::INFINITY),
        }
        for row in 0..count {
            let row = &input[row * stride..][..width];
            for ((to, &x), max) in folded.iter_mut().zip(row).zip(&largest) {
                let x = mapped(pass.map, f64::from(x));
                match pass.fold {
                    Fold::Add => *to += x,
                    Fold::Mul => *to *= x,
                    // A NaN is taken, and stays because every comparison with it is false.
                    Fold::Max if x > *to || x.is_nan() => *to = x,
                    Fold::Min if x < *to || x.is_nan() => *to = x,
                    Fold::Max | Fold::Min => {}
                    Fold::LogAddExp => *to += (x - max).exp(),
                }
            }
        }
        for ((to, &folded), max) in columns.iter_mut().zip(&*folded).zip(&largest) {
            let folded = if pass.fold == Fold::LogAddExp { folded.ln() + max } else { folded * f64::from(scale) };
            *to = match pass.post_op {
                PostOp::None => folded,
                PostOp::Sqrt => folded.sqrt(),
                PostOp::Log => folded.ln(),
            } as f32;
        }
    }
}

fn mapped(map: Map, x: f64) -> f64 {
    match map {
        Map::Identity => x,
        Map::Abs => x.abs(),
        Map::Square => x * x,
    }
}
