//! Single executors, with id and blob, for callers that keep choices in a storage of their own.
//!
//! The blob is a record file with one record. It may come from anywhere, so building from it makes every check that a
//! record gets: checksums, machine and build, family and revision, the whole key, and the choice against the key.

use std::sync::Arc;

use kiln_cache::{Built, Outcome};
use kiln_kernels::EMITTER_REVISION;
use kiln_tensor::installed_bytes;

use super::context::{BuildCx, BuildError};
use super::family::Family;
use crate::record::{
    BlobError, CodecError, Engine, Evidence, Record, RecordId, decode, encode, host_fingerprint, read_blob, write_blob,
};

/// One key's executor.
pub struct Executor<K: Family> {
    key: K,
    value: Arc<K::Value>,
    outcome: Outcome,
    record: Record,
    engine: Engine,
}

impl BuildCx {
    /// The device that builders of this context build for.
    #[must_use]
    pub fn engine(&self) -> Engine {
        Engine::new(host_fingerprint(self.isa.name(), EMITTER_REVISION))
    }

    /// The executor of that key, with the id and the blob under which callers keep its choice themselves.
    ///
    /// # Errors
    ///
    /// [`BuildError`] as [`BuildCx::executor`].
    pub fn make<K: Family>(&self, key: &K) -> Result<Executor<K>, BuildError> {
        let (value, outcome) = self.executor(key)?;
        let record = self.known(key).map_err(|error| BuildError::Cache(error.to_string()))?;
        Ok(Executor { key: key.clone(), value, outcome, record, engine: self.engine() })
    }

    /// The executor of that key, built with the choice of a blob, which is kept as a record from now on. An executor
    /// that the cache has already is returned as it is, as by any look-up.
    ///
    /// # Errors
    ///
    /// [`BlobError`]; nothing is built or kept then.
    pub fn make_from_blob<K: Family>(&self, key: &K, blob: &[u8]) -> Result<Executor<K>, BlobError> {
        let engine = self.engine();
        let mut records = read_blob(blob, engine.fingerprint())?;
        let (Some(record), true) = (records.pop(), records.is_empty()) else {
            return Err(BlobError::Unreadable("it does not hold one record"));
        };
        let name = |record: &Record| format!("{} {}", record.family, RecordId::of(record));
        let key_bytes = encode(key).map_err(|error| BlobError::Build(error.to_string()))?;
        let wanted = Record { family: K::FAMILY.to_owned(), revision: K::REVISION, key: key_bytes, ..record.clone() };
        if RecordId::of(&record) != RecordId::of(&wanted) {
            return Err(BlobError::Other { found: name(&record), wanted: name(&wanted) });
        }
        let choice: K::Choice = decode(&record.choice).map_err(|_| BlobError::Invalid)?;
        // Only a valid key can tell whether a choice fits it.
        let sound = key.table_bytes().is_some_and(|bytes| bytes <= installed_bytes() as u64);
        if !sound || !key.fits(self) || !key.accepts(&choice, self) {
            return Err(BlobError::Invalid);
        }
        let evidence = record.evidence;
        let failed = |error: &dyn std::fmt::Display| BlobError::Build(error.to_string());
        let (value, outcome) = self
            .get_or_build(key, &Offered { cx: self, choice: &choice }, build_offered::<K>)
            .map_err(|error| failed(&error))?;
        // An executor that the cache has was built with what was recorded before.
        let record = match outcome {
            Outcome::Hit | Outcome::Waited => self.known(key).map_err(|error| failed(&error))?,
            Outcome::RecordHit | Outcome::Miss => record,
        };
        self.records.insert(key, &choice, evidence);
        Ok(Executor { key: key.clone(), value, outcome, record, engine })
    }

    /// The record of that key. Without records, the cost model makes its choice again.
    fn known<K: Family>(&self, key: &K) -> Result<Record, CodecError> {
        let known = self.records.lookup_with_evidence(key).filter(|(choice, _)| key.accepts(choice, self));
        let (choice, evidence) = known.unwrap_or_else(|| (key.choose(self), Evidence::model()));
        let (key, choice) = (encode(key)?, encode(&choice)?);
        Ok(Record { family: K::FAMILY.to_owned(), revision: K::REVISION, key, choice, evidence })
    }
}

/// A choice of a blob that has been validated, and the context to build with.
struct Offered<'a, K: Family> {
    cx: &'a BuildCx,
    choice: &'a K::Choice,
}

/// Builds an executor with the choice of a blob.
fn build_offered<K: Family>(key: &K, offered: &Offered<'_, K>) -> Result<Built<K::Value>, BuildError> {
    let value = key.build(offered.choice, offered.cx)?;
    Ok(Built { bytes: K::ENTRY_BYTES + K::weigh(&value), value, from_record: true })
}

impl<K: Family> Executor<K> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The executor.
    pub fn value(&self) -> &Arc<K::Value> {
        &self.value
    }

    /// How it was obtained: [`Outcome::Hit`], [`Outcome::RecordHit`], [`Outcome::Miss`], or after waiting for another
    /// thread.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The id to keep its blob under: the same for equal problems, on every machine. [`Engine::id`] tells machines
    /// apart.
    pub fn cache_id(&self) -> RecordId {
        RecordId::of(&self.record)
    }

    /// The blob from which another process builds it without choosing again: its choice, and everything to verify it
    /// by.
    ///
    /// # Errors
    ///
    /// [`CodecError`] for a key that is too long for a record.
    pub fn cache_blob(&self) -> Result<Vec<u8>, CodecError> {
        write_blob(std::slice::from_ref(&self.record), self.engine.fingerprint())
    }
}

#[cfg(test)]
mod tests;
