//! Depthwise convolution by sliding along lines: the arguments of a call, and how lines are cut into calls.
//!
//! A call computes a block of positions of one to four output lines, one vector of channels after the other. Every
//! input element of the block is loaded once and multiplied with all weights that read it, in width and in height;
//! weights stay in registers as far as they fit. The first and last positions of a line see fewer columns, the first
//! and last lines fewer lines: such columns and lines are left out, so there is neither padding nor a copy.
//!
//! Cases that this form does not cover (dilation, fewer channels than a vector has, lines shorter than the kernel, a
//! tensor to add) are done tap by tap ([`super::emit`]).

mod emit;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::activation::{self, Place};
use crate::cpu::chain::UnaryOp;
use crate::cpu::conv::ConvShape;
use crate::cpu::gemm::Tiles;
use crate::cpu::gemm::model::l2_bytes;
use crate::cpu::vecmath;
use crate::cpu::{CodeKey, CodeSource, Stored};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Arguments, Asm, Code, Extents, Given};

/// Most input lines that a call can see: their addresses stay in registers.
const MOST_LINES: usize = 8;
/// Most output lines of a call. Each further line saves reading some input lines twice, and has sums that need not wait
/// for each other.
pub(in crate::cpu::conv) const fn most_rows(isa: Isa) -> usize {
    match isa {
        Isa::Avx512 => 4,
        // With sixteen registers, two lines and their weights fill all.
        Isa::Portable | Isa::Avx2 => 2,
    }
}

/// Most weights with which two output lines are computed together: with more weights, the registers hold a share so
/// small that a pair gains nothing.
const PAIRED_TAPS: usize = 25;
/// Weights that a call has room for.
const MOST_TAPS: usize = 49;
/// Lanes of the widest vector.
const MOST_LANES: usize = 16;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Bounds of a block's positions, unless [`SlideCode::least`] asks for more.
const BLOCK_POSITIONS: RangeInclusive<usize> = 6..=32;

/// What shapes the instructions of a sliding kernel. Sizes are run-time arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct SlideCode {
    /// Level.
    pub isa: Isa,
    /// Kernel positions in height and width.
    pub kernel: [u8; 2],
    /// Strides in height and width.
    pub strides: [u8; 2],
    /// Applied before the store.
    pub activation: Option<UnaryOp>,
    /// Type of input and output.
    pub stored: Stored,
}

impl SlideCode {
    /// Assembles the kernel.
    pub(crate) fn emit(&self, asm: &mut Asm) -> Result<()> {
        activation::check(super::FAMILY, self.activation)?;
        if self.rows() == 0 {
            let reason = format!("{self:?} needs more registers than there are");
            return Err(KernelError::Unsupported { family: super::FAMILY, reason });
        }
        emit::slide(asm, self);
        Ok(())
    }

    /// Output lines that fit a call, 0 where not even one does.
    pub(crate) fn rows(&self) -> usize {
        let sizes = [self.kernel, self.strides].concat();
        if sizes.iter().any(|&size| size == 0 || usize::from(size) > MOST_LINES) || self.taps() > MOST_TAPS {
            return 0;
        }
        let most = if self.taps() <= PAIRED_TAPS { most_rows(self.isa) } else { 1 };
        let fits = |&rows: &usize| {
            // A fourth line takes the register of an input line. More than a pair is worth it where registers hold all
            // weights.
            let lines = if rows > 3 { MOST_LINES - 1 } else { MOST_LINES };
            let kept = if rows > 2 { self.taps() } else { 0 };
            self.lines(rows) <= lines && rows * self.flight() + kept < self.isa.registers().into()
        };
        (1..=most).rev().find(fits).unwrap_or(0)
    }

    /// Input lines that `rows` output lines see.
    fn lines(&self, rows: usize) -> usize {
        usize::from(self.strides[0]) * (rows - 1) + usize::from(self.kernel[0])
    }

    fn taps(&self) -> usize {
        usize::from(self.kernel[0]) * usize::from(self.kernel[1])
    }

