//! The records as the product uses them, stated as tests.
//!
//! `sessions` tests what a session finds and leaves; `hostile` and `mutated` test records with right checksums and an
//! enemy's contents; `foreign` tests records of other models and builds; `document` tests the example in
//! docs/records.md.
//!
//! What the records promise to any user is tested in their own crate.

#![allow(clippy::print_stdout, reason = "what was measured is for a reader of the log")]

mod document;
mod foreign;
mod hostile;
mod mutated;
mod sessions;

/// A folder that is fit for records and is removed with the test.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}
