//! Processes with little memory: whatever models ask for, a refused allocation is an error and ends no process, and a
//! time limit also ends the taking of memory.

use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kiln::session::{Session, SessionError, SessionOptions};
use kiln_model::GraphBuilder;
use kiln_model::ir::Attr;
use kiln_model::onnx::{self, ModelError, TensorProblem};
use kiln_run::RunError;
use kiln_tensor::{DType, Tensor, TensorSpec};

use crate::wire::{Message, graph, model};
use crate::{ALONE, Case, bodies, nodes, steps};

/// The file, in the folder that a child is started in, with the seed and the number of models to change.
const JOB: &str = "job";
/// The file that it writes the outcomes to.
const FOUND: &str = "found";

/// The time that a server may give a request and a load.
const LIMIT: Duration = Duration::from_millis(20);

/// A case that ends later than its limit by more than this deserves a look from a reader of the log.
const SLACK: Duration = Duration::from_millis(50);

/// Numbers that look random and are the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    /// A size from 1 to 2^34, as often of one order of magnitude as of another.
    fn size(&mut self) -> i64 {
        let bits = self.below(35);
        1 + (self.next() & ((1 << bits) - 1)) as i64
    }
}

/// The same tensor with some of its integers changed, or with other sizes.
fn changed(tensor: &Tensor, numbers: &mut Numbers) -> Tensor {
    if tensor.dtype() == DType::I64 {
        let mut values = tensor.as_slice::<i64>().unwrap().to_vec();
        values.iter_mut().for_each(|value| {
            if numbers.below(2) == 0 {
                *value = numbers.size();
            }
        });
        return Tensor::from_vec(tensor.shape().to_vec(), values).unwrap();
    }
    // A tensor of other sizes has the same type, and zeros or empty texts.
    if numbers.below(3) > 0 {
        return tensor.clone();
    }
    let mut left = 1 << 20;
    let sizes = tensor.shape().iter().map(|&size| {
        let size = if numbers.below(2) == 0 { size } else { (numbers.size() as usize).min(left) };
        left = (left / size.max(1)).max(1);
        size
    });
    let sizes: Vec<usize> = sizes.collect();
    // The test may have no more memory than the code under test.
    let zeros = Tensor::zeros(TensorSpec::new(tensor.dtype(), sizes));
    zeros.unwrap_or_else(|_| tensor.clone())
}

fn change(case: &mut Case, numbers: &mut Numbers) {
    for node in &mut case.graph.nodes {
        for attr in node.attrs.values_mut() {
            match attr {
                Attr::Int(value) if numbers.below(3) == 0 => *value = numbers.size(),
                Attr::Ints(values) => values.iter_mut().for_each(|value| {
                    if numbers.below(3) == 0 {
                        *value = numbers.size();
                    }
                }),
                _ => {}
            }
        }
    }
    for tensor in case.graph.constants.values_mut() {
        *tensor = changed(tensor, numbers);
    }
    for (_, tensor) in &mut case.inputs {
        *tensor = changed(tensor, numbers);
    }
}

/// The options of a user who sets no limit but that of time.
fn options() -> SessionOptions {
    SessionOptions { threads: 2, time_limit: Some(LIMIT), load_time_limit: Some(LIMIT), ..SessionOptions::default() }
}

/// Loads a model's file and runs a request.
fn attempt(case: &Case, file: Vec<u8>) -> Result<(), SessionError> {
    let session = Session::load_bytes(file, &options())?;
    let inputs: Vec<(&str, Tensor)> = case.inputs.iter().map(|(name, tensor)| (&**name, tensor.clone())).collect();
    session.run(&inputs).map(|_| ())
}

/// What a model is asked to do, for a reader who wants to know why it took long.
fn describe(case: &Case) -> String {
    let shapes = case.inputs.iter().map(|(_, tensor)| tensor.shape().to_vec()).collect::<Vec<_>>();
    let sizes = case.inputs.iter().map(|(_, tensor)| tensor).chain(case.graph.constants.values());
    let sizes = sizes.filter_map(|tensor| tensor.as_slice::<i64>().ok()).map(<[i64]>::to_vec).collect::<Vec<_>>();
    let attrs = case.graph.nodes.iter().flat_map(|node| &node.attrs).take(4).collect::<Vec<_>>();
    format!("{shapes:?} {sizes:?} {attrs:?}").chars().take(300).collect()
}

fn corpus() -> Vec<Case> {
    nodes::cases().into_iter().chain(bodies::cases()).chain(steps::cases()).collect()
}

