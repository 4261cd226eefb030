//! What the command writes for observers: traces of requests, and the page of a benchmark.

use serde_json::Value;

use crate::command::{arg, kiln};
use crate::onnx_file;

#[test]
fn a_trace_shows_requests_nodes_and_what_the_cache_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (model, trace) = (folder.path().join("dense.onnx"), folder.path().join("trace.json"));
    std::fs::write(&model, onnx_file::dense()).unwrap();
    let shapes = ["--shape", "x[1,2]", "--cache-mode", "memory", "--trace-out"];
    kiln(["run", &arg(&model)].into_iter().chain(shapes).chain([arg(&trace).as_str()])).ok();
    let value: Value = serde_json::from_str(&std::fs::read_to_string(&trace).unwrap()).unwrap();
    let events = value["traceEvents"].as_array().unwrap();
    let of = |category: &str| events.iter().filter(|event| event["cat"] == category).collect::<Vec<_>>();
    let [request] = of("request")[..] else { panic!("{events:?}") };
    assert!(request["args"]["inputs"][0].as_str().is_some_and(|text| text.contains("[1, 2]")), "{request}");
    assert!(!of("node").is_empty());
    assert!(of("build").iter().any(|event| event["args"]["outcome"] == "cache_miss"), "{events:?}");
    let end = |event: &Value| event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap();
    for event in events {
        assert!(event["tid"] == request["tid"] && event["ph"] == "X");
        // Times are read one after the other, so an inner span may seem a moment longer than its outer one.
        assert!(end(event) <= end(request) + 1.0 && event["ts"].as_f64() >= request["ts"].as_f64(), "{event}");
    }
}

#[test]
fn a_page_is_made_of_measurements_with_and_without_peers() {
    let folder = tempfile::tempdir().unwrap();
    let (model, json, page) =
        (folder.path().join("dense.onnx"), folder.path().join("bench.json"), folder.path().join("page.html"));
    std::fs::write(&model, onnx_file::dense()).unwrap();
    let shapes = ["--shape", "[1,2][2,2][1,2]", "--iters", "5", "--json", &arg(&json)];
    kiln(["bench", &arg(&model)].into_iter().chain(shapes)).ok();
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let outcomes: Vec<&str> = report["outcomes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(outcomes.len(), report["lat1"].as_array().unwrap().len());
    assert_eq!(outcomes[0], "cache_miss");
    kiln(["report", &arg(&json), "-o", &arg(&page), "--peer", &arg(&json)]).ok();
    let html = std::fs::read_to_string(&page).unwrap();
    assert_eq!(html.matches("<circle").count(), 4 * outcomes.len());
    assert!(!html.contains("http"), "the page needs nothing from elsewhere");
    std::fs::write(&json, "{}").unwrap();
    kiln(["report", &arg(&json), "-o", &arg(&page)]).fails(2, &["bench.json", "lat1"]);
}
