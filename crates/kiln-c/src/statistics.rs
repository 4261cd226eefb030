//! Statistics: what a session has looked up, built and found in records, and what the process holds.

use kiln::session::ProcessMemory;

use crate::handle;
use crate::seam;
use crate::session::KilnSession;
use crate::status::{KilnStatus, guard};

/// Counters of a session. Later versions add fields at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KilnStatistics {
    /// Look-ups of executors and code.
    pub lookups: u64,
    /// Look-ups that found a stored entry.
    pub hits: u64,
    /// Look-ups that found nothing.
    pub misses: u64,
    /// Look-ups that waited until another thread had built the entry.
    pub waits: u64,
    /// Builds that succeeded.
    pub builds: u64,
    /// The time of these builds, in nanoseconds.
    pub build_nanoseconds: u64,
    /// Builds that took their choices from a record.
    pub builds_from_records: u64,
    /// Builds that failed.
    pub failures: u64,
    /// Executors and code that were evicted.
    pub evictions: u64,
    /// Executors and code that are stored now.
    pub entries: u64,
    /// The size of these entries in bytes.
    pub bytes: u64,
    /// Look-ups of plans of whole runs.
    pub plan_lookups: u64,
    /// Look-ups of plans that found one.
    pub plan_hits: u64,
    /// Plans that are stored now.
    pub plans: u64,
    /// The size of these plans in bytes.
    pub plan_bytes: u64,
    /// Records that are held now.
    pub records: u64,
    /// Look-ups of records.
    pub record_lookups: u64,
    /// Look-ups of records that found a choice.
    pub record_hits: u64,
    /// Records that were loaded from files.
    pub records_loaded: u64,
    /// Executors that were rebuilt from records before the first run.
    pub warmed: u64,
}

/// Bytes that all sessions of the process hold. Later versions add fields at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KilnMemory {
    /// Executors and code.
    pub executors: u64,
    /// Plans of whole runs.
    pub plans: u64,
    /// Packed weights and constants, except those that are mapped from a file.
    pub weights: u64,
    /// Tensors and scratch, in use or kept for the next runs.
    pub tensors: u64,
    /// Records.
    pub records: u64,
    /// The sum of these.
    pub total: u64,
    /// The highest total so far.
    pub most: u64,
    /// The lowest limit that a session or the environment has set; UINT64_MAX without a limit.
    pub limit: u64,
}

fn of(model: &KilnSession) -> KilnStatistics {
    let session = &model.session;
    let (executors, plans, records) = (session.cache_stats(), session.plan_stats(), session.record_stats());
    KilnStatistics {
        lookups: executors.lookups,
        hits: executors.hits,
        misses: executors.misses,
        waits: executors.waits,
        builds: executors.builds,
        build_nanoseconds: executors.build_nanos,
        builds_from_records: executors.record_hits,
        failures: executors.failures,
        evictions: executors.evictions,
        entries: executors.entries,
        bytes: executors.bytes,
        plan_lookups: plans.lookups,
        plan_hits: plans.hits,
        plans: plans.entries,
        plan_bytes: plans.bytes,
        records: records.records,
        record_lookups: records.lookups,
        record_hits: records.hits,
        records_loaded: records.loaded,
        warmed: session.warmed() as u64,
    }
}

fn now() -> KilnMemory {
    let ProcessMemory { held, most, limit, .. } = ProcessMemory::now();
    KilnMemory {
        executors: held.executors as u64,
        plans: held.plans as u64,
        weights: held.weights as u64,
        tensors: held.tensors as u64,
        records: held.records as u64,
        total: held.total() as u64,
        most: most as u64,
        limit: limit.map_or(u64::MAX, |limit| limit as u64),
    }
}

/// Writes the session's counters. The last argument is sizeof(KilnStatistics).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_session_statistics(
    session: *const KilnSession,
    to: *mut KilnStatistics,
    size: usize,
) -> *mut KilnStatus {
    guard("kiln_session_statistics", || {
        let model = handle::get(session, "session")?;
        seam::put_beginning(to, size, &of(&model), "statistics")
    })
}

/// Writes what all sessions of the process hold. The last argument is sizeof(KilnMemory).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_process_memory(to: *mut KilnMemory, size: usize) -> *mut KilnStatus {
    guard("kiln_process_memory", || seam::put_beginning(to, size, &now(), "memory"))
}
