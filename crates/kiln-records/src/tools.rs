//! Writing record files for any machine and build, for tools that were told to.

use std::path::Path;

use super::entry::{Kept, State};
use super::folder::{self, Folder};
use super::frame::{self, Header};
use super::shared::CacheMode;
use super::store::Store;
use super::{Record, RecordError, SaveReport};

/// Adds records to the file with that name for the machine and build with that digest; of two records for one key the
/// better proven one stays. A file for another machine or build is replaced.
///
/// # Errors
///
/// [`RecordError`]; the file is then unchanged.
pub fn merge_into(path: &Path, digest: [u8; 32], records: &[Record]) -> Result<SaveReport, RecordError> {
    let (folder, stem) = place(path);
    let store = Store::of_digest(folder, stem, digest, CacheMode::ReadWrite);
    for record in records {
        store.insert_record(record);
    }
    store.save()
}

/// Makes the file hold those records and no others.
///
/// # Errors
///
/// [`RecordError`]; the file is then unchanged.
pub fn replace_file(path: &Path, digest: [u8; 32], records: &[Record]) -> Result<SaveReport, RecordError> {
    let (folder, stem) = place(path);
    folder.make()?;
    let Some(lock) = folder.lock(&stem)? else {
        return Err(RecordError::Locked { path: path.to_owned(), waited_ms: super::folder::WAITED_MS });
    };
    let mut kept: Vec<Kept> = records.iter().filter_map(|record| Kept::of_record(record, State::Saved).ok()).collect();
    kept.sort_unstable_by(|a, b| a.name().cmp(b.name()));
    let room = kept.iter().map(frame::room).sum();
    let bytes = frame::write(Header::new(digest), kept.iter().map(Kept::bytes), room);
    let path = folder.replace(&lock, &stem, &bytes)?;
    let (written, bytes) = (kept.len() as u64, bytes.len() as u64);
    Ok(SaveReport { path: Some(path), written, bytes, ..SaveReport::default() })
}

/// Removes every record file, shard, lock and leftover of a folder, and nothing else; returns the number of files
/// removed.
///
/// # Errors
///
/// [`RecordError`] if the folder is refused or a file cannot be removed.
pub fn clear_folder(path: &Path) -> Result<u64, RecordError> {
    let folder = Folder::new(path);
    let mut removed = 0;
    for name in folder.list()? {
        let ours = [folder::SUFFIX, folder::SHARD, ".lock"].iter().any(|end| name.ends_with(end))
            || (name.starts_with('.') && (name.ends_with(".tmp") || name.ends_with(".part")));
        if ours {
            let file = path.join(&name);
            std::fs::remove_file(&file).map_err(|source| RecordError::Io { what: "remove", path: file, source })?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn place(path: &Path) -> (Folder, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(folder::SUFFIX).unwrap_or(&name).to_owned();
    (Folder::new(path.parent().unwrap_or(Path::new(""))), stem)
}
