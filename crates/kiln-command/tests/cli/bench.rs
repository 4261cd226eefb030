//! `kiln bench` end to end: the contract of its JSON, the records of a second process, the outputs.

use std::path::Path;

use serde_json::Value;

use crate::command::{arg, kiln};
use crate::onnx_file;

const TRACE: &str = r#"{"dense": {
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 2], "fill": "unit"}],
    "steady": [{"N": 3}, {"N": 1}],
    "requests": [{"N": 1}, {"N": 2}, {"N": 2}, {"N": 1}, {"N": 5}, {"N": 2}]}}"#;

fn write_model(folder: &Path) -> [String; 2] {
    let (model, trace) = (folder.join("dense.onnx"), folder.join("trace.json"));
    std::fs::write(&model, onnx_file::dense()).unwrap();
    std::fs::write(&trace, TRACE).unwrap();
    [arg(&model), arg(&trace)]
}

fn bench(arguments: &[&str], json: &Path) -> Value {
    kiln(["bench"].iter().chain(arguments).copied().chain(["--iters", "5", "--json", &arg(json)])).ok();
    serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap()
}

#[test]
fn the_report_has_every_field_of_the_comparison_programs() {
    let folder = tempfile::tempdir().unwrap();
    let [model, trace] = write_model(folder.path());
    let report = bench(&[&model, "--trace", &trace, "--threads", "2"], &folder.path().join("out.json"));
    let positive = [
        "load_ms",
        "first_ms",
        "pass1_ms",
        "pass2_ms",
        "new_ms",
        "new_again_ms",
        "new_ratio",
        "repeat_ms",
        "repeat_ratio",
        "peak_mb",
    ];
    for field in positive {
        assert!(report[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {}", report[field]);
    }
    assert!(report["new_extra_ms"].is_f64() && report["python_ms"].is_f64() && report["import_ms"].is_f64());
    assert_eq!(report["precision"], "f32");
    let halved = bench(&[&model, "--trace", &trace, "--precision", "bf16"], &folder.path().join("bf16.json"));
    assert_eq!(halved["precision"], "bf16");
    assert_eq!((&report["distinct"], &report["requests"]), (&Value::from(3), &Value::from(6)));
    assert_eq!(report["new"], serde_json::json!([true, true, false, false, true, false]));
    assert_eq!(report["lat1"].as_array().map(Vec::len), Some(6));
    assert_eq!(report["lat2"].as_array().map(Vec::len), Some(6));
    for field in ["base", "loaded", "traced"] {
        assert!(report["rss_mb"][field].is_f64(), "{field}");
    }
    let steady = report["steady"].as_array().unwrap();
    assert_eq!(steady[0]["shape"], serde_json::json!({"N": 3}));
    assert_eq!(steady[1]["shape"], serde_json::json!({"N": 1}));
    for shape in steady {
        assert_eq!(shape["n"], 5);
        for field in ["median_ms", "min_ms", "switch_ms", "cold_ms", "records_ms"] {
            assert!(shape[field].as_f64().is_some_and(|value| value > 0.0), "{field}");
        }
        let cold = &shape["cold_lookups"];
        assert!(cold["misses"].as_u64().unwrap() > 0 && cold["record_hits"] == 0, "{cold}");
        assert_eq!(shape["records_lookups"]["misses"], 0, "{}", shape["records_lookups"]);
    }
    assert!(report["plans"]["hits"].as_u64().unwrap() > report["plans"]["lookups"].as_u64().unwrap() / 2);
    let sum: f64 = report["lat1"].as_array().unwrap().iter().filter_map(Value::as_f64).sum();
    assert!((sum - report["pass1_ms"].as_f64().unwrap()).abs() < 6.0 * 1e-4);
}

#[test]
fn a_shape_seen_before_builds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let [model, trace] = write_model(folder.path());
    let report = bench(&[&model, "--trace", &trace], &folder.path().join("out.json"));
    assert_eq!(report["repeat_builds"], 0, "{}", report["cache"]);
    assert!(report["cache"]["builds"].as_u64().unwrap() > 0, "{}", report["cache"]);
    assert!(report["cache"]["hits"].as_u64().unwrap() > 0, "{}", report["cache"]);
}

#[test]
fn the_second_process_starts_from_the_records_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let [model, trace] = write_model(folder.path());
    let records = arg(&folder.path().join("records"));
    let arguments = [model.as_str(), "--trace", &trace, "--cache-dir", &records];
    let first = bench(&arguments, &folder.path().join("1.json"));
    assert_eq!(first["cache"]["record_hits"], 0);
    let second = bench(&arguments, &folder.path().join("2.json"));
    assert!(second["cache"]["record_hits"].as_u64().unwrap() > 0, "{second}");
    let listed = kiln(["cache", "stats", &records]).ok();
    assert!(!listed.is_empty());
}

