//! Records with right checksums and hostile contents, in the families that real models use: a choice that does not fit
//! is refused, and a choice that is accepted computes the right result.

use std::sync::Arc;

use kiln::session::{Numerics, Precision, Session, SessionOptions};
use kiln_cache::{Cache, Limits, Outcome};
use kiln_kernels::cpu::Elements;
use kiln_kernels::{Isa, Serial};
use kiln_key::F32Bits;
use kiln_model::ir::Dim;
use kiln_model::{Attr, Graph, GraphBuilder};
use kiln_run::exec::matmul::{MatMulKey, MatMulProblem, Stored};
use kiln_run::exec::tune::Operands;
use kiln_run::exec::{BuildCx, Family, Target};
use kiln_run::record::{Evidence, Record, Recorded, Store, decode, encode};
use kiln_tensor::{DType, Tensor};
use proptest::test_runner::{Config, TestRunner};
use smallvec::SmallVec;

/// Cases of one family. This is a short run; `--ignored` does a thorough one of 100,000 cases in all.
const CASES: u32 = 4_000;

fn context(isa: Isa) -> BuildCx {
    BuildCx {
        isa,
        threads: 2,
        numerics: Numerics::default(),
        precision: Precision::default(),
        cache: Arc::new(Cache::new(Limits { entries: 0, bytes: 0 })),
        records: Arc::new(Store::in_memory()),
        check: false,
        gpu: None,
    }
}

fn product(isa: Isa, right: Stored) -> MatMulKey {
    let problem = MatMulProblem {
        m: 13,
        n: 37,
        k: 29,
        batch: SmallVec::new(),
        left: Stored::Rows,
        right,
        elements: Elements::F32,
        scale: F32Bits::new(1.0),
        bias: false,
        activation: None,
        stored: Default::default(),
    };
    MatMulKey::new(Target::new(isa, 2), problem)
}

/// Runs a key's executor with the records as they are now. Gives how the executor was found, and its output.
fn run<K: Family>(cx: &BuildCx, key: &K) -> (Outcome, Vec<f32>) {
    let (value, outcome) = cx.executor(key).expect("a key of a real model builds whatever the records say");
    let demand = key.demand(&value);
    let fill = |count: usize, seed: usize| -> Vec<f32> {
        (0..count).map(|index| ((index * 7 + seed) % 17) as f32 - 8.0).collect()
    };
    let mut output = vec![f32::NAN; demand.output];
    let mut scratch = vec![f32::NAN; demand.scratch];
    let (input, weights) = (fill(demand.input, 1), fill(demand.weights, 5));
    let operands = Operands { input: &input, weights: &weights, output: &mut output, scratch: &mut scratch };
    key.trial(&value, operands, &Serial).expect("an executor that was built runs");
    (outcome, output)
}

/// Mutates the bytes of the choice that a family's cost model makes, in every way that a file can hold.
fn survive<K: Family>(cx: &BuildCx, key: &K, cases: u32) -> (u32, u32) {
    let (_, expected) = run(cx, key);
    let honest = encode(&key.choose(cx)).unwrap();
    let key_bytes = encode(key).unwrap();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let counts = std::cell::Cell::new((0, 0));
    let interesting = proptest::sample::select(vec![0_u8, 1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 64, 127, 128, 254, 255]);
    let change = (proptest::num::usize::ANY, interesting);
    let strategy = proptest::collection::vec(change, 1..4);
    runner
        .run(&strategy, |changes| {
            let mut choice = honest.clone();
            for (at, value) in changes {
                let at = at % choice.len();
                choice[at] = value;
            }
            let readable = decode::<<K as Recorded>::Choice>(&choice).is_ok();
            let evidence = Evidence::measured(1, u32::MAX);
            let record = Record {
                family: K::FAMILY.to_owned(),
                revision: K::REVISION,
                key: key_bytes.clone(),
                choice,
                evidence,
            };
            let cx = BuildCx { records: Arc::new(Store::in_memory()), ..cx.clone() };
            cx.records.insert_record(&record);
            let (outcome, output) = run(&cx, key);
            // Small whole numbers: every sum is exact, whatever the order.
            assert_eq!(output, expected, "{record:?}");
            let refused = cx.records.stats().rejected_semantic;
            assert_eq!(refused == 0, outcome == Outcome::RecordHit, "{record:?}");
            assert!(readable || refused == 1);
            let (taken, all) = counts.get();
            counts.set((taken + u32::from(outcome == Outcome::RecordHit), all + 1));
            Ok(())
        })
        .unwrap();
    counts.get()
}

