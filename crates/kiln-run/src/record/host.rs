//! The build of Kiln and the kind of machine that files of records are for.
//!
//! The facts: Kiln's version, the emitters' revision, digests of the sources that records depend on and of how they
//! were compiled (`build.rs`), the processor (vendor, family, model, stepping), the features that may be *used* (so
//! that what the operating system does not save on a switch does not count), the instruction-set cap in force, and the
//! sizes of the caches. Not among them: the number of threads, which is a field of the keys that depend on it.
//!
//! Two builds of the same sources on one kind of machine share records; a changed processor, cap or kernel starts cold.

use kiln_kernels::Extension;
use kiln_records::Fingerprint;

/// A digest of the sources of executors and of the compiler's settings for them.
pub const SOURCES: &str = env!("KILN_SOURCES");

/// The facts that tell this build from others; they come before those about the machine.
pub const BUILD: [(&str, &str); 5] = [
    ("kiln", env!("CARGO_PKG_VERSION")),
    ("sources", SOURCES),
    ("kernels", kiln_kernels::SOURCES),
    ("records", kiln_records::SOURCES),
    ("keys", kiln_key::SOURCES),
];

/// The fingerprint of this machine and this build, for kernels capped at the level named `isa` and made by emitters
/// of that revision.
#[must_use]
pub fn host_fingerprint(isa: &str, emitter_revision: u32) -> Fingerprint {
    let mut facts: Vec<(&str, String)> = BUILD.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    facts.push(("emitter", emitter_revision.to_string()));
    facts.push(("isa", isa.to_owned()));
    facts.push(("arch", std::env::consts::ARCH.to_owned()));
    processor(&mut facts);
    Fingerprint::from_facts(facts)
}

/// The features that emitted code may use and that both the processor and the operating system have.
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
    // Linux lets a process use AMX only after the process has asked, which the kernels do.
    let amx = (Extension::Amx.name(), Extension::Amx.present());
    let usable: Vec<&str> =
        features.into_iter().chain([amx]).filter(|(_, usable)| *usable).map(|(name, _)| name).collect();
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
        let host = host_fingerprint("avx2", 3);
        assert_eq!(host.digest(), host_fingerprint("avx2", 3).digest());
        assert_ne!(host.digest(), host_fingerprint("portable", 3).digest());
        assert_ne!(host.digest(), host_fingerprint("avx2", 4).digest());
        assert_eq!(host.digits().len(), 32);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn threads_are_no_fact_and_the_processor_is() {
        let names: Vec<String> = host_fingerprint("avx2", 3).facts().iter().map(|(name, _)| name.clone()).collect();
        for name in [
            "kiln", "emitter", "sources", "kernels", "records", "keys", "isa", "vendor", "family", "model", "stepping",
            "features",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
        assert!(!names.iter().any(|name| name.contains("thread")));
    }
}
