//! Records, which are a library of their own ([`kiln_records`]), and the build and machine that Kiln's files are for.

mod host;

use std::path::PathBuf;

pub use host::BUILD;
pub use host::{SOURCES, host_fingerprint};
pub use kiln_records::{
    Asked, BlobError, CacheMode, CodecError, Credentials, Engine, EngineError, Evidence, EvidenceKind, FileSummary,
    Fingerprint, LoadReport, Object, Over, Pace, Put, Record, RecordError, RecordId, Recorded, Remote, RemoteError,
    RemotePolicy, SaveReport, Store, StoreStats, clear_folder, connect, decode, decode_long, encode, encode_long,
    inspect_file, inspect_folder, laws, merge_into, read_blob, replace_file, write_blob,
};

/// The folder for records when the user names none: `kiln` in the platform's cache folder. `None` where there is no
/// home.
#[must_use]
pub fn default_folder() -> Option<PathBuf> {
    use etcetera::BaseStrategy;
    etcetera::choose_base_strategy().ok().map(|strategy| strategy.cache_dir().join("kiln"))
}
