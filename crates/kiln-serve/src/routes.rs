//! From a path and a method to an answer of HTTP.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    HeaderName, HeaderValue, RETRY_AFTER,
};
use hyper::{Method, Request, Response, StatusCode};

use crate::answer::Answer;
use crate::body;
use crate::coding::{self, Coding};
use crate::journal::Caller;
use crate::metrics;
use crate::pages;
use crate::refusal::{Kind, Refusal};
use crate::registry::Loaded;
use crate::reply::Reply;
use crate::service::{self, JSON_LENGTH, Service};
use crate::texts::{self, Form, Told};

/// Most bytes of a body that is not an inference request.
const SMALL: usize = 64 << 10;

/// The target of a path.
#[derive(Debug, PartialEq, Eq)]
enum Route<'p> {
    Home,
    Overview,
    Health,
    Ready,
    Server,
    Description,
    Metrics,
    AllStatistics,
    Index,
    Load(&'p str),
    Unload(&'p str),
    Model(OfModel<'p>),
    /// The models as OpenAI's interface lists them, or one model.
    Listed(Option<&'p str>),
    Completions,
    Chats,
}

/// A page of a model.
#[derive(Debug, PartialEq, Eq)]
struct OfModel<'p> {
    name: &'p str,
    version: Option<&'p str>,
    page: Page,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Metadata,
    Ready,
    Config,
    Statistics,
    Infer,
    Generate,
    GenerateStream,
}

impl Route<'_> {
    fn of<'p>(path: &[&'p str]) -> Option<Route<'p>> {
        Some(match path {
            [""] => Route::Home,
            ["metrics"] => Route::Metrics,
            ["v1", "models"] => Route::Listed(None),
            ["v1", "models", name] => Route::Listed(Some(name)),
            ["v1", "completions"] => Route::Completions,
            ["v1", "chat", "completions"] => Route::Chats,
            ["v2"] => Route::Server,
            ["v2", "overview"] => Route::Overview,
            ["v2", "openapi.json"] => Route::Description,
            ["v2", "health", "live"] => Route::Health,
            ["v2", "health", "ready"] => Route::Ready,
            ["v2", "models", "stats"] => Route::AllStatistics,
            ["v2", "repository", "index"] => Route::Index,
            ["v2", "repository", "models", name, "load"] => Route::Load(name),
            ["v2", "repository", "models", name, "unload"] => Route::Unload(name),
            ["v2", "models", name, "versions", version, rest @ ..] => {
                Route::Model(OfModel { name, version: Some(version), page: Page::of(rest)? })
            }
            ["v2", "models", name, rest @ ..] => Route::Model(OfModel { name, version: None, page: Page::of(rest)? }),
            _ => return None,
        })
    }

    fn method(&self) -> Method {
        match self {
            Route::Index | Route::Load(_) | Route::Unload(_) | Route::Completions | Route::Chats => Method::POST,
            Route::Model(OfModel { page: Page::Infer | Page::Generate | Page::GenerateStream, .. }) => Method::POST,
            _ => Method::GET,
        }
    }

    /// The interface that the route belongs to, where it is about texts: refusals have its form.
    fn form(&self) -> Form {
        match self {
            Route::Chats => Form::Chat,
            Route::Completions | Route::Listed(_) => Form::Completion,
            _ => Form::Triton,
        }
    }
}

impl Page {
    fn of(path: &[&str]) -> Option<Page> {
        Some(match path {
            [] => Page::Metadata,
            ["ready"] => Page::Ready,
            ["config"] => Page::Config,
            ["stats"] => Page::Statistics,
            ["infer"] => Page::Infer,
            ["generate"] => Page::Generate,
            ["generate_stream"] => Page::GenerateStream,
            _ => return None,
        })
    }
}

