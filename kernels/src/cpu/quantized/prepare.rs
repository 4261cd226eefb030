//! Conversion of left-hand sides for the micro-kernels, and of `f32` tensors to bytes and back.

use crate::cpu::multiversion::multiversion;
use crate::cpu::rounding::nearest_even;
use crate::isa::Isa;
use crate::memory;
use crate::parallel::{Parallel, for_each_chunk};

/// Elements of a task: some tens of thousands pay for a wake-up.
const CHUNK: usize = 1 << 16;

multiversion! {
    /// Bytes less their zero point, as 16-bit integers.
    pub(super) fn words(from: &[u8], signed: bool, zero: i16, to: &mut [i16]) {
        if signed {
            to.iter_mut().zip(from).for_each(|(to, &byte)| *to = i16::from(byte as i8) - zero);
        } else {
            to.iter_mut().zip(from).for_each(|(to, &byte)| *to = i16::from(byte) - zero);
        }
    }
}

multiversion! {
    /// Bytes as unsigned ones: 128 is added to signed ones.
    pub(super) fn unsigned(from: &[u8], signed: bool, to: &mut [u8]) {
        let flip = if signed { 0x80 } else { 0 };
        to.iter_mut().zip(from).for_each(|(to, &byte)| *to = byte ^ flip);
    }
}

multiversion! {
    /// Pairs of unsigned bytes from two rows, as 16-bit integers; 128 is added to signed ones.
    pub(super) fn pairs(low: &[u8], high: &[u8], signed: bool, to: &mut [i32]) {
        let flip = if signed { 0x80 } else { 0 };
        let both = low.iter().zip(high);
        to.iter_mut().zip(both).for_each(|(to, (&low, &high))| *to = i32::from(low ^ flip) | i32::from(high ^ flip) << 16);
    }
}

multiversion! {
    /// Unsigned bytes from four rows, interleaved; 128 is added to signed ones.
    pub(super) fn quads(rows: [&[u8]; 4], signed: bool, to: &mut [i32]) {
        let (flip, length) = (if signed { 0x80 } else { 0 }, to.len());
        let [a, b, c, d] = rows.map(|row| &row[..length]);
        let to: &mut [[u8; 4]] = bytemuck::cast_slice_mut(to);
        for (at, to) in to.iter_mut().enumerate() {
            *to = [a[at] ^ flip, b[at] ^ flip, c[at] ^ flip, d[at] ^ flip];
        }
    }
}

multiversion! {
    fn quantize_chunk(from: &[f32], scale: f32, low: f32, high: f32, zero: i32, to: &mut [u8]) {
        for (to, &value) in to.iter_mut().zip(from) {
            let value = value / scale;
            let value = if value > low { value } else { low };
            let value = if value < high { value } else { high };
            *to = (nearest_even(value) + zero) as u8;
        }
    }
}

multiversion! {
    fn dequantize_chunk(from: &[u8], signed: bool, zero: i32, scale: f32, to: &mut [f32]) {
        if signed {
            to.iter_mut().zip(from).for_each(|(to, &byte)| *to = (i32::from(byte as i8) - zero) as f32 * scale);
        } else {
            to.iter_mut().zip(from).for_each(|(to, &byte)| *to = (i32::from(byte) - zero) as f32 * scale);
        }
    }
}

multiversion! {
    fn extremes_chunk(from: &[f32], to: &mut [f32; 2]) {
        // Several at a time, so that comparisons do not wait for each other.
        let (mut low, mut high) = ([0f32; 16], [0f32; 16]);
        let chunks = from.chunks_exact(16);
        let rest = chunks.remainder();
        for chunk in chunks {
            for lane in 0..16 {
                low[lane] = if chunk[lane] < low[lane] { chunk[lane] } else { low[lane] };
                high[lane] = if chunk[lane] > high[lane] { chunk[lane] } else { high[lane] };
            }
        }
        *to = [0f32; 2];
        for &value in low.iter().chain(rest) {
            to[0] = to[0].min(value);
        }
        for &value in high.iter().chain(rest) {
            to[1] = to[1].max(value);
        }
    }
}

/// Numbers divided by `scale`, rounded to even, plus `zero`, clamped to signed or unsigned bytes. Where the slices
/// differ in length, the rest of the longer one is left. NaN becomes the least byte.
pub fn quantize(isa: Isa, from: &[f32], scale: f32, signed: bool, zero: i32, to: &mut [u8], parallel: &dyn Parallel) {
    let (least, greatest) = if signed { (-128, 127) } else { (0, 255) };
    let (low, high) = ((least - zero) as f32, (greatest - zero) as f32);
    for_each_chunk(parallel, to, CHUNK, &|index, to| {
        let from = from.get(index * CHUNK..).unwrap_or_default();
        quantize_chunk(isa, from, scale, low, high, zero, to);
    });
}

/// Bytes less `zero`, times `scale`.
pub fn dequantize(isa: Isa, from: &[u8], signed: bool, zero: i32, scale: f32, to: &mut [f32], parallel: &dyn Parallel) {
    for_each_chunk(parallel, to, CHUNK, &|index, to| {
        dequantize_chunk(isa, from.get(index * CHUNK..).unwrap_or_default(), signed, zero, scale, to);
    });
}

/// The least and the greatest of zero and all numbers; NaN is skipped.
#[must_use]
pub fn extremes(isa: Isa, from: &[f32], parallel: &dyn Parallel) -> [f32; 2] {
    let mut all = memory::zeroed::<[f32; 2]>(from.len().div_ceil(CHUNK));
    for_each_chunk(parallel, &mut all, 1, &|index, to| {
        let from = &from[index * CHUNK..];
        extremes_chunk(isa, &from[..from.len().min(CHUNK)], &mut to[0]);
    });
    all.into_iter().fold([0.0; 2], |[low, high], [l, h]| [low.min(l), high.max(h)])
}
