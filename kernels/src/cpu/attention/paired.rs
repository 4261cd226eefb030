//! Products of bf16 pairs, on AMX or on vectors: queries and keys, weights and values, and their layouts.
//!
//! The keys of a head are rounded and packed into panels of 32; its values are interleaved by pairs of rows into panels
//! of 32 columns. Both are packed once for all blocks of queries. A block of queries is rounded when it begins,
//! multiplied by the scale of scores. Scores are stored row by row, as for `f32` products; their weights, as pairs,
//! overwrite the first half of each row. The sums of a block of queries are added up in scratch, and scaled into the
//! output at the end.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::emit::Form;
use super::emit::pairs::{INTERLEAVED, InterleaveArgs, RoundArgs};
use super::kernel::code;
use super::pack::KeyPacker;
use super::product::{Rows, multiply_panel};
use super::{AttentionShape, Strides, Sums};
use crate::cpu::amx::{Multiply, MultiplyArgs, PANEL, STEP, STEP_WORDS, TALLEST, TILE_ROWS};
use crate::cpu::gemm::micro_kernel::MicroKernel;
use crate::cpu::gemm::tile::{LeftRows, RightColumns, TileArgs, TileCode};
use crate::cpu::gemm::{Tiles, most_rows};
use crate::cpu::{CodeSource, Elements, Stored};
use crate::error::Result;
use crate::isa::Isa;
use crate::jit::{Code, Given};

/// The kernels, and sizes in units of AMX.
#[derive(Clone, Debug)]
pub(super) struct Paired {
    units: Units,
    round: Arc<Code>,
    interleave: Arc<Code>,
    /// Transposes rounded keys, where keys are stored row by row.
    key_packer: Option<KeyPacker>,
    /// Whether rounded keys are stored row by row before they are packed.
    in_words: bool,
    shape: AttentionShape,
}

/// The kernel that multiplies pairs.
#[derive(Clone, Debug)]
enum Units {
    Tiles(Multiply),
    Vectors(MicroKernel),
}

/// A product of rows of pairs by packed panels. Strides are in words.
struct PairProduct {
    rows: usize,
    left: *const f32,
    left_stride: usize,
    /// Elements of the reduction.
    elements: usize,
    right: *const f32,
    panels: usize,
    panel_stride: usize,
    to: Sums,
    /// Whether sums start from those that are stored.
    resume: bool,
}

/// Vectors of a panel on AVX-512, the one level that multiplies pairs.
const PANEL_VECTORS: usize = PANEL / Isa::Avx512.lanes();

/// Words of a row of `elements` elements, in whole AMX steps.
fn words(elements: usize) -> usize {
    elements.div_ceil(STEP) * STEP_WORDS
}

/// `rows` rounded up to whole tile rows.
pub(super) fn whole_rows(rows: usize) -> usize {
    rows.next_multiple_of(TILE_ROWS)
}

impl Paired {
    /// The kernels for the shape, whose blocks of queries have these numbers of rows; `None` where products are those
    /// of `f32` or there is nothing to multiply.
    pub(super) fn new(
        isa: Isa,
        shape: &AttentionShape,
        blocks: &[usize],
        source: &dyn CodeSource,
    ) -> Result<Option<Paired>> {
        if !shape.is_paired() {
            return Ok(None);
        }
        let (Some(round), Some(interleave)) =
            (code(isa, Form::Round(shape.stored), source)?, code(isa, Form::Interleave(shape.stored), source)?)
        else {
            return Ok(None);
        };
        let key_packer = if shape.key_columns { None } else { Some(KeyPacker::new(isa, PANEL, source)?) };
        let units = match shape.elements {
            Elements::Bf16Dot => {
                let key = TileCode::sums(isa, PANEL_VECTORS as u8, LeftRows::Strided, RightColumns::Dots);
                Units::Vectors(MicroKernel::new(key, blocks.iter().map(|&rows| tiles(rows)), source)?)
            }
            _ => Units::Tiles(Multiply::new(isa, 1..=TALLEST, source)?),
        };
        let Strides { batch, head, row } = shape.key;
        let in_words = shape.stored == Stored::Bf16
            && shape.size().is_multiple_of(STEP)
            && [batch, head, row].iter().all(|step| step.is_multiple_of(2));
        Ok(Some(Paired { units, round, interleave, key_packer, in_words, shape: *shape }))
    }

    /// Words of a rounded row of queries.
    fn query_words(&self) -> usize {
        words(self.shape.size())
    }

    /// Words of a panel of keys, and of one of values.
    fn panel_words(&self) -> [usize; 2] {
        [words(self.shape.size()) * PANEL, words(self.shape.keys()) * PANEL]
    }

    /// Elements from row to row of sums of values.
    pub(super) fn context_row(&self) -> usize {
        self.shape.value_size().next_multiple_of(PANEL)
    }

