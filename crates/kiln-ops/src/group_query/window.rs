//! A cache that slides: it has the last positions of a sequence, in the layout of [`super::sizes`].
//!
//! A step of one position moves the rows that stay to the front, in place, before it writes its row. A step of several
//! positions may drop positions that its first queries still see: attention then reads a copy with all positions.

use kiln_kernels::parallel::{copy, for_each_chunk};
use kiln_run::{Io, NodeError, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::heads::Turn;
use super::sizes::Sequence;
use super::{GroupQuery, PRESENT_KEY, Request, input};

impl GroupQuery {
    /// The cache of keys or values after a step, and the rows that attention reads instead where the step drops
    /// positions that it sees: for each head of a sequence its rows before the step, then the new ones.
    pub(super) fn slid(
        &self,
        io: &mut Io<'_>,
        output: usize,
        request: &Request<'_>,
        turn: &Turn<'_>,
        cx: &RunCx<'_>,
    ) -> Result<(Tensor, Option<Tensor>), NodeError> {
        let Request { sizes, sequences, parallel, .. } = *request;
        let past_index = input::PAST_KEY + output - PRESENT_KEY;
        let fits = |sequence: &Sequence| sequence.dropped() == 0 && sequence.whole() <= sizes.room;
        let staged = sizes.new > 1 && !sequences.iter().all(fits);
        let in_place = io.can_reuse(past_index, output);
        let mut present = if in_place { io.take(past_index)? } else { io.alloc(output)? };
        let writer = self.writer(io, output, request, turn)?;
        let past = io.optional(past_index).filter(|_| !in_place).map(Tensor::bytes);
        let row = writer.row();
        let of_head = sizes.room * row;
        if !staged {
            for_each_chunk(parallel, present.bytes_mut(), of_head, &|line, to| {
                let sequence = &sequences[line / self.kv_heads];
                let first = sequence.dropped() * row;
                let kept = sequence.rows * row - first;
                match past {
                    Some(past) => copy(&past[line * of_head + first..][..kept], to),
                    None => to.copy_within(first..first + kept, 0),
                }
                writer.append(line, 0..sequence.written, &mut to[kept..]);
                self.clear(&mut to[kept + sequence.written * row..]);
            });
            return Ok((present, None));
        }
        let most = sequences.iter().map(Sequence::whole).max().unwrap_or(0);
        let stored = sizes.held.row_bytes(sizes.size) / present.dtype().size();
        let spec = TensorSpec::new(present.dtype(), [sizes.batch, self.kv_heads, most, stored]);
        let mut staged = Tensor::from_pool(cx.buffers, spec)?;
        let before = past.unwrap_or_else(|| present.bytes());
        for_each_chunk(parallel, staged.bytes_mut(), most * row, &|line, to| {
            let sequence = &sequences[line / self.kv_heads];
            let filled = sequence.rows * row;
            copy(&before[line * of_head..][..filled], to);
            writer.append(line, 0..sequence.written, &mut to[filled..]);
        });
        let all = staged.bytes();
        for_each_chunk(parallel, present.bytes_mut(), of_head, &|line, to| {
            let sequence = &sequences[line / self.kv_heads];
            let first = line * most + sequence.dropped();
            copy(&all[first * row..][..sequence.kept * row], to);
            self.clear(&mut to[sequence.kept * row..]);
        });
        Ok((present, Some(staged)))
    }

    /// Zeros behind the rows of a sequence, unless their contents do not matter.
    fn clear(&self, rest: &mut [u8]) {
        if !self.shared_buffer {
            rest.fill(0);
        }
    }
}
