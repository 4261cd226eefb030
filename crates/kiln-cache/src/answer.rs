//! The types that a caller exchanges with a cache beside its keys: builders, built values, outcomes, errors.

use std::fmt;
use std::sync::Arc;

use super::Key;

/// The result of a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Built<V> {
    /// The value.
    pub value: V,
    /// Bytes that the value keeps alive in memory, charged to the cache's bound: itself, its tables, its code.
    pub bytes: usize,
    /// Whether the choices behind it came from a record instead of being made now.
    pub from_record: bool,
}

/// How a look-up was answered, in rising order of its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It was there.
    Hit,
    /// Another thread was building it: this caller waited and shares the result.
    Waited,
    /// It was not there: rebuilt now by this caller from a record, without choosing anything.
    RecordHit,
    /// It was not there: built now, by this caller.
    Miss,
}

impl Outcome {
    /// The word used in verbose lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Hit => "cache_hit",
            Outcome::Miss => "cache_miss",
            Outcome::RecordHit => "record_hit",
            Outcome::Waited => "wait",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a value is made: a plain function, not a closure, so that it can see its key and its context and nothing else.
pub type Builder<K, C, E> = fn(&K, &C) -> Result<Built<<K as Key>::Value>, E>;

/// The result of a look-up: the shared value and how it was obtained.
pub type Answer<V, E> = Result<(Arc<V>, Outcome), CacheError<E>>;

/// Why a look-up gave no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError<E> {
    /// The builder failed. Nothing was stored; the next look-up of the key builds again.
    #[error("{0}")]
    Build(E),
    /// The key is needed to build itself: its builder asked for it again, on its own thread or through other threads.
    #[error("building a {family} needs the same {family}")]
    Reentrant {
        /// The family of the key.
        family: &'static str,
    },
}

impl<E> CacheError<E> {
    /// The same error with the builder's error converted.
    pub fn map_build<F>(self, convert: impl FnOnce(E) -> F) -> CacheError<F> {
        match self {
            CacheError::Build(error) => CacheError::Build(convert(error)),
            CacheError::Reentrant { family } => CacheError::Reentrant { family },
        }
    }
}
