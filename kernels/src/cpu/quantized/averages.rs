//! Means of bytes over windows, and over whole images: exact sums of integers, scaled and rounded once.
//!
//! A window's sum less its zero points, times the operand's scale over the result's, over the number of elements, is
//! computed in `f64`, rounded to `f32`, and then to the nearest byte. Rounding to `f32` turns values that are ties but
//! for the last bits of `f64` into ties. Padding is the zero point. Loops over channels that the compiler turns into
//! vector code; where the level allows, into that of AVX2. Every level makes the same bits.

use std::ops::Range;

use super::bytes::{Addend, Rounding};
use crate::cpu::multiversion::multiversion;
use crate::cpu::pool::{PoolShape, Taps};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::parallel::{Parallel, for_each_chunk};

/// Channels whose sums are in registers at once, where there are enough channels.
const BLOCK: usize = 64;

/// Channels whose sums are in registers at once, for channels that fill no block.
const PART: usize = 16;

/// Bytes whose sum always fits 16 bits.
const SHORT: usize = 257;

/// Most bytes that a task reads, unless a single window is larger: some tenths of a millisecond.
const TASK: usize = 1 << 20;

/// An average pooling of bytes that is ready to run.
#[derive(Debug)]
pub struct Averages {
    shape: PoolShape,
    include_pad: bool,
    isa: Isa,
    /// Windows along each axis that lie entirely on the input.
    interior: [Range<usize>; 3],
    /// Elements of the output in a task.
    chunk: usize,
}

/// How sums of bytes, taken as unsigned, become results.
#[derive(Clone, Copy)]
struct Finish {
    flip: u8,
    /// The zero point of such bytes.
    zero: f64,
    /// The operand's scale over the result's.
    scale: f64,
    rounding: Rounding,
}

impl Finish {
    /// Writes one byte for each sum, `y.len()` bytes in all. Two loops, because the compiler makes vector code of each.
    #[inline(always)]
    fn bytes<const N: usize>(&self, sums: &[f64; N], means: &Means, y: &mut [u8]) {
        let mut values = [0f32; N];
        for at in 0..N {
            values[at] = ((sums[at] - means.zeros) * means.factor) as f32;
        }
        let mut bytes = [0u8; N];
        for at in 0..N {
            bytes[at] = self.rounding.byte(values[at]);
        }
        y.copy_from_slice(&bytes[..y.len()]);
    }
}

/// Adds bytes to sums of bytes. Here and below, every profile makes vector code of plain loops over arrays.
#[inline(always)]
fn add_bytes<const N: usize>(short: &mut [u16; N], bytes: &[u8], flip: u8) {
    let Some(bytes) = bytes.first_chunk::<N>() else { return };
    for at in 0..N {
        short[at] = short[at].wrapping_add(u16::from(bytes[at] ^ flip));
    }
}

/// Adds short sums to longer ones.
#[inline(always)]
fn add_sums<const N: usize>(sums: &mut [f64; N], short: &[u16; N]) {
    for at in 0..N {
        sums[at] += f64::from(short[at]);
    }
}

/// The numbers that all channels of a window share.
struct Means {
    /// The zero points of all its elements.
    zeros: f64,
    /// The scale over the number of elements.
    factor: f64,
}

/// Where the elements of a window are in its image, in positions: the first, then along each axis.
struct Places {
    first: usize,
    counts: [usize; 3],
    steps: [usize; 3],
}

/// A window along one axis.
struct Along {
    taps: Taps,
    /// Elements that count in the mean.
    all: usize,
}

impl Places {
    #[inline(always)]
    fn count(&self) -> usize {
        let [depths, heights, widths] = self.counts;
        depths * heights * widths
    }
}

impl Averages {
    /// Prepares means over windows of that shape, split into at least `tasks` tasks where there are enough blocks.
    ///
    /// # Errors
    ///
    /// Sizes that overflow.
    pub fn new(shape: PoolShape, include_pad: bool, isa: Isa, tasks: usize) -> Result<Averages> {
        if !shape.is_valid() {
            let reason = format!("means of bytes over {shape:?}");
            return Err(KernelError::Unsupported { family: "average", reason });
        }
        let taps = shape.axes.iter().fold(1, |all: u64, axis| all.saturating_mul(axis.kernel.min(axis.input)));
        let read = TASK / usize::try_from(taps).unwrap_or(usize::MAX).clamp(1, TASK);
        let chunk = shape.outputs().div_ceil(tasks.max(1)).min(read).next_multiple_of(BLOCK).max(BLOCK);
        let interior = shape.axes.map(|axis| axis.interior());
        Ok(Averages { shape, include_pad, isa, interior, chunk })
    }

