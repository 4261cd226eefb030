//! Pooling of images with channels first, in plain Rust that compilers vectorise.
//!
//! A window is separable: its rows of taps are folded into one row as wide as the image, then the columns of that row.
//! The first, larger part runs over contiguous elements. Rows are short, so the numbers that all rows share are
//! computed once a task: [`RowWindows`].

use std::ops::Range;

use crate::Isa;
use crate::cpu::multiversion::multiversion;
use crate::memory::{self, Collect};
use crate::parallel::{Parallel, for_each_chunk};
use crate::problem::pool::{PoolKind, PoolShape, Taps, Window};

/// Most taps of a row that are folded without checking whether they are used: the check costs as much as a few taps.
const LONG: usize = 16;

/// Pools every plane.
pub(super) fn pool(
    isa: Isa,
    kind: PoolKind,
    shape: &PoolShape,
    input: &[f32],
    output: &mut [f32],
    tasks: usize,
    parallel: &dyn Parallel,
) {
    let (from, to) = (shape.input_pixels(), shape.output_pixels());
    let each = (shape.batch() * shape.channels()).div_ceil(tasks);
    for_each_chunk(parallel, output, each * to, &|index, chunk| {
        let mut windows = RowWindows::new(kind, &shape.axes);
        for (place, plane) in chunk.chunks_exact_mut(to).enumerate() {
            let start = (index * each + place) * from;
            let image = &input[start..start + from];
            match kind {
                PoolKind::Max => largest(isa, &shape.axes, image, plane, &mut windows, parallel),
                PoolKind::Average { .. } => sums(isa, &shape.axes, image, plane, &mut windows, parallel),
                PoolKind::Lp { p: 1 } => absolutes(isa, &shape.axes, image, plane, &mut windows, parallel),
                PoolKind::Lp { p: 2 } => squares(isa, &shape.axes, image, plane, &mut windows, parallel),
                PoolKind::Lp { p } => {
                    let power = move |value: f32| value.abs().powf(p as f32);
                    one_plane(&shape.axes, image, plane, &mut windows, parallel, &power, &|a, b| a + b);
                }
            }
        }
    });
}

macro_rules! planes {
    ($name:ident, $map:expr, $fold:expr) => {
        multiversion! {
            fn $name(
                axes: &[Window; 3],
                input: &[f32],
                output: &mut [f32],
                windows: &mut RowWindows,
                parallel: &dyn Parallel
            ) {
                one_plane(axes, input, output, windows, parallel, &$map, &$fold);
            }
        }
    };
}

// NaN compares as not larger, so it is passed over.
planes!(largest, |value| value, |most, value| if value > most { value } else { most });
planes!(sums, |value| value, |a, b| a + b);
planes!(absolutes, f32::abs, |a, b| a + b);
planes!(squares, |value| value * value, |a, b| a + b);

/// The windows along a row, which all rows of a task share, and memory for one row.
struct RowWindows {
    kind: PoolKind,
    width: Window,
    /// The taps of each window along depth and height: those on the input, and their number with padding. Computed
    /// once, because this takes divisions.
    taps: [Vec<(Taps, usize)>; 2],
    interior: Range<usize>,
    /// Windows that reach beyond the input, and their taps.
    edges: Vec<(usize, Taps)>,
    row: Vec<f32>,
    /// The factors of sums, for rows whose windows have the numbers of taps in `counts`: without padding, and with it.
    scales: Vec<f32>,
    counts: [usize; 2],
}

impl RowWindows {
    fn new(kind: PoolKind, axes: &[Window; 3]) -> RowWindows {
        let [depth, height, width] = *axes;
        let taps = [depth, height]
            .map(|axis| (0..axis.output as usize).map(|index| (axis.taps(index), axis.padded_taps(index))).collected());
        let interior = width.interior();
        let edges = (0..interior.start).chain(interior.end..width.output as usize);
        let edges = edges.map(|index| (index, width.taps(index))).collected();
        let row = memory::zeroed(width.input as usize);
        RowWindows { kind, width, taps, interior, edges, row, scales: Vec::new(), counts: [0; 2] }
    }

