//! gRPC of the Open Inference Protocol over the same models, queue and limits as REST: methods by their paths, errors
//! by gRPC's codes. Framing is done here and not by a library of gRPC, so that a message's claimed length reserves
//! nothing, a time limit that has passed is DEADLINE_EXCEEDED, and elements are not copied on their way.

mod frame;
mod messages;
#[rustfmt::skip]
#[allow(unreachable_pub, missing_docs, reason = "as the generator writes it")]
mod proto;
mod request;
mod response;
mod stream;
mod texts;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Method as Verb, Request, Response, StatusCode};
use prost::Message;
use tokio::sync::watch;

use crate::answer::Answer;
use crate::body::Messages;
use crate::coding::{self, Coding};
use crate::inference::Asked;
use crate::journal::Caller;
use crate::refusal::{Kind, Refusal};
use crate::registry::Loaded;
use crate::service::{self, Service};
use frame::Reply;

/// Most bytes of a message that is not an inference request.
const SMALL: usize = 64 << 10;

/// A client's time limit: at most eight digits and a unit.
const TIMEOUT: &str = "grpc-timeout";

/// The methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    ServerLive,
    ServerReady,
    ServerMetadata,
    ModelReady,
    ModelMetadata,
    ModelConfig,
    ModelStatistics,
    ModelInfer,
    ModelStreamInfer,
    RepositoryIndex,
    RepositoryModelLoad,
    RepositoryModelUnload,
    Health,
}

impl Method {
    fn of(path: &str) -> Option<Method> {
        if path == "/grpc.health.v1.Health/Check" {
            return Some(Method::Health);
        }
        Some(match path.strip_prefix("/inference.GRPCInferenceService/")? {
            "ServerLive" => Method::ServerLive,
            "ServerReady" => Method::ServerReady,
            "ServerMetadata" => Method::ServerMetadata,
            "ModelReady" => Method::ModelReady,
            "ModelMetadata" => Method::ModelMetadata,
            "ModelConfig" => Method::ModelConfig,
            "ModelStatistics" => Method::ModelStatistics,
            "ModelInfer" => Method::ModelInfer,
            "ModelStreamInfer" => Method::ModelStreamInfer,
            "RepositoryIndex" => Method::RepositoryIndex,
            "RepositoryModelLoad" => Method::RepositoryModelLoad,
            "RepositoryModelUnload" => Method::RepositoryModelUnload,
            _ => return None,
        })
    }
}

/// Answers a call; a refusal is an answer too. A stream ends when the server ends.
pub(crate) async fn answer(
    service: Arc<Service>,
    request: Request<Incoming>,
    is_ending: watch::Receiver<bool>,
) -> Result<Response<Reply>, Infallible> {
    let arrived = Instant::now();
    let kind = request.headers().get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    let is_grpc =
        kind.strip_prefix(b"application/grpc").is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')));
    if *request.method() != Verb::POST || !is_grpc {
        let mut response = Response::new(Reply::default());
        let is_post = *request.method() == Verb::POST;
        *response.status_mut() =
            if is_post { StatusCode::UNSUPPORTED_MEDIA_TYPE } else { StatusCode::METHOD_NOT_ALLOWED };
        return Ok(response);
    }
    if Method::of(request.uri().path()) == Some(Method::ModelStreamInfer) {
        let answer = stream::answer(&service, request, arrived, is_ending);
        return Ok(answer.unwrap_or_else(|refusal| frame::refused(&refusal)));
    }
    Ok(call(&service, request, arrived).await.map_or_else(|refusal| frame::refused(&refusal), frame::answered))
}

/// The message of the answer.
async fn call(service: &Arc<Service>, request: Request<Incoming>, arrived: Instant) -> Result<frame::Message, Refusal> {
    let path = request.uri().path();
    let method = Method::of(path).ok_or_else(|| Refusal::new(Kind::Method, format!("there is no method {path}")))?;
    let _turn = service.calls.try_acquire().map_err(|_| Refusal::new(Kind::Full, "too many calls are in hand"))?;
    if method == Method::ModelInfer {
        return infer(service, request, arrived).await;
    }
    let (head, body) = request.into_parts();
    let body = Messages::of(body, Coding::given(&head.headers, &frame::ENCODING), SMALL).only().await?;
    let message = other(service, method, &body).await?;
    Ok(frame::Message { parts: vec![message.into()], coding: Coding::Identity })
}

