//! The cache with the contents that it is made for: `executors` and `nodes` test executors and code, `laws` tests the
//! keys of families against the laws of keys.
//!
//! What the cache promises for any contents is tested in its own crate.

mod executors;
mod laws;
mod nodes;
