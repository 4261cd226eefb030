//! ONNX files: the only module with protobuf. A model is read from bytes into a [`Graph`].
//!
//! A model is untrusted input. Everything in it is checked here once, so that no later floor has to check whether a
//! name is defined, a tensor has the bytes of its shape, or a graph is finite: [`load`] returns a graph whose nodes are
//! in order, whose values are made once, and whose constants are complete, or a [`ModelError`] with the place of the
//! fault. An operator's attributes and inputs are checked by the operator (`ops`).
//!
//! - `import` reads graphs and their nodes, `opsets` the versions that they are written for. `function` expands
//!   functions that the model defines, `standard` functions that ONNX defines, `contrib` operators of ONNX Runtime that
//!   other operators can compute; all three write a `draft`; `order` sorts. `nchwc` rewrites what ONNX Runtime has
//!   optimised for a processor.
//! - `source` reads the file, every tensor comes through `tensor`, `external` reads those in files beside the model,
//!   which `folders` opens and `handed` has in memory; `claims` holds their sizes against what may be taken.
//! - `weigh` bounds the memory of a model's messages before they are decoded. `url` reads `file://` names of models.
//!   `data` reads the values of test cases.
//! - `write` writes models: for tests, the demonstration and fuzzing. `built` checks graphs that programs build.
//! - `proto` is generated from `onnx.proto` (a test compares them).

mod adapter;
mod built;
mod claims;
mod coefficients;
mod contrib;
mod cross;
mod data;
mod declare;
mod draft;
mod error;
mod external;
pub mod flat;
mod folders;
mod function;
mod handed;
mod import;
mod limits;
mod nchwc;
mod opsets;
mod order;
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]
#[rustfmt::skip]
mod proto;
mod source;
mod sparse;
mod standard;
mod tensor;
mod unread;
mod url;
mod weigh;
mod write;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use kiln_kernels::memory::Refused;
use kiln_tensor::Backing;
use prost::Message;

use crate::Graph;

pub use adapter::Adapter;
pub use built::check_built;
pub use bytes::Bytes;
pub use data::{read_tensor, read_value};
pub use error::shown;
pub use error::{ExternalProblem, ModelError, TensorProblem};
pub use folders::{Folders, Single};
pub use handed::ExternalData;
pub use limits::Limits;
pub use url::path_of;
pub use write::{write, write_tensor};

use declare::{declared_dims, declared_type, dtype_code, dtype_of};
use error::place_of;
use external::{Beside, External};
use source::Source;
use tensor::{import_tensor, tensor_proto};
use weigh::From;

/// Domains and names of the operators that are expanded when a model is read.
pub fn expanded() -> impl Iterator<Item = (&'static str, &'static str)> {
    contrib::all().chain(nchwc::all())
}

/// The newest operator set of ONNX's own domain that is supported (ONNX 1.23).
pub const NEWEST_OPSET: i64 = 28;

/// Reads a model file. Tensors in other files are looked for in its folder.
///
/// A path that begins with `file://` is a URL ([`path_of`]). The file and those beside it may be symbolic links. These
/// must end in the folder of `path`, in the folder of the file that `path` leads to, or below one of them: in a Hugging
/// Face cache, whose files are links from `snapshots/REVISION` to `blobs`, models load where they are.
///
/// Large tensors stay in their files until their elements are needed: [`Graph::backings`] lists the files, and
/// [`read_whole`] returns their reading errors. Loading a session reads all that it needs.
///
/// # Errors
///
/// Any fault of the file, the model in it, or the files that it names.
pub fn load(path: &Path, limits: &Limits) -> Result<Graph, ModelError> {
    load_with(path, ExternalData::new(), limits)
}

/// Reads a model file as [`load`] does, with data that the program hands over. If that data has files, tensors in other
/// files are looked for only there.
///
/// # Errors
///
/// As [`load`] and [`load_bytes_with`].
pub fn load_with(path: &Path, external: ExternalData, limits: &Limits) -> Result<Graph, ModelError> {
    refusable(|| load_file(path, external, limits))
}

