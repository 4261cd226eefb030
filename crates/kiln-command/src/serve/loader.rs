//! Loads models of the server: sessions, and language models where this build has them. All share threads and cache.

use std::path::Path;
use std::sync::Arc;

use kiln::session::{Held, ProcessMemory};
use kiln::{Cache, Session, SessionOptions};
#[cfg(feature = "generate")]
use kiln::{Decoder, DecoderError};
use kiln_serve::{Loader, Model};

#[cfg(feature = "generate")]
use super::language::Speaker;
use super::model::Served;
use super::room::Room;
#[cfg(feature = "generate")]
use crate::failure::{Code, Failure, Outcome};
#[cfg(feature = "generate")]
use crate::generate::{folder::Folder, hub};
use crate::packable;

/// Refuses a folder that asks for beams.
#[cfg(feature = "generate")]
fn check_beams(config: &Folder) -> Outcome {
    config.search.beams()?.map_or(Ok(()), |beams| {
        let what = format!("num_beams is {beams}: texts are served without beams");
        Err(Failure::new(Code::Unsupported, anyhow::anyhow!(what)))
    })
}

/// Loads sessions that share threads and cache.
pub(super) struct Sessions {
    options: SessionOptions,
    cache: Arc<Cache>,
    #[cfg_attr(not(feature = "generate"), allow(dead_code, reason = "this build has no language models"))]
    room: Room,
}

impl Sessions {
    pub(super) fn new(options: SessionOptions, cache: Arc<Cache>, room: Room) -> Sessions {
        Sessions { options, cache, room }
    }

    fn session(&self, file: &Path) -> Result<Arc<dyn Model>, String> {
        let session = Session::load(file, &self.options).map_err(|error| error.to_string())?;
        let model = Served::new(session);
        model.warm();
        Ok(Arc::new(model))
    }

    /// A language model that onnxruntime-genai's builder wrote.
    #[cfg(feature = "generate")]
    fn built(&self, home: &Path) -> Outcome<Arc<dyn Model>> {
        let config = Folder::read(home)?;
        check_beams(&config)?;
        let decoder = config.load(&self.options)?;
        self.speaker(home, config, decoder)
    }

    /// A language model that optimum or transformers.js exported; `None` for a model that continues no texts, because
    /// it is no causal language model or has no cache.
    #[cfg(feature = "generate")]
    fn exported(&self, file: &Path) -> Outcome<Option<Arc<dyn Model>>> {
        let Some(home) = hub::home_of(file)? else { return Ok(None) };
        let config = hub::read(&home, Some(file.strip_prefix(&home).unwrap_or(file)))?;
        check_beams(&config)?;
        match config.load(&self.options) {
            Err(DecoderError::Model(reason)) => {
                tracing::warn!(model = %file.display(), reason, "a language model is served as tensors");
                Ok(None)
            }
            decoder => self.speaker(&home, config, decoder?).map(Some),
        }
    }

    #[cfg(feature = "generate")]
    fn speaker(&self, home: &Path, config: Folder, decoder: Decoder) -> Outcome<Arc<dyn Model>> {
        Ok(Arc::new(Speaker::new(home, config, decoder, self.room)?))
    }

    /// The model of that file, or of the folder that was `built`.
    #[cfg(feature = "generate")]
    fn model(&self, file: &Path, built: Option<&Path>) -> Result<Arc<dyn Model>, String> {
        let language = match built {
            Some(folder) => self.built(folder).map(Some),
            None => self.exported(file),
        };
        match language.map_err(|failure| failure.line().unwrap_or_default())? {
            Some(language) => Ok(language),
            None => self.session(file),
        }
    }

    #[cfg(not(feature = "generate"))]
    fn model(&self, file: &Path, built: Option<&Path>) -> Result<Arc<dyn Model>, String> {
        if built.is_some() {
            return Err("it is a language model, and this build has no feature 'generate'".to_owned());
        }
        self.session(file)
    }
}

impl Loader for Sessions {
    fn load(&self, file: &Path) -> Result<Arc<dyn Model>, String> {
        let folder = file.parent().unwrap_or(Path::new(""));
        let built = Some(folder).filter(|folder| packable::config_of(folder) == file);
        let loaded = self.model(file, built);
        let home = built.map_or_else(|| packable::home_of(file), Path::to_owned);
        // Clients may see the text, and must not see paths.
        let shown = format!("{}/", home.display());
        loaded.map_err(|text| if shown == "/" { text } else { text.replace(&shown, "") })
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let Held { weights, tensors, records, .. } = ProcessMemory::now().held;
        let [weights, tensors, records] = [weights, tensors, records].map(|bytes| bytes as u64);
        let executors = self.cache.account().bytes() as u64;
        vec![("executors", executors), ("weights", weights), ("tensors", tensors), ("records", records)]
    }
}
