//! Why a choice was made, and which of two records for one key is better.
//!
//! Records meet when a process saves over what another has saved. Neither "first" nor "last" is a reason; evidence is:
//! what was measured beats what a model guessed, more samples beat fewer, and only then does the newer one win.

use std::time::{SystemTime, UNIX_EPOCH};

/// How a choice was come by, in rising order of weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// A cost model's pick; nothing was run.
    Model,
    /// The fastest of what was run.
    Measured,
}

impl How {
    /// The number of this word in a file.
    pub(super) const fn code(self) -> u32 {
        match self {
            How::Model => 0,
            How::Measured => 1,
        }
    }

    /// The word of that number.
    pub(super) const fn from_code(code: u32) -> Option<How> {
        match code {
            0 => Some(How::Model),
            1 => Some(How::Measured),
            _ => None,
        }
    }

    /// The word for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            How::Model => "model",
            How::Measured => "measured",
        }
    }
}

/// What speaks for a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// How the choice was come by.
    pub how: How,
    /// The measured (or estimated) time of one execution in nanoseconds; 0 if unknown.
    pub nanos: u64,
    /// How many executions were timed.
    pub samples: u32,
    /// When, in seconds since 1970; 0 if the clock does not know.
    pub created: u64,
    /// The measured time of the best choice that this one was preferred to, in nanoseconds; 0 if there was none.
    pub against: u64,
}

impl Evidence {
    /// A cost model's word, now.
    #[must_use]
    pub fn model() -> Evidence {
        Evidence { how: How::Model, nanos: 0, samples: 0, created: now(), against: 0 }
    }

    /// A measurement of `samples` executions that took `nanos` each, now.
    #[must_use]
    pub fn measured(nanos: u64, samples: u32) -> Evidence {
        Evidence { how: How::Measured, nanos, samples, created: now(), against: 0 }
    }

    /// The same with the time of the best choice that lost.
    #[must_use]
    pub fn against(self, nanos: u64) -> Evidence {
        Evidence { against: nanos, ..self }
    }

    /// Whether this evidence is better than the other. Never true both ways; false both ways for equals.
    #[must_use]
    pub fn beats(&self, other: &Evidence) -> bool {
        self.rank() > other.rank()
    }

    /// What [`Evidence::beats`] compares.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        (self.how, self.samples, self.created)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_beat_models_then_samples_then_dates() {
        let evidence = |how, samples, created| Evidence { how, nanos: 0, samples, created, against: 0 };
        let rising = [
            evidence(How::Model, 0, 5),
            evidence(How::Model, 0, 9),
            evidence(How::Measured, 1, 1),
            evidence(How::Measured, 3, 0),
            evidence(How::Measured, 3, 2),
        ];
        for (low, lower) in rising.iter().enumerate() {
            for (high, higher) in rising.iter().enumerate() {
                assert_eq!(higher.beats(lower), high > low);
            }
        }
    }
}
