//! What a program hands over with a model: files that the model names, and initialisers to take the place of its own.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use kiln_tensor::Tensor;

use super::ExternalProblem;
use super::error::shown;

/// The files that a model in memory names, by their locations in the model.
///
/// A location is taken as the model writes it, but for empty components and `.`: `./w.bin` is `w.bin`. Names that the
/// model does not have do no harm. Buffers are not copied as a whole: large tensors are read from them as from files,
/// when their elements are first needed, and a loaded session holds no buffer whose tensors have all been read.
///
/// ```
/// use kiln_model::onnx::ExternalData;
///
/// let mut data = ExternalData::new();
/// data.insert("model.onnx_data", vec![0; 64]);
/// assert_eq!(data.len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExternalData {
    files: HashMap<String, Bytes>,
    rest: Option<Fetch>,
    pub(super) initialisers: HashMap<String, Tensor>,
}

/// Fetches the file of a location, which may have at most that many bytes.
#[derive(Clone)]
struct Fetch(Arc<FetchFile>);

type FetchFile = dyn Fn(&str, u64) -> io::Result<Option<Bytes>> + Send + Sync;

impl fmt::Debug for Fetch {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Fetch")
    }
}

impl ExternalData {
    /// No files.
    #[must_use]
    pub fn new() -> ExternalData {
        ExternalData::default()
    }

    /// Adds the file of a location. One of the same location is replaced.
    pub fn insert(&mut self, location: &str, bytes: impl Into<Bytes>) {
        self.files.insert(normal(location), bytes.into());
    }

    /// Replaces the model's initialiser of a name by a tensor of the same type and shape, which is not copied. The
    /// model's own reference to data is ignored, even if its file does not exist. A name that the model does not have
    /// does no harm; another type or shape is an error when the model is read.
    pub fn replace(&mut self, initialiser: &str, tensor: Tensor) {
        self.initialisers.insert(initialiser.to_owned(), tensor);
    }

    /// Has other files, such as members of an archive, fetched when a model names them, each once. `fetch` is called
    /// with a location (a path below the model's folder, without `..`) and the bytes that tensors may take in all. It
    /// should return an error for a longer file, and returns `None` for a file that does not exist.
    ///
    /// ```
    /// use kiln_model::onnx::{Bytes, ExternalData};
    ///
    /// let mut data = ExternalData::new();
    /// data.fetch_others(|location, _most| Ok((location == "w.bin").then(|| Bytes::from_static(&[0; 64]))));
    /// assert!(!data.is_empty());
    /// ```
    pub fn fetch_others(&mut self, fetch: impl Fn(&str, u64) -> io::Result<Option<Bytes>> + Send + Sync + 'static) {
        self.rest = Some(Fetch(Arc::new(fetch)));
    }

    /// How many files there are, without those that are fetched.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are none, and none are fetched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.rest.is_none()
    }

    /// The file of a location, fetched where it was not handed over. Tensors may take `most` bytes in all.
    pub(super) fn open(&mut self, location: &str, most: u64) -> Result<HandedFile, ExternalProblem> {
        let name = normal(location);
        if let Some(bytes) = self.files.get(&name) {
            return Ok(HandedFile { bytes: bytes.clone(), name });
        }
        let missing = || ExternalProblem::NotHanded(shown(location));
        let Fetch(fetch) = self.rest.as_ref().ok_or_else(missing)?;
        if name.is_empty() || name.starts_with('/') || name.split('/').any(|part| part == "..") {
            return Err(ExternalProblem::Location(shown(location)));
        }
        let failed = |source| ExternalProblem::Io { location: shown(location), source };
        let bytes = fetch(&name, most).map_err(failed)?.ok_or_else(missing)?;
        self.files.insert(name.clone(), bytes.clone());
        Ok(HandedFile { name, bytes })
    }
}

/// A file with its normalised name.
pub(super) struct HandedFile {
    pub(super) name: String,
    pub(super) bytes: Bytes,
}

impl<Name: AsRef<str>, Data: Into<Bytes>> FromIterator<(Name, Data)> for ExternalData {
    fn from_iter<Files: IntoIterator<Item = (Name, Data)>>(files: Files) -> ExternalData {
        let mut data = ExternalData::new();
        files.into_iter().for_each(|(location, bytes)| data.insert(location.as_ref(), bytes));
        data
    }
}

/// A relative path without empty components and `.`; other paths are unchanged.
fn normal(location: &str) -> String {
    let parts = location.split('/').filter(|part| !part.is_empty() && *part != ".");
    let joined = parts.collect::<Vec<_>>().join("/");
    if location.starts_with('/') { format!("/{joined}") } else { joined }
}
