//! Depthwise convolution: every channel has one filter of its own.
//!
//! There is nothing to reduce over but the kernel's positions, so vectors hold neighbouring channels and one call
//! computes a stretch of an output line: blocks of up to eight positions whose sums stay in registers, each weight
//! loaded once for a block. A call is given the *taps* that lie inside the input, so padding costs nothing: the few
//! positions at the ends of a line, which see fewer taps, are calls of their own.
//!
//! Data comes from the second cache or beyond in most networks; the kernel needs one load for each multiply-add and
//! an eighth more, which is what two load ports deliver.

mod emit;
mod portable;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::driver::{ConvBlocks, ConvExtras};
use super::shape::ConvShape;
use crate::cpu::activation;
use crate::cpu::chain::UnaryOp;
use crate::cpu::gemm::Tiles;
use crate::cpu::gemm::rows::part;
use crate::cpu::gemm::shared::Shared;
use crate::cpu::{CodeKey, CodeSource};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Asm, Code};
use crate::parallel::Parallel;

/// What shapes the instructions of a depthwise kernel: one blob serves all sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DepthwiseCode {
    /// Level.
    pub isa: Isa,
    /// Applied before the store.
    pub activation: Option<UnaryOp>,
}

impl DepthwiseCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        activation::check(FAMILY, self.activation)?;
        emit::row(asm, self);
        Ok(())
    }
}

/// The name of the depthwise kernels' code.
pub(crate) const FAMILY: &str = "depthwise";

/// Most positions of a block: their sums, a weight and what an activation needs fit 16 registers.
pub(crate) const MOST_POSITIONS: usize = 8;

/// A kernel position that lies inside the input: where the first output position reads, and its weights.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct RowTap {
    x: *const f32,
    weights: *const f32,
}

/// The arguments of one call: `blocks` blocks of `positions` output positions beside each other. Distances are in
/// bytes; cells are advanced by the kernel.
#[derive(Debug)]
#[repr(C)]
struct RowArgs {
    /// Positions of a block, 1 to [`MOST_POSITIONS`].
    positions: usize,
    /// Blocks still to do.
    blocks: Cell<usize>,
    /// The taps.
    taps: *const RowTap,
    /// One past the last.
    taps_end: *const RowTap,
    /// How far the block's first position is from where taps point.
    x_offset: Cell<usize>,
    /// Distance in the input of neighbouring output positions.
    x_step: usize,
    /// Distance in the input of a block and the next.
    x_block: usize,
    /// The output.
    y: Cell<*mut f32>,
    /// Distance of output positions.
    y_step: usize,
    /// Distance of a block's outputs and the next's.
    y_block: usize,
    /// Added to every position, or null.
    bias: *const f32,
    /// Not 0 where a tensor is added before the activation.
    residual: usize,
    /// Distance from an element of the output to that tensor's.
    residual_offset: isize,
    /// Bytes of the channels that fill whole vectors.
    whole: usize,
    /// Channels beyond.
    rest: usize,
}

#[derive(Clone, Debug)]
enum Kernel {
    Emitted(Arc<Code>),
    Portable(DepthwiseCode),
}

/// A depthwise convolution.
#[derive(Clone, Debug)]
pub(super) struct Depthwise {
    shape: ConvShape,
    blocks: ConvBlocks,
    isa: Isa,
    kernel: Kernel,
    /// Output positions of a line that see every kernel position in width.
    inner: Range<usize>,
}

/// The buffers of one run, as tasks see them.
struct Buffers<'a> {
    x: &'a [f32],
    weights: &'a [f32],
    y: Shared,
    extras: ConvExtras<'a>,
}

impl Depthwise {
    pub(super) fn new(
        isa: Isa,
        shape: ConvShape,
        blocks: ConvBlocks,
        activation: Option<UnaryOp>,
        source: &dyn CodeSource,
    ) -> Result<Depthwise> {
        let key = DepthwiseCode { isa, activation };
        let kernel =
            if isa.is_jit() { Kernel::Emitted(source.code(&CodeKey::Depthwise(key))?) } else { Kernel::Portable(key) };
        let (stride, pad, output) = (shape.strides[2], shape.pads[2], shape.output[2]);
        let reach = (shape.kernel[2] - 1) * shape.dilations[2];
        let start = pad.div_ceil(stride).min(output);
        let fitting = (shape.input[2] + pad).checked_sub(reach + 1).map_or(0, |last| last / stride + 1);
        Ok(Depthwise { shape, blocks, isa, kernel, inner: start..fitting.clamp(start, output) })
    }

