//! Rows of many requests that are computed together: which requests they are, and that only the time shows it.

use std::cell::Cell;
use std::collections::HashSet;

use kiln::session::{Join, Numerics, RunOptions, Session, SessionOptions, Width};
use kiln::{Cancel, Value};
use kiln_kernels::Isa;
use kiln_model::{Attr, Graph, GraphBuilder};
use kiln_run::record::CacheMode;
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::networks::numbers;
use super::{Answer, Random, Request, bytes, session};

const WORDS: usize = 50;
const WIDTH: usize = 32;

fn weights(build: &mut GraphBuilder, shape: &[usize], seed: usize) -> kiln_model::ValueId {
    build.constant(Tensor::from_vec(shape.iter().copied(), numbers(shape.iter().product(), seed)).unwrap())
}

/// A text encoder of two layers: words and positions, attention under a mask, functions of elements and norms. One more
/// product follows for the first word's state.
fn encoder() -> Graph {
    let mut build = GraphBuilder::new("encoder", 23);
    let ids = build.input("ids", DType::I64, ["n".into(), "s".into()]);
    let mask = build.input("mask", DType::Bool, ["n".into(), 1.into(), "s".into(), "s".into()]);
    let words = weights(&mut build, &[WORDS, WIDTH], 1);
    let places = weights(&mut build, &[64, WIDTH], 2);
    let mut x = build.op("Gather", &[words, ids], &[]);
    // The first places, one for each word of the request.
    let shape = build.op("Shape", &[ids], &[("start", Attr::Int(1))]);
    let zero = build.constant(Tensor::from_vec([1], vec![0i64]).unwrap());
    let own = build.op("Slice", &[places, zero, shape], &[]);
    x = build.op("Add", &[x, own], &[]);
    for layer in 0..2 {
        let seed = |place: usize| 10 * layer + place;
        let [q, k, v, o] = [3, 4, 5, 6].map(|place| weights(&mut build, &[WIDTH, WIDTH], seed(place)));
        let [up, down] =
            [([WIDTH, 48], 7), ([48, WIDTH], 8)].map(|(shape, place)| weights(&mut build, &shape, seed(place)));
        let scale = weights(&mut build, &[WIDTH], seed(9));
        x = build.op("LayerNormalization", &[x, scale], &[]);
        let [q, k, v] = [q, k, v].map(|weight| build.op("MatMul", &[x, weight], &[]));
        let heads = [("q_num_heads", Attr::Int(2)), ("kv_num_heads", Attr::Int(2))];
        let seen = build.op("Attention", &[q, k, v, mask], &heads);
        let seen = build.op("MatMul", &[seen, o], &[]);
        x = build.op("Add", &[seen, x], &[]);
        let inner = build.op("MatMul", &[x, up], &[]);
        let inner = build.op("Gelu", &[inner], &[]);
        let inner = build.op("MatMul", &[inner, down], &[]);
        x = build.op("Add", &[inner, x], &[]);
    }
    build.output("states", x);
    let first = build.constant(Tensor::scalar(0i64));
    let state = build.op("Gather", &[x, first], &[("axis", Attr::Int(1))]);
    let head = weights(&mut build, &[WIDTH, 5], 30);
    let scores = build.op("MatMul", &[state, head], &[]);
    build.output("scores", scores);
    build.finish()
}

fn text(batch: usize, length: usize, seed: usize) -> Request {
    let count = batch * length;
    let ids = numbers(count, seed).iter().map(|x| ((x + 1.0) * 0.4 * WORDS as f32) as i64).collect();
    // Each word sees itself, and other words by chance.
    let sees = |at: usize, x: f32| at.is_multiple_of(length + 1) || x > -0.3;
    let mask = numbers(count * length, seed + 1).into_iter().enumerate();
    let mask: Vec<u8> = mask.map(|(at, x)| u8::from(sees(at % (length * length), x))).collect();
    vec![
        ("ids", Tensor::from_vec([batch, length], ids).unwrap()),
        ("mask", Tensor::from_bytes(TensorSpec::new(DType::Bool, [batch, 1, length, length]), &mask).unwrap()),
    ]
}

