//! The account of the memory that a process holds, and its ceiling.
//!
//! # Problem
//!
//! Executors, packed weights, tensors and records have bounds of their own, for each cache and each session. Their sum
//! is not bounded.
//!
//! # Idea
//!
//! Code that takes memory from the system to keep it counts it here first ([`take`]), and subtracts it when it is given
//! back. Memory that a pool lends from its pages is counted already, so requests of known shapes need no counting. A
//! session that sets a limit [asks](ask) for it while it lives; the least of all limits is the ceiling. Memory that
//! would exceed it makes [keepers](Keeps) give up unused memory ([`within`]), in the order of [`Spare`], and is then
//! refused with a table of the memory by holder ([`Held`]).
//!
//! # Consequences
//!
//! - Counting is a few atomic operations where memory is taken from the system, which takes longer. No lock is held.
//! - Memory that can no longer be refused is counted all the same ([`add`]). The account may then be over its ceiling
//!   until the next [`check`].
//! - Memory must not be requested here while a lock is held that a [`Keeps::let_go`] needs.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, Weak};

use super::{Refused, is_over};
use crate::fork::{Mutex, MutexGuard};

/// The uses of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holder {
    /// Executors, code and plans.
    Executors,
    /// Packed weights and constants of models, except those that are mapped from a file.
    Weights,
    /// Tensors of requests and scratch, lent or kept for the next requests.
    #[default]
    Tensors,
    /// Records.
    Records,
}

/// Bytes that the process holds, by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// Executors and code, with the memos of nodes.
    pub executors: usize,
    /// Plans that are kept.
    pub plans: usize,
    /// Packed weights and constants of models, except those that are mapped from a file.
    pub weights: usize,
    /// Tensors and scratch, lent or kept for the next requests.
    pub tensors: usize,
    /// Records.
    pub records: usize,
}

impl Held {
    /// The sum.
    #[must_use]
    pub fn total(&self) -> usize {
        let Held { executors, plans, weights, tensors, records } = self;
        [plans, weights, tensors, records].into_iter().fold(*executors, |sum, bytes| sum.saturating_add(*bytes))
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { executors, plans, weights, tensors, records } = self;
        write!(f, "executors and code {executors}, plans {plans}, weights {weights}, ")?;
        write!(f, "tensors and scratch {tensors}, records {records}")
    }
}

/// Memory that can be given up, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// Free memory of pools.
    Memory,
    /// States of ended requests.
    States,
    /// Plans, the least recently used first.
    Plans,
    /// Executors and code, the least recently used first.
    Executors,
}

/// A keeper of memory that it can do without.
pub trait Keeps: Send + Sync {
    /// The [`tick`] of its last use: the least recently used keeper gives up memory first.
    fn used_at(&self) -> u64;

    /// Gives up about `bytes` bytes of that kind, or all if it cannot be given up in parts. Returns whether another
    /// call may give up more.
    fn let_go(&self, spare: Spare, bytes: usize) -> bool;

    /// Bytes of plans that it keeps.
    fn plans(&self) -> usize;
}

/// There is no room for that many bytes below the ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Bytes that were asked for.
    pub bytes: usize,
}

/// Bytes by holder.
static HELD: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];
/// The sum of [`HELD`].
static TOTAL: AtomicUsize = AtomicUsize::new(0);
/// The greatest [`TOTAL`] so far.
static MOST: AtomicUsize = AtomicUsize::new(0);
/// The least limit.
static CEILING: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Counts uses.
static TICKS: AtomicU64 = AtomicU64::new(1);

/// Limits, and keepers of memory.
struct Registry {
    limits: Vec<usize>,
    keepers: Vec<Weak<dyn Keeps>>,
    /// This many keepers may be listed before dropped ones are removed.
    patience: usize,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { limits: Vec::new(), keepers: Vec::new(), patience: 64 });

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A limit that holds for the process until this is dropped.
#[derive(Debug)]
pub struct Asked(Option<usize>);

/// Sets a limit in bytes for the whole process; `None` asks for none.
#[must_use]
pub fn ask(limit: Option<usize>) -> Asked {
    if let Some(limit) = limit {
        let mut registry = registry();
        registry.limits.push(limit);
        registry.settle();
    }
    Asked(limit)
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Some(limit) = self.0 else { return };
        let mut registry = registry();
        if let Some(place) = registry.limits.iter().position(|asked| *asked == limit) {
            registry.limits.swap_remove(place);
        }
        registry.settle();
    }
}

impl Registry {
    fn settle(&self) {
        CEILING.store(self.limits.iter().copied().min().unwrap_or(usize::MAX), Ordering::Relaxed);
    }
}

/// Lists a keeper of memory, until it is gone.
pub fn keep(keeper: Weak<dyn Keeps>) {
    let mut registry = registry();
    if registry.keepers.len() >= registry.patience {
        registry.keepers.retain(|keeper| keeper.strong_count() > 0);
        registry.patience = 2 * registry.keepers.len() + 64;
    }
    registry.keepers.push(keeper);
}

/// The live keepers, the least recently used first.
fn keepers() -> Vec<Arc<dyn Keeps>> {
    let mut all: Vec<Arc<dyn Keeps>> = registry().keepers.iter().filter_map(Weak::upgrade).collect();
    all.sort_by_cached_key(|keeper| keeper.used_at());
    all
}

#[inline]
fn ceiling() -> usize {
    CEILING.load(Ordering::Relaxed)
}

/// The ceiling in bytes; `None` where there is no limit.
#[inline]
#[must_use]
pub fn limit() -> Option<usize> {
    let limit = ceiling();
    (limit < usize::MAX).then_some(limit)
}

