//! Products between quantised tensors give the same bytes whether or not the pass turns them into products of bytes.
//!
//! All scales are powers of two, so both ways are exact and are compared bit by bit.

use kiln::{Session, SessionOptions};
use kiln_model::GraphBuilder;
use kiln_model::ir::{Attr, ValueId};
use kiln_model::passes::PassOptions;
use kiln_tensor::{DType, Tensor};

use super::outputs;

fn scalar(build: &mut GraphBuilder, value: f32) -> ValueId {
    build.constant(Tensor::scalar(value))
}

fn bytes(build: &mut GraphBuilder, shape: &[usize]) -> ValueId {
    let count: usize = shape.iter().product();
    let values: Vec<i8> = (0..count).map(|at| ((at * 37 + 33) % 255) as u8 as i8).collect();
    build.constant(Tensor::from_vec(shape.iter().copied(), values).unwrap())
}

fn scales(build: &mut GraphBuilder, count: usize) -> ValueId {
    let values: Vec<f32> = (0..count).map(|at| 0.5f32.powi(6 + (at % 3) as i32)).collect();
    build.constant(Tensor::from_vec([count], values).unwrap())
}

/// `x` quantised and back.
fn through_bytes(build: &mut GraphBuilder, x: ValueId, scale: f32, zero: u8) -> ValueId {
    let (scale, zero) = (scalar(build, scale), build.constant(Tensor::scalar(zero)));
    let quantised = build.op("QuantizeLinear", &[x, scale, zero], &[]);
    build.op("DequantizeLinear", &[quantised, scale, zero], &[])
}

fn weights(build: &mut GraphBuilder, shape: &[usize], axis: usize) -> ValueId {
    let (tensor, scale) = (bytes(build, shape), scales(build, shape[axis]));
    let zero = build.constant(Tensor::from_vec([shape[axis]], vec![0i8; shape[axis]]).unwrap());
    build.op("DequantizeLinear", &[tensor, scale, zero], &[("axis", Attr::Int(axis as i64))])
}

/// Builds a graph over `x` of that shape and compares all passes, and the one alone, with none.
fn check(shape: &[usize], make: impl Fn(&mut GraphBuilder, ValueId) -> ValueId) {
    let mut build = GraphBuilder::new("quantised", 21);
    let x = build.input("x", DType::F32, shape.iter().map(|&dim| dim.into()));
    let y = make(&mut build, x);
    build.output("y", y);
    let graph = build.finish();
    let count: usize = shape.iter().product();
    let x: Vec<f32> = (0..count).map(|at| ((at * 29) % 61) as f32 / 16.0 - 1.75).collect();
    let request = vec![("x".to_owned(), Tensor::from_vec(shape.iter().copied(), x).unwrap())];
    let run = |passes| outputs(&graph, passes, std::slice::from_ref(&request)).unwrap().remove(0).remove(0);
    let plain = run(PassOptions::none());
    let alone = || PassOptions::none().with("quantized");
    for passes in
        [PassOptions::default(), alone(), alone().with("byte_tables"), PassOptions::none().with("byte_tables")]
    {
        let fused = run(passes);
        assert!(fused.same(&plain), "{fused:?}\n{plain:?}");
    }
}

#[test]
fn convolutions_with_bias_and_bounds() {
    for (filters, group) in [(5, 1), (8, 2), (4, 4)] {
        check(&[2, 4, 6, 7], |build, x| {
            let x = through_bytes(build, x, 0.0625, 30);
            let w = weights(build, &[filters, 4 / group, 3, 3], 0);
            let numbers: Vec<i32> = (0..filters as i32).map(|filter| filter * 300 - 500).collect();
            let bias = [build.constant(Tensor::from_vec([filters], numbers).unwrap()), scales(build, filters)];
            let bias = build.op("DequantizeLinear", &bias, &[("axis", Attr::Int(0))]);
            let attrs = [
                ("pads", Attr::Ints(vec![1, 1, 1, 1])),
                ("strides", Attr::Ints(vec![2, 1])),
                ("group", Attr::Int(group as i64)),
            ];
            let conv = build.op("Conv", &[x, w, bias], &attrs);
            let bounds = [scalar(build, -0.5), scalar(build, 6.0)];
            let clipped = build.op("Clip", &[conv, bounds[0], bounds[1]], &[]);
            let y = through_bytes(build, clipped, 0.125, 3);
            build.op("Relu", &[y], &[])
        });
    }
}

