//! The cache folder on the file system: which files may be read and written there, and how.
//!
//! The folder may be shared by many processes and may have been prepared by an attacker with another user id. So: no
//! folder or file that another user owns or may write is read or written, a symbolic link is never followed for either,
//! an open never blocks (a FIFO would), checks are on the opened file and not on its name, and files are read, never
//! mapped (another process that truncates a mapped file kills this one). A file is never changed in place: the next
//! state is written beside it, synced and renamed over it, under a lock that ends with its process.
//!
//! A process that does not get the lock writes a *shard*: a file of its own with its new records. The next process that
//! has the lock merges and removes it. `names` defines the names of files.
//!
//! This file knows paths and bytes, but not the meaning of the bytes.

use std::fs::{File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::RecordError;
use super::disk::{Fs, Open, System};

/// The most shards of one file: no more are read, and none is added beyond this number.
pub(super) const MOST_SHARDS: usize = 64;

/// How long a save tries to get the lock before it writes a shard: a save takes a few milliseconds.
pub(super) const WAITED_MS: u64 = 50;
/// How long it sleeps between two tries.
const PAUSE: Duration = Duration::from_millis(2);
/// How often an interrupted operation is tried again at once.
const RETRIES: u32 = 16;

/// The suffix of record files.
pub(super) const SUFFIX: &str = ".kiln";
/// The suffix of shards.
pub(super) const SHARD: &str = ".shard";
/// The suffix of a record file while it is written; only the holder of the lock writes it.
const TEMPORARY: &str = ".tmp";
/// The suffix of a shard while it is written; any process may write one at any time.
const PART: &str = ".part";

const NO_FILE: &str = "it is not a regular file";
const TOO_LONG: &str = "it is larger than a record file may be";

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
    move |source| RecordError::Io { what, path: path.to_owned(), source }
}

fn refused(path: &Path, why: &'static str) -> RecordError {
    RecordError::Refused { path: path.to_owned(), why }
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

/// A folder, whether it exists and is fit or not: every operation checks again.
#[derive(Clone)]
pub(super) struct Folder {
    path: PathBuf,
    fs: Arc<dyn Fs>,
    /// Temporary files of this process that could not be removed.
    left_over: Arc<Mutex<Vec<PathBuf>>>,
}

/// The right to replace one file, until dropped. A process that dies gives it back.
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough where a child has been forked meanwhile, because the child has it open, too.
        let _ = self.0.unlock();
    }
}

/// A file that is fit to be read.
pub(super) struct Source {
    file: File,
    fs: Arc<dyn Fs>,
    /// Bytes that may still be read: one more than allowed, so that a file that grew is noticed.
    left: u64,
    /// Its length when it was opened.
    pub(super) length: u64,
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        let into = &mut into[..most];
        let read = again(|| self.fs.read(&mut self.file, into))?;
        self.left -= read as u64;
        Ok(read)
    }
}

/// Tries an interrupted operation again, a bounded number of times.
fn again<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut left = RETRIES;
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted && left > 0 => left -= 1,
            result => return result,
        }
    }
}

impl Folder {
    /// The folder at that path.
    pub(super) fn new(path: &Path) -> Folder {
        Folder::on(Arc::new(System), path)
    }

