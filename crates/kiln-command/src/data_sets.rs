//! Data sets of ONNX test cases: folders `test_data_set_K` beside a model, in which `input_I.pb` is the value of its
//! I-th input without a default, and `output_I.pb` the expected I-th output. Runs nothing.

use std::path::{Path, PathBuf};

use kiln::session::Port;
use kiln_model::Value;
use kiln_model::ir::ValueKind;
use kiln_model::onnx::ModelError;

/// How the folder of a data set begins; its number follows.
const PREFIX: &str = "test_data_set_";

/// Why data sets cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataError {
    /// The folder has none.
    #[error("no {PREFIX}* folder")]
    None,
    /// A file or folder cannot be read.
    #[error("{name}: {source}")]
    Unreadable {
        /// Its name.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds no such value.
    #[error("{name}: {source}")]
    Malformed {
        /// The file's name.
        name: String,
        /// Why.
        source: ModelError,
    },
}

/// The data sets of a case, by their numbers; those whose names do not end in a number come last.
pub(crate) fn find(case: &Path) -> Result<Vec<PathBuf>, DataError> {
    let unreadable = |source| DataError::Unreadable { name: shown(case), source };
    let mut sets = Vec::new();
    for entry in std::fs::read_dir(case).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(rest) = name.strip_prefix(PREFIX).filter(|_| entry.path().is_dir()) {
            sets.push((rest.parse().unwrap_or(u64::MAX), name, entry.path()));
        }
    }
    sets.sort();
    if sets.is_empty() { Err(DataError::None) } else { Ok(sets.into_iter().map(|(_, _, path)| path).collect()) }
}

/// A value of a data set in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataFile {
    /// The input or output that it is for.
    pub(crate) name: String,
    kind: ValueKind,
    path: PathBuf,
}

impl DataFile {
    /// The expected value of the output at that index, where the set has one.
    pub(crate) fn output(set: &Path, index: usize, port: &Port) -> Option<DataFile> {
        DataFile::existing(set.join(format!("output_{index}.pb")), port)
    }

    /// The values of a model's inputs. Those that the set lacks are left out.
    pub(crate) fn inputs(set: &Path, ports: &[Port]) -> Vec<DataFile> {
        let demanded = ports.iter().filter(|port| !port.has_default).enumerate();
        demanded.filter_map(|(index, port)| DataFile::existing(set.join(format!("input_{index}.pb")), port)).collect()
    }

    fn existing(path: PathBuf, port: &Port) -> Option<DataFile> {
        path.exists().then(|| DataFile { name: port.name.clone(), kind: port.kind, path })
    }

    /// Reads the value.
    pub(crate) fn read(&self) -> Result<Value, DataError> {
        let name = || shown(&self.path);
        let bytes = std::fs::read(&self.path).map_err(|source| DataError::Unreadable { name: name(), source })?;
        kiln_model::onnx::read_value(bytes, self.kind).map_err(|source| DataError::Malformed { name: name(), source })
    }
}

/// The last part of a path.
pub(crate) fn shown(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_sets_come_by_their_numbers() {
        let root = tempfile::tempdir().unwrap();
        assert!(matches!(find(root.path()), Err(DataError::None)));
        for set in ["test_data_set_10", "test_data_set_2", "test_data_set_0", "test_data_set_x", "other"] {
            std::fs::create_dir(root.path().join(set)).unwrap();
        }
        std::fs::write(root.path().join("test_data_set_3"), "no folder").unwrap();
        let names: Vec<String> = find(root.path()).unwrap().iter().map(|set| shown(set)).collect();
        assert_eq!(names, ["test_data_set_0", "test_data_set_2", "test_data_set_10", "test_data_set_x"]);
    }
}
