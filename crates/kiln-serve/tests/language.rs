//! Texts of a language model, as clients of OpenAI's interface and of Triton request them, with a model that repeats
//! the words of its prompt.

#[allow(dead_code, reason = "of what it tells tests, some is needed here")]
#[path = "models/parrot.rs"]
mod parrot;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use kiln_serve::Said;
use parrot::Begun;
use serde_json::{Value, json};

/// A server of parrots with these names, and the texts that they hold.
fn server(names: &[&str]) -> (SocketAddr, mpsc::Receiver<Begun>) {
    let (addresses, holds) = parrot::server(names, 4);
    (addresses.rest, holds)
}

fn send(address: SocketAddr, path: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (method, body) = if body.is_null() { ("GET", String::new()) } else { ("POST", body.to_string()) };
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    // A server may answer and close before it has read the whole request.
    let _ = stream.write_all(body.as_bytes());
    stream
}

/// The status, the type and the body, chunks put together.
fn read(mut stream: TcpStream) -> (u16, String, String) {
    let mut answer = Vec::new();
    // A connection that is reset after the answer was sent has still delivered it.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, mut body) = answer.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    let kind = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap().to_owned();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    if !head.contains("transfer-encoding: chunked") {
        return (status, kind, body.to_owned());
    }
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    (status, kind, whole)
}

fn ask(address: SocketAddr, path: &str, body: &Value) -> (u16, Value) {
    let (status, kind, body) = read(send(address, path, body));
    assert_eq!(kind, "application/json");
    (status, serde_json::from_str(&body).unwrap())
}

fn metrics(address: SocketAddr) -> String {
    read(send(address, "/metrics", &Value::Null)).2
}

/// The data of all events.
fn events(body: &str) -> Vec<Value> {
    let events = body.strip_suffix("\n\n").unwrap().split("\n\n").map(|event| event.strip_prefix("data: ").unwrap());
    events.map(|data| serde_json::from_str(data).unwrap_or_else(|_| json!(data))).collect()
}

