//! Models that Python reads: open files, and members named by `zipfile.Path` and `importlib.resources`.
//!
//! The files that a model in an archive names are read beside it when it first names them. Sizes come from the archive
//! and are untrusted, so files are read piece by piece up to a limit.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use kiln_model::onnx::{Bytes, ExternalData, Limits};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors;

/// Bytes that are requested from a file at once.
const PIECE: usize = 4 << 20;

/// A model in an archive: an object with `open`, `parent` and `joinpath`.
pub(crate) struct Member {
    at: Py<PyAny>,
    /// Locations of the files beside it that loading has read.
    read: Arc<Mutex<BTreeSet<String>>>,
}

impl Member {
    pub(crate) fn new(at: &Bound<'_, PyAny>) -> Member {
        Member { at: at.clone().unbind(), read: Arc::default() }
    }

    /// The bytes of the model.
    pub(crate) fn model(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let at = self.at.bind(py);
        opened(at).map_err(|cause| {
            let error = errors::error(py, "ModelError", format!("cannot read {at}: {cause}"));
            error.set_cause(py, Some(cause));
            error
        })
    }

    /// Has the files beside the model read from the archive.
    pub(crate) fn lend_files(&self, py: Python<'_>, data: &mut ExternalData) {
        let (at, read) = (self.at.clone_ref(py), self.read.clone());
        data.fetch_others(move |location, most| {
            let file = Python::attach(|py| beside(at.bind(py), location, most));
            let file = file.map_err(|error| io::Error::other(error.to_string()))?;
            if file.is_some() {
                read.lock().unwrap_or_else(PoisonError::into_inner).insert(location.to_owned());
            }
            Ok(file.map(Bytes::from))
        });
    }

    /// The model, and the files beside it that loading has read, in a form for a pickle.
    pub(crate) fn picklable<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyDict>)> {
        let files = PyDict::new(py);
        for location in &*self.read.lock().unwrap_or_else(PoisonError::into_inner) {
            if let Some(file) = beside(self.at.bind(py), location, u64::MAX)? {
                files.set_item(location, PyBytes::new(py, &file))?;
            }
        }
        Ok((PyBytes::new(py, &self.model(py)?), files))
    }
}

/// The bytes of a model in an open file, from its current position on.
pub(crate) fn rest(file: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    up_to(file, Limits::default().file_bytes)
}

/// The bytes of a member.
fn opened(at: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    closing(&at.call_method1("open", ("rb",))?, Limits::default().file_bytes)
}

/// The bytes of the file of a location beside a member; `None` where there is none.
fn beside(at: &Bound<'_, PyAny>, location: &str, most: u64) -> PyResult<Option<Vec<u8>>> {
    let Ok(folder) = at.getattr("parent") else { return Ok(None) };
    let file = folder.call_method1("joinpath", (location,))?;
    if !file.call_method0("is_file")?.is_truthy()? {
        return Ok(None);
    }
    closing(&file.call_method1("open", ("rb",))?, most).map(Some)
}

fn closing(file: &Bound<'_, PyAny>, most: u64) -> PyResult<Vec<u8>> {
    let bytes = up_to(file, most);
    file.call_method0("close")?;
    bytes
}

/// The bytes of an open file, which are at most `most`.
fn up_to(file: &Bound<'_, PyAny>, most: u64) -> PyResult<Vec<u8>> {
    let py = file.py();
    let refused = |text: String| errors::error(py, "ModelError", text);
    let mut all = Vec::new();
    loop {
        let piece = file.call_method1("read", (PIECE,))?;
        let Ok(piece) = piece.cast::<PyBytes>() else {
            let kind = piece.get_type();
            return Err(refused(format!("a model is read as bytes, not {kind}: open the file in mode 'rb'")));
        };
        let piece = piece.as_bytes();
        if piece.is_empty() {
            return Ok(all);
        }
        if (all.len() + piece.len()) as u64 > most {
            return Err(refused(format!("there are more than {most} bytes, which is the limit")));
        }
        all.try_reserve(piece.len()).map_err(|error| refused(error.to_string()))?;
        all.extend_from_slice(piece);
    }
}
