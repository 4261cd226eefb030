//! Buffers for tests of kernels: a result lies between canaries that must stay as they are, an operand between NaNs,
//! which show in every result that they get into.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cpu::{Elements, PackedWeights, PackedWeightsMut};
use crate::isa::Isa;
use crate::parallel::Parallel;

/// Elements of margin on each side: more than the widest tile.
const MARGIN: usize = 80;

/// An element type of such buffers.
pub(crate) trait Element: Copy + PartialEq + std::fmt::Debug {
    /// The margin of results.
    const CANARY: Self;
    /// The margin of operands.
    const NAN: Self;
}

impl Element for f32 {
    const CANARY: f32 = 12345.0;
    const NAN: f32 = f32::NAN;
}

/// Places.
impl Element for i64 {
    const CANARY: i64 = 12345;
    const NAN: i64 = i64::MIN;
}

/// `bf16`, by its bits.
impl Element for u16 {
    const CANARY: u16 = 12345;
    const NAN: u16 = 0x7FC0;
}

/// Weights of these elements in a buffer of floats.
pub(crate) fn packed(elements: Elements, buffer: &[f32]) -> PackedWeights<'_> {
    PackedWeights::new(elements, bytemuck::cast_slice(buffer))
}

/// Weights of these elements in a buffer of floats, to be written.
pub(crate) fn packed_mut(elements: Elements, buffer: &mut [f32]) -> PackedWeightsMut<'_> {
    PackedWeightsMut::new(elements, bytemuck::cast_slice_mut(buffer))
}

/// The levels that can run here.
pub(crate) fn levels() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.usable()).collect()
}

/// A result between margins of [`Element::CANARY`].
pub(crate) struct Canaried<T = f32>(Vec<T>);

impl<T: Element> Canaried<T> {
    /// `len` elements of NaN, so that an element that is never written is seen.
    pub(crate) fn new(len: usize) -> Canaried<T> {
        let mut all = vec![T::CANARY; len + 2 * MARGIN];
        all[MARGIN..MARGIN + len].fill(T::NAN);
        Canaried(all)
    }

    pub(crate) fn inside(&mut self) -> &mut [T] {
        let end = self.0.len() - MARGIN;
        &mut self.0[MARGIN..end]
    }

    /// The result; panics where a margin was written.
    pub(crate) fn open(self) -> Vec<T> {
        let end = self.0.len() - MARGIN;
        let around = self.0[..MARGIN].iter().chain(&self.0[end..]);
        assert!(around.into_iter().all(|&value| value == T::CANARY), "written outside of the result");
        self.0[MARGIN..end].to_vec()
    }
}

/// An operand between margins of NaN.
pub(crate) struct Poisoned<T = f32>(Vec<T>);

impl<T: Element> Poisoned<T> {
    pub(crate) fn new(values: &[T]) -> Poisoned<T> {
        let mut all = vec![T::NAN; values.len() + 2 * MARGIN];
        all[MARGIN..MARGIN + values.len()].copy_from_slice(values);
        Poisoned(all)
    }

    pub(crate) fn inside(&self) -> &[T] {
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

/// A fork-join on four fresh threads: each takes the next task when it has done one.
pub(crate) struct Scoped;

impl Parallel for Scoped {
    fn threads(&self) -> usize {
        4
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..self.threads().min(tasks) {
                scope.spawn(|| {
                    while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&index| index < tasks) {
                        task(index);
                    }
                });
            }
        });
    }

    fn each_thread(&self, task: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            for thread in 0..self.threads() {
                scope.spawn(move || task(thread));
            }
        });
    }
}
