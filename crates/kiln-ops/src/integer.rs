//! Products of integers: MatMulInteger, QLinearMatMul, ConvInteger, QLinearConv, and the nodes that the pass
//! `quantized` makes; sums, products of elements and means between them ([`between`], [`average`]), which ONNX
//! Runtime's quantiser writes and ONNX has no operators for. Functions of single bytes are looked up ([`table`]).
//!
//! Zero points are subtracted first; sums are kept in 32 bits, and wrap as those of hardware do. `product` is the node
//! of all these operators, on executors; the loops here and in `conv` do the rest: left-hand scales or zero points that
//! differ from row to row. `stacks` says which matrices of two stacks are multiplied.

mod average;
mod between;
mod conv;
mod gemm;
mod product;
mod stacks;
mod table;

use kiln_kernels::memory::{self, Collect};
use kiln_model::NodeDesc;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Shape, Tensor, TensorError, TensorSpec};
use smallvec::SmallVec;
use stacks::Product;

use super::wide::{limits, narrow, widened};
use super::{Operator, View, optional, refused, required};

/// The operators of this file and of `conv`.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "MatMulInteger", |cx| product::integer(cx, Box::new(MatMul { requantised: false }))),
    ("", "QLinearMatMul", |cx| product::linear(cx, Box::new(MatMul { requantised: true }))),
    ("", "ConvInteger", |cx| product::integer(cx, conv::make(cx, false)?)),
    ("", "QLinearConv", |cx| product::linear(cx, conv::make(cx, true)?)),
    ("kiln", "QuantizedConv", product::fused),
    ("kiln", "QuantizedMatMul", product::fused),
    ("kiln", "ByteTable", table::make),
    ("kiln", "QuantizedAdd", between::sum),
    ("kiln", "QuantizedMul", between::product),
    ("kiln", "QuantizedGlobalAveragePool", average::global),
    ("kiln", "QuantizedAveragePool", average::pool),
    ("com.microsoft", "QLinearAdd", between::sum),
    ("com.microsoft", "QLinearGlobalAveragePool", average::global),
    ("com.microsoft", "QGemm", gemm::make),
];

/// The bounds of a result as a real number, which fused operators have and others do not.
fn bounds(node: &NodeDesc) -> (f32, f32) {
    let attributes = node.attributes();
    match node.domain.as_str() {
        "kiln" => (attributes.float("low"), attributes.float("high")),
        _ => (f32::NEG_INFINITY, f32::INFINITY),
    }
}

struct MatMul {
    /// Whether the result is requantised to eight bits; else it is the sums.
    requantised: bool,
}

/// Which of the last two axes a list of scales or zero points runs along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Along {
    Rows,
    Columns,
}

/// The shape in which a scale or zero point broadcasts against matrices of `shape`.
fn against(parameter: &Tensor, shape: &[usize], along: Along) -> Shape {
    match (parameter.shape(), along) {
        (&[_], _) if parameter.len() == 1 => Shape::new(),
        (&[size], Along::Rows) if shape.len() > 1 => SmallVec::from_slice(&[size, 1]),
        (own, _) => Shape::from_slice(own),
    }
}

fn spread<T: Clone + Default>(values: &[T], own: &[usize], shape: &[usize]) -> Result<Vec<T>, NodeError> {
    let mut all = memory::filled(T::default(), shape.iter().product());
    View::broadcast(own, shape)?.copy(values, &mut all);
    Ok(all)
}

/// Elements less their zero points.
fn centred(tensor: &Tensor, zero: Option<&Tensor>, along: Along) -> Result<Vec<i32>, NodeError> {
    let mut values: Vec<i32> = widened::<i64>(tensor)?.into_iter().map(|value| value as i32).collected();
    if let Some(zero) = zero {
        let own = against(zero, tensor.shape(), along);
        let zeros = spread(&widened::<i64>(zero)?, &own, tensor.shape())?;
        values.iter_mut().zip(zeros).for_each(|(value, zero)| *value = value.wrapping_sub(zero as i32));
    }
    Ok(values)
}

