//! Full queues, time limits, clients that leave, signals, and models that change while the server runs.

use std::io::{BufRead as _, Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::onnx_file;
use crate::running::{Answer, Running};

const SIGHUP: i32 = 1;
pub(crate) const SIGTERM: i32 = 15;

/// A folder with a model of many products, whose requests take long where their matrix is large.
pub(crate) fn slow() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("models")).unwrap();
    std::fs::write(folder.path().join("models/slow.onnx"), onnx_file::products(4000)).unwrap();
    std::fs::write(folder.path().join("models/dense.onnx"), onnx_file::dense()).unwrap();
    folder
}

/// Sends a request on a matrix of `rows` rows.
pub(crate) fn send(server: &Running, rows: usize, headers: &str) -> std::net::TcpStream {
    let size = rows * rows * 4;
    let json = format!(
        concat!(
            r#"{{"inputs":[{{"name":"x","shape":[{0},{0}],"datatype":"FP32","parameters":{{"binary_data_size":{1}}}}}],"#,
            r#""parameters":{{"binary_data_output":true}}}}"#
        ),
        rows, size
    );
    let headers = format!("Inference-Header-Content-Length: {}\r\n{headers}", json.len());
    let body = [json.as_bytes(), &vec![0; size]].concat();
    server.send("POST", "/v2/models/slow/infer", &headers, &body)
}

/// Rows of a request that takes a second or more.
pub(crate) const LONG: usize = 512;

