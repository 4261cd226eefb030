//! Transposition of any rank, for elements of 1, 2, 4 and 8 bytes.
//!
//! [`geometry`] reduces a permutation to the axes that have to move, [`emit`] has the instructions for elements of 4
//! and 8 bytes, `byte_tiles` transposes tiles of smaller elements, `narrow` transposes planes of smaller elements with
//! a narrow side. [`Transpose`] is the driver: it splits the work between threads and traverses it in blocks that stay
//! in L1. The implementation of a permutation is a [`Method`]. The oracle is
//! [`reference::transpose`](crate::reference::transpose).

mod byte_tiles;
pub mod emit;
pub mod geometry;
mod narrow;
#[cfg(test)]
mod tests;
mod traversal;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use emit::{Form, Stores, TransposeArgs, TransposeCode, TransposeKernel};
pub use geometry::{Axis, Collapsed, Planes};

use crate::cpu::{CodeKey, CodeSource};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::Code;
use crate::parallel::Parallel;

/// The implementation of a permutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Method {
    /// The permutation is the identity: one copy.
    Copy,
    /// The last axis stays: contiguous runs of bytes are copied.
    Runs,
    /// Square tiles transposed in vector registers.
    Tiles,
    /// One side is 2 to 7 elements wide and dense: whole vectors, where each vector overlaps the one before.
    Narrow,
    /// Square blocks in plain Rust: for elements of 1 and 2 bytes, interleaved rows or tiles; for others, element by
    /// element.
    Blocks,
}

impl Method {
    /// The fastest method for the permutation.
    #[must_use]
    pub fn pick(collapsed: &Collapsed, element: usize, isa: Isa) -> Method {
        [Method::Copy, Method::Runs, Method::Narrow, Method::Tiles]
            .into_iter()
            .find(|method| method.fits(collapsed, element, isa))
            .unwrap_or(Method::Blocks)
    }

    /// Whether the method can do the permutation.
    #[must_use]
    pub fn fits(self, collapsed: &Collapsed, element: usize, isa: Isa) -> bool {
        let still = collapsed.rank() <= 1;
        let stays = still || collapsed.perm.last().is_some_and(|&last| usize::from(last) + 1 == collapsed.rank());
        let planes = || Planes::new(collapsed).filter(|_| isa.is_jit());
        match self {
            Method::Copy => still,
            Method::Runs => stays && !still,
            Method::Tiles => planes().is_some_and(|planes| tile(isa, element, &planes).is_some()),
            Method::Narrow => element == 4 && planes().is_some_and(|planes| narrow(isa, &planes).is_some()),
            Method::Blocks => !stays,
        }
    }
}

/// The form and the level of the largest square tile that fits a plane; a plane too small for AVX-512's takes AVX2's.
fn tile(isa: Isa, element: usize, planes: &Planes) -> Option<(fn(Stores) -> Form, Isa)> {
    let smaller = planes.rows.extent.min(planes.columns.extent);
    let isa = [isa, Isa::Avx2].into_iter().find(|isa| isa.lanes() * 4 <= smaller * element)?;
    match element {
        4 => Some((Form::Tile, isa)),
        8 => Some((Form::WideTile, isa)),
        _ => None,
    }
}

/// The form and the level for a plane with a narrow side whose other side is at least one vector long.
fn narrow(isa: Isa, planes: &Planes) -> Option<(Form, Isa)> {
    let (rows, columns) = (planes.rows, planes.columns);
    let narrow = |extent: usize| u8::try_from(extent).ok().filter(|extent| emit::NARROW.contains(extent));
    let (form, width, long) = match (narrow(rows.extent), narrow(columns.extent)) {
        (Some(width), None) if columns.output == rows.extent => (Form::Interleave(width), width, columns.extent),
        (None, Some(width)) if rows.input == columns.extent => (Form::Deinterleave(width), width, rows.extent),
        _ => return None,
    };
    let isa = if emit::HALF_TILE.contains(&width) { Isa::Avx2 } else { isa };
    (long >= isa.lanes()).then_some((form, isa))
}

/// A transposition ready to run.
#[derive(Debug)]
pub struct Transpose {
    collapsed: Collapsed,
    element: usize,
    isa: Isa,
    method: Method,
    tasks: usize,
    code: Option<(Form, Arc<Code>)>,
    /// Transposes tiles of whole cache lines, for outputs that are too large for every cache.
    stream: Option<Arc<Code>>,
}

