//! The cache folder on the file system: what may be read and written there, and how.
//!
//! The folder may be shared by many processes and may have been prepared by an enemy with another user id. So: nothing
//! is read or written through a folder or a file that somebody else owns or may write, a symbolic link is never
//! followed for either, an open never blocks (a FIFO would), what was opened is checked and not what was named, and
//! files are read, never mapped (another process that truncates a mapped file kills this one). A file is never changed
//! in place: the next state is written beside it, synced and renamed over it, under a lock that dies with its process.
//!
//! This file knows paths and bytes, nothing of what the bytes mean.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::RecordError;

/// How long a save tries to get the lock. A save takes milliseconds, so this is patience for a crowd of savers.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it sleeps between two tries.
const PAUSE: Duration = Duration::from_millis(3);

/// How record files end.
pub(super) const SUFFIX: &str = ".kiln";

const NO_FILE: &str = "it is not a regular file";

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
    move |source| RecordError::Io { what, path: path.to_owned(), source }
}

fn refused(path: &Path, why: &'static str) -> RecordError {
    RecordError::Refused { path: path.to_owned(), why }
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

/// Whether only this user can have written there.
fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), RecordError> {
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused(path, "it belongs to another user"));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(refused(path, "its group or others may write it (chmod go-w would do)"));
    }
    Ok(())
}

/// Opens a folder that is fit to hold records. `None` if there is none.
fn open_folder(folder: &Path) -> Result<Option<File>, RecordError> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags(OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::NONBLOCK))
        .open(folder);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) if folder.is_symlink() => return Err(refused(folder, "it is a symbolic link")),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(refused(folder, "it is not a folder"));
        }
        Err(error) => return Err(failed("open the folder", folder)(error)),
    };
    check_owner(folder, &file.metadata().map_err(failed("examine the folder", folder))?)?;
    Ok(Some(file))
}

/// Makes the folder if there is none, for this user alone, and checks it.
pub(super) fn make(folder: &Path) -> Result<(), RecordError> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).or_else(|error| {
        // A link or a file in its place is for the check to name.
        if folder.symlink_metadata().is_ok() { Ok(()) } else { Err(failed("make the folder", folder)(error)) }
    })?;
    match open_folder(folder)? {
        Some(_) => Ok(()),
        None => Err(failed("make the folder", folder)(io::ErrorKind::NotFound.into())),
    }
}

/// Opens a file with nothing followed and nothing waited for, and checks that it is this user's own regular file.
fn open_checked(options: &mut OpenOptions, path: &Path) -> Result<Option<File>, RecordError> {
    let file = match options.custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK)).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => match path.symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => return Err(refused(path, "it is a symbolic link")),
            // A socket cannot even be opened.
            Ok(metadata) if !metadata.is_file() => return Err(refused(path, NO_FILE)),
            _ => return Err(failed("open", path)(error)),
        },
    };
    let metadata = file.metadata().map_err(failed("examine", path))?;
    if !metadata.is_file() {
        return Err(refused(path, NO_FILE));
    }
    if metadata.nlink() > 1 {
        return Err(refused(path, "it has several names (hard links)"));
    }
    check_owner(path, &metadata)?;
    Ok(Some(file))
}

/// The bytes of a file of at most `most` bytes in a folder fit to hold it. `None` if there is none.
pub(super) fn read(folder: &Path, path: &Path, most: usize) -> Result<Option<Vec<u8>>, RecordError> {
    if open_folder(folder)?.is_none() {
        return Ok(None);
    }
    let Some(file) = open_checked(OpenOptions::new().read(true), path)? else { return Ok(None) };
    let length = file.metadata().map_err(failed("examine", path))?.len();
    let too_long = || refused(path, "it is larger than a record file may be");
    let length = usize::try_from(length).ok().filter(|length| *length <= most).ok_or_else(too_long)?;
    let mut bytes = Vec::with_capacity(length);
    // One byte more than allowed, to notice a file that grew while it was read.
    let read = file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(failed("read", path))?;
    if read > most { Err(too_long()) } else { Ok(Some(bytes)) }
}

/// The right to replace one file, until dropped. A process that dies gives it back.
pub(super) struct Lock(#[allow(dead_code, reason = "the lock lives as long as the file is open")] File);

/// Takes the lock at `path`, trying for a while.
pub(super) fn lock(path: &Path) -> Result<Lock, RecordError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    let file = open_checked(&mut options, path)?
        .ok_or_else(|| failed("make the lock", path)(io::ErrorKind::NotFound.into()))?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock(file)),
            Err(TryLockError::Error(error)) => return Err(failed("lock", path)(error)),
            Err(TryLockError::WouldBlock) if started.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                let waited_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                return Err(RecordError::Locked { path: path.to_owned(), waited_ms });
            }
        }
    }
}

/// Replaces `path` by `bytes`: whole or not at all, on the disk when this returns. The caller holds the file's lock, so
/// any temporary file of the same file that is found was left by a process that died, and is removed.
pub(super) fn replace(folder: &Path, path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    let prefix = format!(".{}.", path.file_stem().unwrap_or_default().to_string_lossy());
    for left_over in list(folder)?.into_iter().filter(|name| name.starts_with(&prefix) && name.ends_with(".tmp")) {
        // What cannot be removed does no harm.
        let _ = std::fs::remove_file(folder.join(left_over));
    }
    let mut file = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".tmp")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder)
        .map_err(failed("make a temporary file", folder))?;
    file.write_all(bytes).map_err(failed("write a temporary file", folder))?;
    file.as_file().sync_all().map_err(failed("sync a temporary file", folder))?;
    file.persist(path).map_err(|error| failed("replace", path)(error.error))?;
    // The file is complete under its name now. Syncing the folder only makes the name survive a power cut, and not
    // every file system can, so a failure here is no failure of the save.
    if let Ok(Some(folder)) = open_folder(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// The names of a folder's files that are text, in order. None if there is no folder.
pub(super) fn list(folder: &Path) -> Result<Vec<String>, RecordError> {
    if open_folder(folder)?.is_none() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder).map_err(failed("list", folder))?;
    let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// Where records of a fingerprint with those digits lie.
pub(super) fn file_of(folder: &Path, digits: &str) -> PathBuf {
    folder.join(format!("{digits}{SUFFIX}"))
}

/// The lock that guards them.
pub(super) fn lock_of(folder: &Path, digits: &str) -> PathBuf {
    folder.join(format!("{digits}.lock"))
}
