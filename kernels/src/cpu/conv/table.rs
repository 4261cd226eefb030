//! Indirection tables: where each tap of each row of a tile reads.
//!
//! A table is made for a few tiles and used for all their columns, so its cost is spread over the filters. Rows away
//! from the border, which are most, need no comparison: their pointers are the origin plus the tap's offset.

use super::shape::Phase;
use crate::memory::Collect;

/// The memory that a table points into: channels-last lines, and zeros for positions outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a, T> {
    /// All elements.
    pub(crate) data: &'a [T],
    /// Zeros for padding, as many as a tap reads.
    pub(crate) zeros: &'a [T],
}

/// Tables of one phase.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    taps: Vec<Reach>,
    step: [usize; 3],
    count: [usize; 3],
    size: [usize; 3],
    channels: usize,
    /// Least and greatest offset of any tap along each dimension.
    nearest: [isize; 3],
    farthest: [isize; 3],
}

#[derive(Clone, Copy, Debug)]
struct Reach {
    at: [isize; 3],
    /// Those offsets in elements.
    elements: isize,
}

/// The origins of a tile's rows: the positions that a tap at offset zero would read.
struct Origins {
    at: [[isize; 3]; MOST_ROWS],
    /// Those positions in elements.
    elements: [isize; MOST_ROWS],
    /// Whether every tap of every row lies inside.
    inside: bool,
}

/// Most pointers of a block's table: 4 MiB, which only windows of thousands of taps reach.
pub(crate) const MOST_POINTERS: usize = 1 << 19;

/// Most rows of a tile, and so most origins at a time.
const MOST_ROWS: usize = crate::cpu::gemm::tile_size::MOST_ROWS;

impl Tables {
    /// Tables of a phase over positions of that size and number of channels.
    pub(crate) fn new(phase: &Phase, size: [usize; 3], channels: usize) -> Tables {
        let [_, height, width] = size.map(|size| size as isize);
        let elements = |at: [isize; 3]| ((at[0] * height + at[1]) * width + at[2]) * channels as isize;
        let taps = phase.taps.iter().map(|tap| Reach { at: tap.at, elements: elements(tap.at) }).collected();
        let extreme = |pick: fn(isize, isize) -> isize| {
            [0, 1, 2].map(|dim| taps.iter().map(|tap| tap.at[dim]).reduce(pick).unwrap_or(0))
        };
        let (nearest, farthest) = (extreme(isize::min), extreme(isize::max));
        Tables { taps, step: phase.step, count: phase.count, size, channels, nearest, farthest }
    }

    /// Taps.
    pub(crate) fn taps(&self) -> usize {
        self.taps.len()
    }

    /// Appends the pointers `[tap][row]` of one tile to `out`.
    pub(crate) fn tile<T>(&self, field: &Field<'_, T>, row: usize, rows: usize, out: &mut Vec<*const T>) {
        let origins = self.origins(row, rows);
        let (data, zeros) = (field.data.as_ptr(), field.zeros.as_ptr());
        let elements = &origins.elements[..rows];
        out.reserve(self.taps.len() * rows);
        for tap in &self.taps {
            let data = data.wrapping_offset(tap.elements);
            if origins.inside {
                out.extend(elements.iter().map(|&elements| data.wrapping_offset(elements)));
                continue;
            }
            out.extend(elements.iter().zip(&origins.at).map(|(&elements, at)| {
                // A negative position wraps to one beyond any size.
                let inside = (0..3).all(|dim| ((at[dim] + tap.at[dim]) as usize) < self.size[dim]);
                if inside { data.wrapping_offset(elements) } else { zeros }
            }));
        }
    }

    /// The origins of consecutive rows, a line of the output after the other.
    fn origins(&self, row: usize, rows: usize) -> Origins {
        let mut origins = Origins { at: [[0; 3]; MOST_ROWS], elements: [0; MOST_ROWS], inside: true };
        let [depth, height, width] = self.size;
        let inside = |dim: usize, first: usize, last: usize| {
            first as isize + self.nearest[dim] >= 0 && last as isize + self.farthest[dim] < self.size[dim] as isize
        };
        let (mut line, mut w, mut done) = (row / self.count[2], row % self.count[2], 0);
        while done < rows {
            let count = (rows - done).min(self.count[2] - w);
            let (slice, h) = (line / self.count[1], line % self.count[1]);
            let (image, d) = (slice / self.count[0], slice % self.count[0]);
            let [d, h, first] = [d * self.step[0], h * self.step[1], w * self.step[2]];
            // Elements are counted as if the images of a batch were one stack of depths; the border is each image's
            // own.
            let elements = (((image * depth + d) * height + h) * width + first) * self.channels;
            for along in 0..count {
                let step = along * self.step[2];
                origins.at[done + along] = [d as isize, h as isize, (first + step) as isize];
                origins.elements[done + along] = (elements + step * self.channels) as isize;
            }
            let last = first + (count - 1) * self.step[2];
            origins.inside &= inside(0, d, d) && inside(1, h, h) && inside(2, first, last);
            (done, line, w) = (done + count, line + 1, 0);
        }
        origins
    }
}
