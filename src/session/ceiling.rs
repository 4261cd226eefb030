//! The memory of sessions in the process's account ([`kiln_kernels::memory::ceiling`]), and how they give it up where
//! its ceiling would be passed.
//!
//! Pools count their own memory. Accounts of executors and plans are joined to it here. Records are counted after a
//! session has loaded them or may have added some.

use std::sync::{Arc, PoisonError, Weak};

use kiln_fork::Mutex;
use kiln_kernels::memory::ceiling::{self, Asked, Claim, Held, Holder, Keeps};
use kiln_run::record::Store;

use super::options::SessionOptions;

/// The executors, code and plans of all caches that sessions use.
struct Executors;

impl kiln_cache::Whole for Executors {
    fn take(&self, bytes: usize) -> bool {
        ceiling::take(Holder::Executors, bytes).is_ok()
    }

    fn add(&self, bytes: usize) {
        ceiling::add(Holder::Executors, bytes);
    }

    fn give_back(&self, bytes: usize) {
        ceiling::give_back(Holder::Executors, bytes);
    }

    fn make_room(&self, bytes: usize) {
        ceiling::make_room(bytes);
    }
}

/// Requests the limit of these options or of the environment, whichever is less, while the returned value lives.
pub(super) fn ask(options: &SessionOptions) -> Arc<Asked> {
    let limits = [options.process_bytes, kiln_knobs::process_bytes()];
    Arc::new(ceiling::ask(limits.into_iter().flatten().min()))
}

/// Counts the executors of an account, and registers a session that can give up memory.
pub(super) fn join(kept: Weak<dyn Keeps>, account: &kiln_cache::Account) {
    account.join_whole(&Executors);
    ceiling::keep(kept);
}

/// The records of a store, counted.
struct Counted {
    store: Weak<Store>,
    /// Identifies the records; equal for stores of the same records.
    place: usize,
    claim: Claim,
}

static RECORDS: Mutex<Vec<Counted>> = Mutex::new(Vec::new());

/// Counts the records that a store has now.
pub(super) fn count_records(store: &Arc<Store>) {
    let (bytes, place) = (store.bytes(), store.place());
    let mut all = RECORDS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|counted| counted.store.strong_count() > 0);
    match all.iter_mut().find(|counted| counted.place == place) {
        Some(counted) => counted.claim.set(bytes),
        None => {
            let mut claim = Claim::none(Holder::Records);
            claim.set(bytes);
            all.push(Counted { store: Arc::downgrade(store), place, claim });
        }
    }
}

/// Removes the records of dropped stores from the account.
pub(super) fn sweep_records() {
    let mut all = RECORDS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|counted| counted.store.strong_count() > 0);
}

/// The memory that the process holds, and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessMemory {
    /// Bytes that are held now, by use.
    pub held: Held,
    /// The most bytes that were ever held at once.
    pub most: usize,
    /// The least of the limits that live sessions and the environment set; `None` where there is none.
    pub limit: Option<usize>,
}

impl ProcessMemory {
    /// The memory that all sessions of this process hold now, without memory of callers, devices and mapped files, and
    /// without graphs, keys and lists in the heap.
    #[must_use]
    pub fn now() -> ProcessMemory {
        sweep_records();
        ProcessMemory { held: ceiling::held(), most: ceiling::most(), limit: ceiling::limit() }
    }
}
