//! ModelStreamInfer: requests that come in one call. They run side by side as others do, and each is answered in their
//! order. A wrong one is answered by its sentence, and the stream goes on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request, Response};
use prost::Message;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::frame::{self, Reply};
use super::proto::{ModelInferResponse, ModelStreamInferResponse};
use super::{Arrival, accepts_work, answering, coded, request, run, timeout};
use crate::body::Messages;
use crate::coding::Coding;
use crate::journal::Caller;
use crate::refusal::{Kind, Refusal};
use crate::service::Service;

/// Most requests of a stream in hand at a time; the client holds back the others.
const WINDOW: usize = 64;

/// Parts of answers that are ready before the client has taken others.
const AHEAD: usize = 16;

/// Where a client sets it to `true`, a wrong request ends the stream with its status.
const STRICT: &str = "triton_grpc_error";

/// The parameter `triton_final_response` with the value true, as field 4 of an answer: nothing more comes for its
/// request.
const FINAL: &[u8] = b"\x22\x1b\x0a\x15triton_final_response\x12\x02\x08\x01";

/// The key of `infer_response`: field 2, a message.
const INFER_RESPONSE: u8 = 2 << 3 | 2;

/// A request that is being answered; given up when it is dropped.
struct InHand(JoinHandle<Result<frame::Message, Refusal>>);

impl Drop for InHand {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Answers the call: with a stream of answers, which ends when the client's ends or the server does.
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
    /// Where in a trace the stream was begun.
    caller: Option<Caller>,
    sender: mpsc::Sender<Bytes>,
}

impl Stream {
    async fn answer_all(&self, mut messages: Messages, mut is_ending: watch::Receiver<bool>) -> Result<(), Refusal> {
        let mut in_hand: VecDeque<InHand> = VecDeque::new();
        // How the stream ends once what is in hand has been answered.
        let mut end: Option<Result<(), Refusal>> = None;
        loop {
            let has_room = end.is_none() && in_hand.len() < WINDOW;
            tokio::select! {
                answered = front(&mut in_hand) => {
                    in_hand.pop_front();
                    match answered {
                        Ok(message) => self.send(message).await?,
                        Err(refusal) if self.is_strict => return Err(refusal),
                        Err(refusal) => self.send(refused(&refusal, None)).await?,
                    }
                }
                message = messages.next(), if has_room => match message {
                    Ok(Some(message)) => in_hand.push_back(self.begin(message)),
                    Ok(None) => end = Some(Ok(())),
                    Err(refusal) => end = Some(Err(refusal)),
                },
                () = ended(&mut is_ending), if end.is_none() => {
                    end = Some(Err(Refusal::new(Kind::Unavailable, "the server is ending")));
                }
            }
            if in_hand.is_empty()
                && let Some(end) = end.take()
            {
                return end;
            }
        }
    }

    /// Begins to answer a request.
    fn begin(&self, body: Bytes) -> InHand {
        let (service, coding, is_strict) = (Arc::clone(&self.service), self.coding, self.is_strict);
        let arrival = Arrival { at: Instant::now(), limit: None, caller: self.caller };
        InHand(tokio::spawn(async move {
            let id = request::id(&body).to_owned();
            match one(&service, body, arrival, coding).await {
                Err(refusal) if !is_strict => Ok(refused(&refusal, Some(id))),
                answered => answered,
            }
        }))
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

/// The answer of the request that came first; none as long as there is no request.
async fn front(in_hand: &mut VecDeque<InHand>) -> Result<frame::Message, Refusal> {
    let Some(InHand(first)) = in_hand.front_mut() else { return std::future::pending().await };
    // A task that was not dropped ends unanswered where it has met a fault.
    first.await.unwrap_or_else(|_| Err(Refusal::own_fault()))
}

/// Answers a request.
async fn one(service: &Service, body: Bytes, arrival: Arrival, coding: Coding) -> Result<frame::Message, Refusal> {
    let _turn = service.calls.try_acquire().map_err(|_| too_many())?;
    let mut answer = run(service, body, arrival).await?;
    answer.parts.push(Bytes::from_static(FINAL));
    let length = answer.parts.iter().map(Bytes::len).sum();
    let mut prefix = vec![INFER_RESPONSE];
    prost::encode_length_delimiter(length, &mut prefix).map_err(|_| Refusal::own_fault())?;
    answer.parts.insert(0, prefix.into());
    coded(service, coding, answer).await
}

/// What a wrong request is answered with: its sentence, and its id, so that the client knows which one it was.
fn refused(refusal: &Refusal, id: Option<String>) -> frame::Message {
    let infer_response = id.map(|id| ModelInferResponse { id, ..ModelInferResponse::default() });
    let message = ModelStreamInferResponse { error_message: refusal.message.clone(), infer_response };
    frame::Message { parts: vec![message.encode_to_vec().into()], coding: Coding::Identity }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Field, Fields, Value};

    #[test]
    fn the_last_answer_is_marked_by_a_parameter() {
        let entry = match Fields::of(FINAL).next().unwrap().unwrap() {
            Field { number: 4, value: Value::Bytes(entry) } => entry,
            other => panic!("{other:?}"),
        };
        let fields: Vec<Field<'_>> = Fields::of(entry).map(Result::unwrap).collect();
        let expected = [(1, Value::Bytes(b"triton_final_response")), (2, Value::Bytes(b"\x08\x01"))];
        assert_eq!(fields, expected.map(|(number, value)| Field { number, value }));
        assert_eq!(Fields::of(FINAL).count(), 1);
    }
}
