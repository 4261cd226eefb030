//! Buffers for tests of kernels: what lies around a result is checked to be untouched, and what lies around an operand
//! is NaN, which no result survives.

use crate::isa::Isa;
use crate::parallel::Parallel;

/// Elements on each side: more than the widest tile.
const MARGIN: usize = 80;

const CANARY: f32 = 12345.0;

/// The levels that can run here.
pub(crate) fn levels() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.usable()).collect()
}

/// A result between canaries.
pub(crate) struct Fenced(Vec<f32>);

impl Fenced {
    /// `len` elements of NaN, so that one that is not written shows.
    pub(crate) fn new(len: usize) -> Fenced {
        let mut all = vec![CANARY; len + 2 * MARGIN];
        all[MARGIN..MARGIN + len].fill(f32::NAN);
        Fenced(all)
    }

    pub(crate) fn inside(&mut self) -> &mut [f32] {
        let end = self.0.len() - MARGIN;
        &mut self.0[MARGIN..end]
    }

    /// The result, if nothing around it was written.
    pub(crate) fn open(self) -> Vec<f32> {
        let end = self.0.len() - MARGIN;
        let around = self.0[..MARGIN].iter().chain(&self.0[end..]);
        assert!(around.into_iter().all(|&value| value == CANARY), "written outside of the result");
        self.0[MARGIN..end].to_vec()
    }
}

/// An operand with NaN around it.
pub(crate) struct Poisoned(Vec<f32>);

impl Poisoned {
    pub(crate) fn new(values: &[f32]) -> Poisoned {
        let mut all = vec![f32::NAN; values.len() + 2 * MARGIN];
        all[MARGIN..MARGIN + values.len()].copy_from_slice(values);
        Poisoned(all)
    }

    pub(crate) fn inside(&self) -> &[f32] {
        &self.0[MARGIN..self.0.len() - MARGIN]
    }
}

/// Small integers: sums of their products are exact, so that results can be compared bit by bit.
pub(crate) fn integers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let next = || {
        // Xorshift: any generator does, as long as it repeats.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 16) as i32 % 9 - 4
    };
    std::iter::repeat_with(next).take(count).map(|value| value as f32).collect()
}

/// A fork-join on fresh threads, one for each task.
pub(crate) struct Scoped;

impl Parallel for Scoped {
    fn threads(&self) -> usize {
        4
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            for index in 0..tasks {
                scope.spawn(move || task(index));
            }
        });
    }
}
