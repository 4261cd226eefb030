//! Packed models: a graph after its passes with its packed weights, in a file that is mapped and not read.
//!
//! A file holds checked data, never code. The header and the index (the graph, types, shapes, offsets) are validated
//! whole before any offset is used ([`file`], [`index`]); packed weights may hold any numbers. A file is for one build
//! of Kiln and one set of facts that determine a graph and its panels ([`made_for`]). docs/packed.md has every byte.

pub mod file;
pub mod folder;
pub mod index;
pub mod made_for;
mod parts;
pub mod references;
pub mod rows;
mod shelf;
pub mod write;

use std::path::{Path, PathBuf};

pub use file::{PackedFile, Verify};
pub use made_for::MadeFor;
pub use references::References;
pub use shelf::{Noting, Ready};
pub use write::Writer;

/// The first bytes of a file.
pub const MAGIC: [u8; 8] = *b"KILNPACK";

/// The number of this form of the file.
pub const SCHEMA: u32 = 6;

/// The oldest form that is read.
pub const OLDEST_SCHEMA: u32 = 3;

/// Bytes of the header. The data begins after it.
pub const HEADER: usize = 4096;

/// Everything in the data is aligned to a multiple of this many bytes: a cache line, and the widest vector.
pub const ALIGNMENT: usize = 64;

/// A weight of at least this many bytes begins on a page of its own.
pub const LARGE: usize = 64 << 10;

/// Bytes of a page of a file.
pub const PAGE: usize = 4096;

/// Why a packed model cannot be written or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackedError {
    /// The system refused it.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    Io {
        /// What was attempted.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// It is no packed model, or is damaged.
    #[error("{path} is no packed model that can be used: {reason}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault and its place.
        reason: String,
    },
    /// A file that has a part of its weights cannot be used.
    #[error("{path} has weights in {location}, which cannot be used: {reason}", path = path.display())]
    Source {
        /// The packed model.
        path: PathBuf,
        /// That file as the packed model names it, quoted and shortened.
        location: String,
        /// The fault.
        reason: String,
    },
    /// It was made for another build, machine or set of options.
    #[error("{path} was packed for another {fact}: {found}, and here it is {wanted}; pack the model here", path = path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// The fact that differs.
        fact: String,
        /// What the file says.
        found: String,
        /// The fact here.
        wanted: String,
    },
    /// The model has something that packed models cannot hold.
    #[error("the model cannot be packed: {0}")]
    Unsupported(String),
}

impl PackedError {
    /// The system's error about a file.
    pub fn io<'a>(what: &'static str, path: &'a Path) -> impl Fn(std::io::Error) -> PackedError + 'a {
        move |source| PackedError::Io { what, path: path.to_owned(), source }
    }

    /// The error for a damaged file.
    pub fn damaged(path: &Path, reason: impl Into<String>) -> PackedError {
        PackedError::Damaged { path: path.to_owned(), reason: reason.into() }
    }
}

/// Whether a file begins as packed models do. A file that cannot be read does not.
#[must_use]
pub fn is_packed(path: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; MAGIC.len()];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == MAGIC
}
