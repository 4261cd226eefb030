//! Pooling of pictures whose channels lie apart, in plain Rust that compilers turn into vectors.
//!
//! A window is separable: the rows of taps are collected into one row as wide as the picture, and then the columns of
//! that row. The first, larger part runs over contiguous elements.

use super::window::{PoolKind, PoolShape, Window};
use crate::parallel::{Parallel, for_each_chunk};

/// Pools every plane.
pub(super) fn pool(
    kind: PoolKind,
    shape: &PoolShape,
    input: &[f32],
    output: &mut [f32],
    tasks: usize,
    parallel: &dyn Parallel,
) {
    let add = |a: f32, b: f32| a + b;
    match kind {
        PoolKind::Max => {
            // A value that is not a number is never larger.
            let max = |most: f32, value: f32| if value > most { value } else { most };
            planes(kind, shape, input, output, tasks, parallel, &|value| value, &max);
        }
        PoolKind::Average { .. } => planes(kind, shape, input, output, tasks, parallel, &|value| value, &add),
        PoolKind::Lp { p: 1 } => planes(kind, shape, input, output, tasks, parallel, &f32::abs, &add),
        PoolKind::Lp { p: 2 } => planes(kind, shape, input, output, tasks, parallel, &|value| value * value, &add),
        PoolKind::Lp { p } => {
            let power = move |value: f32| value.abs().powf(p as f32);
            planes(kind, shape, input, output, tasks, parallel, &power, &add);
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "the problem, its buffers and two functions that are compiled in")]
fn planes(
    kind: PoolKind,
    shape: &PoolShape,
    input: &[f32],
    output: &mut [f32],
    tasks: usize,
    parallel: &dyn Parallel,
    map: &(impl Fn(f32) -> f32 + Sync),
    fold: &(impl Fn(f32, f32) -> f32 + Sync),
) {
    let (from, to) = (shape.input_pixels(), shape.output_pixels());
    let each = (shape.batch * shape.channels).div_ceil(tasks);
    for_each_chunk(parallel, output, each * to, &|index, chunk| {
        let mut row = vec![0.0; shape.axes[2].input as usize];
        for (place, plane) in chunk.chunks_exact_mut(to).enumerate() {
            let start = (index * each + place) * from;
            one_plane(kind, &shape.axes, &input[start..start + from], plane, &mut row, parallel, (map, fold));
        }
    });
}

fn one_plane(
    kind: PoolKind,
    axes: &[Window; 3],
    input: &[f32],
    output: &mut [f32],
    row: &mut [f32],
    parallel: &dyn Parallel,
    (map, fold): (&impl Fn(f32) -> f32, &impl Fn(f32, f32) -> f32),
) {
    let [depth, height, width] = axes;
    for (index, out) in output.chunks_exact_mut(width.output as usize).enumerate() {
        let place = [index / height.output as usize, index % height.output as usize];
        let (deep, high) = (depth.taps(place[0]), height.taps(place[1]));
        if deep.count * high.count == 0 {
            out.fill(kind.nothing());
            continue;
        }
        row.fill(kind.nothing());
        for d in (0..deep.count).map(|tap| deep.first + tap * depth.dilation as usize) {
            for h in (0..high.count).map(|tap| high.first + tap * height.dilation as usize) {
                if parallel.is_stopped() {
                    return;
                }
                let line = &input[(d * height.input as usize + h) * width.input as usize..][..row.len()];
                row.iter_mut().zip(line).for_each(|(all, &value)| *all = fold(*all, map(value)));
            }
        }
        columns(kind, width, row, out, parallel, fold);
        let padded = depth.padded_taps(place[0]) * height.padded_taps(place[1]);
        let taps = deep.count * high.count;
        match kind {
            PoolKind::Max | PoolKind::Lp { p: 1 } => {}
            PoolKind::Average { .. } => {
                let scale =
                    |index: usize| kind.scale(taps * width.taps(index).count, padded * width.padded_taps(index));
                let interior = width.interior();
                // The windows between the borders are alike.
                let inside = if interior.is_empty() { 1.0 } else { scale(interior.start) };
                for index in (0..interior.start).chain(interior.end..out.len()) {
                    out[index] *= scale(index);
                }
                out[interior].iter_mut().for_each(|value| *value *= inside);
            }
            PoolKind::Lp { p: 2 } => out.iter_mut().for_each(|value| *value = value.sqrt()),
            PoolKind::Lp { p } => out.iter_mut().for_each(|value| *value = value.powf(1.0 / p as f32)),
        }
    }
}

/// Collects the taps of each window of one row.
fn columns(
    kind: PoolKind,
    width: &Window,
    row: &[f32],
    out: &mut [f32],
    parallel: &dyn Parallel,
    fold: &impl Fn(f32, f32) -> f32,
) {
    let (stride, dilation) = (width.stride as usize, width.dilation as usize);
    let interior = width.interior();
    for index in (0..interior.start).chain(interior.end..out.len()) {
        if parallel.is_stopped() {
            return;
        }
        let taps = width.taps(index);
        let values = (0..taps.count).map(|tap| row[taps.first + tap * dilation]);
        out[index] = values.fold(kind.nothing(), fold);
    }
    let inside = &mut out[interior.clone()];
    if let ([one], 1) = (&mut *inside, dilation) {
        *one = whole(kind, &row[width.taps(interior.start).first..][..width.kernel as usize], fold);
        return;
    }
    inside.fill(kind.nothing());
    for tap in 0..width.kernel as usize {
        if parallel.is_stopped() {
            return;
        }
        // Where no window lies inside, nothing is folded, wherever this points.
        let first = (interior.start * stride + tap * dilation).saturating_sub(width.before as usize);
        along(inside, &row[first.min(row.len())..], stride, fold);
    }
}

/// Folds every `stride`-th value into its window. The strides that occur are loops of their own, which compilers turn into
/// vectors.
fn along(windows: &mut [f32], values: &[f32], stride: usize, fold: &impl Fn(f32, f32) -> f32) {
    match stride {
        1 => windows.iter_mut().zip(values).for_each(|(all, &value)| *all = fold(*all, value)),
        2 => {
            let pairs = values.chunks_exact(2);
            let (paired, rest) = windows.split_at_mut(pairs.len().min(windows.len()));
            paired.iter_mut().zip(pairs).for_each(|(all, pair)| *all = fold(*all, pair[0]));
            if let ([last, ..], Some(&value)) = (rest, values.chunks_exact(2).remainder().first()) {
                *last = fold(*last, value);
            }
        }
        _ => windows.iter_mut().zip(values.iter().step_by(stride)).for_each(|(all, &value)| *all = fold(*all, value)),
    }
}

/// Collects a contiguous stretch, which may be a whole picture: in strands, so that long sums stay precise.
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
