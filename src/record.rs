//! Placeholder of signatures; replaced whole by the records' own landing.

use serde::{Serialize, de::DeserializeOwned};

#[allow(missing_docs, reason = "signatures")]
pub trait Recorded: crate::cache::Key + Serialize + DeserializeOwned {
    const REVISION: u32;
    type Choice: Serialize + DeserializeOwned + Clone + PartialEq + std::fmt::Debug;
}
#[allow(missing_docs, reason = "signatures")]
#[derive(Debug)]
pub struct Evidence {}
#[allow(missing_docs, reason = "signatures")]
impl Evidence {
    pub fn model() -> Evidence {
        Evidence {}
    }
}
#[allow(missing_docs, reason = "signatures")]
#[derive(Debug)]
pub struct Store {}
#[allow(missing_docs, clippy::todo, unused_variables, reason = "signatures")]
impl Store {
    pub fn in_memory() -> Store {
        Store {}
    }
    pub fn lookup<K: Recorded>(&self, key: &K) -> Option<K::Choice> {
        todo!()
    }
    pub fn insert<K: Recorded>(&self, key: &K, choice: &K::Choice, evidence: Evidence) {
        todo!()
    }
    pub fn keys<K: Recorded>(&self) -> Vec<K> {
        todo!()
    }
    pub fn reject<K: Recorded>(&self, key: &K) {
        todo!()
    }
}