    /// Elements of scratch of the packed keys, the packed values, and `rows` rounded queries. Behind the packed keys, a
    /// panel of keys is rounded before it is transposed.
    pub(super) fn scratch_lens(&self, rows: usize) -> [usize; 3] {
        let [key, value] = self.panel_words();
        let rounded = if self.key_packer.is_some() { key } else { 0 };
        [
            self.shape.keys().div_ceil(PANEL) * key + rounded,
            self.shape.value_size().div_ceil(PANEL) * value,
            whole_rows(rows) * self.query_words(),
        ]
    }

    /// Packs some keys of a head, whose rows follow each other from `from` on. The first key starts a panel; keys that
    /// are features of rows are packed all at once.
    ///
    /// # Safety
    ///
    /// The keys are readable, and `to` has as many elements as [`Paired::scratch_lens`] says, which no other task
    /// touches.
    pub(super) unsafe fn pack_keys(&self, from: *const u8, keys: Range<usize>, to: *mut f32, given: &Given) {
        let (shape, [panel, _]) = (&self.shape, self.panel_words());
        let Some(packer) = &self.key_packer else {
            // SAFETY: features are the rows here; the caller's contract.
            return unsafe { self.interleave(from, shape.key.row(), [shape.size(), keys.len()], to, panel, given) };
        };
        let rounded = to.wrapping_add(shape.keys().div_ceil(PANEL) * panel);
        let words = self.query_words();
        for first in keys.clone().step_by(PANEL) {
            let count = PANEL.min(keys.end - first);
            let from = from.wrapping_add((first - keys.start) * shape.key.row() * shape.stored.bytes());
            // SAFETY: a panel's keys, and the memory in which each panel is rounded. Keys beyond the last are zeros.
            unsafe {
                if self.in_words && count == PANEL {
                    let to = to.wrapping_add(first / PANEL * panel);
                    packer.pack(from.cast(), shape.key.row() / 2, [PANEL, words], to, given);
                    continue;
                }
                self.round(from, [count, shape.key.row()], 1.0, rounded, given);
                rounded.add(count * words).write_bytes(0, (PANEL - count) * words);
                packer.pack(rounded, words, [PANEL, words], to.wrapping_add(first / PANEL * panel), given);
            }
        }
    }

    /// Packs the values of some keys of a head, as [`Paired::pack_keys`] does.
    ///
    /// # Safety
    ///
    /// As [`Paired::pack_keys`].
    pub(super) unsafe fn pack_values(&self, from: *const u8, keys: Range<usize>, to: *mut f32, given: &Given) {
        let (shape, [_, panel]) = (&self.shape, self.panel_words());
        let to = to.wrapping_add(words(keys.start) * PANEL);
        // SAFETY: the caller's contract.
        unsafe { self.interleave(from, shape.value.row(), [keys.len(), shape.value_size()], to, panel, given) };
    }

    /// Rounds a block of queries, multiplied by the scale of scores.
    ///
    /// # Safety
    ///
    /// As [`Paired::pack_keys`].
    pub(super) unsafe fn round_queries(&self, from: *const u8, rows: usize, to: *mut f32, given: &Given) {
        // SAFETY: the caller's contract.
        unsafe { self.round(from, [rows, self.shape.query.row()], self.shape.scale.get(), to, given) };
    }

    /// Rounds rows of one head's features.
    unsafe fn round(&self, from: *const u8, [rows, stride]: [usize; 2], scale: f32, to: *mut f32, given: &Given) {
        let (size, words) = (self.shape.size(), self.query_words());
        let args = RoundArgs {
            from,
            from_stride: stride * self.shape.stored.bytes(),
            to,
            to_stride: words * 4,
            rows,
            steps: size / STEP,
            rest: by_vector(size % STEP),
            scale,
        };
        // SAFETY: whole steps and the rest are the features, and each has its words; the code takes `RoundArgs`.
        unsafe { self.round.call(&args, &self.shape.stored, given) };
    }

    /// Packs a matrix, whose rows run along the reduction, into panels of pairs of rows. A panel begins `panel` words
    /// behind the one before it.
    unsafe fn interleave(
        &self,
        from: *const u8,
        stride: usize,
        [rows, columns]: [usize; 2],
        to: *mut f32,
        panel: usize,
        given: &Given,
    ) {
        let lines = words(rows);
        for first in (0..columns).step_by(PANEL) {
            let args = InterleaveArgs {
                from: from.wrapping_add(first * self.shape.stored.bytes()),
                from_stride: stride * self.shape.stored.bytes(),
                to: to.wrapping_add(first / PANEL * panel),
                pairs: rows / 2,
                odd: rows % 2,
                empty: lines - rows.div_ceil(2),
                lanes: by_vector(PANEL.min(columns - first)),
                order: INTERLEAVED.as_ptr(),
            };
            // SAFETY: a panel's own columns are read, and its lines written; the code takes `InterleaveArgs`.
            unsafe { self.interleave.call(&args, &self.shape.stored, given) };
        }
    }

