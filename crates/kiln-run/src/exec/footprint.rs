//! Footprints: how much large memory the requests of a model have needed, remembered so that the next process has it
//! present before its first request.
//!
//! Fresh pages are most of what makes a first request slower than its repeat: the system clears each before a process
//! may see it. A footprint builds nothing, and knows neither graph nor pool.

use kiln_kernels::Result as KernelResult;
use kiln_key::Key;
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::family::Family;
use crate::record::{Evidence, Recorded, Store};

/// Footprints are counted in units of this many bytes, so that a slightly larger one makes no new record.
const UNIT: u64 = 1 << 20;

/// The model and the threads of a footprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "footprint", value = Footprint, laws = crate::record::laws::check)]
pub struct FootprintKey {
    /// Digest of the model's structure.
    pub model: u64,
    /// Threads of a request: each has its own scratch memory.
    pub threads: u32,
}

/// The most memory that was present at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// MiB.
    pub mebibytes: u32,
}

impl Recorded for FootprintKey {
    const REVISION: u32 = 1;
    type Choice = Footprint;
}

impl Family for FootprintKey {
    fn choose(&self, _: &BuildCx) -> Footprint {
        Footprint { mebibytes: 0 }
    }

    fn accepts(&self, _: &Footprint, _: &BuildCx) -> bool {
        true
    }

    fn build(&self, choice: &Footprint, _: &BuildCx) -> KernelResult<Footprint> {
        Ok(*choice)
    }

    /// Never: only the session of that model asks for it.
    fn fits(&self, _: &BuildCx) -> bool {
        false
    }

    fn table_bytes(&self) -> Option<u64> {
        Some(0)
    }
}

impl FootprintKey {
    /// The remembered bytes; 0 where there are none.
    #[must_use]
    pub fn recall(&self, records: &Store) -> usize {
        let known = records.lookup(self).map_or(0, |footprint| u64::from(footprint.mebibytes) * UNIT);
        usize::try_from(known).unwrap_or(usize::MAX)
    }

    /// Remembers that `bytes` bytes were present. Each unit counts as a sample, so that the larger of two processes'
    /// records wins.
    pub fn note(&self, bytes: usize, records: &Store) {
        let mebibytes = u32::try_from((bytes as u64).div_ceil(UNIT)).unwrap_or(u32::MAX);
        records.insert(self, &Footprint { mebibytes }, Evidence::measured(0, mebibytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_remembered_whoever_comes_last() {
        let (records, key) = (Store::in_memory(), FootprintKey { model: 7, threads: 2 });
        assert_eq!(key.recall(&records), 0);
        for (seen, kept) in [(5 << 20, 5 << 20), (3 << 20, 5 << 20), ((9 << 20) - 1, 9 << 20)] {
            key.note(seen, &records);
            assert_eq!(key.recall(&records), kept);
        }
        assert_eq!(FootprintKey { threads: 1, ..key }.recall(&records), 0);
    }
}
