//! Models that programs build with the crate `ort`, and the errors of wrong ones.

use std::sync::OnceLock;

use ort::editor::{Graph, Model, Node, ONNX_DOMAIN, Opset};
use ort::environment::Environment;
use ort::memory::Allocator;
use ort::operator::Attribute;
use ort::session::Session;
use ort::session::builder::SessionBuilder;
use ort::value::{Outlet, Shape, SymbolicDimensions, Tensor, TensorElementType, ValueType};

/// The environment, on Kiln.
fn switch() -> &'static Environment {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        assert!(ort::set_api(kiln_ort::api()));
        ort::init().build().unwrap()
    })
}

fn builder() -> SessionBuilder {
    Session::builder(switch()).unwrap().with_intra_threads(1).unwrap()
}

/// An input or output of floats.
fn floats(name: &str, sizes: &[i64]) -> Outlet {
    let shape = Shape::new(sizes.iter().copied());
    let dimension_symbols = SymbolicDimensions::empty(sizes.len());
    Outlet::new(name, ValueType::Tensor { ty: TensorElementType::Float32, shape, dimension_symbols })
}

/// A tensor in memory of the interface's own.
fn constant(sizes: &[i64], values: &[f32]) -> Tensor<f32> {
    let mut tensor = Tensor::<f32>::new(&Allocator::default(), Shape::new(sizes.iter().copied())).unwrap();
    tensor.extract_tensor_mut().1.copy_from_slice(values);
    tensor
}

fn node<const N: usize>(op: &str, inputs: [&str; N], output: &str) -> Node {
    Node::new(op, ONNX_DOMAIN, op, inputs, [output], []).unwrap()
}

/// A graph from `x` to `y`, both of two floats, with an initialiser `w`.
fn graph(nodes: Vec<Node>) -> Graph {
    switch();
    let mut graph = Graph::new().unwrap();
    graph.set_inputs([floats("x", &[2])]).unwrap();
    graph.set_outputs([floats("y", &[2])]).unwrap();
    graph.add_initializer("w", constant(&[2], &[1.0, -5.0]), false).unwrap();
    for node in nodes {
        graph.add_node(node).unwrap();
    }
    graph
}

fn session(graph: Graph) -> ort::Result<Session> {
    let mut model = Model::new([Opset::new(ONNX_DOMAIN, 17).unwrap()])?;
    model.set_graph(graph)?;
    model.into_session(&builder())
}

fn run(session: &mut Session, x: [f32; 2]) -> Vec<f32> {
    let input = Tensor::from_array(([2usize], x.to_vec())).unwrap();
    let outputs = session.run(ort::inputs!["x" => input]).unwrap();
    outputs["y"].try_extract_tensor::<f32>().unwrap().1.to_vec()
}

#[test]
fn two_nodes_and_an_initialiser_are_a_model_in_any_order() {
    for is_reversed in [false, true] {
        let mut nodes = vec![node("Add", ["x", "w"], "sum"), node("Relu", ["sum"], "y")];
        if is_reversed {
            nodes.reverse();
        }
        let mut session = session(graph(nodes)).unwrap();
        assert_eq!(run(&mut session, [1.0, 2.0]), [2.0, 0.0]);
        assert_eq!(run(&mut session, [4.0, 7.0]), [5.0, 2.0]);
        assert_eq!(session.inputs().iter().map(|input| input.name()).collect::<Vec<_>>(), ["x"]);
        assert_eq!(session.opset_for_domain(ONNX_DOMAIN), Some(17));
        assert_eq!(session.opset_for_domain("com.microsoft"), None);
    }
}

#[test]
fn a_declared_rank_of_zero_takes_tensors_of_any_shape() {
    switch();
    let mut graph = Graph::new().unwrap();
    graph.set_inputs([floats("x", &[])]).unwrap();
    graph.set_outputs([floats("y", &[])]).unwrap();
    graph.add_node(node("Identity", ["x"], "y")).unwrap();
    let mut session = session(graph).unwrap();
    assert_eq!(run(&mut session, [3.0, 4.0]), [3.0, 4.0]);
}

#[test]
fn attributes_reach_their_operator() {
    switch();
    let softmax = |axis: i64| {
        let attributes = [Attribute::new("axis", axis).unwrap()];
        graph(vec![Node::new("Softmax", ONNX_DOMAIN, "softmax", ["x"], ["y"], attributes).unwrap()])
    };
    assert_eq!(run(&mut session(softmax(0)).unwrap(), [1.0, 1.0]), [0.5, 0.5]);
    let error =
        session(softmax(3)).map(|mut session| run_error(&mut session)).unwrap_or_else(|error| error.to_string());
    assert!(error.contains("softmax") && error.contains("axis"), "{error}");
}

