//! Which passes run, for which weights, and the report of their changes.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use kiln_kernels::cpu::Elements;

/// Which passes run: all but those turned off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassOptions {
    off: BTreeSet<String>,
    elements: Elements,
    code_bits: Option<u8>,
}

impl PassOptions {
    /// No pass.
    #[must_use]
    pub fn none() -> PassOptions {
        PassOptions { off: super::names().into_iter().map(str::to_owned).collect(), ..PassOptions::default() }
    }

    /// The same without that pass. An unknown name changes nothing; [`names`](super::names) has all.
    #[must_use]
    pub fn without(mut self, name: &str) -> PassOptions {
        self.off.insert(name.to_owned());
        self
    }

    /// The same with that pass.
    #[must_use]
    pub fn with(mut self, name: &str) -> PassOptions {
        self.off.remove(name);
        self
    }

    /// The same for a graph with packed weights of `elements`; `f32` by default.
    #[must_use]
    pub fn with_elements(mut self, elements: Elements) -> PassOptions {
        self.elements = elements;
        self
    }

    /// The same for a graph whose weights of products are rounded to integers of `bits` bits, 4 or 8; `None` by
    /// default.
    #[must_use]
    pub fn with_code_bits(mut self, bits: Option<u8>) -> PassOptions {
        self.code_bits = bits;
        self
    }

    /// Bits of the integers to which weights of products are rounded.
    #[must_use]
    pub(super) fn code_bits(&self) -> Option<u8> {
        self.code_bits
    }

    /// The element type of packed weights.
    #[must_use]
    pub(super) fn elements(&self) -> Elements {
        self.elements
    }

    /// Whether that pass runs.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        !self.off.contains(name)
    }
}

/// What one pass changed, in all its rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassCount {
    /// The pass.
    pub name: &'static str,
    /// Number of rewrites.
    pub changes: usize,
    /// Its time.
    pub time: Duration,
}

/// What all passes changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassReport {
    /// Nodes of the outermost graph as loaded.
    pub nodes_before: usize,
    /// Nodes of the outermost graph as it runs.
    pub nodes_after: usize,
    /// The passes, in the order in which they first ran.
    pub passes: Vec<PassCount>,
}

impl PassReport {
    pub(super) fn add(&mut self, name: &'static str, changes: usize, time: Duration) {
        match self.passes.iter_mut().find(|count| count.name == name) {
            Some(count) => {
                count.changes += changes;
                count.time += time;
            }
            None => self.passes.push(PassCount { name, changes, time }),
        }
    }

    /// The number of rewrites of a pass.
    #[must_use]
    pub fn changes(&self, name: &str) -> usize {
        self.passes.iter().find(|count| count.name == name).map_or(0, |count| count.changes)
    }
}

impl fmt::Display for PassReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} nodes became {}", self.nodes_before, self.nodes_after)?;
        for count in self.passes.iter().filter(|count| count.changes > 0) {
            write!(f, ", {} {}", count.name, count.changes)?;
        }
        Ok(())
    }
}
