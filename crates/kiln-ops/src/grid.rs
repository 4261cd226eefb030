//! Looking up images at arbitrary places: AffineGrid makes the places, GridSample looks.

use std::cmp::Ordering;
use std::ops::Range;

use kiln_kernels::Parallel;
use kiln_kernels::memory::{self, Pace};
use kiln_kernels::parallel::for_each_chunk;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Shape, Tensor, TensorSpec};
use smallvec::SmallVec;

use super::wide::{filled, lent, narrow, widened};
use super::{LoadCx, OpError, Operator, dimensions, integers, refused, required, task_count};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "AffineGrid", |cx| Ok(Box::new(AffineGrid { align: cx.node.attributes().int("align_corners") != 0 }))),
    ("", "GridSample", make_sample),
];

struct AffineGrid {
    /// Whether -1 and 1 are the centres of the outermost elements, instead of the image's edges.
    align: bool,
}

impl AffineGrid {
    /// Batch and spatial sizes.
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<(usize, Shape), NodeError> {
        let (theta, size) = (required(inputs, 0)?, dimensions(&integers(required(inputs, 1)?)?)?);
        match (theta.shape(), size.as_slice()) {
            (&[n, 2, 3], &[batch, _, ref spatial @ ..]) if n == batch && spatial.len() == 2 => Ok((n, spatial.into())),
            (&[n, 3, 4], &[batch, _, ref spatial @ ..]) if n == batch && spatial.len() == 3 => Ok((n, spatial.into())),
            (theta, size) => Err(refused(format!("no grid of size {size:?} from matrices of shape {theta:?}"))),
        }
    }

    /// Place `index` of `size` between -1 and 1.
    fn place(&self, index: usize, size: usize) -> f64 {
        match (self.align, size) {
            (true, 1) => 0.0,
            (true, _) => 2.0 * index as f64 / (size - 1) as f64 - 1.0,
            (false, _) => (2 * index + 1) as f64 / size as f64 - 1.0,
        }
    }
}

