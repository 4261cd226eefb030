//! How many multiply-adds a core does a second, for each instruction that may multiply an operand type.
//!
//! A processor with AVX512_BF16 does not always gain by it: on some, `vdpbf16ps` does twice the work of multiply-adds
//! of `f32`, on others half. So the choice between the two is measured ([`Peaks`]), once a process or, where callers
//! keep it, once a machine. [`PeakLoop::rate_on`] is for [figures](super::machine) of all threads. The loops run in
//! registers for some microseconds, in turn, and the least time of each counts: other work on the core, or a clock that
//! has yet to rise, makes a run longer and none shorter.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::gemm::operands::{self, Operands};
use crate::error::Result;
use crate::isa::{Extension, Extensions, Isa};
use crate::jit::{Arguments, Asm, Code, Extents, Given, Gpr, Vreg, arg};
use crate::parallel::{Parallel, Serial};

const FAMILY: &str = "peak";

/// Sums that are added to in turn: two instructions in a cycle, each with a latency of six, keep twelve sums busy.
const SUMS: u8 = 12;

/// Iterations of a run: some microseconds, so that most runs see no interrupt.
const LOOPS: usize = 1000;

/// Iterations of a run where several threads run the loop: it takes long beside starting and joining threads.
const LOOPS_TOGETHER: usize = 20 * LOOPS;

/// Time that [`Peaks::measure`] spends on each type in a round, and its rounds: a millisecond in all.
const BUDGET: Duration = Duration::from_micros(100);
const ROUNDS: usize = 5;

/// The types that are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplied {
    /// `f32` on both sides.
    F32,
    /// bf16 pairs on both sides (`vdpbf16ps`). Needs [`Extension::Bf16`].
    Bf16Pairs,
    /// Unsigned bytes by signed ones (`vpdpbusd`). Needs [`Extension::Vnni`].
    Bytes,
    /// Pairs of 16-bit integers (`vpmaddwd` and an addition).
    Int16Pairs,
}

impl Multiplied {
    /// The types as which bytes are multiplied at that level.
    #[must_use]
    pub fn of_bytes(isa: Isa) -> Multiplied {
        if Extensions::beside(isa).contains(Extension::Vnni) { Multiplied::Bytes } else { Multiplied::Int16Pairs }
    }

    fn operands(self) -> Operands {
        match self {
            Multiplied::F32 => operands::F32,
            Multiplied::Bf16Pairs => operands::BF16_PAIRS,
            Multiplied::Bytes => operands::INT8,
            Multiplied::Int16Pairs => operands::INT16_PAIRS,
        }
    }
}

/// A loop with only multiply-adds.
#[derive(Debug)]
pub struct PeakLoop {
    code: Code,
    /// Multiply-adds of an iteration.
    work: usize,
}

/// The arguments of a run.
#[repr(C)]
struct PeakArgs {
    loops: usize,
}

impl Arguments for PeakArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = ();

    fn extents(&self, (): &(), _: &mut Extents<'_>) {}
}

impl PeakLoop {
    /// Emits the loop.
    ///
    /// # Errors
    ///
    /// Where the level or the extension cannot be called here, and where the system gives no executable memory.
    pub fn new(isa: Isa, multiplied: Multiplied) -> Result<PeakLoop> {
        let operands = multiplied.operands();
        let (loops, left, right, scratch) = (Gpr::RAX, Vreg(SUMS), Vreg(SUMS + 1), Vreg(SUMS + 2));
        let mut asm = Asm::new(isa)?;
        asm.prologue();
        asm.load(loops, arg!(PeakArgs.loops));
        (0..SUMS + 2).for_each(|register| asm.vzero(Vreg(register)));
        asm.repeat(loops, |asm| {
            (0..SUMS).for_each(|sum| operands.multiply(asm, Vreg(sum), left, right.into(), scratch));
        });
        asm.epilogue();
        let bytes = asm.finish(FAMILY)?;
        let code = match operands.extension {
            None => Code::seal(isa, FAMILY, &bytes)?,
            Some(extension) => Code::seal_extended(isa, extension, FAMILY, &bytes)?,
        };
        Ok(PeakLoop { code, work: usize::from(SUMS) * isa.lanes() * operands.group })
    }

    /// Multiply-adds a second of one thread, in the fastest run of those that begin within `budget`.
    #[must_use]
    pub fn rate(&self, budget: Duration) -> f64 {
        self.rate_on(&Serial, budget)
    }

    /// Multiply-adds a second of all these threads together.
    #[must_use]
    pub fn rate_on(&self, parallel: &dyn Parallel, budget: Duration) -> f64 {
        let threads = parallel.threads();
        let loops = if threads == 1 { LOOPS } else { LOOPS_TOGETHER };
        let seconds = least_seconds(budget, || {
            let begin = Instant::now();
            parallel.run(threads, &|_| {
                // SAFETY: the loop touches no memory besides its arguments.
                unsafe { self.code.call(&PeakArgs { loops }, &(), &Given::new()) };
            });
            begin.elapsed()
        });
        (self.work * loops * threads) as f64 / seconds
    }
}

