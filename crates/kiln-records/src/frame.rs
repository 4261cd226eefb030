//! The layout of a record file: a header, framed records, a footer. docs/records.md shows it byte by byte.
//!
//! Each record stands in a frame of its own with its length and checksum, so that damage costs only the records that it
//! touches, and a file that was cut off still gives the records before the cut. This file turns bytes into records and
//! back. It opens nothing, holds at most a window of its input, never allocates by a length that it read, and cannot
//! panic on any bytes.

use std::io::{self, Read};

use super::codec;
use super::entry::{Kept, LONGEST, State};

/// First bytes of every record file; the first is not ASCII, so that no text file starts so.
const MAGIC: [u8; 8] = *b"\x89KILNREC";
/// The version of everything that this file and `entry` lay out.
pub(super) const SCHEMA: u16 = 3;
/// The oldest version: all versions are read for ever.
pub(super) const OLDEST: u16 = 1;
/// Magic, schema, codec id, header length, reserved word, fingerprint, reserved bytes, checksum.
pub(super) const HEADER: usize = 64;
/// A frame's length and checksum.
pub(super) const FRAME: usize = 8;
/// The mark in place of a frame's length where the frames end; no frame is that long.
const END: u32 = u32::MAX;
/// The end mark, the count and the checksum.
pub(super) const FOOTER: usize = 12;
/// Bytes that are read from a file at once.
const WINDOW: usize = 1 << 16;

/// The longest file: 262,144 records of the usual size. It also bounds the bytes that a reader may be made to read.
pub(super) const MOST_BYTES: usize = 64 << 20;
/// The most records of a file.
pub(super) const MOST_RECORDS: usize = 1 << 18;

/// The reasons to reject a whole file.
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

/// Why a file gave nothing, or only a part of its records.
#[derive(Debug)]
pub(super) enum ReadError {
    /// It is not to be used.
    Rejected(Rejected),
    /// The system failed on the way; earlier records were passed on.
    Io(io::Error),
}

impl From<Rejected> for ReadError {
    fn from(rejected: Rejected) -> ReadError {
        ReadError::Rejected(rejected)
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
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
#[inline]
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[inline]
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
        if !(OLDEST..=SCHEMA).contains(&schema) || codec != codec::ID || usize::from(length) != HEADER {
            return Err(Rejected::Version);
        }
        let fingerprint = bytes_at(bytes, 16).ok_or(Rejected::Checksum)?;
        let header = Header { schema, codec, fingerprint };
        // Compared as a whole: the checksum, and the reserved bytes, which these schemas write as zeros.
        if bytes.get(..HEADER) != Some(&header.to_bytes()) {
            return Err(Rejected::Checksum);
        }
        Ok(header)
    }
}

/// Bytes of a record in a file.
pub(super) fn room(kept: &Kept<impl AsRef<[u8]>>) -> usize {
    FRAME + kept.bytes().len()
}

/// Bytes of a file besides its records.
pub(super) const FRAMELESS: usize = HEADER + FOOTER;

/// Lays out a file.
pub(super) fn write<'a>(header: Header, records: impl Iterator<Item = &'a [u8]>, room: usize) -> Vec<u8> {
    let mut file = Vec::with_capacity(FRAMELESS + room);
    file.extend_from_slice(&header.to_bytes());
    let mut count = 0_u32;
    for payload in records {
        // The codec's limit keeps the length far below `u32::MAX`.
        let length = (payload.len() as u32).to_le_bytes();
        file.extend_from_slice(&length);
        file.extend_from_slice(&frame_checksum(length, payload).to_le_bytes());
        file.extend_from_slice(payload);
        count += 1;
    }
    file.extend_from_slice(&END.to_le_bytes());
    file.extend_from_slice(&count.to_le_bytes());
    let checksum = crc32fast::hash(&file);
    file.extend_from_slice(&checksum.to_le_bytes());
    file
}

/// The checksum covers the length, so that a damaged length cannot make a frame of other bytes.
fn frame_checksum(length: [u8; 4], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(payload);
    hasher.finalize()
}

