//! The layout of a record file: a header, framed records, a footer. docs/records.md shows it byte by byte.
//!
//! Each record stands in a frame of its own with its length and checksum, so that damage costs the records that it
//! touches and no other, and a file that was cut off still gives what comes before the cut. This file turns slices into
//! records and back; it opens nothing, allocates nothing by a length that it read, and has no way to panic on any bytes.

use super::codec;
use super::entry::Record;

/// First bytes of every record file; the first is not ASCII, so that no text file starts so.
const MAGIC: [u8; 8] = *b"\x89KILNREC";
/// The version of everything that this file and `entry` lay out.
pub(super) const SCHEMA: u16 = 2;
/// Magic, schema, codec id, header length, reserved word, fingerprint, reserved bytes, checksum.
const HEADER: usize = 64;
/// A frame's length and checksum.
const FRAME: usize = 8;
/// What stands in place of a frame's length where the frames end; no frame is that long.
const END: u32 = u32::MAX;
/// The end mark, the count and the checksum.
const FOOTER: usize = 12;

/// No file is longer: 262,144 records of the usual size, and what a reader may be made to read.
pub(super) const MOST_BYTES: usize = 64 << 20;
/// No file holds more records.
pub(super) const MOST_RECORDS: usize = 1 << 18;

/// Why a whole file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    /// Not a record file.
    Magic,
    /// A schema or codec that this build does not know.
    Version,
    /// For another machine or another build.
    Fingerprint,
    /// The header is damaged.
    Checksum,
}

impl Rejected {
    pub(super) const fn why(self) -> &'static str {
        match self {
            Rejected::Magic => "not a record file",
            Rejected::Version => "a schema or codec that this build does not know",
            Rejected::Fingerprint => "for another machine or another build",
            Rejected::Checksum => "the header is damaged",
        }
    }
}

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) schema: u16,
    pub(super) codec: u8,
    pub(super) fingerprint: [u8; 32],
}

/// The `N` bytes at `at`, if they are there.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}

impl Header {
    /// The header of files that this build writes.
    pub(super) fn new(fingerprint: [u8; 32]) -> Header {
        Header { schema: SCHEMA, codec: codec::ID, fingerprint }
    }

    fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&self.schema.to_le_bytes());
        bytes[10] = self.codec;
        bytes[11] = HEADER as u8;
        bytes[16..48].copy_from_slice(&self.fingerprint);
        let checksum = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header at the start of a file.
    pub(super) fn read(bytes: &[u8]) -> Result<Header, Rejected> {
        let magic = bytes.get(..8).unwrap_or(bytes);
        if !MAGIC.starts_with(magic) {
            return Err(Rejected::Magic);
        }
        let schema = u16::from_le_bytes(bytes_at(bytes, 8).ok_or(Rejected::Checksum)?);
        let [codec, length] = bytes_at(bytes, 10).ok_or(Rejected::Checksum)?;
        // Before the checksum, because another schema may have its checksum elsewhere.
        if schema != SCHEMA || codec != codec::ID || usize::from(length) != HEADER {
            return Err(Rejected::Version);
        }
        let fingerprint = bytes_at(bytes, 16).ok_or(Rejected::Checksum)?;
        let header = Header { schema, codec, fingerprint };
        // Compared as a whole: the checksum, and the reserved bytes, which this schema writes as zeros.
        if bytes.get(..HEADER) != Some(&header.to_bytes()) {
            return Err(Rejected::Checksum);
        }
        Ok(header)
    }
}

/// Lays out a file. Records that are too long for a frame are left out; the count of those written is returned.
pub(super) fn write<'a>(header: Header, records: impl Iterator<Item = &'a Record>) -> (Vec<u8>, u32) {
    let mut file = header.to_bytes().to_vec();
    let mut count = 0;
    for payload in records.filter_map(|record| record.to_bytes().ok()) {
        // The codec's limit keeps the length far below `u32::MAX`.
        let length = (payload.len() as u32).to_le_bytes();
        file.extend(length);
        file.extend(frame_checksum(length, &payload).to_le_bytes());
        file.extend(payload);
        count += 1;
    }
    file.extend(END.to_le_bytes());
    file.extend(u32::to_le_bytes(count));
    let checksum = crc32fast::hash(&file);
    file.extend(checksum.to_le_bytes());
    (file, count)
}

/// The checksum covers the length, so that a damaged length cannot make a frame of other bytes.
fn frame_checksum(length: [u8; 4], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(payload);
    hasher.finalize()
}

/// What reading the frames of a file gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frames {
    /// Records handed on.
    pub(super) sound: u64,
    /// Frames that were damaged or held no record, and 1 if only the footer was.
    pub(super) damaged: u64,
}

/// Reads the frames behind a header that [`Header::read`] accepted, handing every sound record on.
pub(super) fn read(bytes: &[u8], mut each: impl FnMut(Record)) -> Frames {
    let mut frames = Frames::default();
    let mut at = HEADER;
    while let Some(length) = u32_at(bytes, at) {
        if length == END || length as usize > codec::LIMIT || frames.sound >= MOST_RECORDS as u64 {
            break;
        }
        let start = at + FRAME;
        let (Some(checksum), Some(payload)) =
            (u32_at(bytes, at + 4), bytes.get(start..).and_then(|rest| rest.get(..length as usize)))
        else {
            break;
        };
        // Nothing is decoded that does not have its checksum.
        let sound = frame_checksum(length.to_le_bytes(), payload) == checksum;
        match sound.then(|| Record::from_bytes(payload)).flatten() {
            Some(record) => {
                frames.sound += 1;
                each(record);
            }
            None => frames.damaged += 1,
        }
        at = start + payload.len();
    }
    if frames.damaged == 0 && !is_footer(bytes, at, frames.sound) {
        frames.damaged = 1;
    }
    frames
}

/// Whether the file ends at `at` with the footer that it should have.
fn is_footer(bytes: &[u8], at: usize, count: u64) -> bool {
    let checksum = bytes.get(..at + FOOTER - 4).map(crc32fast::hash);
    bytes.len() == at + FOOTER
        && u32_at(bytes, at) == Some(END)
        && u32_at(bytes, at + 4).map(u64::from) == Some(count)
        && u32_at(bytes, at + FOOTER - 4) == checksum
}
