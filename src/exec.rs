//! Executors: one file a kernel family with its key, its builder and what is cached.
//!
//! [`family`] is the trait that a key implements; [`context`] is all that a builder sees besides its key. A builder
//! never sees the graph.

pub mod context;
pub mod family;

pub use context::{BuildCx, BuildError};
pub use family::Family;
