//! `kiln report`: the measurements of `kiln bench --json` as one self-contained HTML file, beside other programs'
//! measurements of the same requests. Reads and checks files; [`page`] makes the HTML.

mod page;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::failure::{Failure, Outcome, WithCode};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file that `kiln bench --json` wrote
    bench: PathBuf,
    /// The HTML file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Measurements of another program over the same requests, in the same form; may be given several times
    #[arg(long = "peer", value_name = "FILE")]
    peers: Vec<PathBuf>,
}

/// One program's measurements of a trace.
#[derive(Debug, PartialEq)]
struct Series {
    name: String,
    model: String,
    /// Milliseconds by request: the first time, and again.
    first: Vec<f64>,
    again: Vec<f64>,
    new: Vec<bool>,
    /// The outcome for each request of the first pass; empty if the file does not have them.
    outcomes: Vec<String>,
    load_ms: Option<f64>,
    peak_mb: Option<f64>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let kiln = read(&args.bench, "Kiln")?;
    let mut all = vec![kiln];
    for path in &args.peers {
        let peer = read(path, "peer")?;
        if peer.first.len() != all[0].first.len() {
            let text = format!(
                "{}: {} requests where {} has {}",
                path.display(),
                peer.first.len(),
                args.bench.display(),
                all[0].first.len()
            );
            return Err(Failure::usage(text));
        }
        all.push(peer);
    }
    std::fs::write(&args.output, page::html(&all))
        .usage(|| format!("--output: cannot write {}", args.output.display()))?;
    writeln!(screen, "wrote {}", args.output.display())?;
    Ok(())
}

fn read(path: &Path, name: &str) -> Outcome<Series> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).usage(|| format!("cannot read {shown}"))?;
    let value: Value = serde_json::from_str(&text).usage(|| format!("{shown} is no JSON"))?;
    series(&value, name).map_err(|reason| Failure::usage(format!("{shown}: {reason}")))
}

/// The measurements in a file: of `kiln bench`, or of a comparison program, which has a list of runs of its processes.
fn series(value: &Value, name: &str) -> Result<Series, String> {
    let run = value.get("cold").and_then(|runs| runs.get(0)).unwrap_or(value);
    let numbers = |field: &str| -> Result<Vec<f64>, String> {
        let list = run[field].as_array().ok_or_else(|| format!("there is no list '{field}'"))?;
        let number = |value: &Value| value.as_f64().filter(|ms| ms.is_finite() && *ms >= 0.0);
        list.iter().map(|value| number(value).ok_or_else(|| format!("'{field}' holds {value}"))).collect()
    };
    let (first, again) = (numbers("lat1")?, numbers("lat2")?);
    let list = |field: &str| run[field].as_array().map_or(&[][..], Vec::as_slice);
    let new: Vec<bool> = list("new").iter().map(|new| new.as_bool().unwrap_or(false)).collect();
    let outcomes: Vec<String> = list("outcomes").iter().map(|word| word.as_str().unwrap_or("").to_owned()).collect();
    if first.is_empty() || again.len() != first.len() || new.len() != first.len() {
        return Err(format!(
            "{} first latencies, {} again, {} of them called new",
            first.len(),
            again.len(),
            new.len()
        ));
    }
    if !outcomes.is_empty() && outcomes.len() != first.len() {
        return Err(format!("{} latencies and {} outcomes", first.len(), outcomes.len()));
    }
    let word = |field: &str| value[field].as_str().or(run[field].as_str()).map(str::to_owned);
    Ok(Series {
        name: word("peer").unwrap_or_else(|| name.to_owned()),
        model: word("model").unwrap_or_default(),
        first,
        again,
        new,
        outcomes,
        load_ms: run["load_ms"].as_f64(),
        peak_mb: run["peak_mb"].as_f64(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_of_files_are_read_and_broken_ones_refused() {
        let run = json!({"lat1": [2.0, 1], "lat2": [1.0, 1.0], "new": [true, false], "load_ms": 5.0});
        let plain = series(&run, "Kiln").unwrap();
        assert_eq!((plain.name.as_str(), &plain.first[..], plain.load_ms), ("Kiln", &[2.0, 1.0][..], Some(5.0)));
        let peer = series(&json!({"peer": "openvino", "model": "m", "cold": [run]}), "peer").unwrap();
        assert_eq!((peer.name.as_str(), peer.model.as_str(), &peer.new[..]), ("openvino", "m", &[true, false][..]));
        for (field, value) in [("lat1", json!([])), ("lat2", json!([1])), ("lat1", json!([1, "x"])), ("new", json!([]))]
        {
            let mut broken = run.clone();
            broken[field] = value;
            series(&broken, "Kiln").unwrap_err();
        }
        let mut outcomes = run.clone();
        outcomes["outcomes"] = json!(["cache_miss"]);
        series(&outcomes, "Kiln").unwrap_err();
    }
}
