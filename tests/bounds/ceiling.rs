//! One ceiling over all that the sessions of a process hold. Other sessions first let go of what they can do without;
//! loads and requests that would still pass the ceiling are refused with a table of who holds how much. The account is
//! the process's own, so each test has a process.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln::session::{Held, ProcessMemory, Session, SessionError, SessionOptions};
use kiln_kernels::memory::Refused;
use kiln_model::GraphBuilder;
use kiln_run::NodeError;
use kiln_run::record::Store;
use kiln_tensor::{DType, Tensor, TensorError};

use super::MIB;
use super::rest::{network, run};

/// The file, in the folder that a process is started in, that names its work.
const JOB: &str = "ceiling";

/// The processes' work, by name.
const WORKS: [(&str, fn()); 8] = [
    ("weights", weights),
    ("mapped", mapped),
    ("beyond", beyond),
    ("shared", shared),
    ("together", together),
    ("shapes", shapes),
    ("dropped", dropped),
    ("environment", environment),
];

/// Not a test: the work of the processes that the tests start. Without a job it does nothing.
#[test]
#[ignore = "the body of the processes that other tests here start"]
fn body() {
    let Ok(job) = std::fs::read_to_string(JOB) else { return };
    let (_, work) = WORKS.iter().find(|(known, _)| *known == job).expect("a known work");
    work();
}

/// Has a process do that work, with these variables.
fn does(work: &str, variables: &[(&str, &str)]) {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(JOB), work).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "ceiling::body", "--nocapture"])
        .current_dir(home.path())
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{work}: {}: {}{}", output.status, said(&output.stdout), said(&output.stderr));
}

fn options(process_bytes: Option<usize>) -> SessionOptions {
    let records = Some(Arc::new(Store::off()));
    SessionOptions { threads: 2, process_bytes, records, trim_after: None, ..SessionOptions::default() }
}

fn session(model: usize, process_bytes: Option<usize>) -> Session {
    Session::from_graph(network(model, 4), &options(process_bytes)).expect("it is supported")
}

fn held() -> Held {
    ProcessMemory::now().held
}

/// Writes a model of products with 16 MiB of weights.
fn write_products(path: &Path) {
    let mut graph = GraphBuilder::new("products", 17);
    let mut last = graph.input("x", DType::F32, ["n".into(), 1024.into()]);
    for product in 0..4 {
        let values = (0..1 << 20).map(|at| ((at * 31 + product * 17) % 23) as f32 / 2300.0).collect();
        let weights = graph.constant(Tensor::from_vec([1024, 1024], values).expect("as many as the shape"));
        last = graph.op("MatMul", &[last, weights], &[]);
    }
    graph.output("y", last);
    std::fs::write(path, kiln_model::onnx::write(&graph.finish()).expect("it is written"))
        .expect("the folder is the test's");
}

/// The error of a load that was refused for the ceiling.
fn refused_load(loaded: Result<Session, SessionError>) -> (Refused, String) {
    match loaded {
        Err(SessionError::Memory { node, refused }) => (refused, node),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it loads"),
    }
}

/// The error of a request that was refused for the ceiling.
fn refused_run(session: &Session, [n, h, w]: [usize; 3]) -> Refused {
    let x = Tensor::from_vec([n, 16, h, w], vec![0.5f32; n * 16 * h * w]).expect("as many as the shape");
    match session.run(&[("x", x)]) {
        Err(SessionError::Run(error)) => match error.error {
            NodeError::Tensor(TensorError::Refused(refused)) => refused,
            error => panic!("{error}"),
        },
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it runs"),
    }
}

