//! Texts of a language model by ModelStreamInfer, as clients of Triton's vLLM backend request them, with a model that
//! repeats the words of its prompt.

#[allow(dead_code, reason = "of the messages, some are needed here")]
#[path = "../../kiln-command/tests/serve/messages.rs"]
mod messages;
#[allow(dead_code, reason = "of what it tells tests, some is needed here")]
#[path = "models/parrot.rs"]
mod parrot;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use hyper::Request;
use kiln_serve::{Ending, Failure, Said, Say, Ticket, Why};
use messages::{InferInputTensor, InferParameter, InferTensorContents, ModelInferRequest, ModelStreamInferResponse};
use parrot::{Begun, server, text_of};
use prost::Message;

/// The longest that a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A call of ModelStreamInfer. A thread of its own drives its connection.
struct Call {
    runtime: tokio::runtime::Runtime,
    requests: SendStream<Bytes>,
    answers: RecvStream,
    read: VecDeque<u8>,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

impl Call {
    fn begin(address: SocketAddr, is_strict: bool) -> Call {
        let runtime = runtime();
        let (requests, answers) = runtime.block_on(async {
            let (ready, client) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || {
                move_connection(address, ready);
            });
            let client: h2::client::SendRequest<Bytes> = client.await.unwrap();
            let request = Request::post(format!("http://{address}/inference.GRPCInferenceService/ModelStreamInfer"));
            let request = request.header("content-type", "application/grpc");
            let request = if is_strict { request.header("triton_grpc_error", "true") } else { request };
            let request = request.body(()).unwrap();
            let (answer, requests) = client.ready().await.unwrap().send_request(request, false).unwrap();
            (requests, answer.await.unwrap().into_body())
        });
        Call { runtime, requests, answers, read: VecDeque::new() }
    }

    fn ask(&mut self, request: &ModelInferRequest) {
        let message = request.encode_to_vec();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        self.requests.send_data([&[0], &length[..], &message].concat().into(), false).unwrap();
    }

    /// The next answer; `None` at the end of the stream.
    fn next(&mut self) -> Option<ModelStreamInferResponse> {
        let Call { runtime, answers, read, .. } = self;
        let next = async {
            loop {
                let length = read.iter().skip(1).take(4).fold(0, |length, &byte| length << 8 | usize::from(byte));
                if read.len() >= 5 + length {
                    let message: Vec<u8> = read.drain(..5 + length).skip(5).collect();
                    return Some(ModelStreamInferResponse::decode(message.as_slice()).unwrap());
                }
                let data = answers.data().await?.unwrap();
                answers.flow_control().release_capacity(data.len()).unwrap();
                read.extend(data);
            }
        };
        runtime.block_on(async { tokio::time::timeout(PATIENCE, next).await.expect("an answer in time") })
    }

    /// The next answer, which must be a text: its id, the text, and whether it is the last.
    #[track_caller]
    fn said(&mut self) -> (String, String, bool) {
        let answer = self.next().expect("an answer");
        assert_eq!(answer.error_message, "");
        let answer = answer.infer_response.unwrap();
        assert_eq!((answer.model_name.as_str(), answer.model_version.as_str()), ("m", "1"));
        let [output] = &answer.outputs[..] else { panic!("one output") };
        let described = (output.name.as_str(), output.datatype.as_str(), output.shape.as_slice());
        assert_eq!(described, ("text_output", "BYTES", &[1][..]));
        let (length, text) = answer.raw_output_contents[0].split_at(4);
        assert_eq!(length, u32::try_from(text.len()).unwrap().to_le_bytes());
        let is_last = answer.parameters["triton_final_response"].bool_param.unwrap();
        (answer.id, String::from_utf8(text.to_vec()).unwrap(), is_last)
    }

    /// The next answer, which must be the last of its request and say why there is no text: its id and the sentence.
    #[track_caller]
    fn refused(&mut self) -> (String, String) {
        let answer = self.next().expect("an answer");
        let response = answer.infer_response.unwrap();
        assert_eq!(response.parameters["triton_final_response"].bool_param, Some(true));
        assert_eq!(response.outputs, []);
        assert_ne!(answer.error_message, "");
        (response.id, answer.error_message)
    }

    /// Sends no further requests, and returns the status of the call once it has ended.
    fn end(mut self) -> (String, String) {
        // A stream that has ended is closed in both directions.
        let _ = self.requests.send_data(Bytes::new(), true);
        assert_eq!(self.next(), None);
        let trailers = self.runtime.block_on(self.answers.trailers()).unwrap().unwrap();
        let text = |name: &str| trailers.get(name).map_or("", |value| value.to_str().unwrap()).replace("%20", " ");
        (text("grpc-status"), text("grpc-message"))
    }
}

/// Drives a connection until it ends.
fn move_connection(address: SocketAddr, ready: tokio::sync::oneshot::Sender<h2::client::SendRequest<Bytes>>) {
    runtime().block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        drop(ready.send(client));
        // The server may end it first.
        let _ = connection.await;
    });
}

