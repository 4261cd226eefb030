//! Looking up images at arbitrary places: AffineGrid makes the places, GridSample looks.

use std::cmp::Ordering;
use std::ops::Range;

use kiln_kernels::cpu::blend::{Beyond, Blend, Blender, Line, MOST_TAPS, TOGETHER, Taps};
use kiln_kernels::memory::{self, Collect, Pace};
use kiln_run::exec::blend::BlendProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Shape, Tensor, TensorSpec};
use smallvec::SmallVec;

use super::wide::{filled, lent, narrow, widened};
use super::{LoadCx, OpError, Operator, dimensions, integers, refused, required};

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
        let rank = spatial.len();
        let (width, lines) = (spatial[rank - 1], spatial[..rank - 1].iter().product::<usize>());
        // Beside a zero, other sizes may be huge.
        if to.is_empty() {
            io.push(to);
            return Ok(());
        }
        let mut grid = memory::with_capacity(to.len());
        let mut pace = Pace::default();
        // The first coordinate runs along the last axis; the others, and what they add, are those of a line.
        let along: Vec<f64> = (0..width).map(|index| self.place(index, width)).collected();
        for line in 0..batch * lines {
            pace.step(width);
            let (matrix, mut rest) = (&theta[line / lines * rank * (rank + 1)..][..rank * (rank + 1)], line % lines);
            let mut sums: SmallVec<[f64; 3]> = matrix.chunks_exact(rank + 1).map(|row| row[rank]).collect();
            for (axis, &size) in spatial[..rank - 1].iter().rev().enumerate() {
                let place = self.place(rest % size, size);
                sums.iter_mut().zip(matrix.chunks_exact(rank + 1)).for_each(|(sum, row)| *sum += row[axis + 1] * place);
                rest /= size;
            }
            for &x in &along {
                grid.extend(sums.iter().zip(matrix.chunks_exact(rank + 1)).map(|(sum, row)| row[0] * x + sum));
            }
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

struct GridSample {
    mode: Mode,
    outside: Beyond,
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
        "zeros" => Beyond::Zeros,
        "border" => Beyond::Border,
        "reflection" => Beyond::Reflection,
        other => return Err(OpError::unsupported(cx.node, format!("padding_mode = {other}"))),
    };
    Ok(Box::new(GridSample { mode, outside, align: cx.node.attributes().int("align_corners") != 0 }))
}

