#![doc = include_str!("../README.md")]
//!
//! # In this crate
//!
//! Read on in this order: `answer` (builders and their results), `erased` (many key types in one table), `clock` (what
//! "recently" means), `shard` (the policy, single-threaded), `front` (hits without a lock), `held` (values in use
//! without a shared count), `flight` (one builder per key), `budget` (the bound of one cache), `table` (entries that an
//! account may evict), `account` (bytes in use), `store` (all these together), `memo` (one user's last answers),
//! `stats`.

#![deny(unsafe_code)]
#![allow(rustdoc::private_intra_doc_links, reason = "headers guide readers of the source to private files too")]

mod account;
mod answer;
mod budget;
mod clock;
mod erased;
mod flight;
mod front;
mod held;
mod memo;
mod shard;
mod shim;
mod stats;
mod store;
mod table;

pub use account::{Account, Charge, Whole};
pub use answer::{Answer, Builder, Built, CacheError, Outcome};
pub use budget::Limits;
pub use held::Held;
pub use memo::Memo;
pub use shard::Spared;
pub use stats::Stats;
pub use store::Cache;

#[doc(no_inline)]
pub use kiln_key::Key;
