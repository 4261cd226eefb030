//! Answers that are no inference: what the server is, its models, their counters.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::model::Port;
use crate::registry::{Loaded, Registry};
use crate::service::Service;
use crate::tally::{Outcome, Span, Tally};
use crate::texts;

/// Both health pages: clients look for either name on both.
pub(crate) fn health(service: &Service) -> Value {
    json!({ "live": true, "ready": service.is_ready() })
}

/// `/v2/openapi.json`: the pages as OpenAPI describes them, written by hand.
pub(crate) const DESCRIPTION: &str = include_str!("openapi.json");

/// The name of the server.
pub(crate) const NAME: &str = "kiln";

/// Its version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What it says of every model that it serves.
pub(crate) const PLATFORM: &str = "onnx_onnxv1";

/// Triton's name of what runs files of that kind, which its clients look for in a configuration.
pub(crate) const CONFIG_PLATFORM: &str = "onnxruntime_onnx";

/// What is built beside the protocol itself: one that is listed is a promise.
pub(crate) const EXTENSIONS: [&str; 6] =
    ["binary_tensor_data", "parameters", "statistics", "model_repository", "model_configuration", "generate"];

/// `/v2`.
pub(crate) fn server() -> Value {
    json!({ "name": NAME, "version": VERSION, "extensions": EXTENSIONS })
}

pub(crate) fn type_name(port: &Port) -> &str {
    port.datatype.map_or(port.declared.as_str(), |datatype| datatype.name())
}

fn shape(port: &Port) -> Value {
    let dim = |dim: &Option<usize>| dim.map_or(json!(-1), |dim| json!(dim));
    port.shape.as_ref().map_or_else(|| json!([-1]), |dims| dims.iter().map(dim).collect())
}

/// A model's metadata.
pub(crate) fn metadata(registry: &Registry, loaded: &Loaded) -> Value {
    let ports = |ports: &[Port]| -> Value {
        let port = |port: &Port| json!({ "name": port.name, "datatype": type_name(port), "shape": shape(port) });
        ports.iter().map(port).collect()
    };
    let versions: Vec<String> = registry.versions(&loaded.name).iter().map(u64::to_string).collect();
    json!({
        "name": loaded.name,
        "versions": versions,
        "platform": PLATFORM,
        "inputs": ports(loaded.model.inputs()),
        "outputs": ports(loaded.model.outputs()),
    })
}

/// The part of Triton's configuration that is known of any model: clients ask it for the batch size.
pub(crate) fn config(loaded: &Loaded) -> Value {
    let ports = |ports: &[Port]| -> Value {
        let port = |port: &Port| {
            let name = match type_name(port) {
                "BYTES" => "STRING",
                name => name,
            };
            json!({ "name": port.name, "data_type": format!("TYPE_{name}"), "dims": shape(port) })
        };
        ports.iter().map(port).collect()
    };
    json!({
        "name": loaded.name,
        "platform": CONFIG_PLATFORM,
        "backend": NAME,
        "max_batch_size": 0,
        "input": ports(loaded.model.inputs()),
        "output": ports(loaded.model.outputs()),
        // A language model answers in pieces.
        "model_transaction_policy": { "decoupled": loaded.model.language().is_some() },
    })
}

/// `/v1/models`, or one of them: the language models, as OpenAI's interface lists models.
pub(crate) fn listed(registry: &Registry, one: Option<&Loaded>) -> Value {
    let entry =
        |loaded: &Loaded| json!({ "id": loaded.name, "object": "model", "created": texts::now(), "owned_by": NAME });
    if let Some(loaded) = one {
        return entry(loaded);
    }
    let ready = registry.ready();
    let models: Vec<Value> = ready.iter().filter(|loaded| loaded.model.language().is_some()).map(entry).collect();
    json!({ "object": "list", "data": models })
}

/// The statistics of models.
pub(crate) fn statistics(models: &[Loaded]) -> Value {
    let span = |span: &Span| json!({ "count": span.count(), "ns": span.nanos() });
    let one = |loaded: &Loaded| {
        let tally: &Tally = &loaded.tally;
        json!({
            "name": loaded.name,
            "version": loaded.version.to_string(),
            "last_inference": tally.last(),
            "inference_count": tally.success.count(),
            "execution_count": tally.infer.count(),
            "inference_stats": {
                "success": span(&tally.success),
                "fail": span(&tally.fail),
                "queue": span(&tally.queue),
                "compute_input": span(&tally.input),
                "compute_infer": span(&tally.infer),
                "compute_output": span(&tally.output),
            },
            "batch_stats": [],
        })
    };
    json!({ "model_stats": models.iter().map(one).collect::<Vec<_>>() })
}