fn weights() {
    let path = Path::new("model.onnx");
    write_products(path);
    let before = held();
    let (refused, node) = refused_load(Session::load(path, &options(Some(before.total() + 10 * MIB))));
    let Refused::Ceiling { bytes, limit, held: table } = refused else { panic!("{refused}") };
    assert!(bytes >= 1 << 20 && limit == before.total() + 10 * MIB, "{refused}");
    assert!((4 * MIB..=10 * MIB).contains(&(table.weights - before.weights)), "{refused}");
    assert!(!node.is_empty(), "the error names the node that was not made");
    assert!(refused.to_string().contains(&format!("weights {}", table.weights)), "{refused}");
    assert!(held().total() <= limit);
    assert_eq!(ProcessMemory::now().limit, None, "a load that has failed asks for nothing");
    let session = Session::load(path, &options(Some(64 * MIB))).expect("there is room");
    assert!(held().weights >= 16 * MIB && ProcessMemory::now().limit == Some(64 * MIB));
    let x = Tensor::from_vec([1, 1024], vec![1.0f32; 1024]).expect("as many as the shape");
    session.run(&[("x", x)]).expect("there is room");
}

fn mapped() {
    let (model, packed) = (Path::new("model.onnx"), Path::new("model.kpk"));
    write_products(model);
    Session::pack(model, packed, &options(None)).expect("it is packed");
    let before = held();
    let session = Session::load(packed, &options(Some(before.total() + 10 * MIB))).expect("its weights are mapped");
    let x = Tensor::from_vec([2, 1024], vec![1.0f32; 2048]).expect("as many as the shape");
    session.run(&[("x", x)]).expect("there is room");
    assert!(held().weights < before.weights + MIB, "{}", held());
}

fn beyond() {
    let free = session(0, None);
    let expected = run(&free, 1, 20, 20);
    drop(free);
    // The input of the large request takes 10 MiB of this.
    let limit = held().total() + 24 * MIB;
    let session = session(0, Some(limit));
    assert!(run(&session, 1, 20, 20).same(&expected));
    for _ in 0..3 {
        let refused = refused_run(&session, [4, 200, 200]);
        let Refused::Ceiling { bytes, limit: told, held: table } = refused else { panic!("{refused}") };
        assert!(bytes >= MIB && told == limit && table.total() + bytes > limit, "{refused}");
        assert!(table.tensors > 10 * MIB, "{refused}");
        assert!(run(&session, 1, 20, 20).same(&expected), "the next smaller one runs");
    }
    assert!(ProcessMemory::now().most <= limit, "{:?}", ProcessMemory::now());
}

fn shared() {
    let (first, second) = (session(0, None), session(1, None));
    let expected = [&first, &second].map(|session| run(session, 4, 150, 150));
    [&first, &second].iter().for_each(|session| session.trim());
    let rested = held().total();
    run(&first, 4, 150, 150);
    let idle = held().total() - rested;
    // What one request needs alone, its input included, and a few huge pages.
    let limit = rested + idle + 10 * MIB;
    assert!(rested + 2 * idle > limit, "two keep more than that: {idle} bytes each");
    let capped = session(2, Some(limit));
    for _ in 0..3 {
        assert!(run(&second, 4, 150, 150).same(&expected[1]), "what the first one keeps goes");
        assert!(held().total() <= limit);
        assert!(run(&first, 4, 150, 150).same(&expected[0]), "and comes back");
        assert!(held().total() <= limit);
    }
    drop(capped);
    assert_eq!(ProcessMemory::now().limit, None, "the limit was that of the session that is gone");
}

fn together() {
    let sessions = [0, 1].map(|model| session(model, None));
    let expected = sessions.each_ref().map(|session| run(session, 2, 100, 100));
    sessions.iter().for_each(Session::trim);
    // A few requests run at a time, fewer than there are callers.
    let limit = held().total() + 24 * MIB;
    let capped = session(2, Some(limit));
    let (served, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let (session, expected) = (&sessions[caller % 2], &expected[caller % 2]);
            let (served, refused) = (&served, &refused);
            scope.spawn(move || {
                for round in 0..40 {
                    let [n, h, w] = [2, 100, 100 + (caller + round) % 3];
                    // Where the input itself is refused, the caller waits too.
                    let values = (0..n * 16 * h * w).map(|at| (at * 7 % 13) as f32 / 6.0 - 1.0).collect();
                    let x = Tensor::from_vec([n, 16, h, w], values).map_err(NodeError::Tensor);
                    let answer = x.map(|x| session.run(&[("x", x)]));
                    match answer {
                        Ok(Ok(outputs)) => {
                            served.fetch_add(1, Ordering::Relaxed);
                            assert!(w > 100 || outputs[0].1.same(expected), "caller {caller}, round {round}");
                        }
                        Ok(Err(error)) => {
                            refused.fetch_add(1, Ordering::Relaxed);
                            assert!(error.to_string().contains("that the process may hold"), "{error}");
                        }
                        Err(error) => {
                            refused.fetch_add(1, Ordering::Relaxed);
                            assert!(error.to_string().contains("that the process may hold"), "{error}");
                        }
                    }
                    assert!(held().total() <= limit, "caller {caller}, round {round}: {}", held());
                }
            });
        }
    });
    let [served, refused] = [served, refused].map(AtomicUsize::into_inner);
    assert!(served > 40 && served + refused == 320, "{served} served, {refused} refused");
    drop(capped);
    assert!(run(&sessions[0], 2, 100, 100).same(&expected[0]), "without it all are served again");
}