/// The value of a line of the metrics.
pub(crate) fn metric(server: &Running, name: &str) -> u64 {
    let text = String::from_utf8(server.get("/metrics").body).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// Waits until that line has that value.
#[track_caller]
pub(crate) fn until(server: &Running, name: &str, value: u64) {
    let begun = Instant::now();
    while metric(server, name) != value {
        assert!(begun.elapsed() < Duration::from_secs(60), "{name} is {}, not {value}", metric(server, name));
        std::thread::sleep(Duration::from_millis(2));
    }
}

const CANCELLED: &str = "kiln_requests_total{model=\"slow\",version=\"1\",outcome=\"cancelled\"}";

#[test]
fn a_full_queue_refuses_at_once_and_clients_that_go_are_forgotten() {
    let folder = slow();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1", "--queue", "1"]);
    let running = send(&server, LONG, "");
    until(&server, "kiln_requests_running", 1);
    let waiting = send(&server, LONG, "");
    until(&server, "kiln_queue_length", 1);
    let refused = Answer::read(send(&server, 2, ""));
    assert!(refused.refused(429).contains("1 requests wait already"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    // Both clients leave: the running request is ended, and the waiting one is not begun.
    drop((waiting, running));
    until(&server, CANCELLED, 2);
    let begun = Instant::now();
    until(&server, "kiln_requests_running", 0);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(Answer::read(send(&server, 2, "")).status, 200);
}

#[test]
fn a_time_limit_ends_what_runs_and_what_waits() {
    let folder = slow();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let begun = Instant::now();
    let running = send(&server, LONG, "Kiln-Timeout-Us: 200000\r\n");
    until(&server, "kiln_requests_running", 1);
    let waiting = send(&server, 2, "Kiln-Timeout-Us: 20000\r\n");
    assert!(Answer::read(waiting).refused(504).contains("time limit"));
    Answer::read(running).refused(504);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // As Triton's clients say it.
    let json = r#"{"parameters":{"timeout":1},"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":[1]}]}"#;
    server.infer("slow", json).refused(504);
}

#[test]
fn sigterm_answers_what_is_in_hand_and_saves_records() {
    let folder = slow();
    let mut server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let running = send(&server, 256, "");
    until(&server, "kiln_requests_running", 1);
    server.signal(SIGTERM);
    assert_eq!(server.line(), "ending: requests in hand are answered");
    assert!(std::net::TcpStream::connect(&server.address).is_err(), "no new connections");
    assert_eq!(Answer::read(running).status, 200);
    assert_eq!(server.line(), "ended");
    assert_eq!(server.wait(), Some(0));
    let records = std::fs::read_dir(folder.path().join("records")).unwrap().count();
    assert!(records > 0, "records are saved");
}

#[test]
fn a_client_that_has_connected_before_the_end_is_answered_once_more() {
    let folder = slow();
    let mut server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let mut silent = std::net::TcpStream::connect(&server.address).unwrap();
    let kept = std::net::TcpStream::connect(&server.address).unwrap();
    let request = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut kept = std::io::BufReader::new(kept);
    kept.get_mut().write_all(request).unwrap();
    let head: Vec<String> = kept.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    kept.read_exact(&mut vec![0; length.parse().unwrap()]).unwrap();
    assert!(!head.contains(&"connection: close".to_owned()), "{head:?}");
    server.signal(SIGTERM);
    assert_eq!(server.line(), "ending: requests in hand are answered");
    for stream in [&mut silent, kept.get_mut()] {
        stream.write_all(request).unwrap();
    }
    for stream in [silent, kept.into_inner()] {
        let answer = Answer::read(stream);
        assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    }
    assert_eq!(server.line(), "ended");
    assert_eq!(server.wait(), Some(0));
}

/// Replaces a file as deployments do: written beside it, and moved.
fn replace(file: &Path, bytes: &[u8]) {
    let new = file.with_extension("new");
    std::fs::write(&new, bytes).unwrap();
    std::fs::rename(new, file).unwrap();
}

#[test]
fn sighup_swaps_models_and_a_bad_one_leaves_the_old_in_place() {
    let folder = slow();
    let models = folder.path().join("models");
    let mut server = Running::ready(&models, &["--threads", "1"]);
    let outputs = |server: &Running| server.get("/v2/models/dense").json()["inputs"].as_array().map(Vec::len);
    assert_eq!(outputs(&server), Some(1));
    replace(&models.join("dense.onnx"), &onnx_file::sum_of_two());
    std::fs::remove_file(models.join("slow.onnx")).unwrap();
    server.signal(SIGHUP);
    assert_eq!(server.line(), "loaded: dense version 1");
    assert_eq!(server.line(), "gone: slow");
    assert_eq!(server.line(), "looked through the models");
    assert_eq!(outputs(&server), Some(2));
    server.get("/v2/models/slow").refused(404);
    replace(&models.join("dense.onnx"), b"no model");
    server.signal(SIGHUP);
    assert!(server.line().starts_with("not loaded: dense version 1: "));
    assert_eq!(outputs(&server), Some(2));
    let index = server.ask("POST", "/v2/repository/index", "", b"").json();
    assert_eq!((&index[0]["state"], index[0]["reason"] == ""), (&"READY".into(), false), "{index}");
}

#[test]
fn a_swap_refuses_no_request() {
    let folder = slow();
    let models = folder.path().join("models");
    let mut server = Running::ready(&models, &["--threads", "2"]);
    let json = r#"{"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":[1]}]}"#;
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let address = server.address.clone();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let stream = crate::running::send_to(&address, "POST", "/v2/models/slow/infer", "", json.as_bytes());
                assert_eq!(Answer::read(stream).status, 200);
                count += 1;
            }
            count
        });
        for products in [3001, 3002, 3003] {
            replace(&models.join("slow.onnx"), &onnx_file::products(products));
            server.signal(SIGHUP);
            assert_eq!(server.line(), "loaded: slow version 1");
            assert_eq!(server.line(), "looked through the models");
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(asked.join().unwrap() > 3);
    });
    let index = server.get("/v2/models/slow").json();
    assert_eq!(index["outputs"][0]["name"], "y3003");
}

#[test]
fn models_are_unloaded_and_loaded_by_name() {
    let folder = slow();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    assert_eq!(server.ask("POST", "/v2/repository/models/dense/unload", "", b"{}").status, 200);
    server.get("/v2/models/dense/ready").refused(404);
    let index = server.ask("POST", "/v2/repository/index", "", br#"{"ready":true}"#).json();
    assert_eq!(index.as_array().map(Vec::len), Some(1), "{index}");
    assert_eq!(server.ask("POST", "/v2/repository/models/dense/load", "", b"").status, 200);
    assert_eq!(server.get("/v2/models/dense/ready").status, 200);
}

#[test]
fn a_model_that_cannot_be_loaded_ends_the_start() {
    let folder = slow();
    std::fs::write(folder.path().join("models/bad.onnx"), "no model").unwrap();
    let done =
        crate::command::kiln(["serve", folder.path().join("models").to_str().unwrap(), "--port", "0", "--no-grpc"]);
    done.fails(2, &["bad version 1"]);
}
