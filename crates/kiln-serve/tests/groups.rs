//! Requests that run in a group have their own limits and their own answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use kiln_serve::{
    Datatype, Failure, Load, Loader, Lookups, Model, Port, Request, Server, Settings, Source, Tensor, Ticket, Values,
};

/// Returns its inputs, and refuses [`WRONG`]. Groups report their size, and wait until they are released.
struct Echo {
    port: [Port; 1],
    began: Mutex<mpsc::Sender<usize>>,
    gate: Mutex<mpsc::Receiver<()>>,
}

const WRONG: [u8; 2] = [255; 2];

fn is_wrong(inputs: &[Tensor]) -> bool {
    matches!(&inputs[0].values, Values::Bytes(bytes) if bytes[..] == WRONG)
}

impl Model for Echo {
    fn inputs(&self) -> &[Port] {
        &self.port
    }

    fn outputs(&self) -> &[Port] {
        &self.port
    }

    fn run(&self, inputs: Vec<Tensor>, _: &Arc<Ticket>, _: Load) -> Result<Vec<Tensor>, Failure> {
        if is_wrong(&inputs) { Err(Failure::Refused("it is wrong".to_owned())) } else { Ok(inputs) }
    }

    fn rows(&self, inputs: &[(&str, &[usize])]) -> Option<usize> {
        Some(inputs[0].1[0])
    }

    fn most_rows(&self) -> usize {
        100
    }

    fn run_group(&self, requests: &[Request<'_>], _: Load) -> Option<Vec<Option<Vec<Tensor>>>> {
        self.began.lock().unwrap().send(requests.len()).unwrap();
        self.gate.lock().unwrap().recv().unwrap();
        let one = |request: &Request<'_>| match is_wrong(request.inputs) {
            true => None,
            false => Some(request.ticket.check().is_ok().then(|| request.inputs.to_vec())),
        };
        requests.iter().map(one).collect()
    }

    fn lookups(&self) -> Lookups {
        Lookups::default()
    }

    fn save(&self) {}
}

/// Loads one model.
struct Once(Mutex<Option<Echo>>);

impl Loader for Once {
    fn load(&self, _: &Path) -> Result<Arc<dyn Model>, String> {
        Ok(Arc::new(self.0.lock().unwrap().take().ok_or("it is loaded already")?))
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A server of that model with one lane, which waits a little for others.
struct Bench {
    address: SocketAddr,
    began: mpsc::Receiver<usize>,
    go: mpsc::Sender<()>,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("m.onnx"), "").unwrap();
        let server = Server::bind(Settings {
            queue: 8,
            batch_window: Duration::from_millis(500),
            ..Settings::local(vec![Source::Folder(folder.path().to_owned())])
        })
        .unwrap();
        let address = server.address();
        let ((told, began), (go, gate)) = (mpsc::channel(), mpsc::channel());
        let (name, declared, datatype) = ("x".to_owned(), "FP16".to_owned(), Some(Datatype::Fp16));
        let port = [Port { name, datatype, declared, shape: Some(vec![None]), is_optional: false }];
        let model = Echo { port, began: Mutex::new(told), gate: Mutex::new(gate) };
        let (ready, is_ready) = mpsc::channel();
        std::thread::spawn(move || {
            let _folder = folder;
            server.run(Arc::new(Once(Mutex::new(Some(model)))), &mut |_| ready.send(()).unwrap())
        });
        is_ready.recv_timeout(Duration::from_secs(60)).unwrap();
        Bench { address, began, go }
    }

    fn send(&self, bytes: [u8; 2], headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let head = "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n";
        let raw = "Inference-Header-Content-Length: 0\r\n\r\n";
        stream.write_all(&[head.as_bytes(), headers.as_bytes(), raw.as_bytes(), &bytes].concat()).unwrap();
        stream
    }

    /// Waits until a group has begun, and returns its size.
    #[track_caller]
    fn group(&self) -> usize {
        self.began.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    /// The value of a metric of the model.
    fn metric(&self, name: &str) -> u64 {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let name = format!("{name}{{model=\"m\",version=\"1\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name)).expect(&text).parse().unwrap()
    }
}

/// The status of an answer, and its last bytes: the output's, or the refusal's.
fn answer(mut stream: TcpStream) -> (u16, Vec<u8>) {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let status = String::from_utf8_lossy(&answer[..12]).split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_off(answer.len() - 2))
}

#[test]
fn what_is_over_while_its_group_runs_does_not_hurt_the_others() {
    let bench = Bench::new();
    let good = bench.send([1; 2], "");
    let gone = bench.send([2; 2], "");
    let late = bench.send([3; 2], "Kiln-Timeout-Us: 1500000\r\n");
    assert_eq!(bench.group(), 3);
    drop(gone);
    // It is answered in time, while its group still runs.
    let begun = Instant::now();
    assert_eq!(answer(late).0, 504);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    bench.go.send(()).unwrap();
    assert_eq!(answer(good), (200, vec![1; 2]));
    assert_eq!(["kiln_joined_requests_total", "nv_inference_exec_count"].map(|name| bench.metric(name)), [3, 1]);
    assert_eq!(bench.metric("nv_inference_count"), 1);
}

#[test]
fn a_group_that_falls_apart_runs_each_alone() {
    let bench = Bench::new();
    let requests = [[1; 2], WRONG, [3; 2]].map(|bytes| bench.send(bytes, ""));
    assert_eq!(bench.group(), 3);
    bench.go.send(()).unwrap();
    let [one, wrong, three] = requests.map(answer);
    assert_eq!([one, three], [(200, vec![1; 2]), (200, vec![3; 2])]);
    assert_eq!(wrong.0, 400);
    assert_eq!(["kiln_joined_requests_total", "nv_inference_exec_count"].map(|name| bench.metric(name)), [0, 2]);
}

#[test]
fn a_group_whose_answers_are_not_wanted_any_more_runs_nothing_alone() {
    let bench = Bench::new();
    let requests = [[1; 2], WRONG].map(|bytes| bench.send(bytes, ""));
    assert_eq!(bench.group(), 2);
    drop(requests);
    let begun = Instant::now();
    while bench.metric("nv_inference_request_failure") < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    bench.go.send(()).unwrap();
    // The next requests run as well.
    let [one, two] = [[4; 2], [5; 2]].map(|bytes| bench.send(bytes, ""));
    assert_eq!(bench.group(), 2);
    bench.go.send(()).unwrap();
    assert_eq!([answer(one), answer(two)], [(200, vec![4; 2]), (200, vec![5; 2])]);
    assert_eq!(bench.metric("nv_inference_exec_count"), 1);
}
