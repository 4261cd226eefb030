//! A guard against cases that do not end: one that takes too long is named, and ends the whole run as a failure.
//!
//! A case that hangs cannot be stopped from outside of its thread, so the process goes with it.

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crate::failure::Code;

/// Starts watching. Each name that is sent begins a case; dropping the sender ends the watch.
pub(super) fn start(limit: Duration) -> Sender<String> {
    let (begins, cases) = mpsc::channel::<String>();
    thread::spawn(move || {
        let Ok(mut case) = cases.recv() else { return };
        loop {
            match cases.recv_timeout(limit) {
                Ok(next) => case = next,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    // Nobody is left to tell where this cannot be written.
                    let _ = writeln!(std::io::stderr(), "{case}: hangs: more than {} s", limit.as_secs());
                    std::process::exit(Code::Failed as i32);
                }
            }
        }
    });
    begins
}
