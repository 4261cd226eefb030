//! Tuned sessions: results stay right, nodes get replaced executors, and a second session measures nothing.

use std::sync::Mutex;
use std::time::Duration;

use kiln::session::{Session, SessionOptions, Tune};
use kiln_cache::Outcome;
use kiln_kernels::cpu::conv::ConvBlocks;
use kiln_kernels::cpu::gemm::MatmulBlocks;
use kiln_key::Key;
use kiln_model::ir::Dim;
use kiln_model::{Attr, Graph, GraphBuilder};
use kiln_run::exec::conv::ConvKey;
use kiln_run::exec::footprint::FootprintKey;
use kiln_run::exec::machine::MachineKey;
use kiln_run::exec::matmul::MatMulKey;
use kiln_run::exec::request::RequestKey;
use kiln_run::record::{CacheMode, Evidence, EvidenceKind, Record, Recorded, Store, decode};
use kiln_run::{Observer, StepEvent};
use kiln_tensor::{DType, Tensor};

const PATIENCE: Duration = Duration::from_secs(120);

fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 31 + seed * 17) % 23) as f32 / 16.0 - 0.7).collect()
}

/// A convolution that could be transformed, and a product.
fn network() -> Graph {
    let mut builder = GraphBuilder::new("tuned", 17);
    let x = builder.input("x", DType::F32, [Dim::Fixed(1), Dim::Fixed(32), Dim::Any, Dim::Any]);
    let filters = builder.constant(Tensor::from_slice([32, 32, 3, 3], &values(32 * 32 * 9, 1)).unwrap());
    let weights = builder.constant(Tensor::from_slice([24, 70], &values(24 * 70, 2)).unwrap());
    let pads = ("pads", Attr::Ints(vec![1, 1, 1, 1]));
    let conv = builder.op("Conv", &[x, filters], &[pads]);
    let y = builder.op("MatMul", &[conv, weights], &[]);
    builder.output("y", y);
    builder.finish()
}

fn session(tune: Tune, folder: Option<&std::path::Path>) -> Session {
    let options = SessionOptions {
        threads: 2,
        tune,
        cache_mode: if folder.is_some() { CacheMode::ReadWrite } else { CacheMode::Memory },
        cache_dir: folder.map(Into::into),
        ..SessionOptions::default()
    };
    Session::from_graph(network(), &options).unwrap()
}

fn input() -> Tensor {
    Tensor::from_slice([1, 32, 24, 24], &values(32 * 24 * 24, 3)).unwrap()
}

fn run(session: &Session) -> Vec<f32> {
    let mut outputs = session.run(&[("x", input())]).unwrap();
    outputs.remove(0).1.as_slice().unwrap().to_vec()
}

fn assert_close(have: &[f32], want: &[f32]) {
    let scale = want.iter().fold(0f32, |most, value| most.max(value.abs()));
    assert_eq!(have.len(), want.len());
    for (have, want) in have.iter().zip(want) {
        assert!((have - want).abs() <= 1e-4 * scale, "{have}, not {want}");
    }
}

/// The only key of its type that a store knows.
fn key<K: Recorded>(records: &Store) -> K {
    let record = records.list().into_iter().find(|record| record.family == K::FAMILY);
    decode(&record.expect("the network has one").key).unwrap()
}

/// Keeps what each step did.
#[derive(Default)]
struct Steps(Mutex<Vec<(String, bool, Option<Outcome>)>>);

impl Observer for Steps {
    fn step(&self, event: &StepEvent<'_>) {
        let step = (event.step.op.clone(), event.prepared, event.outcome);
        self.0.lock().unwrap().push(step);
    }
}

