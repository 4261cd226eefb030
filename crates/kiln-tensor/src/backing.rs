//! Files, on disk or in memory, that tensors are read from when their elements are first asked for. Depends on no file
//! format.
//!
//! A model's weights are read once, packed, and freed. Reading all weights first would take memory for all at once, and
//! fresh memory costs more than reading. Read one by one into memory that earlier ones have freed, they take memory for
//! a few.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use kiln_fork::Mutex;
use kiln_kernels::memory::raise_if_over;

use super::pool::BufferPool;

/// Bytes that are read between two checks whether loading was ended: some milliseconds from a disk.
const PIECE: usize = 4 << 20;

/// Most bytes kept between the reading of one tensor and the next.
const KEPT: usize = 256 << 20;

/// A file, the memory for its tensors, and its first reading error.
#[derive(Debug)]
pub struct Backing {
    path: PathBuf,
    source: Source,
    pool: Arc<BufferPool>,
    failed: Mutex<Option<std::io::Error>>,
}

/// Where a file has bytes.
#[derive(Clone, Debug)]
pub struct InFile {
    /// The file.
    pub backing: Arc<Backing>,
    /// The first byte.
    pub offset: u64,
}

/// Where the bytes of a file are.
#[derive(Debug)]
enum Source {
    File(File),
    Memory(Bytes),
    /// Nowhere: only data derived from them was kept.
    Absent,
}

impl Backing {
    /// An open file; the path is for messages.
    #[must_use]
    pub fn new(path: &Path, file: File) -> Arc<Backing> {
        Backing::of(path, Source::File(file))
    }

    /// A file that a caller has in memory; the path is for messages. The bytes are kept until the last tensor is read.
    #[must_use]
    pub fn in_memory(path: &Path, bytes: Bytes) -> Arc<Backing> {
        Backing::of(path, Source::Memory(bytes))
    }

    /// Bytes that were not kept: reading them fails. The path is for messages.
    #[must_use]
    pub fn absent(path: &Path) -> Arc<Backing> {
        Backing::of(path, Source::Absent)
    }

    fn of(path: &Path, source: Source) -> Arc<Backing> {
        Arc::new(Backing {
            path: path.to_owned(),
            source,
            pool: BufferPool::of_weights(KEPT),
            failed: Mutex::new(None),
        })
    }

    /// The path, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, if it is one on a disk.
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        if let Source::File(file) = &self.source { Some(file) } else { None }
    }

    /// Whether the bytes take no memory until they are read.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        matches!(self.source, Source::File(_))
    }

    /// Whether this is the file at that path.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        let Source::File(file) = &self.source else { return false };
        let both = file.metadata().ok().zip(std::fs::metadata(path).ok());
        both.is_some_and(|(own, found)| (own.dev(), own.ino()) == (found.dev(), found.ino()))
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// The system's; [`std::io::ErrorKind::UnexpectedEof`] if there are fewer.
    pub fn try_read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        match &self.source {
            Source::File(file) => file.read_exact_at(out, offset),
            Source::Memory(bytes) => {
                let start = usize::try_from(offset).ok();
                let range = start.and_then(|start| bytes.get(start..)?.get(..out.len()));
                out.copy_from_slice(range.ok_or(std::io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            Source::Absent => Err(std::io::Error::other("only what was packed of them was kept")),
        }
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// On an error `out` is zeros, and [`Backing::failure`] returns the error: readers of a tensor's elements cannot
    /// handle it, but loading a model checks it before the model is used.
    ///
    /// Raises [`Refused::Over`](kiln_kernels::memory::Refused::Over) between pieces of the file if loading was ended.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        let mut at = offset;
        for piece in out.chunks_mut(PIECE) {
            raise_if_over(piece.len());
            if let Err(error) = self.try_read(at, piece) {
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                return out.fill(0);
            }
            at += piece.len() as u64;
        }
    }

    /// The first reading error since the last call.
    #[must_use]
    pub fn failure(&self) -> Option<std::io::Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Gives the memory for its tensors back to the system, once the model is loaded.
    pub fn retire(&self) {
        self.pool.retire();
    }

    pub(super) fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::{Buffer, DType, Tensor, TensorSpec};

    fn backing(bytes: &[u8]) -> Arc<Backing> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        Backing::new(file.path(), file.reopen().unwrap())
    }

    fn tensor(backing: &Arc<Backing>, offset: u64, length: usize) -> Tensor {
        let buffer = Buffer::deferred(backing.clone(), offset, length);
        Tensor::from_buffer(TensorSpec::new(DType::U8, [length]), Arc::new(buffer), length).unwrap()
    }

    #[test]
    fn tensors_are_read_when_they_are_asked_and_take_turns_in_memory() {
        let bytes: Vec<u8> = (0..100_000u32).map(|index| (index * 31 % 251) as u8).collect();
        let backing = backing(&bytes);
        let [first, second, third] =
            [0u64, 30_000, 60_000].map(|offset| (offset as usize, tensor(&backing, offset, 30_000)));
        assert_eq!((second.1.len(), second.1.byte_len()), (30_000, 30_000), "sizes are known before");
        assert_eq!(second.1.bytes(), &bytes[second.0..][..30_000]);
        let address = second.1.bytes().as_ptr();
        let clone = second.1.clone();
        drop(second);
        assert_ne!(first.1.bytes().as_ptr(), address, "it is still in use");
        drop((clone, first));
        assert_eq!(third.1.bytes(), &bytes[third.0..][..30_000]);
        assert!(backing.failure().is_none());
        drop(third);
        assert!(backing.pool.free_bytes() > 0);
        backing.retire();
        assert_eq!(backing.pool.free_bytes(), 0);
        let mut late = tensor(&backing, 7, 100);
        late.bytes_mut()[0] = 1;
        assert_eq!(late.bytes()[1..], bytes[8..107]);
        drop(late);
        assert_eq!(backing.pool.free_bytes(), 0, "nothing is kept any more");
    }

    #[test]
    fn bytes_in_memory_are_read_like_a_file() {
        let bytes: Vec<u8> = (0..100).collect();
        let backing = Backing::in_memory(Path::new("w"), bytes.clone().into());
        assert_eq!(tensor(&backing, 40, 60).bytes(), &bytes[40..]);
        assert!(backing.failure().is_none());
        for (offset, length) in [(41, 60), (101, 0), (u64::MAX, 1)] {
            let error = backing.try_read(offset, &mut vec![0; length]).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{length} from {offset}");
        }
        assert!(!tensor(&backing, 0, 10).is_in_file(), "its bytes take memory");
    }

    #[test]
    fn what_cannot_be_read_is_zeros_and_noted() {
        let backing = backing(&[1; 100]);
        let short = tensor(&backing, 50, 100);
        assert!(short.bytes().iter().all(|&byte| byte == 0));
        assert_eq!(backing.failure().map(|error| error.kind()), Some(std::io::ErrorKind::UnexpectedEof));
        assert!(backing.failure().is_none(), "said once");
    }
}