#[test]
fn products_with_and_without_rounding_after_them() {
    for rounded in [false, true] {
        check(&[3, 6], |build, x| {
            let x = through_bytes(build, x, 0.0625, 128);
            let w = weights(build, &[6, 9], 1);
            let y = build.op("MatMul", &[x, w], &[]);
            if rounded { through_bytes(build, y, 0.0625, 100) } else { y }
        });
        check(&[3, 6], |build, x| {
            let x = through_bytes(build, x, 0.0625, 128);
            let (w, bias) = (weights(build, &[9, 6], 0), scales(build, 9));
            let y = build.op("Gemm", &[x, w, bias], &[("transB", Attr::Int(1))]);
            if rounded { through_bytes(build, y, 0.0625, 100) } else { y }
        });
    }
}

#[test]
fn products_of_two_activations() {
    for rounded in [false, true] {
        for shape in [&[2, 3, 5, 7][..], &[5, 7], &[1, 2, 40, 33], &[7]] {
            check(shape, |build, x| {
                let other = build.op("Neg", &[x], &[]);
                let (x, mut other) = (through_bytes(build, x, 0.0625, 30), through_bytes(build, other, 0.125, 100));
                if shape.len() > 1 {
                    let mut perm: Vec<i64> = (0..shape.len() as i64).collect();
                    perm.swap(shape.len() - 2, shape.len() - 1);
                    other = build.op("Transpose", &[other], &[("perm", Attr::Ints(perm))]);
                }
                let y = build.op("MatMul", &[x, other], &[]);
                let bounds = [scalar(build, -5.5), scalar(build, 6.0)];
                let y = build.op("Clip", &[y, bounds[0], bounds[1]], &[]);
                if rounded { through_bytes(build, y, 0.0625, 100) } else { y }
            });
        }
    }
}

#[test]
fn means_over_windows_between_bytes() {
    let windows = |include| {
        [
            ("kernel_shape", Attr::Ints(vec![2, 4])),
            ("strides", Attr::Ints(vec![2, 1])),
            ("pads", Attr::Ints(vec![1, 0, 1, 3])),
            ("count_include_pad", Attr::Int(include)),
            ("ceil_mode", Attr::Int(1)),
        ]
    };
    for (include, bounded) in [(0, false), (1, true)] {
        let net = |build: &mut GraphBuilder, x: ValueId| {
            let x = through_bytes(build, x, 0.0625, 30);
            let mut mean = build.op("AveragePool", &[x], &windows(include));
            if bounded {
                mean = build.op("Relu", &[mean], &[]);
            }
            through_bytes(build, mean, 0.03125, 7)
        };
        // Windows of one, two, four and eight elements: with scales of powers of two, both ways are exact.
        check(&[2, 3, 5, 1], |build, x| {
            let padded = [("pads", Attr::Ints(vec![0, 0, 0, 3])), ("kernel_shape", Attr::Ints(vec![1, 4]))];
            let x = build.op("MaxPool", &[x], &padded);
            net(build, x)
        });
        let overlapping = |step: i64| {
            move |build: &mut GraphBuilder, x: ValueId| {
                let x = through_bytes(build, x, 0.0625, 30);
                let attrs = [("kernel_shape", Attr::Ints(vec![4, 2])), ("strides", Attr::Ints(vec![step, 1]))];
                let mean = build.op("AveragePool", &[x], &attrs);
                through_bytes(build, mean, 0.03125, 7)
            }
        };
        for (step, op) in [(1, "AveragePool"), (2, "QuantizedAveragePool")] {
            check(&[2, 3, 4, 8], overlapping(step));
            let found = operators_over(&[2, 3, 4, 8], overlapping(step));
            assert!(found.iter().any(|found| found == op), "steps of {step}: {found:?}");
        }
    }
}

#[test]
fn means_of_all_positions_by_reductions() {
    for keeps in [0, 1] {
        let net = |build: &mut GraphBuilder, x: ValueId| {
            let x = through_bytes(build, x, 0.0625, 30);
            let axes = build.constant(Tensor::from_vec([2], vec![-1i64, 2]).unwrap());
            let mean = build.op("ReduceMean", &[x, axes], &[("keepdims", Attr::Int(keeps))]);
            let mean = build.op("Relu", &[mean], &[]);
            through_bytes(build, mean, 0.125, 7)
        };
        check(&[2, 3, 4, 8], net);
        let found = operators_over(&[2, 3, 4, 8], net);
        assert!(found.iter().any(|op| op == "QuantizedGlobalAveragePool"), "{found:?}");
    }
}

