//! Calls of gRPC give the same bits as a session, from contents of every kind and from raw contents.

use kiln::{Session, SessionOptions, Tensor};

use crate::client::Client;
use crate::messages::{InferRequestedOutputTensor, InferTensorContents, ModelInferResponse, one_input};
use crate::onnx_file;
use crate::proto;
use crate::running::Running;

/// A type of the protocol, its number in ONNX, three elements as contents, and the same as bytes.
struct Type {
    name: &'static str,
    onnx: u64,
    contents: Option<InferTensorContents>,
    raw: Vec<u8>,
}

fn raw<const N: usize>(values: [[u8; N]; 3]) -> Vec<u8> {
    values.concat()
}

fn types() -> Vec<Type> {
    let none = InferTensorContents::default;
    let one = |name, onnx, contents, raw| Type { name, onnx, contents: Some(contents), raw };
    vec![
        one("BOOL", 9, InferTensorContents { bool_contents: vec![true, false, true], ..none() }, vec![1, 0, 1]),
        one("UINT8", 2, InferTensorContents { uint_contents: vec![0, 7, 255], ..none() }, vec![0, 7, 255]),
        one(
            "UINT16",
            4,
            InferTensorContents { uint_contents: vec![0, 7, 65_535], ..none() },
            raw([0u16, 7, 65_535].map(u16::to_le_bytes)),
        ),
        one(
            "UINT32",
            12,
            InferTensorContents { uint_contents: vec![0, 7, u32::MAX], ..none() },
            raw([0, 7, u32::MAX].map(u32::to_le_bytes)),
        ),
        one(
            "UINT64",
            13,
            InferTensorContents { uint64_contents: vec![0, 7, u64::MAX], ..none() },
            raw([0, 7, u64::MAX].map(u64::to_le_bytes)),
        ),
        one("INT8", 3, InferTensorContents { int_contents: vec![-128, 7, 127], ..none() }, vec![0x80, 7, 0x7f]),
        one(
            "INT16",
            5,
            InferTensorContents { int_contents: vec![-32_768, 7, 32_767], ..none() },
            raw([i16::MIN, 7, i16::MAX].map(i16::to_le_bytes)),
        ),
        one(
            "INT32",
            6,
            InferTensorContents { int_contents: vec![i32::MIN, 7, i32::MAX], ..none() },
            raw([i32::MIN, 7, i32::MAX].map(i32::to_le_bytes)),
        ),
        one(
            "INT64",
            7,
            InferTensorContents { int64_contents: vec![i64::MIN, 7, i64::MAX], ..none() },
            raw([i64::MIN, 7, i64::MAX].map(i64::to_le_bytes)),
        ),
        Type { name: "FP16", onnx: 10, contents: None, raw: raw([[0, 0x3c], [1, 0], [0, 0x7e]]) },
        Type { name: "BF16", onnx: 16, contents: None, raw: raw([[0x80, 0x3f], [1, 0], [0xc0, 0x7f]]) },
        one(
            "FP32",
            1,
            InferTensorContents { fp32_contents: vec![0.1, -0.0, f32::NAN], ..none() },
            raw([0.1, -0.0, f32::NAN].map(f32::to_le_bytes)),
        ),
        one(
            "FP64",
            11,
            InferTensorContents { fp64_contents: vec![0.1, -0.0, f64::INFINITY], ..none() },
            raw([0.1, -0.0, f64::INFINITY].map(f64::to_le_bytes)),
        ),
        one(
            "BYTES",
            8,
            InferTensorContents { bytes_contents: ["a", "", "b\u{e9}"].map(Vec::from).to_vec(), ..none() },
            b"\x01\0\0\0a\0\0\0\0\x03\0\0\0b\xc3\xa9".to_vec(),
        ),
    ]
}

