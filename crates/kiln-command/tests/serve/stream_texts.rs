//! Texts of a language model by ModelStreamInfer, on a model that says the [alphabet](crate::alphabet).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tonic::Code;

use crate::client::Client;
use crate::language::{models, post, server};
use crate::life::{SIGTERM, until};
use crate::messages::{InferInputTensor, InferParameter, ModelInferRequest, ModelStreamInferResponse, one_input};
use crate::proto;

/// A text as raw contents have it.
fn raw(text: &str) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_le_bytes(), text.as_bytes()].concat()
}

/// A request for a text, whole or in pieces.
fn asked(id: &str, prompt: &str, settings: &Value, is_stream: bool) -> ModelInferRequest {
    let mut request = one_input("abc", "text_input", "BYTES", &[1]);
    request.id = id.to_owned();
    for (name, datatype) in [("stream", "BOOL"), ("sampling_parameters", "BYTES")] {
        let (name, datatype) = (name.to_owned(), datatype.to_owned());
        request.inputs.push(InferInputTensor { name, datatype, shape: vec![1], ..InferInputTensor::default() });
    }
    request.raw_input_contents = vec![raw(prompt), vec![is_stream.into()], raw(&settings.to_string())];
    request
}

/// What was said to each request, by its id, in the order of arrival.
#[track_caller]
fn told(answers: Vec<ModelStreamInferResponse>) -> BTreeMap<String, Vec<String>> {
    let (mut told, mut over): (BTreeMap<String, Vec<String>>, Vec<String>) = (BTreeMap::new(), Vec::new());
    for answer in answers {
        assert_eq!(answer.error_message, "");
        let answer = answer.infer_response.unwrap();
        assert!(!over.contains(&answer.id), "nothing comes behind the last answer of {}", answer.id);
        let text = String::from_utf8(answer.raw_output_contents[0][4..].to_vec()).unwrap();
        if answer.parameters["triton_final_response"].bool_param.unwrap() {
            over.push(answer.id.clone());
        }
        told.entry(answer.id).or_default().push(text);
    }
    assert_eq!(over.len(), told.len(), "each has a last answer");
    told
}

#[test]
fn pieces_join_to_the_text_that_rest_gives() {
    let models = models();
    let server = server(&models, &["--texts", "3"]);
    let settings = [
        json!({"max_tokens": 4}),
        json!({"stop": "k"}),
        json!({"max_tokens": 6, "temperature": 1.5, "top_k": 5, "seed": 9, "repetition_penalty": 1.25}),
    ];
    let mut expected = BTreeMap::new();
    let mut requests = Vec::new();
    for (place, settings) in settings.iter().enumerate() {
        for prompt in ["a", "h", "x"] {
            let body = json!({"text_input": prompt, "parameters": settings});
            let text = post(&server, "/v2/models/abc/generate", &body).json()["text_output"].clone();
            for is_stream in [true, false] {
                let id = format!("{prompt} {place} {is_stream}");
                requests.push(asked(&id, prompt, settings, is_stream));
                expected.insert(id, text.as_str().unwrap().to_owned());
            }
        }
    }
    for client in [Client::of(&server), Client::of_gzip(&server)] {
        let (answers, status) = client.stream(requests.clone(), &[]);
        assert_eq!(status.code(), Code::Ok, "{status}");
        let told = told(answers);
        let texts: BTreeMap<String, String> = told.iter().map(|(id, pieces)| (id.clone(), pieces.concat())).collect();
        assert_eq!(texts, expected);
        assert_eq!(told["a 0 true"], ["b", "c", "d", "e", ""], "a piece as soon as it is there");
        assert!(told.iter().all(|(id, pieces)| id.ends_with("true") || pieces.len() == 1), "{told:?}");
    }
}

