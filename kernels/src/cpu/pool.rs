//! Pooling: the maximum, the mean or the p-norm over windows that slide along one, two or three axes.
//!
//! One window over a whole image is a reduction, done by [`reduce`](super::reduce).
//! [`problem::pool`](crate::problem::pool) is the geometry of windows, [`emit`] has the code for images with channels
//! last, [`planar`] plain Rust for images with channels first. [`Pool`] is the driver. The oracle is
//! [`reference::pool`].

pub mod emit;
mod planar;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use crate::problem::pool::{PoolKind, PoolShape, Taps, Window};
pub use emit::{Collect, PoolArgs, PoolCode};

use super::reduce::{Collapsed, Reduce, Reduction};
use crate::cpu::precision::to_bf16;
use crate::cpu::{Activations, ActivationsMut, CodeKey, CodeSource, Stored};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Code, Given};
use crate::memory;
use crate::parallel::{Disjoint, Parallel, part};
use crate::reference;

/// Most taps of a call, over all channels: about a millisecond, after which a cancelled request can end.
const CALL: usize = 1 << 22;

/// The implementation of a pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Path {
    /// Emitted code over vectors of channels.
    Code,
    /// Plain Rust over rows of a channel.
    Planar,
    /// Window by window.
    Reference,
    /// One window that is the whole image: a reduction.
    Whole,
}

impl Path {
    /// The fastest implementation that can compute the pooling.
    #[must_use]
    pub fn pick(kind: PoolKind, shape: &PoolShape, isa: Isa) -> Path {
        let fits = |path: &Path| path.fits(kind, shape, isa);
        [Path::Whole, Path::Code, Path::Planar].into_iter().find(fits).unwrap_or(Path::Reference)
    }

    /// Whether this implementation takes elements of that type.
    #[must_use]
    pub fn takes(self, stored: Stored, isa: Isa) -> bool {
        stored == Stored::F32 || (self == Path::Code && isa == Isa::Avx512)
    }

    /// Whether this implementation can compute the pooling.
    #[must_use]
    pub fn fits(self, kind: PoolKind, shape: &PoolShape, isa: Isa) -> bool {
        match self {
            Path::Code => shape.channels_last && isa.is_jit() && collect(kind).is_some(),
            Path::Planar => !shape.channels_last,
            Path::Reference => true,
            Path::Whole => isa.is_jit() && reduction(kind).is_some() && is_whole(shape),
        }
    }
}

/// Whether there is one window, which is the whole image without padding.
fn is_whole(shape: &PoolShape) -> bool {
    shape.axes.iter().all(|axis| {
        let input = axis.input as usize;
        axis.output == 1 && axis.taps(0) == Taps { first: 0, count: input } && axis.padded_taps(0) == input
    })
}

/// What a pooling of whole images computes; `None` for powers above two, which have no code.
fn reduction(kind: PoolKind) -> Option<Reduction> {
    match kind {
        PoolKind::Max => Some(Reduction::Max),
        PoolKind::Average { .. } => Some(Reduction::Mean),
        PoolKind::Lp { p: 1 } => Some(Reduction::L1),
        PoolKind::Lp { p: 2 } => Some(Reduction::L2),
        PoolKind::Lp { .. } => None,
    }
}

/// The reduction over the positions of each image.
fn positions(shape: &PoolShape) -> Collapsed {
    let dims = [shape.batch(), shape.channels(), shape.input_pixels()];
    if shape.channels_last {
        Collapsed::new(&[dims[0], dims[2], dims[1]], |axis| axis == 1)
    } else {
        Collapsed::new(&dims, |axis| axis == 2)
    }
}

/// The operation of emitted code for a kind; `None` for powers above two, which have no code.
fn collect(kind: PoolKind) -> Option<Collect> {
    match kind {
        PoolKind::Max => Some(Collect::Max),
        PoolKind::Average { .. } => Some(Collect::Sum),
        PoolKind::Lp { p: 1 } => Some(Collect::Absolute),
        PoolKind::Lp { p: 2 } => Some(Collect::Square),
        PoolKind::Lp { .. } => None,
    }
}

