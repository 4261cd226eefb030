//! A case in a process of its own: this program again, with the same flags and the case's folder.
//!
//! The child writes the result as JSON to standard output. If it dies, the parent has the signal and the last line of
//! its standard error: the work at the time ([`kiln_kernels::crash`]). Other lines of standard error are passed on.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use crate::check::case::{self, Seen, Verdict, Way};
use crate::check::folder::Case;
use crate::failure::{Outcome, WithCode};
use crate::invocation;

/// The beginning of the last line of a process that a signal kills.
const LAST_LINE: &str = "kiln: crashed: ";

/// How long a process that hangs may take to write its last line.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// In the child: runs the case and writes the result.
pub(super) fn serve(folder: &Path, way: Way<'_>, screen: &mut dyn Write) -> Outcome {
    // The result is of no use once the parent has ended. If the signal cannot be set, the child only ends later.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let mut seen = Seen::default();
    let crashes = case::Crashes::watch();
    let verdict = crashes.guard(|| case::check(folder, way, &mut seen));
    let json = serde_json::to_string(&(verdict, seen)).failed(|| "cannot write JSON")?;
    writeln!(screen, "{json}")?;
    Ok(())
}

/// Starts processes for cases.
pub(super) struct Launcher {
    /// The arguments after `kiln check`.
    arguments: Vec<OsString>,
    limit: Duration,
}

impl Launcher {
    /// A launcher with the flags of this process.
    pub(super) fn new(limit: Duration) -> Launcher {
        Launcher { arguments: invocation::of_subcommand(), limit }
    }

