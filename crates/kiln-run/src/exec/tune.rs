//! The tuner: measures a few alternatives to a cost model's guess, and keeps the fastest.
//!
//! The first use of a key never waits for it: a builder takes the cost model's pick (or a record's choice), the node
//! runs, and the key is [noted](Tuner::note). A worker thread takes noted keys one by one, while no request is running:
//!
//! - [`job`] measures one key: candidates of its family, built as any executor is, run on made-up operands
//!   ([`operands`]) under the rules of a [`contest`].
//! - `search` is the same for a problem of a device's libraries, which the device times.
//! - The winner is recorded with the time of the best other. Where it is not the choice in use, the executor in the
//!   cache is replaced, the key's [`standing`] is marked, which holders of the old executor keep, and the
//!   [generation](Tuner::generation) is counted up, which says that some standing has changed.
//! - [`worker`] is the thread and the queue.
//! - [`gauge`] measures, under any policy, the most that the machine does in a second, where records lack it.
//!
//! A key whose record was measured is not measured again, in any process. docs/tuning.md is the user's side of this.

mod contest;
mod gauge;
mod job;
mod operands;
mod report;
mod requests;
mod search;
mod standing;
mod worker;

use std::time::Duration;

pub use gauge::Gauge;
pub use kiln_knobs::Tune;
pub use operands::{Demand, Operands};
pub use report::{TuneChange, TuneReport};
pub use requests::Request;
pub use standing::Standing;
pub use worker::Tuner;

use contest::Rules;

/// What a policy allows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Effort {
    /// Candidates of a key at most.
    candidates: usize,
    rules: Rules,
    /// Time of all runs together.
    total: Duration,
}

impl Effort {
    /// The effort of a policy; none where nothing is tuned.
    fn of(tune: Tune) -> Option<Effort> {
        match tune {
            Tune::Off => None,
            // Most of a network's keys take tens of microseconds to milliseconds: two milliseconds show a difference of
            // some percent, and fifty runs in all cost little beside as many requests.
            Tune::Fast => Some(Effort {
                candidates: 4,
                rules: Rules {
                    warm_ups: 1,
                    least: 3,
                    enough: 200_000,
                    candidate: 2_000_000,
                    key: (8_000_000, 50),
                    final_samples: 2,
                },
                total: Duration::from_secs(20),
            }),
            Tune::Full => Some(Effort {
                candidates: 24,
                rules: Rules {
                    warm_ups: 2,
                    least: 5,
                    enough: 2_000_000,
                    candidate: 20_000_000,
                    key: (400_000_000, 500),
                    final_samples: 5,
                },
                total: Duration::from_secs(300),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
