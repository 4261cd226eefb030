#![doc = include_str!("../README.md")]
//!
//! # In this crate
//!
//! [`Key`] is what a cache takes, [`Mutate`] how a key states its fields, [`F32Bits`] a float as a key may hold it, and
//! [`laws`] checks that a key's equality, its hash and its list of fields agree. The derives are those of the feature
//! `derive`, which is on by default; with the feature `smallvec`, keys may hold `SmallVec`s.

#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod fields;
pub mod laws;

use std::fmt::Debug;
use std::hash::Hash;

pub use fields::{F32Bits, Mutate, join_path};
#[cfg(feature = "derive")]
pub use kiln_key_derive::{Key, Mutate};

/// A digest of this crate's sources, which decide how a key becomes bytes: a fact for the fingerprints of those who
/// keep such bytes.
pub const SOURCES: &str = env!("KILN_SOURCES");

/// Plain data that completely determines a cached value.
///
/// A key holds no pointer, no float that is compared by value, and nothing that its value does not depend on; a value
/// depends on nothing that is not in its key.
///
/// `Hash` and `Eq` are to be derived, never written: a hand-written pair rots as soon as a field is added, and then two
/// problems share one value. `#[derive(Key)]` writes this impl, the list of fields that tests change one by one
/// ([`Mutate`]), and a test that changes them.
pub trait Key: Hash + Eq + Clone + Debug + Send + Sync + 'static {
    /// What the key determines. Shared between threads and never changed once built.
    type Value: Send + Sync + 'static;

    /// What values of this kind are called in statistics, log lines and records.
    const FAMILY: &'static str;

    /// Bytes that a cache takes for an entry beside what the value holds: the key, links, counts, and what the heap
    /// keeps for itself. For builders that state an entry's bytes as a process sees them.
    const ENTRY_BYTES: usize = size_of::<Self>() + 320;
}
