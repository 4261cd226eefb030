//! What becomes of a record before anything is built for it: whether builders could use it, and why not.
//!
//! Builders ask the same questions of the records that they find, and go on without those that fail; here they are asked
//! for people and tools. Any bytes are safe to ask about, and nothing is built for an answer.

use std::sync::Arc;

use kiln_kernels::cpu::{Numerics, Precision};
use kiln_kernels::{EMITTER_REVISION, Isa};

use super::context::BuildCx;
use super::family::{Family, MOST_AHEAD};
use crate::cache::{Cache, Limits};
use crate::record::{CodecError, Record, Recorded, Store, decode, host_fingerprint};

/// Why builders would not use a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No build that this one knows of has such a family.
    #[error("its family is not known here")]
    Family,
    /// Choices of that revision mean something else.
    #[error("it is of revision {found}, and this build is of {known}")]
    Revision {
        /// The record's.
        found: u32,
        /// This build's.
        known: u32,
    },
    /// The bytes of the key are not those of a key.
    #[error("its key cannot be read: {0}")]
    Key(CodecError),
    /// The key has sizes that no tensors have.
    #[error("its key has sizes that no tensors have")]
    Sizes,
    /// An executor of that key would have larger tables than a record is believed to need.
    #[error("its key asks for {bytes} bytes of tables, and {MOST_AHEAD} are the most")]
    Tables {
        /// Bytes.
        bytes: u64,
    },
    /// The bytes of the choice are not those of a choice.
    #[error("its choice cannot be read: {0}")]
    Choice(CodecError),
    /// The choice is none for that key.
    #[error("its choice does not fit its key")]
    Unfit,
}

impl Refusal {
    /// Whether such a record may be honest: made by another build, for itself.
    #[must_use]
    pub fn is_of_another_build(&self) -> bool {
        matches!(self, Refusal::Family | Refusal::Revision { .. })
    }
}

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
    /// Whether builders could use a record: its key, and its choice for that key. For which level and how many threads it is
    /// does not matter.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn verify(&self, record: &Record) -> Result<(), Refusal> {
        let family = super::FAMILIES.iter().find(|family| family.name == record.family).ok_or(Refusal::Family)?;
        (family.verify)(record, &self.0)
    }

    /// Whether files of that digest are for this build on this machine. Which choices fit may depend on what a processor has
    /// beside its level, so that those of other machines are for them to judge.
    #[must_use]
    pub fn is_here(&self, digest: [u8; 32]) -> bool {
        let levels = [Isa::Portable, Isa::Avx2, Isa::Avx512];
        levels.iter().any(|isa| host_fingerprint(isa.name(), EMITTER_REVISION).digest() == digest)
    }
}

/// A record's key and choice, where it is of this revision.
pub(super) fn read<K: Recorded>(record: &Record) -> Result<(K, K::Choice), Refusal> {
    if record.revision != K::REVISION {
        return Err(Refusal::Revision { found: record.revision, known: K::REVISION });
    }
    Ok((decode(&record.key).map_err(Refusal::Key)?, decode(&record.choice).map_err(Refusal::Choice)?))
}

pub(super) fn verify<K: Family>(record: &Record, cx: &BuildCx) -> Result<(), Refusal> {
    let (key, choice) = read::<K>(record)?;
    match key.table_bytes() {
        None => Err(Refusal::Sizes),
        Some(bytes) if bytes > MOST_AHEAD => Err(Refusal::Tables { bytes }),
        // Whether a choice fits may be asked of sound keys alone.
        Some(_) if !key.accepts(&choice, cx) => Err(Refusal::Unfit),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::cpu::softmax::Around;

    use super::*;
    use crate::cache::{F32Bits, Key};
    use crate::exec::resize::{Mode, ResizeAxis, ResizeKey, ResizeProblem, Transform};
    use crate::exec::softmax::{SoftmaxKey, SoftmaxProblem};
    use crate::exec::{Target, Tasks};
    use crate::record::{Evidence, encode};

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