#[test]
fn completions_come_whole_with_their_counts() {
    let (address, _holds) = server(&["m"]);
    let body = json!({"model": "m", "prompt": ["a b c", "d"], "n": 2, "max_tokens": 2});
    let (status, answer) = ask(address, "/v1/completions", &body);
    assert_eq!((status, &answer["object"], &answer["model"]), (200, &json!("text_completion"), &json!("m")));
    let choices = answer["choices"].as_array().unwrap();
    let said: Vec<(u64, &str, &str)> = choices
        .iter()
        .map(|choice| {
            let reason = choice["finish_reason"].as_str().unwrap();
            (choice["index"].as_u64().unwrap(), choice["text"].as_str().unwrap(), reason)
        })
        .collect();
    assert_eq!(said, [(0, "a b ", "length"), (1, "a b ", "length"), (2, "d ", "stop"), (3, "d ", "stop")]);
    let usage = json!({"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10});
    assert_eq!(answer["usage"], usage, "a prompt counts once, what is said of it each time");
    let tokens = json!({"prompt": [[1, 2], [3]]});
    let (_, answer) = ask(address, "/v1/completions", &tokens);
    assert_eq!(answer["choices"][0]["text"], "<1> <2> ", "one language model needs no name");
    let metrics = metrics(address);
    for line in [
        "kiln_requests_total{model=\"m\",version=\"1\",outcome=\"ok\"} 2",
        "kiln_tokens_total{model=\"m\",version=\"1\",kind=\"prompt\"} 7",
        "kiln_tokens_total{model=\"m\",version=\"1\",kind=\"said\"} 9",
        "kiln_texts{model=\"m\",version=\"1\",state=\"waiting\"} 3",
        "kiln_first_piece_seconds_count{model=\"m\",version=\"1\"} 2",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
}

#[test]
fn chats_are_answered_in_pieces() {
    let (address, _holds) = server(&["m"]);
    let messages = json!([{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]);
    let (status, answer) = ask(address, "/v1/chat/completions", &json!({"model": "m", "messages": messages}));
    assert_eq!((status, &answer["object"]), (200, &json!("chat.completion")));
    assert_eq!(answer["choices"][0]["message"], json!({"role": "assistant", "content": "system:x user:y "}));
    let body = json!({"messages": messages, "stream": true, "stream_options": {"include_usage": true}});
    let (status, kind, body) = read(send(address, "/v1/chat/completions", &body));
    assert_eq!((status, kind.as_str()), (200, "text/event-stream"));
    let events = events(&body);
    let deltas: Vec<&Value> = events[..4].iter().map(|event| &event["choices"][0]["delta"]).collect();
    let said =
        [json!({"role": "assistant", "content": ""}), json!({"content": "system:x "}), json!({"content": "user:y "})];
    assert_eq!(deltas, [&said[0], &said[1], &said[2], &json!({})]);
    assert!(events[..3].iter().all(|event| event["choices"][0]["finish_reason"].is_null()));
    assert_eq!(events[3]["choices"][0]["finish_reason"], "stop");
    assert!(
        events[..5].iter().all(|event| event["object"] == "chat.completion.chunk" && event["id"] == events[0]["id"])
    );
    assert_eq!((&events[4]["choices"], &events[4]["usage"]["completion_tokens"]), (&json!([]), &json!(2)));
    assert_eq!(events[5..], [json!("[DONE]")]);
}

#[test]
fn triton_s_clients_generate() {
    let (address, _holds) = server(&["m"]);
    let body = json!({"text_input": "a b c", "parameters": {"max_tokens": 2, "stream": false}});
    let expected = json!({"model_name": "m", "model_version": "1", "text_output": "a b "});
    assert_eq!(ask(address, "/v2/models/m/generate", &body), (200, expected));
    let (status, kind, body) = read(send(address, "/v2/models/m/versions/1/generate_stream", &body));
    assert_eq!((status, kind.as_str()), (200, "text/event-stream"));
    let said: Vec<Value> = events(&body).iter().map(|event| event["text_output"].clone()).collect();
    assert_eq!(said, ["a ", "b "]);
    let (_, config) = ask(address, "/v2/models/m/config", &Value::Null);
    assert_eq!(config["model_transaction_policy"]["decoupled"], true);
    let (status, refused) = ask(address, "/v2/models/m/infer", &json!({"inputs": []}));
    assert_eq!(status, 400);
    assert!(refused["error"].as_str().unwrap().contains("/v2/models/m/generate"));
}

#[test]
fn refusals_have_the_form_of_their_interface() {
    let (address, _holds) = server(&["m", "other"]);
    let error = |status: u16, body: Value| {
        let (found, answer) = ask(address, "/v1/completions", &body);
        assert_eq!(found, status, "{answer}");
        (answer["error"]["type"].as_str().unwrap().to_owned(), answer["error"]["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(error(400, json!({"model": "m", "prompt": "refuse"})).1, "it does not say that");
    assert_eq!(error(429, json!({"model": "m", "prompt": "full"})).0, "rate_limit_error");
    assert_eq!(error(404, json!({"model": "none", "prompt": "a"})).0, "not_found_error");
    assert!(error(400, json!({"prompt": "a"})).1.contains("'model' is missing"));
    assert!(error(400, json!({"model": "m", "prompt": "a", "stream": true, "tools": [{}]})).1.contains("'tools'"));
    let large = json!({"model": "m", "prompt": "a".repeat(5 << 20)});
    assert_eq!(error(413, large).0, "invalid_request_error");
    // One of several texts is refused: none goes on.
    assert_eq!(error(400, json!({"model": "m", "prompt": ["hold", "refuse"]})).1, "it does not say that");
    let (status, refused) = ask(address, "/v2/models/m/generate", &json!({}));
    assert_eq!((status, &refused["error"]), (400, &json!("'text_input' is missing")));
    let (status, listed) = ask(address, "/v1/models", &Value::Null);
    let names: Vec<&Value> = listed["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!((status, names), (200, vec![&json!("m"), &json!("other")]));
    assert_eq!(ask(address, "/v1/models/other", &Value::Null).1["object"], "model");
    assert_eq!(ask(address, "/v1/models/none", &Value::Null).0, 404);
}

#[test]
fn a_text_that_breaks_off_says_so() {
    let (address, _holds) = server(&["m"]);
    let (status, answer) = ask(address, "/v1/completions", &json!({"prompt": "break here"}));
    assert_eq!((status, &answer["error"]["message"]), (500, &json!("it broke")));
    let (status, _, body) = read(send(address, "/v1/completions", &json!({"prompt": "break here", "stream": true})));
    let events = events(&body);
    assert_eq!((status, events.len()), (200, 3), "what was said before was sent");
    assert_eq!(events[2]["error"]["message"], "it broke");
}

#[test]
fn a_text_whose_time_is_over_before_it_begins_is_refused_then() {
    let (address, holds) = server(&["m"]);
    // A text that is slow to begin holds the only lane; its model reads nothing meanwhile.
    let slow = send(address, "/v1/completions", &json!({"prompt": "slow"}));
    let until = Instant::now() + Duration::from_secs(60);
    while !metrics(address).lines().any(|line| line == "kiln_requests_running 1") {
        assert!(Instant::now() < until, "it has begun");
    }
    let mut late = TcpStream::connect(address).unwrap();
    let body = r#"{"prompt": "a"}"#;
    let head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nKiln-Timeout-Us: 20000\r\n";
    write!(late, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    assert_eq!(read(late).0, 504, "while the other still begins");
    drop(holds);
    assert_eq!(read(slow).0, 200);
}

#[test]
fn pieces_are_sent_as_they_come_and_a_client_that_goes_gives_its_text_up() {
    let (address, holds) = server(&["m"]);
    for body in [json!({"prompt": "hold", "stream": true}), json!({"prompt": "hold"})] {
        let is_stream = body["stream"] == true;
        let mut stream = send(address, "/v1/completions", &body);
        let (_, ticket, mut say) = holds.recv().unwrap();
        say(Said::Piece("first".to_owned()));
        if is_stream {
            let mut seen = Vec::new();
            while !String::from_utf8_lossy(&seen).contains("first") {
                let mut part = [0; 512];
                let count = stream.read(&mut part).unwrap();
                assert!(count > 0, "the connection is there");
                seen.extend_from_slice(&part[..count]);
            }
        }
        assert!(!ticket.is_cancelled());
        drop(stream);
        while !ticket.is_cancelled() {
            // A stream notices it when it writes.
            say(Said::Piece("more".to_owned()));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
