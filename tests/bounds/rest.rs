//! Memory that comes back: after a peak, a session at rest gives back to the system what its last requests did not use,
//! and dropped sessions leave nothing. Each test has a process of its own and reads the system's figure of its memory.
//!
//! The figures of 10,000 shapes and of 100 loads of each of seven models:
//! `cargo test --release --test bounds -- --ignored --nocapture rest::figures`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln::session::{Session, SessionOptions};
use kiln_model::{Graph, GraphBuilder, ValueId};
use kiln_run::record::Store;
use kiln_tensor::{DType, Tensor};

use super::{MIB, in_memory};

/// The file, in the folder that a process is started in, with its work and how often to do it.
const JOB: &str = "rest";

/// The processes' work, by name.
const WORKS: [(&str, fn(usize)); 6] =
    [("peak", peak), ("kept", kept), ("shapes", shapes), ("loads", loads), ("neighbour", neighbour), ("usual", usual)];

/// Not a test: the work of the processes that the tests start. Without a job it does nothing.
#[test]
#[ignore = "the body of the processes that other tests here start"]
fn body() {
    let Ok(job) = std::fs::read_to_string(JOB) else { return };
    let (name, count) = job.split_once(' ').expect("a name and a number");
    let (_, work) = WORKS.iter().find(|(known, _)| *known == name).expect("a known work");
    work(count.parse().expect("a number"));
}

/// Has a process do that work; returns what it prints.
fn does(work: &str, count: usize) -> String {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(JOB), format!("{work} {count}")).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "rest::body", "--nocapture"])
        .current_dir(home.path())
        .output()
        .unwrap();
    let said = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{work}: {}: {}{}", output.status, said(&output.stdout), said(&output.stderr));
    said(&output.stdout)
}

/// How long sessions rest here.
const REST: Duration = Duration::from_millis(500);

fn options(after: Option<Duration>) -> SessionOptions {
    // Records grow with every shape, up to a bound that is far off.
    let records = Some(Arc::new(Store::off()));
    SessionOptions { threads: 2, trim_after: after, records, ..SessionOptions::default() }
}

/// A network of `blocks` blocks of two convolutions of 16 channels. Each `model` has other weights.
pub(super) fn network(model: usize, blocks: usize) -> Graph {
    let mut graph = GraphBuilder::new(&format!("model {model}"), 17);
    let x = graph.input("x", DType::F32, ["n".into(), 16.into(), "h".into(), "w".into()]);
    let conv = |graph: &mut GraphBuilder, x: ValueId, seed: usize| {
        let weights =
            (0..16 * 16 * 9).map(|at| ((at * 31 + seed * 17 + model * 7) % 23) as f32 / 110.0 - 0.1).collect();
        let weights = graph.constant(Tensor::from_vec([16, 16, 3, 3], weights).expect("as many as the shape"));
        graph.op("Conv", &[x, weights], &[("pads", vec![1i64; 4].into())])
    };
    let mut last = x;
    for block in 0..blocks {
        let first = conv(&mut graph, last, 2 * block);
        let first = graph.op("Tanh", &[first], &[]);
        let second = conv(&mut graph, first, 2 * block + 1);
        last = graph.op("Add", &[last, second], &[]);
    }
    let y = graph.op("Softmax", &[last], &[("axis", (-1).into())]);
    graph.output("y", y);
    graph.finish()
}

pub(super) fn run(session: &Session, n: usize, h: usize, w: usize) -> Tensor {
    let values = (0..n * 16 * h * w).map(|at| (at * 7 % 13) as f32 / 6.0 - 1.0).collect();
    let x = Tensor::from_vec([n, 16, h, w], values).expect("as many as the shape");
    let outputs = session.run(&[("x", x)]).unwrap_or_else(|error| panic!("{n} {h} {w}: {error}"));
    outputs.into_iter().next().expect("an output").1
}

/// A number for a tensor's bits.
fn digest(tensor: &Tensor) -> u64 {
    let mut hasher = DefaultHasher::new();
    tensor.bytes().hash(&mut hasher);
    hasher.finish()
}

/// Whether the process has the thread that gives memory back.
fn has_janitor() -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux tells");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.into_iter().any(|name| name.trim() == "kiln-janitor")
}

