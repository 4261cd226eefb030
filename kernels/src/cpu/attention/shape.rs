//! Which attention a driver takes, and the blocks that it is computed in.

use serde::{Deserialize, Serialize};

use crate::cpu::amx::{PANEL, TALLEST, TILE_ROWS};
use crate::cpu::gemm::{most_rows, panel_vectors};
use crate::cpu::machine::Speeds;
use crate::isa::Isa;
use crate::problem::attention::{AttentionShape, Held, Strides};
use crate::problem::description::{count, sizes};
use crate::problem::elements::{Elements, Stored};

/// The blocks of the computation: a builder's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AttentionBlocks {
    /// Whether queries are computed one by one, with keys and values in place.
    pub stream: bool,
    /// Queries of a block.
    pub rows: u32,
    /// Keys of a block.
    pub keys: u32,
    /// Whether values are packed into panels.
    pub pack_values: bool,
    /// Parts that the heads of all batches are divided into for threads. A step that is split by positions divides
    /// chunks of positions of a head too, and may have more parts than there are heads.
    pub head_tasks: u32,
    /// Parts that queries are divided into.
    pub query_tasks: u32,
}

sizes!(AttentionBlocks { rows: usize, keys: usize, head_tasks: usize, query_tasks: usize });

/// Speed of AMX over that of `f32` on vectors, all told.
const AMX_SPEED: usize = 4;

/// The least scores of a head for which products of pairs save more time than packing operands for them takes. 16
/// queries of 16 keys are an eighth slower on AMX, and a tenth by `vdpbf16ps`: panels are half empty.
const LEAST_PAIRED_SCORES: usize = 512;

/// The least queries on AMX: five of 384 keys are an eighth slower, eight of 128 an eighth faster, 16 of 400 a third.
const LEAST_TILE_QUERIES: usize = 8;

/// The least queries for `vdpbf16ps`: on a Zen 4, six of 128 keys take 1.0 to 1.2 of the time, eight 0.93 to 1.06, 12
/// of 384 take 0.80 to 0.87, and 128 of 128 take 0.6.
pub(super) const LEAST_DOT_QUERIES: usize = 12;

/// Scores that stay in L2 together with keys and values.
const SCORES: usize = 24 << 10;

/// Keys of a block where there are more than fit one block: whole panels of any width.
const KEY_BLOCK: usize = 384;

/// Keys of a page of a cache: whole blocks, which over a cache have this many keys or a third of it or less, and whole
/// panels of any width.
pub const PAGE: usize = 192;

/// Positions of a chunk of a step over a cache. A head's chunks are counted from position 0, computed by themselves and
/// merged.
pub(super) const CHUNK: usize = 256;

/// The most queries of a head that are computed one by one over a cache, and bytes of the keys of a block: several
/// queries read these keys in turns, out of L1.
const STREAMED_QUERIES: usize = 16;
const STREAMED_KEYS: usize = 16 << 10;

impl AttentionShape {
    /// Whether products are those of bf16 pairs: where they are asked for, and save more time than packing takes.
    #[must_use]
    pub fn is_paired(&self) -> bool {
        let least = match self.elements {
            Elements::Bf16Dot => LEAST_DOT_QUERIES,
            Elements::Bf16Tiles => LEAST_TILE_QUERIES,
            Elements::F32 | Elements::Bf16 | Elements::F16 => return false,
        };
        let scores = self.queries().saturating_mul(self.keys());
        self.queries() >= least && scores >= LEAST_PAIRED_SCORES && self.size() > 0
    }

    /// Keys of a panel; blocks of keys are multiples of it.
    #[must_use]
    pub fn panel(&self, isa: Isa) -> usize {
        if self.is_paired() { PANEL } else { panel_vectors(isa, self.keys()) * isa.lanes() }
    }

    /// Whether it is a step over a cache: all queries of a head see the same keys.
    #[must_use]
    pub(super) fn is_step(&self) -> bool {
        self.is_cached() && self.causal.is_none()
    }