impl Node for AffineGrid {
    fn family(&self) -> &'static str {
        "AffineGrid"
    }

    fn value_inputs(&self) -> u64 {
        1 << 1
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let (batch, spatial) = self.sizes(&io.inputs())?;
        let (theta, to) = (widened::<f64>(io.input(0)?)?, io.alloc(0)?);
        let (rank, area) = (spatial.len(), spatial.iter().product::<usize>());
        let mut grid = memory::with_capacity(to.len());
        let mut pace = Pace::default();
        for number in 0..if to.is_empty() { 0 } else { batch * area } {
            pace.step(8);
            let (matrix, mut rest) = (&theta[number / area * rank * (rank + 1)..][..rank * (rank + 1)], number % area);
            // The first coordinate runs along the last axis.
            let mut place: SmallVec<[f64; 4]> = SmallVec::new();
            for &size in spatial.iter().rev() {
                place.push(self.place(rest % size, size));
                rest /= size;
            }
            place.push(1.0);
            let row = |row: &[f64]| row.iter().zip(&place).map(|(a, b)| a * b).sum::<f64>();
            grid.extend(matrix.chunks_exact(rank + 1).map(row));
        }
        let output = narrow(&grid, to)?;
        io.push(output);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// How elements outside of the image are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

struct GridSample {
    mode: Mode,
    outside: Outside,
    align: bool,
}

fn make_sample(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let mode = match cx.node.attributes().text("mode") {
        "linear" | "bilinear" => Mode::Linear,
        "nearest" => Mode::Nearest,
        "cubic" | "bicubic" => Mode::Cubic,
        other => return Err(OpError::unsupported(cx.node, format!("mode = {other}"))),
    };
    let outside = match cx.node.attributes().text("padding_mode") {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        other => return Err(OpError::unsupported(cx.node, format!("padding_mode = {other}"))),
    };
    Ok(Box::new(GridSample { mode, outside, align: cx.node.attributes().int("align_corners") != 0 }))
}

/// The elements along an axis that a coordinate reads, with their weights: [`Mode::taps`] of them are set.
type Taps = [(Option<usize>, f32); 4];

impl Mode {
    /// Elements that a coordinate reads along an axis.
    fn taps(self) -> usize {
        match self {
            Mode::Nearest => 1,
            Mode::Linear => 2,
            Mode::Cubic => 4,
        }
    }
}

impl GridSample {
    /// The elements of an axis that a coordinate between -1 and 1 reads. In `f32`, because ties of `nearest` depend on
    /// it.
    #[inline]
    fn taps(&self, coordinate: f32, size: usize) -> Taps {
        let length = size as f32;
        let (least, greatest) = if self.align { (0.0, length - 1.0) } else { (-0.5, length - 0.5) };
        let mut place = match self.align {
            true => (coordinate + 1.0) / 2.0 * (length - 1.0),
            false => ((coordinate + 1.0) * length - 1.0) / 2.0,
        };
        if self.mode == Mode::Nearest {
            place = rounded(place);
        }
        if place < least || place > greatest {
            place = match self.outside {
                Outside::Zeros => place,
                // As in ONNX Runtime, cubic convolution is at the place itself, over elements that repeat the border.
                Outside::Border if self.mode == Mode::Cubic => place,
                Outside::Border => place.clamp(0.0, length - 1.0),
                Outside::Reflection => reflected(place, least, greatest),
            };
        }
        let first = floor(place);
        let tap = |at: f32, weight: f32| match self.element(at, size, least, greatest) {
            None => (None, 0.0),
            element => (element, weight),
        };
        match self.mode {
            Mode::Nearest => [tap(place, 1.0), (None, 0.0), (None, 0.0), (None, 0.0)],
            Mode::Linear => {
                let beyond = place - first;
                [tap(first, 1.0 - beyond), tap(first + 1.0, beyond), (None, 0.0), (None, 0.0)]
            }
            Mode::Cubic => [-1.0, 0.0, 1.0, 2.0].map(|step| {
                let at = first + step;
                tap(at, cubic((place - at).abs()))
            }),
        }
    }

    /// The four elements of an image of rows and columns that linear sampling reads at a place within; `None` where
    /// one of them is outside, and for the other modes.
    #[inline]
    fn inside(&self, place: [f32; 2], [height, width]: [usize; 2]) -> Option<[(usize, f32); 4]> {
        if self.mode != Mode::Linear {
            return None;
        }
        let along = |coordinate: f32, size: usize| {
            let length = size as f32;
            let place = match self.align {
                true => (coordinate + 1.0) / 2.0 * (length - 1.0),
                false => ((coordinate + 1.0) * length - 1.0) / 2.0,
            };
            // Sizes beyond 2^24 have places that are no elements.
            (place >= 0.0 && place < length - 1.0 && length < WHOLE).then(|| {
                let first = place as usize;
                (first, place - first as f32)
            })
        };
        let ((row, down), (column, right)) = (along(place[0], height)?, along(place[1], width)?);
        let at = row * width + column;
        let (up, left) = (1.0 - down, 1.0 - right);
        Some([(at, up * left), (at + 1, up * right), (at + width, down * left), (at + width + 1, down * right)])
    }

    /// The element at a whole place; `None` where there is none.
    #[inline]
    fn element(&self, place: f32, size: usize, least: f32, greatest: f32) -> Option<usize> {
        let last = size as f32 - 1.0;
        let inside = (0.0..=last).contains(&place);
        match self.outside {
            _ if inside => Some(place as usize),
            Outside::Zeros => None,
            Outside::Border => Some(place.clamp(0.0, last) as usize),
            Outside::Reflection => Some(reflected(place, least, greatest).clamp(0.0, last) as usize),
        }
    }

    fn sizes(&self, image: &[usize], grid: &[usize]) -> Result<Shape, NodeError> {
        let error = || refused(format!("a grid of shape {grid:?} over an image of {image:?}"));
        let (&[batch, channels, ref spatial @ ..], Some((&rank, places))) = (image, grid.split_last()) else {
            return Err(error());
        };
        let fits = rank == spatial.len() && rank > 0 && places.len() == rank + 1 && places[0] == batch;
        if !fits || spatial.contains(&0) {
            return Err(error());
        }
        if rank > MOST_AXES {
            return Err(NodeError::Unsupported(format!("a grid over {rank} axes, {MOST_AXES} are the most")));
        }
        Ok([batch, channels].into_iter().chain(places[1..].iter().copied()).collect())
    }
}

/// From this value on every `f32` is whole.
const WHOLE: f32 = (1 << f32::MANTISSA_DIGITS) as f32;

/// The greatest whole number that is not above a value, without the call that the standard library makes where no
/// instruction may be assumed.
#[inline]
fn floor(value: f32) -> f32 {
    if value.abs() < WHOLE {
        let cut = value as i32 as f32;
        if cut > value { cut - 1.0 } else { cut }
    } else {
        value
    }
}

/// The nearest whole number, the even one of two, without a call.
#[inline]
fn rounded(value: f32) -> f32 {
    let below = floor(value);
    let beyond = value - below;
    match beyond.partial_cmp(&0.5) {
        Some(Ordering::Less) => below,
        Some(Ordering::Equal) if below as i64 % 2 == 0 => below,
        Some(_) => below + 1.0,
        None => value,
    }
}

/// A place mirrored at the borders until it is between them.
fn reflected(place: f32, least: f32, greatest: f32) -> f32 {
    let range = greatest - least;
    if range <= 0.0 {
        return least;
    }
    let beyond = if place < least { least - place } else { place - greatest };
    let (reflections, rest) = ((beyond / range).floor(), beyond % range);
    // After an even number of reflections it comes back from the border that it left by.
    if (reflections % 2.0 == 0.0) == (place < least) { least + rest } else { greatest - rest }
}

/// The kernel of cubic convolution, with the slope that PyTorch uses.
fn cubic(distance: f32) -> f32 {
    const SLOPE: f32 = -0.75;
    match distance {
        x if x <= 1.0 => ((SLOPE + 2.0) * x - (SLOPE + 3.0)) * x * x + 1.0,
        x if x < 2.0 => ((SLOPE * x - 5.0 * SLOPE) * x + 8.0 * SLOPE) * x - 4.0 * SLOPE,
        _ => 0.0,
    }
}

impl Node for GridSample {
    fn family(&self) -> &'static str {
        "GridSample"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let (image, grid) = (required(inputs, 0)?, required(inputs, 1)?);
        super::wide::Width::of(image.dtype())?;
        self.sizes(image.shape(), grid.shape()).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (image, grid, to) = (io.input(0)?, io.input(1)?, io.alloc(0)?);
        let [_, channels, spatial @ ..] = image.shape() else {
            return Err(refused("no image"));
        };
        let places: usize = to.shape()[2..].iter().product();
        let (values, coordinates) = (lent::<f32>(image)?, lent::<f32>(grid)?);
        let sampling = Sampling { node: self, spatial, values: &values, coordinates: &coordinates, places };
        let output = filled(to, |output| {
            let planes = output.len() / places.max(1);
            let parts = task_count(output.len().saturating_mul(SAMPLING), cx.parallel);
            // A task computes a grid's places once for all of its planes, so planes are divided only where they are
            // few.
            let each = if planes >= parts { planes.div_ceil(parts) * places } else { output.len().div_ceil(parts) };
            for_each_chunk(cx.parallel, output, each, &|index, output| {
                sampling.planes(*channels, index * each, output, cx.parallel);
            });
            Ok(())
        })?;
        io.push(output);
        Ok(())
    }
}