fn shapes() {
    let free = session(0, None);
    let shape = |number: usize| [1, 8 + number % 40, 8 + number / 40];
    let expected: Vec<Tensor> = (0..1000)
        .step_by(97)
        .map(|number| {
            let [n, h, w] = shape(number);
            run(&free, n, h, w)
        })
        .collect();
    drop(free);
    let limit = held().total() + 6 * MIB;
    assert!(ProcessMemory::now().most < limit, "there was no need of so much");
    let session = session(0, Some(limit));
    for number in 0..1000 {
        let [n, h, w] = shape(number);
        let found = run(&session, n, h, w);
        assert!(number % 97 > 0 || found.same(&expected[number / 97]), "request {number}");
        assert!(held().total() <= limit, "request {number}: {}", held());
    }
    let now = ProcessMemory::now();
    assert!(now.most <= limit, "{now:?}");
    let gone = session.cache_stats().evictions + session.plan_stats().evictions;
    assert!(gone > 1000, "the ceiling was reached: {gone} went, {now:?}");
}

fn dropped() {
    let sessions = [0, 1, 2].map(|model| session(model, Some(256 * MIB)));
    sessions.iter().for_each(|session| drop(run(session, 2, 50, 50)));
    let Held { executors, plans, weights, tensors, .. } = held();
    assert!(executors > 0 && plans > 0 && weights > 0 && tensors > 0, "{}", held());
    drop(sessions);
    let now = ProcessMemory::now();
    // A little memory of weights stays for the next model.
    assert!(now.held.total() == now.held.weights && now.held.weights <= 8 * MIB, "{}", now.held);
    assert_eq!(now.limit, None);
}

fn environment() {
    let path = Path::new("model.onnx");
    write_products(path);
    let (refused, _) = refused_load(Session::load(path, &options(None)));
    assert!(matches!(refused, Refused::Ceiling { limit: 0x0080_0000, .. }), "{refused}");
    let (refused, _) = refused_load(Session::load(path, &options(Some(1 << 30))));
    assert!(matches!(refused, Refused::Ceiling { limit: 0x0080_0000, .. }), "the least is in force: {refused}");
    assert_eq!(SessionOptions::from_env().expect("it is a size").process_bytes, Some(8 * MIB));
}

#[test]
fn a_load_whose_weights_would_pass_it_is_refused_and_names_the_weights() {
    does("weights", &[]);
}

#[test]
fn weights_that_are_mapped_do_not_count() {
    does("mapped", &[]);
}

#[test]
fn a_request_beyond_it_is_refused_with_who_holds_what_and_the_next_smaller_one_runs() {
    does("beyond", &[]);
}

#[test]
fn a_request_makes_another_session_let_go_of_what_it_keeps() {
    does("shared", &[]);
}

#[test]
fn callers_at_the_same_time_are_served_below_it_or_refused() {
    does("together", &[]);
}

#[test]
fn a_thousand_shapes_never_pass_it() {
    does("shapes", &[]);
}

#[test]
fn sessions_that_are_gone_hold_nothing() {
    does("dropped", &[]);
}

#[test]
fn the_environment_sets_one_for_all_sessions() {
    does("environment", &[("KILN_PROCESS_BYTES", "8MiB")]);
}
