//! Attention: softmax(scale Q K^T + mask) V by heads, block by block.
//!
//! Scores exist only for a block of queries and keys at a time, in scratch that stays in L2: the product with the keys,
//! the exponentials and the product with the values follow each other there. Where keys take more than one block, the
//! softmax is computed online: sums so far are scaled down whenever a block has a larger score. The products use
//! [`gemm`](super::gemm)'s micro-kernel. A few queries over many keys, as in text generation, are bound by memory
//! instead, and stream keys and values once, in place.
//!
//! Over a cache, each batch of a run has its own number of keys ([`cached`]). Neither these numbers nor the room of the
//! cache are in the shape, so that one executor serves every length up to the shape's. Where a cache holds codes
//! ([`held`]), the keys and then the values of a block become numbers in a tile of scratch, and products read the tile.
//! Keys and values in `f16` go the same way where there are several queries; a single query widens them in registers.
//!
//! One new position over a cache is split by positions ([`split`]): chunks of it are computed by themselves and merged
//! in their order, whatever the number of threads.
//!
//! Where the shape says so, both products are those of bf16 pairs, on AMX or by `vdpbf16ps`; the steps between them are
//! the same, in `f32`.
//!
//! [`problem::attention`](crate::problem::attention) describes the computation, [`shape`] its blocks, [`emit`] has the
//! instructions between the products, [`product`] the products of `f32`, [`pack`] packs keys into panels, [`paired`]
//! has the products of pairs. The oracle is [`reference::attention`](crate::reference::attention).

mod cached;
pub mod emit;
mod held;
mod kernel;
mod pack;
mod paired;
mod plain;
mod product;
mod scratch;
pub mod shape;
mod split;
mod stored;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use kiln_key::F32Bits;
use smallvec::SmallVec;

pub use crate::problem::attention::{AttentionShape, Held, KeyRange, Operands, Strides};
pub use cached::{Bias, Cache, Pages, Sink};
pub use emit::{Adjust, AttentionCode, Form};
pub use held::{Cells, Scales, quantize};
pub use shape::{AttentionBlocks, PAGE};

use crate::cpu::gemm::rows::part_sizes;
use crate::cpu::gemm::tile::TileArgs;
use crate::cpu::stream::{self, AHEAD_LINES, LINE, RowType, StreamArgs, StreamCode};
use crate::cpu::{Activations, ActivationsMut, CodeKey, CodeSource, Stored};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::{Code, Given};
use crate::parallel::{Disjoint, Parallel, part};
use cached::{Line, Seen};
use emit::{RowState, ScaleArgs, WeighArgs};
use kernel::Kernels;
use pack::KeyPacker;
use paired::Paired;
use product::{Product, Right, Rows};
use scratch::ScratchLayout;

pub(crate) const FAMILY: &str = "attention";

/// Attention that is ready to run.
#[derive(Clone, Debug)]
pub struct Attention {
    isa: Isa,
    shape: AttentionShape,
    blocks: AttentionBlocks,
    scores: Product,
    context: Product,
    key_packer: Option<KeyPacker>,
    /// The products, where they are those of bf16 pairs.
    paired: Option<Paired>,
    kernels: Kernels,
    /// Where queries are computed one by one.
    stream: Option<Stream>,
    layout: ScratchLayout,
    /// Whether a block of keys at a time, the rows of a cache are turned into numbers.
    widens: bool,
    /// Element types of operands and of results where these are converted before and after products of `f32`.
    around: [Stored; 2],
}

/// The kernels of single queries.
#[derive(Clone, Debug)]
struct Stream {
    /// The products with keys, and the sums of values.
    code: [Arc<Code>; 2],
    keys: [StreamCode; 2],
}

/// The buffers of a run, for all tasks.
struct Buffers<'a> {
    operands: &'a Operands<'a, Activations<'a>>,
    /// The cache that keys and values are in, where the shape says so.
    cache: Option<&'a Cache<'a>>,
    output: Disjoint<'a, u8>,
    scratch: Disjoint<'a, f32>,
    given: Given,
}