/// A number that rises with each call, for [`Keeps::used_at`].
#[must_use]
pub fn tick() -> u64 {
    TICKS.fetch_add(1, Ordering::Relaxed)
}

/// Bytes that the process holds.
#[inline]
#[must_use]
pub fn bytes() -> usize {
    TOTAL.load(Ordering::Relaxed)
}

/// The most bytes that the process ever held at once.
#[must_use]
pub fn most() -> usize {
    MOST.load(Ordering::Relaxed)
}

/// Bytes that are left below the ceiling.
#[must_use]
pub fn room() -> usize {
    ceiling().saturating_sub(bytes())
}

/// The memory that is held, by holder.
#[must_use]
pub fn held() -> Held {
    let [both, weights, tensors, records] = HELD.each_ref().map(|bytes| bytes.load(Ordering::Relaxed));
    let kept = keepers().iter().fold(0usize, |sum, keeper| sum.saturating_add(keeper.plans()));
    let plans = kept.min(both);
    Held { executors: both - plans, plans, weights, tensors, records }
}

/// Counts memory that is about to be taken.
///
/// # Errors
///
/// [`Full`] where it would exceed the ceiling. It is then not counted.
pub fn take(holder: Holder, bytes: usize) -> Result<(), Full> {
    let limit = ceiling();
    let sum = |total: usize| total.checked_add(bytes).filter(|sum| *sum <= limit || bytes == 0);
    let before = TOTAL.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).map_err(|_| Full { bytes })?;
    note(holder, before.saturating_add(bytes), bytes);
    Ok(())
}

/// Counts memory that can no longer be refused.
pub fn add(holder: Holder, bytes: usize) {
    let before = TOTAL.fetch_add(bytes, Ordering::Relaxed);
    note(holder, before.saturating_add(bytes), bytes);
}

fn note(holder: Holder, total: usize, bytes: usize) {
    HELD[holder as usize].fetch_add(bytes, Ordering::Relaxed);
    if total > MOST.load(Ordering::Relaxed) {
        MOST.fetch_max(total, Ordering::Relaxed);
    }
}

/// Subtracts memory that was given back to the system.
pub fn give_back(holder: Holder, bytes: usize) {
    HELD[holder as usize].fetch_sub(bytes, Ordering::Relaxed);
    TOTAL.fetch_sub(bytes, Ordering::Relaxed);
}

/// The result of `attempt` once there is room for it. Where there is none, keepers give up more and more memory.
///
/// # Errors
///
/// [`Refused::Ceiling`] where there is no room after everything has been given up, [`Refused::Over`] where this
/// thread's work is ended before that.
pub fn within<T>(mut attempt: impl FnMut() -> Result<T, Full>) -> Result<T, Refused> {
    match attempt() {
        Ok(made) => Ok(made),
        Err(full) => press(full, &[Spare::Memory, Spare::States, Spare::Plans, Spare::Executors], &mut attempt),
    }
}

#[cold]
fn press<T>(full: Full, order: &[Spare], attempt: &mut dyn FnMut() -> Result<T, Full>) -> Result<T, Refused> {
    let bytes = full.bytes;
    let keepers = keepers();
    for spare in order {
        for keeper in &keepers {
            loop {
                if is_over() {
                    return Err(Refused::Over { bytes });
                }
                let missing = TOTAL.load(Ordering::Relaxed).saturating_add(bytes).saturating_sub(ceiling());
                let has_more = keeper.let_go(*spare, missing.max(1));
                if let Ok(made) = attempt() {
                    return Ok(made);
                }
                if !has_more {
                    break;
                }
            }
        }
    }
    Err(Refused::Ceiling { bytes, limit: ceiling(), held: held() })
}

/// Has free memory and states of ended requests given up until there is room for `bytes` bytes, as far as possible.
pub fn make_room(bytes: usize) {
    if room() < bytes {
        let mut attempt = || if room() < bytes { Err(Full { bytes }) } else { Ok(()) };
        // The caller goes on without room.
        let _ = press(Full { bytes }, &[Spare::Memory, Spare::States], &mut attempt);
    }
}

/// Checks that `bytes` bytes more are below the ceiling, and has memory given up where they are not. Counts nothing.
///
/// # Errors
///
/// As [`within`].
#[inline]
pub fn check(bytes: usize) -> Result<(), Refused> {
    let fits = || TOTAL.load(Ordering::Relaxed).saturating_add(bytes) <= ceiling();
    if fits() { Ok(()) } else { within(|| if fits() { Ok(()) } else { Err(Full { bytes }) }) }
}

/// Bytes that are counted for as long as this lives.
#[derive(Debug)]
pub struct Claim {
    holder: Holder,
    bytes: usize,
}

impl Claim {
    /// Counts nothing.
    #[must_use]
    pub const fn none(holder: Holder) -> Claim {
        Claim { holder, bytes: 0 }
    }

    /// Counts memory that is about to be taken.
    ///
    /// # Errors
    ///
    /// As [`within`].
    pub fn of(holder: Holder, bytes: usize) -> Result<Claim, Refused> {
        if bytes > 0 {
            within(|| take(holder, bytes))?;
        }
        Ok(Claim { holder, bytes })
    }

    /// Counts that many bytes from now on, which cannot be refused.
    pub fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            add(self.holder, bytes - self.bytes);
        } else {
            give_back(self.holder, self.bytes - bytes);
        }
        self.bytes = bytes;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.bytes > 0 {
            give_back(self.holder, self.bytes);
        }
    }
}
