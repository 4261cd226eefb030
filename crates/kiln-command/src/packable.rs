//! Folders of language models: which of their files are a decoder, or an encoder and a decoder. Reads
//! genai_config.json, and no other file.

use std::io;
use std::path::{Component, Path, PathBuf};

use kiln::{DecoderError, EncoderDecoderFiles};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::failure::{Code, Failure};

/// The configuration of a folder of onnxruntime-genai's builder.
const CONFIG: &str = "genai_config.json";

/// The configuration of a folder that optimum or transformers.js exported.
pub(crate) const EXPORTED_CONFIG: &str = "config.json";

/// The folder of ONNX files in a folder of transformers.js.
pub(crate) const EXPORTED_FILES: &str = "onnx";

/// The names that optimum and transformers.js give to the ONNX file of a decoder.
pub(crate) const EXPORTED_NAMES: [&str; 2] = ["model.onnx", "decoder_model_merged.onnx"];

/// The models of a folder.
#[derive(Clone, Debug)]
pub enum FolderModels {
    /// The ONNX file of a decoder.
    Decoder(PathBuf),
    /// The files of an encoder and a decoder.
    EncoderDecoder(EncoderDecoderFiles),
}

/// Why the models of a folder cannot be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// It has no files that tell.
    #[error(
        "{path} has no {CONFIG}, no encoder_model.onnx, and no {EXPORTED_CONFIG} with {names}",
        path = .0.display(),
        names = EXPORTED_NAMES.join(" or ")
    )]
    Empty(PathBuf),
    /// The system refused to read its configuration.
    #[error("cannot read {path}: {cause}", path = path.display())]
    Read {
        /// The configuration.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// Its configuration is none, or names no file of the folder.
    #[error("{path} is no configuration: {reason}", path = path.display())]
    Config {
        /// The configuration.
        path: PathBuf,
        /// The fault and its place.
        reason: String,
    },
    /// It has models of other kinds.
    #[error("{path}: model.{part}: models with such a part are not taken here", path = path.display())]
    Unsupported {
        /// The configuration.
        path: PathBuf,
        /// The part that is not taken.
        part: &'static str,
    },
    /// The decoder of an encoder is missing.
    #[error("{path}: {cause}", path = path.display())]
    Decoder {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        cause: DecoderError,
    },
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Failure {
        match error {
            FolderError::Decoder { path, cause } => Failure::from(cause).context(path.display().to_string()),
            FolderError::Unsupported { .. } => Failure::new(Code::Unsupported, error),
            _ => Failure::new(Code::Usage, error),
        }
    }
}

/// The files in the part `model` of a configuration.
#[derive(Deserialize)]
pub(crate) struct Parts {
    decoder: Stage,
    /// What makes embeddings of tokens, for a decoder that reads embeddings.
    embedding: Option<Stage>,
    /// Parts of other kinds of models.
    encoder: Option<serde_json::Value>,
    vision: Option<serde_json::Value>,
    speech: Option<serde_json::Value>,
}

/// The ONNX files of a decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecoderFiles {
    pub(crate) decoder: PathBuf,
    /// What makes embeddings of tokens, where the decoder reads embeddings.
    pub(crate) embedding: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Stage {
    filename: Option<PathBuf>,
    /// A decoder in several files.
    pipeline: Option<serde_json::Value>,
}

impl Parts {
    /// The ONNX files of the decoder of that folder. The parts of a model that also sees or hears are left out where the
    /// embedding makes embeddings of tokens without them.
    pub(crate) fn files_of(self, folder: &Path) -> Result<DecoderFiles, FolderError> {
        let senses = |part: Option<serde_json::Value>| part.filter(|_| self.embedding.is_none());
        let parts = [
            ("encoder", self.encoder),
            ("vision", senses(self.vision)),
            ("speech", senses(self.speech)),
            ("decoder.pipeline", self.decoder.pipeline),
        ];
        let path = config_of(folder);
        if let Some((part, _)) = parts.into_iter().find(|(_, part)| part.is_some()) {
            return Err(FolderError::Unsupported { path, part });
        }
        let file = |part: &str, file: Option<PathBuf>| {
            let refused = |reason: String| {
                let reason = format!("model.{part}.filename{reason}");
                FolderError::Config { path: path.clone(), reason }
            };
            let file = file.ok_or_else(|| refused(" is missing".to_owned()))?;
            if file.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
                return Err(refused(format!(": {} may be outside of the folder", file.display())));
            }
            Ok(folder.join(file))
        };
        Ok(DecoderFiles {
            decoder: file("decoder", self.decoder.filename)?,
            embedding: self.embedding.map(|embedding| file("embedding", embedding.filename)).transpose()?,
        })
    }

    /// The ONNX file of the decoder of that folder, which is a whole model.
    fn decoder_of(self, folder: &Path) -> Result<PathBuf, FolderError> {
        let DecoderFiles { decoder, embedding } = self.files_of(folder)?;
        match embedding {
            Some(_) => Err(FolderError::Unsupported { path: config_of(folder), part: "embedding" }),
            None => Ok(decoder),
        }
    }
}