    /// The folder on a given file system.
    pub(super) fn on(fs: Arc<dyn Fs>, path: &Path) -> Folder {
        // The folder of a bare file name.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Folder { path: path.to_owned(), fs, left_over: Arc::default() }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the folder if it is fit to hold records. `None` if there is none.
    fn open_folder(&self) -> Result<Option<File>, RecordError> {
        let folder = &self.path;
        let file = match self.fs.open(Open::Folder, folder) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(_) if folder.is_symlink() => return Err(refused(folder, "it is a symbolic link")),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(refused(folder, "it is not a folder"));
            }
            Err(error) => return Err(failed("open the folder", folder)(error)),
        };
        check_owner(folder, &self.fs.metadata(&file).map_err(failed("examine the folder", folder))?)?;
        Ok(Some(file))
    }

    /// Makes the folder if there is none, for this user alone, and checks it.
    pub(super) fn make(&self) -> Result<(), RecordError> {
        let folder = &self.path;
        self.fs.make_folder(folder).or_else(|error| {
            // If a link or a file is in its place, the check reports it.
            if folder.symlink_metadata().is_ok() { Ok(()) } else { Err(failed("make the folder", folder)(error)) }
        })?;
        match self.open_folder()? {
            Some(_) => Ok(()),
            None => Err(failed("make the folder", folder)(io::ErrorKind::NotFound.into())),
        }
    }

    /// Opens a file and checks that it is this user's own regular file.
    fn open_checked(&self, how: Open, path: &Path) -> Result<Option<(File, u64)>, RecordError> {
        let file = match self.fs.open(how, path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => match path.symlink_metadata() {
                Ok(metadata) if metadata.is_symlink() => return Err(refused(path, "it is a symbolic link")),
                // A socket cannot even be opened.
                Ok(metadata) if !metadata.is_file() => return Err(refused(path, NO_FILE)),
                _ => return Err(failed("open", path)(error)),
            },
        };
        let metadata = self.fs.metadata(&file).map_err(failed("examine", path))?;
        if !metadata.is_file() {
            return Err(refused(path, NO_FILE));
        }
        if metadata.nlink() > 1 {
            return Err(refused(path, "it has several names (hard links)"));
        }
        check_owner(path, &metadata)?;
        Ok(Some((file, metadata.len())))
    }

    /// A file of at most `most` bytes, opened for reading. `None` if there is none.
    pub(super) fn read(&self, path: &Path, most: usize) -> Result<Option<Source>, RecordError> {
        if self.open_folder()?.is_none() {
            return Ok(None);
        }
        let Some((file, length)) = self.open_checked(Open::Read, path)? else { return Ok(None) };
        if length > most as u64 {
            return Err(refused(path, TOO_LONG));
        }
        Ok(Some(Source { file, fs: self.fs.clone(), left: most as u64 + 1, length }))
    }

    /// Takes the lock of a stem, trying for a while. `None` if other processes hold it all that time.
    pub(super) fn lock(&self, stem: &str) -> Result<Option<Lock>, RecordError> {
        let path = self.path.join(format!("{stem}.lock"));
        let (file, _) = self
            .open_checked(Open::Lock, &path)?
            .ok_or_else(|| failed("make the lock", &path)(io::ErrorKind::NotFound.into()))?;
        let started = Instant::now();
        loop {
            if again(|| self.fs.try_lock(&file)).map_err(failed("lock", &path))? {
                return Ok(Some(Lock(file)));
            }
            if started.elapsed() >= Duration::from_millis(WAITED_MS) {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Replaces the record file of a stem by `bytes`: whole or not at all, on the disk when this returns. The caller
    /// holds the lock.
    pub(super) fn replace(&self, _lock: &Lock, stem: &str, bytes: &[u8]) -> Result<PathBuf, RecordError> {
        let path = self.file_of(stem);
        self.put(&format!(".{stem}."), TEMPORARY, &path, bytes)?;
        Ok(path)
    }

    /// Writes a new shard of a stem.
    pub(super) fn add_shard(&self, stem: &str, bytes: &[u8]) -> Result<PathBuf, RecordError> {
        let pid = std::process::id();
        let path = self.path.join(format!("{stem}.{pid}.{:016x}{SHARD}", random()));
        self.put(&format!(".{stem}.{pid}."), PART, &path, bytes)?;
        Ok(path)
    }

    /// Writes a file beside its place, syncs it and gives it its name.
    fn put(&self, prefix: &str, suffix: &str, path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
        let folder = &self.path;
        let temporary = folder.join(format!("{prefix}{:016x}{suffix}", random()));
        let mut file = self.fs.open(Open::New, &temporary).map_err(failed("make a temporary file", folder))?;
        let written = self.write_all(&mut file, bytes).map_err(failed("write a temporary file", folder));
        let synced =
            written.and_then(|()| again(|| self.fs.sync(&file)).map_err(failed("sync a temporary file", folder)));
        drop(file);
        let renamed = synced.and_then(|()| self.fs.rename(&temporary, path).map_err(failed("replace", path)));
        if let Err(error) = renamed {
            // If this fails too, the next save removes it: its process lives, so others leave it alone.
            if self.fs.remove(&temporary).is_err() {
                self.left_over.lock().unwrap_or_else(PoisonError::into_inner).push(temporary);
            }
            return Err(error);
        }
        // The file is complete under its name now. Syncing the folder only makes the name survive a power cut, and not
        // every file system can do it, so a failure here is no failure of the save.
        if let Ok(Some(folder)) = self.open_folder() {
            let _ = self.fs.sync(&folder);
        }
        Ok(())
    }

    fn write_all(&self, file: &mut File, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match again(|| self.fs.write(file, bytes))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => bytes = bytes.get(count..).unwrap_or_default(),
            }
        }
        Ok(())
    }

    /// The names of the folder's files that are text, in order. None if there is no folder.
    pub(super) fn list(&self) -> Result<Vec<String>, RecordError> {
        if self.open_folder()?.is_none() {
            return Ok(Vec::new());
        }
        let mut names = self.fs.list(&self.path).map_err(failed("list", &self.path))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Removes a file, if that is possible: a file that stays does no harm.
    pub(super) fn remove(&self, path: &Path) {
        let _ = self.fs.remove(path);
    }

    /// Removes files of a stem that dead processes left. The caller holds the lock, so no other process is writing a
    /// temporary file of the stem. Another process may be writing a shard, which stays if that process lives.
    pub(super) fn clear(&self, _lock: &Lock, stem: &str, names: &[String]) {
        let left_over = std::mem::take(&mut *self.left_over.lock().unwrap_or_else(PoisonError::into_inner));
        left_over.iter().for_each(|path| self.remove(path));
        let prefix = format!(".{stem}.");
        for name in names {
            let Some(rest) = name.strip_prefix(&prefix) else { continue };
            let abandoned = if let Some(rest) = rest.strip_suffix(PART) {
                rest.split('.').next().and_then(|pid| pid.parse().ok()).is_none_or(|pid| !is_running(pid))
            } else {
                rest.ends_with(TEMPORARY)
            };
            if abandoned {
                self.remove(&self.path.join(name));
            }
        }
    }

    /// The path of the records of a stem.
    pub(super) fn file_of(&self, stem: &str) -> PathBuf {
        self.path.join(format!("{stem}{SUFFIX}"))
    }

    /// The shards of a stem among those names.
    pub(super) fn shards(&self, stem: &str, names: &[String]) -> Vec<PathBuf> {
        let of_stem = |name: &&String| {
            name.strip_suffix(SHARD)
                .and_then(|name| name.strip_prefix(stem))
                .and_then(|rest| rest.strip_prefix('.'))
                .and_then(|rest| rest.split_once('.'))
                .is_some_and(|(pid, random)| is_number(pid) && !random.is_empty() && !random.contains('.'))
        };
        names.iter().filter(of_stem).map(|name| self.path.join(name)).collect()
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a process with that number runs here. A process in another container may seem not to run: the shard that it
/// is writing is then lost, which that process notices.
fn is_running(pid: i32) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(pid) else { return false };
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

/// A unique and unpredictable number: the standard library seeds its hashers from the system.
fn random() -> u64 {
    RandomState::new().hash_one(Instant::now())
}
