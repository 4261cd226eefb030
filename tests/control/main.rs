//! Control flow: bodies give the same as their nodes written out, keep their executors from one iteration to the next,
//! and stop where a request has used all that it may have.

mod ending;

use std::time::{Duration, Instant};

use kiln::session::{Session, SessionError, SessionOptions};
use kiln_model::ir::{Attr, Graph};
use kiln_model::passes::PassOptions;
use kiln_model::{GraphBuilder, ValueId};
use kiln_run::{LoopLimits, NodeError, RunError};
use kiln_tensor::{BoolByte, DType, Tensor};

fn session_with(graph: Graph, change: impl FnOnce(&mut SessionOptions)) -> Session {
    let mut options = SessionOptions { threads: 1, ..SessionOptions::default() };
    change(&mut options);
    Session::from_graph(graph, &options).expect("the graph is supported")
}

fn session(graph: Graph) -> Session {
    session_with(graph, |_| {})
}

fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_slice(shape.iter().copied(), values).expect("the row is well formed")
}

fn boolean(value: bool) -> Tensor {
    Tensor::scalar(BoolByte::from(value))
}

/// A body of a loop. `make` gets the iteration's number, the carried values and the captured ones; it returns the
/// values carried on and those gathered.
fn loop_body(
    carried: usize,
    captured: usize,
    make: impl FnOnce(&mut GraphBuilder, ValueId, &[ValueId], &[ValueId]) -> Vec<ValueId>,
) -> Attr {
    let mut body = GraphBuilder::new("body", 17);
    let iteration = body.input("iteration", DType::I64, []);
    let again = body.input("again", DType::Bool, []);
    let values = |body: &mut GraphBuilder, kind: &str, count: usize| -> Vec<ValueId> {
        (0..count).map(|i| body.input(&format!("{kind}{i}"), DType::F32, ["any".into()])).collect()
    };
    let carried = values(&mut body, "carried", carried);
    let captured = values(&mut body, "captured", captured);
    let made = make(&mut body, iteration, &carried, &captured);
    let again = body.op("Identity", &[again], &[]);
    body.output("again_out", again);
    for (index, value) in made.into_iter().enumerate() {
        body.output_of(&format!("made{index}"), value, DType::F32, ["any".into()]);
    }
    body.finish().into()
}

/// `count` iterations of a body over `x`, with `weights` captured. There are `outputs` outputs.
fn looped(count: Option<i64>, outputs: usize, body: Attr, captured: &[Tensor]) -> Graph {
    let mut build = GraphBuilder::new("looped", 17);
    let x = build.input("x", DType::F32, ["n".into()]);
    let count = count.map(|count| build.constant(Tensor::scalar(count)));
    let captured: Vec<ValueId> = captured.iter().map(|tensor| build.constant(tensor.clone())).collect();
    let made = build.op_with_bodies("Loop", &[count, None, Some(x)], &captured, outputs, &[("body", body)]);
    for (index, value) in made.into_iter().enumerate() {
        build.output(&format!("y{index}"), value);
    }
    build.finish()
}

#[test]
fn a_branch_is_chosen_by_the_condition_and_reads_what_is_around_it() {
    let branch = |op: &str| -> Attr {
        let mut body = GraphBuilder::new(op, 17);
        let x = body.input("x", DType::F32, ["n".into()]);
        let offset = body.input("offset", DType::F32, []);
        let y = body.op(op, &[x, offset], &[]);
        body.output("y", y);
        body.finish().into()
    };
    let mut build = GraphBuilder::new("branches", 17);
    let condition = build.input("condition", DType::Bool, []);
    let x = build.input("x", DType::F32, ["n".into()]);
    let offset = build.constant(Tensor::scalar(10.0f32));
    let bodies = [("then_branch", branch("Add")), ("else_branch", branch("Mul"))];
    let y = build.op_with_bodies("If", &[Some(condition)], &[x, offset], 1, &bodies)[0];
    let y = build.op("Neg", &[y], &[]);
    build.output("y", y);
    let graph = build.finish();
    for passes in [PassOptions::default(), PassOptions::none()] {
        let session = session_with(graph.clone(), |options| options.passes = passes);
        for (condition, values, expected) in
            [(true, vec![1.0, 2.0], vec![-11.0, -12.0]), (false, vec![1.0, 2.0, 3.0], vec![-10.0, -20.0, -30.0])]
        {
            let x = floats(&[values.len()], &values);
            let outputs = session.run(&[("condition", boolean(condition)), ("x", x)]).unwrap();
            assert_eq!(outputs[0].1.as_slice::<f32>().unwrap(), expected);
        }
    }
}

