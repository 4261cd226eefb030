//! Packed models that sessions make and find automatically, in the folder of the records ([`PackFolder`]).
//!
//! A model without a packed model is loaded from its ONNX file, and packed afterwards by a separate thread. A faulty
//! packed model never fails a load: it costs a line of output and the time of loading the ONNX file.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kiln_fork::Origin;
use kiln_knobs::Pack;
use kiln_model::Graph;
use kiln_run::record::CacheMode;

use super::super::{LoadClock, Session, SessionError, SessionOptions};
use super::model::files_of;
use super::{User, made_for};
use crate::packed::folder::{Files, Found, PackFolder};
use crate::packed::{PackedError, Verify};

/// Counts of packed models in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackStats {
    /// Loads from a packed model that was found, or given ([`Session::load_cache`]).
    pub found: u64,
    /// Loads of a model that had none.
    pub missing: u64,
    /// Packed models that were found, or given, and could not be used.
    pub refused: u64,
    /// Packed models that were made.
    pub made: u64,
}

static FOUND: AtomicU64 = AtomicU64::new(0);
static MISSING: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);
static MADE: AtomicU64 = AtomicU64::new(0);

impl PackStats {
    /// The counts of this process.
    #[must_use]
    pub fn of_process() -> PackStats {
        let [found, missing, refused, made] =
            [&FOUND, &MISSING, &REFUSED, &MADE].map(|count| count.load(Ordering::Relaxed));
        PackStats { found, missing, refused, made }
    }
}

/// The folder of a session's packed models, if the session uses any.
pub(super) fn folder(options: &SessionOptions) -> Option<PackFolder> {
    let has_files = matches!(options.cache_mode, CacheMode::Read | CacheMode::ReadWrite) && options.optimize;
    let records = options.cache_dir.as_ref().filter(|_| has_files)?;
    Some(PackFolder::beside(records, options.pack_bytes))
}

/// The folder where packed models are made and looked for automatically.
fn own_folder(options: &SessionOptions) -> Option<PackFolder> {
    let is_wanted = options.pack == Pack::Auto && options.taps.is_empty() && !is_for_device(options);
    folder(options).filter(|_| is_wanted)
}

/// Whether nodes are placed on a device: then no packed model is used.
pub(super) fn is_for_device(options: &SessionOptions) -> bool {
    options.device.is_some()
}

/// Counts a load from a packed model.
pub(super) fn count_found() {
    FOUND.fetch_add(1, Ordering::Relaxed);
}

/// Counts a packed model that could not be used.
pub(super) fn count_refused() {
    REFUSED.fetch_add(1, Ordering::Relaxed);
}

impl Session {
    /// The session of the packed model that is kept for the model at `path`, if there is one that can be used.
    pub(in super::super) fn find_packed(
        path: &Path,
        name: &str,
        options: &SessionOptions,
        begun: &LoadClock,
    ) -> Result<Option<Session>, SessionError> {
        find(path, &User::Session, options, |found, own| {
            let session = Session::load_packed(&found.path, name.to_owned(), &User::Session, own, begun)?;
            Ok(session.of_model(path, found.files.clone(), options))
        })
    }
}

/// The result of `load` for the packed model that is kept for the model at `path` and that user, if there is a usable
/// one. `load` gets the options to load it with.
pub(in super::super) fn find<T>(
    path: &Path,
    user: &User,
    options: &SessionOptions,
    load: impl FnOnce(&Found, &SessionOptions) -> Result<T, SessionError>,
) -> Result<Option<T>, SessionError> {
    let Some(folder) = own_folder(options) else { return Ok(None) };
    let Some(found) = folder.find(path, &made_for(options, user)) else {
        MISSING.fetch_add(1, Ordering::Relaxed);
        return Ok(None);
    };
    let verify = if found.verified { Verify::Never } else { Verify::Each };
    let own = SessionOptions { pack_verify: verify, ..options.clone() };
    match load(&found, &own) {
        Ok(loaded) => {
            if !found.verified {
                folder.verified(&found);
            }
            count_found();
            Ok(Some(loaded))
        }
        Err(SessionError::Packed(error)) => {
            count_refused();
            tracing::warn!(%error, "the packed model is not used; the ONNX file is loaded");
            if options.cache_mode == CacheMode::ReadWrite {
                folder.forget(&found);
            }
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

/// A thread that packs a model after its load.
pub(in super::super) struct Packer {
    worker: Option<JoinHandle<()>>,
    origin: Origin,
}

impl Packer {
    /// Prepares to pack the model at `path`, from which `graphs` were imported; `None` where that is not wanted.
    pub(in super::super) fn wanted(path: &Path, graphs: &[&Graph], options: &SessionOptions) -> Option<Waiting> {
        let folder = own_folder(options).filter(|_| options.cache_mode == CacheMode::ReadWrite)?;
        Some(Waiting { folder, files: files_of(path, graphs)? })
    }

    /// Waits until it has ended, or until the timeout; returns whether it has ended.
    pub(in super::super) fn settle(&self, timeout: Duration) -> bool {
        let begun = Instant::now();
        let ended = || !self.origin.is_here() || self.worker.as_ref().is_none_or(JoinHandle::is_finished);
        while !ended() && begun.elapsed() < timeout {
            std::thread::sleep(Duration::from_millis(1).min(timeout));
        }
        ended()
    }
}

impl Drop for Packer {
    /// A packed model that was begun is finished: the next process can use it.
    fn drop(&mut self) {
        if !self.origin.is_here() {
            return std::mem::forget(self.worker.take());
        }
        if let Some(worker) = self.worker.take() {
            // If it panics, only its packed model is lost.
            let _ = worker.join();
        }
    }
}

/// A model that is to be packed once its session is loaded.
pub(in super::super) struct Waiting {
    folder: PackFolder,
    files: Files,
}

impl Waiting {
    /// Has `pack` write the packed model in the background, for that user.
    pub(in super::super) fn start(
        self,
        user: &User,
        options: &SessionOptions,
        pack: impl FnOnce(&Path, &SessionOptions) -> Result<(), SessionError> + Send + 'static,
    ) -> Option<Packer> {
        let own = SessionOptions {
            threads: 1,
            pool: None,
            cache: None,
            records: None,
            remote: None,
            cache_mode: CacheMode::Memory,
            load_time_limit: None,
            load_cancel: None,
            // It is kept in another folder than the model's files.
            pack_weightless: false,
            ..options.clone()
        };
        // The level, and facts that depend on it, are the session's.
        let made_for = made_for(options, user);
        let work = move || {
            let pack = |to: &Path| pack(to, &own);
            match self.folder.keep(&self.files, &made_for, pack) {
                Ok(made) => drop(MADE.fetch_add(u64::from(made), Ordering::Relaxed)),
                Err(SessionError::Packed(PackedError::Unsupported(reason))) => tracing::debug!(reason, "not packed"),
                Err(error) => tracing::warn!(%error, "the model was not packed; the next process loads the ONNX file"),
            }
        };
        match std::thread::Builder::new().name("kiln-pack".to_owned()).spawn(work) {
            Ok(worker) => Some(Packer { worker: Some(worker), origin: Origin::here() }),
            Err(error) => {
                tracing::warn!(%error, "no thread to pack the model with");
                None
            }
        }
    }
}
