//! The memory that a session's requests need: recalled when it is made, noted as it grows.

use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_kernels::Parallel;

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

impl Footprint {
    /// Has as much memory present as requests of this model have needed, as far as that is known.
    pub(super) fn prepare(model: &Digest, build: &BuildCx, buffers: &BufferPool, parallel: &dyn Parallel) -> Footprint {
        let key = FootprintKey { model: model.number(), threads: build.threads as u32 };
        let known = key.recall(&build.records);
        buffers.prepare(known.min(installed_bytes() / MOST_SHARE), parallel);
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
