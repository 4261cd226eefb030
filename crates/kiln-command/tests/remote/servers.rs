//! Real servers on ports of the loopback that were free a moment ago, ended with the test.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server, until dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this machine has servers; prints a line if it has none.
#[allow(clippy::disallowed_methods, reason = "it is the setting of a test, not of Kiln")]
pub(crate) fn wanted() -> bool {
    let wanted = std::env::var_os("KILN_REMOTE_TESTS").is_some_and(|value| value == "1");
    if !wanted {
        println!("skipped: KILN_REMOTE_TESTS=1 runs this with a redis-server and a moto_server");
    }
    wanted
}

/// The program that a variable names, or the one of that name.
#[allow(clippy::disallowed_methods, reason = "it is the setting of a test, not of Kiln")]
fn program(variable: &str, name: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| name.to_owned())
}

/// A port without a listener.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn start(name: &str, command: &mut Command, port: u16, folder: tempfile::TempDir) -> Server {
    let child = command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.unwrap_or_else(|error| panic!("{name} cannot be started, is it installed? {error}"));
    let mut server = Server { child, port, _folder: folder };
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Some(status) = server.child.try_wait().unwrap() {
            panic!("{name} ended: {status}");
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{name} does not listen at port {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

/// Redis with that password, if any.
pub(crate) fn redis(password: Option<&str>) -> Server {
    start_redis(free_port(), password)
}

/// An empty Redis at a port.
#[cfg(feature = "serve")]
pub(crate) fn redis_at(port: u16) -> Server {
    start_redis(port, None)
}

fn start_redis(port: u16, password: Option<&str>) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program("KILN_TEST_REDIS", "redis-server"));
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    if let Some(password) = password {
        command.args(["--requirepass", password]);
    }
    start("redis-server", &mut command, port, folder)
}

/// Moto with a bucket named `records`.
pub(crate) fn s3() -> Server {
    let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
    let mut command = Command::new(program("KILN_TEST_MOTO", "moto_server"));
    command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
    let server = start("moto_server", &mut command, port, folder);
    let made = send(port, "PUT /records HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert!(made.starts_with("HTTP/1.1 200"), "{made}");
    server
}

/// Says something to a server, and reads its answer until it hangs up.
pub(crate) fn send(port: u16, text: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Runs `kiln bench` on a small model with a folder of records and a remote store; its report.
pub(crate) fn bench(folder: &Path, url: &str, settings: &[(&str, &str)], flags: &[&str]) -> serde_json::Value {
    let home = tempfile::tempdir().unwrap();
    let (model, trace, json) =
        (home.path().join("dense.onnx"), home.path().join("trace.json"), home.path().join("out.json"));
    std::fs::write(&model, crate::onnx_file::dense()).unwrap();
    let requests = r#"{"dense": {"inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 2], "fill": "unit"}],
        "steady": [{"N": 3}], "requests": [{"N": 1}, {"N": 2}, {"N": 5}]}}"#;
    std::fs::write(&trace, requests).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.env_clear().env("HOME", home.path()).env("KILN_VERBOSE", "error").envs(settings.iter().copied());
    command.arg("bench").arg(&model).arg("--trace").arg(&trace).args(["--iters", "3", "--threads", "1", "--json"]);
    command.arg(&json).arg("--cache-dir").arg(folder).args(["--remote-cache", url]).args(flags);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    print!("{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap()
}
