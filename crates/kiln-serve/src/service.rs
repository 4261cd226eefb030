//! From the body of an inference request to its answer: read, admitted, queued, run on a lane, and cancelled if its
//! time is over or its client has gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use tokio::sync::{Semaphore, oneshot};

use crate::answer::{self, Answer};
use crate::body;
use crate::coding::{self, Coding};
use crate::head::Head;
use crate::inference::{Asked, Inference, Job};
use crate::journal::{Caller, Ended, Journal, Stage};
use crate::model::{Loader, Port};
use crate::queue::Queue;
use crate::refusal::{Kind, Refusal};
use crate::registry::{Loaded, Registry};
use crate::tally::Outcome;
use crate::ticket::{Stages, Ticket};

/// The number of bytes of a body that are JSON, before compression.
pub(crate) const JSON_LENGTH: &str = "inference-header-content-length";

/// A client's time limit in microseconds, as the parameter `timeout`.
const TIMEOUT: &str = "kiln-timeout-us";

/// Reading this many bytes of JSON takes longer than starting a thread.
pub(crate) const LONG: usize = 128 << 10;

/// State that requests share.
pub(crate) struct Service {
    pub(crate) registry: Registry,
    pub(crate) loader: Arc<dyn Loader>,
    pub(crate) queue: Queue<Job>,
    /// Permits for reading long JSON and compressing long answers.
    pub(crate) readers: Semaphore,
    /// Most bytes of a body.
    pub(crate) max_body: usize,
    /// The time limit of a request that asks for none, and the longest that a request may ask for.
    pub(crate) time_limit: Option<Duration>,
    /// Whether all models are loaded and the server's end has not begun.
    pub(crate) is_ready: AtomicBool,
    /// Whether the server's end has begun.
    pub(crate) is_ending: AtomicBool,
    /// Permits for gRPC requests; a connection may have many at a time.
    pub(crate) calls: Semaphore,
    /// The receivers of reports of ended requests.
    pub(crate) journals: Arc<[Arc<dyn Journal>]>,
}

/// Counts a request when it ends. If the client has gone, the future that waits for the answer is dropped, and this
/// with it: the request is then cancelled.
pub(crate) struct Pending {
    pub(crate) ticket: Option<Arc<Ticket>>,
    loaded: Loaded,
    pub(crate) arrived: Instant,
    outcome: Outcome,
    /// Why it has no outputs.
    error: Option<String>,
    caller: Option<Caller>,
    journals: Arc<[Arc<dyn Journal>]>,
}

impl Pending {
    /// Notes that it has been answered.
    pub(crate) fn note_answer(&mut self) {
        self.outcome = Outcome::Ok;
    }

    /// Notes that it was refused, and why.
    pub(crate) fn note_refusal(&mut self, refusal: &Refusal) {
        self.outcome = Outcome::of(refusal.kind);
        if !self.journals.is_empty() {
            self.error = Some(refusal.message.clone());
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(ticket) = &self.ticket {
            ticket.cancel();
        }
        let took = self.arrived.elapsed();
        self.loaded.tally.end(self.outcome, took);
        if self.journals.is_empty() {
            return;
        }
        let stages = self.ticket.as_ref().map_or_else(Stages::default, |ticket| ticket.stages(|stages| *stages));
        let stage = |(begun, time): (Instant, Duration)| Stage { after: begun.duration_since(self.arrived), time };
        let request = Ended {
            model: &self.loaded.name,
            version: self.loaded.version,
            outcome: self.outcome.name(),
            error: self.error.as_deref(),
            began: SystemTime::now().checked_sub(took).unwrap_or(SystemTime::UNIX_EPOCH),
            took,
            queued: stages.queued.map(stage),
            ran: stages.ran.map(stage),
            together: stages.together,
            caller: self.caller,
        };
        self.journals.iter().for_each(|journal| journal.ended(&request));
    }
}

impl Service {
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// A request of that model, which is cancelled unless its end is noted.
    pub(crate) fn pending(&self, loaded: &Loaded, arrived: Instant, caller: Option<Caller>) -> Pending {
        let (loaded, journals) = (loaded.clone(), Arc::clone(&self.journals));
        Pending { ticket: None, loaded, arrived, outcome: Outcome::Cancelled, error: None, caller, journals }
    }

