//! The bound on the memory for shapes, as the system sees it: a process that serves ever new shapes stays as large as
//! its limit says. Our own counters are not asked. `rest` tests that memory is given back when no more requests come,
//! `ceiling` the one limit over all sessions.
//!
//! Each operator has a process of its own, so that nothing else's memory counts. Usually some thousand shapes are
//! served, and memory must not grow once the cache is full. This serves 100,000 shapes of each, with a limit of 16 MiB
//! and at most 32 MiB besides: `cargo test --release --test bounds -- --ignored --nocapture a_hundred_thousand_shapes`.

mod ceiling;
mod operators;
mod rest;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kiln::session::{Session, SessionOptions};
use kiln_cache::Limits;
use kiln_run::record::Store;
use operators::{OPERATORS, Operator};

/// The file, in the folder that a process is started in, with its job: operator, limit, first shapes, all shapes,
/// plans, callers.
const JOB: &str = "job";
/// The file that it writes its memory to: after the first shapes, and the most after those.
const TOLD: &str = "told";

/// Bytes of this process that are in memory and belong to no file.
fn in_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let kilobytes = |name: &str| -> usize {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("a number of kB")
    };
    (kilobytes("RssAnon:") + kilobytes("RssShmem:")) << 10
}

/// A process's work.
struct Job<'a> {
    operator: &'a Operator,
    limit: usize,
    /// Shapes before memory is looked at first.
    first: usize,
    shapes: usize,
    plans: bool,
    /// Threads that make requests at the same time.
    callers: usize,
}

/// Not a test: the work of the processes that the tests start. Without a job it does nothing.
#[test]
#[ignore = "the body of the processes that other tests here start"]
fn server() {
    let Ok(job) = std::fs::read_to_string(JOB) else { return };
    // Otherwise the system would at times turn the few small pages that the pool keeps into a whole huge page.
    rustix::thread::disable_transparent_huge_pages(true).expect("Linux has that");
    let parts: Vec<&str> = job.lines().collect();
    let [name, limit, first, shapes, plans, callers] = parts[..] else { panic!("a job has six lines: {job}") };
    let [limit, first, shapes, callers] =
        [limit, first, shapes, callers].map(|number| number.parse::<usize>().expect("a number"));
    let operator = OPERATORS.iter().find(|operator| operator.name == name).expect("a known operator");
    let cache_limits = Limits { bytes: limit, ..SessionOptions::default().cache_limits };
    // Free memory of tensors has a bound of its own. Without free memory, a long run would mostly wait for fresh pages.
    let buffer_bytes = if shapes > 11usize.pow(3) { 4 * MIB } else { MIB / 16 };
    let mut options = SessionOptions { threads: 1, cache_limits, buffer_bytes, ..SessionOptions::default() };
    if shapes <= 11usize.pow(3) {
        // Records grow with every shape, up to a bound that is far off.
        options.records = Some(Arc::new(Store::off()));
    }
    if plans == "false" {
        options.plan_limits = Limits { entries: 0, bytes: 0 };
    }
    let session = Session::from_graph(operator.graph(), &options).expect("the graph is supported");
    // The smaller ones make tensors of less than 64 KiB, which do not come from reserved memory.
    let side = if shapes > 11usize.pow(3) { 47 } else { 11 };
    let (early, most, next) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let call = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= shapes {
                return;
            }
            session
                .run(&operator.request(number, side))
                .unwrap_or_else(|error| panic!("{name}, request {number}: {error}"));
            if number < first {
                if number % 16 == 0 || number + 1 == first {
                    early.fetch_max(in_memory(), Ordering::Relaxed);
                }
            } else if number % 64 == 0 || number + 1 == shapes {
                most.fetch_max(in_memory(), Ordering::Relaxed);
            }
        }
    };
    match callers {
        1 => call(),
        _ => std::thread::scope(|scope| (0..callers).for_each(|_| drop(scope.spawn(call)))),
    }
    let [early, most] = [early, most].map(AtomicUsize::into_inner);
    std::fs::write(TOLD, format!("{early} {most}")).expect("the folder is the test's");
}

