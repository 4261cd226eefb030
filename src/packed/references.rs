//! Parts of the model's files that a packed model refers to in place of data, while it is written.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use kiln_tensor::{Backing, InFile};

use super::ALIGNMENT;
use super::index::{DataRow, FileRow, PartRow};
use super::parts::MOST_FILES;

/// A file that parts may refer to.
#[derive(Debug)]
pub struct Referable {
    /// The file.
    pub backing: Arc<Backing>,
    /// Its path below the packed model's folder, and its bytes.
    pub row: FileRow,
}

/// The files that parts may refer to, and the parts so far.
#[derive(Debug, Default)]
pub struct References {
    referable: Vec<Referable>,
    /// Files that have parts, by their place in `referable`.
    files: Vec<usize>,
    parts: Vec<PartRow>,
    /// The numbers of parts by where they begin.
    by_start: BTreeMap<Start, u32>,
    /// Where files have the elements of tensors, by their bytes.
    stored: HashMap<usize, Vec<InFile>>,
}

/// Where a file has the elements of a tensor.
#[derive(Debug)]
pub struct Stored {
    /// The place of the first byte.
    pub place: InFile,
    /// The number of bytes.
    pub len: usize,
}

/// Where a part begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Start {
    file: u32,
    offset: u64,
}

impl References {
    /// References to these files, which are distinct.
    #[must_use]
    pub fn to(referable: Vec<Referable>) -> References {
        References { referable, ..References::default() }
    }

    /// The same, where files have the elements of tensors at these places.
    #[must_use]
    pub fn storing(mut self, tensors: impl IntoIterator<Item = Stored>) -> References {
        for Stored { place, len } in tensors {
            self.stored.entry(len).or_default().push(place);
        }
        self
    }

    /// The number of a part with the elements of a tensor that has exactly these bytes, and that kernels can read where
    /// it is mapped; `None` if there is no such tensor.
    pub fn equal(&mut self, bytes: &[u8]) -> Option<u32> {
        let places = self.stored.get(&bytes.len())?;
        let aligned = places.iter().filter(|place| place.offset.is_multiple_of(ALIGNMENT as u64));
        let place = aligned.into_iter().find(|place| holds(place, bytes))?.clone();
        self.part(&place, bytes)
    }

    /// The number of the part of a file that has these bytes at that place. Equal parts get one number. `None` for any
    /// other file, for a part that overlaps another one, and where there would be more files than a packed model may
    /// refer to.
    pub fn part(&mut self, place: &InFile, bytes: &[u8]) -> Option<u32> {
        let len = bytes.len() as u64;
        let end = place.offset.checked_add(len).filter(|_| len > 0)?;
        let at = self.referable.iter().position(|file| Arc::ptr_eq(&file.backing, &place.backing))?;
        if end > self.referable[at].row.len {
            return None;
        }
        let known = self.files.iter().position(|&file| file == at);
        let file = u32::try_from(known.unwrap_or(self.files.len())).ok()?;
        let start = Start { file, offset: place.offset };
        if let Some((_, &before)) = self.by_start.range(..=start).next_back() {
            let PartRow { file, data, .. } = self.parts[before as usize];
            if file == start.file && data == (DataRow { offset: place.offset, len }) {
                return Some(before);
            }
            if file == start.file && data.offset + data.len > place.offset {
                return None;
            }
        }
        let after = self.by_start.range(start..).next();
        if after.is_some_and(|(after, _)| after.file == file && after.offset < end) {
            return None;
        }
        let number = u32::try_from(self.parts.len()).ok()?;
        if known.is_none() {
            if self.files.len() == MOST_FILES {
                return None;
            }
            self.files.push(at);
        }
        let data = DataRow { offset: place.offset, len };
        self.parts.push(PartRow { file, data, digest: blake3::hash(bytes).into() });
        self.by_start.insert(start, number);
        Some(number)
    }

    /// The files that have parts.
    #[must_use]
    pub fn files(&self) -> Vec<FileRow> {
        self.files.iter().map(|&at| self.referable[at].row.clone()).collect()
    }

    /// The parts.
    #[must_use]
    pub fn parts(&self) -> &[PartRow] {
        &self.parts
    }
}

/// Whether the file has these bytes at that place.
fn holds(place: &InFile, bytes: &[u8]) -> bool {
    const PIECE: usize = 1 << 16;
    let Some(file) = place.backing.file() else { return false };
    let mut read = [0; PIECE];
    let mut offset = place.offset;
    bytes.chunks(PIECE).all(|piece| {
        let found = &mut read[..piece.len()];
        let is_equal = file.read_exact_at(found, offset).is_ok() && found == piece;
        offset += piece.len() as u64;
        is_equal
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn referable(location: &str, len: u64) -> Referable {
        let backing = Backing::absent(Path::new(location));
        Referable { backing, row: FileRow { location: location.to_owned(), len } }
    }

    #[test]
    fn parts_are_disjoint_and_equal_ones_are_one() {
        let files = [referable("unused", 10), referable("first", 100), referable("second", 100)];
        let backings = [1, 2].map(|at: usize| files[at].backing.clone());
        let mut references = References::to(files.into());
        let mut part = |file: usize, offset: u64, len: usize| {
            references.part(&InFile { backing: backings[file].clone(), offset }, &vec![7; len])
        };
        assert_eq!(part(0, 20, 10), Some(0));
        assert_eq!(part(0, 20, 10), Some(0), "the same one");
        assert_eq!(part(0, 30, 70), Some(1), "one that begins where another ends, up to the file's end");
        assert_eq!(part(0, 10, 10), Some(2));
        for (offset, len) in [(20, 9), (20, 11), (25, 5), (5, 6), (5, 90), (0, 100), (29, 2)] {
            assert_eq!(part(0, offset, len), None, "{len} from {offset} overlap others");
        }
        assert_eq!(part(0, 95, 10), None, "the file has not as much");
        assert_eq!((part(0, 3, 0), part(1, u64::MAX, 1)), (None, None));
        assert_eq!(part(1, 20, 9), Some(3), "of another file");
        let foreign = InFile { backing: Backing::absent(Path::new("third")), offset: 0 };
        assert_eq!(references.part(&foreign, &[1]), None);
        assert_eq!(references.files().iter().map(|file| &*file.location).collect::<Vec<_>>(), ["first", "second"]);
        assert_eq!(references.parts().iter().map(|part| part.file).collect::<Vec<_>>(), [0, 0, 0, 1]);
    }
}
