//! Answers besides inference: the server's description, its models, their counters.

use serde_json::{Value, json};

use crate::histogram::Span;
use crate::model::Port;
use crate::ports;
use crate::registry::{Entry, Loaded, Registry};
use crate::service::Service;
use crate::tally::{Outcome, Tally};
use crate::texts;

/// Both health pages: clients look for either name on both.
pub(crate) fn health(service: &Service) -> Value {
    json!({ "live": true, "ready": service.is_ready() })
}

/// `/v2/openapi.json`: the description of the pages by OpenAPI, written by hand.
pub(crate) const DESCRIPTION: &str = include_str!("openapi.json");

/// The name of the server.
pub(crate) const NAME: &str = "kiln";

/// Its version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The platform that it reports for every model.
pub(crate) const PLATFORM: &str = "onnx_onnxv1";

/// Triton's name for the backend of such files, which its clients look for in a configuration.
pub(crate) const CONFIG_PLATFORM: &str = "onnxruntime_onnx";

/// The extensions of the protocol that are built in: listing one is a promise.
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
    let described = |ports: &[Port]| -> Value {
        let port = |port: &Port| json!({ "name": port.name, "datatype": type_name(port), "shape": shape(port) });
        ports.iter().map(port).collect()
    };
    let versions: Vec<String> = registry.versions(&loaded.name).iter().map(u64::to_string).collect();
    json!({
        "name": loaded.name,
        "versions": versions,
        "platform": PLATFORM,
        "inputs": described(ports::inputs(loaded)),
        "outputs": described(ports::outputs(loaded)),
    })
}

/// The part of Triton's configuration that any model has: clients ask it for the batch size.
pub(crate) fn config(loaded: &Loaded) -> Value {
    let port = |port: &Port| {
        let name = match type_name(port) {
            "BYTES" => "STRING",
            name => name,
        };
        json!({ "name": port.name, "data_type": format!("TYPE_{name}"), "dims": shape(port) })
    };
    let input = |given: &Port| {
        let mut input = port(given);
        input["optional"] = json!(given.is_optional);
        input
    };
    json!({
        "name": loaded.name,
        "platform": CONFIG_PLATFORM,
        "backend": NAME,
        "max_batch_size": 0,
        "input": ports::inputs(loaded).iter().map(input).collect::<Value>(),
        "output": ports::outputs(loaded).iter().map(port).collect::<Value>(),
        // A language model answers in pieces.
        "model_transaction_policy": { "decoupled": loaded.model.language().is_some() },
    })
}

/// `/v1/models`, or one model: the language models, as OpenAI's interface lists models.
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

/// `/`: a page that shows `overview`. It contains no text of models: its script inserts names as text.
pub(crate) const HOME: &str = include_str!("home.html");

/// The permissions of the page in browsers: only requests to this server.
pub(crate) const HOME_POLICY: &str = "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// `/v2/overview`: models with their states, requests, times and look-ups, from the counters of `/metrics`.
pub(crate) fn overview(service: &Service) -> Value {
    let ready = service.registry.ready();
    let model = |entry: Entry| {
        let loaded = ready.iter().find(|loaded| (&loaded.name, loaded.version) == (&entry.name, entry.version));
        let mut model = json!({
            "name": entry.name,
            "version": entry.version.to_string(),
            "state": entry.state,
            "reason": entry.reason,
        });
        if let Some(loaded) = loaded {
            model["counts"] = counts(loaded);
        }
        model
    };
    let memory: serde_json::Map<String, Value> =
        service.loader.memory().into_iter().map(|(account, bytes)| (account.to_owned(), json!(bytes))).collect();
    json!({
        "name": NAME,
        "version": VERSION,
        "ready": service.is_ready(),
        "waiting": service.queue.waiting(),
        "running": service.queue.running(),
        "memory_bytes": memory,
        "models": service.registry.index().into_iter().map(model).collect::<Vec<_>>(),
    })
}

/// The counters of a model in the overview. Times are in seconds, over answered requests; null before the first.
fn counts(loaded: &Loaded) -> Value {
    let Loaded { model, tally, .. } = loaded;
    let requests: serde_json::Map<String, Value> =
        Outcome::ALL.iter().map(|&outcome| (outcome.name().to_owned(), json!(tally.count(outcome)))).collect();
    let mean = |span: &Span| (span.count() > 0).then(|| span.nanos() as f64 / 1e9 / span.count() as f64);
    let answered = tally.latency(Outcome::Ok);
    let found = model.lookups();
    json!({
        "requests": requests,
        "mean_seconds": mean(&tally.success),
        "median_seconds": answered.quantile(0.5),
        "p99_seconds": answered.quantile(0.99),
        "queue_mean_seconds": mean(&tally.queue.span),
        "lookups": { "hit": found.hit, "record": found.record, "miss": found.miss },
    })
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
                "queue": span(&tally.queue.span),
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
