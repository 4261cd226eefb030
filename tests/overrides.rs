//! Initialisers that a model also lists as inputs: constants that a request may replace.

use kiln::session::{Session, SessionError, SessionOptions};
use kiln_model::ir::{Attr, Dim, Graph};
use kiln_model::onnx;
use kiln_model::{GraphBuilder, ValueId};
use kiln_tensor::{DType, Tensor};

fn floats(shape: &[usize], values: impl Iterator<Item = f32> + Clone) -> Tensor {
    let count = shape.iter().product();
    Tensor::from_vec(shape.iter().copied(), values.cycle().take(count).collect()).unwrap()
}

fn numbers(from: i32, to: i32) -> impl Iterator<Item = f32> + Clone {
    (from..to).map(|value| value as f32)
}

/// An input with a default.
fn default(build: &mut GraphBuilder, name: &str, tensor: &Tensor) -> ValueId {
    let dims: Vec<Dim> = tensor.shape().iter().map(|_| Dim::Any).collect();
    build.input(name, tensor.dtype(), dims)
}

/// The graph, with those tensors as the defaults of its inputs with those names.
fn with_defaults(build: GraphBuilder, defaults: &[(&str, &Tensor)]) -> Graph {
    let mut graph = build.finish();
    for (name, tensor) in defaults {
        let id = *graph.inputs.iter().find(|id| graph.value(**id).name == *name).unwrap();
        let declared = graph.value(id).dims.clone();
        graph.set_constant(id, (*tensor).clone());
        graph.values[id.index()].dims = declared;
    }
    graph
}

/// x -> Conv by weights -> Add of a summand -> Reshape; all but x have defaults.
fn layers() -> (Graph, Vec<(&'static str, Tensor)>) {
    let weights = floats(&[4, 3, 3, 3], numbers(-3, 4));
    let summand = floats(&[1, 4, 1, 1], numbers(0, 4));
    let shape = Tensor::from_slice([2], &[4i64, -1]).unwrap();
    let mut build = GraphBuilder::new("defaults", 17);
    let x = build.input("x", DType::F32, [1.into(), 3.into(), "h".into(), "w".into()]);
    let [w, s, to] =
        [("w", &weights), ("s", &summand), ("to", &shape)].map(|(name, tensor)| default(&mut build, name, tensor));
    let filtered = build.op("Conv", &[x, w], &[("pads", [1, 1, 1, 1].into())]);
    let moved = build.op("Add", &[filtered, s], &[]);
    let shaped = build.op("Reshape", &[moved, to], &[]);
    build.output("y", shaped);
    let graph = with_defaults(build, &[("w", &weights), ("s", &summand), ("to", &shape)]);
    (graph, vec![("w", weights), ("s", summand), ("to", shape)])
}

/// The outputs of a session that has those values as constants.
fn as_constants(values: &[(&str, Tensor)], x: &Tensor) -> Tensor {
    let (mut graph, _) = layers();
    for (name, tensor) in values {
        let id = *graph.inputs.iter().find(|id| graph.value(**id).name == *name).unwrap();
        graph.set_constant(id, tensor.clone());
    }
    let session = Session::from_graph(graph, &options()).unwrap();
    session.run(&[("x", x.clone())]).unwrap().remove(0).1
}

fn options() -> SessionOptions {
    SessionOptions { threads: 1, ..SessionOptions::default() }
}

#[test]
fn what_a_request_gives_counts_and_the_rest_are_defaults() {
    let (graph, _) = layers();
    let bytes = onnx::write(&graph).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let other_weights = ("w", floats(&[4, 3, 3, 3], numbers(-2, 3)));
    let other_summand = ("s", floats(&[1, 4, 1, 1], numbers(10, 13)));
    let other_shape = ("to", Tensor::from_slice([3], &[2i64, 2, -1]).unwrap());
    let requests: Vec<Vec<(&str, Tensor)>> = vec![
        vec![],
        vec![other_weights.clone()],
        vec![],
        vec![other_shape.clone()],
        vec![other_summand.clone(), other_shape.clone()],
        vec![other_weights.clone()],
        vec![other_weights, other_summand, other_shape],
        vec![("s", floats(&[1, 1, 1, 1], numbers(7, 8)))],
        vec![],
    ];
    let sessions = [
        Session::from_graph(graph, &options()).unwrap(),
        Session::load_bytes(bytes, &options()).unwrap(),
        Session::load(file.path(), &options()).unwrap(),
    ];
    for session in &sessions {
        assert!(session.inputs()[1..].iter().all(|port| port.has_default) && !session.inputs()[0].has_default);
        for request in &requests {
            // Two shapes and the first one again, so that plans are made and found.
            for size in [4, 6, 4] {
                let x = floats(&[1, 3, size, size], numbers(-5, 6));
                let given: Vec<(&str, Tensor)> = request.iter().cloned().chain([("x", x.clone())]).collect();
                let found = session.run(&given).unwrap().remove(0).1;
                assert!(found.same(&as_constants(request, &x)), "{request:?} at {size}");
            }
        }
    }
}

#[test]
fn weights_in_a_file_are_read_once_more_when_another_default_is_replaced() {
    let weights = floats(&[256, 256], numbers(-9, 10));
    let mut build = GraphBuilder::new("large", 17);
    let x = build.input("x", DType::F32, ["n".into(), 256.into()]);
    let [w, s] = ["w", "s"].map(|name| build.input(name, DType::F32, [Dim::Any, Dim::Any]));
    let product = build.op("MatMul", &[x, w], &[]);
    let sum = build.op("Add", &[product, s], &[]);
    build.output("y", sum);
    let summand = floats(&[1, 256], numbers(0, 3));
    let graph = with_defaults(build, &[("w", &weights), ("s", &summand)]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), onnx::write(&graph).unwrap()).unwrap();
    let session = Session::load(file.path(), &options()).unwrap();
    let x = floats(&[2, 256], numbers(-2, 3));
    let run = |s: Option<f32>| {
        let mut given = vec![("x", x.clone())];
        given.extend(s.map(|s| ("s", floats(&[1, 256], std::iter::once(s)))));
        session.run(&given).map(|mut outputs| outputs.remove(0).1)
    };
    let zero = run(Some(0.0)).unwrap();
    let five = run(Some(5.0)).unwrap();
    for (zero, five) in zero.as_slice::<f32>().unwrap().iter().zip(five.as_slice::<f32>().unwrap()) {
        assert_eq!(zero + 5.0, *five);
    }
    let defaults = run(None).unwrap();
    let first = defaults.as_slice::<f32>().unwrap()[2] - zero.as_slice::<f32>().unwrap()[2];
    assert_eq!(first, 2.0);
    // A file that has lost its weights is an error for the requests that need them, and for no others.
    let session = Session::load(file.path(), &options()).unwrap();
    file.as_file().set_len(100).unwrap();
    let refused = session.run(&[("x", x.clone()), ("s", summand.clone())]).unwrap_err();
    assert!(matches!(refused, SessionError::Model(onnx::ModelError::Io { .. })), "{refused}");
    let kept = session.run(&[("x", x)]).unwrap().remove(0).1;
    assert!(kept.same(&defaults));
}

