//! Texts of a language model as clients of OpenAI's interface and of Triton get them from `kiln serve`, on a model that
//! says the [alphabet](crate::alphabet).

use std::fs;
use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::alphabet;
use crate::command::kiln;
use crate::running::{Answer, Running};

/// A folder of models that has the alphabet and a template for chats.
pub(crate) fn models() -> TempDir {
    let all = tempfile::tempdir().unwrap();
    let folder = all.path().join("models/abc");
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(alphabet::folder().path()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    let template = "{% for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}";
    let config = json!({"bos_token": "<s>", "chat_template": template});
    fs::write(folder.join("tokenizer_config.json"), config.to_string()).unwrap();
    all
}

pub(crate) fn server(models: &TempDir, flags: &[&str]) -> Running {
    Running::ready(&models.path().join("models"), &[&["--threads", "2"], flags].concat())
}

pub(crate) fn post(server: &Running, path: &str, body: &Value) -> Answer {
    server.ask("POST", path, "", body.to_string().as_bytes())
}

/// The text and why it ended, of each choice.
#[track_caller]
fn completed(server: &Running, body: &Value) -> Vec<(String, String)> {
    let answer = post(server, "/v1/completions", body);
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let choices = answer.json()["choices"].as_array().unwrap().clone();
    choices.iter().map(|choice| (text(&choice["text"]), text(&choice["finish_reason"]))).collect()
}

fn said(text: &str, reason: &str) -> (String, String) {
    (text.to_owned(), reason.to_owned())
}

/// The body of an answer in chunks.
fn unchunked(body: &[u8]) -> String {
    let (mut whole, mut rest) = (Vec::new(), body);
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        whole.extend_from_slice(&rest[end + 2..][..size]);
        rest = &rest[end + 2 + size + 2..];
    }
    String::from_utf8(whole).unwrap()
}

#[test]
fn completions_say_what_the_command_says() {
    let models = models();
    let server = server(&models, &[]);
    let folder = models.path().join("models/abc");
    for prompt in ["a", "m", "x", "Zebra"] {
        let flags = ["--prompt", prompt, "--max-tokens", "20", "--cache-mode", "memory"];
        let command = kiln(["generate", folder.to_str().unwrap()].iter().chain(&flags).map(|&arg| arg.to_owned()));
        let text = command.stdout.strip_suffix('\n').unwrap();
        let [(served, reason)] = &completed(&server, &json!({"model": "abc", "prompt": prompt, "max_tokens": 20}))[..]
        else {
            panic!("one choice")
        };
        assert_eq!(served, text);
        assert_eq!(reason, if text.ends_with('!') { "stop" } else { "length" });
    }
    let tokens = json!({"prompt": [[1, alphabet::byte(b'w')]], "max_tokens": 2});
    assert_eq!(completed(&server, &tokens), [said("xy", "length")], "tokens are a prompt, too");
    assert_eq!(completed(&server, &json!({"prompt": "w", "stop": ["y"]})), [said("x", "stop")]);
    let context = json!({"prompt": "a".repeat(40), "max_tokens": 100});
    assert_eq!(completed(&server, &context)[0].0, "bcdefgh", "48 tokens, the one that begins a text among them");
}

#[test]
fn texts_that_run_together_say_what_each_says_alone() {
    let models = models();
    let server = server(&models, &["--texts", "3"]);
    let prompts: Vec<String> = (b'a'..=b'v').map(|first| char::from(first).to_string()).collect();
    let alone: Vec<_> = prompts
        .iter()
        .flat_map(|prompt| {
            completed(&server, &json!({"prompt": prompt, "max_tokens": 4, "temperature": 1.5, "seed": 9}))
        })
        .collect();
    let body = json!({"prompt": prompts, "max_tokens": 4, "temperature": 1.5, "seed": 9});
    assert_eq!(completed(&server, &body), alone);
    assert!(alone.iter().any(|(text, _)| !"bcdefghijklmnopqrstuvwxyz\u{e4}!".contains(text.as_str())), "it draws");
    let greedy = json!({"prompt": "a", "max_tokens": 4, "n": 5, "temperature": 0, "seed": 3});
    assert_eq!(completed(&server, &greedy), vec![said("bcde", "length"); 5]);
}

