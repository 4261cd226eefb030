//! Short requests that wait are computed together: each has the same bits as alone, and its own end.

use std::net::TcpStream;

use kiln::{Session, SessionOptions, Tensor};

use crate::life::{self, LONG, metric, until};
use crate::onnx_file;
use crate::running::{Answer, Running};

/// A folder with a text encoder, beside the models of [`life::slow`].
fn models() -> tempfile::TempDir {
    let folder = life::slow();
    std::fs::write(folder.path().join("models/encoder.onnx"), onnx_file::encoder()).unwrap();
    folder
}

/// A server of those models with one more argument, or none.
fn serve(folder: &tempfile::TempDir, arguments: &[&str]) -> Running {
    let models = folder.path().join("models");
    Running::ready(&models, &[&["--queue", "400", "--no-grpc"], arguments].concat())
}

/// The words of a text.
fn words(length: usize, seed: usize) -> Vec<i64> {
    (0..length).map(|place| ((place * 17 + seed * 31 + place * place) % onnx_file::WORDS) as i64).collect()
}

/// Sends a text.
fn send(server: &Running, words: &[i64], headers: &str) -> TcpStream {
    let json = format!(
        concat!(
            r#"{{"inputs":[{{"name":"ids","shape":[1,{}],"datatype":"INT64","data":{:?}}}],"#,
            r#""parameters":{{"binary_data_output":true}}}}"#
        ),
        words.len(),
        words
    );
    server.send("POST", "/v2/models/encoder/infer", headers, json.as_bytes())
}

/// The binary output of an answer.
#[track_caller]
fn output(answer: &Answer) -> &[u8] {
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    let json: usize = answer.header("inference-header-content-length").unwrap().parse().unwrap();
    &answer.body[json..]
}

/// The same by a session that gets one request at a time.
struct Alone(Session);

impl Alone {
    fn new() -> Alone {
        let options = SessionOptions { threads: 1, ..SessionOptions::default() };
        Alone(Session::load_bytes(onnx_file::encoder(), &options).unwrap())
    }

    fn output(&self, words: &[i64]) -> Vec<u8> {
        let ids = Tensor::from_slice([1, words.len()], words).unwrap();
        self.0.run(&[("ids", ids)]).unwrap()[0].1.bytes().to_vec()
    }
}

const JOINED: &str = "kiln_joined_requests_total{model=\"encoder\",version=\"1\"}";
const EXECUTIONS: &str = "nv_inference_exec_count{model=\"encoder\",version=\"1\"}";
const INFERENCES: &str = "nv_inference_count{model=\"encoder\",version=\"1\"}";

/// Keeps every lane of a server busy with a long request until these are dropped.
fn hold(server: &Running, lanes: u64) -> Vec<TcpStream> {
    // A request is answered a little before its lane is free.
    until(server, "kiln_requests_running", 0);
    let held = (0..lanes).map(|_| life::send(server, LONG, "")).collect();
    until(server, "kiln_requests_running", lanes);
    held
}

/// Sends texts one by one: the first of each length runs alone. Gives the executions so far.
fn meet(server: &Running, texts: &[Vec<i64>]) -> u64 {
    for words in texts {
        output(&Answer::read(send(server, words, "")));
    }
    metric(server, EXECUTIONS)
}

#[test]
fn texts_of_mixed_lengths_have_the_bits_that_they_have_alone() {
    let folder = models();
    let alone = Alone::new();
    for lanes in [1, 2] {
        let server = serve(&folder, &["--threads", &lanes.to_string()]);
        let held = hold(&server, lanes);
        let texts: Vec<Vec<i64>> = (0..200).map(|seed| words(1 + seed * 13 % 40, seed)).collect();
        let sent: Vec<TcpStream> = texts.iter().map(|words| send(&server, words, "")).collect();
        until(&server, "kiln_queue_length", 200);
        drop(held);
        for (words, stream) in texts.iter().zip(sent) {
            assert!(output(&Answer::read(stream)) == alone.output(words), "{} words, {lanes} lanes", words.len());
        }
        // The first text of each length runs alone, and the shortest ones, whose products may add in another order.
        let (joined, executions) = (metric(&server, JOINED), metric(&server, EXECUTIONS));
        assert!((100..=160).contains(&joined), "{joined} were joined");
        assert_eq!(metric(&server, INFERENCES), 200);
        assert!(executions <= 200 - joined + joined / 4, "{executions} executions, {joined} were joined");
    }
}

#[test]
fn each_request_of_a_group_has_its_own_end() {
    let folder = models();
    let alone = Alone::new();
    let server = serve(&folder, &["--threads", "1"]);
    let texts = [words(9, 1), words(12, 2), words(20, 3)];
    let wrong = [onnx_file::WORDS as i64; 10];
    let by_itself = Answer::read(send(&server, &wrong, ""));
    let before = meet(&server, &[&texts[..], &[words(8, 4)]].concat());

    let held = hold(&server, 1);
    let mut sent: Vec<TcpStream> = vec![send(&server, &texts[0], "")];
    let gone = send(&server, &words(8, 4), "");
    let late = send(&server, &words(8, 5), "Kiln-Timeout-Us: 20000\r\n");
    sent.extend(texts[1..].iter().map(|words| send(&server, words, "Kiln-Timeout-Us: 60000000\r\n")));
    until(&server, "kiln_queue_length", 5);
    assert!(Answer::read(late).refused(504).contains("time limit"));
    drop(gone);
    until(&server, "kiln_requests_total{model=\"encoder\",version=\"1\",outcome=\"cancelled\"}", 1);
    drop(held);
    for (words, stream) in texts.iter().zip(sent) {
        assert!(output(&Answer::read(stream)) == alone.output(words));
    }
    assert_eq!((metric(&server, JOINED), metric(&server, EXECUTIONS)), (3, before + 1));

    // A wrong request gets the same error as by itself, and the others run alone.
    let held = hold(&server, 1);
    let wrong = send(&server, &wrong, "");
    let sent: Vec<TcpStream> = texts.iter().map(|words| send(&server, words, "")).collect();
    until(&server, "kiln_queue_length", 4);
    drop(held);
    let wrong = Answer::read(wrong);
    assert_eq!(wrong.refused(by_itself.status), by_itself.refused(by_itself.status));
    assert!(wrong.refused(by_itself.status).contains("50"), "{wrong:?}");
    for (words, stream) in texts.iter().zip(sent) {
        assert!(output(&Answer::read(stream)) == alone.output(words));
    }
    assert_eq!((metric(&server, JOINED), metric(&server, EXECUTIONS)), (3, before + 4));
}

#[test]
fn within_the_window_requests_wait_for_each_other() {
    let folder = models();
    let alone = Alone::new();
    let server = serve(&folder, &["--threads", "1", "--batch-window-us", "1500000"]);
    let texts = [words(9, 1), words(12, 2), words(20, 3)];
    let before = meet(&server, &texts);
    let sent = texts.each_ref().map(|words| send(&server, words, ""));
    for (words, stream) in texts.iter().zip(sent) {
        assert!(output(&Answer::read(stream)) == alone.output(words));
    }
    assert_eq!((metric(&server, JOINED), metric(&server, EXECUTIONS)), (3, before + 1));
}