/// Answers an inference request.
async fn infer(service: &Service, request: Request<Incoming>, arrived: Instant) -> Result<frame::Message, Refusal> {
    accepts_work(service)?;
    let (parts, body) = request.into_parts();
    let limit = timeout(&parts.headers)?;
    let mut messages = Messages::of(body, Coding::given(&parts.headers, &frame::ENCODING), service.max_body);
    let read = messages.only();
    let body = match limit.and_then(|limit| arrived.checked_add(limit)) {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), read).await.map_err(|_| Refusal::late())??,
        None => read.await?,
    };
    let arrival = Arrival { at: arrived, limit, caller: Caller::of(&parts.headers) };
    let answer = run(service, &loaded(service, &body)?, body, arrival).await?;
    coded(service, if messages.is_compressed { answering(&parts.headers) } else { Coding::Identity }, answer).await
}

/// When a request came, and what its headers say.
#[derive(Clone, Copy)]
struct Arrival {
    at: Instant,
    /// The client's time limit.
    limit: Option<Duration>,
    caller: Option<Caller>,
}

/// The model that the message of an inference request names.
fn loaded(service: &Service, body: &[u8]) -> Result<Loaded, Refusal> {
    let (name, version) = request::model(body)?;
    service.registry.get(name, version)
}

/// Runs an inference request. The message names the model, so the request is counted once the message has arrived.
async fn run(service: &Service, loaded: &Loaded, body: Bytes, arrival: Arrival) -> Result<Answer, Refusal> {
    let asked = async {
        let head = request::head(&body)?;
        Ok(Asked { body: body.clone(), head, limit: arrival.limit, form: response::answer })
    };
    service.infer(service.pending(loaded, arrival.at, arrival.caller), asked).await
}

