//! Requests side by side: each has the same bits as alone, fails alone, and has its result at its own place; all end
//! together; and no more threads compute than the session has.

mod joined;

#[path = "../passes/draw.rs"]
mod draw;
#[path = "../invariant/cases.rs"]
#[allow(dead_code, reason = "another test reads all of it")]
mod networks;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use draw::{Form, draw};
use kiln::session::{Cancel, Join, Numerics, RunOptions, Session, SessionError, SessionOptions, Width};
use kiln::{Stopped, Value};
use kiln_model::{Attr, Graph, GraphBuilder};
use kiln_run::record::CacheMode;
use kiln_tensor::{DType, Tensor};
use networks::{CASES, Case, numbers};

const THREADS: [usize; 4] = [1, 2, 3, 7];

type Request = Vec<(&'static str, Tensor)>;
type Answer = Result<Vec<(String, Tensor)>, SessionError>;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

fn session(graph: Graph, threads: usize, numerics: Numerics) -> Session {
    // Without records the first request of each shape is joined too.
    let options = SessionOptions { threads, numerics, cache_mode: CacheMode::Off, ..SessionOptions::default() };
    Session::from_graph(graph, &options).unwrap()
}

/// The network of a case, whose batch is open.
fn graph(case: &Case) -> Graph {
    let mut build = GraphBuilder::new(case.name, 20);
    let dims = case.item.iter().map(|&size| size.into());
    let x = build.input("x", DType::F32, std::iter::once("n".into()).chain(dims).collect::<Vec<_>>());
    let y = (case.make)(&mut build, x);
    build.output("y", y);
    build.finish()
}

/// Sums of lines with weights. There may be any number of lines.
fn lines() -> Graph {
    let mut build = GraphBuilder::new("lines", 17);
    let x = build.input("x", DType::F32, ["n".into(), 4.into()]);
    let weight = build.constant(Tensor::from_vec([4, 1], vec![1f32, 2.0, 3.0, 4.0]).unwrap());
    let y = build.op("MatMul", &[x, weight], &[]);
    build.output("y", y);
    build.finish()
}

fn line(rows: usize, seed: usize) -> Request {
    vec![("x", Tensor::from_vec([rows, 4], numbers(rows * 4, seed)).unwrap())]
}

fn bytes(answer: &Answer) -> Vec<Vec<u8>> {
    answer.as_ref().unwrap().iter().map(|(_, output)| output.bytes().to_vec()).collect()
}

#[track_caller]
fn stopped(answer: &Answer) -> Option<Stopped> {
    match answer {
        Err(SessionError::Run(error)) => error.stopped(),
        other => panic!("it should have ended: {other:?}"),
    }
}

#[test]
fn an_answer_has_the_bits_that_it_has_alone() {
    let mut random = Random(42);
    for case in CASES.iter().filter(|case| !case.heavy) {
        for numerics in [Numerics::Default, Numerics::Invariant, Numerics::Strict, Numerics::Precise] {
            let each: usize = case.item.iter().product();
            let request = |batch: usize, seed: usize| -> Request {
                let shape = std::iter::once(batch).chain(case.item.iter().copied());
                vec![("x", Tensor::from_vec(shape, numbers(batch * each, seed)).unwrap())]
            };
            let requests: Vec<Request> =
                (0..1 + random.below(12)).map(|seed| request(1 + random.below(9), seed)).collect();
            // Another session, so that its executors are not those that ran side by side.
            let alone = session(graph(case), 2, numerics);
            let expected: Vec<_> = requests.iter().map(|request| bytes(&alone.run(request))).collect();
            for threads in THREADS {
                let session = session(graph(case), threads, numerics);
                for width in [Width::Wide, Width::Narrow] {
                    let options = RunOptions { width, ..RunOptions::default() };
                    let answers = session.run_many(&requests, &options);
                    assert_eq!(answers.len(), requests.len());
                    for (place, (answer, expected)) in answers.iter().zip(&expected).enumerate() {
                        let what = format!("{}, {numerics:?}, {threads} threads, {width:?}: {place}", case.name);
                        assert!(bytes(answer) == *expected, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn graphs_drawn_at_random_give_the_bits_of_requests_alone() {
    let mut random = Random(7);
    for _ in 0..60 {
        let choices: Vec<u16> = (0..20 + random.below(60)).map(|_| random.below(1 << 16) as u16).collect();
        let drawn = draw(&choices, Form::default());
        let requests: Vec<Vec<(&str, Tensor)>> = (0..9)
            .map(|_| &drawn.requests[random.below(drawn.requests.len())])
            .map(|request| request.iter().map(|(name, value)| (name.as_str(), value.clone())).collect())
            .collect();
        let alone = session(drawn.graph.clone(), 3, Numerics::Default);
        let together = session(drawn.graph.clone(), 3, Numerics::Default);
        let answers = together.run_many(&requests, &RunOptions::default());
        for (request, answer) in requests.iter().zip(&answers) {
            assert_eq!(bytes(&alone.run(request)), bytes(answer), "{}", drawn.told());
        }
    }
}

#[test]
fn a_narrow_request_has_the_bits_of_a_wide_one() {
    let narrow = RunOptions { width: Width::Narrow, ..RunOptions::default() };
    for case in CASES.iter().filter(|case| !case.heavy) {
        let session = session(graph(case), 3, Numerics::Default);
        let shape = std::iter::once(5).chain(case.item.iter().copied());
        let x = Tensor::from_vec(shape, numbers(5 * case.item.iter().product::<usize>(), 3)).unwrap();
        let request = [("x", x)];
        assert_eq!(bytes(&session.run(&request)), bytes(&session.run_with(&request, &narrow)), "{}", case.name);
    }
}

#[test]
fn a_bad_request_fails_alone() {
    let session = session(lines(), 3, Numerics::Default);
    let bad = Tensor::from_vec([2, 5], vec![0f32; 10]).unwrap();
    let requests = [line(3, 0), vec![("x", bad)], line(40, 1), vec![("z", line(1, 0).remove(0).1)], vec![], line(1, 2)];
    let answers = session.run_many(&requests, &RunOptions::default());
    for good in [0, 2, 5] {
        assert_eq!(bytes(&answers[good]), bytes(&session.run(&requests[good])), "request {good}");
    }
    for (place, reason) in [(1, "got [2, 5]"), (3, "the model has no such input"), (4, "not given")] {
        let error = answers[place].as_ref().unwrap_err();
        assert!(matches!(error, SessionError::Input { .. }) && error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn an_index_that_a_table_lacks_fails_its_request_alone() {
    let mut build = GraphBuilder::new("table", 17);
    let ids = build.input("ids", DType::I64, ["n".into()]);
    let table = build.constant(Tensor::from_vec([4, 2], (0..8u8).map(f32::from).collect()).unwrap());
    let y = build.op("Gather", &[table, ids], &[("axis", Attr::Int(0))]);
    build.output("y", y);
    let session = session(build.finish(), 2, Numerics::Default);
    let request = |id: i64| vec![("ids", Tensor::from_vec([1], vec![id]).unwrap())];
    let requests: Vec<Request> = [0, 9, 3, -9, 1].map(request).into();
    let answers = session.run_many(&requests, &RunOptions::default());
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, false, true]);
    let row = answers[2].as_ref().unwrap()[0].1.as_slice::<f32>().unwrap().to_vec();
    assert_eq!(row, [6.0, 7.0]);
    assert!(matches!(answers[1], Err(SessionError::Run(_))));
}

#[test]
fn no_requests_have_no_answers() {
    assert!(session(lines(), 2, Numerics::Default).run_many(&[], &RunOptions::default()).is_empty());
}

#[test]
fn a_limit_that_is_over_ends_all_and_no_later_request() {
    let session = session(lines(), 2, Numerics::Default);
    let requests: Vec<Request> = (1..20).map(|rows| line(rows, rows)).collect();
    let limit = Duration::ZERO;
    let late = RunOptions { time_limit: Some(limit), ..RunOptions::default() };
    for answer in session.run_many(&requests, &late) {
        assert_eq!(stopped(&answer), Some(Stopped::TimeLimit(limit)));
    }
    let cancel = Cancel::new();
    cancel.cancel();
    let off = RunOptions { cancel: Some(cancel), ..RunOptions::default() };
    for answer in session.run_many(&requests, &off) {
        assert_eq!(stopped(&answer), Some(Stopped::Cancelled));
    }
    assert!(session.run_many(&requests, &RunOptions::default()).iter().all(Result::is_ok));
}

/// A handle that cancels once it was asked more than `times` times, and the threads that asked.
fn asked(times: usize) -> (Cancel, Arc<Mutex<Vec<ThreadId>>>) {
    let threads = Arc::new(Mutex::new(Vec::new()));
    let seen = threads.clone();
    let cancel = Cancel::asking(move || {
        let mut seen = seen.lock().unwrap();
        seen.push(std::thread::current().id());
        seen.len() > times
    });
    (cancel, threads)
}

#[test]
fn a_cancel_on_the_way_ends_what_has_not_finished() {
    for width in [Width::Wide, Width::Narrow] {
        for (join, times) in [(Join::Never, 40), (Join::Auto, 10)] {
            let session = session(lines(), 2, Numerics::Default);
            let requests: Vec<Request> = (0..64).map(|seed| line(16, seed)).collect();
            let (cancel, _) = asked(times);
            let answers =
                session.run_many(&requests, &RunOptions { cancel: Some(cancel), width, join, ..Default::default() });
            let finished = answers.iter().filter(|answer| answer.is_ok()).count();
            assert!((1..64).contains(&finished), "{width:?}, {join:?}: {finished} finished");
            for (request, answer) in requests.iter().zip(&answers) {
                match answer {
                    Ok(_) => assert_eq!(bytes(answer), bytes(&session.run(request))),
                    Err(_) => assert_eq!(stopped(answer), Some(Stopped::Cancelled)),
                }
            }
        }
    }
}

#[test]
fn the_time_limit_of_a_session_is_that_of_each_request() {
    let time_limit = Some(Duration::ZERO);
    let options = SessionOptions { threads: 2, cache_mode: CacheMode::Memory, time_limit, ..SessionOptions::default() };
    let session = Session::from_graph(lines(), &options).unwrap();
    let requests = [line(1, 0), line(2, 1)];
    assert!(session.run_many(&requests, &RunOptions::default()).iter().all(Result::is_err));
    let patient = RunOptions { time_limit: Some(Duration::from_secs(60)), ..RunOptions::default() };
    assert!(session.run_many(&requests, &patient).iter().all(Result::is_ok));
}

#[test]
fn no_more_threads_compute_than_the_session_has() {
    for (threads, width, most) in [(3, Width::Wide, 3), (3, Width::Narrow, 1), (1, Width::Wide, 1)] {
        let session = session(lines(), threads, Numerics::Default);
        let requests: Vec<Request> = (0..200).map(|seed| line(1 + seed % 50, seed)).collect();
        let (cancel, seen) = asked(usize::MAX);
        let options = RunOptions { cancel: Some(cancel), width, ..RunOptions::default() };
        assert!(session.run_many(&requests, &options).iter().all(Result::is_ok));
        let seen: HashSet<ThreadId> = seen.lock().unwrap().iter().copied().collect();
        assert!((1..=most).contains(&seen.len()), "{} threads of {most}", seen.len());
        assert!(most > 1 || seen.contains(&std::thread::current().id()));
    }
}

#[test]
fn lists_of_several_threads_do_not_wait_for_each_other() {
    let session = session(lines(), 2, Numerics::Default);
    let requests: Vec<Request> = (0..32).map(|seed| line(1 + seed, seed)).collect();
    let expected: Vec<_> = requests.iter().map(|request| bytes(&session.run(request))).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let answers = session.run_many(&requests, &RunOptions::default());
                assert_eq!(answers.iter().map(bytes).collect::<Vec<_>>(), expected);
            });
        }
    });
}

#[test]
fn sequences_run_side_by_side_too() {
    let mut build = GraphBuilder::new("pair", 17);
    let x = build.input("x", DType::F32, ["n".into()]);
    let y = build.op("SequenceConstruct", &[x, x], &[]);
    build.output("y", y);
    let session = session(build.finish(), 2, Numerics::Default);
    let request = |size: usize| vec![("x", Value::Tensor(Tensor::from_vec([size], numbers(size, size)).unwrap()))];
    let requests: Vec<_> = (1..9).map(request).collect();
    let answers = session.run_many_values(&requests, &RunOptions::default());
    for (size, answer) in (1..9).zip(answers) {
        let Value::Sequence(parts) = &answer.unwrap()[0].1 else { panic!("a sequence is expected") };
        assert!(parts.len() == 2 && parts.iter().all(|part| part.shape() == [size]));
    }
}
