//! Kiln: a runtime that never compiles, tunes or picks the same kernel twice.
//!
//! A [`Session`] is one ONNX model, ready to run at any shape, from any number of threads. It keeps what it builds for
//! a shape and records its choices, so that neither a repeated shape nor the next process builds anything again.
//!
//! ```
//! use kiln::{DType, Dim, GraphBuilder, Session, SessionOptions, Tensor};
//!
//! // `Session::load(path, &options)` reads a model file; here is a graph of one node: y = x + x.
//! let mut build = GraphBuilder::new("twice", 17);
//! let x = build.input("x", DType::F32, [Dim::Any, Dim::from(2)]);
//! let y = build.op("Add", &[x, x], &[]);
//! build.output("y", y);
//!
//! let options = SessionOptions { threads: 1, ..SessionOptions::default() };
//! let session = Session::from_graph(build.finish(), &options)?;
//! for rows in [1, 3, 1] {
//!     let input = Tensor::from_vec([rows, 2], vec![1.5f32; rows * 2])?;
//!     let outputs = session.run(&[("x", input)])?;
//!     let (name, output) = &outputs[0];
//!     assert_eq!((name.as_str(), output.shape()), ("y", &[rows, 2][..]));
//!     assert!(output.as_slice::<f32>()?.iter().all(|value| *value == 3.0));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The names below are the library's; its modules are for the command, the tests and readers of the source. Lowest
//! first, each module imports only from those before it:
//!
//! - [`knobs`]: the environment variables, of the crate `kiln-knobs`.
//! - [`tensor`], [`threads`]: memory and fork-join, of the crate `kiln-tensor`. [`cache`] is `kiln-cache`.
//! - [`record`]: what builders chose, kept from process to process; the crate is `kiln-records`.
//! - [`exec`]: one kernel family a file: key, builder, executor.
//! - [`graph`]: descriptions, passes, and the trait of a running node.
//! - [`ops`]: what ONNX means by each operator.
//! - [`onnx`]: model files. [`packed`]: models with packed weights, mapped.
//!
//! `gpu` (feature `device`) is the interface to devices beside the processor, from the kernels crate.

#![allow(rustdoc::private_intra_doc_links, reason = "headers guide readers of the source to private files too")]
#![deny(unsafe_code)]

#[doc(hidden)]
pub mod cache;
#[doc(hidden)]
pub mod graph;
#[doc(hidden)]
pub mod packed;
#[doc(hidden)]
pub mod session;

pub use cache::{Cache, Limits, Stats};
pub use kiln_kernels::Isa;
pub use kiln_kernels::extent::{Foreign, ForeignMut};
#[doc(hidden)]
#[cfg(feature = "device")]
pub use kiln_kernels::gpu;
#[doc(hidden)]
pub use kiln_knobs as knobs;
pub use kiln_knobs::{KnobError, Knobs, Pack};
pub use kiln_model::ir::{Dim, Metadata, ValueKind};
#[doc(hidden)]
pub use kiln_model::onnx;
pub use kiln_model::onnx::ModelError;
pub use kiln_model::{Attr, Graph, GraphBuilder, Map, Stopped, Value, ValueId};
#[doc(hidden)]
pub use kiln_ops as ops;
pub use kiln_run::record::{
    CacheMode, Credentials, RecordError, Remote, RemoteError, RemotePolicy, SaveReport, Store, StoreStats,
};
pub use kiln_run::{LoopLimits, Observer, StepEvent};
#[doc(hidden)]
pub use kiln_run::{exec, record};
#[doc(hidden)]
pub use kiln_tensor as tensor;
#[doc(hidden)]
pub use kiln_tensor::threads;
pub use kiln_tensor::threads::{Threads, ThreadsError};
pub use kiln_tensor::{DType, Element, Tensor, TensorError, TensorSpec};
pub use packed::{PackedError, Verify};
pub use session::batch::{Batch, Finished};
pub use session::decoder::choose::{ChoiceError, Chooser, Sampling};
pub use session::decoder::{Decoder, DecoderCache, DecoderError};
pub use session::encoder_decoder::{Encoded, EncoderDecoder, EncoderDecoderFiles, EncoderDecoderGraphs};
pub use session::generate::lookup::{Lookup, LookupStats};
pub use session::generate::{Ended, GenerateOptions, Generator};
pub use session::{
    Cancel, Numerics, Over, PackReport, PackStats, Port, Precision, Profile, RunOptions, Session, SessionError,
    SessionOptions, Trace, Tune, TuneReport, Verbose, Width,
};
