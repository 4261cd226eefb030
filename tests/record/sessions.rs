//! Sessions and their records: loaded and saved without being asked, moved about by kind, required where nothing may be
//! chosen any more.

use std::path::Path;
use std::time::{Duration, Instant};

use kiln::session::{CacheError, CacheKind, Session, SessionOptions};
use kiln_cache::Outcome;
use kiln_model::ir::Dim;
use kiln_model::{Graph, GraphBuilder};
use kiln_run::record::{RecordError, inspect_file, inspect_folder};
use kiln_run::{Observer, StepEvent};
use kiln_tensor::{DType, Tensor};

use crate::folder;

fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 31 + seed * 17) % 23) as f32 / 16.0 - 0.7).collect()
}

/// A product, and a chain that the fusing passes make of three operators.
fn network(columns: usize) -> Graph {
    let mut builder = GraphBuilder::new("records", 17);
    let x = builder.input("x", DType::F32, [Dim::Any, Dim::Fixed(12)]);
    let weights = builder.constant(Tensor::from_slice([12, columns], &values(12 * columns, 2)).unwrap());
    let product = builder.op("MatMul", &[x, weights], &[]);
    let soft = builder.op("Softmax", &[product], &[]);
    let root = builder.op("Sqrt", &[soft], &[]);
    let other = builder.op("Tanh", &[product], &[]);
    let sum = builder.op("Add", &[root, other], &[]);
    let y = builder.op("Exp", &[sum], &[]);
    builder.output("y", y);
    builder.finish()
}

fn options(folder: Option<&Path>) -> SessionOptions {
    SessionOptions { threads: 1, cache_dir: folder.map(Into::into), ..SessionOptions::default() }
}

fn session(folder: Option<&Path>) -> Session {
    Session::from_graph(network(20), &options(folder)).unwrap()
}

fn run(session: &Session, rows: usize) -> Vec<f32> {
    let input = Tensor::from_slice([rows, 12], &values(rows * 12, 3)).unwrap();
    session.run(&[("x", input)]).unwrap().remove(0).1.as_slice().unwrap().to_vec()
}

/// How executors were found while one request of `rows` rows was served.
fn outcomes(session: &Session, rows: usize) -> Vec<Outcome> {
    struct Outcomes(std::sync::Mutex<Vec<Outcome>>);
    impl Observer for Outcomes {
        fn step(&self, event: &StepEvent<'_>) {
            self.0.lock().unwrap().extend(event.outcome);
        }
    }
    let observer = Outcomes(std::sync::Mutex::default());
    let input = Tensor::from_slice([rows, 12], &values(rows * 12, 3)).unwrap();
    session.run_observed(&[("x", input)], Some(&observer)).unwrap();
    observer.0.into_inner().unwrap()
}

#[test]
fn a_named_folder_is_all_that_the_next_session_needs_to_start_warm() {
    let folder = folder();
    let first = session(Some(folder.path()));
    let expected = run(&first, 7);
    assert!(outcomes(&first, 9).contains(&Outcome::Miss));
    drop(first);
    let second = session(Some(folder.path()));
    assert!(second.warmed() > 0);
    let found = outcomes(&second, 7);
    assert!(!found.contains(&Outcome::Miss), "{found:?}");
    assert_eq!(run(&second, 7), expected);
    assert!(second.record_stats().loaded > 0);
}

#[test]
fn a_session_saves_in_the_background_while_it_lives() {
    let folder = folder();
    let session = session(Some(folder.path()));
    run(&session, 7);
    let started = Instant::now();
    while inspect_folder(folder.path()).unwrap().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(30), "nothing was saved");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(session);
}

#[test]
fn without_optimizing_or_without_a_folder_nothing_is_written() {
    let folder = folder();
    let session = Session::from_graph(network(20), &SessionOptions { optimize: false, ..options(Some(folder.path())) });
    run(&session.unwrap(), 7);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(self::session(None).build_cx().records.path(), None);
}

