//! What the cache promises, stated as tests.
//!
//! `behaviour` is the suite that holds for every hasher, `model` compares with a reference cache (`lru`) under random
//! operations, `memo` is what one user remembers, `threads` is about builders and waiters in parallel, `laws` shows that a rotten key is found, and
//! `executors` and `nodes` are about executors and code, `foreign` is a graph executor of somebody else's that uses the cache and the records alone.

mod account;
mod behaviour;
mod executors;
mod fixture;
mod foreign;
mod laws;
mod lru;
mod memo;
mod model;
mod nodes;
mod threads;
