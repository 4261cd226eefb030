//! From the body of an inference request to its answer: read, admitted, queued, run on a lane, and given up where its
//! time is over or its client has gone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, HeaderMap};
use hyper::{Request, StatusCode};
use tokio::sync::{Semaphore, oneshot};

use crate::answer::{self, Answer, Answering};
use crate::head::Head;
use crate::model::{Loader, Ticket};
use crate::queue::Queue;
use crate::refusal::Refusal;
use crate::registry::{Loaded, Registry};
use crate::tally::{Outcome, Tally};

/// How many bytes of a body are JSON.
pub(crate) const JSON_LENGTH: &str = "inference-header-content-length";

/// A client's time limit in microseconds, as the parameter `timeout`.
const TIMEOUT: &str = "kiln-timeout-us";

/// The longest pause of a client in the middle of a body.
const PATIENCE: Duration = Duration::from_secs(30);

/// JSON of more bytes takes longer than a thread takes to start.
const LONG: usize = 128 << 10;

/// What requests share.
pub(crate) struct Service {
    pub(crate) registry: Registry,
    pub(crate) loader: Arc<dyn Loader>,
    pub(crate) queue: Queue,
    /// Permits of those who read long JSON.
    pub(crate) readers: Semaphore,
    /// Most bytes of a body.
    pub(crate) max_body: usize,
    /// Time of a request that asks for none, and the most that one may ask for.
    pub(crate) time_limit: Option<Duration>,
    /// Whether all models are loaded and the end has not begun.
    pub(crate) is_ready: AtomicBool,
}

/// Counts a request when it ends. Where its client has gone, the future that waits for the answer is dropped, and this
/// with it: the request is then given up.
struct Pending {
    ticket: Option<Arc<Ticket>>,
    tally: Arc<Tally>,
    arrived: Instant,
    outcome: Outcome,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(ticket) = &self.ticket {
            ticket.cancel();
        }
        self.tally.end(self.outcome, self.arrived.elapsed());
    }
}

impl Service {
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    /// Answers an inference request.
    pub(crate) async fn infer(&self, loaded: Loaded, request: Request<Incoming>) -> Result<Answer, Refusal> {
        let arrived = Instant::now();
        let tally = Arc::clone(&loaded.tally);
        let mut pending = Pending { ticket: None, tally, arrived, outcome: Outcome::Cancelled };
        let result = self.run(loaded, request, &mut pending).await;
        let status = result.as_ref().map_or_else(|refusal| refusal.status, |_| StatusCode::OK);
        pending.outcome = Outcome::of_status(status.as_u16());
        result
    }

    async fn run(&self, loaded: Loaded, request: Request<Incoming>, pending: &mut Pending) -> Result<Answer, Refusal> {
        let (parts, body) = request.into_parts();
        let limit = number(&parts.headers, TIMEOUT)?.map(Duration::from_micros);
        let json = number(&parts.headers, JSON_LENGTH)?;
        if let Some(coding) = parts.headers.get(CONTENT_ENCODING).filter(|coding| *coding != "identity") {
            let message = format!("bodies in the coding {coding:?} are not taken, send them as they are");
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let body = read(body, self.max_body).await?;
        let head = match json.map(|json| usize::try_from(json).unwrap_or(usize::MAX)) {
            Some(0) => Head::of_raw(&body, loaded.model.inputs())?,
            json => self.head_of_json(&body, json.unwrap_or(body.len())).await?,
        };
        head.check(loaded.model.inputs(), loaded.model.outputs())?;

        let limits = [limit, head.timeout, self.time_limit];
        let limit = limits.into_iter().flatten().min();
        let deadline = limit.and_then(|limit| pending.arrived.checked_add(limit));
        let ticket = Arc::new(Ticket::until(deadline));
        let (sender, answer) = oneshot::channel();
        let queued = Instant::now();
        let wanted = Arc::clone(&ticket);
        let job = move || {
            loaded.tally.queue.add(queued.elapsed());
            let made = catch_unwind(AssertUnwindSafe(|| work(&loaded, &head, &body, &wanted)));
            let fault = |_| Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "a fault of the server's own"));
            // The receiver is gone where the client has gone.
            let _ = sender.send(made.unwrap_or_else(fault));
        };
        pending.ticket = Some(Arc::clone(&ticket));
        self.queue.push(Box::new(job)).map_err(|full| {
            let message = format!("{} requests wait already, the queue has room for no more", full.waiting);
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, message)
        })?;
        let answered = match deadline {
            Some(deadline) => tokio::time::timeout_at(deadline.into(), answer).await.map_err(|_| Refusal::late())?,
            None => answer.await,
        };
        // A lane that drops a request unanswered has met a fault.
        answered.unwrap_or_else(|_| Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the request was dropped")))
    }
}

