//! The most that this machine does in a second: multiply-adds in registers, reads of caches and of memory, and rows by
//! block-quantised weights, on a number of threads together.
//!
//! Items take turns in rounds, and the best round of each counts, so that another process that runs for a while spoils
//! no item.

mod caches;
mod reads;
mod rows;
mod speeds;

use std::time::{Duration, Instant};

pub use caches::Caches;
use reads::Reads;
use rows::Rows;
use serde::{Deserialize, Serialize};
pub use speeds::Speeds;

use super::blockwise::Ahead;
use super::peak::{Multiplied, PeakLoop, Peaks};
use crate::isa::Isa;
use crate::parallel::Parallel;

/// Time of an item in a round, and rounds: nine items take some 18 ms.
const EACH: Duration = Duration::from_micros(300);
const ROUNDS: usize = 6;

/// No round begins later than this, so that two measurements end within 50 ms.
const LATEST: Duration = Duration::from_millis(17);

/// The most that a number of threads does together, each item in millions a second; 0 where it was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Multiply-adds of `f32`.
    pub f32: u32,
    /// Multiply-adds of bf16 pairs. 0 where the processor does not multiply them.
    pub bf16_pairs: u32,
    /// Multiply-adds of bytes, with the instructions that this level has for them ([`Multiplied::of_bytes`]).
    pub bytes: u32,
    /// Bytes read from L1.
    pub l1: u32,
    /// Bytes read from L2.
    pub l2: u32,
    /// Bytes read from L3, where all threads read the same part. 0 where there is no L3.
    pub l3: u32,
    /// Bytes read from memory.
    pub memory: u32,
    /// Bytes of block-quantised weights that lie in memory and are multiplied with one row, without prefetches
    /// ([`Ahead`]). 0 where code never has them.
    pub rows_plain: u32,
    /// As [`Figures::rows_plain`], prefetched far ahead.
    pub rows_far: u32,
}

impl Figures {
    /// Measures, with at most `most` bytes of memory to read. `None` where no code can be emitted for that level.
    #[must_use]
    pub fn measure(isa: Isa, parallel: &dyn Parallel, caches: &Caches, most: usize) -> Option<Figures> {
        Figures::measure_while(isa, parallel, caches, most, &|| true)
    }

    /// As [`Figures::measure`], but ends with `None` within a millisecond of `goes_on` turning false: it is checked
    /// before each item.
    #[must_use]
    pub fn measure_while(
        isa: Isa,
        parallel: &dyn Parallel,
        caches: &Caches,
        most: usize,
        goes_on: &dyn Fn() -> bool,
    ) -> Option<Figures> {
        let start = Instant::now();
        let peak = |multiplied| PeakLoop::new(isa, multiplied).ok();
        let (f32, bytes) = (peak(Multiplied::F32)?, peak(Multiplied::of_bytes(isa))?);
        let bf16_pairs = peak(Multiplied::Bf16Pairs);
        let reads = Reads::new(isa, parallel, caches, most);
        let rows = Rows::new(isa, parallel, most);
        let mut best = Figures::default();
        for round in 0..ROUNDS {
            if round > 0 && start.elapsed() > LATEST {
                break;
            }
            let mut note = |item: fn(&mut Figures) -> &mut u32, rate: &dyn Fn() -> f64| {
                if !goes_on() {
                    return None;
                }
                let (item, rate) = (item(&mut best), rate());
                *item = (*item).max((rate / 1e6) as u32);
                Some(())
            };
            note(|best| &mut best.f32, &|| f32.rate_on(parallel, EACH))?;
            note(|best| &mut best.bytes, &|| bytes.rate_on(parallel, EACH))?;
            if let Some(bf16_pairs) = &bf16_pairs {
                note(|best| &mut best.bf16_pairs, &|| bf16_pairs.rate_on(parallel, EACH))?;
            }
            if let Some(reads) = &reads {
                note(|best| &mut best.l1, &|| reads.of_l1(EACH))?;
                note(|best| &mut best.l2, &|| reads.of_l2(EACH))?;
                note(|best| &mut best.l3, &|| reads.of_l3(EACH))?;
                note(|best| &mut best.memory, &|| reads.of_memory(EACH))?;
            }
            if let Some(rows) = &rows {
                note(|best| &mut best.rows_plain, &|| rows.rate(Ahead::Nothing, EACH))?;
                note(|best| &mut best.rows_far, &|| rows.rate(Ahead::Far, EACH))?;
            }
        }
        Some(best)
    }