/// The least time that `run` returns. It is called as often as calls begin within `budget`, and at least once.
pub(crate) fn least_seconds(budget: Duration, mut run: impl FnMut() -> Duration) -> f64 {
    let (start, mut least) = (Instant::now(), run());
    while start.elapsed() < budget {
        least = least.min(run());
    }
    least.as_secs_f64().max(1e-9)
}

/// The speed of one core of this machine, in multiply-adds a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peaks {
    /// Multiply-adds of `f32`, on AVX-512.
    pub f32: u32,
    /// Multiply-adds of bf16 pairs.
    pub bf16_pairs: u32,
}

/// The peaks of this process, measured or recalled.
static OF_PROCESS: OnceLock<Peaks> = OnceLock::new();

impl Peaks {
    /// The peaks of this process: recalled, or else measured at the first call. `None` where the processor does not
    /// multiply bf16 pairs, or there is no executable memory to measure with.
    #[must_use]
    pub fn of_process() -> Option<Peaks> {
        if let Some(known) = OF_PROCESS.get() {
            return Some(*known);
        }
        // Measured outside of the cell, so that a child of `fork` finds the cell empty or full.
        let measured = Peaks::measure()?;
        Some(*OF_PROCESS.get_or_init(|| measured))
    }

    /// Makes this process use `known`, which was measured on this machine before, unless it has measured already.
    /// Returns the peaks in use.
    pub fn recall(known: Peaks) -> Peaks {
        *OF_PROCESS.get_or_init(|| known)
    }

    fn measure() -> Option<Peaks> {
        if !Extension::Bf16.present() {
            return None;
        }
        let make = |multiplied| PeakLoop::new(Isa::Avx512, multiplied).ok();
        let (f32, bf16_pairs) = (make(Multiplied::F32)?, make(Multiplied::Bf16Pairs)?);
        let mut peaks = Peaks { f32: 0, bf16_pairs: 0 };
        for _ in 0..ROUNDS {
            peaks.f32 = peaks.f32.max((f32.rate(BUDGET) / 1e6) as u32);
            peaks.bf16_pairs = peaks.bf16_pairs.max((bf16_pairs.rate(BUDGET) / 1e6) as u32);
        }
        Some(peaks)
    }

    /// Whether these peaks can have been measured: a file may say anything.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.f32 > 0 && self.bf16_pairs > 0
    }

    /// Whether multiplying pairs is faster by at least an eighth, which pays for converting operands that come as
    /// `f32`.
    #[must_use]
    pub fn pairs_pay(&self) -> bool {
        u64::from(self.bf16_pairs) * 8 >= u64::from(self.f32) * 9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_counts_what_it_multiplies() {
        for (isa, multiplied, group) in [
            (Isa::Avx2, Multiplied::F32, 1),
            (Isa::Avx2, Multiplied::Int16Pairs, 2),
            (Isa::Avx512, Multiplied::F32, 1),
            (Isa::Avx512, Multiplied::Bf16Pairs, 2),
            (Isa::Avx512, Multiplied::Bytes, 4),
        ] {
            if !isa.usable() || !multiplied.operands().usable(isa) {
                continue;
            }
            let each = PeakLoop::new(isa, multiplied).unwrap();
            assert_eq!(each.work, 12 * isa.lanes() * group);
            assert!(each.rate(Duration::ZERO) > 0.0);
        }
        assert_eq!(Multiplied::of_bytes(Isa::Avx2), Multiplied::Int16Pairs);
        assert!(PeakLoop::new(Isa::Avx2, Multiplied::Bf16Pairs).is_err(), "AVX2 has no such instruction");
    }

    #[test]
    fn pairs_pay_where_they_are_faster_by_an_eighth() {
        for (f32, bf16_pairs, pay) in [(100, 200, true), (100, 113, true), (100, 112, false), (100, 50, false)] {
            let peaks = Peaks { f32, bf16_pairs };
            assert!(peaks.is_sound());
            assert_eq!(peaks.pairs_pay(), pay, "{peaks:?}");
        }
        assert!(!Peaks { f32: 0, bf16_pairs: 9 }.is_sound());
    }

    #[test]
    fn a_process_goes_by_one_measurement() {
        let Some(peaks) = Peaks::of_process() else {
            return assert!(!Extension::Bf16.present());
        };
        assert!(peaks.is_sound());
        assert_eq!(Peaks::of_process(), Some(peaks));
        assert_eq!(Peaks::recall(Peaks { f32: 1, bf16_pairs: 1 }), peaks, "measured already");
    }
}