/// Not a test: the work of the process that the tests start. Without a job it does nothing.
#[test]
#[ignore = "the body of the process that other tests here start"]
fn child() {
    let Ok(job) = std::fs::read_to_string(JOB) else { return };
    let (seed, count) = job.split_once(' ').expect("a job has two numbers");
    let (mut numbers, count) = (Numbers(seed.parse().unwrap()), count.parse::<usize>().unwrap());
    let whole = corpus();
    let mutated = (0..count).map(|_| {
        let Case { name, graph, inputs } = &whole[numbers.below(whole.len())];
        let mut case = Case { name: name.clone(), graph: graph.clone(), inputs: inputs.clone() };
        change(&mut case, &mut numbers);
        case
    });
    let (mut ran, mut refused, mut stopped, mut other) = (0, 0, 0, 0);
    let (mut longest, mut faults) = ((Duration::ZERO, String::new()), Vec::new());
    for case in corpus().into_iter().chain(mutated) {
        let Ok(file) = onnx::write(&case.graph) else { continue };
        let started = Instant::now();
        let ending = catch_unwind(AssertUnwindSafe(|| attempt(&case, file)));
        let time = started.elapsed();
        if time > LIMIT + SLACK {
            eprintln!("{time:?} {}: {}", case.name, describe(&case));
        }
        longest = longest.max((time, case.name.clone()));
        match ending {
            Ok(Ok(())) => ran += 1,
            Ok(Err(error)) => {
                if error.is_fault() {
                    faults.push(format!("{}: {error}", case.name));
                }
                let text = error.to_string();
                match &error {
                    _ if text.contains("bytes of memory") || text.contains("bytes, of which") => refused += 1,
                    SessionError::LoadStopped { .. } => stopped += 1,
                    SessionError::Run(error) if error.stopped().is_some() => stopped += 1,
                    _ => other += 1,
                }
            }
            Err(_) => faults.push(format!("{}: a panic left the session", case.name)),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(ran > 0 && refused > 0 && stopped > 0 && other > 0, "{ran} {refused} {stopped} {other}");
    let report = format!(
        "{ran} ran, {refused} were refused memory, {stopped} ended with their time, {other} were refused for what they \
         say; the longest took {longest:?}"
    );
    std::fs::write(FOUND, report).expect("the folder is the test's");
}

/// Runs a child that may have `kibibytes` of addresses.
fn survive(kibibytes: u64, seed: u64, count: usize) {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(JOB), format!("{seed} {count}")).unwrap();
    let script = format!(r#"ulimit -v {kibibytes}; exec "$0" --ignored --exact limits::child --nocapture"#);
    let log = home.path().join("log");
    let status = Command::new("bash")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .current_dir(home.path())
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .status()
        .unwrap();
    let found = std::fs::read_to_string(home.path().join(FOUND)).unwrap_or_default();
    assert!(status.success() && !found.is_empty(), "{kibibytes} KiB: {status}: {}", tail(&log));
    println!("{kibibytes} KiB of addresses: {found}");
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.chars().rev().take(4000).collect::<Vec<_>>().into_iter().rev().collect()
}

#[test]
fn no_model_ends_a_process_of_half_a_gibibyte_of_addresses() {
    survive(1 << 19, 1, 2000);
}

#[test]
fn no_model_ends_a_process_of_a_gibibyte_of_addresses() {
    survive(1 << 20, 2, 2000);
}

#[test]
fn no_model_ends_a_process_of_4_gibibytes_of_addresses() {
    survive(1 << 22, 3, 2000);
}

/// A file that claims `bytes` bytes and has none.
fn sparse(path: &Path, bytes: u64) {
    File::create(path).unwrap().set_len(bytes).unwrap();
}

/// `y = Add(x, w)`, with `floats` floats of `w` in another file.
fn beside(floats: u64, location: &str) -> Vec<u8> {
    let entry = Message::default().text(1, "location").text(2, location);
    let tensor = Message::default().varint(1, floats).varint(2, 1).text(8, "w").message(13, &entry).varint(14, 1);
    model(&graph(&tensor))
}

#[test]
fn a_file_that_is_a_hole_is_refused_before_memory_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    sparse(&folder.path().join("weights"), 1 << 40);
    std::fs::write(&path, beside(1 << 38, "weights")).unwrap();
    let load = |memory_bytes| Session::load(&path, &SessionOptions { memory_bytes, ..SessionOptions::default() });
    let problem = |loaded: Result<Session, SessionError>| match loaded {
        Err(SessionError::Model(ModelError::Tensor { problem, .. })) => problem,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it loads"),
    };
    let limited = SessionOptions::default().memory_bytes;
    assert!(matches!(problem(load(1 << 30)), TensorProblem::Memory { need, .. } if need == 1 << 40));
    // Without a limit of the session, the machine's memory or the file's contents decide.
    let problem = problem(load(usize::MAX));
    let is_refused = match problem {
        TensorProblem::Memory { .. } => limited < 1 << 40,
        TensorProblem::Holes { present, .. } => present == 0,
        _ => false,
    };
    assert!(is_refused, "{problem}");
}

/// Bytes of this process's memory at its widest point.
fn most_resident() -> usize {
    let told = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = told.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn reading_a_large_file_ends_with_the_time_of_loading() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let (path, weights) = (folder.path().join("model.onnx"), folder.path().join("weights"));
    let mut file = File::create(&weights).unwrap();
    // Enough data that the file's size is believed, holes included.
    let block = [1; 1 << 16];
    (0..(96 << 20) / block.len()).for_each(|_| file.write_all(&block).unwrap());
    file.set_len(768 << 20).unwrap();
    std::fs::write(&path, beside(192 << 20, "weights")).unwrap();
    let limit = Some(Duration::from_millis(5));
    let before = most_resident();
    let loaded = Session::load(&path, &SessionOptions { load_time_limit: limit, ..SessionOptions::default() });
    let Err(SessionError::LoadStopped { .. }) = loaded else { panic!("{:?}", loaded.map(|_| ()).unwrap_err()) };
    assert!(most_resident() < before + (512 << 20), "most of it was never taken");
}

#[test]
fn taking_much_memory_ends_with_the_time_of_the_request() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let bytes: usize = 2 << 30;
    let mut build = GraphBuilder::new("large", 17);
    let shape = build.input("shape", DType::I64, [1.into()]);
    let made = build.op("ConstantOfShape", &[shape], &[]);
    build.output("y", made);
    let session = Session::from_graph(build.finish(), &SessionOptions::default()).unwrap();
    let shape = Tensor::from_slice([1], &[(bytes / 4) as i64]).unwrap();
    let limit = kiln::session::RunOptions { time_limit: Some(Duration::from_millis(5)), ..Default::default() };
    let before = most_resident();
    let Err(SessionError::Run(error)) = session.run_with(&[("shape", shape)], &limit) else { panic!("it ends") };
    assert!(RunError::stopped(&error).is_some(), "{error}");
    assert!(most_resident() < before + bytes / 2, "most of it was never taken");
    // The session serves the next request as before.
    let small = Tensor::from_slice([1], &[3i64]).unwrap();
    assert_eq!(session.run(&[("shape", small)]).unwrap()[0].1.len(), 3);
}

