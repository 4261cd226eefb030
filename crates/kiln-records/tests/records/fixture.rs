//! A family with records, and folders to keep them in.

use std::path::Path;

use kiln_key::{F32Bits, Key, Mutate};
use kiln_records::{CacheMode, Evidence, EvidenceKind, Fingerprint, Recorded, Store};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// A problem with a field of every kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "problem", value = (), laws = kiln_records::laws::check)]
pub(crate) struct Problem {
    pub rows: u32,
    pub sizes: SmallVec<[u32; 4]>,
    pub scale: F32Bits,
    pub finish: Finish,
    pub transposed: bool,
}

/// An enum in a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub(crate) enum Finish {
    None,
    Leaky(F32Bits),
    Clip { low: F32Bits, high: F32Bits },
}

/// The choice of a builder of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tile {
    pub(crate) rows: u8,
    pub(crate) columns: u8,
    pub(crate) unrolled: bool,
}

impl Recorded for Problem {
    const REVISION: u32 = 2;
    type Choice = Tile;
}

/// The problem with that number.
pub(crate) fn problem(number: u32) -> Problem {
    Problem {
        rows: number,
        sizes: SmallVec::from_slice(&[number, 2, 3]),
        scale: F32Bits::new(0.5),
        finish: Finish::Leaky(F32Bits::new(0.01)),
        transposed: number.is_multiple_of(2),
    }
}

/// A choice that contains its number.
pub(crate) fn tile(number: u8) -> Tile {
    Tile { rows: number, columns: 2, unrolled: true }
}

/// Evidence of a measurement with that many samples, at a fixed time.
pub(crate) fn measured(samples: u32) -> Evidence {
    Evidence { kind: EvidenceKind::Measured, nanos: 1000, samples, created: 1_700_000_000, against: 1250 }
}

/// A fingerprint that is no machine's.
pub(crate) fn fingerprint() -> Fingerprint {
    Fingerprint::from_facts([("machine", "of the tests"), ("schema", "1")])
}

/// The store of that folder, for reading and writing.
pub(crate) fn open(folder: &Path) -> Store {
    Store::open(folder, &fingerprint(), CacheMode::ReadWrite)
}

/// A folder that is fit for records and is removed with the test.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A folder whose file holds problems 0 to `count`, each with the tile of its number; and the file's bytes.
pub(crate) fn saved(count: u32) -> (tempfile::TempDir, std::path::PathBuf, Vec<u8>) {
    let folder = folder();
    let store = open(folder.path());
    for number in 0..count {
        store.insert(&problem(number), &tile(number as u8), measured(3));
    }
    let path = store.save().unwrap().path.unwrap();
    let bytes = std::fs::read(&path).unwrap();
    (folder, path, bytes)
}

/// The number of problems from 0 to `count` that a store knows. A wrong choice fails the test.
pub(crate) fn known(store: &Store, count: u8) -> u8 {
    let choices = (0..count).filter_map(|number| Some((number, store.lookup(&problem(number.into()))?)));
    choices.inspect(|(number, choice)| assert_eq!(*choice, tile(*number), "a wrong record")).count() as u8
}
