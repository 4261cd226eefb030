//! Inverse: inverses of stacks of square matrices.

use kiln_kernels::memory;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::determinant::pivot;
use super::wide::{narrow, widened};
use super::{Operator, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("com.microsoft", "Inverse", |_| Ok(Box::new(Inverse)))];

struct Inverse;

/// Memory for one matrix, used for all of a stack.
struct Scratch {
    /// The row of the pivot.
    row: Vec<f64>,
    /// The row that each column's pivot was in.
    pivots: Vec<usize>,
}

/// Inverts a matrix in place, by elimination with the largest pivot of each column, in `f64`; returns whether it has an
/// inverse.
fn invert(matrix: &mut [f64], size: usize, scratch: &mut Scratch, cx: &RunCx<'_>) -> Result<bool, NodeError> {
    let Scratch { row: pivot_row, pivots } = scratch;
    for column in 0..size {
        cx.check_stop()?;
        let Some(pivot) = pivot(matrix, size, column) else {
            return Ok(false);
        };
        pivots[column] = pivot;
        if pivot != column {
            (0..size).for_each(|at| matrix.swap(pivot * size + at, column * size + at));
        }
        let own = &mut matrix[column * size..][..size];
        let factor = 1.0 / std::mem::replace(&mut own[column], 1.0);
        own.iter_mut().for_each(|value| *value *= factor);
        pivot_row.copy_from_slice(own);
        for (_, row) in matrix.chunks_exact_mut(size).enumerate().filter(|(row, _)| *row != column) {
            let factor = std::mem::replace(&mut row[column], 0.0);
            row.iter_mut().zip(pivot_row.iter()).for_each(|(to, from)| *to -= factor * from);
        }
    }
    // Rows that were swapped are columns of the inverse.
    for (column, &pivot) in pivots.iter().enumerate().rev().filter(|(column, pivot)| column != *pivot) {
        matrix.chunks_exact_mut(size).for_each(|row| row.swap(column, pivot));
    }
    Ok(true)
}

impl Node for Inverse {
    fn family(&self) -> &'static str {
        "Inverse"
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
        let mut scratch = Scratch { row: memory::filled(0.0, size), pivots: memory::filled(0, size) };
        // Where a matrix has no rows, the stack has no elements.
        for (number, matrix) in values.chunks_exact_mut((size * size).max(1)).enumerate() {
            if !invert(matrix, size, &mut scratch, cx)? {
                return Err(refused(format!("matrix {number} of shape {:?} has no inverse", input.shape())));
            }
        }
        let output = narrow(&values, to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn each_matrix_of_a_stack_is_inverted() {
        let inverse = |shape: &[usize], values: &[f32]| Trial::new("Inverse").input(shape, values);
        inverse(&[2, 2], &[2.0, 1.0, 1.0, 1.0]).gives_about(&[2, 2], &[1.0, -1.0, -1.0, 2.0]);
        inverse(&[2, 1, 1], &[4.0, -0.5]).gives_about(&[2, 1, 1], &[0.25, -2.0]);
        // Rows that change places, in a circle of three.
        let turned = [0.0, 2.0, 0.0, 0.0, 0.0, 4.0, 8.0, 0.0, 0.0];
        inverse(&[1, 3, 3], &turned).gives_about(&[1, 3, 3], &[0.0, 0.0, 0.125, 0.5, 0.0, 0.0, 0.0, 0.25, 0.0]);
        inverse(&[2, 0, 0], &[]).gives_about(&[2, 0, 0], &[]);
        inverse(&[0, 3, 3], &[]).gives_about(&[0, 3, 3], &[]);
    }

    #[test]
    fn what_has_no_inverse_is_refused_by_its_number() {
        let stack = [1.0f32, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0];
        let inverse = |shape: &[usize], values: &[f32]| Trial::new("Inverse").input(shape, values);
        inverse(&[2, 2, 2], &stack).is_refused("matrix 1 of shape [2, 2, 2] has no inverse");
        inverse(&[2, 3], &[0.0; 6]).is_refused("no square matrices");
        inverse(&[3], &[0.0; 3]).is_refused("no square matrices");
        Trial::new("Inverse").input(&[1, 1], &[1i32]).is_refused("no square matrices of floats");
    }
}
