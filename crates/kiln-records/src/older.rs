//! A record file of an older schema in memory as it was read. A record is converted to the newest schema when it is
//! looked up, and all records when the store is saved: until then a load pays only for the records that its model looks
//! up.
//!
//! A record is found by its family and its key's own bytes, which are not packed in a payload of schemas 1 and 2.

use std::io::{self, Read};
use std::ops::Range;

use super::codec;
use super::entry::{Kept, State};
use super::evidence::EvidenceKind;
use super::frame::{self, Header};
use super::image::fill;
use super::pages::Pages;
use super::places::Places;

/// Bytes behind the choice in schema 2: how, nanoseconds, samples, created, against. Schema 1 ends before the last.
const NUMBERS: usize = 4 + 8 + 4 + 8 + 8;

/// A family and a key.
type Problem<'a> = (&'a [u8], &'a [u8]);

/// The records of a file of schema 1 or 2 that are still to be taken.
pub(super) struct Older {
    bytes: Pages,
    schema: u16,
    /// The start of each record's frame; 0 where the record was taken.
    frames: Vec<u32>,
    places: Places,
    left: usize,
}

impl Older {
    /// Bytes of the file and of the list of its records.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + self.frames.len() * size_of::<u32>()
    }

    /// The file with that length and header, if it is whole, each of its frames is a record, and no two records are of
    /// the same problem. Other files go to [`frame::read`], which reports the defect.
    pub(super) fn read(source: impl Read, length: usize, header: &Header) -> io::Result<Option<Older>> {
        let mut bytes = Pages::zeros(length);
        Ok(if fill(source, &mut bytes)? { Older::of(bytes, header) } else { None })
    }

    fn of(bytes: Pages, header: &Header) -> Option<Older> {
        let schema = header.schema;
        let count = frame::count_of_whole(&bytes).filter(|_| Header::read(&bytes).ok().as_ref() == Some(header))?;
        let (mut frames, mut end) = (Vec::with_capacity(count), frame::HEADER);
        for _ in 0..count {
            let payload = frame::payload_at(&bytes, end)?;
            whole_problem(schema, payload)?;
            frames.push(end as u32);
            end += frame::FRAME + payload.len();
        }
        let mut doubled = end + frame::FOOTER != bytes.len();
        let places = Places::of_names(
            count,
            |place| problem_at(&bytes, &frames, place),
            |_, _| {
                doubled = true;
                false
            },
        );
        (!doubled).then_some(Older { bytes, schema, frames, places, left: count })
    }

    /// The number of records left.
    pub(super) fn len(&self) -> usize {
        self.left
    }

    /// Takes the record of that family and key.
    pub(super) fn take(&mut self, family: &[u8], key: &[u8]) -> Option<Kept> {
        let place = self.places.find((family, key), |place| problem_at(&self.bytes, &self.frames, place))?;
        self.take_at(place)
    }

    /// Takes the records of a family whose keys begin with those bytes.
    pub(super) fn take_family<'a>(&'a mut self, family: &'a str, prefix: &'a [u8]) -> impl Iterator<Item = Kept> + 'a {
        self.take_those(move |(known, key)| known == family.as_bytes() && key.starts_with(prefix))
    }

    /// Takes all records.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Kept> + '_ {
        self.take_those(|_| true)
    }

    fn take_those<'a>(&'a mut self, wanted: impl Fn(Problem<'_>) -> bool + 'a) -> impl Iterator<Item = Kept> + 'a {
        (0..self.frames.len()).filter_map(move |place| {
            wanted(problem_at(&self.bytes, &self.frames, place)).then(|| self.take_at(place)).flatten()
        })
    }

    fn take_at(&mut self, place: usize) -> Option<Kept> {
        let frame = self.frames.get_mut(place).filter(|at| **at > 0)?;
        let payload = frame::payload_at(&self.bytes, *frame as usize)?;
        let kept = Kept::of_file(self.schema, payload, State::Saved).map(Kept::into_owned);
        // The place stays in the table. Its name then comes from the header, and is no record's name.
        *frame = 0;
        self.left -= 1;
        kept
    }
}

/// The problem of the record at a place; empty where the record was taken.
#[inline]
fn problem_at<'a>(bytes: &'a [u8], frames: &[u32], place: usize) -> Problem<'a> {
    let at = frames.get(place).filter(|at| **at > 0).map(|at| *at as usize);
    at.and_then(|at| problem(frame::payload_at(bytes, at)?)).map_or((&[], &[]), |parts| parts.0)
}

/// The range of the bytes behind a length of 8 bytes at that place.
#[inline]
fn text_at(payload: &[u8], at: usize) -> Option<Range<usize>> {
    let length: [u8; 8] = payload.get(at..)?.first_chunk().copied()?;
    let from = at + 8;
    let to = from.checked_add(usize::try_from(u64::from_le_bytes(length)).ok()?)?;
    (to <= payload.len()).then_some(from..to)
}

