//! Timing: latencies of passes and of steady shapes. The time of a request is that of one call of the session and of
//! the release of its outputs, as in the programs that Kiln is compared with; making inputs and checking results is not
//! timed.

use std::path::Path;
use std::time::{Duration, Instant};

use kiln::session::{Session, SessionOptions, Tune};
use kiln_model::Value;
use serde::Serialize;
use serde_json::Value as Json;

use crate::failure::Outcome;
use crate::progress::Progress;
use crate::statistics::{Percentiles, median};
use crate::workload::{self, Feed, Request};

/// Milliseconds since `start`.
pub(super) fn since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

/// Look-ups of executors and kernels, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Lookups {
    /// Found in the cache.
    pub(super) hits: u64,
    /// Built without a record.
    pub(super) misses: u64,
    /// Built from a record.
    pub(super) record_hits: u64,
    /// Another thread was building it.
    pub(super) waits: u64,
}

impl Lookups {
    /// The most expensive outcome, as verbose lines name it; `none` without look-ups.
    pub(super) fn costliest(&self) -> &'static str {
        use kiln_cache::Outcome;
        let met = [
            (Outcome::Miss, self.misses),
            (Outcome::RecordHit, self.record_hits),
            (Outcome::Waited, self.waits),
            (Outcome::Hit, self.hits),
        ];
        met.into_iter().find(|(_, count)| *count > 0).map_or("none", |(outcome, _)| outcome.name())
    }

    fn since(session: &Session, before: &kiln_cache::Stats) -> Lookups {
        let now = session.cache_stats();
        let record_hits = now.record_hits - before.record_hits;
        let misses = now.misses - before.misses - record_hits;
        Lookups { hits: now.hits - before.hits, misses, record_hits, waits: now.waits - before.waits }
    }
}

/// A request of shapes that a session has not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct First {
    /// Milliseconds.
    pub(super) ms: f64,
    /// The outcomes of its look-ups.
    pub(super) lookups: Lookups,
}

impl First {
    fn measure(session: &Session, feeds: &[(&str, Value)]) -> Outcome<First> {
        let before = session.cache_stats();
        let ms = timed(session, feeds)?;
        Ok(First { ms, lookups: Lookups::since(session, &before) })
    }
}

/// The first request of each shape in a session that starts from this session's records, as another process would.
pub(super) fn from_records(
    session: &Session,
    model: &Path,
    options: &SessionOptions,
    inputs: &[Vec<Feed>],
) -> Outcome<Vec<First>> {
    let records = Some(session.build_cx().records.clone());
    let options = SessionOptions { records, cache: None, tune: Tune::Off, ..options.clone() };
    let session = Session::load(model, &options)?;
    inputs.iter().map(|input| First::measure(&session, &workload::borrowed(input))).collect()
}

/// Two passes over the same requests: in the first a shape may be new, in the second it never is.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// Milliseconds by request.
    pub(super) first: Vec<f64>,
    /// The same requests again.
    pub(super) second: Vec<f64>,
    /// Whether a request's shapes were not seen before.
    pub(super) new: Vec<bool>,
    /// The outcomes of the first pass, by request.
    pub(super) lookups: Vec<Lookups>,
    /// Executors and kernels that were built for shapes that had been seen: should always be 0.
    pub(super) repeat_builds: u64,
}

impl Passes {
    /// Sends all requests for the first time.
    pub(super) fn first(session: &Session, requests: &[Request]) -> Outcome<Passes> {
        let mut passes = Passes::default();
        let mut seen: Vec<&Json> = Vec::new();
        for request in requests {
            let new = !seen.contains(&&request.shape);
            if new {
                seen.push(&request.shape);
            }
            passes.new.push(new);
        }
        passes.first = passes.send(session, requests, true)?;
        Ok(passes)
    }

    /// The first request of those shapes, if there was one.
    pub(super) fn first_of(&self, requests: &[Request], shape: &Json) -> Option<First> {
        let place = requests.iter().position(|request| request.shape == *shape)?;
        Some(First { ms: *self.first.get(place)?, lookups: *self.lookups.get(place)? })
    }

    /// Sends all requests again.
    pub(super) fn second(&mut self, session: &Session, requests: &[Request]) -> Outcome {
        self.second = self.send(session, requests, false)?;
        Ok(())
    }

    /// The latencies of all requests. Builds for shapes that are not new are counted.
    fn send(&mut self, session: &Session, requests: &[Request], may_be_new: bool) -> Outcome<Vec<f64>> {
        let progress = Progress::new("requests", requests.len());
        let mut latencies = Vec::with_capacity(requests.len());
        for (request, &new) in requests.iter().zip(&self.new) {
            let feeds = request.make()?;
            let before = session.cache_stats();
            latencies.push(timed(session, &workload::borrowed(&feeds))?);
            if !(may_be_new && new) {
                self.repeat_builds += session.cache_stats().builds - before.builds;
            }
            if may_be_new {
                self.lookups.push(Lookups::since(session, &before));
            }
            progress.step();
        }
        Ok(latencies)
    }
}

