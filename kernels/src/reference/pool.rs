//! The plain form of pooling: window by window, tap by tap, sums in double precision.
//!
//! The oracle of the tests of pooling, and the implementation for levels without JIT, element
//! types without code, and the second output of MaxPool.

use crate::parallel::{Parallel, Serial};
use crate::problem::pool::{PoolKind, PoolShape, Taps};

/// An element that can be pooled: all its values are exact in double precision.
pub trait PoolElement: Copy + Send + Sync {
    /// Its value.
    fn value(self) -> f64;
    /// The element nearest to a value.
    fn nearest(value: f64) -> Self;
}

macro_rules! elements {
    ($($element:ty),*) => {$(
        impl PoolElement for $element {
            fn value(self) -> f64 {
                f64::from(self)
            }
            fn nearest(value: f64) -> Self {
                value as $element
            }
        }
    )*};
}

elements!(f32, f64, i8, u8);

/// Pools `input` into `output`, whose lengths are those of `shape`.
pub fn pool<T: PoolElement>(kind: PoolKind, shape: &PoolShape, input: &[T], output: &mut [T]) {
    pool_by(&Serial, kind, shape, input, output);
}

/// As [`pool`], on the caller's thread, until `parallel` is stopped.
pub fn pool_by<T: PoolElement>(
    parallel: &dyn Parallel,
    kind: PoolKind,
    shape: &PoolShape,
    input: &[T],
    output: &mut [T],
) {
    each_window(shape, parallel, |window, taps, index| {
        let values = || input_offsets(shape, window, taps).map(|at| input[at].value());
        output[index] = T::nearest(match kind {
            PoolKind::Max => values().fold(f64::NEG_INFINITY, |most, value| if value > most { value } else { most }),
            PoolKind::Average { include_pad } => {
                let padded = || window.pixel.iter().zip(&shape.axes).map(|(&at, axis)| axis.padded_taps(at)).product();
                let count: usize = if include_pad { padded() } else { taps.iter().map(|taps| taps.count).product() };
                values().sum::<f64>() / count.max(1) as f64
            }
            PoolKind::Lp { p } => {
                let p = f64::from(p);
                values().map(|value| value.abs().powf(p)).sum::<f64>().powf(p.recip())
            }
        });
    });
}

/// For every window the largest element and its index in the input, counted as if the input were `[N, C, D, H, W]`.
/// Indices count the spatial axes from the last one (`column_major`: from the first one). The first of equal elements
/// is taken.
pub fn max_with_indices<T: PoolElement>(
    parallel: &dyn Parallel,
    shape: &PoolShape,
    column_major: bool,
    input: &[T],
    output: &mut [T],
    indices: &mut [i64],
) {
    let [depth, height, width] = shape.axes.map(|axis| axis.input as usize);
    each_window(shape, parallel, |window, taps, index| {
        let mut most = f64::NEG_INFINITY;
        let mut found = [0; 3];
        for d in steps(shape, taps, 0) {
            for h in steps(shape, taps, 1) {
                for w in steps(shape, taps, 2) {
                    let value = input[offset(shape, window, [d, h, w])].value();
                    if value > most {
                        (most, found) = (value, [d, h, w]);
                    }
                }
            }
        }
        let [d, h, w] = found;
        let pixel = if column_major { (w * height + h) * depth + d } else { (d * height + h) * width + w };
        output[index] = T::nearest(most);
        indices[index] = ((window.batch * shape.channels() + window.channel) * shape.input_pixels() + pixel) as i64;
    });
}

/// A window: its channel and position.
#[derive(Clone, Copy)]
struct Window {
    batch: usize,
    channel: usize,
    pixel: [usize; 3],
}

/// Calls `visit(window, taps, index of the output)` for every window, in the order of the output.
fn each_window(shape: &PoolShape, parallel: &dyn Parallel, mut visit: impl FnMut(&Window, &[Taps; 3], usize)) {
    let [depth, height, width] = shape.axes.map(|axis| axis.output as usize);
    let pixels = shape.output_pixels();
    for index in 0..shape.outputs() {
        if parallel.is_stopped() {
            return;
        }
        let (batch, rest) = (index / (shape.channels() * pixels), index % (shape.channels() * pixels));
        let (channel, pixel) = if shape.channels_last {
            (rest % shape.channels(), rest / shape.channels())
        } else {
            (rest / pixels, rest % pixels)
        };
        let pixel = [pixel / (height * width) % depth, pixel / width % height, pixel % width];
        let taps = [0, 1, 2].map(|axis| shape.axes[axis].taps(pixel[axis]));
        visit(&Window { batch, channel, pixel }, &taps, index);
    }
}

fn steps(shape: &PoolShape, taps: &[Taps; 3], axis: usize) -> impl Iterator<Item = usize> + Clone + use<> {
    let (first, dilation) = (taps[axis].first, shape.axes[axis].dilation as usize);
    (0..taps[axis].count).map(move |tap| first + tap * dilation)
}

fn offset(shape: &PoolShape, window: &Window, [d, h, w]: [usize; 3]) -> usize {
    let pixel = (d * shape.axes[1].input as usize + h) * shape.axes[2].input as usize + w;
    let pixels = shape.input_pixels();
    if shape.channels_last {
        (window.batch * pixels + pixel) * shape.channels() + window.channel
    } else {
        (window.batch * shape.channels() + window.channel) * pixels + pixel
    }
}

/// The indices in the input of the elements that a window reads.
fn input_offsets<'a>(
    shape: &'a PoolShape,
    window: &'a Window,
    taps: &'a [Taps; 3],
) -> impl Iterator<Item = usize> + 'a {
    steps(shape, taps, 0).flat_map(move |d| {
        steps(shape, taps, 1).flat_map(move |h| steps(shape, taps, 2).map(move |w| offset(shape, window, [d, h, w])))
    })
}