/// The parts of a path, each decoded separately: a slash in a name is not a slash of the path.
fn parts(path: &str) -> Result<Vec<String>, Refusal> {
    let bad = || Refusal::bad("the path is not percent-encoded UTF-8");
    let decode = |part: &str| {
        let (mut bytes, mut rest) = (Vec::with_capacity(part.len()), part.as_bytes());
        while let Some((&byte, tail)) = rest.split_first() {
            rest = tail;
            if byte != b'%' {
                bytes.push(byte);
                continue;
            }
            let (digits, tail) = rest.split_at_checked(2).ok_or_else(bad)?;
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let (high, low) = digit(digits[0]).zip(digit(digits[1])).ok_or_else(bad)?;
            bytes.push((high * 16 + low) as u8);
            rest = tail;
        }
        String::from_utf8(bytes).map_err(|_| bad())
    };
    path.strip_prefix('/').unwrap_or(path).split('/').map(decode).collect()
}

/// Answers a request; a refusal is an answer too. The last answer of a connection is marked as the last.
pub(crate) async fn answer(service: Arc<Service>, request: Request<Incoming>) -> Result<Response<Reply>, Infallible> {
    let mut response = found(&service, request).await;
    if service.is_ending() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// The answer of the page that the request asks for.
async fn found(service: &Arc<Service>, request: Request<Incoming>) -> Response<Reply> {
    let path = match parts(request.uri().path()) {
        Ok(path) => path,
        Err(refusal) => return refused(Form::Triton, &refusal),
    };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let Some(route) = Route::of(&path) else {
        return refused(Form::Triton, &Refusal::unknown("there is no such page"));
    };
    let form = route.form();
    let coding = Coding::asked(request.headers());
    let response = match follow(service, route, request).await {
        Ok(response) => coded(service, coding, response).await,
        Err(refusal) => Err(refusal),
    };
    response.unwrap_or_else(|refusal| refused(form, &refusal))
}

/// The answer in the coding that its client has asked for, if it is complete and long enough.
async fn coded(service: &Service, coding: Coding, response: Response<Reply>) -> Result<Response<Reply>, Refusal> {
    let (mut head, body) = response.into_parts();
    let parts = match body {
        Reply::Parts(parts) if coding != Coding::Identity => Vec::from(parts),
        body => return Ok(Response::from_parts(head, body)),
    };
    if !coding::is_long(&parts) {
        return Ok(Response::from_parts(head, Reply::Parts(parts.into())));
    }
    let packed = service.pack(coding, parts).await?;
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    Ok(Response::from_parts(head, Reply::Parts([packed].into())))
}

async fn follow(
    service: &Arc<Service>,
    route: Route<'_>,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Refusal> {
    let method = route.method();
    if *request.method() != method {
        let mut response = refused(route.form(), &Refusal::new(Kind::Method, format!("this page takes {method}")));
        let allowed = if method == Method::POST { "POST" } else { "GET" };
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        return Ok(response);
    }
    let registry = &service.registry;
    match route {
        Route::Home => {
            let mut response = response(StatusCode::OK, "text/html; charset=utf-8", [pages::HOME.into()].into());
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(pages::HOME_POLICY));
            Ok(response)
        }
        Route::Overview => Ok(json(StatusCode::OK, &pages::overview(service))),
        Route::Health => Ok(json(StatusCode::OK, &pages::health(service))),
        Route::Ready => {
            let status = if service.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            Ok(json(status, &pages::health(service)))
        }
        Route::Server => Ok(json(StatusCode::OK, &pages::server())),
        Route::Description => Ok(response(StatusCode::OK, "application/json", [pages::DESCRIPTION.into()].into())),
        Route::Metrics => {
            let text = metrics::text(service);
            Ok(response(StatusCode::OK, "text/plain; version=0.0.4", [text.into()].into()))
        }
        Route::AllStatistics => Ok(json(StatusCode::OK, &pages::statistics(&registry.ready()))),
        Route::Index => {
            let only_ready = small_object(request).await?.get("ready").and_then(serde_json::Value::as_bool);
            Ok(json(StatusCode::OK, &pages::index(registry, only_ready.unwrap_or(false))))
        }
        Route::Load(name) => {
            let body = small_object(request).await?;
            if let Some(name) = body.get("parameters").and_then(|given| given.as_object()?.keys().next()) {
                return Err(Refusal::bad(format!(
                    "the parameter '{name}': models are loaded as their folders have them"
                )));
            }
            let (models, name) = (Arc::clone(service), name.to_owned());
            service::elsewhere(move || models.registry.load(&name)).await??;
            Ok(response(StatusCode::OK, "application/json", VecDeque::new()))
        }
        Route::Unload(name) => {
            let (models, name) = (Arc::clone(service), name.to_owned());
            service::elsewhere(move || models.registry.unload(&name)).await??;
            Ok(response(StatusCode::OK, "application/json", VecDeque::new()))
        }
        Route::Model(OfModel { name, version, page }) => {
            let loaded = registry.get(name, version)?;
            model(service, loaded, page, request).await
        }
        Route::Listed(name) => {
            let listed = name.map(|name| registry.get(name, None)).transpose()?;
            if let Some(other) = listed.as_ref().filter(|loaded| loaded.model.language().is_none()) {
                return Err(Refusal::unknown(format!("model '{}' is no language model", other.name)));
            }
            Ok(json(StatusCode::OK, &pages::listed(registry, listed.as_ref())))
        }
        Route::Completions => tell(service, Form::Completion, None, None, request).await,
        Route::Chats => tell(service, Form::Chat, None, None, request).await,
    }
}