/// The elements along an axis that a coordinate reads, with their weights: [`Mode::taps`] of them are set.
type Along = [(Option<usize>, f32); 4];

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
    fn taps(&self, coordinate: f32, size: usize) -> Along {
        let length = size as f32;
        let line = self.line(size);
        let ((least, greatest), mut place) = (line.ends(), line.place(coordinate));
        if self.mode == Mode::Nearest {
            place = rounded(place);
        }
        if place < least || place > greatest {
            place = match self.outside {
                Beyond::Zeros => place,
                // As in ONNX Runtime, cubic convolution is at the place itself, over elements that repeat the border.
                Beyond::Border if self.mode == Mode::Cubic => place,
                Beyond::Border => place.clamp(0.0, length - 1.0),
                Beyond::Reflection => reflected(place, least, greatest),
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

    /// The element at a whole place; `None` where there is none.
    #[inline]
    fn element(&self, place: f32, size: usize, least: f32, greatest: f32) -> Option<usize> {
        let last = size as f32 - 1.0;
        let inside = (0.0..=last).contains(&place);
        match self.outside {
            _ if inside => Some(place as usize),
            Beyond::Zeros => None,
            Beyond::Border => Some(place.clamp(0.0, last) as usize),
            Beyond::Reflection => Some(reflected(place, least, greatest).clamp(0.0, last) as usize),
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

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let [images, channels, spatial @ ..] = required(inputs, 0)?.shape() else {
            return Err(refused("no image"));
        };
        let [area, places] = [spatial, &outputs[0].shape[2..]].map(|sizes| sizes.iter().product::<usize>() as u64);
        let taps = (self.mode.taps() as u64).pow(spatial.len() as u32);
        let blend = Blend { images: *images as u64, channels: *channels as u64, area, places, taps };
        Ok(Prepared::new(cx.executor(&cx.key(BlendProblem { blend }))?))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let blender = prepared.get::<Blender>()?;
        let (image, grid, to) = (io.input(0)?, io.input(1)?, io.alloc(0)?);
        let (values, coordinates) = (lent::<f32>(image)?, lent::<f32>(grid)?);
        let spatial = &image.shape()[2..];
        let places: usize = to.shape()[2..].iter().product();
        let look = |image: usize, some: Range<usize>, taps: &mut Taps<'_>| {
            let rank = spatial.len();
            let grid = &coordinates[(image * places + some.start) * rank..][..some.len() * rank];
            self.look(spatial, grid, taps);
        };
        let spec = TensorSpec { dtype: DType::F32, shape: [blender.scratch()].into_iter().collect() };
        let mut scratch = Tensor::from_pool(cx.buffers, spec)?;
        let output =
            filled(to, |output| Ok(blender.run(&values, &look, scratch.as_mut_slice()?, output, cx.parallel)?))?;
        io.push(output);
        Ok(())
    }
}

/// Axes of an image. Cubic convolution reads four elements along each, and a place reads [`MOST_TAPS`] at most.
const MOST_AXES: usize = 7;
const _: () = assert!(4u64.pow(MOST_AXES as u32) <= MOST_TAPS);

impl GridSample {
    /// Finds the elements that places of an image read.
    fn look(&self, spatial: &[usize], grid: &[f32], taps: &mut Taps<'_>) {
        if let &[height, width] = spatial {
            return self.look_at_points([height, width], grid.as_chunks::<2>().0, taps);
        }
        for (at, place) in grid.chunks_exact(spatial.len()).enumerate() {
            self.look_at(spatial, place, at, taps);
        }
    }

    /// Finds the elements that places of an image of rows and columns read.
    fn look_at_points(&self, [height, width]: [usize; 2], grid: &[[f32; 2]], taps: &mut Taps<'_>) {
        let lines = [self.line(height), self.line(width)];
        let mut at = 0;
        while let Some(places) = grid.get(at..).filter(|rest| !rest.is_empty()) {
            if self.mode == Mode::Linear
                && let Some(together) = places.first_chunk()
                && taps.set_linear(at, together, lines)
            {
                at += TOGETHER;
                continue;
            }
            for &[x, y] in &places[..TOGETHER.min(places.len())] {
                let (rows, columns) = (self.taps(y, height), self.taps(x, width));
                let count = self.mode.taps();
                for (tap, (row, by_row)) in rows[..count].iter().enumerate() {
                    for (next, (column, by_column)) in columns[..count].iter().enumerate() {
                        let element = row.zip(*column).map(|(row, column)| row * width + column);
                        taps.set(at, tap * count + next, element, by_row * by_column);
                    }
                }
                at += 1;
            }
        }
    }

    /// Finds the elements that place number `at` reads, in any number of dimensions.
    fn look_at(&self, spatial: &[usize], place: &[f32], at: usize, taps: &mut Taps<'_>) {
        let mut read: SmallVec<[(Option<usize>, f32); 16]> = SmallVec::from_slice(&[(Some(0), 1.0)]);
        // Coordinates come last axis first.
        for (&size, &coordinate) in spatial.iter().zip(place.iter().rev()) {
            let along = self.taps(coordinate, size);
            let join = |&(at, weight): &(Option<usize>, f32)| {
                let next = along.into_iter().take(self.mode.taps());
                next.map(move |(a, w)| (at.zip(a).map(|(at, a)| at * size + a), weight * w))
            };
            read = read.iter().flat_map(join).collect();
        }
        for (tap, (element, weight)) in read.into_iter().enumerate() {
            taps.set(at, tap, element, weight);
        }
    }

    fn line(&self, length: usize) -> Line {
        Line { length, align: self.align, beyond: self.outside }
    }
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
    fn a_place_is_the_same_alone_and_among_others() {
        let image: Vec<f32> = (0..2 * 5 * 7).map(|at| ((at * 37) % 101) as f32 - 50.0).collect();
        let mut grid: Vec<f32> = (0..2 * 70).map(|at| ((at * 61) % 257) as f32 / 100.0 - 1.3).collect();
        let strange = [-1.0, 1.0, f32::NAN, f32::INFINITY, -1e9, 1e30, 1.0 - 1.0 / 7.0, 0.0];
        grid[64..64 + strange.len()].copy_from_slice(&strange);
        for outside in ["zeros", "border", "reflection"] {
            for (mode, align) in [("linear", 0), ("linear", 1), ("cubic", 0), ("nearest", 1)] {
                let at = |places: &[f32]| {
                    let trial = Trial::new("GridSample").text("mode", mode).text("padding_mode", outside);
                    let trial = trial.int("align_corners", align).input(&[1, 2, 5, 7], &image);
                    let output = trial.input(&[1, 1, places.len() / 2, 2], places).run().unwrap().remove(0);
                    output.as_slice::<f32>().unwrap().iter().map(|value| value.to_bits()).collect::<Vec<u32>>()
                };
                let all = at(&grid);
                for (place, coordinates) in grid.chunks_exact(2).enumerate() {
                    let among = [all[place], all[70 + place]];
                    let alone = at(coordinates);
                    let is_nan = |bits: &u32| f32::from_bits(*bits).is_nan();
                    let same = alone == among || alone.iter().all(is_nan) && among.iter().all(is_nan);
                    assert!(same, "{mode} {outside} {align} at {coordinates:?}: {among:?} and {alone:?}");
                }
            }
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
