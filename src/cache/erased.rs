//! Many key types in one table: keys with their type erased and their hash computed once.
//!
//! A look-up must not allocate, so the table's owned keys ([`Erased`]) and a borrowed key ([`Query`]) meet in one
//! unsized view, [`Probe`]: `lru` and `hashbrown` ask an owned key to lend itself as a `dyn Probe` and compare that with
//! the query. Two probes are equal when their hashes are, and their types are, and the keys themselves are; the hash
//! comes first only because it is the cheapest to refuse by. This file knows nothing of values, locks or order.

use std::any::{Any, TypeId};
use std::borrow::Borrow;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

use super::Key;

/// A key seen without its type.
pub(super) trait Probe {
    /// The hash of the key and its type, computed once.
    fn hash(&self) -> u64;
    /// The key itself.
    fn any(&self) -> &dyn Any;
    /// Whether the other key is of the same type and equal.
    fn same(&self, other: &dyn Any) -> bool;
}

impl Hash for dyn Probe + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(Probe::hash(self));
    }
}

impl PartialEq for dyn Probe + '_ {
    fn eq(&self, other: &Self) -> bool {
        Probe::hash(self) == Probe::hash(other) && self.same(other.any())
    }
}

impl Eq for dyn Probe + '_ {}

/// A borrowed key on its way through a look-up.
pub(super) struct Query<'a, K> {
    hash: u64,
    key: &'a K,
}

impl<'a, K: Key> Query<'a, K> {
    /// Hashes the type with the key, so that equal fields of two types do not meet in one bucket.
    #[inline]
    pub(super) fn new<S: BuildHasher>(key: &'a K, hasher: &S) -> Query<'a, K> {
        let mut state = hasher.build_hasher();
        TypeId::of::<K>().hash(&mut state);
        key.hash(&mut state);
        Query { hash: state.finish(), key }
    }

    /// An owned copy, for the table.
    pub(super) fn to_erased(&self) -> Erased {
        Erased { hash: self.hash, key: Box::new(self.key.clone()) }
    }
}

impl<K: Key> Probe for Query<'_, K> {
    #[inline]
    fn hash(&self) -> u64 {
        self.hash
    }

    #[inline]
    fn any(&self) -> &dyn Any {
        self.key
    }

    #[inline]
    fn same(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<K>().is_some_and(|other| self.key == other)
    }
}

/// Owned keys of any type.
trait OwnedKey: Any + Send + Sync {
    fn same(&self, other: &dyn Any) -> bool;
}

impl<K: Key> OwnedKey for K {
    fn same(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<K>().is_some_and(|other| self == other)
    }
}

/// An owned key of any type.
pub(super) struct Erased {
    hash: u64,
    key: Box<dyn OwnedKey>,
}

impl Probe for Erased {
    #[inline]
    fn hash(&self) -> u64 {
        self.hash
    }

    #[inline]
    fn any(&self) -> &dyn Any {
        &*self.key
    }

    fn same(&self, other: &dyn Any) -> bool {
        self.key.same(other)
    }
}

impl Hash for Erased {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialEq for Erased {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.key.same(&*other.key)
    }
}

impl Eq for Erased {}

impl<'a> Borrow<dyn Probe + 'a> for Erased {
    #[inline]
    fn borrow(&self) -> &(dyn Probe + 'a) {
        self
    }
}

/// Passes a hash that exists already through to the table.
#[derive(Default)]
pub(super) struct Given(u64);

impl Hasher for Given {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    /// Probes write one `u64`; anything else would be a foreign key type, which still hashes consistently.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}

/// The table's hasher.
pub(super) type GivenHash = BuildHasherDefault<Given>;
