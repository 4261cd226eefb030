//! The function `kiln.pack`: packed models of sessions, decoders and encoder-decoders. Runs without the interpreter's
//! lock.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln::{DecoderError, EncoderDecoderFiles, SessionError, SessionOptions};
use kiln_command::{FolderError, FolderModels};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::interrupt::Watch;
use crate::options;

/// Writes the model at the path `model` as a packed model to the file `to`: with the graph after all passes, and the
/// weights in the layouts that kernels read. `Session` takes this file in place of the model. Returns the file's size
/// in bytes.
///
/// With `decoder`, the file is for `Decoder` and not for `Session`. `alias` is as for `Decoder`, which must be given the
/// same.
///
/// `model` may also be a folder. If it has a `genai_config.json`, as onnxruntime-genai's builder writes it, the decoder
/// that is named there is packed for `Decoder`. If it has the ONNX files that `EncoderDecoder` takes, three files are
/// written into the folder `to`, which `EncoderDecoder` takes. The folder is made if it does not exist. The result is
/// then the size of all three. If it has neither, but a `config.json`, the `model.onnx` or
/// `decoder_model_merged.onnx` in it or in its folder `onnx` is packed for `Decoder`.
///
/// With `weightless`, weights that nodes read in the model's own layout stay in the model's files. These files must be
/// below the folder of `to` and must stay there.
///
/// Options are those of `Session`; the file is for sessions with the same `precision`, `numerics` and `max_isa`.
///
/// Raises `ModelNotFoundError` if there is no such model, or if a folder has no model that Kiln knows; `ModelError` if
/// the model cannot be used, is no decoder where one is asked for, or if the file cannot be written;
/// `UnsupportedError` if the model needs something that Kiln does not support; and `OptionError` for options that do
/// not fit the model.
///
/// >>> with open("model.onnx", "wb") as file:
/// ...     _ = file.write(model)
/// >>> kiln.pack("model.onnx", "model.kpk") > 4096
/// True
/// >>> kiln.Session("model.kpk").packed
/// True
/// >>> with open("decoder.onnx", "wb") as file:
/// ...     _ = file.write(language_model)
/// >>> kiln.pack("decoder.onnx", "decoder.kpk", decoder=True) > 4096
/// True
/// >>> kiln.Decoder("decoder.kpk").cache().lengths
/// [0]
#[pyfunction]
#[pyo3(
    signature = (model, to, *, weightless=false, decoder=false, **options),
    text_signature = "(model, to, *, weightless=False, decoder=False, alias=None, precision=None, numerics=None, \
        max_isa=None)"
)]
pub(crate) fn pack(
    py: Python<'_>,
    model: PathBuf,
    to: PathBuf,
    weightless: bool,
    decoder: bool,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<u64> {
    let models = models_of(py, &model, decoder)?;
    let has_alias = options.is_some_and(|options| options.get_item("alias").is_ok_and(|alias| alias.is_some()));
    if has_alias && !matches!(models, Models::Decoder(_)) {
        return Err(errors::option(py, "alias", "it is for decoders"));
    }
    let watch = Watch::new(&Arc::default(), None);
    let options = SessionOptions {
        pack_weightless: weightless,
        load_cancel: Some(watch.cancel()),
        ..options::parse(py, options)?
    };
    let written = py.detach(|| models.pack(&to, &options));
    written.map_err(|error| watch.raised().unwrap_or_else(|| error.raise(py)))
}

/// What is packed.
enum Models {
    Session(PathBuf),
    Decoder(PathBuf),
    EncoderDecoder(EncoderDecoderFiles),
}

/// The models at a path.
fn models_of(py: Python<'_>, path: &Path, decoder: bool) -> PyResult<Models> {
    if !path.is_dir() {
        let path = path.to_owned();
        return Ok(if decoder { Models::Decoder(path) } else { Models::Session(path) });
    }
    match kiln_command::models_of(path).map_err(|error| folder(py, &error))? {
        FolderModels::Decoder(file) => Ok(Models::Decoder(file)),
        FolderModels::EncoderDecoder(files) if !decoder => Ok(Models::EncoderDecoder(files)),
        FolderModels::EncoderDecoder(_) => {
            let reason = format!("{} has an encoder and a decoder, which are packed together", path.display());
            Err(errors::option(py, "decoder", reason))
        }
    }
}

/// The exception of a folder whose models cannot be told.
fn folder(py: Python<'_>, cause: &FolderError) -> PyErr {
    let text = cause.to_string();
    match cause {
        FolderError::Empty(path) => errors::not_found(py, text, path),
        FolderError::Unsupported { .. } => errors::unsupported(py, text.clone(), vec![text]),
        _ => errors::error(py, "ModelError", text),
    }
}

/// Why nothing was written.
enum Failed {
    Session(SessionError),
    Decoder(DecoderError),
    /// The folder for three files cannot be made.
    Folder(String),
}

impl Failed {
    fn raise(&self, py: Python<'_>) -> PyErr {
        match self {
            Failed::Session(error) => errors::session(py, error),
            Failed::Decoder(error) => errors::decoder(py, error),
            Failed::Folder(text) => errors::error(py, "ModelError", text),
        }
    }
}

impl Models {
    /// Writes them. Returns the bytes of what was written.
    fn pack(&self, to: &Path, options: &SessionOptions) -> Result<u64, Failed> {
        match self {
            Models::Session(path) => {
                let report = kiln::Session::pack(path, to, options).map_err(Failed::Session)?;
                Ok(report.bytes)
            }
            Models::Decoder(path) => {
                let report = kiln::Decoder::pack(path, to, options).map_err(Failed::Decoder)?;
                Ok(report.bytes)
            }
            Models::EncoderDecoder(files) => {
                std::fs::create_dir_all(to)
                    .map_err(|error| Failed::Folder(format!("cannot make the folder {}: {error}", to.display())))?;
                let reports = kiln::EncoderDecoder::pack(files, to, options).map_err(Failed::Decoder)?;
                Ok(reports.iter().map(|report| report.bytes).sum())
            }
        }
    }
}
