//! One account of bytes, for caches that share it and for evicted values that are still in use.
//!
//! # Problem
//!
//! An evicted value is freed when its last user drops it. A bound on *stored* values therefore bounds nothing where
//! users keep the values that they got: a second cache whose values hold values of the first, or a list of the last
//! few.
//!
//! # Idea
//!
//! A value is charged while it is alive. Caches that share an account share its limit, its time (`clock`) and the
//! search for the least recently used entry, so that a value and the value that holds it, which were last looked up
//! together, go together. A value that is evicted or could not be stored, and is still in use, *lingers*: it stays
//! charged until its last user has dropped it. Users whose own memory is worth counting take a [`Charge`], and drop
//! values that they can spare when the account [is over](Account::is_over) its limit.
//!
//! # Consequences
//!
//! - Less is stored while more lingers. Where lingering values alone exceed the limit, nothing is stored, and the
//!   account is over until users drop values.
//! - The account notices that a value's last user has dropped it when room is wanted.
//! - Where an account is a part of a [`Whole`], each of its bytes is counted there too, and room is wanted in both.
//!
//! Nothing here knows keys or the types of values.

use std::any::Any;

use super::clock::Clock;
use super::shard::Victim;
use super::shim::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, Weak, lock};
use super::table::Table;

/// An account that several accounts, and other memory beside them, are a part of.
pub trait Whole: Send + Sync {
    /// Takes room for bytes, if there is room now. Called while a lock is held: it only counts.
    fn take(&self, bytes: usize) -> bool;

    /// Counts bytes that cannot be refused. It only counts, too.
    fn add(&self, bytes: usize);

    /// Gives back room. It only counts, too.
    fn give_back(&self, bytes: usize);

    /// Makes others drop what they can spare, until there is room for that many bytes. No lock is held.
    fn make_room(&self, bytes: usize);
}

/// A value that is not stored any more, or never was, and may still be in use.
struct Lingering {
    value: Weak<dyn Any + Send + Sync>,
    bytes: usize,
}

#[derive(Default)]
struct Sums {
    /// Bytes of entries, counted from the moment when room was taken for them.
    stored: usize,
    /// Bytes that users have charged.
    charged: usize,
    lingering: Vec<Lingering>,
    /// Bytes of lingering values.
    lingers: usize,
    /// The most values that may linger before the account checks which are gone.
    patience: usize,
    /// The whole that these bytes are a part of.
    whole: Option<&'static dyn Whole>,
}

/// The least values that linger before the account checks which are gone, while no room is wanted.
const PATIENCE: usize = 64;

impl Sums {
    fn used(&self) -> usize {
        self.stored.saturating_add(self.charged).saturating_add(self.lingers)
    }

    fn linger(&mut self, value: Weak<dyn Any + Send + Sync>, bytes: usize) {
        self.lingering.push(Lingering { value, bytes });
        self.lingers += bytes;
        if self.lingering.len() > self.patience {
            self.sweep();
        }
    }

    /// Adds bytes to the whole that they are a part of.
    fn add(&self, bytes: usize) {
        self.whole.iter().for_each(|whole| whole.add(bytes));
    }

    /// Takes bytes off that whole.
    fn give_back(&self, bytes: usize) {
        self.whole.iter().for_each(|whole| whole.give_back(bytes));
    }

    /// Forgets values that are gone; returns whether any was.
    fn sweep(&mut self) -> bool {
        let before = self.lingers;
        self.lingering.retain(|one| {
            let alive = one.value.strong_count() > 0;
            self.lingers -= if alive { 0 } else { one.bytes };
            alive
        });
        self.lingering.shrink_to(2 * self.lingering.len() + PATIENCE);
        self.patience = 2 * self.lingering.len() + PATIENCE;
        self.give_back(before - self.lingers);
        self.lingers < before
    }
}

/// Bytes in use and their limit. See the [module](self).
pub struct Account {
    limit: usize,
    sums: Mutex<Sums>,
    /// The time of all caches that share the account.
    pub(super) clock: Clock,
    /// How often there was no room and nothing left to evict.
    refusals: AtomicU64,
    tables: Mutex<Vec<Weak<Table>>>,
}

/// Bytes that are charged to an account until this is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

