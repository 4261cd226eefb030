//! The files that a packed model refers to, mapped, and their parts that replace data of the packed model.
//!
//! They are found as files beside a model are: below the packed model's folder, regular, with one name. Each file must
//! have its recorded length, and parts must be disjoint, so that copies take no more bytes than the files have.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, PoisonError, Weak};

use kiln_fork::Mutex;
use kiln_kernels::Parallel;
use kiln_kernels::extent::{FileId, Foreign, Mapped};
use kiln_kernels::parallel::for_each_chunk;
use kiln_model::onnx::{Folders, Single, shown};
use kiln_tensor::Buffer;

use super::PackedError;
use super::index::{DataRow, FileRow, PartRow, Sources};

/// Most files that a packed model refers to.
pub(super) const MOST_FILES: usize = 1024;

/// The files that a packed model refers to.
#[derive(Debug, Default)]
pub(super) struct Parts {
    files: Vec<Arc<Mapped>>,
    /// Copies of parts whose mapping is not aligned, while they are in use.
    copies: Vec<Mutex<Weak<Copied>>>,
}

/// A copy of a part, aligned.
#[derive(Debug)]
struct Copied(Buffer, usize);

/// A share of a copy.
struct Share(Arc<Copied>);

impl AsRef<[u8]> for Share {
    fn as_ref(&self) -> &[u8] {
        let Copied(buffer, len) = &*self.0;
        &buffer.bytes()[..*len]
    }
}

/// The error for a file that a packed model refers to and that cannot be used.
fn refused(path: &Path, row: &FileRow, reason: impl ToString) -> PackedError {
    PackedError::Source { path: path.to_owned(), location: shown(&row.location), reason: reason.to_string() }
}

/// The folders below which the packed model `file` at `path` finds other files.
fn folders_of(path: &Path, file: &File) -> Result<Folders, PackedError> {
    Folders::of_model(path, file).ok_or_else(|| PackedError::damaged(path, "it is in no folder"))
}

impl Parts {
    /// Maps the files that the packed model at `path` refers to.
    pub(super) fn open(path: &Path, file: &File, sources: &Sources) -> Result<Parts, PackedError> {
        let Sources { files: rows, parts, .. } = sources;
        if rows.len() > MOST_FILES {
            let reason = format!("it refers to {} files, and {MOST_FILES} are the most", rows.len());
            return Err(PackedError::damaged(path, reason));
        }
        check_ranges(rows, parts).map_err(|reason| PackedError::damaged(path, reason))?;
        let mut opened = Parts::default();
        if rows.is_empty() {
            return Ok(opened);
        }
        let mut folders = folders_of(path, file)?;
        let mut met = HashSet::new();
        for row in rows {
            let Single { file, .. } = folders.open_single(&row.location).map_err(|why| refused(path, row, why))?;
            let map = Mapped::of(&file).map_err(|why| refused(path, row, why))?;
            let FileId { device, inode, len, .. } = map.id();
            if len != row.len || map.bytes().len() as u64 != len {
                return Err(refused(path, row, format!("it has {len} bytes, and had {} when it was packed", row.len)));
            }
            if !met.insert((device, inode)) {
                return Err(refused(path, row, "the packed model names it twice"));
            }
            opened.files.push(Arc::new(map));
        }
        opened.copies.resize_with(parts.len(), Mutex::default);
        Ok(opened)
    }

    /// The identities of the files, in their order.
    pub(super) fn ids(&self) -> impl Iterator<Item = FileId> {
        self.files.iter().map(|map| map.id())
    }

    /// Whether the packed model at `path` still refers to the same files, unchanged.
    pub(super) fn are_found(&self, path: &Path, file: &File, sources: &Sources) -> bool {
        if self.files.is_empty() {
            return true;
        }
        let Ok(mut folders) = folders_of(path, file) else { return false };
        let mut both = self.files.iter().zip(&sources.files);
        both.all(|(map, row)| {
            folders.open_single(&row.location).is_ok_and(|Single { info, .. }| FileId::of(&info) == map.id())
        })
    }