/// Looking up an element of an image takes as long as moving this many bytes.
const SAMPLING: usize = 32;

/// Elements and weights that are kept for the next plane: this many stay in L2.
const KEPT: usize = 1 << 14;

/// Axes of an image; cubic convolution reads four elements along each, so that a place reads [`KEPT`] at most.
const MOST_AXES: usize = 7;

/// An image that is looked up at the places of a grid.
struct Sampling<'a> {
    node: &'a GridSample,
    spatial: &'a [usize],
    values: &'a [f32],
    coordinates: &'a [f32],
    /// Places of an image's grid.
    places: usize,
}

impl Sampling<'_> {
    /// Writes the outputs from number `first` on, `channels` planes of places for each image.
    fn planes(&self, channels: usize, first: usize, output: &mut [f32], parallel: &dyn Parallel) {
        let taps = self.taps();
        let length = (KEPT / taps).max(1);
        let mut seen = Seen::default();
        let (mut at, mut rest) = (first, output);
        while !rest.is_empty() {
            let (plane, start) = (at / self.places, at % self.places);
            // Whole planes of one image at once, or the rest of a plane.
            let whole = (rest.len() / self.places).min(channels - plane % channels);
            let (count, end) = match start {
                0 if whole > 0 => (whole, self.places),
                _ => (1, self.places.min(start + rest.len())),
            };
            let (now, later) = rest.split_at_mut(count * (end - start));
            for block in (start..end).step_by(length) {
                if parallel.is_stopped() {
                    return;
                }
                let block = block..end.min(block + length);
                self.look(plane / channels, block.clone(), &mut seen);
                for (number, to) in now.chunks_exact_mut(end - start).enumerate() {
                    self.sum(plane + number, &seen, &mut to[block.start - start..block.end - start]);
                }
            }
            (at, rest) = (at + now.len(), later);
        }
    }

    /// Elements that a place reads: all combinations of those along each axis.
    fn taps(&self) -> usize {
        self.spatial.iter().fold(1, |taps, _| taps.saturating_mul(self.node.mode.taps()))
    }

    /// Finds the elements that the places of an image's grid read.
    fn look(&self, image: usize, places: Range<usize>, seen: &mut Seen) {
        let rank = self.spatial.len();
        seen.taps.clear();
        let grid = &self.coordinates[(image * self.places + places.start) * rank..][..places.len() * rank];
        match *self.spatial {
            [height, width] => {
                let taps = self.node.mode.taps();
                for place in grid.chunks_exact(2) {
                    if let Some(four) = self.node.inside([place[1], place[0]], [height, width]) {
                        seen.taps.extend_from_slice(&four);
                        continue;
                    }
                    let (rows, columns) = (self.node.taps(place[1], height), self.node.taps(place[0], width));
                    for &(row, by_row) in &rows[..taps] {
                        seen.taps.extend(columns[..taps].iter().map(|&(column, by_column)| {
                            let element = row.zip(column).map(|(row, column)| row * width + column);
                            (element.unwrap_or(usize::MAX), by_row * by_column)
                        }));
                    }
                }
            }
            _ => grid.chunks_exact(rank).for_each(|place| self.look_at(place, seen)),
        }
    }

    /// Finds the elements that one place reads, in any number of dimensions.
    fn look_at(&self, place: &[f32], seen: &mut Seen) {
        let mut taps: SmallVec<[(Option<usize>, f32); 16]> = SmallVec::from_slice(&[(Some(0), 1.0)]);
        // Coordinates come last axis first.
        for (&size, &coordinate) in self.spatial.iter().zip(place.iter().rev()) {
            let along = self.node.taps(coordinate, size);
            let join = |&(at, weight): &(Option<usize>, f32)| {
                let next = along.into_iter().take(self.node.mode.taps());
                next.map(move |(a, w)| (at.zip(a).map(|(at, a)| at * size + a), weight * w))
            };
            taps = taps.iter().flat_map(join).collect();
        }
        seen.taps.extend(taps.into_iter().map(|(at, weight)| (at.unwrap_or(usize::MAX), weight)));
    }

    /// The weighted sums at places of a plane.
    fn sum(&self, plane: usize, seen: &Seen, to: &mut [f32]) {
        let area: usize = self.spatial.iter().product();
        let plane = &self.values[plane * area..][..area];
        match self.taps() {
            1 => sums::<1>(plane, &seen.taps, 1, to),
            4 => sums::<4>(plane, &seen.taps, 4, to),
            8 => sums::<8>(plane, &seen.taps, 8, to),
            16 => sums::<16>(plane, &seen.taps, 16, to),
            taps => sums::<0>(plane, &seen.taps, taps, to),
        }
    }
}

