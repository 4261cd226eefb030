//! Networks of 16 bits are computed as the same networks in `f32`: the bits are the same once outputs have been
//! rounded, whatever nodes are between.

use half::{bf16, f16};
use kiln::session::{Session, SessionOptions};
use kiln_model::ir::{Attr, ValueId};
use kiln_model::passes::{PassOptions, optimise_until};
use kiln_model::{Graph, GraphBuilder};
use kiln_tensor::{DType, Tensor};

/// Numbers that fit in 16 bits.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7919 + seed * 104_729) % 61) as f32 / 32.0 - 1.0).collect()
}

fn tensor(dtype: DType, shape: &[usize], numbers: &[f32]) -> Tensor {
    let shape = shape.iter().copied();
    match dtype {
        DType::F16 => Tensor::from_vec(shape, numbers.iter().map(|&number| f16::from_f32(number)).collect()),
        DType::BF16 => Tensor::from_vec(shape, numbers.iter().map(|&number| bf16::from_f32(number)).collect()),
        _ => Tensor::from_vec(shape, numbers.to_vec()),
    }
    .unwrap()
}

/// A block of a transformer with an embedding in front of it: a table, a normalisation, products, an activation, a
/// residual, a mask, and a value that two nodes read.
fn network(dtype: DType) -> Graph {
    let mut build = GraphBuilder::new("block", 20);
    let ids = build.input("ids", DType::I64, ["n".into()]);
    let extra = build.input("extra", dtype, ["n".into(), 32.into()]);
    let constant = |build: &mut GraphBuilder, shape: &[usize], seed: usize| {
        let count = shape.iter().product();
        build.constant(tensor(dtype, shape, &numbers(count, seed)))
    };
    let table = constant(&mut build, &[50, 32], 1);
    let x = build.op("Gather", &[table, ids], &[("axis", Attr::Int(0))]);
    let x = build.op("Add", &[x, extra], &[]);
    let (scale, bias) = (constant(&mut build, &[32], 2), constant(&mut build, &[32], 3));
    let normal = build.op("LayerNormalization", &[x, scale, bias], &[("axis", Attr::Int(-1))]);
    let (up, down) = (constant(&mut build, &[32, 48], 4), constant(&mut build, &[48, 32], 5));
    let hidden: ValueId = build.op("MatMul", &[normal, up], &[]);
    let hidden = build.op("Tanh", &[hidden], &[]);
    let folded = build.op("MatMul", &[hidden, down], &[]);
    let y = build.op("Add", &[folded, x], &[]);
    let zero = constant(&mut build, &[1], 6);
    let mask = build.op("Greater", &[extra, zero], &[]);
    let masked = build.op("Where", &[mask, y, zero], &[]);
    build.output("masked", masked);
    build.output("hidden", hidden);
    build.finish()
}

fn outputs(dtype: DType, passes: PassOptions, rows: usize) -> Vec<Tensor> {
    let session =
        Session::from_graph(network(dtype), &SessionOptions { threads: 2, passes, ..SessionOptions::default() });
    let ids = Tensor::from_vec([rows], (0..rows).map(|row| (row * 7 % 50) as i64).collect()).unwrap();
    let extra = tensor(dtype, &[rows, 32], &numbers(rows * 32, 9));
    let outputs = session.unwrap().run(&[("ids", ids), ("extra", extra)]).unwrap();
    outputs.into_iter().map(|(_, tensor)| tensor).collect()
}

/// The numbers of a tensor of 16 bits, or those of `f32` rounded to that type.
fn rounded(dtype: DType, tensor: &Tensor) -> Vec<f32> {
    let round = |number: f32| match dtype {
        DType::F16 => f16::from_f32(number).to_f32(),
        _ => bf16::from_f32(number).to_f32(),
    };
    match tensor.dtype() {
        DType::F16 => tensor.as_slice::<f16>().unwrap().iter().map(|number| number.to_f32()).collect(),
        DType::BF16 => tensor.as_slice::<bf16>().unwrap().iter().map(|number| number.to_f32()).collect(),
        _ => tensor.as_slice::<f32>().unwrap().iter().map(|&number| round(number)).collect(),
    }
}

#[test]
fn outputs_are_those_of_the_network_in_f32_rounded_once() {
    for dtype in [DType::F16, DType::BF16] {
        for rows in [1, 5, 40] {
            let narrow = outputs(dtype, PassOptions::default(), rows);
            let wide = outputs(DType::F32, PassOptions::default(), rows);
            for (narrow, wide) in narrow.iter().zip(&wide) {
                assert_eq!(narrow.dtype(), dtype);
                let (found, expected) = (rounded(dtype, narrow), rounded(dtype, wide));
                // Panels of 16 bits split a reduction into other parts, so sums may be grouped in another way.
                let step = if dtype == DType::F16 { 1e-3 } else { 8e-3 };
                let near = |a: f32, b: f32| (a - b).abs() <= step * a.abs().max(b.abs()) + 1e-6;
                assert!(found.iter().zip(&expected).all(|(&a, &b)| near(a, b)), "{dtype} {rows}");
            }
        }
    }
}

#[test]
fn conversions_stand_at_the_edges_alone() {
    let mut graph = network(DType::F16);
    optimise_until(None, &mut graph, &PassOptions::none().with("widen").with("dead"), &|_, _, _| None);
    let count = |op: &str| graph.nodes.iter().filter(|node| node.op == op).count();
    // Casts of the inputs: the rows of the table, and the caller's values, which a comparison reads as they are. Casts
    // of two outputs.
    assert_eq!((count("Cast"), count("Gather"), count("Greater")), (4, 1, 1));
    let cast = graph.nodes.iter().filter(|node| node.op == "Cast");
    let to_f32 = cast.filter(|node| matches!(node.attrs.get("to"), Some(Attr::Int(1)))).count();
    assert_eq!(to_f32, 2);
}

#[test]
fn nothing_is_converted_beside_a_value_of_unknown_type() {
    let mut build = GraphBuilder::new("unknown", 20);
    let x = build.input("x", DType::F16, ["n".into()]);
    let exact = build.op("Exp", &[x], &[]);
    let unknown = build.op("Mystery", &[x], &[]);
    let sum = build.op("Add", &[exact, unknown], &[]);
    let y = build.op("Relu", &[sum], &[]);
    let z = build.op("Tanh", &[exact], &[]);
    build.output("y", y);
    build.output("z", z);
    let mut graph = build.finish();
    let sum = |graph: &Graph| graph.nodes.iter().find(|node| node.op == "Add").unwrap().inputs.clone();
    let before = sum(&graph);
    optimise_until(None, &mut graph, &PassOptions::none().with("widen").with("dead"), &|_, _, _| None);
    assert_eq!(sum(&graph), before);
    assert!(graph.nodes.iter().any(|node| node.op == "Cast"), "the others are converted");
}

#[test]
fn a_node_alone_stays_as_it_is() {
    let mut build = GraphBuilder::new("alone", 20);
    let x = build.input("x", DType::F16, ["n".into()]);
    let y = build.op("Relu", &[x], &[]);
    build.output("y", y);
    let mut graph = build.finish();
    optimise_until(None, &mut graph, &PassOptions::none().with("widen"), &|_, _, _| None);
    let operators: Vec<&str> = graph.nodes.iter().map(|node| node.op.as_str()).collect();
    assert_eq!(operators, ["Relu"]);
}
