//! Progress bars: on a terminal only, silence in a pipe. The only file that names indicatif.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over a known number of steps. Dropping it erases it.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar named `what`; hidden unless errors and results both go to a terminal, because a bar beside piped output is
    /// noise in a log.
    pub(crate) fn new(what: &'static str, steps: usize) -> Progress {
        if !std::io::stderr().is_terminal() || !std::io::stdout().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(steps as u64).with_message(what);
        if let Ok(style) = ProgressStyle::with_template("{msg:12} {wide_bar} {pos}/{len} {elapsed}") {
            bar.set_style(style);
        }
        Progress(bar)
    }

    /// A spinner for a step of unknown length.
    pub(crate) fn spinner(what: impl Into<String>) -> Progress {
        if !std::io::stderr().is_terminal() || !std::io::stdout().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner().with_message(what.into());
        bar.enable_steady_tick(Duration::from_millis(100));
        Progress(bar)
    }

    /// One step done.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Hides the bar while `print` writes to the same terminal.
    pub(crate) fn suspended<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