    /// Positions of a line whose sums are unfinished at the same time.
    fn flight(&self) -> usize {
        usize::from(self.kernel[1]).div_ceil(self.strides[1].into())
    }

    /// The least positions of a block: its first steps start this many unconditionally.
    fn least(&self) -> usize {
        (self.flight() - 1).max(1)
    }

    /// Columns that only the first positions of a block see.
    fn head(&self) -> usize {
        usize::from(self.strides[1]) * (self.flight() - 1)
    }

    /// Columns that only the last positions of a block see.
    fn tail(&self) -> usize {
        usize::from(self.kernel[1]).saturating_sub(self.strides[1].into())
    }

    /// Where the activation is applied, with the registers that it needs besides the one for input elements.
    fn place(&self, rows: usize) -> (Option<(UnaryOp, Place)>, usize) {
        let Some(op) = self.activation else { return (None, 0) };
        let free = usize::from(self.isa.registers()) - rows * self.flight();
        let place = activation::place(op, free);
        let more = if place == Place::Registers { vecmath::temps(op).saturating_sub(1) } else { 0 };
        (Some((op, place)), more)
    }
}

/// Up to one vector, aligned for aligned loads.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Lanes([f32; MOST_LANES]);

/// The arguments of a call. Strides are in bytes; cells belong to the kernel.
#[derive(Debug)]
#[repr(C)]
struct SlideArgs {
    /// Column 0 of each input line, null for lines outside the input.
    lines: [*const u8; MOST_LINES],
    /// Output lines.
    rows: usize,
    /// Byte offset from column 0 to the block's first column: negative where columns are missing.
    start: isize,
    /// Stride of columns and of output positions: a row of all channels.
    step: usize,
    /// Columns that are missing at the start of the block.
    missing: usize,
    /// Columns in the input beyond those that start a position.
    ending: usize,
    /// Positions that start when all sums in flight are in use.
    steady: usize,
    /// Positions.
    positions: usize,
    /// The first output position.
    y: *mut u8,
    /// Stride of output lines.
    y_row: usize,
    /// Weights of the first tap.
    weights: *const f32,
    /// Added to every position, or null.
    bias: *const f32,
    /// The current vector of channels.
    channel: Cell<usize>,
    /// The last vector, which may overlap with the one before.
    last: usize,
    /// Start values of sums.
    first: Cell<Lanes>,
    /// Weights that do not fit the registers.
    table: Cell<MaybeUninit<[Lanes; MOST_TAPS]>>,
}

impl Arguments for SlideArgs {
    const FAMILY: &'static str = super::FAMILY;
    type Kernel = SlideCode;

    fn extents(&self, key: &SlideCode, extents: &mut Extents<'_>) {
        let times = Stored::F32.bytes() / key.stored.bytes();
        let [width, along] = [key.kernel[1], key.strides[1]].map(usize::from);
        let head = key.flight() - 1;
        // The last vector starts where `last` says, however many vectors come before it.
        let (first, vector) = (self.channel.get(), key.isa.lanes() * key.stored.bytes());
        let channels = self.last.max(first) - first + vector;
        // Head and tail load the columns inside the input; the steps between them load all columns that a position
        // sees.
        let started = self.steady.checked_add(head);
        let (skipped, ending) = (self.missing.min(key.head()), self.ending.min(key.tail()));
        let unseen = if ending == 0 { along.saturating_sub(width) } else { 0 };
        let columns =
            started.and_then(|all| all.checked_mul(along)?.checked_add(ending)?.checked_sub(unseen + skipped));
        let columns = columns.unwrap_or(usize::MAX);
        for &line in self.lines[..key.lines(self.rows)].iter().filter(|line| !line.is_null()) {
            let line =
                extents.read("input", line.wrapping_add(first).wrapping_add(skipped * self.step)).from(self.start);
            line.over(columns, self.step).bytes(channels);
        }
        // Outputs that are stored, and that an activation reads and writes again.
        let positions = started.unwrap_or(usize::MAX).max(self.positions);
        let output = extents.write("output", self.y.wrapping_add(first)).over(self.rows, self.y_row);
        output.over(positions, self.step).bytes(channels);
        let weights = extents.read("weights", self.weights.wrapping_byte_add(first * times));
        weights.over(key.taps(), self.step * times).bytes(channels * times);
        if !self.bias.is_null() {
            extents.read("bias", self.bias.wrapping_byte_add(first * times)).bytes(channels * times);
        }
    }
}

