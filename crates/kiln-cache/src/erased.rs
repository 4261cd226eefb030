//! Many key types in one table: keys with their type erased and their hash computed once.
//!
//! A look-up must not allocate, so the table's owned keys ([`Erased`]) and a borrowed key ([`Query`]) meet in one
//! unsized view, [`Probe`]: `lru` and `hashbrown` ask an owned key to lend itself as a `dyn Probe` and compare that
//! with the query. Two probes are equal when their hashes are, and their types are, and the keys themselves are; the
//! hash comes first only because it is the cheapest test. An owned key also carries the stamp of its entry's last use
//! and a weak reference to its value, for threads that remember it (`front`). This file knows nothing of locks or
//! order.

use std::any::{Any, TypeId};
use std::borrow::Borrow;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::OnceLock;

use super::Key;
use super::held::{Held, Lane, Lanes};
use super::shim::{Arc, AtomicU64, Ordering, Weak};
use super::stats::FamilyId;

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

/// A borrowed key during a look-up.
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

    /// The same key owned, for the table.
    pub(super) fn owned(&self, key: Arc<Kept<K>>) -> Erased {
        Erased { hash: self.hash, key }
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

/// The stamp of an entry that is not stored: never the time of a use.
pub(super) const GONE: u64 = u64::MAX;

/// A key as the table keeps it, with the facts of its entry that a thread may read without the shard's lock.
///
/// Only the shard owns the value; here it is weak, so that a memory of the key does not keep the value alive.
pub(super) struct Kept<K: Key> {
    key: K,
    /// When the entry was last used, in the time of `store`; [`GONE`] while it is not stored. Written under the shard's
    /// lock.
    stamp: AtomicU64,
    family: FamilyId,
    /// The name of the cache that keeps it.
    cache: u64,
    value: OnceLock<Weak<K::Value>>,
    lanes: Lanes<K::Value>,
}

impl<K: Key> Kept<K> {
    pub(super) fn new(key: K, family: FamilyId, cache: u64) -> Arc<Kept<K>> {
        let (value, lanes) = (OnceLock::new(), Lanes::default());
        Arc::new(Kept { key, stamp: AtomicU64::new(GONE), family, cache, value, lanes })
    }

    /// Sets the key's value, once, before it is stored.
    pub(super) fn found(&self, value: &Arc<K::Value>) {
        self.value.get_or_init(|| Arc::downgrade(value));
    }

    pub(super) fn family(&self) -> FamilyId {
        self.family
    }

    /// Whether this is the key, it is stored in that cache, and it counts as used now.
    #[inline]
    pub(super) fn stands_for(&self, cache: u64, key: &K, now: u64) -> bool {
        // Acquire: a thread that sees the stamp of a stored entry sees its value.
        self.stamp.load(Ordering::Acquire) == now && self.cache == cache && self.key == *key
    }

    /// The value, while the entry is stored or in use.
    #[inline]
    pub(super) fn value(&self) -> Option<Arc<K::Value>> {
        self.value.get()?.upgrade()
    }

    /// The value on that lane, if the lane is open and the entry is stored or in use on it.
    #[inline]
    pub(super) fn held(&self, lane: usize) -> Option<Held<K::Value>> {
        self.lanes.held(lane)
    }

    /// Opens a lane to the value, if it was not open. The caller, who has the shard's lock, keeps the lane with the
    /// entry.
    pub(super) fn open(&self, lane: usize, value: &Arc<K::Value>) -> Option<Arc<Lane<K::Value>>> {
        self.lanes.open(lane, value)
    }
}

/// A [`Kept`] key of any type.
pub(super) trait Remembered: Any + Send + Sync {
    fn key(&self) -> &dyn Any;
    fn same(&self, other: &dyn Any) -> bool;
    fn stamp(&self) -> &AtomicU64;
}

impl<K: Key> Remembered for Kept<K> {
    fn key(&self) -> &dyn Any {
        &self.key
    }

    fn same(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<K>().is_some_and(|other| self.key == *other)
    }

    fn stamp(&self) -> &AtomicU64 {
        &self.stamp
    }
}

/// An owned key of any type. Copies share the key.
#[derive(Clone)]
pub(super) struct Erased {
    hash: u64,
    key: Arc<dyn Remembered>,
}

impl Erased {
    /// The key, for threads that remember it.
    pub(super) fn remembered(&self) -> &Arc<dyn Remembered> {
        &self.key
    }

    /// When the entry was last used.
    #[inline]
    pub(super) fn stamp(&self) -> u64 {
        self.key.stamp().load(Ordering::Relaxed)
    }

    /// Notes a use, or that the entry is [`GONE`]. Called under the shard's lock.
    #[inline]
    pub(super) fn set_stamp(&self, stamp: u64) {
        self.key.stamp().store(stamp, Ordering::Release);
    }
}

impl Probe for Erased {
    #[inline]
    fn hash(&self) -> u64 {
        self.hash
    }

    #[inline]
    fn any(&self) -> &dyn Any {
        self.key.key()
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
        self.hash == other.hash && self.key.same(other.key.key())
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
