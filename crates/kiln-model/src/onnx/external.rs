//! Tensors in files beside the model.
//!
//! `handed` has those that a program has in memory. Files on disk are found by an untrusted model: `folders` opens only
//! files that are in the model's folders. A file must be a regular file with a single name (a hard link may be another
//! user's file) and must have the range, before memory is allocated for it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use kiln_tensor::{Backing, Tensor};

use super::ExternalProblem;
use super::claims::Claims;
use super::error::shown;
use super::folders::{Folders, Identity, Single};
use super::handed::ExternalData;
use super::source::Inline;

/// All tensors together may read a file this many times over. Tied weights are stored once and read about twice; a
/// model that reads more often than this takes much memory from a small file.
const READS_PER_FILE: u64 = 8;

/// A tensor's reference to its data.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reference {
    location: String,
    offset: u64,
    /// Bytes; the tensor's size if the model does not say.
    pub(super) length: u64,
}

impl Reference {
    /// Reads the entries of a tensor of `need` bytes. Unknown entries are ignored.
    pub(super) fn from_entries<'a>(
        entries: impl Iterator<Item = (&'a str, &'a str)>,
        need: u64,
    ) -> Result<Reference, ExternalProblem> {
        let mut reference = Reference { location: String::new(), offset: 0, length: need };
        let number = |key, value: &str| value.parse().map_err(|_| ExternalProblem::Number { key, value: shown(value) });
        for (key, value) in entries {
            match key {
                "location" => value.clone_into(&mut reference.location),
                "offset" => reference.offset = number("offset", value)?,
                "length" => reference.length = number("length", value)?,
                _ => {}
            }
        }
        Ok(reference)
    }
}

/// Where the files beside a model are.
#[derive(Debug, Default)]
pub(super) enum Beside {
    /// The model is in memory, without others.
    #[default]
    Nowhere,
    Folders(Folders),
    Handed(ExternalData),
}

/// The identity of a file, whatever its names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum FileKey {
    OnDisk(Identity),
    Handed(String),
}

/// A file that was opened.
#[derive(Debug)]
struct OpenFile {
    location: String,
    backing: Arc<Backing>,
    key: FileKey,
    /// Bytes.
    size: u64,
}

/// The files beside a model.
#[derive(Debug, Default)]
pub(super) struct External {
    beside: Beside,
    /// The file of the last tensor: tensors come in the order of their file.
    last: Option<OpenFile>,
    /// Bytes read so far, by file.
    read: HashMap<FileKey, u64>,
    /// Fields that stayed in the model file.
    pub(super) inline: Inline,
    /// Initialisers that take the place of the model's, by name.
    pub(super) initialisers: HashMap<String, Tensor>,
    /// What tensors claim of memory.
    pub(super) claims: Claims,
    /// All files that were opened.
    opened: Vec<Arc<Backing>>,
}

impl External {
    /// Data beside a model, and replacements for its initialisers.
    pub(super) fn of(beside: Beside, initialisers: HashMap<String, Tensor>) -> External {
        External { beside, initialisers, ..External::default() }
    }

    /// All files that tensors may still be read from.
    pub(super) fn into_backings(self) -> Vec<Arc<Backing>> {
        self.inline.backing().cloned().into_iter().chain(self.opened).collect()
    }

    /// The bytes of a reference, after a check that the file has them.
    pub(super) fn open(&mut self, reference: &Reference) -> Result<Region, ExternalProblem> {
        let Reference { location, offset, length } = reference;
        let file = match self.last.take().filter(|last| last.location == *location) {
            Some(last) => last,
            None => {
                let file = self.beside.open(location, self.claims.most())?;
                self.opened.push(file.backing.clone());
                file
            }
        };
        let file = self.last.insert(file);
        let size = file.size;
        if offset.checked_add(*length).is_none_or(|end| end > size) {
            let location = shown(location);
            return Err(ExternalProblem::Range { location, offset: *offset, length: *length, size });
        }
        let read = self.read.entry(file.key.clone()).or_default();
        *read = read.saturating_add(*length);
        if *read > size.saturating_mul(READS_PER_FILE) {
            return Err(ExternalProblem::Repeated(shown(location)));
        }
        Ok(Region { backing: file.backing.clone(), location: location.clone(), offset: *offset })
    }
}

impl Beside {
    /// The file of a location, after a check that it is a regular one with one name. Tensors may take `most` bytes.
    fn open(&mut self, location: &str, most: u64) -> Result<OpenFile, ExternalProblem> {
        let owned = location.to_owned();
        match self {
            Beside::Nowhere => Err(ExternalProblem::NoFolder(shown(location))),
            Beside::Handed(data) => {
                let file = data.open(location, most)?;
                let size = file.bytes.len() as u64;
                let backing = Backing::in_memory(Path::new(location), file.bytes);
                Ok(OpenFile { location: owned, backing, key: FileKey::Handed(file.name), size })
            }
            Beside::Folders(folders) => {
                let Single { file, info } = folders.open_single(location)?;
                let backing = Backing::new(Path::new(location), file);
                Ok(OpenFile { location: owned, backing, key: FileKey::OnDisk(Identity::of(&info)), size: info.len() })
            }
        }
    }
}

/// A range that is inside of a file.
pub(super) struct Region {
    /// The file.
    pub(super) backing: Arc<Backing>,
    location: String,
    /// Its offset.
    pub(super) offset: u64,
}

impl Region {
    /// Fills `out` from the start of the range.
    pub(super) fn read(&self, out: &mut [u8]) -> Result<(), ExternalProblem> {
        let io = |source| ExternalProblem::Io { location: shown(&self.location), source };
        self.backing.try_read(self.offset, out).map_err(io)
    }
}
