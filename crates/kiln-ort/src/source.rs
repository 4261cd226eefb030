//! The sources of sessions and compiled models: models at paths, in memory, and built by programs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln::session::CacheKind;
use kiln::{Graph, ModelError, Session, SessionError, SessionOptions, packed};
use kiln_model::onnx::{self, Bytes, ExternalData};

use crate::built::{Built, Opset};
use crate::env::Env;
use crate::error::{Code, Error, Result, failed, invalid};
use crate::log::Log;
use crate::options::{Says, Settings};
use crate::ort_format;
use crate::seam::Handle;

/// A model.
pub(crate) enum Source {
    Path(PathBuf),
    Bytes(Vec<u8>),
    Built(Arc<Built>),
}

/// The settings with which a model is loaded.
pub(crate) struct Loading {
    pub(crate) env: Arc<Env>,
    pub(crate) says: Says,
    pub(crate) log: Log,
    pub(crate) options: SessionOptions,
}

impl Loading {
    pub(crate) fn of(env: Handle<Env>, settings: Option<&Settings>) -> Result<Loading> {
        let env = env.get("env")?;
        let says = settings.map(Settings::says).unwrap_or_default();
        let least = if says.severity < 0 { env.log.least() } else { says.severity };
        let log = Log::new(says.logger.or(env.log.sink()), says.log_id.clone(), least);
        let mut options = says.kiln(env.pool.as_ref(), &log)?;
        options.load_cancel = settings.map(Settings::cancel);
        Ok(Loading { env, says, log, options })
    }
}

/// The external data that options give for a model.
fn beside(says: &Says) -> Result<ExternalData> {
    let mut beside = ExternalData::new();
    for (name, file) in &says.files {
        beside.insert(name, Bytes::from_owner(file.clone()));
    }
    for (name, value) in &says.initialisers {
        let tensor = value.to_kiln(&mut Vec::new())?.into_tensor().map_err(|error| invalid!("{error}"))?;
        beside.replace(name, tensor);
    }
    Ok(beside)
}

/// As [`beside`], with the folder of files that a model in memory names.
fn beside_memory(says: &Says) -> Result<ExternalData> {
    let mut beside = beside(says)?;
    if let Some(folder) = says.folder().filter(|_| says.files.is_empty()) {
        beside.fetch_others(move |location, most| read_beside(&folder, location, most));
    }
    Ok(beside)
}

/// Whether no part of the model is replaced.
fn is_plain(says: &Says) -> bool {
    says.files.is_empty() && says.initialisers.is_empty()
}

impl Source {
    /// The operator sets of a built model.
    pub(crate) fn opsets(&self) -> Option<Vec<Opset>> {
        match self {
            Source::Built(built) => Some(built.opsets.clone()),
            Source::Path(_) | Source::Bytes(_) => None,
        }
    }

    /// Whether it is a compiled model.
    fn is_packed(&self) -> bool {
        match self {
            Source::Path(path) => packed::is_packed(path),
            Source::Bytes(bytes) => bytes.starts_with(&packed::MAGIC),
            Source::Built(_) => false,
        }
    }