/// The family and the key that a payload begins with, and where the key ends.
#[inline]
fn problem(payload: &[u8]) -> Option<(Problem<'_>, usize)> {
    let family = text_at(payload, 0)?;
    // The revision stands between the two.
    let key = text_at(payload, family.end + 4)?;
    let end = key.end;
    Some(((payload.get(family)?, payload.get(key)?), end))
}

/// The same for a payload that is a record from end to end.
fn whole_problem(schema: u16, payload: &[u8]) -> Option<Problem<'_>> {
    let (problem, end) = problem(payload)?;
    let choice = text_at(payload, end)?;
    let numbers = if schema == 1 { NUMBERS - 8 } else { NUMBERS };
    let kind = payload.get(choice.end..)?.first_chunk().copied().map(u32::from_le_bytes)?;
    let is_record = choice.end + numbers == payload.len()
        && EvidenceKind::from_code(kind).is_some()
        && u8::try_from(problem.0.len()).is_ok()
        && std::str::from_utf8(problem.0).is_ok()
        && choice.end + NUMBERS <= codec::LIMIT;
    is_record.then_some(problem)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Evidence, Record};
    use super::*;

    /// A file of that schema with those records.
    pub(in super::super) fn file_of(schema: u16, fingerprint: [u8; 32], records: &[Record]) -> Vec<u8> {
        let payload = |record: &Record| {
            let Record { family, revision, key, choice, evidence } = record;
            if schema == frame::SCHEMA {
                return Kept::of_record(record, State::Saved).unwrap().bytes().to_vec();
            }
            let numbers = (evidence.kind as u32, evidence.nanos, evidence.samples, evidence.created, evidence.against);
            let mut bytes = codec::encode(&(family, revision, key, choice, numbers)).unwrap();
            bytes.truncate(bytes.len() - if schema == 1 { 8 } else { 0 });
            bytes
        };
        let payloads: Vec<Vec<u8>> = records.iter().map(payload).collect();
        let header = Header { schema, codec: codec::ID, fingerprint };
        frame::write(header, payloads.iter().map(Vec::as_slice), 0)
    }

    fn record(number: u8) -> Record {
        let family = ["conv", "matmul"][usize::from(number % 2)].to_owned();
        let evidence = Evidence { created: 5, ..Evidence::measured(9, 3) };
        Record { family, revision: 1, key: vec![number / 2, 0, 0, 7], choice: vec![1; usize::from(number)], evidence }
    }

    fn read(bytes: &[u8]) -> Option<Older> {
        Older::read(bytes, bytes.len(), &Header::read(bytes).ok()?).unwrap()
    }

    fn shown(taken: impl IntoIterator<Item = Kept>) -> Vec<Record> {
        taken.into_iter().map(|kept| kept.to_record().unwrap()).collect()
    }

    #[test]
    fn each_record_is_taken_once_and_none_that_was_not_asked_for() {
        let records: Vec<Record> = (0..40).map(record).collect();
        for schema in [1, 2] {
            let file = file_of(schema, [7; 32], &records);
            let mut older = read(&file).unwrap();
            assert!(older.take(b"conv", &[40, 0, 0, 7]).is_none() && older.take(b"con", &records[0].key).is_none());
            assert!(older.take(b"", b"").is_none());
            let taken = older.take(b"matmul", &records[5].key);
            assert_eq!((shown(taken), older.len()), (vec![records[5].clone()], 39));
            assert!(older.take(b"matmul", &records[5].key).is_none() && older.take(b"", b"").is_none());
            assert_eq!((shown(older.take_family("conv", &[3, 0])), older.len()), (vec![records[6].clone()], 38));
            assert_eq!((shown(older.take_family("matmul", &[])).len(), older.len()), (19, 19));
            assert_eq!((shown(older.take_all()).len(), older.len(), older.take_all().count()), (19, 0, 0));
            assert!(read(&file_of(schema, [7; 32], &[record(1), record(2), record(1)])).is_none(), "which one counts?");
        }
    }

    #[test]
    fn a_file_that_is_not_whole_is_for_another_reader() {
        let sound = file_of(2, [7; 32], &[record(0), record(3)]);
        assert!(read(&sound).is_some());
        assert!((0..sound.len()).all(|length| read(&sound[..length]).is_none()));
        for bit in 0..sound.len() * 8 {
            let mut flipped = sound.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&flipped).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn right_checksums_around_any_lengths_give_records_or_nothing() {
        for schema in [1, 2] {
            let sound = file_of(schema, [7; 32], &[record(0), record(3), record(2)]);
            for at in frame::HEADER..sound.len() - 4 {
                for value in [0, 1, 127, 255] {
                    let mut hostile = sound.clone();
                    hostile[at] = value;
                    let end = hostile.len() - 4;
                    let checksum = crc32fast::hash(&hostile[..end]);
                    hostile[end..].copy_from_slice(&checksum.to_le_bytes());
                    let Some(mut older) = read(&hostile) else { continue };
                    let count = older.len();
                    assert_eq!(shown(older.take_all()).len(), count, "schema {schema}, byte {at} is {value}");
                }
            }
        }
    }
}