#[test]
fn metadata_has_what_a_stream_takes_and_one_request_alone_is_refused() {
    let models = models();
    let server = server(&models, &[]);
    let client = Client::of(&server);
    let of = || proto::ModelRequest { name: "abc".to_owned(), version: String::new() };
    let metadata: proto::ModelMetadataResponse = client.call("ModelMetadata", of()).unwrap();
    let ports: Vec<(&str, &str, &[i64])> = (metadata.inputs.iter().chain(&metadata.outputs))
        .map(|port| (port.name.as_str(), port.datatype.as_str(), port.shape.as_slice()))
        .collect();
    let expected = [
        ("text_input", "BYTES"),
        ("stream", "BOOL"),
        ("sampling_parameters", "BYTES"),
        ("exclude_input_in_output", "BOOL"),
        ("text_output", "BYTES"),
    ];
    assert_eq!(ports, expected.map(|(name, datatype)| (name, datatype, &[1][..])));
    let config: proto::ModelConfigResponse = client.call("ModelConfig", of()).unwrap();
    let config = config.config.unwrap();
    assert!(config.model_transaction_policy.unwrap().decoupled);
    assert_eq!(config.input.iter().map(|port| port.optional).collect::<Vec<_>>(), [false, true, true, true]);
    let config = server.get("/v2/models/abc/config").json();
    assert_eq!((&config["input"][1]["optional"], &config["output"][0]["optional"]), (&json!(true), &Value::Null));
    let refused = client.infer(asked("", "a", &json!({}), false)).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    for way in ["ModelStreamInfer", "/v1/completions", "/v2/models/abc/generate"] {
        assert!(refused.message().contains(way), "{refused}");
    }
}

#[test]
fn queues_and_time_limits_hold_for_texts() {
    let models = models();
    let server = server(&models, &["--texts", "1", "--queue", "2"]);
    let client = Client::of(&server);
    let mut late = asked("late", "a", &json!({}), true);
    let limit = InferParameter { int64_param: Some(1), ..InferParameter::default() };
    late.parameters.insert("timeout".to_owned(), limit);
    let (answers, status) = client.stream(vec![late], &[]);
    assert_eq!((answers.len(), status.code()), (1, Code::Ok), "{status}");
    assert!(answers[0].error_message.contains("time limit"), "{answers:?}");
    let answer = answers[0].infer_response.as_ref().unwrap();
    assert_eq!(answer.id, "late");
    assert_eq!(answer.parameters["triton_final_response"].bool_param, Some(true));
    let many = (0..60).map(|place| asked(&place.to_string(), "a", &json!({"max_tokens": 40}), false)).collect();
    let (answers, status) = client.stream(many, &[]);
    assert_eq!((answers.len(), status.code()), (60, Code::Ok), "{status}");
    let (refused, told): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| !answer.error_message.is_empty());
    assert!(!told.is_empty() && !refused.is_empty(), "{} and {}", told.len(), refused.len());
    assert!(refused.iter().all(|answer| answer.error_message.contains("wait")), "{refused:?}");
}

#[test]
fn a_stream_that_is_closed_leaves_room_for_others() {
    let models = models();
    let server = server(&models, &["--texts", "1", "--queue", "100"]);
    let client = Client::of(&server);
    let many = (0..64).map(|place| asked(&place.to_string(), "a", &json!({"max_tokens": 40}), true)).collect();
    // The stream stays open until it is given up, with its answers unread.
    client.stream_and_go(many, Duration::from_millis(20));
    for state in ["running", "waiting"] {
        until(&server, &format!("kiln_texts{{model=\"abc\",version=\"1\",state=\"{state}\"}}"), 0);
    }
    let (answers, status) = client.stream(vec![asked("b", "a", &json!({"max_tokens": 2}), false)], &[]);
    assert_eq!(status.code(), Code::Ok, "{status}");
    assert_eq!(told(answers)["b"], ["bc"]);
}

#[test]
fn the_end_of_the_server_says_texts_in_hand_to_their_end() {
    let models = models();
    let mut server = server(&models, &["--texts", "1", "--queue", "100"]);
    let client = Client::of(&server);
    // The server takes 64 requests at a time: its end comes before the last.
    let many = (0..20_000).map(|place| asked(&place.to_string(), "a", &json!({"max_tokens": 40}), true)).collect();
    let (answers, status) = client.open_stream(many, || server.signal(SIGTERM));
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains("the server is ending"), "{status}");
    let told = told(answers);
    assert!((64..20_000).contains(&told.len()), "{}", told.len());
    let whole = "bcdefghijklmnopqrstuvwxyz\u{e4}!";
    assert!(told.values().all(|pieces| pieces.concat() == whole), "{told:?}");
    drop(client);
    assert_eq!(server.line(), "ending: requests in hand are answered");
    assert_eq!(server.line(), "ended");
    assert_eq!(server.wait(), Some(0));
}