/// The number of records of a file with exactly these bytes, if it ends with the right footer.
pub(super) fn count_of_whole(bytes: &[u8]) -> Option<usize> {
    let footer = bytes.len().checked_sub(FOOTER)?;
    let count = u32_at(bytes, footer + 4)? as usize;
    // Before the count is trusted: no record is shorter than its frame. The checksum comes last, because it takes
    // longest.
    (u32_at(bytes, footer)? == END
        && count <= MOST_RECORDS.min(bytes.len() / FRAME)
        && u32_at(bytes, footer + 8)? == crc32fast::hash(bytes.get(..footer + 8)?))
    .then_some(count)
}

/// The payload of the frame at that place of a file with exactly these bytes. `None` where there is no frame: no
/// payload is as long as the end mark says.
#[inline]
pub(super) fn payload_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let length = u32_at(bytes, at)? as usize;
    bytes.get(at + FRAME..(at + FRAME).checked_add(length)?).filter(|_| length <= LONGEST)
}

/// Whether the frame at that place has the right checksum.
pub(super) fn is_sound(bytes: &[u8], at: usize) -> bool {
    let payload = payload_at(bytes, at).unwrap_or_default();
    let length = (payload.len() as u32).to_le_bytes();
    u32_at(bytes, at + 4) == Some(frame_checksum(length, payload))
}

/// The result of reading the frames of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frames {
    /// Records passed on.
    pub(super) sound: u64,
    /// Damaged frames and frames without a record; 1 if only the footer was damaged.
    pub(super) damaged: u64,
}

/// The part of a file in memory.
struct Window<R> {
    source: R,
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
    /// The checksum of all bytes that were passed.
    checksum: crc32fast::Hasher,
}

impl<R: Read> Window<R> {
    /// The next `count` bytes, or fewer at the end of the file.
    fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        while self.to - self.from < count {
            if self.from + count > self.bytes.len() {
                self.bytes.copy_within(self.from..self.to, 0);
                self.to -= self.from;
                self.from = 0;
            }
            match self.source.read(&mut self.bytes[self.to..])? {
                0 => break,
                read => self.to += read,
            }
        }
        let end = self.to.min(self.from + count);
        Ok(&self.bytes[self.from..end])
    }

    /// Moves on behind the next `count` bytes, which have been seen.
    fn pass(&mut self, count: usize) {
        let end = self.to.min(self.from + count);
        self.checksum.update(&self.bytes[self.from..end]);
        self.from = end;
    }
}

/// Reads a file whose header `accept` takes, and passes on every sound record in that state.
pub(super) fn read(
    source: impl Read,
    state: State,
    accept: impl FnOnce(&Header) -> Result<(), Rejected>,
    mut each: impl FnMut(Kept<&[u8]>),
) -> Result<(Header, Frames), ReadError> {
    let bytes = vec![0; WINDOW].into_boxed_slice();
    let mut window = Window { source, bytes, from: 0, to: 0, checksum: crc32fast::Hasher::new() };
    let header = Header::read(window.peek(HEADER)?)?;
    accept(&header)?;
    window.pass(HEADER);
    let mut frames = Frames::default();
    while let Some(length) = u32_at(window.peek(FRAME)?, 0) {
        if length == END || length as usize > LONGEST || frames.sound >= MOST_RECORDS as u64 {
            break;
        }
        let whole = FRAME + length as usize;
        let frame = window.peek(whole)?;
        let (Some(checksum), Some(payload)) = (u32_at(frame, 4), frame.get(FRAME..whole)) else { break };
        // Nothing is decoded before its checksum has been verified.
        let sound = frame_checksum(length.to_le_bytes(), payload) == checksum;
        match sound.then(|| Kept::of_file(header.schema, payload, state)).flatten() {
            Some(record) => {
                frames.sound += 1;
                each(record.view());
            }
            None => frames.damaged += 1,
        }
        window.pass(whole);
    }
    if frames.damaged == 0 && !is_footer(&mut window, frames.sound)? {
        frames.damaged = 1;
    }
    Ok((header, frames))
}

/// Whether the file ends here with the right footer.
fn is_footer<R: Read>(window: &mut Window<R>, count: u64) -> io::Result<bool> {
    // One byte more than expected, to detect a longer file.
    let footer = window.peek(FOOTER + 1)?;
    let marks =
        footer.len() == FOOTER && u32_at(footer, 0) == Some(END) && u32_at(footer, 4).map(u64::from) == Some(count);
    let checksum = u32_at(footer, FOOTER - 4);
    window.pass(FOOTER - 4);
    Ok(marks && checksum == Some(window.checksum.clone().finalize()))
}
