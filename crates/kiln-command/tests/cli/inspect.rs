//! `kiln inspect`, `kiln cache`, and the lists.

use crate::command::{arg, kiln};
use crate::onnx_file;

#[test]
fn inspect_shows_the_graph_after_fusion() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("dense.onnx");
    std::fs::write(&model, onnx_file::dense()).unwrap();
    let printed = kiln(["inspect", &arg(&model)]).ok();
    assert!(printed.contains("x float32 [N,2]"), "{printed}");
    assert!(printed.contains("FusedMatMul"), "{printed}");

    let path = arg(&model);
    let unfused = ["matmul", "activation", "chain"].into_iter().flat_map(|name| ["--without-pass", name]);
    let printed = kiln(["inspect", &path].into_iter().chain(unfused)).ok();
    assert!(!printed.contains("FusedMatMul"), "{printed}");

    let json = kiln(["inspect", &arg(&model), "--shape", "x[4,2]", "--json"]).ok();
    let view: serde_json::Value = serde_json::from_str(&json).unwrap();
    let nodes = view["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 1, "{json}");
    assert!(nodes[0]["fused"].as_str().unwrap().contains("activation"), "{json}");
    assert_eq!(nodes[0]["run"]["output_shapes"], serde_json::json!(["[4,3]"]));
    assert!(!nodes[0]["run"]["keys"].as_array().unwrap().is_empty(), "{json}");
}

#[test]
fn inspect_says_what_short_requests_have_computed_together() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("dense.onnx");
    std::fs::write(&model, onnx_file::dense()).unwrap();
    let path = arg(&model);
    let printed = kiln(["inspect", &path, "--numerics", "invariant"]).ok();
    let told = "computed together for requests of 1-64 rows: nodes 1, stages 1";
    assert!(printed.contains(told), "{printed}");
    let printed = kiln(["inspect", &path, "--precision", "bf16", "--numerics", "default"]).ok();
    assert!(printed.contains("computed together for short requests: nothing"), "{printed}");
}

#[test]
fn a_folder_without_records_is_said_to_have_none() {
    let folder = tempfile::tempdir().unwrap();
    assert!(kiln(["cache", "stats", &arg(folder.path())]).ok().contains("no records"));
    kiln(["cache", "list", &arg(&folder.path().join("missing"))]).fails(2, &["missing"]);
}

#[test]
fn devices_are_told_of_on_any_machine() {
    assert!(!kiln(["devices"]).ok().is_empty());
    let json: serde_json::Value = serde_json::from_str(&kiln(["devices", "--json"]).ok()).unwrap();
    assert_eq!(json["built_in"], cfg!(feature = "cuda"));
    assert!(json["devices"].as_array().is_some_and(|devices| devices.is_empty() == json["no_devices"].is_string()));
}

#[test]
fn knobs_and_operators_are_listed() {
    assert!(kiln(["knobs"]).ok().contains("KILN_MAX_ISA"));
    assert!(kiln(["ops"]).ok().lines().any(|line| line == "ai.onnx.MatMul"));
}
