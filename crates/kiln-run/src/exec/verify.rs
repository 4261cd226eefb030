//! Checks a record before anything is built for it: whether builders could use it, and why not.
//!
//! Builders ask the same questions of the records that they find, and go on without those that fail; here the answers
//! are for people and tools. Any bytes are safe to ask about, and nothing is built for an answer.

use std::sync::Arc;

use kiln_cache::{Cache, Limits};
use kiln_kernels::cpu::{Numerics, Precision};
use kiln_kernels::{EMITTER_REVISION, Isa};

use super::context::BuildCx;
use super::refusal::Refusal;
use crate::record::{Record, Store, host_fingerprint};

/// Asks whether records could be used.
pub struct Verifier(BuildCx);

impl Default for Verifier {
    fn default() -> Verifier {
        Verifier(BuildCx {
            isa: Isa::detect(),
            threads: 1,
            numerics: Numerics::default(),
            precision: Precision::default(),
            cache: Arc::new(Cache::new(Limits { entries: 0, bytes: 0 })),
            records: Arc::new(Store::off()),
            check: false,
            gpu: None,
        })
    }
}

impl Verifier {
    /// Whether builders could use a record: its key, and its choice for that key. The record's level and number of
    /// threads do not matter.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn verify(&self, record: &Record) -> Result<(), Refusal> {
        let family = super::FAMILIES.iter().find(|family| family.name == record.family).ok_or(Refusal::Family)?;
        (family.verify)(record, &self.0)
    }

    /// Whether files of that digest are for this build on this machine. Which choices fit may depend on the extensions
    /// that a processor has beside its level, so only a record's own machine can judge its choices.
    #[must_use]
    pub fn is_here(&self, digest: [u8; 32]) -> bool {
        let levels = [Isa::Portable, Isa::Avx2, Isa::Avx512];
        levels.iter().any(|isa| host_fingerprint(isa.name(), EMITTER_REVISION).digest() == digest)
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::cpu::softmax::Around;
    use kiln_key::{F32Bits, Key};

    use super::*;
    use crate::exec::resize::{Mode, ResizeAxis, ResizeKey, ResizeProblem, Transform};
    use crate::exec::softmax::{SoftmaxKey, SoftmaxProblem};
    use crate::exec::{Family, Target, Tasks};
    use crate::record::{Evidence, Recorded, encode};

    fn record<K: Family>(key: &K, choice: &K::Choice) -> Record {
        let (key, choice) = (encode(key).unwrap(), encode(choice).unwrap());
        let evidence = Evidence::measured(1, 1);
        Record { family: K::FAMILY.to_owned(), revision: K::REVISION, key, choice, evidence }
    }

    fn softmax(length: u64) -> SoftmaxKey {
        let around = Around { outer: 2, length, inner: 1 };
        SoftmaxKey::new(Target::new(Isa::Portable, 3), SoftmaxProblem { around, logarithm: false })
    }

    fn cubic(size: u64) -> ResizeKey {
        let axis = ResizeAxis { output: 2 * size, scale: 2f64.to_bits(), ..ResizeAxis::keep(size) };
        let problem = ResizeProblem {
            mode: Mode::Cubic { a: F32Bits::new(-0.75) },
            transform: Transform::HalfPixel,
            exclude_outside: false,
            antialias: false,
            axes: [axis].into_iter().collect(),
            width: 4,
        };
        ResizeKey::new(Target::new(Isa::Portable, 1), problem)
    }

    #[test]
    fn a_record_is_refused_by_its_reason() {
        let verify = |record: &Record| Verifier::default().verify(record);
        let sound = record(&softmax(7), &Tasks { tasks: 3 });
        assert_eq!(verify(&sound), Ok(()));
        assert_eq!(verify(&Record { family: "soft".to_owned(), ..sound.clone() }), Err(Refusal::Family));
        let other = verify(&Record { revision: 9, ..sound.clone() });
        assert_eq!(other, Err(Refusal::Revision { found: 9, known: SoftmaxKey::REVISION }));
        assert!(matches!(verify(&Record { key: vec![1], ..sound.clone() }), Err(Refusal::Key(_))));
        assert!(matches!(verify(&Record { choice: vec![1], ..sound }), Err(Refusal::Choice(_))));
        assert_eq!(verify(&record(&softmax(7), &Tasks { tasks: 4 })), Err(Refusal::Unfit));
        assert_eq!(verify(&record(&softmax(1 << 63), &Tasks { tasks: 3 })), Err(Refusal::Sizes));
        let resized = |size| verify(&record(&cubic(size), &Tasks { tasks: 1 }));
        assert_eq!(resized(1 << 12), Ok(()));
        assert!(matches!(resized(1 << 29), Err(Refusal::Tables { bytes }) if bytes > 32 << 30));
        assert_eq!(resized(1 << 46), Err(Refusal::Sizes));
    }

    #[test]
    fn every_family_can_be_asked() {
        for family in crate::exec::FAMILIES {
            let nothing = Record {
                family: family.name.to_owned(),
                revision: u32::MAX,
                key: Vec::new(),
                choice: Vec::new(),
                evidence: Evidence::model(),
            };
            assert!(Verifier::default().verify(&nothing).is_err_and(|refusal| refusal.is_of_another_build()));
        }
        assert_eq!(SoftmaxKey::FAMILY, "softmax");
    }
}
