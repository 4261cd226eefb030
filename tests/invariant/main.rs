//! The same bits in any company: under `Numerics::Invariant` an item has the same bits in any batch as alone, for any
//! number of threads, at every level that runs here. Under `Numerics::Default` some items must differ, or this would
//! show nothing.

#![allow(clippy::print_stdout, reason = "what was compared is what a reader of the log wants")]

mod cases;
#[path = "../passes/draw.rs"]
mod draw;
mod drawn;
mod zoo;

use cases::{CASES, Case, numbers};
use kiln::session::{Numerics, Precision, Session, SessionOptions};
use kiln_kernels::Isa;
use kiln_model::{Graph, GraphBuilder};
use kiln_tensor::{DType, Tensor};

/// Numbers of items in a batch. They pass every height of tiles, and every number of items that one tile holds.
const BATCHES: [usize; 7] = [1, 2, 3, 5, 8, 17, 64];
const THREADS: [usize; 5] = [1, 2, 3, 7, 16];

/// The network of a case: its first dimension is the batch.
fn graph(case: &Case) -> Graph {
    let mut build = GraphBuilder::new(case.name, 20);
    let dims = (0..=case.item.len()).map(|dim| format!("d{dim}").as_str().into()).collect::<Vec<_>>();
    let dims = dims.into_iter().zip(std::iter::once(None).chain(case.item.iter().map(|&size| Some(size))));
    let dims = dims.map(|(named, size)| match size {
        Some(size) if !case.lengths => size.into(),
        _ => named,
    });
    let x = build.input("x", DType::F32, dims.collect::<Vec<_>>());
    let y = (case.make)(&mut build, x);
    build.output("y", y);
    build.finish()
}

/// How a session computes.
#[derive(Clone, Copy, Debug)]
struct How {
    isa: Isa,
    threads: usize,
    numerics: Numerics,
    precision: Precision,
}

