//! ONNX Runtime's QGemm: on executors where the right-hand side is all that is transposed, the sum is not multiplied and
//! parameters differ by columns at most; by loops with a transposed left-hand side, a factor, or a matrix that is added.

use kiln_kernels::memory::Collect;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::product::Roles;
use super::stacks::Product;
use super::{Along, against, centred, eight_bits, product, requantised, requantiser, single, spread};
use crate::wide::widened;
use crate::{LoadCx, OpError, optional, refused, required};

const ROLES: Roles = product::GEMM;

pub(super) fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let attributes = cx.node.attributes();
    let loops =
        Loops { transposed: ["transA", "transB"].map(|name| attributes.flag(name)), alpha: attributes.float("alpha") };
    if loops.transposed[0] || loops.alpha != 1.0 {
        return Ok(Box::new(loops));
    }
    product::gemm(cx, Box::new(loops))
}

struct Loops {
    /// Whether the left-hand and the right-hand side are stored by columns.
    transposed: [bool; 2],
    /// The factor of the sums.
    alpha: f32,
}

/// Refuses tensors that are no matrices.
fn matrix(tensor: &Tensor) -> Result<[usize; 2], NodeError> {
    eight_bits(tensor)?;
    <[usize; 2]>::try_from(tensor.shape())
        .map_err(|_| refused(format!("an operand of shape {:?}, which is no matrix", tensor.shape())))
}

/// A matrix of `rows` rows, stored by columns, as one that is stored by rows.
fn by_rows(values: &[i32], [rows, columns]: [usize; 2]) -> Vec<i32> {
    (0..rows).flat_map(|row| (0..columns).map(move |column| values[column * rows + row])).collected()
}

impl Loops {
    /// One operand less its zero points, by rows, with its shape.
    fn operand(
        &self,
        inputs: &[Option<&Tensor>],
        [at, zero]: [usize; 2],
        along: Along,
    ) -> Result<(Vec<i32>, [usize; 2]), NodeError> {
        let tensor = required(inputs, at)?;
        let stored @ [rows, columns] = matrix(tensor)?;
        if !self.transposed[usize::from(along == Along::Columns)] {
            return Ok((centred(tensor, optional(inputs, zero), along)?, stored));
        }
        // What runs along the matrix's columns runs along the rows of what is stored.
        let across = if along == Along::Columns { Along::Rows } else { Along::Columns };
        let shape = [columns, rows];
        Ok((by_rows(&centred(tensor, optional(inputs, zero), across)?, shape), shape))
    }

    fn compute(&self, inputs: &[Option<&Tensor>], mut to: Tensor) -> Result<Tensor, NodeError> {
        let (left, left_shape) = self.operand(inputs, [ROLES.x, ROLES.x_zero], Along::Rows)?;
        let (right, right_shape) = self.operand(inputs, [ROLES.weights, ROLES.weights_zero], Along::Columns)?;
        let product = Product::of(&left_shape, &right_shape)?;
        let whole = [product.rows, product.columns];
        let mut sums = product.sums(&left, &right);
        if let Some(added) = optional(inputs, ROLES.bias) {
            let added = spread(added.as_slice::<i32>()?, added.shape(), &whole)?;
            sums.iter_mut().zip(added).for_each(|(sum, added)| *sum = sum.wrapping_add(added));
        }
        let left_scale = self.alpha * single::<f32>(required(inputs, ROLES.x_scale)?)?;
        let scales = required(inputs, ROLES.weights_scale)?;
        let columns = spread(&widened::<f32>(scales)?, &against(scales, &whole, Along::Columns), &whole)?;
        let sums = sums.into_iter().zip(columns);
        let Some(scale) = optional(inputs, ROLES.y_scale) else {
            let reals = sums.map(|(sum, column)| sum as f32 * (left_scale * column));
            to.as_mut_slice::<f32>()?.iter_mut().zip(reals).for_each(|(to, real)| *to = real);
            return Ok(to);
        };
        let (scale, zero) = (single::<f32>(scale)?, single::<i64>(required(inputs, ROLES.y_zero)?)?);
        let reals = sums.map(|(sum, column)| sum as f32 * requantiser(left_scale, column, scale));
        requantised(reals, zero, to)
    }
}

