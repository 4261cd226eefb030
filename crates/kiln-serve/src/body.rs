//! Bodies of requests, whose memory grows with what arrives and not with what is claimed.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::refusal::{Kind, Refusal};

/// The longest pause of a client in the middle of a body.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes before a message of gRPC: whether it is compressed, and its length in four bytes, the highest first.
const PREFIX: usize = 5;

/// The next bytes of a body; `None` at its end.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Refusal> {
    loop {
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await.map_err(|_| {
            Refusal::new(Kind::Stalled, format!("nothing more of the body came for {} s", PATIENCE.as_secs()))
        })?;
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|error| Refusal::bad(format!("the body is broken off: {error}")))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

/// Adds bytes to a body of which at most `to_come` are awaited in all.
fn add(whole: &mut Vec<u8>, data: &[u8], to_come: usize) -> Result<(), Refusal> {
    let size = whole.len().saturating_add(data.len());
    if size > whole.capacity() {
        // By half more, and never beyond what is to come.
        let grown = size.saturating_add(size / 2).min(to_come).max(size);
        whole.try_reserve_exact(grown - whole.len()).map_err(|_| Refusal::no_memory(grown, "the body"))?;
    }
    whole.extend_from_slice(data);
    Ok(())
}

fn too_large(what: &str, most: usize) -> Refusal {
    Refusal::new(Kind::TooLarge, format!("the {what} has more than {most} bytes"))
}

/// A body of at most `most` bytes.
pub(crate) async fn read(mut body: Incoming, most: usize) -> Result<Bytes, Refusal> {
    let claimed = body.size_hint().exact().map(|claimed| usize::try_from(claimed).unwrap_or(usize::MAX));
    if claimed.is_some_and(|claimed| claimed > most) {
        return Err(too_large("body", most));
    }
    let mut whole: Vec<u8> = Vec::new();
    while let Some(data) = next(&mut body).await? {
        if whole.len().saturating_add(data.len()) > most {
            return Err(too_large("body", most));
        }
        add(&mut whole, &data, claimed.unwrap_or(most))?;
    }
    Ok(whole.into())
}

/// The one message of gRPC that a body is, of at most `most` bytes.
pub(crate) async fn message(mut body: Incoming, most: usize) -> Result<Bytes, Refusal> {
    let mut whole: Vec<u8> = Vec::new();
    // With the prefix, once it is there.
    let mut length = None;
    while let Some(data) = next(&mut body).await? {
        add(&mut whole, &data, length.unwrap_or(0))?;
        if length.is_none()
            && let Some(prefix) = whole.first_chunk::<PREFIX>()
        {
            length = Some(prefix_length(*prefix, most)?);
        }
        if length.is_some_and(|length| whole.len() > length) {
            return Err(Refusal::bad("more than one message came, this method takes one"));
        }
    }
    match length {
        Some(length) if whole.len() == length => Ok(Bytes::from(whole).slice(PREFIX..)),
        _ => Err(Refusal::bad(format!("the message ends after {} bytes, in the middle", whole.len()))),
    }
}

/// How many bytes a message has with its prefix.
fn prefix_length(prefix: [u8; PREFIX], most: usize) -> Result<usize, Refusal> {
    let [flag, length @ ..] = prefix;
    if flag != 0 {
        return Err(Refusal::new(Kind::Coding, "compressed messages are not taken, send them as they are"));
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > most {
        return Err(too_large("message", most));
    }
    Ok(length.saturating_add(PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_held_against_the_limit() {
        assert_eq!(prefix_length([0, 0, 0, 1, 0], 256).unwrap(), 261);
        assert_eq!(prefix_length([0, 0, 0, 1, 1], 256).unwrap_err().kind, Kind::TooLarge);
        assert_eq!(prefix_length([0, 0xff, 0xff, 0xff, 0xff], 1 << 20).unwrap_err().kind, Kind::TooLarge);
        assert_eq!(prefix_length([1, 0, 0, 0, 0], 256).unwrap_err().kind, Kind::Coding);
    }

    #[test]
    fn memory_grows_with_what_arrives() {
        let mut whole = Vec::new();
        add(&mut whole, &[0; 100], usize::MAX).unwrap();
        assert!(whole.capacity() < 1000, "{}", whole.capacity());
        add(&mut whole, &[0; 100], 210).unwrap();
        assert!(whole.capacity() <= 210, "{}", whole.capacity());
    }
}
