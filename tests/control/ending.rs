//! Requests that end before their graphs do, by a time limit or by another thread: the error names the node, and
//! nothing is left behind. And loading that ends.

use std::time::{Duration, Instant};

use kiln::session::{RunOptions, Session, SessionError, SessionOptions};
use kiln_model::passes::PassOptions;
use kiln_model::{Cancel, GraphBuilder, Stopped};
use kiln_run::{LoopLimits, RunError};
use kiln_tensor::{DType, Tensor};

use crate::{floats, loop_body, looped, session_with};

/// No test waits this long. It only tells an end from none, however slow the machine is.
const LONG: Duration = Duration::from_secs(60);

fn limited(time: Duration) -> RunOptions {
    RunOptions { time_limit: Some(time), ..RunOptions::default() }
}

/// -|x| by two nodes that stay two.
fn two_nodes(change: impl FnOnce(&mut SessionOptions)) -> Session {
    let mut build = GraphBuilder::new("two", 17);
    let x = build.input("x", DType::F32, ["n".into()]);
    let size = build.op("Abs", &[x], &[]);
    let y = build.op("Neg", &[size], &[]);
    build.output("y", y);
    session_with(build.finish(), |options| {
        options.passes = PassOptions::none();
        change(options);
    })
}

/// A loop that only a limit ends.
fn endless(change: impl FnOnce(&mut SessionOptions)) -> Session {
    let body = loop_body(1, 0, |body, _, carried, _| vec![body.op("Abs", &[carried[0]], &[])]);
    session_with(looped(None, 1, body, &[]), |options| {
        options.loops = LoopLimits { iterations: u64::MAX, ..LoopLimits::default() };
        change(options);
    })
}

fn x() -> [(&'static str, Tensor); 1] {
    [("x", floats(&[2], &[3.0, -4.0]))]
}

#[track_caller]
fn ended(result: Result<Vec<(String, Tensor)>, SessionError>) -> RunError {
    match result {
        Err(SessionError::Run(error)) => error,
        other => panic!("it should have ended: {other:?}"),
    }
}

#[test]
fn a_long_product_of_f64_ends_midway() {
    let mut build = GraphBuilder::new("product", 17);
    let names = ["a", "b"];
    let [a, b] = names.map(|name| build.input(name, DType::F64, ["m".into(), "n".into()]));
    let y = build.op("MatMul", &[a, b], &[]);
    build.output("y", y);
    let session = session_with(build.finish(), |_| {});
    // Hundreds of milliseconds on one thread with AVX-512, seconds without.
    let matrix = Tensor::from_vec([3000, 3000], vec![0.5f64; 3000 * 3000]).unwrap();
    let inputs = names.map(|name| (name, matrix.clone()));
    let limit = Duration::from_millis(20);
    let error = ended(session.run_with(&inputs, &limited(limit)));
    assert_eq!(error.stopped(), Some(Stopped::TimeLimit(limit)));
    assert_eq!(error.op, "MatMul");
}

#[test]
fn a_request_whose_time_is_over_names_the_node_that_it_did_not_begin() {
    let session = two_nodes(|_| {});
    let first = session.describe().graph.nodes[0].name.clone();
    let expected = [-3.0, -4.0];
    // First without a plan, then with the plan that the first whole request left, before and after a request that was
    // ended.
    for round in 0..3 {
        let error = ended(session.run_with(&x(), &limited(Duration::ZERO)));
        assert_eq!((error.node.as_str(), error.op.as_str()), (first.as_str(), "Abs"), "round {round}");
        assert_eq!(error.stopped(), Some(Stopped::TimeLimit(Duration::ZERO)), "round {round}");
        assert!(error.to_string().contains("the time limit of 0ns has passed"), "{error}");
        for options in [RunOptions::default(), limited(LONG)] {
            let outputs = session.run_with(&x(), &options).unwrap();
            assert_eq!(outputs[0].1.as_slice::<f32>().unwrap(), expected, "round {round}");
        }
    }
    assert!(session.plan_stats().hits > 0, "the later rounds run by a plan");
}

#[test]
fn the_session_limits_requests_that_do_not_say_themselves() {
    let session = two_nodes(|options| options.time_limit = Some(Duration::ZERO));
    assert!(ended(session.run(&x())).stopped().is_some());
    assert!(session.run_with(&x(), &limited(LONG)).is_ok());
    let cancellable = RunOptions { cancel: Some(Cancel::new()), ..RunOptions::default() };
    assert_eq!(ended(session.run_with(&x(), &cancellable)).stopped(), Some(Stopped::TimeLimit(Duration::ZERO)));
}

#[test]
fn a_loop_ends_when_its_time_is_over() {
    let session = endless(|_| {});
    let (limit, start) = (Duration::from_millis(50), Instant::now());
    let error = ended(session.run_with(&x(), &limited(limit)));
    assert_eq!((error.op.as_str(), error.stopped()), ("Loop", Some(Stopped::TimeLimit(limit))), "{error}");
    assert!(start.elapsed() >= limit && start.elapsed() < LONG, "{:?}", start.elapsed());
}

#[test]
fn another_thread_ends_a_request_and_not_those_after_it() {
    let session = endless(|_| {});
    let cancel = Cancel::new();
    let options = RunOptions { time_limit: Some(LONG), cancel: Some(cancel.clone()), ..RunOptions::default() };
    std::thread::scope(|scope| {
        let request = scope.spawn(|| session.run_with(&x(), &options));
        // Whether the request has begun by then does not matter to what follows.
        std::thread::sleep(Duration::from_millis(20));
        cancel.cancel();
        let error = ended(request.join().unwrap());
        assert_eq!(error.stopped(), Some(Stopped::Cancelled), "{error}");
    });
    assert_eq!(ended(session.run_with(&x(), &options)).stopped(), Some(Stopped::Cancelled), "it stays used");
    let limit = Duration::from_millis(5);
    let fresh = RunOptions { time_limit: Some(limit), cancel: Some(Cancel::new()), ..RunOptions::default() };
    assert_eq!(ended(session.run_with(&x(), &fresh)).stopped(), Some(Stopped::TimeLimit(limit)));
}

#[test]
fn a_long_sum_ends_within_its_node() {
    let mut build = GraphBuilder::new("sum", 17);
    let x = build.input("x", DType::F32, [256.into()]);
    // 2^48 products from 1 KiB, which no limit on steps forbids here.
    let y = build.op("Einsum", &[x; 6], &[("equation", "a,b,c,d,e,f->".into())]);
    build.output("y", y);
    let session = session_with(build.finish(), |options| options.loops.steps = u64::MAX);
    let limit = Duration::from_millis(50);
    let error = ended(session.run_with(&[("x", floats(&[256], &[1.0; 256]))], &limited(limit)));
    assert_eq!((error.op.as_str(), error.stopped()), ("Einsum", Some(Stopped::TimeLimit(limit))));
}

#[test]
fn loading_ends_too() {
    let graph = || {
        let mut build = GraphBuilder::new("two", 17);
        let x = build.input("x", DType::F32, ["n".into()]);
        let y = build.op("Abs", &[x], &[]);
        build.output("y", y);
        build.finish()
    };
    let load = |limit| Session::from_graph(graph(), &SessionOptions { load_time_limit: limit, ..Default::default() });
    let Err(SessionError::LoadStopped { node, why }) = load(Some(Duration::ZERO)) else { panic!("it loads") };
    assert_eq!((node, why), (graph().nodes[0].name.clone(), Stopped::TimeLimit(Duration::ZERO)));
    assert!(load(Some(LONG)).is_ok() && load(None).is_ok());
}
