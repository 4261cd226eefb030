//! The bytes of each schema, which every later build must still understand, or refuse by its number.
//!
//! The golden file of the newest schema is also the example in docs/records.md, which is compared with it here.

use kiln::record::{RecordError, encode, inspect_file};

use crate::fixture::{fingerprint, known, open, problem, saved, tile};

const SCHEMA_1: &[u8] = include_bytes!("schema1.kiln");
const SCHEMA_2: &[u8] = include_bytes!("schema2.kiln");

#[test]
fn this_build_writes_schema_2_byte_for_byte() {
    let (_folder, _, bytes) = saved(2);
    assert_eq!(bytes, SCHEMA_2);
}

/// Puts those bytes where the store of the tests looks for its file.
fn placed(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = crate::fixture::folder();
    let path = folder.path().join(format!("{}.kiln", fingerprint().digits()));
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn this_build_reads_schema_2() {
    let (folder, path) = placed(SCHEMA_2);
    assert_eq!(known(&open(folder.path()), 2), 2);
    let summary = inspect_file(&path).unwrap();
    assert_eq!((summary.schema, summary.codec, summary.damaged), (2, 1, 0));
    assert_eq!(summary.fingerprint, fingerprint().digits());
    let first = &summary.records[0];
    assert_eq!((first.family.as_str(), first.revision), ("problem", 2));
    assert_eq!((&first.key, &first.choice), (&encode(&problem(0)).unwrap(), &encode(&tile(0)).unwrap()));
    assert_eq!(first.evidence, crate::fixture::measured(3));
}

#[test]
fn this_build_refuses_schema_1_by_its_number() {
    let (folder, path) = placed(SCHEMA_1);
    let store = open(folder.path());
    assert_eq!((known(&store, 2), store.stats().rejected_version), (0, 1));
    assert!(matches!(inspect_file(&path), Err(RecordError::Unreadable { .. })));
}

#[test]
fn the_document_shows_the_golden_file() {
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/records.md")).unwrap();
    // The lines of the dump: an offset, a colon, bytes in hexadecimal, then words.
    let shown: Vec<u8> = document
        .lines()
        .filter_map(|line| {
            line.split_once(": ").filter(|(offset, _)| offset.len() == 4 && u16::from_str_radix(offset, 16).is_ok())
        })
        .flat_map(|(_, rest)| rest.split("  ").next().unwrap_or_default().split(' ').collect::<Vec<_>>())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    assert_eq!(shown, SCHEMA_2);
}
