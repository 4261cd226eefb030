//! Graphs and what runs them, under one name: descriptions are those of [`kiln_model`], nodes those of [`kiln_run`].

pub use kiln_model::{
    Attr, Attrs, Cancel, Graph, GraphBuilder, Map, NodeDesc, Stop, Stopped, Value, ValueId, build, ir, operators,
    passes, stop, value, verify,
};
pub use kiln_run::{
    Body, Executable, Flow, FlowCx, Foresight, Io, LoopBudget, LoopLimits, Mismatch, Node, NodeError, Observer,
    PrepareCx, Prepared, Resources, RunCx, RunError, RunState, Served, StepEvent, Work, flow, inference, node, run,
};
#[cfg(feature = "device")]
pub use kiln_run::{DeviceCx, device};
