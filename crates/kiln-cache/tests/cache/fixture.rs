//! Keys, builders and hashers that the suites share.

use std::hash::{BuildHasher, DefaultHasher, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_cache::{Built, Cache, Key, Limits};

/// The traits of a hasher that the suites need.
pub(crate) trait Hashing: BuildHasher + Default + Send + Sync + 'static {}

impl<S: BuildHasher + Default + Send + Sync + 'static> Hashing for S {}

/// Keeps only `BITS` bits of a real hash: with 0 and 1 nearly every pair of keys collides.
#[derive(Default)]
pub(crate) struct Collide<const BITS: u32>;

pub(crate) struct Colliding<const BITS: u32>(DefaultHasher);

impl<const BITS: u32> BuildHasher for Collide<BITS> {
    type Hasher = Colliding<BITS>;

    fn build_hasher(&self) -> Colliding<BITS> {
        Colliding(DefaultHasher::new())
    }
}

impl<const BITS: u32> Hasher for Colliding<BITS> {
    fn finish(&self) -> u64 {
        self.0.finish() & ((1 << BITS) - 1)
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
}

/// Runs generic tests `fn name<S: Hashing>()` of the calling module with an honest hasher and with colliding ones.
macro_rules! with_every_hasher {
    ($($name:ident),* $(,)?) => {
        mod honest { $(#[test] fn $name() { super::$name::<hashbrown::DefaultHashBuilder>() })* }
        mod always_zero { $(#[test] fn $name() { super::$name::<crate::fixture::Collide<0>>() })* }
        mod one_bit { $(#[test] fn $name() { super::$name::<crate::fixture::Collide<1>>() })* }
    };
}
pub(crate) use with_every_hasher;

/// A number to be squared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
#[key(family = "square", value = u64)]
pub(crate) struct Square {
    pub of: u32,
}

/// The same field as [`Square`] in another type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
#[key(family = "cube", value = u64)]
pub(crate) struct Cube {
    pub of: u32,
}

/// The context of the fixtures' builders: the cache to ask again, and places to leave notes for the test.
pub(crate) struct Context<S> {
    pub cache: Cache<S>,
    pub builds: AtomicUsize,
    pub log: Mutex<Vec<String>>,
}

impl<S: Hashing> Context<S> {
    pub(crate) fn new(entries: usize, bytes: usize) -> Context<S> {
        let cache = Cache::with_hasher(Limits { entries, bytes }, S::default());
        Context { cache, builds: AtomicUsize::new(0), log: Mutex::default() }
    }

    pub(crate) fn builds(&self) -> usize {
        self.builds.load(Ordering::SeqCst)
    }
}

/// An error of a builder.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("no {0}")]
pub(crate) struct Refused(pub u32);

/// Squares, at ten bytes each.
pub(crate) fn square<S>(key: &Square, cx: &Context<S>) -> Result<Built<u64>, Refused> {
    cx.builds.fetch_add(1, Ordering::SeqCst);
    Ok(Built { value: u64::from(key.of).pow(2), bytes: 10, from_record: false })
}

/// Cubes, at ten bytes each.
pub(crate) fn cube<S>(key: &Cube, cx: &Context<S>) -> Result<Built<u64>, Refused> {
    cx.builds.fetch_add(1, Ordering::SeqCst);
    Ok(Built { value: u64::from(key.of).pow(3), bytes: 10, from_record: false })
}
