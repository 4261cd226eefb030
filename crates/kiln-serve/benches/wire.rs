//! The time that the server adds to a model's own, beside a plain echo: `cargo bench -p kiln-serve --bench wire --
//! [--requests N]`.
//!
//! A process serves a model that returns its input of 16 floats, by REST (a binary body) and by gRPC (raw contents). A
//! second process answers each request with the bytes of the server's answer, by hyper (HTTP/1) and by h2 (HTTP/2 with
//! gRPC's trailers) alone. One client sends requests one after another, to each process in turn. Prints medians and
//! 99th percentiles in microseconds.

#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kiln_serve::{
    Datatype, Event, Failure, Load, Loader, Lookups, Model, Port, Server, Settings, Source, Tensor, Ticket,
};
use tokio::net::TcpListener;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Floats of the input and of the output.
const FLOATS: usize = 16;

/// Turns; each has requests of every kind.
const TURNS: usize = 11;

/// A model that returns its input.
struct Same([Port; 2]);

impl Same {
    fn new() -> Same {
        let port = |name: &str| Port {
            name: name.to_owned(),
            datatype: Some(Datatype::Fp32),
            declared: "FP32".to_owned(),
            shape: Some(vec![Some(FLOATS)]),
            is_optional: false,
        };
        Same([port("x"), port("y")])
    }
}

impl Model for Same {
    fn inputs(&self) -> &[Port] {
        &self.0[..1]
    }

    fn outputs(&self) -> &[Port] {
        &self.0[1..]
    }

    fn run(&self, inputs: Vec<Tensor>, _: &Arc<Ticket>, _: Load) -> Result<Vec<Tensor>, Failure> {
        Ok(inputs.into_iter().map(|input| Tensor { name: "y".to_owned(), ..input }).collect())
    }

    fn lookups(&self) -> Lookups {
        Lookups::default()
    }

    fn save(&self) {}
}

struct Loads;

impl Loader for Loads {
    fn load(&self, _: &Path) -> Result<Arc<dyn Model>, String> {
        Ok(Arc::new(Same::new()))
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Serves the model until the process is ended, and prints its addresses once it is ready.
fn serve() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("m.onnx"), "")?;
    let server = Server::bind(Settings {
        grpc_port: Some(0),
        lanes: 2,
        queue: 8,
        ..Settings::local(vec![Source::Folder(folder.path().to_owned())])
    })?;
    let addresses = format!("{} {}", server.address(), server.grpc_address().ok_or("no gRPC")?);
    server.run(Arc::new(Loads), &mut |event| {
        if matches!(event, Event::Ready(_)) {
            println!("{addresses}");
        }
    })?;
    Ok(())
}

/// Answers every HTTP/1 request with the bytes of one file, and every HTTP/2 call with those of another.
fn echo(rest: &str, grpc: &str) -> Outcome<()> {
    let (rest, grpc) = (Bytes::from(std::fs::read(rest)?), Bytes::from(std::fs::read(grpc)?));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let one = TcpListener::bind("127.0.0.1:0").await?;
        let two = TcpListener::bind("127.0.0.1:0").await?;
        println!("{} {}", one.local_addr()?, two.local_addr()?);
        let (of_rest, of_grpc) = tokio::join!(echo_rest(one, rest), echo_grpc(two, grpc));
        of_rest.and(of_grpc)
    })
}

async fn echo_rest(listener: TcpListener, answer: Bytes) -> Outcome<()> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    let head = (answer.len() - 4 * FLOATS).to_string();
    let answer = service_fn(|request: Request<Incoming>| {
        let (head, answer) = (head.clone(), answer.clone());
        async move {
            request.into_body().collect().await?;
            let mut answer = Response::new(Full::new(answer));
            answer.headers_mut().insert("content-type", HeaderValue::from_static("application/octet-stream"));
            answer.headers_mut().insert("inference-header-content-length", HeaderValue::try_from(head)?);
            Ok::<_, Box<dyn Error + Send + Sync>>(answer)
        }
    });
    Ok(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await?)
}

async fn echo_grpc(listener: TcpListener, message: Bytes) -> Outcome<()> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(call) = connection.accept().await {
        let (request, mut respond) = call?;
        let message = message.clone();
        tokio::spawn(async move {
            let mut body = request.into_body();
            while let Some(Ok(_)) = body.data().await {}
            let mut answer = Response::new(());
            answer.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
            let mut stream = respond.send_response(answer, false)?;
            stream.send_data(message, false)?;
            stream.send_trailers(HeaderMap::from_iter([("grpc-status".parse()?, HeaderValue::from_static("0"))]))?;
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        });
    }
    Ok(())
}

/// A process of this program that serves, ended when it is dropped.
struct Served {
    child: Child,
    rest: SocketAddr,
    grpc: SocketAddr,
}