/// The weighted sums at places that read `TAPS` elements each, or `taps` where that is 0.
#[inline(always)]
fn sums<const TAPS: usize>(plane: &[f32], seen: &[(usize, f32)], taps: usize, to: &mut [f32]) {
    let taps = if TAPS == 0 { taps } else { TAPS };
    for (to, seen) in to.iter_mut().zip(seen.chunks_exact(taps)) {
        // An element outside of the image is zero.
        *to = seen.iter().map(|&(at, weight)| plane.get(at).copied().unwrap_or_default() * weight).sum();
    }
}

/// Elements of a plane and their weights for some places, as many for each; `usize::MAX` is outside of the plane.
#[derive(Default)]
struct Seen {
    taps: Vec<(usize, f32)>,
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn cubic_convolution_repeats_the_border_beyond_it() {
        let row = |mode: &str| {
            let trial =
                Trial::new("GridSample").text("mode", mode).text("padding_mode", "border").int("align_corners", 1);
            // Half an element before the first one.
            trial.input(&[1, 1, 1, 2], &[1f32, 3.0]).input(&[1, 1, 1, 2], &[-2f32, 0.0])
        };
        row("cubic").gives_about(&[1, 1, 1, 1], &[0.8125]);
        row("linear").gives_about(&[1, 1, 1, 1], &[1.0]);
    }