#[test]
fn sums_and_means_between_bytes() {
    for bounded in [false, true] {
        check(&[2, 3, 4, 4], |build, x| {
            let a = through_bytes(build, x, 0.0625, 30);
            let b = through_bytes(build, x, 0.125, 128);
            let mut sum = build.op("Add", &[a, b], &[]);
            if bounded {
                sum = build.op("Relu", &[sum], &[]);
            }
            let sum = through_bytes(build, sum, 0.25, 3);
            let mean = build.op("GlobalAveragePool", &[sum], &[]);
            let mean = through_bytes(build, mean, 0.125, 7);
            let flat = build.op("Flatten", &[mean], &[]);
            through_bytes(build, flat, 0.125, 7)
        });
    }
}

#[test]
fn products_of_elements_between_bytes() {
    // A gate by channel that a request makes, one by column that is a constant, a number, and the tensor itself.
    type Gate = fn(&mut GraphBuilder, ValueId) -> ValueId;
    let gates: [(&str, Gate); 4] = [
        ("QuantizedMul", |build, x| {
            let mean = build.op("GlobalAveragePool", &[x], &[]);
            through_bytes(build, mean, 0.125, 100)
        }),
        ("QuantizedMul", |build, _| {
            let (bytes, scale) = (bytes(build, &[1, 3, 1, 5]), scalar(build, 0.125));
            build.op("DequantizeLinear", &[bytes, scale], &[])
        }),
        ("ByteTable", |build, _| {
            let (number, scale) = (build.constant(Tensor::scalar(77u8)), scalar(build, 0.125));
            build.op("DequantizeLinear", &[number, scale], &[])
        }),
        ("ByteTable", |_, x| x),
    ];
    for (expected, gate) in gates {
        for op in ["Mul", "Add"] {
            let net = |build: &mut GraphBuilder, x: ValueId| {
                let x = through_bytes(build, x, 0.0625, 30);
                let gate = gate(build, x);
                let y = build.op(op, &[gate, x], &[]);
                let y = build.op("Relu", &[y], &[]);
                through_bytes(build, y, 0.25, 7)
            };
            check(&[2, 3, 4, 5], net);
            let found = operators_over(&[2, 3, 4, 5], net);
            let expected = if op == "Add" { expected.replace("Mul", "Add") } else { expected.to_owned() };
            assert!(found.contains(&expected), "{expected} for {op}: {found:?}");
        }
    }
}

/// The shape of [`every`] byte.
const EVERY: [usize; 2] = [4, 64];

/// Every byte, dequantised.
fn every(build: &mut GraphBuilder, x: ValueId, zero: u8) -> ValueId {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    // A sum with a value of the request, so that nothing about it is known when the model is loaded.
    let none = build.op("ReduceSum", &[x], &[("keepdims", Attr::Int(0))]);
    let zeros = scalar(build, 0.0);
    let none = build.op("Mul", &[none, zeros], &[]);
    let none = build.op("Cast", &[none], &[("to", Attr::Int(2))]);
    let all = build.constant(Tensor::from_vec(EVERY, all).unwrap());
    let bytes = build.op("BitwiseOr", &[all, none], &[]);
    let (scale, zero) = (scalar(build, 0.0625), build.constant(Tensor::scalar(zero)));
    build.op("DequantizeLinear", &[bytes, scale, zero], &[])
}

#[test]
fn functions_of_bytes_have_the_bytes_of_their_nodes() {
    for function in ["Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Relu", "Identity", "Gelu"] {
        check(&[2, 3], |build, x| {
            let x = every(build, x, 32);
            let y = if function == "Identity" { x } else { build.op(function, &[x], &[]) };
            let y = through_bytes(build, y, 0.03, 7);
            build.op("Relu", &[y], &[])
        });
    }
    // SiLU reads the numbers twice; a clip has constants beside them.
    check(&[2, 3], |build, x| {
        let x = every(build, x, 32);
        let gate = build.op("Sigmoid", &[x], &[]);
        let gated = build.op("Mul", &[x, gate], &[]);
        let bounds = [scalar(build, -0.125), scalar(build, 6.0)];
        let clipped = build.op("Clip", &[gated, bounds[0], bounds[1]], &[]);
        through_bytes(build, clipped, 0.03, 7)
    });
}

