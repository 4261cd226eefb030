//! What can be wrong with a model. Each variant carries what a reader needs to find the place.

use std::path::PathBuf;

/// Why a model could not be loaded (or written).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file could not be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The path names a folder, a pipe or a device.
    #[error("{path} is not a regular file")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The bytes are no protobuf message of the kind expected.
    #[error("not an ONNX file: {0}")]
    Wire(String),
    /// A bound of [`Limits`](super::Limits) is exceeded.
    #[error("{place}: {what} is {found}, and the limit is {limit}")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// The count.
        found: u64,
        /// The bound.
        limit: u64,
        /// Where.
        place: String,
    },
    /// The model asks for operator sets that are not known here.
    #[error("operator set {version} of domain {domain:?} is not known; the newest known is {newest}")]
    Opset {
        /// The domain, "" for ONNX's own.
        domain: String,
        /// The version asked for.
        version: i64,
        /// The newest version known.
        newest: i64,
    },
    /// A tensor is not whole or not of a kind that is known.
    #[error("{place}: {problem}")]
    Tensor {
        /// Which tensor.
        place: String,
        /// What is wrong with it.
        problem: TensorProblem,
    },
    /// An attribute cannot be read.
    #[error("{place}: attribute {attribute}: {reason}")]
    Attribute {
        /// The node.
        place: String,
        /// The attribute.
        attribute: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Two things have one name.
    #[error("{what} {name} is defined twice")]
    Duplicate {
        /// What they are.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name is used that nothing defines.
    #[error("{place}: {name} is not defined")]
    Undefined {
        /// The name.
        name: String,
        /// Who uses it.
        place: String,
    },
    /// Nodes wait for each other.
    #[error("the graph has a cycle through {node}")]
    Cycle {
        /// One of the nodes.
        node: String,
    },
    /// Something that ONNX allows and Kiln does not read.
    #[error("{place}: {what} is not supported")]
    Unsupported {
        /// What it is.
        what: String,
        /// Where.
        place: String,
    },
    /// Something that ONNX does not allow.
    #[error("{place}: {reason}")]
    Malformed {
        /// Where.
        place: String,
        /// What is wrong.
        reason: String,
    },
}

/// What is wrong with a tensor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorProblem {
    /// An element type that Kiln does not compute with.
    #[error("element type {0} is not supported")]
    Type(String),
    /// A negative dimension, or dimensions whose product cannot be counted.
    #[error("dimensions {0:?} are not a shape")]
    Dims(Vec<i64>),
    /// The data is not as long as the dimensions say.
    #[error("its shape needs {need} {unit}, and it has {found}")]
    Length {
        /// Needed.
        need: u64,
        /// Present.
        found: u64,
        /// What is counted.
        unit: &'static str,
    },
    /// An element that its type cannot hold.
    #[error("element {value} does not fit type {dtype}")]
    Element {
        /// The element.
        value: i64,
        /// The type.
        dtype: &'static str,
    },
    /// A string that is not UTF-8.
    #[error("a string is not UTF-8")]
    Text,
    /// The tensor is a part of another one.
    #[error("segmented tensors are not supported")]
    Segment,
    /// Data in two places, of which only one can be right.
    #[error("it has data in more than one field")]
    Ambiguous,
    /// Data outside the model that cannot be taken.
    #[error("external data: {0}")]
    External(#[from] ExternalProblem),
}

/// What is wrong with data that lies in a file beside the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExternalProblem {
    /// The model came from memory, so that there is no folder to look in.
    #[error("the model was not loaded from a folder")]
    NoFolder,
    /// A location that is empty, absolute, or climbs out of the folder.
    #[error("location {0} is not a path below the model's folder")]
    Location(String),
    /// The file could not be opened or read; a symbolic link on the way is among the reasons.
    #[error("cannot read {location}: {source}")]
    Io {
        /// The location.
        location: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A folder, a pipe, a device.
    #[error("{0} is not a regular file")]
    NotAFile(String),
    /// A file that has a second name, which may lie outside the folder.
    #[error("{0} is hard-linked from elsewhere")]
    HardLink(String),
    /// An offset or length that is no number.
    #[error("{key} {value} is not a number of bytes")]
    Number {
        /// The entry.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// A part that the file does not have.
    #[error("{location} has {size} bytes, not {length} from {offset}")]
    Range {
        /// The location.
        location: String,
        /// Where the part starts.
        offset: u64,
        /// How long it is.
        length: u64,
        /// The file's size.
        size: u64,
    },
    /// Tensors that together read a file many times over.
    #[error("{0} is read more often than its size allows")]
    Repeated(String),
}

/// A name for a message: quoted, escaped, and cut where it is long, because names come from the file.
pub(super) fn shown(name: &str) -> String {
    const LONGEST: usize = 80;
    if name.chars().count() <= LONGEST {
        return format!("{name:?}");
    }
    let start: String = name.chars().take(LONGEST).collect();
    format!("{start:?}...")
}