fn session(case: &Case, how: How) -> Session {
    let How { isa, threads, numerics, precision } = how;
    let options = SessionOptions { threads, numerics, precision, max_isa: Some(isa), ..SessionOptions::default() };
    Session::from_graph(graph(case), &options).unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

/// The output for a batch of items, which differ from each other.
fn run(session: &Session, item: &[usize], items: std::ops::Range<usize>) -> Tensor {
    let each: usize = item.iter().product();
    let values: Vec<f32> = items.clone().flat_map(|index| numbers(each, 7 + index)).collect();
    let shape = std::iter::once(items.len()).chain(item.iter().copied());
    let x = Tensor::from_vec(shape, values).unwrap();
    session.run(&[("x", x)]).unwrap_or_else(|error| panic!("{item:?}: {error}")).remove(0).1
}

/// Batches with an item whose bits differ from those alone on one thread, each with its first such item.
fn differing(case: &Case, how: How, threads: &[usize], batches: &[usize]) -> Vec<String> {
    let alone = session(case, How { threads: 1, ..how });
    let most = batches.iter().copied().max().unwrap_or(0);
    let singles: Vec<Tensor> = (0..most).map(|item| run(&alone, case.item, item..item + 1)).collect();
    let mut found = Vec::new();
    for &threads in threads {
        let session = session(case, How { threads, ..how });
        for &batch in batches {
            let all = run(&session, case.item, 0..batch);
            let each = all.bytes().len() / batch;
            let other = (0..batch).find(|&item| all.bytes()[item * each..][..each] != *singles[item].bytes());
            if let Some(item) = other {
                found.push(format!("{} at {}, {threads} threads: item {item} of {batch}", case.name, how.isa));
            }
        }
    }
    found
}

/// The levels that this processor has. The portable level and emulated ones are slow, and get fewer batches.
fn native(isa: Isa) -> bool {
    isa.is_jit() && isa <= Isa::detect()
}

fn check(precision: Precision) {
    let mut found = Vec::new();
    for isa in Isa::ALL {
        let how = How { isa, threads: 1, numerics: Numerics::Invariant, precision };
        for case in CASES {
            found.extend(match native(isa) {
                true => differing(case, how, &THREADS, &BATCHES),
                false if case.heavy => continue,
                false => differing(case, how, &[2], &[1, 2, 5, 8]),
            });
        }
    }
    assert!(found.is_empty(), "{} differ:\n{}", found.len(), found.join("\n"));
}

#[test]
fn an_item_has_the_same_bits_alone_and_in_any_batch() {
    check(Precision::F32);
}

#[test]
fn an_item_has_the_same_bits_with_weights_in_bf16() {
    check(Precision::Bf16);
}

#[test]
fn without_the_policy_some_items_differ() {
    let how =
        How { isa: Isa::Avx2.min(Isa::detect()), threads: 1, numerics: Numerics::Default, precision: Precision::F32 };
    let differ = |case: &&Case| !differing(case, how, &[2], &BATCHES).is_empty();
    let names: Vec<&str> = CASES.iter().filter(differ).map(|case| case.name).collect();
    assert!(!how.isa.is_jit() || names.contains(&"product of few columns"), "{names:?}");
}

/// A graph of one attention, causal or not, over two heads.
fn attention(causal: bool) -> Graph {
    let mut build = GraphBuilder::new("attention", 23);
    let [q, k, v] = ["q", "k", "v"].map(|name| build.input(name, DType::F32, [1.into(), name.into(), 48.into()]));
    let attrs = [("q_num_heads", 2i64.into()), ("kv_num_heads", 2i64.into()), ("is_causal", i64::from(causal).into())];
    let y = build.op("Attention", &[q, k, v], &attrs);
    build.output("y", y);
    build.finish()
}

/// The bits of the results of the first `queries` queries over the first `keys` keys.
fn attend(session: &Session, [queries, keys]: [usize; 2]) -> Vec<u32> {
    let first = |positions: usize, seed: usize| {
        // Heads are next to each other within a position, so fewer positions are a prefix of more.
        Tensor::from_vec([1, positions, 48], numbers(positions * 48, seed)).unwrap()
    };
    let outputs = session.run(&[("q", first(queries, 1)), ("k", first(keys, 2)), ("v", first(keys, 3))]).unwrap();
    outputs[0].1.as_slice::<f32>().unwrap().iter().map(|value| value.to_bits()).collect()
}

#[test]
fn a_query_has_the_same_bits_among_others_and_in_a_longer_prompt() {
    let mut differ_by_default = 0;
    for isa in Isa::ALL.into_iter().filter(|&isa| isa <= Isa::detect()) {
        let all =
            [Numerics::Invariant, Numerics::Default].map(|it| [Precision::F32, Precision::Bf16].map(|of| (it, of)));
        for (numerics, precision) in all.into_iter().flatten() {
            let mut hold = |same: bool, what: &str| match numerics {
                Numerics::Invariant => assert!(same, "{isa} in {precision}: {what}"),
                _ => differ_by_default += usize::from(!same),
            };
            let max_isa = Some(isa);
            let options = SessionOptions { threads: 3, numerics, precision, max_isa, ..SessionOptions::default() };
            let session = Session::from_graph(attention(false), &options).unwrap();
            for keys in [1, 20, 383, 500, 900] {
                let all = attend(&session, [70, keys]);
                for queries in [1, 2, 3, 4, 9, 33] {
                    let some = attend(&session, [queries, keys]);
                    hold(all.starts_with(&some), &format!("{queries} of 70 queries, {keys} keys"));
                }
            }
            let session = Session::from_graph(attention(true), &options).unwrap();
            let all = attend(&session, [900, 900]);
            for length in [1, 2, 3, 4, 40, 383, 384, 385, 500, 769] {
                let some = attend(&session, [length, length]);
                hold(all.starts_with(&some), &format!("{length} of 900 positions"));
            }
        }
    }
    assert!(differ_by_default > 0 || !Isa::detect().is_jit(), "this shows nothing");
}

/// Networks whose positions along the first dimension of an item do not see each other, or see only their neighbours:
/// the bits of a position do not depend on that dimension's size.
#[test]
fn a_position_has_the_same_bits_in_a_longer_item() {
    for case in CASES.iter().filter(|case| case.lengths) {
        for isa in [Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| native(isa)) {
            let how = How { isa, threads: 2, numerics: Numerics::Invariant, precision: Precision::F32 };
            let session = session(case, how);
            let at = |length: usize| {
                let item: Vec<usize> = std::iter::once(length).chain(case.item[1..].iter().copied()).collect();
                run(&session, &item, 0..1).bytes().to_vec()
            };
            let long = at(512);
            let position = long.len() / 512;
            for length in [1, 2, 3, 7, 64, 129, 511] {
                let short = at(length);
                // The last positions see the positions after them.
                let same = (length - case.reach.min(length)) * position;
                assert!(short[..same] == long[..same], "{} at {isa}: {length} of 512 positions", case.name);
            }
        }
    }
}
