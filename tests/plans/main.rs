//! Plans of whole requests: they give the results of running node by node, look up nothing once a shape is known, end
//! where shapes depend on data, survive errors and many threads, and stay within their bound.

mod bound;
#[path = "../passes/draw.rs"]
#[allow(dead_code, reason = "the other user of the drawing prints what was drawn")]
mod draw;
mod foreseen;
mod segments;

use kiln::session::{Session, SessionOptions};
use kiln_cache::Limits;
use kiln_model::{Graph, GraphBuilder};
use kiln_tensor::{DType, Tensor};
use proptest::prelude::*;

const NO_PLANS: Limits = Limits { entries: 0, bytes: 0 };

fn session(graph: &Graph, plan_limits: Limits) -> Session {
    let options = SessionOptions { threads: 1, plan_limits, ..SessionOptions::default() };
    Session::from_graph(graph.clone(), &options).expect("the graph is supported")
}

fn run(session: &Session, inputs: &[(String, Tensor)]) -> Vec<Tensor> {
    let inputs: Vec<(&str, Tensor)> = inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    let outputs = session.run(&inputs).expect("the request is sound");
    outputs.into_iter().map(|(_, tensor)| tensor).collect()
}

fn floats(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |index: usize| ((index * 31 + seed * 7) % 23) as f32 / 11.0 - 1.0;
    Tensor::from_vec(shape.iter().copied(), (0..count).map(value).collect()).expect("the count is the shape's")
}

/// A few layers whose shapes all follow from the input's, some by arithmetic on shapes.
fn layers() -> Graph {
    let mut build = GraphBuilder::new("layers", 17);
    let x = build.input("x", DType::F32, ["n".into(), "m".into()]);
    let one = build.constant(Tensor::from_slice([1], &[1i64]).unwrap());
    let shape = build.op("Shape", &[x], &[]);
    let stretched = build.op("Concat", &[one, shape], &[("axis", 0.into())]);
    let sum = build.op("Softmax", &[x], &[("axis", (-1).into())]);
    let lifted = build.op("Reshape", &[sum, stretched], &[]);
    let transposed = build.op("Transpose", &[lifted], &[("perm", [0i64, 2, 1].into())]);
    let flat = build.constant(Tensor::from_slice([1], &[-1i64]).unwrap());
    let flat = build.op("Reshape", &[transposed, flat], &[]);
    let bounded = build.op("Sigmoid", &[flat], &[]);
    build.output("y", bounded);
    build.output("shape", stretched);
    build.finish()
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn plans_give_what_nodes_give(choices in prop::collection::vec(any::<u16>(), 8..120), narrow in any::<bool>()) {
        let drawn = draw::draw(&choices, draw::Form::default());
        // With a bound of one plan, alternating shapes push each other out.
        let limits = if narrow { Limits { entries: 1, bytes: 1 << 20 } } else { SessionOptions::default().plan_limits };
        let (planned, plain) = (session(&drawn.graph, limits), session(&drawn.graph, NO_PLANS));
        for round in 0..3 {
            for inputs in &drawn.requests {
                let (found, expected) = (run(&planned, inputs), run(&plain, inputs));
                for (found, expected) in found.iter().zip(&expected) {
                    prop_assert!(found.same(expected), "round {}: {:?}\n{}", round, expected.spec(), drawn.told());
                }
            }
        }
        prop_assert_eq!(plain.plan_stats().lookups, 0);
        let plans = planned.plan_stats();
        // A graph of constants has nothing to plan.
        prop_assert!(narrow || plans.hits * 2 >= plans.lookups, "{:?}", plans);
    }
}

#[test]
fn a_known_request_does_one_look_up_and_asks_for_no_executor() {
    let session = session(&layers(), SessionOptions::default().plan_limits);
    for size in [3, 5] {
        run(&session, &[("x".to_owned(), floats(&[size, 4], 1))]);
    }
    let (plans, executors) = (session.plan_stats(), session.cache_stats());
    assert_eq!((plans.lookups, plans.entries), (2, 2), "one plan for each shape");
    for (count, size) in (1..).zip([3, 3, 5, 3, 5, 5]) {
        let outputs = run(&session, &[("x".to_owned(), floats(&[size, 4], 2))]);
        assert_eq!(outputs[1].to_i64_vec().unwrap(), [1, size as i64, 4]);
        assert_eq!(session.plan_stats().hits, count);
    }
    assert_eq!(session.cache_stats().lookups, executors.lookups);
}

