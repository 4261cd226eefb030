//! Ends the run if a case hangs: it is named, and the whole run fails.
//!
//! A thread cannot be stopped from outside, so the process ends.

use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crate::failure::Code;

/// Starts watching. Each name that is sent begins a case; dropping the sender ends the watch.
///
/// # Errors
///
/// The system has no thread left.
pub(super) fn start(limit: Duration) -> io::Result<Sender<String>> {
    let (begins, cases) = mpsc::channel::<String>();
    thread::Builder::new().spawn(move || {
        let Ok(mut case) = cases.recv() else { return };
        loop {
            match cases.recv_timeout(limit) {
                Ok(next) => case = next,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    // A closed standard error does not matter here.
                    let _ = writeln!(io::stderr(), "{case}: hangs: more than {} s", limit.as_secs());
                    std::process::exit(Code::Failed as i32);
                }
            }
        }
    })?;
    Ok(begins)
}
