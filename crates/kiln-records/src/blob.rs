//! Records without a file, for callers with their own storage: the bytes are those of a record file, and as untrusted
//! when they come back.

use super::codec::CodecError;
use super::entry::{Kept, State, name_of};
use super::fingerprint::hex;
use super::frame::{self, Header, ReadError, Rejected};
use super::{Fingerprint, Record};

/// The id of a record: the same for equal families, revisions and keys, on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(pub [u8; 32]);

impl RecordId {
    /// The id of a record; its choice and evidence are not in it.
    #[must_use]
    pub fn of(record: &Record) -> RecordId {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&record.revision.to_le_bytes());
        // A record that has no name in a file gets one that no file can hold.
        hasher.update(&name_of(&record.family, &record.key).unwrap_or_default());
        RecordId(*hasher.finalize().as_bytes())
    }
}

impl std::fmt::Display for RecordId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex(&self.0[..16]))
    }
}

/// The reasons why a blob gives no records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// It is not a blob, or a blob of another schema.
    #[error("{0}")]
    Unreadable(&'static str),
    /// It is for another machine or another build.
    #[error("it is for another machine or another build of Kiln")]
    Foreign,
    /// This many of its parts are damaged.
    #[error("{0} of its parts are damaged")]
    Damaged(u64),
    /// It is sound, but for another problem than the wanted one.
    #[error("it holds {found}, and {wanted} is wanted")]
    Other {
        /// The problem in the blob.
        found: String,
        /// The caller's problem.
        wanted: String,
    },
    /// Its choice does not fit its key.
    #[error("the choice does not fit the key")]
    Invalid,
    /// The executor could not be built with it.
    #[error("it could not be built: {0}")]
    Build(String),
}

/// The bytes of those records.
///
/// # Errors
///
/// [`CodecError`] for a record that is too long for a file.
pub fn write_blob(records: &[Record], fingerprint: &Fingerprint) -> Result<Vec<u8>, CodecError> {
    let kept = records.iter().map(|record| Kept::of_record(record, State::Saved)).collect::<Result<Vec<_>, _>>()?;
    let room = kept.iter().map(frame::room).sum();
    Ok(frame::write(Header::new(fingerprint.digest()), kept.iter().map(Kept::bytes), room))
}

/// The records of those bytes; all must be sound and for that machine and build.
///
/// # Errors
///
/// [`BlobError`] for anything else; any bytes are safe to pass.
pub fn read_blob(bytes: &[u8], fingerprint: &Fingerprint) -> Result<Vec<Record>, BlobError> {
    let digest = fingerprint.digest();
    let accept = |header: &Header| if header.fingerprint == digest { Ok(()) } else { Err(Rejected::Fingerprint) };
    let mut records = Vec::new();
    match frame::read(bytes, State::Saved, accept, |kept| records.extend(kept.to_record())) {
        Ok((_, frames)) if frames.damaged > 0 => Err(BlobError::Damaged(frames.damaged)),
        Ok(_) => Ok(records),
        Err(ReadError::Rejected(Rejected::Fingerprint)) => Err(BlobError::Foreign),
        Err(ReadError::Rejected(rejected)) => Err(BlobError::Unreadable(rejected.why())),
        Err(ReadError::Io(_)) => Err(BlobError::Unreadable("it cannot be read")),
    }
}
