//! `--log-json`: what a server writes about its requests.

use serde_json::Value;

use crate::onnx_file;
use crate::running::Running;

const SIGTERM: i32 = 15;
const GOOD: &str = r#"{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]}"#;
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[test]
fn each_request_is_a_line_with_its_times_and_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    std::fs::create_dir(&models).unwrap();
    std::fs::write(models.join("dense.onnx"), onnx_file::dense()).unwrap();
    let mut server = Running::ready(&models, &["--threads", "1", "--log-json"]);
    let log = server.log();
    let caller = format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n");
    assert_eq!(server.ask("POST", "/v2/models/dense/infer", &caller, GOOD.as_bytes()).status, 200);
    server.infer("dense", "{}").refused(400);
    server.ask("POST", "/v2/models/dense/infer", "Kiln-Timeout-Us: 0\r\n", GOOD.as_bytes()).refused(504);
    server.get("/v2/models/dense").json();
    server.signal(SIGTERM);
    assert_eq!(server.wait(), Some(0));

    let text = std::io::read_to_string(log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["ready", "request", "request", "request", "draining", "ended"], "{text}");
    assert_eq!(lines[0]["models"], serde_json::json!(["dense version 1"]));
    for line in &lines {
        let time = line["time"].as_str().unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z') && time.contains('T'), "{line}");
    }
    let [answered, wrong, late] = [1, 2, 3].map(|at| &lines[at]);
    assert_eq!((&answered["model"], &answered["version"]), (&"dense".into(), &1.into()));
    assert_eq!((&answered["outcome"], &answered["trace"]), (&"ok".into(), &TRACE.into()));
    let seconds = |name: &str| answered[name].as_f64().unwrap();
    assert!(seconds("run_seconds") > 0.0 && seconds("queue_seconds") > 0.0, "{answered}");
    assert!(seconds("queue_seconds") + seconds("run_seconds") <= seconds("seconds"), "{answered}");
    assert!(answered.get("error").is_none() && answered.get("together").is_none(), "{answered}");
    assert_eq!((&wrong["outcome"], wrong.get("trace"), wrong.get("run_seconds")), (&"refused".into(), None, None));
    assert!(wrong["error"].as_str().unwrap().contains("inputs"), "{wrong}");
    assert_eq!(late["outcome"], "timed_out");
}