fn bytes(name: &str, text: &str, shape: &[i64]) -> InferInputTensor {
    let contents = InferTensorContents { bytes_contents: vec![text.into()], ..InferTensorContents::default() };
    InferInputTensor { contents: Some(contents), ..input(name, "BYTES", shape) }
}

fn truth(name: &str, value: bool) -> InferInputTensor {
    let contents = InferTensorContents { bool_contents: vec![value], ..InferTensorContents::default() };
    InferInputTensor { contents: Some(contents), ..input(name, "BOOL", &[1]) }
}

fn input(name: &str, datatype: &str, shape: &[i64]) -> InferInputTensor {
    let (name, datatype) = (name.to_owned(), datatype.to_owned());
    InferInputTensor { name, datatype, shape: shape.to_vec(), ..InferInputTensor::default() }
}

fn asked(id: &str, inputs: Vec<InferInputTensor>) -> ModelInferRequest {
    ModelInferRequest { model_name: "m".to_owned(), id: id.to_owned(), inputs, ..ModelInferRequest::default() }
}

/// A request for a text in pieces.
fn pieces(id: &str, text: &str) -> ModelInferRequest {
    asked(id, vec![bytes("text_input", text, &[1]), truth("stream", true)])
}

fn said(id: &str, text: &str, is_last: bool) -> (String, String, bool) {
    (id.to_owned(), text.to_owned(), is_last)
}

fn end() -> Said {
    Said::End(Ending { why: Why::Stop, tokens: 1 })
}

/// The texts that the model has begun, by prompt.
fn held(holds: &Receiver<Begun>, count: usize) -> BTreeMap<String, (Arc<Ticket>, Say)> {
    let one = |_| {
        let (text, ticket, say) = holds.recv_timeout(PATIENCE).unwrap();
        (text_of(&text.prompt), (ticket, say))
    };
    (0..count).map(one).collect()
}

