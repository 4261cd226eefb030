//! What a request is refused with: a status of HTTP and one sentence.

use hyper::StatusCode;

use crate::model::Failure;

/// Most characters of a refusal's sentence: names and values in it come from clients.
const LONGEST: usize = 600;

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Refusal {
        let mut message: String = message.into();
        if let Some((end, _)) = message.char_indices().nth(LONGEST) {
            message.truncate(end);
            message.push_str("...");
            message.shrink_to_fit();
        }
        Refusal { status, message }
    }

    /// The request itself is wrong.
    pub(crate) fn bad(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, message)
    }

    /// There is no such thing.
    pub(crate) fn unknown(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, message)
    }

    /// The machine has no memory for it.
    pub(crate) fn no_memory(bytes: usize, what: &str) -> Refusal {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, format!("there is no memory of {bytes} bytes for {what}"))
    }

    /// The time of a request is over.
    pub(crate) fn late() -> Refusal {
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, "the time limit of the request has passed")
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        match failure {
            Failure::Refused(reason) => Refusal::bad(reason),
            Failure::TimedOut => Refusal::late(),
            // The client has gone and does not read it.
            Failure::Cancelled => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the request was cancelled"),
            Failure::NoMemory(reason) => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, reason),
            Failure::Failed(reason) => Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, reason),
        }
    }
}