fn texts(count: usize, longest: usize) -> Vec<Request> {
    let mut random = Random(count as u64);
    (0..count).map(|seed| text(1 + random.below(2), 1 + random.below(longest), seed)).collect()
}

fn all(answers: &[Answer]) -> Vec<Vec<Vec<u8>>> {
    answers.iter().map(bytes).collect()
}

#[test]
fn texts_of_mixed_lengths_are_joined_and_have_the_bits_that_they_have_alone() {
    let requests = texts(40, 20);
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa <= Isa::detect()) {
        for numerics in [Numerics::Default, Numerics::Invariant, Numerics::Strict] {
            let options = |threads: usize| SessionOptions {
                threads,
                numerics,
                max_isa: Some(isa),
                cache_mode: CacheMode::Off,
                ..SessionOptions::default()
            };
            let alone = Session::from_graph(encoder(), &options(2)).unwrap();
            let expected: Vec<_> = requests.iter().map(|request| bytes(&alone.run(request))).collect();
            for threads in [1, 2, 3] {
                let session = Session::from_graph(encoder(), &options(threads)).unwrap();
                for width in [Width::Wide, Width::Narrow] {
                    let before = session.share_stats().joined;
                    let answers = session.run_many(&requests, &RunOptions { width, ..RunOptions::default() });
                    assert!(all(&answers) == expected, "{isa}, {numerics:?}, {threads} threads, {width:?}");
                    let joined = session.share_stats().joined - before;
                    assert!(joined > 10, "{isa}, {numerics:?}: {joined} of {} were joined", requests.len());
                }
            }
        }
    }
}

/// A chain of operators drawn at random over `[n, s, WIDTH]`: row by row, along the sequence, along the batch, and with
/// earlier values.
fn drawn(random: &mut Random) -> Graph {
    let mut build = GraphBuilder::new("drawn", 20);
    let x = build.input("x", DType::F32, ["n".into(), "s".into(), WIDTH.into()]);
    let mut values = vec![x];
    for seed in 0..6 + random.below(10) {
        let x = values[values.len() - 1 - random.below(values.len().min(3))];
        let other = values[random.below(values.len())];
        let axis = |axis: i64| [("axis", Attr::Int(axis))];
        let y = match random.below(14) {
            0..=3 => {
                let weight = weights(&mut build, &[WIDTH, WIDTH], seed);
                build.op("MatMul", &[x, weight], &[])
            }
            4 => {
                let target = list(&mut build, &[-1, WIDTH as i64]);
                let flat = build.op("Reshape", &[x, target], &[]);
                let [weight, bias] = [&[WIDTH, WIDTH][..], &[WIDTH]].map(|shape| weights(&mut build, shape, seed));
                let product = build.op("Gemm", &[flat, weight, bias], &[]);
                let shape = build.op("Shape", &[x], &[]);
                build.op("Reshape", &[product, shape], &[])
            }
            5 => build.op("Add", &[x, other], &[]),
            6 => {
                let row = weights(&mut build, &[WIDTH], seed);
                build.op("Mul", &[x, row], &[])
            }
            7 => build.op("Tanh", &[x], &[]),
            8 => build.op("Softmax", &[x], &axis(2 - random.below(3) as i64)),
            9 => {
                let scale = weights(&mut build, &[WIDTH], seed);
                build.op("LayerNormalization", &[x, scale], &axis(if random.below(2) == 0 { -1 } else { 1 }))
            }
            10 => {
                let place = list(&mut build, &[random.below(2) as i64]);
                let mean = build.op("ReduceMean", &[x, place], &[("keepdims", Attr::Int(1))]);
                build.op("Sub", &[x, mean], &[])
            }
            11 => {
                let turned = build.op("Transpose", &[x], &[("perm", [0, 2, 1].into())]);
                let scores = build.op("MatMul", &[x, turned], &[]);
                build.op("MatMul", &[scores, other], &[])
            }
            12 => {
                let sums = list(&mut build, &[1]);
                let last = build.constant(Tensor::scalar(1i64));
                let sum = build.op("CumSum", &[x, last], &[]);
                let mean = build.op("ReduceMax", &[sum, sums], &[("keepdims", Attr::Int(1))]);
                build.op("Div", &[sum, mean], &[])
            }
            _ => {
                let place = list(&mut build, &[0]);
                let first = build.op("Gather", &[x, place], &axis(random.below(2) as i64));
                build.op("Sub", &[other, first], &[])
            }
        };
        values.push(y);
    }
    for (place, value) in values.iter().rev().take(2).enumerate() {
        build.output(&format!("y{place}"), *value);
    }
    build.finish()
}

