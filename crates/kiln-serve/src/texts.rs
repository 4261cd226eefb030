//! From the body of a language model's request to its answer. A lane of the queue begins the texts, and a thread of the
//! model's continues them. Their pieces are collected, or sent as they come.

mod ask;
mod tell;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::Incoming;
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::ask::{Form, Request};
use self::tell::{Teller, Telling, Usage};
pub(crate) use self::tell::{error, now};
use crate::body;
use crate::inference::Job;
use crate::journal::Caller;
use crate::language::{Ending, Said, Text};
use crate::refusal::Refusal;
use crate::registry::Loaded;
use crate::service::{self, LONG, Pending, Service};
use crate::ticket::{Failure, Ticket};

/// Most bytes of a request: texts, and tokens as numbers.
pub(crate) const LARGEST: usize = 4 << 20;

/// An answer.
pub(crate) enum Told {
    /// JSON.
    Whole(Bytes),
    /// Events to come.
    Events(Box<Events>),
}

/// The model's messages about a request's texts, each with the text's index.
type Speech = mpsc::UnboundedReceiver<(usize, Said)>;

/// Texts that the model continues. They are cancelled when this is dropped before their end.
pub(crate) struct Begun {
    teller: Teller,
    speech: Speech,
    told: Vec<Telling>,
    /// Texts that have not ended.
    open: usize,
    usage: Usage,
    has_usage: bool,
    /// Whether any piece has come.
    has_spoken: bool,
    loaded: Loaded,
    pending: Pending,
}

impl Service {
    /// Answers a request of a language model that began to arrive at `arrived`, on the model `name`, or else on the
    /// model that the body names.
    pub(crate) async fn tell(
        &self,
        form: Form,
        name: Option<Loaded>,
        stream: Option<bool>,
        request: hyper::Request<Incoming>,
    ) -> Result<Told, Refusal> {
        let arrived = Instant::now();
        let (parts, body) = request.into_parts();
        let (limit, caller) = (service::limit_of(&parts.headers)?, Caller::of(&parts.headers));
        let body = body::read(&parts.headers, body, self.max_body.min(LARGEST)).await?;
        let request = self.read(body.len(), move || Request::of(form, &body)).await?;
        let loaded = match name {
            Some(loaded) => loaded,
            None => self.named(request.model.as_deref())?,
        };
        let is_stream = stream.unwrap_or(request.is_stream);
        let pending = self.pending(&loaded, arrived, caller);
        let begun = self.begin(loaded, request, limit, pending).await?;
        if is_stream { Ok(Told::Events(Box::new(Events::new(begun)))) } else { begun.whole().await.map(Told::Whole) }
    }

    /// Reads a body of that many bytes; a long body is read on a thread of its own, so that other connections do not
    /// wait for it.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        bytes: usize,
        read: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        if bytes <= LONG {
            return read();
        }
        // The semaphore is never closed.
        let _turn = self.readers.acquire().await;
        service::elsewhere(read).await?
    }

    /// The model that a body names. A body without a name means the only language model.
    fn named(&self, name: Option<&str>) -> Result<Loaded, Refusal> {
        if let Some(name) = name {
            return self.registry.get(name, None);
        }
        let mut all = self.registry.ready().into_iter().filter(|loaded| loaded.model.language().is_some());
        match (all.next(), all.next()) {
            (Some(loaded), None) => Ok(loaded),
            (None, _) => Err(Refusal::unknown("no language model is loaded")),
            _ => Err(Refusal::bad("'model' is missing, and more than one language model is loaded")),
        }
    }

    /// Begins the texts of a request.
    pub(crate) async fn begin(
        &self,
        loaded: Loaded,
        request: Request,
        limit: Option<Duration>,
        mut pending: Pending,
    ) -> Result<Begun, Refusal> {
        let Request { form, texts, copies, has_usage, .. } = request;
        let told = vec![Telling::default(); texts.len()];
        match self.begin_on_lane(&loaded, texts, copies, limit, &mut pending).await {
            Ok((speech, prompt)) => {
                let teller = Teller::new(form, loaded.name.clone(), loaded.version);
                let usage = Usage { prompt, said: 0 };
                let open = told.len();
                Ok(Begun { teller, speech, told, open, usage, has_usage, has_spoken: false, loaded, pending })
            }
            Err(refusal) => {
                pending.note_refusal(&refusal);
                Err(refusal)
            }
        }
    }

    /// Lets a lane begin the texts, and returns the model's messages about them and the number of tokens of the
    /// prompts.
    async fn begin_on_lane(
        &self,
        loaded: &Loaded,
        texts: Vec<Text>,
        copies: usize,
        limit: Option<Duration>,
        pending: &mut Pending,
    ) -> Result<(Speech, usize), Refusal> {
        let name = &loaded.name;
        if loaded.model.language().is_none() {
            return Err(Refusal::bad(format!("model '{name}' continues no texts: /v2/models/{name}/infer runs it")));
        }
        let limit = [limit, self.time_limit].into_iter().flatten().min();
        let deadline = limit.and_then(|limit| pending.arrived.checked_add(limit));
        let ticket = Arc::new(Ticket::until(deadline));
        pending.ticket = Some(Arc::clone(&ticket));
        let (say, speech) = mpsc::unbounded_channel();
        let (sender, answer) = oneshot::channel();
        let (queued, model) = (Instant::now(), loaded.clone());
        self.enqueue(Job::Other(Box::new(move || {
            let time = queued.elapsed();
            model.tally.queue.add(time);
            ticket.stages(|stages| stages.queued = Some((queued, time)));
            let made = catch_unwind(AssertUnwindSafe(|| begin(&model, texts, copies, &ticket, &say)));
            // The receiver is gone if the client has gone.
            let _ = sender.send(made.unwrap_or_else(|_| Err(Refusal::own_fault())));
        })))?;
        let prompt = service::answered(answer, deadline).await?;
        Ok((speech, prompt))
    }
}

