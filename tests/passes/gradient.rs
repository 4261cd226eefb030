//! What a Gradient is expanded to is the derivative: random graphs against differences of their results, and the forms
//! that the operator has.

use kiln::graph::ir::NodeDesc;
use kiln::graph::passes::PassOptions;
use kiln::graph::{Attr, Graph, GraphBuilder, ValueId};
use kiln::onnx::{self, ModelError};
use kiln::session::{Session, SessionError, SessionOptions};
use kiln::tensor::{DType, Tensor};
use proptest::prelude::*;

/// Adds a Gradient that reads `inputs` in place of `xs` and `zs`; its outputs become the graph's, after those there are.
fn differentiate(graph: &mut Graph, y: ValueId, xs: &[ValueId], zs: &[ValueId], inputs: &[ValueId]) -> Vec<ValueId> {
    let names = |ids: &[ValueId]| Attr::Strs(ids.iter().map(|&id| graph.value(id).name.clone()).collect());
    let mut attrs = vec![("y".to_owned(), Attr::Str(graph.value(y).name.clone())), ("xs".to_owned(), names(xs))];
    if !zs.is_empty() {
        attrs.push(("zs".to_owned(), names(zs)));
    }
    let outputs: Vec<ValueId> = xs.iter().map(|_| graph.fresh("gradient")).collect();
    graph.nodes.push(NodeDesc {
        name: format!("gradient{}", graph.nodes.len()),
        domain: "ai.onnx.preview.training".to_owned(),
        op: "Gradient".to_owned(),
        version: 1,
        attrs: attrs.into_iter().collect(),
        inputs: inputs.iter().copied().map(Some).collect(),
        outputs: outputs.iter().copied().map(Some).collect(),
    });
    graph.outputs.extend(&outputs);
    outputs
}

fn load(graph: &Graph, passes: PassOptions) -> Result<Session, SessionError> {
    let options = SessionOptions { threads: 1, passes, ..SessionOptions::default() };
    Session::load_bytes(onnx::write(graph).expect("it can be written"), &options)
}

fn run(session: &Session, inputs: &[(String, Vec<usize>, Vec<f64>)]) -> Vec<Vec<f64>> {
    let inputs: Vec<(&str, Tensor)> = inputs
        .iter()
        .map(|(name, shape, values)| (name.as_str(), Tensor::from_slice(shape.iter().copied(), values).unwrap()))
        .collect();
    let outputs = session.run(&inputs).expect("it runs");
    outputs.iter().map(|(_, tensor)| tensor.as_slice::<f64>().expect("doubles").to_vec()).collect()
}

/// A graph in the making, with the shape of each value.
struct Sketch {
    build: GraphBuilder,
    values: Vec<(ValueId, Vec<usize>)>,
}

/// What two shapes stretch to, if to anything.
fn stretched(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
    (0..rank)
        .map(|axis| match (at(a, axis), at(b, axis)) {
            (a, b) if a == b || b == 1 => Some(a),
            (1, b) => Some(b),
            _ => None,
        })
        .collect()
}

impl Sketch {
    fn new() -> Sketch {
        let mut sketch = Sketch { build: GraphBuilder::new("drawn", 17), values: Vec::new() };
        for (name, shape) in [("a", vec![2, 3]), ("b", vec![3]), ("c", vec![2, 1]), ("d", vec![]), ("e", vec![4, 3, 2])]
        {
            let dims: Vec<_> = shape.iter().map(|&size| size.into()).collect();
            let id = sketch.build.input(name, DType::F64, dims);
            sketch.values.push((id, shape));
        }
        sketch
    }

    fn number(&mut self, value: f64) -> ValueId {
        self.build.constant(Tensor::scalar(value))
    }

    fn numbers(&mut self, values: &[i64]) -> ValueId {
        self.build.constant(Tensor::from_slice([values.len()], values).unwrap())
    }

