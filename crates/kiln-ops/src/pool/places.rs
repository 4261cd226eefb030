//! The largest elements of windows with the places where they stood, channels first: plane by plane on all threads.

use std::ops::Range;

use kiln_kernels::cpu::pool::{PoolShape, Window};
use kiln_kernels::parallel::for_each_chunk;
use kiln_kernels::reference::pool::PoolElement;
use kiln_kernels::{Parallel, memory};

use crate::task_count;

/// Comparing an element of a window takes as long as moving this many bytes.
const COMPARING: usize = 8;

/// A channel of an image, and its results.
struct Plane<'a, T> {
    input: &'a [T],
    output: &'a mut [T],
    places: &'a mut [i64],
    /// The place of its first element.
    first: i64,
}

/// As [`max_with_indices`](kiln_kernels::reference::pool::max_with_indices), for channels first and inputs that have
/// elements.
pub(super) fn largest_with_places<T: PoolElement>(
    shape: &PoolShape,
    column_major: bool,
    input: &[T],
    output: &mut [T],
    places: &mut [i64],
    parallel: &dyn Parallel,
) {
    let (pixels, windows) = (shape.input_pixels(), shape.output_pixels());
    if windows == 0 {
        return;
    }
    let planes = input.chunks_exact(pixels).zip(output.chunks_exact_mut(windows)).zip(places.chunks_exact_mut(windows));
    let plane = |(number, ((input, output), places))| Plane { input, output, places, first: (number * pixels) as i64 };
    let mut all: Vec<Plane<'_, T>> = memory::with_capacity(planes.len());
    all.extend(planes.enumerate().map(plane));
    let taps: usize = shape.axes.iter().map(|axis| axis.kernel.min(axis.input) as usize).product();
    let parts = task_count(shape.outputs().saturating_mul(taps).saturating_mul(COMPARING), parallel);
    let each = all.len().div_ceil(parts);
    for_each_chunk(parallel, &mut all, each, &|_, planes| {
        for plane in planes {
            search(shape, column_major, plane, parallel);
        }
    });
}

/// Searches all windows of a plane.
fn search<T: PoolElement>(shape: &PoolShape, column_major: bool, plane: &mut Plane<'_, T>, parallel: &dyn Parallel) {
    let [depth, height, width] = shape.axes.map(|axis| axis.input as usize);
    let mut windows = plane.output.iter_mut().zip(plane.places.iter_mut());
    for d in each(&shape.axes[0]) {
        for h in each(&shape.axes[1]) {
            if parallel.is_stopped() {
                return;
            }
            for w in each(&shape.axes[2]) {
                let (mut most, mut found) = (f64::NEG_INFINITY, [0; 3]);
                for d in d.places() {
                    for h in h.places() {
                        let line = &plane.input[(d * height + h) * width..][..width];
                        for w in w.places() {
                            let value = line[w].value();
                            if value > most {
                                (most, found) = (value, [d, h, w]);
                            }
                        }
                    }
                }
                let [d, h, w] = found;
                let place = if column_major { (w * height + h) * depth + d } else { (d * height + h) * width + w };
                let Some((output, at)) = windows.next() else { return };
                (*output, *at) = (T::nearest(most), plane.first + place as i64);
            }
        }
    }
}

/// Where a window stands along an axis.
#[derive(Clone)]
struct Span {
    taps: Range<usize>,
    step: usize,
}

impl Span {
    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        self.taps.clone().step_by(self.step)
    }
}

/// The windows along an axis.
fn each(axis: &Window) -> impl Iterator<Item = Span> + use<> {
    let axis = *axis;
    let step = axis.dilation as usize;
    (0..axis.output as usize).map(move |index| {
        let taps = axis.taps(index);
        Span { taps: taps.first..taps.first + taps.count * step, step }
    })
}

#[cfg(test)]
mod tests {
    use kiln_kernels::reference::pool::max_with_indices;
    use kiln_kernels::{Pool, Serial};

    use super::*;
    use crate::trial::numbers;

    /// Windows of `kernel` elements over `input` elements, as far apart as they are long.
    fn axis(input: u64, kernel: u64, dilation: u64, pad: u64) -> Window {
        let mut axis = Window { input, output: 0, kernel, stride: kernel, dilation, before: pad, after: pad };
        axis.output = (input + 2 * pad - axis.span()) / kernel + 1;
        axis
    }

    #[test]
    fn planes_have_what_windows_have_one_by_one() {
        let pool = Pool::new(3, "planes").unwrap();
        let shapes = [
            [Window::NONE, Window::NONE, axis(13, 3, 1, 1)],
            [Window::NONE, axis(9, 2, 1, 0), axis(8, 3, 2, 2)],
            [axis(5, 2, 1, 1), axis(6, 3, 1, 0), axis(70, 2, 3, 1)],
        ];
        for (axes, column_major) in shapes.into_iter().flat_map(|axes| [(axes, false), (axes, true)]) {
            let shape = PoolShape { batch: 2, channels: 5, axes, channels_last: false };
            let mut input = numbers(10 * shape.input_pixels(), 0.37);
            input.iter_mut().step_by(7).for_each(|x| *x = f32::NAN);
            // Equal elements, too.
            input.iter_mut().skip(1).step_by(3).for_each(|x| *x = 0.5);
            let count = shape.outputs();
            let (mut output, mut places) = (vec![0f32; count], vec![0; count]);
            let (mut expected, mut at) = (output.clone(), places.clone());
            max_with_indices(&Serial, &shape, column_major, &input, &mut expected, &mut at);
            for parallel in [&Serial as &dyn Parallel, &pool] {
                largest_with_places(&shape, column_major, &input, &mut output, &mut places, parallel);
                assert_eq!((&output, &places), (&expected, &at), "{shape:?}");
            }
        }
    }
}