fn timed(session: &Session, feeds: &[(&str, Value)]) -> Outcome<f64> {
    let start = Instant::now();
    let outputs = session.run_values(feeds);
    let outputs = outputs.map(drop);
    let latency = since(start);
    outputs?;
    Ok(latency)
}

/// How long steady shapes are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Bounds {
    /// Exactly that many rounds.
    Rounds(usize),
    /// That many seconds for each shape, at least [`FEWEST_ROUNDS`] rounds.
    Time(f64),
    /// A second and a half for each shape, 5 to 200 rounds: the bounds of the comparison with other programs.
    #[default]
    Default,
}

/// A median over fewer rounds is not reliable.
const FEWEST_ROUNDS: usize = 5;

impl Bounds {
    fn time(self) -> f64 {
        match self {
            Bounds::Rounds(_) => 0.0,
            Bounds::Time(seconds) => seconds,
            Bounds::Default => 1.5,
        }
    }

    fn goes_on(self, rounds: usize, end: Instant) -> bool {
        match self {
            Bounds::Rounds(wanted) => rounds < wanted,
            Bounds::Time(_) => rounds < FEWEST_ROUNDS || Instant::now() < end,
            Bounds::Default => rounds < FEWEST_ROUNDS || (Instant::now() < end && rounds < 200),
        }
    }
}

/// The steady latencies of one shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Steady {
    /// Median of the second of two runs.
    pub(super) median_ms: f64,
    /// The fastest.
    pub(super) min_ms: f64,
    /// Rounds.
    pub(super) n: usize,
    /// Median of the first of two runs: a known shape, but not the one before it.
    pub(super) switch_ms: f64,
    /// The distribution of the second runs.
    pub(super) percentiles: Percentiles,
}

/// The result of [`steady`].
#[derive(Debug, Default)]
pub(super) struct SteadyRun {
    /// By shape.
    pub(super) shapes: Vec<Steady>,
    /// The first request of each shape in this run; a pass may have sent the shape before.
    pub(super) firsts: Vec<First>,
    /// Executors and kernels that were built although no shape was new.
    pub(super) repeat_builds: u64,
}

/// Runs the shapes in turn, each twice in a row.
pub(super) fn steady(session: &Session, inputs: &[Vec<Feed>], bounds: Bounds) -> Outcome<SteadyRun> {
    if inputs.is_empty() {
        return Ok(SteadyRun::default());
    }
    let feeds: Vec<Vec<(&str, Value)>> = inputs.iter().map(|input| workload::borrowed(input)).collect();
    let mut firsts = Vec::with_capacity(feeds.len());
    for feed in &feeds {
        firsts.push(First::measure(session, feed)?);
        for _ in 0..2 {
            timed(session, feed)?;
        }
    }
    let builds = session.cache_stats().builds;
    let mut times: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); feeds.len()];
    let end = Instant::now() + Duration::from_secs_f64(bounds.time() * feeds.len() as f64);
    let mut rounds = 0;
    while bounds.goes_on(rounds, end) {
        for (feed, (again, switch)) in feeds.iter().zip(&mut times) {
            switch.push(timed(session, feed)?);
            again.push(timed(session, feed)?);
        }
        rounds += 1;
    }
    let repeat_builds = session.cache_stats().builds - builds;
    let shapes = times.iter().map(|(again, switch)| Steady::of(again, switch)).collect();
    Ok(SteadyRun { shapes, firsts, repeat_builds })
}

impl Steady {
    fn of(again: &[f64], switch: &[f64]) -> Steady {
        Steady {
            median_ms: median(again.iter().copied()).unwrap_or(0.0),
            min_ms: again.iter().copied().fold(f64::INFINITY, f64::min),
            n: again.len(),
            switch_ms: median(switch.iter().copied()).unwrap_or(0.0),
            percentiles: Percentiles::of(again),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_end_where_they_say() {
        let past = Instant::now();
        let future = past + Duration::from_secs(3600);
        let cases = [
            (Bounds::Rounds(3), 2, past, true),
            (Bounds::Rounds(3), 3, future, false),
            (Bounds::Default, 4, past, true),
            (Bounds::Default, 5, past, false),
            (Bounds::Default, 199, future, true),
            (Bounds::Default, 200, future, false),
            (Bounds::Time(1.0), 4, past, true),
            (Bounds::Time(1.0), 5, past, false),
            (Bounds::Time(1.0), 1000, future, true),
        ];
        for (bounds, rounds, end, on) in cases {
            assert_eq!(bounds.goes_on(rounds, end), on, "{bounds:?} after {rounds}");
        }
    }

    #[test]
    fn steady_latency_is_of_second_runs_and_switching_of_first_ones() {
        let steady = Steady::of(&[2.0, 1.0, 9.0], &[5.0, 4.0, 6.0]);
        assert_eq!((steady.median_ms, steady.min_ms, steady.n, steady.switch_ms), (2.0, 1.0, 3, 5.0));
    }
}
