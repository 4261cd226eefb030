//! Every mistake in a call is answered with a code of gRPC and a sentence, and the server goes on.

use std::collections::HashMap;

use prost::Message;
use tonic::Code;

use crate::client::{Client, framed, status_of};
use crate::messages::{
    InferParameter, InferRequestedOutputTensor, InferTensorContents, ModelInferRequest, ModelInferResponse, one_input,
};
use crate::onnx_file;
use crate::running::Running;

fn dense() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("models")).unwrap();
    std::fs::write(folder.path().join("models/dense.onnx"), onnx_file::dense()).unwrap();
    folder
}

fn good() -> ModelInferRequest {
    let mut request = one_input("dense", "x", "FP32", &[1, 2]);
    request.raw_input_contents = vec![vec![0; 8]];
    request
}

fn parameter(key: &str, value: i64) -> HashMap<String, InferParameter> {
    let value = InferParameter { int64_param: Some(value), ..InferParameter::default() };
    HashMap::from([(key.to_owned(), value)])
}

#[test]
fn every_wrong_request_is_refused_by_name_and_the_next_one_is_answered() {
    let folder = dense();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let client = Client::of(&server);
    let changed = |change: &dyn Fn(&mut ModelInferRequest)| {
        let mut request = good();
        change(&mut request);
        request
    };
    let floats = || InferTensorContents { fp32_contents: vec![1.0, 2.0], ..InferTensorContents::default() };
    let contents = |contents: InferTensorContents| {
        changed(&|request| {
            request.raw_input_contents.clear();
            request.inputs[0].contents = Some(contents.clone());
        })
    };
    for (request, code, part) in [
        (changed(&|r| r.model_name = "none".to_owned()), Code::NotFound, "no model 'none'"),
        (changed(&|r| r.model_version = "9".to_owned()), Code::NotFound, "no version 9"),
        (changed(&|r| r.inputs.clear()), Code::InvalidArgument, "1 raw_input_contents are given for 0 inputs"),
        (changed(&|r| *r = one_input("dense", "x", "FP32", &[1, 2])), Code::InvalidArgument, "neither contents nor"),
        (changed(&|r| r.inputs[0].name = "z".to_owned()), Code::InvalidArgument, "no input 'z'; it has x"),
        (changed(&|r| r.inputs[0].datatype = "INT32".to_owned()), Code::InvalidArgument, "the model takes FP32"),
        (changed(&|r| r.inputs[0].datatype = "F32".to_owned()), Code::InvalidArgument, "no datatype F32"),
        (changed(&|r| r.inputs[0].shape = vec![2, 1]), Code::InvalidArgument, "the model takes [-1, 2]"),
        (changed(&|r| r.inputs[0].shape = vec![-1, 2]), Code::InvalidArgument, "a dimension of its shape is -1"),
        (changed(&|r| r.inputs[0].shape = vec![i64::MAX, 2]), Code::InvalidArgument, "elements of 4 bytes"),
        (
            changed(&|r| r.inputs[0].shape = vec![3, 2]),
            Code::InvalidArgument,
            "6 elements of 4 bytes, its data 8 bytes",
        ),
        (changed(&|r| r.raw_input_contents.push(Vec::new())), Code::InvalidArgument, "2 raw_input_contents are given"),
        (changed(&|r| r.inputs[0].contents = Some(floats())), Code::InvalidArgument, "beside raw_input_contents"),
        (
            contents(InferTensorContents { fp64_contents: vec![1.0], ..InferTensorContents::default() }),
            Code::InvalidArgument,
            "stand in fp32_contents, fp64_contents is given",
        ),
        (
            contents(InferTensorContents { fp32_contents: vec![1.0], ..InferTensorContents::default() }),
            Code::InvalidArgument,
            "its shape has 2 elements, its data 1",
        ),
        (
            changed(&|r| r.outputs.push(InferRequestedOutputTensor { name: "q".to_owned(), ..Default::default() })),
            Code::InvalidArgument,
            "no output 'q'",
        ),
        (
            changed(&|r| r.inputs[0].parameters = parameter("shared_memory_region", 1)),
            Code::InvalidArgument,
            "'shared_memory_region' is not offered here",
        ),
        (changed(&|r| r.parameters = parameter("sequence_id", 5)), Code::InvalidArgument, "'sequence_id'"),
        (changed(&|r| r.parameters = parameter("timeout", -5)), Code::InvalidArgument, "'timeout'"),
        (changed(&|r| r.parameters = parameter("timeout", 1)), Code::DeadlineExceeded, "time limit"),
    ] {
        let refused = client.infer(request).expect_err(part);
        assert_eq!(refused.code(), code, "{refused}");
        assert!(refused.message().contains(part), "{part}: {refused}");
    }
    for method in ["TraceSetting", "SystemSharedMemoryStatus", "/other.Service/Call"] {
        let refused = client.call::<_, ()>(method, ()).unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented, "{refused}");
    }
    // Parameters that say nothing new.
    let harmless = [("sequence_id", 0), ("timeout", 0), ("priority", 3)];
    for (key, value) in harmless {
        client.infer(changed(&|r| r.parameters = parameter(key, value))).unwrap();
    }
}

