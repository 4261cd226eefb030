//! Full queues, time limits, clients that leave, and the server's end, as seen by calls of gRPC.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prost::Message;
use tonic::{Code, Status};

use crate::client::{Client, framed, status_of};
use crate::life::{LONG, SIGTERM, slow, until};
use crate::messages::{InferParameter, ModelInferRequest, ModelInferResponse, one_input};
use crate::running::Running;

/// A request on a matrix of `rows` rows.
fn request(rows: usize) -> ModelInferRequest {
    let mut request = one_input("slow", "x", "FP32", &[rows as i64, rows as i64]);
    request.raw_input_contents = vec![vec![0; rows * rows * 4]];
    request
}

/// The same with a time limit in microseconds.
fn limited(rows: usize, micros: i64) -> ModelInferRequest {
    let mut request = request(rows);
    let limit = InferParameter { int64_param: Some(micros), ..InferParameter::default() };
    request.parameters.insert("timeout".to_owned(), limit);
    request
}

/// Sends a request on a connection and a thread of its own.
fn send(server: &Running, request: ModelInferRequest) -> JoinHandle<Result<ModelInferResponse, Status>> {
    let client = Client::of(server);
    std::thread::spawn(move || client.infer(request))
}

fn outcome(name: &str) -> String {
    format!("kiln_requests_total{{model=\"slow\",version=\"1\",outcome=\"{name}\"}}")
}

#[test]
fn a_full_queue_refuses_at_once() {
    let folder = slow();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1", "--queue", "1"]);
    let running = send(&server, limited(LONG, 2_000_000));
    until(&server, "kiln_requests_running", 1);
    let waiting = send(&server, limited(LONG, 2_000_000));
    until(&server, "kiln_queue_length", 1);
    let client = Client::of(&server);
    let begun = Instant::now();
    let refused = client.infer(request(2)).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("1 requests wait already"), "{refused}");
    for sent in [running, waiting] {
        // On a fast machine the first may be done before its time is over.
        drop(sent.join().unwrap());
    }
    // A request that is out of time has its answer before its lane has let it go.
    until(&server, "kiln_queue_length", 0);
    client.infer(request(2)).unwrap();
    until(&server, &outcome("full"), 1);
}

#[test]
fn a_call_that_is_given_up_stops_and_its_connection_serves_on() {
    let folder = slow();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let client = Client::of(&server);
    client.infer_and_go(request(LONG), Duration::from_millis(300));
    until(&server, &outcome("cancelled"), 1);
    let begun = Instant::now();
    until(&server, "kiln_requests_running", 0);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    client.infer(request(2)).unwrap();

    // A client whose process ends is the same.
    let sent = send(&server, request(LONG));
    until(&server, "kiln_requests_running", 1);
    drop(server);
    assert!(sent.join().unwrap().is_err());
}

#[test]
fn a_time_limit_ends_what_runs_and_what_waits() {
    let folder = slow();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let begun = Instant::now();
    let running = send(&server, limited(LONG, 300_000));
    until(&server, "kiln_requests_running", 1);
    let waiting = Client::of(&server).infer(limited(2, 20_000)).unwrap_err();
    assert_eq!(waiting.code(), Code::DeadlineExceeded, "{waiting}");
    assert_eq!(running.join().unwrap().unwrap_err().code(), Code::DeadlineExceeded);
    // The limit of a client that leaves its enforcement to the server.
    let headers = [("content-type", "application/grpc"), ("grpc-timeout", "200m")];
    let message = framed(&request(LONG).encode_to_vec());
    let (status, sentence) = status_of(&server, "/inference.GRPCInferenceService/ModelInfer", &headers, &message);
    assert_eq!((status.as_str(), sentence.as_str()), ("4", "the time limit of the request has passed"));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    until(&server, &outcome("timed_out"), 3);
}

#[test]
fn sigterm_answers_what_is_in_hand_and_refuses_what_comes_then() {
    let folder = slow();
    let mut server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let late = Client::of(&server);
    late.infer(request(2)).unwrap();
    // Its thread is done a moment after its answer is there.
    until(&server, "kiln_requests_running", 0);
    let running = send(&server, request(256));
    until(&server, "kiln_requests_running", 1);
    server.signal(SIGTERM);
    assert_eq!(server.line(), "ending: requests in hand are answered");
    assert!(std::net::TcpStream::connect(&server.grpc).is_err(), "no new connections");
    let refused = late.infer(request(2)).unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    // An answer larger than a connection's first window arrives whole: the socket is not closed before its client has
    // read it.
    running.join().unwrap().unwrap();
    assert_eq!(server.line(), "ended");
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn rest_is_served_alone_where_it_is_asked_for() {
    let folder = slow();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1", "--no-grpc"]);
    assert_eq!((server.grpc.as_str(), server.get("/v2/health/ready").status), ("", 200));
}