    /// Runs one case.
    pub(super) fn check(&self, case: &Case) -> Outcome<(Verdict, Seen)> {
        let mut command = invocation::again();
        command.args(["check", "--alone"]).arg(&case.folder).args(&self.arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().failed(|| "cannot start a process for a case (--in-process needs none)")?;
        let words = listen(&mut child).inspect_err(|_| {
            // The child may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        });
        let words = words.failed(|| "cannot start a thread that reads what a case writes")?;
        let in_time = words.recv_timeout(self.limit).ok();
        let hangs = in_time.is_none();
        let words = in_time.unwrap_or_else(|| end(&mut child, &words));
        let status = child.wait().failed(|| "cannot wait for the process of a case")?;
        if hangs {
            let limit = self.limit.as_secs();
            // A closed standard error does not matter here.
            let _ = writeln!(io::stderr(), "{}: hangs: more than {limit} s", case.name);
            let place = words.last_line.split_once(", ").map_or(String::new(), |(_, place)| format!(", {place}"));
            return Ok((Verdict::Crashed(format!("hangs: more than {limit} s{place}")), Seen::default()));
        }
        Ok(conclude(status, &words))
    }
}

/// The output of a child.
#[derive(Debug, Default)]
struct Words {
    result: Vec<u8>,
    /// Without [`LAST_LINE`]; empty if there was none.
    last_line: String,
}

/// Reads what the child writes, to its end.
fn listen(child: &mut Child) -> io::Result<Receiver<Words>> {
    let (tell, words) = mpsc::channel();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let read_errors = move || stderr.map(|stderr| pass_on(BufReader::new(stderr))).unwrap_or_default();
    let errors = thread::Builder::new().spawn(read_errors)?;
    thread::Builder::new().spawn(move || {
        let mut result = Vec::new();
        // Output that cannot be read is missing, which is reported.
        let _ = stdout.map(|mut stdout| stdout.read_to_end(&mut result));
        let last_line = errors.join().unwrap_or_default();
        // The receiver is gone if the child had to be killed.
        let _ = tell.send(Words { result, last_line });
    })?;
    Ok(words)
}

/// Passes lines on to standard error; returns the last line of a crash.
fn pass_on(mut lines: impl BufRead) -> String {
    let (mut last_line, mut line) = (String::new(), Vec::new());
    while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        match line.strip_prefix(LAST_LINE.as_bytes()) {
            Some(report) => last_line = String::from_utf8_lossy(report).trim_end().to_owned(),
            // A closed standard error does not matter here.
            None => drop(io::stderr().write_all(&line)),
        }
        line.clear();
    }
    last_line
}

/// Ends a child that hangs: first by a signal after which it writes its last line.
fn end(child: &mut Child, words: &Receiver<Words>) -> Words {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // The child may have ended just now.
        let _ = kill_process(pid, Signal::ABORT);
    }
    let last = words.recv_timeout(LAST_WORDS).ok();
    let _ = child.kill();
    last.unwrap_or_default()
}

/// The result of a case whose process has ended.
fn conclude(status: ExitStatus, words: &Words) -> (Verdict, Seen) {
    let crashed = |what: String| (Verdict::Crashed(case::one_line(&what)), Seen::default());
    match (status.signal(), status.success().then(|| serde_json::from_slice(&words.result))) {
        (Some(_), _) if !words.last_line.is_empty() => crashed(words.last_line.clone()),
        (Some(signal), _) => crashed(name(signal)),
        (None, Some(Ok(result))) => result,
        (None, Some(Err(error))) => crashed(format!("its process ended without a result: {error}")),
        (None, None) => crashed(format!("its process ended with {status}")),
    }
}

/// A signal by its name.
fn name(signal: i32) -> String {
    const NAMES: [(Signal, &str); 9] = [
        (Signal::SEGV, "SIGSEGV"),
        (Signal::BUS, "SIGBUS"),
        (Signal::ILL, "SIGILL"),
        (Signal::FPE, "SIGFPE"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::SYS, "SIGSYS"),
        (Signal::KILL, "SIGKILL, as of a process that takes more memory than there is"),
        (Signal::TERM, "SIGTERM"),
    ];
    let known = NAMES.iter().find(|(known, _)| known.as_raw() == signal);
    known.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(result: &str, last_line: &str) -> Words {
        Words { result: result.into(), last_line: last_line.to_owned() }
    }

    /// The status of a process that ended with that code or signal.
    fn status(raw: i32) -> ExitStatus {
        ExitStatus::from_raw(raw)
    }

    #[test]
    fn what_a_child_says_arrives_as_it_was_said() {
        let verdicts = [
            Verdict::Passed,
            Verdict::PassedInForm,
            Verdict::Wrong("by \"much\"".to_owned()),
            Verdict::Refused { reason: "why".to_owned(), missing: vec!["Loop".to_owned()] },
            Verdict::Crashed("at x.rs:7".to_owned()),
        ];
        for verdict in verdicts {
            let seen = || Seen { lookups: 7, ..Seen::default() };
            let json = serde_json::to_string(&(&verdict, seen())).unwrap();
            assert_eq!(conclude(status(0), &words(&json, "")), (verdict, seen()));
        }
    }

    #[test]
    fn a_child_that_dies_is_a_crash_whatever_it_said_before() {
        let passed = serde_json::to_string(&(Verdict::Passed, Seen::default())).unwrap();
        let said = |raw, result: &str, last: &str| conclude(status(raw), &words(result, last)).0.to_string();
        let last = "SIGSEGV at 0x0, model m, node 'n' (Conv)";
        assert_eq!(said(11, "", last), format!("crashed: {last}"));
        assert_eq!(said(11, &passed, last), format!("crashed: {last}"));
        assert_eq!(said(11, "", ""), "crashed: SIGSEGV");
        assert!(said(9, "", "").starts_with("crashed: SIGKILL, "));
        assert_eq!(said(34, "", ""), "crashed: signal 34");
        assert_eq!(said(2 << 8, &passed, ""), "crashed: its process ended with exit status: 2");
        assert!(said(0, "", "").starts_with("crashed: its process ended without a result"));
    }

    #[test]
    fn the_last_line_is_found_among_others() {
        let text = b"a line\nkiln: crashed: SIGILL, node 'n' (Add)\n\xff\nno end";
        assert_eq!(pass_on(&text[..]), "SIGILL, node 'n' (Add)");
        assert_eq!(pass_on(&b""[..]), "");
    }
}
