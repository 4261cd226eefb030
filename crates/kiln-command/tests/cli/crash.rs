//! Crashes of the command: signals are sent to it while it works on a model that takes its time.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::command::{arg, command, kiln};
use crate::onnx_file;

/// Rows and columns of the matrices: a product takes some hundredths of a second.
const SIDE: u64 = 1024;

/// Products of the long model. They take tens of seconds; a test waits for a second or two.
const PRODUCTS: usize = 1500;

/// A case of `products` products. Its expected outputs do not matter.
fn write_products(folder: &Path, products: usize) {
    let matrix = onnx_file::tensor("x", &[SIDE, SIDE], &vec![0.5; (SIDE * SIDE) as usize]);
    onnx_file::write_case(folder, &onnx_file::products(products), &matrix, &onnx_file::tensor("", &[1], &[0.0]));
}

fn write_passing(folder: &Path) {
    let input = onnx_file::tensor("x", &[1, 2], &[1.0, 2.0]);
    onnx_file::write_case(folder, &onnx_file::dense(), &input, &onnx_file::tensor("y", &[1, 3], &[0.0, 12.0, 25.0]));
}

/// A process by its number.
struct Process(i32);

impl Process {
    /// Its parent, and the ticks of processor time that it has used; `None` if it has ended.
    fn stat(&self) -> Option<(i32, u64)> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        if fields[0] == "Z" { None } else { Some((fields[1].parse().ok()?, fields[11].parse().ok()?)) }
    }

    /// The child of this process that has computed for `ticks` ticks, once there is one.
    fn busy_child(&self, ticks: u64) -> Process {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(100) {
            for entry in std::fs::read_dir("/proc").unwrap().flatten() {
                let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()).map(Process) else {
                    continue;
                };
                if process.stat().is_some_and(|(parent, taken)| parent == self.0 && taken >= ticks) {
                    return process;
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("process {} has no child that computes", self.0);
    }

    fn await_ticks(&self, ticks: u64) {
        let start = Instant::now();
        while self.stat().expect("it computes").1 < ticks {
            assert!(start.elapsed() < Duration::from_secs(100), "process {} does not compute", self.0);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.0).unwrap(), signal).unwrap();
    }
}

fn start(mut command: Command) -> (Child, Process) {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = Process(child.id() as i32);
    (child, process)
}

/// Waits longer each time before it sends a signal, until the signal comes while a node runs; loading comes first.
fn until_it_hits_a_node(mut attempt: impl FnMut(u64) -> Output) -> (Output, String) {
    let mut ticks = 50;
    loop {
        let output = attempt(ticks);
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if text.contains("(MatMul)") || ticks > 1000 {
            return (output, text);
        }
        ticks *= 2;
    }
}

#[test]
fn a_case_that_crashes_costs_itself_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    write_passing(&folder.path().join("suite/a_good"));
    write_products(&folder.path().join("suite/b_long"), PRODUCTS);
    write_passing(&folder.path().join("suite/c_good"));
    let (output, text) = until_it_hits_a_node(|ticks| {
        let arguments = ["check", &arg(&folder.path().join("suite")), "--threads", "1", "--json", &arg(&json)];
        let (child, process) = start(command(arguments));
        process.busy_child(ticks).send(Signal::SEGV);
        child.wait_with_output().unwrap()
    });
    assert_eq!(output.status.code(), Some(1), "{text}");
    let verdicts: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!((&verdicts["a_good"], &verdicts["c_good"]), (&"passed".into(), &"passed".into()), "{text}");
    let crash = verdicts["b_long"].as_str().unwrap();
    assert!(crash.starts_with("crashed: SIGSEGV, model test, node 'node_y"), "{crash}");
    assert!(crash.contains("' (MatMul), ExecutorKey { target: Target {"), "the key is missing: {crash}");
    assert!(text.contains(&format!("b_long: {crash}\n")), "{text}");
    let totals = text.lines().any(|line| line.split_whitespace().eq(["suite", "2", "0", "0", "1", "3"]));
    assert!(totals, "{text}");
}

#[test]
fn a_case_that_hangs_is_ended_with_its_node_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    write_products(&folder.path().join("suite/a_long"), PRODUCTS);
    write_passing(&folder.path().join("suite/b_good"));
    let mut limit = 2;
    // On a machine that is busy with other things, loading may take as long.
    let (output, text) = until_it_hits_a_node(|_| {
        limit *= 2;
        command(["check", &arg(folder.path()), "--threads", "1", "--limit", &limit.to_string()]).output().unwrap()
    });
    assert_eq!(output.status.code(), Some(1), "{text}");
    let line = text.lines().find(|line| line.starts_with("suite/a_long: crashed: hangs: more than")).expect(&text);
    assert!(line.contains(" s, model test, node 'node_y"), "{line}");
    assert!(text.lines().any(|line| line == "suite/b_good: passed"), "{text}");
}

#[test]
fn a_crash_of_any_subcommand_says_model_node_and_key() {
    let folder = tempfile::tempdir().unwrap();
    write_products(&folder.path().join("case"), PRODUCTS);
    let model = folder.path().join("case/model.onnx");
    for signal in [Signal::BUS, Signal::ILL, Signal::FPE, Signal::ABORT] {
        let (output, text) = until_it_hits_a_node(|ticks| {
            let arguments = ["run", &arg(&model), "--threads", "1", "--dim", &format!("N={SIDE}")];
            let (child, process) = start(command(arguments));
            process.await_ticks(ticks);
            process.send(signal);
            child.wait_with_output().unwrap()
        });
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{text}");
        let line = text.lines().find(|line| line.starts_with("kiln: crashed: SIG")).expect(&text);
        assert!(line.contains(&format!(", model {}, node 'node_y", model.display())), "{line}");
        assert!(line.contains("problem: MatMulProblem {"), "{line}");
    }
}

#[test]
fn results_are_the_same_in_one_process_and_in_many() {
    let folder = tempfile::tempdir().unwrap();
    let cases = folder.path().join("cases");
    write_passing(&cases.join("a/good"));
    let input = onnx_file::tensor("x", &[1, 2], &[1.0, 2.0]);
    let expected = onnx_file::tensor("y", &[1, 3], &[0.5, 12.0, 27.0]);
    onnx_file::write_case(&cases.join("a/wrong"), &onnx_file::dense(), &input, &expected);
    onnx_file::write_case(&cases.join("b/refused"), &onnx_file::unknown_operators(), &input, &expected);
    let written = |flags: &[&str]| {
        let (json, operators) = (folder.path().join("out.json"), folder.path().join("out.md"));
        let outputs = ["--json", &arg(&json), "--operators", &arg(&operators)].map(str::to_owned);
        let arguments = ["check".to_owned(), arg(&cases)].into_iter().chain(outputs);
        let finished = kiln(arguments.chain(flags.iter().map(|flag| (*flag).to_owned())));
        let read = |path| std::fs::read_to_string(path).unwrap();
        (finished.code, finished.stdout, read(&json), read(&operators))
    };
    assert_eq!(written(&["--in-process"]), written(&[]));
}
