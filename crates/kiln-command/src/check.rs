//! `kiln check`: ONNX test cases, the conformance runner. Each case has one session for all its data sets, in a process
//! of its own ([`process`]), so that a case that crashes or hangs loses only its own result.

mod case;
mod folder;
mod process;
mod tally;
mod uses;
mod watch;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;

use crate::check::case::{Seen, Verdict, Way};
use crate::check::folder::Case;
use crate::check::tally::Tally;
use crate::failure::{Code, Failure, Outcome, WithCode};
use crate::progress::Progress;
use crate::setup::{DefaultCacheMode, SessionArgs};
use crate::table::Table;

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folders with cases at any depth: a case is a folder with a model.onnx
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Run only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Print only cases that did not pass, and the totals
    #[arg(long)]
    quiet: bool,
    /// Write {case: "passed" | "passed: ..." | "wrong: ..." | "refused: ..." | "crashed: ..."} to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the results by operator, as a table in Markdown, to this file
    #[arg(long, value_name = "FILE")]
    operators: Option<PathBuf>,
    /// Time limit of a case; a case that takes longer is named and counts as crashed
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    limit: u64,
    /// Pack each model to a file first, and run the packed model
    #[arg(long)]
    packed: bool,
    /// Run all cases in this process, which is faster: a case that crashes or hangs ends the run
    #[arg(long)]
    in_process: bool,
    /// Run only the case of this folder and write its result as JSON: how each case gets a process of its own
    #[arg(long, hide = true, value_name = "FOLDER")]
    alone: Option<PathBuf>,
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let options = args.session.options(DefaultCacheMode::Memory)?;
    if let Some(folder) = &args.alone {
        return process::serve(folder, Way { options: &options, packed: args.packed }, screen);
    }
    let mut cases = folder::find(&args.folders)?;
    if let Some(filter) = &args.filter {
        cases.retain(|case| case.name.contains(filter));
    }
    if cases.is_empty() {
        return Err(Failure::usage("no case there: a case is a folder with a model.onnx"));
    }
    let mut tally = Tally::new();
    let way = Way { options: &options, packed: args.packed };
    let results = check_all(args, &cases, way, &mut tally, screen)?;
    print_totals(&cases, &results, screen)?;
    if let Some(path) = &args.json {
        let texts: BTreeMap<&str, String> =
            cases.iter().zip(&results).map(|(case, verdict)| (case.name.as_str(), verdict.to_string())).collect();
        let json = serde_json::to_string_pretty(&texts).failed(|| "cannot write JSON")?;
        std::fs::write(path, json).usage(|| format!("--json: cannot write {}", path.display()))?;
    }
    if let Some(path) = &args.operators {
        std::fs::write(path, tally.markdown()).usage(|| format!("--operators: cannot write {}", path.display()))?;
    }
    let any = |found: fn(&Verdict) -> bool| results.iter().any(found);
    if any(|verdict| matches!(verdict, Verdict::Wrong(_) | Verdict::Crashed(_))) {
        return Err(Failure::reported(Code::Failed));
    }
    if any(|verdict| matches!(verdict, Verdict::Refused { .. })) {
        return Err(Failure::reported(Code::Unsupported));
    }
    Ok(())
}

fn check_all(
    args: &Args,
    cases: &[Case],
    way: Way<'_>,
    tally: &mut Tally,
    screen: &mut dyn Write,
) -> Outcome<Vec<Verdict>> {
    let progress = Progress::new("cases", cases.len());
    let limit = Duration::from_secs(args.limit);
    let mut runner = if args.in_process {
        let begins = watch::start(limit).failed(|| "cannot start the thread that watches for cases that hang")?;
        Runner::Here { crashes: case::Crashes::watch(), begins, way }
    } else {
        Runner::Apart(process::Launcher::new(limit))
    };
    let mut results = Vec::with_capacity(cases.len());
    for case in cases {
        let (verdict, seen) = runner.check(case)?;
        tally.add(&seen.uses, &verdict, seen.lookups);
        if !args.quiet || verdict.column() != 0 {
            progress.suspended(|| writeln!(screen, "{}: {verdict}", case.name))?;
        }
        results.push(verdict);
        progress.step();
    }
    Ok(results)
}

/// The way that cases run.
enum Runner<'a> {
    /// In this process, one after the other.
    Here { crashes: case::Crashes, begins: Sender<String>, way: Way<'a> },
    /// Each in a process of its own.
    Apart(process::Launcher),
}

impl Runner<'_> {
    fn check(&mut self, case: &Case) -> Outcome<(Verdict, Seen)> {
        match self {
            Runner::Here { crashes, begins, way } => {
                // If the watch has ended, so has the process.
                let _ = begins.send(case.name.clone());
                let mut seen = Seen::default();
                Ok((crashes.guard(|| case::check(&case.folder, *way, &mut seen)), seen))
            }
            Runner::Apart(launcher) => launcher.check(case),
        }
    }
}

/// Prints a line for each suite, then missing features, the most frequent first.
fn print_totals(cases: &[Case], results: &[Verdict], screen: &mut dyn Write) -> Outcome {
    let mut suites: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let mut all = [0; 4];
    let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
    for (case, verdict) in cases.iter().zip(results) {
        suites.entry(&case.suite).or_default()[verdict.column()] += 1;
        all[verdict.column()] += 1;
        if let Verdict::Refused { missing: operators, .. } = verdict {
            operators.iter().for_each(|what| *missing.entry(kind(what)).or_default() += 1);
        }
    }
    let mut table = Table::new(&["suite", ">passed", ">wrong", ">refused", ">crashed", ">of"]);
    let mut row = |name: &str, counts: [usize; 4]| {
        let total: usize = counts.iter().sum();
        table.row([name.to_owned()].into_iter().chain(counts.map(|n| n.to_string())).chain([total.to_string()]));
    };
    suites.iter().for_each(|(name, counts)| row(name, *counts));
    if suites.len() > 1 {
        row("all", all);
    }
    write!(screen, "{}", table.text())?;
    if !missing.is_empty() {
        let mut list: Vec<(&str, usize)> = missing.into_iter().collect();
        list.sort_by_key(|&(what, count)| (std::cmp::Reverse(count), what));
        let rest = list.len().saturating_sub(MOST_MISSING);
        let shown: Vec<String> =
            list.iter().take(MOST_MISSING).map(|(what, count)| format!("{what} ({count})")).collect();
        let rest = if rest > 0 { format!(", and {rest} more") } else { String::new() };
        writeln!(screen, "not supported, with cases: {}{rest}", shown.join(", "))?;
    }
    Ok(())
}

/// Longer lists are in the JSON file.
const MOST_MISSING: usize = 40;

/// A missing feature, without parts that differ from case to case: `operator ai.onnx.Add (version 14)` becomes
/// `ai.onnx.Add`, and the node's name is dropped.
fn kind(missing: &str) -> &str {
    let text =
        missing.split_once("': ").filter(|(start, _)| start.starts_with("node '")).map_or(missing, |(_, rest)| rest);
    let operator = text.strip_prefix("operator ").and_then(|rest| rest.split_once(" (version "));
    operator.map_or(text, |(operator, _)| operator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_grouped_by_kind() {
        let cases = [
            ("operator ai.onnx.Add (version 14)", "ai.onnx.Add"),
            ("node 'conv_1': Conv: 5-D", "Conv: 5-D"),
            ("Loop", "Loop"),
        ];
        for (missing, expected) in cases {
            assert_eq!(kind(missing), expected);
        }
    }
}
