//! The device that executors are built for, as named by callers who keep records for several machines.

use super::codec;
use super::fingerprint::{Fingerprint, hex};

/// A device and the build of Kiln that makes code for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    fingerprint: Fingerprint,
}

/// Why a blob of an engine is not this device's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The bytes are not an engine's.
    #[error("this is no engine's blob")]
    Unreadable,
    /// A fact differs.
    #[error("the engine's {fact} is '{theirs}' and here it is '{here}'")]
    Differs {
        /// The name of the fact.
        fact: String,
        /// The blob's.
        theirs: String,
        /// This device's; empty where there is no such fact.
        here: String,
    },
}

impl Engine {
    /// The engine of that fingerprint.
    #[must_use]
    pub fn new(fingerprint: Fingerprint) -> Engine {
        Engine { fingerprint }
    }

    /// Its identifier: 32 hexadecimal digits, which also name its record file.
    #[must_use]
    pub fn id(&self) -> String {
        hex(&self.fingerprint.digest()[..16])
    }

    /// The fingerprint of its records.
    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// All facts that distinguish it, in bytes; `None` where a fact is longer than a blob may have.
    #[must_use]
    pub fn blob(&self) -> Option<Vec<u8>> {
        codec::encode(self.fingerprint.facts()).ok()
    }

    /// Checks that a blob is this engine's.
    ///
    /// # Errors
    ///
    /// [`EngineError`] with the first fact that differs.
    pub fn verify(&self, blob: &[u8]) -> Result<(), EngineError> {
        let theirs: Vec<(String, String)> = codec::decode(blob).map_err(|_| EngineError::Unreadable)?;
        let here = self.fingerprint.facts();
        for place in 0..theirs.len().max(here.len()) {
            let empty = (String::new(), String::new());
            let (theirs, here) = (theirs.get(place).unwrap_or(&empty), here.get(place).unwrap_or(&empty));
            if theirs != here {
                let fact = if theirs.0.is_empty() { &here.0 } else { &theirs.0 };
                let here = if theirs.0 == here.0 { here.1.clone() } else { String::new() };
                return Err(EngineError::Differs { fact: fact.clone(), theirs: theirs.1.clone(), here });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_knows_its_own_blob_and_says_what_differs() {
        let engine = |isa: &str| Engine::new(Fingerprint::from_facts([("kiln", "1"), ("isa", isa)]));
        let blob = engine("avx2").blob().unwrap();
        assert_eq!(engine("avx2").verify(&blob), Ok(()));
        assert_ne!(engine("avx2").id(), engine("avx512").id());
        let error = engine("avx512").verify(&blob).unwrap_err();
        assert_eq!(error.to_string(), "the engine's isa is 'avx2' and here it is 'avx512'");
        assert_eq!(engine("avx2").verify(&blob[..blob.len() - 1]), Err(EngineError::Unreadable));
        let more = Engine::new(Fingerprint::from_facts([("kiln", "1"), ("isa", "avx2"), ("l2", "9")]));
        assert!(matches!(more.verify(&blob), Err(EngineError::Differs { fact, .. }) if fact == "l2"));
        assert!(matches!(engine("avx2").verify(&more.blob().unwrap()), Err(EngineError::Differs { .. })));
    }
}