fn load_file(path: &Path, external: ExternalData, limits: &Limits) -> Result<Graph, ModelError> {
    let path = &*path_of(path)?;
    let io = |source| ModelError::Io { path: path.to_owned(), source };
    // Checked before opening, because opening a pipe waits for a writer.
    let info = std::fs::metadata(path).map_err(io)?;
    if !info.is_file() {
        return Err(ModelError::NotAFile { path: path.to_owned() });
    }
    limits.check_size(info.len(), || path.display().to_string())?;
    let size = usize::try_from(info.len()).unwrap_or(usize::MAX);
    let file = File::open(path).map_err(io)?;
    let mut external = external;
    let initialisers = std::mem::take(&mut external.initialisers);
    let beside = match external.is_empty() {
        true => Folders::of_model(path, &file).map_or(Beside::Nowhere, Beside::Folders),
        false => Beside::Handed(external),
    };
    let backing = Backing::new(path, file);
    let mut start = [0; ARCHIVES[0].len()];
    if size >= start.len() {
        backing.read(0, &mut start);
    }
    check_archive(&start, || format!("{path:?}"))?;
    limits.check_weight(From::File(&backing, info.len()), || path.display().to_string())?;
    read_model(Source::file(backing, size), External::of(beside, initialisers), limits)
}

/// Reads a model from memory. Files that it names are looked for in `folder`; without a folder such names are errors.
///
/// # Errors
///
/// As [`load`].
pub fn load_bytes(bytes: Bytes, folder: Option<&Path>, limits: &Limits) -> Result<Graph, ModelError> {
    limits.check_size(bytes.len() as u64, || "the model".to_owned())?;
    check_archive(&bytes, || "the model".to_owned())?;
    limits.check_weight(From::Memory(&bytes), || "the model".to_owned())?;
    let beside = folder.map_or(Beside::Nowhere, |folder| Beside::Folders(Folders::one(folder)));
    let external = External::of(beside, HashMap::new());
    refusable(|| read_model(Source::memory(bytes), external, limits))
}

/// How zip archives begin: with a member, or empty ones with the end of their list. As protobuf, the third byte would
/// be a tag of field 0, which does not exist.
const ARCHIVES: [[u8; 4]; 2] = [*b"PK\x03\x04", *b"PK\x05\x06"];

fn check_archive(bytes: &[u8], place: impl FnOnce() -> String) -> Result<(), ModelError> {
    match bytes.first_chunk().is_some_and(|start| ARCHIVES.contains(start)) {
        true => Err(ModelError::Archive { place: place() }),
        false => Ok(()),
    }
}

/// Runs work that may be refused memory.
fn refusable<T>(work: impl FnOnce() -> Result<T, ModelError>) -> Result<T, ModelError> {
    Refused::catch(work).unwrap_or_else(|refused| Err(ModelError::Memory(refused)))
}

/// Reads a model from memory whose tensors in other files are in memory, too. A location that is not in `external` is
/// an error that names it ([`ExternalProblem::NotHanded`]), and so is a range that its file does not have.
///
/// # Errors
///
/// As [`load`].
pub fn load_bytes_with(bytes: Bytes, external: ExternalData, limits: &Limits) -> Result<Graph, ModelError> {
    limits.check_size(bytes.len() as u64, || "the model".to_owned())?;
    check_archive(&bytes, || "the model".to_owned())?;
    limits.check_weight(From::Memory(&bytes), || "the model".to_owned())?;
    let mut external = external;
    let initialisers = std::mem::take(&mut external.initialisers);
    let external = External::of(Beside::Handed(external), initialisers);
    refusable(|| read_model(Source::memory(bytes), external, limits))
}

fn read_model(mut source: Source, mut external: External, limits: &Limits) -> Result<Graph, ModelError> {
    let model = proto::ModelProto::decode(&mut source);
    let inline = source.finish();
    // The reading error comes first: missing bytes can cause any decoding error.
    inline.backing().map_or(Ok(()), read_whole)?;
    let model = model.map_err(|error| ModelError::Wire(error.to_string()))?;
    external.inline = inline;
    import::import(model, external, limits)
}

/// Checks that all reads of a file so far succeeded.
///
/// # Errors
///
/// [`ModelError::Io`] with the first reading error since the last call.
pub fn read_whole(backing: &Arc<Backing>) -> Result<(), ModelError> {
    let failed = |source| Err(ModelError::Io { path: backing.path().to_owned(), source });
    backing.failure().map_or(Ok(()), failed)
}
