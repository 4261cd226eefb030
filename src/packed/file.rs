//! A packed model's file, mapped: opened once for each process, and validated before any of its offsets is used.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, Weak};

use kiln_fork::Mutex;
use kiln_kernels::Parallel;
use kiln_kernels::extent::{FileId, Foreign, Mapped};
use kiln_kernels::parallel::for_each_chunk;
use kiln_run::record::{CodecError, decode_long, encode_long};

use super::index::{DataRow, Index, Sources, SpanRow, StateRow};
use super::parts::Parts;
use super::write::SIGNED;
use super::{ALIGNMENT, HEADER, MAGIC, MadeFor, OLDEST_SCHEMA, PackedError, SCHEMA};

/// Whether the digests of the data are compared. Header and index always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// At each load.
    Each,
    /// Once after the file was made or changed, which is noted beside the records; without a folder of records, once
    /// for each process.
    #[default]
    Once,
    /// Not at all: wrong bytes in packed weights cause wrong numbers, and no other harm.
    Never,
}

/// A mapped file and its index.
#[derive(Debug)]
pub struct PackedFile {
    path: PathBuf,
    map: Arc<Mapped>,
    index: Index,
    /// The files that it refers to.
    parts: Parts,
    made_for: MadeFor,
    /// Whether its data has been found to match the digests in the index.
    verified: AtomicBool,
    /// Whether a session has been made of it.
    used: AtomicBool,
}

/// The files that are open in this process.
static OPEN: Mutex<Vec<(FileId, Weak<PackedFile>)>> = Mutex::new(Vec::new());

impl Verify {
    /// Every one.
    pub const ALL: [Verify; 3] = [Verify::Each, Verify::Once, Verify::Never];

    /// Its name in options and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Verify::Each => "each",
            Verify::Once => "once",
            Verify::Never => "never",
        }
    }
}

impl PackedFile {
    /// The file at that path; sessions of one process share it while the file does not change.
    ///
    /// # Errors
    ///
    /// [`PackedError::Io`] for a file that cannot be read or that others may write, [`PackedError::Damaged`] for one
    /// that is not whole, [`PackedError::Source`] for a file that it refers to and that cannot be used.
    pub fn open(path: &Path) -> Result<Arc<PackedFile>, PackedError> {
        let io = PackedError::io("map", path);
        let file = File::open(path).map_err(&io)?;
        let map = Mapped::of(&file).map_err(&io)?;
        let id = map.id();
        let known = |open: &[(FileId, Weak<PackedFile>)]| -> Vec<Arc<PackedFile>> {
            open.iter().filter(|(known, _)| *known == id).filter_map(|(_, file)| file.upgrade()).collect()
        };
        let open = || OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = known(&open());
        // Files that it refers to may have changed since, or be different ones if it was opened from another folder.
        let is_same = |known: &Arc<PackedFile>| known.parts.are_found(path, &file, &known.index.sources);
        if let Some(known) = shared.into_iter().find(is_same) {
            return Ok(known);
        }
        let file = Arc::new(PackedFile::of(path, &file, Arc::new(map))?);
        let mut open = open();
        if let Some(other) = known(&open).into_iter().find(|other| other.ids() == file.ids()) {
            return Ok(other);
        }
        open.retain(|(_, file)| file.strong_count() > 0);
        open.push((id, Arc::downgrade(&file)));
        Ok(file)
    }

    /// The identities of the file and of the files that it refers to.
    #[must_use]
    pub fn ids(&self) -> Vec<FileId> {
        std::iter::once(self.map.id()).chain(self.parts.ids()).collect()
    }

    /// Whether some of its weights are in other files.
    #[must_use]
    pub fn is_weightless(&self) -> bool {
        !self.index.sources.parts.is_empty()
    }

    /// Bytes of other files that it refers to.
    #[must_use]
    pub fn referred(&self) -> usize {
        self.index.sources.parts.iter().map(|part| part.data.len as usize).sum()
    }

