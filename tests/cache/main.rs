//! The cache with what it is for: `executors` and `nodes` are about executors and code, `laws` holds the keys of families
//! against the laws of keys.
//!
//! What the cache promises whatever it holds is tested in its own crate.

mod executors;
mod laws;
mod nodes;
