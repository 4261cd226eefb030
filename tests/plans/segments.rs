//! Graphs whose shapes depend on data: the nodes between such nodes are planned, and the plan of what follows is found
//! by the shapes that they made.

use kiln::session::{Session, SessionOptions};
use kiln_cache::Limits;
use kiln_model::ir::Attr;
use kiln_model::{Graph, GraphBuilder};
use kiln_tensor::{BoolByte, DType, Tensor};

use super::{NO_PLANS, floats, run, session};

fn planned() -> Limits {
    SessionOptions::default().plan_limits
}

/// The positive elements' places, with layers before and after.
fn selecting() -> Graph {
    let mut build = GraphBuilder::new("selecting", 17);
    let x = build.input("x", DType::F32, ["n".into()]);
    let bounded = build.op("Tanh", &[x], &[]);
    let zero = build.constant(Tensor::scalar(0.0f32));
    let positive = build.op("Greater", &[bounded, zero], &[]);
    let places = build.op("NonZero", &[positive], &[]);
    let places = build.op("Cast", &[places], &[("to", 1.into())]);
    let softer = build.op("Softmax", &[places], &[("axis", (-1).into())]);
    let shape = build.op("Shape", &[softer], &[]);
    let again = build.op("Reshape", &[softer, shape], &[]);
    build.output("y", again);
    build.output("bounded", bounded);
    build.finish()
}

fn agree(graph: &Graph, requests: &[Vec<(String, Tensor)>]) -> Session {
    let (planned, plain) = (session(graph, planned()), session(graph, NO_PLANS));
    for round in 0..3 {
        for (number, request) in requests.iter().enumerate() {
            let (found, expected) = (run(&planned, request), run(&plain, request));
            let same = found.iter().zip(&expected).all(|(a, b)| a.same(b));
            assert!(same && found.len() == expected.len(), "round {round}, request {number}");
        }
    }
    planned
}

#[test]
fn what_follows_a_selection_is_planned_by_what_was_selected() {
    let requests: Vec<Vec<(String, Tensor)>> =
        (0..8).map(|seed| vec![("x".to_owned(), floats(&[5 + seed % 2], seed))]).collect();
    let session = agree(&selecting(), &requests);
    let (before, executors) = (session.plan_stats(), session.cache_stats().lookups);
    requests.iter().for_each(|request| drop(run(&session, request)));
    let after = session.plan_stats();
    assert_eq!(after.hits - before.hits, 16, "one look-up before the selection, one after it");
    assert_eq!(after.lookups - before.lookups, 16);
    assert_eq!(session.cache_stats().lookups, executors);
}

#[test]
fn a_small_input_that_is_read_by_value_belongs_to_the_key() {
    let mut build = GraphBuilder::new("reshape", 17);
    let x = build.input("x", DType::F32, ["n".into()]);
    let shape = build.input("shape", DType::I64, ["rank".into()]);
    let bounded = build.op("Tanh", &[x], &[]);
    let shaped = build.op("Reshape", &[bounded, shape], &[]);
    let y = build.op("Softmax", &[shaped], &[("axis", (-1).into())]);
    build.output("y", y);
    let request = |shape: &[i64]| {
        let shape = Tensor::from_slice([shape.len()], shape).unwrap();
        vec![("x".to_owned(), floats(&[12], 3)), ("shape".to_owned(), shape)]
    };
    let shapes: [&[i64]; 5] = [&[3, 4], &[4, 3], &[2, -1], &[12], &[2, 2, 3]];
    let requests: Vec<_> = shapes.iter().map(|shape| request(shape)).collect();
    let session = agree(&build.finish(), &requests);
    assert_eq!(session.plan_stats().entries, 5);
    assert_eq!(session.plan_stats().hits, 10, "the second and third round");
}

