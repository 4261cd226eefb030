//! Placeholder of signatures; replaced whole by the cache's own landing.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

#[allow(missing_docs, reason = "signatures")]
pub trait Key: Hash + Eq + Clone + Debug + Send + Sync + 'static {
    type Value: Send + Sync + 'static;
    const FAMILY: &'static str;
}
#[allow(missing_docs, reason = "signatures")]
#[derive(Debug)]
pub struct Built<V> {
    pub value: V,
    pub bytes: usize,
    pub from_record: bool,
}
#[allow(missing_docs, reason = "signatures")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Hit,
    Waited,
    RecordHit,
    Miss,
}
#[allow(missing_docs, reason = "signatures")]
#[derive(Debug, thiserror::Error)]
pub enum CacheError<E> {
    #[error(transparent)]
    Build(E),
    #[error("reentrant")]
    Reentrant,
}
#[allow(missing_docs, reason = "signatures")]
#[derive(Debug)]
pub struct Cache {}
#[allow(missing_docs, clippy::todo, unused_variables, reason = "signatures")]
impl Cache {
    pub fn get_or_create<K: Key, C: ?Sized, E>(
        &self,
        key: &K,
        cx: &C,
        build: fn(&K, &C) -> Result<Built<K::Value>, E>,
    ) -> Result<(Arc<K::Value>, Outcome), CacheError<E>> {
        todo!()
    }
}
