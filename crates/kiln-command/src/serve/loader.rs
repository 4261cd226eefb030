//! Loads models of the server: sessions, and language models where this build has them. All share threads and cache.

use std::path::Path;
use std::sync::Arc;

use kiln::session::{Held, ProcessMemory};
use kiln::{Cache, Session, SessionOptions};
use kiln_serve::{Loader, Model};

#[cfg(feature = "generate")]
use super::language::Speaker;
use super::model::Served;
use super::room::Room;

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

    #[cfg(feature = "generate")]
    fn language(&self, folder: &Path) -> Result<Arc<dyn Model>, String> {
        let speaker = Speaker::load(folder, &self.options, self.room);
        speaker.map(|speaker| Arc::new(speaker) as Arc<dyn Model>).map_err(|failure| failure.line().unwrap_or_default())
    }

    #[cfg(not(feature = "generate"))]
    fn language(&self, _: &Path) -> Result<Arc<dyn Model>, String> {
        Err("it is a language model, and this build has no feature 'generate'".to_owned())
    }
}

impl Loader for Sessions {
    fn load(&self, file: &Path) -> Result<Arc<dyn Model>, String> {
        let folder = file.parent().unwrap_or(Path::new(""));
        let is_language = file.file_name().is_some_and(|name| name == "genai_config.json");
        let loaded = if is_language { self.language(folder) } else { self.session(file) };
        // Clients may see the text, and must not see paths.
        let shown = format!("{}/", folder.display());
        loaded.map_err(|text| if shown == "/" { text } else { text.replace(&shown, "") })
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let Held { weights, tensors, records, .. } = ProcessMemory::now().held;
        let [weights, tensors, records] = [weights, tensors, records].map(|bytes| bytes as u64);
        let executors = self.cache.account().bytes() as u64;
        vec![("executors", executors), ("weights", weights), ("tensors", tensors), ("records", records)]
    }
}
