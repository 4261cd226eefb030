//! Operators on quantised tensors that need no dequantisation: sums, products and maxima of bytes.
//!
//! Loops that the compiler turns into vector code; where the level allows, into that of AVX2. Every level makes the
//! same bits.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

pub use crate::problem::quantized::{Plus, Rounding};

use crate::cpu::multiversion::multiversion;
use crate::cpu::pool::{PoolShape, Window};
use crate::cpu::rounding::nearest_even;
use crate::isa::Isa;
use crate::memory;
use crate::parallel::{Parallel, for_each_chunk};

/// Elements of a task.
const CHUNK: usize = 1 << 15;

/// One operand of a sum.
#[derive(Clone, Copy, Debug)]
pub struct Addend<'a> {
    /// Its bytes.
    pub data: &'a [u8],
    /// Whether they are signed.
    pub signed: bool,
    /// Its zero point, and its scale over the result's.
    pub zero: i32,
    /// See `zero`.
    pub scale: f64,
}

/// Whether a residual of bytes is added to a product's rounded result, and which operand of the sum it is. Sums are
/// rounded, so that the order of operands shows in the last bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Added {
    /// Nothing is added.
    Nothing,
    /// The residual is the second operand.
    Second,
    /// The residual is the first operand.
    First,
}

impl<'a> Plus<'a> {
    /// The product's own bytes as an operand.
    fn own<'b>(&self, data: &'b [u8], zero: i32) -> Addend<'b> {
        Addend { data, signed: self.rounding.signed, zero, scale: self.own_scale }
    }

    fn other(&self) -> Addend<'a> {
        Addend { data: self.data, signed: self.rounding.signed, zero: self.zero, scale: self.scale }
    }

    /// The sum as kernels compute it: factors of both operands' bytes, taken as unsigned, and the addend. `zero` is the
    /// product's own zero point.
    pub(super) fn terms(&self, zero: i32) -> PlusTerms {
        let Factors { scales, shift, .. } = Factors::of(self.own(&[], zero), self.other());
        PlusTerms { scales, shift, rounding: self.rounding.bounded() }
    }
}

/// The result of [`Plus::terms`].
#[derive(Clone, Copy, Debug)]
pub(super) struct PlusTerms {
    pub(super) scales: [f32; 2],
    pub(super) shift: f32,
    pub(super) rounding: Rounding,
}

impl Rounding {
    /// The bounds within those of the type.
    pub(super) fn bounded(self) -> Rounding {
        let (least, greatest) = if self.signed { (-128, 127) } else { (0, 255) };
        // Both within the type: bounds of the model may lie outside of it.
        let [least, greatest] = [least, greatest].map(|bound| (bound - self.zero) as f32);
        Rounding { low: self.low.max(least).min(greatest), high: self.high.min(greatest).max(least), ..self }
    }

    #[inline(always)]
    pub(super) fn byte(&self, value: f32) -> u8 {
        // Here NaN becomes a bound.
        let value = if value > self.low { value } else { self.low };
        let value = if value < self.high { value } else { self.high };
        (nearest_even(value) + self.zero) as u8
    }
}

/// The factors of both operands' bytes, taken as unsigned, and the addend.
#[derive(Clone, Copy)]
struct Factors {
    flips: [u8; 2],
    scales: [f32; 2],
    shift: f32,
}

impl Factors {
    fn of(a: Addend<'_>, b: Addend<'_>) -> Factors {
        // Signed bytes are 128 less than the unsigned ones, and so are their zero points.
        let flip = |signed: bool| if signed { 0x80 } else { 0 };
        let zero = |addend: Addend<'_>| f64::from(addend.zero + i32::from(flip(addend.signed))) * addend.scale;
        Factors {
            flips: [flip(a.signed), flip(b.signed)],
            scales: [a.scale as f32, b.scale as f32],
            shift: -(zero(a) + zero(b)) as f32,
        }
    }
}

multiversion! {
    fn add_chunk(a: &[u8], b: &[u8], factors: Factors, rounding: Rounding, to: &mut [u8]) {
        let Factors { flips, scales, shift } = factors;
        for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
            let (a, b) = (i32::from(a ^ flips[0]) as f32, i32::from(b ^ flips[1]) as f32);
            *to = rounding.byte(a.mul_add(scales[0], b.mul_add(scales[1], shift)));
        }
    }
}

/// Adds two tensors of one length, as long as `to`, on the caller's thread.
///
/// # Panics
///
/// If an operand is shorter than `to`.
pub fn add(isa: Isa, a: Addend<'_>, b: Addend<'_>, rounding: Rounding, to: &mut [u8]) {
    let count = to.len();
    add_chunk(isa, &a.data[..count], &b.data[..count], Factors::of(a, b), rounding.bounded(), to);
}

/// One operand of a product of elements.
#[derive(Clone, Copy, Debug)]
pub struct Factor<'a> {
    /// Its bytes.
    pub data: &'a [u8],
    /// Whether they are signed.
    pub signed: bool,
    /// Its zero point.
    pub zero: i32,
}

