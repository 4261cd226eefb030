//! Record files as tools see them: all files of a folder, for any machine and build.
//!
//! Unlike the store this returns errors, because inspection is explicit. It reads and never writes.

use std::path::{Path, PathBuf};

use super::entry::State;
use super::fingerprint::hex;
use super::folder::{self, Folder};
use super::frame::{self, ReadError};
use super::{Record, RecordError};

/// The contents of one record file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSummary {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// The version of its layout.
    pub schema: u16,
    /// The number of the codec that its records are in.
    pub codec: u8,
    /// The digits of the fingerprint of the machine and build that it is for; the file's name starts with them.
    pub fingerprint: String,
    /// The whole digest of its fingerprint.
    pub digest: [u8; 32],
    /// Damaged parts that were skipped.
    pub damaged: u64,
    /// The records, in the file's order.
    pub records: Vec<Record>,
}

/// Reads the contents of a record file.
///
/// # Errors
///
/// [`RecordError`] if it cannot be read, is refused, or has no header that this build knows.
pub fn inspect_file(path: &Path) -> Result<FileSummary, RecordError> {
    let unreadable = |why| RecordError::Unreadable { path: path.to_owned(), why };
    let folder = Folder::new(path.parent().unwrap_or(Path::new("")));
    let source = folder.read(path, frame::MOST_BYTES)?.ok_or_else(|| unreadable("there is no such file"))?;
    let bytes = source.length;
    let mut records = Vec::new();
    let read = frame::read(source, State::Saved, |_| Ok(()), |kept| records.extend(kept.to_record()));
    let (header, frames) = read.map_err(|error| match error {
        ReadError::Rejected(rejected) => unreadable(rejected.why()),
        ReadError::Io(source) => RecordError::Io { what: "read", path: path.to_owned(), source },
    })?;
    Ok(FileSummary {
        path: path.to_owned(),
        bytes,
        schema: header.schema,
        codec: header.codec,
        fingerprint: hex(&header.fingerprint[..16]),
        digest: header.fingerprint,
        damaged: frames.damaged,
        records,
    })
}

/// The contents of each record file of a folder, or the reason why they cannot be read, in order of the files' names.
///
/// # Errors
///
/// [`RecordError`] if the folder itself cannot be listed or is refused. A folder that does not exist holds nothing.
pub fn inspect_folder(path: &Path) -> Result<Vec<Result<FileSummary, RecordError>>, RecordError> {
    let names = Folder::new(path).list()?;
    let files = names.iter().filter(|name| name.ends_with(folder::SUFFIX) || name.ends_with(folder::SHARD));
    Ok(files.map(|name| inspect_file(&path.join(name))).collect())
}
