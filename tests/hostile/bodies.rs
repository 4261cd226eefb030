//! Control flow that asks for too much: iterations without end, values that double, bodies in bodies, whole
//! graphs at once.

use kiln_model::ir::{Attr, Graph};
use kiln_model::{GraphBuilder, ValueId};
use kiln_tensor::{BoolByte, DType, Tensor};

use crate::Case;

fn case(name: &str, graph: GraphBuilder, inputs: Vec<(String, Tensor)>) -> Case {
    Case { name: name.to_owned(), graph: graph.finish(), inputs }
}

fn x() -> Vec<(String, Tensor)> {
    vec![("x".to_owned(), Tensor::from_slice([2], &[1f32, 2.0]).unwrap())]
}

/// A body of a loop over one carried value. `step` makes the next value.
fn body(step: impl Fn(&mut GraphBuilder, ValueId) -> ValueId, gather: bool) -> Graph {
    let mut body = GraphBuilder::new("body", 17);
    let _iteration = body.input("iteration", DType::I64, []);
    let go = body.input("go", DType::Bool, []);
    let value = body.input("value", DType::F32, ["n".into()]);
    let on = body.op("Identity", &[go], &[]);
    let next = step(&mut body, value);
    body.output("on", on);
    body.output("next", next);
    if gather {
        let kept = body.op("Identity", &[next], &[]);
        body.output("kept", kept);
    }
    body.finish()
}

fn looping(name: &str, iterations: i64, body: Graph, outputs: usize) -> Case {
    let mut graph = GraphBuilder::new("g", 17);
    let x = graph.input("x", DType::F32, ["n".into()]);
    let iterations = graph.constant(Tensor::scalar(iterations));
    let go = graph.constant(Tensor::scalar(BoolByte::from(true)));
    let made =
        graph.op_many("Loop", &[Some(iterations), Some(go), Some(x)], outputs, &[("body", Attr::Graph(body.into()))]);
    graph.output("y", made[outputs - 1]);
    case(name, graph, self::x())
}

/// `If` in `If`, `depth` levels deep.
fn branches(depth: usize) -> Case {
    let mut inner = GraphBuilder::new("leaf", 17);
    let one = inner.constant(Tensor::scalar(1f32));
    let made = inner.op("Neg", &[one], &[]);
    inner.output("r", made);
    let mut inner = inner.finish();
    for level in 0..depth {
        let mut outer = GraphBuilder::new("level", 17);
        let chosen = outer.constant(Tensor::scalar(BoolByte::from(level % 2 == 0)));
        let (yes, no) = (Attr::Graph(inner.clone().into()), Attr::Graph(leaf().into()));
        let made = outer.op("If", &[chosen], &[("then_branch", yes), ("else_branch", no)]);
        outer.output("r", made);
        inner = outer.finish();
    }
    Case { name: format!("If {depth} deep"), graph: inner, inputs: Vec::new() }
}

fn leaf() -> Graph {
    let mut leaf = GraphBuilder::new("leaf", 17);
    let one = leaf.constant(Tensor::scalar(1f32));
    let made = leaf.op("Abs", &[one], &[]);
    leaf.output("r", made);
    leaf.finish()
}

/// A value that is doubled again and again, by one node each time.
fn doubling(times: usize) -> Case {
    let mut graph = GraphBuilder::new("g", 17);
    let mut value = graph.input("x", DType::F32, ["n".into()]);
    for _ in 0..times {
        value = graph.op("Concat", &[value, value], &[("axis", 0.into())]);
    }
    graph.output("y", value);
    case(&format!("{times} doublings"), graph, x())
}

/// A long line of cheap nodes.
fn line(nodes: usize) -> Case {
    let mut graph = GraphBuilder::new("g", 17);
    let mut value = graph.input("x", DType::F32, ["n".into()]);
    for node in 0..nodes {
        value = graph.op(if node % 2 == 0 { "Relu" } else { "Transpose" }, &[value], &[]);
    }
    graph.output("y", value);
    case(&format!("{nodes} nodes in a line"), graph, x())
}

/// Constants that are folded to products with themselves.
fn folding() -> Case {
    let mut graph = GraphBuilder::new("g", 17);
    let shape = graph.constant(Tensor::from_slice([2], &[900i64, 900]).unwrap());
    let mut value = graph.op("ConstantOfShape", &[shape], &[]);
    for _ in 0..12 {
        value = graph.op("MatMul", &[value, value], &[]);
    }
    let kept = graph.op("ReduceSum", &[value], &[]);
    graph.output("y", kept);
    case("products that are folded", graph, Vec::new())
}

fn scan(name: &str, states: i64) -> Case {
    let mut body = GraphBuilder::new("body", 17);
    let state = body.input("s", DType::F32, ["n".into()]);
    let row = body.input("r", DType::F32, ["n".into()]);
    let sum = body.op("Add", &[state, row], &[]);
    body.output("t", sum);
    let copy = body.op("Identity", &[sum], &[]);
    body.output("u", copy);
    let mut graph = GraphBuilder::new("g", 17);
    let x = graph.input("x", DType::F32, ["n".into()]);
    let attrs = [("body", Attr::Graph(body.finish().into())), ("num_scan_inputs", Attr::Int(states))];
    let made = graph.op_many("Scan", &[Some(x), Some(x)], 2, &attrs);
    graph.output("y", made[1]);
    case(name, graph, self::x())
}

pub(crate) fn cases() -> Vec<Case> {
    let keep = |build: &mut GraphBuilder, value: ValueId| build.op("Neg", &[value], &[]);
    let double =
        |build: &mut GraphBuilder, value: ValueId| build.op("Concat", &[value, value], &[("axis", Attr::Int(0))]);
    vec![
        looping("a loop of 2^63 iterations", i64::MAX, body(keep, false), 1),
        looping("a loop of 2^63 iterations that gathers", i64::MAX, body(keep, true), 2),
        looping("a loop that doubles what it carries", 100, body(double, false), 1),
        looping("a loop that doubles and gathers", 100, body(double, true), 2),
        looping("a loop of -1 iterations", -1, body(keep, true), 2),
        looping("a loop with too many outputs", 3, body(keep, false), 5),
        branches(14),
        branches(20),
        branches(90),
        doubling(20),
        doubling(60),
        line(1200),
        folding(),
        scan("a scan over all of its inputs", 2),
        scan("a scan over more inputs than it has", 3),
        scan("a scan over -1 inputs", -1),
        scan("a scan over 2^63 inputs", i64::MAX),
    ]
}
