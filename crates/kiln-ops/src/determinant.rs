//! Det: determinants of stacks of square matrices.

use kiln_kernels::memory;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::wide::{narrow, widened};
use super::{Operator, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "Det", |_| Ok(Box::new(Det)))];

struct Det;

/// The row, from `column` on, whose element of that column is the largest by its magnitude; `None` where all are zero.
pub(super) fn pivot(matrix: &[f64], size: usize, column: usize) -> Option<usize> {
    let largest =
        (column..size).max_by(|&a, &b| matrix[a * size + column].abs().total_cmp(&matrix[b * size + column].abs()));
    largest.filter(|&row| matrix[row * size + column] != 0.0)
}

/// By elimination with the largest pivot of each column.
fn determinant(matrix: &mut [f64], size: usize, cx: &RunCx<'_>) -> Result<f64, NodeError> {
    let mut product = 1.0;
    for column in 0..size {
        cx.check_stop()?;
        let Some(pivot) = pivot(matrix, size, column) else {
            return Ok(0.0);
        };
        if pivot != column {
            (0..size).for_each(|at| matrix.swap(pivot * size + at, column * size + at));
            product = -product;
        }
        product *= matrix[column * size + column];
        let (done, rest) = matrix.split_at_mut((column + 1) * size);
        let pivot_row = &done[column * size..];
        for row in rest.chunks_exact_mut(size) {
            let factor = row[column] / pivot_row[column];
            row.iter_mut().zip(pivot_row).skip(column).for_each(|(to, from)| *to -= factor * from);
        }
    }
    Ok(product)
}

impl Node for Det {
    fn family(&self) -> &'static str {
        "Det"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        match required(inputs, 0)?.dtype() {
            dtype if dtype.is_float() => Ok(()),
            dtype => Err(refused(format!("no square matrices of floats in {dtype}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, to) = (io.input(0)?, io.alloc(0)?);
        let size = input.shape().last().copied().unwrap_or(0);
        let mut values = widened::<f64>(input)?;
        let mut results = memory::filled(1.0, to.len());
        // A matrix without rows has the determinant of an empty product.
        for (result, matrix) in results.iter_mut().zip(values.chunks_exact_mut((size * size).max(1))) {
            *result = determinant(matrix, size, cx)?;
        }
        let output = narrow(&results, to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn determinants_of_each_matrix() {
        let det = |shape: &[usize], values: &[f32]| Trial::new("Det").input(shape, values);
        det(&[2, 2], &[0.0, 1.0, 2.0, 3.0]).gives(&[], &[-2f32]);
        det(&[2, 1, 1], &[5.0, -1.0]).gives(&[2], &[5f32, -1.0]);
        det(&[1, 2, 2], &[1.0, 2.0, 2.0, 4.0]).gives(&[1], &[0f32]);
        det(&[3, 3], &[2.0, 0.0, 1.0, 1.0, 3.0, 2.0, 1.0, 1.0, 1.0]).gives_about(&[], &[0.0]);
        det(&[2, 0, 0], &[]).gives(&[2], &[1f32, 1.0]);
        det(&[2, 3], &[0.0; 6]).is_refused("no square");
    }
}
