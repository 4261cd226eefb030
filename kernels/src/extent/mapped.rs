//! Files that are mapped for reading. Their pages are the system's own copy of the file, which all processes share.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use memmap2::{Advice, Mmap};
use serde::{Deserialize, Serialize};

/// A whole file, mapped. A page is read from the disk when it is first accessed.
#[derive(Debug)]
pub struct Mapped {
    map: Mmap,
    id: FileId,
}

/// The identity of a file and the times of its last change: equal ids mean equal bytes. The time of the last change of
/// the file's state (`ctime`) cannot be set back by a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileId {
    /// The device that it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Its bytes.
    pub len: u64,
    /// When its contents were changed: seconds and nanoseconds.
    pub modified: [i64; 2],
    /// When its contents, owner or permissions were changed.
    pub changed: [i64; 2],
}

impl FileId {
    /// The id of an open file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> FileId {
        FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: [metadata.mtime(), metadata.mtime_nsec()],
            changed: [metadata.ctime(), metadata.ctime_nsec()],
        }
    }
}

impl Mapped {
    /// Maps the file at that path.
    ///
    /// # Errors
    ///
    /// The system's; [`io::ErrorKind::PermissionDenied`] for a file that another user owns or may write, and
    /// [`io::ErrorKind::InvalidInput`] for anything but a regular file.
    pub fn open(path: &Path) -> io::Result<Mapped> {
        Mapped::of(&File::open(path)?)
    }

    /// Maps a file that is open to be read.
    ///
    /// # Errors
    ///
    /// As [`Mapped::open`].
    pub fn of(file: &File) -> io::Result<Mapped> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        if ![rustix::process::geteuid().as_raw(), 0].contains(&metadata.uid()) || metadata.mode() & 0o022 != 0 {
            let reason = "only its owner, who is this process' user or root, may be allowed to write it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        // SAFETY: the bytes are only read, and only this process's user and root may write or truncate the file. Both
        // can change any memory of this process anyway.
        let map = unsafe { Mmap::map(file)? };
        Ok(Mapped { map, id: FileId::of(&metadata) })
    }

    /// Which file it is.
    #[must_use]
    pub fn id(&self) -> FileId {
        self.id
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Reads the pages of a range ahead, as far as the system does so. This is advice: if it is refused, pages are read
    /// when they are accessed.
    pub fn populate(&self, range: Range<usize>) {
        let end = range.end.min(self.map.len());
        if range.start < end {
            let _ = self.map.advise_range(Advice::PopulateRead, range.start, end - range.start);
        }
    }

    /// A part of the file that keeps the mapping; `None` if the file has fewer bytes.
    #[must_use]
    pub fn part(self: &Arc<Mapped>, offset: usize, len: usize) -> Option<MappedPart> {
        let range = offset..offset.checked_add(len)?;
        (range.end <= self.map.len()).then(|| MappedPart { whole: self.clone(), range })
    }
}

/// A part of a mapped file.
#[derive(Clone, Debug)]
pub struct MappedPart {
    whole: Arc<Mapped>,
    range: Range<usize>,
}

impl AsRef<[u8]> for MappedPart {
    fn as_ref(&self) -> &[u8] {
        &self.whole.bytes()[self.range.clone()]
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn parts_keep_the_mapping_and_end_with_the_file() {
        let bytes: Vec<u8> = (0..20_000u32).map(|at| (at % 251) as u8).collect();
        let file = file(&bytes);
        let mapped = Arc::new(Mapped::open(file.path()).unwrap());
        mapped.populate(4_000..usize::MAX);
        let part = mapped.part(8_192, 100).unwrap();
        assert!(mapped.part(20_000, 1).is_none() && mapped.part(usize::MAX, 2).is_none());
        assert!(mapped.part(20_000, 0).unwrap().as_ref().is_empty());
        drop((mapped, file));
        assert_eq!(part.as_ref(), &bytes[8_192..8_292], "the name has gone, the pages have not");
    }

    #[test]
    fn files_that_others_may_write_and_what_is_no_file_are_refused() {
        let file = file(b"any");
        for mode in [0o622, 0o602, 0o620] {
            std::fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(Mapped::open(file.path()).unwrap_err().kind(), io::ErrorKind::PermissionDenied, "{mode:o}");
        }
        let folder = Mapped::open(&std::env::temp_dir()).unwrap_err().kind();
        assert_eq!(folder, io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_file_that_was_changed_is_another_one() {
        let file = file(b"one");
        let first = Mapped::open(file.path()).unwrap().id();
        assert_eq!(Mapped::open(file.path()).unwrap().id(), first);
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(file.path(), b"two").unwrap();
        assert_ne!(Mapped::open(file.path()).unwrap().id(), first);
    }
}
