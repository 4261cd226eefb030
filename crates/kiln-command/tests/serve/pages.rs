//! The page at `/`, the overview that it reads, and the metrics.

use crate::life::until;
use crate::onnx_file;
use crate::running::Running;

/// A folder with a model of an awkward name and one that is fine.
fn models() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    std::fs::create_dir(&models).unwrap();
    std::fs::write(models.join("dense.onnx"), onnx_file::dense()).unwrap();
    std::fs::write(models.join("<b>\"quoted\".onnx"), onnx_file::dense()).unwrap();
    folder
}

const GOOD: &str = r#"{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]}"#;

/// The lines of the metrics.
fn metrics(server: &Running) -> Vec<String> {
    let text = String::from_utf8(server.get("/metrics").body).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The value of a line.
#[track_caller]
fn value(metrics: &[String], name: &str) -> f64 {
    let line = metrics.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {metrics:#?}")).parse().unwrap()
}

#[test]
fn times_are_counted_by_buckets_and_by_tritons_names() {
    let folder = models();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    for _ in 0..3 {
        assert_eq!(server.infer("dense", GOOD).status, 200);
    }
    server.infer("dense", "{}").refused(400);
    let metrics = metrics(&server);
    for (outcome, count) in [("ok", 3.0), ("refused", 1.0), ("full", 0.0)] {
        let of = |bound: &str| {
            let labels = format!("model=\"dense\",version=\"1\",outcome=\"{outcome}\",le=\"{bound}\"");
            value(&metrics, &format!("kiln_request_seconds_bucket{{{labels}}}"))
        };
        let bounds = [
            "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10",
            "30", "60", "+Inf",
        ];
        let counts = bounds.map(of);
        assert!(counts.is_sorted(), "{counts:?}");
        assert_eq!(counts[16], count, "{outcome}");
        // Not even a slow machine takes a minute for such a request.
        assert_eq!(counts[15], count, "{outcome}");
    }
    let labels = "{model=\"dense\",version=\"1\"}";
    let of = |name: &str| value(&metrics, &format!("{name}{labels}"));
    assert_eq!(of("kiln_queue_seconds_count"), 3.0);
    for (name, count) in [("request_success", 3.0), ("request_failure", 1.0), ("count", 3.0), ("exec_count", 3.0)] {
        assert_eq!(of(&format!("nv_inference_{name}")), count, "{name}");
    }
    // Times of Triton's names are whole microseconds, and parts are no longer than the whole.
    let time = |name: &str| of(&format!("nv_inference_{name}_duration_us"));
    let parts = time("queue") + time("compute_input") + time("compute_infer") + time("compute_output");
    assert!(time("compute_infer") > 0.0 && parts <= time("request"), "{parts} of {}", time("request"));
    let seconds = value(&metrics, "kiln_request_seconds_sum{model=\"dense\",version=\"1\",outcome=\"ok\"}");
    assert!((time("request") - seconds * 1e6).abs() <= 1.0, "{seconds}");
    // Every line but comments has a type before it, and no name has two.
    let types: Vec<&str> = metrics.iter().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    for line in metrics.iter().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let count = types.iter().filter(|&&known| known == name || known == family).count();
        assert_eq!(count, 1, "{line}");
    }
}

#[test]
fn the_overview_says_what_the_counters_say() {
    let folder = models();
    let models = folder.path().join("models");
    let server = Running::ready(&models, &["--threads", "1"]);
    for _ in 0..4 {
        assert_eq!(server.infer("dense", GOOD).status, 200);
    }
    server.infer("dense", "{}").refused(400);
    server.ask("POST", "/v2/repository/models/%3Cb%3E%22quoted%22/unload", "", b"{}");
    // A request has its answer before its lane has let it go.
    until(&server, "kiln_requests_running", 0);
    let overview = server.get("/v2/overview").json();
    assert_eq!((&overview["name"], &overview["ready"]), (&"kiln".into(), &true.into()));
    assert_eq!((&overview["running"], &overview["waiting"]), (&0.into(), &0.into()));
    let named = |name: &str| {
        let found = overview["models"].as_array().unwrap().iter().find(|model| model["name"] == name);
        found.unwrap_or_else(|| panic!("{overview}"))
    };
    let unloaded = named("<b>\"quoted\"");
    assert_eq!((&unloaded["state"], &unloaded["reason"]), (&"UNAVAILABLE".into(), &"unloaded".into()));
    assert!(unloaded.get("counts").is_none());
    let dense = named("dense");
    assert_eq!((&dense["state"], &dense["version"]), (&"READY".into(), &"1".into()));
    let counts = &dense["counts"];
    assert_eq!((&counts["requests"]["ok"], &counts["requests"]["refused"]), (&4.into(), &1.into()));
    for time in ["mean_seconds", "median_seconds", "p99_seconds", "queue_mean_seconds"] {
        assert!(counts[time].as_f64().unwrap() > 0.0, "{time}: {counts}");
    }
    let metrics = metrics(&server);
    for result in ["hit", "record", "miss"] {
        let line = format!("kiln_lookups_total{{model=\"dense\",version=\"1\",result=\"{result}\"}}");
        assert_eq!(counts["lookups"][result].as_f64().unwrap(), value(&metrics, &line), "{result}");
    }
    let labels = "{account=\"executors\"}";
    let executors = value(&metrics, &format!("kiln_memory_bytes{labels}"));
    assert_eq!(overview["memory_bytes"]["executors"].as_f64().unwrap(), executors);

    // The answer has exactly the fields of the schema.
    let description = server.get("/v2/openapi.json").json();
    conforms(&overview, &description["components"]["schemas"]["Overview"], &description);
}

/// Asserts that a value has the form that a schema describes: types, fields and items.
#[track_caller]
fn conforms(value: &serde_json::Value, schema: &serde_json::Value, whole: &serde_json::Value) {
    use serde_json::Value;
    if let Some(place) = schema.get("$ref").and_then(Value::as_str) {
        return conforms(value, whole.pointer(place.strip_prefix('#').unwrap()).unwrap(), whole);
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        assert!(allowed.contains(value), "{value} is none of {allowed:?}");
        return;
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let is_of = |name: &&str| match *name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("a type {other}"),
    };
    assert!(types.iter().any(is_of), "{value} is none of {types:?}");
    for item in value.as_array().into_iter().flatten() {
        conforms(item, &schema["items"], whole);
    }
    for required in schema["required"].as_array().into_iter().flatten() {
        assert!(value.get(required.as_str().unwrap()).is_some(), "{value} has no {required}");
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let known = schema["properties"].get(name).or(schema.get("additionalProperties"));
        let known = known.filter(|known| known.is_object()).unwrap_or_else(|| panic!("no schema has {name}"));
        conforms(field, known, whole);
    }
}

#[test]
fn the_page_stands_alone_and_takes_names_as_text() {
    let folder = models();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let page = server.get("/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; connect-src 'self';"), "{policy}");
    let html = String::from_utf8(page.body).unwrap();
    // The model's name is nowhere in it, and the page uses nothing that makes elements from text.
    for part in ["<b>", "quoted", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
        assert!(!html.contains(part), "{part}");
    }
    // Nothing is loaded from elsewhere.
    for part in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!html.contains(part), "{part}");
    }
    assert!(html.contains("fetch(\"/v2/overview\""));
    // The name itself comes as JSON, which no browser takes for HTML.
    let overview = server.get("/v2/overview");
    assert_eq!(overview.header("content-type"), Some("application/json"));
    assert!(overview.json()["models"].as_array().unwrap().iter().any(|model| model["name"] == "<b>\"quoted\""));
    // In metrics it is a label.
    assert!(metrics(&server).iter().any(|line| line.contains(r#"model="<b>\"quoted\"","#)));
    server.ask("POST", "/", "", b"").refused(405);
}