/// A sum that is written over its first operand where both have the same shape, and cannot be where one is stretched.
/// In the second form a later node reads the operand once more.
fn in_place_at_some_shapes(read_again: bool) -> Graph {
    let mut build = GraphBuilder::new("sums", 17);
    let x = build.input("x", DType::F32, ["n".into(), "m".into()]);
    let y = build.input("y", DType::F32, ["k".into(), "m".into()]);
    let bounded = build.op("Softmax", &[x], &[("axis", (-1).into())]);
    let sum = build.op("Add", &[bounded, y], &[]);
    let transposed = build.op("Transpose", &[sum], &[("perm", [1i64, 0].into())]);
    let rows = build.op("Softmax", &[transposed], &[("axis", 0.into())]);
    build.output("rows", rows);
    if read_again {
        let back = build.op("Softmax", &[bounded], &[("axis", 0.into())]);
        build.output("back", back);
    }
    build.finish()
}

/// A Split whose parts stay in its input where there is one row, and are copies where there are more rows. Both parts
/// are written over.
fn parts_of_rows() -> Graph {
    let mut build = GraphBuilder::new("parts", 17);
    let x = build.input("x", DType::F32, ["n".into(), "m".into()]);
    let bounded = build.op("Softmax", &[x], &[("axis", (-1).into())]);
    let [left, right] = <[_; 2]>::try_from(build.op_many("Split", &[Some(bounded)], 2, &[("axis", 1.into())])).unwrap();
    let left = build.op("Neg", &[left], &[]);
    let transposed = build.op("Transpose", &[right], &[("perm", [1i64, 0].into())]);
    let right = build.op("Exp", &[transposed], &[]);
    let left = build.op("Softmax", &[left], &[("axis", 0.into())]);
    let columns = build.op("Transpose", &[left], &[("perm", [1i64, 0].into())]);
    let y = build.op("Concat", &[right, columns], &[("axis", 0.into())]);
    build.output("y", y);
    build.output("right", right);
    build.finish()
}

#[test]
fn parts_that_stay_in_their_whole_give_what_copies_give() {
    let shapes: [[usize; 2]; 9] = [[1, 6], [3, 6], [1, 8], [1, 6], [2, 4], [1, 400], [40, 40], [1, 6], [3, 6]];
    let graph = parts_of_rows();
    for first in 0..4 {
        let (planned, plain) = (session(&graph, SessionOptions::default().plan_limits), session(&graph, NO_PLANS));
        for (index, shape) in [&shapes[first..], &shapes[..]].concat().iter().enumerate() {
            let inputs = [("x".to_owned(), floats(shape, index))];
            let (found, expected) = (run(&planned, &inputs), run(&plain, &inputs));
            assert!(found.iter().zip(&expected).all(|(a, b)| a.same(b)), "{shape:?} after {:?}", shapes[first]);
        }
    }
}

#[test]
fn shapes_at_which_steps_write_elsewhere_than_at_the_first_ones_give_the_same() {
    let wide = (1..6).flat_map(|n| [(1, n), (n, n), (n, 1), (40 * n, 40 * n), (1, 40 * n)]);
    let shapes: Vec<(usize, usize)> = wide.collect();
    for (first, read_again) in (0..5).flat_map(|first| [(first, false), (first, true)]) {
        let graph = in_place_at_some_shapes(read_again);
        let (planned, plain) = (session(&graph, SessionOptions::default().plan_limits), session(&graph, NO_PLANS));
        for &(n, k) in [&shapes[first..], &shapes[..first], &shapes[..]].concat().iter() {
            let inputs = [("x".to_owned(), floats(&[n, 7], n)), ("y".to_owned(), floats(&[k, 7], k + 1))];
            let (found, expected) = (run(&planned, &inputs), run(&plain, &inputs));
            assert!(found.iter().zip(&expected).all(|(a, b)| a.same(b)), "{n} and {k} after {:?}", shapes[first]);
        }
        assert!(planned.plan_stats().hits >= shapes.len() as u64 - 5, "{:?}", planned.plan_stats());
    }
}

