//! A cache with the new positions of a step behind those that its sequences have: rows of numbers, or of codes or
//! `f16`, which are rounded when they are written.

use kiln_kernels::Isa;
use kiln_kernels::cpu::attention::{Cells, Held, Scales, quantize};
use kiln_kernels::memory;
use kiln_kernels::parallel::{copy, for_each_chunk};
use kiln_run::{Io, NodeError};
use kiln_tensor::Tensor;

use super::heads::{Rows, Turn};
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

    /// Writes the first `count` new positions of a head of a sequence, whose number among all heads is `line`.
    pub(super) fn append(&self, line: usize, count: usize, to: &mut [u8]) {
        let (sequence, head) = (line / self.heads, line % self.heads);
        let mut turned = memory::with_capacity(if self.turn.is_nothing() { 0 } else { self.rows.size });
        for (position, to) in to.chunks_exact_mut(self.row().max(1)).take(count).enumerate() {
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
        let Request { sizes, sequences, places, parallel, .. } = *request;
        let past_index = input::PAST_KEY + output - PRESENT_KEY;
        let in_place = io.can_reuse(past_index, output);
        let is_shared = self.shared_buffer || in_place && io.is_shared(past_index, output);
        let mut present = if in_place { io.take(past_index)? } else { io.alloc(output)? };
        let past = io.optional(past_index).filter(|_| !in_place).map(Tensor::bytes);
        let writer = self.writer(io, output, request, turn)?;
        let row = writer.row();
        for_each_chunk(parallel, present.bytes_mut(), sizes.room * row, &|line, to| {
            if let Some(places) = places {
                if let Some(past) = past {
                    let (had, rest) = to.split_at_mut(sizes.past * row);
                    copy(&past[line * sizes.past * row..][..sizes.past * row], had);
                    rest.fill(0);
                }
                for &at in places.at(line / self.kv_heads) {
                    let sequence = &sequences[at];
                    let new = &mut to[sequence.before * row..][..sequence.written * row];
                    writer.append(at * self.kv_heads + line % self.kv_heads, sequence.written, new);
                }
                return;
            }
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
            writer.append(line, sequence.written, new);
            if !is_shared {
                rest.fill(0);
            }
        });
        Ok(present)
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
