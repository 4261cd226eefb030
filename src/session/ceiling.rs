//! What sessions hold, in the one account of the process ([`kiln_kernels::memory::ceiling`]), and what they let go of
//! where its ceiling would be passed.
//!
//! Pools count their own memory. Accounts of executors and plans are made a part of it here, records are counted where a
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

/// Asks for the limit of these options or of the environment, whichever is less, for as long as what it returns lives.
pub(super) fn ask(options: &SessionOptions) -> Arc<Asked> {
    let limits = [options.process_bytes, kiln_knobs::process_bytes()];
    Arc::new(ceiling::ask(limits.into_iter().flatten().min()))
}

/// Counts the executors of an account, and has a session let go of what it keeps.
pub(super) fn join(kept: Weak<dyn Keeps>, account: &kiln_cache::Account) {
    account.join_whole(&Executors);
    ceiling::keep(kept);
}

/// The records of a store, counted.
struct Counted {
    store: Weak<Store>,
    /// What stores of the same records have in common.
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

/// Counts out the records of stores that are gone.
pub(super) fn sweep_records() {
    let mut all = RECORDS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|counted| counted.store.strong_count() > 0);
}

/// What the process holds, and what it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessMemory {
    /// Bytes that are held now, by what they are for.
    pub held: Held,
    /// The most bytes that were ever held at once.
    pub most: usize,
    /// The least of the limits that live sessions and the environment set; `None` where there is none.
    pub limit: Option<usize>,
}

impl ProcessMemory {
    /// What all sessions of this process hold now. Memory of the caller's, of devices and of mapped files is not in it,
    /// nor are graphs, keys and lists in the heap.
    #[must_use]
    pub fn now() -> ProcessMemory {
        sweep_records();
        ProcessMemory { held: ceiling::held(), most: ceiling::most(), limit: ceiling::limit() }
    }
}