/// Rows of `f32` sums: the first element, and the elements from row to row.
#[derive(Clone, Copy)]
struct Sums {
    first: *mut f32,
    stride: usize,
}

/// One head of one batch.
struct Unit<'a> {
    given: &'a Given,
    query: *const u8,
    key: *const u8,
    value: *const u8,
    output: *mut u8,
    /// The keys that its queries see.
    seen: Seen,
    /// Offsets of its mask and of its condition, and the elements from row to row of the mask.
    mask: usize,
    mask_row: usize,
    keep: usize,
    /// Its rows of the cache, whose first row `key` and `value` point to then.
    line: Option<Line<'a>>,
    /// Its head of queries.
    head: usize,
}

/// Keys or values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Keys,
    Values,
}

/// Keys or values of a block as products read them.
struct Numbers {
    first: *const u8,
    /// The block's keys, counted from the first that is packed.
    keys: Range<usize>,
}

impl Unit<'_> {
    /// What a query starts with: a sink is a score without a value.
    fn state(&self, query: usize) -> RowState {
        let sink = self.line.and_then(|line| line.cache.sink);
        let (most, sum) = match sink {
            Some(sink) => (sink.scores[self.head * sink.head + query * sink.row], 1.0),
            None => (f32::NEG_INFINITY, 0.0),
        };
        RowState { most, sum, factor: 1.0, unused: 0.0 }
    }
}

/// The numbers of rows that blocks of queries can have.
fn block_rows(shape: &AttentionShape, blocks: &AttentionBlocks) -> SmallVec<[usize; 4]> {
    let sizes = part_sizes(shape.queries(), blocks.query_tasks());
    let blocks = sizes.flat_map(|queries| [queries.min(blocks.rows()), queries % blocks.rows()]);
    blocks.filter(|&rows| rows > 0).collect()
}

impl Attention {
    /// Prepares attention with code from `source`.
    ///
    /// # Errors
    ///
    /// For shapes and blocks that are not valid, and where code cannot be emitted.
    pub fn new(
        isa: Isa,
        mut shape: AttentionShape,
        blocks: AttentionBlocks,
        source: &dyn CodeSource,
    ) -> Result<Attention> {
        if !shape.is_valid() || !blocks.fits(&shape, isa) {
            let reason = format!("{blocks:?} for {shape:?}");
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        let rows = block_rows(&shape, &blocks);
        let paired = if blocks.stream { None } else { Paired::new(isa, &shape, &rows, source)? };
        // Only the products of pairs read and write either type.
        let around = match paired {
            Some(_) => [Stored::F32; 2],
            None => [&mut shape.stored, &mut shape.written].map(std::mem::take),
        };
        let elsewhere = blocks.stream || paired.is_some();
        let widens = shape.is_widened(isa, blocks.stream);
        let rows = if elsewhere { SmallVec::new() } else { rows };
        let scores = Product::new(isa, [shape.size(), shape.keys()], !shape.key_columns, &rows, source)?;
        // A cache that is widened has panels for one block of keys at a time.
        let packed_keys = if widens { blocks.keys() } else { shape.keys() };
        let context = Product::new(isa, [packed_keys, shape.value_size()], blocks.pack_values, &rows, source)?;
        let select = shape.keep.is_some() || shape.range == KeyRange::Window;
        let adjust = Adjust { cap: shape.cap.is_some(), select, mask: shape.mask.is_some() };
        let key_packer = match elsewhere || shape.key_columns {
            true => None,
            false => Some(KeyPacker::new(isa, scores.panels.width, source)?),
        };
        let stream = match blocks.stream && isa.is_jit() {
            true => {
                let rows = if shape.held == Held::F16 && !widens { RowType::F16 } else { RowType::F32 };
                let keys =
                    [stream::Form::Dots, stream::Form::Blend].map(|form| StreamCode { isa, form, rows, ahead: true });
                let [dots, blend] = keys.map(|key| source.code(&CodeKey::Stream(key)));
                Some(Stream { code: [dots?, blend?], keys })
            }
            false => None,
        };
        let panels = match &paired {
            Some(paired) => paired.scratch_lens(blocks.rows()),
            None if blocks.stream => [0; 3],
            None if widens => {
                let panels = blocks.keys().div_ceil(scores.panels.width);
                [panels * scores.panels.panel_len(), context.packed_len(), 0]
            }
            None => [scores.packed_len(), context.packed_len(), 0],
        };
        let mut layout =
            ScratchLayout::new(&shape, &blocks, panels, paired.as_ref().map(Paired::context_row), isa.lanes());
        if widens {
            layout.add_tile(&shape, &blocks);
        }
        let kernels = Kernels::new(isa, adjust, paired.is_some(), shape.written, source)?;
        Ok(Attention {
            isa,
            shape,
            blocks,
            scores,
            context,
            key_packer,
            paired,
            kernels,
            stream,
            layout,
            widens,
            around,
        })
    }

    /// Elements of scratch that [`Attention::run`] needs.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        self.tasks() * self.layout.end + self.partial_len() + self.widened().iter().sum::<usize>()
    }