    /// Whether a driver takes the shape: sizes and strides may come from a record.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        // Far beyond any memory, and small enough that products of a few such sizes do not overflow.
        const MOST: usize = 1 << 40;
        let sizes = [self.batch(), self.heads(), self.queries(), self.keys(), self.size(), self.value_size()];
        let product = |factors: &[usize]| {
            factors.iter().try_fold(1usize, |total, &factor| total.checked_mul(factor.max(1))).is_some_and(|p| p < MOST)
        };
        sizes.iter().all(|&size| size < MOST)
            && self.shared() > 0
            && self.heads().is_multiple_of(self.shared())
            && product(&[self.batch(), self.heads()])
            && product(&[self.keys().saturating_add(64), self.size().saturating_add(64)])
            && product(&[self.keys().saturating_add(64), self.value_size().saturating_add(64)])
            && self.causal().is_none_or(|before| before < MOST)
            && self.cap.is_none_or(|cap| cap.get() > 0.0)
            && matches!(self.elements, Elements::F32 | Elements::Bf16Dot | Elements::Bf16Tiles)
            && if self.is_cached() { self.suits_cache() } else { self.held == Held::F32 }
            && self.needs().is_some()
            && self.rows_are_apart()
    }

    /// Whether the driver takes it over a cache.
    fn suits_cache(&self) -> bool {
        // Pairs are packed of numbers.
        let is_plain = [self.stored, self.written] == [Stored::F32; 2]
            && (self.held == Held::F32 || self.elements == Elements::F32);
        let is_dense =
            [(self.key, self.size), (self.value, self.value_size)].iter().all(|&(rows, size)| rows.row == size);
        self.mask.is_none_or(|mask| mask == Strides::default())
            && self.keep.is_none()
            && !self.key_columns
            && is_plain
            && (is_dense || self.held == Held::F32)
    }

    /// Whether a run turns the rows of its cache into numbers, a block of keys at a time. Single queries read rows of
    /// `f16` in place where these are whole vectors.
    #[must_use]
    pub(super) fn is_widened(&self, isa: Isa, stream: bool) -> bool {
        let is_whole = |size: usize| size.is_multiple_of(isa.lanes());
        match self.held {
            Held::F32 => false,
            Held::F16 => !(stream && is_whole(self.size()) && is_whole(self.value_size())),
            Held::Bytes | Held::Nibbles => true,
        }
    }

    /// Whether no two rows of results overlap, so that tasks may write them at the same time.
    fn rows_are_apart(&self) -> bool {
        let Strides { batch, head, row } = self.output;
        let mut dims = [(self.batch, batch), (self.heads, head), (self.queries, row)];
        if dims.iter().any(|&(size, _)| size == 0) {
            return true;
        }
        dims.sort_by_key(|&(_, step)| step);
        let mut extent = self.value_size;
        for (size, step) in dims.into_iter().filter(|&(size, _)| size > 1) {
            if step < extent {
                return false;
            }
            // `needs` checked that the whole extent does not overflow.
            extent = (size - 1).saturating_mul(step).saturating_add(extent);
        }
        true
    }

    /// Multiply-adds.
    fn work(&self) -> usize {
        let sizes = [self.units(), self.queries(), self.keys(), self.size().saturating_add(self.value_size())];
        sizes.into_iter().fold(1usize, usize::saturating_mul)
    }
}

/// Keys of a block where a query adds in one order.
fn in_order_keys(shape: &AttentionShape) -> usize {
    shape.keys().clamp(1, if shape.is_cached() { PAGE } else { KEY_BLOCK })
}

impl AttentionBlocks {
    /// The cost model's choice.
    #[must_use]
    pub fn pick(isa: Isa, shape: &AttentionShape, threads: usize) -> AttentionBlocks {
        // Packing a key takes about as long as using it for two queries. Where heads share keys, the first query brings
        // the keys to L1 for the others.
        let is_step = shape.is_step();
        let most = if is_step { STREAMED_QUERIES } else { 3 };
        let stream = isa.is_jit() && !shape.key_columns && shape.queries() <= most && shape.keys() > 0;
        let keys = match shape.keys() {
            keys if stream && is_step => {
                // Blocks are the same for any room, and a chunk is a whole number of blocks.
                let fitting = STREAMED_KEYS / (4 * shape.size().max(1));
                fitting.next_power_of_two().clamp(isa.lanes(), PAGE / 3).min(keys)
            }
            keys if shape.is_cached() => keys.clamp(1, PAGE),
            keys if keys <= 2 * KEY_BLOCK => keys.max(1),
            _ => KEY_BLOCK,
        };
        AttentionBlocks::cut(isa, shape, threads, stream, keys)
    }

