//! Reads the key and the choice of a record, which are bytes of a file until then, and says why builders would not use
//! it.

use crate::record::{CodecError, Record, Recorded, decode};

/// Most bytes of tables of an executor that is made ahead of need because a record names it. Those of large images take
/// some hundred kilobytes.
pub(super) const MOST_AHEAD: u64 = 16 << 20;

/// Why builders would not use a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No build that this one knows of has such a family.
    #[error("its family is not known here")]
    Family,
    /// Choices of that revision mean something else.
    #[error("it is of revision {found}, and this build is of {known}")]
    Revision {
        /// The record's.
        found: u32,
        /// This build's.
        known: u32,
    },
    /// The bytes of the key cannot be decoded.
    #[error("its key cannot be read: {0}")]
    Key(CodecError),
    /// The key has sizes that no tensors have.
    #[error("its key has sizes that no tensors have")]
    Sizes,
    /// An executor of that key would have larger tables than a record is believed to need.
    #[error("its key asks for {bytes} bytes of tables, and {MOST_AHEAD} are the most")]
    Tables {
        /// Bytes.
        bytes: u64,
    },
    /// The bytes of the choice cannot be decoded.
    #[error("its choice cannot be read: {0}")]
    Choice(CodecError),
    /// The choice does not fit the key.
    #[error("its choice does not fit its key")]
    Unfit,
}

impl Refusal {
    /// Whether such a record may be honest: made by another build, for itself.
    #[must_use]
    pub fn is_of_another_build(&self) -> bool {
        matches!(self, Refusal::Family | Refusal::Revision { .. })
    }
}

/// A record's key and choice, where it is of this revision.
pub(super) fn read<K: Recorded>(record: &Record) -> Result<(K, K::Choice), Refusal> {
    if record.revision != K::REVISION {
        return Err(Refusal::Revision { found: record.revision, known: K::REVISION });
    }
    Ok((decode(&record.key).map_err(Refusal::Key)?, decode(&record.choice).map_err(Refusal::Choice)?))
}