#[test]
fn bodies_see_what_a_request_gives_and_their_own_constants() {
    // y = x after three iterations of `v * factor + 1`; the factor comes from outside and has a default.
    let mut body = GraphBuilder::new("body", 17);
    let _iteration = body.input("iteration", DType::I64, []);
    let go = body.input("go", DType::Bool, []);
    let v = body.input("v", DType::F32, [2.into()]);
    let factor = body.input("factor", DType::F32, [Dim::Any]);
    let one = body.constant(Tensor::scalar(1f32));
    let scaled = body.op("Mul", &[v, factor], &[]);
    let moved = body.op("Add", &[scaled, one], &[]);
    let still = body.op("Identity", &[go], &[]);
    body.output("still", still);
    body.output("moved", moved);
    let mut build = GraphBuilder::new("loop", 17);
    let x = build.input("x", DType::F32, [2.into()]);
    let two = floats(&[1], std::iter::once(2.0));
    let factor = default(&mut build, "factor", &two);
    let iterations = build.constant(Tensor::scalar(3i64));
    let attrs = [("body", Attr::Graph(std::sync::Arc::new(body.finish())))];
    let made = build.op_with_bodies("Loop", &[Some(iterations), None, Some(x)], &[factor], 1, &attrs);
    build.output("y", made[0]);
    let session = Session::from_graph(with_defaults(build, &[("factor", &two)]), &options()).unwrap();
    let run = |given: &[(&str, Tensor)]| {
        let x = ("x", floats(&[2], numbers(0, 2)));
        let given: Vec<_> = given.iter().cloned().chain([x]).collect();
        session.run(&given).unwrap().remove(0).1.as_slice::<f32>().unwrap().to_vec()
    };
    assert_eq!(run(&[]), [7.0, 15.0]);
    assert_eq!(run(&[("factor", floats(&[1], std::iter::once(3.0)))]), [13.0, 40.0]);
    assert_eq!(run(&[]), [7.0, 15.0]);
}