fn list(build: &mut GraphBuilder, sizes: &[i64]) -> kiln_model::ValueId {
    build.constant(Tensor::from_vec([sizes.len()], sizes.to_vec()).unwrap())
}

#[test]
fn graphs_of_rows_and_of_what_looks_along_them_have_the_bits_of_requests_alone() {
    let mut random = Random(11);
    let mut joined = 0;
    for drawn_graph in 0..150 {
        let graph = drawn(&mut random);
        let numerics = [Numerics::Default, Numerics::Invariant][drawn_graph % 2];
        let alone = session(graph.clone(), 2, numerics);
        let together = session(graph, 1 + random.below(3), numerics);
        let request = |seed: usize, random: &mut Random| -> Request {
            let (batch, length) = (1 + random.below(3), 1 + random.below(14));
            let numbers = numbers(batch * length * WIDTH, seed);
            vec![("x", Tensor::from_vec([batch, length, WIDTH], numbers).unwrap())]
        };
        let requests: Vec<Request> = (0..9).map(|seed| request(seed, &mut random)).collect();
        let answers = together.run_many(&requests, &RunOptions::default());
        for (request, answer) in requests.iter().zip(&answers) {
            assert_eq!(bytes(&alone.run(request)), bytes(answer), "graph {drawn_graph}: {:#?}", alone.describe());
        }
        joined += together.share_stats().joined;
    }
    assert!(joined > 300, "of 1,350 requests {joined} were joined");
}

#[test]
fn rows_are_joined_only_where_that_was_not_refused() {
    let session = session(encoder(), 2, Numerics::Invariant);
    let requests = texts(8, 12);
    let never = RunOptions { join: Join::Never, ..RunOptions::default() };
    let alone = all(&session.run_many(&requests, &never));
    assert_eq!(session.share_stats().joined, 0);
    assert_eq!(all(&session.run_many(&requests, &RunOptions::default())), alone);
    assert_eq!(session.share_stats().joined, 8);
    assert_eq!(all(&session.run_many(&requests[..1], &RunOptions::default())), alone[..1]);
    assert_eq!(session.share_stats().joined, 8, "a request alone has no other");
}

#[test]
fn long_requests_run_beside_groups_of_short_ones() {
    let session = session(encoder(), 2, Numerics::Invariant);
    let requests = [text(2, 60, 0), text(1, 5, 1), text(2, 33, 2), text(1, 9, 3), text(1, 7, 4)];
    let answers = session.run_many(&requests, &RunOptions::default());
    for (request, answer) in requests.iter().zip(&answers) {
        assert_eq!(bytes(answer), bytes(&session.run(request)));
    }
    assert!((2..=3).contains(&session.share_stats().joined), "{:?}", session.share_stats());
}

#[test]
fn a_request_that_fails_does_so_alone_and_its_group_has_its_answers() {
    let session = session(encoder(), 1, Numerics::Invariant);
    let mut requests = texts(6, 9);
    let wrong = vec![WORDS as i64; requests[2][0].1.len()];
    requests[2][0].1 = Tensor::from_vec(requests[2][0].1.shape().iter().copied(), wrong).unwrap();
    let answers = session.run_many(&requests, &RunOptions::default());
    for (place, (request, answer)) in requests.iter().zip(&answers).enumerate() {
        match place {
            2 => assert!(answer.as_ref().unwrap_err().to_string().contains("50"), "{answer:?}"),
            _ => assert_eq!(bytes(answer), bytes(&session.run(request)), "request {place}"),
        }
    }
    assert_eq!(session.share_stats().joined, 0, "the group fell apart");
}

