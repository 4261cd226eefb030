//! onnxruntime's C interface over Kiln.
//!
#![doc = include_str!("../README.md")]
//!
//! # How it is made
//!
//! `table` lists the entries with their C arguments. An entry is a safe function of its group's file; the types of its
//! arguments are those of `seam`, which holds all `unsafe` of the crate. C programs hold *handles*: addresses of slots
//! that are never freed, so that an address that was released, or never was a handle, is detected and refused.

#![allow(unreachable_pub, reason = "entries are reached through the table")]
#![allow(non_snake_case, reason = "entries have C's names")]

mod adapter;
mod allocator;
mod asynchronous;
mod attribute;
mod binding;
mod built;
mod collections;
mod compile;
mod devices;
mod dtype;
mod editor;
mod entrance;
mod env;
mod error;
mod events;
mod graph;
mod keyvalue;
mod log;
mod memory_info;
mod metadata;
mod node;
mod options;
mod ort_format;
mod ownership;
mod parts;
mod providers;
mod run;
mod run_options;
mod seam;
mod session;
mod source;
mod status;
mod strings;
mod sub_table;
mod table;
mod threading;
mod type_info;
mod value;
mod value_info;
mod version;

pub use entrance::ApiBase;

/// The result of `OrtGetApiBase` for C programs: the address of a table that lives as long as the process. From then on
/// Kiln's events go to the environment's log, unless the process already has a subscriber of `tracing`.
#[must_use]
pub fn base() -> *const ApiBase {
    events::forward();
    &raw const entrance::BASE
}

#[cfg(feature = "ort")]
pub use seam::ort::api;
