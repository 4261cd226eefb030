//! ONNX files: the only module that knows protobuf. A model comes in as bytes and leaves as a [`Graph`].
//!
//! A model is untrusted input. Everything in it is checked here once, so that no later floor has to ask again whether
//! a name is defined, a tensor has the bytes that its shape needs, or a graph ends: [`load`] gives a graph whose nodes
//! are in order, whose values are made once, and whose constants are whole, or a [`ModelError`] that names the place.
//! What an operator's attributes and inputs may be is the operator's own affair (`ops`).
//!
//! - `import` walks the graph, `node` its nodes with their attributes and bodies, `function` expands functions that the
//!   model brings along, `standard` those that it need not, `order` sorts.
//! - `source` reads the file, `tensor` is the one gate for every tensor, `external` for those that lie in files beside
//!   the model.
//! - `data` reads what test cases keep beside models.
//! - `write` goes the other way: for tests, the demonstration and fuzzing.
//! - `proto` is generated from `onnx.proto` (a test keeps the two together).

mod data;
mod declare;
mod error;
mod external;
mod function;
mod import;
mod limits;
mod node;
mod order;
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]
#[rustfmt::skip]
mod proto;
mod source;
mod standard;
mod tensor;
mod write;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use crate::graph::Graph;
use crate::tensor::Backing;

pub use data::{read_tensor, read_value};
pub use error::{ExternalProblem, ModelError, TensorProblem};
pub use limits::Limits;
pub use write::{write, write_tensor};

use declare::{declared_dims, declared_type, dtype_code, dtype_of};
use error::shown;
use external::External;
use function::Functions;
use import::{Body, Importer, Opsets, Scope};
use node::place_of;
use source::Source;
use tensor::{import_tensor, tensor_proto};

/// The newest operator set of ONNX's own domain whose operators are known here (ONNX 1.23).
pub const NEWEST_OPSET: i64 = 28;

/// Reads a model file. Tensors that it keeps in other files are looked for in its folder.
///
/// Large tensors stay in their files until their elements are asked for: [`Graph::backings`] lists the files, and
/// [`read_whole`] says whether they could be read. Loading a [`Session`](crate::session::Session) asks for all that it needs.
///
/// # Errors
///
/// Whatever is wrong with the file, the model in it, or the files that it names.
pub fn load(path: &Path, limits: &Limits) -> Result<Graph, ModelError> {
    let io = |source| ModelError::Io { path: path.to_owned(), source };
    // Asked before opening, because opening a pipe would wait for whoever writes into it.
    let info = std::fs::metadata(path).map_err(io)?;
    if !info.is_file() {
        return Err(ModelError::NotAFile { path: path.to_owned() });
    }
    limits.check("the file's size in bytes", info.len(), limits.file_bytes, || path.display().to_string())?;
    let size = usize::try_from(info.len()).unwrap_or(usize::MAX);
    let backing = Backing::new(path, File::open(path).map_err(io)?);
    let source = Source::file(backing, size);
    let folder = path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    read_model(source, folder, limits)
}

/// Reads a model from memory. `folder` is where files that it names are looked for; without one such names are errors.
///
/// # Errors
///
/// As [`load`].
pub fn load_bytes(bytes: Bytes, folder: Option<&Path>, limits: &Limits) -> Result<Graph, ModelError> {
    limits.check("the file's size in bytes", bytes.len() as u64, limits.file_bytes, || "the model".to_owned())?;
    read_model(Source::memory(bytes), folder, limits)
}

fn read_model(mut source: Source, folder: Option<&Path>, limits: &Limits) -> Result<Graph, ModelError> {
    let model = proto::ModelProto::decode(&mut source);
    let inline = source.finish();
    // What a decoder says of bytes that could not be read is of no interest.
    inline.backing().map_or(Ok(()), read_whole)?;
    let model = model.map_err(|error| ModelError::Wire(error.to_string()))?;
    import::import(model, External::new(folder, inline), limits)
}

/// Whether all that was asked of a file so far could be read.
///
/// # Errors
///
/// [`ModelError::Io`] with the first reading error since the last time.
pub fn read_whole(backing: &Arc<Backing>) -> Result<(), ModelError> {
    let failed = |source| Err(ModelError::Io { path: backing.path().to_owned(), source });
    backing.failure().map_or(Ok(()), failed)
}