/// The operators of a graph over `x` once all passes have run.
fn operators(make: impl Fn(&mut GraphBuilder, ValueId) -> ValueId) -> Vec<String> {
    operators_over(&[2, 6], make)
}

fn operators_over(shape: &[usize], make: impl Fn(&mut GraphBuilder, ValueId) -> ValueId) -> Vec<String> {
    let mut build = GraphBuilder::new("quantised", 21);
    let x = build.input("x", DType::F32, shape.iter().map(|&dim| dim.into()));
    let y = make(&mut build, x);
    build.output("y", y);
    let session = Session::from_graph(build.finish(), &SessionOptions::default()).unwrap();
    session.describe().graph.nodes.iter().map(|node| node.op.clone()).collect()
}

#[test]
fn functions_of_bytes_become_tables_and_equal_scales_nothing() {
    let swish = |build: &mut GraphBuilder, x: ValueId| {
        let x = through_bytes(build, x, 0.0625, 32);
        let gate = build.op("Sigmoid", &[x], &[]);
        let gated = build.op("Mul", &[x, gate], &[]);
        let again = through_bytes(build, gated, 0.03, 7);
        through_bytes(build, again, 0.03, 7)
    };
    assert_eq!(operators(swish), ["QuantizeLinear", "ByteTable", "DequantizeLinear"]);
    // With a constant of several elements it is no function of a byte alone.
    let rows = |build: &mut GraphBuilder, x: ValueId| {
        let x = through_bytes(build, x, 0.0625, 32);
        let row = build.constant(Tensor::from_vec([6], vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap());
        let y = build.op("Mul", &[x, row], &[]);
        through_bytes(build, y, 0.03, 7)
    };
    assert!(!operators(rows).contains(&"ByteTable".to_owned()));
}

#[test]
fn joined_and_moved_bytes_of_different_scales() {
    check(&[2, 3, 4, 4], |build, x| {
        let parts = [(0.0625, 30), (0.125, 128), (0.25, 3)].map(|(scale, zero)| through_bytes(build, x, scale, zero));
        let joined = build.op("Concat", &parts, &[("axis", Attr::Int(1))]);
        let joined = through_bytes(build, joined, 0.125, 128);
        let pooled = build.op("MaxPool", &[joined], &[("kernel_shape", Attr::Ints(vec![2, 2]))]);
        let pooled = through_bytes(build, pooled, 0.25, 9);
        let moved = build.op("Transpose", &[pooled], &[("perm", Attr::Ints(vec![0, 2, 3, 1]))]);
        through_bytes(build, moved, 0.5, 100)
    });
}

#[test]
fn a_network_of_bytes() {
    // Also with scales from Constant nodes, and with weights that are quantised in the graph.
    for constants in [false, true] {
        check(&[1, 3, 9, 9], |build, x| {
            let number = |build: &mut GraphBuilder, value: f32| {
                if constants {
                    build.op("Constant", &[], &[("value", Attr::Tensor(Tensor::scalar(value)))])
                } else {
                    scalar(build, value)
                }
            };
            let bytes = |build: &mut GraphBuilder, x: ValueId, scale: f32| {
                let (scale, zero) = (number(build, scale), build.constant(Tensor::scalar(96u8)));
                let quantised = build.op("QuantizeLinear", &[x, scale, zero], &[]);
                build.op("DequantizeLinear", &[quantised, scale, zero], &[])
            };
            let x = bytes(build, x, 0.0625);
            let w = if constants {
                let values: Vec<f32> = (0..16 * 27).map(|at| ((at * 37) % 255) as f32 / 64.0 - 2.0).collect();
                let values = build.constant(Tensor::from_vec([16, 3, 3, 3], values).unwrap());
                let (scale, zero) = (number(build, 1.0 / 64.0), build.constant(Tensor::scalar(0i8)));
                let quantised = build.op("QuantizeLinear", &[values, scale, zero], &[]);
                build.op("DequantizeLinear", &[quantised, scale, zero], &[])
            } else {
                weights(build, &[16, 3, 3, 3], 0)
            };
            let y = build.op("Conv", &[x, w], &[("pads", Attr::Ints(vec![1, 1, 1, 1]))]);
            let y = bytes(build, y, 0.25);
            let attrs = [
                ("kernel_shape", Attr::Ints(vec![3, 3])),
                ("strides", Attr::Ints(vec![2, 2])),
                ("pads", Attr::Ints(vec![1, 1, 1, 1])),
            ];
            let y = build.op("MaxPool", &[y], &attrs);
            let y = bytes(build, y, 0.25);
            let w = weights(build, &[16, 1, 3, 3], 0);
            let attrs = [("pads", Attr::Ints(vec![1, 1, 1, 1])), ("group", Attr::Int(16))];
            let z = build.op("Conv", &[y, w], &attrs);
            let z = bytes(build, z, 0.5);
            let sum = build.op("Add", &[y, z], &[]);
            bytes(build, sum, 0.5)
        });
    }
}

#[test]
fn sums_of_dynamic_quantisation() {
    check(&[2, 3, 6], |build, x| {
        // The range is 255 / 64, so that the scale is a power of two.
        let low = scalar(build, -1.75);
        let high = scalar(build, -1.75 + 255.0 / 64.0);
        let x = build.op("Clip", &[x, low, high], &[]);
        let parts = build.op_many("DynamicQuantizeLinear", &[Some(x)], 3, &[]);
        let zero = build.constant(Tensor::scalar(0i8));
        let (w, scale, bias) = (bytes(build, &[6, 9]), scalar(build, 0.25), scales(build, 9));
        let sums = build.op("MatMulInteger", &[parts[0], w, parts[2], zero], &[]);
        let cast = build.op("Cast", &[sums], &[("to", Attr::Int(1))]);
        let scale = build.op("Mul", &[parts[1], scale], &[]);
        let scaled = build.op("Mul", &[cast, scale], &[]);
        build.op("Add", &[bias, scaled], &[])
    });
}

#[test]
fn sums_of_dynamic_quantisation_of_convolutions() {
    // Dense, grouped, depthwise and one-dimensional convolutions; with a bias that counts in scales, and without.
    let table: [(&[usize], &[usize], i64); 4] = [
        (&[2, 4, 7, 6], &[6, 4, 3, 3], 1),
        (&[1, 4, 7, 6], &[6, 2, 3, 3], 2),
        (&[1, 16, 7, 6], &[16, 1, 3, 3], 16),
        (&[2, 4, 9], &[6, 4, 3], 1),
    ];
    for (shape, sizes, group) in table {
        for biased in [false, true] {
            check(shape, |build, x| {
                let parts = build.op_many("DynamicQuantizeLinear", &[Some(x)], 3, &[]);
                let zero = build.constant(Tensor::scalar(0i8));
                let (w, scale) = (bytes(build, sizes), scalar(build, 0.25));
                let scale = build.op("Mul", &[parts[1], scale], &[]);
                let places = sizes.len() - 2;
                let attrs = [("pads", Attr::Ints(vec![1; 2 * places])), ("group", Attr::Int(group))];
                let mut sums = build.op("ConvInteger", &[parts[0], w, parts[2], zero], &attrs);
                if biased {
                    let bias = scales(build, sizes[0]);
                    let counted = build.op("Div", &[bias, scale], &[]);
                    let counted = build.op("Cast", &[counted], &[("to", Attr::Int(6))]);
                    let mut whole = vec![1; sizes.len()];
                    whole[1] = sizes[0] as i64;
                    let whole = build.constant(Tensor::from_slice([whole.len()], &whole).unwrap());
                    let counted = build.op("Reshape", &[counted, whole], &[]);
                    sums = build.op("Add", &[sums, counted], &[]);
                }
                let cast = build.op("Cast", &[sums], &[("to", Attr::Int(1))]);
                build.op("Mul", &[cast, scale], &[])
            });
        }
    }
}

#[test]
fn sums_of_a_product_and_another_tensor_in_both_orders() {
    for first in [false, true] {
        check(&[2, 6, 5, 7], |build, x| {
            let x = through_bytes(build, x, 0.0625, 30);
            let w = weights(build, &[6, 6, 3, 3], 0);
            let conv = build.op("Conv", &[x, w], &[("pads", Attr::Ints(vec![1, 1, 1, 1]))]);
            let conv = through_bytes(build, conv, 0.125, 100);
            let operands = if first { [conv, x] } else { [x, conv] };
            let sum = build.op("Add", &operands, &[]);
            let sum = build.op("Relu", &[sum], &[]);
            through_bytes(build, sum, 0.25, 3)
        });
    }
}
