//! ModelStreamInfer: many requests in one call, answered in their order.

use std::time::{Duration, Instant};

use tonic::Code;

use crate::client::Client;
use crate::life::{LONG, SIGTERM, metric, slow, until};
use crate::messages::{InferParameter, ModelInferRequest, ModelStreamInferResponse, one_input};
use crate::running::Running;

/// A request of the small model on one row.
fn small(id: &str, value: f32) -> ModelInferRequest {
    let mut request = one_input("dense", "x", "FP32", &[1, 2]);
    request.id = id.to_owned();
    request.raw_input_contents = vec![[value, 1.0].iter().flat_map(|value| value.to_le_bytes()).collect()];
    request
}

/// A request that takes a second or more, with a time limit in microseconds where it is not 0.
fn long(id: &str, micros: i64) -> ModelInferRequest {
    let mut request = one_input("slow", "x", "FP32", &[LONG as i64, LONG as i64]);
    request.id = id.to_owned();
    request.raw_input_contents = vec![vec![0; LONG * LONG * 4]];
    let limit = InferParameter { int64_param: Some(micros), ..InferParameter::default() };
    request.parameters.insert("timeout".to_owned(), limit);
    request
}

fn id(answer: &ModelStreamInferResponse) -> &str {
    answer.infer_response.as_ref().map_or("", |answer| &answer.id)
}

fn outcome(model: &str, name: &str) -> String {
    format!("kiln_requests_total{{model=\"{model}\",version=\"1\",outcome=\"{name}\"}}")
}

#[test]
fn each_request_is_answered_in_its_turn_and_a_wrong_one_by_its_sentence() {
    let folder = slow();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "2"]);
    for client in [Client::of(&server), Client::of_gzip(&server)] {
        let mut wrong = small("wrong", 0.0);
        wrong.inputs[0].name = "z".to_owned();
        let mut unknown = small("unknown", 0.0);
        unknown.model_name = "none".to_owned();
        // The first is the last to be done.
        let mut slow = long("slow", 0);
        slow.inputs[0].shape = vec![100, 100];
        slow.raw_input_contents = vec![vec![0; 100 * 100 * 4]];
        let requests = vec![slow, wrong, small("a", 0.5), unknown, small("b", 2.0)];
        let plain = requests.clone();
        let (answers, status) = client.stream(requests, &[]);
        assert_eq!(status.code(), Code::Ok, "{status}");
        assert_eq!(answers.iter().map(id).collect::<Vec<_>>(), ["slow", "wrong", "a", "unknown", "b"]);
        for (answer, request) in answers.into_iter().zip(plain) {
            match client.infer(request) {
                Err(refused) => assert_eq!(answer.error_message, refused.message()),
                Ok(expected) => {
                    let mut found = answer.infer_response.unwrap();
                    assert_eq!(answer.error_message, "");
                    assert_eq!(found.parameters.remove("triton_final_response").unwrap().bool_param, Some(true));
                    assert_eq!(found, expected);
                }
            }
        }
    }
    // More than are taken at a time.
    let many: Vec<ModelInferRequest> = (0..300).map(|place| small(&place.to_string(), place as f32)).collect();
    let (answers, status) = Client::of(&server).stream(many, &[]);
    assert_eq!(status.code(), Code::Ok, "{status}");
    assert!(answers.iter().map(id).eq((0..300).map(|place| place.to_string())));
    assert!(answers.iter().all(|answer| answer.error_message.is_empty()));
    // A stream without requests.
    let (answers, status) = Client::of(&server).stream(Vec::new(), &[]);
    assert_eq!((answers.len(), status.code()), (0, Code::Ok));
}

#[test]
fn a_client_may_ask_that_a_wrong_request_ends_the_stream() {
    let folder = slow();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let mut unknown = small("", 0.0);
    unknown.model_name = "none".to_owned();
    let requests = vec![small("a", 1.0), unknown, small("b", 1.0)];
    let (answers, status) = Client::of(&server).stream(requests, &[("triton_grpc_error", "true")]);
    assert_eq!((answers.len(), status.code()), (1, Code::NotFound), "{status}");
    assert!(status.message().contains("no model 'none'"), "{status}");
}

#[test]
fn the_queue_and_time_limits_hold_for_each_request() {
    let folder = slow();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1", "--queue", "1"]);
    let requests = vec![long("a", 300_000), long("b", 20_000), small("c", 1.0)];
    let (answers, status) = Client::of(&server).stream(requests, &[]);
    assert_eq!(status.code(), Code::Ok, "{status}");
    assert_eq!(answers.iter().map(id).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(answers[0].error_message.contains("time limit"), "{answers:?}");
    assert!(answers[1].error_message.contains("time limit"), "{answers:?}");
    assert!(answers[2].error_message.contains("wait already"), "{answers:?}");
    assert_eq!(metric(&server, &outcome("dense", "full")), 1);
    // The time limit of the stream as a whole.
    until(&server, "kiln_requests_running", 0);
    let (answers, status) = Client::of(&server).stream(vec![long("a", 0)], &[("grpc-timeout", "200m")]);
    assert_eq!(answers.len(), 0);
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status}");
    until(&server, "kiln_requests_running", 0);
}

#[test]
fn a_stream_that_is_closed_gives_up_what_is_in_hand() {
    let folder = slow();
    let server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let client = Client::of(&server);
    client.stream_and_go(vec![long("a", 0), long("b", 0)], Duration::from_millis(300));
    until(&server, &outcome("slow", "cancelled"), 2);
    let begun = Instant::now();
    until(&server, "kiln_requests_running", 0);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    client.infer(small("", 1.0)).unwrap();
}

#[test]
fn the_end_of_the_server_answers_what_is_in_hand_and_ends_the_stream() {
    let folder = slow();
    let mut server = Running::ready(&folder.path().join("models"), &["--threads", "1"]);
    let client = Client::of(&server);
    // The stream stays open: only the server ends it.
    let (answers, status) = client.open_stream(vec![long("a", 1_000_000)], || {
        until(&server, "kiln_requests_running", 1);
        server.signal(SIGTERM);
    });
    assert_eq!(answers.iter().map(id).collect::<Vec<_>>(), ["a"]);
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains("the server is ending"), "{status}");
    drop(client);
    assert_eq!(server.line(), "ending: requests in hand are answered");
    assert_eq!(server.line(), "ended");
    assert_eq!(server.wait(), Some(0));
}