#[test]
fn outputs_of_steady_shapes_are_saved_under_their_place_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let [model, trace] = write_model(folder.path());
    let npz = folder.path().join("out.npz");
    bench(&[&model, "--trace", &trace, "--save-outputs", &arg(&npz)], &folder.path().join("out.json"));
    let mut archive = zip::ZipArchive::new(std::fs::File::open(&npz).unwrap()).unwrap();
    for (name, rows) in [("0:y.npy", 3), ("1:y.npy", 1)] {
        let array = npyz::NpyFile::new(archive.by_name(name).unwrap()).unwrap();
        assert_eq!(array.shape(), &[rows, 3]);
    }
}

#[test]
fn shapes_of_the_command_line_replace_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let [model, _] = write_model(folder.path());
    let report = bench(&[&model, "--shape", "[1,2][4,2][1,2]", "--profile"], &folder.path().join("out.json"));
    assert_eq!((&report["distinct"], &report["requests"]), (&Value::from(2), &Value::from(3)));
    assert_eq!(report["steady"][1]["shape"], serde_json::json!({"x": [4, 2]}));
    let printed = kiln(["bench", &model, "--shape", "x[8,2]", "--profile", "--iters", "1"]).ok();
    assert!(printed.contains("operator") && printed.contains('%'), "{printed}");
}

#[test]
fn data_sets_of_a_case_are_requests_in_the_order_of_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let [model, _] = write_model(folder.path());
    let case = folder.path().join("case");
    for (set, rows) in [(0, 2), (1, 1), (2, 2), (10, 3)] {
        let set = case.join(format!("test_data_set_{set}"));
        std::fs::create_dir_all(&set).unwrap();
        let values = vec![0.5; rows * 2];
        std::fs::write(set.join("input_0.pb"), onnx_file::tensor("x", &[rows as u64, 2], &values)).unwrap();
    }
    let npz = folder.path().join("out.npz");
    let arguments = [model.as_str(), "--data", &arg(&case), "--save-outputs", &arg(&npz)];
    let report = bench(&arguments, &folder.path().join("out.json"));
    assert_eq!((&report["distinct"], &report["requests"]), (&Value::from(3), &Value::from(4)));
    assert_eq!(report["new"], serde_json::json!([true, true, false, true]));
    let steady: Vec<&Value> = report["steady"].as_array().unwrap().iter().map(|steady| &steady["shape"]["x"]).collect();
    assert_eq!(steady, [&serde_json::json!([2, 2]), &serde_json::json!([1, 2]), &serde_json::json!([3, 2])]);
    // Every row of every request is the same, and so are those of the outputs.
    let mut archive = zip::ZipArchive::new(std::fs::File::open(&npz).unwrap()).unwrap();
    let mut rows = |name| npyz::NpyFile::new(archive.by_name(name).unwrap()).unwrap().into_vec::<f32>().unwrap();
    let one = rows("1:y.npy");
    assert_eq!(rows("0:y.npy"), [&one[..], &one].concat());
}