#[test]
fn results_stay_right_and_a_second_session_measures_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let first = session(Tune::Fast, Some(folder.path()));
    let before = run(&first);
    assert!(first.settle(PATIENCE));
    let report = first.tune_report().unwrap();
    assert!(report.tuned >= 1, "{report:?}");
    assert_close(&run(&first), &before);
    drop(first);

    let second = session(Tune::Full, Some(folder.path()));
    assert_close(&run(&second), &before);
    assert!(second.settle(PATIENCE));
    let again = second.tune_report().unwrap();
    assert_eq!((again.tuned, again.known, again.time), (0, report.tuned, Duration::ZERO));
    drop(second);

    let third = session(Tune::Off, Some(folder.path()));
    // Footprints and times of requests are measured in every session, the machine in the first.
    let measured = [FootprintKey::FAMILY, RequestKey::FAMILY, MachineKey::FAMILY];
    let tuned =
        |record: &Record| record.evidence.kind == EvidenceKind::Measured && !measured.contains(&record.family.as_str());
    let measured = |store: &Store| store.list().iter().filter(|record| tuned(record)).count();
    assert_eq!(measured(&third.build_cx().records) as u64, report.tuned);
    assert_close(&run(&third), &before);
    assert!(third.tune_report().is_none());
    assert!(third.settle(Duration::ZERO), "there is nothing to wait for");
}

#[test]
fn a_bad_choice_is_replaced_and_the_next_request_sees_it_with_its_weights() {
    let probe = session(Tune::Off, None);
    let right = run(&probe);
    let records = &probe.build_cx().records;
    let (conv, product) = (key::<ConvKey>(records), key::<MatMulKey>(records));
    let model: (ConvBlocks, MatmulBlocks) = (records.lookup(&conv).unwrap(), records.lookup(&product).unwrap());

    // Valid, and slow by far: tiles of one group each, sums stored after every element. On a busy machine a measurement
    // may miss this and keep the choice in use, but not time after time.
    let slow = ConvBlocks { row_block: 1, row_tasks: 1, unit_tasks: 1, ..model.0 };
    let tuned = (0..20).find_map(|_| {
        let tuned = session(Tune::Fast, None);
        let records = &tuned.build_cx().records;
        records.insert(&conv, &slow, Evidence::model());
        records.insert(&product, &MatmulBlocks { k_block: 1, ..model.1 }, Evidence::model());
        assert_close(&run(&tuned), &right);
        assert_eq!(records.lookup(&conv), Some(slow), "the first use is what the record says");
        assert!(tuned.settle(PATIENCE));
        let report = tuned.tune_report().unwrap();
        (report.changed == 2).then_some(tuned)
    });
    let tuned = tuned.expect("both are replaced");
    assert_ne!(tuned.build_cx().records.lookup(&conv), Some(slow));

    let steps = Steps::default();
    let outputs = tuned.run_observed(&[("x", input())], Some(&steps)).unwrap();
    assert_close(outputs[0].1.as_slice().unwrap(), &right);
    let seen = std::mem::take(&mut *steps.0.lock().unwrap());
    for (op, prepared, outcome) in &seen {
        // Both computing steps hold the replacement; all other steps keep what they have.
        let holds = ["Conv", "MatMul"].contains(&op.as_str());
        assert_eq!((*prepared, *outcome), (holds, holds.then_some(Outcome::Hit)), "{op}: {seen:?}");
    }
    tuned.run_observed(&[("x", input())], Some(&steps)).unwrap();
    let seen = std::mem::take(&mut *steps.0.lock().unwrap());
    assert!(seen.iter().all(|(_, prepared, _)| !*prepared), "{seen:?}");
}

/// An image of `height` lines.
fn sized(height: usize) -> Tensor {
    Tensor::from_slice([1, 32, height, 24], &values(32 * height * 24, 3)).unwrap()
}

/// The steps of a request that were prepared.
fn prepared(session: &Session, height: usize) -> Vec<(String, Option<Outcome>)> {
    let steps = Steps::default();
    session.run_observed(&[("x", sized(height))], Some(&steps)).unwrap();
    let seen = steps.0.into_inner().unwrap();
    seen.into_iter().filter(|(_, prepared, _)| *prepared).map(|(op, _, outcome)| (op, outcome)).collect()
}