async fn model(
    service: &Service,
    loaded: Loaded,
    page: Page,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Refusal> {
    Ok(match page {
        Page::Metadata => json(StatusCode::OK, &pages::metadata(&service.registry, &loaded)),
        Page::Ready => json(StatusCode::OK, &serde_json::json!({ "name": loaded.name, "ready": true })),
        Page::Config => json(StatusCode::OK, &pages::config(&loaded)),
        Page::Statistics => json(StatusCode::OK, &pages::statistics(&[loaded])),
        Page::Generate => return tell(service, Form::Triton, Some(loaded), Some(false), request).await,
        Page::GenerateStream => return tell(service, Form::Triton, Some(loaded), Some(true), request).await,
        Page::Infer => {
            let pending = service.pending(&loaded, Instant::now(), Caller::of(request.headers()));
            let asked = service.asked(loaded.model.inputs(), request);
            let Answer { json, parts } = service.infer(pending, asked).await?;
            let kind = if json.is_some() { "application/octet-stream" } else { "application/json" };
            let mut response = response(StatusCode::OK, kind, parts.into());
            if let Some(length) = json {
                response.headers_mut().insert(HeaderName::from_static(JSON_LENGTH), length.into());
            }
            response
        }
    })
}

/// Answers a request of a language model.
async fn tell(
    service: &Service,
    form: Form,
    model: Option<Loaded>,
    is_stream: Option<bool>,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Refusal> {
    let told = service.tell(form, model, is_stream, request).await?;
    Ok(match told {
        Told::Whole(json) => response(StatusCode::OK, "application/json", [json].into()),
        Told::Events(events) => {
            let mut response = Response::new(Reply::Events(events));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            response
        }
    })
}

/// A small body: a JSON object, or nothing.
async fn small_object(request: Request<Incoming>) -> Result<serde_json::Value, Refusal> {
    let (parts, body) = request.into_parts();
    let body = body::read(&parts.headers, body, SMALL).await?;
    if body.is_empty() {
        return Ok(serde_json::json!({}));
    }
    let value: serde_json::Value =
        serde_json::from_slice(&body).map_err(|error| Refusal::bad(format!("the body is no JSON: {error}")))?;
    if value.is_object() { Ok(value) } else { Err(Refusal::bad("the body is no object of JSON")) }
}

fn response(status: StatusCode, kind: &'static str, parts: VecDeque<Bytes>) -> Response<Reply> {
    let parts = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let mut response = Response::new(Reply::Parts(parts));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn json(status: StatusCode, value: &serde_json::Value) -> Response<Reply> {
    response(status, "application/json", [value.to_string().into()].into())
}

fn refused(form: Form, refusal: &Refusal) -> Response<Reply> {
    let mut response = json(refusal.kind.status(), &texts::error(form, refusal));
    if matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if refusal.kind == Kind::Coding {
        response.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static(coding::OFFERED));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_path_are_decoded_after_they_are_taken_apart() {
        assert_eq!(parts("/v2/models/a%2Fb").unwrap(), ["v2", "models", "a/b"]);
        for path in ["/%", "/%2", "/%zz", "/%ff"] {
            assert!(parts(path).is_err(), "{path}");
        }
    }

    #[test]
    fn models_have_pages_with_and_without_a_version() {
        let of = |name, version, page| Some(Route::Model(OfModel { name, version, page }));
        assert_eq!(Route::of(&["v2", "models", "m"]), of("m", None, Page::Metadata));
        assert_eq!(Route::of(&["v2", "models", "m", "versions", "2", "infer"]), of("m", Some("2"), Page::Infer));
        assert_eq!(Route::of(&["v2", "models", "m", "other"]), None);
        assert_eq!(Route::of(&["v2", "systemsharedmemory", "status"]), None);
    }

    /// A path of the description in the form of a request.
    fn example(path: &str) -> String {
        path.replace("{model}", "m").replace("{version}", "1")
    }

    #[test]
    fn the_description_has_the_pages_that_there_are_and_their_methods() {
        let description: serde_json::Value = serde_json::from_str(pages::DESCRIPTION).unwrap();
        assert_eq!(description["info"]["version"], pages::VERSION);
        let mut described = Vec::new();
        for (path, methods) in description["paths"].as_object().unwrap() {
            let parts = parts(&example(path)).unwrap();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let route = Route::of(&parts).unwrap_or_else(|| panic!("there is no page {path}"));
            let methods: Vec<String> = methods.as_object().unwrap().keys().map(|name| name.to_uppercase()).collect();
            assert_eq!(methods, [route.method().as_str()], "{path}");
            described.push(format!("{route:?}"));
        }
        let mut pages: Vec<String> = [
            Route::Home,
            Route::Overview,
            Route::Health,
            Route::Ready,
            Route::Server,
            Route::Description,
            Route::Metrics,
            Route::AllStatistics,
            Route::Index,
            Route::Load("m"),
            Route::Unload("m"),
            Route::Listed(None),
            Route::Listed(Some("m")),
            Route::Completions,
            Route::Chats,
        ]
        .map(|route| format!("{route:?}"))
        .to_vec();
        for page in [
            Page::Metadata,
            Page::Ready,
            Page::Config,
            Page::Statistics,
            Page::Infer,
            Page::Generate,
            Page::GenerateStream,
        ] {
            for version in [None, Some("1")] {
                pages.push(format!("{:?}", Route::Model(OfModel { name: "m", version, page })));
            }
        }
        described.sort();
        pages.sort();
        assert_eq!(described, pages);
    }

    #[test]
    fn the_description_has_what_it_refers_to() {
        fn check(value: &serde_json::Value, whole: &serde_json::Value) {
            if let Some(reference) = value.get("$ref").and_then(serde_json::Value::as_str) {
                let place = reference.strip_prefix('#').unwrap();
                assert!(whole.pointer(place).is_some(), "{reference}");
            }
            let items = value.as_array().into_iter().flatten();
            items
                .chain(value.as_object().into_iter().flat_map(|fields| fields.values()))
                .for_each(|item| check(item, whole));
        }
        let description: serde_json::Value = serde_json::from_str(pages::DESCRIPTION).unwrap();
        check(&description, &description);
        let types = description["components"]["schemas"]["Datatype"]["enum"].as_array().unwrap();
        assert!(types.iter().eq(crate::datatype::Datatype::ALL.iter().map(|datatype| datatype.name())));
        for kind in Kind::ALL {
            let status = kind.status().as_u16().to_string();
            let is_there = status == "405" || description["components"]["responses"].get(&status).is_some();
            assert!(is_there, "{kind:?}: {status}");
        }
    }
}
