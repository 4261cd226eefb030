//! Speeds of one thread of this machine, for cost models: [`Figures`] converted to the units that models compare.
//!
//! A process uses one set at each level, from its first use on: figures that were [recalled](Speeds::recall) before, or
//! else the defaults. So equal keys give equal executors. Later measurements serve the next process.

use std::sync::OnceLock;

use super::Figures;
use crate::cpu::blockwise::Ahead;
use crate::isa::Isa;

/// Rates and ratios of one thread. The defaults are those of a Zen 4, and of a machine that was not measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speeds {
    /// Multiply-adds of `f32` in a microsecond, the least time that waking another thread takes: smaller work stays on
    /// one thread.
    pub worth_a_thread: usize,
    /// Multiply-adds of bf16 pairs in a microsecond.
    pub pairs_worth_a_thread: usize,
    /// The cost of reading a vector of packed weights from memory, in multiply-adds of one vector of `f32`.
    pub weight_from_memory: f64,
    /// The cost of multiplying a vector of bf16 pairs, in multiply-adds of one vector of `f32`.
    pub vector_of_pairs: f64,
    /// Bytes that an operator reads and writes in a microsecond where its operands are beyond a core's own caches.
    pub moved: u64,
    /// How far ahead a row by block-quantised weights prefetches.
    pub ahead: Ahead,
}

impl Default for Speeds {
    fn default() -> Speeds {
        Speeds {
            worth_a_thread: 1 << 16,
            pairs_worth_a_thread: 1 << 17,
            weight_from_memory: 8.0,
            vector_of_pairs: 1.0,
            moved: 10_240,
            ahead: Ahead::Nothing,
        }
    }
}

/// How far a speed may be from its default: no processor with AVX2 differs more, and a file may say anything.
const MOST_APART: f64 = 8.0;

/// The time in which a network reads weights from memory, over that of a loop with only loads. On a Zen 4 a vector of
/// weights costs 8 multiply-adds, and the loop loads one in 5.6.
const WEIGHTS_OVER_LOADS: f64 = 1.42;

/// Bytes that the loop loads from memory while an operator moves one byte: 41 GB/s against ten on a Zen 4.
const LOADED_OVER_MOVED: f64 = 4.0;

/// How much faster rows have to be with the other distance than with the default, so that the noise of a measurement
/// does not decide.
const CLEARLY: f64 = 1.03;

impl Speeds {
    /// Speeds from the figures of one thread. A figure that was not measured, or not on a real processor, gives a speed
    /// near the default.
    #[must_use]
    pub fn of(figures: &Figures) -> Speeds {
        let [f32, pairs, memory] = [figures.f32, figures.bf16_pairs, figures.memory].map(f64::from);
        let usual = Speeds::default();
        let near = |value: f64, usual: f64, measured: bool| match measured && value.is_finite() {
            true => value.clamp(usual / MOST_APART, usual * MOST_APART),
            false => usual,
        };
        let (has_f32, has_pairs, has_memory) = (f32 > 0.0, pairs > 0.0, memory > 0.0);
        // A load of 64 bytes is a vector of 16 columns: four bytes for each multiply-add.
        let weight = WEIGHTS_OVER_LOADS * 4.0 * f32 / memory;
        Speeds {
            worth_a_thread: near(f32, usual.worth_a_thread as f64, has_f32) as usize,
            pairs_worth_a_thread: near(pairs, usual.pairs_worth_a_thread as f64, has_pairs) as usize,
            weight_from_memory: near(weight, usual.weight_from_memory, has_f32 && has_memory),
            vector_of_pairs: near(2.0 * f32 / pairs, usual.vector_of_pairs, has_f32 && has_pairs),
            moved: near(memory / LOADED_OVER_MOVED, usual.moved as f64, has_memory) as u64,
            ahead: match figures.rows_plain > 0 && f64::from(figures.rows_far) > CLEARLY * f64::from(figures.rows_plain)
            {
                true => Ahead::Far,
                false => Ahead::Nothing,
            },
        }
    }

    /// The speeds that this process uses at that level.
    #[must_use]
    pub fn of_process(isa: Isa) -> Speeds {
        let cell = &OF_PROCESS[isa as usize];
        // A child of `fork` finds the cell empty or full.
        cell.get().copied().unwrap_or_else(|| *cell.get_or_init(Speeds::default))
    }

    /// Makes this process use figures of one thread at that level, which were measured on this machine before, unless
    /// it already uses others. Returns the speeds in use.
    pub fn recall(isa: Isa, known: &Figures) -> Speeds {
        let known = Speeds::of(known);
        *OF_PROCESS[isa as usize].get_or_init(|| known)
    }
}

