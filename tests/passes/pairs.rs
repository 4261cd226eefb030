//! Every operator before every function: after the passes the two compute the same as one after the other, at every
//! level, in `f32`, in `f16` and between bytes, for several sizes, a single element and no element.
//!
//! The graphs of `draw` meet some pairs by chance and most never; here every pair is tested. The expected results come
//! from plain Rust without any pass.

mod bytes;
mod followers;
mod producers;

use followers::{FOLLOWERS, Follower};
use half::f16;
use kiln::session::{Session, SessionOptions};
use kiln_kernels::Isa;
use kiln_model::ir::{Attr, Dim};
use kiln_model::passes::PassOptions;
use kiln_model::{Graph, GraphBuilder, ValueId};
use kiln_run::record::CacheMode;
use kiln_tensor::{DType, Tensor};
use producers::{PRODUCERS, Producer, Source};

/// Builds the graph of one pair.
struct Make {
    build: GraphBuilder,
    /// `f32` or `f16`: the type of activations and weights.
    dtype: DType,
    /// Changes with every tensor that is made, so that no two are alike.
    seed: u32,
    /// Whether matrices and filters are bytes that are turned into numbers.
    quantised: bool,
}

impl Make {
    fn op(&mut self, op: &str, inputs: &[ValueId], attrs: &[(&str, Attr)]) -> ValueId {
        self.build.op(op, inputs, attrs)
    }

    /// Small multiples of a quarter, never zero: sums of their products are exact in `f32` in any order.
    fn weights(&mut self, shape: &[usize]) -> ValueId {
        if self.quantised && shape.len() > 1 {
            return self.byte_weights(shape);
        }
        let tensor = numbers(self.dtype, shape, &mut self.seed);
        self.build.constant(tensor)
    }

    /// A number of the activations' type.
    fn number(&mut self, value: f32) -> ValueId {
        let tensor = of_floats(self.dtype, &[], &[value]);
        self.build.constant(tensor)
    }

    fn ints(&mut self, values: &[i64]) -> ValueId {
        self.build.constant(Tensor::from_vec([values.len()], values.to_vec()).unwrap())
    }
}

fn of_floats(dtype: DType, shape: &[usize], values: &[f32]) -> Tensor {
    let shape = shape.iter().copied();
    match dtype {
        DType::F16 => Tensor::from_vec(shape, values.iter().map(|&value| f16::from_f32(value)).collect()),
        _ => Tensor::from_vec(shape, values.to_vec()),
    }
    .unwrap()
}

fn numbers(dtype: DType, shape: &[usize], seed: &mut u32) -> Tensor {
    let mut next = || {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((*seed >> 16) % 16) as f32 / 8.0 - 0.9375
    };
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| next()).collect();
    of_floats(dtype, shape, &values)
}

/// The sizes of a request: images or sequences, rows, columns. The first sizes come back at the end.
const SIZES: [[usize; 3]; 4] = [[2, 6, 7], [1, 0, 0], [0, 6, 7], [2, 6, 7]];

/// The shape of a producer's input, with at least `least` rows and columns.
fn shape(source: Source, [n, h, w]: [usize; 3], least: usize) -> Vec<usize> {
    let (h, w) = (h.max(least), w.max(least));
    match source {
        Source::Image => vec![n, 4, h, w],
        Source::Rows => vec![n, h, 8],
    }
}

