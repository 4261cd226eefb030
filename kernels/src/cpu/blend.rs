//! Weighted sums of elements at places of images: sampling by a grid.
//!
//! A caller says which elements a place reads, some places at a time, because they depend on data. [`Blend`] says how
//! many there are. [`Method::Rows`] gives each element a row of all channels first, so that a vector has channels, and
//! gives the sums their planes afterwards; [`emit`] has its instructions. [`Method::Planes`] reads the planes as they
//! are, one element at a time. Both give the same bits at every level: products are rounded before they are added, as
//! in the oracle, [`reference::blend`].

pub mod emit;
mod linear;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::transpose::{self, Collapsed, Transpose};
pub use crate::problem::blend::{Blend, MOST_TAPS};
pub use emit::{BlendArgs, BlendCode};
pub use linear::{Beyond, Line, TOGETHER};

use crate::cpu::{CodeKey, CodeSource};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Code, Given};
use crate::memory;
use crate::parallel::{Disjoint, Parallel, part};
use crate::reference;

pub(crate) const FAMILY: &str = "blend";

/// How planes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Method {
    /// Element by element, as they are.
    Planes,
    /// By emitted code, after all channels of an element have become a row.
    Rows,
}

impl Method {
    /// The method that moves and multiplies less.
    #[must_use]
    pub fn pick(blend: &Blend, isa: Isa) -> Method {
        let Blend { channels, area, places, taps, .. } = *blend;
        let planes = channels.saturating_mul(places).saturating_mul(taps.saturating_add(1));
        // Elements become rows, and sums become planes, at about one element a cycle.
        let moved = channels.saturating_mul(area.saturating_add(places));
        let vectors = channels.div_ceil(isa.lanes().max(1) as u64);
        let rows = moved.saturating_add(places.saturating_mul(taps).saturating_mul(vectors));
        if Method::Rows.fits(isa) && rows < planes { Method::Rows } else { Method::Planes }
    }

    /// Whether the method can run at that level.
    #[must_use]
    pub fn fits(self, isa: Isa) -> bool {
        self == Method::Planes || isa.is_jit()
    }
}

/// The elements that some places read, and their weights: those that places read first, then those that they read
/// second, and so on.
#[derive(Debug)]
pub struct Taps<'a> {
    offsets: &'a mut [usize],
    weights: &'a mut [f32],
    places: usize,
    isa: Isa,
    /// The distance of offsets of neighbouring elements.
    scale: usize,
    /// The offset of an element outside of the image, which is zero.
    outside: usize,
}

impl Taps<'_> {
    /// Sets element number `tap` of a place, by the element's place in its plane; `None` is outside.
    ///
    /// # Panics
    ///
    /// Where there are not as many places, or a place does not read as many elements.
    #[inline]
    pub fn set(&mut self, place: usize, tap: usize, element: Option<usize>, weight: f32) {
        let at = tap * self.places + place;
        self.offsets[at] = element.map_or(self.outside, |element| element * self.scale);
        self.weights[at] = weight;
    }
}

