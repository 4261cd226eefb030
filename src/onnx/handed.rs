//! What a program hands over with a model: files that the model names, and initialisers to take the place of its own.

use std::collections::HashMap;

use bytes::Bytes;

use crate::tensor::Tensor;

/// The files that a model in memory names, by their locations in the model.
///
/// A location is taken as the model writes it, but for empty components and `.`: `./w.bin` is `w.bin`. Names that the
/// model does not have do no harm. Buffers are not copied as a whole: large tensors are read from them as from files,
/// when their elements are first needed, and a loaded session holds no buffer whose tensors have all been read.
///
/// ```
/// use kiln::onnx::ExternalData;
///
/// let mut data = ExternalData::new();
/// data.insert("model.onnx_data", vec![0; 64]);
/// assert_eq!(data.len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExternalData {
    files: HashMap<String, Bytes>,
    pub(super) initialisers: HashMap<String, Tensor>,
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

    /// Replaces the model's initialiser of a name by a tensor of the same type and shape, which is not copied. What the
    /// model says of its data, in a file that may not exist, is not looked at. A name that the model does not have does
    /// no harm; another type or shape is an error when the model is read.
    pub fn replace(&mut self, initialiser: &str, tensor: Tensor) {
        self.initialisers.insert(initialiser.to_owned(), tensor);
    }

    /// How many files there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The file of a location.
    pub(super) fn get(&self, location: &str) -> Option<HandedFile<'_>> {
        self.files.get_key_value(normal(location).as_str()).map(|(name, bytes)| HandedFile { name, bytes })
    }
}

/// A file with its name, of which all spellings are one.
pub(super) struct HandedFile<'a> {
    pub(super) name: &'a str,
    pub(super) bytes: &'a Bytes,
}

impl<Name: AsRef<str>, Data: Into<Bytes>> FromIterator<(Name, Data)> for ExternalData {
    fn from_iter<Files: IntoIterator<Item = (Name, Data)>>(files: Files) -> ExternalData {
        let mut data = ExternalData::new();
        files.into_iter().for_each(|(location, bytes)| data.insert(location.as_ref(), bytes));
        data
    }
}

/// A relative path without what says nothing; others as they are.
fn normal(location: &str) -> String {
    let parts = location.split('/').filter(|part| !part.is_empty() && *part != ".");
    let joined = parts.collect::<Vec<_>>().join("/");
    if location.starts_with('/') { format!("/{joined}") } else { joined }
}
