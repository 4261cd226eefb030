//! Made-up operands for trials, lent again from key to key.
//!
//! Weights of a network are cold: between two uses of one node's weights all other weights are used, and weights that
//! do not fit the caches come from memory every time. A trial that reads the same weights again and again would favour
//! a choice that is fast on cached weights, which requests never find. So each run takes its weights from another place
//! of a larger buffer, as large as the model's constants, up to [`MOST_COLD`]. Inputs and outputs stay at one place, as
//! in a network, which has just written the input and soon reads the output.

use kiln_tensor::Buffer;

/// Most bytes over which weights are spread: more than a core's share of L3 on any processor known here.
const MOST_COLD: usize = 64 << 20;

/// Most bytes of all operands of a trial: a key that needs more is not tuned.
const MOST_BYTES: usize = 256 << 20;

/// Elements of a cache line.
const LINE: usize = 16;

/// How many elements a run needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Elements of the input.
    pub input: usize,
    /// Elements of weights, or of a second input.
    pub weights: usize,
    /// Whether they are weights, which a network reads once a request.
    pub cold: bool,
    /// Elements of the output.
    pub output: usize,
    /// Elements of scratch memory.
    pub scratch: usize,
}

impl Demand {
    /// Whether its operands are small enough for a trial.
    pub(super) fn is_modest(&self) -> bool {
        let all = [self.input, self.weights, self.output, self.scratch];
        let elements = all.iter().try_fold(0usize, |total, &count| total.checked_add(count));
        elements.is_some_and(|elements| elements <= MOST_BYTES / 4)
    }
}

/// The operands of one run.
#[derive(Debug)]
pub struct Operands<'a> {
    /// The input.
    pub input: &'a [f32],
    /// Weights, or a second input.
    pub weights: &'a [f32],
    /// The output.
    pub output: &'a mut [f32],
    /// Scratch.
    pub scratch: &'a mut [f32],
}

/// Memory that operands are lent from.
pub(super) struct OperandMemory {
    input: Buffer,
    weights: Buffer,
    output: Buffer,
    scratch: Buffer,
    /// Bytes that cold weights are spread over.
    spread: usize,
    /// Where the next cold weights are.
    next: usize,
}

impl OperandMemory {
    /// No memory yet; weights will be spread over `constants` bytes, those of the model's constants, up to
    /// [`MOST_COLD`].
    pub(super) fn new(constants: usize) -> OperandMemory {
        let empty = || zeros(0);
        let spread = constants.min(MOST_COLD);
        OperandMemory { input: empty(), weights: empty(), output: empty(), scratch: empty(), spread, next: 0 }
    }

    /// Makes room for a run.
    pub(super) fn provide(&mut self, demand: &Demand) {
        let spread = if demand.cold { self.spread / 4 } else { 0 };
        grow(&mut self.input, demand.input);
        grow(&mut self.weights, demand.weights.max(spread));
        grow(&mut self.output, demand.output);
        grow(&mut self.scratch, demand.scratch);
    }

    /// The operands of a run for which there is room.
    pub(super) fn lend(&mut self, demand: &Demand) -> Operands<'_> {
        let all = self.weights.bytes().len() / 4;
        let mut at = 0;
        if demand.cold {
            at = if self.next + demand.weights <= all { self.next } else { 0 };
            self.next = (at + demand.weights).next_multiple_of(LINE);
        }
        let elements = |buffer| -> &[f32] { bytemuck::cast_slice(Buffer::bytes(buffer)) };
        Operands {
            input: &elements(&self.input)[..demand.input],
            weights: &elements(&self.weights)[at..][..demand.weights],
            output: &mut bytemuck::cast_slice_mut(self.output.bytes_mut())[..demand.output],
            scratch: &mut bytemuck::cast_slice_mut(self.scratch.bytes_mut())[..demand.scratch],
        }
    }
}

/// Replaces a buffer that is too short by one of small numbers. Zeros would do for the kernels, but pages that were
/// never written all map the system's one page of zeros, which stays in the caches.
fn grow(buffer: &mut Buffer, elements: usize) {
    if buffer.bytes().len() >= elements * 4 {
        return;
    }
    // The old one is freed first: both at once would be more than is needed.
    *buffer = zeros(0);
    *buffer = zeros(elements * 4);
    for (index, word) in bytemuck::cast_slice_mut::<u8, u32>(buffer.bytes_mut()).iter_mut().enumerate() {
        // The words may be read as pairs of bf16, so each half is a small number too, and no denormal, which would be
        // slow.
        let bf16 = ((index % 13) as f32 / 64.0 - 0.1).to_bits() >> 16;
        *word = bf16 << 16 | bf16;
    }
}

/// Memory for measurements; where there is none, the measurement is given up.
fn zeros(bytes: usize) -> Buffer {
    Buffer::zeroed(bytes).unwrap_or_else(|refused| refused.raise())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cold_weights_are_elsewhere_each_time_until_all_were_used() {
        let mut memory = OperandMemory::new(1000 * 4);
        let demand = Demand { input: 5, weights: 300, cold: true, output: 7, scratch: 0 };
        memory.provide(&demand);
        let mut places = Vec::new();
        for _ in 0..4 {
            let Operands { input, weights, output, scratch } = memory.lend(&demand);
            assert_eq!([input.len(), weights.len(), output.len(), scratch.len()], [5, 300, 7, 0]);
            places.push(weights.as_ptr().addr());
        }
        assert_eq!(places[0], places[3], "three times 304 elements fit a thousand");
        assert!(places[0] < places[1] && places[1] < places[2]);
        let warm = Demand { cold: false, ..demand };
        let first = memory.lend(&warm).weights.as_ptr();
        assert_eq!(memory.lend(&warm).weights.as_ptr(), first);
    }

    #[test]
    fn weights_larger_than_the_model_are_lent_too_and_absurd_ones_are_not() {
        let mut memory = OperandMemory::new(0);
        let demand = Demand { weights: 100, cold: true, ..Demand::default() };
        memory.provide(&demand);
        assert_eq!(memory.lend(&demand).weights.len(), 100);
        assert_eq!(memory.lend(&demand).weights.len(), 100);
        assert!(demand.is_modest());
        assert!(!Demand { weights: usize::MAX, output: 1, ..Demand::default() }.is_modest());
        assert!(!Demand { input: MOST_BYTES / 4 + 1, ..Demand::default() }.is_modest());
    }
}
