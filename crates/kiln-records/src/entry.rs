//! One record: its public form, its form in a file, and its form in memory.
//!
//! A record names its problem by the family and the bytes of the whole key, so that two problems are never confused and
//! a tool can show a record's problem. Nothing in it is an address, and no number in it is used as a length.
//!
//! In memory a record stays in the bytes of the newest schema ([`Kept`]): a store of 100,000 is loaded by copying them,
//! looked up without decoding any, and saved without encoding any anew.

use std::borrow::Cow;

use serde::Deserialize;

use super::codec::{self, CodecError, LIMIT};
use super::evidence::{Evidence, EvidenceKind};
use super::packing;

/// A builder's choice for one key, in bytes of the codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The family of the key; at most 255 bytes.
    pub family: String,
    /// The revision of the family that made the choice.
    pub revision: u32,
    /// The key.
    pub key: Vec<u8>,
    /// The choice.
    pub choice: Vec<u8>,
    /// The evidence for the choice.
    pub evidence: Evidence,
}

/// A record of schemas 1 and 2; in schema 1 it ends before `against`.
#[derive(Deserialize)]
struct Older<'a> {
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

/// Revision, how, nanoseconds, samples, created, against.
const NUMBERS: usize = 4 + 4 + 8 + 4 + 8 + 8;

/// The longest record: texts and numbers are at most [`LIMIT`] bytes, which take one more byte for each fifteen where
/// no byte is zero, and lengths.
pub(super) const LONGEST: usize = 4608;

/// Whether the file has a record in its present form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// The file has it.
    #[default]
    Saved,
    /// The file does not have it.
    New,
    /// It is being written.
    Writing,
}

impl State {
    /// The state with that number.
    pub(super) fn of_byte(byte: u8) -> State {
        [State::Saved, State::New, State::Writing].into_iter().find(|state| *state as u8 == byte).unwrap_or_default()
    }
}

/// A record in memory: its bytes in the newest schema, owned or borrowed. The bytes begin with its name: the family and
/// the packed key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept<B = Vec<u8>> {
    bytes: B,
    name_len: u16,
    pub(super) state: State,
}

/// The contents of a [`Kept`] besides its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim<'a> {
    pub(super) revision: u32,
    /// The choice, packed.
    pub(super) choice: &'a [u8],
    pub(super) evidence: Evidence,
}

impl Claim<'_> {
    /// The order of two records of one key. A higher revision is the newer meaning of a choice; a build with that
    /// revision could not use the older choice.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        (self.revision, self.evidence.rank())
    }
}

/// The name that identifies a key's record: made once for look-up and for storing.
#[derive(Debug)]
pub(super) struct Name {
    bytes: Vec<u8>,
    /// Bytes of the family and of the key before packing.
    unpacked: usize,
}

