//! What the records promise, stated as tests.
//!
//! `store` is about what is kept and which of two records wins, `file` about saving, loading and sharing, `damage`
//! about files that are cut, flipped or made by an enemy, `attacks` about what other users may have prepared, `golden`
//! about the bytes of each schema, which are for ever, `shards` about savers that do not wait for each other, `writer`
//! about saving in the background, `killed` about processes that die while they save, and `remote` about sharing with
//! other machines.

#![allow(clippy::print_stdout, reason = "what was measured is for a reader of the log")]

mod allocations;
mod attacks;
mod damage;
mod file;
mod fixture;
mod golden;
mod killed;
mod remote;
mod shards;
mod store;
mod writer;
