//! Two halves of any bytes are two files of records: merging one into a store of the other neither panics nor invents
//! records, and the saved file is sound.

#![no_main]

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::LazyLock;

use kiln_run::record::{CacheMode, Fingerprint, Store, inspect_file};
use libfuzzer_sys::fuzz_target;

/// A folder for each process, which only its user may write: other folders are refused unread.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("kiln-fuzz-merge-{}", std::process::id()));
    DirBuilder::new().mode(0o700).recursive(true).create(&folder).expect("a temporary folder can be made");
    folder
});

/// A header that is right, so that the fuzzer need not find its checksum.
fn with_header(body: &[u8], fingerprint: &Fingerprint) -> Vec<u8> {
    let whole = kiln_run::record::write_blob(&[], fingerprint).expect("no record is too long");
    [&whole[..64], body].concat()
}

fuzz_target!(|bytes: &[u8]| {
    let fingerprint = Fingerprint::from_facts([("machine", "of the fuzzer")]);
    let (one, two) = bytes.split_at(bytes.len() / 2);
    let (file, other) = (FOLDER.join("file.kiln"), FOLDER.join("other.kiln"));
    if std::fs::write(&file, with_header(one, &fingerprint)).is_err()
        || std::fs::write(&other, with_header(two, &fingerprint)).is_err()
    {
        return;
    }
    let store = Store::open_file(&file, &fingerprint, CacheMode::ReadWrite);
    let before = store.stats().records;
    let report = store.load_from(&other, &fingerprint, |_| true).expect("the header is right");
    assert!(store.stats().records <= before + report.taken && report.taken <= report.sound);
    if store.save().is_ok_and(|report| report.path.is_some()) {
        let saved = inspect_file(&file).expect("what is saved can be read");
        assert_eq!((saved.damaged, saved.records.len() as u64), (0, store.stats().records));
    }
});
