//! One record, as it is shown and as it lies in a file.
//!
//! A record names its problem by the family and the bytes of the whole key, so that two problems are never taken for
//! one and a tool can show what a record is about. Nothing in it is an address, and no number in it is used as a length.

use serde::{Deserialize, Serialize};

use super::codec::{self, CodecError};
use super::evidence::{Evidence, How};

/// What a builder chose for one key, in bytes of the codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The family of the key.
    pub family: String,
    /// The revision of the family that made the choice.
    pub revision: u32,
    /// The key.
    pub key: Vec<u8>,
    /// The choice.
    pub choice: Vec<u8>,
    /// What speaks for the choice.
    pub evidence: Evidence,
}

/// The layout of a record in a file: the fields in this order. Changing it changes the schema; see docs/records.md.
#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    family: &'a str,
    revision: u32,
    key: &'a [u8],
    choice: &'a [u8],
    how: u32,
    nanos: u64,
    samples: u32,
    created: u64,
    against: u64,
}

impl Record {
    /// The bytes of the record.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        codec::encode(&Wire {
            family: &self.family,
            revision: self.revision,
            key: &self.key,
            choice: &self.choice,
            how: self.evidence.how.code(),
            nanos: self.evidence.nanos,
            samples: self.evidence.samples,
            created: self.evidence.created,
            against: self.evidence.against,
        })
    }

    /// The record of those bytes, if they are one.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Record> {
        let wire: Wire<'_> = codec::decode_borrowed(bytes).ok()?;
        let evidence = Evidence {
            how: How::from_code(wire.how)?,
            nanos: wire.nanos,
            samples: wire.samples,
            created: wire.created,
            against: wire.against,
        };
        Some(Record {
            family: wire.family.to_owned(),
            revision: wire.revision,
            key: wire.key.to_vec(),
            choice: wire.choice.to_vec(),
            evidence,
        })
    }

    /// Whether this record should replace the other one, of the same family and key.
    pub(super) fn beats(&self, other: &Record) -> bool {
        self.rank() > other.rank()
    }

    /// What decides between two records of one key. A higher revision is the newer meaning of a choice; whoever knows
    /// it could not use the older one.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        (self.revision, self.evidence.rank())
    }
}