/// Refuses elements that are not eight bits wide.
fn eight_bits(tensor: &Tensor) -> Result<(), NodeError> {
    match tensor.dtype() {
        DType::I8 | DType::U8 => Ok(()),
        found => Err(TensorError::Type { expected: DType::U8, found }.into()),
    }
}

/// The factor of a sum of bytes before it is rounded. As in ONNX's reference and other runtimes, it is rounded after
/// the product and again after the quotient: near the middle between two bytes the last bit of the factor decides, and
/// a more exact factor would give another answer.
fn requantiser(left: f32, right: f32, to: f32) -> f32 {
    left * right / to
}

/// Real values as quantised ones: rounded to even, shifted, clamped to the type.
fn requantised(real: impl Iterator<Item = f32>, zero: i64, to: Tensor) -> Result<Tensor, NodeError> {
    let (least, greatest) = limits(to.dtype()).unwrap_or((0, 255));
    let values: Vec<i64> = real
        .map(|value| (value.round_ties_even() as i64).saturating_add(zero).clamp(least, greatest as i64))
        .collected();
    narrow(&values, to)
}

fn single<W: super::wide::Wide>(tensor: &Tensor) -> Result<W, NodeError> {
    match widened::<W>(tensor)?.as_slice() {
        &[value] => Ok(value),
        values => Err(refused(format!("{} scales or zero points where one is needed", values.len()))),
    }
}

impl MatMul {
    /// Numbers of the inputs: left and right, their zero points.
    fn places(&self) -> [usize; 4] {
        if self.requantised { [0, 3, 2, 5] } else { [0, 1, 2, 3] }
    }
}

impl Node for MatMul {
    fn family(&self) -> &'static str {
        if self.requantised { "QLinearMatMul" } else { "MatMulInteger" }
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let [a, b, ..] = self.places();
        eight_bits(required(inputs, a)?)?;
        eight_bits(required(inputs, b)?)?;
        if self.requantised { eight_bits(required(inputs, 7)?) } else { Ok(()) }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let [a, b, a_zero, b_zero] = self.places();
        let (left, right, to) = (io.input(a)?, io.input(b)?, io.alloc(0)?);
        let product = Product::of(left.shape(), right.shape())?;
        let zero = |index| optional(&io.inputs(), index).cloned();
        let sums = product.sums(
            &centred(left, zero(a_zero).as_ref(), Along::Rows)?,
            &centred(right, zero(b_zero).as_ref(), Along::Columns)?,
        );
        let output = if self.requantised {
            let mut whole = product.stack.clone();
            whole.extend([product.rows, product.columns]);
            let scales = |index, along| {
                let scale = io.input(index)?;
                spread(&widened::<f32>(scale)?, &against(scale, &whole, along), &whole)
            };
            let (rows, columns) = (scales(1, Along::Rows)?, scales(4, Along::Columns)?);
            let (scale, zero) = (single::<f32>(io.input(6)?)?, single::<i64>(io.input(7)?)?);
            let factors = rows.into_iter().zip(columns).map(|(row, column)| requantiser(row, column, scale));
            requantised(sums.into_iter().zip(factors).map(|(sum, factor)| sum as f32 * factor), zero, to)?
        } else {
            let sums: Vec<i64> = sums.into_iter().map(i64::from).collected();
            narrow(&sums, to)?
        };
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn products_of_integers_broadcast_their_stacks() {
        let matrices = |left: &[usize], right: &[usize]| {
            let ones = |shape: &[usize]| vec![1u8; shape.iter().product()];
            Trial::new("MatMulInteger").input(left, &ones(left)).input(right, &ones(right))
        };
        matrices(&[2, 3], &[3, 1]).gives(&[2, 1], &[3i32, 3]);
        matrices(&[2, 1, 1, 3], &[2, 3, 1]).gives(&[2, 2, 1, 1], &[3i32; 4]);
        matrices(&[3], &[3]).gives(&[], &[3i32]);
        matrices(&[3], &[2, 3, 1]).gives(&[2, 1], &[3i32, 3]);
        matrices(&[2, 0], &[0, 1]).gives(&[2, 1], &[0i32, 0]);
        matrices(&[2, 3], &[2, 3]).is_refused("no product");
        matrices(&[], &[3]).is_refused("no product");
    }

