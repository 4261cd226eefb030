//! `/metrics`: the counters, in Prometheus' text form. Triton's names stand beside the server's own, so that dashboards
//! made for Triton can read them.

use std::fmt::{Arguments, Write};

use crate::histogram::{BOUNDS, Histogram, Span};
use crate::registry::Loaded;
use crate::service::Service;
use crate::tally::{Outcome, Tally};

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn seconds(span: &Span) -> f64 {
    span.nanos() as f64 / 1e9
}

/// Lines of metrics.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, line: Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{line}");
    }

    /// The description of a metric; its lines follow.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        let cumulated = histogram.cumulated();
        for (bound, count) in BOUNDS.iter().zip(cumulated) {
            self.line(format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {count}"));
        }
        let all = cumulated[BOUNDS.len()];
        self.line(format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {all}"));
        self.line(format_args!("{name}_sum{{{labels}}} {}", seconds(&histogram.span)));
        self.line(format_args!("{name}_count{{{labels}}} {all}"));
    }
}

/// A model that is loaded, and its labels.
struct Labelled {
    loaded: Loaded,
    labels: String,
}

/// All metrics.
pub(crate) fn text(service: &Service) -> String {
    let label = |loaded: Loaded| {
        let labels = format!("model=\"{}\",version=\"{}\"", escaped(&loaded.name), loaded.version);
        Labelled { loaded, labels }
    };
    let models: Vec<Labelled> = service.registry.ready().into_iter().map(label).collect();
    let mut lines = Lines::default();
    requests(&mut lines, &models);
    texts(&mut lines, &models);
    shared(&mut lines, service, &models);
    triton(&mut lines, &models);
    lines.0
}

fn requests(lines: &mut Lines, models: &[Labelled]) {
    lines.family("kiln_requests_total", "counter", "Inference requests, by how they ended.");
    for Labelled { loaded, labels } in models {
        for outcome in Outcome::ALL {
            let count = loaded.tally.count(outcome);
            lines.line(format_args!("kiln_requests_total{{{labels},outcome=\"{}\"}} {count}", outcome.name()));
        }
    }
    let help = "Time of requests, from their headers to their answer, by how they ended.";
    lines.family("kiln_request_seconds", "histogram", help);
    for Labelled { loaded, labels } in models {
        for outcome in Outcome::ALL {
            let labels = format!("{labels},outcome=\"{}\"", outcome.name());
            lines.histogram("kiln_request_seconds", &labels, loaded.tally.latency(outcome));
        }
    }
    lines.family("kiln_queue_seconds", "histogram", "Time of requests in the queue.");
    for Labelled { loaded, labels } in models {
        lines.histogram("kiln_queue_seconds", labels, &loaded.tally.queue);
    }
    let help = "Requests that were computed together with others.";
    lines.family("kiln_joined_requests_total", "counter", help);
    for Labelled { loaded, labels } in models {
        lines.line(format_args!("kiln_joined_requests_total{{{labels}}} {}", loaded.tally.joined()));
    }
}

/// The counters of language models.
fn texts(lines: &mut Lines, models: &[Labelled]) {
    let language = || {
        models.iter().filter_map(|Labelled { loaded, labels }| Some((labels, &loaded.tally, loaded.model.language()?)))
    };
    let help = "Time of texts, from their headers to their first piece.";
    lines.family("kiln_first_piece_seconds", "summary", help);
    for (labels, tally, _) in language() {
        let span = &tally.first;
        lines.line(format_args!("kiln_first_piece_seconds_sum{{{labels}}} {}", seconds(span)));
        lines.line(format_args!("kiln_first_piece_seconds_count{{{labels}}} {}", span.count()));
    }
    lines.family("kiln_tokens_total", "counter", "Tokens of texts that have ended: of prompts, and said.");
    for (labels, tally, _) in language() {
        let (prompt, said) = (tally.prompt_tokens(), tally.said_tokens());
        lines.line(format_args!("kiln_tokens_total{{{labels},kind=\"prompt\"}} {prompt}"));
        lines.line(format_args!("kiln_tokens_total{{{labels},kind=\"said\"}} {said}"));
    }
    lines.family("kiln_texts", "gauge", "Texts that are continued, and texts that wait for room.");
    for (labels, _, language) in language() {
        let in_hand = language.in_hand();
        lines.line(format_args!("kiln_texts{{{labels},state=\"running\"}} {}", in_hand.running));
        lines.line(format_args!("kiln_texts{{{labels},state=\"waiting\"}} {}", in_hand.waiting));
    }
}

/// The resources that all models share, and the models' use of them.
fn shared(lines: &mut Lines, service: &Service, models: &[Labelled]) {
    lines.family("kiln_queue_length", "gauge", "Requests that wait for a thread.");
    lines.line(format_args!("kiln_queue_length {}", service.queue.waiting()));
    lines.family("kiln_requests_running", "gauge", "Requests that run.");
    lines.line(format_args!("kiln_requests_running {}", service.queue.running()));
    let help = "Look-ups of executors since the model was loaded, by their answer.";
    lines.family("kiln_lookups_total", "counter", help);
    for Labelled { loaded, labels } in models {
        let found = loaded.model.lookups();
        for (result, count) in [("hit", found.hit), ("record", found.record), ("miss", found.miss)] {
            lines.line(format_args!("kiln_lookups_total{{{labels},result=\"{result}\"}} {count}"));
        }
    }
    lines.family("kiln_memory_bytes", "gauge", "Bytes in use, by what they are for.");
    for (account, bytes) in service.loader.memory() {
        lines.line(format_args!("kiln_memory_bytes{{account=\"{account}\"}} {bytes}"));
    }
}

/// The same counts by Triton's names. Times are sums in microseconds.
fn triton(lines: &mut Lines, models: &[Labelled]) {
    type Read = fn(&Tally) -> u64;
    let families: [(&str, &str, Read); 9] = [
        ("request_success", "Requests with an answer of outputs", |tally| tally.success.count()),
        ("request_failure", "All other requests", |tally| tally.fail.count()),
        ("count", "Inferences", |tally| tally.success.count()),
        ("exec_count", "Runs of the model, of one request or of several together", |tally| tally.infer.count()),
        ("request_duration_us", "Time of answered requests", |tally| tally.success.nanos() / 1000),
        ("queue_duration_us", "Time of requests in the queue", |tally| tally.queue.span.nanos() / 1000),
        ("compute_input_duration_us", "Time in which inputs were read", |tally| tally.input.nanos() / 1000),
        ("compute_infer_duration_us", "Time in which the model ran", |tally| tally.infer.nanos() / 1000),
        ("compute_output_duration_us", "Time in which answers were written", |tally| tally.output.nanos() / 1000),
    ];
    for (name, help, read) in families {
        let name = format!("nv_inference_{name}");
        lines.family(&name, "counter", &format!("{help}, by Triton's name."));
        for Labelled { loaded, labels } in models {
            lines.line(format_args!("{name}{{{labels}}} {}", read(&loaded.tally)));
        }
    }
}