#[test]
fn dimensions_of_one_name_that_differ_are_as_wrong_as_alone() {
    let session = session(encoder(), 1, Numerics::Invariant);
    let mut requests = texts(4, 6);
    requests[1][1].1 = text(1, 40, 0).remove(1).1;
    let answers = session.run_many(&requests, &RunOptions::default());
    assert!(answers[1].is_err());
    for place in [0, 2, 3] {
        assert_eq!(bytes(&answers[place]), bytes(&session.run(&requests[place])));
    }
}

/// A request whose inputs are any values.
fn values(request: &Request) -> Vec<(&'static str, Value)> {
    request.iter().map(|(name, tensor)| (*name, Value::Tensor(tensor.clone()))).collect()
}

/// No request leaves its group.
const STAYS: fn(usize) -> bool = |_| false;

/// The bytes of outputs.
fn raw(outputs: &[(String, Value)]) -> Vec<Vec<u8>> {
    outputs.iter().map(|(_, output)| output.as_tensor().unwrap().bytes().to_vec()).collect()
}

#[test]
fn a_program_with_a_queue_of_its_own_groups_what_joins() {
    let session = session(encoder(), 2, Numerics::Invariant);
    let rows = |request: &Request| {
        let shapes: Vec<(&str, &[usize])> = request.iter().map(|(name, tensor)| (*name, tensor.shape())).collect();
        session.rows_to_join(&shapes)
    };
    assert_eq!(rows(&text(2, 9, 0)), Some(18));
    assert_eq!(rows(&text(1, 65, 0)), None, "it gains nothing by others");
    assert_eq!(rows(&vec![("ids", text(1, 3, 0).remove(0).1), ("other", Tensor::scalar(1f32))]), None, "no such input");
    assert_eq!(session.join_report().unwrap().group, 256);

    let requests = texts(5, 12);
    let group: Vec<_> = requests.iter().map(values).collect();
    for width in [Width::Wide, Width::Narrow] {
        let outputs = session.run_together(&group, &RunOptions { width, ..RunOptions::default() }, &STAYS).unwrap();
        assert_eq!(outputs.len(), requests.len());
        for (request, outputs) in requests.iter().zip(&outputs) {
            assert_eq!(bytes(&session.run(request)), raw(outputs.as_ref().unwrap()));
        }
    }
    assert_eq!(session.share_stats().joined, 10);
}

#[test]
fn a_group_that_falls_apart_has_no_outputs() {
    let session = session(encoder(), 1, Numerics::Invariant);
    let group: Vec<_> = texts(3, 8).iter().map(values).collect();
    let options = RunOptions::default();
    assert!(session.run_together(&group[..1], &options, &STAYS).is_none(), "one alone is no group");
    let never = RunOptions { join: Join::Never, ..RunOptions::default() };
    assert!(session.run_together(&group, &never, &STAYS).is_none());

    let cancel = Cancel::asking(|| true);
    assert!(
        session.run_together(&group, &RunOptions { cancel: Some(cancel), ..RunOptions::default() }, &STAYS).is_none()
    );

    let mut wrong = text(1, 4, 0);
    wrong[0].1 = Tensor::from_vec([1, 4], vec![WORDS as i64; 4]).unwrap();
    let wrong = [group[0].clone(), values(&wrong)];
    assert!(session.run_together(&wrong, &options, &STAYS).is_none());
    let unknown = [group[0].clone(), vec![("nothing", Value::Tensor(Tensor::scalar(1f32)))]];
    assert!(session.run_together(&unknown, &options, &STAYS).is_none());
    assert_eq!(session.share_stats().joined, 0);
    assert!(session.run_together(&group, &options, &STAYS).is_some());
}

