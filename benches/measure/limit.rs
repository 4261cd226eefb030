//! The multiply-add limit of one core, for benches to compare with. Knows nothing of the measured code.

use std::time::Duration;

use kiln_kernels::Isa;
use kiln_kernels::cpu::peak::{Multiplied, PeakLoop};

/// Multiply-adds a second of that many threads, in GFLOP/s. All threads run at once, because cores that share power, or
/// are shared themselves, are slower together than alone.
pub(crate) fn multiply_adds(isa: Isa, threads: usize, budget: Duration) -> f64 {
    std::thread::scope(|scope| {
        let each: Vec<_> = (0..threads).map(|_| scope.spawn(|| of_one(isa, budget))).collect();
        each.into_iter().map(|thread| thread.join().expect("a loop in registers")).sum()
    })
}

/// Multiply-adds a second of one core in GFLOP/s, with everything in registers.
fn of_one(isa: Isa, budget: Duration) -> f64 {
    let multiply_adds = PeakLoop::new(isa, Multiplied::F32).expect("a level that code is emitted for");
    2.0 * multiply_adds.rate(budget) / 1e9
}
