//! Tables of quantised products and convolutions. Sums are exact, so results are compared bit by bit.

use kiln_model::ir::Attr;
use kiln_tensor::{DType, Tensor};

use crate::harness::{Fill, Layer, Step, random};
use crate::reference::{Array, Window, conv, matmul, mean, pool, reduce};

fn bytes(shape: &[usize], dtype: DType, seed: u64) -> Tensor {
    random(shape, dtype, Fill::Unit, seed)
}

/// Elements less a zero point.
fn centred(tensor: &Tensor, zero: i64) -> Array {
    let signed = tensor.dtype() == DType::I8;
    let value = |&byte: &u8| if signed { i64::from(byte as i8) } else { i64::from(byte) };
    let data = tensor.bytes().iter().map(|byte| (value(byte) - zero) as f64).collect();
    Array { shape: tensor.shape().to_vec(), data }
}

fn sums(array: &Array) -> Tensor {
    Tensor::from_vec(array.shape.iter().copied(), array.data.iter().map(|&sum| sum as i32).collect()).unwrap()
}

/// Sums scaled by powers of two (which is exact), rounded and shifted.
fn unsigned(array: &Array, factor: f64, zero: f64) -> Tensor {
    let byte = |&sum: &f64| ((sum * factor).round_ties_even() + zero).clamp(0.0, 255.0) as u8;
    Tensor::from_vec(array.shape.iter().copied(), array.data.iter().map(byte).collect()).unwrap()
}