#[test]
fn texts_come_whole_or_in_pieces_and_the_last_answer_of_each_says_so() {
    let (addresses, _holds) = server(&["m"], 4);
    let mut call = Call::begin(addresses.grpc, false);
    call.ask(&pieces("a", "one two"));
    let all = [call.said(), call.said(), call.said()];
    assert_eq!(all, [said("a", "one ", false), said("a", "two ", false), said("a", "", true)]);
    call.ask(&asked("b", vec![bytes("text_input", "one two", &[1, 1])]));
    assert_eq!(call.said(), said("b", "one two ", true));
    let settings = bytes("sampling_parameters", r#"{"max_tokens": 1}"#, &[1]);
    call.ask(&asked("c", vec![settings.clone(), truth("stream", false), bytes("text_input", "one two", &[1])]));
    assert_eq!(call.said(), said("c", "one ", true));
    for (excludes, expected) in [(true, "one "), (false, "one twoone ")] {
        let excludes = truth("exclude_input_in_output", excludes);
        call.ask(&asked("d", vec![bytes("text_input", "one two", &[1]), settings.clone(), excludes]));
        assert_eq!(call.said(), said("d", expected, true));
    }
    // The same in raw contents.
    let mut raw = asked("", vec![input("text_input", "BYTES", &[1]), input("stream", "BOOL", &[1, 1])]);
    raw.raw_input_contents = vec![b"\x03\0\0\0one".to_vec(), vec![1]];
    call.ask(&raw);
    assert_eq!([call.said(), call.said()], [said("", "one ", false), said("", "", true)]);
    assert_eq!(call.end().0, "0");
}

#[test]
fn texts_of_one_stream_go_on_at_once_each_in_its_order() {
    let (addresses, holds) = server(&["m"], 4);
    let mut call = Call::begin(addresses.grpc, false);
    call.ask(&pieces("a", "hold a"));
    call.ask(&pieces("b", "hold b"));
    let mut texts = held(&holds, 2);
    let mut say = |name: &str, what: Said| (texts.get_mut(name).unwrap().1)(what);
    for (name, id, piece) in [("hold b", "b", "1"), ("hold a", "a", "2"), ("hold b", "b", "3"), ("hold a", "a", "4")] {
        say(name, Said::Piece(piece.to_owned()));
        assert_eq!(call.said(), said(id, piece, false));
    }
    // Other requests come and go meanwhile, and none waits for an earlier one.
    call.ask(&asked("c", vec![bytes("text_input", "short", &[1])]));
    assert_eq!(call.said(), said("c", "short ", true));
    say("hold b", end());
    assert_eq!(call.said(), said("b", "", true));
    // A text that breaks off reports it, and is over.
    say("hold a", Said::Piece("5".to_owned()));
    say("hold a", Said::Failed(Failure::Failed("it broke".to_owned())));
    assert_eq!(call.said(), said("a", "5", false));
    assert_eq!(call.refused(), ("a".to_owned(), "it broke".to_owned()));
    call.ask(&asked("d", vec![bytes("text_input", "break", &[1])]));
    assert_eq!(call.refused(), ("d".to_owned(), "it broke".to_owned()), "without the part that was said");
    assert_eq!(call.end().0, "0");
}

#[test]
fn what_is_wrong_is_refused_by_name_and_the_stream_goes_on() {
    let (addresses, _holds) = server(&["m"], 4);
    let mut call = Call::begin(addresses.grpc, false);
    let text = || bytes("text_input", "a b", &[1]);
    let settings = |json: &str| asked("", vec![text(), bytes("sampling_parameters", json, &[1])]);
    let mut outputs = asked("", vec![text()]);
    let other = messages::InferRequestedOutputTensor { name: "logits".to_owned(), ..Default::default() };
    outputs.outputs.push(other);
    let mut late = pieces("", "a");
    let limit = InferParameter { int64_param: Some(1), ..InferParameter::default() };
    late.parameters.insert("timeout".to_owned(), limit);
    let none = ModelInferRequest { model_name: "none".to_owned(), ..pieces("", "a") };
    for (mut request, parts) in [
        (asked("", vec![text(), bytes("image", "x", &[1])]), &["no input 'image'", "text_input", "stream"][..]),
        (asked("", vec![truth("stream", true)]), &["input 'text_input' is not given"]),
        (asked("", vec![text(), text()]), &["'text_input' is given twice"]),
        (asked("", vec![bytes("text_input", "a", &[2])]), &["'text_input'", "[2]", "[1]"]),
        (asked("", vec![text(), bytes("stream", "x", &[1])]), &["'stream'", "BYTES", "BOOL"]),
        (asked("", vec![input("text_input", "BYTES", &[1])]), &["'text_input'", "neither contents nor raw"]),
        (outputs, &["no output 'logits'", "text_output"]),
        (settings(r#"{"max_tokens": "x"}"#), &["sampling_parameters", "invalid type"]),
        (settings("[1]"), &["sampling_parameters", "no object"]),
        (settings(r#"{"logprobs": 1}"#), &["'logprobs' is not there: leave it out"]),
        (settings(r#"{"n": 2}"#), &["'n' is 2"]),
        (
            asked("", vec![text(), truth("stream", true), truth("exclude_input_in_output", false)]),
            &["'exclude_input_in_output' is false"],
        ),
        (pieces("", "refuse"), &["it does not say that"]),
        (pieces("", "full"), &["5 texts wait"]),
        (late, &["time limit"]),
        (asked("", vec![bytes("text_input", &"a".repeat(5 << 20), &[1])]), &["more than 4194304 bytes"]),
        (none, &["no model 'none'"]),
    ] {
        request.id = format!("{parts:?}");
        call.ask(&request);
        let (id, sentence) = call.refused();
        assert_eq!(id, request.id, "{sentence}");
        assert!(parts.iter().all(|part| sentence.contains(part)), "{sentence}, not {parts:?}");
    }
    call.ask(&asked("", vec![text()]));
    assert_eq!(call.said(), said("", "a b ", true));
    assert_eq!(call.end().0, "0");
}

#[test]
fn a_client_may_ask_that_a_text_that_breaks_off_ends_the_stream() {
    let (addresses, _holds) = server(&["m"], 4);
    let mut call = Call::begin(addresses.grpc, true);
    call.ask(&pieces("a", "break here"));
    assert_eq!([call.said(), call.said()], [said("a", "break ", false), said("a", "here ", false)]);
    assert_eq!(call.end(), ("13".to_owned(), "it broke".to_owned()));
}

#[test]
fn sixty_four_texts_of_a_stream_are_in_hand_at_a_time() {
    let (addresses, holds) = server(&["m"], 128);
    let mut call = Call::begin(addresses.grpc, false);
    for number in 0..66 {
        call.ask(&pieces(&number.to_string(), &format!("hold {number}")));
    }
    let mut texts = held(&holds, 64);
    assert!(holds.recv_timeout(Duration::from_millis(50)).is_err(), "the client holds back the others");
    let (_, mut say) = texts.remove("hold 7").unwrap();
    say(end());
    assert_eq!(call.said(), said("7", "", true));
    texts.extend(held(&holds, 1));
    for (_, (_, mut say)) in texts {
        say(end());
    }
    texts = held(&holds, 1);
    for (_, (_, mut say)) in texts {
        say(end());
    }
    let mut ids: Vec<String> = (0..65).map(|_| call.said().0).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 65, "each is answered once");
    assert_eq!(call.end().0, "0");
}

#[test]
fn a_stream_that_is_closed_gives_its_texts_up() {
    let (addresses, holds) = server(&["m"], 4);
    let mut call = Call::begin(addresses.grpc, false);
    call.ask(&pieces("a", "hold a"));
    call.ask(&asked("b", vec![bytes("text_input", "hold b", &[1])]));
    let mut texts = held(&holds, 2);
    for (_, say) in texts.values_mut() {
        say(Said::Piece("1".to_owned()));
    }
    assert_eq!(call.said(), said("a", "1", false));
    assert!(texts.values().all(|(ticket, _)| !ticket.is_cancelled()));
    drop(call);
    let until = std::time::Instant::now() + PATIENCE;
    while !texts.values().all(|(ticket, _)| ticket.is_cancelled()) {
        assert!(std::time::Instant::now() < until, "texts that are not wanted go on");
        std::thread::sleep(Duration::from_millis(1));
    }
}