    /// v v + 1/2: where logarithms, roots and quotients are smooth.
    fn positive(&mut self, value: ValueId) -> ValueId {
        let square = self.build.op("Mul", &[value, value], &[]);
        let half = self.number(0.5);
        self.build.op("Add", &[square, half], &[])
    }

    /// One more node or a few, chosen by the three numbers.
    fn step(&mut self, (kind, first, second): (u8, u8, u8)) {
        let pick = |at: u8| self.values[self.values.len() - 1 - usize::from(at) % self.values.len().min(6)].clone();
        let ((x, x_shape), (other, other_shape)) = (pick(first), pick(second));
        let whole = stretched(&x_shape, &other_shape);
        let (other, whole) = whole.map_or((x, x_shape.clone()), |whole| (other, whole));
        let rank = x_shape.len();
        let axis = usize::from(second) % rank.max(1);
        let turned = |x: &mut GraphBuilder, value: ValueId| {
            let mut perm: Vec<i64> = (0..rank as i64).collect();
            perm.swap(rank - 1, rank - 2);
            x.op("Transpose", &[value], &[("perm", Attr::Ints(perm))])
        };
        let mut plain = |op: &str| (self.build.op(op, &[x], &[]), x_shape.clone());
        let made = match kind % 20 {
            0 => (self.build.op("Add", &[x, other], &[]), whole),
            1 => (self.build.op("Sub", &[x, other], &[]), whole),
            2 => (self.build.op("Mul", &[x, other], &[]), whole),
            3 => {
                let divisor = self.positive(other);
                (self.build.op("Div", &[x, divisor], &[]), whole)
            }
            4 => plain("Neg"),
            5 => {
                let (small, _) = plain("Tanh");
                (self.build.op("Exp", &[small], &[]), x_shape)
            }
            6 | 7 => {
                let positive = self.positive(x);
                (self.build.op(if kind % 20 == 6 { "Log" } else { "Sqrt" }, &[positive], &[]), x_shape)
            }
            8 => plain("Sigmoid"),
            9 => plain("Relu"),
            10 => plain("Identity"),
            11 => {
                let exponent = self.number(f64::from(second % 4));
                (self.build.op("Pow", &[x, exponent], &[]), x_shape)
            }
            12 if rank >= 2 => {
                let right = turned(&mut self.build, x);
                let mut shape = x_shape.clone();
                shape[rank - 1] = shape[rank - 2];
                (self.build.op("MatMul", &[x, right], &[]), shape)
            }
            // Rows and columns that are vectors.
            13 if x_shape.last() == Some(&3) => {
                let (b, _) = self.values[1];
                (self.build.op("MatMul", &[x, b], &[]), x_shape[..rank - 1].to_vec())
            }
            14 if rank >= 2 && x_shape[rank - 2] == 3 => {
                let (b, _) = self.values[1];
                let mut shape = x_shape[..rank - 2].to_vec();
                shape.push(x_shape[rank - 1]);
                (self.build.op("MatMul", &[b, x], &[]), shape)
            }
            15 if rank == 2 => {
                let (left, right) = (second & 1 == 1, second & 2 == 2);
                let size = if left { x_shape[1] } else { x_shape[0] };
                // Of the matrix with itself: X X' or X' X, written in one of the ways.
                let (a, b) = (x, if left == right { turned(&mut self.build, x) } else { x });
                let attrs = [
                    ("transA", Attr::Int(left.into())),
                    ("transB", Attr::Int(right.into())),
                    ("alpha", Attr::Float(0.5)),
                    ("beta", Attr::Float(2.0)),
                ];
                let (d, _) = self.values[3];
                (self.build.op("Gemm", &[a, b, d], &attrs), vec![size, size])
            }
            16 if rank > 0 => {
                let kept = second >= 128;
                let axes = self.numbers(&[axis as i64 - rank as i64]);
                let mut shape = x_shape.clone();
                if kept {
                    shape[axis] = 1;
                } else {
                    shape.remove(axis);
                }
                (self.build.op("ReduceSum", &[x, axes], &[("keepdims", Attr::Int(kept.into()))]), shape)
            }
            17 if rank > 0 => {
                let attrs = [("axes", Attr::Ints(vec![axis as i64])), ("keepdims", Attr::Int(0))];
                let mut shape = x_shape.clone();
                shape.remove(axis);
                (self.build.op("ReduceMean", &[x], &attrs), shape)
            }
            18 => {
                let to = self.numbers(&[-1]);
                (self.build.op("Reshape", &[x, to], &[]), vec![x_shape.iter().product()])
            }
            _ => {
                let zero = self.number(0.25);
                let condition = self.build.op("Greater", &[x, zero], &[]);
                (self.build.op("Where", &[condition, x, other], &[]), whole)
            }
        };
        self.values.push(made);
    }
}

