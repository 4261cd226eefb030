//! Clients of gRPC: tonic's, and one that sends any headers and bytes on HTTP/2.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use tonic::codec::CompressionEncoding;
use tonic::codegen::Bytes;
use tonic::codegen::http;
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::messages::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};
use crate::running::Running;

/// The longest that a test waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to a server and its thread, which moves bytes while a call is made.
pub(crate) struct Client {
    runtime: tokio::runtime::Runtime,
    channel: Channel,
    is_gzip: bool,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn unary<Q, A>(channel: Channel, is_gzip: bool, method: &str, request: Request<Q>) -> Result<A, Status>
where
    Q: prost::Message + Default + 'static,
    A: prost::Message + Default + 'static,
{
    let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(usize::MAX);
    if is_gzip {
        grpc = grpc.send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip);
    }
    grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let path =
        if method.starts_with('/') { method.to_owned() } else { format!("/inference.GRPCInferenceService/{method}") };
    let codec = ProstCodec::<Q, A>::default();
    Ok(grpc.unary(request, path.try_into().unwrap(), codec).await?.into_inner())
}

impl Client {
    pub(crate) fn of(server: &Running) -> Client {
        let runtime = runtime();
        let endpoint = Endpoint::from_shared(format!("http://{}", server.grpc)).unwrap();
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        Client { runtime, channel, is_gzip: false }
    }

    /// A client that compresses its messages, and accepts compressed ones.
    pub(crate) fn of_gzip(server: &Running) -> Client {
        Client { is_gzip: true, ..Client::of(server) }
    }

    /// Calls a method of the service, or any method by its whole path.
    pub(crate) fn call<Q, A>(&self, method: &str, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + Default + 'static,
        A: prost::Message + Default + 'static,
    {
        let call = unary(self.channel.clone(), self.is_gzip, method, Request::new(request));
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, call).await.expect("an answer in time") })
    }

    pub(crate) fn infer(&self, request: ModelInferRequest) -> Result<ModelInferResponse, Status> {
        self.call("ModelInfer", request)
    }

    /// Infers, and gives the call up after that time. The connection stays.
    pub(crate) fn infer_and_go(&self, request: ModelInferRequest, after: Duration) {
        let channel = self.channel.clone();
        let call = unary::<_, ModelInferResponse>(channel, self.is_gzip, "ModelInfer", Request::new(request));
        self.runtime.block_on(async {
            assert!(tokio::time::timeout(after, call).await.is_err(), "it was still running");
            // The thread of the connection writes that the call is over.
            tokio::time::sleep(Duration::from_millis(50)).await;
        });
    }
}

/// Requests of a stream: those that were sent, and its end once the sender is dropped.
struct Requests(mpsc::UnboundedReceiver<ModelInferRequest>);

impl Stream for Requests {
    type Item = ModelInferRequest;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ModelInferRequest>> {
        self.0.poll_recv(cx)
    }
}

impl Client {
    /// Begins a stream of requests, and reads its answers until it ends, with its status.
    async fn read_stream(
        &self,
        requests: Requests,
        headers: &[(&'static str, &'static str)],
    ) -> (Vec<ModelStreamInferResponse>, Status) {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        if self.is_gzip {
            grpc = grpc.send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip);
        }
        grpc.ready().await.unwrap();
        let mut request = Request::new(requests);
        for &(name, value) in headers {
            request.metadata_mut().insert(name, value.parse().unwrap());
        }
        let codec = ProstCodec::<ModelInferRequest, ModelStreamInferResponse>::default();
        let path = "/inference.GRPCInferenceService/ModelStreamInfer".try_into().unwrap();
        let mut answers = Vec::new();
        let mut stream = match grpc.streaming(request, path, codec).await {
            Ok(answer) => answer.into_inner(),
            Err(status) => return (answers, status),
        };
        loop {
            match stream.message().await {
                Ok(Some(answer)) => answers.push(answer),
                Ok(None) => return (answers, Status::ok("")),
                Err(status) => return (answers, status),
            }
        }
    }

    /// Sends requests in one stream, and closes it after them.
    pub(crate) fn stream(
        &self,
        requests: Vec<ModelInferRequest>,
        headers: &[(&'static str, &'static str)],
    ) -> (Vec<ModelStreamInferResponse>, Status) {
        let (_, requests) = sent(requests);
        let answers = self.read_stream(requests, headers);
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, answers).await.expect("an end in time") })
    }

    /// Sends requests in one stream that stays open, and does something when they are sent.
    pub(crate) fn open_stream(
        &self,
        requests: Vec<ModelInferRequest>,
        then: impl FnOnce(),
    ) -> (Vec<ModelStreamInferResponse>, Status) {
        let (_sender, requests) = sent(requests);
        let answers = self.read_stream(requests, &[]);
        self.runtime.block_on(async {
            let mut answers = std::pin::pin!(tokio::time::timeout(PATIENCE, answers));
            // The thread of the connection sends them meanwhile.
            let early = tokio::time::timeout(Duration::from_millis(300), answers.as_mut()).await;
            assert!(early.is_err(), "it was still running");
            then();
            answers.await.expect("an end in time")
        })
    }

    /// Sends requests in one stream, and gives it up after that time. The connection stays.
    pub(crate) fn stream_and_go(&self, requests: Vec<ModelInferRequest>, after: Duration) {
        let (sender, requests) = sent(requests);
        let answers = self.read_stream(requests, &[]);
        self.runtime.block_on(async {
            assert!(tokio::time::timeout(after, answers).await.is_err(), "it was still running");
            // Both directions are given up, so that the call is reset.
            drop(sender);
            tokio::time::sleep(Duration::from_millis(50)).await;
        });
    }
}

/// Requests that have been sent, and the sender of further ones.
fn sent(requests: Vec<ModelInferRequest>) -> (mpsc::UnboundedSender<ModelInferRequest>, Requests) {
    let (sender, receiver) = mpsc::unbounded_channel();
    requests.into_iter().for_each(|request| sender.send(request).unwrap());
    (sender, Requests(receiver))
}

/// Sends any bytes to a method; gives the status and the sentence of the answer.
pub(crate) fn status_of(server: &Running, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (String, String) {
    let call = async {
        let stream = tokio::net::TcpStream::connect(&server.grpc).await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        drop(tokio::spawn(connection));
        let mut request = http::Request::post(format!("http://localhost{path}")).body(()).unwrap();
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let (answer, mut body_of) = client.ready().await.unwrap().send_request(request, false).unwrap();
        body_of.send_data(Bytes::copy_from_slice(body), true).unwrap();
        let mut answer = answer.await.unwrap();
        let mut headers = answer.headers().clone();
        if !headers.contains_key("grpc-status") {
            while let Some(data) = answer.body_mut().data().await {
                data.unwrap();
            }
            headers = answer.body_mut().trailers().await.unwrap().unwrap_or_default();
        }
        let text = |name: &str| headers.get(name).map_or(String::new(), |value| value.to_str().unwrap().to_owned());
        let status = if answer.status() == 200 { text("grpc-status") } else { answer.status().to_string() };
        (status, text("grpc-message").replace("%20", " "))
    };
    runtime().block_on(async { tokio::time::timeout(PATIENCE, call).await.expect("an answer in time") })
}

/// A message with its prefix.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[0], &length.to_be_bytes()[..], message].concat()
}
