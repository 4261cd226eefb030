//! What the cache promises, stated as tests.
//!
//! `behaviour` is the suite that holds for every hasher, `model` compares with a reference cache (`lru`) under random
//! operations, `memo` is what one user remembers, `threads` is about builders and waiters in parallel, `account` about
//! bytes that caches share.

mod account;
mod behaviour;
mod fixture;
mod lru;
mod memo;
mod model;
mod threads;