#[test]
fn chats_go_through_the_template_and_come_in_whole_characters() {
    let models = models();
    let server = server(&models, &[]);
    let messages = json!([{"role": "system", "content": "be brief"}, {"role": "user", "content": "x"}]);
    let answer = post(&server, "/v1/chat/completions", &json!({"model": "abc", "messages": messages}));
    let answer = answer.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "yz\u{e4}!");
    let usage = json!({"prompt_tokens": 23, "completion_tokens": 6, "total_tokens": 29});
    assert_eq!(answer["usage"], usage, "bytes are tokens, and so is the end");
    let body = json!({"model": "abc", "messages": messages, "stream": true});
    let answer = post(&server, "/v1/chat/completions", &body);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    let events = unchunked(&answer.body);
    assert!(events.ends_with("data: [DONE]\n\n"));
    let contents: Vec<Value> = events
        .split("\n\n")
        .filter_map(|event| serde_json::from_str::<Value>(event.strip_prefix("data: ")?).ok())
        .filter_map(|event| event["choices"][0]["delta"].get("content").cloned())
        .collect();
    assert_eq!(contents, ["", "y", "z", "\u{e4}", "!"]);
    fs::remove_file(models.path().join("models/abc/tokenizer_config.json")).unwrap();
    assert_eq!(server.ask("POST", "/v2/repository/models/abc/load", "", b"").status, 200);
    let answer = post(&server, "/v1/chat/completions", &json!({"model": "abc", "messages": messages}));
    let refused = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(answer.status == 400 && refused.contains("no chat template"), "{refused}");
}

