//! Bodies of requests. Their memory grows with the bytes that arrive, not with the claimed length. Compressed bodies
//! are decompressed as they arrive.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::HeaderMap;
use tokio::time::Instant;

use crate::coding::{self, Coding, Unpacked};
use crate::refusal::{Kind, Refusal};

/// The longest pause of a client in the middle of a body.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes before a message of gRPC: whether it is compressed, and its length in four bytes, the highest first.
pub(crate) const PREFIX: usize = 5;

/// Most compressed bytes that are processed before other connections have their turn: they may become a thousand times
/// as many.
const SLICE: usize = 4 << 10;

/// The next bytes of a body; `None` at its end. Without a time limit it waits as long as the connection stays.
async fn next(body: &mut Incoming, until: Option<Instant>) -> Result<Option<Bytes>, Refusal> {
    loop {
        let frame = match until {
            None => body.frame().await,
            Some(until) => tokio::time::timeout_at(until, body.frame()).await.map_err(|_| {
                Refusal::new(Kind::Stalled, format!("nothing more of the body came for {} s", PATIENCE.as_secs()))
            })?,
        };
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|error| Refusal::bad(format!("the body is broken off: {error}")))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

fn too_large(what: &str, most: usize) -> Refusal {
    Refusal::new(Kind::TooLarge, format!("the {what} has more than {most} bytes"))
}

/// A body in the coding that its headers name, of at most `most` bytes once it is decompressed.
pub(crate) async fn read(headers: &HeaderMap, mut body: Incoming, most: usize) -> Result<Bytes, Refusal> {
    let coding = Coding::of_body(headers)?;
    let claimed = body.size_hint().exact().map(|claimed| usize::try_from(claimed).unwrap_or(usize::MAX));
    if claimed.is_some_and(|claimed| claimed > coding::most_sent(coding != Coding::Identity, most)) {
        return Err(too_large("body", most));
    }
    if coding == Coding::Identity {
        // The claimed length bounds how far ahead room is made.
        let mut whole = Unpacked::new(coding, claimed.unwrap_or(most), "body");
        while let Some(data) = next(&mut body, Some(Instant::now() + PATIENCE)).await? {
            whole.add(&data)?;
        }
        return whole.whole();
    }
    let mut whole = Unpacked::new(coding, most, "decompressed body");
    while let Some(data) = next(&mut body, Some(Instant::now() + PATIENCE)).await? {
        for slice in data.chunks(SLICE) {
            whole.add(slice)?;
            tokio::task::yield_now().await;
        }
    }
    whole.whole()
}

/// The messages of gRPC in a body, one after the other. Each has at most `most` bytes once it is decompressed.
pub(crate) struct Messages {
    body: Incoming,
    /// The coding of compressed messages.
    coding: Result<Coding, Refusal>,
    most: usize,
    /// Bytes that have arrived and are not yet processed.
    rest: Bytes,
    prefix: Vec<u8>,
    /// The message behind the prefix, and the number of its bytes that are still to come.
    begun: Option<(Unpacked, usize)>,
    /// When the last bytes came.
    heard: Instant,
    /// Whether the message that came last was compressed.
    pub(crate) is_compressed: bool,
}

impl Messages {
    pub(crate) fn of(body: Incoming, coding: Result<Coding, Refusal>, most: usize) -> Messages {
        let (rest, prefix, heard) = (Bytes::new(), Vec::new(), Instant::now());
        Messages { body, coding, most, rest, prefix, begun: None, heard, is_compressed: false }
    }

    /// The next message; `None` at the end of the body. Dropping the future loses no bytes. Between messages a client
    /// may be silent for any time.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            if !self.rest.is_empty() {
                tokio::task::yield_now().await;
                continue;
            }
            let is_between = self.prefix.is_empty();
            let until = (!is_between).then_some(self.heard + PATIENCE);
            match next(&mut self.body, until).await? {
                Some(data) => (self.rest, self.heard) = (data, Instant::now()),
                None if is_between => return Ok(None),
                None => return Err(self.broken_off()),
            }
        }
    }

    /// The one message of a body.
    pub(crate) async fn only(&mut self) -> Result<Bytes, Refusal> {
        let message = tokio::time::timeout(PATIENCE, async {
            // The first bytes of an awaited message must not be late either.
            while self.rest.is_empty() {
                match next(&mut self.body, None).await? {
                    Some(data) => (self.rest, self.heard) = (data, Instant::now()),
                    None => return Err(self.broken_off()),
                }
            }
            Ok(())
        });
        message.await.map_err(|_| {
            Refusal::new(Kind::Stalled, format!("nothing of the message came for {} s", PATIENCE.as_secs()))
        })??;
        let message = self.next().await?.ok_or_else(|| self.broken_off())?;
        while self.rest.is_empty() {
            match next(&mut self.body, Some(Instant::now() + PATIENCE)).await? {
                Some(data) => self.rest = data,
                None => return Ok(message),
            }
        }
        Err(Refusal::bad("more than one message came, this method takes one"))
    }

    fn broken_off(&self) -> Refusal {
        let came = self.prefix.len() + self.begun.as_ref().map_or(0, |(message, _)| message.arrived());
        Refusal::bad(format!("the message ends after {came} bytes, in the middle"))
    }

    /// Takes the arrived bytes that belong to a message, or a part if it is compressed. Returns the message once it is
    /// whole.
    fn take(&mut self) -> Result<Option<Bytes>, Refusal> {
        if self.begun.is_none() {
            let missing = (PREFIX - self.prefix.len()).min(self.rest.len());
            self.prefix.extend_from_slice(&self.rest.split_to(missing));
            let Some(prefix) = self.prefix.first_chunk::<PREFIX>() else { return Ok(None) };
            let (is_compressed, length) = of_prefix(*prefix, self.most)?;
            self.is_compressed = is_compressed;
            let message = if is_compressed {
                let coding = self.coding.as_ref().map_err(Refusal::again)?;
                if *coding == Coding::Identity {
                    return Err(Refusal::bad("the message says that it is compressed, and no header says how"));
                }
                Unpacked::new(*coding, self.most, "decompressed message")
            } else {
                Unpacked::new(Coding::Identity, length, "message")
            };
            self.begun = Some((message, length));
        }
        let Some((message, left)) = &mut self.begun else { return Ok(None) };
        let step = if self.is_compressed { SLICE } else { usize::MAX };
        let data = self.rest.split_to(self.rest.len().min(*left).min(step));
        message.add(&data)?;
        *left -= data.len();
        if *left > 0 {
            return Ok(None);
        }
        self.prefix.clear();
        self.begun.take().map(|(message, _)| message.whole()).transpose()
    }
}

/// Whether a message is compressed, and its number of bytes as sent.
fn of_prefix(prefix: [u8; PREFIX], most: usize) -> Result<(bool, usize), Refusal> {
    let [flag, length @ ..] = prefix;
    if flag > 1 {
        return Err(Refusal::bad(format!("the message begins with the byte {flag}, which is neither 0 nor 1")));
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > coding::most_sent(flag == 1, most) {
        return Err(too_large("message", most));
    }
    Ok((flag == 1, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_held_against_the_limit() {
        assert_eq!(of_prefix([0, 0, 0, 1, 0], 256).unwrap(), (false, 256));
        assert_eq!(of_prefix([1, 0, 0, 0, 0], 256).unwrap(), (true, 0));
        assert_eq!(of_prefix([0, 0, 0, 1, 1], 256).unwrap_err().kind, Kind::TooLarge);
        assert_eq!(of_prefix([1, 0xff, 0xff, 0xff, 0xff], 1 << 20).unwrap_err().kind, Kind::TooLarge);
        assert_eq!(of_prefix([2, 0, 0, 0, 0], 256).unwrap_err().kind, Kind::Bad);
    }
}
