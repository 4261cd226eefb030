//! One axis of a resize: coordinates after ONNX, and the table of neighbours and weights that they give.
//!
//! Coordinates are computed in double precision, so that a coordinate exactly between two elements is seen as such.
//! Where the scale is known in single precision only, nearest elements are found by quotients in that precision: three
//! by a scale of 0.6 is five, which the quotient in double precision just misses.

use kiln_kernels::memory::{self, Pace};
use kiln_kernels::{KernelError, Result};

use super::{Mode, ResizeAxis, ResizeProblem, Rounding, Transform};

/// Where every place of the output comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Neighbours of a place.
    pub taps: usize,
    /// The neighbours of the first place, of the second, and so on, all inside of the input.
    pub places: Vec<u32>,
    /// Their weights.
    pub weights: Vec<f32>,
    /// Whether a place is outside of a crop.
    pub outside: Vec<bool>,
}

/// Neighbours of a place, before those with no weight are dropped.
fn taps(axis: &ResizeAxis, key: &ResizeProblem) -> f64 {
    let reach = match key.mode {
        Mode::Nearest(_) => return 1.0,
        Mode::Linear => 1.0,
        Mode::Cubic { .. } => 2.0,
    };
    // A reduced image is smoothed over the elements that become one.
    let stretch = if key.antialias { f64::from_bits(axis.scale).min(1.0) } else { 1.0 };
    -2.0 * (-reach / stretch).floor()
}

/// Whether the axis has a table, of no more than a few times its sizes.
pub(super) fn is_valid(axis: &ResizeAxis, key: &ResizeProblem) -> bool {
    let scale = f64::from_bits(axis.scale);
    let sizes = [axis.input, axis.output];
    scale.is_finite()
        && scale > 0.0
        && sizes.iter().all(|&size| size < 1 << 31)
        && (axis.input > 0 || axis.output == 0)
        && taps(axis, key) * axis.output as f64 <= 16.0 * (axis.input + axis.output) as f64 + 64.0
}

/// Bytes of a valid axis's table, and of the memory to make it.
pub(super) fn table_bytes(axis: &ResizeAxis, key: &ResizeProblem) -> Option<u64> {
    // A place and a weight for each tap; whether it is outside; and two slices while repetitions are looked for.
    let taps = taps(axis, key) as u64;
    taps.checked_mul(8)?.checked_add(33)?.checked_mul(axis.output)
}

/// An empty list with room for `elements` elements.
fn room<T>(elements: usize) -> Result<Vec<T>> {
    memory::try_with_capacity(elements).map_err(KernelError::Memory)
}

impl Table {
    /// The table of a valid axis.
    ///
    /// # Errors
    ///
    /// Where there is no memory for it.
    pub(super) fn new(axis: &ResizeAxis, key: &ResizeProblem) -> Result<Table> {
        let output = axis.output as usize;
        // Without places, the number of their neighbours may be too large to count.
        let taps = if output == 0 { 1 } else { taps(axis, key) as usize };
        let entries = output.saturating_mul(taps);
        // The system gives the pages of these zeros as they are written: filling a list at once would take long without
        // a check whether the request has ended.
        let (places, weights, outside) = (room(entries)?, room(entries)?, memory::zeroed(output));
        let mut table = Table { taps, places, weights, outside };
        let last = axis.input as i64 - 1;
        let (mut weights, mut pace) = (memory::zeroed(taps), Pace::default());
        for place in 0..output {
            pace.step(4 + taps);
            let at = coordinate(axis, key.mode, key.transform, place as f64);
            let crop = key.transform == Transform::TfCropAndResize;
            table.outside[place] = crop && !(0.0..=last as f64).contains(&at);
            if let Mode::Nearest(rounding) = key.mode {
                table.places.push(round(at, rounding).clamp(0.0, last as f64) as u32);
                table.weights.push(1.0);
                continue;
            }
            // Coordinates far outside of the input see its border like those one element outside.
            let at = at.clamp(-(taps as f64) - 1.0, axis.input as f64 + taps as f64);
            let first = at.floor() as i64 + 1 - taps as i64 / 2;
            weigh(axis, key, at - at.floor(), &mut weights);
            if key.exclude_outside {
                let inside = |tap: usize| (0..=last).contains(&(first + tap as i64));
                (0..taps).filter(|&tap| !inside(tap)).for_each(|tap| weights[tap] = 0.0);
                normalise(&mut weights);
            }
            for (tap, &weight) in weights.iter().enumerate() {
                table.places.push((first + tap as i64).clamp(0, last) as u32);
                table.weights.push(weight as f32);
            }
        }
        Ok(table)
    }