#[test]
fn what_cannot_be_continued_is_refused() {
    let models = models();
    let server = server(&models, &["--texts", "1", "--queue", "2"]);
    let refused = |status: u16, body: Value| {
        let answer = post(&server, "/v1/completions", &body);
        assert_eq!(answer.status, status, "{}", String::from_utf8_lossy(&answer.body));
        answer.json()["error"]["message"].as_str().unwrap().to_owned()
    };
    assert!(refused(400, json!({"prompt": "a".repeat(60)})).contains("61 tokens"));
    assert!(refused(400, json!({"prompt": "a", "top_p": 7})).contains("top_p"));
    assert!(refused(400, json!({"prompt": "a", "temperature": -1})).contains("temperature"));
    // A token that the model does not have ends its own text alone.
    assert!(refused(400, json!({"prompt": [1, 9999]})).contains("9999"));
    assert_eq!(completed(&server, &json!({"prompt": "a", "n": 3, "max_tokens": 1})), vec![said("b", "length"); 3]);
    let late = server.ask("POST", "/v1/completions", "Kiln-Timeout-Us: 1\r\n", br#"{"prompt": "a"}"#);
    assert_eq!((late.status, &late.json()["error"]["type"]), (504, &json!("timeout_error")));
    let tensors = json!({"inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["a"]}]});
    let answer = post(&server, "/v2/models/abc/infer", &tensors);
    assert!(answer.refused(400).contains("/v1/completions"));
    assert!(
        refused(429, json!({"prompt": "a", "n": 60, "max_tokens": 40})).contains("1 texts are continued and 2 wait")
    );
}

#[test]
fn a_folder_of_the_builder_may_have_the_name_of_exporters_folders() {
    let models = models();
    fs::rename(models.path().join("models/abc"), models.path().join("models/onnx")).unwrap();
    let served = server(&models, &[]);
    assert_eq!(completed(&served, &json!({"model": "onnx", "prompt": "w"})), [said("xyz\u{e4}!", "stop")]);
}

#[test]
fn folders_of_optimum_and_transformers_js_are_language_models() {
    let models = models();
    let folder = models.path().join("models/abc");
    let path = |name: &str| folder.join(name);
    fs::remove_file(path("genai_config.json")).unwrap();
    fs::create_dir(path("onnx")).unwrap();
    fs::rename(path("model.onnx"), path("onnx/model.onnx")).unwrap();
    let config =
        json!({"architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "n_positions": 64});
    fs::write(path("config.json"), config.to_string()).unwrap();
    // Another file of the folder, in another precision for instance, is named.
    fs::copy(path("onnx/model.onnx"), path("onnx/model_q4.onnx")).unwrap();
    let named = format!("other={}", path("onnx/model_q4.onnx").display());
    let served = server(&models, &["--model", &named]);
    for model in ["abc", "other"] {
        assert_eq!(completed(&served, &json!({"model": model, "prompt": "w"})), [said("xyz\u{e4}!", "stop")]);
    }
    drop(served);
    // A folder of another architecture is served as tensors.
    fs::write(path("config.json"), r#"{"architectures": ["BertModel"]}"#).unwrap();
    let served = server(&models, &[]);
    let metadata = served.get("/v2/models/abc").json();
    assert_eq!(metadata["inputs"][0]["name"], "input_ids");
    drop(served);
    // A fault of the settings is told.
    fs::write(path("config.json"), config.to_string()).unwrap();
    fs::write(path("generation_config.json"), r#"{"num_beams": 4}"#).unwrap();
    let refused = kiln(["serve", models.path().join("models").to_str().unwrap(), "--port", "0", "--no-grpc"]);
    refused.fails(2, &["abc", "num_beams is 4"]);
}

#[test]
fn triton_s_clients_read_what_it_is_and_generate() {
    let models = models();
    let server = server(&models, &[]);
    let metadata = server.get("/v2/models/abc").json();
    assert_eq!(metadata["inputs"][0], json!({"name": "text_input", "datatype": "BYTES", "shape": [1]}));
    let names: Vec<&Value> = metadata["inputs"].as_array().unwrap().iter().map(|port| &port["name"]).collect();
    assert_eq!(names, ["text_input", "stream", "sampling_parameters", "exclude_input_in_output"]);
    assert_eq!(metadata["outputs"], json!([{"name": "text_output", "datatype": "BYTES", "shape": [1]}]));
    let body = json!({"text_input": "x", "parameters": {"max_tokens": 4}});
    let answer = post(&server, "/v2/models/abc/generate", &body).json();
    assert_eq!(answer, json!({"model_name": "abc", "model_version": "1", "text_output": "yz\u{e4}"}));
    let events = unchunked(&post(&server, "/v2/models/abc/generate_stream", &body).body);
    let said: String = events
        .split_terminator("\n\n")
        .map(|event| serde_json::from_str::<Value>(event.strip_prefix("data: ").unwrap()).unwrap())
        .map(|event| event["text_output"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(said, "yz\u{e4}");
    let listed = server.get("/v1/models").json();
    assert_eq!((&listed["data"][0]["id"], &listed["data"][0]["object"]), (&json!("abc"), &json!("model")));
}

#[test]
fn a_client_that_goes_leaves_room_for_others() {
    let models = models();
    let server = server(&models, &["--texts", "1", "--queue", "1"]);
    let body = json!({"prompt": "a", "n": 2, "max_tokens": 40, "stream": true}).to_string();
    for _ in 0..20 {
        let mut stream = server.send("POST", "/v1/completions", "", body.as_bytes());
        let mut first = [0; 1];
        stream.read_exact(&mut first).unwrap();
    }
    let line = "kiln_texts{model=\"abc\",version=\"1\",state=\"running\"} 0";
    let begun = Instant::now();
    while !String::from_utf8_lossy(&server.get("/metrics").body).contains(line) {
        assert!(begun.elapsed() < Duration::from_secs(60), "texts that are not wanted go on");
    }
    assert_eq!(completed(&server, &json!({"prompt": "a", "max_tokens": 2})), [said("bc", "length")]);
}

#[test]
fn texts_in_hand_are_said_to_their_end_when_the_server_ends() {
    let models = models();
    let server = server(&models, &[]);
    let stream = server.send("POST", "/v1/completions", "", br#"{"prompt": "a", "max_tokens": 40, "stream": true}"#);
    let mut head = [0; 15];
    (&stream).read_exact(&mut head).unwrap();
    server.signal(15);
    assert_eq!(server.wait(), Some(0));
    let mut rest = String::new();
    (&stream).read_to_string(&mut rest).unwrap();
    assert!(rest.contains("data: [DONE]"), "{rest}");
}
