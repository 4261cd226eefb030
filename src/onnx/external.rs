//! Tensors in files beside the model.
//!
//! A model is untrusted. `folders` opens only files that are in the model's folders. A file must be a regular file with
//! a single name (a hard link may be another user's file) and must have the range, before memory is allocated for it.

use std::collections::HashMap;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use super::ExternalProblem;
use super::error::shown;
use super::folders::{Folders, Identity};
use super::source::Inline;
use crate::tensor::Backing;

/// All tensors together may read a file this many times over. Tied weights are stored once and read about twice; more
/// than this is a small model that makes much memory of one file.
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

/// The files beside a model.
#[derive(Debug, Default)]
pub(super) struct External {
    folders: Option<Folders>,
    /// The file of the last tensor: tensors come in the order of their file.
    last: Option<(String, Arc<Backing>)>,
    /// Bytes read so far, by file: one file may have many names.
    read: HashMap<Identity, u64>,
    /// Fields that stayed in the model file.
    pub(super) inline: Inline,
    /// All files that were opened.
    opened: Vec<Arc<Backing>>,
}

impl External {
    /// Files in these folders; without folders there are none.
    pub(super) fn new(folders: Option<Folders>, inline: Inline) -> External {
        External { folders, inline, ..External::default() }
    }

    /// All files that tensors may still be read from.
    pub(super) fn into_backings(self) -> Vec<Arc<Backing>> {
        self.inline.backing().cloned().into_iter().chain(self.opened).collect()
    }

    /// The bytes of a reference, after a check that the file has them.
    pub(super) fn open<'a>(&'a mut self, reference: &'a Reference) -> Result<Region<'a>, ExternalProblem> {
        let folders = self.folders.as_mut().ok_or(ExternalProblem::NoFolder)?;
        let Reference { location, offset, length } = reference;
        if self.last.as_ref().is_none_or(|(last, _)| last != location) {
            let backing = Backing::new(Path::new(location), folders.open(location)?);
            self.opened.push(backing.clone());
            self.last = Some((location.clone(), backing));
        }
        let Some((_, backing)) = &self.last else { return Err(ExternalProblem::NoFolder) };
        let io = |source| ExternalProblem::Io { location: shown(location), source };
        let info = backing.file().metadata().map_err(io)?;
        if !info.is_file() {
            return Err(ExternalProblem::NotAFile(shown(location)));
        }
        if info.nlink() != 1 {
            return Err(ExternalProblem::HardLink(shown(location)));
        }
        let size = info.len();
        if offset.checked_add(*length).is_none_or(|end| end > size) {
            let location = shown(location);
            return Err(ExternalProblem::Range { location, offset: *offset, length: *length, size });
        }
        let read = self.read.entry(Identity::of(&info)).or_default();
        *read = read.saturating_add(*length);
        if *read > size.saturating_mul(READS_PER_FILE) {
            return Err(ExternalProblem::Repeated(shown(location)));
        }
        Ok(Region { backing, location, offset: *offset })
    }
}

/// A range that is inside of a file.
pub(super) struct Region<'a> {
    /// The file.
    pub(super) backing: &'a Arc<Backing>,
    location: &'a str,
    /// Its offset.
    pub(super) offset: u64,
}

impl Region<'_> {
    /// Fills `out` from the start of the range.
    pub(super) fn read(&self, out: &mut [u8]) -> Result<(), ExternalProblem> {
        let io = |source| ExternalProblem::Io { location: shown(self.location), source };
        self.backing.file().read_exact_at(out, self.offset).map_err(io)
    }
}
