//! The guarantees of records, stated as tests.
//!
//! `store` is about which records are kept and which of two wins, `file` about saving, loading and sharing, `damage`
//! about files that are cut, flipped or hostile, `attacks` about traps of other users, `golden` about the bytes of each
//! schema, which never change, `shards` about savers that do not wait for each other, `writer` about saving in the
//! background, `killed` about processes that die while they save, and `remote` about sharing with other machines.

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