#[test]
fn without_plans_nodes_remember_their_last_few_shapes() {
    let session = session(&layers(), NO_PLANS);
    let sizes = [3, 5, 8, 2];
    sizes.iter().for_each(|&size| drop(run(&session, &[("x".to_owned(), floats(&[size, 4], 1))])));
    let asked = session.cache_stats().lookups;
    for size in sizes.into_iter().rev().chain(sizes) {
        run(&session, &[("x".to_owned(), floats(&[size, 4], 1))]);
    }
    assert_eq!(session.cache_stats().lookups, asked, "shapes that take turns ask for nothing");
}

#[test]
fn threads_share_plans() {
    let session = session(&layers(), SessionOptions::default().plan_limits);
    let expected: Vec<Vec<Tensor>> =
        (1..9).map(|size| run(&session, &[("x".to_owned(), floats(&[size, 4], size))])).collect();
    let before = session.cache_stats().lookups;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (session, expected) = (&session, &expected);
            scope.spawn(move || {
                for round in 0..200 {
                    let size = 1 + (round * (thread + 3) + thread) % 8;
                    let found = run(session, &[("x".to_owned(), floats(&[size, 4], size))]);
                    assert!(found.iter().zip(&expected[size - 1]).all(|(a, b)| a.same(b)), "{thread}: {size}");
                }
            });
        }
    });
    assert_eq!(session.cache_stats().lookups, before, "plans are found by threads that have not made them");
    assert_eq!(session.plan_stats().entries, 8);
}

#[test]
fn an_error_in_a_planned_request_leaves_the_session_usable() {
    let mut build = GraphBuilder::new("table", 17);
    let table = build.input("table", DType::F32, ["n".into(), 4.into()]);
    let ids = build.input("ids", DType::I64, ["k".into()]);
    let first = build.op("Softmax", &[table], &[]);
    let rows = build.op("Gather", &[first, ids], &[("axis", 0.into())]);
    let last = build.op("Softmax", &[rows], &[]);
    build.output("y", last);
    let session = session(&build.finish(), SessionOptions::default().plan_limits);
    let request = |ids: &[i64]| {
        let ids = Tensor::from_slice([ids.len()], ids).unwrap();
        session.run(&[("table", floats(&[6, 4], 1)), ("ids", ids)]).map(|outputs| outputs[0].1.clone())
    };
    let expected = request(&[1, 5]).unwrap();
    for _ in 0..3 {
        let error = request(&[1, 6]).unwrap_err().to_string();
        assert!(error.contains("Gather"), "{error}");
        assert!(request(&[1, 5]).unwrap().same(&expected));
    }
    assert!(session.plan_stats().hits >= 5);
}

#[test]
fn outputs_that_the_caller_keeps_are_never_written_again() {
    let session = session(&layers(), SessionOptions::default().plan_limits);
    let kept: Vec<Vec<Tensor>> = (0..6).map(|seed| run(&session, &[("x".to_owned(), floats(&[3, 4], seed))])).collect();
    let plain = self::session(&layers(), NO_PLANS);
    for (seed, kept) in kept.iter().enumerate() {
        let expected = run(&plain, &[("x".to_owned(), floats(&[3, 4], seed))]);
        assert!(kept.iter().zip(&expected).all(|(a, b)| a.same(b)), "request {seed}");
    }
}

#[test]
fn endlessly_new_shapes_stay_within_the_bound() {
    let limits = Limits { entries: 64, bytes: 96 << 10 };
    let session = session(&layers(), limits);
    for size in 1..3000 {
        run(&session, &[("x".to_owned(), floats(&[size % 700 + 1, 4], 1))]);
        let plans = session.plan_stats();
        assert!(plans.entries <= 64 && plans.bytes <= 96 << 10, "{plans:?}");
    }
    assert!(session.plan_stats().evictions > 2000);
    // The bound in bytes alone, where plans are many.
    let session = self::session(&layers(), Limits { entries: 1 << 20, bytes: 32 << 10 });
    (1..400).for_each(|size| drop(run(&session, &[("x".to_owned(), floats(&[size, 4], 1))])));
    let plans = session.plan_stats();
    assert!(plans.bytes <= 32 << 10 && plans.entries > 2 && plans.evictions > 300, "{plans:?}");
}

