//! The output of other libraries' benches, as rows and seconds. Knows their formats, but not how Kiln is measured.

use std::collections::HashMap;
use std::process::Command;

use super::Row;

/// Seconds of a call by row and threads: the least of all measurements.
pub(crate) type Times = HashMap<(String, usize), f64>;

/// The output of a peer's bench for these words.
pub(crate) fn run(program: &str, words: &[String]) -> String {
    let mut command = Command::new(program);
    command.args(words).env("OMP_PROC_BIND", "true").env("OMP_WAIT_POLICY", "active");
    let output = command.output().expect("a program");
    String::from_utf8(output.stdout).expect("text")
}

/// Merges the times that a peer's bench printed into `times`, keeping the least, and returns the rows that it printed.
pub(crate) fn read(printed: &str, times: &mut Times) -> Vec<Row> {
    let list: serde_json::Value = serde_json::from_str(printed).expect("what a peer's bench prints");
    let mut rows = vec![];
    for object in list["rows"].as_array().into_iter().flatten() {
        if let (Some((row, seconds)), Some(threads)) = (row(object), object["threads"].as_u64()) {
            keep(times, row.name(), threads as usize, seconds);
            rows.push(row);
        }
    }
    rows
}

/// Keeps the least time of a row.
pub(crate) fn keep(times: &mut Times, row: String, threads: usize, seconds: f64) {
    let least = times.entry((row, threads)).or_insert(f64::INFINITY);
    *least = least.min(seconds);
}

/// The row that an object of a list describes, and the seconds of a call.
fn row(object: &serde_json::Value) -> Option<(Row, f64)> {
    let get = |name: &str| Some(object[name].as_u64()? as usize);
    let bench = object["bench"].as_str()?;
    if bench == "gemm" {
        // libxsmm's matrices go down their columns: its rows are the columns here. It prints a rate and no time.
        let row = Row::Product([get("n")?, get("k")?, get("m")?]);
        let seconds = row.cost().0 / object["gflops"].as_f64()? / 1e9;
        return Some((row, seconds));
    }
    if object["type"].as_str()? != "f32" {
        return None;
    }
    let row = match bench {
        "conv" => Row::Layer([get("ci")?, get("co")?, get("h")?, get("k")?, get("s")?, get("g")?]),
        "matmul" => Row::Product([get("m")?, get("k")?, get("n")?]),
        _ => return None,
    };
    Some((row, object["us"].as_f64()? / 1e6))
}
