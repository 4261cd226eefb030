//! The same pairs between bytes, as exporters write quantised models: every operator between a DequantizeLinear and a
//! QuantizeLinear, and operators that take bytes as they are.

use super::*;

/// The step between two bytes. Like all scales here it is a power of two, so that sums are exact in any order.
const STEP: f32 = 0.125;
const ZERO: u8 = 100;

impl Make {
    fn scale(&mut self, step: f32) -> ValueId {
        self.build.constant(Tensor::scalar(step))
    }

    /// Bytes as numbers.
    fn dequantised(&mut self, bytes: ValueId) -> ValueId {
        let (scale, zero) = (self.scale(STEP), self.build.constant(Tensor::scalar(ZERO)));
        self.op("DequantizeLinear", &[bytes, scale, zero], &[])
    }

    /// Numbers as bytes.
    fn quantised(&mut self, numbers: ValueId) -> ValueId {
        let (scale, zero) = (self.scale(STEP), self.build.constant(Tensor::scalar(ZERO)));
        self.op("QuantizeLinear", &[numbers, scale, zero], &[])
    }

    /// Weights of a quantised model: bytes followed by a DequantizeLinear.
    pub(super) fn byte_weights(&mut self, shape: &[usize]) -> ValueId {
        let numbers = numbers(DType::F32, shape, &mut self.seed);
        let bytes: Vec<i8> = numbers.as_slice::<f32>().unwrap().iter().map(|&number| (number * 16.0) as i8).collect();
        let bytes = self.build.constant(Tensor::from_vec(shape.iter().copied(), bytes).unwrap());
        let (scale, zero) = (self.scale(1.0 / 16.0), self.build.constant(Tensor::scalar(0i8)));
        self.op("DequantizeLinear", &[bytes, scale, zero], &[])
    }
}

/// Bytes around the byte that stands for 0.
fn bytes(dtype: DType, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let shape = shape.iter().copied();
    match dtype {
        DType::I8 => Tensor::from_vec(shape, (0..count).map(|at| ((at * 29) % 61) as i8 - 30).collect()),
        _ => Tensor::from_vec(shape, (0..count).map(|at| ((at * 29) % 61) as u8 + 70).collect()),
    }
    .unwrap()
}

/// Compares a graph of many pairs with and without passes; `name` gives the name of a pair.
fn compare(graph: &Graph, requests: &[Tensor], name: &dyn Fn(usize) -> String, most: i64) -> Vec<String> {
    let expected = match outputs(graph, PassOptions::none(), Isa::Portable, requests) {
        Ok(expected) => expected,
        Err(error) => return vec![format!("{}..., no pass: {error}", name(0))],
    };
    let mut wrong = Vec::new();
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa <= Isa::detect()) {
        let found = match outputs(graph, PassOptions::default(), isa, requests) {
            Ok(found) => found,
            Err(error) => {
                wrong.push(format!("{}..., {isa}: {error}", name(0)));
                continue;
            }
        };
        for ((request, expected), found) in requests.iter().zip(&expected).zip(&found) {
            for (pair, (expected, found)) in expected.iter().zip(found).enumerate() {
                let problem = match expected.dtype() {
                    DType::U8 | DType::I8 if expected.spec() == found.spec() => {
                        let differs = |(a, b): (i64, i64)| (a - b).abs() > most;
                        let far = whole(expected).into_iter().zip(whole(found)).find(|&both| differs(both));
                        far.map(|(a, b)| format!("{b}, not {a}"))
                    }
                    _ => difference(expected, found, 1e-3, None),
                };
                let shape = request.shape();
                wrong.extend(problem.map(|problem| format!("{}, {isa}, {shape:?}: {problem}", name(pair))));
            }
        }
    }
    wrong
}

