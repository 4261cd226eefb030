//! What linear sampling of an image of rows and columns reads, for several places at once and without branches.

use super::Taps;
use crate::cpu::multiversion::multiversion;
use crate::cpu::rounding::{nearest_even, nearest_whole};

/// Places that are looked up together.
pub const TOGETHER: usize = 16;

/// How elements beyond the ends of a line are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// As zeros.
    Zeros,
    /// As the element at the end.
    Border,
    /// As the element that is as far from the end on its other side.
    Reflection,
}

/// An axis of an image, and how coordinates between -1 and 1 lie on it.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Elements.
    pub length: usize,
    /// Whether -1 and 1 are the centres of the outermost elements, instead of their outer edges.
    pub align: bool,
    /// How elements beyond the ends are read.
    pub beyond: Beyond,
}

impl Line {
    /// The place among the elements of a coordinate between -1 and 1.
    #[inline(always)]
    #[must_use]
    pub fn place(&self, coordinate: f32) -> f32 {
        let length = self.length as f32;
        match self.align {
            true => (coordinate + 1.0) / 2.0 * (length - 1.0),
            false => ((coordinate + 1.0) * length - 1.0) / 2.0,
        }
    }

    /// The places of the coordinates -1 and 1.
    #[inline(always)]
    #[must_use]
    pub fn ends(&self) -> (f32, f32) {
        let length = self.length as f32;
        if self.align { (0.0, length - 1.0) } else { (-0.5, length - 0.5) }
    }
}

/// The two neighbours along an axis of each of some places: elements, -1 for one that is zero, and their weights.
#[derive(Clone, Copy)]
struct Neighbours {
    elements: [[i32; TOGETHER]; 2],
    weights: [[f32; TOGETHER]; 2],
}

/// Places of a greater distance from zero are left to others: what rounds here is for numbers of 22 bits.
const USUAL: f32 = (1 << 21) as f32;

/// A value, or the nearest end of a range that is not empty. Less than the standard library's says of NaN.
#[inline(always)]
fn clamped(value: f32, least: f32, greatest: f32) -> f32 {
    let value = if value > least { value } else { least };
    if value < greatest { value } else { greatest }
}

/// Sets the neighbours of coordinates; false where one of them is reflected, or is no usual number.
///
/// Each loop is over arrays and has no branch and no closure: so the compiler inlines all of it into each version and
/// makes vectors.
#[inline(always)]
fn find(coordinates: &[f32; TOGETHER], line: Line, found: &mut Neighbours) -> bool {
    let last = line.length as f32 - 1.0;
    let (least, greatest) = line.ends();
    let mut places = *coordinates;
    // A loop for each kind of alignment, which has no branch then.
    match line.align {
        true => places.iter_mut().for_each(|place| *place = Line { align: true, ..line }.place(*place)),
        false => places.iter_mut().for_each(|place| *place = Line { align: false, ..line }.place(*place)),
    }
    let usual = |all: bool, place: &f32| all & (place.abs() <= USUAL);
    if last >= USUAL || !places.iter().fold(true, usual) {
        return false;
    }
    match line.beyond {
        Beyond::Zeros => {}
        Beyond::Border => {
            for place in &mut places {
                let at_end = clamped(*place, 0.0, last);
                *place = if (*place < least) | (*place > greatest) { at_end } else { *place };
            }
        }
        // The neighbour of the last element is a reflected one.
        Beyond::Reflection => {
            if !places.iter().fold(true, |all, &place| all & (place >= 0.0) & (place < last)) {
                return false;
            }
        }
    }
    let mut first = [0f32; TOGETHER];
    for (first, &place) in first.iter_mut().zip(&places) {
        let near = nearest_whole(place);
        *first = if near > place { near - 1.0 } else { near };
    }
    let zeros = line.beyond == Beyond::Zeros;
    for next in 0..2 {
        let step = next as f32;
        let to = found.elements[next].iter_mut().zip(&mut found.weights[next]);
        for ((to, weight), (&first, &place)) in to.zip(first.iter().zip(&places)) {
            let element = first + step;
            let beyond = place - first;
            let part = if next == 0 { 1.0 - beyond } else { beyond };
            let is_none = zeros & ((element < 0.0) | (element > last));
            *to = if is_none { -1 } else { nearest_even(clamped(element, 0.0, last)) };
            *weight = if is_none { 0.0 } else { part };
        }
    }
    true
}

multiversion! {
    /// The corners of the squares of elements around [`TOGETHER`] places.
    fn corners(places: &[[f32; 2]; TOGETHER], lines: [Line; 2], read: &mut Taps<'_>, first: usize, done: &mut bool) {
        let (mut x, mut y) = ([0f32; TOGETHER], [0f32; TOGETHER]);
        for ((x, y), place) in x.iter_mut().zip(&mut y).zip(places) {
            [*x, *y] = *place;
        }
        let none = Neighbours { elements: [[0; TOGETHER]; 2], weights: [[0.0; TOGETHER]; 2] };
        let (mut rows, mut columns) = (none, none);
        *done = find(&y, lines[0], &mut rows) && find(&x, lines[1], &mut columns);
        if !*done {
            return;
        }
        let (width, scale, outside) = (lines[1].length as i32, read.scale as u32, read.outside);
        for corner in 0..4 {
            let (row, column) = (corner / 2, corner % 2);
            let to = corner * read.places + first;
            let elements = rows.elements[row].iter().zip(&columns.elements[column]);
            let mut offsets = [0usize; TOGETHER];
            for (offset, (&y, &x)) in offsets.iter_mut().zip(elements) {
                let element = y.wrapping_mul(width).wrapping_add(x) as u32;
                let inside = (u64::from(element) * u64::from(scale)) as usize;
                *offset = if (y | x) < 0 { outside } else { inside };
            }
            read.offsets[to..to + TOGETHER].copy_from_slice(&offsets);
            let mut weights = [0f32; TOGETHER];
            let along = rows.weights[row].iter().zip(&columns.weights[column]);
            for (weight, (by_row, by_column)) in weights.iter_mut().zip(along) {
                *weight = by_row * by_column;
            }
            read.weights[to..to + TOGETHER].copy_from_slice(&weights);
        }
    }
}

impl Taps<'_> {
    /// Sets the four elements that linear sampling reads at [`TOGETHER`] places from place `first` on, which are given
    /// as pairs of a column's and a row's coordinate. `lines` are a column of the image and a row. False, and nothing is
    /// set, where a place takes more than a few operations.
    ///
    /// # Panics
    ///
    /// Where there are not as many places, or a place reads fewer elements.
    #[inline]
    pub fn set_linear(&mut self, first: usize, places: &[[f32; 2]; TOGETHER], lines: [Line; 2]) -> bool {
        let area = lines[0].length.saturating_mul(lines[1].length);
        if area > i32::MAX as usize || self.scale > u32::MAX as usize {
            return false;
        }
        let mut done = false;
        corners(self.isa, places, lines, self, first, &mut done);
        done
    }
}
