//! The file-system operations that records need, one at a time, so that tests can make each operation fail.
//!
//! [`System`] is the real one. Handles are always real files: a test's file system wraps the real one and lets chosen
//! operations fail, fall short, or fail after they were done. Nothing here knows records or permissions.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// The most names of one folder that are read, so that a hostile folder costs bounded memory and time.
const MOST_NAMES: usize = 1 << 16;

/// The purpose for which a path is opened. No link is followed and nothing blocks, whatever the path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    /// A folder, to examine it.
    Folder,
    /// An existing file.
    Read,
    /// A lock: made if it is not there.
    Lock,
    /// A file that must not exist yet.
    New,
}

/// The operations.
pub(super) trait Fs: Send + Sync {
    /// Opens a path.
    fn open(&self, how: Open, path: &Path) -> io::Result<File>;
    /// Examines an opened file.
    fn metadata(&self, file: &File) -> io::Result<Metadata>;
    /// Reads some bytes.
    fn read(&self, file: &mut File, into: &mut [u8]) -> io::Result<usize>;
    /// Writes some of the bytes.
    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<usize>;
    /// Waits until the written bytes are on the disk.
    fn sync(&self, file: &File) -> io::Result<()>;
    /// Takes the lock of a file, unless another holds it.
    fn try_lock(&self, file: &File) -> io::Result<bool>;
    /// Renames a file, replacing a file with the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder that are text, in no order.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Makes a folder and its missing parents, for this user alone.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
}

/// The real file system.
pub(super) struct System;

impl Fs for System {
    fn open(&self, how: Open, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let mut flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match how {
            Open::Folder => {
                options.read(true);
                flags |= OFlags::DIRECTORY;
            }
            Open::Read => drop(options.read(true)),
            Open::Lock => drop(options.read(true).write(true).create(true).mode(0o600)),
            Open::New => drop(options.write(true).create_new(true).mode(0o600)),
        }
        options.custom_flags(flags.bits().cast_signed()).open(path)
    }

    fn metadata(&self, file: &File) -> io::Result<Metadata> {
        file.metadata()
    }

    fn read(&self, file: &mut File, into: &mut [u8]) -> io::Result<usize> {
        file.read(into)
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(folder)?.take(MOST_NAMES);
        Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }
}