#[test]
fn every_type_comes_back_from_contents_and_from_raw_contents() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    std::fs::create_dir(&models).unwrap();
    for one in types() {
        std::fs::write(models.join(format!("{}.onnx", one.name)), onnx_file::identity(one.onnx)).unwrap();
    }
    let server = Running::ready(&models, &["--threads", "1"]);
    let client = Client::of(&server);
    for Type { name, contents, raw, .. } in types() {
        let request = one_input(name, "x", name, &[3]);
        let mut by_raw = request.clone();
        by_raw.raw_input_contents = vec![raw.clone()];
        let mut requests = vec![by_raw];
        let has_contents = contents.is_some();
        let mut by_contents = request;
        by_contents.inputs[0].contents = contents;
        if has_contents {
            requests.push(by_contents);
        } else {
            // FP16 and BF16 have no list.
            let refused = client.infer(by_contents).unwrap_err();
            assert!(refused.message().contains("raw_input_contents"), "{refused}");
        }
        for request in requests {
            let answer = client.infer(request).unwrap_or_else(|refused| panic!("{name}: {refused}"));
            assert_eq!((answer.outputs[0].name.as_str(), answer.outputs[0].datatype.as_str()), ("y", name));
            assert_eq!((&answer.outputs[0].shape, &answer.outputs[0].contents), (&vec![3], &None));
            assert_eq!(answer.raw_output_contents, std::slice::from_ref(&raw), "{name}");
        }
        // A tensor without elements.
        let mut empty = one_input(name, "x", name, &[0]);
        let answer = client.infer(empty.clone()).unwrap();
        assert_eq!((answer.outputs[0].shape[0], answer.raw_output_contents[0].len()), (0, 0));
        empty.raw_input_contents = vec![Vec::new()];
        assert_eq!(client.infer(empty).unwrap(), answer);
    }
}

/// A folder with a model of three products and one of two inputs.
fn models() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    std::fs::create_dir_all(models.join("dense/3")).unwrap();
    std::fs::write(models.join("dense/3/model.onnx"), onnx_file::dense()).unwrap();
    std::fs::write(models.join("sum.onnx"), onnx_file::sum_of_two()).unwrap();
    folder
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn outputs_have_the_bits_of_a_session() {
    let folder = models();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "2"]);
    let client = Client::of(&server);
    let options = SessionOptions { threads: 1, ..SessionOptions::default() };
    let session = Session::load_bytes(onnx_file::dense(), &options).unwrap();
    // From an output that is copied to one that takes many frames of HTTP/2.
    for rows in [1, 3, 1000, 200_000] {
        let values: Vec<f32> = (0..rows * 2).map(|place| (place % 37) as f32 * 0.37 - 3.1).collect();
        let outputs = session.run(&[("x", Tensor::from_slice([rows, 2], &values).unwrap())]).unwrap();
        let mut request = one_input("dense", "x", "FP32", &[rows as i64, 2]);
        request.id = "7".to_owned();
        request.model_version = "3".to_owned();
        request.outputs = vec![InferRequestedOutputTensor { name: "y".to_owned(), ..Default::default() }];
        request.raw_input_contents = vec![bytes(&values)];
        let answer: ModelInferResponse = client.infer(request).unwrap();
        assert_eq!(
            (answer.model_name.as_str(), answer.model_version.as_str(), answer.id.as_str()),
            ("dense", "3", "7")
        );
        assert_eq!(answer.outputs[0].shape, [rows as i64, 3]);
        assert!(answer.raw_output_contents[0] == outputs[0].1.bytes(), "{rows} rows");
    }
    // Two inputs, in another order than the model's.
    let mut request = one_input("sum", "b", "FP32", &[2]);
    request.inputs.extend(one_input("sum", "a", "FP32", &[2]).inputs);
    request.raw_input_contents = vec![bytes(&[1.0, 2.0]), bytes(&[0.5, 0.25])];
    assert_eq!(client.infer(request).unwrap().raw_output_contents, [bytes(&[1.5, 2.25])]);
}

fn of(name: &str) -> proto::ModelRequest {
    proto::ModelRequest { name: name.to_owned(), version: String::new() }
}

