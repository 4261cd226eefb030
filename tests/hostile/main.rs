//! Models made to harm: each ends in a typed error or a right result, soon and in little memory.
//!
//! [`nodes`] and [`bodies`] list models, one for each way to ask an operator, a loop or the file for too much; they are
//! written to bytes, loaded and run as a user would. [`steps`] lists models that only a time limit ends. [`files`]
//! damages whole files and points to other files.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the worst figures are what a reader of the log wants")]

mod bodies;
mod files;
mod gauge;
mod limits;
mod nodes;
mod steps;
mod wire;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use kiln::session::{Session, SessionOptions};
use kiln_model::Graph;
use kiln_model::onnx;
use kiln_run::LoopLimits;
use kiln_tensor::Tensor;

#[global_allocator]
static ALLOCATOR: gauge::Counting = gauge::Counting;

/// One model at a time: the gauge counts the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// The memory that a hostile model of up to 64 KiB may take. Tensors of a request have their own bound, a part of this.
const MEMORY: usize = 64 << 20;
const TENSORS: usize = 24 << 20;

/// The time that a server might give to loading and to a request each. Such a model may take the sum.
const LIMIT: Duration = Duration::from_millis(50);

/// The time that the test allows. It is far longer, because it only tells an end from none on slow or shared machines.
/// The longest time seen is printed.
const TIME: Duration = Duration::from_secs(30);

/// A model with the inputs that it is run on.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) graph: Graph,
    pub(crate) inputs: Vec<(String, Tensor)>,
}

pub(crate) fn options(limit: Option<Duration>) -> SessionOptions {
    SessionOptions {
        time_limit: limit,
        load_time_limit: limit,
        threads: 1,
        buffer_bytes: 1 << 20,
        memory_bytes: TENSORS,
        loops: LoopLimits { iterations: 1 << 12, bytes: 8 << 20, steps: 1 << 24 },
        ..SessionOptions::default()
    }
}

/// Loads and runs; the outcome as text.
fn attempt(bytes: &[u8], inputs: &[(String, Tensor)], limit: Option<Duration>) -> Result<String, String> {
    let session = match Session::load_bytes(bytes.to_vec(), &options(limit)) {
        Ok(session) => session,
        Err(error) if error.is_fault() => return Err(error.to_string()),
        Err(error) => return Ok(format!("load: {error}")),
    };
    let inputs: Vec<(&str, Tensor)> = inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    match session.run(&inputs) {
        Ok(outputs) => {
            let made: usize = outputs.iter().map(|(_, tensor)| tensor.byte_len()).sum();
            if made > TENSORS { Err(format!("{made} bytes of outputs")) } else { Ok(format!("{made} bytes")) }
        }
        Err(error) if error.is_fault() => Err(error.to_string()),
        Err(error) => Ok(format!("run: {error}")),
    }
}

/// Every model; each must reach the limit that it was written to reach.
#[test]
fn hostile_models_end_in_an_error_or_a_result() {
    let endings = all_end(nodes::cases().into_iter().chain(bodies::cases()).collect(), None);
    assert!(endings.len() >= 60, "{} models", endings.len());
}

/// Once more, as a server runs strangers' models.
#[test]
fn hostile_models_end_soon_under_time_limits() {
    all_end(nodes::cases().into_iter().chain(bodies::cases()).collect(), Some(LIMIT));
}

/// A single long step ends midway; if it went on to its end, it would give a result.
#[test]
fn long_steps_end_when_their_time_is_over() {
    let long = all_end(steps::cases(), Some(LIMIT));
    let short = all_end(steps::short_cases(), Some(LIMIT / 10));
    for (name, ending) in long.into_iter().chain(short) {
        assert!(ending.contains("the time limit of"), "{name}: {ending}");
    }
}

/// Runs all cases; returns how each ended.
fn all_end(cases: Vec<Case>, limit: Option<Duration>) -> Vec<(String, String)> {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Threads, tables of instructions and the like are made once a process.
    let _ = attempt(&onnx::write(&nodes::harmless()).unwrap(), &[], limit);
    let mut endings = Vec::new();
    let (mut problems, mut longest, mut largest) = (Vec::new(), (Duration::ZERO, String::new()), (0, String::new()));
    for case in &cases {
        let bytes = match onnx::write(&case.graph) {
            Ok(bytes) => bytes,
            Err(error) => panic!("{}: {error}", case.name),
        };
        assert!(bytes.len() <= 64 << 10, "{}: {} bytes", case.name, bytes.len());
        let (before, start) = (gauge::reset(), Instant::now());
        let result = catch_unwind(AssertUnwindSafe(|| attempt(&bytes, &case.inputs, limit)));
        let (time, memory) = (start.elapsed(), gauge::most(before));
        let ending = match result {
            Ok(Ok(ending)) => ending,
            Ok(Err(problem)) => format!("PROBLEM {problem}"),
            Err(_) => "PROBLEM panic".to_owned(),
        };
        if std::env::args().any(|arg| arg == "--nocapture") {
            eprintln!("{:60} {:7.1} ms {:6} KiB  {ending}", case.name, time.as_secs_f64() * 1e3, memory >> 10);
        }
        // A model that is refused for its operator's version tries nothing.
        let is_tried = !ending.contains("is defined from version");
        if !is_tried || ending.starts_with("PROBLEM") || time > TIME || memory + TENSORS > MEMORY + 4 * bytes.len() {
            problems.push(format!("{}: {ending}, {time:?}, {memory} bytes", case.name));
        }
        endings.push((case.name.clone(), ending));
        longest = longest.max((time, case.name.clone()));
        largest = largest.max((memory, case.name.clone()));
    }
    println!("{} models under limit {limit:?}; longest {longest:?}, largest {largest:?}", cases.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    endings
}
