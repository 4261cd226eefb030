//! The executor cache: what a key completely determines is built once, kept while it is used, and shared.
//!
//! It is generic. A caller brings a [`Key`] (plain data that completely defines a value), a builder (a `fn` pointer, so
//! that it can see its key and its context and nothing else) and asks [`Cache::get_or_create`]. One object holds any
//! number of key types under one bound in entries and in bytes. Nothing here knows what the values are, what a graph
//! is, or that files exist.
//!
//! What it promises:
//!
//! - **One build per missing key.** Others who ask meanwhile wait and share the result ([`Outcome::Waited`]).
//! - **No lock is held while building or dropping.** A builder may ask the cache for other keys; the `Drop` of an
//!   evicted value may too. Asking for a key that is being built further up (on this thread, or through a circle of
//!   waiting threads) is [`CacheError::Reentrant`], not a hang.
//! - **Failure leaves nothing behind.** A builder's error goes to its caller, its panic unwinds through it; the slot is
//!   free again, waiters try for themselves.
//! - **The bound holds.** Least recently used goes first, over all key types together; a value larger than the byte
//!   bound is handed out and not stored; zero entries turn storing off. Evicting never frees what is in use, and what is in
//!   use stays charged: less is stored meanwhile. Caches may share one [`Account`] of bytes.
//! - **Equality decides.** A hash only finds the bucket; a hasher that always returns zero changes speed alone.
//!
//! ```
//! use kiln::cache::{Built, Cache, Key, Limits, Outcome};
//!
//! kiln::key! {
//!     /// Everything that determines a table of powers.
//!     pub struct PowersKey {
//!         /// The base.
//!         pub base: u64,
//!         /// How many powers.
//!         pub count: u32,
//!     }
//! }
//!
//! impl Key for PowersKey {
//!     type Value = Vec<u64>;
//!     const FAMILY: &'static str = "powers";
//! }
//!
//! fn build(key: &PowersKey, _context: &()) -> Result<Built<Vec<u64>>, std::num::TryFromIntError> {
//!     let count = usize::try_from(key.count)?;
//!     let powers: Vec<u64> = (0..key.count).map(|power| key.base.wrapping_pow(power)).collect();
//!     Ok(Built { value: powers, bytes: count * 8, from_record: false })
//! }
//!
//! let cache = Cache::new(Limits { entries: 1024, bytes: 1 << 20 });
//! let key = PowersKey { base: 3, count: 5 };
//! let (powers, outcome) = cache.get_or_create(&key, &(), build)?;
//! assert_eq!((powers[4], outcome), (81, Outcome::Miss));
//! let (_, outcome) = cache.get_or_create(&key, &(), build)?;
//! assert_eq!(outcome, Outcome::Hit);
//! # Ok::<(), kiln::cache::CacheError<std::num::TryFromIntError>>(())
//! ```
//!
//! Read on in this order: `key` (what callers bring), `fields` (how a key states its fields, so that tests can change
//! each), `erased` (many key types in one table), `clock` (what "recently" means), `shard` (the policy, single-threaded),
//! `front` (hits without a lock), `held` (values in use without a shared count), `flight` (one builder per key), `budget`
//! (the bound of one cache), `table` (entries that an account may evict), `account` (bytes in use), `store` (how they are
//! put together), `memo` (what one user remembers), `stats`.

mod account;
mod budget;
mod clock;
mod erased;
mod fields;
mod flight;
mod front;
mod held;
mod key;
mod memo;
mod shard;
mod shim;
mod stats;
mod store;
mod table;

pub use account::{Account, Charge};
pub use budget::Limits;
pub use fields::{F32Bits, Mutate, join_path};
pub use held::Held;
pub use key::{Answer, Builder, Built, CacheError, Key, Outcome};
pub use memo::Memo;
pub use stats::Stats;
pub use store::Cache;
