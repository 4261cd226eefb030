//! Refusals of requests: a kind, which has an HTTP status and a gRPC code, and one sentence.

use hyper::StatusCode;

use crate::ticket::Failure;

/// Most characters of a refusal's sentence: names and values in it come from clients.
const LONGEST: usize = 600;

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The request itself is wrong.
    Bad,
    /// There is no such model, version or page.
    Unknown,
    /// The page or service has no such method.
    Method,
    /// The body stopped coming.
    Stalled,
    /// The body is too large.
    TooLarge,
    /// The body is in an unsupported coding.
    Coding,
    /// The queue is full.
    Full,
    /// The machine has no memory for it.
    NoMemory,
    /// The server or the model is not ready, or the server is ending.
    Unavailable,
    /// The time of the request is over.
    Late,
    /// The client has gone.
    Cancelled,
    /// The model or Kiln is at fault.
    Fault,
}

impl Kind {
    #[cfg(test)]
    pub(crate) const ALL: [Kind; 12] = [
        Kind::Bad,
        Kind::Unknown,
        Kind::Method,
        Kind::Stalled,
        Kind::TooLarge,
        Kind::Coding,
        Kind::Full,
        Kind::NoMemory,
        Kind::Unavailable,
        Kind::Late,
        Kind::Cancelled,
        Kind::Fault,
    ];

    /// The status of HTTP.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Kind::Bad => StatusCode::BAD_REQUEST,
            Kind::Unknown => StatusCode::NOT_FOUND,
            Kind::Method => StatusCode::METHOD_NOT_ALLOWED,
            Kind::Stalled => StatusCode::REQUEST_TIMEOUT,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::Coding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::Full => StatusCode::TOO_MANY_REQUESTS,
            // A client that has gone does not read it.
            Kind::NoMemory | Kind::Unavailable | Kind::Cancelled => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Late => StatusCode::GATEWAY_TIMEOUT,
            Kind::Fault => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The code of gRPC. UNAVAILABLE is for errors that a retry can mend: clients retry by themselves.
    pub(crate) fn code(self) -> u16 {
        match self {
            Kind::Cancelled => 1,
            Kind::Bad => 3,
            Kind::Late | Kind::Stalled => 4,
            Kind::Unknown => 5,
            Kind::TooLarge | Kind::Full | Kind::NoMemory => 8,
            Kind::Method | Kind::Coding => 12,
            Kind::Fault => 13,
            Kind::Unavailable => 14,
        }
    }
}

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) kind: Kind,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Refusal {
        let mut message: String = message.into();
        if let Some((end, _)) = message.char_indices().nth(LONGEST) {
            message.truncate(end);
            message.push_str("...");
            message.shrink_to_fit();
        }
        Refusal { kind, message }
    }

    /// A copy of the refusal.
    pub(crate) fn again(&self) -> Refusal {
        Refusal { kind: self.kind, message: self.message.clone() }
    }

    /// The request itself is wrong.
    pub(crate) fn bad(message: impl Into<String>) -> Refusal {
        Refusal::new(Kind::Bad, message)
    }

    /// The requested thing does not exist.
    pub(crate) fn unknown(message: impl Into<String>) -> Refusal {
        Refusal::new(Kind::Unknown, message)
    }

    /// The machine has no memory for it.
    pub(crate) fn no_memory(bytes: usize, what: &str) -> Refusal {
        Refusal::new(Kind::NoMemory, format!("there is no memory of {bytes} bytes for {what}"))
    }

    /// The server is at fault, and does not say more.
    pub(crate) fn own_fault() -> Refusal {
        Refusal::new(Kind::Fault, "a fault of the server's own")
    }

    /// The time of a request is over.
    pub(crate) fn late() -> Refusal {
        Refusal::new(Kind::Late, "the time limit of the request has passed")
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        match failure {
            Failure::Refused(reason) => Refusal::bad(reason),
            Failure::TimedOut => Refusal::late(),
            Failure::Cancelled => Refusal::new(Kind::Cancelled, "the request was cancelled"),
            Failure::NoMemory(reason) => Refusal::new(Kind::NoMemory, reason),
            Failure::Full(reason) => Refusal::new(Kind::Full, reason),
            Failure::Failed(reason) => Refusal::new(Kind::Fault, reason),
        }
    }
}