/// Notes after each step how many executors have been asked for.
struct Asked<'a>(&'a Session, std::sync::Mutex<Vec<u64>>);

impl kiln_run::run::Observer for Asked<'_> {
    fn step(&self, event: &kiln_run::run::StepEvent<'_>) {
        assert!(event.prepared, "{} is prepared once for each shape", event.step.op);
        self.1.lock().unwrap().push(self.0.cache_stats().lookups);
    }
}

#[test]
fn every_node_is_prepared_before_the_first_one_runs() {
    let session = session(&layers(), SessionOptions::default().plan_limits);
    for size in [3, 5, 4] {
        let before = session.cache_stats().lookups;
        let asked = Asked(&session, std::sync::Mutex::default());
        session.run_observed(&[("x", floats(&[size, 4], 1))], Some(&asked)).expect("the request is sound");
        let asked = asked.1.into_inner().unwrap();
        assert!(asked.len() > 3 && asked[0] > before, "{asked:?} after {before}");
        assert!(asked.iter().all(|count| *count == asked[0]), "{asked:?}");
    }
}

#[test]
fn an_error_is_that_of_the_node_that_comes_first_whatever_a_later_one_is_prepared_for() {
    let mut build = GraphBuilder::new("errors", 17);
    let (x, places) =
        (build.input("x", DType::F32, ["n".into()]), build.input("places", DType::I64, ["k".into(), 1usize.into()]));
    let y = build.input("y", DType::F32, ["m".into()]);
    let picked = build.op("Gather", &[x, places], &[("axis", 0.into())]);
    let flat = build.op("Flatten", &[picked], &[("axis", 0.into())]);
    let sum = build.op("Add", &[flat, y], &[]);
    build.output("z", sum);
    let graph = build.finish();
    let fails = |limits, place: i64, wide: usize| {
        let places = Tensor::from_slice([2, 1], &[0i64, place]).unwrap();
        let inputs = [("x", floats(&[4], 1)), ("places", places), ("y", floats(&[wide], 2))];
        session(&graph, limits).run(&inputs).map(drop).map_err(|error| error.to_string())
    };
    let planned = SessionOptions::default().plan_limits;
    for (place, wide, op) in [(9, 2, "Gather"), (1, 3, "Add"), (9, 3, "Gather")] {
        let (found, expected) = (fails(planned, place, wide), fails(NO_PLANS, place, wide));
        assert!(expected.as_ref().is_err_and(|error| error.contains(op)), "{expected:?}");
        assert_eq!(found, expected);
    }
    assert_eq!(fails(planned, 1, 2), Ok(()));
}

#[test]
fn nodes_that_convert_what_they_read_are_prepared_before_it_is_there() {
    let mut build = GraphBuilder::new("halves", 17);
    let x = build.input("x", DType::F16, ["n".into(), "m".into()]);
    let bounded = build.op("Sigmoid", &[x], &[]);
    let shares = build.op("Softmax", &[bounded], &[("axis", (-1).into())]);
    let transposed = build.op("Transpose", &[shares], &[("perm", [1i64, 0].into())]);
    let product = build.op("MatMul", &[shares, transposed], &[]);
    build.output("y", product);
    let graph = build.finish();
    let (planned, plain) = (session(&graph, SessionOptions::default().plan_limits), session(&graph, NO_PLANS));
    for size in [3, 5, 3] {
        let values: Vec<half::f16> = (0..size * 4).map(|value| half::f16::from_f32(value as f32 / 7.0)).collect();
        let inputs = [("x".to_owned(), Tensor::from_slice([size, 4], &values).unwrap())];
        let (found, expected) = (run(&planned, &inputs), run(&plain, &inputs));
        assert!(found[0].same(&expected[0]), "{size} rows");
    }
    assert_eq!(planned.plan_stats().entries, 2);
}
