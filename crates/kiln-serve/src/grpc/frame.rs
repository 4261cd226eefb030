//! Answers of gRPC on HTTP/2: a message with its length before it, and a status behind it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Frame};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::refusal::{Kind, Refusal};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");

const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

const KIND: HeaderValue = HeaderValue::from_static("application/grpc");

/// The body of an answer: a message in parts and the trailers behind it, or nothing.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    parts: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(part) = self.parts.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(part))));
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty() && self.trailers.is_none()
    }
}

/// An answer of a message in parts.
pub(super) fn answered(parts: Vec<Bytes>) -> Response<Reply> {
    let length = parts.iter().try_fold(0usize, |length, part| length.checked_add(part.len()));
    let Some(length) = length.and_then(|length| u32::try_from(length).ok()) else {
        return refused(&Refusal::new(Kind::Fault, "the outputs are more than a message of gRPC can hold, 4 GiB"));
    };
    let [a, b, c, d] = length.to_be_bytes();
    let prefix = Bytes::copy_from_slice(&[0, a, b, c, d]);
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    let parts = std::iter::once(prefix).chain(parts).collect();
    let trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from_static("0"))]);
    let mut response = Response::new(Reply { parts, trailers: Some(trailers) });
    response.headers_mut().insert(CONTENT_TYPE, KIND);
    response
}

/// An answer of a status alone.
pub(super) fn refused(refusal: &Refusal) -> Response<Reply> {
    let mut response = Response::new(Reply::default());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, KIND);
    headers.insert(STATUS, refusal.kind.code().into());
    if let Ok(message) = HeaderValue::try_from(encoded(&refusal.message)) {
        headers.insert(MESSAGE, message);
    }
    if refusal.kind == Kind::Coding {
        headers.insert(HeaderName::from_static("grpc-accept-encoding"), HeaderValue::from_static("identity"));
    }
    response
}

/// A text as a header of gRPC has it: what is no printable ASCII, and the percent sign, as its bytes in UTF-8.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | ..b' ' | 0x7f.. => {
                // Writing to a string does not fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
            byte => encoded.push(char::from(byte)),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusals_sentence_is_percent_encoded() {
        assert_eq!(encoded("input 'x': 5 % \u{e9}\n"), "input 'x': 5 %25 %C3%A9%0A");
    }

    #[test]
    fn a_message_has_its_length_before_it() {
        let Reply { parts, trailers } = answered(vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c")]).into_body();
        assert_eq!(parts.into_iter().collect::<Vec<_>>().concat(), b"\0\0\0\0\x03abc");
        assert_eq!(trailers.unwrap()[STATUS], "0");
    }
}
