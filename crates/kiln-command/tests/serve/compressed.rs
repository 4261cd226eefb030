//! Bodies in gzip and deflate, in both directions, and bodies that grow beyond their limit when decompressed.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use tonic::Code;

use crate::client::{Client, framed, status_of};
use crate::messages::one_input;
use crate::onnx_file;
use crate::running::{Answer, Running};

const INFER: &str = "/v2/models/dense/infer";

fn dense() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("models")).unwrap();
    std::fs::write(folder.path().join("models/dense.onnx"), onnx_file::dense()).unwrap();
    folder
}

fn packed(coding: &str, bytes: &[u8]) -> Vec<u8> {
    if coding == "gzip" {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        return encoder.finish().unwrap();
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn unpacked(answer: &Answer) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = match answer.header("content-encoding") {
        Some("gzip") => GzDecoder::new(&answer.body[..]).read_to_end(&mut bytes),
        Some("deflate") => ZlibDecoder::new(&answer.body[..]).read_to_end(&mut bytes),
        _ => return answer.body.clone(),
    };
    read.unwrap();
    bytes
}

/// A request of `rows` rows with binary tensors, and the length of its JSON.
fn binary(rows: usize) -> (Vec<u8>, usize) {
    let size = rows * 8;
    let json = format!(
        concat!(
            r#"{{"inputs":[{{"name":"x","shape":[{},2],"datatype":"FP32","parameters":{{"binary_data_size":{}}}}}],"#,
            r#""parameters":{{"binary_data_output":true}}}}"#
        ),
        rows, size
    );
    let values: Vec<u8> = (0..rows * 2).flat_map(|place| (place as f32 * 0.5).to_le_bytes()).collect();
    ([json.as_bytes(), &values].concat(), json.len())
}

#[test]
fn compressed_bodies_give_the_same_answers_and_come_back_compressed_where_they_are_asked_for() {
    let folder = dense();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    for rows in [1, 100_000] {
        let (body, json) = binary(rows);
        let length = format!("Inference-Header-Content-Length: {json}\r\n");
        let plain = server.ask("POST", INFER, &length, &body);
        assert_eq!((plain.status, plain.header("content-encoding")), (200, None));
        for coding in ["gzip", "deflate"] {
            let headers = format!("{length}Content-Encoding: {coding}\r\n");
            let answer = server.ask("POST", INFER, &headers, &packed(coding, &body));
            assert!(answer.body == plain.body, "{rows} rows by {coding}");

            let headers = format!("{headers}Accept-Encoding: {coding}\r\n");
            let answer = server.ask("POST", INFER, &headers, &packed(coding, &body));
            // Few bytes are sent as they are.
            let expected = (rows > 1).then_some(coding);
            assert_eq!((answer.status, answer.header("content-encoding")), (200, expected));
            assert!(unpacked(&answer) == plain.body, "{rows} rows by {coding}");
            // The length of the JSON is that before compression.
            let header = "inference-header-content-length";
            assert_eq!(answer.header(header), plain.header(header));
            assert_eq!(answer.header("content-length"), Some(&*answer.body.len().to_string()));
        }
        // The header that libraries send by themselves asks for nothing.
        let headers = format!("{length}Accept-Encoding: gzip, deflate, br\r\n");
        assert_eq!(server.ask("POST", INFER, &headers, &body).header("content-encoding"), None);
    }
    // A page, as Prometheus asks for it.
    let metrics = server.ask("GET", "/metrics", "Accept-Encoding: gzip\r\n", b"");
    assert_eq!(metrics.header("content-encoding"), Some("gzip"));
    assert!(unpacked(&metrics).starts_with(b"# HELP kiln_requests_total"));
}

#[test]
fn what_is_decompressed_is_held_against_max_body() {
    let folder = dense();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1", "--max-body", "1000000"]);
    let path = "/inference.GRPCInferenceService/ModelInfer";
    let (body, json) = binary(10);
    let length = format!("Inference-Header-Content-Length: {json}\r\n");
    assert_eq!(server.ask("POST", INFER, &length, &body).status, 200);
    let before = server.peak_bytes();
    for coding in ["gzip", "deflate"] {
        let bomb = packed(coding, &vec![b' '; 200 << 20]);
        assert!(bomb.len() < 1_000_000, "{}", bomb.len());
        let headers = format!("Content-Encoding: {coding}\r\n");
        let refused = server.ask("POST", INFER, &headers, &bomb).refused(413);
        assert_eq!(refused, "the decompressed body has more than 1000000 bytes");
        // Small pages have a limit of their own.
        let index = packed(coding, &vec![b' '; 100_000]);
        server.ask("POST", "/v2/repository/index", &headers, &index).refused(413);
        // As a message of gRPC.
        let mut message = framed(&bomb);
        message[0] = 1;
        let headers = [("content-type", "application/grpc"), ("grpc-encoding", coding)];
        let (status, sentence) = status_of(&server, path, &headers, &message);
        assert_eq!((&*status, &*sentence), ("8", "the decompressed message has more than 1000000 bytes"));
    }
    // At most the limit of the 200 MiB has been in memory, and a little for the connections.
    let more = server.peak_bytes() - before;
    assert!(more < 16 << 20, "{more}");
    assert_eq!(server.ask("POST", INFER, &length, &body).status, 200);
}

#[test]
fn messages_of_grpc_are_compressed_in_both_directions() {
    let folder = dense();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1", "--max-body", "1000000"]);
    let (plain, gzip) = (Client::of(&server), Client::of_gzip(&server));
    for rows in [1usize, 10_000] {
        let mut request = one_input("dense", "x", "FP32", &[rows as i64, 2]);
        request.raw_input_contents = vec![(0..rows * 2).flat_map(|place| (place as f32).to_le_bytes()).collect()];
        assert_eq!(gzip.infer(request.clone()).unwrap(), plain.infer(request).unwrap());
    }
    // A message that is too large once it is decompressed, though little is sent.
    let mut request = one_input("dense", "x", "FP32", &[1_000_000, 2]);
    request.raw_input_contents = vec![vec![0; 8_000_000]];
    assert_eq!(gzip.infer(request).unwrap_err().code(), Code::ResourceExhausted);
}
