//! Tables of pooling, transposition and resizing.

use kiln_model::ir::Attr;
use kiln_tensor::Tensor;

use crate::harness::{Layer, Step};
use crate::reference::{Array, Window, build, mean, pool, reduce, transpose};

const IMAGES: &[Step<'_>] =
    &[&[&[1, 19, 9, 11]], &[&[2, 19, 7, 7]], &[&[2, 19, 7, 7]], &[&[1, 19, 16, 10]], &[&[1, 19, 9, 11]]];

fn layer(op: &str, window: Window) -> Layer {
    let [ph, pw] = window.pads.map(|pad| pad as i64);
    Layer::new(op, 11)
        .ints("kernel_shape", &window.kernel.map(|k| k as i64))
        .ints("strides", &window.strides.map(|s| s as i64))
        .ints("pads", &[ph, pw, ph, pw])
        .dynamic(&[-1, 19, -1, -1])
}

#[test]
fn max_pooling() {
    let max = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for window in [
        Window::new([3, 3], [2, 2], [1, 1], [1, 1]),
        Window::new([2, 2], [2, 2], [0, 0], [1, 1]),
        Window::new([2, 1], [2, 1], [0, 0], [1, 1]),
    ] {
        layer("MaxPool", window).check(IMAGES, |x| vec![pool(&Array::of(&x[0]), window, max).tensor()]);
    }
}

#[test]
fn average_pooling_counts_padding_only_when_told() {
    let window = Window::new([3, 3], [2, 2], [1, 1], [1, 1]);
    layer("AveragePool", window).check(IMAGES, |x| vec![pool(&Array::of(&x[0]), window, mean).tensor()]);
    layer("AveragePool", window)
        .int("count_include_pad", 1)
        .check(IMAGES, |x| vec![pool(&Array::of(&x[0]), window, |v| v.iter().sum::<f64>() / 9.0).tensor()]);
}

#[test]
fn global_pooling() {
    Layer::new("GlobalAveragePool", 1)
        .dynamic(&[-1, 19, -1, -1])
        .check(IMAGES, |x| vec![reduce(&Array::of(&x[0]), &[2, 3], mean).tensor()]);
    Layer::new("GlobalMaxPool", 1).dynamic(&[-1, 19, -1, -1]).check(IMAGES, |x| {
        vec![reduce(&Array::of(&x[0]), &[2, 3], |v| v.iter().copied().fold(f64::NEG_INFINITY, f64::max)).tensor()]
    });
}

#[test]
fn pooling_by_euclidean_length() {
    let length = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>().sqrt();
    let window = Window::new([3, 3], [2, 2], [1, 1], [1, 1]);
    layer("LpPool", window).check(IMAGES, |x| vec![pool(&Array::of(&x[0]), window, length).tensor()]);
    Layer::new("GlobalLpPool", 2)
        .dynamic(&[-1, 19, -1, -1])
        .check(IMAGES, |x| vec![reduce(&Array::of(&x[0]), &[2, 3], length).tensor()]);
}

#[test]
fn blocks_between_depth_and_space() {
    let steps: &[Step<'_>] = &[&[&[1, 8, 6, 4]], &[&[2, 8, 2, 10]], &[&[2, 8, 2, 10]], &[&[1, 8, 6, 4]]];
    Layer::new("DepthToSpace", 13).int("blocksize", 2).dynamic(&[-1, 8, -1, -1]).check(steps, |x| {
        let x = Array::of(&x[0]);
        let place = |at: &[usize]| x.get(&[at[0], (at[2] % 2 * 2 + at[3] % 2) * 2 + at[1], at[2] / 2, at[3] / 2]);
        vec![build(&[x.shape[0], 2, x.shape[2] * 2, x.shape[3] * 2], place).tensor()]
    });
    Layer::new("SpaceToDepth", 13).int("blocksize", 2).dynamic(&[-1, 8, -1, -1]).check(steps, |x| {
        let x = Array::of(&x[0]);
        let place = |at: &[usize]| {
            let (block, channel) = (at[1] / 8, at[1] % 8);
            x.get(&[at[0], channel, at[2] * 2 + block / 2, at[3] * 2 + block % 2])
        };
        vec![build(&[x.shape[0], 32, x.shape[2] / 2, x.shape[3] / 2], place).tensor()]
    });
}

#[test]
fn the_older_form_of_resizing() {
    let scales = Tensor::from_vec([4], vec![1f32, 1.0, 2.0, 2.0]).unwrap();
    Layer::new("Upsample", 9).dynamic(&[-1, 19, -1, -1]).constant(scales).check(IMAGES, |x| {
        let x = Array::of(&x[0]);
        let shape = [x.shape[0], 19, x.shape[2] * 2, x.shape[3] * 2];
        vec![build(&shape, |at| x.get(&[at[0], at[1], at[2] / 2, at[3] / 2])).tensor()]
    });
}

/// The weights of the elements of an axis at a place between them: what is beyond the borders counts as zero.
type Weights = fn(place: f64, element: f64) -> f64;

/// Images sampled at the places of a grid, corners aligned.
fn sampled(x: &Array, grid: &Array, weight: Weights) -> Array {
    let [height, width] = [x.shape[2], x.shape[3]];
    let shape = [x.shape[0], x.shape[1], grid.shape[1], grid.shape[2]];
    build(&shape, |at| {
        let along = |coordinate: usize, size: usize| {
            (grid.get(&[at[0], at[2], at[3], coordinate]) + 1.0) / 2.0 * (size - 1) as f64
        };
        let (row, column) = (along(1, height), along(0, width));
        let elements = (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
        let part = |(y, x_at): (usize, usize)| {
            x.get(&[at[0], at[1], y, x_at]) * weight(row, y as f64) * weight(column, x_at as f64)
        };
        elements.map(part).sum()
    })
}

#[test]
fn sampling_at_the_places_of_a_grid() {
    let steps: &[Step<'_>] = &[
        &[&[1, 19, 9, 11], &[1, 8, 8, 2]],
        &[&[2, 3, 5, 7], &[2, 9, 13, 2]],
        &[&[2, 3, 5, 7], &[2, 9, 13, 2]],
        &[&[1, 1, 16, 10], &[1, 3, 4, 2]],
        &[&[1, 19, 9, 11], &[1, 8, 8, 2]],
    ];
    let linear: Weights = |place, element| (1.0 - (place - element).abs()).max(0.0);
    // The kernel of cubic convolution with the slope that PyTorch uses.
    let cubic: Weights = |place, element| match (place - element).abs() {
        x if x <= 1.0 => (1.25 * x - 2.25) * x * x + 1.0,
        x if x < 2.0 => ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0,
        _ => 0.0,
    };
    let nearest: Weights = |place, element| f64::from(place.round_ties_even() == element);
    for (mode, weight) in [("linear", linear), ("cubic", cubic), ("nearest", nearest)] {
        let layer = Layer::new("GridSample", 20).attr("mode", Attr::Str(mode.to_owned())).int("align_corners", 1);
        layer
            .dynamic(&[-1, -1, -1, -1])
            .dynamic(&[-1, -1, -1, 2])
            .check(steps, |x| vec![sampled(&Array::of(&x[0]), &Array::of(&x[1]), weight).tensor()]);
    }
}

#[test]
fn transposition_by_several_permutations() {
    let steps: &[Step<'_>] =
        &[&[&[1, 5, 3, 8]], &[&[2, 17, 4, 9]], &[&[2, 17, 4, 9]], &[&[1, 40, 1, 33]], &[&[1, 5, 3, 8]]];
    for perm in [[0usize, 2, 1, 3], [0, 2, 3, 1], [0, 3, 1, 2], [3, 2, 1, 0], [0, 1, 3, 2]] {
        Layer::new("Transpose", 13)
            .ints("perm", &perm.map(|axis| axis as i64))
            .dynamic(&[-1, -1, -1, -1])
            .check(steps, |x| vec![transpose(&Array::of(&x[0]), &perm).tensor()]);
    }
}

/// Linear interpolation of one axis at half-pixel centres, clamped at the borders.
fn linear(x: &Array, axis: usize, out: usize) -> Array {
    let size = x.shape[axis];
    let mut shape = x.shape.clone();
    shape[axis] = out;
    build(&shape, |at| {
        let place = ((at[axis] as f64 + 0.5) * size as f64 / out as f64 - 0.5).clamp(0.0, (size - 1) as f64);
        let low = place.floor() as usize;
        let read = |i: usize| {
            let mut from = at.to_vec();
            from[axis] = i.min(size - 1);
            x.get(&from)
        };
        read(low) + (read(low + 1) - read(low)) * (place - low as f64)
    })
}

#[test]
fn resizing_by_scales() {
    let scales = Tensor::from_vec([4], vec![1.0f32, 1.0, 2.0, 2.0]).unwrap();
    Layer::new("Resize", 13)
        .attr("mode", Attr::Str("linear".to_owned()))
        .attr("coordinate_transformation_mode", Attr::Str("half_pixel".to_owned()))
        .dynamic(&[-1, 19, -1, -1])
        .absent()
        .constant(scales.clone())
        .check(IMAGES, |x| {
            let a = Array::of(&x[0]);
            let (h, w) = (a.shape[2] * 2, a.shape[3] * 2);
            vec![linear(&linear(&a, 2, h), 3, w).tensor()]
        });
    Layer::new("Resize", 13)
        .attr("mode", Attr::Str("nearest".to_owned()))
        .attr("coordinate_transformation_mode", Attr::Str("asymmetric".to_owned()))
        .attr("nearest_mode", Attr::Str("floor".to_owned()))
        .dynamic(&[-1, 19, -1, -1])
        .absent()
        .constant(scales)
        .check(IMAGES, |x| {
            let a = Array::of(&x[0]);
            let shape = [a.shape[0], a.shape[1], a.shape[2] * 2, a.shape[3] * 2];
            vec![build(&shape, |at| a.get(&[at[0], at[1], at[2] / 2, at[3] / 2])).tensor()]
        });
}