#[test]
fn branches_and_loops_plan_their_bodies() {
    let branch = |op: &str| -> Attr {
        let mut body = GraphBuilder::new(op, 17);
        let x = body.input("x", DType::F32, ["n".into()]);
        let soft = body.op("Softmax", &[x], &[]);
        let y = body.op(op, &[soft], &[]);
        body.output("y", y);
        body.finish().into()
    };
    let mut body = GraphBuilder::new("iteration", 17);
    body.input("number", DType::I64, []);
    let again = body.input("again", DType::Bool, []);
    let carried = body.input("carried", DType::F32, ["any".into()]);
    let again = body.op("Identity", &[again], &[]);
    let next = body.op("Concat", &[carried, carried], &[("axis", 0.into())]);
    let next = body.op("Tanh", &[next], &[]);
    body.output("again_out", again);
    body.output_of("next", next, DType::F32, ["any".into()]);

    let mut build = GraphBuilder::new("flows", 17);
    let condition = build.input("condition", DType::Bool, []);
    let x = build.input("x", DType::F32, ["n".into()]);
    let count = build.input("count", DType::I64, []);
    let bounded = build.op("Sigmoid", &[x], &[]);
    let bodies = [("then_branch", branch("Neg")), ("else_branch", branch("Exp"))];
    let chosen = build.op_with_bodies("If", &[Some(condition)], &[bounded], 1, &bodies)[0];
    let middle = build.op("Softmax", &[chosen], &[]);
    let body = [("body", body.finish().into())];
    let grown = build.op_with_bodies("Loop", &[Some(count), None, Some(middle)], &[], 1, &body)[0];
    let y = build.op("Softmax", &[grown], &[]);
    build.output("y", y);
    let graph = build.finish();
    let request = |condition: bool, size: usize, count: i64| {
        vec![
            ("condition".to_owned(), Tensor::scalar(BoolByte::from(condition))),
            ("x".to_owned(), floats(&[size], size)),
            ("count".to_owned(), Tensor::scalar(count)),
        ]
    };
    let requests =
        [request(true, 3, 2), request(false, 3, 2), request(true, 5, 0), request(true, 3, 4), request(false, 5, 3)];
    let session = agree(&graph, &requests);
    let executors = session.cache_stats().lookups;
    requests.iter().for_each(|request| drop(run(&session, request)));
    assert_eq!(session.cache_stats().lookups, executors, "bodies at known shapes ask for nothing");
}

#[test]
fn a_cache_that_grows_with_each_step_builds_code_once() {
    let mut build = GraphBuilder::new("decoder", 17);
    let x = build.input("x", DType::F32, [1.into(), 16.into()]);
    let past = build.input("past", DType::F32, ["p".into(), 16.into()]);
    let keys = build.op("Concat", &[past, x], &[("axis", 0.into())]);
    let transposed = build.op("Transpose", &[keys], &[("perm", [1i64, 0].into())]);
    let scores = build.op("MatMul", &[x, transposed], &[]);
    let weights = build.op("Softmax", &[scores], &[("axis", (-1).into())]);
    let y = build.op("MatMul", &[weights, keys], &[]);
    build.output("y", y);
    build.output("present", keys);
    let graph = build.finish();
    let (planned, plain) = (session(&graph, planned()), session(&graph, NO_PLANS));
    let code = |session: &Session| {
        let families = session.family_stats();
        families.iter().find(|(name, _)| *name == "code").map_or(0, |(_, stats)| stats.builds)
    };
    let mut past = Tensor::from_vec([0, 16], Vec::<f32>::new()).unwrap();
    let mut early = 0;
    for step in 0..120 {
        let request = [("x".to_owned(), floats(&[1, 16], step)), ("past".to_owned(), past.clone())];
        let (found, expected) = (run(&planned, &request), run(&plain, &request));
        assert!(found.iter().zip(&expected).all(|(a, b)| a.same(b)), "step {step}");
        past = found[1].clone();
        if step == 40 {
            early = code(&planned);
        }
    }
    assert_eq!(code(&planned), early, "a longer past is a miss of executors and a hit of code");
}
