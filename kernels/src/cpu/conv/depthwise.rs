//! Depthwise convolution: every channel has one filter of its own.
//!
//! There is nothing to reduce over but the kernel's positions, so vectors hold neighbouring channels. Most convolutions
//! [slide] along a few output lines. The others, and positions that see few columns, go *tap by tap*: one call
//! computes a stretch of an output line in blocks of up to eight positions whose sums stay in registers, each weight
//! loaded once for a block. A call is given the taps that lie inside the input, so padding costs nothing.

mod emit;
mod portable;
pub(super) mod slide;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

pub use self::slide::SlideCode;
use self::slide::{Group, Slide};
use super::blocks::ConvBlocks;
use super::extras::EpilogueOperands;
use crate::cpu::activation;
use crate::cpu::chain::UnaryOp;
use crate::cpu::gemm::Tiles;
use crate::cpu::gemm::rows::part;
use crate::cpu::{Activations, ActivationsMut, CodeKey, CodeSource, Stored};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Code, Extents};
use crate::memory;
use crate::parallel::{Disjoint, Parallel};
use crate::problem::conv::ConvShape;

/// The least taps with which one position takes some microseconds: a stop of the request is then checked between
/// positions.
const LARGE_WINDOW: usize = 1 << 10;

/// What shapes the instructions of a depthwise kernel: one blob serves all sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct DepthwiseCode {
    /// Level.
    pub isa: Isa,
    /// Applied before the store.
    pub activation: Option<UnaryOp>,
    /// Type of input, output and residual.
    pub stored: Stored,
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

/// Most positions of a block: their sums, a weight and the registers of an activation fit 16 registers.
pub(crate) const MOST_POSITIONS: usize = 8;

/// A tap that lies inside the input: where the first output position reads, and its weights.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct RowTap {
    x: *const u8,
    weights: *const f32,
}

/// The arguments of one call: `blocks` blocks of `positions` output positions beside each other. Strides are in
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
    /// The end of the taps.
    taps_end: *const RowTap,
    /// Byte offset from the addresses in taps to the block's first position.
    x_offset: Cell<usize>,
    /// Input stride of neighbouring output positions.
    x_stride: usize,
    /// Input stride of blocks.
    x_block: usize,
    /// The output.
    y: Cell<*mut u8>,
    /// Stride of output positions.
    y_stride: usize,
    /// Stride of the outputs of blocks.
    y_block: usize,
    /// Added to every position, or null.
    bias: *const f32,
    /// Not 0 where a tensor is added before the activation.
    residual: usize,
    /// Byte offset from an element of the output to that of the residual.
    residual_offset: isize,
    /// Bytes of the input's channels that fill whole vectors.
    whole: usize,
    /// Channels behind the whole vectors.
    rest: usize,
}

impl Arguments for RowArgs {
    const FAMILY: &'static str = FAMILY;
    type Kernel = DepthwiseCode;

    fn extents(&self, key: &DepthwiseCode, extents: &mut Extents<'_>) {
        if !(1..=MOST_POSITIONS).contains(&self.positions) {
            return;
        }
        // The loop over blocks runs at least once.
        let blocks = self.blocks.get().max(1);
        let (bytes, times) = (key.stored.bytes(), Stored::F32.bytes() / key.stored.bytes());
        let (stored, beside) = (self.whole + self.rest * bytes, self.whole * times + self.rest * Stored::F32.bytes());
        let taps = (self.taps_end.addr().wrapping_sub(self.taps.addr())) / size_of::<RowTap>();
        for tap in extents.list("taps", self.taps, taps) {
            let first = tap.x.wrapping_add(self.x_offset.get());
            extents.read("input", first).over(blocks, self.x_block).over(self.positions, self.x_stride).bytes(stored);
            extents.read("weights", tap.weights).bytes(beside);
        }
        let y = self.y.get();
        extents.write("output", y).over(blocks, self.y_block).over(self.positions, self.y_stride).bytes(stored);
        if self.residual != 0 {
            let residual = extents.read("residual", y).from(self.residual_offset);
            residual.over(blocks, self.y_block).over(self.positions, self.y_stride).bytes(stored);
        }
        if !self.bias.is_null() {
            extents.read("bias", self.bias).bytes(beside);
        }
    }
}

#[derive(Clone, Debug)]
enum Kernel {
    Emitted(Arc<Code>),
    Portable,
}