    /// Averages the bytes of `x` into `y`; the scale in `x` is the operand's over the result's.
    ///
    /// # Errors
    ///
    /// Operands that are too short.
    pub fn run(&self, x: Addend<'_>, rounding: Rounding, y: &mut [u8], parallel: &dyn Parallel) -> Result<()> {
        let (inputs, outputs) = (self.shape.inputs(), self.shape.outputs());
        for (operand, have, need) in [("input", x.data.len(), inputs), ("output", y.len(), outputs)] {
            if have < need {
                return Err(KernelError::Bounds { family: "average", operand, have, need });
            }
        }
        let flip = if x.signed { 0x80 } else { 0 };
        let zero = f64::from(x.zero) + f64::from(flip);
        let finish = Finish { flip, zero, scale: x.scale, rounding: rounding.bounded() };
        for_each_chunk(parallel, &mut y[..outputs], self.chunk, &|index, y| {
            means(self.isa, self, &x.data[..inputs], index * self.chunk, finish, y);
        });
        Ok(())
    }

    /// The window at that place of an axis.
    #[inline(always)]
    fn along(&self, axis: usize, at: usize) -> Along {
        let window = &self.shape.axes[axis];
        if self.interior[axis].start <= at && at < self.interior[axis].end {
            let count = window.kernel as usize;
            let first = at * window.stride as usize - window.before as usize;
            return Along { taps: Taps { first, count }, all: count };
        }
        let taps = window.taps(at);
        Along { taps, all: if self.include_pad { window.padded_taps(at) } else { taps.count } }
    }

    /// The window at that place of an image's output.
    #[inline(always)]
    fn window(&self, pixel: usize, finish: &Finish) -> (Places, Means) {
        let [depth, height, width] = &self.shape.axes;
        let (row, w) = (pixel / width.output as usize, pixel % width.output as usize);
        let at = [row / height.output as usize, row % height.output as usize, w];
        let [d, h, w] = [self.along(0, at[0]), self.along(1, at[1]), self.along(2, at[2])];
        let line = width.input as usize;
        let plane = line * height.input as usize;
        let places = Places {
            first: d.taps.first * plane + h.taps.first * line + w.taps.first,
            counts: [d.taps.count, h.taps.count, w.taps.count],
            steps: [depth.dilation as usize * plane, height.dilation as usize * line, width.dilation as usize],
        };
        let all = d.all as f64 * h.all as f64 * w.all as f64;
        let means = Means { zeros: finish.zero * places.count() as f64, factor: finish.scale / all.max(1.0) };
        (places, means)
    }
}

multiversion! {
    /// The means from element `first` of the output on.
    fn means(own: &Averages, x: &[u8], first: usize, finish: Finish, y: &mut [u8]) {
        if own.shape.channels_last {
            channels_last(own, x, first, &finish, y);
        } else {
            channels_first(own, x, first, &finish, y);
        }
    }
}

/// Means over images of `[positions, channels]`.
#[inline(always)]
fn channels_last(own: &Averages, x: &[u8], first: usize, finish: &Finish, y: &mut [u8]) {
    let (channels, pixels) = (own.shape.channels(), own.shape.output_pixels());
    let image = own.shape.input_pixels() * channels;
    let (mut place, mut channel, mut done) = (first / channels, first % channels, 0);
    while done < y.len() {
        let width = (channels - channel).min(y.len() - done);
        let (places, means) = own.window(place % pixels, finish);
        let from = place / pixels * image + places.first * channels + channel;
        let y = &mut y[done..done + width];
        let mut at = 0;
        while at < width {
            // The last block may overlap the one before it.
            at += if width - at >= BLOCK {
                block::<BLOCK>(x, from + at, channels, &places, &means, finish, &mut y[at..]);
                BLOCK
            } else if width >= PART {
                at = at.min(width - PART);
                block::<PART>(x, from + at, channels, &places, &means, finish, &mut y[at..]);
                PART
            } else {
                block::<1>(x, from + at, channels, &places, &means, finish, &mut y[at..]);
                1
            };
        }
        (place, channel, done) = (place + 1, 0, done + width);
    }
}

