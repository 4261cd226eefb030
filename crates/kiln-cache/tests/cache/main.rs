//! The cache's guarantees, stated as tests.
//!
//! `behaviour` is the suite that holds for every hasher, `model` compares with a reference cache (`lru`) under random
//! operations, `memo` is about one user's memory, `threads` about builders and waiters in parallel, `account` about
//! bytes that caches share.

mod account;
mod behaviour;
mod fixture;
mod lru;
mod memo;
mod model;
mod threads;
