//! Texts of language models by ModelStreamInfer, as clients of Triton's vLLM backend request them: inputs of one
//! element, and answers with only the new text.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{Arrival, coded, frame, request, response};
use crate::answer::{self, Answering};
use crate::coding::Coding;
use crate::datatype::Datatype;
use crate::head::Head;
use crate::model::{Tensor, Values};
use crate::ports;
use crate::refusal::{Kind, Refusal};
use crate::registry::Loaded;
use crate::service::Service;
use crate::texts::{self, Note};

/// The destination of a stream's answers: messages, or the refusal that ends the stream.
pub(super) type Answers = mpsc::Sender<Result<frame::Message, Refusal>>;

/// A request that has been read.
struct Asked {
    head: Head,
    request: texts::Request,
    /// Whether pieces are sent as they come.
    is_stream: bool,
    /// The text before the generated text.
    before: String,
}

/// The sender of one request's answers.
struct Teller<'a> {
    service: &'a Service,
    loaded: &'a Loaded,
    head: Head,
    coding: Coding,
    answers: &'a Answers,
}

/// Answers a request: piece by piece, with an empty answer behind the last piece, or by one answer.
///
/// # Errors
///
/// Why the text did not begin, or broke off; then no answer was marked as the last.
pub(super) async fn tell(
    service: &Service,
    loaded: &Loaded,
    body: Bytes,
    arrival: Arrival,
    coding: Coding,
    answers: &Answers,
) -> Result<(), Refusal> {
    let mut pending = service.pending(loaded, arrival.at, arrival.caller);
    let most = service.max_body.min(texts::LARGEST);
    let model = loaded.clone();
    let read = service.read(body.len(), move || read(&model, &body, most)).await;
    let Asked { head, request, is_stream, before } = read.inspect_err(|refusal| pending.note_refusal(refusal))?;
    let limit = [arrival.limit, head.timeout].into_iter().flatten().min();
    let mut begun = service.begin(loaded.clone(), request, limit, pending).await?;
    let teller = Teller { service, loaded, head, coding, answers };
    let mut text = before;
    while let Some(note) = begun.next().await? {
        match note {
            Note::Piece(_, piece) if is_stream => teller.say(piece, false).await?,
            Note::Piece(_, piece) => text.push_str(&piece),
            Note::End(..) => {}
        }
    }
    teller.say(text, true).await
}

impl Teller<'_> {
    /// Sends an answer with a text.
    async fn say(&self, text: String, is_last: bool) -> Result<(), Refusal> {
        let model = Answering { name: &self.loaded.name, version: self.loaded.version };
        let output = Tensor {
            name: ports::SAID.to_owned(),
            datatype: Datatype::Bytes,
            shape: vec![1],
            values: Values::Texts(vec![text]),
        };
        let answer = response::in_stream(response::answer(&model, &self.head, &[output])?, is_last)?;
        // The receiver is gone if the stream is.
        let _ = self.answers.send(coded(self.service, self.coding, answer).await).await;
        Ok(())
    }
}

/// Reads a request of a language model, with at most `most` bytes.
fn read(loaded: &Loaded, body: &Bytes, most: usize) -> Result<Asked, Refusal> {
    if body.len() > most {
        return Err(Refusal::new(Kind::TooLarge, format!("the message has more than {most} bytes")));
    }
    let mut head = request::head(body)?;
    for input in &mut head.inputs {
        // Some clients send a batch of one.
        if input.shape == [1, 1] {
            input.shape = vec![1];
        }
    }
    head.check(ports::inputs(loaded), ports::outputs(loaded))?;
    let inputs = answer::inputs(&head, body)?;
    let is_stream = truth(&inputs, ports::STREAM).unwrap_or(false);
    let has_prompt = !truth(&inputs, ports::EXCLUDES).unwrap_or(true);
    if has_prompt && is_stream {
        let name = ports::EXCLUDES;
        return Err(Refusal::bad(format!("input '{name}' is false: answers of a stream hold what is new alone")));
    }
    let prompt = text(&inputs, ports::TEXT).unwrap_or_default();
    let before = if has_prompt { prompt.to_owned() } else { String::new() };
    let request = texts::Request::of_triton(prompt.to_owned(), ports::SAMPLING, text(&inputs, ports::SAMPLING))?;
    Ok(Asked { head, request, is_stream, before })
}

/// The values of an input, if it is given.
fn values<'t>(inputs: &'t [Tensor], name: &str) -> Option<&'t Values> {
    inputs.iter().find(|input| input.name == name).map(|input| &input.values)
}

fn truth(inputs: &[Tensor], name: &str) -> Option<bool> {
    match values(inputs, name)? {
        Values::Bytes(bytes) => bytes.first().map(|&byte| byte != 0),
        Values::Texts(_) => None,
    }
}

fn text<'t>(inputs: &'t [Tensor], name: &str) -> Option<&'t str> {
    match values(inputs, name)? {
        Values::Texts(texts) => texts.first().map(String::as_str),
        Values::Bytes(_) => None,
    }
}