fn sum(values: &[f64]) -> f64 {
    values.iter().sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn gradients_are_what_differences_say(
        steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..8),
        numbers in proptest::collection::vec(-1.5f64..1.5, 36),
    ) {
        let mut sketch = Sketch::new();
        steps.iter().for_each(|&step| sketch.step(step));
        let (y, _) = sketch.values[sketch.values.len() - 1];
        let xs: Vec<(ValueId, Vec<usize>)> = sketch.values[..5].to_vec();
        sketch.build.output("y", y);
        let mut graph = sketch.build.finish();
        let ids: Vec<ValueId> = xs.iter().map(|(id, _)| *id).collect();
        differentiate(&mut graph, y, &ids, &[], &ids);

        let mut rest = numbers.as_slice();
        let mut inputs: Vec<(String, Vec<usize>, Vec<f64>)> = Vec::new();
        for (id, shape) in &xs {
            let (own, others) = rest.split_at(shape.iter().product());
            inputs.push((graph.value(*id).name.clone(), shape.clone(), own.to_vec()));
            rest = others;
        }
        let sessions = [PassOptions::default(), PassOptions::none()].map(|passes| load(&graph, passes).expect("it loads"));
        let found = run(&sessions[0], &inputs);
        let plain = run(&sessions[1], &inputs);
        for (a, b) in found.iter().flatten().zip(plain.iter().flatten()) {
            prop_assert!((a - b).abs() <= 1e-9 * (1.0 + a.abs()), "{a} with passes, {b} without");
        }
        for place in 0..inputs.len() {
            prop_assert_eq!(found[place + 1].len(), inputs[place].2.len());
            let own = inputs[place].2.clone();
            for (element, (&at, &gradient)) in own.iter().zip(&found[place + 1]).enumerate() {
                let mut difference = |step: f64| {
                    inputs[place].2[element] = at + step;
                    let above = sum(&run(&sessions[0], &inputs)[0]);
                    inputs[place].2[element] = at - step;
                    let below = sum(&run(&sessions[0], &inputs)[0]);
                    inputs[place].2[element] = at;
                    (above - below) / (2.0 * step)
                };
                let (wide, narrow) = (difference(1e-4), difference(2.5e-5));
                let scale = 1.0 + narrow.abs();
                // Where the two differ there is a corner between, or the function bends too much for them to tell.
                if (wide - narrow).abs() > 1e-6 * scale {
                    continue;
                }
                prop_assert!(
                    (gradient - narrow).abs() <= 1e-5 * scale,
                    "by element {element} of input {place}: {gradient}, differences say {narrow}",
                );
            }
        }
    }
}

/// y = x x x + z of a vector, not yet finished.
fn cube() -> (GraphBuilder, [ValueId; 3]) {
    let mut build = GraphBuilder::new("cube", 17);
    let [x, z] = ["x", "z"].map(|name| build.input(name, DType::F64, [2.into()]));
    let three = build.constant(Tensor::scalar(3i64));
    let power = build.op("Pow", &[x, three], &[]);
    let y = build.op("Add", &[power, z], &[]);
    build.output("y", y);
    (build, [x, z, y])
}

