//! Each pass on small graphs: operators before, operators after.

mod attention;
mod bf16;
mod blockwise;
mod chains;
mod clean;
mod compact;
mod convolutions;
mod layouts;
mod matmuls;
mod parts;
mod quantized;

use kiln_tensor::DType;

use super::*;
use crate::GraphBuilder;
use crate::ir::{Dim, ValueId};

/// An evaluator for passes that do not fold.
fn nothing(_: &Graph, _: &NodeDesc, _: &[Option<Tensor>]) -> Option<Vec<Tensor>> {
    None
}

/// A builder with an input `x` of those dimensions; -1 is an unknown size, other negative ones are names.
fn with_x(dims: &[i64]) -> (GraphBuilder, ValueId) {
    let mut build = GraphBuilder::new("g", 17);
    let x = input(&mut build, "x", dims);
    (build, x)
}

fn input(build: &mut GraphBuilder, name: &str, dims: &[i64]) -> ValueId {
    let dims = dims.iter().map(|&dim| match usize::try_from(dim) {
        Ok(size) => Dim::Fixed(size),
        Err(_) if dim == -1 => Dim::Any,
        Err(_) => Dim::Named(format!("d{dim}")),
    });
    build.input(name, DType::F32, dims)
}

/// A constant of that shape with elements 0.5, 1.5, 2.5, ...
fn floats(build: &mut GraphBuilder, shape: &[usize]) -> ValueId {
    let count: usize = shape.iter().product();
    let values = (0..count).map(|i| i as f32 + 0.5).collect();
    build.constant(Tensor::from_vec(shape.iter().copied(), values).unwrap())
}

fn ints(build: &mut GraphBuilder, values: &[i64]) -> ValueId {
    build.constant(Tensor::from_vec([values.len()], values.to_vec()).unwrap())
}

fn scalar(build: &mut GraphBuilder, value: f32) -> ValueId {
    build.constant(Tensor::scalar(value))
}

/// The graph's operators in order, with what was fused into them.
fn ops(graph: &Graph) -> Vec<String> {
    graph.nodes.iter().map(op).collect()
}

fn op(node: &NodeDesc) -> String {
    let mut text = node.op.clone();
    if node.domain == "kiln" {
        let parts: &[(usize, &str)] = match node.op.as_str() {
            "Chain" | "LayoutChain" => &[],
            "FusedAttention" => &[(3, "mask"), (4, "condition")],
            _ => &[(2, "bias"), (3, "residual")],
        };
        for (_, part) in parts.iter().filter(|(index, _)| node.input(*index).is_some()) {
            text += &format!("+{part}");
        }
    }
    if let Some(Attr::Chain(program)) = node.attrs.get("activation") {
        text += &format!("+{:?}", program.as_unary().expect("an activation is one function"));
    }
    for flag in ["trans_a", "trans_b", "channels_last"] {
        if node.is_marked(flag) {
            text += &format!("+{flag}");
        }
    }
    text
}

/// The graph with the output `y` = `value`, rewritten by all passes.
fn optimised(build: GraphBuilder, value: ValueId) -> Graph {
    rewritten(build, value, &PassOptions::default())
}

/// The graph with the output `y` = `value`, rewritten by those passes only.
fn rewritten_by(build: GraphBuilder, value: ValueId, passes: &[&str]) -> Graph {
    let options = passes.iter().fold(PassOptions::none(), |options, pass| options.with(pass));
    rewritten(build, value, &options)
}

fn rewritten(mut build: GraphBuilder, value: ValueId, options: &PassOptions) -> Graph {
    build.output("y", value);
    let mut graph = build.finish();
    optimise_until(None, &mut graph, options, &nothing);
    let last = *graph.outputs.last().expect("an output");
    assert_eq!(graph.value(last).name, "y", "outputs keep their names");
    assert_eq!(verify(&graph), Ok(()));
    graph
}

#[test]
fn without_passes_a_graph_stays_as_it_is() {
    let (mut build, x) = with_x(&[2, 3]);
    let same = build.op("Identity", &[x], &[]);
    let unread = build.op("Abs", &[same], &[]);
    let y = build.op("Relu", &[same], &[]);
    let _ = unread;
    assert_eq!(ops(&rewritten(build, y, &PassOptions::none())), ["Identity", "Abs", "Relu"]);
}

#[test]
fn every_pass_has_a_name_that_turns_it_off() {
    let names = names();
    assert!(names.len() > 15 && names.contains(&"layout"));
    for name in names {
        assert!(PassOptions::default().is_on(name) && !PassOptions::default().without(name).is_on(name), "{name}");
        assert!(PassOptions::none().with(name).is_on(name), "{name}");
    }
}

#[test]
fn the_report_counts_what_was_done() {
    let (mut build, x) = with_x(&[2]);
    let a = build.op("Identity", &[x], &[]);
    let b = build.op("Identity", &[a], &[]);
    let y = build.op("Relu", &[b], &[]);
    build.output("y", y);
    let mut graph = build.finish();
    let report = optimise_until(None, &mut graph, &PassOptions::default(), &nothing);
    assert_eq!((report.nodes_before, report.nodes_after, report.changes("identity")), (3, 1, 2));
    assert_eq!(report.to_string(), "3 nodes became 1, identity 2");
}