/// Every producer and follower between bytes, with bytes between them (`between`) or not.
fn quantised_pairs(between: bool) {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for producer in PRODUCERS {
        let shapes = SIZES.map(|sizes| shape(producer.source, sizes, producer.least));
        let requests = shapes.map(|shape| bytes(DType::U8, &shape));
        let dims: Vec<Dim> = match producer.source {
            Source::Image => vec!["n".into(), 4.into(), "h".into(), "w".into()],
            Source::Rows => vec!["n".into(), "h".into(), 8.into()],
        };
        let graph = |followers: &[&Follower]| {
            let make = Make { build: GraphBuilder::new("bytes", 22), dtype: DType::F32, seed: 7, quantised: true };
            let mut make = make;
            let produce = |make: &mut Make, x: ValueId| {
                let x = make.dequantised(x);
                let y = (producer.make)(make, x);
                if !between {
                    return y;
                }
                let bytes = make.quantised(y);
                make.dequantised(bytes)
            };
            for pair in 0..followers.len().max(1) {
                let x = make.build.input(&format!("x{pair}"), DType::U8, dims.clone());
                let y = produce(&mut make, x);
                let z = match followers.get(pair) {
                    Some(follower) => {
                        let mut other = |make: &mut Make| produce(make, x);
                        (follower.make)(&mut make, y, &mut other)
                    }
                    None => y,
                };
                let y = if followers.get(pair).is_some_and(|follower| follower.stays) { make.quantised(z) } else { z };
                make.build.output(&format!("y{pair}"), y);
            }
            make.build.finish()
        };
        let alone = match outputs(&graph(&[]), PassOptions::none(), Isa::Portable, &requests) {
            Ok(alone) => alone,
            Err(error) => {
                wrong.push(format!("{} alone: {error}", producer.name));
                continue;
            }
        };
        // Where a function jumps, the last bit of a sum decides. Other tests cover such functions.
        let taken = |follower: &&Follower| follower.takes(&alone[0][0]) && !follower.jumps;
        let followers: Vec<&Follower> = FOLLOWERS.iter().filter(taken).collect();
        count += followers.len();
        let name = |pair: usize| format!("{} + {}", producer.name, followers[pair].name);
        // A number close to the middle between two bytes may be rounded to either.
        wrong.extend(compare(&graph(&followers), &requests, &name, 1));
    }
    assert!(count > 1000, "of {count} pairs it says little that all are right");
    assert!(wrong.is_empty(), "of {count} pairs {} results are not right:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_pair_between_bytes() {
    quantised_pairs(false);
}

#[test]
fn every_pair_with_bytes_between() {
    quantised_pairs(true);
}

type OfBytes = (&'static str, fn(&mut Make, ValueId, DType) -> ValueId);

/// The operators that make bytes from bytes.
const MAKERS: &[OfBytes] = &[
    ("QLinearConv", |m, x, dtype| {
        let shape = [5usize, 4, 3, 3];
        let weights: Vec<i8> = (0..180).map(|at| (at * 37 % 23) as i8 - 11).collect();
        let w = m.build.constant(Tensor::from_vec(shape, weights).unwrap());
        let (one, zero, own) = (m.scale(1.0 / 16.0), zero(m, dtype), m.build.constant(Tensor::scalar(0i8)));
        let to = m.scale(0.5);
        m.op("QLinearConv", &[x, one, zero, w, one, own, to, zero], &[("pads", Attr::Ints(vec![1, 1, 1, 1]))])
    }),
    ("QLinearMatMul", |m, x, dtype| {
        let axes = m.ints(&[0, -1]);
        let flat = m.op("Reshape", &[x, axes], &[]);
        let transposed = m.op("Transpose", &[flat], &[]);
        let (one, zero, to) = (m.scale(1.0 / 16.0), zero(m, dtype), m.scale(8.0));
        m.op("QLinearMatMul", &[flat, one, zero, transposed, one, zero, to, zero], &[])
    }),
    ("MaxPool", |m, x, _| {
        let attrs = [("kernel_shape", Attr::Ints(vec![2, 2])), ("pads", Attr::Ints(vec![0, 1, 1, 0]))];
        m.op("MaxPool", &[x], &attrs)
    }),
    ("Concat", |m, x, _| m.op("Concat", &[x, x], &[("axis", 1.into())])),
    ("Transpose", |m, x, _| m.op("Transpose", &[x], &[("perm", Attr::Ints(vec![0, 2, 3, 1]))])),
    ("Slice", |m, x, _| {
        let (from, to, axis) = (m.ints(&[1]), m.ints(&[4]), m.ints(&[1]));
        m.op("Slice", &[x, from, to, axis], &[])
    }),
    ("Pad", |m, x, _| {
        let pads = m.ints(&[0, 0, 1, 0, 0, 1, 0, 2]);
        m.op("Pad", &[x, pads], &[])
    }),
    ("Resize", |m, x, _| {
        let scales = m.build.constant(Tensor::from_vec([4], vec![1f32, 1.0, 2.0, 2.0]).unwrap());
        m.build.op_of("", "Resize", &[Some(x), None, Some(scales)], &[])
    }),
    ("Flatten", |m, x, _| m.op("Flatten", &[x], &[])),
    ("Gather", |m, x, _| {
        let places = m.ints(&[3, 0, 0]);
        m.op("Gather", &[x, places], &[("axis", 1.into())])
    }),
    ("DepthToSpace", |m, x, _| m.op("DepthToSpace", &[x], &[("blocksize", 2.into())])),
    ("Add", |m, x, dtype| {
        let other = number(m, dtype, 3);
        m.op("Add", &[x, other], &[])
    }),
    ("through numbers", |m, x, _| {
        let numbers = m.dequantised_as_is(x);
        m.quantised_as_is(numbers, x)
    }),
];

/// The functions that are applied to bytes.
const TAKERS: &[OfBytes] = &[
    ("Identity", |m, y, _| m.op("Identity", &[y], &[])),
    ("Relu", |m, y, dtype| if dtype == DType::I8 { m.op("Relu", &[y], &[]) } else { m.op("Identity", &[y], &[]) }),
    ("Abs", |m, y, _| m.op("Abs", &[y], &[])),
    ("Neg", |m, y, dtype| if dtype == DType::I8 { m.op("Neg", &[y], &[]) } else { m.op("Sign", &[y], &[]) }),
    ("Sign", |m, y, _| m.op("Sign", &[y], &[])),
    ("Clip", |m, y, dtype| {
        let (low, high) = (number(m, dtype, 2), number(m, dtype, 90));
        m.op("Clip", &[y, low, high], &[])
    }),
    ("Add", |m, y, dtype| {
        let other = number(m, dtype, 7);
        m.op("Add", &[y, other], &[])
    }),
    ("Sub", |m, y, dtype| {
        let other = number(m, dtype, 7);
        m.op("Sub", &[other, y], &[])
    }),
    ("Mul", |m, y, _| m.op("Mul", &[y, y], &[])),
    ("Div", |m, y, dtype| {
        let other = number(m, dtype, 7);
        m.op("Div", &[y, other], &[])
    }),
    ("Mod", |m, y, dtype| {
        let other = number(m, dtype, 7);
        m.op("Mod", &[y, other], &[])
    }),
    ("Max", |m, y, dtype| {
        let other = number(m, dtype, 60);
        m.op("Max", &[y, other], &[])
    }),
    ("Min", |m, y, dtype| {
        let other = number(m, dtype, 60);
        m.op("Min", &[other, y], &[])
    }),
    ("Equal", |m, y, _| m.op("Equal", &[y, y], &[])),
    ("Less", |m, y, dtype| {
        let other = number(m, dtype, 60);
        m.op("Less", &[y, other], &[])
    }),
    ("BitwiseAnd", |m, y, dtype| {
        let other = number(m, dtype, 85);
        m.op("BitwiseAnd", &[y, other], &[])
    }),
    ("BitwiseNot", |m, y, _| m.op("BitwiseNot", &[y], &[])),
    ("Cast to numbers", |m, y, _| m.op("Cast", &[y], &[("to", 1.into())])),
    ("Cast to integers", |m, y, _| m.op("Cast", &[y], &[("to", 6.into())])),
    ("DequantizeLinear", |m, y, _| m.dequantised_as_is(y)),
    ("DequantizeLinear and Sin", |m, y, _| {
        let numbers = m.dequantised_as_is(y);
        m.op("Sin", &[numbers], &[])
    }),
    ("Transpose", |m, y, _| m.op("Transpose", &[y], &[])),
    ("Concat", |m, y, _| m.op("Concat", &[y, y], &[("axis", (-1).into())])),
    ("Reshape", |m, y, _| {
        let target = m.ints(&[-1]);
        m.op("Reshape", &[y, target], &[])
    }),
    ("ReduceMax", |m, y, _| {
        let axes = m.ints(&[-1]);
        m.op("ReduceMax", &[y, axes], &[])
    }),
];

fn zero(make: &mut Make, dtype: DType) -> ValueId {
    number(make, dtype, if dtype == DType::I8 { 0 } else { 100 })
}

fn number(make: &mut Make, dtype: DType, value: u8) -> ValueId {
    let tensor = if dtype == DType::I8 { Tensor::scalar(value as i8) } else { Tensor::scalar(value) };
    make.build.constant(tensor)
}

impl Make {
    /// Bytes of either type as numbers, from a zero point of 0.
    fn dequantised_as_is(&mut self, bytes: ValueId) -> ValueId {
        let scale = self.scale(STEP);
        self.op("DequantizeLinear", &[bytes, scale], &[])
    }

    /// Numbers as bytes of the type of `like`.
    fn quantised_as_is(&mut self, numbers: ValueId, like: ValueId) -> ValueId {
        let (scale, none) = (self.scale(STEP), self.build.constant(Tensor::scalar(0i64)));
        let zero = self.op("CastLike", &[none, like], &[]);
        self.op("QuantizeLinear", &[numbers, scale, zero], &[])
    }
}

#[test]
fn every_pair_of_operators_on_bytes() {
    let mut wrong = Vec::new();
    for dtype in [DType::U8, DType::I8] {
        for &(maker, make_bytes) in MAKERS {
            let mut make = Make { build: GraphBuilder::new("bytes", 22), dtype, seed: 7, quantised: false };
            for (pair, (_, take)) in TAKERS.iter().enumerate() {
                let dims: Vec<Dim> = vec!["n".into(), 4.into(), "h".into(), "w".into()];
                let x = make.build.input(&format!("x{pair}"), dtype, dims);
                let y = make_bytes(&mut make, x, dtype);
                let z = take(&mut make, y, dtype);
                make.build.output(&format!("y{pair}"), z);
            }
            let requests = [[2, 4, 6, 7], [1, 4, 1, 1], [0, 4, 6, 7], [2, 4, 6, 7]].map(|shape| bytes(dtype, &shape));
            let name = |pair: usize| format!("{maker} + {} of {dtype}", TAKERS[pair].0);
            wrong.extend(compare(&make.build.finish(), &requests, &name, 0));
        }
    }
    assert!(wrong.is_empty(), "{} results are not right:\n{}", wrong.len(), wrong.join("\n"));
}