/// Says what some places of an image read: sets all elements of each place that is asked for. Places are counted from
/// the first of them.
pub type Look<'a> = &'a (dyn Fn(usize, Range<usize>, &mut Taps<'_>) + Sync);

/// Weighted sums ready to be computed.
#[derive(Debug)]
pub struct Blender {
    blend: Blend,
    /// Elements of all images, and values at all places.
    elements: [usize; 2],
    isa: Isa,
    tasks: usize,
    by_rows: Option<ByRows>,
}

/// What [`Method::Rows`] runs.
#[derive(Debug)]
struct ByRows {
    to_rows: Transpose,
    to_planes: Transpose,
    code: Arc<Code>,
    kernel: BlendCode,
}

/// Elements that are looked up at once: they and their weights stay in L2.
const KEPT: usize = 1 << 14;

impl Blender {
    /// Prepares the sums, split into at most `tasks` tasks.
    pub fn new(blend: Blend, isa: Isa, method: Method, tasks: usize, source: &dyn CodeSource) -> Result<Blender> {
        let elements = blend.elements().ok_or_else(|| unsupported(format!("{blend:?}")))?;
        if !method.fits(isa) {
            return Err(unsupported(format!("{method:?} at {isa}")));
        }
        let by_rows = match method {
            Method::Planes => None,
            Method::Rows => {
                let transposed = |sizes: [usize; 3]| {
                    let collapsed = Collapsed::new(&sizes, &[0, 2, 1]);
                    let method = transpose::Method::pick(&collapsed, 4, isa);
                    Transpose::new(collapsed, 4, isa, method, tasks, source)
                };
                let round = [4, 2].into_iter().find(|&round| blend.taps().is_multiple_of(round)).unwrap_or(1);
                let kernel = BlendCode { isa, round: round as u8 };
                Some(ByRows {
                    to_rows: transposed([blend.images(), blend.channels(), blend.area()])?,
                    to_planes: transposed([blend.images(), blend.places(), blend.channels()])?,
                    code: source.code(&CodeKey::Blend(kernel))?,
                    kernel,
                })
            }
        };
        Ok(Blender { blend, elements, isa, tasks: tasks.max(1), by_rows })
    }

    /// Elements of the memory that a run needs besides its operands.
    #[must_use]
    pub fn scratch(&self) -> usize {
        if self.by_rows.is_some() { self.elements[0] + self.blend.channels() + self.elements[1] } else { 0 }
    }

    /// Writes the sums: planes of places, for each image as many as it has channels.
    pub fn run(
        &self,
        values: &[f32],
        look: Look<'_>,
        scratch: &mut [f32],
        output: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let have = [values.len(), output.len(), scratch.len()];
        let need = [self.elements[0], self.elements[1], self.scratch()];
        for ((operand, have), need) in ["values", "output", "scratch"].into_iter().zip(have).zip(need) {
            if have < need {
                return Err(KernelError::Bounds { family: FAMILY, operand, have, need });
            }
        }
        if self.elements[1] == 0 {
            return Ok(());
        }
        let (values, output) = (&values[..self.elements[0]], &mut output[..self.elements[1]]);
        let Some(by_rows) = &self.by_rows else {
            self.sum_planes(values, look, output, parallel);
            return Ok(());
        };
        let (rows, sums) = scratch.split_at_mut(self.elements[0] + self.blend.channels());
        by_rows.to_rows.run(bytemuck::cast_slice(values), bytemuck::cast_slice_mut(rows), parallel)?;
        rows[self.elements[0]..].fill(0.0);
        let sums = &mut sums[..self.elements[1]];
        self.sum_rows(by_rows, rows, look, sums, parallel);
        by_rows.to_planes.run(bytemuck::cast_slice(sums), bytemuck::cast_slice_mut(output), parallel)
    }

    /// Calls `each` for all places, some of an image at a time, with what they read. `scale` and `outside` of an image
    /// say how [`Taps`] are written.
    fn in_pieces(
        &self,
        look: Look<'_>,
        [scale, outside]: [&(dyn Fn(usize) -> usize + Sync); 2],
        parallel: &dyn Parallel,
        each: &(dyn Fn(usize, Range<usize>, &Taps<'_>) + Sync),
    ) {
        let (images, places, taps) = (self.blend.images(), self.blend.places(), self.blend.taps());
        let tasks = self.tasks.min(images.saturating_mul(places));
        let length = (KEPT / taps).max(1).min((images * places).div_ceil(tasks));
        let pieces = places.div_ceil(length);
        parallel.run(tasks, &|task| {
            let (mut offsets, mut weights) = (memory::zeroed(length * taps), memory::zeroed(length * taps));
            for piece in part(images * pieces, tasks, task) {
                if parallel.is_stopped() {
                    return;
                }
                let (image, first) = (piece / pieces, piece % pieces * length);
                let some = first..places.min(first + length);
                let (offsets, weights) = (&mut offsets[..some.len() * taps], &mut weights[..some.len() * taps]);
                // An element that is not set is outside.
                offsets.fill(outside(image));
                weights.fill(0.0);
                let (isa, scale, outside) = (self.isa, scale(image), outside(image));
                let mut read = Taps { offsets, weights, places: some.len(), isa, scale, outside };
                look(image, some.clone(), &mut read);
                each(image, some, &read);
            }
        });
    }

    fn sum_planes(&self, values: &[f32], look: Look<'_>, output: &mut [f32], parallel: &dyn Parallel) {
        let (channels, area, places) = (self.blend.channels(), self.blend.area(), self.blend.places());
        let output = Disjoint::new(output);
        self.in_pieces(look, [&|_| 1, &|_| usize::MAX], parallel, &|image, some, read| {
            for plane in image * channels..(image + 1) * channels {
                // SAFETY: each piece is one task's, and pieces have different places.
                let to = unsafe { output.part(plane * places + some.start..plane * places + some.end) };
                let plane = &values[plane * area..][..area];
                reference::blend::blend(plane, read.offsets, read.weights, to);
            }
        });
    }

    /// Sums rows of channels. Behind the last row is one of zeros, which all images share.
    fn sum_rows(&self, by_rows: &ByRows, rows: &[f32], look: Look<'_>, sums: &mut [f32], parallel: &dyn Parallel) {
        let (channels, area, places) = (self.blend.channels(), self.blend.area(), self.blend.places());
        let image_of = |image: usize| image * area * channels;
        let outside = |image: usize| (self.elements[0] - image_of(image)) * 4;
        let sums = Disjoint::new(sums);
        self.in_pieces(look, [&|_| channels * 4, &outside], parallel, &|image, some, read| {
            let last = outside(image);
            assert!(read.offsets.iter().all(|&offset| offset <= last), "an element outside of all images");
            let first = (image * places + some.start) * channels;
            // SAFETY: each piece is one task's, and pieces have different places.
            let to = unsafe { sums.part(first..first + some.len() * channels) };
            let given = Given::new().read("rows", rows).write("sums", to);
            let given = given.read("offsets", read.offsets).read("weights", read.weights);
            let args = BlendArgs {
                src: rows[image_of(image)..].as_ptr(),
                dst: to.as_mut_ptr(),
                offsets: read.offsets.as_ptr(),
                weights: read.weights.as_ptr(),
                places: some.len(),
                rounds: self.blend.taps() / usize::from(by_rows.kernel.round),
                channels,
                stride: channels * 4,
            };
            // SAFETY: every offset was just found to be a row's, as many as there are weights; the sums are those of
            // the piece. The code takes `BlendArgs`.
            unsafe { by_rows.code.call(&args, &by_rows.kernel, &given) };
        });
    }
}

fn unsupported(reason: String) -> KernelError {
    KernelError::Unsupported { family: FAMILY, reason }
}
