//! Outputs that a request has bound to its caller's memory. Every way of running a graph makes them there, never where
//! another output is, and writes nothing else of the caller's.

use std::sync::mpsc::{Receiver, Sender, channel};

use kiln::Stopped;
use kiln::session::{RunOptions, Session, SessionError, SessionOptions};
use kiln_kernels::extent::{Foreign, ForeignMut};
use kiln_model::ir::Attr;
use kiln_model::{Graph, GraphBuilder, Value};
use kiln_tensor::{DType, Tensor, TensorError, TensorSpec};

use super::{NO_PLANS, floats, session};

/// Bytes on either side of an output, which nothing may write.
const MARGIN: usize = 64;
/// The contents of the margins, and of an output before it is made.
const UNTOUCHED: u8 = 0xA5;

/// A caller's memory for one output.
struct Place {
    spec: TensorSpec,
    address: *const u8,
    /// Receives all bytes once nothing uses the memory any more.
    back: Receiver<Vec<u8>>,
}

/// The part of it that a request has meanwhile.
struct Lent {
    bytes: Vec<u8>,
    home: Sender<Vec<u8>>,
}

impl AsMut<[u8]> for Lent {
    fn as_mut(&mut self) -> &mut [u8] {
        let behind = self.bytes.len() - MARGIN;
        &mut self.bytes[MARGIN..behind]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let _ = self.home.send(std::mem::take(&mut self.bytes));
    }
}

impl Place {
    fn lend(spec: TensorSpec) -> (Place, Tensor) {
        let inside = spec.elements().expect("a small shape") * spec.dtype.size();
        let (home, back) = channel();
        let lent = ForeignMut::of(Lent { bytes: vec![UNTOUCHED; inside + 2 * MARGIN], home });
        let tensor = Tensor::from_foreign_mut(spec.clone(), lent).expect("it has as many bytes");
        (Place { spec, address: tensor.bytes().as_ptr(), back }, tensor)
    }

    fn holds(&self, tensor: &Tensor) -> bool {
        let len = self.spec.elements().expect("a small shape") * self.spec.dtype.size();
        (self.address.addr()..self.address.addr() + len).contains(&tensor.bytes().as_ptr().addr())
    }

    /// The output's bytes, after a check that the margins are untouched.
    fn contents(&self) -> Vec<u8> {
        let all = self.back.try_recv().expect("nothing holds the memory");
        let (inside, behind) = all[MARGIN..].split_at(all.len() - 2 * MARGIN);
        assert!(all[..MARGIN].iter().chain(behind).all(|&byte| byte == UNTOUCHED), "beside the output");
        inside.to_vec()
    }
}