#[test]
fn what_does_not_fit_the_declaration_is_refused() {
    let (graph, _) = layers();
    let session = Session::from_graph(graph, &options()).unwrap();
    let x = ("x", floats(&[1, 3, 4, 4], numbers(0, 5)));
    for wrong in [floats(&[4], numbers(0, 1)), Tensor::from_slice([1, 1, 1, 1], &[1i64]).unwrap()] {
        let refused = session.run(&[x.clone(), ("s", wrong)]).unwrap_err();
        assert!(matches!(refused, SessionError::Input { .. }), "{refused}");
    }
    let wide = floats(&[4, 5, 3, 3], numbers(0, 3));
    assert!(matches!(session.run(&[x, ("w", wide)]), Err(SessionError::Run(_))));
}

/// Two inputs that share a name for their dimension, joined and summed: passes prove by the name that the sum needs no
/// broadcast.
fn of_one_name(constants: usize) -> Graph {
    let mut build = GraphBuilder::new("named", 17);
    let (x, y) = (build.input("x", DType::F32, ["rows".into()]), build.input("y", DType::F32, ["rows".into()]));
    let both = build.op("Concat", &[x, y], &[("axis", 0.into())]);
    let shape = build.op("Shape", &[x], &[]);
    // A row of x's size for each element of y.
    let column = build.constant(Tensor::from_vec([2], vec![-1i64, 1]).unwrap());
    let column = build.op("Reshape", &[y, column], &[]);
    let table = build.op("Expand", &[column, shape], &[]);
    let weights = build.constant(floats(&[1, constants], numbers(0, 3)));
    let column = build.constant(Tensor::from_vec([2], vec![-1i64, 1]).unwrap());
    let joined = build.op("Reshape", &[both, column], &[]);
    let wide = build.op("MatMul", &[joined, weights], &[]);
    build.output("both", both);
    build.output("table", table);
    build.output("wide", wide);
    build.finish()
}

fn rows(count: usize) -> Tensor {
    floats(&[count], numbers(1, 9))
}

#[test]
fn dimensions_of_one_name_that_differ_are_served_without_the_name() {
    let graph = of_one_name(4);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), onnx::write(&graph).unwrap()).unwrap();
    let loaded = Session::load(file.path(), &options()).unwrap();
    for session in [loaded, Session::from_graph(graph, &options()).unwrap()] {
        // Equal, different, and again.
        for (a, b) in [(3, 3), (3, 5), (5, 3), (1, 4), (3, 5), (3, 3), (0, 2)] {
            let outputs = session.run(&[("x", rows(a)), ("y", rows(b))]).unwrap();
            let shapes: Vec<&[usize]> = outputs.iter().map(|(_, tensor)| tensor.shape()).collect();
            assert_eq!(shapes, [&[a + b][..], &[b, a], &[a + b, 4]], "{a} and {b}");
            let table = outputs[1].1.as_slice::<f32>().unwrap();
            let y = rows(b);
            let expected: Vec<f32> = y.as_slice::<f32>().unwrap().iter().flat_map(|&y| vec![y; a]).collect();
            assert_eq!(table, expected, "{a} and {b}");
        }
    }
}

#[test]
fn dimensions_of_one_name_that_differ_are_refused_by_name_where_no_graph_is_kept() {
    // Weights of more than 16 MiB, from memory.
    let session = Session::from_graph(of_one_name(5 << 20), &options()).unwrap();
    session.run(&[("x", rows(1)), ("y", rows(1))]).unwrap();
    let refused = session.run(&[("y", rows(2)), ("x", rows(3))]).unwrap_err();
    let SessionError::Dimension { name, first, second } = &refused else { panic!("{refused}") };
    assert_eq!((name.as_str(), first, second), ("rows", &("x".to_owned(), 0, 3), &("y".to_owned(), 0, 2)));
    assert_eq!(refused.to_string(), "dimension 'rows' is 3 in input 'x' (axis 0) and 2 in input 'y' (axis 0)");
    session.run(&[("x", rows(1)), ("y", rows(1))]).unwrap();
}
