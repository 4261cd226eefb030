//! The records as the product uses them, stated as tests.
//!
//! `sessions` is about what a session finds and leaves, `hostile` and `mutated` about records whose checksums are right and whose
//! contents are an enemy's, `foreign` about those of other models and builds, `document` about what docs/records.md shows.
//!
//! What the records promise to any user is tested in their own crate.

#![allow(clippy::print_stdout, reason = "what was measured is for a reader of the log")]

mod document;
mod foreign;
mod hostile;
mod mutated;
mod sessions;

/// A folder that is fit for records and goes away with the test.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}