/// The error of a run that fails.
fn run_error(session: &mut Session) -> String {
    let input = Tensor::from_array(([2usize], vec![1f32, 2.0])).unwrap();
    session.run(ort::inputs!["x" => input]).map(drop).unwrap_err().to_string()
}

#[test]
fn an_external_initialiser_is_read_like_a_copied_one() {
    for is_external in [false, true] {
        switch();
        let mut graph = Graph::new().unwrap();
        graph.set_inputs([floats("x", &[1, 64])]).unwrap();
        graph.set_outputs([floats("y", &[1, 2])]).unwrap();
        graph.add_initializer("w", constant(&[64, 2], &[0.5; 128]), is_external).unwrap();
        graph.add_node(node("MatMul", ["x", "w"], "y")).unwrap();
        let mut session = session(graph).unwrap();
        let input = Tensor::from_array(([1usize, 64], vec![1f32; 64])).unwrap();
        let outputs = session.run(ort::inputs!["x" => input]).unwrap();
        assert_eq!(outputs["y"].try_extract_tensor::<f32>().unwrap().1, [32.0, 32.0]);
    }
}

#[test]
fn an_input_with_an_initialiser_of_its_name_has_a_default() {
    switch();
    let mut graph = Graph::new().unwrap();
    graph.set_inputs([floats("x", &[2]), floats("w", &[2])]).unwrap();
    graph.set_outputs([floats("y", &[2])]).unwrap();
    graph.add_initializer("w", constant(&[2], &[10.0, 20.0]), false).unwrap();
    graph.add_node(node("Add", ["x", "w"], "y")).unwrap();
    let mut session = session(graph).unwrap();
    assert_eq!(session.inputs().len(), 1);
    assert_eq!(run(&mut session, [1.0, 2.0]), [11.0, 22.0]);
    let [x, w] = [[1f32, 2.0], [3.0, 4.0]].map(|values| Tensor::from_array(([2usize], values.to_vec())).unwrap());
    let outputs = session.run(ort::inputs!["x" => x, "w" => w]).unwrap();
    assert_eq!(outputs["y"].try_extract_tensor::<f32>().unwrap().1, [4.0, 6.0]);
}

#[test]
fn wrong_graphs_are_refused_with_what_is_wrong_and_where() {
    let two = |first, second| vec![first, second];
    let other_domain = || Node::new("Gelu", "no.domain", "gelu", ["x"], ["y"], []).unwrap();
    let attribute = || {
        let attributes = [Attribute::new("axis", "last".to_owned()).unwrap()];
        Node::new("Softmax", ONNX_DOMAIN, "softmax", ["x"], ["y"], attributes).unwrap()
    };
    switch();
    let cases = [
        ("an unknown operator", vec![node("Relux", ["x"], "y")], ["Relux", "version 17"]),
        ("an unknown domain", vec![other_domain()], ["no.domain.Gelu", "not supported"]),
        ("a value that is made nowhere", vec![node("Relu", ["z"], "y")], ["\"z\"", "Relu"]),
        ("an output that is made nowhere", vec![node("Relu", ["x"], "z")], ["\"y\"", "outputs"]),
        ("a value that is made twice", two(node("Relu", ["x"], "y"), node("Abs", ["x"], "y")), ["\"y\"", "value"]),
        (
            "an output that is an initialiser's name",
            two(node("Relu", ["x"], "w"), node("Abs", ["w"], "y")),
            ["\"w\"", ""],
        ),
        ("a cycle", two(node("Add", ["x", "y"], "a"), node("Relu", ["a"], "y")), ["Add", "cycle"]),
        ("an attribute of another type", vec![attribute()], ["softmax", "axis"]),
        ("inputs that are missing", vec![Node::new("Add", ONNX_DOMAIN, "sum", ["x"], ["y"], []).unwrap()], ["sum", ""]),
    ];
    let mut others = Vec::new();
    for (what, nodes, words) in cases {
        let error = session(graph(nodes)).map(drop).expect_err(what).to_string();
        if !words.iter().all(|word| error.contains(word)) {
            others.push(format!("{what}: {error}"));
        }
    }
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn wrong_models_are_refused() {
    switch();
    let model = |domain: &str, version| Model::new([Opset::new(domain, version).unwrap()]).unwrap();
    let error = model(ONNX_DOMAIN, 17).into_session(&builder()).map(drop).unwrap_err().to_string();
    assert!(error.contains("the model has no graph"), "{error}");
    let relu = || graph(vec![node("Relu", ["x"], "y")]);
    let mut other = model("com.microsoft", 1);
    other.set_graph(relu()).unwrap();
    let error = other.into_session(&builder()).map(drop).unwrap_err().to_string();
    assert!(error.contains("imports no operator set"), "{error}");
    let mut new = model(ONNX_DOMAIN, 99);
    new.set_graph(relu()).unwrap();
    let error = new.into_session(&builder()).map(drop).unwrap_err().to_string();
    assert!(error.contains("99"), "{error}");
}