    /// Computes `scales` for rows with `counts` taps.
    fn update_scales(&mut self, counts: [usize; 2]) {
        if self.counts == counts && !self.scales.is_empty() {
            return;
        }
        let (kind, width, [taps, padded]) = (self.kind, &self.width, counts);
        let scale = |index: usize| kind.scale(taps * width.taps(index).count, padded * width.padded_taps(index));
        // Interior windows have the same number of taps.
        let inside = if self.interior.is_empty() { 1.0 } else { scale(self.interior.start) };
        self.scales.clear();
        memory::reserve(&mut self.scales, width.output as usize);
        self.scales.resize(width.output as usize, inside);
        self.edges.iter().for_each(|&(index, _)| self.scales[index] = scale(index));
        self.counts = counts;
    }
}

#[inline(always)]
fn one_plane(
    axes: &[Window; 3],
    input: &[f32],
    output: &mut [f32],
    windows: &mut RowWindows,
    parallel: &dyn Parallel,
    map: &impl Fn(f32) -> f32,
    fold: &impl Fn(f32, f32) -> f32,
) {
    let (kind, [depth, height, width]) = (windows.kind, axes);
    let [depths, heights] = [0, 1].map(|axis: usize| windows.taps[axis].len());
    let places = (0..depths).flat_map(|deep| (0..heights).map(move |high| (deep, high)));
    for ((deep, high), out) in places.zip(output.chunks_exact_mut(width.output as usize)) {
        let ((deep, padded_deep), (high, padded_high)) = (windows.taps[0][deep], windows.taps[1][high]);
        if parallel.is_stopped() {
            return;
        }
        if deep.count * high.count == 0 {
            out.fill(kind.nothing());
            continue;
        }
        let (mut given, row) = (false, &mut windows.row[..]);
        for d in (0..deep.count).map(|tap| deep.first + tap * depth.dilation as usize) {
            let line = |tap: usize| {
                let high = high.first + tap * height.dilation as usize;
                &input[(d * height.input as usize + high) * width.input as usize..][..width.input as usize]
            };
            let mut tap = 0;
            while tap < high.count {
                if (tap > 0 || d > deep.first) && parallel.is_stopped() {
                    return;
                }
                let count = (high.count - tap).min(3);
                let lines = [line(tap), line(tap + (count - 1) / 2), line(tap + count - 1)];
                let start = |all: f32| if given { all } else { kind.nothing() };
                rows(row, lines, count, &start, map, fold);
                (given, tap) = (true, tap + count);
            }
        }
        columns(windows, out, parallel, fold);
        match kind {
            PoolKind::Max | PoolKind::Lp { p: 1 } => {}
            PoolKind::Average { .. } => {
                windows.update_scales([deep.count * high.count, padded_deep * padded_high]);
                let scales = &windows.scales[..out.len()];
                each(out, |at, value| value * scales[at]);
            }
            PoolKind::Lp { p: 2 } => each(out, |_, value| value.sqrt()),
            PoolKind::Lp { p } => each(out, |_, value| value.powf(1.0 / p as f32)),
        }
    }
}

/// Folds one to three lines into the row, which starts as `start` says. Two lines are the first two of `lines`.
#[inline(always)]
fn rows(
    row: &mut [f32],
    [a, b, c]: [&[f32]; 3],
    count: usize,
    start: &impl Fn(f32) -> f32,
    map: &impl Fn(f32) -> f32,
    fold: &impl Fn(f32, f32) -> f32,
) {
    let (a, b, c) = (&a[..row.len()], &b[..row.len()], &c[..row.len()]);
    match count {
        1 => each(row, |at, all| fold(start(all), map(a[at]))),
        2 => each(row, |at, all| fold(fold(start(all), map(a[at])), map(c[at]))),
        _ => each(row, |at, all| fold(fold(fold(start(all), map(a[at])), map(b[at])), map(c[at]))),
    }
}

/// Replaces each value. A plain loop, because closures of iterators may be compiled on their own, for every processor:
/// with an iterator instead, this took twice as long.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "iterators take longer")]
fn each(values: &mut [f32], new: impl Fn(usize, f32) -> f32) {
    for at in 0..values.len() {
        values[at] = new(at, values[at]);
    }
}