    /// Convolves. The driver has checked that every buffer is as long as the shape says.
    pub(super) fn run(
        &self,
        x: &[f32],
        weights: &[f32],
        y: &mut [f32],
        extras: ConvExtras<'_>,
        parallel: &dyn Parallel,
    ) {
        let lines = self.shape.batch * self.shape.output[0] * self.shape.output[1];
        let buffers = Buffers { x, weights, y: Shared::new(y), extras };
        parallel.run(self.blocks.row_tasks, &|task| {
            let mut taps = Vec::with_capacity(self.shape.taps());
            for line in part(lines, self.blocks.row_tasks, task) {
                self.line(&buffers, line, &mut taps);
            }
        });
    }

    fn line(&self, buffers: &Buffers<'_>, line: usize, taps: &mut Vec<RowTap>) {
        let width = self.shape.output[2];
        for at in (0..self.inner.start).chain(self.inner.end..width) {
            self.stretch(buffers, line, at..at + 1, taps);
        }
        if !self.inner.is_empty() {
            self.stretch(buffers, line, self.inner.clone(), taps);
        }
    }

    /// Output positions of a line that all see the same taps.
    fn stretch(&self, buffers: &Buffers<'_>, line: usize, positions: Range<usize>, taps: &mut Vec<RowTap>) {
        let shape = &self.shape;
        self.taps(buffers, line, positions.start, taps);
        let step = shape.strides[2] * shape.channels * 4;
        let y = (line * shape.output[2] + positions.start) * shape.channels;
        let lanes = self.isa.lanes();
        let whole = shape.channels / lanes * lanes;
        let ends = taps.as_ptr_range();
        let mut args = RowArgs {
            positions: 0,
            blocks: Cell::new(0),
            taps: ends.start,
            taps_end: ends.end,
            x_offset: Cell::new(0),
            x_step: step,
            x_block: 0,
            y: Cell::new(buffers.y.at(y)),
            y_step: shape.channels * 4,
            y_block: 0,
            bias: buffers.extras.bias.map_or(std::ptr::null(), <[f32]>::as_ptr),
            residual: usize::from(buffers.extras.residual.is_some()),
            residual_offset: buffers
                .extras
                .residual
                .map_or(0, |residual| (residual.as_ptr() as isize).wrapping_sub(buffers.y.at(0) as isize)),
            whole: whole * 4,
            rest: shape.channels - whole,
        };
        let tiles = Tiles::new(positions.len(), MOST_POSITIONS);
        for run in tiles.runs(0..tiles.count()) {
            args.positions = run.height;
            args.blocks.set(run.count);
            args.x_block = run.height * args.x_step;
            args.y_block = run.height * args.y_step;
            // SAFETY: every tap lies inside the input for every position of the stretch, weights are a row of channels
            // for each tap, the outputs are this line's, which belongs to one task, and all buffers were checked. The
            // kernel leaves its cells at the next block, where the next run starts.
            unsafe {
                match &self.kernel {
                    Kernel::Emitted(code) => code.call(&args),
                    Kernel::Portable(key) => portable::row(key, &args),
                }
            }
        }
    }

    /// The kernel positions that lie inside the input for an output position.
    fn taps(&self, buffers: &Buffers<'_>, line: usize, position: usize, taps: &mut Vec<RowTap>) {
        let shape = &self.shape;
        let (h, rest) = (line % shape.output[1], line / shape.output[1]);
        let (d, image) = (rest % shape.output[0], rest / shape.output[0]);
        let inside = |dim: usize, output: usize, tap: usize| {
            // A negative position wraps to one beyond any size.
            let at = (output * shape.strides[dim] + tap * shape.dilations[dim]).wrapping_sub(shape.pads[dim]);
            (at < shape.input[dim]).then_some(at)
        };
        let [depth, height, width] = shape.input;
        taps.clear();
        for kd in 0..shape.kernel[0] {
            let Some(d) = inside(0, d, kd) else { continue };
            for kh in 0..shape.kernel[1] {
                let Some(h) = inside(1, h, kh) else { continue };
                for kw in 0..shape.kernel[2] {
                    let Some(w) = inside(2, position, kw) else { continue };
                    let x = (((image * depth + d) * height + h) * width + w) * shape.channels;
                    let tap = (kd * shape.kernel[1] + kh) * shape.kernel[2] + kw;
                    let weights = buffers.weights[tap * shape.channels..].as_ptr();
                    taps.push(RowTap { x: buffers.x[x..].as_ptr(), weights });
                }
            }
        }
    }
}
