//! Any bytes are a file of records: damaged records are skipped and counted, without other effects.

#![no_main]

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::LazyLock;

use kiln_run::record::inspect_file;
use libfuzzer_sys::fuzz_target;

/// One file for each process, written again for every input, in a folder that only its user may write: other folders
/// are refused unread.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("kiln-fuzz-records-{}", std::process::id()));
    DirBuilder::new().mode(0o700).recursive(true).create(&folder).expect("a temporary folder can be made");
    folder.join("records")
});

fuzz_target!(|bytes: &[u8]| {
    if std::fs::write(&*FILE, bytes).is_ok() {
        let _ = inspect_file(&FILE);
    }
});