impl Node for Loops {
    fn family(&self) -> &'static str {
        "QGemm"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        matrix(required(inputs, ROLES.x)?)?;
        matrix(required(inputs, ROLES.weights)?)?;
        if optional(inputs, ROLES.y_scale).is_some() {
            eight_bits(required(inputs, ROLES.y_zero)?)?;
        }
        Ok(())
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let output = self.compute(&io.inputs(), io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kiln_model::Attr;

    use crate::trial::Trial;

    /// [[2, 1], [1, 0]], scale 0.5, zero point 1.
    fn left(trial: Trial) -> Trial {
        trial.input(&[2, 2], &[2u8, 1, 1, 0]).input(&[1], &[0.5f32]).input(&[1], &[1u8])
    }

    /// [[0, 1, 4], [1, 3, 5]], scales 1, 2 and 4, zero points 0, 1 and 2.
    fn right(trial: Trial) -> Trial {
        let trial = trial.input(&[2, 3], &[0u8, 1, 4, 1, 3, 5]);
        trial.input(&[3], &[1f32, 2.0, 4.0]).input(&[3], &[0u8, 1, 2])
    }

    #[test]
    fn sums_are_scaled_by_columns_and_a_factor() {
        let plain = right(left(Trial::new("QGemm").version(1)));
        plain.gives(&[2, 3], &[0f32, 0.0, 4.0, -0.5, -2.0, -6.0]);
        let half = right(left(Trial::new("QGemm").version(1).attr("alpha", Attr::Float(0.5))));
        half.gives(&[2, 3], &[0f32, 0.0, 2.0, -0.25, -1.0, -3.0]);
    }

    #[test]
    fn either_side_may_be_stored_by_columns() {
        // Both sides are the transposes of those above; zero points and scales of the right one stay with its columns.
        let trial = Trial::new("QGemm").version(1).int("transA", 1).int("transB", 1);
        let trial = trial.input(&[2, 2], &[2u8, 1, 1, 0]).input(&[1], &[0.5f32]).input(&[1], &[1u8]);
        let trial = trial.input(&[3, 2], &[0u8, 1, 1, 3, 4, 5]).input(&[3], &[1f32, 2.0, 4.0]);
        trial.input(&[3], &[0u8, 1, 2]).gives(&[2, 3], &[0f32, 0.0, 4.0, -0.5, -2.0, -6.0]);
    }

    #[test]
    fn a_row_a_matrix_or_a_number_is_added_to_the_sums() {
        // The sums are [[0, 0, 2], [-1, -2, -3]]; scales of the result 0.5 and zero point 10.
        let end = |trial: Trial| trial.input(&[1], &[0.5f32]).input(&[1], &[10u8]);
        let start = || right(left(Trial::new("QGemm").version(1)));
        end(start().absent()).gives(&[2, 3], &[10u8, 10, 18, 9, 6, 0]);
        end(start().input(&[3], &[1i32, 2, 3])).gives(&[2, 3], &[11u8, 14, 30, 10, 10, 10]);
        end(start().input(&[2, 3], &[1i32, 2, 3, 4, 5, 6])).gives(&[2, 3], &[11u8, 14, 30, 13, 16, 22]);
        end(start().input(&[1], &[1i32])).gives(&[2, 3], &[11u8, 12, 22, 10, 8, 2]);
        end(start().input(&[2, 1], &[1i32, 0])).gives(&[2, 3], &[11u8, 12, 22, 9, 6, 0]);
        end(start().input(&[2], &[1i32, 2])).is_refused("broadcast");
    }

    #[test]
    fn what_is_no_product_of_matrices_is_refused() {
        let trial = || Trial::new("QGemm").version(1).attr("alpha", Attr::Float(2.0));
        let one = |trial: Trial| trial.input(&[], &[1f32]).input(&[], &[0u8]);
        one(one(trial().input(&[1, 2, 2], &[0u8; 4])).input(&[2, 2], &[0u8; 4])).is_refused("");
        one(one(trial().input(&[2, 2], &[0u8; 4])).input(&[3, 2], &[0u8; 6])).is_refused("no product");
    }
}
