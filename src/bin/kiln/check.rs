//! `kiln check`: ONNX test cases, the conformance runner. One session a case across all its data sets.

mod case;
mod folder;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use kiln::session::SessionOptions;

use crate::check::case::Verdict;
use crate::check::folder::Case;
use crate::failure::{Blame, Code, Failure, Outcome};
use crate::progress::Progress;
use crate::setup::{Habit, SessionArgs};
use crate::table::Table;

/// What was typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folders that hold cases at any depth: a case is a folder with a model.onnx
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Run only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Print only what did not pass, and the totals
    #[arg(long)]
    quiet: bool,
    /// Write {case: "passed" | "wrong: ..." | "refused: ..." | "crashed: ..."} to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let options = args.session.options(Habit::Memory)?;
    let mut cases = folder::find(&args.folders)?;
    if let Some(filter) = &args.filter {
        cases.retain(|case| case.name.contains(filter));
    }
    if cases.is_empty() {
        return Err(Failure::usage("no case there: a case is a folder with a model.onnx"));
    }
    let results = check_all(&cases, &options, args.quiet, screen)?;
    print_totals(&cases, &results, screen)?;
    if let Some(path) = &args.json {
        let texts: BTreeMap<&str, String> =
            cases.iter().zip(&results).map(|(case, verdict)| (case.name.as_str(), verdict.to_string())).collect();
        let json = serde_json::to_string_pretty(&texts).failed(|| "cannot write JSON")?;
        std::fs::write(path, json).usage(|| format!("--json: cannot write {}", path.display()))?;
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

fn check_all(cases: &[Case], options: &SessionOptions, quiet: bool, screen: &mut dyn Write) -> Outcome<Vec<Verdict>> {
    let progress = Progress::new("cases", cases.len());
    let crashes = case::Crashes::watch();
    let mut results = Vec::with_capacity(cases.len());
    for case in cases {
        let verdict = crashes.guard(|| case::check(case, options));
        if !quiet || !matches!(verdict, Verdict::Passed) {
            progress.suspended(|| writeln!(screen, "{}: {verdict}", case.name))?;
        }
        results.push(verdict);
        progress.step();
    }
    Ok(results)
}

/// A line a suite, then what was missing, most wanted first.
fn print_totals(cases: &[Case], results: &[Verdict], screen: &mut dyn Write) -> Outcome {
    let mut suites: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let mut all = [0; 4];
    let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
    for (case, verdict) in cases.iter().zip(results) {
        suites.entry(&case.suite).or_default()[verdict.column()] += 1;
        all[verdict.column()] += 1;
        if let Verdict::Refused { missing: operators, .. } = verdict {
            operators.iter().for_each(|operator| *missing.entry(operator).or_default() += 1);
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
        list.sort_by_key(|&(operator, count)| (std::cmp::Reverse(count), operator));
        let list: Vec<String> = list.into_iter().map(|(operator, count)| format!("{operator} ({count})")).collect();
        writeln!(screen, "not supported, with cases: {}", list.join(", "))?;
    }
    Ok(())
}
