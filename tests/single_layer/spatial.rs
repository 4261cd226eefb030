//! Tables of pooling, transposition and resizing.

use kiln_model::ir::Attr;
use kiln_tensor::{DType, Tensor};

use crate::harness::{Fill, Layer, Step, random};
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

/// The elements of an axis that a sample reads, with their weights; nothing for one more than an element outside.
fn read(place: f64, size: usize) -> Vec<(usize, f64)> {
    if place < -1.0 || place > size as f64 {
        return Vec::new();
    }
    let place = place.clamp(0.0, size as f64 - 1.0);
    let low = place.floor();
    vec![(low as usize, 1.0 - (place - low)), ((low as usize + 1).min(size - 1), place - low)]
}

#[test]
fn regions_that_reach_beyond_their_images_are_pooled_in_bins() {
    const IMAGE: [usize; 5] = [0, 1, 0, 1, 1];
    const BINS: [usize; 2] = [3, 2];
    const SCALE: f64 = 8.0;
    let steps: &[Step<'_>] =
        &[&[&[2, 19, 9, 11]], &[&[2, 3, 5, 7]], &[&[2, 3, 5, 7]], &[&[3, 16, 16, 10]], &[&[2, 19, 9, 11]]];
    let edges: Vec<f32> = (0..20).map(|at| [-0.4, 0.1, 0.7, 0.9, 0.3, -0.1, 1.6][at % 7] + at as f32 / 32.0).collect();
    for (mode, samples, half) in [("avg", 2, 0.5), ("avg", 0, 0.0), ("max", 3, 0.5), ("max", 0, 0.0)] {
        let coordinates = if half > 0.0 { "half_pixel" } else { "output_half_pixel" };
        let layer = Layer::new("RoiAlign", 16).attr("mode", mode.into()).int("sampling_ratio", samples as i64);
        let layer = layer.attr("coordinate_transformation_mode", coordinates.into());
        let layer = layer.attr("spatial_scale", Attr::Float(SCALE as f32));
        let layer = layer.int("output_height", BINS[0] as i64).int("output_width", BINS[1] as i64);
        let layer = layer.dynamic(&[-1, -1, -1, -1]).constant(Tensor::from_vec([5, 4], edges.clone()).unwrap());
        let images = IMAGE.map(|image| image as i64).to_vec();
        layer.constant(Tensor::from_vec([5], images).unwrap()).check(steps, |x| {
            let x = Array::of(&x[0]);
            let pooled = build(&[5, x.shape[1], BINS[0], BINS[1]], |at| {
                // Rows are along the second and the fourth edge of a region, columns along the others.
                let along = |axis: usize| {
                    let edge = |number: usize| f64::from(edges[at[0] * 4 + number]) * SCALE - half;
                    let (start, end) = (edge(1 - axis), edge(3 - axis));
                    let length = if half > 0.0 { end - start } else { (end - start).max(1.0) } / BINS[axis] as f64;
                    let count = if samples > 0 { samples } else { length.ceil().max(0.0) as usize };
                    let place = move |sample: usize| (sample as f64 + 0.5) / count as f64 + at[2 + axis] as f64;
                    let size = x.shape[2 + axis];
                    (0..count).map(|sample| read(start + length * place(sample), size)).collect::<Vec<_>>()
                };
                let (rows, columns) = (along(0), along(1));
                let mut parts = Vec::new();
                for (row, column) in rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column))) {
                    let part = |y: usize, x_at: usize| x.get(&[IMAGE[at[0]], at[1], y, x_at]);
                    let weighted =
                        |&(y, by_row): &(usize, f64)| column.iter().map(move |&(x, by)| part(y, x) * by_row * by);
                    parts.extend(row.iter().flat_map(weighted));
                    // A sample outside is zero.
                    parts.push(if row.is_empty() || column.is_empty() { 0.0 } else { f64::NAN });
                }
                let parts = parts.into_iter().filter(|part| !part.is_nan());
                let count = (rows.len() * columns.len()).max(1) as f64;
                if mode == "max" { parts.reduce(f64::max).unwrap_or(0.0) } else { parts.sum::<f64>() / count }
            });
            vec![pooled.tensor()]
        });
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

#[test]
fn windows_whose_elements_are_moved_and_weighed() {
    let (channels, filters) = (6, 5);
    let steps: &[Step<'_>] = &[
        &[&[1, 6, 7, 9], &[1, 36, 7, 9], &[1, 18, 7, 9]],
        &[&[2, 6, 5, 5], &[2, 36, 5, 5], &[2, 18, 5, 5]],
        &[&[2, 6, 5, 5], &[2, 36, 5, 5], &[2, 18, 5, 5]],
        &[&[1, 6, 12, 4], &[1, 36, 12, 4], &[1, 18, 12, 4]],
        &[&[1, 6, 7, 9], &[1, 36, 7, 9], &[1, 18, 7, 9]],
    ];
    let bias = random(&[filters], DType::F32, Fill::Unit, 7);
    let weights = random(&[filters, channels, 3, 3], DType::F32, Fill::Unit, 8);
    let layer = Layer::new("DeformConv", 19).ints("pads", &[1; 4]).int("offset_group", 2);
    let layer = layer.dynamic(&[-1, 6, -1, -1]).constant(weights).dynamic(&[-1, 36, -1, -1]);
    layer.constant(bias).dynamic(&[-1, 18, -1, -1]).tolerance(2e-5).check(steps, |x| {
        let [x, weights, offsets, bias, mask] = [0, 1, 2, 3, 4].map(|input| Array::of(&x[input]));
        let &[batch, _, height, width] = &x.shape[..] else { unreachable!("four dimensions") };
        let y = build(&[batch, filters, height, width], |at| {
            let &[image, filter, row, column] = at else { unreachable!("four dimensions") };
            let seen = |channel: usize, element: usize| {
                let moved = (channel / 3) * 9 + element;
                let offset = |part: usize| offsets.get(&[image, 2 * moved + part, row, column]);
                let (y, x_at) =
                    ((row + element / 3) as f64 - 1.0 + offset(0), (column + element % 3) as f64 - 1.0 + offset(1));
                let pixel = |y: f64, x_at: f64| {
                    let inside = (0.0..height as f64).contains(&y) && (0.0..width as f64).contains(&x_at);
                    if inside { x.get(&[image, channel, y as usize, x_at as usize]) } else { 0.0 }
                };
                let (top, left) = (y.floor(), x_at.floor());
                let (down, right) = (y - top, x_at - left);
                let above = (1.0 - right) * pixel(top, left) + right * pixel(top, left + 1.0);
                let below = (1.0 - right) * pixel(top + 1.0, left) + right * pixel(top + 1.0, left + 1.0);
                ((1.0 - down) * above + down * below) * mask.get(&[image, moved, row, column])
            };
            let taps = (0..channels).flat_map(|channel| (0..9).map(move |element| (channel, element)));
            let sum: f64 = taps
                .map(|(channel, element)| {
                    weights.get(&[filter, channel, element / 3, element % 3]) * seen(channel, element)
                })
                .sum();
            bias.get(&[filter]) + sum
        });
        vec![y.tensor()]
    });
}
