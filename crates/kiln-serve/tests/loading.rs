//! A server whose models take long to load is live and not ready, and its pages say so.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use kiln_serve::{Datatype, Failure, Load, Loader, Lookups, Model, Port, Server, Settings, Source, Tensor, Ticket};

/// Returns its input.
struct Echo([Port; 1]);

impl Model for Echo {
    fn inputs(&self) -> &[Port] {
        &self.0
    }

    fn outputs(&self) -> &[Port] {
        &self.0
    }

    fn run(&self, inputs: Vec<Tensor>, _: &Arc<Ticket>, _: Load) -> Result<Vec<Tensor>, Failure> {
        Ok(inputs)
    }

    fn lookups(&self) -> Lookups {
        Lookups::default()
    }

    fn save(&self) {}
}

/// Loads when told to.
struct Gate(Mutex<mpsc::Receiver<()>>);

impl Loader for Gate {
    fn load(&self, _: &Path) -> Result<Arc<dyn Model>, String> {
        self.0.lock().unwrap().recv().unwrap();
        let shape = Some(vec![None]);
        let (name, declared, datatype) = ("x".to_owned(), "FP16".to_owned(), Some(Datatype::Fp16));
        Ok(Arc::new(Echo([Port { name, datatype, declared, shape, is_optional: false }])))
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The status and the body of a page.
fn ask(address: SocketAddr, request: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n");
    let raw = if body.is_empty() { "\r\n" } else { "Inference-Header-Content-Length: 0\r\n\r\n" };
    stream.write_all(&[head.as_bytes(), raw.as_bytes(), body].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[test]
fn it_is_live_at_once_and_ready_once_all_models_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("m.onnx"), "").unwrap();
    let server =
        Server::bind(Settings { queue: 1, ..Settings::local(vec![Source::Folder(folder.path().to_owned())]) }).unwrap();
    let address = server.address();
    let (open, gate) = mpsc::channel();
    std::thread::spawn(move || server.run(Arc::new(Gate(Mutex::new(gate))), &mut |_| {}));
    assert_eq!(ask(address, "GET /v2/health/live", b"").0, 200);
    let body = r#"{"live":true,"ready":false}"#;
    assert_eq!(ask(address, "GET /v2/health/ready", b""), (503, body.to_owned()));
    let begun = Instant::now();
    while !ask(address, "GET /v2/models/m/ready", b"").1.contains("is being loaded") {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    open.send(()).unwrap();
    while ask(address, "GET /v2/health/ready", b"").0 != 200 {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    let (status, answer) = ask(address, "POST /v2/models/m/infer", &[1, 2, 3, 4]);
    assert_eq!(status, 200);
    assert!(answer.ends_with("\"parameters\":{\"binary_data_size\":4}}]}\u{1}\u{2}\u{3}\u{4}"), "{answer}");
}