impl Service {
    /// Reads the JSON of a body: long JSON on a thread of its own, so that other connections do not wait for it, and on
    /// as many at a time as there are lanes.
    async fn head_of_json(&self, body: &Bytes, json: usize) -> Result<Head, Refusal> {
        if json.min(body.len()) <= LONG {
            return Head::of_json(body, json);
        }
        // It is never closed.
        let _turn = self.readers.acquire().await;
        let body = body.clone();
        elsewhere(move || Head::of_json(&body, json)).await?
    }
}

/// The part of a request that a lane does.
fn work(loaded: &Loaded, head: &Head, body: &Bytes, ticket: &Arc<Ticket>) -> Result<Answer, Refusal> {
    ticket.check()?;
    let tally = &loaded.tally;
    let begun = Instant::now();
    let inputs = answer::inputs(head, body)?;
    tally.input.add(begun.elapsed());
    let begun = Instant::now();
    let outputs = loaded.model.run(inputs, ticket)?;
    tally.infer.add(begun.elapsed());
    let begun = Instant::now();
    let model = Answering { name: &loaded.name, version: loaded.version };
    let answer = answer::answer(&model, head, &outputs)?;
    tally.output.add(begun.elapsed());
    Ok(answer)
}

/// Runs what takes long on a thread of its own.
pub(crate) async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    let failed = || Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "no thread could do it");
    let (sender, done) = oneshot::channel();
    let thread = std::thread::Builder::new().name("kiln-aside".to_owned());
    thread.spawn(move || drop(sender.send(work()))).map_err(|_| failed())?;
    done.await.map_err(|_| failed())
}

/// A header that is a whole number.
fn number(headers: &HeaderMap, name: &str) -> Result<Option<u64>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::bad(format!("the header {name} is given twice")));
    }
    // Rust's parser takes a plus before a number, HTTP does not.
    let digits = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse().ok());
    number.map(Some).ok_or_else(|| Refusal::bad(format!("the header {name} is {value:?}, not a whole number")))
}

/// A body of at most so many bytes. Its memory grows with what arrives, not with what is claimed.
pub(crate) async fn read(mut body: Incoming, most: usize) -> Result<Bytes, Refusal> {
    let too_large = || Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {most} bytes"));
    let claimed = body.size_hint().exact().map(|claimed| usize::try_from(claimed).unwrap_or(usize::MAX));
    if claimed.is_some_and(|claimed| claimed > most) {
        return Err(too_large());
    }
    let mut whole: Vec<u8> = Vec::new();
    loop {
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await.map_err(|_| {
            let message = format!("nothing more of the body came for {} s", PATIENCE.as_secs());
            Refusal::new(StatusCode::REQUEST_TIMEOUT, message)
        })?;
        let Some(frame) = frame else { return Ok(whole.into()) };
        let frame = frame.map_err(|error| Refusal::bad(format!("the body is broken off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let size = whole.len().saturating_add(data.len());
        if size > most {
            return Err(too_large());
        }
        if size > whole.capacity() {
            // By half more, and never beyond what is to come.
            let grown = size.saturating_add(size / 2).min(claimed.unwrap_or(most)).max(size);
            whole.try_reserve_exact(grown - whole.len()).map_err(|_| Refusal::no_memory(grown, "the body"))?;
        }
        whole.extend_from_slice(&data);
    }
}
