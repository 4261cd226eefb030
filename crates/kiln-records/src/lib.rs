#![doc = include_str!("../README.md")]
//!
//! # In this crate
//!
//! It knows bytes, files and evidence. It knows no built value, no code and no address: a record cannot carry any.
//!
//! - `codec` alone knows how values become bytes, `packing` makes them short; `frame` and `entry` lay records out in a
//!   file (docs/records.md, byte by byte);
//! - `fingerprint` says which machine and which program a file is for; each has one file in the folder;
//! - `folder` says what may be read and written, and refuses what another user could have put there; `disk` is the file
//!   system itself, which tests replace by one that fails (`faults`);
//! - `evidence` says which of two records is better, `contents` is a store's memory: the file and long shards as an
//!   `image` in `pages`, where records are found in order or by `places`; files of `older` schemas; and other records
//!   in an `arena`. `store` puts all this together, `shared` reads the files, `saving` writes them and `writer` does so
//!   in the background;
//! - `remote` shares the records of many machines through a store elsewhere;
//! - `blob` and `engine` are for callers with a storage of their own;
//! - `inspect` reads a folder for tools and `tools` writes for them, `laws` has the tests' demands on every key type.

#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(rustdoc::private_intra_doc_links, reason = "headers guide readers of the source to private files too")]

mod arena;
mod blob;
mod codec;
mod contents;
mod disk;
mod engine;
mod entry;
mod evidence;
mod fingerprint;
mod folder;
mod frame;
mod image;
mod inspect;
pub mod laws;
mod older;
mod packing;
mod pages;
mod places;
mod remote;
mod saving;
mod shared;
mod store;
mod tools;
mod warning;
mod writer;

#[cfg(test)]
mod faults;

use std::path::PathBuf;

use serde::{Serialize, de::DeserializeOwned};

pub use blob::{BlobError, RecordId, read_blob, write_blob};
pub use codec::{CodecError, decode, decode_long, encode, encode_long};
pub use contents::StoreStats;

pub use engine::{Engine, EngineError};
pub use entry::Record;
pub use evidence::{Evidence, EvidenceKind};
pub use fingerprint::Fingerprint;
pub use inspect::{FileSummary, inspect_file, inspect_folder};
pub use remote::{Credentials, Object, Over, Put, Remote, RemoteError, RemotePolicy, Secret, connect};
pub use saving::SaveReport;
pub use shared::CacheMode;
pub use store::{Asked, LoadReport, Store};
pub use tools::{clear_folder, merge_into, replace_file};
pub use writer::Pace;

/// A digest of this crate's sources and of the compiler's settings: a fact for the fingerprints of programs whose
/// records should start anew with another build of this crate.
pub const SOURCES: &str = env!("KILN_SOURCES");

/// A key whose builder's choices are kept as records.
pub trait Recorded: kiln_key::Key + Serialize + DeserializeOwned {
    /// The meaning of a choice. Raise it whenever the same choice would build something else than before, or the fields
    /// of the key or of the choice change; records of other revisions are misses.
    const REVISION: u32;

    /// The decisions of the builder beyond the key: plain data. The builder must be able to refuse every value of it.
    type Choice: Serialize + DeserializeOwned + Clone + PartialEq + std::fmt::Debug;
}

/// Why records could not be written, or a folder could not be inspected. Looking records up never fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file system refused.
    #[error("{}: cannot {what}: {source}", path.display())]
    Io {
        /// The attempted operation.
        what: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file or folder that another user could have written, or that is of the wrong kind.
    #[error("{}: refused: {why}", path.display())]
    Refused {
        /// The refused path.
        path: PathBuf,
        /// The reason, and a remedy.
        why: &'static str,
    },
    /// Other processes were saving all the time, and a shard could not be written either, because there are too many
    /// shards or too many new records. New records stay in memory for the next save.
    #[error("{}: locked by other processes for {waited_ms} ms", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long this process tried.
        waited_ms: u64,
    },
    /// The file is not a whole and sound record file.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The defect.
        why: &'static str,
    },
}