/// The speeds of each level.
static OF_PROCESS: [OnceLock<Speeds>; 3] = [const { OnceLock::new() }; 3];

#[cfg(test)]
mod tests {
    use super::*;

    /// One thread of a Zen 4 (EPYC 9004), on which the defaults were found.
    const ZEN_4: Figures = Figures {
        f32: 58_800,
        bf16_pairs: 117_650,
        bytes: 235_300,
        l1: 217_000,
        l2: 110_500,
        l3: 94_600,
        memory: 41_800,
        rows_plain: 0,
        rows_far: 0,
    };

    #[test]
    fn a_zen_4_has_the_defaults() {
        let (measured, usual) = (Speeds::of(&ZEN_4), Speeds::default());
        let near = |have: f64, want: f64| assert!((have / want - 1.0).abs() < 0.11, "{have}, not {want}");
        near(measured.worth_a_thread as f64, usual.worth_a_thread as f64);
        near(measured.pairs_worth_a_thread as f64, usual.pairs_worth_a_thread as f64);
        near(measured.weight_from_memory, usual.weight_from_memory);
        near(measured.vector_of_pairs, usual.vector_of_pairs);
        near(measured.moved as f64, usual.moved as f64);
    }

    #[test]
    fn what_was_not_measured_is_the_default() {
        assert_eq!(Speeds::of(&Figures::default()), Speeds::default());
        let multiplied = Speeds::of(&Figures { memory: 0, bf16_pairs: 0, ..ZEN_4 });
        assert_eq!(multiplied, Speeds { worth_a_thread: 58_800, ..Speeds::default() });
    }

    #[test]
    fn rows_prefetch_far_where_that_was_clearly_faster() {
        let ahead = |rows_plain, rows_far| Speeds::of(&Figures { rows_plain, rows_far, ..ZEN_4 }).ahead;
        assert_eq!(ahead(40_000, 30_000), Ahead::Nothing);
        assert_eq!(ahead(40_000, 40_800), Ahead::Nothing, "within the noise");
        assert_eq!(ahead(40_000, 44_000), Ahead::Far);
        assert_eq!(ahead(0, 44_000), Ahead::Nothing, "not measured");
    }

    #[test]
    fn speeds_of_any_figures_are_near_the_defaults_and_rise_with_them() {
        let usual = Speeds::default();
        let mut rates = vec![0, 1, 2, 100];
        rates.extend((10..32).map(|bit| 1u32 << bit));
        rates.push(u32::MAX);
        let within = |value: f64, usual: f64| (usual / MOST_APART - 1.0..=usual * MOST_APART).contains(&value);
        let mut before: Option<Speeds> = None;
        for &f32 in &rates {
            for &other in &rates {
                let figures = Figures { f32, bf16_pairs: other, memory: other, ..Figures::default() };
                let speeds = Speeds::of(&figures);
                assert!(within(speeds.worth_a_thread as f64, usual.worth_a_thread as f64), "{figures:?}");
                assert!(within(speeds.pairs_worth_a_thread as f64, usual.pairs_worth_a_thread as f64), "{figures:?}");
                assert!(within(speeds.moved as f64, usual.moved as f64), "{figures:?}");
                for (value, usual) in [
                    (speeds.weight_from_memory, usual.weight_from_memory),
                    (speeds.vector_of_pairs, usual.vector_of_pairs),
                ] {
                    assert!((usual / MOST_APART..=usual * MOST_APART).contains(&value), "{figures:?}: {value}");
                }
            }
            // Faster products make memory relatively dearer, and another thread needs more products. A figure of 0 says
            // nothing.
            let speeds = Speeds::of(&Figures { f32, ..ZEN_4 });
            if let Some(before) = before.filter(|_| f32 > 1) {
                assert!(before.worth_a_thread <= speeds.worth_a_thread);
                assert!(before.weight_from_memory <= speeds.weight_from_memory);
            }
            before = Some(speeds);
        }
    }

    #[test]
    fn a_process_goes_by_what_it_went_by_first() {
        // Nothing is emitted at this level, and no test here checks a model's pick at it.
        let first = Speeds::of_process(Isa::Portable);
        assert_eq!(Speeds::recall(Isa::Portable, &Figures { f32: 1, memory: 1, ..ZEN_4 }), first);
        assert_eq!(Speeds::of_process(Isa::Portable), first);
    }
}
