//! How much a core of this machine multiplies and adds in a second ([`Peaks`]), by which element types are chosen.
//! Remembered so that the next process need not measure it.
//!
//! Builds nothing, and knows no operator.

use kiln_kernels::cpu::peak::Peaks;
use kiln_kernels::{Isa, Result as KernelResult};
use kiln_key::Key;
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::family::Family;
use super::machine::MachineKey;
use crate::record::{Evidence, Recorded, Store};

/// Peaks of this machine, which is the one that the records are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "peak", value = Peaks, laws = crate::record::laws::check)]
pub struct PeakKey {
    /// The level whose instructions multiply.
    pub isa: Isa,
}

impl Recorded for PeakKey {
    const REVISION: u32 = 1;
    type Choice = Peaks;
}

impl Family for PeakKey {
    fn choose(&self, _: &BuildCx) -> Peaks {
        Peaks::of_process().unwrap_or(Peaks { f32: 0, bf16_pairs: 0 })
    }

    fn accepts(&self, choice: &Peaks, _: &BuildCx) -> bool {
        choice.is_sound()
    }

    fn build(&self, choice: &Peaks, _: &BuildCx) -> KernelResult<Peaks> {
        Ok(*choice)
    }

    /// Never: a session recalls it before it builds.
    fn fits(&self, _: &BuildCx) -> bool {
        false
    }

    fn table_bytes(&self) -> Option<u64> {
        Some(0)
    }
}

impl PeakKey {
    /// Makes this process use the recorded peaks, or measures and records them. Without AVX512_BF16 there is nothing to
    /// choose, and nothing is measured.
    pub fn settle(records: &Store) {
        let key = PeakKey { isa: Isa::Avx512 };
        match key.recall(records) {
            Some(known) => drop(Peaks::recall(known)),
            None => {
                if let Some(measured) = Peaks::of_process() {
                    records.insert(&key, &measured, Evidence::measured(0, 1));
                }
            }
        }
    }

    /// The recorded peaks, or those among the recorded figures of one thread.
    fn recall(&self, records: &Store) -> Option<Peaks> {
        let figures = || MachineKey { isa: self.isa, threads: 1 }.recall(records);
        let known = records.lookup(self).filter(Peaks::is_sound);
        known.or_else(|| figures().map(|figures| figures.peaks()).filter(Peaks::is_sound))
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::cpu::machine::Figures;

    use super::*;

    #[test]
    fn what_was_measured_is_remembered_once() {
        let (records, key) = (Store::in_memory(), PeakKey { isa: Isa::Avx512 });
        PeakKey::settle(&records);
        assert_eq!(records.lookup(&key), Peaks::of_process());
        // Figures that no processor reaches are measured again.
        let (hostile, unsound) = (Store::in_memory(), Peaks { f32: 0, bf16_pairs: 7 });
        hostile.insert(&key, &unsound, Evidence::model());
        PeakKey::settle(&hostile);
        assert_eq!(hostile.lookup(&key), Peaks::of_process().or(Some(unsound)));
    }

    #[test]
    fn figures_of_one_thread_are_peaks_where_there_are_none() {
        let (records, key) = (Store::in_memory(), PeakKey { isa: Isa::Avx512 });
        let one = MachineKey { isa: key.isa, threads: 1 };
        let figures = Figures { f32: 100, bf16_pairs: 0, bytes: 400, ..Figures::default() };
        records.insert(&one, &figures, Evidence::measured(0, 1));
        assert_eq!(key.recall(&records), None, "no pairs");
        records.insert(&one, &Figures { bf16_pairs: 200, ..figures }, Evidence::measured(0, 2));
        assert_eq!(key.recall(&records), Some(Peaks { f32: 100, bf16_pairs: 200 }));
        records.insert(&key, &Peaks { f32: 7, bf16_pairs: 8 }, Evidence::measured(0, 1));
        assert_eq!(key.recall(&records), Some(Peaks { f32: 7, bf16_pairs: 8 }));
    }
}