const ROWS: &[Step<'_>] = &[&[&[2, 3, 29]], &[&[1, 1, 29]], &[&[1, 1, 29]], &[&[1, 50, 29]], &[&[2, 3, 29]]];
const IMAGES: &[Step<'_>] = &[&[&[1, 6, 9, 11]], &[&[2, 6, 7, 7]], &[&[2, 6, 7, 7]], &[&[1, 6, 9, 11]]];

#[test]
fn matmul_integer_by_packed_weights() {
    for (n, weights, zero) in [(1, DType::I8, 0), (19, DType::U8, 100), (70, DType::I8, -3)] {
        let own = if weights == DType::I8 { Tensor::scalar(zero as i8) } else { Tensor::scalar(zero as u8) };
        Layer::new("MatMulInteger", 10)
            .dynamic_of(&[-1, -1, 29], DType::U8, Fill::Unit)
            .constant(bytes(&[29, n], weights, 5))
            .constant(Tensor::scalar(131u8))
            .constant(own)
            .check(ROWS, |x| vec![sums(&matmul(&centred(&x[0], 131), &centred(&x[1], zero)))]);
    }
}

#[test]
fn matmul_integer_of_two_dynamic_operands() {
    let steps: &[Step<'_>] = &[&[&[3, 7], &[7, 5]], &[&[1, 7], &[7, 21]], &[&[1, 7], &[7, 21]], &[&[3, 7], &[7, 5]]];
    Layer::new("MatMulInteger", 10)
        .dynamic_of(&[-1, 7], DType::I8, Fill::Unit)
        .dynamic_of(&[7, -1], DType::U8, Fill::Unit)
        .constant(Tensor::scalar(-9i8))
        .constant(Tensor::scalar(17u8))
        .check(steps, |x| vec![sums(&matmul(&centred(&x[0], -9), &centred(&x[1], 17)))]);
}

/// Stacks on both sides, one of them broadcast; one matrix under more axes; and matrices too small for executors.
const STACKS: &[Step<'_>] = &[
    &[&[2, 3, 17, 29], &[2, 3, 29, 21]],
    &[&[2, 1, 17, 29], &[1, 3, 29, 21]],
    &[&[2, 1, 17, 29], &[1, 3, 29, 21]],
    &[&[1, 1, 17, 29], &[5, 1, 29, 70]],
    &[&[4, 2, 40, 29], &[1, 1, 29, 70]],
    &[&[2, 40, 19, 30], &[2, 40, 30, 16]],
    &[&[3, 1, 1, 2], &[3, 1, 2, 1]],
    &[&[2, 0, 17, 29], &[1, 1, 29, 21]],
    &[&[2, 3, 17, 29], &[2, 3, 29, 21]],
];

fn byte(dtype: DType, value: i64) -> Tensor {
    if dtype == DType::I8 { Tensor::scalar(value as i8) } else { Tensor::scalar(value as u8) }
}

#[test]
fn products_of_two_dynamic_stacks() {
    for (left, right, zeros) in [(DType::U8, DType::U8, [131, 90]), (DType::I8, DType::I8, [-9, 0])] {
        let sums_of = |x: &Tensor, w: &Tensor| matmul(&centred(x, zeros[0]), &centred(w, zeros[1]));
        Layer::new("MatMulInteger", 10)
            .dynamic_of(&[-1; 4], left, Fill::Unit)
            .dynamic_of(&[-1; 4], right, Fill::Unit)
            .constant(byte(left, zeros[0]))
            .constant(byte(right, zeros[1]))
            .check(STACKS, |x| vec![sums(&sums_of(&x[0], &x[1]))]);
        Layer::new("QLinearMatMul", 21)
            .dynamic_of(&[-1; 4], left, Fill::Unit)
            .constant(Tensor::scalar(0.5f32))
            .constant(byte(left, zeros[0]))
            .dynamic_of(&[-1; 4], right, Fill::Unit)
            .constant(Tensor::scalar(0.25f32))
            .constant(byte(right, zeros[1]))
            .constant(Tensor::scalar(64f32))
            .constant(Tensor::scalar(99u8))
            .check(STACKS, |x| vec![unsigned(&sums_of(&x[0], &x[3]), 0.125 / 64.0, 99.0)]);
    }
}

#[test]
fn a_stack_of_constant_matrices_with_zero_points_by_column() {
    let zeros: Vec<i8> = (0..21).map(|column| column - 10).collect();
    let by_column = |weights: &Tensor| {
        let mut all = centred(weights, 0);
        all.data.iter_mut().zip(zeros.iter().cycle()).for_each(|(value, &zero)| *value -= f64::from(zero));
        all
    };
    Layer::new("MatMulInteger", 10)
        .dynamic_of(&[-1; 3], DType::U8, Fill::Unit)
        .constant(bytes(&[3, 29, 21], DType::I8, 9))
        .constant(Tensor::scalar(7u8))
        .constant(Tensor::from_vec([21], zeros.clone()).unwrap())
        .check(&[&[&[3, 17, 29]], &[&[1, 40, 29]], &[&[1, 40, 29]], &[&[3, 17, 29]]], |x| {
            vec![sums(&matmul(&centred(&x[0], 7), &by_column(&x[1])))]
        });
}

#[test]
fn qlinear_matmul_by_packed_weights() {
    Layer::new("QLinearMatMul", 21)
        .dynamic_of(&[-1, -1, 29], DType::U8, Fill::Unit)
        .constant(Tensor::scalar(0.5f32))
        .constant(Tensor::scalar(120u8))
        .constant(bytes(&[29, 33], DType::I8, 6))
        .constant(Tensor::scalar(0.25f32))
        .constant(Tensor::scalar(0i8))
        .constant(Tensor::scalar(64f32))
        .constant(Tensor::scalar(99u8))
        .check(ROWS, |x| vec![unsigned(&matmul(&centred(&x[0], 120), &centred(&x[3], 0)), 0.125 / 64.0, 99.0)]);
}

#[test]
fn conv_integer_dense_grouped_and_depthwise() {
    let window = Window::new([3, 3], [2, 1], [1, 1], [1, 1]);
    for (filters, group) in [(20, 1), (10, 2), (6, 6)] {
        Layer::new("ConvInteger", 10)
            .ints("strides", &[2, 1])
            .ints("pads", &[1, 1, 1, 1])
            .int("group", group)
            .dynamic_of(&[-1, 6, -1, -1], DType::U8, Fill::Unit)
            .constant(bytes(&[filters, 6 / group as usize, 3, 3], DType::I8, 7))
            .constant(Tensor::scalar(200u8))
            .check(IMAGES, |x| {
                vec![sums(&conv(&centred(&x[0], 200), &centred(&x[1], 0), None, window, group as usize))]
            });
    }
}

#[test]
fn qlinear_conv_with_bias() {
    let window = Window::new([3, 3], [1, 1], [1, 1], [1, 1]);
    let bias: Vec<i32> = (0..20).map(|filter| filter * 1000 - 9000).collect();
    Layer::new("QLinearConv", 10)
        .ints("pads", &[1, 1, 1, 1])
        .dynamic_of(&[-1, 6, -1, -1], DType::U8, Fill::Unit)
        .constant(Tensor::scalar(0.5f32))
        .constant(Tensor::scalar(7u8))
        .constant(bytes(&[20, 6, 3, 3], DType::I8, 8))
        .constant(Tensor::scalar(0.25f32))
        .constant(Tensor::scalar(0i8))
        .constant(Tensor::scalar(32f32))
        .constant(Tensor::scalar(128u8))
        .constant(Tensor::from_vec([20], bias.clone()).unwrap())
        .check(IMAGES, |x| {
            let bias = Array { shape: vec![20], data: bias.iter().map(|&b| f64::from(b)).collect() };
            let sums = conv(&centred(&x[0], 7), &centred(&x[3], 0), Some(&bias), window, 1);
            vec![unsigned(&sums, 0.125 / 32.0, 128.0)]
        });
}

/// An average pool from signed bytes to unsigned ones with half the scale.
fn averages(op: &str) -> Layer {
    Layer::new(op, 1)
        .domain("kiln")
        .dynamic_of(&[-1, 19, -1, -1], DType::I8, Fill::Unit)
        .constant(Tensor::scalar(0.5f32))
        .constant(Tensor::scalar(-7i8))
        .constant(Tensor::scalar(0.25f32))
        .constant(Tensor::scalar(101u8))
}

const CHANNELS: &[Step<'_>] =
    &[&[&[1, 19, 9, 11]], &[&[2, 19, 7, 7]], &[&[2, 19, 7, 7]], &[&[1, 19, 16, 10]], &[&[1, 19, 9, 11]]];

#[test]
fn average_pools_of_bytes() {
    let window = Window::new([3, 2], [2, 1], [1, 1], [1, 1]);
    for include in [false, true] {
        let layer = averages("QuantizedAveragePool").ints("kernel_shape", &[3, 2]).ints("strides", &[2, 1]);
        layer.ints("pads", &[1, 1, 1, 1]).int("count_include_pad", i64::from(include)).check(CHANNELS, |x| {
            let mean = |values: &[f64]| values.iter().sum::<f64>() / if include { 6.0 } else { values.len() as f64 };
            vec![unsigned(&pool(&centred(&x[0], -7), window, mean), 2.0, 101.0)]
        });
    }
}

#[test]
fn global_average_pools_of_bytes() {
    for (domain, op) in [("kiln", "QuantizedGlobalAveragePool"), ("com.microsoft", "QLinearGlobalAveragePool")] {
        averages(op)
            .domain(domain)
            .check(CHANNELS, |x| vec![unsigned(&reduce(&centred(&x[0], -7), &[2, 3], mean), 2.0, 101.0)]);
    }
}

#[test]
fn tables_of_bytes() {
    let value = |byte: u8| byte.wrapping_mul(183).rotate_left(3) ^ 0x5A;
    let table: Vec<u8> = (0..=u8::MAX).map(value).collect();
    Layer::new("ByteTable", 1)
        .domain("kiln")
        .attr("table", Attr::Tensor(Tensor::from_vec([256], table).unwrap()))
        .dynamic_of(&[-1, 6, -1, -1], DType::U8, Fill::Unit)
        .check(IMAGES, |x| {
            let bytes = x[0].bytes().iter().map(|&byte| value(byte)).collect();
            vec![Tensor::from_vec(x[0].shape().iter().copied(), bytes).unwrap()]
        });
}
