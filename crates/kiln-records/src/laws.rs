//! The demands of tests on the key types of records beyond the [laws of keys](kiln_key::laws): their bytes contain all
//! their fields.
//!
//! A key names these in its derive: `#[key(family = "NAME", value = TYPE, laws = kiln_records::laws::check)]`.

use std::fmt::Debug;
use std::hash::Hash;

use kiln_key::Mutate;
use kiln_key::laws::{assert_laws, each_key};
use serde::{Serialize, de::DeserializeOwned};

use super::codec;

/// Checks the laws ([`assert_key_laws`]) at the keys that [`kiln_key::laws::check`] looks at.
///
/// # Panics
///
/// As [`assert_key_laws`].
pub fn check<K>()
where
    K: Mutate + Eq + Hash + Debug + Serialize + DeserializeOwned,
{
    each_key(assert_key_laws::<K>);
}

/// Checks the laws at one key: those of all keys ([`assert_laws`]), and
///
/// 1. changing any single field gives other bytes;
/// 2. the bytes of a key give the same key back.
///
/// # Panics
///
/// If a law is broken, with the field that broke it: this is an assertion for tests.
pub fn assert_key_laws<K>(key: &K)
where
    K: Mutate + Eq + Hash + Debug + Serialize + DeserializeOwned,
{
    assert_laws(key);
    let encoded = |key: &K| match codec::encode(key) {
        Ok(bytes) => bytes,
        Err(error) => panic!("{key:?} has no bytes: {error}"),
    };
    let bytes = encoded(key);
    match codec::decode::<K>(&bytes) {
        Ok(decoded) => assert_eq!(decoded, *key, "a key's bytes give the key back"),
        Err(error) => panic!("{key:?} does not come back from its bytes: {error}"),
    }
    for (field, mutant) in key.mutants() {
        assert_ne!(encoded(&mutant), bytes, "the field {field} is not recorded");
    }
}
