//! The running of graphs: executors, and nodes that use them.
//!
//! - [`record`] says which build and which machine a file of records is for.
//! - [`exec`] has one kernel family a file: key, choice, cost model, builder, executor; and the tuner.
//! - [`node`] is the running form of a node: the trait that every operator implements, with the executor-cache
//!   checklist's `prepare_params()`. [`prepare`] is what a node sees while it is prepared, [`io`] what it sees while it
//!   runs. [`inference`] finds the shapes of outputs.
//! - [`run`] runs nodes, and steps that have bodies ([`flow`]): by a plan of the request's shapes where there is one,
//!   whose memory a `lease` holds, else node by node, each with a `memo` of its last shapes. `bound` outputs are made
//!   in the caller's memory. [`error`] says why a node or a request failed.
//! - `device` (a feature) has the work of nodes that run on a device beside the processor.
//!
//! No operator is known here, and no file of a model.

#![allow(rustdoc::private_intra_doc_links, reason = "headers guide readers of the source to private files too")]
#![deny(unsafe_code)]

mod bound;
pub mod device;
pub mod error;
pub mod exec;
pub mod inference;
pub mod io;
mod lease;
mod memo;
pub mod node;
pub mod prepare;
pub mod record;
pub mod run;

pub use device::DeviceCx;
pub use error::{Mismatch, NodeError, RunError};
pub use io::Io;
pub use node::{Node, RunCx};
pub use prepare::{PrepareCx, Prepared};
pub use run::flow::{self, Body, Flow, FlowCx, LoopBudget, LoopLimits};
pub use run::{Executable, Foresight, Observer, Resources, RunState, Served, StepEvent, Work};

/// A digest of all sources of this crate and of the compiler's settings; [`record::SOURCES`] is that of the executors
/// alone.
pub const SOURCES: &str = env!("KILN_ALL_SOURCES");
