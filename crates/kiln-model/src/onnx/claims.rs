//! The memory that a model's tensors claim, compared with a limit before any is allocated.
//!
//! A model of a hundred bytes can name a file of a tebibyte that takes no room on the disk: its size is a number, and
//! its contents are holes, which read as zeros. So claims are compared with the bytes that may be allocated, and with
//! the bytes that the file has on disk.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::Arc;

use kiln_tensor::Backing;
use rustix::fs::{SeekFrom, seek};

use super::TensorProblem;

/// Bytes of holes that any file may have: tests write whole files of zeros.
const SMALL_HOLES: u64 = 64 << 20;

/// Bytes that tensors may read for each byte that the file has on disk. A copy of a file may leave out blocks of zeros,
/// but trained weights are rarely zero.
const HOLES_PER_BYTE: u64 = 8;

/// The most stretches of data that are counted; the rest of the file counts as a hole.
const STRETCHES: usize = 4096;

/// Bytes that the dense forms of sparse tensors may have, whatever the file has of them.
const SMALL_DENSE: u64 = 64 << 20;

/// Bytes that they may have for each byte of values and indices. Without this bound a file of a hundred bytes could ask
/// for all of a machine's memory.
const DENSE_PER_BYTE: u64 = 1024;

/// The claims of one model.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// The most bytes of all tensors.
    limit: Option<u64>,
    /// Bytes of the tensors so far.
    total: u64,
    /// Bytes of the dense forms of sparse tensors so far, and of the values and indices that they are made of.
    dense: [u64; 2],
    files: HashMap<usize, Claimed>,
}

/// The claims on one file.
#[derive(Debug)]
struct Claimed {
    /// Kept so that no other file gets its address.
    _file: Arc<Backing>,
    /// Bytes that are not holes.
    present: u64,
    /// Bytes of the tensors that it has.
    bytes: u64,
    /// The ranges of these tensors. Tied weights are stored once and loaded once.
    ranges: HashSet<[u64; 2]>,
}

impl Claims {
    /// Claims of a model whose tensors may take at most `limit` bytes.
    pub(super) fn up_to(limit: u64) -> Claims {
        Claims { limit: Some(limit), ..Claims::default() }
    }

    /// The most bytes of all tensors.
    pub(super) fn most(&self) -> u64 {
        self.limit.unwrap_or(u64::MAX)
    }

    /// Adds a tensor of `length` bytes that are in memory.
    ///
    /// # Errors
    ///
    /// [`TensorProblem::Memory`] where the tensors together exceed the limit.
    pub(super) fn add(&mut self, length: u64) -> Result<(), TensorProblem> {
        let total = self.total.saturating_add(length);
        match self.limit {
            Some(limit) if total > limit => Err(TensorProblem::Memory { need: length, room: limit - self.total }),
            _ => {
                self.total = total;
                Ok(())
            }
        }
    }

    /// Adds the dense form, of `length` bytes, of a sparse tensor that has `stored` bytes of values and indices.
    ///
    /// # Errors
    ///
    /// As [`Claims::add`], also where these forms together are much larger than what the file has of them.
    pub(super) fn add_dense(&mut self, length: u64, stored: u64) -> Result<(), TensorProblem> {
        let [dense, of] = [self.dense[0].saturating_add(length), self.dense[1].saturating_add(stored)];
        let most = of.saturating_mul(DENSE_PER_BYTE).max(SMALL_DENSE);
        if dense > most {
            return Err(TensorProblem::Memory { need: length, room: most.saturating_sub(self.dense[0]) });
        }
        self.dense = [dense, of];
        self.add(length)
    }

    /// Adds a tensor of `length` bytes that are in a file, from `offset` on.
    ///
    /// # Errors
    ///
    /// As [`Claims::add`]; [`TensorProblem::Holes`] where most of the file is a hole.
    pub(super) fn add_of_file(&mut self, file: &Arc<Backing>, offset: u64, length: u64) -> Result<(), TensorProblem> {
        let claimed = self.files.entry(Arc::as_ptr(file).addr()).or_insert_with(|| Claimed {
            _file: file.clone(),
            present: file.file().map_or(u64::MAX, present),
            bytes: 0,
            ranges: HashSet::new(),
        });
        if !claimed.ranges.insert([offset, length]) {
            return Ok(());
        }
        claimed.bytes = claimed.bytes.saturating_add(length);
        let (claimed, present) = (claimed.bytes, claimed.present);
        self.add(length)?;
        if claimed > present.saturating_mul(HOLES_PER_BYTE).saturating_add(SMALL_HOLES) {
            return Err(TensorProblem::Holes { claimed, present });
        }
        Ok(())
    }
}

/// Bytes of a file that are not holes; all bytes where the file system does not tell.
fn present(file: &File) -> u64 {
    let size = file.metadata().map_or(0, |info| info.len());
    let (mut at, mut found) = (0, 0u64);
    for _ in 0..STRETCHES {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // Nothing but a hole follows.
            Err(rustix::io::Errno::NXIO) => return found,
            Err(_) => return size,
        };
        let Ok(hole) = seek(file, SeekFrom::Hole(data)) else { return size };
        found = found.saturating_add(hole.saturating_sub(data));
        if hole >= size || hole <= at {
            return found;
        }
        at = hole;
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn backing(file: &tempfile::NamedTempFile) -> Arc<Backing> {
        Backing::new(file.path(), file.reopen().unwrap())
    }

    #[test]
    fn claims_beyond_the_limit_are_refused_before_memory_is_taken() {
        let mut claims = Claims::up_to(1000);
        assert!(claims.add(600).is_ok());
        assert!(matches!(claims.add(401), Err(TensorProblem::Memory { need: 401, room: 400 })));
        assert!(claims.add(400).is_ok());
        assert!(matches!(claims.add(u64::MAX), Err(TensorProblem::Memory { room: 0, .. })));
    }

    #[test]
    fn one_range_is_claimed_once_however_many_tensors_have_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let (file, mut claims) = (backing(&file), Claims::up_to(1000));
        assert!((0..9).all(|_| claims.add_of_file(&file, 0, 900).is_ok()));
        assert!(claims.add_of_file(&file, 900, 100).is_ok());
        assert!(matches!(claims.add_of_file(&file, 1, 900), Err(TensorProblem::Memory { .. })));
    }

    #[test]
    fn what_a_file_only_says_that_it_has_is_not_to_be_had() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 40).unwrap();
        let mut claims = Claims::up_to(u64::MAX);
        assert!(claims.add_of_file(&backing(&file), 0, SMALL_HOLES).is_ok());
        let refused = claims.add_of_file(&backing(&file), 0, 1 << 40);
        assert!(matches!(refused, Err(TensorProblem::Holes { claimed, present: 0 }) if claimed == 1 << 40));
    }

    #[test]
    fn a_file_with_some_holes_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let size = SMALL_HOLES * 4;
        file.as_file().set_len(size).unwrap();
        let block = vec![1u8; 1 << 20];
        // Every fourth part of a MiB: more than an eighth.
        for at in (0..size).step_by(4 << 20) {
            file.as_file().write_all_at(&block, at).unwrap();
        }
        assert!(Claims::up_to(u64::MAX).add_of_file(&backing(&file), 0, size).is_ok());
        assert!(present(file.as_file()) >= size / 4);
    }
}
