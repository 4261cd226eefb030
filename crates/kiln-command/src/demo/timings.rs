//! The demo's requests through a session, with the time of each and the outcomes of its look-ups.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use kiln::session::Session;
use kiln_run::{Observer, StepEvent};
use kiln_tensor::{DType, TensorSpec};
use serde::{Deserialize, Serialize};

use crate::demo::network;
use crate::failure::{Outcome, WithCode};
use crate::setup::{DefaultCacheMode, SessionArgs};
use crate::values::{Fill, Recipe};

/// The cost of the requests. Passed from process to process as JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Timings {
    /// Milliseconds of making the session.
    pub(super) load_ms: f64,
    /// Executors that were rebuilt from records before the first request.
    pub(super) warmed: usize,
    /// By request.
    pub(super) requests: Vec<RequestTiming>,
}

/// One request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct RequestTiming {
    /// Milliseconds.
    pub(super) ms: f64,
    /// The outcomes of its nodes' look-ups.
    pub(super) outcomes: Outcomes,
    /// The result.
    pub(super) output: Vec<f32>,
}

/// Outcomes of look-ups, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outcomes {
    /// Misses: chosen and built.
    pub(super) built: u64,
    /// Built with choices from records.
    pub(super) from_records: u64,
    /// Found in the cache, or built by another thread meanwhile.
    pub(super) hits: u64,
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [(self.built, "built"), (self.from_records, "from records"), (self.hits, "hits")];
        let parts: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        // Where shapes have not changed since the last request, nodes keep their executors and look nothing up.
        f.write_str(if parts.is_empty() { "none needed".to_owned() } else { parts.join(", ") }.as_str())
    }
}

impl Timings {
    /// Makes the session and sends the requests for the first time.
    pub(super) fn first(args: &SessionArgs, trace: &[[usize; 4]]) -> Outcome<(Session, Timings)> {
        let options = args.options(DefaultCacheMode::Records)?;
        let graph = network::graph().failed(|| "the demo's network")?;
        let start = Instant::now();
        let session = Session::from_graph(graph, &options)?;
        let load_ms = start.elapsed().as_secs_f64() * 1e3;
        let requests = send(&session, trace)?;
        let warmed = session.warmed();
        Ok((session, Timings { load_ms, warmed, requests }))
    }

    /// Sends the requests once more through the same session.
    pub(super) fn again(session: &Session, trace: &[[usize; 4]]) -> Outcome<Timings> {
        Ok(Timings { requests: send(session, trace)?, ..Timings::default() })
    }
}

fn send(session: &Session, trace: &[[usize; 4]]) -> Outcome<Vec<RequestTiming>> {
    trace
        .iter()
        .map(|shape| {
            let spec = TensorSpec::new(DType::F32, *shape);
            let recipe = Recipe { name: network::INPUT.to_owned(), spec, fill: Fill::Random(1), place: 0 };
            let inputs = [(network::INPUT, recipe.make().failed(|| "cannot make inputs")?)];
            let counter = Counter::default();
            let start = Instant::now();
            let outputs = session.run_observed(&inputs, Some(&counter));
            let ms = start.elapsed().as_secs_f64() * 1e3;
            let outputs = outputs?;
            let output = outputs.first().map_or(Ok(&[][..]), |(_, tensor)| tensor.as_slice::<f32>());
            let output = output.failed(|| "the demo's output")?.to_vec();
            let outcomes = *counter.0.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(RequestTiming { ms, outcomes, output })
        })
        .collect()
}

/// Counts outcomes of one request.
#[derive(Default)]
struct Counter(Mutex<Outcomes>);

impl Observer for Counter {
    fn step(&self, event: &StepEvent<'_>) {
        let mut outcomes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event.outcome {
            Some(kiln_cache::Outcome::Miss) => outcomes.built += 1,
            Some(kiln_cache::Outcome::RecordHit) => outcomes.from_records += 1,
            Some(kiln_cache::Outcome::Hit | kiln_cache::Outcome::Waited) => outcomes.hits += 1,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_said_in_words() {
        let text = |built, from_records, hits| Outcomes { built, from_records, hits }.to_string();
        assert_eq!(text(0, 0, 0), "none needed");
        assert_eq!(text(3, 0, 2), "3 built, 2 hits");
        assert_eq!(text(0, 5, 0), "5 from records");
    }
}