    #[test]
    fn zero_points_are_subtracted_whole_by_row_or_by_column() {
        let row = || Trial::new("MatMulInteger").input(&[2, 2], &[1u8, 2, 3, 4]).input(&[2, 2], &[1i8, -1, 0, 2]);
        row().gives(&[2, 2], &[1i32, 3, 3, 5]);
        row().input(&[], &[1u8]).gives(&[2, 2], &[0i32, 2, 2, 4]);
        row().input(&[2], &[1u8, 3]).gives(&[2, 2], &[0i32, 2, 0, 2]);
        row().absent().input(&[2], &[1i8, 0]).gives(&[2, 2], &[-2i32, 3, -4, 5]);
        row().input(&[3], &[1u8; 3]).is_refused("broadcast");
    }

    #[test]
    fn next_to_the_middle_between_two_bytes_the_factor_is_rounded_as_the_reference_rounds_it() {
        // Scales of data, weights and result, a byte and a weight, and the results of onnxruntime and ONNX's reference.
        // Factors that are rounded once, from double precision, lead to the byte below.
        let table = [
            (0.052f32, 0.021f32, 0.045f32, 75u8, 125i8, 228u8),
            (0.009, 0.025, 0.04, 20, 120, 14),
            (0.004, 0.01, 0.054, 9, 75, 1),
        ];
        for (x_scale, w_scale, y_scale, x, w, y) in table {
            let product = |op: &str, left: &[usize], right: &[usize]| {
                let left = Trial::new(op).input(left, &[x]).input(&[], &[x_scale]).input(&[], &[0u8]);
                left.input(right, &[w])
                    .input(&[], &[w_scale])
                    .input(&[], &[0i8])
                    .input(&[], &[y_scale])
                    .input(&[], &[0u8])
            };
            product("QLinearMatMul", &[1, 1], &[1, 1]).gives(&[1, 1], &[y]);
            product("QLinearMatMul", &[1, 1, 1], &[1, 1, 1]).gives(&[1, 1, 1], &[y]);
            product("QLinearConv", &[1, 1, 1, 1], &[1, 1, 1, 1]).gives(&[1, 1, 1, 1], &[y]);
            let rows =
                Trial::new("QLinearMatMul").input(&[2, 1], &[x, x]).input(&[2], &[x_scale; 2]).input(&[2], &[0u8; 2]);
            let rows = rows.input(&[1, 1], &[w]).input(&[], &[w_scale]).input(&[], &[0i8]).input(&[], &[y_scale]);
            rows.input(&[], &[0u8]).gives(&[2, 1], &[y; 2]);
        }
    }

    #[test]
    fn scales_lead_back_to_eight_bits() {
        let row = |zero: u8| {
            let left = Trial::new("QLinearMatMul").input(&[1, 2], &[10u8, 20]).input(&[], &[0.5f32]).input(&[], &[0u8]);
            let right = left.input(&[2, 2], &[2u8, 4, 6, 8]).input(&[2], &[1f32, 2.0]).input(&[], &[2u8]);
            right.input(&[], &[4f32]).input(&[], &[zero])
        };
        row(0).gives(&[1, 2], &[10u8, 35]);
        row(250).gives(&[1, 2], &[255u8, 255]);
        Trial::new("QLinearMatMul").input(&[1, 1], &[1f32]).is_refused("missing");
    }
}
