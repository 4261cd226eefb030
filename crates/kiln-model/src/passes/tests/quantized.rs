//! Fusion of products between quantised tensors. That results stay the same is tested with the other passes.

use super::*;

fn bytes(build: &mut GraphBuilder, shape: &[usize], seed: usize) -> ValueId {
    let count: usize = shape.iter().product();
    let values: Vec<i8> = (0..count).map(|at| ((at * 37 + seed * 11) % 255) as u8 as i8).collect();
    build.constant(Tensor::from_vec(shape.iter().copied(), values).unwrap())
}

/// Powers of two as scales, whose products and sums are exact in `f32`.
fn scales(build: &mut GraphBuilder, count: usize) -> ValueId {
    let values: Vec<f32> = (0..count).map(|at| 0.5f32.powi(6 + (at % 3) as i32)).collect();
    build.constant(Tensor::from_vec([count], values).unwrap())
}

/// `x` quantised and back.
fn through_bytes(build: &mut GraphBuilder, x: ValueId, scale: f32, zero: u8) -> ValueId {
    let parameters = [scalar(build, scale), build.constant(Tensor::scalar(zero))];
    let quantised = build.op("QuantizeLinear", &[x, parameters[0], parameters[1]], &[]);
    build.op("DequantizeLinear", &[quantised, parameters[0], parameters[1]], &[])
}

fn weights(build: &mut GraphBuilder, shape: &[usize], axis: usize) -> ValueId {
    let (tensor, scale) = (bytes(build, shape, 3), scales(build, shape[axis]));
    let zero = build.constant(Tensor::from_vec([shape[axis]], vec![0i8; shape[axis]]).unwrap());
    build.op("DequantizeLinear", &[tensor, scale, zero], &[("axis", (axis as i64).into())])
}

#[test]
fn a_convolution_between_bytes_works_on_bytes() {
    let (mut build, x) = with_x(&[-2, 4, 6, 7]);
    let x = through_bytes(&mut build, x, 0.0625, 30);
    let w = weights(&mut build, &[5, 4, 3, 3], 0);
    let (numbers, scale) =
        (build.constant(Tensor::from_vec([5], vec![5i32, -60, 7, 0, 900]).unwrap()), scales(&mut build, 5));
    let bias = build.op("DequantizeLinear", &[numbers, scale], &[("axis", 0.into())]);
    let conv = build.op("Conv", &[x, w, bias], &[("pads", [1, 1, 1, 1].into()), ("strides", [2, 1].into())]);
    let relu = build.op("Relu", &[conv], &[]);
    let y = through_bytes(&mut build, relu, 0.125, 3);
    let graph = rewritten_by(build, y, &["quantized", "dead"]);
    assert_eq!(ops(&graph), ["QuantizeLinear", "QuantizedConv+bias+residual", "DequantizeLinear"]);
}

#[test]
fn products_between_bytes_and_without_rounding_after_them() {
    for (op, shape, axis) in [("MatMul", [6, 9], 1), ("Gemm", [9, 6], 0)] {
        let (mut build, x) = with_x(&[3, 6]);
        let x = through_bytes(&mut build, x, 0.0625, 128);
        let w = weights(&mut build, &shape, axis);
        let attrs: &[(&str, Attr)] = if op == "Gemm" { &[("transB", Attr::Int(1))] } else { &[] };
        let y = build.op(op, &[x, w], attrs);
        let transposed = if op == "Gemm" { "+trans_b" } else { "" };
        let expected = ["QuantizeLinear".to_owned(), format!("QuantizedMatMul+residual{transposed}")];
        assert_eq!(ops(&rewritten_by(build, y, &["quantized", "dead"])), expected);
    }
}

#[test]
fn products_of_two_activations_work_on_bytes_where_the_result_is_quantised() {
    for requantised in [true, false] {
        let (mut build, x) = with_x(&[2, -2, 6, 6]);
        let x = through_bytes(&mut build, x, 0.0625, 128);
        let transposed = build.op("Transpose", &[x], &[("perm", [0, 1, 3, 2].into())]);
        let transposed = through_bytes(&mut build, transposed, 0.0625, 128);
        let mut y = build.op("MatMul", &[x, transposed], &[]);
        if requantised {
            y = through_bytes(&mut build, y, 0.25, 100);
        }
        let found = ops(&rewritten_by(build, y, &["quantized", "dead"]));
        let product = if requantised { "QuantizedMatMul+residual" } else { "MatMul" };
        assert!(found.contains(&product.to_owned()), "{found:?}");
    }
}

