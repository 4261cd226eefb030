//! The bytes of each schema, which every later build must still understand.
//!
//! The golden file of the newest schema is also the example in docs/records.md; a test of the product compares it.

use kiln_records::{encode, inspect_file};

use crate::fixture::{fingerprint, known, measured, open, problem, saved, tile};

/// The golden files, and the time of the best choice that lost in each.
const GOLDEN: [(u16, &[u8], u64); 3] = [
    (1, include_bytes!("schema1.kiln"), 0),
    (2, include_bytes!("schema2.kiln"), 1250),
    (3, include_bytes!("schema3.kiln"), 1250),
];

const NEWEST: &[u8] = GOLDEN[2].1;

#[test]
fn this_build_writes_schema_3_byte_for_byte() {
    let (_folder, _, bytes) = saved(2);
    assert_eq!(bytes, NEWEST);
}

/// Puts those bytes where the tests' store looks for its file.
fn placed(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = crate::fixture::folder();
    let path = folder.path().join(format!("{}.kiln", fingerprint().digits()));
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn this_build_reads_every_schema_and_writes_it_back_as_the_newest() {
    for (schema, bytes, against) in GOLDEN {
        let (folder, path) = placed(bytes);
        let summary = inspect_file(&path).unwrap();
        assert_eq!((summary.schema, summary.codec, summary.damaged), (schema, 1, 0));
        assert_eq!(summary.fingerprint, fingerprint().digits());
        let first = &summary.records[0];
        assert_eq!((first.family.as_str(), first.revision), ("problem", 2));
        assert_eq!((&first.key, &first.choice), (&encode(&problem(0)).unwrap(), &encode(&tile(0)).unwrap()));
        assert_eq!(first.evidence, kiln_records::Evidence { against, ..measured(3) });

        let store = open(folder.path());
        assert_eq!((known(&store, 2), store.stats().loaded), (2, 2), "schema {schema}");
        assert_eq!(store.save().unwrap().path.is_some(), schema < 3, "schema {schema} is written anew");
        assert_eq!((inspect_file(&path).unwrap().schema, known(&open(folder.path()), 2)), (3, 2));
    }
}
