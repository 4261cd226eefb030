//! Packed models as a caller's files: written from a session's model, and given for later sessions of it
//! ([`CacheKind::Fusion`](super::super::CacheKind::Fusion)).
//!
//! A given packed model must be of the session's model, byte for byte. It is used while it and the model's files do not
//! change. A later fault costs a line of output and the time of loading the ONNX file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use kiln_fork::{Mutex, MutexGuard};
use kiln_run::record::CacheMode;
use kiln_tensor::threads::Threads;

use super::super::{LoadClock, Session, SessionError, SessionOptions};
use super::auto::{count_found, count_refused, folder, is_for_device};
use super::model::Model;
use super::{User, made_for};
use crate::packed::folder::Files;
use crate::packed::{MadeFor, PackedError, PackedFile, Verify, write};

/// A packed model that was given for a model.
struct Given {
    files: Files,
    made_for: MadeFor,
    path: PathBuf,
    file: Arc<PackedFile>,
}

/// The given packed models of this process, one for each model and set of facts.
static GIVEN: Mutex<Vec<Arc<Given>>> = Mutex::new(Vec::new());

fn given() -> MutexGuard<'static, Vec<Arc<Given>>> {
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Given {
    fn is_for(&self, model: &Path, made_for: &MadeFor) -> bool {
        self.files.model() == model && self.made_for == *made_for
    }
}

/// The options for work beside a session: it is not recorded, and the limit and the cancel of the session's load do not
/// end it.
fn apart(options: &SessionOptions, threads: &Threads) -> SessionOptions {
    SessionOptions {
        pool: Some(threads.clone()),
        cache: None,
        records: None,
        remote: None,
        cache_mode: CacheMode::Memory,
        rehearse: false,
        load_time_limit: None,
        load_cancel: None,
        ..options.clone()
    }
}

impl Session {
    /// Writes the packed model of the session's model; returns its bytes.
    pub(in super::super) fn save_packed(&self, to: &Path) -> Result<u64, SessionError> {
        match &self.packed {
            Some(file) if !file.is_weightless() => return Ok(write::copy(file.bytes(), to)?),
            Some(_) if self.model.is_none() => {
                let reason = "some of its weights are in other files, and a copy elsewhere would not find them";
                return Err(PackedError::Unsupported(reason.to_owned()).into());
            }
            _ => {}
        }
        let Model { path, files, options } = self.packable()?;
        if !files.are_unchanged() {
            return Err(PackedError::damaged(path, "it was changed since the session was loaded").into());
        }
        Session::pack(path, to, &apart(options, &self.threads)).map(|report| report.bytes)
    }

    /// Loads later sessions of the same model from the packed model at `from`.
    pub(in super::super) fn take_packed(&self, from: &Path) -> Result<(), SessionError> {
        let Model { path, files, options } = self.packable()?;
        let own = SessionOptions { pack_verify: Verify::Each, ..apart(options, &self.threads) };
        let begun = LoadClock::now(&own);
        let name = from.display().to_string();
        // Its header, index, digests and facts are checked as in any load, and its nodes are made.
        let load = || Session::load_packed(from, name.clone(), &User::Session, &own, &begun);
        let session = super::attempt(&name, &begun, load)?;
        let Some(file) = session.packed.clone() else {
            return Err(PackedError::damaged(from, "it has no packed weights").into());
        };
        let said = |digest: Option<[u8; 32]>| {
            digest.map_or("not said".to_owned(), |digest| blake3::Hash::from_bytes(digest).to_hex().to_string())
        };
        let (found, wanted) = (said(file.index().sources.digest), said(Some(files.digest()?.into())));
        if found != wanted || !files.are_unchanged() {
            let fact = format!("model than {}", path.display());
            return Err(PackedError::Other { path: from.to_owned(), fact, found, wanted }.into());
        }
        let made_for = made_for(options, &User::Session);
        // A packed model that refers to files beside it would not find them from another folder.
        let is_whole = !file.is_weightless();
        let writes = options.cache_mode == CacheMode::ReadWrite;
        if let Some(folder) = folder(options).filter(|_| writes && is_whole) {
            folder.keep(files, &made_for, |to| write::copy(file.bytes(), to).map(drop))?;
        }
        let from = std::fs::canonicalize(from).map_err(PackedError::io("find", from))?;
        let new = Arc::new(Given { files: files.clone(), made_for, path: from, file });
        // Dropped outside of the lock.
        let _old = {
            let mut given = given();
            let place = given.iter().position(|known| known.is_for(files.model(), &new.made_for));
            let old = place.map(|place| given.swap_remove(place));
            given.push(new);
            old
        };
        Ok(())
    }

    /// The model that can be packed.
    fn packable(&self) -> Result<&Model, SessionError> {
        self.model.as_ref().ok_or_else(|| {
            let reason = format!("'{}' was not loaded from an ONNX file", self.name);
            PackedError::Unsupported(reason).into()
        })
    }

    /// The session of the packed model that was given for the model at `path`, if there is a usable one.
    pub(in super::super) fn find_given(
        path: &Path,
        name: &str,
        options: &SessionOptions,
        begun: &LoadClock,
    ) -> Result<Option<Session>, SessionError> {
        if given().is_empty() || is_for_device(options) || !options.taps.is_empty() {
            return Ok(None);
        }
        let Ok(model) = std::fs::canonicalize(path) else { return Ok(None) };
        let made_for = made_for(options, &User::Session);
        let known = given().iter().find(|given| given.is_for(&model, &made_for)).cloned();
        let Some(known) = known.filter(|known| known.files.are_unchanged()) else { return Ok(None) };
        match known.load(name, options, begun) {
            Ok(session) => {
                count_found();
                Ok(Some(session.of_model(path, known.files.clone(), options)))
            }
            Err(SessionError::Packed(error)) => {
                count_refused();
                tracing::warn!(%error, "the packed model is not used; the ONNX file is loaded");
                given().retain(|given| !Arc::ptr_eq(given, &known));
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }
}

impl Given {
    fn load(&self, name: &str, options: &SessionOptions, begun: &LoadClock) -> Result<Session, SessionError> {
        let session = Session::load_packed(&self.path, name.to_owned(), &User::Session, options, begun)?;
        match session.packed.as_ref().is_some_and(|file| file.ids() == self.file.ids()) {
            true => Ok(session),
            false => Err(PackedError::damaged(&self.path, "it was changed since it was given").into()),
        }
    }
}