/// Bytes of an output from which on streaming stores write it. The input has as many bytes, and few processors have an
/// L3 that holds both. An ordinary store reads the line that it overwrites from memory. 4096 x 4096 floats were
/// transposed at 15 GB/s with streaming stores and at 11 without. With half the bytes, both took the same time, and
/// with ordinary stores the next reader finds some of the output in a cache.
const STREAM: usize = 64 << 20;

impl Transpose {
    /// Prepares a permutation of elements of `element` bytes, split into at most `tasks` tasks.
    pub fn new(
        collapsed: Collapsed,
        element: usize,
        isa: Isa,
        method: Method,
        tasks: usize,
        source: &dyn CodeSource,
    ) -> Result<Transpose> {
        Transpose::streaming(collapsed, element, isa, method, tasks, source, STREAM)
    }

    /// As [`Transpose::new`], with streaming stores for outputs of at least `least` bytes.
    fn streaming(
        collapsed: Collapsed,
        element: usize,
        isa: Isa,
        method: Method,
        tasks: usize,
        source: &dyn CodeSource,
        least: usize,
    ) -> Result<Transpose> {
        if !matches!(element, 1 | 2 | 4 | 8) {
            return Err(unsupported(format!("elements of {element} bytes")));
        }
        if !collapsed.is_valid(element) {
            return Err(unsupported(format!("{collapsed:?} is no permutation of at most {} axes", geometry::MAX_RANK)));
        }
        if !method.fits(&collapsed, element, isa) {
            return Err(unsupported(format!("{method:?} does not fit {collapsed:?}")));
        }
        let code = |(form, isa)| source.code(&CodeKey::Transpose(TransposeCode { isa, form }));
        let (mut form, mut stream) = (None, None);
        if let Some(planes) = Planes::new(&collapsed) {
            let far = traversal::is_far(&planes, element);
            match method {
                Method::Tiles => {
                    let tile = tile(isa, element, &planes);
                    form = tile.map(|(form, isa)| (form(if far { Stores::Ahead } else { Stores::Near }), isa));
                    let large = far && collapsed.elements() * element >= least;
                    // Only a vector of AVX-512 is a whole cache line.
                    stream = tile.filter(|(_, isa)| large && *isa == Isa::Avx512);
                }
                Method::Narrow => form = narrow(isa, &planes),
                Method::Copy | Method::Runs | Method::Blocks => {}
            }
        }
        let stream = stream.map(|(form, isa)| code((form(Stores::Stream), isa))).transpose()?;
        let code = form.map(|form| Ok::<_, KernelError>((form.0, code(form)?))).transpose()?;
        Ok(Transpose { collapsed, element, isa, method, tasks: tasks.max(1), code, stream })
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// Transposes raw bytes.
    pub fn run(&self, input: &[u8], output: &mut [u8], parallel: &dyn Parallel) -> Result<()> {
        let need = self.collapsed.elements() * self.element;
        let have = [("input", input.len()), ("output", output.len())];
        if let Some(&(operand, have)) = have.iter().find(|&&(_, have)| have < need) {
            let (have, need) = (have / self.element, need / self.element);
            return Err(KernelError::Bounds { family: "transpose", operand, have, need });
        }
        self.turn(input, output, parallel);
        Ok(())
    }

    /// As [`Transpose::run`].
    ///
    /// # Panics
    ///
    /// If a buffer is too small: the driver that gave it is wrong.
    pub(crate) fn turn(&self, input: &[u8], output: &mut [u8], parallel: &dyn Parallel) {
        let need = self.collapsed.elements() * self.element;
        if need == 0 {
            return;
        }
        let (input, output) = (&input[..need], &mut output[..need]);
        match (self.method, &self.code) {
            (Method::Copy, _) => traversal::copy(input, output, self.tasks, parallel),
            (Method::Runs, _) => {
                let axes = geometry::axes(&self.collapsed);
                traversal::runs(&axes, self.element, input, output, self.tasks, parallel);
            }
            (_, code) => {
                if let Some(planes) = Planes::new(&self.collapsed) {
                    let code = code.as_ref().map(|(form, code)| (*form, &**code));
                    let transposer = traversal::Transposer { isa: self.isa, code, stream: self.stream.as_deref() };
                    traversal::planes(&planes, &transposer, self.element, input, output, self.tasks, parallel);
                }
            }
        }
    }
}

fn unsupported(reason: String) -> KernelError {
    KernelError::Unsupported { family: "transpose", reason }
}
