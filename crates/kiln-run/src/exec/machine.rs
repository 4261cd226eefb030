//! The most that this machine does in a second on a number of threads ([`Figures`]), remembered so that the next
//! process need not measure it.
//!
//! Builds nothing, and knows no operator.

use kiln_kernels::cpu::machine::{Caches, Figures, Speeds};
use kiln_kernels::{Isa, Parallel, Result as KernelResult};
use kiln_key::Key;
use kiln_tensor::installed_bytes;
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::family::Family;
use crate::record::{Evidence, Recorded, Store};

/// A measurement may take the installed memory divided by this.
const MOST_PART: usize = 16;

/// Figures of this machine, which is the one that the records are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "machine", value = Figures, laws = crate::record::laws::check)]
pub struct MachineKey {
    /// The level whose instructions multiply and read.
    pub isa: Isa,
    /// Threads that do so together.
    pub threads: u32,
}

impl Recorded for MachineKey {
    const REVISION: u32 = 2;
    type Choice = Figures;
}

impl Family for MachineKey {
    fn choose(&self, _: &BuildCx) -> Figures {
        Figures::default()
    }

    fn accepts(&self, choice: &Figures, _: &BuildCx) -> bool {
        choice.is_sound()
    }

    fn build(&self, choice: &Figures, _: &BuildCx) -> KernelResult<Figures> {
        Ok(*choice)
    }

    /// Never: a caller that needs figures asks for them.
    fn fits(&self, _: &BuildCx) -> bool {
        false
    }

    fn table_bytes(&self) -> Option<u64> {
        Some(0)
    }
}

impl MachineKey {
    /// The recorded figures, if they are plausible.
    #[must_use]
    pub fn recall(&self, records: &Store) -> Option<Figures> {
        records.lookup(self).filter(Figures::is_sound)
    }

    /// Makes this process's cost models use the recorded figures of one thread at that level, if there are any and the
    /// cost models have not been asked yet.
    pub fn settle(isa: Isa, records: &Store) {
        if let Some(known) = (MachineKey { isa, threads: 1 }).recall(records) {
            Speeds::recall(isa, &known);
        }
    }

    /// Measures on those threads, in some 20 ms, and remembers it. `None` where no code can be emitted for that level.
    pub fn measure(isa: Isa, parallel: &dyn Parallel, records: &Store) -> Option<Figures> {
        MachineKey::measure_while(isa, parallel, records, &|| true)
    }

    /// As [`MachineKey::measure`], but ends with `None` when `goes_on` turns false, and remembers nothing then.
    pub(super) fn measure_while(
        isa: Isa,
        parallel: &dyn Parallel,
        records: &Store,
        goes_on: &dyn Fn() -> bool,
    ) -> Option<Figures> {
        let key = MachineKey { isa, threads: u32::try_from(parallel.threads()).unwrap_or(u32::MAX) };
        let most = installed_bytes() / MOST_PART;
        let measured = Figures::measure_while(isa, parallel, &Caches::of_machine(), most, goes_on)?;
        // Threads that other work holds up seem to do less than one thread alone, which they never do.
        let one = MachineKey { threads: 1, ..key }.recall(records).filter(|_| key.threads > 1);
        let measured = one.map_or(measured, |one| measured.at_least(&one));
        records.insert(&key, &measured, Evidence::measured(0, 1));
        Some(measured)
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::Serial;
    use kiln_tensor::threads::Threads;

    use super::*;

    #[test]
    fn what_was_measured_is_remembered_for_as_many_threads() {
        let (records, isa) = (Store::in_memory(), Isa::detect());
        let key = MachineKey { isa, threads: 1 };
        assert_eq!(key.recall(&records), None);
        let measured = MachineKey::measure(isa, &Serial, &records);
        assert_eq!(measured.is_some(), isa.is_jit());
        assert_eq!(key.recall(&records), measured);
        assert_eq!(MachineKey { threads: 2, ..key }.recall(&records), None);
    }

    #[test]
    fn all_threads_do_no_less_than_one() {
        let (records, isa) = (Store::in_memory(), Isa::detect());
        let fast = Figures { f32: u32::MAX, bytes: 1, ..Figures::default() };
        records.insert(&MachineKey { isa, threads: 1 }, &fast, Evidence::measured(0, 1));
        let all = MachineKey::measure(isa, &Threads::new(2).unwrap(), &records);
        assert_eq!(all.is_some(), isa.is_jit());
        assert!(all.is_none_or(|all| all.f32 == u32::MAX && all.bytes > 1), "{all:?}");
    }

    #[test]
    fn what_no_processor_does_is_not_believed() {
        let (records, key) = (Store::in_memory(), MachineKey { isa: Isa::Avx2, threads: 1 });
        records.insert(&key, &Figures { f32: 0, bytes: 7, ..Figures::default() }, Evidence::model());
        assert_eq!(key.recall(&records), None);
    }
}