    /// The neighbours of a place whose weight is not zero.
    pub(super) fn at(&self, place: usize) -> impl Iterator<Item = (usize, f32)> + Clone + '_ {
        let range = place * self.taps..(place + 1) * self.taps;
        let pairs = self.places[range.clone()].iter().zip(&self.weights[range]);
        pairs.map(|(&place, &weight)| (place as usize, weight)).filter(|&(_, weight)| weight != 0.0)
    }

    /// Bytes of the table.
    pub(super) fn bytes(&self) -> usize {
        self.places.len() * 8 + self.outside.len()
    }
}

/// A place of the output over the scale.
fn quotient(axis: &ResizeAxis, mode: Mode, place: f64) -> f64 {
    let scale = f64::from_bits(axis.scale);
    let single = scale as f32;
    match mode {
        Mode::Nearest(_) if f64::from(single) == scale => f64::from(place as f32 / single),
        _ => place / scale,
    }
}

/// The coordinate in the input of a place of the output.
fn coordinate(axis: &ResizeAxis, mode: Mode, transform: Transform, place: f64) -> f64 {
    let (input, scale) = (axis.input as f64, f64::from_bits(axis.scale));
    // A scale that is no ratio of the sizes gives a width between two integers.
    let width = scale * input;
    let half_pixel = quotient(axis, mode, place + 0.5) - 0.5;
    match transform {
        Transform::HalfPixel => half_pixel,
        Transform::HalfPixelSymmetric => input / 2.0 * (1.0 - axis.output as f64 / width) + half_pixel,
        Transform::PytorchHalfPixel => {
            if width == 1.0 {
                -0.5
            } else {
                half_pixel
            }
        }
        Transform::AlignCorners => {
            if width == 1.0 {
                0.0
            } else {
                place * (input - 1.0) / (width - 1.0)
            }
        }
        Transform::Asymmetric => quotient(axis, mode, place),
        Transform::TfHalfPixelForNn => quotient(axis, mode, place + 0.5),
        Transform::TfCropAndResize => {
            let (start, end) = (f64::from(axis.start.get()), f64::from(axis.end.get()));
            let along = (end - start) * (input - 1.0);
            let from = start * (input - 1.0);
            if width == 1.0 { from + along / 2.0 } else { from + place * along / (width - 1.0) }
        }
    }
}

fn round(at: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::PreferFloor => (at - 0.5).ceil(),
        Rounding::PreferCeil => (at + 0.5).floor(),
        Rounding::Floor => at.floor(),
        Rounding::Ceil => at.ceil(),
    }
}

/// The weights of the neighbours of a coordinate that is `ratio` after an element.
fn weigh(axis: &ResizeAxis, key: &ResizeProblem, ratio: f64, weights: &mut [f64]) {
    let stretch = if key.antialias { f64::from_bits(axis.scale).min(1.0) } else { 1.0 };
    let before = 1 - weights.len() as i64 / 2;
    for (tap, weight) in weights.iter_mut().enumerate() {
        let distance = ((before + tap as i64) as f64 - ratio).abs() * stretch;
        *weight = match key.mode {
            Mode::Cubic { a } => cubic(distance, f64::from(a.get())),
            Mode::Linear | Mode::Nearest(_) => (1.0 - distance).max(0.0),
        };
    }
    if key.antialias {
        normalise(weights);
    }
}