#[test]
fn a_loop_carries_and_gathers_and_may_make_no_iteration() {
    let body = || {
        loop_body(1, 1, |body, _, carried, captured| {
            let next = body.op("Mul", &[carried[0], captured[0]], &[]);
            let seen = body.op("Neg", &[next], &[]);
            vec![next, seen]
        })
    };
    let weights = floats(&[2], &[2.0, 3.0]);
    let x = floats(&[2], &[1.0, 1.0]);
    let outputs = session(looped(Some(3), 2, body(), std::slice::from_ref(&weights))).run(&[("x", x.clone())]).unwrap();
    assert_eq!(outputs[0].1.as_slice::<f32>().unwrap(), [8.0, 27.0]);
    assert_eq!(outputs[1].1.shape(), [3, 2]);
    assert_eq!(outputs[1].1.as_slice::<f32>().unwrap(), [-2.0, -3.0, -4.0, -9.0, -8.0, -27.0]);
    for none in [0, -1, i64::MIN] {
        let graph = looped(Some(none), 2, body(), std::slice::from_ref(&weights));
        let outputs = session(graph).run(&[("x", x.clone())]).unwrap();
        assert_eq!(outputs[0].1.as_slice::<f32>().unwrap(), [1.0, 1.0]);
        assert_eq!(outputs[1].1.shape(), [0, 2], "nothing of what an iteration would have made with two weights");
    }
}

#[test]
fn the_number_and_the_condition_have_the_ranks_that_the_body_declares() {
    // As spox writes its bodies: one element each, which the node's scalar condition becomes.
    for rank in [0, 1] {
        let one = || std::iter::repeat_n(1.into(), rank);
        let mut body = GraphBuilder::new("body", 17);
        let iteration = body.input("iteration", DType::I64, one());
        let again = body.input("again", DType::Bool, one());
        let numbers = body.op("Identity", &[iteration], &[]);
        let flags = body.op("Not", &[again], &[]);
        let again = body.op("Identity", &[again], &[]);
        body.output("again_out", again);
        body.output_of("numbers", numbers, DType::I64, one());
        body.output_of("flags", flags, DType::Bool, one());
        let mut build = GraphBuilder::new("ranks", 17);
        let count = build.input("count", DType::I64, []);
        let condition = build.input("condition", DType::Bool, []);
        let bodies = [("body", body.finish().into())];
        let made = build.op_with_bodies("Loop", &[Some(count), Some(condition)], &[], 2, &bodies);
        build.output("numbers", made[0]);
        build.output("flags", made[1]);
        let session = session(build.finish());
        let outputs = session.run(&[("count", Tensor::scalar(3i64)), ("condition", boolean(true))]).unwrap();
        let shape = [3, 1];
        assert_eq!(outputs[0].1.shape(), &shape[..=rank]);
        assert_eq!(outputs[0].1.as_slice::<i64>().unwrap(), [0, 1, 2]);
        assert_eq!(outputs[1].1.shape(), &shape[..=rank]);
    }
}