/// A group of output lines, as tasks see their buffers.
pub(super) struct Group<'a> {
    /// The images' first element.
    pub(super) x: *const u8,
    /// Weights of the first tap.
    pub(super) weights: *const f32,
    /// One element a channel.
    pub(super) bias: Option<&'a [f32]>,
    /// The first output line.
    pub(super) y: *mut u8,
    /// The first line's number among all output lines.
    pub(super) line: usize,
    /// Output lines, of one image and depth.
    pub(super) rows: usize,
    /// Channels, at least a vector.
    pub(super) channels: Range<usize>,
    /// All buffers.
    pub(super) given: &'a Given,
}

/// A depthwise convolution that slides along lines.
#[derive(Clone, Debug)]
pub(super) struct Slide {
    code: Arc<Code>,
    key: SlideCode,
    /// How the positions are cut into blocks, each with at least [`SlideCode::least`] positions.
    blocks: Tiles,
    /// Output positions of a line that blocks cover.
    positions: Range<usize>,
}

impl Slide {
    /// The sliding form of a convolution, if there is one.
    pub(super) fn new(
        isa: Isa,
        shape: &ConvShape,
        activation: Option<UnaryOp>,
        stored: Stored,
        source: &dyn CodeSource,
    ) -> Result<Option<Slide>> {
        let dense = |dim: usize| shape.dilations()[dim] == 1 || shape.kernel()[dim] == 1;
        let small = |sizes: [usize; 3]| Some([u8::try_from(sizes[1]).ok()?, u8::try_from(sizes[2]).ok()?]);
        let (Some(kernel), Some(strides)) = (small(shape.kernel()), small(shape.strides())) else { return Ok(None) };
        let key = SlideCode { isa, kernel, strides, activation, stored };
        let fits = isa.is_jit() && shape.kernel()[0] == 1 && dense(1) && dense(2) && shape.channels() >= isa.lanes();
        if !fits || key.rows() == 0 {
            return Ok(None);
        }
        let (stride, pad) = (shape.strides()[2], shape.pads()[2]);
        // The first block starts where all missing columns are in its head. The last block ends where each of its
        // positions starts inside the input.
        let start = pad.saturating_sub(key.head()).div_ceil(stride).min(shape.output()[2]);
        let own = stride.min(shape.kernel()[2]);
        let end = (shape.input()[2] + pad).checked_sub(own).map_or(0, |last| last / stride + 1);
        let positions = start..end.clamp(start, shape.output()[2]);
        // Bytes that a position of the output touches.
        let lines = key.lines(key.rows()) * stride + key.rows();
        let touched = shape.input_len().saturating_add(shape.output_len()).saturating_mul(stored.bytes());
        let most = match isa {
            // Data from memory is read in its order: all channels of a few positions.
            Isa::Avx512 if touched > l2_bytes() * 3 / 2 => 0,
            // No vector shares a cache line with the next one.
            Isa::Avx512 if isa.lanes() * stored.bytes() == LINE && shape.channels().is_multiple_of(isa.lanes()) => {
                usize::MAX
            }
            _ => cached(shape.channels() * stored.bytes()) / lines,
        };
        let most = most.clamp(*BLOCK_POSITIONS.start(), *BLOCK_POSITIONS.end());
        let Some(blocks) = Tiles::between(positions.len(), most, key.least()).filter(|_| !positions.is_empty()) else {
            return Ok(None);
        };
        let code = source.code(&CodeKey::Slide(key))?;
        Ok(Some(Slide { code, key, blocks, positions }))
    }

    /// Output lines that are best computed together.
    pub(super) fn rows(&self) -> usize {
        self.key.rows()
    }

