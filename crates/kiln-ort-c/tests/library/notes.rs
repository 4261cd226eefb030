//! Notes of a program about a library.

use std::fmt::Display;

/// The notes, a line each.
#[derive(Default)]
pub(crate) struct Notes(Vec<String>);

impl Notes {
    pub(crate) fn note(&mut self, what: &str, outcome: impl Display) {
        let line = format!("{what}: {outcome}").replace('\n', " ");
        // Printed, because a library may end the process.
        eprintln!("{line}");
        self.0.push(line);
    }

    pub(crate) fn lines(self) -> Vec<String> {
        self.0
    }
}