    /// The level of its code.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The shape.
    #[must_use]
    pub fn shape(&self) -> &AttentionShape {
        &self.shape
    }

    /// The blocks in use.
    #[must_use]
    pub fn blocks(&self) -> &AttentionBlocks {
        &self.blocks
    }

    fn tasks(&self) -> usize {
        self.blocks.head_tasks() * self.blocks.query_tasks()
    }

    /// Computes attention.
    ///
    /// # Errors
    ///
    /// Where an operand is shorter than the shape says, or a mask or condition is missing or not in the shape.
    pub fn run(
        &self,
        operands: &Operands<'_>,
        output: &mut [f32],
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let Operands { query, key, value, mask, keep } = *operands;
        let operands = Operands { query: query.into(), key: key.into(), value: value.into(), mask, keep };
        self.run_stored(&operands, output.into(), scratch, parallel)
    }

    /// As [`Attention::run`], for activations stored as `f32` or `bf16`.
    ///
    /// # Errors
    ///
    /// Those of [`Attention::run`], and where activations are of another type than the shape says.
    pub fn run_stored(
        &self,
        operands: &Operands<'_, Activations<'_>>,
        output: ActivationsMut<'_>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        if self.shape.is_cached() {
            let reason = "a run without a cache over a shape with one".to_owned();
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        self.check(operands, &output, scratch)?;
        match self.around {
            [Stored::F32, Stored::F32] => self.run_as_stored(operands, None, output, scratch, parallel),
            _ => self.run_widened(operands, output, scratch, parallel),
        }
    }

    /// Computes without conversions. The caller has checked the buffers.
    fn run_as_stored(
        &self,
        operands: &Operands<'_, Activations<'_>>,
        cache: Option<&Cache<'_>>,
        mut output: ActivationsMut<'_>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let shape = &self.shape;
        if shape.units() == 0 || shape.queries() == 0 || shape.value_size() == 0 {
            return Ok(());
        }
        let Operands { query, key, value, mask, .. } = operands;
        let [key, value] = match cache {
            Some(cache) => [cache.key.in_place(), cache.value.in_place()],
            None => [key.bytes(), value.bytes()],
        };
        let given = Given::new().read("queries", query.bytes()).read("keys", key).read("values", value);
        let given = given.maybe("mask", *mask).write("output", output.bytes_mut()).write("scratch", scratch);
        let output = Disjoint::new(output.bytes_mut());
        let buffers = Buffers { operands, cache, output, scratch: Disjoint::new(scratch), given };
        if self.is_split() {
            self.run_split(&buffers, parallel);
            return Ok(());
        }
        parallel.run(self.tasks(), &|task| {
            let (heads, queries) = (task / self.blocks.query_tasks(), task % self.blocks.query_tasks());
            let heads = part(shape.units(), self.blocks.head_tasks(), heads);
            let queries = part(shape.queries(), self.blocks.query_tasks(), queries);
            if !queries.is_empty() {
                self.heads(&buffers, buffers.scratch.at(task * self.layout.end), heads, &queries, parallel);
            }
        });
        Ok(())
    }

