//! `kiln demo`: the main job, without any other file. A small network gets requests of changing shapes: cold, the same
//! again, and once more in a fresh process that has only the records of the first.

mod network;
mod timings;

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::demo::timings::{RequestTiming, Timings};
use crate::failure::{Code, Failure, Outcome, WithCode};
use crate::invocation;
use crate::setup::SessionArgs;
use crate::shape;
use crate::statistics::median;
use crate::table::{Table, milliseconds};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Threads that a request may use; 0 for all that this process has
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    threads: u16,
    /// Send the trace once with the records of that folder, and print the results as JSON
    #[arg(long, hide = true, value_name = "DIR")]
    fresh_process: Option<PathBuf>,
}

/// Sizes in an order that a service might get: new ones, repeats next to each other, repeats further apart.
const TRACE: [[usize; 4]; 10] = [
    [1, 3, 64, 64],
    [1, 3, 96, 96],
    [1, 3, 64, 64],
    [2, 3, 64, 64],
    [1, 3, 80, 112],
    [1, 3, 80, 112],
    [1, 3, 96, 96],
    [1, 3, 128, 128],
    [2, 3, 64, 64],
    [1, 3, 64, 64],
];

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    if let Some(folder) = &args.fresh_process {
        let (_, timings) = Timings::first(&session_args(args, folder), &TRACE)?;
        let json = serde_json::to_string(&timings).failed(|| "cannot write JSON")?;
        writeln!(screen, "{json}")?;
        return Ok(());
    }
    let folder = tempfile::tempdir().failed(|| "cannot make a temporary folder")?;
    let (session, cold) = Timings::first(&session_args(args, folder.path()), &TRACE)?;
    let again = Timings::again(&session, &TRACE)?;
    session.save_records().failed(|| "cannot save records")?;
    drop(session);
    let fresh = in_fresh_process(args, folder.path())?;

    writeln!(screen, "A small convolutional network, {} requests of changing shapes.", TRACE.len())?;
    writeln!(
        screen,
        "Loading took {} ms; in the fresh process {} ms, in which {} executors were rebuilt from records.\n",
        milliseconds(cold.load_ms),
        milliseconds(fresh.load_ms),
        fresh.warmed
    )?;
    write!(screen, "{}", table(&cold, &again, &fresh).text())?;
    writeln!(screen, "\n{}\n{}", first_words(&cold, &again), last_words(&cold, &fresh))?;
    if let Some(place) = (0..TRACE.len()).find(|&i| differ(&cold.requests[i], &again.requests[i], &fresh.requests[i])) {
        let line = format!("request {} gave different results in different passes", place + 1);
        return Err(Failure::new(Code::Failed, anyhow::anyhow!(line)));
    }
    Ok(())
}

fn session_args(args: &Args, folder: &Path) -> SessionArgs {
    SessionArgs::with_records(args.threads, folder)
}

/// Runs this program again; the new process shares only the folder.
fn in_fresh_process(args: &Args, folder: &Path) -> Outcome<Timings> {
    let output = invocation::again()
        .args(["demo", "--threads", &args.threads.to_string(), "--fresh-process"])
        .arg(folder)
        .output()
        .failed(|| "cannot start a fresh process")?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::new(Code::Failed, anyhow::anyhow!("the fresh process failed: {reason}")));
    }
    serde_json::from_slice(&output.stdout).failed(|| "the fresh process gave no report")
}

fn table(cold: &Timings, again: &Timings, fresh: &Timings) -> Table {
    let mut table =
        Table::new(&["shape", ">cold ms", "look-ups", ">again ms", "look-ups", ">fresh process ms", "look-ups"]);
    for (index, shape) in TRACE.iter().enumerate() {
        let cells = [cold, again, fresh].into_iter().flat_map(|timings| {
            let request = &timings.requests[index];
            [milliseconds(request.ms), request.outcomes.to_string()]
        });
        table.row([shape::text(shape)].into_iter().chain(cells));
    }
    table
}

/// The same requests within one process.
fn first_words(cold: &Timings, again: &Timings) -> String {
    let new: Vec<usize> = (0..TRACE.len()).filter(|&index| !TRACE[..index].contains(&TRACE[index])).collect();
    let of = |timings: &Timings| median(new.iter().map(|&index| timings.requests[index].ms)).unwrap_or(0.0);
    let built: u64 = again.requests.iter().map(|request| request.outcomes.built + request.outcomes.from_records).sum();
    let nothing = match built {
        0 => "nothing was built a second time".to_owned(),
        _ => format!("{built} executors had to be built a second time"),
    };
    format!(
        "The {} different shapes cost {} ms each (median) when they were new and {} ms when they came back: {nothing}.",
        new.len(),
        milliseconds(of(cold)),
        milliseconds(of(again))
    )
}

/// The same requests in another process.
fn last_words(cold: &Timings, fresh: &Timings) -> String {
    let chosen: u64 = fresh.requests.iter().map(|request| request.outcomes.built).sum();
    let nothing = match chosen {
        0 => "decided nothing anew".to_owned(),
        _ => format!("had to decide anew {chosen} times"),
    };
    let first = |timings: &Timings| milliseconds(timings.requests[0].ms);
    format!(
        "The fresh process knew all choices from its records and {nothing}: its first request took {} ms, the cold one {} ms.",
        first(fresh),
        first(cold)
    )
}

/// Whether results differ by more than rounding.
fn differ(a: &RequestTiming, b: &RequestTiming, c: &RequestTiming) -> bool {
    let far = |other: &RequestTiming| {
        a.output.len() != other.output.len() || a.output.iter().zip(&other.output).any(|(x, y)| (x - y).abs() > 1e-5)
    };
    far(b) || far(c)
}
