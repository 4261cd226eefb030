//! Requests are spans that a collector of OpenTelemetry gets by OTLP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use hyper::header::{HeaderMap, HeaderValue};
use kiln_serve::{
    Datatype, Failure, Journal, Load, Loader, Lookups, Model, Port, Server, Settings, Source, Tensor, Ticket, Traces,
    Values,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// Returns its input, and fails for [`WRONG`].
struct Same([Port; 1]);

const WRONG: [u8; 2] = [255; 2];

impl Model for Same {
    fn inputs(&self) -> &[Port] {
        &self.0
    }

    fn outputs(&self) -> &[Port] {
        &self.0
    }

    fn run(&self, inputs: Vec<Tensor>, _: &Arc<Ticket>, _: Load) -> Result<Vec<Tensor>, Failure> {
        match &inputs[0].values {
            Values::Bytes(bytes) if bytes[..] == WRONG => Err(Failure::Failed("it is wrong".to_owned())),
            _ => Ok(inputs),
        }
    }

    fn lookups(&self) -> Lookups {
        Lookups::default()
    }

    fn save(&self) {}
}

struct Loads;

impl Loader for Loads {
    fn load(&self, _: &Path) -> Result<Arc<dyn Model>, String> {
        let (name, declared, datatype) = ("x".to_owned(), "FP16".to_owned(), Some(Datatype::Fp16));
        Ok(Arc::new(Same([Port { name, datatype, declared, shape: Some(vec![None]), is_optional: false }])))
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A collector, and the contents of each call to it.
fn collector() -> (SocketAddr, mpsc::Receiver<ExportTraceServiceRequest>) {
    let (sender, received) = mpsc::channel();
    let (told, address) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            told.send(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let sender = sender.clone();
                tokio::spawn(async move {
                    assert_eq!(request.uri().path(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
                    let mut body = request.into_body();
                    let mut message = Vec::new();
                    while let Some(Ok(part)) = body.data().await {
                        message.extend_from_slice(&part);
                    }
                    sender.send(ExportTraceServiceRequest::decode(&message[5..]).unwrap()).unwrap();
                    let mut answer = hyper::Response::new(());
                    answer.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
                    let mut stream = respond.send_response(answer, false).unwrap();
                    // An empty message.
                    stream.send_data(vec![0; 5].into(), false).unwrap();
                    let status =
                        HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))]);
                    stream.send_trailers(status).unwrap();
                });
            }
        });
    });
    (address.recv().unwrap(), received)
}

/// A server of the model that reports its requests to `traces`.
fn serve(traces: Arc<Traces>) -> SocketAddr {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("m.onnx"), "").unwrap();
    let server = Server::bind(Settings {
        queue: 8,
        journals: vec![traces as Arc<dyn Journal>],
        ..Settings::local(vec![Source::Folder(folder.path().to_owned())])
    })
    .unwrap();
    let address = server.address();
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        let _folder = folder;
        server.run(Arc::new(Loads), &mut |_| ready.send(()).unwrap_or_default())
    });
    is_ready.recv_timeout(Duration::from_secs(60)).unwrap();
    address
}

/// The status of a request with these headers.
fn ask(address: SocketAddr, bytes: [u8; 2], headers: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n";
    let raw = "Inference-Header-Content-Length: 0\r\n\r\n";
    stream.write_all(&[head.as_bytes(), headers.as_bytes(), raw.as_bytes(), &bytes].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..12]).split(' ').nth(1).unwrap().parse().unwrap()
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn from_a_span(is_sampled: bool) -> String {
    format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-0{}\r\n", u8::from(is_sampled))
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a str> {
    let value = attributes.iter().find(|attribute| attribute.key == name)?.value.as_ref()?.value.as_ref()?;
    match value {
        any_value::Value::StringValue(text) => Some(text),
        _ => None,
    }
}

#[test]
fn a_request_is_a_span_below_its_clients_with_its_stages_below_it() {
    let (at, received) = collector();
    let traces = Arc::new(Traces::to(&format!("http://{at}")).unwrap());
    let address = serve(Arc::clone(&traces));
    assert_eq!(ask(address, [1, 2], &from_a_span(true)), 200);
    assert_eq!(ask(address, WRONG, ""), 500);
    assert_eq!(ask(address, [1, 2], &from_a_span(false)), 200, "its client keeps no spans of it");
    let spans = until_there(&traces, &received, 6);

    let named = |name: &str| -> Vec<&Span> { spans.iter().filter(|span| span.name == name).collect() };
    let [answered, failed] = named("infer m")[..] else { panic!("{spans:#?}") };
    assert_eq!(
        (digits(&answered.trace_id), digits(&answered.parent_span_id)),
        (TRACE.to_owned(), "00f067aa0ba902b7".to_owned())
    );
    assert_eq!((answered.kind, text(&answered.attributes, "kiln.outcome")), (2, Some("ok")), "a server's");
    assert_eq!(text(&answered.attributes, "kiln.model"), Some("m"));
    assert!(failed.parent_span_id.is_empty() && failed.trace_id != answered.trace_id, "{failed:#?}");
    assert_eq!(text(&failed.attributes, "kiln.outcome"), Some("failed"));
    let status = failed.status.as_ref().unwrap();
    assert!(status.code == 2 && status.message.contains("it is wrong"), "{status:?}");
    for request in [answered, failed] {
        let below = |name: &str| {
            let found: Vec<&Span> =
                named(name).into_iter().filter(|span| span.parent_span_id == request.span_id).collect();
            assert_eq!(found.len(), 1, "{name}: {spans:#?}");
            assert_eq!(found[0].trace_id, request.trace_id);
            found[0]
        };
        let (queue, run) = (below("queue"), below("run"));
        let times = [queue, run, request].map(|span| (span.start_time_unix_nano, span.end_time_unix_nano));
        assert!(times[2].0 <= times[0].0 && times[0].1 <= times[1].0 && times[1].1 <= times[2].1, "{times:?}");
        assert!(times.iter().all(|(begun, ended)| begun <= ended), "{times:?}");
    }
}

/// The collector's contents once all spans are sent.
fn until_there(traces: &Traces, received: &mpsc::Receiver<ExportTraceServiceRequest>, count: usize) -> Vec<Span> {
    let mut spans = Vec::new();
    traces.end();
    while spans.len() < count {
        let request = received.recv_timeout(Duration::from_secs(60)).expect("spans");
        for of_resource in request.resource_spans {
            let resource = of_resource.resource.unwrap();
            assert_eq!(text(&resource.attributes, "service.name"), Some("kiln"));
            spans.extend(of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans));
        }
    }
    assert_eq!(spans.len(), count, "{spans:#?}");
    spans
}

#[test]
fn a_collector_that_is_not_there_costs_no_request() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let traces = Arc::new(Traces::to(&format!("http://{gone}")).unwrap());
    let address = serve(Arc::clone(&traces));
    for _ in 0..5 {
        assert_eq!(ask(address, [1, 2], ""), 200);
    }
    traces.end();
    assert_eq!(ask(address, [1, 2], ""), 200);
}

#[test]
fn what_is_no_url_is_refused_by_name() {
    let error = Traces::to("no url").err().expect("it is none").to_string();
    assert!(error.contains("'no url'"), "{error}");
}