#[test]
fn calls_say_what_there_is() {
    let folder = models();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let client = Client::of(&server);
    assert!(client.call::<_, proto::ServerLiveResponse>("ServerLive", ()).unwrap().live);
    assert!(client.call::<_, proto::ServerReadyResponse>("ServerReady", ()).unwrap().ready);
    let about: proto::ServerMetadataResponse = client.call("ServerMetadata", ()).unwrap();
    assert_eq!(about.name, "kiln");
    let rest = server.get("/v2").json();
    assert_eq!(
        (serde_json::json!(about.extensions), &rest["version"]),
        (rest["extensions"].clone(), &about.version.into())
    );

    let ready = |name| client.call::<_, proto::ModelReadyResponse>("ModelReady", of(name)).unwrap().ready;
    assert_eq!((ready("dense"), ready("none")), (true, false));
    let metadata: proto::ModelMetadataResponse = client.call("ModelMetadata", of("dense")).unwrap();
    assert_eq!((metadata.versions, metadata.platform.as_str()), (vec!["3".to_owned()], "onnx_onnxv1"));
    let x = &metadata.inputs[0];
    assert_eq!((x.name.as_str(), x.datatype.as_str(), &x.shape[..]), ("x", "FP32", &[-1, 2][..]));
    assert_eq!(metadata.outputs[0].shape, [-1, 3]);
    let config: proto::ModelConfigResponse = client.call("ModelConfig", of("sum")).unwrap();
    let config = config.config.unwrap();
    assert_eq!((config.max_batch_size, config.input.len(), config.output[0].data_type), (0, 2, 11));

    let mut request = one_input("dense", "x", "FP32", &[1, 2]);
    request.raw_input_contents = vec![bytes(&[1.0, 2.0])];
    client.infer(request.clone()).unwrap();
    request.inputs[0].name = "z".to_owned();
    client.infer(request).unwrap_err();
    let statistics: proto::ModelStatisticsResponse = client.call("ModelStatistics", of("dense")).unwrap();
    let counts = statistics.model_stats[0].inference_stats.unwrap();
    assert_eq!((counts.success.unwrap().count, counts.fail.unwrap().count), (1, 1));

    let health = |service: &str| {
        let request = proto::HealthCheckRequest { service: service.to_owned() };
        client.call::<_, proto::HealthCheckResponse>("/grpc.health.v1.Health/Check", request)
    };
    assert_eq!(health("").unwrap().status, 1);
    assert_eq!(health("inference.GRPCInferenceService").unwrap().status, 1);
    assert_eq!(health("other").unwrap_err().code(), tonic::Code::NotFound);
}

#[test]
fn models_are_unloaded_and_loaded_by_name() {
    let folder = models();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let client = Client::of(&server);
    let named = |name: &str| proto::RepositoryModelRequest { model_name: name.to_owned(), ..Default::default() };
    let index = |ready| -> Vec<(String, String)> {
        let request = proto::RepositoryIndexRequest { ready, ..Default::default() };
        let index: proto::RepositoryIndexResponse = client.call("RepositoryIndex", request).unwrap();
        index.models.into_iter().map(|model| (model.name, model.state)).collect()
    };
    client.call::<_, ()>("RepositoryModelUnload", named("dense")).unwrap();
    let (dense, sum) = ("dense".to_owned(), ("sum".to_owned(), "READY".to_owned()));
    assert_eq!(index(false), [(dense.clone(), "UNAVAILABLE".to_owned()), sum.clone()]);
    assert_eq!(index(true), std::slice::from_ref(&sum));
    let request = one_input("dense", "x", "FP32", &[0, 2]);
    assert_eq!(client.infer(request.clone()).unwrap_err().code(), tonic::Code::NotFound);
    client.call::<_, ()>("RepositoryModelLoad", named("dense")).unwrap();
    assert_eq!(index(true), [(dense, "READY".to_owned()), sum]);
    client.infer(request).unwrap();

    let mut with_config = named("dense");
    with_config.parameters.push(proto::repository_model_request::Parameter { key: "config".to_owned() });
    let refused = client.call::<_, ()>("RepositoryModelLoad", with_config).unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert!(refused.message().contains("'config'"), "{refused}");
    assert_eq!(client.call::<_, ()>("RepositoryModelLoad", named("none")).unwrap_err().code(), tonic::Code::NotFound);
}