fn every_product(cases: u32) {
    for isa in [Isa::Portable, Isa::detect()] {
        for right in [Stored::Rows, Stored::Columns] {
            let (taken, all) = survive(&context(isa), &product(isa, right), cases);
            println!("{isa:?} {right:?}: {taken} of {all} choices were taken");
            assert!(taken > 0 && taken < all, "some choices are possible and some are not");
        }
    }
}

#[test]
fn products_are_right_or_their_records_are_refused() {
    every_product(CASES);
}

#[test]
#[ignore = "takes some minutes; run by name"]
fn a_hundred_thousand_products_are_right_or_their_records_are_refused() {
    every_product(25_000);
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 31 + 17) % 23) as f32 / 16.0 - 0.7).collect()
}

/// One node of many families.
fn network() -> Graph {
    let mut builder = GraphBuilder::new("families", 17);
    let x = builder.input("x", DType::F32, [Dim::Fixed(1), Dim::Fixed(8), Dim::Any, Dim::Any]);
    let filters = builder.constant(Tensor::from_slice([8, 8, 3, 3], &values(8 * 8 * 9)).unwrap());
    let pads = ("pads", Attr::Ints(vec![1, 1, 1, 1]));
    let conv = builder.op("Conv", &[x, filters], &[pads]);
    let kernel = [("kernel_shape", Attr::Ints(vec![2, 2])), ("strides", Attr::Ints(vec![2, 2]))];
    let pool = builder.op("MaxPool", &[conv], &kernel);
    let soft = builder.op("Softmax", &[pool], &[]);
    let transposed = builder.op("Transpose", &[soft], &[("perm", Attr::Ints(vec![0, 3, 1, 2]))]);
    let root = builder.op("Sqrt", &[transposed], &[]);
    let y = builder.op("ReduceMean", &[root], &[("axes", Attr::Ints(vec![3]))]);
    builder.output("y", y);
    builder.finish()
}

#[test]
fn a_whole_network_is_right_whatever_its_records_say() {
    let options = SessionOptions { threads: 2, ..SessionOptions::default() };
    let serve = |session: &Session| -> Vec<f32> {
        let input = Tensor::from_slice([1, 8, 12, 12], &values(8 * 144)).unwrap();
        session.run(&[("x", input)]).unwrap().remove(0).1.as_slice().unwrap().to_vec()
    };
    let honest = Session::from_graph(network(), &options).unwrap();
    let expected = serve(&honest);
    let records = honest.build_cx().records.list();
    assert!(records.len() >= 5, "{} families", records.len());
    let (mut taken, mut refused) = (0, 0);
    let mut runner = TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let strategy = proptest::collection::vec((proptest::num::usize::ANY, proptest::num::u8::ANY), 4..24);
    let result = runner.run(&strategy, |changes| {
        let session = Session::from_graph(network(), &options).unwrap();
        let mut hostile = records.clone();
        for (at, value) in changes {
            let record = &mut hostile[at % records.len()];
            if !record.choice.is_empty() {
                let at = (at / records.len()) % record.choice.len();
                record.choice[at] = value;
            }
            record.evidence = Evidence::measured(1, u32::MAX);
        }
        for record in &hostile {
            session.build_cx().records.insert_record(record);
        }
        let output = serve(&session);
        for (have, want) in output.iter().zip(&expected) {
            assert!((have - want).abs() <= 1e-4 * want.abs().max(1.0), "{have}, not {want}: {hostile:?}");
        }
        Ok(())
    });
    result.unwrap();
    // One pass with a fixed change shows that both ways are gone.
    for record in &records {
        let session = Session::from_graph(network(), &options).unwrap();
        let choice = vec![0xFF; record.choice.len()];
        session.build_cx().records.insert_record(&Record {
            choice,
            evidence: Evidence::measured(1, u32::MAX),
            ..record.clone()
        });
        serve(&session);
        let stats = session.record_stats();
        refused += stats.rejected_semantic;
        taken += u64::from(stats.rejected_semantic == 0);
    }
    println!("{refused} refused, {taken} taken");
    assert!(refused >= 3, "choices of nothing but ones fit few families");
}
