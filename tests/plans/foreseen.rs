//! Plans that are made before there is a request: for the shapes that an earlier session has recorded and no others,
//! whatever the records say.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln::session::{Cancel, RunOptions, Session, SessionOptions, ShareStats};
use kiln_key::{Key, Mutate};
use kiln_model::Graph;
use kiln_run::exec::request::{InputShape, MOST_REQUESTS, RequestKey};
use kiln_run::record::{Evidence, Store};
use kiln_tensor::{DType, Tensor};

use super::{floats, layers, run};

fn session(graph: &Graph, records: &Arc<Store>) -> Session {
    with(graph, &SessionOptions { threads: 1, records: Some(records.clone()), ..SessionOptions::default() })
}

/// A session with `plans` plans. Plans are made only while loading may go on, so this may take a few attempts where
/// other programs want the processor.
fn foreseeing(graph: &Graph, records: &Arc<Store>, plans: u64) -> Session {
    let mut sessions = (0..50).map(|_| session(graph, records));
    sessions.find(|session| session.plan_stats().entries == plans).expect("one of fifty has the time")
}

fn with(graph: &Graph, options: &SessionOptions) -> Session {
    Session::from_graph(graph.clone(), options).unwrap()
}

fn request(rows: usize) -> Vec<(String, Tensor)> {
    vec![("x".to_owned(), floats(&[rows, 4], rows))]
}

/// Keys of the requests that are remembered.
fn remembered(records: &Store) -> Vec<RequestKey> {
    records.keys::<RequestKey>()
}

#[test]
fn the_first_request_of_a_second_session_finds_its_plan() {
    let records = Arc::new(Store::in_memory());
    let first = session(&layers(), &records);
    let expected = run(&first, &request(3));
    drop(first);
    let second = foreseeing(&layers(), &records, 1);
    assert_eq!(second.plan_stats().lookups, 0, "nothing is counted as a request");
    assert_eq!(second.share_stats(), ShareStats::default());
    let loaded = second.cache_stats();
    for round in 1..4 {
        let found = run(&second, &request(3));
        assert!(found.iter().zip(&expected).all(|(a, b)| a.same(b)), "round {round}");
        assert_eq!(second.plan_stats().hits, round);
    }
    assert_eq!(second.cache_stats().lookups, loaded.lookups, "no executor is asked for");
    run(&second, &request(7));
    assert_eq!((second.plan_stats().hits, second.plan_stats().lookups), (3, 4), "another shape is new");
}

#[test]
fn who_wants_no_rehearsal_leaves_nothing_and_finds_nothing() {
    let records = Arc::new(Store::in_memory());
    let options = SessionOptions { threads: 1, records: Some(records.clone()), ..SessionOptions::default() };
    let without = SessionOptions { rehearse: false, ..options.clone() };
    run(&with(&layers(), &without), &request(3));
    assert_eq!(remembered(&records), []);
    run(&with(&layers(), &options), &request(3));
    assert_eq!(remembered(&records).len(), 1);
    assert_eq!(with(&layers(), &without).plan_stats().entries, 0);
    // Plans of two threads hold other executors.
    assert_eq!(with(&layers(), &SessionOptions { threads: 2, ..options }).plan_stats().entries, 0);
}

#[test]
fn a_request_that_came_to_no_end_is_not_remembered() {
    let records = Arc::new(Store::in_memory());
    let session = session(&layers(), &records);
    let cancel = Cancel::new();
    cancel.cancel();
    let options = RunOptions { cancel: Some(cancel), ..RunOptions::default() };
    session.run_with(&[("x", floats(&[3, 4], 1))], &options).unwrap_err();
    assert_eq!(remembered(&records), []);
    // Nor a request that computes nothing, whatever becomes of it.
    drop(session.run(&[("x", floats(&[0, 4], 1))]));
    assert_eq!(remembered(&records), []);
    for _ in 0..2 {
        run(&session, &request(2));
        assert_eq!(remembered(&records).len(), 1);
    }
}

#[test]
fn so_many_requests_are_remembered_and_no_more() {
    let records = Arc::new(Store::in_memory());
    let first = session(&layers(), &records);
    (1..MOST_REQUESTS + 20).for_each(|rows| drop(run(&first, &request(rows))));
    assert_eq!(remembered(&records).len(), MOST_REQUESTS);
    let second = session(&layers(), &records);
    assert!(second.plan_stats().entries <= MOST_REQUESTS as u64);
    run(&second, &request(MOST_REQUESTS + 30));
    assert_eq!(remembered(&records).len(), MOST_REQUESTS);
}

#[test]
fn forged_requests_make_no_plan_build_nothing_and_cost_little() {
    let records = Arc::new(Store::in_memory());
    let first = session(&layers(), &records);
    let expected = run(&first, &request(3));
    let honest = remembered(&records).remove(0);
    let builds = session(&layers(), &Arc::new(Store::in_memory())).cache_stats().builds;
    let input = |dtype: DType, dims: &[u64]| Some(InputShape { dtype, dims: dims.to_vec() });
    let forged = [
        vec![],
        vec![None],
        vec![input(DType::F32, &[3, 4]), input(DType::F32, &[3, 4])],
        vec![input(DType::F32, &[3])],
        vec![input(DType::F32, &[3, 4, 1])],
        vec![input(DType::I64, &[3, 4])],
        vec![input(DType::String, &[1 << 40, 4])],
        vec![input(DType::F32, &[0, 4])],
        vec![input(DType::F32, &[u64::MAX, 4])],
        vec![input(DType::F32, &[u64::MAX / 4, u64::MAX / 4])],
        vec![input(DType::F32, &[1 << 40, 1])],
        vec![input(DType::F32, &[1 << 24, 4])],
        vec![input(DType::F32, &[9, 4])],
    ];
    let hostile = Arc::new(Store::in_memory());
    for inputs in &forged {
        let key = RequestKey { inputs: inputs.clone(), ..honest.clone() };
        hostile.insert(&key, &(), Evidence::measured(0, u32::MAX));
        records.insert(&key, &(), Evidence::measured(0, u32::MAX));
    }
    let started = Instant::now();
    let cold = session(&layers(), &hostile);
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(cold.plan_stats().entries, 0, "no executor of such shapes is known");
    assert!(cold.cache_stats().builds <= builds + forged.len() as u64, "{:?}", cold.cache_stats());
    let warm = session(&layers(), &records);
    for session in [cold, warm] {
        assert!(run(&session, &request(3)).iter().zip(&expected).all(|(a, b)| a.same(b)));
    }
}

#[test]
fn any_walk_of_keys_is_survived() {
    let records = Arc::new(Store::in_memory());
    let first = session(&layers(), &records);
    let expected = run(&first, &request(3));
    let honest = remembered(&records).remove(0);
    for (field, mutant) in honest.mutants().into_iter().chain([(String::new(), RequestKey::sample())]) {
        let records = Arc::new(Store::in_memory());
        records.insert(&mutant, &(), Evidence::measured(u64::MAX, 1));
        records.insert(&honest, &(), Evidence::measured(u64::MAX, 1));
        let found = run(&session(&layers(), &records), &request(3));
        assert!(found.iter().zip(&expected).all(|(a, b)| a.same(b)), "{field} of {}", RequestKey::FAMILY);
    }
}