fn request(inputs: &[(&'static str, Tensor)]) -> Vec<(&'static str, Value)> {
    inputs.iter().map(|(name, tensor)| (*name, Value::Tensor(tensor.clone()))).collect()
}

/// Runs each request several times with every choice of bound outputs, by plans and without, and compares with the
/// request whose outputs are not bound.
fn agree(graph: &Graph, requests: &[Vec<(&'static str, Tensor)>]) {
    for limits in [SessionOptions::default().plan_limits, NO_PLANS] {
        let (plain, bound) = (session(graph, limits), session(graph, limits));
        for round in 0..3 {
            for inputs in requests {
                let before: Vec<Tensor> = inputs.iter().map(|(_, tensor)| tensor.clone()).collect();
                let expected = plain.run(inputs).expect("the request is sound");
                for choice in 0..1usize << expected.len() {
                    check(&bound, inputs, &expected, choice, &format!("round {round}, outputs {choice:b}"));
                }
                assert!(inputs.iter().zip(&before).all(|((_, now), before)| now.same(before)));
            }
        }
    }
}

fn check(bound: &Session, inputs: &[(&'static str, Tensor)], expected: &[(String, Tensor)], choice: usize, case: &str) {
    let chosen: Vec<usize> = (0..expected.len()).filter(|at| choice >> at & 1 == 1).collect();
    let lent = chosen.iter().map(|&at| Place::lend(expected[at].1.spec().clone()));
    let (places, tensors): (Vec<Place>, Vec<Tensor>) = lent.unzip();
    let memory = chosen.iter().zip(tensors).map(|(&at, tensor)| (expected[at].0.as_str(), tensor)).collect();
    let outputs = bound.run_into(&request(inputs), memory, &RunOptions::default()).expect(case);
    let made: Vec<Tensor> = outputs.into_iter().map(|(_, value)| value.into_tensor().expect("a tensor")).collect();
    for (at, (made, (name, expected))) in made.iter().zip(expected).enumerate() {
        assert!(made.same(expected), "{case}: {name} is {made:?}, not {expected:?}");
        match chosen.iter().position(|&chosen| chosen == at) {
            Some(own) => assert_eq!(made.bytes().as_ptr(), places[own].address, "{case}: {name}"),
            None => assert!(!places.iter().any(|place| place.holds(made)), "{case}: {name} is in others' memory"),
        }
    }
    drop(made);
    for (&at, place) in chosen.iter().zip(&places) {
        assert_eq!(place.contents(), expected[at].1.bytes(), "{case}: {}", expected[at].0);
    }
}

/// A cache that grows by a row, and a value computed from it.
fn cache() -> Graph {
    let mut build = GraphBuilder::new("cache", 17);
    let past = build.input("past", DType::F32, ["n".into(), 3.into()]);
    let new = build.input("new", DType::F32, [1.into(), 3.into()]);
    let present = build.op("Concat", &[past, new], &[("axis", 0.into())]);
    let weights = build.op("Softmax", &[present], &[("axis", (-1).into())]);
    build.output("present", present);
    build.output("weights", weights);
    build.finish()
}

#[test]
fn outputs_are_made_where_they_are_bound() {
    let at = |rows: usize| vec![("past", floats(&[rows, 3], rows)), ("new", floats(&[1, 3], 9))];
    agree(&cache(), &[at(2), at(5), at(30_000)]);
}

#[test]
fn nothing_else_of_an_outputs_size_is_allocated() {
    let mut build = GraphBuilder::new("wide", 17);
    let x = build.input("x", DType::F32, ["n".into(), 1.into()]);
    let zeros = build.constant(floats(&[1, 256], 0));
    let sum = build.op("Add", &[x, zeros], &[]);
    build.output("y", sum);
    let options = SessionOptions { threads: 1, memory_bytes: 1 << 20, ..SessionOptions::default() };
    let session = Session::from_graph(build.finish(), &options).expect("it is supported");
    for rows in [4096, 4096, 4096, 8192, 8192] {
        let inputs = [("x", floats(&[rows, 1], 1))];
        let refused = session.run(&inputs).expect_err("the output takes more than the session may have");
        assert!(refused.to_string().contains("bytes, of which"), "{refused}");
        let (place, tensor) = Place::lend(TensorSpec::new(DType::F32, [rows, 256]));
        let memory = vec![("y", tensor)];
        drop(session.run_into(&request(&inputs), memory, &RunOptions::default()).expect("the caller has the memory"));
        assert!(!place.contents().chunks(4).all(|bytes| bytes == [UNTOUCHED; 4]));
    }
}

/// y = x + a row of 256 zeros, in another shape.
fn reshaped(shape: &[i64], ops: &[&str]) -> Graph {
    let mut build = GraphBuilder::new("reshaped", 17);
    let x = build.input("x", DType::F32, ["n".into(), 1.into()]);
    let zeros = build.constant(floats(&[1, 256], 0));
    let mut value = build.op("Add", &[x, zeros], &[]);
    for op in ops {
        let list: &[i64] = if *op == "Reshape" { shape } else { &[0] };
        let list = build.constant(Tensor::from_slice([list.len()], list).expect("a list"));
        value = match *op {
            "Flatten" => build.op("Flatten", &[value], &[("axis", 0.into())]),
            op => build.op(op, &[value, list], &[]),
        };
    }
    build.output("y", value);
    build.finish()
}

#[test]
fn what_a_view_is_made_of_is_computed_there() {
    let views: [(&[&str], fn(usize) -> Vec<usize>); 4] = [
        (&["Reshape"], |rows| vec![rows * 64, 4]),
        (&["Unsqueeze"], |rows| vec![1, rows, 256]),
        (&["Flatten"], |rows| vec![1, rows * 256]),
        (&["Unsqueeze", "Flatten", "Reshape", "Unsqueeze", "Squeeze"], |rows| vec![rows * 64, 4]),
    ];
    for (ops, shape) in views {
        for limits in [SessionOptions::default().plan_limits, NO_PLANS] {
            let graph = reshaped(&[-1, 4], ops);
            let options =
                SessionOptions { threads: 1, memory_bytes: 1 << 20, plan_limits: limits, ..SessionOptions::default() };
            let session = Session::from_graph(graph, &options).expect("it is supported");
            for rows in [4096, 4096, 4096, 8192, 8192] {
                let inputs = [("x", floats(&[rows, 1], 1))];
                session.run(&inputs).expect_err("the output takes more than the session may have");
                let (place, tensor) = Place::lend(TensorSpec::new(DType::F32, shape(rows)));
                let outputs = session.run_into(&request(&inputs), vec![("y", tensor)], &RunOptions::default());
                let made = outputs.expect("the caller has the memory").remove(0).1.into_tensor().expect("a tensor");
                assert_eq!((made.bytes().as_ptr(), made.shape()), (place.address, &shape(rows)[..]), "{ops:?}");
                drop(made);
                assert!(!place.contents().chunks(4).any(|bytes| bytes == [UNTOUCHED; 4]), "{ops:?}");
            }
        }
        agree(&reshaped(&[-1, 4], ops), &[vec![("x", floats(&[2, 1], 1))], vec![("x", floats(&[300, 1], 2))]]);
    }
}

/// A value whose views are outputs and have other readers too: one reader writes over its inputs where it may, one
/// takes parts, a branch passes the value on. Then the same with an input.
#[test]
fn a_value_that_others_have_too_is_made_there_or_copied() {
    let mut passed = GraphBuilder::new("passed", 17);
    let all = passed.input("all", DType::F32, ["n".into(), 4.into()]);
    let same = passed.op("Identity", &[all], &[]);
    passed.output("same", same);
    let passed = Attr::Graph(passed.finish().into());
    let mut build = GraphBuilder::new("others", 17);
    let x = build.input("x", DType::F32, ["n".into(), 4.into()]);
    let list = build.constant(Tensor::from_slice([1], &[-1i64]).unwrap());
    let given = build.op("Reshape", &[x, list], &[]);
    let bounded = build.op("Tanh", &[x], &[]);
    let flat = build.op("Reshape", &[bounded, list], &[]);
    let line = build.op("Flatten", &[bounded], &[("axis", 0.into())]);
    let halves = build.op_many("Split", &[Some(bounded)], 2, &[("axis", 1.into())]);
    let zero = build.constant(Tensor::scalar(0.0f32));
    let largest = build.op("ReduceMax", &[bounded], &[("keepdims", 0.into())]);
    let positive = build.op("Greater", &[largest, zero], &[]);
    let branches = [("then_branch", passed.clone()), ("else_branch", passed)];
    let chosen = build.op_with_bodies("If", &[Some(positive)], &[bounded], 1, &branches)[0];
    let squared = build.op("Mul", &[flat, flat], &[]);
    let negative = build.op("Neg", &[bounded], &[]);
    for (name, value) in [("given", given), ("flat", flat), ("line", line), ("left", halves[0]), ("chosen", chosen)] {
        build.output(name, value);
    }
    build.output("squared", squared);
    build.output("negative", negative);
    agree(&build.finish(), &[vec![("x", floats(&[3, 4], 1))], vec![("x", floats(&[4000, 4], 2))]]);
}

#[test]
fn memory_that_will_not_fit_is_refused_before_anything_runs() {
    // Running it would take more memory than the session may have, which is another error.
    for ops in [&[][..], &["Reshape"]] {
        let graph = reshaped(&[-1, 4], ops);
        let options = SessionOptions { threads: 1, memory_bytes: 1 << 20, ..SessionOptions::default() };
        let session = Session::from_graph(graph, &options).expect("it is supported");
        let whole = if ops.is_empty() { [4096, 256] } else { [4096 * 64, 4] };
        for request_number in 0..4 {
            let wrong = [
                TensorSpec::new(DType::F32, [whole[0], whole[1] / 2]),
                TensorSpec::new(DType::F32, [whole[1], whole[0]]),
                TensorSpec::new(DType::I32, whole),
            ];
            for bound in wrong {
                let inputs = [("x", floats(&[4096, 1], 1))];
                let (place, tensor) = Place::lend(bound.clone());
                let refused = session.run_into(&request(&inputs), vec![("y", tensor)], &RunOptions::default());
                match refused.expect_err("it does not fit") {
                    SessionError::Bound { name, bound: of, made } => {
                        assert_eq!((name.as_str(), of), ("y", bound), "request {request_number}");
                        assert_eq!(made, TensorSpec::new(DType::F32, whole));
                    }
                    other => panic!("request {request_number}: {other}"),
                }
                assert!(place.contents().iter().all(|&byte| byte == UNTOUCHED), "something ran");
            }
            // The plan of these shapes was made when memory sufficed, and is used the next time.
            let (_place, tensor) = Place::lend(TensorSpec::new(DType::F32, whole));
            let inputs = [("x", floats(&[4096, 1], 1))];
            session.run_into(&request(&inputs), vec![("y", tensor)], &RunOptions::default()).expect("it fits");
        }
    }
    // Inputs and constants that are outputs.
    let mut build = GraphBuilder::new("passed on", 17);
    let same = build.input("same", DType::F32, ["n".into()]);
    let constant = build.constant(floats(&[2], 1));
    build.output("same", same);
    build.output("two", constant);
    let session = session(&build.finish(), SessionOptions::default().plan_limits);
    for name in ["same", "two"] {
        let (place, tensor) = Place::lend(TensorSpec::new(DType::F32, [7]));
        let given = [("same", floats(&[3], 1))];
        let refused = session.run_into(&request(&given), vec![(name, tensor)], &RunOptions::default());
        let error = refused.expect_err("it does not fit");
        assert!(matches!(&error, SessionError::Bound { name: of, .. } if of == name), "{error}");
        assert!(place.contents().iter().all(|&byte| byte == UNTOUCHED));
    }
}

#[test]
fn values_that_no_step_allocates_are_copied_there() {
    let mut build = GraphBuilder::new("passed on", 17);
    let x = build.input("x", DType::F32, ["n".into(), 4.into()]);
    let same = build.op("Identity", &[x], &[]);
    let bounded = build.op("Tanh", &[x], &[]);
    let flat = build.constant(Tensor::from_slice([1], &[-1i64]).unwrap());
    let flat = build.op("Reshape", &[bounded, flat], &[]);
    let halves = build.op_many("Split", &[Some(bounded)], 2, &[("axis", 1.into())]);
    let shape = build.op("Shape", &[x], &[]);
    let constant = build.constant(floats(&[2, 2], 3));
    for (name, value) in [("same", same), ("flat", flat), ("shape", shape), ("constant", constant)] {
        build.output(name, value);
    }
    build.output("left", halves[0]);
    agree(&build.finish(), &[vec![("x", floats(&[2, 4], 1))], vec![("x", floats(&[7, 4], 2))]]);
}

#[test]
fn parts_of_one_tensor_and_values_that_are_one_lie_apart() {
    let mut build = GraphBuilder::new("parts", 17);
    let x = build.input("x", DType::F32, [4.into(), "n".into()]);
    let bounded = build.op("Tanh", &[x], &[]);
    let halves = build.op_many("Split", &[Some(bounded)], 2, &[("axis", 0.into())]);
    let again = build.op("Identity", &[bounded], &[]);
    for (name, value) in [("whole", bounded), ("again", again), ("top", halves[0]), ("bottom", halves[1])] {
        build.output(name, value);
    }
    agree(&build.finish(), &[vec![("x", floats(&[4, 3], 1))], vec![("x", floats(&[4, 5000], 2))]]);
}

/// A branch, and a loop that carries a value.
fn bodies() -> Graph {
    let branch = |op: &str| {
        let mut build = GraphBuilder::new(op, 17);
        let x = build.input("x", DType::F32, ["n".into()]);
        let made = build.op(op, &[x], &[]);
        build.output("made", made);
        Attr::Graph(build.finish().into())
    };
    let mut body = GraphBuilder::new("iteration", 17);
    body.input("iteration", DType::I64, []);
    let go = body.input("go", DType::Bool, []);
    let carried = body.input("carried", DType::F32, ["n".into()]);
    let next = body.op("Tanh", &[carried], &[]);
    body.output("go on", go);
    body.output("next", next);

    let mut build = GraphBuilder::new("bodies", 17);
    let x = build.input("x", DType::F32, ["n".into()]);
    let zero = build.constant(Tensor::scalar(0.0f32));
    let largest = build.op("ReduceMax", &[x], &[("keepdims", 0.into())]);
    let positive = build.op("Greater", &[largest, zero], &[]);
    let branches = [("then_branch", branch("Relu")), ("else_branch", branch("Identity"))];
    let chosen = build.op_with_bodies("If", &[Some(positive)], &[x], 1, &branches)[0];
    let count = build.constant(Tensor::scalar(3i64));
    let body = [("body", Attr::Graph(body.finish().into()))];
    let looped = build.op_with_bodies("Loop", &[Some(count), None, Some(x)], &[], 1, &body)[0];
    let after = build.op("Sigmoid", &[looped], &[]);
    for (name, value) in [("chosen", chosen), ("looped", looped), ("after", after)] {
        build.output(name, value);
    }
    build.finish()
}

#[test]
fn results_of_branches_and_loops_are_copied_there() {
    let negative = Tensor::from_slice([3], &[-1.0f32, -2.0, -3.0]).unwrap();
    agree(&bodies(), &[vec![("x", floats(&[7], 1))], vec![("x", negative)], vec![("x", floats(&[40_000], 2))]]);
}

#[test]
fn what_cannot_be_bound_is_refused_by_name() {
    let session = session(&cache(), SessionOptions::default().plan_limits);
    let inputs = [("past", floats(&[2, 3], 1)), ("new", floats(&[1, 3], 2))];
    let memory = || Tensor::zeros(TensorSpec::new(DType::F32, [3, 3])).unwrap();
    let refused = |outputs: Vec<(&str, Tensor)>| {
        session
            .run_into(&request(&inputs), outputs, &RunOptions::default())
            .expect_err("it cannot be bound")
            .to_string()
    };
    let text = refused(vec![("futures", memory())]);
    assert_eq!(text, "output 'futures': the model has no such output; it has present, weights");
    assert_eq!(refused(vec![("present", memory()), ("present", memory())]), "output 'present': bound twice");
    let shared = memory();
    let not_writable = TensorError::NotWritable(shared.shape().into()).to_string();
    assert_eq!(refused(vec![("weights", shared.clone())]), format!("output 'weights': {not_writable}"));
    let read_only = Tensor::from_foreign(TensorSpec::new(DType::U8, [3, 3]), Foreign::of([0u8; 9])).unwrap();
    assert_eq!(refused(vec![("weights", read_only)]), format!("output 'weights': {not_writable}"));
    // An input of the request has another owner: the request itself.
    let past = vec![("past", Value::Tensor(shared.clone())), ("new", Value::Tensor(floats(&[1, 3], 2)))];
    let text = session.run_into(&past, vec![("present", shared)], &RunOptions::default()).unwrap_err().to_string();
    assert_eq!(text, format!("output 'present': {not_writable}"));

    for other in [TensorSpec::new(DType::F32, [9]), TensorSpec::new(DType::I32, [3, 3])] {
        let outputs = vec![("present", Tensor::zeros(other.clone()).unwrap())];
        let error = session.run_into(&request(&inputs), outputs, &RunOptions::default()).unwrap_err();
        let text = error.to_string();
        let SessionError::Bound { name, bound, made } = error else { panic!("{text}") };
        assert_eq!((name.as_str(), bound, made), ("present", other, TensorSpec::new(DType::F32, [3, 3])), "{text}");
    }
    agree(&cache(), &[inputs.to_vec()]);
}

#[test]
fn a_request_that_ends_early_lets_the_memory_go() {
    let session = session(&bodies(), SessionOptions::default().plan_limits);
    let inputs = [("x", floats(&[7], 1))];
    for limit in [Some(std::time::Duration::ZERO), None] {
        let options = RunOptions { time_limit: limit, ..RunOptions::default() };
        let (place, tensor) = Place::lend(TensorSpec::new(DType::F32, [7]));
        match session.run_into(&request(&inputs), vec![("after", tensor)], &options) {
            Err(SessionError::Run(error)) => assert!(matches!(error.stopped(), Some(Stopped::TimeLimit(_))), "{error}"),
            other => assert!(limit.is_none() && other.is_ok()),
        }
        place.contents();
    }
}

/// An input and the output that takes its place, which holds these numbers at first.
fn over(numbers: &Tensor) -> (Place, Tensor) {
    let (place, mut tensor) = Place::lend(numbers.spec().clone());
    tensor.bytes_mut().copy_from_slice(numbers.bytes());
    assert_eq!(tensor.bytes().as_ptr(), place.address);
    (place, tensor)
}

#[test]
fn an_output_takes_the_place_of_an_input() {
    let graph = |case: &str| {
        let mut build = GraphBuilder::new("over", 17);
        let x = build.input("x", DType::F32, ["n".into(), 256.into()]);
        let step = build.input("step", DType::F32, [1.into(), 256.into()]);
        let y = match case {
            "passed on" => build.op("Identity", &[x], &[]),
            "computed in between" => {
                let between = build.op("Softmax", &[x], &[("axis", (-1).into())]);
                build.op("Softmax", &[between], &[("axis", 1.into())])
            }
            _ => build.op("Add", &[x, step], &[]),
        };
        build.output("y", y);
        if case == "read later" {
            let also = build.op("ReduceSum", &[x], &[("keepdims", 0.into())]);
            let later = build.op("Mul", &[also, y], &[]);
            build.output("later", later);
        }
        if case == "returned" {
            let same = build.op("Identity", &[x], &[]);
            build.output("same", same);
        }
        build.finish()
    };
    for case in ["in place", "computed in between", "read later", "passed on", "returned"] {
        for limits in [SessionOptions::default().plan_limits, NO_PLANS] {
            let (plain, bound) = (session(&graph(case), limits), session(&graph(case), limits));
            for rows in [2, 2, 3, 2, 300] {
                let [x, step] = [floats(&[rows, 256], rows), floats(&[1, 256], 9)];
                let expected = plain.run(&[("x", x.clone()), ("step", step.clone())]).expect("it is sound");
                let (place, tensor) = over(&x);
                let inputs = [("step", Value::Tensor(step))];
                let outputs = bound.run_over(&inputs, vec![("y", tensor)], &[("x", "y")], &RunOptions::default());
                let outputs = outputs.expect(case);
                for ((name, made), (_, expected)) in outputs.into_iter().zip(&expected) {
                    let made = made.into_tensor().expect("a tensor");
                    assert!(made.same(expected), "{case}: {name}");
                    assert_eq!(place.holds(&made), name == "y", "{case}: {name}");
                }
                assert_eq!(place.contents(), expected[0].1.bytes(), "{case}");
            }
        }
    }
}

#[test]
fn nothing_is_copied_where_an_output_takes_the_place_of_an_input() {
    let mut build = GraphBuilder::new("over", 17);
    let x = build.input("x", DType::F32, ["n".into(), 256.into()]);
    let step = build.input("step", DType::F32, [1.into(), 256.into()]);
    let y = build.op("Add", &[x, step], &[]);
    build.output("y", y);
    let graph = build.finish();
    for limits in [SessionOptions::default().plan_limits, NO_PLANS] {
        let options =
            SessionOptions { threads: 1, memory_bytes: 1 << 20, plan_limits: limits, ..SessionOptions::default() };
        let session = Session::from_graph(graph.clone(), &options).expect("it is supported");
        let mut place_of = over(&floats(&[4096, 256], 0));
        for round in 0..4 {
            let (place, tensor) = place_of;
            let inputs = [("step", Value::Tensor(floats(&[1, 256], round)))];
            let outputs = session.run_over(&inputs, vec![("y", tensor)], &[("x", "y")], &RunOptions::default());
            let made = outputs.expect("the session may have no memory of that size").remove(0).1;
            let made = made.into_tensor().expect("a tensor");
            assert_eq!(made.bytes().as_ptr(), place.address, "round {round}");
            place_of = (place, made);
        }
        // A request that stops before the step leaves the memory as it was.
        let (place, tensor) = place_of;
        let before = tensor.bytes().to_vec();
        let inputs = [("step", Value::Tensor(floats(&[1, 256], 9)))];
        let late = RunOptions { time_limit: Some(Default::default()), ..RunOptions::default() };
        session.run_over(&inputs, vec![("y", tensor)], &[("x", "y")], &late).expect_err("no time is left");
        assert_eq!(place.contents(), before);
    }
}

#[test]
fn inputs_that_no_output_can_take_the_place_of_are_refused() {
    let mut build = GraphBuilder::new("over", 17);
    let x = build.input("x", DType::F32, ["n".into(), 3.into()]);
    let y = build.op("Neg", &[x], &[]);
    build.output("y", y);
    let session = session(&build.finish(), NO_PLANS);
    let given = [("x", Value::Tensor(floats(&[2, 3], 1)))];
    let run = |inputs: &[(&str, Value)], over: &[(&str, &str)]| {
        let (_place, tensor) = Place::lend(TensorSpec::new(DType::F32, [2, 3]));
        session.run_over(inputs, vec![("y", tensor)], over, &RunOptions::default())
    };
    assert!(matches!(run(&given, &[("x", "y")]), Err(SessionError::Input { reason, .. }) if reason == "given twice"));
    for pairs in [&[("x", "z")][..], &[("x", "y"), ("z", "y")]] {
        let refused = run(&[], pairs);
        assert!(matches!(refused, Err(SessionError::Output { .. })), "{pairs:?}");
    }
    assert!(matches!(run(&[], &[("z", "y")]), Err(SessionError::Input { name, .. }) if name == "z"));
    let (_place, tensor) = Place::lend(TensorSpec::new(DType::F32, [2, 4]));
    let refused = session.run_over(&[], vec![("y", tensor)], &[("x", "y")], &RunOptions::default());
    assert!(matches!(refused, Err(SessionError::Input { name, .. }) if name == "x"), "another shape");
}

#[test]
fn an_output_of_one_name_twice_is_returned_twice_and_bound_once() {
    let mut build = GraphBuilder::new("state", 17);
    let x = build.input("x", DType::F32, [4.into()]);
    let y = build.op("Abs", &[x], &[]);
    build.output("y", y);
    build.output("y", y);
    let session = Session::from_graph(build.finish(), &SessionOptions::default()).unwrap();
    let x = Tensor::from_slice([4], &[-1.0f32, 2.0, -3.0, 4.0]).unwrap();
    let outputs = session.run(&[("x", x.clone())]).unwrap();
    let names: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["y", "y"]);
    assert!(outputs.iter().all(|(_, y)| y.as_slice::<f32>().unwrap() == [1.0, 2.0, 3.0, 4.0]));
    let (place, memory) = Place::lend(TensorSpec::new(DType::F32, [4]));
    let given = [("x", Value::Tensor(x))];
    drop(outputs);
    drop(session.run_into(&given, vec![("y", memory)], &RunOptions::default()).unwrap());
    assert_eq!(place.contents(), bytemuck::cast_slice::<f32, u8>(&[1.0, 2.0, 3.0, 4.0]));
}
