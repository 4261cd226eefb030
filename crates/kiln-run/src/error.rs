//! Why a node, or a request at one of its nodes, could not be prepared or run.

use std::any::Any;

use kiln_kernels::KernelError;
use kiln_kernels::memory::Refused;
use kiln_model::ValueError;
use kiln_model::operators::error::ShapeError;
use kiln_model::stop::{Stop, Stopped};
use kiln_tensor::{TensorError, TensorSpec};

use crate::exec::BuildError;

/// Why a node could not be prepared or run. The graph adds the node's name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Inputs whose shapes, types or values the operator does not allow.
    #[error("{0}")]
    Input(String),
    /// Something the operator allows and Kiln does not do.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// Inputs whose shapes the operator does not allow.
    #[error(transparent)]
    Shape(#[from] Box<ShapeError>),
    /// A tensor could not be made, or is not of the type or shape that it should have.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A kernel refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// An executor could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A node of one of its bodies failed.
    #[error("in its body: {0}")]
    Body(Box<RunError>),
    /// The request was ended before the node was done.
    #[error("ended here: {0}")]
    Stopped(#[from] Stopped),
    /// An output of the graph will be of another type or shape than the memory that the request has bound it to.
    #[error(transparent)]
    Bound(Box<Mismatch>),
    /// A panic within the node: a fault of Kiln's own. The request is lost, the session serves the next one.
    #[error("a fault of Kiln's own, please report it: {0}")]
    Panicked(String),
    /// The request's loops, or one operator, reached a limit.
    #[error("{what}: more than the limit of {limit}")]
    Limit {
        /// What is counted.
        what: &'static str,
        /// The bound.
        limit: u64,
    },
}

impl NodeError {
    /// The error of a node that unwound: memory that it was refused, or a fault.
    #[must_use]
    pub(super) fn of_panic(panic: &(dyn Any + Send)) -> NodeError {
        match Refused::of_panic(panic) {
            Some(refused) => NodeError::Tensor(TensorError::Refused(refused)),
            None => NodeError::Panicked(panic_message(panic)),
        }
    }

    /// The same error; where memory was refused because the request was over, the reason for that.
    pub(super) fn within(self, stop: Option<&Stop>) -> NodeError {
        let is_over = matches!(
            self,
            NodeError::Tensor(TensorError::Refused(Refused::Over { .. }))
                | NodeError::Kernel(KernelError::Memory(Refused::Over { .. }))
                | NodeError::Build(BuildError::Kernel(KernelError::Memory(Refused::Over { .. })))
        );
        match stop.map(Stop::check) {
            Some(Err(stopped)) if is_over => NodeError::Stopped(stopped),
            _ => self,
        }
    }
}

impl From<ValueError> for NodeError {
    fn from(error: ValueError) -> NodeError {
        NodeError::Input(error.to_string())
    }
}

/// An output of a graph that does not fit the memory that it is bound to.
#[derive(Debug, thiserror::Error)]
#[error("output {output} is {} {:?}, bound to memory for {} {:?}", made.dtype, made.shape, bound.dtype, bound.shape)]
pub struct Mismatch {
    /// The output's place among the graph's.
    pub output: usize,
    /// What the memory is for.
    pub bound: TensorSpec,
    /// What the output is.
    pub made: TensorSpec,
}

/// The message of a panic, for the error that it becomes.
#[must_use]
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

/// A node of a request failed.
#[derive(Debug, thiserror::Error)]
#[error("node '{node}' ({op}): {error}")]
pub struct RunError {
    /// The node's name.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// Why.
    pub error: NodeError,
}

impl RunError {
    /// Why the request was ended at this node, or at a node in its bodies; `None` where a node failed.
    #[must_use]
    pub fn stopped(&self) -> Option<Stopped> {
        match &self.error {
            NodeError::Stopped(stopped) => Some(*stopped),
            NodeError::Body(inner) => inner.stopped(),
            _ => None,
        }
    }

    /// A panic between the nodes of a request.
    #[must_use]
    pub fn outside_nodes(panic: &(dyn Any + Send)) -> RunError {
        let error = NodeError::of_panic(panic);
        RunError { node: String::new(), op: "graph".to_owned(), error }
    }

    /// Whether a panic ended it, in this node or in one of its bodies: a fault of Kiln's own.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        match &self.error {
            NodeError::Panicked(_) => true,
            NodeError::Body(inner) => inner.is_fault(),
            _ => false,
        }
    }
}
