//! Models: what a graph says, independent of the format that it came in and of what runs it, and how ONNX files are
//! read. All of it is used while a model is loaded.
//!
//! - [`ir`] is the description: nodes with an operator name and attributes, values, constants. Passes rewrite it.
//! - [`operators`] is the table of all operators: all facts of an operator that do not need a node. [`heads`] is shared
//!   by the forms of attention.
//! - [`facts`] are what can be proved of each value. [`passes`] rewrite a graph by them; [`verify`] checks that a graph
//!   is still valid after a pass. [`rows`] finds the nodes that can run over the rows of many requests.
//! - [`build`] writes small graphs by hand.
//! - [`value`] is what flows along the edges of a graph, [`stop`] what ends a request before its graph ends.
//! - [`onnx`] reads and writes model files.
//!
//! Operator names follow the ONNX vocabulary because it is the field's; protobuf and opset arithmetic are known to
//! `onnx` alone.

#![allow(rustdoc::private_intra_doc_links, reason = "headers guide readers of the source to private files too")]
#![deny(unsafe_code)]

pub mod build;
pub mod facts;
pub mod heads;
pub mod ir;
pub mod onnx;
pub mod operators;
pub mod passes;
pub mod rows;
pub mod stop;
pub mod value;
pub mod verify;

pub use build::GraphBuilder;
pub use ir::{Attr, Attrs, Graph, NodeDesc, ValueId};
pub use stop::{Cancel, Stop, Stopped};
pub use value::{Map, Value, ValueError};

/// A digest of the sources of this crate and of the compiler's options.
pub const SOURCES: &str = env!("KILN_SOURCES");