impl Factor<'_> {
    /// What makes its bytes unsigned, and the zero point of those.
    fn unsigned(&self) -> [i32; 2] {
        let flip = if self.signed { 0x80 } else { 0 };
        [flip, self.zero + flip]
    }
}

multiversion! {
    fn multiply_chunk(a: &[u8], b: &[u8], unsigned: [[i32; 2]; 2], scale: f32, rounding: Rounding, to: &mut [u8]) {
        let [[a_flip, a_zero], [b_flip, b_zero]] = unsigned;
        for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
            let product = ((i32::from(a) ^ a_flip) - a_zero) * ((i32::from(b) ^ b_flip) - b_zero);
            *to = rounding.byte(product as f32 * scale);
        }
    }
}

/// Multiplies two tensors of one length, as long as `to`, element by element, on the caller's thread: the product of
/// elements less their zero points, which is exact, times `scale`.
///
/// # Panics
///
/// If an operand is shorter than `to`.
pub fn multiply(isa: Isa, [a, b]: [Factor<'_>; 2], scale: f32, rounding: Rounding, to: &mut [u8]) {
    let (count, unsigned) = (to.len(), [a.unsigned(), b.unsigned()]);
    multiply_chunk(isa, &a.data[..count], &b.data[..count], unsigned, scale, rounding.bounded(), to);
}

multiversion! {
    fn add_to_chunk(to: &mut [u8], b: &[u8], factors: Factors, first: bool, rounding: Rounding) {
        let Factors { flips, scales, shift } = factors;
        for (to, &b) in to.iter_mut().zip(b) {
            let (a, b) = (i32::from(*to ^ flips[0]) as f32, i32::from(b ^ flips[1]) as f32);
            let sum = if first {
                b.mul_add(scales[1], a.mul_add(scales[0], shift))
            } else {
                a.mul_add(scales[0], b.mul_add(scales[1], shift))
            };
            *to = rounding.byte(sum);
        }
    }
}

/// Adds a tensor to a product's result, whose zero point is `zero`; `added` says which operand it is.
pub fn add_to(isa: Isa, to: &mut [u8], zero: i32, plus: Plus<'_>, added: Added, parallel: &dyn Parallel) {
    let (factors, rounding) = (Factors::of(plus.own(&[], zero), plus.other()), plus.rounding.bounded());
    let first = added == Added::First;
    for_each_chunk(parallel, to, CHUNK, &|index, to| {
        let b = plus.data.get(index * CHUNK..).unwrap_or_default();
        add_to_chunk(isa, to, b, factors, first, rounding);
    });
}

/// The larger of two bytes at each index.
#[inline(always)]
fn raise(to: &mut [u8], from: &[u8], signed: bool) {
    let pairs = to.iter_mut().zip(from);
    if signed {
        pairs.for_each(|(to, &from)| *to = (*to as i8).max(from as i8) as u8);
    } else {
        pairs.for_each(|(to, &from)| *to = (*to).max(from));
    }
}

multiversion! {
    fn larger(to: &mut [u8], from: &[u8], signed: bool) {
        raise(to, from, signed);
    }
}

multiversion! {
    /// The largest bytes of windows along a channels-last line, from window `first` on, compared also with the bytes in
    /// `to`.
    fn largest_along(line: &[u8], channels: usize, window: &Window, first: usize, signed: bool, to: &mut [u8]) {
        for (index, to) in (first..).zip(to.chunks_exact_mut(channels)) {
            places(window, index).for_each(|place| raise(to, &line[place * channels..][..channels], signed));
        }
    }
}

/// The largest bytes of windows over channels-last images. A window without positions gives the least byte.
pub fn largest(isa: Isa, shape: &PoolShape, signed: bool, x: &[u8], y: &mut [u8], parallel: &dyn Parallel) {
    let least = if signed { 0x80 } else { 0 };
    let [depth, height, width] = shape.axes;
    let [depths, heights] = [depth.output, height.output].map(|count| count as usize);
    let line = width.input as usize * shape.channels();
    // Windows between two checks of whether the request has been cancelled.
    let channels = shape.channels().max(1);
    let together = (CHUNK / channels / (width.kernel.min(width.input) as usize).max(1)).max(1);
    // The windows go down first, over whole lines, and then along the remaining line.
    for_each_chunk(parallel, y, width.output as usize * shape.channels(), &|index, y| {
        let [image, d, h] = [index / heights / depths, index / heights % depths, index % heights];
        let mut down = memory::filled(least, line);
        for d in places(&depth, d) {
            for h in places(&height, h) {
                let number = (image * depth.input as usize + d) * height.input as usize + h;
                larger(isa, &mut down, &x[number * line..][..line], signed);
            }
        }
        y.fill(least);
        for (block, y) in y.chunks_mut(together * channels).enumerate() {
            if parallel.is_stopped() {
                return;
            }
            largest_along(isa, &down, channels, &width, block * together, signed, y);
        }
    });
}

/// Where the taps of a window read.
fn places(window: &Window, index: usize) -> impl Iterator<Item = usize> {
    let taps = window.taps(index);
    let step = window.dilation as usize;
    (0..taps.count).map(move |tap| taps.first + tap * step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::canaries::levels;
    use crate::cpu::pool::PoolKind;
    use crate::parallel::Serial;
    use crate::reference::pool::pool;

    fn bytes(count: usize, seed: u64) -> Vec<u8> {
        (0..count as u64).map(|at| ((at + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
    }

    fn real(byte: u8, signed: bool, zero: i32) -> f64 {
        f64::from(if signed { i32::from(byte as i8) } else { i32::from(byte) } - zero)
    }

    /// A real number, counted in a scale, as a byte.
    fn rounded(value: f64, rounding: Rounding) -> u8 {
        let (least, greatest) = if rounding.signed { (-128, 127) } else { (0, 255) };
        let clamped = value.max(f64::from(rounding.low)).min(f64::from(rounding.high));
        (clamped.round_ties_even() as i32 + rounding.zero).clamp(least, greatest) as u8
    }

    #[test]
    fn sums_of_bytes_are_rounded_once_at_every_level() {
        // Scales of powers of two, with which everything is exact.
        for (signed, zeros) in [(false, [3, 200, 128]), (true, [-5, 100, -128])] {
            let (a, b) = (bytes(1001, 1), bytes(1001, 5000));
            let addend = |data, zero, scale| Addend { data, signed, zero, scale };
            for (low, high) in [(f32::NEG_INFINITY, f32::INFINITY), (-20.5, 31.0)] {
                let rounding = Rounding { signed, zero: zeros[2], low, high };
                let expected = a.iter().zip(&b).map(|(&a, &b)| {
                    rounded(real(a, signed, zeros[0]) * 0.5 + real(b, signed, zeros[1]) * 0.125, rounding)
                });
                let expected: Vec<u8> = expected.collect();
                for isa in levels() {
                    let mut to = vec![0; a.len()];
                    let (a, b) = (addend(&a, zeros[0], 0.5), addend(&b, zeros[1], 0.125));
                    add(isa, a, b, rounding, &mut to);
                    assert_eq!(to, expected, "{isa} {signed}");
                }
            }
        }
    }

    #[test]
    fn products_of_bytes_are_rounded_once_at_every_level() {
        for (signs, zeros) in [([false, false], [3, 200, 128]), ([true, false], [-128, 255, 7])] {
            let (a, b) = (bytes(1001, 1), bytes(1001, 5000));
            for (low, high) in [(f32::NEG_INFINITY, f32::INFINITY), (-20.5, 31.0)] {
                let rounding = Rounding { signed: false, zero: zeros[2], low, high };
                let scale = 1.0 / 64.0;
                let expected: Vec<u8> = (a.iter().zip(&b))
                    .map(|(&a, &b)| real(a, signs[0], zeros[0]) * real(b, signs[1], zeros[1]) * scale)
                    .map(|product| rounded(product, rounding))
                    .collect();
                let factor = |data, at: usize| Factor { data, signed: signs[at], zero: zeros[at] };
                for isa in levels() {
                    let mut to = vec![0; a.len()];
                    multiply(isa, [factor(&a, 0), factor(&b, 1)], scale as f32, rounding, &mut to);
                    assert_eq!(to, expected, "{isa} {signs:?}");
                }
            }
        }
    }

    #[test]
    fn maxima_of_bytes_are_those_of_the_reference() {
        let axis = |input, output, kernel, stride, dilation, before| Window {
            input,
            output,
            kernel,
            stride,
            dilation,
            before,
            after: before,
        };
        let axes = [
            [Window::NONE, axis(9, 5, 3, 2, 1, 1), axis(8, 4, 3, 2, 1, 1)],
            [axis(4, 3, 2, 1, 1, 0), axis(7, 3, 3, 1, 2, 0), axis(5, 5, 1, 1, 1, 0)],
        ];
        for axes in axes {
            let shape = PoolShape { batch: 2, channels: 19, axes, channels_last: true };
            let count = |pick: fn(&Window) -> u64| axes.iter().map(pick).product::<u64>() as usize * 2 * 19;
            let x = bytes(count(|axis| axis.input), 3);
            let mut expected = vec![0u8; count(|axis| axis.output)];
            pool(PoolKind::Max, &shape, &x, &mut expected);
            let signed: Vec<i8> = x.iter().map(|&byte| byte as i8).collect();
            let mut below = vec![0i8; expected.len()];
            pool(PoolKind::Max, &shape, &signed, &mut below);
            let below: Vec<u8> = below.into_iter().map(|byte| byte as u8).collect();
            for isa in levels() {
                for (signed, expected) in [(false, &expected), (true, &below)] {
                    let mut y = vec![0; expected.len()];
                    largest(isa, &shape, signed, &x, &mut y, &Serial);
                    assert_eq!(&y, expected, "{isa} {signed}");
                }
            }
        }
    }
}