    /// Whether its data has been verified in this process, or is known to have been.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        self.verified.load(Ordering::Acquire)
    }

    /// Marks its data as verified.
    pub fn trust(&self) {
        self.verified.store(true, Ordering::Release);
    }

    /// Reads header and index.
    fn of(path: &Path, file: &File, map: Arc<Mapped>) -> Result<PackedFile, PackedError> {
        let damaged = |reason: &str| PackedError::damaged(path, reason);
        let bytes = map.bytes();
        let header = bytes.get(..HEADER).ok_or_else(|| damaged("it ends within its header"))?;
        if header[..8] != MAGIC {
            return Err(damaged("it begins otherwise"));
        }
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        let schema = u32::from_le_bytes(std::array::from_fn(|byte| header[8 + byte]));
        if !(OLDEST_SCHEMA..=SCHEMA).contains(&schema) {
            let (found, wanted) = (schema.to_string(), SCHEMA.to_string());
            return Err(PackedError::Other { path: path.to_owned(), fact: "schema".to_owned(), found, wanted });
        }
        if blake3::hash(&header[..SIGNED]) != header[SIGNED..SIGNED + 32] {
            return Err(damaged("its header has another digest than it says"));
        }
        if header[SIGNED + 32..].iter().any(|&byte| byte != 0) {
            return Err(damaged("its header says more than this build understands"));
        }
        let [offset, len, end] = [16, 24, 32].map(number).map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        if end != bytes.len() || offset.checked_add(len) != Some(end) || offset < HEADER {
            return Err(damaged("its header speaks of another length"));
        }
        let index = &bytes[offset..end];
        if blake3::hash(index) != header[40..SIGNED] {
            return Err(damaged("its index has another digest than the header says"));
        }
        let index = read_index(index, schema).map_err(|error| damaged(&format!("its index: {error}")))?;
        let mut at = HEADER as u64;
        for SpanRow { data, .. } in &index.spans {
            if data.offset != at {
                return Err(damaged("its spans are not end to end"));
            }
            at = at.checked_add(data.len).ok_or_else(|| damaged("its spans end nowhere"))?;
        }
        if at != offset as u64 {
            return Err(damaged("its spans are not all of its data"));
        }
        let parts = Parts::open(path, file, &index.sources)?;
        let made_for = MadeFor(index.made_for.clone());
        let (verified, used) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(PackedFile { path: path.to_owned(), map, index, parts, made_for, verified, used })
    }

    /// Compares the digests of all data.
    ///
    /// # Errors
    ///
    /// [`PackedError::Damaged`] with the first span that differs, [`PackedError::Source`] with the first part of
    /// another file that differs.
    pub fn verify(&self, parallel: &dyn Parallel) -> Result<(), PackedError> {
        let mut spans: Vec<(&SpanRow, bool)> = self.index.spans.iter().map(|span| (span, true)).collect();
        for_each_chunk(parallel, &mut spans, 1, &|_, spans| {
            for (SpanRow { data, digest }, holds) in spans {
                let found = self.map.bytes().get(data.offset as usize..(data.offset + data.len) as usize);
                *holds = found.is_some_and(|bytes| blake3::hash(bytes) == *digest);
            }
        });
        match spans.iter().find(|(_, holds)| !holds) {
            Some((span, _)) => {
                let DataRow { offset, len } = span.data;
                let reason = format!("the {len} bytes from {offset} on have another digest than the index says");
                Err(PackedError::damaged(&self.path, reason))
            }
            None => {
                self.parts.verify(&self.path, &self.index.sources, parallel)?;
                self.trust();
                Ok(())
            }
        }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its index: everything but the elements.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The whole file, mapped.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.map.bytes()
    }

    /// The file's bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.bytes().len()
    }

    /// Whether the file is empty; an empty file cannot be opened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses a file that was made for something else.
    ///
    /// # Errors
    ///
    /// [`PackedError::Other`] with the first fact that differs.
    pub fn expect(&self, here: &MadeFor) -> Result<(), PackedError> {
        match self.made_for.difference(here) {
            None => Ok(()),
            Some((fact, found, wanted)) => {
                let [fact, found, wanted] = [fact, found, wanted].map(str::to_owned);
                Err(PackedError::Other { path: self.path.clone(), fact, found, wanted })
            }
        }
    }

    /// Bytes of the data, mapped.
    ///
    /// # Errors
    ///
    /// The fault of the row.
    pub(super) fn data(&self, row: DataRow) -> Result<Foreign, String> {
        let outside = || format!("{} bytes from {} on are outside of the data", row.len, row.offset);
        let number = |number: u64| usize::try_from(number).map_err(|_| outside());
        let (offset, len) = (number(row.offset)?, number(row.len)?);
        if offset < HEADER || !offset.is_multiple_of(ALIGNMENT) {
            return Err(outside());
        }
        self.map.part(offset, len).map(Foreign::of).ok_or_else(outside)
    }

    /// Bytes of another file, at a multiple of `alignment` bytes.
    ///
    /// # Errors
    ///
    /// If there is no such part.
    pub(super) fn part(&self, number: u32, alignment: usize) -> Result<Foreign, String> {
        self.parts.bytes(&self.index.sources, number, alignment)
    }

    /// Notes that a session is made of it. Returns whether it is the first since the file was opened.
    pub fn note_session(&self) -> bool {
        !self.used.swap(true, Ordering::Relaxed)
    }

    /// Reads the pages of all data from the disk, in the order in which they were written, the order of first use. Ends
    /// early once the file has no other user.
    pub fn populate(file: Arc<PackedFile>) {
        const PIECE: usize = 4 << 20;
        let (map, file) = (Arc::downgrade(&file.map), Arc::downgrade(&file));
        let mut at = 0;
        while let Some(map) = map.upgrade().filter(|map| at < map.bytes().len() && file.strong_count() > 0) {
            map.populate(at..at + PIECE);
            at += PIECE;
        }
        if let Some(file) = file.upgrade() {
            file.parts.populate(&file.index.sources, || Arc::strong_count(&file) > 1);
        }
    }
}

/// The index of a file of that schema. An index of schema 3 ends before the sources, one of schema 4 before the packed
/// weights that are parts, and one of schema 5 before the states of a decoder.
fn read_index(bytes: &[u8], schema: u32) -> Result<Index, CodecError> {
    let states: Vec<StateRow> = Vec::new();
    let unsaid = match schema {
        3 => encode_long(&(Sources::default(), states))?,
        4 => encode_long(&(Sources::default().panels, states))?,
        5 => encode_long(&states)?,
        _ => return decode_long(bytes),
    };
    decode_long(&[bytes, &unsaid].concat())
}
