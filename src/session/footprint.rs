//! The record of the memory that a session's requests need: read at load, updated as it grows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kiln_kernels::Parallel;

use super::rehearsal::bounded;
use super::structure::Digest;
use super::{LoadClock, SessionOptions};
use crate::exec::BuildCx;
use crate::exec::footprint::FootprintKey;
use crate::record::Store;
use crate::tensor::{BufferPool, installed_bytes};

/// The record, and its value when it was read.
pub(super) struct Footprint {
    pub(super) key: FootprintKey,
    noted: AtomicUsize,
}

/// At load, at most this part of the machine's memory is made present, whatever the record says.
const MOST_SHARE: usize = 8;

/// Pages are made present for as long as loading took before, or for this long if that was shorter: the record may be
/// wrong.
const PATIENCE: Duration = Duration::from_millis(50);

impl Footprint {
    /// Makes as much memory present as the record says, if there is one, within the time that follows from `begun`.
    pub(super) fn prepare(
        model: &Digest,
        build: &BuildCx,
        options: &SessionOptions,
        buffers: &BufferPool,
        parallel: &dyn Parallel,
        begun: &LoadClock,
    ) -> Footprint {
        let key = FootprintKey { model: model.number(), threads: build.threads as u32 };
        let known = key.recall(&build.records);
        let wanted = if options.prepare_memory { known.min(installed_bytes() / MOST_SHARE) } else { 0 };
        let patience = bounded(begun.stop.as_ref(), PATIENCE.max(begun.at.elapsed()));
        let began = Instant::now();
        buffers.prepare(wanted, parallel, &|| began.elapsed() < patience);
        Footprint { key, noted: AtomicUsize::new(known) }
    }

    /// Updates the record if the bytes that requests so far have needed are an eighth more than it says: smaller
    /// differences come from requests at the same time.
    pub(super) fn note(&self, needed: usize, records: &Store) {
        let noted = self.noted.load(Ordering::Relaxed);
        if needed > noted + noted / 8 && self.noted.fetch_max(needed, Ordering::Relaxed) < needed {
            self.key.note(needed, records);
        }
    }
}
