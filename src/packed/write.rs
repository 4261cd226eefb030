//! Writing a packed model: data as it comes, then the index, then the header.
//!
//! The file is written aside and takes its name when it is whole and on the disk, so that no process sees a
//! part of it and a mapped file is never written.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use kiln_run::record::encode_long;
use kiln_tensor::InFile;
use tempfile::NamedTempFile;

use super::index::{DataRow, Index, SpanRow};
use super::{ALIGNMENT, HEADER, LARGE, MAGIC, PAGE, PackedError, References, SCHEMA};

/// A span ends after this many bytes: the unit in which a thread verifies data.
const SPAN: u64 = 8 << 20;

/// The longest index that the codec reads.
const LONGEST: usize = 256 << 20;

/// Bytes of the header that its digest covers.
pub(super) const SIGNED: usize = 72;

/// A file that is being written.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    aside: NamedTempFile,
    at: u64,
    /// The span that is being written: where it began, and its bytes so far.
    begun: u64,
    digest: blake3::Hasher,
    spans: Vec<SpanRow>,
    /// Parts that stay in the model's files.
    references: References,
}

impl Writer {
    /// Begins a file that will have that path.
    ///
    /// # Errors
    ///
    /// [`PackedError::Io`] if no file can be made in its folder.
    pub fn new(path: &Path) -> Result<Writer, PackedError> {
        let aside = aside(path)?;
        let mut writer = Writer {
            path: path.to_owned(),
            aside,
            at: 0,
            begun: HEADER as u64,
            digest: blake3::Hasher::new(),
            spans: Vec::new(),
            references: References::default(),
        };
        writer.write(&[0; HEADER])?;
        Ok(writer)
    }

    /// The same, for a file that refers to parts of others in place of data.
    #[must_use]
    pub fn referring(self, references: References) -> Writer {
        Writer { references, ..self }
    }

    /// The number of a part of a file that has these bytes at that place; `None` where they must be stored as data
    /// ([`References::part`]).
    pub fn refer(&mut self, place: &InFile, bytes: &[u8]) -> Option<u32> {
        self.references.part(place, bytes)
    }

    /// The number of a part of a file that has the elements of a tensor in exactly these bytes
    /// ([`References::equal`]).
    pub fn refer_equal(&mut self, bytes: &[u8]) -> Option<u32> {
        self.references.equal(bytes)
    }

    /// The path of the file while it is written.
    #[must_use]
    pub fn aside(&self) -> &Path {
        self.aside.path()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), PackedError> {
        self.aside.as_file_mut().write_all(bytes).map_err(PackedError::io("write", &self.path))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Adds bytes to the data.
    ///
    /// # Errors
    ///
    /// [`PackedError::Io`] if the disk is full, for example.
    pub fn add(&mut self, bytes: &[u8]) -> Result<DataRow, PackedError> {
        let alignment = if bytes.len() >= LARGE { PAGE } else { ALIGNMENT };
        let padding = self.at.next_multiple_of(alignment as u64) - self.at;
        self.hashed(&[0; PAGE][..padding as usize])?;
        let row = DataRow { offset: self.at, len: bytes.len() as u64 };
        self.hashed(bytes)?;
        if self.at - self.begun >= SPAN {
            self.end_span();
        }
        Ok(row)
    }

    fn hashed(&mut self, bytes: &[u8]) -> Result<(), PackedError> {
        self.digest.update(bytes);
        self.write(bytes)
    }

    fn end_span(&mut self) {
        let data = DataRow { offset: self.begun, len: self.at - self.begun };
        self.spans.push(SpanRow { data, digest: self.digest.finalize().into() });
        self.digest.reset();
        self.begun = self.at;
    }

    /// Adds the index, after all data so far, and the header. More data and another index may follow: the last index
    /// counts.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn index(&mut self, index: &mut Index) -> Result<(), PackedError> {
        self.end_span();
        index.spans = std::mem::take(&mut self.spans);
        index.sources.files = self.references.files();
        index.sources.parts = self.references.parts().to_vec();
        let bytes = encode_long(index).map_err(|error| PackedError::Unsupported(error.to_string()))?;
        if bytes.len() > LONGEST {
            let reason = format!("its index takes {} bytes, of which a file has {LONGEST} at most", bytes.len());
            return Err(PackedError::Unsupported(reason));
        }
        let offset = self.at;
        self.write(&bytes)?;
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&SCHEMA.to_le_bytes());
        for (place, number) in [(16, offset), (24, bytes.len() as u64), (32, self.at)] {
            header[place..place + 8].copy_from_slice(&number.to_le_bytes());
        }
        header[40..SIGNED].copy_from_slice(blake3::hash(&bytes).as_bytes());
        let digest = blake3::hash(&header[..SIGNED]);
        header[SIGNED..SIGNED + 32].copy_from_slice(digest.as_bytes());
        let file = self.aside.as_file_mut();
        let io = PackedError::io("write", &self.path);
        file.seek(SeekFrom::Start(0)).map_err(&io)?;
        file.write_all(&header).map_err(&io)?;
        file.set_len(self.at).map_err(&io)?;
        // Further data overwrites this index.
        file.seek(SeekFrom::Start(offset)).map_err(&io)?;
        self.spans = std::mem::take(&mut index.spans);
        (self.at, self.begun) = (offset, offset);
        Ok(())
    }

    /// Ends the file and gives it its path. Returns its length in bytes.
    ///
    /// # Errors
    ///
    /// [`PackedError::Io`] if the system cannot write it to the disk or name it.
    pub fn finish(self) -> Result<u64, PackedError> {
        name(self.aside, &self.path)
    }
}

/// Writes a file of these bytes, which are a packed model's. Returns their number.
///
/// # Errors
///
/// [`PackedError::Io`]; the path is then unchanged.
pub fn copy(bytes: &[u8], path: &Path) -> Result<u64, PackedError> {
    let mut aside = aside(path)?;
    aside.as_file_mut().write_all(bytes).map_err(PackedError::io("write", path))?;
    name(aside, path)
}

/// A file with a temporary name beside that path.
fn aside(path: &Path) -> Result<NamedTempFile, PackedError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let aside = tempfile::Builder::new().prefix(".packing-").tempfile_in(folder);
    aside.map_err(PackedError::io("write a file in", folder))
}

/// Gives a complete file its path once it is on the disk. Returns its length in bytes.
fn name(aside: NamedTempFile, path: &Path) -> Result<u64, PackedError> {
    let io = PackedError::io("write", path);
    let file: &File = aside.as_file();
    file.set_permissions(std::fs::Permissions::from_mode(0o644)).map_err(&io)?;
    file.sync_all().map_err(&io)?;
    let bytes = file.metadata().map_err(&io)?.len();
    aside.persist(path).map_err(|error| io(error.error))?;
    Ok(bytes)
}