/// A pooling ready to run.
#[derive(Debug)]
pub struct Pool {
    kind: PoolKind,
    shape: PoolShape,
    path: Path,
    stored: Stored,
    isa: Isa,
    tasks: usize,
    code: Option<Arc<Code>>,
    whole: Option<Reduce>,
}

impl Pool {
    /// Prepares a pooling of `f32`, split into at most `tasks` tasks.
    pub fn new(
        kind: PoolKind,
        shape: PoolShape,
        isa: Isa,
        path: Path,
        tasks: usize,
        source: &dyn CodeSource,
    ) -> Result<Pool> {
        Pool::stored(kind, shape, isa, path, Stored::F32, tasks, source)
    }

    /// As [`Pool::new`], for elements of that type: only emitted code takes `bf16`.
    pub fn stored(
        kind: PoolKind,
        shape: PoolShape,
        isa: Isa,
        path: Path,
        stored: Stored,
        tasks: usize,
        source: &dyn CodeSource,
    ) -> Result<Pool> {
        let fits = path.fits(kind, &shape, isa) && path.takes(stored, isa);
        if !shape.is_valid() || matches!(kind, PoolKind::Lp { p: 0 }) || !fits {
            let reason = format!("{kind:?} of {shape:?} by {path:?} at {isa}");
            return Err(KernelError::Unsupported { family: "pool", reason });
        }
        let code = match collect(kind).filter(|_| path == Path::Code) {
            Some(collect) => Some(source.code(&CodeKey::Pool(PoolCode { isa, collect, stored }))?),
            None => None,
        };
        let whole = match reduction(kind).filter(|_| path == Path::Whole) {
            Some(reduction) => Some(Reduce::new(reduction, &positions(&shape), isa, tasks, source)?),
            None => None,
        };
        Ok(Pool { kind, shape, path, stored, isa, tasks: tasks.max(1), code, whole })
    }

    /// The implementation.
    #[must_use]
    pub fn path(&self) -> Path {
        self.path
    }

    /// Pools `input` into `output`.
    pub fn run(&self, input: &[f32], output: &mut [f32], parallel: &dyn Parallel) -> Result<()> {
        self.run_stored(input.into(), output.into(), parallel)
    }

    /// As [`Pool::run`], for elements of the type that the pool was made for.
    pub fn run_stored(
        &self,
        input: Activations<'_>,
        mut output: ActivationsMut<'_>,
        parallel: &dyn Parallel,
    ) -> Result<()> {
        if [input.stored(), output.read().stored()] != [self.stored; 2] {
            let reason = format!("{:?} where {:?} was asked for", input.stored(), self.stored);
            return Err(KernelError::Unsupported { family: "pool", reason });
        }
        let (inputs, outputs) = (self.shape.inputs(), self.shape.outputs());
        for (operand, have, need) in [("input", input.len(), inputs), ("output", output.read().len(), outputs)] {
            if have < need {
                return Err(KernelError::Bounds { family: "pool", operand, have, need });
            }
        }
        if outputs == 0 {
            return Ok(());
        }
        if let (Path::Code, Some(code)) = (self.path, &self.code) {
            let given = Given::new().read("input", input.bytes()).write("output", output.bytes_mut());
            let buffers = Buffers { input: input.bytes(), output: Disjoint::new(output.bytes_mut()), given };
            self.run_code(code, &buffers, parallel);
            return Ok(());
        }
        let (Activations::F32(input), ActivationsMut::F32(output)) = (input, output) else { return Ok(()) };
        let (input, output) = (&input[..inputs], &mut output[..outputs]);
        if let Some(whole) = &self.whole {
            // Images of many positions are added up in a few parts.
            return whole.run(input, output, &mut memory::zeroed(whole.scratch_len()), parallel);
        }
        match self.path {
            Path::Planar => planar::pool(self.isa, self.kind, &self.shape, input, output, self.tasks, parallel),
            _ => reference::pool::pool_by(parallel, self.kind, &self.shape, input, output),
        }
        Ok(())
    }

