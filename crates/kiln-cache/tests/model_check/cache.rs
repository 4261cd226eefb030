//! The cache's files, as `src/lib.rs` lists them, with another shim.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "the scenarios use a part of what the library offers")]

#[path = "../../src/account.rs"]
mod account;
#[path = "../../src/answer.rs"]
mod answer;
#[path = "../../src/budget.rs"]
mod budget;
#[path = "../../src/clock.rs"]
mod clock;
#[path = "../../src/erased.rs"]
mod erased;
#[path = "../../src/flight.rs"]
mod flight;
#[path = "../../src/front.rs"]
mod front;
#[path = "../../src/held.rs"]
mod held;
#[path = "../../src/shard.rs"]
mod shard;
#[path = "shim.rs"]
mod shim;
#[path = "../../src/stats.rs"]
mod stats;
#[path = "../../src/store.rs"]
mod store;
#[path = "../../src/table.rs"]
mod table;

pub use account::{Account, Charge};
pub use answer::{Answer, Builder, Built, CacheError, Outcome};
pub use budget::Limits;
pub use held::Held;
pub use stats::Stats;
pub use store::Cache;

pub use kiln_key::Key;
