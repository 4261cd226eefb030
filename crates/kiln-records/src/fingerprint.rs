//! The scope of a file of records: one build of a program on one kind of machine.
//!
//! A choice that is best here may be poor, though never wrong, elsewhere, so each combination of facts on which choices
//! depend has a file of its own, named by the fingerprint's first digits. The caller knows these facts: the version of
//! the program, a digest of the sources that use choices, the processor, the sizes of its caches. The facts in the keys
//! are not among them, nor is the schema of the file, because every schema is read for ever.

use std::fmt;

/// Named facts, and the digest of all facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    facts: Vec<(String, String)>,
}

impl Fingerprint {
    /// A fingerprint of given facts.
    pub fn from_facts<N: Into<String>, V: Into<String>>(facts: impl IntoIterator<Item = (N, V)>) -> Fingerprint {
        Fingerprint { facts: facts.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }

    /// The facts, in order.
    #[must_use]
    pub fn facts(&self) -> &[(String, String)] {
        &self.facts
    }

    /// 32 bytes that differ if any fact differs.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for text in self.facts.iter().flat_map(|(name, value)| [name, value]) {
            // Each text is preceded by its length, so that different lists of facts never give the same bytes.
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        *hasher.finalize().as_bytes()
    }

    /// The digest's first 32 hexadecimal digits, which name the file.
    #[must_use]
    pub fn digits(&self) -> String {
        hex(&self.digest()[..16])
    }
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.facts.iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changing_any_single_fact_changes_the_digest() {
        let host = Fingerprint::from_facts([("program", "1.0"), ("sources", "abc"), ("processor", "any")]);
        for changed in 0..host.facts().len() {
            let facts = host.facts().iter().enumerate().map(|(index, (name, value))| {
                (name.clone(), if index == changed { format!("{value}+") } else { value.clone() })
            });
            assert_ne!(Fingerprint::from_facts(facts).digest(), host.digest(), "{:?}", host.facts()[changed]);
        }
    }

    #[test]
    fn facts_do_not_run_into_each_other() {
        let digest = |facts: &[(&str, &str)]| Fingerprint::from_facts(facts.iter().copied()).digest();
        assert_ne!(digest(&[("a", "bc")]), digest(&[("ab", "c")]));
        assert_ne!(digest(&[("a", "b"), ("c", "d")]), digest(&[("a", "bcd")]));
    }
}