/// Begins all texts of a request, and returns the number of tokens of its prompts. If one is refused, none goes on.
fn begin(
    loaded: &Loaded,
    texts: Vec<Text>,
    copies: usize,
    ticket: &Arc<Ticket>,
    say: &mpsc::UnboundedSender<(usize, Said)>,
) -> Result<usize, Refusal> {
    ticket.check()?;
    let Some(language) = loaded.model.language() else {
        return Err(Refusal::own_fault());
    };
    let mut tokens = 0usize;
    for (index, text) in texts.into_iter().enumerate() {
        let say = say.clone();
        // If the client has gone, there is no receiver, and the ticket says so.
        let say = Box::new(move |said| drop(say.send((index, said))));
        let prompt = language.begin(text, ticket, say).inspect_err(|_| ticket.cancel())?;
        // A prompt counts once, however often it is continued.
        if index % copies == 0 {
            tokens = tokens.saturating_add(prompt);
        }
    }
    Ok(tokens)
}

impl Begun {
    /// Notes a message of the model.
    fn note(&mut self, index: usize, said: Said) -> Result<Note, Refusal> {
        if !std::mem::replace(&mut self.has_spoken, true) {
            self.loaded.tally.first.add(self.pending.arrived.elapsed());
        }
        match said {
            Said::Piece(text) => Ok(Note::Piece(index, text)),
            Said::End(ending) => {
                self.open -= 1;
                self.usage.said = self.usage.said.saturating_add(ending.tokens);
                if let Some(telling) = self.told.get_mut(index) {
                    telling.ending = Some(ending);
                }
                if self.open == 0 {
                    self.end();
                }
                Ok(Note::End(index, ending))
            }
            Said::Failed(failure) => Err(self.fail(failure.into())),
        }
    }

    fn fail(&mut self, refusal: Refusal) -> Refusal {
        self.pending.note_refusal(&refusal);
        self.count_tokens();
        refusal
    }

    fn end(&mut self) {
        self.pending.note_answer();
        self.count_tokens();
    }

    fn count_tokens(&self) {
        self.loaded.tally.count_tokens(self.usage.prompt, self.usage.said);
    }

    fn lost() -> Failure {
        Failure::Failed("the model has stopped in the middle of the text".to_owned())
    }

    /// The next message; `None` once all texts have ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Note>, Refusal> {
        if self.open == 0 {
            return Ok(None);
        }
        match self.speech.recv().await {
            Some((index, said)) => self.note(index, said).map(Some),
            None => Err(self.fail(Begun::lost().into())),
        }
    }

    async fn whole(mut self) -> Result<Bytes, Refusal> {
        while let Some(note) = self.next().await? {
            if let Note::Piece(index, text) = note
                && let Some(telling) = self.told.get_mut(index)
            {
                telling.text.push_str(&text);
            }
        }
        Ok(self.teller.whole(&self.told, self.usage))
    }
}

/// A noted message about the text with an index.
pub(crate) enum Note {
    Piece(usize, String),
    End(usize, Ending),
}

/// An answer that is sent as the model generates it. When it is dropped before its end, the texts are cancelled.
pub(crate) struct Events {
    begun: Begun,
    /// Events to be sent before all others.
    ready: VecDeque<Bytes>,
    has_ended: bool,
}

impl Events {
    fn new(begun: Begun) -> Events {
        let ready = (0..begun.told.len()).filter_map(|index| begun.teller.first(index)).collect();
        Events { begun, ready, has_ended: false }
    }

    /// The next event, once there is one.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            if self.has_ended {
                return Poll::Ready(None);
            }
            let next = std::task::ready!(self.begun.speech.poll_recv(cx));
            let note = match next {
                Some((index, said)) => self.begun.note(index, said),
                None => Err(self.begun.fail(Begun::lost().into())),
            };
            let teller = &self.begun.teller;
            match note {
                Ok(Note::Piece(index, text)) => self.ready.push_back(teller.piece(index, &text)),
                Ok(Note::End(index, ending)) => self.ready.extend(teller.end(index, ending.why)),
                Err(refusal) => {
                    self.ready.push_back(teller.broken(&refusal));
                    self.has_ended = true;
                }
            }
            if self.begun.open == 0 && !self.has_ended {
                let usage = self.begun.has_usage.then_some(self.begun.usage);
                self.ready.extend(Some(teller.last(usage)).filter(|event| !event.is_empty()));
                self.has_ended = true;
            }
        }
    }
}
