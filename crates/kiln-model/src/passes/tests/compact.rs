//! Weights that are stored small become compact constants, whatever their size. That results stay the same is tested
//! with the other passes.

use half::f16;
use kiln_tensor::Element;

use super::*;

/// Rows and columns of weights that are too large to be dequantised at once.
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

/// As [`bytes`], with columns before rows.
fn turned(build: &mut GraphBuilder) -> ValueId {
    row(build, &[128, 160], |at| (at * 37 % 255) as u8 as i8)
}

type Make = fn(&mut GraphBuilder) -> ValueId;

/// A product by the weights of `make`, after folding alone.
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
fn small_weights_stay_small_behind_a_transpose() {
    let cases: [(&str, Make); 4] = [
        ("one scale", |b| {
            let (w, scale) = (turned(b), scalar(b, 0.25));
            b.op("DequantizeLinear", &[w, scale], &[])
        }),
        ("a scale and a zero point a row", |b| {
            let (w, scale) = (turned(b), row(b, &[128], |at| 0.1 + at as f32));
            let zero = row(b, &[128], |at| at as u8 as i8);
            b.op("DequantizeLinear", &[w, scale, zero], &[("axis", 0.into())])
        }),
        ("a scale a block of columns", |b| {
            let (w, scale) = (turned(b), row(b, &[128, 5], |at| 0.1 + at as f32));
            b.op("DequantizeLinear", &[w, scale], &[("axis", 1.into()), ("block_size", 32.into())])
        }),
        ("half precision", |b| {
            let w = row(b, &[128, 160], |at| f16::from_f32(at as f32));
            b.op("Cast", &[w], &[("to", 1.into())])
        }),
    ];
    for (case, make) in cases {
        let weights_of = |inner: i64, make: &dyn Fn(&mut GraphBuilder) -> ValueId| {
            let mut build = GraphBuilder::new("g", 21);
            let x = input(&mut build, "x", &[-1, inner]);
            let weights = make(&mut build);
            let y = build.op("MatMul", &[x, weights], &[]);
            let graph = rewritten_by(build, y, &["fold", "dead"]);
            assert_eq!(ops(&graph), ["MatMul"], "{case}");
            graph.constant_input(&graph.nodes[0], 1).expect(case).clone()
        };
        let plain = weights_of(128, &make);
        for perm in [None, Some([1i64, 0]), Some([-1, 0])] {
            let weights = weights_of(160, &|b| {
                let w = make(b);
                let attrs: Vec<(&str, Attr)> = perm.iter().map(|perm| ("perm", Attr::Ints(perm.to_vec()))).collect();
                b.op("Transpose", &[w], &attrs)
            });
            assert_eq!((weights.dtype(), weights.shape()), (DType::F32, &SHAPE[..]), "{case}");
            let (form, _) = weights.compact_form().expect(case);
            assert!(form.stored.byte_len() <= weights.byte_len() / 2, "{case}");
            let (moved, from) = (weights.as_slice::<f32>().unwrap(), plain.as_slice::<f32>().unwrap());
            assert!((0..moved.len()).all(|at| moved[at] == from[at % 128 * 160 + at / 128]), "{case}");
        }
    }
}

#[test]
fn weights_that_are_dequantised_to_half_precision_stay_small_on_the_way_to_float32() {
    for dtype in [DType::F16, DType::BF16] {
        let mut build = GraphBuilder::new("g", 21);
        let x = build.input("x", dtype, [Dim::Any, Dim::Fixed(160)]);
        let scale = match dtype {
            DType::F16 => build.constant(Tensor::scalar(f16::from_f32(0.25))),
            _ => build.constant(Tensor::scalar(half::bf16::from_f32(0.25))),
        };
        let w = bytes(&mut build);
        let w = build.op("DequantizeLinear", &[w, scale], &[]);
        let y = build.op("MatMul", &[x, w], &[]);
        let y = build.op("Relu", &[y], &[]);
        let graph = rewritten_by(build, y, &["fold", "widen", "fold", "dead"]);
        let product = graph.nodes.iter().find(|node| node.is("MatMul")).expect("a product");
        let weights = graph.constant_input(product, 1).expect("weights");
        let (form, _) = weights.compact_form().expect("small weights");
        assert_eq!((weights.dtype(), form.stored.dtype()), (DType::F32, DType::I8));
    }
}

#[test]
fn what_compact_constants_cannot_say_stays() {
    let cases: [(&str, &[&str], Make); 7] = [
        ("elements that do not fit float32", &["Cast"], |b| {
            let w = stored(b, |at| at as i64);
            b.op("Cast", &[w], &[("to", 1.into())])
        }),
        ("a factor for each element, whose axes are moved", &["Transpose"], |b| {
            let (w, scale) = (turned(b), row(b, &[128, 160], |at| at as f32));
            let w = b.op("Cast", &[w], &[("to", 1.into())]);
            let w = b.op("Mul", &[w, scale], &[]);
            b.op("Transpose", &[w], &[])
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
    let zeros = build.constant(Tensor::zeros(kiln_tensor::TensorSpec::new(DType::U8, [1 << 24])).unwrap());
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
