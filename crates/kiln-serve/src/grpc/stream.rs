//! ModelStreamInfer: several requests in one call. They run side by side like other requests, and are answered in their
//! order; requests of language models are answered as their texts go on. A wrong request is answered by its sentence,
//! and the stream goes on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request, Response};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::frame::{self, Reply};
use super::texts::{self, Answers};
use super::{Arrival, accepts_work, answering, coded, loaded, request, response, run, timeout};
use crate::body::Messages;
use crate::coding::Coding;
use crate::journal::Caller;
use crate::refusal::{Kind, Refusal};
use crate::registry::Loaded;
use crate::service::Service;

/// Most requests of a stream under way at a time; the client holds back further ones.
const WINDOW: usize = 64;

/// Most parts of answers that wait for the client to take earlier ones.
const AHEAD: usize = 16;

/// Where a client sets it to `true`, a wrong request ends the stream with its status.
const STRICT: &str = "triton_grpc_error";

/// A request that is being answered; cancelled when dropped.
struct InHand(JoinHandle<Result<frame::Message, Refusal>>);

impl Drop for InHand {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Answers the call with a stream of answers, which ends when the client's stream or the server ends.
pub(super) fn answer(
    service: &Arc<Service>,
    asked: Request<Incoming>,
    arrived: Instant,
    is_ending: watch::Receiver<bool>,
) -> Result<Response<Reply>, Refusal> {
    accepts_work(service)?;
    let (head, body) = asked.into_parts();
    let deadline = timeout(&head.headers)?.and_then(|limit| arrived.checked_add(limit));
    let coding = answering(&head.headers);
    let messages = Messages::of(body, Coding::given(&head.headers, &frame::ENCODING), service.max_body);
    let (sender, parts) = mpsc::channel(AHEAD);
    let (is_strict, caller) = (is_strict(&head.headers), Caller::of(&head.headers));
    let stream = Stream { service: Arc::clone(service), coding, is_strict, caller, sender };
    let work = async move {
        let service = Arc::clone(&stream.service);
        let _turn = service.calls.try_acquire().map_err(|_| too_many())?;
        let all = stream.answer_all(messages, is_ending);
        match deadline {
            Some(deadline) => tokio::time::timeout_at(deadline.into(), all).await.map_err(|_| Refusal::late())?,
            None => all.await,
        }
    };
    Ok(frame::streamed(coding, Box::pin(work), parts))
}

fn is_strict(headers: &HeaderMap) -> bool {
    headers.get(STRICT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
}

fn too_many() -> Refusal {
    Refusal::new(Kind::Full, "too many calls are in hand")
}

struct Stream {
    service: Arc<Service>,
    /// The coding of long answers.
    coding: Coding,
    is_strict: bool,
    /// The place in a trace where the stream was begun.
    caller: Option<Caller>,
    sender: mpsc::Sender<Bytes>,
}

impl Stream {
    async fn answer_all(&self, mut messages: Messages, mut is_ending: watch::Receiver<bool>) -> Result<(), Refusal> {
        let mut in_hand: VecDeque<InHand> = VecDeque::new();
        // Requests of language models, with their answers; cancelled when dropped.
        let mut texts = JoinSet::new();
        let (sayer, mut said) = mpsc::channel(AHEAD);
        // How the stream ends once the requests under way have been answered.
        let mut end: Option<Result<(), Refusal>> = None;
        loop {
            let has_room = end.is_none() && in_hand.len() + texts.len() < WINDOW;
            tokio::select! {
                answered = front(&mut in_hand) => {
                    in_hand.pop_front();
                    self.answer(answered).await?;
                }
                Some(answered) = said.recv() => self.answer(answered).await?,
                // A task that was not dropped ends with an error only after a fault.
                Some(ended) = texts.join_next() => if ended.is_err() {
                    self.answer(Err(Refusal::own_fault())).await?;
                },
                message = messages.next(), if has_room => match message {
                    Ok(Some(message)) => match loaded(&self.service, &message) {
                        Ok(loaded) if loaded.model.language().is_some() => {
                            texts.spawn(self.text(loaded, message, sayer.clone()));
                        }
                        loaded => in_hand.push_back(self.begin(loaded, message)),
                    },
                    Ok(None) => end = Some(Ok(())),
                    Err(refusal) => end = Some(Err(refusal)),
                },
                () = ended(&mut is_ending), if end.is_none() => {
                    end = Some(Err(Refusal::new(Kind::Unavailable, "the server is ending")));
                }
            }
            if in_hand.is_empty()
                && texts.is_empty()
                && said.is_empty()
                && let Some(end) = end.take()
            {
                return end;
            }
        }
    }

    /// Begins to answer a request, on the model that it names.
    fn begin(&self, loaded: Result<Loaded, Refusal>, body: Bytes) -> InHand {
        let (service, coding, is_strict) = (Arc::clone(&self.service), self.coding, self.is_strict);
        let arrival = Arrival { at: Instant::now(), limit: None, caller: self.caller };
        InHand(tokio::spawn(async move {
            let id = request::id(&body).to_owned();
            match one(&service, loaded, body, arrival, coding).await {
                Err(refusal) if !is_strict => Ok(response::refused(&refusal, Some(id))),
                answered => answered,
            }
        }))
    }

    /// Answers a request of a language model.
    fn text(&self, loaded: Loaded, body: Bytes, answers: Answers) -> impl Future<Output = ()> + Send + use<> {
        let (service, coding, is_strict) = (Arc::clone(&self.service), self.coding, self.is_strict);
        let arrival = Arrival { at: Instant::now(), limit: None, caller: self.caller };
        async move {
            let id = request::id(&body).to_owned();
            let told = async {
                let _turn = service.calls.try_acquire().map_err(|_| too_many())?;
                texts::tell(&service, &loaded, body, arrival, coding, &answers).await
            };
            if let Err(refusal) = told.await {
                let answer = if is_strict { Err(refusal) } else { Ok(response::refused(&refusal, Some(id))) };
                // The receiver is gone if the stream is.
                let _ = answers.send(answer).await;
            }
        }
    }

    /// Sends the answer of a request. An error ends the stream.
    async fn answer(&self, answered: Result<frame::Message, Refusal>) -> Result<(), Refusal> {
        match answered {
            Ok(message) => self.send(message).await,
            Err(refusal) if self.is_strict => Err(refusal),
            Err(refusal) => self.send(response::refused(&refusal, None)).await,
        }
    }

    async fn send(&self, message: frame::Message) -> Result<(), Refusal> {
        for part in message.framed()? {
            // The receiver is dropped together with this future.
            let _ = self.sender.send(part).await;
        }
        Ok(())
    }
}

/// Waits until the server ends.
async fn ended(is_ending: &mut watch::Receiver<bool>) {
    drop(is_ending.wait_for(|ending| *ending).await);
}

/// The answer of the first request; waits for ever while there is none.
async fn front(in_hand: &mut VecDeque<InHand>) -> Result<frame::Message, Refusal> {
    let Some(InHand(first)) = in_hand.front_mut() else { return std::future::pending().await };
    // A task that was not dropped ends unanswered only after a fault.
    first.await.unwrap_or_else(|_| Err(Refusal::own_fault()))
}

/// Answers a request.
async fn one(
    service: &Service,
    loaded: Result<Loaded, Refusal>,
    body: Bytes,
    arrival: Arrival,
    coding: Coding,
) -> Result<frame::Message, Refusal> {
    let _turn = service.calls.try_acquire().map_err(|_| too_many())?;
    let answer = run(service, &loaded?, body, arrival).await?;
    coded(service, coding, response::in_stream(answer, true)?).await
}
