//! The seam between C callers and the rest of the crate: all `unsafe` of the crate is here.
//!
//! An entry of the table is a safe function whose arguments are the types of this module. Each argument is one pointer
//! or number as C passes it, and only this module makes or dereferences it. A C caller promises what onnxruntime's
//! header asks: a pointer is null, or points to what the parameter's type says, for as long as the call lasts or the
//! header says. Handles promise nothing: any number is looked up and refused.

pub(crate) mod allocator;
pub(crate) mod callback;
pub(crate) mod entry;
pub(crate) mod handle;
pub(crate) mod memory;
#[cfg(feature = "ort")]
pub(crate) mod ort;
pub(crate) mod pointer;
pub(crate) mod status;

pub(crate) use allocator::Allocator;
pub(crate) use callback::{AsyncFn, CreateThreadFn, JoinThreadFn, LogFn};
pub(crate) use entry::{entry, guard};
pub(crate) use handle::{Handle, Kind};
pub(crate) use memory::{Block, Memory, Span};
pub(crate) use pointer::{Chars, List, Out, Text, c_text};
pub(crate) use status::{Failure, Status};