    /// These figures, but no item below the other's: all threads' figures, where one thread alone did more while others
    /// were held up.
    #[must_use]
    pub fn at_least(&self, other: &Figures) -> Figures {
        Figures {
            f32: self.f32.max(other.f32),
            bf16_pairs: self.bf16_pairs.max(other.bf16_pairs),
            bytes: self.bytes.max(other.bytes),
            l1: self.l1.max(other.l1),
            l2: self.l2.max(other.l2),
            l3: self.l3.max(other.l3),
            memory: self.memory.max(other.memory),
            rows_plain: self.rows_plain.max(other.rows_plain),
            rows_far: self.rows_far.max(other.rows_far),
        }
    }

    /// Whether these figures can have been measured: a file may say anything.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.f32 > 0 && self.bytes > 0
    }

    /// The figures of one thread that decide whether bf16 pairs are multiplied.
    #[must_use]
    pub fn peaks(&self) -> Peaks {
        Peaks { f32: self.f32, bf16_pairs: self.bf16_pairs }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::isa::Extension;
    use crate::parallel::{Pool, Serial};

    #[test]
    fn every_item_is_measured_at_every_level_that_emits() {
        let caches = Caches { l1: 16 << 10, l2: 64 << 10, l3: 1 << 20 };
        let pool = Pool::new(2, "machine").unwrap();
        // Emulated code is measured too, but no item of it has to reach a million a second.
        for isa in [Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa <= Isa::detect()) {
            let threads: [&dyn Parallel; 2] = [&Serial, &pool];
            for parallel in threads {
                let figures = Figures::measure(isa, parallel, &caches, usize::MAX).unwrap();
                assert!(figures.is_sound(), "{figures:?}");
                assert!([figures.l1, figures.l2, figures.l3, figures.memory].iter().all(|&rate| rate > 0));
                assert_eq!([figures.rows_plain, figures.rows_far].map(|rate| rate > 0), [isa == Isa::Avx512; 2]);
                let pairs = isa == Isa::Avx512 && Extension::Bf16.present();
                assert!(figures.bf16_pairs > 0 || !pairs, "{figures:?}");
                assert_eq!(figures.peaks().f32, figures.f32);
            }
        }
        assert_eq!(Figures::measure(Isa::Portable, &Serial, &caches, usize::MAX), None);
    }

    #[test]
    fn a_measurement_ends_when_it_is_told_to() {
        let caches = Caches { l1: 16 << 10, l2: 64 << 10, l3: 1 << 20 };
        for items in 0..4 {
            let asked = Cell::new(0);
            let goes_on = || asked.replace(asked.get() + 1) < items;
            assert_eq!(Figures::measure_while(Isa::Avx2, &Serial, &caches, usize::MAX, &goes_on), None);
            assert!(asked.get() == items + 1 || Isa::Avx2 > Isa::detect(), "it was asked {} times", asked.get());
        }
    }

    #[test]
    fn all_threads_do_no_less_than_one() {
        let one =
            Figures { f32: 5, bf16_pairs: 0, bytes: 9, l1: 1, l2: 7, l3: 3, memory: 4, rows_plain: 6, rows_far: 1 };
        let all =
            Figures { f32: 8, bf16_pairs: 1, bytes: 2, l1: 2, l2: 6, l3: 3, memory: 5, rows_plain: 2, rows_far: 3 };
        assert_eq!(all.at_least(&one), Figures { bytes: 9, l2: 7, rows_plain: 6, ..all });
    }

    #[test]
    fn what_has_no_room_or_is_not_there_is_not_measured() {
        let isa = Isa::Avx2;
        if isa > Isa::detect() {
            return;
        }
        let caches = Caches { l1: 16 << 10, l2: 64 << 10, l3: 0 };
        let small = Figures::measure(isa, &Serial, &caches, 4096).unwrap();
        assert!(small.is_sound() && [small.l1, small.l2, small.l3, small.memory] == [0; 4], "{small:?}");
        let without_l3 = Figures::measure(isa, &Serial, &caches, usize::MAX).unwrap();
        assert!(without_l3.l3 == 0 && without_l3.memory > 0, "{without_l3:?}");
        assert!(!Figures::default().is_sound());
    }
}
