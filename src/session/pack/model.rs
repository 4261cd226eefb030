//! The ONNX model that a session was loaded from, or that its packed model was made from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln_model::Graph;
use kiln_model::onnx;
use kiln_tensor::Backing;

use super::super::{Session, SessionOptions};
use crate::packed::folder::Files;

/// The model that a session was loaded from.
pub(in super::super) struct Model {
    pub(super) path: PathBuf,
    pub(super) files: Files,
    pub(super) options: SessionOptions,
}

impl Model {
    /// The model at `path`, whose graph has been imported; `None` where its files are not found.
    pub(in super::super) fn of(path: &Path, graph: &Graph, options: &SessionOptions) -> Option<Model> {
        Some(Model::new(path, files_of(path, &[graph])?, options))
    }

    /// The model at `path`, in these files.
    fn new(path: &Path, files: Files, options: &SessionOptions) -> Model {
        Model { path: path.to_owned(), files, options: options.clone() }
    }
}

impl Session {
    /// Serves requests that a packed model alone cannot serve by the model at `path`, in these files.
    pub(super) fn of_model(self, path: &Path, files: Files, options: &SessionOptions) -> Session {
        let (model, own) = (Model::new(path, files.clone(), options), path.to_owned());
        let read = move |options: &SessionOptions| Ok(onnx::load(&own, &options.onnx_limits())?);
        let mut session = self.with_source(files, options, Box::new(read));
        session.model = Some(model);
        session
    }
}

/// The files of the model at `path`, from which `graphs` were imported; `None` where one is no longer found.
pub(super) fn files_of(path: &Path, graphs: &[&Graph]) -> Option<Files> {
    // Models name their files relative to their folder: the folder of the path, or of the file that a link leads to.
    let whole = std::fs::canonicalize(path).ok()?;
    let beside = [path, whole.as_path()].map(|path| path.parent().unwrap_or(Path::new("")));
    let backings = graphs.iter().flat_map(|graph| &graph.backings).filter(|backing| backing.is_on_disk());
    let place = |backing: &Arc<Backing>| {
        let own = beside.iter().map(|folder| folder.join(backing.path())).chain([backing.path().to_owned()]);
        own.into_iter().find(|path| backing.is_at(path))
    };
    let others = backings.map(place).collect::<Option<Vec<PathBuf>>>()?;
    Files::of(path, others.iter().map(PathBuf::as_path)).ok()
}
