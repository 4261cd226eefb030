//! Inference in JSON and in the binary form gives the same bits as a session.

use kiln::{Session, SessionOptions, Tensor};

use crate::onnx_file;
use crate::running::{Answer, Running};

/// A folder with a model of each layout.
fn models() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    std::fs::create_dir_all(models.join("dense/3")).unwrap();
    std::fs::write(models.join("dense/3/model.onnx"), onnx_file::dense()).unwrap();
    std::fs::write(models.join("sum.onnx"), onnx_file::sum_of_two()).unwrap();
    folder
}

const X: [f32; 6] = [0.1, -0.7, 3.25, 1e-3, 7.0, -2.5];

fn expected() -> Vec<f32> {
    let options = SessionOptions { threads: 1, ..SessionOptions::default() };
    let session = Session::load_bytes(onnx_file::dense(), &options).unwrap();
    let outputs = session.run(&[("x", Tensor::from_slice([3, 2], &X).unwrap())]).unwrap();
    outputs[0].1.as_slice::<f32>().unwrap().to_vec()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The binary outputs of an answer, as floats.
fn binary(answer: &Answer) -> Vec<f32> {
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"), "{answer:?}");
    let json: usize = answer.header("inference-header-content-length").unwrap().parse().unwrap();
    answer.body[json..].as_chunks().0.iter().map(|&four| f32::from_le_bytes(four)).collect()
}

#[test]
fn json_and_binary_give_the_bits_of_a_session() {
    let folder = models();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "2"]);
    let expected = bits(&expected());

    let json = format!(r#"{{"id":"7","inputs":[{{"name":"x","shape":[3,2],"datatype":"FP32","data":{X:?}}}]}}"#);
    let answer = server.infer("dense", &json);
    let read = answer.json();
    assert_eq!((answer.status, read["id"].as_str()), (200, Some("7")), "{answer:?}");
    assert_eq!((&read["model_name"], &read["model_version"]), (&"dense".into(), &"3".into()));
    assert_eq!(read["outputs"][0]["shape"], serde_json::json!([3, 3]));
    let data = read["outputs"][0]["data"].as_array().unwrap();
    let data: Vec<f32> = data.iter().map(|value| value.to_string().parse().unwrap()).collect();
    assert_eq!(bits(&data), expected);

    // Binary in, binary out.
    let json = concat!(
        r#"{"inputs":[{"name":"x","shape":[3,2],"datatype":"FP32","parameters":{"binary_data_size":24}}],"#,
        r#""parameters":{"binary_data_output":true}}"#
    );
    let header = format!("Inference-Header-Content-Length: {}\r\n", json.len());
    let body = [json.as_bytes(), &bytes(&X)].concat();
    let answer = server.ask("POST", "/v2/models/dense/versions/3/infer", &header, &body);
    assert_eq!(bits(&binary(&answer)), expected);

    // A raw request.
    let header = "Inference-Header-Content-Length: 0\r\n";
    let answer = server.ask("POST", "/v2/models/dense/infer", header, &bytes(&X));
    assert_eq!(bits(&binary(&answer)), expected);

    // An input in each form, and an output that is asked for.
    let json = concat!(
        r#"{"inputs":[{"name":"a","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}},"#,
        r#"{"name":"b","shape":[2],"datatype":"FP32","data":[0.5,1]}],"#,
        r#""outputs":[{"name":"y","parameters":{"binary_data":true}}]}"#
    );
    let header = format!("Inference-Header-Content-Length: {}\r\n", json.len());
    let body = [json.as_bytes(), &bytes(&[1.0, 2.0])].concat();
    let answer = server.ask("POST", "/v2/models/sum/infer", &header, &body);
    assert_eq!(binary(&answer), [1.5, 3.0]);

    // JSON that is too long to be read while other connections wait.
    let many = vec![0.25f32; 40_000];
    let json = format!(r#"{{"inputs":[{{"name":"x","shape":[20000,2],"datatype":"FP32","data":{many:?}}}]}}"#);
    assert_eq!(server.infer("dense", &json).json()["outputs"][0]["shape"], serde_json::json!([20_000, 3]));

    // An empty tensor, as KServe's client sends it.
    let json = r#"{"inputs":[{"name":"x","shape":[0,2],"datatype":"FP32","data":null}]}"#;
    assert_eq!(server.infer("dense", json).json()["outputs"][0]["data"], serde_json::json!([]));
}

#[test]
fn pages_say_what_there_is() {
    let folder = models();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    for page in ["/v2/health/live", "/v2/health/ready"] {
        assert_eq!(server.get(page).json(), serde_json::json!({"live": true, "ready": true}));
    }
    assert_eq!(server.get("/v2").json()["name"], "kiln");
    let description = server.get("/v2/openapi.json").json();
    assert_eq!((&description["openapi"], description["paths"]["/v2"].is_object()), (&"3.1.0".into(), true));
    let metadata = server.get("/v2/models/dense").json();
    assert_eq!(metadata["versions"], serde_json::json!(["3"]));
    let x = serde_json::json!([{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]);
    assert_eq!(metadata["inputs"], x);
    assert_eq!(server.get("/v2/models/sum/versions/1/ready").json()["ready"], true);
    assert_eq!(server.get("/v2/models/sum/config").json()["max_batch_size"], 0);

    let json = r#"{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]}"#;
    for _ in 0..3 {
        assert_eq!(server.infer("dense", json).status, 200);
    }
    server.infer("dense", "{}").refused(400);
    let stats = server.get("/v2/models/dense/stats").json();
    let stats = &stats["model_stats"][0];
    assert_eq!(stats["inference_count"], 3);
    assert_eq!(stats["inference_stats"]["success"]["count"], 3);
    assert_eq!(stats["inference_stats"]["fail"]["count"], 1);
    assert_eq!(server.get("/v2/models/stats").json()["model_stats"].as_array().unwrap().len(), 2);
    let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
    for line in [
        "kiln_requests_total{model=\"dense\",version=\"3\",outcome=\"ok\"} 3",
        "kiln_requests_total{model=\"dense\",version=\"3\",outcome=\"refused\"} 1",
        "kiln_request_seconds_count{model=\"dense\",version=\"3\",outcome=\"ok\"} 3",
        "kiln_queue_length 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
}
