//! What a file of records is for: this build of Kiln on this kind of machine.
//!
//! A choice that is best here may be poor, though never wrong, elsewhere, so each combination of what choices depend on
//! has a file of its own, named by the fingerprint's first digits. In it: Kiln's version, the emitters' revision, digests of the
//! sources that records depend on and of how they were compiled (`build.rs`), the
//! processor (vendor, family, model, stepping), the features that may be *used* (so that what
//! the operating system does not save on a switch does not count), the instruction-set cap in force, and the sizes of
//! the caches. Not in it: the number of threads, which is a field of the keys that depend on it; and the
//! schema of the file, because every schema is read for ever.
//!
//! Two builds of the same sources on one kind of machine share records; a changed processor, cap or kernel starts cold.

use std::fmt;

use kiln_kernels::Extension;

/// A digest of the sources of executors and records, and of what the compiler was told to make of them.
pub const SOURCES: &str = env!("KILN_SOURCES");

/// Named facts, and the digest of all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    facts: Vec<(String, String)>,
}

impl Fingerprint {
    /// The fingerprint of this machine and this build, for kernels capped at the level named `isa` and made by emitters
    /// of that revision.
    #[must_use]
    pub fn host(isa: &str, emitter_revision: u32) -> Fingerprint {
        let mut facts: Vec<(&str, String)> = vec![
            ("kiln", env!("CARGO_PKG_VERSION").to_owned()),
            ("emitter", emitter_revision.to_string()),
            ("sources", SOURCES.to_owned()),
            ("kernels", kiln_kernels::SOURCES.to_owned()),
            ("isa", isa.to_owned()),
            ("arch", std::env::consts::ARCH.to_owned()),
        ];
        processor(&mut facts);
        Fingerprint::from_facts(facts)
    }

    /// A fingerprint of given facts.
    pub fn from_facts<N: Into<String>, V: Into<String>>(facts: impl IntoIterator<Item = (N, V)>) -> Fingerprint {
        Fingerprint { facts: facts.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }

    /// The facts, in order.
    #[must_use]
    pub fn facts(&self) -> &[(String, String)] {
        &self.facts
    }

    /// 32 bytes that differ if any fact does.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for text in self.facts.iter().flat_map(|(name, value)| [name, value]) {
            // Each text is preceded by its length, so that no two lists of facts are one string of bytes.
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

/// The features that emitted code may come to use, as far as processor and operating system both have them.
#[cfg(target_arch = "x86_64")]
fn usable_features() -> String {
    macro_rules! usable {
        ($($feature:tt),*) => {
            [$(($feature, std::is_x86_feature_detected!($feature))),*]
        };
    }
    let features = usable!(
        "sse4.1",
        "sse4.2",
        "popcnt",
        "bmi1",
        "bmi2",
        "lzcnt",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "avxvnni",
        "avx512f",
        "avx512bw",
        "avx512cd",
        "avx512dq",
        "avx512vl",
        "avx512vnni",
        "avx512bf16",
        "avx512fp16",
        "avx512ifma",
        "avx512vbmi",
        "avx512vbmi2",
        "avx512bitalg",
        "avx512vpopcntdq"
    );
    // Linux lets a process use the matrix unit only where it has asked, which the kernels do.
    let unit = (Extension::Amx.name(), Extension::Amx.present());
    let usable: Vec<&str> =
        features.into_iter().chain([unit]).filter(|(_, usable)| *usable).map(|(name, _)| name).collect();
    usable.join(",")
}

#[cfg(target_arch = "x86_64")]
fn processor(facts: &mut Vec<(&'static str, String)>) {
    let cpuid = raw_cpuid::CpuId::new();
    if let Some(vendor) = cpuid.get_vendor_info() {
        facts.push(("vendor", vendor.as_str().to_owned()));
    }
    if let Some(info) = cpuid.get_feature_info() {
        facts.push(("family", info.family_id().to_string()));
        facts.push(("model", info.model_id().to_string()));
        facts.push(("stepping", info.stepping_id().to_string()));
    }
    facts.push(("features", usable_features()));
    for cache in cpuid.get_cache_parameters().into_iter().flatten() {
        let name = match cache.cache_type() {
            raw_cpuid::CacheType::Data | raw_cpuid::CacheType::Unified => match cache.level() {
                1 => "l1d",
                2 => "l2",
                3 => "l3",
                _ => continue,
            },
            _ => continue,
        };
        let lines = cache.associativity() * cache.physical_line_partitions() * cache.sets();
        facts.push((name, (lines * cache.coherency_line_size()).to_string()));
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn processor(_facts: &mut Vec<(&'static str, String)>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_the_same_fingerprint_twice_and_another_for_another_cap_or_emitter() {
        let host = Fingerprint::host("avx2", 3);
        assert_eq!(host.digest(), Fingerprint::host("avx2", 3).digest());
        assert_ne!(host.digest(), Fingerprint::host("portable", 3).digest());
        assert_ne!(host.digest(), Fingerprint::host("avx2", 4).digest());
        assert_eq!(host.digits().len(), 32);
    }

    #[test]
    fn changing_any_single_fact_changes_the_digest() {
        let host = Fingerprint::host("avx2", 3);
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

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn threads_are_no_fact_and_the_processor_is() {
        let names: Vec<String> = Fingerprint::host("avx2", 3).facts().iter().map(|(name, _)| name.clone()).collect();
        for name in
            ["kiln", "emitter", "sources", "kernels", "isa", "vendor", "family", "model", "stepping", "features"]
        {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
        assert!(!names.iter().any(|name| name.contains("thread")));
    }
}
