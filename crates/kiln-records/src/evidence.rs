//! Why a choice was made, and which of two records for one key is better.
//!
//! Records meet when a process saves over what another has saved. Neither "first" nor "last" is a reason; evidence is:
//! a measurement beats a model's guess, more samples beat fewer, and only then does the newer record win.

use std::time::{SystemTime, UNIX_EPOCH};

/// How a choice was made, in rising order of weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EvidenceKind {
    /// A cost model's pick; nothing was run.
    Model,
    /// The fastest of the choices that were run.
    Measured,
}

impl EvidenceKind {
    /// The number of this word in a file.
    pub(super) const fn code(self) -> u32 {
        match self {
            EvidenceKind::Model => 0,
            EvidenceKind::Measured => 1,
        }
    }

    /// The kind with that number.
    pub(super) const fn from_code(code: u32) -> Option<EvidenceKind> {
        match code {
            0 => Some(EvidenceKind::Model),
            1 => Some(EvidenceKind::Measured),
            _ => None,
        }
    }

    /// The word for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EvidenceKind::Model => "model",
            EvidenceKind::Measured => "measured",
        }
    }
}

/// The evidence for a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// How the choice was made.
    pub kind: EvidenceKind,
    /// The measured (or estimated) time of one execution in nanoseconds; 0 if unknown.
    pub nanos: u64,
    /// How many executions were timed.
    pub samples: u32,
    /// When, in seconds since 1970; 0 if the clock does not know.
    pub created: u64,
    /// The measured time of the best choice that this one beat, in nanoseconds; 0 if there was none.
    pub against: u64,
}

impl Evidence {
    /// A cost model's pick, made now.
    #[must_use]
    pub fn model() -> Evidence {
        Evidence { kind: EvidenceKind::Model, nanos: 0, samples: 0, created: now(), against: 0 }
    }

    /// A measurement, made now, of `samples` executions that took `nanos` each.
    #[must_use]
    pub fn measured(nanos: u64, samples: u32) -> Evidence {
        Evidence { kind: EvidenceKind::Measured, nanos, samples, created: now(), against: 0 }
    }

    /// The same evidence with the time of the best choice that lost.
    #[must_use]
    pub fn against(self, nanos: u64) -> Evidence {
        Evidence { against: nanos, ..self }
    }

    /// Whether this evidence is better than the other. Never true both ways; false both ways for equal evidence.
    #[must_use]
    pub fn beats(&self, other: &Evidence) -> bool {
        self.rank() > other.rank()
    }

    /// What [`Evidence::beats`] compares.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        (self.kind, self.samples, self.created)
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
        let evidence = |kind, samples, created| Evidence { kind, nanos: 0, samples, created, against: 0 };
        let rising = [
            evidence(EvidenceKind::Model, 0, 5),
            evidence(EvidenceKind::Model, 0, 9),
            evidence(EvidenceKind::Measured, 1, 1),
            evidence(EvidenceKind::Measured, 3, 0),
            evidence(EvidenceKind::Measured, 3, 2),
        ];
        for (low, lower) in rising.iter().enumerate() {
            for (high, higher) in rising.iter().enumerate() {
                assert_eq!(higher.beats(lower), high > low);
            }
        }
    }
}