/// A producer before each of the followers, or alone if there are none. Every pair has an input of its own and shares
/// nothing with another.
fn graph(dtype: DType, producer: &Producer, followers: &[&Follower]) -> Graph {
    let mut make = Make { build: GraphBuilder::new("pairs", 22), dtype, seed: 7, quantised: false };
    let dims: Vec<Dim> = match producer.source {
        Source::Image => vec!["n".into(), 4.into(), "h".into(), "w".into()],
        Source::Rows => vec!["n".into(), "h".into(), 8.into()],
    };
    let produced = |make: &mut Make, pair: usize| {
        let x = make.build.input(&format!("x{pair}"), dtype, dims.clone());
        (x, (producer.make)(make, x))
    };
    if followers.is_empty() {
        let (_, y) = produced(&mut make, 0);
        make.build.output("y", y);
    }
    for (pair, follower) in followers.iter().enumerate() {
        let (x, y) = produced(&mut make, pair);
        let mut other = |make: &mut Make| (producer.make)(make, x);
        let z = (follower.make)(&mut make, y, &mut other);
        make.build.output(&format!("y{pair}"), z);
    }
    make.build.finish()
}

/// The outputs by request.
fn outputs(graph: &Graph, passes: PassOptions, isa: Isa, requests: &[Tensor]) -> Result<Vec<Vec<Tensor>>, String> {
    let options = SessionOptions {
        threads: 1,
        cache_mode: CacheMode::Memory,
        rehearse: false,
        max_isa: Some(isa),
        passes,
        ..SessionOptions::default()
    };
    let session = Session::from_graph(graph.clone(), &options).map_err(|error| format!("load: {error}"))?;
    let names: Vec<String> = session.inputs().iter().map(|port| port.name.clone()).collect();
    let run = |x: &Tensor| {
        let inputs: Vec<(&str, Tensor)> = names.iter().map(|name| (name.as_str(), x.clone())).collect();
        let outputs = session.run(&inputs).map_err(|error| format!("{:?}: {error}", x.shape()))?;
        Ok(outputs.into_iter().map(|(_, tensor)| tensor).collect())
    };
    let outputs = requests.iter().map(run).collect::<Result<_, String>>()?;
    match session.share_stats().fell_apart {
        0 => Ok(outputs),
        times => Err(format!("a pass fused {times} times what a kernel refuses")),
    }
}

/// The elements as `f64`, whatever floats they are.
fn floats(tensor: &Tensor) -> Option<Vec<f64>> {
    match tensor.dtype() {
        DType::F32 => Some(tensor.as_slice::<f32>().unwrap().iter().map(|&value| f64::from(value)).collect()),
        DType::F16 => Some(tensor.as_slice::<f16>().unwrap().iter().map(|value| value.to_f64()).collect()),
        DType::F64 => Some(tensor.as_slice::<f64>().unwrap().to_vec()),
        _ => None,
    }
}

/// The elements of a tensor of another type, as whole numbers.
fn whole(tensor: &Tensor) -> Vec<i64> {
    match tensor.dtype() {
        DType::U8 | DType::Bool => tensor.bytes().iter().map(|&byte| i64::from(byte)).collect(),
        DType::I8 => tensor.as_slice::<i8>().unwrap().iter().map(|&value| i64::from(value)).collect(),
        _ => tensor.to_i64_vec().unwrap(),
    }
}

/// The difference of `found` from `expected`, if any. `near` holds the inputs of a function that jumps: next to a jump,
/// rounding decides on which side the result lies.
fn difference(expected: &Tensor, found: &Tensor, tolerance: f64, near: Option<&Tensor>) -> Option<String> {
    if expected.spec() != found.spec() {
        return Some(format!("expected {:?}, found {:?}", expected.spec(), found.spec()));
    }
    let near = near.and_then(floats).filter(|near| near.len() == expected.len());
    let at_jump = |index: usize| {
        near.as_ref().is_some_and(|near| {
            let doubled = 2.0 * near[index];
            (doubled - doubled.round()).abs() <= 4.0 * tolerance * doubled.abs().max(1.0)
        })
    };
    let (Some(a), Some(b)) = (floats(expected), floats(found)) else {
        let (a, b) = (whole(expected), whole(found));
        let wrong = (0..a.len()).find(|&index| a[index] != b[index] && !at_jump(index))?;
        return Some(format!("element {wrong}: {}, not {}", b[wrong], a[wrong]));
    };
    let scale = a.iter().filter(|value| value.is_finite()).fold(1e-3f64, |scale, value| scale.max(value.abs()));
    let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * scale;
    let wrong = (0..a.len()).find(|&index| !same(a[index], b[index]) && !at_jump(index))?;
    Some(format!("element {wrong}: {}, not {}, of up to {scale}", b[wrong], a[wrong]))
}