/// The coding of answers to a client that compresses its messages: the same coding, if the client accepts it.
fn answering(headers: &HeaderMap) -> Coding {
    let coding = Coding::given(headers, &frame::ENCODING).unwrap_or_default();
    let accepted = headers.get_all(frame::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut accepted = accepted.flat_map(|value| value.split(','));
    if accepted.any(|name| name.trim().eq_ignore_ascii_case(coding.name())) { coding } else { Coding::Identity }
}

/// The message of an answer, in that coding where it is long enough.
async fn coded(service: &Service, coding: Coding, answer: Answer) -> Result<frame::Message, Refusal> {
    let parts = answer.parts;
    if coding == Coding::Identity || !coding::is_long(&parts) {
        return Ok(frame::Message { parts, coding: Coding::Identity });
    }
    Ok(frame::Message { parts: vec![service.pack(coding, parts).await?], coding })
}

/// Answers a call that is not an inference.
async fn other(service: &Arc<Service>, method: Method, body: &[u8]) -> Result<Vec<u8>, Refusal> {
    let registry = &service.registry;
    Ok(match method {
        // Inference is answered before this.
        Method::ModelInfer | Method::ModelStreamInfer => return Err(Refusal::own_fault()),
        Method::ServerLive => proto::ServerLiveResponse { live: true }.encode_to_vec(),
        Method::ServerReady => proto::ServerReadyResponse { ready: service.is_ready() }.encode_to_vec(),
        Method::ServerMetadata => messages::server().encode_to_vec(),
        Method::Health => {
            let asked: proto::HealthCheckRequest = decoded(body)?;
            messages::health(&asked.service, service.is_ready())?.encode_to_vec()
        }
        Method::ModelReady => {
            let asked: proto::ModelRequest = decoded(body)?;
            let ready = registry.get(&asked.name, version(&asked)).is_ok();
            proto::ModelReadyResponse { ready }.encode_to_vec()
        }
        Method::ModelMetadata => {
            let asked: proto::ModelRequest = decoded(body)?;
            let loaded = registry.get(&asked.name, version(&asked))?;
            messages::metadata(registry, &loaded).encode_to_vec()
        }
        Method::ModelConfig => {
            let asked: proto::ModelRequest = decoded(body)?;
            messages::config(&registry.get(&asked.name, version(&asked))?).encode_to_vec()
        }
        Method::ModelStatistics => {
            let asked: proto::ModelRequest = decoded(body)?;
            let models = match asked.name.as_str() {
                "" => registry.ready(),
                name => vec![registry.get(name, version(&asked))?],
            };
            messages::statistics(&models).encode_to_vec()
        }
        Method::RepositoryIndex => {
            let asked: proto::RepositoryIndexRequest = decoded(body)?;
            messages::index(registry, asked.ready).encode_to_vec()
        }
        Method::RepositoryModelLoad => {
            accepts_work(service)?;
            let asked: proto::RepositoryModelRequest = decoded(body)?;
            if let Some(proto::repository_model_request::Parameter { key }) = asked.parameters.first() {
                return Err(Refusal::bad(format!(
                    "the parameter '{key}': models are loaded as their folders have them"
                )));
            }
            let models = Arc::clone(service);
            service::elsewhere(move || models.registry.load(&asked.model_name)).await??;
            Vec::new()
        }
        Method::RepositoryModelUnload => {
            accepts_work(service)?;
            let asked: proto::RepositoryModelRequest = decoded(body)?;
            let models = Arc::clone(service);
            service::elsewhere(move || models.registry.unload(&asked.model_name)).await??;
            Vec::new()
        }
    })
}

/// Refuses work that begins after the server's end has begun: a retry reaches another server.
fn accepts_work(service: &Service) -> Result<(), Refusal> {
    if service.is_ending() { Err(Refusal::new(Kind::Unavailable, "the server is ending")) } else { Ok(()) }
}

fn decoded<M: Message + Default>(body: &[u8]) -> Result<M, Refusal> {
    M::decode(body).map_err(|error| Refusal::bad(format!("the message cannot be read: {error}")))
}

/// The version that a request names.
fn version(asked: &proto::ModelRequest) -> Option<&str> {
    Some(asked.version.as_str()).filter(|version| !version.is_empty())
}

/// The client's time limit.
fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Refusal> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    let read = || {
        let (&unit, digits) = value.as_bytes().split_last()?;
        if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let number = digits.iter().fold(0u64, |number, digit| number * 10 + u64::from(digit - b'0'));
        Some(match unit {
            b'H' => Duration::from_secs(number * 3600),
            b'M' => Duration::from_secs(number * 60),
            b'S' => Duration::from_secs(number),
            b'm' => Duration::from_millis(number),
            b'u' => Duration::from_micros(number),
            b'n' => Duration::from_nanos(number),
            _ => return None,
        })
    };
    read().map(Some).ok_or_else(|| Refusal::bad(format!("the header {TIMEOUT} is {value:?}, not digits and a unit")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_has_one_to_eight_digits_and_a_unit() {
        let read = |text: &str| timeout(&HeaderMap::from_iter([(TIMEOUT.parse().unwrap(), text.parse().unwrap())]));
        for (text, expected) in [
            ("1H", Duration::from_secs(3600)),
            ("2M", Duration::from_secs(120)),
            ("3S", Duration::from_secs(3)),
            ("4m", Duration::from_millis(4)),
            ("5u", Duration::from_micros(5)),
            ("99999999n", Duration::from_nanos(99_999_999)),
        ] {
            assert_eq!(read(text).unwrap(), Some(expected), "{text}");
        }
        for text in ["", "m", "1", "1s", "123456789n", "-1m", "1 m"] {
            assert_eq!(read(text).unwrap_err().kind, Kind::Bad, "{text}");
        }
        assert_eq!(timeout(&HeaderMap::new()).unwrap(), None);
    }
}