#[test]
fn records_of_a_kind_go_into_a_file_and_out_of_it() {
    let folder = folder();
    let session = session(None);
    let expected = run(&session, 7);
    let path = |kind: CacheKind| folder.path().join(format!("{}.kiln", kind.name()));
    let mut counts = Vec::new();
    for kind in CacheKind::ALL.into_iter().filter(|kind| *kind != CacheKind::Fusion) {
        let report = session.save_cache(&path(kind), kind).unwrap();
        let families: Vec<String> = match report.path {
            Some(file) => inspect_file(&file).unwrap().records.into_iter().map(|record| record.family).collect(),
            None => Vec::new(),
        };
        assert!(families.iter().all(|family| kind.holds(family)), "{kind:?}: {families:?}");
        counts.push(families.len());
    }
    let [all, cpu, cudnn, cublaslt, chains] = counts[..] else { panic!("five kinds") };
    assert_eq!((all, cudnn, cublaslt), (cpu + chains, 0, 0), "no record is of a device's library here");
    assert!(cpu > 0 && chains > 0);

    let other = self::session(None);
    let report = other.load_cache(&path(CacheKind::All), CacheKind::Cpu).unwrap();
    assert_eq!((report.sound, report.taken), (all as u64, cpu as u64));
    assert_eq!(other.load_cache(&path(CacheKind::All), CacheKind::All).unwrap().taken, chains as u64);
    let found = outcomes(&other, 7);
    assert!(!found.contains(&Outcome::Miss), "{found:?}");
    assert_eq!(run(&other, 7), expected);
    assert!(matches!(
        other.load_cache(&folder.path().join("gone"), CacheKind::All),
        Err(CacheError::Records(RecordError::Unreadable { .. }))
    ));
}

#[test]
fn choices_travel_as_blobs_of_their_own() {
    let session = session(None);
    let expected = run(&session, 7);
    let choices = session.choices().unwrap();
    assert!(choices.len() >= 2);
    let other = self::session(None);
    for choice in &choices {
        assert_eq!(other.load_blob(&choice.blob).unwrap(), 1, "{}", choice.id);
    }
    assert!(!outcomes(&other, 7).contains(&Outcome::Miss));
    assert_eq!(run(&other, 7), expected);
    assert!(other.load_blob(b"nothing").is_err());
    let engine = session.engine();
    assert_eq!((other.engine().id(), other.engine().verify(&engine.blob().unwrap())), (engine.id(), Ok(())));
}

#[test]
fn where_nothing_may_be_chosen_a_missing_record_is_an_error_and_a_known_one_is_not() {
    let folder = folder();
    let strict = || SessionOptions { error_on_cache_miss: true, ..options(Some(folder.path())) };
    let refuses = |session: &Session, rows: usize| {
        let input = Tensor::from_slice([rows, 12], &values(rows * 12, 3)).unwrap();
        session.run(&[("x", input)]).map(|_| ()).map_err(|error| error.to_string())
    };
    let cold = Session::from_graph(network(20), &strict()).unwrap();
    assert!(refuses(&cold, 7).unwrap_err().contains("choosing is not allowed"));
    drop(cold);
    run(&session(Some(folder.path())), 7);
    let warm = Session::from_graph(network(20), &strict()).unwrap();
    assert_eq!(refuses(&warm, 7), Ok(()));
    assert!(refuses(&warm, 8).unwrap_err().contains("choosing is not allowed"));
}

#[test]
fn a_model_of_its_own_file_shares_it_with_none_of_another_structure() {
    let folder = folder();
    let own = |columns: usize| {
        let options = SessionOptions { cache_per_model: true, ..options(Some(folder.path())) };
        Session::from_graph(network(columns), &options).unwrap()
    };
    for columns in [20, 21, 20] {
        run(&own(columns), 7);
    }
    assert_eq!(inspect_folder(folder.path()).unwrap().len(), 2);
    assert!(own(20).warmed() > 0);
    assert_eq!(own(22).record_stats().loaded, 0);
}