    /// Products of rounded queries with some keys, not scaled down. The first key starts a panel.
    ///
    /// # Safety
    ///
    /// Queries and keys are packed where the pointers say. `to` has the rows of whole tile rows, each with places for
    /// whole panels of keys.
    pub(super) unsafe fn score(
        &self,
        [queries, packed]: [*const f32; 2],
        rows: usize,
        keys: Range<usize>,
        to: Sums,
        given: &Given,
    ) {
        let [panel, _] = self.panel_words();
        let product = PairProduct {
            rows,
            left: queries,
            left_stride: self.query_words(),
            elements: self.shape.size(),
            right: packed.wrapping_add(keys.start / PANEL * panel),
            panels: keys.len().div_ceil(PANEL),
            panel_stride: panel,
            to,
            resume: false,
        };
        // SAFETY: the caller's contract.
        unsafe { self.multiply(&product, given) };
    }

    /// Sums of values, weighted by pairs whose rows are `row` elements apart; added to the sums of earlier keys where
    /// `resume` says so.
    ///
    /// # Safety
    ///
    /// Weights and values are packed where the pointers say, and `to` has whole tile rows of [`Paired::context_row`].
    pub(super) unsafe fn blend(
        &self,
        [weights, packed]: [*const f32; 2],
        [row, rows]: [usize; 2],
        keys: Range<usize>,
        to: *mut f32,
        resume: bool,
        given: &Given,
    ) {
        let [_, panel] = self.panel_words();
        let product = PairProduct {
            rows,
            left: weights,
            left_stride: row,
            elements: keys.len(),
            right: packed.wrapping_add(words(keys.start) * PANEL),
            panels: self.context_row() / PANEL,
            panel_stride: panel,
            to: Sums { first: to, stride: self.context_row() },
            resume,
        };
        // SAFETY: the caller's contract.
        unsafe { self.multiply(&product, given) };
    }

    /// Multiplies.
    ///
    /// # Safety
    ///
    /// Rows and panels are packed where the product says, and sums have whole tile rows of whole panels.
    unsafe fn multiply(&self, product: &PairProduct, given: &Given) {
        // SAFETY: the caller's contract.
        unsafe {
            match &self.units {
                Units::Tiles(kernel) => on_tiles(kernel, product, given),
                Units::Vectors(kernel) => on_vectors(kernel, product, given),
            }
        }
    }
}

/// How rows are cut for vectors.
fn tiles(rows: usize) -> Tiles {
    Tiles::new(rows, most_rows(Isa::Avx512, PANEL_VECTORS))
}

/// [`Paired::multiply`] by `vdpbf16ps`, a panel at a time.
unsafe fn on_vectors(kernel: &MicroKernel, product: &PairProduct, given: &Given) {
    let mut args = TileArgs::empty();
    args.reduce_over(0, product.elements.div_ceil(2));
    (args.lda, args.ldc) = (product.left_stride * 4, product.to.stride * 4);
    args.resume = usize::from(product.resume);
    args.keep_columns(PANEL, PANEL, Isa::Avx512.lanes());
    for panel in 0..product.panels {
        args.b = product.right.wrapping_add(panel * product.panel_stride).cast();
        let to = product.to.first.wrapping_add(panel * PANEL);
        let rows = Rows { count: product.rows, left: product.left, to };
        // SAFETY: rows, panels and sums are those that the caller vouches for.
        unsafe { multiply_panel(kernel, &mut args, tiles(product.rows), &rows, given) };
    }
}

/// [`Paired::multiply`] on AMX.
unsafe fn on_tiles(kernel: &Multiply, product: &PairProduct, given: &Given) {
    let mut args = MultiplyArgs::empty();
    args.row_stride = product.left_stride * 4;
    args.steps = product.elements.div_ceil(STEP);
    args.right = product.right;
    (args.panels, args.panel_stride) = (product.panels, product.panel_stride * 4);
    (args.out, args.out_stride) = (product.to.first, product.to.stride * 4);
    args.resume = usize::from(product.resume);
    let tile_row = |index: usize| product.left.wrapping_byte_add(index * TILE_ROWS * args.row_stride).cast::<u8>();
    let starts: SmallVec<[*const u8; 32]> = (0..product.rows.div_ceil(TILE_ROWS)).map(tile_row).collect();
    let tap = 0isize;
    (args.taps, args.tap_count) = (&raw const tap, 1);
    let given = given.clone().read("tap", std::slice::from_ref(&tap)).read("tile rows", &starts);
    (args.left_stride, args.out_panel_stride) = (STEP_WORDS * 4, PANEL * 4);
    let tall = starts.len() / TALLEST;
    for (height, from, blocks) in [(TALLEST, 0, tall), (1, tall * TALLEST, starts.len() % TALLEST)] {
        if blocks > 0 {
            args.blocks = blocks;
            args.rows = starts[from..].as_ptr();
            args.out = args.out.wrapping_byte_add(from * TILE_ROWS * args.out_stride);
            // SAFETY: tile rows, panels and sums are those that the caller vouches for.
            unsafe { kernel.call(height, &args, &given) };
        }
    }
}

/// How many of `count` elements of a step, or columns of a panel, are in its first and in its second vector.
fn by_vector(count: usize) -> [usize; 2] {
    [count.min(PANEL / 2), count.saturating_sub(PANEL / 2)]
}