/// The configuration's file in that folder, which need not exist.
pub(crate) fn config_of(folder: &Path) -> PathBuf {
    folder.join(CONFIG)
}

/// The configuration of that folder.
pub(crate) fn config<T: DeserializeOwned>(folder: &Path) -> Result<T, FolderError> {
    let path = config_of(folder);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(cause) => return Err(FolderError::Read { path, cause }),
    };
    serde_json::from_str(&text).map_err(|error| FolderError::Config { path, reason: error.to_string() })
}

/// The folder of a model whose ONNX file is in it or in its folder of ONNX files.
#[cfg(feature = "serve")]
pub(crate) fn home_of(model: &Path) -> PathBuf {
    let folder = model.parent().unwrap_or(Path::new(""));
    let above = folder.parent().filter(|_| folder.ends_with(EXPORTED_FILES));
    above.unwrap_or(folder).to_owned()
}

/// The ONNX file of a decoder in a folder that optimum or transformers.js exported.
pub(crate) fn exported(folder: &Path) -> Option<PathBuf> {
    let places = [folder.to_owned(), folder.join(EXPORTED_FILES)];
    places.iter().flat_map(|place| EXPORTED_NAMES.map(|name| place.join(name))).find(|file| file.is_file())
}

/// The models of that folder: the decoder that its genai_config.json names, the ONNX files of an encoder and a decoder,
/// or the ONNX file of a decoder beside a config.json.
///
/// # Errors
///
/// [`FolderError`] with the file that is missing, unreadable or for a model of another kind.
pub fn models_of(folder: &Path) -> Result<FolderModels, FolderError> {
    #[derive(Deserialize)]
    struct Config {
        model: Parts,
    }
    if config_of(folder).exists() {
        let Config { model } = config(folder)?;
        return model.decoder_of(folder).map(FolderModels::Decoder);
    }
    let found = EncoderDecoderFiles::exported(folder)
        .map_err(|cause| FolderError::Decoder { path: folder.to_owned(), cause })?;
    if let Some(files) = found {
        return Ok(FolderModels::EncoderDecoder(files));
    }
    let decoder = exported(folder).filter(|_| folder.join(EXPORTED_CONFIG).is_file());
    decoder.map(FolderModels::Decoder).ok_or_else(|| FolderError::Empty(folder.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_tells_its_models_or_why_it_has_none() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        let refused = || models_of(folder).unwrap_err();
        let write = |name: &str| std::fs::write(folder.join(name), []).unwrap();
        assert!(matches!(refused(), FolderError::Empty(path) if path == folder));
        // A lone ONNX file may be anything.
        std::fs::create_dir(folder.join("onnx")).unwrap();
        write("onnx/model.onnx");
        assert!(matches!(refused(), FolderError::Empty(_)));
        write("config.json");
        let Ok(FolderModels::Decoder(file)) = models_of(folder) else { panic!("it has a decoder") };
        assert_eq!(file, folder.join("onnx/model.onnx"));
        write("encoder_model.onnx");
        let error = refused();
        assert!(matches!(error, FolderError::Decoder { .. }) && error.to_string().contains("decoder_model.onnx"));
        write("decoder_model_merged.onnx");
        let Ok(FolderModels::EncoderDecoder(files)) = models_of(folder) else { panic!("it has both") };
        assert_eq!(files.decoder, folder.join("decoder_model_merged.onnx"));
        // A configuration counts before the names of files.
        let config = config_of(folder);
        let told = |text: &str| {
            std::fs::write(&config, text).unwrap();
            models_of(folder)
        };
        let Ok(FolderModels::Decoder(file)) = told(r#"{"model": {"decoder": {"filename": "m.onnx"}}}"#) else {
            panic!("it has a decoder")
        };
        assert_eq!(file, folder.join("m.onnx"));
        assert!(matches!(told("{}"), Err(FolderError::Config { reason, .. }) if reason.contains("model")));
        let other = told(r#"{"model": {"decoder": {"filename": "m.onnx"}, "vision": {}}}"#);
        assert!(matches!(other, Err(FolderError::Unsupported { part: "vision", .. })));
        let parts = r#"{"model": {"decoder": {"filename": "m.onnx"}, "embedding": {"filename": "e.onnx"}}}"#;
        assert!(matches!(told(parts), Err(FolderError::Unsupported { part: "embedding", .. })));
        std::fs::remove_file(&config).unwrap();
        std::fs::create_dir(&config).unwrap();
        assert!(matches!(refused(), FolderError::Read { path, .. } if path == config));
    }
}