/// Waits until the process has no more memory than that, and no thread that gives memory back.
fn await_memory(most: usize) {
    let begun = Instant::now();
    while in_memory() > most || has_janitor() {
        let (now, most) = (in_memory() / MIB, most / MIB);
        assert!(begun.elapsed() < Duration::from_secs(30), "{now} MiB, more than {most}; a thread: {}", has_janitor());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[allow(clippy::print_stdout, reason = "the figures are what the processes are started for")]
fn say(what: &str, before: usize, peak: usize, rested: usize) {
    let mib = |bytes: usize| bytes as f64 / MIB as f64;
    println!("{what}: {:.1} MiB before, {:.1} at the end, {:.1} after a rest", mib(before), mib(peak), mib(rested));
}

fn peak(_: usize) {
    let session = Session::from_graph(network(0, 4), &options(Some(REST))).expect("it is supported");
    for _ in 0..3 {
        run(&session, 1, 20, 20);
    }
    await_memory(usize::MAX);
    let before = in_memory();
    let first = run(&session, 16, 200, 200);
    let peak = in_memory();
    assert!(peak > before + 60 * MIB, "{} MiB, then {}", before / MIB, peak / MIB);
    let bits = digest(&first);
    drop(first);
    // Enough requests that the peak no longer counts as usual.
    for _ in 0..30 {
        run(&session, 1, 20, 20);
    }
    await_memory(before + 8 * MIB);
    assert_eq!(digest(&run(&session, 16, 200, 200)), bits, "and the next peak has the same bits");
}

fn kept(_: usize) {
    let session = Session::from_graph(network(0, 4), &options(None)).expect("it is supported");
    run(&session, 16, 200, 200);
    for _ in 0..30 {
        run(&session, 1, 20, 20);
    }
    let peak = in_memory();
    for _ in 0..20 {
        std::thread::sleep(REST / 5);
        assert!(!has_janitor());
    }
    assert!(in_memory() + 16 * MIB > peak, "it stays where the setting says so");
}

fn usual(_: usize) {
    let session = Session::from_graph(network(0, 4), &options(Some(REST))).expect("it is supported");
    for _ in 0..5 {
        run(&session, 16, 100, 100);
    }
    await_memory(usize::MAX);
    let rested = in_memory();
    for _ in 0..50 {
        run(&session, 16, 100, 100);
        assert!(!has_janitor(), "what requests always use is no peak");
    }
    assert!(in_memory() < rested + 16 * MIB, "and has stayed: {} MiB, then {}", rested / MIB, in_memory() / MIB);
}

fn shapes(count: usize) {
    let session = Session::from_graph(network(0, 8), &options(Some(REST))).expect("it is supported");
    for _ in 0..10 {
        run(&session, 1, 20, 20);
    }
    let before = in_memory();
    for number in 0..count {
        run(&session, 1, 8 + number % 100, 8 + number / 100);
        if number % 1000 == 0 {
            run(&session, 1, 20, 20);
        }
    }
    let peak = in_memory();
    let begun = Instant::now();
    await_memory(before + 32 * MIB);
    assert!(begun.elapsed() >= REST / 2, "not while requests come");
    say(&format!("{count} shapes"), before, peak, in_memory());
    let plans = session.plan_stats().entries;
    run(&session, 1, 20, 20);
    assert_eq!(session.plan_stats().entries, plans, "the shape that had returned still has its plan");
}

fn loads(count: usize) {
    let load = |model: usize| {
        let session = Session::from_graph(network(model, 20), &options(Some(REST))).expect("it is supported");
        run(&session, 1, 40 + model, 40);
    };
    (0..7).for_each(load);
    await_memory(usize::MAX);
    let before = in_memory();
    (0..7 * count).for_each(|number| load(number % 7));
    let peak = in_memory();
    await_memory(before + 8 * MIB);
    say(&format!("{count} loads of seven models"), before, peak, in_memory());
}

fn neighbour(_: usize) {
    let busy = Session::from_graph(network(1, 2), &options(Some(REST))).expect("it is supported");
    let resting = Session::from_graph(network(2, 4), &options(Some(REST))).expect("it is supported");
    run(&resting, 1, 20, 20);
    let expected: Vec<Tensor> = (0..10).map(|number| run(&busy, 1, 30 + number, 30)).collect();
    let before = in_memory();
    let peak = run(&resting, 16, 200, 200);
    (0..30).for_each(|_| drop(run(&resting, 1, 20, 20)));
    let most = before + peak.byte_len() + 16 * MIB;
    assert!(in_memory() > most + 16 * MIB);
    let begun = Instant::now();
    let mut number = 0;
    // The session at rest has given memory back while the other still serves, with right results.
    while in_memory() > most || begun.elapsed() < 3 * REST {
        assert!(begun.elapsed() < Duration::from_secs(30), "{} MiB", in_memory() / MIB);
        assert!(run(&busy, 1, 30 + number % 10, 30).same(&expected[number % 10]), "request {number}");
        number += 1;
    }
    std::thread::scope(|scope| {
        // Peaks come while the janitor is at work.
        for caller in 0..3 {
            let (resting, peak) = (&resting, &peak);
            scope.spawn(move || {
                for round in 0..4 {
                    assert!(run(resting, 16, 200, 200).same(peak), "caller {caller}, round {round}");
                    std::thread::sleep(REST + Duration::from_millis(7 * caller));
                }
            });
        }
    });
}

#[test]
fn a_session_that_rests_after_a_peak_has_what_it_had_before() {
    does("peak", 0);
}

#[test]
fn where_the_setting_is_off_memory_stays_and_there_is_no_thread() {
    does("kept", 0);
}

#[test]
fn what_requests_always_use_stays_and_no_thread_looks_at_it() {
    does("usual", 0);
}

#[test]
fn shapes_that_do_not_return_leave_little() {
    does("shapes", 1500);
}

#[test]
fn models_that_are_loaded_and_dropped_leave_nothing() {
    does("loads", 5);
}

#[test]
fn a_session_gives_back_while_another_one_serves() {
    does("neighbour", 0);
}

#[test]
#[ignore = "a minute"]
#[allow(clippy::print_stdout, reason = "the figures are what it is run for")]
fn figures() {
    println!("{}", does("shapes", 10_000));
    println!("{}", does("loads", 100));
}