#[test]
fn messages_beyond_max_body_are_refused_before_they_are_there() {
    let folder = dense();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1", "--max-body", "1000"]);
    let client = Client::of(&server);
    let mut large = good();
    large.raw_input_contents = vec![vec![0; 2000]];
    let refused = client.infer(large).unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("more than 1000 bytes"), "{refused}");
    client.infer(good()).unwrap();
}

#[test]
fn what_no_client_sends_is_refused_too() {
    let folder = dense();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let path = "/inference.GRPCInferenceService/ModelInfer";
    let kind = ("content-type", "application/grpc");
    let message = framed(&good().encode_to_vec());
    let mut compressed = message.clone();
    compressed[0] = 1;
    for (headers, body, status, part) in [
        (&[kind][..], &message[..], "0", ""),
        (&[("content-type", "application/grpc+proto")], &message, "0", ""),
        (&[kind, ("grpc-timeout", "1H")], &message, "0", ""),
        (&[kind, ("grpc-timeout", "0n")], &message, "4", "time limit"),
        (&[kind, ("grpc-timeout", "soon")], &message, "3", "grpc-timeout"),
        (&[kind], b"", "3", "ends after 0 bytes"),
        (&[kind], b"\0\0\0", "3", "ends after 3 bytes"),
        (&[kind], &message[..20], "3", "ends after 20 bytes"),
        (&[kind], &[&message[..], &message].concat(), "3", "more than one message"),
        (&[kind], b"\0\xff\xff\xff\xff1234", "8", "more than 67108864 bytes"),
        (&[kind, ("grpc-encoding", "gzip")], &compressed, "3", "the decompressed message is no gzip"),
        (&[kind, ("grpc-encoding", "br")], &compressed, "12", "gzip, deflate and identity are"),
        (&[kind], &compressed, "3", "no header says how"),
        (&[kind], b"\x02\0\0\0\0", "3", "neither 0 nor 1"),
        (&[kind], &framed(b"\x0a\xff"), "3", "no message of protobuf"),
        (&[kind], &framed(b"\x0b"), "3", "no message of protobuf"),
        (&[kind], &framed(b""), "5", "no model ''"),
        (&[("content-type", "application/json")], b"{}", "415 Unsupported Media Type", ""),
        (&[], b"", "415 Unsupported Media Type", ""),
    ] {
        let (found, sentence) = status_of(&server, path, headers, body);
        assert_eq!(found, status, "{headers:?}: {sentence}");
        assert!(sentence.contains(part), "{part}: {sentence}");
    }
    // Bytes that are no HTTP/2 at all end their connection.
    let mut stream = std::net::TcpStream::connect(&server.grpc).unwrap();
    std::io::Write::write_all(&mut stream, b"GET / HTTP/1.1\r\n\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxx").unwrap();
    let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
    let answer: ModelInferResponse = Client::of(&server).infer(good()).unwrap();
    assert_eq!(answer.raw_output_contents[0].len(), 12);
}