    /// The bytes of a part, at a multiple of `alignment` bytes: mapped, or copied once.
    ///
    /// # Errors
    ///
    /// If there is no such part.
    pub(super) fn bytes(&self, sources: &Sources, number: u32, alignment: usize) -> Result<Foreign, String> {
        let found = sources.parts.get(number as usize).zip(self.copies.get(number as usize));
        let (row, copy) = found.ok_or_else(|| format!("part {number} is not there"))?;
        let map = &self.files[row.file as usize];
        let part = map.part(row.data.offset as usize, row.data.len as usize);
        let part = part.ok_or_else(|| format!("part {number} is outside of its file"))?;
        if part.as_ref().as_ptr().addr().is_multiple_of(alignment.max(1)) {
            return Ok(Foreign::of(part));
        }
        let mut copy = copy.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = copy.upgrade().unwrap_or_else(|| {
            let bytes = part.as_ref();
            let mut buffer = Buffer::zeroed(bytes.len()).unwrap_or_else(|refused| refused.raise());
            buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            let made = Arc::new(Copied(buffer, bytes.len()));
            *copy = Arc::downgrade(&made);
            made
        });
        Ok(Foreign::of(Share(shared)))
    }

    /// Compares the digests of all parts.
    ///
    /// # Errors
    ///
    /// [`PackedError::Source`] with the first part that differs.
    pub(super) fn verify(&self, path: &Path, sources: &Sources, parallel: &dyn Parallel) -> Result<(), PackedError> {
        let mut parts: Vec<(&PartRow, bool)> = sources.parts.iter().map(|part| (part, true)).collect();
        for_each_chunk(parallel, &mut parts, 1, &|_, parts| {
            for (PartRow { file, data, digest }, holds) in parts {
                let map = &self.files[*file as usize];
                let found = map.bytes().get(data.offset as usize..(data.offset + data.len) as usize);
                *holds = found.is_some_and(|bytes| blake3::hash(bytes) == *digest);
            }
        });
        let Some((part, _)) = parts.iter().find(|(_, holds)| !holds) else { return Ok(()) };
        let DataRow { offset, len } = part.data;
        let reason = format!("the {len} bytes from {offset} on are others than when it was packed");
        Err(refused(path, &sources.files[part.file as usize], reason))
    }

    /// Reads the pages of all parts from the disk while `is_wanted`.
    pub(super) fn populate(&self, sources: &Sources, is_wanted: impl Fn() -> bool) {
        const PIECE: usize = 4 << 20;
        for PartRow { file, data, .. } in &sources.parts {
            let (map, end) = (&self.files[*file as usize], (data.offset + data.len) as usize);
            for at in (data.offset as usize..end).step_by(PIECE) {
                if !is_wanted() {
                    return;
                }
                map.populate(at..end.min(at + PIECE));
            }
        }
    }
}

/// Refuses parts that are outside of their files, empty, or overlapping, and files with equal names.
fn check_ranges(files: &[FileRow], parts: &[PartRow]) -> Result<(), String> {
    let mut locations = HashSet::new();
    if let Some(twice) = files.iter().find(|file| !locations.insert(&*file.location)) {
        return Err(format!("it refers to {} twice", shown(&twice.location)));
    }
    let mut order: Vec<&PartRow> = parts.iter().collect();
    order.sort_unstable_by_key(|part| (part.file, part.data.offset));
    let mut before: Option<&PartRow> = None;
    for part in order {
        let DataRow { offset, len } = part.data;
        let file =
            files.get(part.file as usize).ok_or_else(|| format!("a part of file {}, which is none", part.file))?;
        let end = offset.checked_add(len).filter(|&end| len > 0 && end <= file.len);
        if end.is_none() || usize::try_from(file.len).is_err() {
            return Err(format!("{len} bytes from {offset} on are no part of {}", shown(&file.location)));
        }
        let shares = |before: &PartRow| before.file == part.file && before.data.offset + before.data.len > offset;
        if before.is_some_and(shares) {
            return Err(format!("parts of {} share the byte {offset}", shown(&file.location)));
        }
        before = Some(part);
    }
    Ok(())
}