/// Keys' convolution kernel.
fn cubic(x: f64, a: f64) -> f64 {
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

/// Makes weights add up to one, unless their sum is zero.
fn normalise(weights: &mut [f64]) {
    let sum: f64 = weights.iter().sum();
    if sum != 0.0 {
        weights.iter_mut().for_each(|weight| *weight /= sum);
    }
}

#[cfg(test)]
mod tests {
    use kiln_key::F32Bits;

    use super::*;

    fn table(mode: Mode, transform: Transform, [input, output]: [u64; 2]) -> Table {
        let scale = (output as f64 / input as f64).to_bits();
        let axis = ResizeAxis { input, output, scale, ..ResizeAxis::keep(1) };
        let (exclude_outside, antialias) = (false, false);
        let axes = [axis].into_iter().collect();
        Table::new(&axis, &ResizeProblem { mode, transform, exclude_outside, antialias, axes, width: 4 }).unwrap()
    }

    #[test]
    fn halves_are_rounded_as_asked() {
        let places = |rounding, sizes| table(Mode::Nearest(rounding), Transform::HalfPixel, sizes).places;
        // Coordinates 0.5 and 2.5.
        assert_eq!(places(Rounding::PreferFloor, [4, 2]), [0, 2]);
        assert_eq!(places(Rounding::PreferCeil, [4, 2]), [1, 3]);
        assert_eq!(places(Rounding::Floor, [4, 2]), [0, 2]);
        assert_eq!(places(Rounding::Ceil, [4, 2]), [1, 3]);
        // Coordinates -0.25, 0.25, 0.75 and 1.25.
        assert_eq!(places(Rounding::Floor, [2, 4]), [0, 0, 0, 1]);
    }

    #[test]
    fn scales_in_single_precision_reach_the_element_that_they_mean() {
        let places = |scale: f64, transform, output| {
            let axis = ResizeAxis { input: 20, output, scale: scale.to_bits(), ..ResizeAxis::keep(1) };
            let (mode, axes) = (Mode::Nearest(Rounding::Floor), [axis].into_iter().collect());
            let key = ResizeProblem { mode, transform, exclude_outside: false, antialias: false, axes, width: 4 };
            Table::new(&axis, &key).unwrap().places
        };
        // In double precision three by 0.6, rounded to single precision, is less than five.
        assert_eq!(places(f64::from(0.6f32), Transform::Asymmetric, 7), [0, 1, 3, 5, 6, 8, 10]);
        // Coordinate 4 of 4.5 by 1.5 less a half is 2.5; 1.8 has no exact half.
        assert_eq!(places(f64::from(1.8f32), Transform::TfHalfPixelForNn, 5), [0, 0, 1, 1, 2]);
        // Ratios of sizes are exact enough as they are: in single precision 18 by 1.2 is less than 15.
        assert_eq!(places(24.0 / 20.0, Transform::Asymmetric, 24)[18], 15);
    }

    #[test]
    fn weights_mix_neighbours_and_stop_at_the_border() {
        let linear = table(Mode::Linear, Transform::HalfPixel, [2, 4]);
        assert_eq!(linear.places, [0, 0, 0, 1, 0, 1, 1, 1]);
        assert_eq!(linear.weights, [0.25, 0.75, 0.75, 0.25, 0.25, 0.75, 0.75, 0.25]);
        let corners = table(Mode::Linear, Transform::AlignCorners, [2, 3]);
        let at = |place| corners.at(place).collect::<Vec<_>>();
        assert_eq!([at(0), at(2)], [[(0, 1.0)], [(1, 1.0)]]);
        assert_eq!(at(1), [(0, 0.5), (1, 0.5)]);
    }

    #[test]
    fn weights_of_every_kind_add_up_to_one() {
        for mode in [Mode::Linear, Mode::Cubic { a: F32Bits::new(-0.75) }] {
            for (exclude_outside, antialias) in [(false, false), (true, false), (false, true), (true, true)] {
                for sizes in [(5, 3), (3, 5), (7, 1), (1, 4), (100, 9)] {
                    let scale = (sizes.1 as f64 / sizes.0 as f64).to_bits();
                    let axis = ResizeAxis { input: sizes.0, output: sizes.1, scale, ..ResizeAxis::keep(1) };
                    let transform = Transform::HalfPixel;
                    let axes = [axis].into_iter().collect();
                    let key = ResizeProblem { mode, transform, exclude_outside, antialias, axes, width: 4 };
                    assert!(is_valid(&axis, &key));
                    let table = Table::new(&axis, &key).unwrap();
                    for weights in table.weights.chunks(table.taps) {
                        assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{key:?}: {weights:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn axes_without_a_sane_table_are_refused() {
        let key = |scale: f64, input, output| {
            let axis = ResizeAxis { input, output, scale: scale.to_bits(), ..ResizeAxis::keep(1) };
            let (mode, transform) = (Mode::Linear, Transform::HalfPixel);
            let axes = [axis].into_iter().collect();
            ResizeProblem { mode, transform, exclude_outside: false, antialias: true, axes, width: 4 }
        };
        for (scale, input, output) in
            [(0.0, 4, 2), (f64::NAN, 4, 2), (-1.0, 4, 2), (1e-30, 4, 2), (0.5, 0, 1), (1.0, 1 << 40, 1 << 40)]
        {
            let key = key(scale, input, output);
            assert!(!is_valid(&key.axes[0], &key), "{key:?}");
        }
    }
}