    /// The same source, with a file in onnxruntime's own format read into memory, because such files are read as a
    /// whole.
    fn resolved(self) -> Result<Source> {
        match self {
            Source::Path(path) if ort_format::is_ort(&beginning(&path)) => {
                let failed = |error: std::io::Error| failed!("Load model from {} failed: {error}", path.display());
                std::fs::read(&path).map(Source::Bytes).map_err(failed)
            }
            Source::Path(path) if std::fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() == 0) => {
                Err(invalid!("No graph was found in the protobuf. {} has no bytes", path.display()))
            }
            other => Ok(other),
        }
    }

    /// A session of it.
    pub(crate) fn load(self, says: &Says, options: &SessionOptions) -> Result<Session> {
        if self.is_packed() && !is_plain(says) {
            return Err(invalid!("the model is compiled: its initialisers and files cannot be replaced any more"));
        }
        match self.resolved()? {
            Source::Path(path) if is_plain(says) => {
                Session::load(&path, options).map_err(|error| of_path(&path, error))
            }
            Source::Path(path) => {
                Session::load_with(&path, beside(says)?, options).map_err(|error| of_path(&path, error))
            }
            Source::Bytes(bytes) if bytes.starts_with(&packed::MAGIC) => load_packed(&bytes, options),
            Source::Bytes(bytes) if bytes.is_empty() || ort_format::is_ort(&bytes) => {
                let graph = Source::Bytes(bytes).graph(says, options)?;
                Session::from_graph(graph, options).map_err(|error| of_load(error, ""))
            }
            Source::Bytes(bytes) => {
                Session::load_bytes_with(bytes, beside_memory(says)?, options).map_err(|error| of_load(error, ""))
            }
            built @ Source::Built(_) => {
                let graph = built.graph(says, options)?;
                Session::from_graph(graph, options).map_err(|error| of_load(error, ""))
            }
        }
    }

    /// Makes a session of it by a packed model at a path, from which later sessions load at once. A packed model is
    /// copied there.
    ///
    /// # Errors
    ///
    /// As [`Source::pack`]; also where the file would take the place of the model that it is made of.
    pub(crate) fn load_by(self, to: &Path, says: &Says, options: &SessionOptions) -> Result<Session> {
        if self.is_packed() {
            let session = self.load(says, options)?;
            let copied = session.save_cache(to, CacheKind::Fusion);
            return copied.map(|_| session).map_err(|error| failed!("the model was not written: {error}"));
        }
        let place = |path: &Path| std::fs::canonicalize(path).ok();
        if let Source::Path(from) = &self
            && place(to).is_some_and(|to| place(from) == Some(to))
        {
            return Err(invalid!("optimized_model_filepath is the model itself: {}", to.display()));
        }
        self.pack(to, says, options)?;
        Session::load(to, options).map_err(|error| of_path(to, error))
    }

    /// Its graph, checked.
    fn graph(self, says: &Says, options: &SessionOptions) -> Result<Graph> {
        let limits = &options.onnx_limits();
        match self.resolved()? {
            Source::Path(path) => {
                onnx::load_with(&path, beside(says)?, limits).map_err(|error| of_path(&path, error.into()))
            }
            Source::Bytes(bytes) => {
                if bytes.is_empty() {
                    return Err(invalid!("No graph was found in the protobuf. It has no bytes"));
                }
                if ort_format::is_ort(&bytes) {
                    let graph = ort_format::read(&bytes)?;
                    return onnx::check_built(graph, beside(says)?, limits).map_err(|error| of_load(error.into(), ""));
                }
                onnx::load_bytes_with(bytes.into(), beside_memory(says)?, limits)
                    .map_err(|error| of_load(error.into(), ""))
            }
            Source::Built(built) => {
                let graph = built.graph()?;
                onnx::check_built(graph, beside(says)?, limits).map_err(|error| of_load(error.into(), ""))
            }
        }
    }

    /// Writes it as a packed model to a path.
    ///
    /// # Errors
    ///
    /// Those of loading it; also for a model that is already packed, and where the file cannot be written.
    pub(crate) fn pack(self, to: &Path, says: &Says, options: &SessionOptions) -> Result<()> {
        if self.is_packed() {
            return Err(invalid!("the input model is compiled already"));
        }
        let packed = match self.resolved()? {
            Source::Path(path) if is_plain(says) => {
                Session::pack(&path, to, options).map_err(|error| of_path(&path, error))
            }
            other => {
                let graph = other.graph(says, options)?;
                Session::pack_graph(graph, to, options).map_err(|error| of_load(error, ""))
            }
        };
        packed.map(drop)
    }
}

/// A session of a packed model in memory. Such models are mapped, so it is written to a file, whose name is removed by
/// the time the session exists.
fn load_packed(bytes: &[u8], options: &SessionOptions) -> Result<Session> {
    let write = || {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(bytes)?;
        file.flush()?;
        Ok::<_, std::io::Error>(file)
    };
    let file = write().map_err(|error| failed!("a compiled model in memory needs a temporary file: {error}"))?;
    Session::load(file.path(), options).map_err(|error| of_load(error, "Load model from memory failed:"))
}

/// The first bytes of a file, which show its format; fewer where the file is shorter or cannot be read.
fn beginning(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    // If reading fails, the load itself reports the error.
    if let Ok(file) = std::fs::File::open(path) {
        let _ = std::io::Read::read_to_end(&mut std::io::Read::take(file, 8), &mut bytes);
    }
    bytes
}

/// The file that a model in memory names, with at most that many bytes.
fn read_beside(folder: &Path, location: &str, most: u64) -> std::io::Result<Option<Bytes>> {
    let path = folder.join(location);
    let found = match std::fs::metadata(&path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !found.is_file() || found.len() > most {
        let reason = format!("{} is no file of at most {most} bytes", path.display());
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, reason));
    }
    std::fs::read(path).map(|bytes| Some(Bytes::from(bytes)))
}

/// The error of a model that failed to load from a path.
fn of_path(path: &Path, error: SessionError) -> Error {
    let path = path.display();
    match &error {
        SessionError::Model(ModelError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Error::new(
                Code::NoSuchFile,
                format!("Load model from {path} failed:Load model {path} failed. File doesn't exist"),
            )
        }
        _ => of_load(error, &format!("Load model from {path} failed:")),
    }
}

/// onnxruntime's code and first words for Kiln's error.
fn of_load(error: SessionError, before: &str) -> Error {
    let (code, words) = match &error {
        SessionError::Model(ModelError::Wire(_)) => {
            (Code::InvalidProtobuf, "Failed to load model because protobuf parsing failed. ")
        }
        SessionError::Model(ModelError::Io { .. }) => (Code::Fail, ""),
        SessionError::Model(ModelError::Memory(_)) | SessionError::Memory { .. } => (Code::OutOfMemory, ""),
        SessionError::LoadStopped { .. } => (Code::LoadCancelled, "Model loading canceled. "),
        SessionError::Unsupported(_) => (Code::NotImplemented, ""),
        SessionError::Model(_) | SessionError::InvalidNode { .. } => (Code::InvalidGraph, "This is an invalid model. "),
        _ => (Code::Fail, ""),
    };
    Error::new(code, format!("{before}{words}{error}"))
}