/// How late requests end that ask for `bytes` bytes and have no time for it: a session's first request, and later ones.
fn lateness(bytes: usize, limit: Duration) -> Vec<Duration> {
    let mut build = GraphBuilder::new("large", 17);
    let shape = build.input("shape", DType::I64, [1.into()]);
    let made = build.op("ConstantOfShape", &[shape], &[]);
    let last = (0..20).fold(made, |last, _| build.op("Exp", &[last], &[]));
    build.output("y", last);
    let graph = build.finish();
    let options = SessionOptions { threads: 2, ..SessionOptions::default() };
    let run = kiln::session::RunOptions { time_limit: Some(limit), ..Default::default() };
    let shape = Tensor::from_slice([1], &[(bytes / 4) as i64]).unwrap();
    let mut late = Vec::new();
    for round in 0..3 {
        let session = Session::from_graph(graph.clone(), &options).unwrap();
        for _ in 0..(if round == 0 { 3 } else { 1 }) {
            let started = Instant::now();
            let ended = session.run_with(&[("shape", shape.clone())], &run);
            late.push(started.elapsed().saturating_sub(limit));
            assert!(ended.is_err(), "it has no time for its work");
        }
    }
    late.sort();
    late
}

#[test]
#[ignore = "takes up to 14 GB; prints how late requests end: run it alone, with --nocapture"]
fn requests_that_hold_gigabytes_end_with_their_time() {
    for gigabytes in [4, 8, 14] {
        for limit in [100, 1000].map(Duration::from_millis) {
            let late = lateness(gigabytes << 30, limit);
            let (median, worst) = (late[late.len() / 2], late[late.len() - 1]);
            println!("{gigabytes} GiB within {limit:?}: {median:?} late in the median, {worst:?} at worst");
        }
    }
}
