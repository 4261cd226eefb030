//! What the records promise, stated as tests.
//!
//! `store` is about what is kept and which of two records wins, `file` about saving, loading and sharing, `damage` about
//! files that are cut, flipped or made by an enemy, `golden` about the bytes of each schema, which are for ever.

mod damage;
mod file;
mod fixture;
mod golden;
mod store;