    /// Positions of a line that [`Slide::run`] computes; the others see fewer columns than a block allows.
    pub(super) fn positions(&self) -> Range<usize> {
        self.positions.clone()
    }

    /// Computes its positions of a group of lines.
    ///
    /// # Safety
    ///
    /// `shape` is the one that this was made for, all pointers are to buffers that are given, of the sizes that it
    /// says, and no other task touches those channels of those output lines.
    pub(super) unsafe fn run(&self, shape: &ConvShape, group: &Group<'_>) {
        let bytes = self.key.stored.bytes();
        let pixel = shape.channels() * bytes;
        let first = group.channels.start;
        let mut args = SlideArgs {
            lines: self.lines(shape, group),
            rows: group.rows,
            start: 0,
            step: pixel,
            missing: 0,
            ending: 0,
            steady: 0,
            positions: 0,
            y: std::ptr::null_mut(),
            y_row: shape.output()[2] * pixel,
            weights: group.weights,
            bias: group.bias.map_or(std::ptr::null(), <[f32]>::as_ptr),
            channel: Cell::new(0),
            last: (group.channels.end - self.key.isa.lanes()) * bytes,
            first: Cell::new(Lanes([0.0; MOST_LANES])),
            table: Cell::new(MaybeUninit::uninit()),
        };
        let (stride, pad) = (shape.strides()[2], shape.pads()[2]);
        for block in 0..self.blocks.count() {
            let at = |block| self.positions.start + self.blocks.start(block);
            let positions = at(block)..at(block + 1);
            let column = positions.start * stride;
            args.start = (column as isize - pad as isize) * pixel as isize;
            args.missing = pad.saturating_sub(column);
            args.ending = (shape.input()[2] + pad).saturating_sub(positions.end * stride).min(self.key.tail());
            args.positions = positions.len();
            // `new` cuts no shorter block. A shorter one would wrap below zero here and let the kernel run on: checked
            // in every build.
            assert!(positions.len() >= self.key.least(), "a block of {positions:?} for {:?}", self.key);
            args.steady = positions.len() - (self.key.flight() - 1);
            args.y = group.y.wrapping_add(positions.start * pixel);
            args.channel.set(first * bytes);
            // SAFETY: the caller's contract; columns and lines outside the input are marked as missing.
            unsafe { self.code.call(&args, &self.key, group.given) };
        }
    }

    fn lines(&self, shape: &ConvShape, group: &Group<'_>) -> [*const u8; MOST_LINES] {
        let (h, rest) = (group.line % shape.output()[1], group.line / shape.output()[1]);
        let (d, image) = (rest % shape.output()[0], rest / shape.output()[0]);
        let mut lines = [std::ptr::null(); MOST_LINES];
        // A negative position wraps to one beyond any size.
        let d = (d * shape.strides()[0]).wrapping_sub(shape.pads()[0]);
        let origin = (h * shape.strides()[1]).wrapping_sub(shape.pads()[1]);
        for (offset, line) in lines[..self.key.lines(group.rows)].iter_mut().enumerate() {
            let h = origin.wrapping_add(offset);
            if d < shape.input()[0] && h < shape.input()[1] {
                let row = (image * shape.input()[0] + d) * shape.input()[1] + h;
                *line = group.x.wrapping_add(row * shape.input()[2] * shape.channels() * self.key.stored.bytes());
            }
        }
        lines
    }
}

/// Cache lines that a block may touch for one vector of channels, so that the next vector, which shares them, still
/// finds them in L1 (32 KiB of eight ways): three quarters of those that positions at this stride can occupy.
fn cached(pixel: usize) -> usize {
    const SETS: usize = 64;
    const WAYS: usize = 8;
    let distance = pixel.div_ceil(LINE);
    let shared = 1 << distance.trailing_zeros().min(SETS.ilog2());
    SETS / shared * WAYS * 3 / 4
}

// Only where calls are checked: elsewhere a call that these tests expect to be refused would run.
#[cfg(all(test, any(debug_assertions, fuzzing, feature = "extents")))]
mod tests;