/// The means of a window in `N` channels. The first channel's byte is at `from`.
#[inline(always)]
fn block<const N: usize>(
    x: &[u8],
    from: usize,
    channels: usize,
    places: &Places,
    means: &Means,
    finish: &Finish,
    y: &mut [u8],
) {
    let (mut sums, mut short, mut held) = ([0f64; N], [0u16; N], 0);
    let [depths, heights, widths] = places.counts;
    let [a, b, c] = places.steps;
    let steps = [a * channels, b * channels, c * channels];
    for depth in 0..depths {
        for height in 0..heights {
            let (mut at, mut left) = (from + depth * steps[0] + height * steps[1], widths);
            while left > 0 {
                let now = left.min(SHORT - held);
                for _ in 0..now {
                    add_bytes(&mut short, &x[at..], finish.flip);
                    at += steps[2];
                }
                (left, held) = (left - now, held + now);
                if held == SHORT {
                    add_sums(&mut sums, &short);
                    (short, held) = ([0; N], 0);
                }
            }
        }
    }
    add_sums(&mut sums, &short);
    finish.bytes(&sums, means, &mut y[..N]);
}

/// Means over images of `[channels, positions]`.
#[inline(always)]
fn channels_first(own: &Averages, x: &[u8], first: usize, finish: &Finish, y: &mut [u8]) {
    let (pixels, plane) = (own.shape.output_pixels(), own.shape.input_pixels());
    if pixels == 1 {
        let (places, means) = own.window(0, finish);
        for (block, y) in y.chunks_mut(BLOCK).enumerate() {
            let mut sums = [0f64; BLOCK];
            let image = first + block * BLOCK;
            for (at, to) in sums[..y.len()].iter_mut().enumerate() {
                *to = plane_sum(&x[(image + at) * plane..], &places, finish.flip);
            }
            finish.bytes(&sums, &means, y);
        }
        return;
    }
    for (index, y) in (first..).zip(y) {
        let (places, means) = own.window(index % pixels, finish);
        let sum = plane_sum(&x[index / pixels * plane..], &places, finish.flip);
        finish.bytes(&[sum], &means, std::slice::from_mut(y));
    }
}

/// The sum of a window over one channel.
#[inline(always)]
fn plane_sum(x: &[u8], places: &Places, flip: u8) -> f64 {
    let mut sum = 0;
    for depth in 0..places.counts[0] {
        for height in 0..places.counts[1] {
            let at = places.first + depth * places.steps[0] + height * places.steps[1];
            sum += row(x, at, places.counts[2], places.steps[2], flip);
        }
    }
    sum as f64
}

