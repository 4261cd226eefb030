//! Graphs: what a model says, independent of the format that it came in, and how its nodes run.
//!
//! - [`ir`] is the description: nodes with an operator name and attributes, values, constants. Passes rewrite it.
//! - [`passes`] rewrite it, knowing of every value what `facts` can prove; [`verify`] holds them to what a graph promises.
//! - [`operators`] is the table of all operators: what is known of each before one of its nodes is made.
//! - [`build`] writes small graphs by hand. `rows` finds what can run over the rows of many requests.
//! - [`node`] is the running form: the trait that every operator implements, with the executor-cache checklist's
//!   `prepare_params()`. `prepare` is what a node sees while it is prepared, `io` what it sees while it runs.
//! - [`run`] runs nodes, and steps that see more than tensors ([`value`]) or have bodies ([`flow`]): by a plan of the
//!   request's shapes where there is one, whose memory a `lease` holds, else node by node, each with a `memo` of its
//!   last shapes. `bound` outputs are made in memory of the caller's. [`stop`] ends a request before its graph ends.
//!   `error` is why one failed.
//! - `device` (a feature) is what nodes do that run on a device beside the processor.
//!
//! Operator names follow the ONNX vocabulary because it is the field's; protobuf and opset arithmetic are not known here.

mod bound;
#[cfg(feature = "device")]
pub mod device;
mod error;
pub mod inference;
mod io;
mod lease;
mod memo;
pub mod node;
mod prepare;
pub mod run;

pub use kiln_model::{
    Attr, Attrs, Cancel, Graph, GraphBuilder, Map, NodeDesc, Stop, Stopped, Value, ValueId, build, ir, operators,
    passes, stop, value, verify,
};

#[cfg(feature = "device")]
pub use device::DeviceCx;
pub use error::{Mismatch, NodeError, RunError};
pub use io::Io;
pub use node::{Node, RunCx};
pub use prepare::{PrepareCx, Prepared};
pub use run::flow::{self, Body, Flow, FlowCx, LoopBudget, LoopLimits};
pub use run::{Executable, Foresight, Observer, Resources, RunState, Served, StepEvent, Work};