impl Account {
    /// An account of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Account> {
        let (sums, tables) = (Mutex::new(Sums { patience: PATIENCE, ..Sums::default() }), Mutex::default());
        Arc::new(Account { limit, sums, clock: Clock::default(), refusals: AtomicU64::new(0), tables })
    }

    /// The most bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes in use: stored, lingering and charged.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let mut sums = self.sums();
        sums.sweep();
        sums.used()
    }

    /// Whether more would be in use than allowed even if all stored entries were evicted: then users have to drop
    /// values.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let mut sums = self.sums();
        if sums.used() <= self.limit {
            return false;
        }
        sums.sweep();
        sums.used() > self.limit
    }

    /// A number that changes when there was no room and nothing left to evict: users who keep more than they need
    /// should then drop it. Reading it costs nothing.
    #[inline]
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// A number that rises as entries are stored; with many entries, once for about a 512th of them. Reading it costs
    /// nothing.
    #[inline]
    #[must_use]
    pub fn time(&self) -> u64 {
        self.clock.now()
    }

    /// Charges bytes of a user's own, whether there is room for them or not.
    #[must_use]
    pub fn charge(self: &Arc<Account>, bytes: usize) -> Charge {
        let mut sums = self.sums();
        sums.charged += bytes;
        sums.add(bytes);
        drop(sums);
        Charge { account: Arc::clone(self), bytes }
    }

    /// Counts its bytes, including those in use now, as a part of a whole from now on; the first whole that is named
    /// stays.
    pub fn join_whole(&self, whole: &'static dyn Whole) {
        let mut sums = self.sums();
        if sums.whole.is_none() {
            sums.whole = Some(whole);
            sums.add(sums.used());
        }
    }

    /// Makes others drop what they can spare, if the whole has no room for these bytes. Returns whether that was so.
    pub(super) fn press_whole(&self, bytes: usize) -> bool {
        let sums = self.sums();
        let fits = sums.used().saturating_add(bytes) <= self.limit;
        let Some(whole) = sums.whole.filter(|_| fits) else { return false };
        drop(sums);
        whole.make_room(bytes);
        true
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        lock(&self.sums)
    }

    /// Lets this account evict the entries of another cache, too.
    pub(super) fn join(&self, table: &Arc<Table>) {
        let mut tables = lock(&self.tables);
        tables.retain(|table| table.strong_count() > 0);
        tables.push(Arc::downgrade(table));
    }

    /// Notes that a value is not stored for lack of room.
    pub(super) fn refuse(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes room for bytes that are going to be stored, if there is room now.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let mut sums = self.sums();
        let own = sums.used().saturating_add(bytes) <= self.limit;
        let fits = own && sums.whole.is_none_or(|whole| whole.take(bytes));
        if fits {
            sums.stored += bytes;
        }
        fits
    }

    /// Gives back room that was taken.
    pub(super) fn give_back(&self, bytes: usize) {
        let mut sums = self.sums();
        sums.stored -= bytes;
        sums.give_back(bytes);
    }

    /// Charges a value that is not stored, for as long as it is in use.
    pub(super) fn linger(&self, value: Weak<dyn Any + Send + Sync>, bytes: usize) {
        let mut sums = self.sums();
        sums.add(bytes);
        sums.linger(value, bytes);
    }

    /// Forgets lingering values that are gone; returns whether that made room.
    pub(super) fn sweep(&self) -> bool {
        self.sums().sweep()
    }

    /// Drops entries that have left. Values still in use linger. Called while no lock is held, because their `Drop` is
    /// foreign code.
    pub(super) fn settle(&self, victims: &mut Vec<Victim>) {
        for (key, entry) in victims.drain(..) {
            let (bytes, value) = (entry.bytes, Arc::downgrade(&entry.value));
            drop((key, entry));
            if value.strong_count() == 0 {
                self.give_back(bytes);
                continue;
            }
            let mut sums = self.sums();
            sums.stored -= bytes;
            sums.linger(value, bytes);
        }
    }

    /// Takes the least recently used entry out of the cache that has it.
    pub(super) fn evict_oldest(&self) -> Option<Victim> {
        let tables: Vec<Arc<Table>> = lock(&self.tables).iter().filter_map(Weak::upgrade).collect();
        let mut left: Vec<&Arc<Table>> = tables.iter().collect();
        // A cache that turns out to be empty is not asked again.
        while let Some(place) = (0..left.len()).min_by_key(|place| left[*place].oldest()) {
            if let Some(victim) = left.swap_remove(place).evict_oldest() {
                return Some(victim);
            }
        }
        None
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut sums = self.account.sums();
        sums.charged -= self.bytes;
        sums.give_back(self.bytes);
    }
}

impl Drop for Account {
    /// Values still in use then belong to their users alone.
    fn drop(&mut self) {
        let sums = self.sums();
        sums.give_back(sums.used());
    }
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sums = self.sums();
        f.debug_struct("Account")
            .field("limit", &self.limit)
            .field("stored", &sums.stored)
            .field("lingers", &sums.lingers)
            .field("charged", &sums.charged)
            .finish_non_exhaustive()
    }
}
