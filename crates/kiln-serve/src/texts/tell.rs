//! Answers of language models in JSON: whole, or as pieces of a stream of events.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::{Value, json};

use super::ask::Form;
use crate::language::{Ending, Why};
use crate::refusal::{Kind, Refusal};

/// The number of the next answer in the process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The tokens that a request has read and generated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: usize,
    pub(crate) said: usize,
}

impl Usage {
    fn json(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.said,
            "total_tokens": self.prompt.saturating_add(self.said),
        })
    }
}

/// The generated part of a text so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Telling {
    pub(crate) text: String,
    pub(crate) ending: Option<Ending>,
}

fn reason(why: Why) -> &'static str {
    match why {
        Why::Stop => "stop",
        Why::Length => "length",
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The writer of one request's answer.
#[derive(Debug)]
pub(crate) struct Teller {
    form: Form,
    id: String,
    created: u64,
    model: String,
    version: u64,
}

impl Teller {
    pub(crate) fn new(form: Form, model: String, version: u64) -> Teller {
        let prefix = if form == Form::Chat { "chatcmpl" } else { "cmpl" };
        let (created, number) = (now(), NEXT.fetch_add(1, Ordering::Relaxed));
        Teller {
            form,
            id: format!("{prefix}-{created:x}{:08x}{number:x}", std::process::id()),
            created,
            model,
            version,
        }
    }

    /// The fields that all answers of OpenAI's interface have.
    fn object(&self, kind: &str, choices: Value) -> Value {
        json!({ "id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": choices })
    }

    fn kind(&self, is_piece: bool) -> &'static str {
        match (self.form, is_piece) {
            (Form::Chat, true) => "chat.completion.chunk",
            (Form::Chat, false) => "chat.completion",
            _ => "text_completion",
        }
    }

    /// The whole answer.
    pub(crate) fn whole(&self, told: &[Telling], usage: Usage) -> Bytes {
        let finish = |telling: &Telling| telling.ending.map(|ending| reason(ending.why));
        let choice = |(index, telling): (usize, &Telling)| match self.form {
            Form::Chat => json!({
                "index": index,
                "message": { "role": "assistant", "content": telling.text },
                "logprobs": null,
                "finish_reason": finish(telling),
            }),
            _ => json!({
                "index": index,
                "text": telling.text,
                "logprobs": null,
                "finish_reason": finish(telling),
            }),
        };
        if self.form == Form::Triton {
            let text = told.first().map_or("", |telling| telling.text.as_str());
            return self.triton(text).to_string().into();
        }
        let mut object = self.object(self.kind(false), told.iter().enumerate().map(choice).collect());
        object["usage"] = usage.json();
        object.to_string().into()
    }

    fn triton(&self, text: &str) -> Value {
        json!({ "model_name": self.model, "model_version": self.version.to_string(), "text_output": text })
    }

    /// The first event of a text, if there is one.
    pub(crate) fn first(&self, index: usize) -> Option<Bytes> {
        let delta = json!({ "role": "assistant", "content": "" });
        (self.form == Form::Chat).then(|| self.event(index, delta, None))
    }

    /// The event of a piece.
    pub(crate) fn piece(&self, index: usize, text: &str) -> Bytes {
        match self.form {
            Form::Triton => event(&self.triton(text)),
            Form::Chat => self.event(index, json!({ "content": text }), None),
            Form::Completion => self.event(index, json!(text), None),
        }
    }

    /// The event of a text's end, if there is one.
    pub(crate) fn end(&self, index: usize, why: Why) -> Option<Bytes> {
        match self.form {
            Form::Triton => None,
            Form::Chat => Some(self.event(index, json!({}), Some(why))),
            Form::Completion => Some(self.event(index, json!(""), Some(why))),
        }
    }

    fn event(&self, index: usize, said: Value, why: Option<Why>) -> Bytes {
        let name = if self.form == Form::Chat { "delta" } else { "text" };
        let mut choice = json!({ "index": index, "logprobs": null, "finish_reason": why.map(reason) });
        choice[name] = said;
        event(&self.object(self.kind(true), json!([choice])))
    }

    /// The events that end a stream.
    pub(crate) fn last(&self, usage: Option<Usage>) -> Bytes {
        if self.form == Form::Triton {
            return Bytes::new();
        }
        let mut events = Vec::new();
        if let Some(usage) = usage {
            let mut object = self.object(self.kind(true), json!([]));
            object["usage"] = usage.json();
            events.extend_from_slice(&event(&object));
        }
        events.extend_from_slice(b"data: [DONE]\n\n");
        events.into()
    }

    /// The event of a stream that breaks off.
    pub(crate) fn broken(&self, refusal: &Refusal) -> Bytes {
        event(&error(self.form, refusal))
    }
}

fn event(value: &Value) -> Bytes {
    format!("data: {value}\n\n").into()
}

/// A refusal in the form that clients of each interface look for.
pub(crate) fn error(form: Form, refusal: &Refusal) -> Value {
    if form == Form::Triton {
        return json!({ "error": refusal.message });
    }
    let kind = match refusal.kind {
        Kind::Unknown => "not_found_error",
        Kind::Full => "rate_limit_error",
        Kind::Late => "timeout_error",
        Kind::Unavailable | Kind::NoMemory | Kind::Fault | Kind::Cancelled => "server_error",
        _ => "invalid_request_error",
    };
    json!({ "error": {
        "message": refusal.message,
        "type": kind,
        "param": null,
        "code": refusal.kind.status().as_u16(),
    } })
}