#[test]
fn what_no_iteration_gathers_has_the_shape_that_the_body_would_have_given_it() {
    // Outputs without declarations: numbers for columns, rows of captured weights, values carried.
    let mut body = GraphBuilder::new("body", 17);
    let _iteration = body.input("iteration", DType::I64, []);
    let go = body.input("go", DType::Bool, []);
    let carried = body.input("carried", DType::F32, ["any".into()]);
    let captured = body.input("captured", DType::F32, ["any".into(), "other".into()]);
    let row = body.constant(floats(&[3], &[1.0, 2.0, 3.0]));
    let row = body.op("Neg", &[row], &[]);
    let transposed = body.op("Transpose", &[captured], &[]);
    let flags = body.op("IsNaN", &[row], &[]);
    let kept = body.op("Identity", &[carried], &[]);
    let go = body.op("Identity", &[go], &[]);
    for (name, value) in [("go", go), ("kept", kept), ("row", row), ("transposed", transposed), ("flags", flags)] {
        body.output(name, value);
    }
    let seen = body.op("Exp", &[carried], &[]);
    body.output("seen", seen);
    let body: Attr = body.finish().into();
    for iterations in [0, 2] {
        let graph = looped(Some(iterations), 5, body.clone(), &[floats(&[2, 4], &[0.5; 8])]);
        for passes in [PassOptions::default(), PassOptions::none()] {
            let session = session_with(graph.clone(), |options| options.passes = passes);
            let outputs = session.run(&[("x", floats(&[1], &[7.0]))]).unwrap();
            let specs: Vec<(DType, Vec<usize>)> =
                outputs.iter().map(|(_, tensor)| (tensor.dtype(), tensor.shape().to_vec())).collect();
            let iterations = iterations as usize;
            // For a carried value the body declares the rank and no sizes.
            let last = vec![iterations, iterations.min(1)];
            let expected = [
                (DType::F32, vec![1]),
                (DType::F32, vec![iterations, 3]),
                (DType::F32, vec![iterations, 4, 2]),
                (DType::Bool, vec![iterations, 3]),
                (DType::F32, last),
            ];
            assert_eq!(specs, expected, "{iterations} iterations");
        }
    }
}

#[test]
fn a_scan_of_nothing_gathers_nothing() {
    let mut body = GraphBuilder::new("body", 17);
    let sum = body.input("sum", DType::F32, [2.into()]);
    let slice = body.input("slice", DType::F32, [2.into()]);
    let next = body.op("Add", &[sum, slice], &[]);
    let seen = body.op("Neg", &[slice], &[]);
    body.output("next", next);
    body.output("seen", seen);
    let body: Attr = body.finish().into();
    for (axis, out) in [(0i64, 0i64), (1, 1), (1, -1), (-1, 0)] {
        let mut build = GraphBuilder::new("scanned", 17);
        let (rows, columns) = if axis == 0 { ("n".into(), 2.into()) } else { (2.into(), "n".into()) };
        let x = build.input("x", DType::F32, [rows, columns]);
        let start = build.constant(floats(&[2], &[5.0, 6.0]));
        let attrs = [
            ("body", body.clone()),
            ("num_scan_inputs", 1.into()),
            ("scan_input_axes", Attr::Ints(vec![axis])),
            ("scan_output_axes", Attr::Ints(vec![out])),
        ];
        let made = build.op_with_bodies("Scan", &[Some(start), Some(x)], &[], 2, &attrs);
        build.output("sum", made[0]);
        build.output("seen", made[1]);
        let session = session(build.finish());
        for count in [0, 3, 0] {
            let shape = if axis == 0 { [count, 2] } else { [2, count] };
            let outputs = session.run(&[("x", floats(&shape, &vec![1.0; 2 * count]))]).unwrap();
            let sums = outputs[0].1.as_slice::<f32>().unwrap();
            assert_eq!(sums, [5.0 + count as f32, 6.0 + count as f32]);
            let expected = if out == 0 { [count, 2] } else { [2, count] };
            assert_eq!(outputs[1].1.shape(), expected, "axis {axis} to {out}");
        }
    }
}

