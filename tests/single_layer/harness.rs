//! The harness of the single-layer tables: the executor-cache checklist's step 7 as one small machine.
//!
//! A [`Layer`] is an operator, a dynamic pattern per input, a list of steps (target shapes, one per dynamic input), and
//! a reference. [`Layer::check`] runs the steps through one session per instruction-set level and asserts at each step
//!
//! - the result is the reference's,
//! - shapes seen before do not ask the cache at all,
//! - and in another session over the same cache, they are answered by it (every answer a hit, at least one).
//!
//! A table that would not exercise the cache is refused before anything runs ([`Layer::refusal`]).

use std::sync::Mutex;

use half::f16;
use kiln::session::{Session, SessionOptions};
use kiln_cache::Outcome;
use kiln_kernels::Isa;
use kiln_kernels::cpu::precision::{from_bf16, to_bf16};
use kiln_kernels::cpu::{Elements, Precision};
use kiln_model::ir::{Attr, Graph, NodeDesc, ValueId, ValueInfo};
use kiln_model::onnx::{Limits, load_bytes, write};
use kiln_run::{Observer, StepEvent};
use kiln_tensor::{DType, Expansion, Tensor};

/// Shapes of one step, one per dynamic input.
pub(crate) type Step<'a> = &'a [&'a [usize]];

/// ONNX Runtime's own domain.
pub(crate) const MICROSOFT: &str = "com.microsoft";

enum Input {
    /// A pattern such as `[-1, 3, -1]`, the element type, and the kind of values.
    Dynamic {
        pattern: Vec<i64>,
        dtype: DType,
        fill: Fill,
    },
    Constant(Tensor),
    Absent,
}

/// Values of a dynamic input.
#[derive(Clone, Copy)]
pub(crate) enum Fill {
    /// Uniform in -1..1.
    Unit,
    /// Uniform in 0.1..1.1, for logarithms, roots and divisors.
    Positive,
    /// Uniform in 1.1..2.1, for inverses that begin at one.
    AboveOne,
    /// Whole numbers from -3 to 3, many equal.
    Few,
}

/// One table.
pub(crate) struct Layer {
    node: NodeDesc,
    inputs: Vec<Input>,
    outputs: usize,
    tolerance: f64,
    precision: Precision,
    /// The input that lower precision rounds, where it is asked for.
    halved: Option<usize>,
    /// Whether constants are stored as `f16`, as in a network of `f16`, while the computing is in `f32`.
    in_f16: bool,
}

impl Layer {
    pub(crate) fn new(op: &str, version: i64) -> Layer {
        let node = NodeDesc { name: op.to_lowercase(), op: op.to_owned(), version, ..NodeDesc::default() };
        let (tolerance, precision) = (2e-5, Precision::F32);
        Layer { node, inputs: Vec::new(), outputs: 1, tolerance, precision, halved: None, in_f16: false }
    }

    /// The operator of that name in another domain.
    pub(crate) fn domain(mut self, domain: &str) -> Layer {
        domain.clone_into(&mut self.node.domain);
        self
    }

    pub(crate) fn attr(mut self, name: &str, value: Attr) -> Layer {
        self.node.attrs.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn ints(self, name: &str, values: &[i64]) -> Layer {
        self.attr(name, Attr::Ints(values.to_vec()))
    }

    pub(crate) fn int(self, name: &str, value: i64) -> Layer {
        self.attr(name, Attr::Int(value))
    }

    /// A dynamic `f32` input of that pattern; -1 is a dimension that changes.
    pub(crate) fn dynamic(self, pattern: &[i64]) -> Layer {
        self.dynamic_of(pattern, DType::F32, Fill::Unit)
    }

    pub(crate) fn dynamic_of(mut self, pattern: &[i64], dtype: DType, fill: Fill) -> Layer {
        self.inputs.push(Input::Dynamic { pattern: pattern.to_vec(), dtype, fill });
        self
    }

    pub(crate) fn constant(mut self, tensor: Tensor) -> Layer {
        self.inputs.push(Input::Constant(tensor));
        self
    }

    /// A seeded random `f32` constant.
    pub(crate) fn weights(self, shape: &[usize]) -> Layer {
        let seed = 1000 + self.inputs.len() as u64;
        self.constant(random(shape, DType::F32, Fill::Unit, seed))
    }

    pub(crate) fn absent(mut self) -> Layer {
        self.inputs.push(Input::Absent);
        self
    }

    pub(crate) fn outputs(mut self, count: usize) -> Layer {
        self.outputs = count;
        self
    }

    /// Largest difference allowed, relative to the largest reference value.
    pub(crate) fn tolerance(mut self, tolerance: f64) -> Layer {
        self.tolerance = tolerance;
        self
    }

    /// Asks for `bf16`. The reference gets the constant at that index rounded, and at levels that multiply pairs all
    /// its inputs rounded.
    pub(crate) fn halved(mut self, weights: usize) -> Layer {
        (self.halved, self.precision) = (Some(weights), Precision::Bf16);
        self
    }

    /// Asks for `bf16`, with a reference that gets unrounded inputs: the result may be off by a hundredth.
    pub(crate) fn lower(mut self) -> Layer {
        self.precision = Precision::Bf16;
        self.tolerance(1e-2)
    }

    /// Stores constants as `f16`: the reference gets the rounded numbers.
    pub(crate) fn in_f16(mut self) -> Layer {
        self.in_f16 = true;
        for input in &mut self.inputs {
            if let Input::Constant(tensor) = input {
                let numbers = halves(tensor).into_iter().map(f32::from);
                *tensor = Tensor::from_vec(tensor.shape().iter().copied(), numbers.collect::<Vec<f32>>()).unwrap();
            }
        }
        self
    }

    /// The reference's inputs for these inputs of the layer.
    fn rounded(&self, isa: Isa, tensors: &[Tensor]) -> Vec<Tensor> {
        let Some(weights) = self.halved else { return tensors.to_vec() };
        let elements = Precision::Bf16.elements(isa);
        // The matrix unit leaves single rows to kernels that round only weights.
        let pairs = |tensor: &Tensor| match elements {
            Elements::Bf16Tiles => tensor.shape().iter().rev().nth(1) != Some(&1),
            _ => elements == Elements::Bf16Dot,
        };
        let round = |tensor: &Tensor| {
            let values = tensor.as_slice::<f32>().unwrap().iter().map(|&value| from_bf16(to_bf16(value)));
            Tensor::from_vec(tensor.shape().iter().copied(), values.collect::<Vec<f32>>()).unwrap()
        };
        let rounds = |index: usize, tensor: &Tensor| {
            index == weights || matches!(self.inputs[index], Input::Dynamic { .. }) && pairs(tensor)
        };
        let all = tensors.iter().enumerate();
        all.map(|(index, tensor)| if rounds(index, tensor) { round(tensor) } else { tensor.clone() }).collect()
    }

    /// Why the steps would not exercise the cache, if so.
    pub(crate) fn refusal(&self, steps: &[Step<'_>]) -> Option<String> {
        let patterns: Vec<&Vec<i64>> = self
            .inputs
            .iter()
            .filter_map(|input| match input {
                Input::Dynamic { pattern, .. } => Some(pattern),
                _ => None,
            })
            .collect();
        if !patterns.iter().any(|pattern| pattern.contains(&-1)) {
            return Some("no input has a dynamic dimension".to_owned());
        }
        for step in steps {
            let fits = |(pattern, shape): (&&Vec<i64>, &&[usize])| {
                pattern.len() == shape.len() && pattern.iter().zip(*shape).all(|(&p, &s)| p == -1 || p == s as i64)
            };
            if step.len() != patterns.len() || !patterns.iter().zip(*step).all(fits) {
                return Some(format!("step {step:?} does not fit the patterns"));
            }
        }
        if !(1..steps.len()).any(|i| steps[i] == steps[i - 1]) {
            return Some("no step repeats the one before it".to_owned());
        }
        if !(2..steps.len()).any(|i| steps[i] != steps[i - 1] && steps[..i - 1].contains(&steps[i])) {
            return Some("no step repeats an earlier one that is not the one before it".to_owned());
        }
        None
    }

    /// Runs the table at every level.
    pub(crate) fn check(&self, steps: &[Step<'_>], reference: impl Fn(&[Tensor]) -> Vec<Tensor>) {
        if let Some(refusal) = self.refusal(steps) {
            panic!("{}: this table would not exercise the cache: {refusal}", self.node.op);
        }
        for isa in Isa::ALL {
            assert!(isa.usable(), "{isa} is neither present nor emulated");
            self.check_at(isa, steps, &reference);
        }
    }

    fn check_at(&self, isa: Isa, steps: &[Step<'_>], reference: &dyn Fn(&[Tensor]) -> Vec<Tensor>) {
        // Code that is there already is assembled again whenever it is asked for, and compared byte by byte.
        let options = SessionOptions {
            threads: 2,
            max_isa: Some(isa),
            precision: self.precision,
            cache_check: true,
            ..SessionOptions::default()
        };
        let session = Session::from_graph(self.graph(), &options).unwrap();
        for (number, step) in steps.iter().enumerate() {
            let place = format!("{} at {isa}, step {number} {step:?}", self.node.op);
            let tensors = self.tensors(step, number as u64);
            let given: Vec<(String, Tensor)> = self
                .inputs
                .iter()
                .zip(&tensors)
                .enumerate()
                .filter(|(_, (input, _))| matches!(input, Input::Dynamic { .. }))
                .map(|(i, (_, tensor))| (format!("x{i}"), tensor.clone()))
                .collect();
            let given: Vec<(&str, Tensor)> = given.iter().map(|(name, t)| (name.as_str(), t.clone())).collect();
            let seen = Outcomes::default();
            let outputs = session.run_observed(&given, Some(&seen)).unwrap_or_else(|error| panic!("{place}: {error}"));
            let expected = reference(&self.rounded(isa, &tensors));
            assert_eq!(outputs.len(), expected.len(), "{place}: number of outputs");
            for ((_, actual), expected) in outputs.iter().zip(&expected) {
                self.compare(&place, actual, expected);
            }
            let seen = seen.0.into_inner().unwrap();
            let asked: Vec<Outcome> = seen.iter().filter_map(|(_, outcome)| *outcome).collect();
            if number == 0 {
                assert!(asked.contains(&Outcome::Miss), "{place}: the first shapes built nothing: {seen:?}");
            } else if steps[..number].contains(step) {
                assert!(seen.iter().all(|(prepared, _)| !prepared), "{place}: known shapes were prepared again");
                assert!(asked.is_empty(), "{place}: known shapes asked the cache");
                // A session that knows no shapes asks the cache, and finds what the first session has built.
                let cache = Some(session.build_cx().cache.clone());
                let other = Session::from_graph(self.graph(), &SessionOptions { cache, ..options.clone() }).unwrap();
                let seen = Outcomes::default();
                let again = other.run_observed(&given, Some(&seen)).unwrap_or_else(|error| panic!("{place}: {error}"));
                let seen = seen.0.into_inner().unwrap();
                let asked: Vec<Outcome> = seen.iter().filter_map(|(_, outcome)| *outcome).collect();
                let hits = !asked.is_empty() && asked.iter().all(|outcome| *outcome == Outcome::Hit);
                assert!(hits, "{place}: a repeat was not a cache hit: {seen:?}");
                for ((_, one), (_, other)) in outputs.iter().zip(&again) {
                    assert!(one.same(other), "{place}: two sessions differ");
                }
            }
        }
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph { name: self.node.op.clone(), ..Graph::default() };
        let mut node = self.node.clone();
        for (i, input) in self.inputs.iter().enumerate() {
            let name = format!("x{i}");
            let value = match input {
                Input::Dynamic { dtype, .. } => {
                    let value =
                        graph.add_value(ValueInfo { name, dtype: Some(*dtype), dims: None, ..ValueInfo::default() });
                    graph.inputs.push(value);
                    Some(value)
                }
                Input::Constant(tensor) => {
                    let value = graph.add_value(ValueInfo {
                        name,
                        dtype: Some(tensor.dtype()),
                        dims: None,
                        ..ValueInfo::default()
                    });
                    graph.constants.insert(value, self.stored(tensor));
                    Some(value)
                }
                Input::Absent => None,
            };
            node.inputs.push(value);
        }
        for i in 0..self.outputs {
            let value: ValueId = graph.add_value(ValueInfo { name: format!("y{i}"), ..ValueInfo::default() });
            node.outputs.push(Some(value));
            graph.outputs.push(value);
        }
        graph.nodes.push(node);
        if self.node.domain != MICROSOFT {
            return graph;
        }
        // Many operators of this domain are expanded when a file is read.
        load_bytes(write(&graph).unwrap().into(), None, &Limits::default()).unwrap()
    }

    /// A constant as the graph has it.
    fn stored(&self, tensor: &Tensor) -> Tensor {
        if !self.in_f16 {
            return tensor.clone();
        }
        let stored = Tensor::from_vec(tensor.shape().iter().copied(), halves(tensor)).unwrap();
        Tensor::compact(stored, Expansion::default()).unwrap()
    }

    /// All inputs of a step; absent ones are empty tensors.
    fn tensors(&self, step: Step<'_>, seed: u64) -> Vec<Tensor> {
        let mut shapes = step.iter();
        let tensors = self.inputs.iter().enumerate().map(|(i, input)| match input {
            Input::Dynamic { dtype, fill, .. } => random(shapes.next().unwrap(), *dtype, *fill, seed * 64 + i as u64),
            Input::Constant(tensor) => tensor.clone(),
            Input::Absent => Tensor::from_vec::<f32>([0], Vec::new()).unwrap(),
        });
        tensors.collect()
    }

    fn compare(&self, place: &str, actual: &Tensor, expected: &Tensor) {
        assert_eq!(actual.spec(), expected.spec(), "{place}: type and shape");
        if actual.dtype() != DType::F32 {
            assert_eq!(actual.bytes(), expected.bytes(), "{place}");
            return;
        }
        let (actual, expected) = (actual.as_slice::<f32>().unwrap(), expected.as_slice::<f32>().unwrap());
        let scale = expected.iter().fold(1e-30f64, |scale, v| scale.max(f64::from(v.abs())));
        for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
            let error = (f64::from(*a) - f64::from(*e)).abs() / scale;
            assert!(error <= self.tolerance, "{place}: element {i} is {a}, expected {e} (scale {scale})");
        }
    }
}

/// The nearest numbers of `f16`.
fn halves(tensor: &Tensor) -> Vec<f16> {
    tensor.as_slice::<f32>().unwrap().iter().map(|&number| f16::from_f32(number)).collect()
}

/// For each step of the graph: whether it was prepared, and the cache's answer.
#[derive(Default)]
struct Outcomes(Mutex<Vec<(bool, Option<Outcome>)>>);

impl Observer for Outcomes {
    fn step(&self, event: &StepEvent<'_>) {
        self.0.lock().unwrap().push((event.prepared, event.outcome));
    }
}

/// Seeded values by a splitmix generator.
pub(crate) fn random(shape: &[usize], dtype: DType, fill: Fill, seed: u64) -> Tensor {
    let count: usize = shape.iter().product();
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
    let mut next = move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) >> 40
    };
    let shape = shape.iter().copied();
    let unit = |bits: u64| bits as f32 / (1u64 << 24) as f32;
    match (dtype, fill) {
        (DType::F32, Fill::Positive) => Tensor::from_vec(shape, (0..count).map(|_| unit(next()) + 0.1).collect()),
        (DType::F32, Fill::AboveOne) => Tensor::from_vec(shape, (0..count).map(|_| unit(next()) + 1.1).collect()),
        (DType::F32, Fill::Few) => Tensor::from_vec(shape, (0..count).map(|_| (next() % 7) as f32 - 3.0).collect()),
        (DType::F32, _) => Tensor::from_vec(shape, (0..count).map(|_| unit(next()) * 2.0 - 1.0).collect::<Vec<f32>>()),
        (DType::Bool, _) => {
            let bytes: Vec<kiln_tensor::dtype::BoolByte> = (0..count).map(|_| (next() % 2 == 1).into()).collect();
            Tensor::from_vec(shape, bytes)
        }
        (DType::U8, _) => Tensor::from_vec(shape, (0..count).map(|_| next() as u8).collect::<Vec<u8>>()),
        (DType::I8, _) => Tensor::from_vec(shape, (0..count).map(|_| next() as i8).collect::<Vec<i8>>()),
        _ => panic!("no rule to fill {dtype}"),
    }
    .unwrap()
}