    /// Answers an inference request, which `asked` reads.
    pub(crate) async fn infer(
        &self,
        mut pending: Pending,
        asked: impl Future<Output = Result<Asked, Refusal>>,
    ) -> Result<Answer, Refusal> {
        let result = match asked.await {
            Ok(asked) => self.run(asked, &mut pending).await,
            Err(refusal) => Err(refusal),
        };
        match &result {
            Ok(_) => pending.note_answer(),
            Err(refusal) => pending.note_refusal(refusal),
        }
        result
    }

    async fn run(&self, asked: Asked, pending: &mut Pending) -> Result<Answer, Refusal> {
        let loaded = pending.loaded.clone();
        if loaded.model.language().is_some() {
            let name = &loaded.name;
            return Err(Refusal::bad(format!(
                "model '{name}' continues texts: /v1/completions, /v2/models/{name}/generate and ModelStreamInfer do"
            )));
        }
        asked.head.check(loaded.model.inputs(), loaded.model.outputs())?;

        let limits = [asked.limit, asked.head.timeout, self.time_limit];
        let limit = limits.into_iter().flatten().min();
        let deadline = limit.and_then(|limit| pending.arrived.checked_add(limit));
        let ticket = Arc::new(Ticket::until(deadline));
        let (sender, answer) = oneshot::channel();
        pending.ticket = Some(Arc::clone(&ticket));
        let inference = Inference::new(loaded, asked, ticket, pending.arrived, sender);
        self.enqueue(Job::Inference(Box::new(inference)))?;
        answered(answer, deadline).await
    }

    /// Adds a request to the queue.
    pub(crate) fn enqueue(&self, job: Job) -> Result<(), Refusal> {
        self.queue.push(job).map_err(|full| {
            let message = format!("{} requests wait already, the queue has room for no more", full.waiting);
            Refusal::new(Kind::Full, message)
        })
    }

    /// Reads a REST inference request for a model with these inputs.
    pub(crate) async fn asked(&self, inputs: &[Port], request: Request<Incoming>) -> Result<Asked, Refusal> {
        let (parts, body) = request.into_parts();
        let limit = limit_of(&parts.headers)?;
        let json = number(&parts.headers, JSON_LENGTH)?;
        let body = body::read(&parts.headers, body, self.max_body).await?;
        let head = match json.map(|json| usize::try_from(json).unwrap_or(usize::MAX)) {
            Some(0) => Head::of_raw(&body, inputs)?,
            json => self.head_of_json(&body, json.unwrap_or(body.len())).await?,
        };
        Ok(Asked { body, head, limit, form: answer::answer })
    }

    /// Compresses an answer. Long answers are compressed on threads of their own, as many at a time as there are lanes.
    pub(crate) async fn pack(&self, coding: Coding, parts: Vec<Bytes>) -> Result<Bytes, Refusal> {
        if parts.iter().map(Bytes::len).sum::<usize>() <= LONG {
            return coding::pack(coding, &parts);
        }
        // The semaphore is never closed.
        let _turn = self.readers.acquire().await;
        elsewhere(move || coding::pack(coding, &parts)).await?
    }

    /// Reads the JSON of a body. Long JSON is read on a thread of its own, so that other connections do not wait for
    /// it, and on as many at a time as there are lanes.
    async fn head_of_json(&self, body: &Bytes, json: usize) -> Result<Head, Refusal> {
        if json.min(body.len()) <= LONG {
            return Head::of_json(body, json);
        }
        // The semaphore is never closed.
        let _turn = self.readers.acquire().await;
        let body = body.clone();
        elsewhere(move || Head::of_json(&body, json)).await?
    }
}

/// A lane's answer, if it comes before the deadline.
pub(crate) async fn answered<T>(
    answer: oneshot::Receiver<Result<T, Refusal>>,
    deadline: Option<Instant>,
) -> Result<T, Refusal> {
    let answered = match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), answer).await.map_err(|_| Refusal::late())?,
        None => answer.await,
    };
    // A lane that drops a request unanswered has met a fault.
    answered.unwrap_or_else(|_| Err(Refusal::own_fault()))
}

/// Runs long work on a thread of its own.
pub(crate) async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    let failed = || Refusal::new(Kind::Fault, "no thread could do it");
    let (sender, done) = oneshot::channel();
    let thread = std::thread::Builder::new().name("kiln-aside".to_owned());
    thread.spawn(move || drop(sender.send(work()))).map_err(|_| failed())?;
    done.await.map_err(|_| failed())
}

/// The client's time limit for a request.
pub(crate) fn limit_of(headers: &HeaderMap) -> Result<Option<Duration>, Refusal> {
    Ok(number(headers, TIMEOUT)?.map(Duration::from_micros))
}

/// A header whose value is a whole number.
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
