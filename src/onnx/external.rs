//! Tensors in files beside the model, read only from below the model's folder.
//!
//! A model is untrusted, and a path in it can name any file of the user's. So each component of the path is opened
//! relative to the folder before it and without following links; no decision depends on a name that is looked up again
//! later, so that no link can be put in between. The file must be a regular file with a single name (a hard link may be
//! another user's file) and must have the range, before memory is allocated for it.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::ExternalProblem;
use super::claims::Claims;
use super::error::shown;
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
    folder: Option<PathBuf>,
    /// The file of the last tensor: tensors come in the order of their file.
    last: Option<(String, Arc<Backing>)>,
    /// Bytes read so far, by location.
    read: HashMap<String, u64>,
    /// Fields that stayed in the model file.
    pub(super) inline: Inline,
    /// What tensors claim of memory.
    pub(super) claims: Claims,
    /// All files that were opened.
    opened: Vec<Arc<Backing>>,
}

impl External {
    /// Files below `folder`; without a folder there are none.
    pub(super) fn new(folder: Option<&Path>, inline: Inline) -> External {
        External { folder: folder.map(Path::to_owned), inline, ..External::default() }
    }

    /// All files that tensors may still be read from.
    pub(super) fn into_backings(self) -> Vec<Arc<Backing>> {
        self.inline.backing().cloned().into_iter().chain(self.opened).collect()
    }

    /// The bytes of a reference, after a check that the file has them.
    pub(super) fn open(&mut self, reference: &Reference) -> Result<Region, ExternalProblem> {
        let folder = self.folder.as_deref().ok_or(ExternalProblem::NoFolder)?;
        let Reference { location, offset, length } = reference;
        if self.last.as_ref().is_none_or(|(last, _)| last != location) {
            let backing = Backing::new(Path::new(location), open_below(folder, location)?);
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
        let read = self.read.entry(location.clone()).or_default();
        *read = read.saturating_add(*length);
        if *read > size.saturating_mul(READS_PER_FILE) {
            return Err(ExternalProblem::Repeated(shown(location)));
        }
        Ok(Region { backing: backing.clone(), location: location.clone(), offset: *offset })
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
        self.backing.file().read_exact_at(out, self.offset).map_err(io)
    }
}

/// Opens `location` below `folder`, following no link below it, and without blocking (as on a pipe).
fn open_below(folder: &Path, location: &str) -> Result<File, ExternalProblem> {
    let io = |errno: rustix::io::Errno| ExternalProblem::Io { location: shown(location), source: errno.into() };
    let refused = || ExternalProblem::Location(shown(location));
    if location.starts_with('/') || location.contains('\0') {
        return Err(refused());
    }
    let mut parts: Vec<&str> = location.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(refused());
    }
    let name = parts.pop().ok_or_else(refused)?;
    let folder_flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let mut below = openat(CWD, folder, folder_flags, Mode::empty()).map_err(io)?;
    for part in parts {
        below = openat(&below, part, folder_flags | OFlags::NOFOLLOW, Mode::empty()).map_err(io)?;
    }
    let file_flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    Ok(File::from(openat(&below, name, file_flags, Mode::empty()).map_err(io)?))
}
