//! What tests demand of every key type, whatever its family.
//!
//! The test that `#[derive(Key)]` writes calls [`check`]. Keys are reached by walks from [`Mutate::sample`] along
//! mutations, so that no generator has to be written for a new key.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use crate::Mutate;

/// Walks that [`check`] takes, and the steps of each.
const WALKS: u32 = 8;
const STEPS: usize = 48;

/// The key that a walk leads to: each step picks one mutation of the key before.
pub fn walk<K: Mutate>(steps: &[u32]) -> K {
    steps.iter().fold(K::sample(), |key, choice| step(key, *choice))
}

/// One step of a walk.
fn step<K: Mutate>(key: K, choice: u32) -> K {
    let mut mutants = key.mutants();
    match mutants.len() {
        0 => key,
        count => mutants.swap_remove(choice as usize % count).1,
    }
}

/// Checks the laws ([`assert_laws`]) at 392 keys: the sample, and each key on the way of eight walks of 48 steps, which
/// are the same in every run.
///
/// # Panics
///
/// As [`assert_laws`].
pub fn check<K: Mutate + Eq + Hash + Debug>() {
    each_key(assert_laws::<K>);
}

/// Calls `demand` with the keys that [`check`] looks at: for those who have more to demand of a key.
pub fn each_key<K: Mutate>(demand: impl Fn(&K)) {
    for number in 0..WALKS {
        // Weyl's sequence through the finaliser of MurmurHash: plain, and good enough to scatter choices.
        let choice = |step: u32| {
            let mut bits = (number * 0x1_0001 + step + 1).wrapping_mul(0x9e37_79b9);
            bits = (bits ^ (bits >> 16)).wrapping_mul(0x85eb_ca6b);
            bits ^ (bits >> 13)
        };
        let mut key = K::sample();
        demand(&key);
        for number in (0u32..).take(STEPS) {
            key = step(key, choice(number));
            demand(&key);
        }
    }
}

/// Checks the laws at one key:
///
/// 1. equal keys hash equally;
/// 2. changing any single field makes another key, with another hash.
///
/// # Panics
///
/// If a law is broken, with the field that broke it: this is an assertion for tests.
pub fn assert_laws<K: Mutate + Eq + Hash + Debug>(key: &K) {
    // Fixed, so that a failure repeats; good, so that unequal hashes of unequal keys can be demanded.
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let copy = key.clone();
    assert_eq!(*key, copy, "a key equals its clone");
    assert_eq!(hasher.hash_one(key), hasher.hash_one(&copy), "equal keys hash equally");
    let mut seen = HashSet::new();
    for (field, mutant) in key.mutants() {
        assert_ne!(mutant, *key, "the field {field} is not compared");
        assert_ne!(hasher.hash_one(&mutant), hasher.hash_one(key), "the field {field} is not hashed");
        seen.insert(field);
    }
    assert!(!seen.is_empty() || size_of::<K>() == 0, "a key with fields names none of them");
}
