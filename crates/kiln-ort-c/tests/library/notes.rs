//! What a program notes of a library.

use std::fmt::Display;

/// What the program notes, a line each.
#[derive(Default)]
pub(crate) struct Notes(Vec<String>);

impl Notes {
    pub(crate) fn note(&mut self, what: &str, outcome: impl Display) {
        let line = format!("{what}: {outcome}").replace('\n', " ");
        // Seen where a library ends the process.
        eprintln!("{line}");
        self.0.push(line);
    }

    pub(crate) fn lines(self) -> Vec<String> {
        self.0
    }
}
