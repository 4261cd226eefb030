//! Errors of models. Each variant carries the data to find the place.

use std::path::PathBuf;

use kiln_kernels::memory::Refused;

use super::proto::NodeProto;

/// Why a model could not be loaded (or written).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file could not be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// There is not enough memory, or loading was ended before there was.
    #[error(transparent)]
    Memory(Refused),
    /// The path names a folder, a pipe or a device.
    #[error("{path} is not a regular file")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The path names a zip archive, which may have models in it.
    #[error(
        "{place} is a zip archive and not a model: unpack it, or load a member of it (in Python: zipfile.Path(archive, \
         'MODEL.onnx'))"
    )]
    Archive {
        /// The file.
        place: String,
    },
    /// A `file://` URL that is no path of this machine.
    #[error("{url} is not the URL of a file: {reason}")]
    Url {
        /// The URL.
        url: String,
        /// The fault.
        reason: &'static str,
    },
    /// The model itself, without files beside it, is larger than [`Limits::file_bytes`](super::Limits::file_bytes).
    #[error(
        "{place} has {bytes} bytes, and the limit is {limit}; protobuf ends at 2 GiB: save the model with external \
         data, which keeps its tensors in a file beside it"
    )]
    TooLarge {
        /// The file.
        place: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The bytes are not a protobuf message of the expected kind.
    #[error("not an ONNX file: {0}")]
    Wire(String),
    /// A bound of [`Limits`](super::Limits) is exceeded.
    #[error("{place}: {what} is {found}, and the limit is {limit}")]
    Limit {
        /// The counted quantity.
        what: &'static str,
        /// The count.
        found: u64,
        /// The bound.
        limit: u64,
        /// Where.
        place: String,
    },
    /// The model needs an operator set that is not supported.
    #[error("operator set {version} of domain {domain:?} is not known; the newest known is {newest}")]
    Opset {
        /// The domain, "" for ONNX's own.
        domain: String,
        /// Its version.
        version: i64,
        /// The newest supported version.
        newest: i64,
    },
    /// A node's operator is newer than the operator set that the model imports. ONNX's checker and ONNX Runtime refuse
    /// such a model too: no standard defines the node's meaning.
    #[error("{place}: operator {operator} is defined from version {first} on, and the model imports version {opset}")]
    NotYetDefined {
        /// The node.
        place: String,
        /// The operator.
        operator: String,
        /// The first version of the operator set that has it.
        first: i64,
        /// The version that the model, or the function that the node is in, imports.
        opset: i64,
    },
    /// A tensor is invalid or of an unsupported kind.
    #[error("{place}: {problem}")]
    Tensor {
        /// Which tensor.
        place: String,
        /// The fault.
        problem: TensorProblem,
    },
    /// An attribute cannot be read.
    #[error("{place}: attribute {attribute}: {reason}")]
    Attribute {
        /// The node.
        place: String,
        /// The attribute.
        attribute: String,
        /// The fault.
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
    /// Nodes depend on each other in a cycle.
    #[error("the graph has a cycle through {node}")]
    Cycle {
        /// One of the nodes.
        node: String,
    },
    /// Something that ONNX allows and Kiln does not support.
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

/// The fault of a tensor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorProblem {
    /// An unsupported element type.
    #[error("element type {0} is not supported")]
    Type(String),
    /// A negative dimension, or a product of dimensions that overflows.
    #[error("dimensions {0:?} are not a shape")]
    Dims(Vec<i64>),
    /// The data is not as long as the dimensions say.
    #[error("its shape needs {need} {unit}, and it has {found}")]
    Length {
        /// Elements of the shape.
        need: u64,
        /// Elements of the data.
        found: u64,
        /// The unit of both.
        unit: &'static str,
    },
    /// An element that is out of its type's range.
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
    /// Data in two fields.
    #[error("it has data in more than one field")]
    Ambiguous,
    /// Data that, together with the tensors before it, exceed the limit
    /// ([`Limits::tensor_bytes`](super::Limits::tensor_bytes)).
    #[error("it has {need} bytes, and {room} may still be taken")]
    Memory {
        /// Its bytes.
        need: u64,
        /// Bytes left under the limit.
        room: u64,
    },
    /// Data of a file that is mostly a hole: its size is much larger than its data on disk.
    #[error("with the tensors before it it claims {claimed} bytes of a file that has {present} on its disk")]
    Holes {
        /// Bytes of all tensors in the file so far.
        claimed: u64,
        /// Bytes of the file that are not holes.
        present: u64,
    },
    /// Data outside of the model that cannot be read.
    #[error("external data: {0}")]
    External(#[from] ExternalProblem),
}

/// A fault of data in a file beside the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExternalProblem {
    /// The model came from memory, so there is no folder.
    #[error("the model came from memory without the file of location {0}: load it by its path, or hand the file over")]
    NoFolder(String),
    /// A location whose file is not among those that were handed over ([`ExternalData`](super::ExternalData)).
    #[error("location {0} is not among the files that were handed over")]
    NotHanded(String),
    /// A location that is empty, absolute, or leaves the folder.
    #[error("location {0} is not a path below the model's folder")]
    Location(String),
    /// A location that leads by symbolic links out of the model's folders: the folder of the path that named the model,
    /// and the folder of its real file.
    #[error("{0} is a link that leads out of the model's folder")]
    Outside(String),
    /// A location that passes too many symbolic links, or links that lead to each other.
    #[error("{location} passes more than {most} symbolic links")]
    Links {
        /// The location.
        location: String,
        /// How many it may pass.
        most: usize,
    },
    /// The file could not be opened or read.
    #[error("cannot read {location}: {source}")]
    Io {
        /// The location.
        location: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A folder, a pipe, a device.
    #[error("{0} is not a regular file")]
    NotAFile(String),
    /// A file with another hard link, which may be outside of the folder.
    #[error("{0} is hard-linked from elsewhere")]
    HardLink(String),
    /// An offset or length that is not a number.
    #[error("{key} {value} is not a number of bytes")]
    Number {
        /// The entry.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// A range that is not in the file.
    #[error("{location} has {size} bytes, not {length} from {offset}")]
    Range {
        /// The location.
        location: String,
        /// Offset of the range.
        offset: u64,
        /// Length of the range.
        length: u64,
        /// The file's size.
        size: u64,
    },
    /// Tensors that together read a file many times over.
    #[error("{0} is read more often than its size allows")]
    Repeated(String),
}

/// A name for a message: quoted, escaped, and shortened, because names come from the file.
pub fn shown(name: &str) -> String {
    const LONGEST: usize = 80;
    if name.chars().count() <= LONGEST {
        return format!("{name:?}");
    }
    let start: String = name.chars().take(LONGEST).collect();
    format!("{start:?}...")
}

/// A node's name for messages.
pub(super) fn place_of(proto: &NodeProto) -> String {
    let output = proto.output.iter().find(|name| !name.is_empty()).map_or("", String::as_str);
    match proto.name() {
        "" => format!("node {} that makes {}", shown(proto.op_type()), shown(output)),
        name => format!("node {} ({})", shown(name), shown(proto.op_type())),
    }
}
