//! A server in a process of its own, and a client of HTTP/1.1 that writes and reads bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::time::Duration;

use crate::command::command;

/// The command, ended when it is dropped.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    /// Where it listens for REST.
    pub(crate) address: String,
    /// Where it listens for gRPC; empty where it does not.
    pub(crate) grpc: String,
}

impl Running {
    /// Starts `kiln serve FOLDER` with further arguments, and waits until it listens.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Running {
        Running::start_with(folder, arguments, &[])
    }

    /// The same with settings of the environment.
    pub(crate) fn start_with(folder: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> Running {
        let records = folder.join("../records");
        let mut command = command(["serve", folder.to_str().unwrap(), "--port", "0"]);
        let has_grpc = !arguments.contains(&"--no-grpc");
        command.args(["--grpc-port", "0"].iter().filter(|_| has_grpc));
        command.envs(settings.iter().copied());
        command.arg("--cache-dir").arg(records).args(arguments).stdout(Stdio::piped());
        if arguments.contains(&"--log-json") {
            command.stderr(Stdio::piped());
        }
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut running = Running { child, lines, address: String::new(), grpc: String::new() };
        let line = running.line();
        running.address = line.strip_prefix("listening on http://").expect(&line).to_owned();
        if has_grpc {
            let line = running.line();
            running.grpc = line.strip_prefix("listening on grpc://").expect(&line).to_owned();
        }
        running
    }

    /// Starts it, and waits until it is ready.
    pub(crate) fn ready(folder: &Path, arguments: &[&str]) -> Running {
        let mut running = Running::start(folder, arguments);
        let line = running.line();
        assert!(line.starts_with("ready: "), "{line}");
        running
    }

    /// The lines that it writes with `--log-json`.
    pub(crate) fn log(&mut self) -> ChildStderr {
        self.child.stderr.take().unwrap()
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn signal(&self, signal: i32) {
        let process = rustix::process::Pid::from_child(&self.child);
        let signal = rustix::process::Signal::from_named_raw(signal).unwrap();
        rustix::process::kill_process(process, signal).unwrap();
    }

    /// The most bytes that it has had in memory.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() * 1024
    }

    /// The exit code, once it has ended.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Sends a request on a connection of its own.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> TcpStream {
        send_to(&self.address, method, path, headers, body)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        Answer::read(self.send(method, path, headers, body))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "", b"")
    }

    pub(crate) fn infer(&self, model: &str, json: &str) -> Answer {
        self.ask("POST", &format!("/v2/models/{model}/infer"), "", json.as_bytes())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request on a connection of its own.
pub(crate) fn send_to(address: &str, method: &str, path: &str, headers: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // A server may answer and close before it has read everything.
    let _ = stream.write_all(body);
    stream
}

/// The answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn read(mut stream: TcpStream) -> Answer {
        let mut bytes = Vec::new();
        // A connection that is reset after the answer was sent has still delivered it.
        let _ = stream.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: bytes[end + 4..].to_vec() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts a refusal with that status, and returns its sentence.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        assert_eq!(self.header("content-type"), Some("application/json"));
        self.json()["error"].as_str().expect("an error").to_owned()
    }
}
