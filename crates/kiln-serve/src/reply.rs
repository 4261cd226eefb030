//! Bodies of answers: complete, or still to come as events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::texts::Events;

/// A body.
pub(crate) enum Reply {
    /// Complete, in parts.
    Parts(VecDeque<Bytes>),
    /// Sent as a language model generates it.
    Events(Box<Events>),
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Reply::Parts(parts) => Poll::Ready(parts.pop_front().map(|part| Ok(Frame::data(part)))),
            Reply::Events(events) => events.poll(cx).map(|event| event.map(|event| Ok(Frame::data(event)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Reply::Parts(parts) => parts.is_empty(),
            Reply::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Reply::Parts(parts) => SizeHint::with_exact(parts.iter().map(|part| part.len() as u64).sum()),
            Reply::Events(_) => SizeHint::default(),
        }
    }
}