    #[test]
    fn grids_span_the_image_from_edge_to_edge_or_centre_to_centre() {
        let row = |align| {
            let identity = Trial::new("AffineGrid")
                .int("align_corners", align)
                .input(&[1, 2, 3], &[1f32, 0.0, 0.0, 0.0, 1.0, 0.0]);
            identity.input(&[4], &[1i64, 1, 2, 2])
        };
        row(0).gives_about(&[1, 2, 2, 2], &[-0.5, -0.5, 0.5, -0.5, -0.5, 0.5, 0.5, 0.5]);
        row(1).gives_about(&[1, 2, 2, 2], &[-1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 1.0]);
        let wrong = Trial::new("AffineGrid").input(&[1, 2, 3], &[0f32; 6]).input(&[4], &[2i64, 1, 2, 2]);
        wrong.is_refused("no grid");
    }

    fn sample(mode: &str, outside: &str, align: i64, places: &[f32]) -> Trial {
        let trial =
            Trial::new("GridSample").text("mode", mode).text("padding_mode", outside).int("align_corners", align);
        trial.input(&[1, 1, 1, 4], &[1f32, 2.0, 3.0, 4.0]).input(&[1, 1, places.len() / 2, 2], places)
    }

    #[test]
    fn places_between_elements_are_interpolated() {
        sample("linear", "zeros", 1, &[-1.0, 0.0, 0.0, 0.0, 1.0, 0.0]).gives_about(&[1, 1, 1, 3], &[1.0, 2.5, 4.0]);
        sample("linear", "zeros", 0, &[-0.75, 0.0, -1.0, 0.0]).gives_about(&[1, 1, 1, 2], &[1.0, 0.5]);
        sample("nearest", "zeros", 1, &[-0.4, 0.0, 0.4, 0.0]).gives_about(&[1, 1, 1, 2], &[2.0, 3.0]);
        sample("cubic", "border", 1, &[0.0, 0.0]).gives_about(&[1, 1, 1, 1], &[2.5]);
    }

    #[test]
    fn places_outside_follow_the_padding() {
        let far = [-3.0, 0.0, 1.0 + 2.0 / 3.0, 0.0];
        sample("nearest", "zeros", 1, &far).gives_about(&[1, 1, 1, 2], &[0.0, 0.0]);
        sample("nearest", "border", 1, &far).gives_about(&[1, 1, 1, 2], &[1.0, 4.0]);
        sample("nearest", "reflection", 1, &far).gives_about(&[1, 1, 1, 2], &[4.0, 3.0]);
        let strange = [f32::NAN, 0.0, f32::INFINITY, 0.0, f32::MAX, 0.0];
        for (mode, outside) in [("linear", "zeros"), ("cubic", "reflection"), ("nearest", "border")] {
            assert_eq!(sample(mode, outside, 0, &strange).run().unwrap()[0].len(), 3, "{mode} {outside}");
        }
    }

    #[test]
    fn planes_are_the_same_on_any_number_of_threads() {
        for (images, channels, height, width) in [(2, 5, 40, 50), (1, 1, 100, 70), (1, 2, 3, 1500)] {
            let image: Vec<f32> = (0..images * channels * 6 * 7).map(|at| ((at * 37) % 101) as f32).collect();
            let count = images * height * width * 2;
            let grid: Vec<f32> = (0..count).map(|at| ((at * 61) % 257) as f32 / 100.0 - 1.3).collect();
            for mode in ["linear", "cubic", "nearest"] {
                let on = |threads| {
                    let trial = Trial::new("GridSample").text("mode", mode).input(&[images, channels, 6, 7], &image);
                    trial.input(&[images, height, width, 2], &grid).threads(threads).run().unwrap().remove(0)
                };
                let alone = on(1);
                assert!(alone.same(&on(3)), "{mode}");
                // The last place of the last plane by itself.
                let plane = &image[(images * channels - 1) * 42..];
                let trial = Trial::new("GridSample").text("mode", mode).input(&[1, 1, 6, 7], plane);
                let last = trial.input(&[1, 1, 1, 2], &grid[count - 2..]);
                last.gives(&[1, 1, 1, 1], &alone.as_slice::<f32>().unwrap()[alone.len() - 1..]);
            }
        }
    }

    #[test]
    fn grids_that_do_not_fit_are_refused() {
        let row = |grid: &[usize]| {
            let count = grid.iter().product();
            Trial::new("GridSample").input(&[1, 1, 2, 2], &[0f32; 4]).input(grid, &vec![0f32; count])
        };
        row(&[1, 1, 1, 3]).is_refused("a grid");
        row(&[2, 1, 1, 2]).is_refused("a grid");
        row(&[1, 1, 2]).is_refused("a grid");
    }
}