impl Served {
    fn start(arguments: &[&str]) -> Outcome<Served> {
        let mut child = Command::new(std::env::current_exe()?).args(arguments).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let mut addresses = line.split_whitespace().map(str::parse);
        let mut next = || addresses.next().ok_or("no address");
        let (rest, grpc) = (next()??, next()??);
        Ok(Served { child, rest, grpc })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends one request, and returns the body of its answer.
trait Client {
    fn ask(&mut self) -> Outcome<Vec<u8>>;
}

/// A connection of HTTP/1 and the bytes of a request.
struct Rest {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
}

impl Rest {
    fn to(address: SocketAddr) -> Outcome<Rest> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let size = 4 * FLOATS;
        let json = format!(
            r#"{{"inputs":[{{"name":"x","shape":[{FLOATS}],"datatype":"FP32","parameters":{{"binary_data_size":{size}}}}}],"parameters":{{"binary_data_output":true}}}}"#
        );
        let (head, body) = (json.len(), json.len() + size);
        let mut request = format!(
            "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {body}\r\n\
             Inference-Header-Content-Length: {head}\r\n\r\n{json}"
        )
        .into_bytes();
        request.extend(floats());
        Ok(Rest { stream: BufReader::new(stream), request })
    }
}

impl Client for Rest {
    fn ask(&mut self) -> Outcome<Vec<u8>> {
        self.stream.get_mut().write_all(&self.request)?;
        let mut length = 0;
        let mut line = String::new();
        for number in 0.. {
            line.clear();
            self.stream.read_line(&mut line)?;
            if number == 0 && !line.starts_with("HTTP/1.1 200") {
                return Err(line.into());
            }
            if line == "\r\n" {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }
}

/// A connection of HTTP/2 and the message of a call.
struct Grpc {
    runtime: tokio::runtime::Runtime,
    connection: h2::client::SendRequest<Bytes>,
    uri: String,
    message: Bytes,
}

impl Grpc {
    fn to(address: SocketAddr) -> Outcome<Grpc> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connection = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (client, connection) = h2::client::handshake(stream).await?;
            tokio::spawn(connection);
            Ok::<_, Box<dyn Error>>(client)
        })?;
        // Fields of ModelInferRequest by their numbers: a model's name, an input (name, type, shape), raw contents.
        let input = [field(1, b"x"), field(2, b"FP32"), field(3, &[FLOATS as u8])].concat();
        let message = [field(1, b"m"), field(5, &input), field(7, &floats())].concat();
        let uri = format!("http://{address}/inference.GRPCInferenceService/ModelInfer");
        Ok(Grpc { runtime, connection, uri, message: framed(&message) })
    }
}

impl Client for Grpc {
    fn ask(&mut self) -> Outcome<Vec<u8>> {
        let request = Request::builder().method("POST").uri(&self.uri).header("content-type", "application/grpc");
        let request = request.header("te", "trailers").body(())?;
        self.runtime.block_on(async {
            self.connection = self.connection.clone().ready().await?;
            let (answer, mut stream) = self.connection.send_request(request, false)?;
            stream.send_data(self.message.clone(), true)?;
            let mut body = answer.await?.into_body();
            let mut message = Vec::new();
            while let Some(part) = body.data().await {
                let part = part?;
                body.flow_control().release_capacity(part.len())?;
                message.extend_from_slice(&part);
            }
            let trailers = body.trailers().await?.ok_or("no trailers")?;
            if trailers.get("grpc-status").is_none_or(|status| status != "0") {
                return Err(format!("{trailers:?}").into());
            }
            Ok(message)
        })
    }
}

/// The elements of the input.
fn floats() -> Vec<u8> {
    (0..FLOATS).flat_map(|value| (value as f32).to_le_bytes()).collect()
}

/// A field of a message of protobuf, of fewer than 128 bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// A message as gRPC frames it, without compression.
fn framed(message: &[u8]) -> Bytes {
    [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat().into()
}

fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e6
}

fn measure(requests: usize) -> Outcome<()> {
    let server = Served::start(&["serve"])?;
    let (mut rest, mut grpc) = (Rest::to(server.rest)?, Grpc::to(server.grpc)?);
    let folder = tempfile::tempdir()?;
    let files = ["rest", "grpc"].map(|name| folder.path().join(name));
    for (file, answer) in files.iter().zip([rest.ask()?, grpc.ask()?]) {
        if !answer.ends_with(&floats()) {
            return Err(format!("the answer lacks the output: {answer:?}").into());
        }
        std::fs::write(file, answer)?;
    }
    let [of_rest, of_grpc] = files.each_ref().map(|file| file.to_str().unwrap_or_default());
    let plain = Served::start(&["echo", of_rest, of_grpc])?;
    let (mut plain_rest, mut plain_grpc) = (Rest::to(plain.rest)?, Grpc::to(plain.grpc)?);

    let mut clients: [&mut dyn Client; 4] = [&mut rest, &mut plain_rest, &mut grpc, &mut plain_grpc];
    let mut times: [Vec<Duration>; 4] = Default::default();
    // The first turn does not count: it warms both processes.
    for turn in 0..=TURNS {
        for (client, times) in clients.iter_mut().zip(&mut times) {
            for _ in 0..requests {
                let begun = Instant::now();
                client.ask()?;
                if turn > 0 {
                    times.push(begun.elapsed());
                }
            }
        }
    }
    println!("{requests} requests in each of {TURNS} turns, {} bytes each way, us: median, 99 %", 4 * FLOATS);
    for (what, times) in ["REST, server", "REST, echo", "gRPC, server", "gRPC, echo"].iter().zip(&mut times) {
        println!("{what:>13} {:8.1} {:8.1}", percentile(times, 50), percentile(times, 99));
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => measure(300),
        ["--requests", count] => measure(count.parse()?),
        ["serve"] => serve(),
        ["echo", rest, grpc] => echo(rest, grpc),
        _ => Err("usage: wire [--requests N]".into()),
    }
}
