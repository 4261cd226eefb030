//! The cache with what it is for: `executors` and `nodes` are about executors and code, `foreign` is another graph executor,
//! which uses the cache and the records alone, `laws` holds the keys of families against the laws of keys.
//!
//! What the cache promises whatever it holds is tested in its own crate.

mod executors;
mod foreign;
mod laws;
mod nodes;