impl Name {
    /// The name of that family and key.
    pub(super) fn new(family: &str, key: &[u8]) -> Result<Name, CodecError> {
        Ok(Name { bytes: name_of(family, key)?, unpacked: family.len() + key.len() })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The first bytes of a record of that family and key.
pub(super) fn name_of(family: &str, key: &[u8]) -> Result<Vec<u8>, CodecError> {
    let family_len =
        u8::try_from(family.len()).map_err(|_| CodecError::Encode("the family's name is too long".to_owned()))?;
    let mut bytes = Vec::with_capacity(64 + key.len() / 2);
    bytes.push(family_len);
    bytes.extend_from_slice(family.as_bytes());
    push_packed(key, &mut bytes)?;
    Ok(bytes)
}

/// Appends the length of the packed bytes, and the packed bytes.
fn push_packed(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    packing::pack_into(bytes, out);
    let len = out.len() - at - 2;
    let len = u16::try_from(len).map_err(|_| CodecError::TooLong(len))?;
    out[at..at + 2].copy_from_slice(&len.to_le_bytes());
    Ok(())
}

impl Kept {
    /// A record in that state.
    pub(super) fn of_record(record: &Record, state: State) -> Result<Kept, CodecError> {
        let Record { family, revision, key, choice, evidence } = record;
        Kept::new(family, *revision, key, choice, evidence, state)
    }

    fn new(
        family: &str,
        revision: u32,
        key: &[u8],
        choice: &[u8],
        evidence: &Evidence,
        state: State,
    ) -> Result<Kept, CodecError> {
        Kept::named(Name::new(family, key)?, revision, choice, evidence, state)
    }

    /// A record of that name in that state.
    pub(super) fn named(
        name: Name,
        revision: u32,
        choice: &[u8],
        evidence: &Evidence,
        state: State,
    ) -> Result<Kept, CodecError> {
        let Name { mut bytes, unpacked } = name;
        let too_long = |len: usize| if len > LIMIT { Err(CodecError::TooLong(len)) } else { Ok(()) };
        too_long(unpacked + choice.len() + NUMBERS)?;
        let name_len = bytes.len();
        push_packed(choice, &mut bytes)?;
        let mut numbers = [0; NUMBERS];
        numbers[..4].copy_from_slice(&revision.to_le_bytes());
        numbers[4..8].copy_from_slice(&evidence.kind.code().to_le_bytes());
        numbers[8..16].copy_from_slice(&evidence.nanos.to_le_bytes());
        numbers[16..20].copy_from_slice(&evidence.samples.to_le_bytes());
        numbers[20..28].copy_from_slice(&evidence.created.to_le_bytes());
        numbers[28..].copy_from_slice(&evidence.against.to_le_bytes());
        packing::pack_into(&numbers, &mut bytes);
        let name_len = u16::try_from(name_len).map_err(|_| CodecError::TooLong(name_len))?;
        Ok(Kept { bytes, name_len, state })
    }
}

impl<'a> Kept<Cow<'a, [u8]>> {
    /// The record with those bytes in a file of that schema, if they are one.
    pub(super) fn of_file(schema: u16, bytes: &'a [u8], state: State) -> Option<Kept<Cow<'a, [u8]>>> {
        let longer;
        let older = match schema {
            1 => {
                longer = [bytes, &0_u64.to_le_bytes()].concat();
                &longer
            }
            _ => bytes,
        };
        if schema <= 2 {
            let old: Older<'_> = codec::decode_borrowed(older).ok()?;
            let evidence = Evidence {
                kind: EvidenceKind::from_code(old.how)?,
                nanos: old.nanos,
                samples: old.samples,
                created: old.created,
                against: old.against,
            };
            let Kept { bytes, name_len, state } =
                Kept::new(old.family, old.revision, old.key, old.choice, &evidence, state).ok()?;
            return Some(Kept { bytes: Cow::Owned(bytes), name_len, state });
        }
        let Kept { bytes, name_len, state } = Kept::of_payload(bytes, state)?;
        Some(Kept { bytes: Cow::Borrowed(bytes), name_len, state })
    }
}

impl Kept<Cow<'_, [u8]>> {
    /// The same record with its own bytes.
    pub(super) fn into_owned(self) -> Kept {
        Kept { bytes: self.bytes.into_owned(), name_len: self.name_len, state: self.state }
    }
}

impl<'a> Kept<&'a [u8]> {
    /// The record with those bytes in a file of the newest schema, if they are one.
    pub(super) fn of_payload(bytes: &'a [u8], state: State) -> Option<Kept<&'a [u8]>> {
        let name = name_at(bytes)?;
        let family_len = usize::from(*name.first()?);
        std::str::from_utf8(name.get(1..1 + family_len)?).ok()?;
        packing::unpacked_len(name.get(1 + family_len + 2..)?).filter(|len| *len <= LIMIT)?;
        let kept = Kept { bytes, name_len: u16::try_from(name.len()).ok()?, state };
        packing::unpacked_len(kept.claim()?.choice).filter(|len| *len <= LIMIT)?;
        Some(kept)
    }

    /// The record with those bytes, as kept before. The first `name_len` bytes are its name.
    pub(super) fn of_arena(bytes: &'a [u8], name_len: u16, state: State) -> Kept<&'a [u8]> {
        Kept { bytes, name_len, state }
    }
}

impl<B: AsRef<[u8]>> Kept<B> {
    /// The same record, borrowed.
    pub(super) fn view(&self) -> Kept<&[u8]> {
        Kept { bytes: self.bytes(), name_len: self.name_len, state: self.state }
    }

    /// Its bytes in the newest schema.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The length of its name in bytes.
    pub(super) fn name_len(&self) -> u16 {
        self.name_len
    }

    /// The bytes that distinguish its problem from others.
    pub(super) fn name(&self) -> &[u8] {
        self.bytes().get(..usize::from(self.name_len)).unwrap_or_default()
    }

    /// The family's name.
    pub(super) fn family(&self) -> &str {
        let Some((&len, rest)) = self.bytes().split_first() else { return "" };
        rest.get(..usize::from(len)).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
    }

    /// Whether the key's bytes begin with `prefix`.
    pub(super) fn key_begins(&self, prefix: &[u8]) -> bool {
        let at = 1 + usize::from(self.bytes().first().copied().unwrap_or_default()) + 2;
        self.name().get(at..).is_some_and(|packed| packing::begins(packed, prefix))
    }

    /// The key's bytes.
    pub(super) fn key(&self) -> Option<Vec<u8>> {
        let at = 1 + usize::from(*self.bytes().first()?) + 2;
        packing::unpack(self.name().get(at..)?, LIMIT)
    }

    /// Its contents. There are some, because they were checked when the record was made.
    pub(super) fn claim(&self) -> Option<Claim<'_>> {
        let (choice, rest) = packed_at(self.bytes().get(usize::from(self.name_len)..)?)?;
        let numbers: [u8; NUMBERS] = packing::unpack_exact(rest)?;
        let u32_at = |at: usize| numbers.get(at..)?.first_chunk().copied().map(u32::from_le_bytes);
        let u64_at = |at: usize| numbers.get(at..)?.first_chunk().copied().map(u64::from_le_bytes);
        let evidence = Evidence {
            kind: EvidenceKind::from_code(u32_at(4)?)?,
            nanos: u64_at(8)?,
            samples: u32_at(16)?,
            created: u64_at(20)?,
            against: u64_at(28)?,
        };
        Some(Claim { revision: u32_at(0)?, choice, evidence })
    }

    /// Whether this record should replace the other one, of the same name.
    pub(super) fn beats(&self, other: &Kept<impl AsRef<[u8]>>) -> bool {
        self.claim().map(|claim| claim.rank()) > other.claim().map(|claim| claim.rank())
    }

    /// The same record in its public form.
    pub(super) fn to_record(&self) -> Option<Record> {
        let Claim { revision, choice, evidence } = self.claim()?;
        Some(Record {
            family: self.family().to_owned(),
            revision,
            key: self.key()?,
            choice: packing::unpack(choice, LIMIT)?,
            evidence,
        })
    }
}

/// The name that a payload of the newest schema begins with: the family behind its length, and the packed key behind
/// its length.
#[inline]
pub(super) fn name_at(payload: &[u8]) -> Option<&[u8]> {
    let key = 1 + usize::from(*payload.first()?);
    let length = payload.get(key..)?.first_chunk().copied().map(u16::from_le_bytes)?;
    payload.get(..key + 2 + usize::from(length))
}

/// The family of a name and its key's own bytes.
pub(super) fn problem_of(name: &[u8]) -> Option<(&[u8], Vec<u8>)> {
    let (&length, rest) = name.split_first()?;
    let (family, key) = rest.split_at_checked(usize::from(length))?;
    Some((family, packing::unpack(key.get(2..)?, LIMIT)?))
}

/// Packed bytes behind their length, and the bytes after them.
fn packed_at(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
}