/// A depthwise convolution.
#[derive(Clone, Debug)]
pub(super) struct Depthwise {
    shape: ConvShape,
    blocks: ConvBlocks,
    key: DepthwiseCode,
    kernel: Kernel,
    slide: Option<Slide>,
    /// Output positions of a line that see every kernel position in width.
    inner: Range<usize>,
}

/// The buffers of one run, as tasks see them.
struct Buffers<'a> {
    x: &'a [u8],
    weights: &'a [f32],
    y: Disjoint<'a, u8>,
    extras: EpilogueOperands<'a>,
}

impl Depthwise {
    pub(super) fn new(
        isa: Isa,
        shape: ConvShape,
        blocks: ConvBlocks,
        stored: Stored,
        activation: Option<UnaryOp>,
        source: &dyn CodeSource,
    ) -> Result<Depthwise> {
        let key = DepthwiseCode { isa, activation, stored };
        let kernel =
            if isa.is_jit() { Kernel::Emitted(source.code(&CodeKey::Depthwise(key))?) } else { Kernel::Portable };
        let (stride, pad, output) = (shape.strides()[2], shape.pads()[2], shape.output()[2]);
        let reach = (shape.kernel()[2] - 1) * shape.dilations()[2];
        let start = pad.div_ceil(stride).min(output);
        let fitting = (shape.input()[2] + pad).checked_sub(reach + 1).map_or(0, |last| last / stride + 1);
        let slide = Slide::new(isa, &shape, activation, stored, source)?;
        Ok(Depthwise { shape, blocks, key, kernel, slide, inner: start..fitting.clamp(start, output) })
    }

    /// Convolves. The driver has checked that every buffer is as long as the shape says.
    pub(super) fn run(
        &self,
        x: Activations<'_>,
        weights: &[f32],
        mut y: ActivationsMut<'_>,
        extras: EpilogueOperands<'_>,
        parallel: &dyn Parallel,
    ) {
        let lines = self.shape.batch() * self.shape.output()[0] * self.shape.output()[1];
        let buffers = Buffers { x: x.bytes(), weights, y: Disjoint::new(y.bytes_mut()), extras };
        // The last vector of channels overlaps with the one before, so both are one task's.
        let lanes = self.key.isa.lanes();
        let vectors = (self.shape.channels() / lanes).max(1);
        let (row_tasks, unit_tasks) = (self.blocks.row_tasks(), self.blocks.unit_tasks());
        parallel.run(row_tasks * unit_tasks, &|task| {
            let units = part(vectors, unit_tasks, task % unit_tasks);
            let end = if units.end == vectors { self.shape.channels() } else { units.end * lanes };
            let channels = units.start * lanes..end;
            let mut taps = memory::with_capacity(self.shape.taps());
            let mut lines = part(lines, row_tasks, task / unit_tasks);
            while !lines.is_empty() && !units.is_empty() && !parallel.is_stopped() {
                let rows = self.group(&buffers, lines.clone(), &channels, &mut taps, parallel);
                lines.start += rows;
            }
        });
    }

    /// Computes the first of these lines, and the next with it where both can slide together. Returns the number of
    /// lines computed.
    fn group(
        &self,
        buffers: &Buffers<'_>,
        lines: Range<usize>,
        channels: &Range<usize>,
        taps: &mut Vec<RowTap>,
        parallel: &dyn Parallel,
    ) -> usize {
        let (line, width) = (lines.start, self.shape.output()[2]);
        // With this many taps, the positions of one line take long.
        let is_over = || self.shape.taps() >= LARGE_WINDOW && parallel.is_stopped();
        let Some(slide) = self.slide.as_ref().filter(|_| buffers.extras.residual.is_none()) else {
            for at in (0..self.inner.start).chain(self.inner.end..width) {
                if is_over() {
                    return 1;
                }
                self.stretch(buffers, line, at..at + 1, channels, taps);
            }
            if !self.inner.is_empty() {
                self.stretch(buffers, line, self.inner.clone(), channels, taps);
            }
            return 1;
        };
        let image_lines = self.shape.output()[1] - line % self.shape.output()[1];
        let rows = slide.rows().min(lines.len()).min(image_lines);
        let group = Group {
            x: buffers.x.as_ptr(),
            weights: buffers.weights.as_ptr(),
            bias: buffers.extras.bias,
            y: buffers.y.at(line * width * self.shape.channels() * self.key.stored.bytes()),
            given: buffers.extras.given,
            line,
            rows,
            channels: channels.clone(),
        };
        // SAFETY: the driver has checked all buffers; these channels of these lines are this task's, and there is at
        // least a vector of channels because a slide exists.
        unsafe { slide.run(&self.shape, &group) };
        let covered = slide.positions();
        for line in line..line + rows {
            for at in (0..covered.start).chain(covered.end..width) {
                if is_over() {
                    return rows;
                }
                self.stretch(buffers, line, at..at + 1, channels, taps);
            }
        }
        rows
    }