/// Folds the taps of each window of one row.
#[inline(always)]
fn columns(windows: &RowWindows, out: &mut [f32], parallel: &dyn Parallel, fold: &impl Fn(f32, f32) -> f32) {
    let RowWindows { kind, width, interior, row, .. } = windows;
    let (stride, dilation, kernel) = (width.stride as usize, width.dilation as usize, width.kernel as usize);
    for &(index, taps) in &windows.edges {
        if kernel >= LONG && parallel.is_stopped() {
            return;
        }
        let values = (0..taps.count).map(|tap| row[taps.first + tap * dilation]);
        out[index] = values.fold(kind.nothing(), fold);
    }
    let inside = &mut out[interior.clone()];
    if let ([one], 1) = (&mut *inside, dilation) {
        *one = whole(*kind, &row[width.taps(interior.start).first..][..kernel], fold);
        return;
    }
    // Where there is no interior window, nothing is folded, so any address is fine.
    let first = |tap: usize| {
        let first = (interior.start * stride + tap * dilation).saturating_sub(width.before as usize);
        &row[first.min(row.len())..]
    };
    let nothing = kind.nothing();
    let count = inside.len();
    match (stride, kernel) {
        (1, 2) => {
            let (a, b) = (&first(0)[..count], &first(1)[..count]);
            each(inside, |at, _| fold(fold(nothing, a[at]), b[at]));
        }
        (1, 3) => {
            let (a, b, c) = (&first(0)[..count], &first(1)[..count], &first(2)[..count]);
            each(inside, |at, _| fold(fold(fold(nothing, a[at]), b[at]), c[at]));
        }
        (2, 2) if dilation == 1 => {
            let pairs = first(0).as_chunks::<2>().0;
            let pairs = &pairs[..count];
            each(inside, |at, _| fold(fold(nothing, pairs[at][0]), pairs[at][1]));
        }
        (2, 3) if dilation == 1 && count > 0 => {
            // The third of three values is the first of the next pair; the last pair may have one value only.
            let (pairs, values) = (first(0).as_chunks::<2>().0, first(2 * count - 2));
            let (inside, last) = inside.split_at_mut(count - 1);
            let pairs = &pairs[..count];
            let next = &pairs[1..];
            each(inside, |at, _| fold(fold(fold(nothing, pairs[at][0]), pairs[at][1]), next[at][0]));
            last[0] = values[..3].iter().fold(nothing, |all, &value| fold(all, value));
        }
        _ => {
            inside.fill(nothing);
            for tap in 0..kernel {
                if tap % LONG == LONG - 1 && parallel.is_stopped() {
                    return;
                }
                along(inside, first(tap), stride, fold);
            }
        }
    }
}

/// Folds every `stride`-th value into its window. Each stride that occurs has a loop of its own, which compilers
/// vectorise.
#[inline(always)]
fn along(windows: &mut [f32], values: &[f32], stride: usize, fold: &impl Fn(f32, f32) -> f32) {
    match stride {
        1 => {
            let count = windows.len().min(values.len());
            let values = &values[..count];
            each(&mut windows[..count], |at, all| fold(all, values[at]));
        }
        2 => {
            let (pairs, rest) = values.as_chunks::<2>();
            let (paired, last) = windows.split_at_mut(pairs.len().min(windows.len()));
            let pairs = &pairs[..paired.len()];
            each(paired, |at, all| fold(all, pairs[at][0]));
            if let ([last, ..], Some(&value)) = (last, rest.first()) {
                *last = fold(*last, value);
            }
        }
        _ => windows.iter_mut().zip(values.iter().step_by(stride)).for_each(|(all, &value)| *all = fold(*all, value)),
    }
}

/// Folds a contiguous stretch, which may be a whole image: in several independent sums, so that long sums stay precise.
#[inline(always)]
fn whole(kind: PoolKind, values: &[f32], fold: &impl Fn(f32, f32) -> f32) -> f32 {
    const STRANDS: usize = 16;
    let mut strands = [kind.nothing(); STRANDS];
    let groups = values.chunks_exact(STRANDS);
    let rest = groups.remainder();
    for group in groups {
        strands.iter_mut().zip(group).for_each(|(all, &value)| *all = fold(*all, value));
    }
    strands.iter_mut().zip(rest).for_each(|(all, &value)| *all = fold(*all, value));
    strands.into_iter().fold(kind.nothing(), fold)
}