/// The sum of `count` bytes, `step` apart. The first byte is at `at`.
#[inline(always)]
fn row(x: &[u8], at: usize, count: usize, step: usize, flip: u8) -> u64 {
    let (mut sum, mut done) = (0, 0);
    while step == 1 && count - done >= PART {
        let mut short = [0u16; PART];
        let many = ((count - done) / PART).min(SHORT);
        for part in 0..many {
            add_bytes(&mut short, &x[at + done + part * PART..], flip);
        }
        for value in short {
            sum += u64::from(value);
        }
        done += many * PART;
    }
    for tap in done..count {
        sum += u64::from(x[at + tap * step] ^ flip);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::canaries::levels;
    use crate::cpu::pool::{PoolKind, Window};
    use crate::memory;
    use crate::parallel::Serial;
    use crate::reference::pool::pool;

    fn bytes(count: usize) -> Vec<u8> {
        (0..count as u64).map(|at| ((at + 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
    }

    fn axis(input: u64, output: u64, kernel: u64, stride: u64, dilation: u64, before: u64) -> Window {
        Window { input, output, kernel, stride, dilation, before, after: before }
    }

    fn whole(input: u64) -> [Window; 3] {
        [Window::NONE, Window::NONE, axis(input, 1, input, 1, 1, 0)]
    }

    /// The mean by the reference in double precision, counted in the result's scale.
    fn exact(shape: &PoolShape, include_pad: bool, x: &[u8], signed: bool, zero: i32, scale: f64) -> Vec<f64> {
        let own = |&byte: &u8| f64::from(if signed { i32::from(byte as i8) } else { i32::from(byte) } - zero);
        let x: Vec<f64> = x.iter().map(own).collect();
        let mut y = memory::zeroed::<f64>(shape.outputs());
        pool(PoolKind::Average { include_pad }, shape, &x, &mut y);
        y.into_iter().map(|mean| mean * scale).collect()
    }

    fn check(shape: PoolShape, scale: f64) {
        let x = bytes(shape.inputs());
        for (signed, zero, own_zero) in [(false, 11, 120), (true, -5, 7)] {
            let (least, greatest) = if signed { (-128, 127) } else { (0, 255) };
            for include_pad in [false, true] {
                let exact = exact(&shape, include_pad, &x, signed, zero, scale);
                let near = |mean: f64| (mean.round_ties_even() as i32 + own_zero).clamp(least, greatest) as u8;
                let expected: Vec<u8> = exact.iter().map(|&mean| near(mean)).collect();
                for isa in levels() {
                    for tasks in [1, 7] {
                        let averages = Averages::new(shape, include_pad, isa, tasks).unwrap();
                        let rounding = Rounding { signed, zero: own_zero, low: f32::NEG_INFINITY, high: f32::INFINITY };
                        let addend = Addend { data: &x, signed, zero, scale };
                        let mut y = vec![0; shape.outputs()];
                        averages.run(addend, rounding, &mut y, &Serial).unwrap();
                        for ((&mean, &y), &expected) in exact.iter().zip(&y).zip(&expected) {
                            // Both neighbours are right where the mean is a tie in `f32`.
                            let tie = (mean.fract().abs() - 0.5).abs() < 1e-5 && scale.fract() != 0.0;
                            let fits = y == expected || tie && y.abs_diff(expected) == 1;
                            assert!(fits, "{isa} {shape:?} {signed} {include_pad}: {y} for {mean}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn means_over_windows_are_the_nearest_bytes_at_every_level() {
        let windows = [
            [Window::NONE, axis(9, 5, 3, 2, 1, 1), axis(8, 4, 3, 2, 1, 1)],
            [axis(4, 3, 2, 1, 1, 0), axis(7, 3, 3, 1, 2, 0), axis(5, 5, 1, 1, 1, 0)],
            [Window::NONE, Window::NONE, axis(40, 2, 30, 10, 1, 0)],
            [Window::NONE, axis(20, 1, 20, 1, 1, 0), axis(30, 1, 30, 1, 1, 0)],
            // Some windows on padding alone.
            [Window::NONE, Window::NONE, axis(3, 5, 2, 2, 1, 4)],
        ];
        for axes in windows {
            for channels in [1, 3, 16, 19, 83, 130] {
                for channels_last in [false, true] {
                    // A power of two, one, and a number that is no binary fraction.
                    for scale in [2.0, 1.0, 0.7] {
                        check(PoolShape { batch: 2, channels, axes, channels_last }, scale);
                    }
                }
            }
        }
    }

    #[test]
    fn sums_of_the_largest_bytes_do_not_wrap() {
        for positions in [SHORT as u64, SHORT as u64 + 1, 70_000] {
            for channels_last in [false, true] {
                let shape = PoolShape { batch: 1, channels: 17, axes: whole(positions), channels_last };
                let x = vec![255; shape.inputs()];
                for isa in levels() {
                    let rounding = Rounding { signed: false, zero: 0, low: f32::NEG_INFINITY, high: f32::INFINITY };
                    let addend = Addend { data: &x, signed: false, zero: 0, scale: 1.0 };
                    let mut y = vec![0; 17];
                    Averages::new(shape, false, isa, 1).unwrap().run(addend, rounding, &mut y, &Serial).unwrap();
                    assert_eq!(y, [255; 17], "{isa} {positions}");
                }
            }
        }
    }

    #[test]
    fn operands_that_are_too_short_and_empty_images_are_no_panic() {
        let rounding = Rounding { signed: false, zero: 9, low: f32::NEG_INFINITY, high: f32::INFINITY };
        let run = |shape: PoolShape, x: &[u8], y: &mut [u8]| {
            let addend = Addend { data: x, signed: false, zero: 0, scale: 1.0 };
            Averages::new(shape, false, Isa::Portable, 1)?.run(addend, rounding, y, &Serial)
        };
        let shape = PoolShape { batch: 1, channels: 2, axes: whole(4), channels_last: true };
        assert!(run(shape, &[0; 7], &mut [0; 2]).is_err());
        assert!(run(shape, &[0; 8], &mut [0; 1]).is_err());
        for channels_last in [false, true] {
            let axes = [Window::NONE, Window::NONE, Window { kernel: 1, ..axis(0, 1, 1, 1, 1, 0) }];
            let mut y = [0; 2];
            run(PoolShape { batch: 1, channels: 2, axes, channels_last }, &[], &mut y).unwrap();
            assert_eq!(y, [9; 2]);
            run(PoolShape { batch: 1, channels: 0, axes: whole(4), channels_last }, &[], &mut []).unwrap();
        }
    }
}