impl Job<'_> {
    /// The caller's own lists of numbers, each of another size, would leave holes in glibc's heap that do not concern
    /// this test, so they get mappings of their own. In a short run small tensors get mappings too: their holes are
    /// larger than the growth that the test looks for. glibc's threshold would grow with the largest list that a caller
    /// frees. Several callers have as many arenas of the heap as glibc gives them; a single caller has one.
    fn environment(&self) -> Vec<(&'static str, &'static str)> {
        let mapped = ("MALLOC_MMAP_THRESHOLD_", if self.limit < MIB { "16384" } else { "65536" });
        if self.callers == 1 { vec![mapped, ("MALLOC_ARENA_MAX", "1")] } else { vec![mapped] }
    }
}

/// Has a process do that job. Gives its memory after the first shapes, and the most after those.
fn serve(job: &Job<'_>) -> (usize, usize) {
    let home = tempfile::tempdir().unwrap();
    let Job { operator, limit, first, shapes, plans, callers } = job;
    let name = operator.name;
    std::fs::write(home.path().join(JOB), format!("{name}\n{limit}\n{first}\n{shapes}\n{plans}\n{callers}")).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "server", "--nocapture"])
        .current_dir(home.path())
        .envs(job.environment())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}: {said}", output.status);
    let told = std::fs::read_to_string(home.path().join(TOLD)).expect("it has told");
    let (early, most) = told.split_once(' ').unwrap();
    (early.parse().unwrap(), most.parse().unwrap())
}

const MIB: usize = 1 << 20;

/// Each operator, with plans and node by node, on two threads.
fn each(check: impl Fn(&Operator, bool) -> Result<(), String> + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let problems = Mutex::new(Vec::new());
    let check = |operator: &Operator, plans| {
        let problem = check(operator, plans).err();
        problems.lock().unwrap().extend(problem.map(|problem| format!("{}, plans {plans}: {problem}", operator.name)));
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(operator) = OPERATORS.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    [true, false].into_iter().for_each(|plans| check(operator, plans));
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_full_cache_grows_no_more() {
    let (first, shapes) = (400, 1300);
    each(|operator, plans| {
        let (early, most) = serve(&Job { operator, limit: MIB / 4, first, shapes, plans, callers: 1 });
        let grown = most.saturating_sub(early);
        // 870 bytes a shape: less than an executor with its key and plan.
        if grown <= MIB * 3 / 4 { Ok(()) } else { Err(format!("{early} bytes, then {grown} more")) }
    });
}

#[test]
#[ignore = "some minutes"]
#[allow(clippy::print_stdout, reason = "the figures are what it is run for")]
fn a_hundred_thousand_shapes() {
    each(|operator, plans| {
        let (early, most) = serve(&Job { operator, limit: 16 * MIB, first: 10, shapes: 100_000, plans, callers: 1 });
        let mib = |bytes: usize| bytes as f64 / MIB as f64;
        println!("{}, plans {plans}: {:.1} MiB at first, {:.1} at most", operator.name, mib(early), mib(most));
        if most <= (16 + 32) * MIB { Ok(()) } else { Err(format!("{most} bytes")) }
    });
}

/// Eight threads send requests to a convolution network at the same time, each with the heap that glibc gives it:
/// together they take no more than one may.
#[test]
#[allow(clippy::print_stdout, reason = "the figures are what it is run for")]
fn eight_callers_share_the_bound() {
    let operator = OPERATORS.iter().find(|operator| operator.name == "conv").expect("there are convolutions");
    for plans in [true, false] {
        let job = Job { operator, limit: 16 * MIB, first: 10, shapes: 12_000, plans, callers: 8 };
        let mib = |bytes: usize| bytes as f64 / MIB as f64;
        // How far heaps grow between two searches for free pages depends on how threads take turns.
        let within = (0..3).any(|_| {
            let (early, most) = serve(&job);
            println!("plans {plans}: {:.1} MiB at first, {:.1} at most", mib(early), mib(most));
            most <= (16 + 32) * MIB
        });
        assert!(within, "plans {plans}: more than 48 MiB, three times");
    }
}
