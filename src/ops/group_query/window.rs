//! A cache that slides: it has the last positions of a sequence, in the layout of [`super::sizes`].
//!
//! A step of one position moves what it keeps to the front, in place, before it writes its row. A step of several that
//! drops positions drops some that its first queries still see: attention then reads a copy with all of them.

use kiln_kernels::parallel::{copy, for_each_chunk};

use super::sizes::Sequence;
use super::{GroupQuery, PRESENT_KEY, Request, Turn, input};
use crate::graph::{Io, NodeError, RunCx};
use crate::tensor::Tensor;

impl GroupQuery {
    /// The cache of keys or values after a step, and what attention reads instead where the step drops positions that it
    /// sees: for each head of a sequence its rows before the step, then the new ones.
    pub(super) fn slid(
        &self,
        io: &mut Io<'_>,
        output: usize,
        request: &Request<'_>,
        turn: &Turn<'_>,
        cx: &RunCx<'_>,
    ) -> Result<(Tensor, Option<Tensor>), NodeError> {
        let Request { sizes, sequences, parallel } = *request;
        let (size, new) = (sizes.size, sizes.new);
        let past_index = input::PAST_KEY + output - PRESENT_KEY;
        let fits = |sequence: &Sequence| sequence.dropped() == 0 && sequence.whole(new) <= sizes.room;
        let staged = new > 1 && !sequences.iter().all(fits);
        let in_place = io.can_reuse(past_index, output);
        let mut present = if in_place { io.take(past_index)? } else { io.alloc(output)? };
        let rows = self.new_rows(io, sizes, output)?;
        let append = |line: usize, to: &mut [f32]| {
            for (position, to) in to.chunks_exact_mut(size.max(1)).take(new).enumerate() {
                let row = line / self.kv_heads * new + position;
                to.copy_from_slice(rows.head(row, line % self.kv_heads));
                turn.apply(to, row);
            }
        };
        let past = io.optional(past_index).filter(|_| !in_place).map(Tensor::as_slice::<f32>).transpose()?;
        let of_head = sizes.room * size;
        if !staged {
            for_each_chunk(parallel, present.as_mut_slice()?, of_head, &|line, to| {
                let sequence = &sequences[line / self.kv_heads];
                let first = sequence.dropped() * size;
                let kept = sequence.rows * size - first;
                match past {
                    Some(past) => copy(&past[line * of_head + first..][..kept], to),
                    None => to.copy_within(first..first + kept, 0),
                }
                append(line, &mut to[kept..]);
                self.clear(&mut to[kept + new * size..]);
            });
            return Ok((present, None));
        }
        let most = sequences.iter().map(|sequence| sequence.whole(new)).max().unwrap_or(0);
        let mut staged = cx.scratch::<f32>(sizes.batch * self.kv_heads * most * size)?;
        let before = past.map_or_else(|| present.as_slice::<f32>(), Ok)?;
        for_each_chunk(parallel, staged.as_mut_slice()?, most * size, &|line, to| {
            let filled = sequences[line / self.kv_heads].rows * size;
            copy(&before[line * of_head..][..filled], to);
            append(line, &mut to[filled..]);
        });
        let all = staged.as_slice::<f32>()?;
        for_each_chunk(parallel, present.as_mut_slice()?, of_head, &|line, to| {
            let sequence = &sequences[line / self.kv_heads];
            let first = line * most + sequence.dropped();
            copy(&all[first * size..][..sequence.kept * size], to);
            self.clear(&mut to[sequence.kept * size..]);
        });
        Ok((present, Some(staged)))
    }

    /// Zeros behind the rows of a sequence, unless what lies there does not matter.
    fn clear(&self, rest: &mut [f32]) {
        if !self.shared_buffer {
            rest.fill(0.0);
        }
    }
}
