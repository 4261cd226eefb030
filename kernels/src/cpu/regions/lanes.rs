//! Channels that are pooled side by side: one, or [`MOST_LANES`] as a vector.

use bytemuck::Zeroable;

use crate::cpu::multiversion::multiversion;
use crate::isa::Isa;
use crate::problem::regions::{MOST_LANES, Neighbours};

/// Elements of neighbouring channels. Each channel has the bits that it has alone.
pub(super) trait Lanes: Copy + Zeroable + Send + Sync {
    /// Each times the nearest number of a weight.
    fn times(self, weight: f64) -> Self;

    /// Sums of neighbours.
    fn plus(self, other: Self) -> Self;

    /// The larger of two; a number beside a NaN.
    fn larger(self, other: Self) -> Self;

    /// Each over a number.
    fn over(self, count: f64) -> Self;

    /// Adds samples to a sum: weights of rows and of columns are factors of each element's weight.
    #[inline]
    fn total(_: Isa, values: &[Self], width: usize, taps: [&[(usize, f64)]; 2], sum: &mut Self) {
        add(values, width, taps, sum);
    }
}

macro_rules! lanes {
    ($($element:ident $count:expr $(, by $total:ident)?;)*) => {$(
        impl Lanes for [$element; $count] {
            #[inline(always)]
            fn times(self, weight: f64) -> Self {
                let weight = weight as $element;
                self.map(|value| value * weight)
            }

            #[inline(always)]
            fn plus(mut self, other: Self) -> Self {
                self.iter_mut().zip(other).for_each(|(value, other)| *value += other);
                self
            }

            #[inline(always)]
            fn larger(mut self, other: Self) -> Self {
                self.iter_mut().zip(other).for_each(|(value, other)| *value = value.max(other));
                self
            }

            #[inline(always)]
            fn over(self, count: f64) -> Self {
                let count = count as $element;
                self.map(|value| value / count)
            }

            $(
                #[inline]
                fn total(isa: Isa, values: &[Self], width: usize, taps: [&[(usize, f64)]; 2], sum: &mut Self) {
                    $total(isa, values, width, taps, sum);
                }
            )?
        }
    )*};
}

lanes! {
    f32 1;
    f64 1;
    f32 MOST_LANES, by total_of_block;
}

#[inline(always)]
fn add<L: Lanes>(values: &[L], width: usize, [rows, columns]: [&[(usize, f64)]; 2], sum: &mut L) {
    let mut total = *sum;
    for &(row, by_row) in rows {
        let line = &values[row * width..][..width];
        for &(column, by_column) in columns {
            total = total.plus(line[column].times(by_row * by_column));
        }
    }
    *sum = total;
}

multiversion! {
    fn total_of_block(
        values: &[[f32; MOST_LANES]],
        width: usize,
        taps: [&[(usize, f64)]; 2],
        sum: &mut [f32; MOST_LANES]
    ) {
        add(values, width, taps, sum);
    }
}

/// Keeps the greatest weighted neighbours of samples, not of their sums: so ONNX defines it. Samples outside count as
/// zero.
pub(super) fn greatest<L: Lanes>(
    values: &[L],
    width: usize,
    [rows, columns]: [&[Neighbours]; 2],
    greatest: &mut Option<L>,
) {
    let mut meet = |part: L| *greatest = Some(greatest.map_or(part, |most| part.larger(most)));
    for row in rows {
        for column in columns {
            let (Some(row), Some(column)) = (row, column) else {
                meet(L::zeroed());
                continue;
            };
            for &(y, by_row) in row {
                for &(x, by_column) in column {
                    meet(values[y * width + x].times(by_row * by_column));
                }
            }
        }
    }
}

/// Writes elements of planes side by side.
pub(super) fn side_by_side(planes: &[f32], to: &mut [[f32; MOST_LANES]]) {
    // Neighbours of a line of the cache are copied together.
    const STRIP: usize = 16;
    let area = to.len();
    let count = planes.len() / area.max(1);
    for (strip, to) in to.chunks_mut(STRIP).enumerate() {
        for (lane, plane) in planes.chunks_exact(area).enumerate() {
            let from = &plane[strip * STRIP..][..to.len()];
            to.iter_mut().zip(from).for_each(|(to, &from)| to[lane] = from);
        }
        to.iter_mut().for_each(|to| to[count..].fill(0.0));
    }
}