#[test]
fn sums_of_dynamic_quantisation_are_scaled_where_they_are_made() {
    let (mut build, x) = with_x(&[-2, 6]);
    let parts = build.op_many("DynamicQuantizeLinear", &[Some(x)], 3, &[]);
    let (w, zero, scale) =
        (bytes(&mut build, &[6, 9], 4), build.constant(Tensor::scalar(0i8)), scalar(&mut build, 0.25));
    let sums = build.op("MatMulInteger", &[parts[0], w, parts[2], zero], &[]);
    let cast = build.op("Cast", &[sums], &[("to", 1.into())]);
    let scale = build.op("Mul", &[parts[1], scale], &[]);
    let scaled = build.op("Mul", &[cast, scale], &[]);
    let bias = floats(&mut build, &[9]);
    let y = build.op("Add", &[bias, scaled], &[]);
    let graph = rewritten_by(build, y, &["quantized", "dead"]);
    assert_eq!(ops(&graph), ["DynamicQuantizeLinear", "Mul", "QuantizedMatMul+bias"]);
}

#[test]
fn sums_of_convolutions_are_scaled_where_they_are_made_with_a_bias_that_counts_in_scales() {
    // As onnxruntime's tool writes it; `wide` is a bias that is not one row of filters.
    for (biased, wide) in [(false, false), (true, false), (true, true)] {
        let (mut build, x) = with_x(&[-2, 4, 5, 5]);
        let parts = build.op_many("DynamicQuantizeLinear", &[Some(x)], 3, &[]);
        let (w, zero, scale) =
            (bytes(&mut build, &[6, 4, 3, 3], 4), build.constant(Tensor::scalar(0i8)), scalar(&mut build, 0.25));
        let scale = build.op("Mul", &[parts[1], scale], &[]);
        let sums = build.op("ConvInteger", &[parts[0], w, parts[2], zero], &[("pads", [1, 1, 1, 1].into())]);
        let sums = if biased {
            let bias = floats(&mut build, &[6]);
            let counted = build.op("Div", &[bias, scale], &[]);
            let counted = build.op("Cast", &[counted], &[("to", 6.into())]);
            let shape = if wide { [1i64, 6, 1] } else { [6, 1, 1] };
            let shape = build.constant(Tensor::from_slice([3], &shape).unwrap());
            let counted = build.op("Reshape", &[counted, shape], &[]);
            build.op("Add", &[sums, counted], &[])
        } else {
            sums
        };
        let cast = build.op("Cast", &[sums], &[("to", 1.into())]);
        let y = build.op("Mul", &[cast, scale], &[]);
        let found = ops(&rewritten_by(build, y, &["quantized", "dead"]));
        let fused = found.iter().any(|op| op.starts_with("QuantizedConv"));
        assert_eq!(fused, !wide, "{found:?}");
        assert_eq!(found.iter().any(|op| op == "ConvInteger" || op == "Reshape"), wide, "{found:?}");
    }
}

#[test]
fn what_is_not_one_scale_a_tensor_or_filter_stays() {
    let stays = |change: &dyn Fn(&mut GraphBuilder, ValueId) -> ValueId| {
        let (mut build, x) = with_x(&[3, 6]);
        let y = change(&mut build, x);
        let graph = rewritten_by(build, y, &["quantized", "dead"]);
        assert!(graph.nodes.iter().all(|node| node.domain.is_empty()), "{:?}", ops(&graph));
    };
    // Scales along the reduction.
    stays(&|build, x| {
        let x = through_bytes(build, x, 0.5, 0);
        let w = weights(build, &[6, 6], 0);
        build.op("MatMul", &[x, w], &[])
    });
    // A left-hand side that is not quantised.
    stays(&|build, x| {
        let w = weights(build, &[6, 9], 1);
        build.op("MatMul", &[x, w], &[])
    });
    // Multiplications beside the scales.
    stays(&|build, x| {
        let x = through_bytes(build, x, 0.5, 0);
        let w = weights(build, &[6, 9], 1);
        build.op("Gemm", &[x, w], &[("alpha", Attr::Float(2.0))])
    });
}

