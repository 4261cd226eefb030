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

/// A row's origin: the position that a tap at offset zero would read.
#[derive(Clone, Copy, Debug, Default)]
struct Origin {
    at: [isize; 3],
    elements: isize,
    /// Whether every tap of this row lies inside.
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
        let mut origins = [Origin::default(); MOST_ROWS];
        let origins = &mut origins[..rows];
        self.origins(row, origins);
        let (data, zeros) = (field.data.as_ptr(), field.zeros.as_ptr());
        if origins.iter().all(|origin| origin.inside) {
            for tap in &self.taps {
                let data = data.wrapping_offset(tap.elements);
                out.extend(origins.iter().map(|origin| data.wrapping_offset(origin.elements)));
            }
        } else {
            for tap in &self.taps {
                out.extend(origins.iter().map(|origin| {
                    let inside = (0..3).all(|dim| {
                        // A negative position wraps to one beyond any size.
                        ((origin.at[dim] + tap.at[dim]) as usize) < self.size[dim]
                    });
                    if inside { data.wrapping_offset(origin.elements + tap.elements) } else { zeros }
                }));
            }
        }
    }

    /// The origins of consecutive rows.
    fn origins(&self, row: usize, origins: &mut [Origin]) {
        let [depth, height, width] = self.size;
        let mut w = row % self.count[2];
        let mut rest = row / self.count[2];
        let mut h = rest % self.count[1];
        rest /= self.count[1];
        let (mut d, mut image) = (rest % self.count[0], rest / self.count[0]);
        for origin in origins {
            let at = [d * self.step[0], h * self.step[1], w * self.step[2]];
            // Elements are counted as if the images of a batch were one stack of depths; the border is each image's
            // own.
            let elements = (((image * depth + at[0]) * height + at[1]) * width + at[2]) * self.channels;
            let at = at.map(|at| at as isize);
            let inside = (0..3)
                .all(|dim| at[dim] + self.nearest[dim] >= 0 && at[dim] + self.farthest[dim] < self.size[dim] as isize);
            *origin = Origin { at, elements: elements as isize, inside };
            w += 1;
            if w == self.count[2] {
                w = 0;
                h += 1;
                if h == self.count[1] {
                    h = 0;
                    d += 1;
                    if d == self.count[0] {
                        d = 0;
                        image += 1;
                    }
                }
            }
        }
    }
}