    /// The choice where a query adds in one order, however many queries there are. Blocks of keys start at the same
    /// keys for any number of keys, so that keys behind those that a causal query sees change nothing either.
    #[must_use]
    pub fn in_order(isa: Isa, shape: &AttentionShape, threads: usize) -> AttentionBlocks {
        AttentionBlocks::cut(isa, shape, threads, false, in_order_keys(shape))
    }

    /// Whether the additions of a query are those of [`AttentionBlocks::in_order`].
    #[must_use]
    pub fn is_in_order(&self, shape: &AttentionShape) -> bool {
        !self.stream && self.keys() == in_order_keys(shape)
    }

    /// Blocks of `keys` keys.
    fn cut(isa: Isa, shape: &AttentionShape, threads: usize, stream: bool, keys: usize) -> AttentionBlocks {
        let speeds = Speeds::of_process(isa);
        let (tall, worth) = match shape.elements {
            Elements::Bf16Tiles if shape.is_paired() => (TALLEST * TILE_ROWS, AMX_SPEED * speeds.worth_a_thread),
            Elements::Bf16Dot if shape.is_paired() => {
                (most_rows(isa, PANEL / isa.lanes()), speeds.pairs_worth_a_thread)
            }
            _ => (most_rows(isa, panel_vectors(isa, shape.keys())), speeds.worth_a_thread),
        };
        let tall = tall.max(1);
        let rows = (SCORES / keys / tall * tall).clamp(tall, 16 * tall).min(shape.queries().max(1));
        let threads = threads.min(shape.work() / worth).max(1);
        // A step that streams is split by positions too.
        let is_split = stream && shape.is_step();
        let units = shape.units().max(1).saturating_mul(if is_split { shape.keys().div_ceil(CHUNK).max(1) } else { 1 });
        let query_tasks = match threads.div_ceil(units) {
            _ if is_split => 1,
            1 => 1,
            parts => parts.min(shape.queries().div_ceil(tall)).max(1),
        };
        // Rows whose stride is a multiple of a page all map to the same few sets of L1.
        let collides = (shape.value.row() * 4).is_multiple_of(4096) && shape.keys() > 8;
        AttentionBlocks {
            stream,
            rows: count(rows),
            keys: count(keys),
            pack_values: !stream && shape.held == Held::F32 && (shape.is_paired() || shape.queries() > 96 || collides),
            head_tasks: count(threads.min(units)),
            query_tasks: count(query_tasks),
        }
    }

    /// Whether a driver takes these blocks for the shape and level: a choice may come from a record.
    #[must_use]
    pub fn fits(&self, shape: &AttentionShape, isa: Isa) -> bool {
        const MOST_TASKS: usize = 1 << 12;
        let positive = [self.rows(), self.keys(), self.head_tasks(), self.query_tasks()];
        let tasks = self.head_tasks().checked_mul(self.query_tasks());
        shape.elements.suit(isa)
            && !positive.contains(&0)
            && tasks.is_some_and(|tasks| tasks <= MOST_TASKS)
            && self.rows() <= shape.queries().max(1)
            && self.keys() <= shape.keys().max(1)
            && (self.stream || self.keys() == shape.keys().max(1) || self.keys().is_multiple_of(shape.panel(isa)))
            && (!shape.is_cached() || self.keys() == shape.keys().max(1) || PAGE.is_multiple_of(self.keys()))
            && self.rows().checked_mul(self.keys()).is_some_and(|scores| scores <= 1 << 24)
            && !(self.pack_values && shape.held != Held::F32)
            && (!self.stream || isa.is_jit() && !shape.key_columns && !self.pack_values && shape.keys() > 0)
            && (!self.stream || !shape.is_step() || self.rows() == shape.queries().max(1) && self.query_tasks() == 1)
    }
}