#[test]
fn what_lies_between_bytes_works_on_bytes() {
    let (mut build, x) = with_x(&[-2, 4, 6, 6]);
    let x = through_bytes(&mut build, x, 0.0625, 30);
    let pooled = build.op("MaxPool", &[x], &[("kernel_shape", [2, 2].into())]);
    let pooled = through_bytes(&mut build, pooled, 0.0625, 30);
    let sum = build.op("Add", &[pooled, pooled], &[]);
    let sum = through_bytes(&mut build, sum, 0.125, 3);
    let mean = build.op("GlobalAveragePool", &[sum], &[]);
    let mean = through_bytes(&mut build, mean, 0.125, 3);
    let flat = build.op("Flatten", &[mean], &[]);
    let y = through_bytes(&mut build, flat, 0.125, 3);
    let graph = rewritten_by(build, y, &["quantized", "dead"]);
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.op.as_str()).collect();
    let between = ["MaxPool", "QuantizedAdd", "QuantizedGlobalAveragePool", "Flatten"];
    assert_eq!(names, [&["QuantizeLinear"][..], &between, &["DequantizeLinear"]].concat());
}

#[test]
fn elements_are_multiplied_on_bytes() {
    let (mut build, x) = with_x(&[-2, 4, 6, 6]);
    let x = through_bytes(&mut build, x, 0.0625, 30);
    let mean = build.op("GlobalAveragePool", &[x], &[]);
    let gate = through_bytes(&mut build, mean, 0.125, 3);
    let product = build.op("Mul", &[x, gate], &[]);
    let bounded = build.op("Relu", &[product], &[]);
    let y = through_bytes(&mut build, bounded, 0.125, 3);
    let graph = rewritten_by(build, y, &["quantized", "dead"]);
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.op.as_str()).collect();
    assert_eq!(names, ["QuantizeLinear", "QuantizedGlobalAveragePool", "QuantizedMul", "DequantizeLinear"]);
}

#[test]
fn what_is_scaled_otherwise_after_it_moves_is_scaled_before() {
    let (mut build, x) = with_x(&[-2, 4, 6, 6]);
    let x = through_bytes(&mut build, x, 0.0625, 30);
    let pooled = build.op("MaxPool", &[x], &[("kernel_shape", [2, 2].into())]);
    let pooled = through_bytes(&mut build, pooled, 0.125, 30);
    let y = build.op("Concat", &[x, pooled], &[("axis", 2.into())]);
    let y = through_bytes(&mut build, y, 0.125, 30);
    let graph = rewritten_by(build, y, &["quantized", "dead"]);
    let again = ["DequantizeLinear", "QuantizeLinear"];
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.op.as_str()).collect();
    let expected = [&["QuantizeLinear"][..], &again, &["MaxPool"], &["QuantizeLinear", "Concat", "DequantizeLinear"]];
    assert_eq!(names, expected.concat());
}

#[test]
fn bytes_are_added_where_the_product_before_them_is_rounded() {
    for first in [false, true] {
        let (mut build, x) = with_x(&[-2, 6, 6, 6]);
        let x = through_bytes(&mut build, x, 0.0625, 30);
        let w = weights(&mut build, &[6, 6, 1, 1], 0);
        let conv = build.op("Conv", &[x, w], &[]);
        let conv = through_bytes(&mut build, conv, 0.125, 3);
        let operands = if first { [conv, x] } else { [x, conv] };
        let sum = build.op("Add", &operands, &[]);
        let y = through_bytes(&mut build, sum, 0.125, 3);
        let graph = rewritten_by(build, y, &["quantized", "quantized_sums", "dead"]);
        let names: Vec<&str> = graph.nodes.iter().map(|node| node.op.as_str()).collect();
        assert_eq!(names, ["QuantizeLinear", "QuantizedConv", "DequantizeLinear"]);
        let product = &graph.nodes[1];
        assert_eq!((product.inputs.len(), product.is_marked("sum_second")), (14, !first));
    }
}