    fn run_code(&self, code: &Code, buffers: &Buffers<'_>, parallel: &dyn Parallel) {
        let shape = &self.shape;
        let rows = shape.batch() * (shape.axes[0].output * shape.axes[1].output) as usize;
        // Few rows, as when one window covers an image, are split by channels too, in units of a cache line.
        let lines = shape.channels().div_ceil(16);
        let parts = self.tasks.div_ceil(rows).min(lines);
        let tasks = self.tasks.min(rows * parts);
        parallel.run(tasks, &|task| {
            for unit in part(rows * parts, tasks, task) {
                let lines = part(lines, parts, unit % parts);
                let channels = lines.start * 16..(lines.end * 16).min(shape.channels());
                self.row(code, unit / parts, channels, buffers, parallel);
            }
        });
    }

    /// Computes one row of windows over some channels.
    fn row(
        &self,
        code: &Code,
        row: usize,
        channels: std::ops::Range<usize>,
        buffers: &Buffers<'_>,
        parallel: &dyn Parallel,
    ) {
        let shape = &self.shape;
        let [depth, height, width] = &shape.axes;
        let (image, place) = (
            row / (depth.output * height.output) as usize,
            [row / height.output as usize % depth.output as usize, row % height.output as usize],
        );
        let outer = [depth.taps(place[0]), height.taps(place[1])];
        let padded = depth.padded_taps(place[0]) * height.padded_taps(place[1]);
        let line = (image * depth.input as usize + outer[0].first) * height.input as usize + outer[1].first;
        let (interior, size) = (width.interior(), self.stored.bytes());
        let mut first = 0;
        while first < width.output as usize && !parallel.is_stopped() {
            let taps = [outer[0].count, outer[1].count, width.taps(first).count];
            // Interior windows are computed in one call, unless that takes long; windows that reach beyond the input
            // are computed one by one.
            let most = CALL / taps.iter().product::<usize>().saturating_mul(channels.len()).max(1);
            let count = if interior.contains(&first) { (interior.end - first).min(most).max(1) } else { 1 };
            let own = (row * width.output as usize + first) * shape.channels() + channels.start;
            let to = buffers.output.at(own * size);
            let pixel = line * width.input as usize + width.taps(first).first;
            let from = buffers.input.as_ptr().wrapping_add((pixel * shape.channels() + channels.start) * size);
            if taps.contains(&0) {
                for element in 0..count * channels.len() {
                    let (pixel, channel) = (element / channels.len(), element % channels.len());
                    let (at, nothing) = ((pixel * shape.channels() + channel) * size, self.kind.nothing());
                    // SAFETY: these are the channels of positions of this task's part of the output, whose elements
                    // have that type.
                    unsafe {
                        match self.stored {
                            Stored::F32 => to.wrapping_add(at).cast::<f32>().write(nothing),
                            Stored::Bf16 => to.wrapping_add(at).cast::<u16>().write(to_bf16(nothing)),
                        }
                    }
                }
            } else {
                let bytes = shape.channels() * size;
                let args = PoolArgs {
                    src: from,
                    dst: to,
                    channels: channels.len(),
                    pixels: count,
                    src_step: (width.stride as usize * bytes) as isize - (channels.len() * size) as isize,
                    dst_step: (bytes - channels.len() * size) as isize,
                    taps,
                    steps: [
                        (depth.dilation * height.input * width.input) as usize * bytes,
                        (height.dilation * width.input) as usize * bytes,
                        width.dilation as usize * bytes,
                    ],
                    scale: self.kind.scale(taps.iter().product(), padded * width.padded_taps(first)),
                };
                // SAFETY: all taps were clipped to the input, the windows of this row and these channels belong to
                // this task alone, and the code takes `PoolArgs`.
                unsafe { code.call(&args, &self.stored, &buffers.given) };
            }
            first += count;
        }
    }
}

/// The two buffers, in bytes: tasks read anywhere and write rows and channels of their own.
struct Buffers<'a> {
    input: &'a [u8],
    output: Disjoint<'a, u8>,
    given: Given,
}
