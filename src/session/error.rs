//! Why a session could not be made, or a request could not be served.

use kiln_kernels::memory::Refused;
use kiln_model::onnx::ModelError;
use kiln_model::{Stop, Stopped};
use kiln_run::{NodeError, RunError};
use kiln_tensor::TensorSpec;
use kiln_tensor::threads::ThreadsError;

use crate::packed::PackedError;

/// Why a session could not be made, or a request could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The model file could not be read as a model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model needs features that Kiln does not support; lists all.
    #[error("the model is not supported: {}", .0.join("; "))]
    Unsupported(Vec<String>),
    /// A node breaks its operator's rules.
    #[error("node '{node}': {reason}")]
    InvalidNode {
        /// The node.
        node: String,
        /// The fault.
        reason: String,
    },
    /// An input of a request is missing, unknown, or of another type or shape than the model declares.
    #[error("input '{name}': {reason}")]
    Input {
        /// The input.
        name: String,
        /// The fault.
        reason: String,
    },
    /// Two dimensions of inputs that have one name in the model differ, and the graph without its names is not
    /// available: a model that came from memory has freed its weights.
    #[error(
        "dimension '{name}' is {} in input '{}' (axis {}) and {} in input '{}' (axis {})",
        first.2, first.0, first.1, second.2, second.0, second.1
    )]
    Dimension {
        /// The dimension.
        name: String,
        /// An input, its axis, and the size there.
        first: (String, usize, usize),
        /// Another input, its axis, and the size there.
        second: (String, usize, usize),
    },
    /// An output is not a tensor where the request asks for one ([`Session::run_values`](super::Session::run_values)
    /// takes other values too), or cannot be bound to the memory that the request has for it.
    #[error("output '{name}': {reason}")]
    Output {
        /// The output.
        name: String,
        /// The kind of the output, or the reason.
        reason: String,
    },
    /// An output is of another type or shape than the memory that it is bound to
    /// ([`Session::run_into`](super::Session::run_into)).
    #[error(
        "output '{name}': it is {} {:?}, bound to memory for {} {:?}",
        made.dtype, made.shape, bound.dtype, bound.shape
    )]
    Bound {
        /// The output.
        name: String,
        /// The type and shape that the memory is for.
        bound: TensorSpec,
        /// The type and shape that the model made.
        made: TensorSpec,
    },
    /// [`SessionOptions::taps`](super::SessionOptions::taps) names a value that is not in the model's graph.
    #[error("the graph has no value '{name}'; the nearest are {}", .near.join(", "))]
    UnknownValue {
        /// The name.
        name: String,
        /// Similar names of values, the most similar first.
        near: Vec<String>,
    },
    /// A node failed, or the request was ended early ([`RunError::stopped`]).
    #[error(transparent)]
    Run(#[from] RunError),
    /// Loading took longer than its limit.
    #[error("loading ended{}: {why}", before(node))]
    LoadStopped {
        /// The node that was not made; empty while the file, or data that nodes keep, is read.
        node: String,
        /// Why.
        why: Stopped,
    },
    /// There was too little memory for the sizes that the model asks for at load.
    #[error("loading ended{}: {refused}", before(node))]
    Memory {
        /// The node that was not made; empty while the file, or data that nodes keep, is read.
        node: String,
        /// The refused request.
        refused: Refused,
    },
    /// The device could not be prepared: it has no room for the model's constants.
    #[error("device: {0}")]
    Device(#[from] NodeError),
    /// A panic while loading: a fault of Kiln's own. [`SessionError::is_fault`] is true for those of requests, too.
    #[error("loading the model met a fault of Kiln's own, please report it: {0}")]
    Panicked(String),
    /// A packed model cannot be written or used.
    #[error(transparent)]
    Packed(#[from] PackedError),
    /// Threads could not be started.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
}

/// Where loading ended.
fn before(node: &str) -> String {
    if node.is_empty() { String::new() } else { format!(" before node '{node}' was made") }
}

impl SessionError {
    /// The error of loading that was refused memory, because `stop` has ended it or because there is none.
    pub(super) fn of_refused(refused: Refused, node: &str, stop: Option<&Stop>) -> SessionError {
        let node = node.to_owned();
        match (refused, stop.map(Stop::check)) {
            (Refused::Over { .. }, Some(Err(why))) => SessionError::LoadStopped { node, why },
            _ => SessionError::Memory { node, refused },
        }
    }

    /// Whether it comes from a panic: a fault of Kiln's own, whatever the model and the request are.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        match self {
            SessionError::Panicked(_) => true,
            SessionError::Run(error) => error.is_fault(),
            _ => false,
        }
    }
}
