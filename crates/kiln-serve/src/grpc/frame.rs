//! Answers of gRPC on HTTP/2: messages, each behind its length, and a status at the end.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Frame};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::sync::mpsc;

use crate::coding::Coding;
use crate::refusal::{Kind, Refusal};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");

const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The coding of compressed messages.
pub(super) const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// The codings that a side accepts.
pub(super) const ACCEPT: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// Messages of at most this length are one part. Each part is a frame of its own, and clients close connections on
/// which many small frames wait to be read.
const SHORT: u32 = 4 << 10;

const KIND: HeaderValue = HeaderValue::from_static("application/grpc");

/// The work that makes the answers of a stream; its result is the status of the whole call.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send>>;

/// The body of an answer: messages in parts and the trailers behind them, or nothing.
#[derive(Default)]
pub(crate) struct Reply {
    parts: VecDeque<Bytes>,
    /// The work that makes further parts, and the channel of the parts. The work is cancelled when the body is dropped.
    more: Option<(Work, mpsc::Receiver<Bytes>)>,
    trailers: Option<HeaderMap>,
    /// Dropped with the body.
    held: Option<Box<dyn Send>>,
}

impl Reply {
    /// Keeps `held` as long as the body exists.
    pub(crate) fn hold(&mut self, held: impl Send + 'static) {
        self.held = Some(Box::new(held));
    }

    /// The next part of a stream; `None` at its end, when the trailers are set.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some((work, parts)) = &mut self.more else { return Poll::Ready(None) };
        if let Poll::Ready(Some(part)) = parts.poll_recv(cx) {
            return Poll::Ready(Some(part));
        }
        let done = work.as_mut().poll(cx);
        if let Poll::Ready(Some(part)) = parts.poll_recv(cx) {
            if let Poll::Ready(result) = done {
                // The work is not polled again.
                self.parts.extend(std::iter::from_fn(|| parts.try_recv().ok()));
                self.end(&result);
            }
            return Poll::Ready(Some(part));
        }
        let result = std::task::ready!(done);
        self.end(&result);
        Poll::Ready(None)
    }

    fn end(&mut self, result: &Result<(), Refusal>) {
        self.more = None;
        self.trailers = Some(status(result.as_ref().err()));
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(part) = self.parts.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(part))));
        }
        if let Some(part) = std::task::ready!(self.poll_more(cx)) {
            return Poll::Ready(Some(Ok(Frame::data(part))));
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty() && self.more.is_none() && self.trailers.is_none()
    }
}

/// A message in parts, compressed or not.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) parts: Vec<Bytes>,
    pub(super) coding: Coding,
}

impl Message {
    /// The parts behind their prefix; one part where they are short.
    pub(super) fn framed(self) -> Result<VecDeque<Bytes>, Refusal> {
        let Message { parts, coding } = self;
        let length = parts.iter().try_fold(0usize, |length, part| length.checked_add(part.len()));
        let length = length
            .and_then(|length| u32::try_from(length).ok())
            .ok_or_else(|| Refusal::new(Kind::Fault, "the outputs are more than a message of gRPC can hold, 4 GiB"))?;
        let [a, b, c, d] = length.to_be_bytes();
        let mut prefix = vec![u8::from(coding != Coding::Identity), a, b, c, d];
        if length <= SHORT {
            parts.iter().for_each(|part| prefix.extend_from_slice(part));
            return Ok([prefix.into()].into());
        }
        Ok(std::iter::once(prefix.into()).chain(parts.into_iter().filter(|part| !part.is_empty())).collect())
    }
}

/// An answer of one message.
pub(super) fn answered(message: Message) -> Response<Reply> {
    let coding = message.coding;
    let parts = match message.framed() {
        Ok(parts) => parts,
        Err(refusal) => return refused(&refusal),
    };
    headed(coding, Reply { parts, trailers: Some(status(None)), ..Reply::default() })
}

/// An answer with messages to come, some in that coding.
pub(super) fn streamed(coding: Coding, work: Work, parts: mpsc::Receiver<Bytes>) -> Response<Reply> {
    headed(coding, Reply { more: Some((work, parts)), ..Reply::default() })
}

/// The status of a call.
fn status(refusal: Option<&Refusal>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(STATUS, refusal.map_or(0, |refusal| refusal.kind.code()).into());
    if let Some(message) = refusal.and_then(|refusal| HeaderValue::try_from(encoded(&refusal.message)).ok()) {
        headers.insert(MESSAGE, message);
    }
    headers
}

/// The headers of an answer whose messages may be in that coding.
fn headed(coding: Coding, reply: Reply) -> Response<Reply> {
    let mut response = Response::new(reply);
    response.headers_mut().insert(CONTENT_TYPE, KIND);
    if coding != Coding::Identity {
        response.headers_mut().insert(ENCODING, HeaderValue::from_static(coding.name()));
    }
    response
}

/// An answer with only a status.
pub(super) fn refused(refusal: &Refusal) -> Response<Reply> {
    let mut response = Response::new(Reply::default());
    let headers = response.headers_mut();
    headers.extend(status(Some(refusal)));
    headers.insert(CONTENT_TYPE, KIND);
    if refusal.kind == Kind::Coding {
        headers.insert(ACCEPT, HeaderValue::from_static("identity, gzip, deflate"));
    }
    response
}

/// A text in the form of a gRPC header: the percent sign and all but printable ASCII as their bytes in UTF-8.
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
        let parts = vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c")];
        let Reply { parts, trailers, .. } = answered(Message { parts, coding: Coding::Identity }).into_body();
        assert_eq!(parts, [Bytes::from_static(b"\0\0\0\0\x03abc")]);
        assert_eq!(trailers.unwrap()[STATUS], "0");
        let parts = vec![Bytes::from(vec![7; SHORT as usize]), Bytes::new(), Bytes::from_static(b"c")];
        let framed = Message { parts: parts.clone(), coding: Coding::Gzip }.framed().unwrap();
        assert_eq!(framed, [Bytes::from_static(b"\x01\0\0\x10\x01"), parts[0].clone(), parts[2].clone()]);
    }
}
