//! Graphs: what a model says, independent of the format that it came in, and how its nodes run.
//!
//! - [`ir`] is the description: nodes with an operator name and attributes, values, constants. Passes rewrite it.
//! - [`passes`] rewrite it, knowing of every value what `facts` can prove; [`verify`] holds them to what a graph promises.
//! - [`operators`] is the table of all operators: what is known of each before one of its nodes is made.
//! - [`build`] writes small graphs by hand.
//! - [`node`] is the running form: the trait that every operator implements, with the executor-cache checklist's
//!   `prepare_params()`.
//! - [`flow`] is its counterpart for steps that see more than tensors ([`value`]) or have bodies.
//! - [`run`] runs both: by a `plan` of the request's shapes where there is one (`spans` says what can be planned, a
//!   `lease` holds its memory), else node by node, each with a `memo` of its last shapes. `io` is what a node sees.
//!   [`stop`] ends a request before its graph ends.
//! - `device` (a feature) is what nodes do that run on a device beside the processor.
//!
//! Operator names follow the ONNX vocabulary because it is the field's; protobuf and opset arithmetic are not known here.

pub mod build;
#[cfg(feature = "device")]
pub mod device;
pub(crate) mod facts;
pub mod flow;
pub(crate) mod heads;
pub mod inference;
mod io;
pub mod ir;
mod lease;
mod memo;
pub mod node;
pub mod operators;
pub mod passes;
mod plan;
pub mod run;
mod spans;
pub mod stop;
pub mod value;
pub mod verify;

pub use build::GraphBuilder;
#[cfg(feature = "device")]
pub use device::DeviceCx;
pub use flow::{Body, Flow, FlowCx, LoopBudget, LoopLimits};
pub use ir::{Attr, Attrs, Graph, NodeDesc, ValueId};
pub use node::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
pub use run::{Executable, Foresight, Observer, Resources, RunError, RunState, Served, StepEvent, Work};
pub use stop::{Cancel, Stop, Stopped};
pub use value::Value;