fn pair(name: &str, values: [f64; 2]) -> (String, Vec<usize>, Vec<f64>) {
    (name.to_owned(), vec![2], values.to_vec())
}

#[test]
fn a_gradient_of_a_gradient_is_a_second_derivative() {
    let (build, [x, z, y]) = cube();
    let mut graph = build.finish();
    let first = differentiate(&mut graph, y, &[x, z], &[], &[x, z]);
    differentiate(&mut graph, first[0], &[x, z], &[], &[x, z]);
    let session = load(&graph, PassOptions::default()).unwrap();
    let found = run(&session, &[pair("x", [2.0, 0.0]), pair("z", [1.0, 5.0])]);
    let expected = [vec![9.0, 5.0], vec![12.0, 0.0], vec![1.0, 1.0], vec![12.0, 0.0], vec![0.0, 0.0]];
    assert_eq!(found, expected);
}

#[test]
fn other_values_may_take_the_place_of_the_graphs_own() {
    let (mut build, [x, z, y]) = cube();
    let at = build.input("at", DType::F64, [2.into()]);
    let mut graph = build.finish();
    differentiate(&mut graph, y, &[x], &[z], &[at, z]);
    let session = load(&graph, PassOptions::default()).unwrap();
    let found = run(&session, &[pair("x", [1.0, 1.0]), pair("z", [0.0, 0.0]), pair("at", [2.0, 3.0])]);
    assert_eq!(found, [vec![1.0, 1.0], vec![12.0, 27.0]]);
}

#[test]
fn values_in_between_can_be_what_is_differentiated_by() {
    let mut build = GraphBuilder::new("between", 17);
    let x = build.input("x", DType::F64, [2.into()]);
    let h = build.op("Neg", &[x], &[]);
    let y = build.op("Mul", &[h, h], &[]);
    build.output("y", y);
    let mut graph = build.finish();
    differentiate(&mut graph, y, &[h], &[], &[h]);
    differentiate(&mut graph, y, &[y], &[], &[y]);
    let session = load(&graph, PassOptions::default()).unwrap();
    assert_eq!(run(&session, &[pair("x", [1.0, -2.0])]), [vec![1.0, 4.0], vec![-2.0, 4.0], vec![1.0, 1.0]]);
}

#[test]
fn what_cannot_be_differentiated_is_refused_by_name() {
    let graph = |op: &str| {
        let mut build = GraphBuilder::new("refused", 17);
        let x = build.input("x", DType::F64, [2.into()]);
        let h = build.op(op, &[x], &[]);
        let y = build.op("Mul", &[h, x], &[]);
        build.output("y", y);
        (build.finish(), [x, h, y])
    };
    let refused = |graph: &Graph| match load(graph, PassOptions::default()).err() {
        Some(SessionError::Model(error)) => error,
        other => panic!("it should be refused: {other:?}"),
    };
    let (mut asin, [x, _, y]) = graph("Asinh");
    differentiate(&mut asin, y, &[x], &[], &[x]);
    let error = refused(&asin);
    assert!(matches!(error, ModelError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("the derivative of \"Asinh\""), "{error}");

    // What nothing is asked of need not be differentiated.
    let (mut beside, [x, h, y]) = graph("Asinh");
    differentiate(&mut beside, y, &[x], &[h], &[x, h]);
    assert!(load(&beside, PassOptions::default()).is_ok());

    let (mut unmade, [x, _, _]) = graph("Neg");
    let far = unmade.fresh("far");
    differentiate(&mut unmade, far, &[x], &[], &[x]);
    assert!(matches!(refused(&unmade), ModelError::Malformed { .. }));
    for (xs, inputs) in [(vec![x], vec![]), (vec![], vec![]), (vec![x, x], vec![x, x])] {
        let (mut wrong, [_, _, y]) = graph("Neg");
        differentiate(&mut wrong, y, &xs, &[], &inputs);
        assert!(matches!(refused(&wrong), ModelError::Malformed { .. }), "{xs:?}");
    }
}
