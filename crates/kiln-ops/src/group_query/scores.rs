//! The output of scores [batch, heads, new positions, total length], before or after the softmax: for looking at a
//! model, and not fast. Where a query does not see a key, the score is 0.

use kiln_kernels::cpu::attention::Cells;
use kiln_kernels::memory;
use kiln_kernels::parallel::for_each_chunk;

use super::heads::Rows;
use super::{Beside, GroupQuery, Request};

/// Which scores are an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scores {
    /// Times the scale, capped and with the bias.
    Before,
    /// The weights of values.
    After,
}

impl GroupQuery {
    /// Writes the scores of all queries to `output`.
    pub(super) fn scores(
        &self,
        scores: Scores,
        queries: &Rows<'_>,
        keys: &Cells<'_>,
        request: &Request<'_>,
        beside: &Beside<'_>,
        output: &mut [f32],
    ) {
        let sizes = request.sizes;
        let (new, size, shared) = (sizes.new, sizes.size, self.heads / self.kv_heads);
        let scale = self.scale_of(size);
        for_each_chunk(request.parallel, output, shared * new * sizes.total, &|line, to| {
            let (batch, own) = (line / self.kv_heads, line % self.kv_heads);
            let sequence = &request.sequences[batch];
            let seen = |position: usize| self.seen(sequence, position);
            to.fill(0.0);
            let mut key = memory::zeroed::<f32>(size);
            for at in 0..sequence.filled {
                if request.parallel.is_stopped() {
                    return;
                }
                let row = line * sizes.room + at;
                keys.widen(request.isa, row..row + 1, own, size, &mut key);
                for (row, to) in to.chunks_exact_mut(sizes.total).enumerate() {
                    let (head, position) = (own * shared + row / new, row % new);
                    if position < sequence.written && seen(position).contains(&at) {
                        let query = queries.head(batch * new + position, head);
                        to[at] = scale * query.iter().zip(&*key).map(|(query, key)| query * key).sum::<f32>();
                    }
                }
            }
            for (row, to) in to.chunks_exact_mut(sizes.total).enumerate() {
                let (head, position) = (own * shared + row / new, row % new);
                if position < sequence.written {
                    let bias = beside.row(batch, head, position);
                    let seen = seen(position);
                    let bias = bias.map(|bias| &bias[seen.clone()]);
                    self.finish(scores, bias, beside.sink_of(head), &mut to[seen]);
                }
            }
        });
    }

    /// The steps between the products of one query with the keys that it sees and its scores.
    fn finish(&self, scores: Scores, bias: Option<&[f32]>, sink: Option<f32>, row: &mut [f32]) {
        if self.cap > 0.0 {
            row.iter_mut().for_each(|score| *score = self.cap * (*score / self.cap).tanh());
        }
        if let Some(bias) = bias {
            row.iter_mut().zip(bias).for_each(|(score, bias)| *score += bias);
        }
        if scores == Scores::After {
            let most = row.iter().copied().chain(sink).fold(f32::NEG_INFINITY, f32::max);
            // Where all are minus infinity, weights are 0.
            let most = if most == f32::NEG_INFINITY { 0.0 } else { most };
            row.iter_mut().for_each(|score| *score = (*score - most).exp());
            let sum = row.iter().sum::<f32>() + sink.map_or(0.0, |sink| (sink - most).exp());
            row.iter_mut().for_each(|score| *score = if sum == 0.0 { 0.0 } else { *score / sum });
        }
    }
}