#[test]
fn carried_values_may_grow_from_iteration_to_iteration() {
    let body = loop_body(1, 0, |body, iteration, carried, _| {
        let iteration = body.op("Cast", &[iteration], &[("to", 1.into())]);
        let one = body.constant(Tensor::from_slice([1], &[1i64]).unwrap());
        let iteration = body.op("Reshape", &[iteration, one], &[]);
        vec![body.op("Concat", &[carried[0], iteration], &[("axis", 0.into())])]
    });
    let session = session(looped(Some(4), 1, body, &[]));
    for _ in 0..2 {
        let outputs = session.run(&[("x", floats(&[1], &[7.0]))]).unwrap();
        assert_eq!(outputs[0].1.as_slice::<f32>().unwrap(), [7.0, 0.0, 1.0, 2.0, 3.0]);
    }
}

#[test]
fn an_iteration_with_the_shapes_of_the_last_one_asks_no_cache() {
    let asked = |iterations: i64| {
        let body = loop_body(1, 0, |body, _, carried, _| {
            let shape = body.constant(Tensor::from_slice([2], &[1i64, -1]).unwrap());
            let row = body.op("Reshape", &[carried[0], shape], &[]);
            let weights = body.constant(floats(&[4, 4], &[0.25; 16]));
            let row = body.op("MatMul", &[row, weights], &[]);
            let flat = body.constant(Tensor::from_slice([1], &[-1i64]).unwrap());
            vec![body.op("Reshape", &[row, flat], &[])]
        });
        let session = session(looped(Some(iterations), 1, body, &[]));
        let before = session.cache_stats().lookups;
        let mut after = [0; 2];
        for count in &mut after {
            let outputs = session.run(&[("x", floats(&[4], &[1.0; 4]))]).unwrap();
            assert_eq!(outputs[0].1.as_slice::<f32>().unwrap(), [1.0; 4]);
            *count = session.cache_stats().lookups - before;
        }
        after
    };
    let [first, second] = asked(1);
    assert!(first > 0, "the product has a kernel");
    assert_eq!(second, first, "the next request of these shapes asks nothing");
    assert_eq!(asked(50), [first, second], "nor do further iterations");
}

#[test]
fn a_scan_goes_along_any_axis_either_way() {
    let scanned = |axis: i64, backwards: i64| {
        let mut body = GraphBuilder::new("body", 17);
        let sum = body.input("sum", DType::F32, [2.into()]);
        let slice = body.input("slice", DType::F32, [2.into()]);
        let next = body.op("Add", &[sum, slice], &[]);
        let seen = body.op("Identity", &[next], &[]);
        body.output("next", next);
        body.output("seen", seen);
        let mut build = GraphBuilder::new("scanned", 17);
        let start = build.constant(floats(&[2], &[0.0, 0.0]));
        let x = build.input("x", DType::F32, [2.into(), 2.into()]);
        let attrs = [
            ("body", Attr::from(body.finish())),
            ("num_scan_inputs", 1.into()),
            ("scan_input_axes", [axis].into()),
            ("scan_input_directions", [backwards].into()),
            ("scan_output_axes", [-1].into()),
            ("scan_output_directions", [backwards].into()),
        ];
        let made = build.op_with_bodies("Scan", &[Some(start), Some(x)], &[], 2, &attrs);
        build.output("sum", made[0]);
        build.output("sums", made[1]);
        let outputs = session(build.finish()).run(&[("x", floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]))]).unwrap();
        outputs.iter().map(|(_, tensor)| tensor.as_slice::<f32>().unwrap().to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(scanned(0, 0), [vec![4.0, 6.0], vec![1.0, 4.0, 2.0, 6.0]]);
    assert_eq!(scanned(-1, 0), [vec![3.0, 7.0], vec![1.0, 3.0, 3.0, 7.0]]);
    assert_eq!(scanned(0, 1), [vec![4.0, 6.0], vec![4.0, 3.0, 6.0, 4.0]]);
}

/// The bound that a run ended at, however deep in bodies.
fn limit_of(error: &SessionError) -> Option<&'static str> {
    let SessionError::Run(outermost) = error else { return None };
    let mut error: &RunError = outermost;
    loop {
        match &error.error {
            NodeError::Limit { what, .. } => return Some(what),
            NodeError::Body(inner) => error = inner,
            _ => return None,
        }
    }
}

