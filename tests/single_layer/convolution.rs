//! Tables of convolutions and of the operators that carry their fusions.

use kiln_model::ir::Attr;

use crate::harness::{Layer, Step};
use crate::reference::{Array, Window, conv, conv_transpose};

const IMAGES: &[Step<'_>] =
    &[&[&[1, 3, 9, 11]], &[&[2, 3, 7, 7]], &[&[2, 3, 7, 7]], &[&[1, 3, 16, 10]], &[&[1, 3, 9, 11]], &[&[2, 3, 7, 7]]];

/// A convolution from `channels` to `out` channels over `steps`, with bias.
fn table(channels: usize, out: usize, group: usize, window: Window, steps: &[Step<'_>]) {
    check(layer(channels, out, group, window), group, window, steps);
}

/// The same in `bf16`.
fn lower(channels: usize, out: usize, group: usize, window: Window, steps: &[Step<'_>]) {
    check(layer(channels, out, group, window).lower(), group, window, steps);
}

fn check(layer: Layer, group: usize, window: Window, steps: &[Step<'_>]) {
    layer.check(steps, |x| {
        vec![conv(&Array::of(&x[0]), &Array::of(&x[1]), Some(&Array::of(&x[2])), window, group).tensor()]
    });
}

fn layer(channels: usize, out: usize, group: usize, window: Window) -> Layer {
    let [kh, kw] = window.kernel;
    let [ph, pw] = window.pads.map(|pad| pad as i64);
    Layer::new("Conv", 11)
        .ints("kernel_shape", &window.kernel.map(|k| k as i64))
        .ints("strides", &window.strides.map(|s| s as i64))
        .ints("pads", &[ph, pw, ph, pw])
        .ints("dilations", &window.dilations.map(|d| d as i64))
        .int("group", group as i64)
        .dynamic(&[-1, channels as i64, -1, -1])
        .weights(&[out, channels / group, kh, kw])
        .weights(&[out])
}

#[test]
fn conv_3x3_padded() {
    table(3, 20, 1, Window::new([3, 3], [1, 1], [1, 1], [1, 1]), IMAGES);
}

#[test]
fn conv_7x7_stride_2_of_three_channels() {
    table(3, 17, 1, Window::new([7, 7], [2, 2], [3, 3], [1, 1]), IMAGES);
}

#[test]
fn conv_with_weights_in_f16() {
    let f16 = |channels, out, group, window| {
        let steps: &[Step<'_>] = &[
            &[&[1, channels, 9, 11]],
            &[&[2, channels, 30, 26]],
            &[&[2, channels, 30, 26]],
            &[&[1, channels, 5, 6]],
            &[&[1, channels, 9, 11]],
        ];
        check(layer(channels, out, group, window).in_f16(), group, window, steps);
    };
    // By transforms, directly, as a product, in groups, on lines, and channel by channel.
    f16(18, 20, 1, Window::new([3, 3], [1, 1], [1, 1], [1, 1]));
    f16(17, 33, 1, Window::new([3, 3], [2, 2], [1, 1], [1, 1]));
    f16(19, 40, 1, Window::new([1, 1], [1, 1], [0, 0], [1, 1]));
    f16(36, 20, 2, Window::new([3, 3], [1, 1], [1, 1], [2, 2]));
    f16(3, 20, 1, Window::new([3, 3], [1, 1], [1, 1], [1, 1]));
    f16(21, 21, 21, Window::new([3, 3], [1, 1], [1, 1], [1, 1]));
}

#[test]
fn conv_1x1_is_a_matmul() {
    let steps: &[Step<'_>] = &[&[&[1, 18, 5, 5]], &[&[1, 18, 5, 5]], &[&[3, 18, 4, 7]], &[&[1, 18, 5, 5]]];
    table(18, 33, 1, Window::new([1, 1], [1, 1], [0, 0], [1, 1]), steps);
    table(18, 24, 1, Window::new([1, 1], [2, 2], [0, 0], [1, 1]), steps);
}

#[test]
fn conv_dilated_and_strided() {
    let steps: &[Step<'_>] = &[&[&[1, 4, 13, 9]], &[&[1, 4, 8, 21]], &[&[1, 4, 8, 21]], &[&[1, 4, 13, 9]]];
    table(4, 9, 1, Window::new([3, 3], [1, 1], [2, 2], [2, 2]), steps);
    table(4, 9, 1, Window::new([3, 2], [2, 3], [1, 0], [1, 1]), steps);
}

#[test]
fn conv_depthwise() {
    let steps: &[Step<'_>] = &[&[&[1, 21, 9, 12]], &[&[2, 21, 6, 6]], &[&[2, 21, 6, 6]], &[&[1, 21, 9, 12]]];
    table(21, 21, 21, Window::new([3, 3], [1, 1], [1, 1], [1, 1]), steps);
    table(21, 21, 21, Window::new([3, 3], [2, 2], [1, 1], [1, 1]), steps);
    table(21, 42, 21, Window::new([5, 5], [1, 1], [2, 2], [1, 1]), steps);
}

#[test]
fn conv_grouped() {
    let steps: &[Step<'_>] = &[&[&[1, 12, 6, 8]], &[&[1, 12, 10, 5]], &[&[1, 12, 10, 5]], &[&[1, 12, 6, 8]]];
    table(12, 20, 4, Window::new([3, 3], [1, 1], [1, 1], [1, 1]), steps);
    table(12, 18, 2, Window::new([1, 1], [1, 1], [0, 0], [1, 1]), steps);
}

#[test]
fn conv_in_lower_precision() {
    let steps: &[Step<'_>] =
        &[&[&[1, 34, 9, 11]], &[&[2, 34, 7, 7]], &[&[2, 34, 7, 7]], &[&[1, 34, 6, 18]], &[&[1, 34, 9, 11]]];
    for (kernel, stride, pad, dilation) in
        [([3, 3], 1, 1, 1), ([1, 1], 1, 0, 1), ([1, 1], 2, 0, 1), ([3, 3], 2, 1, 1), ([2, 3], 1, 2, 2)]
    {
        let window = Window::new(kernel, [stride; 2], [pad; 2], [dilation; 2]);
        lower(34, 40, 1, window, steps);
        lower(34, 50, 2, window, steps);
    }
    // Few channels, where a line of the kernel is one tap; and depthwise channels, which stay as they are.
    lower(3, 20, 1, Window::new([7, 7], [2, 2], [3, 3], [1, 1]), IMAGES);
    lower(3, 3, 3, Window::new([3, 3], [1, 1], [1, 1], [1, 1]), IMAGES);
}

#[test]
fn conv_of_one_dimension() {
    let window = Window::new([1, 3], [1, 2], [0, 1], [1, 1]);
    let steps: &[Step<'_>] = &[&[&[1, 5, 17]], &[&[2, 5, 8]], &[&[2, 5, 8]], &[&[1, 5, 17]]];
    Layer::new("Conv", 11)
        .ints("kernel_shape", &[3])
        .ints("strides", &[2])
        .ints("pads", &[1, 1])
        .dynamic(&[-1, 5, -1])
        .weights(&[7, 5, 3])
        .check(steps, |x| {
            let (a, w) = (Array::of(&x[0]), Array::of(&x[1]));
            let flat = |a: Array| Array { shape: vec![a.shape[0], a.shape[1], 1, a.shape[2]], data: a.data };
            let y = conv(&flat(a), &flat(w), None, window, 1);
            vec![Array { shape: vec![y.shape[0], y.shape[1], y.shape[3]], data: y.data }.tensor()]
        });
}

#[test]
fn conv_transposed() {
    let steps: &[Step<'_>] = &[&[&[1, 6, 5, 4]], &[&[2, 6, 3, 7]], &[&[2, 6, 3, 7]], &[&[1, 6, 5, 4]]];
    for (window, group) in [
        (Window::new([2, 2], [2, 2], [0, 0], [1, 1]), 1),
        (Window::new([3, 3], [2, 2], [1, 1], [1, 1]), 1),
        (Window::new([3, 4], [1, 3], [0, 1], [2, 1]), 2),
    ] {
        transposed(window, group, 6, 10, steps, |layer| layer);
    }
}

#[test]
fn conv_transposed_in_lower_precision() {
    let steps: &[Step<'_>] = &[&[&[1, 24, 5, 4]], &[&[2, 24, 3, 7]], &[&[2, 24, 3, 7]], &[&[1, 24, 5, 4]]];
    for (window, group) in [
        (Window::new([2, 2], [2, 2], [0, 0], [1, 1]), 1),
        (Window::new([3, 3], [2, 2], [1, 1], [1, 1]), 1),
        (Window::new([3, 4], [1, 3], [0, 1], [2, 1]), 2),
    ] {
        transposed(window, group, 24, 36, steps, Layer::lower);
    }
}

/// A transposed convolution of `channels` to `filters` over `steps`, with bias.
fn transposed(
    window: Window,
    group: usize,
    channels: usize,
    filters: usize,
    steps: &[Step<'_>],
    change: fn(Layer) -> Layer,
) {
    let [ph, pw] = window.pads.map(|pad| pad as i64);
    let out = filters / group;
    let layer = Layer::new("ConvTranspose", 11)
        .ints("kernel_shape", &window.kernel.map(|k| k as i64))
        .ints("strides", &window.strides.map(|s| s as i64))
        .ints("dilations", &window.dilations.map(|d| d as i64))
        .ints("pads", &[ph, pw, ph, pw])
        .attr("group", Attr::Int(group as i64))
        .dynamic(&[-1, channels as i64, -1, -1])
        .weights(&[channels, out, window.kernel[0], window.kernel[1]])
        .weights(&[filters]);
    change(layer).check(steps, |x| {
        let (a, w, b) = (Array::of(&x[0]), Array::of(&x[1]), Array::of(&x[2]));
        vec![conv_transpose(&a, &w, Some(&b), window, group).tensor()]
    });
}
