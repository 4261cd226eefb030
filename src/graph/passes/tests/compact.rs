//! Weights that are stored small become compact constants, whatever their size. That results stay the same is tested
//! with the other passes.

use half::f16;

use super::*;
use crate::tensor::Element;

/// Rows and columns of weights whose numbers are beyond what is computed at once.
const SHAPE: [usize; 2] = [160, 128];

fn stored<T: Element>(build: &mut GraphBuilder, number: impl Fn(usize) -> T) -> ValueId {
    let count = SHAPE.iter().product();
    build.constant(Tensor::from_vec(SHAPE, (0..count).map(number).collect()).unwrap())
}

fn bytes(build: &mut GraphBuilder) -> ValueId {
    stored(build, |at| (at * 37 % 255) as u8 as i8)
}

fn row<T: Element>(build: &mut GraphBuilder, shape: &[usize], number: impl Fn(usize) -> T) -> ValueId {
    let count = shape.iter().product();
    build.constant(Tensor::from_vec(shape.iter().copied(), (0..count).map(number).collect()).unwrap())
}

type Make = fn(&mut GraphBuilder) -> ValueId;

/// A product by what is made, after folding alone.
fn product(make: Make) -> Graph {
    let mut build = GraphBuilder::new("g", 21);
    let x = input(&mut build, "x", &[-1, 160]);
    let weights = make(&mut build);
    let y = build.op("MatMul", &[x, weights], &[]);
    rewritten_by(build, y, &["fold", "dead"])
}

#[test]
fn weights_stored_small_are_constants_and_stay_small() {
    let cases: [(&str, Make); 7] = [
        ("one scale", |b| {
            let (w, scale) = (bytes(b), scalar(b, 0.25));
            b.op("DequantizeLinear", &[w, scale], &[])
        }),
        ("a scale and a zero point a column", |b| {
            let (w, scale) = (bytes(b), row(b, &[128], |at| 0.1 + at as f32));
            let zero = row(b, &[128], |at| at as u8 as i8);
            b.op("DequantizeLinear", &[w, scale, zero], &[("axis", (-1).into())])
        }),
        ("a scale a block of rows", |b| {
            let (w, scale) = (bytes(b), row(b, &[5, 128], |at| 0.1 + at as f32));
            b.op("DequantizeLinear", &[w, scale], &[("axis", 0.into()), ("block_size", 32.into())])
        }),
        ("half precision", |b| {
            let w = stored(b, |at| f16::from_f32(at as f32 * 0.01));
            b.op("Cast", &[w], &[("to", 1.into())])
        }),
        ("a cast and a factor", |b| {
            let (w, scale) = (bytes(b), scalar(b, 0.5));
            let w = b.op("Cast", &[w], &[("to", 1.into())]);
            b.op("Mul", &[scale, w], &[])
        }),
        ("a cast, a difference and a factor a row", |b| {
            let (w, zero, scale) = (bytes(b), scalar(b, 3.0), row(b, &[160, 1], |at| 0.1 + at as f32));
            let w = b.op("Cast", &[w], &[("to", 1.into())]);
            let w = b.op("Sub", &[w, zero], &[]);
            b.op("Mul", &[w, scale], &[])
        }),
        ("a difference alone", |b| {
            let (w, zero) = (bytes(b), row(b, &[128], |at| at as f32));
            let w = b.op("Cast", &[w], &[("to", 1.into())]);
            b.op("Sub", &[w, zero], &[])
        }),
    ];
    for (case, make) in cases {
        let graph = product(make);
        assert_eq!(ops(&graph), ["MatMul"], "{case}");
        let weights = graph.constant_input(&graph.nodes[0], 1).expect(case);
        assert_eq!((weights.dtype(), weights.shape()), (DType::F32, &SHAPE[..]), "{case}");
        let (form, first) = weights.compact_form().expect(case);
        assert!(first == 0 && form.stored.byte_len() <= weights.byte_len() / 2, "{case}");
    }
}

#[test]
fn what_compact_constants_cannot_say_stays() {
    let cases: [(&str, &[&str], Make); 7] = [
        ("elements that do not fit float32", &["Cast"], |b| {
            let w = stored(b, |at| at as i64);
            b.op("Cast", &[w], &[("to", 1.into())])
        }),
        ("numbers in half precision", &["DequantizeLinear"], |b| {
            let (w, scale) = (bytes(b), b.constant(Tensor::scalar(f16::ONE)));
            b.op("DequantizeLinear", &[w, scale], &[])
        }),
        ("a scale that does not fit", &["DequantizeLinear"], |b| {
            let (w, scale) = (bytes(b), row(b, &[127], |_| 1f32));
            b.op("DequantizeLinear", &[w, scale], &[])
        }),
        ("an axis that does not exist", &["DequantizeLinear"], |b| {
            let (w, scale) = (bytes(b), row(b, &[128], |_| 1f32));
            b.op("DequantizeLinear", &[w, scale], &[("axis", 2.into())])
        }),
        ("a factor that stretches it", &["Mul"], |b| {
            let (w, scale) = (bytes(b), row(b, &[2, 1, 1], |_| 1f32));
            let w = b.op("Cast", &[w], &[("to", 1.into())]);
            b.op("Mul", &[w, scale], &[])
        }),
        ("the other way round", &["Sub"], |b| {
            let (w, scale) = (bytes(b), scalar(b, 1.0));
            let w = b.op("Cast", &[w], &[("to", 1.into())]);
            b.op("Sub", &[scale, w], &[])
        }),
        ("a difference after the factor", &["Sub"], |b| {
            let (w, one) = (bytes(b), scalar(b, 2.0));
            let w = b.op("Cast", &[w], &[("to", 1.into())]);
            let w = b.op("Mul", &[w, one], &[]);
            b.op("Sub", &[w, one], &[])
        }),
    ];
    for (case, left, make) in cases {
        assert_eq!(ops(&product(make)), [left, &["MatMul"]].concat(), "{case}");
    }
}

#[test]
fn one_tensor_does_not_become_numbers_without_end() {
    let mut build = GraphBuilder::new("g", 21);
    let zeros = build.constant(Tensor::zeros(crate::tensor::TensorSpec::new(DType::U8, [1 << 24])).unwrap());
    for index in 0..20 {
        let scale = scalar(&mut build, index as f32);
        let y = build.op("DequantizeLinear", &[zeros, scale], &[]);
        build.output(&format!("y{index}"), y);
    }
    let y = build.op("Relu", &[zeros], &[]);
    // 64 MiB each: 256 MiB and sixteen times the 16 MiB of constants.
    let graph = rewritten_by(build, y, &["fold"]);
    assert_eq!(graph.nodes.iter().filter(|node| node.is("DequantizeLinear")).count(), 20 - 8);
}

#[test]
fn small_results_are_left_to_folding() {
    let (mut build, x) = with_x(&[-1, 4]);
    let (w, scale) = (row(&mut build, &[4, 4], |at| at as u8), scalar(&mut build, 0.25));
    let w = build.op("DequantizeLinear", &[w, scale], &[]);
    let y = build.op("MatMul", &[x, w], &[]);
    assert_eq!(ops(&rewritten_by(build, y, &["fold", "dead"])), ["DequantizeLinear", "MatMul"]);
}