/// The index of the repository.
pub(crate) fn index(registry: &Registry, only_ready: bool) -> Value {
    let entries = registry.index().into_iter().filter(|entry| !only_ready || entry.state == "READY");
    entries
        .map(|entry| {
            let version = entry.version.to_string();
            json!({ "name": entry.name, "version": version, "state": entry.state, "reason": entry.reason })
        })
        .collect()
}

/// A label's value in Prometheus' text form.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// `/metrics`.
pub(crate) fn metrics(service: &Service) -> String {
    let models = service.registry.ready();
    let labels: Vec<String> = models
        .iter()
        .map(|loaded| format!("model=\"{}\",version=\"{}\"", escaped(&loaded.name), loaded.version))
        .collect();
    let models: Vec<(&Loaded, &String)> = models.iter().zip(&labels).collect();
    let mut text = String::new();
    let mut line = |line: std::fmt::Arguments<'_>| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line}");
    };
    let seconds = |span: &Span| span.nanos() as f64 / 1e9;
    line(format_args!("# HELP kiln_requests_total Inference requests, by how they ended."));
    line(format_args!("# TYPE kiln_requests_total counter"));
    for (loaded, labels) in &models {
        for outcome in Outcome::ALL {
            let count = loaded.tally.count(outcome);
            line(format_args!("kiln_requests_total{{{labels},outcome=\"{}\"}} {count}", outcome.name()));
        }
    }
    line(format_args!("# HELP kiln_request_seconds Time of answered requests, from their headers to their answer."));
    line(format_args!("# TYPE kiln_request_seconds summary"));
    for (loaded, labels) in &models {
        let span = &loaded.tally.success;
        line(format_args!("kiln_request_seconds_sum{{{labels}}} {}", seconds(span)));
        line(format_args!("kiln_request_seconds_count{{{labels}}} {}", span.count()));
    }
    line(format_args!("# HELP kiln_queue_seconds Time of requests in the queue."));
    line(format_args!("# TYPE kiln_queue_seconds summary"));
    for (loaded, labels) in &models {
        let span = &loaded.tally.queue;
        line(format_args!("kiln_queue_seconds_sum{{{labels}}} {}", seconds(span)));
        line(format_args!("kiln_queue_seconds_count{{{labels}}} {}", span.count()));
    }
    let language = || models.iter().filter_map(|(loaded, labels)| Some((loaded, labels, loaded.model.language()?)));
    line(format_args!("# HELP kiln_first_piece_seconds Time of texts, from their headers to their first piece."));
    line(format_args!("# TYPE kiln_first_piece_seconds summary"));
    for (loaded, labels, _) in language() {
        let span = &loaded.tally.first;
        line(format_args!("kiln_first_piece_seconds_sum{{{labels}}} {}", seconds(span)));
        line(format_args!("kiln_first_piece_seconds_count{{{labels}}} {}", span.count()));
    }
    line(format_args!("# HELP kiln_tokens_total Tokens of texts that have ended: of prompts, and said."));
    line(format_args!("# TYPE kiln_tokens_total counter"));
    for (loaded, labels, _) in language() {
        line(format_args!("kiln_tokens_total{{{labels},kind=\"prompt\"}} {}", loaded.tally.prompt_tokens()));
        line(format_args!("kiln_tokens_total{{{labels},kind=\"said\"}} {}", loaded.tally.said_tokens()));
    }
    line(format_args!("# HELP kiln_texts Texts that are continued, and texts that wait for room."));
    line(format_args!("# TYPE kiln_texts gauge"));
    for (_, labels, language) in language() {
        let in_hand = language.in_hand();
        line(format_args!("kiln_texts{{{labels},state=\"running\"}} {}", in_hand.running));
        line(format_args!("kiln_texts{{{labels},state=\"waiting\"}} {}", in_hand.waiting));
    }
    line(format_args!("# HELP kiln_queue_length Requests that wait for a thread."));
    line(format_args!("# TYPE kiln_queue_length gauge"));
    line(format_args!("kiln_queue_length {}", service.queue.waiting()));
    line(format_args!("# HELP kiln_requests_running Requests that run."));
    line(format_args!("# TYPE kiln_requests_running gauge"));
    line(format_args!("kiln_requests_running {}", service.queue.running()));
    line(format_args!("# HELP kiln_lookups_total Look-ups of executors since the model was loaded, by their answer."));
    line(format_args!("# TYPE kiln_lookups_total counter"));
    for (loaded, labels) in &models {
        let found = loaded.model.lookups();
        for (result, count) in [("hit", found.hit), ("record", found.record), ("miss", found.miss)] {
            line(format_args!("kiln_lookups_total{{{labels},result=\"{result}\"}} {count}"));
        }
    }
    line(format_args!("# HELP kiln_memory_bytes Bytes in use, by what they are for."));
    line(format_args!("# TYPE kiln_memory_bytes gauge"));
    for (account, bytes) in service.loader.memory() {
        line(format_args!("kiln_memory_bytes{{account=\"{account}\"}} {bytes}"));
    }
    text
}