    fn check(
        &self,
        operands: &Operands<'_, Activations<'_>>,
        output: &ActivationsMut<'_>,
        scratch: &[f32],
    ) -> Result<()> {
        let Operands { query, key, value, .. } = operands;
        let output = output.read();
        let [stored, written] = match self.paired {
            Some(_) => [self.shape.stored, self.shape.written],
            None => self.around,
        };
        if [query, key, value].iter().any(|it| it.stored() != stored) || output.stored() != written {
            let reason =
                format!("{:?}, {:?}, {:?} to {:?}", query.stored(), key.stored(), value.stored(), output.stored());
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        let Some([query, key, value, out, mask, keep]) = self.shape.needs() else { return Ok(()) };
        let sizes = [
            ("queries", operands.query.len(), query),
            ("keys", operands.key.len(), key),
            ("values", operands.value.len(), value),
            ("output", output.len(), out),
            ("mask", operands.mask.map_or(0, <[f32]>::len), mask),
            ("condition", operands.keep.map_or(0, <[u8]>::len), keep),
            ("scratch", scratch.len(), self.scratch_len()),
        ];
        match sizes.into_iter().find(|&(_, have, need)| have < need) {
            None => Ok(()),
            Some((operand, have, need)) => Err(KernelError::Bounds { family: FAMILY, operand, have, need }),
        }
    }

    /// The same range of queries of several heads.
    fn heads(
        &self,
        buffers: &Buffers<'_>,
        scratch: *mut f32,
        heads: Range<usize>,
        queries: &Range<usize>,
        parallel: &dyn Parallel,
    ) {
        let mut packed = None;
        for unit in heads {
            let (batch, head) = (unit / self.shape.heads(), unit % self.shape.heads());
            let own = (batch, head / self.shape.shared());
            let unit = self.unit(buffers, batch, head);
            if packed != Some(own) {
                self.pack(&unit, scratch);
                packed = Some(own);
            }
            for first in queries.clone().step_by(self.blocks.rows()) {
                if parallel.is_stopped() {
                    return;
                }
                let rows = self.blocks.rows().min(queries.end - first);
                self.block(buffers, &unit, scratch, first, rows);
            }
        }
    }

    fn unit<'b>(&self, buffers: &'b Buffers<'_>, batch: usize, head: usize) -> Unit<'b> {
        let shape = &self.shape;
        let at = |steps: Strides, head: usize| batch * steps.batch() + head * steps.head();
        let own = head / shape.shared();
        let (read, written) = (shape.stored.bytes(), shape.written.bytes());
        let in_place = |side: Side| {
            let (steps, operand) = match side {
                Side::Keys => (shape.key, buffers.operands.key),
                Side::Values => (shape.value, buffers.operands.value),
            };
            match buffers.cache {
                None => operand.as_ptr().wrapping_add(at(steps, own) * read),
                Some(cache) if side == Side::Keys => cache.key.in_place().as_ptr(),
                Some(cache) => cache.value.in_place().as_ptr(),
            }
        };
        let mask = match buffers.cache.and_then(|cache| cache.bias) {
            Some(bias) => (at(bias.strides(), head) + bias.first[batch], bias.row),
            None => shape.mask.map_or((0, 0), |steps| (at(steps, head), steps.row())),
        };
        Unit {
            given: &buffers.given,
            query: buffers.operands.query.as_ptr().wrapping_add(at(shape.query, head) * read),
            key: in_place(Side::Keys),
            value: in_place(Side::Values),
            output: buffers.output.at(at(shape.output, head) * written),
            seen: Seen::of(shape, buffers.cache, batch),
            mask: mask.0,
            mask_row: mask.1,
            keep: shape.keep.map_or(0, |steps| at(steps, head)),
            line: buffers.cache.map(|cache| Line { cache, batch, head: own }),
            head,
        }
    }

    /// Packs the operands that the micro-kernel cannot read in place.
    fn pack(&self, unit: &Unit<'_>, scratch: *mut f32) {
        if self.blocks.stream || self.widens {
            return;
        }
        match &unit.line {
            // Pages are whole blocks, and blocks are whole panels.
            Some(line) => line.parts().for_each(|keys| self.pack_part(unit, scratch, keys)),
            None => self.pack_part(unit, scratch, 0..unit.seen.keys),
        }
    }

    /// Packs keys and values whose rows follow each other.
    fn pack_part(&self, unit: &Unit<'_>, scratch: *mut f32, keys: Range<usize>) {
        let shape = &self.shape;
        let values = scratch.wrapping_add(self.layout.values);
        let [key, value] = [Side::Keys, Side::Values].map(|side| self.row_of(unit, side, keys.start));
        // SAFETY: `check` made sure of the operands, `ScratchLayout` has the panels of both, and scratch is the task's
        // own.
        unsafe {
            if let Some(paired) = &self.paired {
                paired.pack_keys(key, keys.clone(), scratch, unit.given);
                return paired.pack_values(value, keys, values, unit.given);
            }
            match &self.key_packer {
                Some(packer) => {
                    let to = scratch.wrapping_add(keys.start * shape.size());
                    packer.pack(key.cast(), shape.key.row(), [keys.len(), shape.size()], to, unit.given);
                }
                None => self.scores.pack(key.cast(), shape.key.row(), shape.size(), scratch),
            }
            let to = values.wrapping_add(keys.start * self.context.panels.width);
            self.context.pack(value.cast(), shape.value.row(), keys.len(), to);
        }
    }

    /// The row of a key, or of its value, where products read rows in place.
    fn row_of(&self, unit: &Unit<'_>, side: Side, key: usize) -> *const u8 {
        let (first, row) = match side {
            Side::Keys => (unit.key, self.shape.key.row()),
            Side::Values => (unit.value, self.shape.value.row()),
        };
        let at = unit.line.map_or(key, |line| line.row(key));
        first.wrapping_add(at * row * self.element())
    }

    /// One block of queries, by all keys that they see.
    fn block(&self, buffers: &Buffers<'_>, unit: &Unit<'_>, scratch: *mut f32, first: usize, rows: usize) {
        let shape = &self.shape;
        let state = scratch.wrapping_add(self.layout.state).cast::<RowState>();
        for row in 0..rows {
            let start = unit.state(first + row);
            // SAFETY: `ScratchLayout` has a state for each row of a block.
            unsafe { state.add(row).write(start) };
        }
        let output = unit.output.wrapping_add(first * shape.output.row() * shape.written.bytes());
        // Sums of the values of some keys only.
        let sums = match &self.paired {
            Some(paired) => Sums { first: scratch.wrapping_add(self.layout.context), stride: paired.context_row() },
            None => Sums { first: output.cast(), stride: shape.output.row() },
        };
        if let Some(paired) = &self.paired {
            let query = unit.query.wrapping_add(first * shape.query.row() * shape.stored.bytes());
            // SAFETY: `check` made sure of the queries, and the scratch layout has a block of them.
            unsafe { paired.round_queries(query, rows, scratch.wrapping_add(self.layout.queries), unit.given) };
        }
        let keys = unit.seen.end(first + rows - 1);
        if keys == 0 {
            return self.clear(sums, rows);
        }
        // Blocks start at the same keys, whatever keys a window leaves out.
        let from = unit.seen.start(first) / self.blocks.keys() * self.blocks.keys();
        self.walk(buffers, unit, scratch, first..first + rows, from..keys, sums);
        for row in 0..rows {
            // SAFETY: as above.
            self.close(unsafe { &mut *state.add(row) });
        }
        let to_stride = shape.output.row() * shape.written.bytes();
        // SAFETY: as above.
        unsafe { self.kernels.finish(&self.scaling(sums, output, to_stride, state, rows), unit.given) };
    }

    /// Adds up the values of these keys, weighted for each query. The queries' states are in scratch.
    fn walk(
        &self,
        buffers: &Buffers<'_>,
        unit: &Unit<'_>,
        scratch: *mut f32,
        queries: Range<usize>,
        keys: Range<usize>,
        sums: Sums,
    ) {
        let (from, rows) = (keys.start, queries.len());
        let state = scratch.wrapping_add(self.layout.state).cast::<RowState>();
        for start in keys.clone().step_by(self.blocks.keys()) {
            let block = start..keys.end.min(start + self.blocks.keys());
            self.widen(unit, scratch, Side::Keys, block.clone());
            self.score(unit, scratch, queries.clone(), block.clone());
            self.weigh(buffers, unit, scratch, queries.clone(), block.clone());
            if start > from {
                // SAFETY: sums are in scratch, or in the output that `check` made sure of, and are this task's own.
                unsafe {
                    self.kernels.scale(&self.scaling(sums, sums.first.cast(), sums.stride * 4, state, rows), unit.given)
                };
            }
            self.widen(unit, scratch, Side::Values, block.clone());
            self.blend(unit, scratch, sums, rows, block, start > from);
        }
    }

    /// Sums of no values.
    fn clear(&self, sums: Sums, rows: usize) {
        for row in 0..rows {
            let first = sums.first.wrapping_add(row * sums.stride);
            // SAFETY: sums are in scratch, or in the output that `check` made sure of, and are this task's own.
            unsafe { std::slice::from_raw_parts_mut(first, self.shape.value_size()) }.fill(0.0);
        }
    }

    /// Sets the factor of a query's sums, when all its keys are in them.
    fn close(&self, state: &mut RowState) {
        let nothing = self.shape.blind_is_zero && state.sum == 0.0;
        state.factor = if nothing { 0.0 } else { 1.0 / state.sum };
    }

    /// Turns the rows of a block into numbers, in a tile, and packs those that the micro-kernel cannot read there.
    fn widen(&self, unit: &Unit<'_>, scratch: *mut f32, side: Side, keys: Range<usize>) {
        let Some(line) = unit.line.filter(|_| self.widens) else { return };
        let (cells, size) = match side {
            Side::Keys => (&line.cache.key, self.shape.size()),
            Side::Values => (&line.cache.value, self.shape.value_size()),
        };
        let (tile, count) = (scratch.wrapping_add(self.layout.tile), keys.len());
        // SAFETY: `ScratchLayout` has a tile of a block's keys or values, which is the task's own.
        let to = unsafe { std::slice::from_raw_parts_mut(tile, count * size) };
        let first = line.row(keys.start);
        cells.widen(self.isa, first..first + count, line.head, size, to);
        if self.blocks.stream {
            return;
        }
        // SAFETY: the tile has just been written, and `ScratchLayout` has panels of a block of both.
        unsafe {
            match (side, &self.key_packer) {
                (Side::Keys, Some(packer)) => packer.pack(tile, size, [count, size], scratch, unit.given),
                (Side::Keys, None) => self.scores.pack(tile, size, size, scratch),
                (Side::Values, _) => self.context.pack(tile, size, count, scratch.wrapping_add(self.layout.values)),
            }
        }
    }

    /// The first row of these keys or values, as numbers or, where registers widen them, as stored; and the keys as
    /// panels and packed values count them.
    fn numbers(&self, unit: &Unit<'_>, scratch: *mut f32, side: Side, keys: Range<usize>) -> Numbers {
        if self.widens {
            return Numbers { first: scratch.wrapping_add(self.layout.tile).cast(), keys: 0..keys.len() };
        }
        Numbers { first: self.row_of(unit, side, keys.start), keys }
    }

    /// Bytes of an element of the rows that products read: in place, or in a tile.
    fn element(&self) -> usize {
        self.shape.held.element_bytes().filter(|_| !self.widens).unwrap_or(4)
    }

    /// The address from which a query's call over these keys prefetches: each query's call takes its part of the keys
    /// or values of the next block. A block is computed out of L1 and L2, and memory would be idle meanwhile.
    fn ahead(&self, unit: &Unit<'_>, side: Side, keys: &Range<usize>, query: usize) -> *const u8 {
        let (row, size) = match side {
            Side::Keys => (self.shape.key.row(), self.shape.size()),
            Side::Values => (self.shape.value.row(), self.shape.value_size()),
        };
        let of_row = row * self.element();
        let lanes = self.isa.lanes();
        let steps = match side {
            Side::Keys => keys.len() / lanes * (size / lanes),
            Side::Values => keys.len() * size.div_ceil(8 * lanes),
        };
        let done = query * steps * AHEAD_LINES * LINE;
        let following = unit.seen.keys.saturating_sub(keys.end).min(self.blocks.keys());
        let is_wanted = row == size && !self.widens && done < following * of_row;
        match is_wanted {
            true => self.row_of(unit, side, keys.end).wrapping_add(done),
            false => self.row_of(unit, side, keys.start),
        }
    }

    /// Writes the products of queries and keys to scratch.
    fn score(&self, unit: &Unit<'_>, scratch: *mut f32, queries: Range<usize>, keys: Range<usize>) {
        let (shape, layout) = (&self.shape, &self.layout);
        let scores = scratch.wrapping_add(layout.scores);
        let query = unit.query.cast::<f32>().wrapping_add(queries.start * shape.query.row());
        if let Some(Stream { code: [dots, _], keys: [key, _] }) = &self.stream {
            for row in 0..queries.len() {
                let args = StreamArgs {
                    left: query.wrapping_add(row * shape.query.row()),
                    rows: self.numbers(unit, scratch, Side::Keys, keys.clone()).first,
                    stride: shape.key.row() * self.element(),
                    count: keys.len(),
                    columns: shape.size(),
                    out: scores.wrapping_add(row * layout.row),
                    resume: 0,
                    scale: shape.scale.get(),
                    ahead: self.ahead(unit, Side::Keys, &keys, row),
                };
                // SAFETY: `check` made sure of queries and keys, a row of scores has the block's keys, and
                // the code takes `StreamArgs`.
                unsafe { dots.call(&args, key, unit.given) };
            }
            return;
        }
        if let Some(paired) = &self.paired {
            let packed = [scratch.wrapping_add(layout.queries), scratch].map(<*mut f32>::cast_const);
            let to = Sums { first: scores, stride: layout.row };
            // SAFETY: both have been packed, and `ScratchLayout` has whole tile rows of scores of whole panels.
            return unsafe { paired.score(packed, queries.len(), keys, to, unit.given) };
        }
        let mut args = TileArgs::empty();
        args.reduce_over(0, shape.size());
        args.lda = shape.query.row() * 4;
        args.ldb = shape.key.row() * 4;
        args.ldc = layout.row * 4;
        args.scale = shape.scale.get();
        args.scaled = usize::from(shape.scale.get() != 1.0);
        args.summarise();
        // Blocks of keys start at a panel: see `AttentionBlocks::fits`.
        let columns = self.numbers(unit, scratch, Side::Keys, keys).keys;
        let right = Right { plain: unit.key.cast(), packed: scratch, columns };
        self.scores.multiply(&mut args, right, Rows { count: queries.len(), left: query, to: scores }, unit.given);
    }

    fn weigh(
        &self,
        buffers: &Buffers<'_>,
        unit: &Unit<'_>,
        scratch: *mut f32,
        queries: Range<usize>,
        keys: Range<usize>,
    ) {
        let (shape, layout) = (&self.shape, &self.layout);
        let (mask_row, keep_row) = (unit.mask_row, shape.keep.map_or(0, |steps| steps.row()));
        let keep = scratch.wrapping_add(layout.keep);
        if shape.range == KeyRange::Window {
            for row in 0..queries.len() {
                // SAFETY: for each query, `ScratchLayout` has a row of a block's keys.
                let to = unsafe { std::slice::from_raw_parts_mut(keep.add(row * layout.row), keys.len()) };
                let hidden = unit.seen.start(queries.start + row).saturating_sub(keys.start).min(keys.len());
                to[..hidden].fill(0.0);
                to[hidden..].fill(f32::from_bits(u32::MAX));
            }
        }
        if let Some(bytes) = buffers.operands.keep.filter(|_| shape.keep.is_some()) {
            let rows = if keep_row == 0 { 1 } else { queries.len() };
            for row in 0..rows {
                let from = unit.keep + (queries.start + row) * keep_row + keys.start;
                // SAFETY: for each query, `ScratchLayout` has a row of a block's keys.
                let to = unsafe { std::slice::from_raw_parts_mut(keep.add(row * layout.row), keys.len()) };
                for (to, &kept) in to.iter_mut().zip(&bytes[from..from + keys.len()]) {
                    *to = f32::from_bits(if (kept == 0) == shape.inverted { u32::MAX } else { 0 });
                }
            }
        }
        let mask = buffers.operands.mask.map_or(std::ptr::null(), <[f32]>::as_ptr);
        let visible = match unit.seen.before {
            None => isize::MAX,
            Some(before) => {
                let end = (queries.start + 1).saturating_add(before);
                isize::try_from(end).unwrap_or(isize::MAX).saturating_sub(keys.start as isize)
            }
        };
        let args = WeighArgs {
            scores: scratch.wrapping_add(layout.scores),
            stride: layout.row * 4,
            rows: queries.len(),
            keys: keys.len(),
            visible: Cell::new(visible),
            step: isize::from(shape.causal.is_some()),
            seen: Cell::new(0),
            mask: mask.wrapping_add(unit.mask + queries.start * mask_row + keys.start),
            mask_stride: mask_row * 4,
            keep,
            keep_stride: if keep_row == 0 && shape.range != KeyRange::Window { 0 } else { layout.row * 4 },
            fill: shape.fill.get(),
            cap: shape.cap.map_or(1.0, F32Bits::get),
            cap_inverse: 1.0 / shape.cap.map_or(1.0, F32Bits::get),
            state: scratch.wrapping_add(layout.state).cast(),
        };
        // SAFETY: `ScratchLayout` has scores (with a vector behind each row), conditions and states of a block, and
        // `check` made sure of the mask.
        unsafe { self.kernels.weigh(&args, unit.given) };
    }

    /// The arguments that multiply rows by their factors. `to` is the first result, `to_stride` the bytes from row to
    /// row of results.
    fn scaling(&self, sums: Sums, to: *mut u8, to_stride: usize, state: *const RowState, rows: usize) -> ScaleArgs {
        let Sums { first: from, stride } = sums;
        ScaleArgs { from, from_stride: stride * 4, to, to_stride, rows, columns: self.shape.value_size(), state }
    }

    /// The sums of values, by rows of weights in scratch; added to those of earlier keys where `resume` says so.
    fn blend(&self, unit: &Unit<'_>, scratch: *mut f32, sums: Sums, rows: usize, keys: Range<usize>, resume: bool) {
        let (shape, layout) = (&self.shape, &self.layout);
        let (weights, Sums { first: output, stride }) = (scratch.wrapping_add(layout.scores), sums);
        if let Some(Stream { code: [_, blend], keys: [_, key] }) = &self.stream {
            for row in 0..rows {
                let args = StreamArgs {
                    left: weights.wrapping_add(row * layout.row),
                    rows: self.numbers(unit, scratch, Side::Values, keys.clone()).first,
                    stride: shape.value.row() * self.element(),
                    count: keys.len(),
                    columns: shape.value_size(),
                    out: output.wrapping_add(row * stride),
                    resume: usize::from(resume),
                    scale: 1.0,
                    ahead: self.ahead(unit, Side::Values, &keys, row),
                };
                // SAFETY: `check` made sure of values and output, and the code takes `StreamArgs`.
                unsafe { blend.call(&args, key, unit.given) };
            }
            return;
        }
        if let Some(paired) = &self.paired {
            let packed = [weights, scratch.wrapping_add(layout.values)].map(<*mut f32>::cast_const);
            // SAFETY: values have been packed, weights are bf16 pairs here, and `ScratchLayout` has whole tile rows of
            // sums.
            return unsafe { paired.blend(packed, [layout.row, rows], keys, output, resume, unit.given) };
        }
        let mut args = TileArgs::empty();
        args.reduce_over(0, keys.len());
        args.lda = layout.row * 4;
        args.ldb = shape.value.row() * 4;
        args.ldc = stride * 4;
        args.resume = usize::from(resume);
        let Numbers { first: plain, keys } = self.numbers(unit, scratch, Side::Values, keys);
        let packed = scratch.wrapping_add(layout.values).wrapping_add(keys.start * self.context.panels.width);
        let right = Right { plain: plain.cast(), packed, columns: 0..shape.value_size() };
        self.context.multiply(&mut args, right, Rows { count: rows, left: weights, to: output }, unit.given);
    }
}