/// Tries some followers after one producer, and names every pair that is wrong. If a pair cannot even be run, the pairs
/// are tried one by one.
fn failures(
    dtype: DType,
    producer: &Producer,
    followers: &[&Follower],
    requests: &[Tensor],
    alone: &[Tensor],
) -> Vec<String> {
    let tolerance = if dtype == DType::F16 { 4e-3 } else { 1e-3 };
    let graph = graph(dtype, producer, followers);
    let mut failures = Vec::new();
    let mut run = |passes: PassOptions, isa: Isa, what: &str| match outputs(&graph, passes, isa, requests) {
        Ok(outputs) => Some(outputs),
        Err(error) => {
            match followers {
                [follower] => failures.push(format!("{} + {}, {what}: {error}", producer.name, follower.name)),
                _ => failures.push(String::new()),
            }
            None
        }
    };
    // Values between nodes of f16 are not rounded, whether one pass runs or all.
    let plain = PassOptions::none().with("widen");
    let expected = run(plain, Isa::Portable, "no pass");
    let levels = [Isa::Portable, Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa <= Isa::detect());
    let found: Vec<_> = levels.map(|isa| (isa, run(PassOptions::default(), isa, isa.name()))).collect();
    if !failures.is_empty() && followers.len() > 1 {
        let alone = |follower: &&Follower| self::failures(dtype, producer, &[follower], requests, alone);
        return followers.iter().flat_map(alone).collect();
    }
    let Some(expected) = expected else { return failures };
    for (isa, found) in &found {
        for (request, found) in found.iter().flatten().enumerate() {
            for (pair, follower) in followers.iter().enumerate() {
                let near = follower.jumps.then_some(&alone[request]);
                if let Some(problem) = difference(&expected[request][pair], &found[pair], tolerance, near) {
                    let shape = requests[request].shape();
                    failures.push(format!("{} + {}, {isa}, {shape:?}: {problem}", producer.name, follower.name));
                }
            }
        }
    }
    failures
}

/// Tries all followers of every `parts`th producer.
fn pairs(dtype: DType, part: usize, parts: usize) {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for producer in PRODUCERS.iter().skip(part).step_by(parts) {
        let mut seed = 3;
        let shapes = SIZES.map(|sizes| shape(producer.source, sizes, producer.least));
        let requests = shapes.map(|shape| numbers(dtype, &shape, &mut seed));
        match outputs(&graph(dtype, producer, &[]), PassOptions::none(), Isa::Portable, &requests) {
            Ok(alone) => {
                let alone: Vec<Tensor> = alone.into_iter().flatten().collect();
                let followers: Vec<&Follower> = FOLLOWERS.iter().filter(|follower| follower.takes(&alone[0])).collect();
                count += followers.len();
                wrong.extend(failures(dtype, producer, &followers, &requests, &alone));
            }
            Err(error) => wrong.push(format!("{} alone: {error}", producer.name)),
        }
    }
    assert!(count > 1000, "of {count} pairs it says little that all are right");
    assert!(wrong.is_empty(), "of {count} pairs {} results are not right:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_pair_of_f32() {
    std::thread::scope(|scope| {
        (0..2).for_each(|part| drop(scope.spawn(move || pairs(DType::F32, part, 2))));
    });
}

#[test]
fn every_pair_of_f16() {
    std::thread::scope(|scope| {
        (0..2).for_each(|part| drop(scope.spawn(move || pairs(DType::F16, part, 2))));
    });
}
