//! Executors from blobs: the same as those that were built, or a typed refusal.

use kiln_cache::{Cache, Limits};
use kiln_kernels::Isa;
use kiln_kernels::cpu::{Elements, Numerics, Precision};
use kiln_key::F32Bits;
use smallvec::SmallVec;

use super::*;
use crate::exec::Target;
use crate::exec::matmul::{MatMulKey, MatMulProblem, Stored};
use crate::record::{EvidenceKind, Store};

fn context() -> BuildCx {
    BuildCx {
        isa: Isa::Portable,
        threads: 1,
        numerics: Numerics::default(),
        precision: Precision::default(),
        cache: Arc::new(Cache::new(Limits { entries: 64, bytes: 1 << 20 })),
        records: Arc::new(Store::in_memory()),
        check: false,
        gpu: None,
    }
}

fn product(m: u64) -> MatMulKey {
    let problem = MatMulProblem {
        m,
        n: 20,
        k: 9,
        batch: SmallVec::new(),
        left: Stored::Rows,
        right: Stored::Rows,
        elements: Elements::F32,
        scale: F32Bits::new(1.0),
        bias: false,
        activation: None,
        stored: Default::default(),
    };
    MatMulKey::new(Target::new(Isa::Portable, 1), problem)
}

#[test]
fn an_executor_comes_back_from_its_blob() {
    let made = context().make(&product(5)).unwrap();
    assert_eq!(made.outcome(), Outcome::Miss);
    let blob = made.cache_blob().unwrap();
    let cx = context();
    let again = cx.make_from_blob(&product(5), &blob).unwrap();
    assert_eq!((again.outcome(), again.cache_id()), (Outcome::RecordHit, made.cache_id()));
    assert_eq!(again.cache_blob().unwrap(), blob);
    assert_eq!(cx.executor(&product(5)).unwrap().1, Outcome::Hit, "it is in the cache");
    assert!(cx.records.lookup(&product(5)).is_some(), "and kept as a record");
    assert_ne!(context().make(&product(6)).unwrap().cache_id(), made.cache_id());
}

#[test]
fn a_measured_choice_travels_with_its_evidence() {
    let cx = context();
    let choice = product(5).choose(&cx);
    cx.records.insert(&product(5), &choice, Evidence::measured(77, 9));
    let blob = cx.make(&product(5)).unwrap().cache_blob().unwrap();
    let there = context();
    there.make_from_blob(&product(5), &blob).unwrap();
    let (_, evidence) = there.records.lookup_with_evidence(&product(5)).unwrap();
    assert_eq!((evidence.kind, evidence.nanos, evidence.samples), (EvidenceKind::Measured, 77, 9));
}

#[test]
fn what_is_not_the_executors_blob_is_refused_by_its_reason() {
    let cx = context();
    let blob = cx.make(&product(5)).unwrap().cache_blob().unwrap();
    let refusal = |key: &MatMulKey, blob: &[u8]| context().make_from_blob(key, blob).err();
    assert!(matches!(refusal(&product(6), &blob), Some(BlobError::Other { .. })));
    assert!(matches!(refusal(&product(5), &blob[..blob.len() - 1]), Some(BlobError::Damaged(1))));
    assert!(matches!(refusal(&product(5), b"\x89KILN"), Some(BlobError::Unreadable(_))));
    assert!(matches!(refusal(&product(5), b"elephant"), Some(BlobError::Unreadable(_))));
    for bit in 0..blob.len() * 8 {
        let mut flipped = blob.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(refusal(&product(5), &flipped).is_some(), "bit {bit}");
    }
    let record = read_blob(&blob, cx.engine().fingerprint()).unwrap().remove(0);
    let elsewhere = crate::record::Fingerprint::from_facts([("machine", "another")]);
    let foreign = write_blob(std::slice::from_ref(&record), &elsewhere).unwrap();
    assert_eq!(refusal(&product(5), &foreign), Some(BlobError::Foreign));
    // A choice that decodes and does not fit: no tile is that wide.
    let mut choice = product(5).choose(&cx);
    choice.vectors = 200;
    let hostile = Record { choice: encode(&choice).unwrap(), ..record };
    let hostile = write_blob(&[hostile], cx.engine().fingerprint()).unwrap();
    assert_eq!(refusal(&product(5), &hostile), Some(BlobError::Invalid));
}