#[test]
fn a_request_leaves_its_group_between_two_stages_and_the_others_keep_their_bits() {
    for numerics in [Numerics::Default, Numerics::Invariant] {
        let session = session(encoder(), 2, numerics);
        let requests = [text(1, 9, 0), text(1, 25, 1), text(1, 12, 2), text(1, 30, 3)];
        let group: Vec<_> = requests.iter().map(values).collect();
        let options = RunOptions::default();
        let asked: [Cell<usize>; 4] = Default::default();
        let ask = |place: usize| asked[place].replace(asked[place].get() + 1);
        let counted = |place| ask(place) == usize::MAX;
        assert!(session.run_together(&group, &options, &counted).is_some());
        let stages = asked[0].take();
        assert!(stages > 3, "{stages} stages");
        for (last, later) in (0..stages).flat_map(|last| [(last, last), (last, stages - 1)]) {
            asked.iter().for_each(|asked| asked.set(0));
            // Two requests leave, at once or one after the other.
            let leaves = |place: usize| match place {
                1 => ask(place) == last,
                2 => ask(place) == later,
                _ => ask(place) == usize::MAX,
            };
            let outputs = session.run_together(&group, &options, &leaves).unwrap();
            for place in [0, 3] {
                let alone = bytes(&session.run(&requests[place]));
                assert!(alone == raw(outputs[place].as_ref().unwrap()), "request {place}, stages {last} and {later}");
            }
            assert!(outputs[1].is_none() && outputs[2].is_none());
            // A request that has left is not asked or computed any more.
            assert_eq!(asked.each_ref().map(Cell::get), [stages, last + 1, later + 1, stages]);
        }
        let all = |_: usize| true;
        assert!(session.run_together(&group, &options, &all).is_none());
    }
}

#[test]
fn groups_of_other_lengths_build_few_executors() {
    let session = session(encoder(), 1, Numerics::Invariant);
    for seed in 0..200 {
        let mut random = Random(seed);
        let requests: Vec<Request> = (0..6).map(|seed| text(1, 4 + random.below(6), seed)).collect();
        assert!(session.run_many(&requests, &RunOptions::default()).iter().all(Result::is_ok));
    }
    // 24 to 54 rows make five numbers of rows; texts have six lengths.
    let built = session.share_stats().misses;
    assert!(built < 90, "{built} executors");
}

#[test]
fn records_of_joined_requests_serve_a_session_that_must_not_choose() {
    let folder = tempfile::tempdir().unwrap();
    let kept = || SessionOptions { threads: 2, cache_dir: Some(folder.path().into()), ..SessionOptions::default() };
    let requests = texts(60, 16);
    let first = Session::from_graph(encoder(), &kept()).unwrap();
    let expected = all(&first.run_many(&requests, &RunOptions::default()));
    let shapes: HashSet<_> = requests.iter().map(|request| request[0].1.shape()).collect();
    let joined = first.share_stats().joined;
    assert!(0 < joined && joined <= (requests.len() - shapes.len()) as u64, "the first of each shape runs alone");
    let _ = first.run_many(&requests, &RunOptions::default());
    assert!(first.share_stats().joined > joined + 40, "all shapes have been met");
    first.save_records().unwrap();

    let strict = SessionOptions { error_on_cache_miss: true, ..kept() };
    let strict = Session::from_graph(encoder(), &strict).unwrap();
    let mut reversed: Vec<Request> = requests.into_iter().rev().collect();
    assert!(all(&strict.run_many(&reversed, &RunOptions::default())).into_iter().rev().eq(expected));
    let stats = strict.share_stats();
    assert_eq!((stats.misses, stats.joined), (0, 0));
    reversed.push(text(1, 17, 0));
    assert!(strict.run_many(&reversed, &RunOptions::default()).pop().unwrap().is_err(), "no record knows 17 words");
}

#[test]
fn texts_of_one_length_are_all_joined() {
    let session = session(encoder(), 2, Numerics::Invariant);
    for (length, count) in [(24, 64), (40, 30), (60, 17)] {
        let requests: Vec<Request> = (0..count).map(|seed| text(1, length, seed)).collect();
        let before = session.share_stats().joined;
        let answers = all(&session.run_many(&requests, &RunOptions::default()));
        assert_eq!(session.share_stats().joined - before, count as u64, "{count} texts of {length} words");
        assert!(answers.iter().zip(&requests).all(|(answer, request)| *answer == bytes(&session.run(request))));
    }
}