#[test]
fn loops_without_end_are_stopped() {
    let idle = || loop_body(1, 0, |body, _, carried, _| vec![body.op("Identity", &[carried[0]], &[])]);
    let nested = || {
        let inner = idle();
        loop_body(1, 0, |body, _, carried, _| {
            body.op_with_bodies("Loop", &[None, None, Some(carried[0])], &[], 1, &[("body", inner)])
        })
    };
    for (case, body, count) in [
        ("no count", idle(), None),
        ("the largest count", idle(), Some(i64::MAX)),
        ("a loop in a loop", nested(), Some(i64::MAX)),
    ] {
        let session = session(looped(count, 1, body, &[]));
        let start = Instant::now();
        let error = session.run(&[("x", floats(&[1], &[0.0]))]).unwrap_err();
        assert_eq!(limit_of(&error), Some("iterations of loops"), "{case}: {error}");
        // Generous: other tests run at the same time.
        assert!(start.elapsed() < Duration::from_secs(20), "{case} took {:?}", start.elapsed());
    }
}

#[test]
fn loops_that_grow_without_end_are_stopped() {
    let double = loop_body(1, 0, |body, _, carried, _| {
        vec![body.op("Concat", &[carried[0], carried[0]], &[("axis", 0.into())])]
    });
    let gather = loop_body(1, 0, |body, _, carried, _| {
        let same = body.op("Identity", &[carried[0]], &[]);
        let seen = body.op("Neg", &[carried[0]], &[]);
        vec![same, seen]
    });
    let limits = LoopLimits { bytes: 1 << 16, ..LoopLimits::default() };
    for (body, outputs, what) in [(double, 1, "bytes carried by a loop"), (gather, 2, "bytes gathered by loops")] {
        let session = session_with(looped(None, outputs, body, &[]), |options| options.loops = limits);
        let error = session.run(&[("x", floats(&[4], &[0.0; 4]))]).unwrap_err();
        assert_eq!(limit_of(&error), Some(what), "{error}");
    }
}

#[test]
fn all_that_is_missing_is_said_at_once_bodies_included() {
    let body = loop_body(1, 0, |body, _, carried, _| {
        let value = body.op("NoSuchThing", &[carried[0]], &[]);
        vec![body.op("Dropout", &[value], &[("training_mode", 1.into())])]
    });
    let mut graph = looped(Some(2), 1, body, &[]);
    let y = graph.outputs[0];
    let z = graph.fresh("z");
    let strange = kiln_model::NodeDesc {
        domain: "org.example".to_owned(),
        op: "Strange".to_owned(),
        version: 3,
        inputs: vec![Some(y)],
        outputs: vec![Some(z)],
        ..Default::default()
    };
    graph.nodes.push(strange);
    graph.outputs = vec![z];
    let Err(SessionError::Unsupported(missing)) = Session::from_graph(graph, &SessionOptions::default()) else {
        panic!("the graph has unknown operators")
    };
    assert_eq!(missing, ["operator ai.onnx.NoSuchThing (version 17)", "operator org.example.Strange (version 3)"]);
}

#[test]
fn bodies_that_do_not_fit_their_node_are_refused() {
    let body = || loop_body(1, 0, |body, _, carried, _| vec![body.op("Neg", &[carried[0]], &[])]);
    let cases: [(&str, Graph); 3] = [
        ("more outputs than the body makes", looped(Some(1), 3, body(), &[])),
        ("a value more than the body takes", {
            let mut graph = looped(Some(1), 1, body(), &[]);
            let extra = graph.nodes[0].inputs[2];
            graph.nodes[0].inputs.push(extra);
            graph
        }),
        ("no body", {
            let mut graph = looped(Some(1), 1, body(), &[]);
            graph.nodes[0].attrs.remove("body");
            graph
        }),
    ];
    for (case, graph) in cases {
        let refused = Session::from_graph(graph, &SessionOptions::default());
        assert!(matches!(refused, Err(SessionError::InvalidNode { .. })), "{case}");
    }
}
