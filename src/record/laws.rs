//! What the tests demand of every key type, whatever its family.
//!
//! One line in a test module applies all laws to a key type: `kiln::key_laws! { matmul: MatMulKey }`. Keys are reached by
//! walks from [`Mutate::sample`] along mutations, so that no strategy has to be written for a new key, and a failing walk
//! shrinks to a short one.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use serde::{Serialize, de::DeserializeOwned};

use super::codec;
use crate::cache::Mutate;

/// The key that a walk leads to: each step picks one mutation of the key before.
pub fn walk<K: Mutate>(steps: &[u32]) -> K {
    steps.iter().fold(K::sample(), |key, step| {
        let mut mutants = key.mutants();
        match mutants.len() {
            0 => key,
            count => mutants.swap_remove(*step as usize % count).1,
        }
    })
}

/// Checks the laws at the key that a walk leads to:
///
/// 1. equal keys hash equally;
/// 2. changing any single field makes another key, with another hash and other bytes;
/// 3. the bytes of a key give the same key back.
///
/// # Panics
///
/// If a law is broken, with the field that broke it: this is an assertion for tests.
pub fn assert_key_laws<K>(steps: &[u32])
where
    K: Mutate + Eq + Hash + Debug + Serialize + DeserializeOwned,
{
    // Fixed, so that a failure repeats; good, so that unequal hashes of unequal keys can be demanded.
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let key: K = walk(steps);
    let encoded = |key: &K| match codec::encode(key) {
        Ok(bytes) => bytes,
        Err(error) => panic!("{key:?} has no bytes: {error}"),
    };
    let copy = key.clone();
    assert_eq!(key, copy, "a key equals its clone");
    assert_eq!(hasher.hash_one(&key), hasher.hash_one(&copy), "equal keys hash equally");
    let bytes = encoded(&key);
    match codec::decode::<K>(&bytes) {
        Ok(decoded) => {
            assert_eq!(decoded, key, "a key's bytes give the key back");
            assert_eq!(hasher.hash_one(&decoded), hasher.hash_one(&key), "equal keys hash equally");
        }
        Err(error) => panic!("{key:?} does not come back from its bytes: {error}"),
    }
    let mut seen = HashSet::new();
    for (field, mutant) in key.mutants() {
        assert_ne!(mutant, key, "the field {field} is not compared");
        assert_ne!(hasher.hash_one(&mutant), hasher.hash_one(&key), "the field {field} is not hashed");
        let mutant_bytes = encoded(&mutant);
        assert_ne!(mutant_bytes, bytes, "the field {field} is not recorded");
        seen.insert(field);
    }
    assert!(!seen.is_empty() || std::mem::size_of::<K>() == 0, "a key with fields names none of them");
}

/// Makes a property test of [`assert_key_laws`] for each `name: KeyType`. The using crate needs `proptest`.
#[macro_export]
macro_rules! key_laws {
    ($($name:ident: $key:ty),* $(,)?) => {
        $(
            ::proptest::proptest! {
                #[test]
                fn $name(steps in ::proptest::collection::vec(::proptest::num::u32::ANY, 0..48)) {
                    $crate::record::laws::assert_key_laws::<$key>(&steps);
                }
            }
        )*
    };
}
