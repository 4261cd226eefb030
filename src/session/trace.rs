//! Traces of requests: the work of each thread over time, in the JSON of Chrome's and Perfetto's viewers.
//!
//! A request is a span. Inside it each node has a span, and another for its preparation if shapes had changed, with the
//! outcome of its look-up. A preparation that built an executor has its own category, which viewers show in another
//! colour. Spans are made from the events of an [`Observer`](kiln_run::Observer); memory is bounded, and spans
//! beyond the bound are counted.

use std::cell::Cell;
use std::io::{self, Write};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kiln_cache::Outcome;
use kiln_fork::{Mutex, MutexGuard};
use kiln_run::StepEvent;
use serde_json::json;

use super::verbose::brief;

/// The most spans of a trace: some 100 MB of memory.
const MOST: usize = 1 << 20;

/// A span of time on one thread.
#[derive(Debug)]
struct Span {
    name: String,
    category: &'static str,
    start: Duration,
    length: Duration,
    thread: u64,
    details: serde_json::Value,
}

/// Spans of any number of sessions and threads.
#[derive(Debug)]
pub struct Trace {
    origin: Instant,
    requests: AtomicU64,
    spans: Mutex<Vec<Span>>,
    left_out: AtomicU64,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace {
            origin: Instant::now(),
            requests: AtomicU64::new(0),
            spans: Mutex::default(),
            left_out: AtomicU64::new(0),
        }
    }
}

/// A request that is running. Dropping it ends its span.
pub(super) struct Request<'a> {
    trace: &'a Trace,
    number: u64,
    start: Duration,
    shapes: Vec<String>,
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let details = json!({ "inputs": self.shapes });
        let length = self.trace.now().saturating_sub(self.start);
        self.trace.add(format!("request {}", self.number), "request", self.start, length, details);
    }
}

impl Trace {
    /// Begins a request on inputs of those shapes.
    pub(super) fn request<'s>(&self, shapes: impl Iterator<Item = (&'s str, &'s [usize])>) -> Request<'_> {
        let shapes = shapes.map(|(name, shape)| format!("{name} {shape:?}")).collect();
        Request { trace: self, number: self.requests.fetch_add(1, Ordering::Relaxed), start: self.now(), shapes }
    }

    /// Adds a step that has just ended.
    pub(super) fn step(&self, event: &StepEvent<'_>) {
        let end = self.now();
        let executed = end.saturating_sub(event.execute);
        if event.prepared {
            let category = match event.outcome {
                Some(Outcome::Miss | Outcome::RecordHit) => "build",
                _ => "prepare",
            };
            let outcome = event.outcome.map(Outcome::name);
            let start = executed.saturating_sub(event.prepare);
            let details = json!({ "outcome": outcome, "family": event.step.family() });
            self.add(format!("{category} {}", event.step.name), category, start, event.prepare, details);
        }
        let inputs: Vec<_> = event.inputs.iter().flatten().map(brief).collect();
        let outputs: Vec<_> = event.outputs.iter().map(brief).collect();
        let details = json!({ "op": event.step.op, "inputs": inputs, "outputs": outputs });
        self.add(event.step.name.clone(), "node", executed, event.execute, details);
    }

    /// Writes all spans as Chrome's trace-event JSON.
    ///
    /// # Errors
    ///
    /// Errors of the writer.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let process = std::process::id();
        let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
        let left_out = self.left_out.load(Ordering::Relaxed);
        write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"left_out\":{left_out}}},\"traceEvents\":[")?;
        for (index, span) in self.spans().iter().enumerate() {
            let event = json!({
                "name": span.name, "cat": span.category, "ph": "X", "ts": micros(span.start),
                "dur": micros(span.length), "pid": process, "tid": span.thread, "args": span.details,
            });
            write!(out, "{}{event}", if index == 0 { "\n" } else { ",\n" })?;
        }
        writeln!(out, "\n]}}")
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn spans(&self) -> MutexGuard<'_, Vec<Span>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, name: String, category: &'static str, start: Duration, length: Duration, details: serde_json::Value) {
        let span = Span { name, category, start, length, thread: thread_number(), details };
        let mut spans = self.spans();
        if spans.len() < MOST {
            spans.push(span);
        } else {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A small number of the calling thread, by which viewers sort; the system's needs unsafe code.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_a_thread_nest_and_any_name_is_valid_json() {
        let trace = Trace::default();
        let request = trace.request([("x \"quoted\"", &[1_usize, 2][..])].into_iter());
        trace.add("a\nname".to_owned(), "node", trace.now(), Duration::from_nanos(1500), json!({}));
        drop(request);
        std::thread::scope(|scope| drop(scope.spawn(|| drop(trace.request(std::iter::empty())))));
        let mut text = Vec::new();
        trace.write(&mut text).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let events = value["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 3);
        let (node, request, other) = (&events[0], &events[1], &events[2]);
        assert_eq!((node["name"].as_str(), node["dur"].as_f64()), (Some("a\nname"), Some(1.5)));
        assert_eq!(request["args"]["inputs"][0], "x \"quoted\" [1, 2]");
        assert_eq!(node["tid"], request["tid"]);
        assert_ne!(node["tid"], other["tid"]);
        assert!(request["ts"].as_f64() <= node["ts"].as_f64());
    }
}
