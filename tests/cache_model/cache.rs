//! The cache's files, as `src/cache.rs` lists them, with another shim.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "the scenarios use a part of what the library offers")]

#[path = "../../src/cache/account.rs"]
mod account;
#[path = "../../src/cache/budget.rs"]
mod budget;
#[path = "../../src/cache/clock.rs"]
mod clock;
#[path = "../../src/cache/erased.rs"]
mod erased;
#[path = "../../src/cache/fields.rs"]
mod fields;
#[path = "../../src/cache/flight.rs"]
mod flight;
#[path = "../../src/cache/front.rs"]
mod front;
#[path = "../../src/cache/held.rs"]
mod held;
#[path = "../../src/cache/key.rs"]
mod key;
#[path = "../../src/cache/shard.rs"]
mod shard;
#[path = "shim.rs"]
mod shim;
#[path = "../../src/cache/stats.rs"]
mod stats;
#[path = "../../src/cache/store.rs"]
mod store;
#[path = "../../src/cache/table.rs"]
mod table;

pub use account::{Account, Charge};
pub use budget::Limits;
pub use fields::{F32Bits, Mutate, join_path};
pub use held::Held;
pub use key::{Answer, Builder, Built, CacheError, Key, Outcome};
pub use stats::Stats;
pub use store::Cache;
