//! Workers that have only a store in common: `kiln serve` in processes and folders of their own.

use std::time::Instant;

use crate::onnx_file;
use crate::running::{Answer, Running};
use crate::servers::{self, Server};
use crate::shared::KEYS;

/// A worker and its own folder.
struct Worker {
    running: Running,
    _folder: tempfile::TempDir,
}

impl Worker {
    /// A worker with an empty folder of records, ready for requests.
    fn ready(url: &str, flags: &[&str]) -> Worker {
        let folder = tempfile::tempdir().unwrap();
        let models = folder.path().join("models");
        std::fs::create_dir(&models).unwrap();
        std::fs::write(models.join("encoder.onnx"), onnx_file::encoder()).unwrap();
        let arguments = [&["--no-grpc", "--threads", "1", "--remote-cache", url], flags].concat();
        let mut running = Running::start_with(&models, &arguments, &KEYS);
        let line = running.line();
        assert!(line.starts_with("ready: "), "{line}");
        Worker { running, _folder: folder }
    }

    /// A reader of the store that must not choose.
    fn reader(url: &str) -> Worker {
        Worker::ready(url, &["--remote-read-only", "--error-on-cache-miss"])
    }

    /// The bytes of the answer to a text of that length.
    #[track_caller]
    fn embedding(&self, words: usize) -> Vec<u8> {
        let ids: Vec<usize> = (0..words).map(|place| (place * 17 + words) % onnx_file::WORDS).collect();
        let input = format!(r#"{{"name":"ids","shape":[1,{words}],"datatype":"INT64","data":{ids:?}}}"#);
        let json = format!(r#"{{"inputs":[{input}],"parameters":{{"binary_data_output":true}}}}"#);
        let answer = self.running.infer("encoder", &json);
        assert_eq!(answer.status, 200, "{words} words: {}", String::from_utf8_lossy(&answer.body));
        let head: usize = answer.header("inference-header-content-length").unwrap().parse().unwrap();
        answer.body[head..].to_vec()
    }

    /// Look-ups that were answered by a record, and by choosing.
    fn lookups(&self) -> (u64, u64) {
        let Answer { body, .. } = self.running.get("/metrics");
        let text = String::from_utf8(body).unwrap();
        let value = |result: &str| {
            let name = format!("kiln_lookups_total{{model=\"encoder\",version=\"1\",result=\"{result}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&name)).expect(&text).parse().unwrap()
        };
        (value("record"), value("miss"))
    }

    /// Ends the worker as a cluster does.
    fn end(self) {
        self.running.signal(15);
        assert_eq!(self.running.wait(), Some(0));
    }
}

/// The words of each request of a trace.
const TRACE: [usize; 12] = [3, 17, 5, 17, 40, 8, 1, 29, 5, 64, 12, 3];

/// The first worker serves a trace and ends; three more serve it with what it published.
fn workers_join_warm(url: &str) {
    let first = Worker::ready(url, &[]);
    let expected = TRACE.map(|words| first.embedding(words));
    assert!(first.lookups().1 > 0, "it has chosen");
    first.end();
    let others: Vec<Worker> = (0..3).map(|_| Worker::reader(url)).collect();
    for other in others {
        for (words, expected) in TRACE.iter().zip(&expected).rev() {
            assert!(other.embedding(*words) == *expected, "{words} words");
        }
        let (records, choices) = other.lookups();
        // Records that were rebuilt before it was ready count as hits.
        println!("{records} look-ups by records after it was ready, {choices} choices");
        assert_eq!(choices, 0);
        other.end();
    }
}

#[test]
fn workers_serve_what_the_first_one_published_through_redis() {
    if servers::wanted() {
        let server = servers::redis(None);
        workers_join_warm(&format!("redis://127.0.0.1:{}/fleet", server.port));
    }
}

#[test]
fn workers_serve_what_the_first_one_published_through_s3() {
    if servers::wanted() {
        let server = servers::s3();
        workers_join_warm(&format!("s3://records/fleet?endpoint=http://127.0.0.1:{}&region=us-east-1", server.port));
    }
}

#[test]
fn a_worker_without_records_of_its_own_or_a_store_refuses_to_choose() {
    if servers::wanted() {
        let server = servers::redis(None);
        let worker = Worker::reader(&format!("redis://127.0.0.1:{}/empty", server.port));
        let json = r#"{"inputs":[{"name":"ids","shape":[1,3],"datatype":"INT64","data":[1,2,3]}]}"#;
        let refused = worker.running.infer("encoder", json);
        assert_eq!(refused.status, 500, "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.body).contains("no record"), "{refused:?}");
    }
}

#[test]
fn requests_are_answered_while_redis_is_gone_and_records_are_there_in_the_end() {
    if !servers::wanted() {
        return;
    }
    let server = servers::redis(None);
    let port = server.port;
    let url = format!("redis://127.0.0.1:{port}/fleet");
    let worker = Worker::ready(&url, &[]);
    let mut answers: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut ask = |lengths: std::ops::Range<usize>| {
        let begun = Instant::now();
        answers.extend(lengths.map(|words| (words, worker.embedding(words))));
        begun.elapsed()
    };
    let before = ask(1..10);
    drop(server);
    let without = ask(10..30);
    let _back: Server = servers::redis_at(port);
    let after = ask(30..40);
    println!("new shapes with the store {before:?} for 9, without it {without:?} for 20, after it {after:?} for 10");
    worker.end();
    // Nothing from before the store's end is left: what the reader finds was put after it.
    let reader = Worker::reader(&url);
    for (words, expected) in &answers {
        assert!(reader.embedding(*words) == *expected, "{words} words");
    }
    assert_eq!(reader.lookups().1, 0);
    reader.end();
}
