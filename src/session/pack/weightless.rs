//! Packed models that refer to the model's files for weights that nodes read in the files' layout.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln_model::ir::{Attr, Graph};
use kiln_tensor::Backing;

use crate::packed::index::FileRow;
use crate::packed::references::{Referable, Stored};
use crate::packed::{PackedError, References};

/// The files of a model to whose parts the packed model `to` may refer.
///
/// # Errors
///
/// [`PackedError::Unsupported`] for a model that was not in files, and for a file that is not below the folder of `to`
/// or that was replaced since; [`PackedError::Io`] for a folder that is not there.
pub(super) fn references(backings: &[Arc<Backing>], to: &Path) -> Result<References, PackedError> {
    let on_disk: Vec<&Arc<Backing>> = backings.iter().filter(|backing| backing.is_on_disk()).collect();
    if on_disk.is_empty() {
        let reason = "it was not loaded from a file, and weights can stay only in files".to_owned();
        return Err(PackedError::Unsupported(reason));
    }
    let folder = parent(to);
    let folder = std::fs::canonicalize(folder).map_err(PackedError::io("find", folder))?;
    let beside = folders(&on_disk);
    let mut referable: Vec<Referable> = Vec::with_capacity(on_disk.len());
    for backing in on_disk {
        let shown = backing.path().display();
        // The model names its files from its own folder; its own path is from the working folder.
        let candidates = beside.iter().map(|folder| folder.join(backing.path())).chain([backing.path().to_owned()]);
        let found = candidates.filter(|path| backing.is_at(path)).find_map(|path| std::fs::canonicalize(path).ok());
        let path = found.ok_or_else(|| PackedError::Unsupported(format!("{shown} was replaced or has gone")))?;
        let below = path.strip_prefix(&folder).ok().and_then(Path::to_str);
        let location = below.ok_or_else(|| {
            let (path, folder) = (path.display(), folder.display());
            let places = format!("{path}, which is not below {folder}: write it to a folder above both");
            PackedError::Unsupported(format!("its weights are to stay in {places}"))
        })?;
        if referable.iter().any(|known| known.row.location == location) {
            continue;
        }
        let len = backing.file().map(std::fs::File::metadata).transpose().map_err(PackedError::io("look at", &path))?;
        let row = FileRow { location: location.to_owned(), len: len.map_or(0, |info| info.len()) };
        referable.push(Referable { backing: backing.clone(), row });
    }
    Ok(References::to(referable))
}

/// Where files have the elements of a graph's constants, and of those of its bodies.
pub(super) fn stored(graph: &Graph) -> Vec<Stored> {
    let constants = graph.constants.values().filter_map(|tensor| {
        let place = tensor.stored_in()?;
        let len = tensor.compact_form().map_or(tensor.byte_len(), |(form, _)| form.stored.byte_len());
        Some(Stored { place, len })
    });
    let attrs = graph.nodes.iter().flat_map(|node| node.attrs.values());
    let bodies = attrs.filter_map(|attr| if let Attr::Graph(body) = attr { Some(stored(body)) } else { None });
    constants.chain(bodies.flatten()).collect()
}

/// The folder of a file.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The folders of files by their paths, and by the paths that links lead to.
fn folders(files: &[&Arc<Backing>]) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for path in files.iter().map(|file| file.path()) {
        let real = std::fs::canonicalize(path).ok();
        for folder in [Some(parent(path)), real.as_deref().map(parent)].into_iter().flatten() {
            if !folders.iter().any(|known: &PathBuf| known == folder) {
                folders.push(folder.to_owned());
            }
        }
    }
    folders
}