    /// Output positions of a line that all see the same taps.
    fn stretch(
        &self,
        buffers: &Buffers<'_>,
        line: usize,
        positions: Range<usize>,
        channels: &Range<usize>,
        taps: &mut Vec<RowTap>,
    ) {
        let shape = &self.shape;
        self.taps(buffers, line, positions.start, channels.start, taps);
        let bytes = self.key.stored.bytes();
        let step = shape.strides()[2] * shape.channels() * bytes;
        let y = (line * shape.output()[2] + positions.start) * shape.channels() + channels.start;
        let lanes = self.key.isa.lanes();
        let whole = channels.len() / lanes * lanes;
        let ends = taps.as_ptr_range();
        let mut args = RowArgs {
            positions: 0,
            blocks: Cell::new(0),
            taps: ends.start,
            taps_end: ends.end,
            x_offset: Cell::new(0),
            x_stride: step,
            x_block: 0,
            y: Cell::new(buffers.y.at(y * bytes)),
            y_stride: shape.channels() * bytes,
            y_block: 0,
            bias: buffers.extras.bias.map_or(std::ptr::null(), |bias| bias[channels.start..].as_ptr()),
            residual: usize::from(buffers.extras.residual.is_some()),
            residual_offset: buffers.extras.residual.unwrap_or(0),
            whole: whole * bytes,
            rest: channels.len() - whole,
        };
        let given = buffers.extras.given.clone().read("taps", taps);
        let tiles = Tiles::new(positions.len(), MOST_POSITIONS);
        for run in tiles.runs(0..tiles.count()) {
            args.positions = run.height;
            args.blocks.set(run.count);
            args.x_block = run.height * args.x_stride;
            args.y_block = run.height * args.y_stride;
            // SAFETY: the outputs are this line's, which belongs to one task; every tap lies inside the input for every
            // position of the stretch. The kernel leaves its cells at the next block, where the next run starts.
            unsafe {
                match &self.kernel {
                    Kernel::Emitted(code) => code.call(&args, &self.key, &given),
                    Kernel::Portable => {
                        given.check(&args, &self.key);
                        portable::row(&self.key, &args);
                    }
                }
            }
        }
    }

    /// The kernel positions that lie inside the input for an output position.
    fn taps(&self, buffers: &Buffers<'_>, line: usize, position: usize, channel: usize, taps: &mut Vec<RowTap>) {
        let shape = &self.shape;
        let (h, rest) = (line % shape.output()[1], line / shape.output()[1]);
        let (d, image) = (rest % shape.output()[0], rest / shape.output()[0]);
        let inside = |dim: usize, output: usize, tap: usize| {
            // A negative position wraps to one beyond any size.
            let at = (output * shape.strides()[dim] + tap * shape.dilations()[dim]).wrapping_sub(shape.pads()[dim]);
            (at < shape.input()[dim]).then_some(at)
        };
        let [depth, height, width] = shape.input();
        taps.clear();
        for kd in 0..shape.kernel()[0] {
            let Some(d) = inside(0, d, kd) else { continue };
            for kh in 0..shape.kernel()[1] {
                let Some(h) = inside(1, h, kh) else { continue };
                for kw in 0..shape.kernel()[2] {
                    let Some(w) = inside(2, position, kw) else { continue };
                    let x = (((image * depth + d) * height + h) * width + w) * shape.channels() + channel;
                    let tap = (kd * shape.kernel()[1] + kh) * shape.kernel()[2] + kw;
                    let weights = buffers.weights[tap * shape.channels() + channel..].as_ptr();
                    taps.push(RowTap { x: buffers.x.as_ptr().wrapping_add(x * self.key.stored.bytes()), weights });
                }
            }
        }
    }
}