#[test]
fn a_swap_reaches_those_who_hold_the_executor_and_nobody_else() {
    let probe = session(Tune::Off, None);
    [24, 17].iter().for_each(|&height| drop(prepared(&probe, height)));
    // One key is open to tuning, with a choice that is slow by far; all others are measured.
    let open = |record: &Record| decode::<ConvKey>(&record.key).is_ok_and(|key| key.problem.shape.input[1] == 24);
    let (open, others): (Vec<_>, Vec<_>) = probe
        .build_cx()
        .records
        .list()
        .into_iter()
        .partition(|record| record.family == ConvKey::FAMILY && open(record));
    let [open] = open.as_slice() else { panic!("one convolution of that height") };
    let key: ConvKey = decode(&open.key).unwrap();
    let slow = ConvBlocks { row_block: 1, row_tasks: 1, unit_tasks: 1, ..decode(&open.choice).unwrap() };
    let tuned = (0..20).find_map(|_| {
        let tuned = session(Tune::Fast, None);
        for record in &others {
            tuned.build_cx().records.insert_record(&Record { evidence: Evidence::measured(1, 1000), ..record.clone() });
        }
        tuned.build_cx().records.insert(&key, &slow, Evidence::model());
        [24, 17].iter().for_each(|&height| drop(prepared(&tuned, height)));
        assert!(tuned.settle(PATIENCE));
        (tuned.tune_report().unwrap().changed == 1).then_some(tuned)
    });
    let tuned = tuned.expect("it is replaced");
    let (plans, executors) = (tuned.plan_stats(), tuned.cache_stats());
    assert_eq!((plans.entries, plans.hits), (2, 0));

    assert_eq!(prepared(&tuned, 17), []);
    assert_eq!(tuned.cache_stats().lookups, executors.lookups, "the other plan asks for nothing");
    assert_eq!(tuned.plan_stats().hits, 1);
    assert_eq!(prepared(&tuned, 24), [("Conv".to_owned(), Some(Outcome::Hit))], "one step of its plan asks again");
    let lookups = tuned.cache_stats().lookups;
    assert_eq!(prepared(&tuned, 24), []);
    assert_eq!((tuned.cache_stats().lookups, tuned.plan_stats().entries), (lookups, 2));
    assert_close(&run(&tuned), &run(&probe));
}

#[test]
fn requests_from_several_threads_and_a_tuner_share_a_session() {
    let session = session(Tune::Full, None);
    let right = run(&session);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 0..20 {
                    assert_close(&run(&session), &right);
                    std::thread::sleep(Duration::from_millis(round));
                }
            });
        }
    });
}

#[test]
fn without_tuning_too_a_session_measures_the_machine_once_for_its_records() {
    let folder = tempfile::tempdir().unwrap();
    let figures = |session: &Session| {
        let cx = session.build_cx();
        [1, 2].map(|threads| MachineKey { isa: cx.isa, threads }.recall(&cx.records))
    };
    let first = session(Tune::Off, Some(folder.path()));
    let want = run(&first);
    assert!(first.settle(PATIENCE));
    let measured = figures(&first);
    assert_eq!(measured.map(|figures| figures.is_some()), [first.build_cx().isa.is_jit(); 2]);
    assert_eq!(run(&first), want, "what was measured is for the next process");
    drop(first);
    let second = session(Tune::Off, Some(folder.path()));
    assert_eq!(figures(&second), measured, "the records have them");
    assert!(second.settle(Duration::ZERO), "there is nothing to measure");
    assert_eq!(run(&second), want);
    let nowhere = session(Tune::Off, None);
    assert!(nowhere.settle(Duration::ZERO), "nobody would keep it");
    assert_eq!(figures(&nowhere), [None; 2]);
}
