//! Every mistake in a request is answered with a status and a sentence, and the server goes on.

use std::io::Write;

use crate::onnx_file;
use crate::running::{Answer, Running};

fn dense() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("models")).unwrap();
    std::fs::write(folder.path().join("models/dense.onnx"), onnx_file::dense()).unwrap();
    folder
}

#[test]
fn every_wrong_request_is_refused_by_name_and_the_next_one_is_answered() {
    let folder = dense();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1", "--max-body", "1000"]);
    let good = r#"{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]}"#;
    let infer = "/v2/models/dense/infer";
    let long = "Inference-Header-Content-Length: 5000\r\n";
    let word = "Inference-Header-Content-Length: -1\r\n";
    for (method, path, headers, body, status, part) in [
        ("POST", infer, "", "", 400, "EOF"),
        ("POST", infer, "", "{\"inputs\"", 400, "EOF"),
        ("POST", infer, long, good, 400, "5000 bytes of JSON, the body has 70"),
        ("POST", infer, word, good, 400, "not a whole number"),
        ("POST", infer, "Kiln-Timeout-Us: soon\r\n", good, 400, "kiln-timeout-us"),
        ("POST", infer, "Content-Encoding: gzip\r\n", good, 400, "the decompressed body is no gzip"),
        ("POST", infer, "Content-Encoding: deflate\r\n", good, 400, "the decompressed body is no deflate"),
        ("POST", infer, "Content-Encoding: br\r\n", good, 415, "\"br\" is not taken: gzip, deflate and identity"),
        ("POST", infer, "Content-Encoding: gzip, gzip\r\n", good, 415, "one at a time"),
        ("GET", infer, "", "", 405, "POST"),
        ("POST", "/v2/models/none/infer", "", good, 404, "no model 'none'"),
        ("POST", "/v2/models/dense/versions/9/infer", "", good, 404, "no version 9"),
        ("POST", "/v2/models/dense/versions/x/infer", "", good, 404, "no version x"),
        ("GET", "/v2/models/..%2f..%2fetc", "", "", 404, "no model"),
        ("GET", "/v2/models/%ff", "", "", 400, "percent-encoded"),
        ("GET", "/v2/systemsharedmemory/status", "", "", 404, "no such page"),
        ("POST", "/v2/repository/models/none/load", "", "", 404, "no model 'none'"),
        ("POST", "/v2/repository/models/dense/load", "", r#"{"parameters":{"config":"{}"}}"#, 400, "'config'"),
        ("POST", "/v2/repository/index", "", "[", 400, "no JSON"),
    ] {
        let message = server.ask(method, path, headers, body.as_bytes()).refused(status);
        assert!(message.contains(part), "{method} {path} {body}: {message}");
    }
    let large = format!("{good}{}", " ".repeat(2000));
    server.infer("dense", &large).refused(413);
    let sizes = r#"{"inputs":[{"name":"x","shape":[99999999999,2],"datatype":"FP32","data":[1,2]}]}"#;
    assert!(server.infer("dense", sizes).refused(400).contains("199999999998 elements, its data 2"));
    assert_eq!(server.infer("dense", good).status, 200);
}

#[test]
fn a_body_that_ends_early_or_has_no_length_hurts_nobody() {
    let folder = dense();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let mut stream = std::net::TcpStream::connect(&server.address).unwrap();
    stream.write_all(b"POST /v2/models/dense/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{").unwrap();
    drop(stream);
    let json = r#"{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]}"#;
    let mut stream = std::net::TcpStream::connect(&server.address).unwrap();
    let head =
        "POST /v2/models/dense/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    for byte in json.bytes() {
        stream.write_all(format!("1\r\n{}\r\n", char::from(byte)).as_bytes()).unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(Answer::read(stream).status, 200);
}
