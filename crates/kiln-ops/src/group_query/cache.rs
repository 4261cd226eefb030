//! A cache with the new positions of a step behind those that its sequences have: rows of numbers, or of codes or
//! `f16`, which are rounded when they are written.

use std::ops::Range;

use kiln_kernels::cpu::attention::{Cells, Held, Scales, quantize};
use kiln_kernels::memory::{self, Collect};
use kiln_kernels::parallel::{copy, for_each_chunk, for_each_part};
use kiln_kernels::{Isa, Parallel};
use kiln_run::{Io, NodeError};
use kiln_tensor::Tensor;

use super::heads::{Rows, Turn};
use super::pages::Piece;
use super::{GroupQuery, PRESENT_KEY, Request, input};

/// Writes the rows of new positions.
pub(super) struct Writer<'a> {
    isa: Isa,
    held: Held,
    scales: Scales<'a>,
    rows: Rows<'a>,
    turn: &'a Turn<'a>,
    /// New positions of a sequence, and heads of keys.
    new: usize,
    heads: usize,
}

impl Writer<'_> {
    /// Bytes of a row.
    pub(super) fn row(&self) -> usize {
        self.held.row_bytes(self.rows.size)
    }

    /// Writes these new positions of a head of a sequence, whose number among all heads is `line`.
    pub(super) fn append(&self, line: usize, positions: Range<usize>, to: &mut [u8]) {
        let (sequence, head) = (line / self.heads, line % self.heads);
        let mut turned = memory::with_capacity(if self.turn.is_nothing() { 0 } else { self.rows.size });
        for (to, position) in to.chunks_exact_mut(self.row().max(1)).zip(positions) {
            let line = sequence * self.new + position;
            let given = self.rows.head(line, head);
            if self.turn.is_nothing() {
                quantize(self.isa, self.held, given, self.scales, head, to);
                continue;
            }
            turned.clear();
            turned.extend_from_slice(given);
            self.turn.apply(&mut turned, line);
            quantize(self.isa, self.held, &turned, self.scales, head, to);
        }
    }
}

impl GroupQuery {
    /// The writer of the new heads of keys (`PRESENT_KEY`) or of values.
    pub(super) fn writer<'a>(
        &self,
        io: &'a Io<'_>,
        output: usize,
        request: &Request<'a>,
        turn: &'a Turn<'a>,
    ) -> Result<Writer<'a>, NodeError> {
        let (own, sizes) = (output - PRESENT_KEY, request.sizes);
        let size = sizes.size;
        let (index, first) = match sizes.is_packed {
            true => (input::QUERY, (self.heads + own * self.kv_heads) * size),
            false => (input::KEY + own, 0),
        };
        let width = if sizes.is_packed { sizes.query_width } else { self.kv_heads * size };
        let rows = Rows { elements: io.input(index)?.as_slice()?, width, first, size };
        let (held, scales) = (sizes.held, request.scales[own]);
        Ok(Writer { isa: request.isa, held, scales, rows, turn, new: sizes.new, heads: self.kv_heads })
    }

    /// The cache of keys or values with the new positions of each sequence behind its own. Zeros follow unless the
    /// buffer is shared, by the model's word or by the caller's: a step then touches only its own rows.
    pub(super) fn present(
        &self,
        io: &mut Io<'_>,
        output: usize,
        request: &Request<'_>,
        turn: &Turn<'_>,
    ) -> Result<Tensor, NodeError> {
        let Request { sizes, sequences, pages, parallel, .. } = *request;
        let past_index = input::PAST_KEY + output - PRESENT_KEY;
        let in_place = io.can_reuse(past_index, output);
        let is_shared = self.shared_buffer || in_place && io.is_shared(past_index, output);
        let mut present = if in_place { io.take(past_index)? } else { io.alloc(output)? };
        let past = io.optional(past_index).filter(|_| !in_place).map(Tensor::bytes);
        let writer = self.writer(io, output, request, turn)?;
        let row = writer.row();
        if let Some((pages, page)) = pages.zip(sizes.page) {
            if let Some(past) = past {
                copy(past, present.bytes_mut());
            }
            self.append_to_pages(&writer, &pages.pieces(sequences), page * row, present.bytes_mut(), parallel);
            return Ok(present);
        }
        for_each_chunk(parallel, present.bytes_mut(), sizes.room * row, &|line, to| {
            let sequence = &sequences[line / self.kv_heads];
            let before = sequence.before * row;
            if let Some(past) = past {
                // A shared buffer keeps the rows behind its sequences, also where the caller keeps its own.
                let had = if self.shared_buffer { sizes.past * row } else { before };
                copy(&past[line * sizes.past * row..][..had], to);
                if self.shared_buffer {
                    to[had..].fill(0);
                }
            }
            let (new, rest) = to[before..].split_at_mut(sequence.written * row);
            writer.append(line, 0..sequence.written, new);
            if !is_shared {
                rest.fill(0);
            }
        });
        Ok(present)
    }

    /// Writes the new positions of all sequences to their pages, which have `head` bytes of each head.
    fn append_to_pages(
        &self,
        writer: &Writer<'_>,
        pieces: &[Piece],
        head: usize,
        cache: &mut [u8],
        parallel: &dyn Parallel,
    ) {
        let (heads, row) = (self.kv_heads, writer.row());
        let pages: Vec<&[Piece]> = pieces.chunk_by(|one, next| one.page == next.page).collected();
        let first = |page: &&[Piece], own: usize| (page[0].page * heads + own) * head;
        let parts = pages.iter().flat_map(|page| (0..heads).map(move |own| first(page, own)..first(page, own) + head));
        for_each_part(parallel, cache, &parts.collected(), &|at, to| {
            for piece in pages[at / heads] {
                let to = &mut to[piece.row * row..];
                writer.append(piece.sequence * heads + at % heads, piece.positions(), to);
            }
        });
    }

    /// The rows of a cache, of keys (0) or of values (1).
    pub(super) fn cells<'a>(
        &self,
        cache: &'a Tensor,
        own: usize,
        request: &Request<'a>,
    ) -> Result<Cells<'a>, NodeError> {
        let scales = request.scales[own];
        Ok(match request.sizes.held {
            Held::F32 => Cells::F32(cache.as_slice()?),
            Held::Bytes => Cells::Bytes(cache.as_slice()?, scales),
            Held::Nibbles => Cells::Nibbles(cache.as_slice()?, scales),
            Held::F16 => Cells::F16(cache.as_slice()?),
        })
    }
}
