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
//! The names below are the library's; `packed` (models with packed weights, mapped) and `session` are for the command and
//! the tests. What a session is made of are crates of their own, lowest first:
//!
//! - `kiln-fork`, `kiln-key`, `kiln-cache`, `kiln-records`: locks, keys, the executor cache, records.
//! - `kiln-kernels`: emitters and kernels of the processor, and devices beside it.
//! - `kiln-knobs`, `kiln-tensor`: environment variables; tensors, their memory, threads.
//! - `kiln-model`: graphs, passes, the table of operators, ONNX files.
//! - `kiln-run`: executors, nodes, plans. `kiln-ops`: what ONNX means by each operator.

#![allow(rustdoc::private_intra_doc_links, reason = "headers guide readers of the source to private files too")]
#![deny(unsafe_code)]

#[doc(hidden)]
pub mod packed;
#[doc(hidden)]
pub mod session;

pub use kiln_cache::{Cache, Limits, Stats};
pub use kiln_kernels::Isa;
pub use kiln_kernels::extent::{Foreign, ForeignMut};
pub use kiln_knobs::{KnobError, Knobs, Pack};
pub use kiln_model::ir::{Dim, Metadata, ValueKind};
pub use kiln_model::onnx::{Adapter, ModelError};
pub use kiln_model::{Attr, Graph, GraphBuilder, Map, Stopped, Value, ValueId};
pub use kiln_run::record::{
    CacheMode, Credentials, RecordError, Remote, RemoteError, RemotePolicy, SaveReport, Store, StoreStats,
};
pub use kiln_run::{LoopLimits, Observer, StepEvent};
pub use kiln_tensor::threads::{Threads, ThreadsError};
pub use kiln_tensor::{DType, Element, Tensor, TensorError, TensorSpec};
pub use packed::{PackedError, Verify};
pub use session::batch::{Batch, Finished};
pub use session::beams::{BeamStop, Beams, Hypothesis};
pub use session::decoder::choose::timestamps::Timestamps;
pub use session::decoder::choose::{ChoiceError, Chooser, Sampling};
pub use session::decoder::{Decoder, DecoderCache, DecoderError};
pub use session::encoder_decoder::{Encoded, EncoderDecoder, EncoderDecoderFiles, EncoderDecoderGraphs};
pub use session::generate::lookup::{Lookup, LookupStats};
pub use session::generate::{Ended, GenerateOptions, Generator};
pub use session::{
    Cancel, Numerics, Over, PackReport, PackStats, Port, Precision, Profile, RunOptions, Session, SessionError,
    SessionOptions, Trace, Tune, TuneReport, Verbose, Width,
};
