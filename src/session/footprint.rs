//! The memory that a session's requests need: recalled when it is made, noted as it grows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kiln_kernels::Parallel;

use super::Begun;
use super::rehearsal::bounded;
use super::structure::Digest;
use crate::exec::BuildCx;
use crate::exec::footprint::FootprintKey;
use crate::record::Store;
use crate::tensor::{BufferPool, installed_bytes};

/// What is remembered, and how much of it was known.
pub(super) struct Footprint {
    key: FootprintKey,
    noted: AtomicUsize,
}

/// At most this part of the machine's memory is taken before any request asks for it, whatever a record says.
const MOST_SHARE: usize = 8;

/// Pages are made present for as long as loading took before, and for this long however short that was, because a record may ask
/// for them in vain.
const PATIENCE: Duration = Duration::from_millis(50);

/// Bytes that are made present before it is looked how long that took.
const FIRST: usize = 32 << 20;

impl Footprint {
    /// Has as much memory present as requests of this model have needed, as far as that is known and loading that began then may
    /// go on.
    pub(super) fn prepare(
        model: &Digest,
        build: &BuildCx,
        buffers: &BufferPool,
        parallel: &dyn Parallel,
        begun: &Begun,
    ) -> Footprint {
        let key = FootprintKey { model: model.number(), threads: build.threads as u32 };
        let known = key.recall(&build.records);
        let wanted = known.min(installed_bytes() / MOST_SHARE);
        let patience = bounded(begun.stop.as_ref(), PATIENCE.max(begun.at.elapsed()));
        let (began, mut present) = (Instant::now(), wanted.min(FIRST));
        buffers.prepare(present, parallel);
        // What is present already costs next to nothing the next time.
        while present < wanted && began.elapsed() < patience {
            present = wanted.min(2 * present);
            buffers.prepare(present, parallel);
        }
        Footprint { key, noted: AtomicUsize::new(known) }
    }

    /// Notes what the requests until now have needed, where that is more than was known by an eighth: a little more is
    /// no news, because requests that run at once take turns in another way each time.
    pub(super) fn note(&self, buffers: &BufferPool, records: &Store) {
        let (needed, noted) = (buffers.most_present(), self.noted.load(Ordering::Relaxed));
        if needed > noted + noted / 8 && self.noted.fetch_max(needed, Ordering::Relaxed) < needed {
            self.key.note(needed, records);
        }
    }
}
