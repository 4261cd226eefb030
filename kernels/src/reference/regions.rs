//! The plain form of pooled regions: one region of one plane, sample by sample.

use crate::problem::regions::{Region, neighbours};

/// Pools the bins of a region of a plane. The mean is summed in `f64`. The maximum is over weighted elements, not over
/// samples: so ONNX defines it. A sample outside counts as zero.
pub fn pool(plane: &[f32], size: [usize; 2], region: &Region, bins: [usize; 2], max: bool, to: &mut [f32]) {
    let Region { rows, columns, .. } = region;
    let (along_rows, along_columns) = (rows.samples as usize, columns.samples as usize);
    for (bin, to) in to.iter_mut().enumerate() {
        let mut parts = Vec::new();
        for sample in 0..along_rows * along_columns {
            let row = neighbours(rows.place(bin / bins[1], sample / along_columns), size[0]);
            let column = neighbours(columns.place(bin % bins[1], sample % along_columns), size[1]);
            let (Some(row), Some(column)) = (row, column) else {
                parts.push(0.0);
                continue;
            };
            for (y, by_row) in row {
                parts.extend(column.map(|(x, by_column)| f64::from(plane[y * size[1] + x]) * (by_row * by_column)));
            }
        }
        let greatest = parts.iter().copied().reduce(f64::max).unwrap_or(0.0);
        let mean = parts.iter().sum::<f64>() / (along_rows * along_columns).max(1) as f64;
        *to = if max { greatest } else { mean } as f32;
    }
}
