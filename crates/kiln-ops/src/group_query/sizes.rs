//! Sizes of a request to GroupQueryAttention, checked, and how far each of its sequences is filled.
//!
//! A cache that slides holds only the last positions of a sequence. With room for C positions and a window of W, it
//! drops C - W + 1 positions at a time when it is full. Of a sequence of T positions it therefore holds
//! L(T) = T - (C - W + 1) ceil((T - C) / (C - W + 1)), or T for T up to C, from row 0 on. Callers rely on that, because
//! ONNX Runtime does it so.

use kiln_kernels::cpu::attention::Held;
use kiln_kernels::memory::Collect;
use kiln_run::NodeError;
use kiln_tensor::Tensor;

use super::{GroupQuery, input};
use crate::{integer, optional, refused, required};

/// Sizes of a request.
pub(super) struct Sizes {
    pub(super) batch: usize,
    /// Sequences of the cache, or its pages.
    pub(super) cached: usize,
    /// Positions of a page, where the cache is in pages.
    pub(super) page: Option<usize>,
    /// New positions of each sequence.
    pub(super) new: usize,
    /// Elements of a head.
    pub(super) size: usize,
    /// Positions of a sequence that the given cache has room for, and those that the resulting one has.
    pub(super) past: usize,
    pub(super) room: usize,
    /// Positions of the longest sequence, the new ones included.
    pub(super) total: usize,
    /// How the cache stores its rows.
    pub(super) held: Held,
    /// Whether queries, keys and values are one tensor, and the elements of a position in the queries' tensor.
    pub(super) is_packed: bool,
    pub(super) query_width: usize,
    /// The window, where the cache slides.
    pub(super) sliding: Option<usize>,
    /// Whether the request says how many of the new positions of each sequence are valid.
    is_padded: bool,
}

/// A sequence of the batch.
#[derive(Clone, Copy)]
pub(super) struct Sequence {
    /// Positions before the new ones.
    pub(super) before: usize,
    /// Positions that are filled, the new ones included; a prompt is padded behind them.
    pub(super) filled: usize,
    /// New positions that are written: the valid ones where the request says how many are valid, else all.
    pub(super) written: usize,
    /// Rows of the cache with positions before the new ones, and rows with positions after the step.
    pub(super) rows: usize,
    pub(super) kept: usize,
}

impl Sequence {
    /// New positions that are filled.
    pub(super) fn own(&self) -> usize {
        self.filled - self.before
    }

    /// Rows that the cache would have if it dropped none, with the padding behind the filled ones.
    pub(super) fn whole(&self) -> usize {
        self.rows + self.written
    }

    /// Rows that are dropped from the front.
    pub(super) fn dropped(&self) -> usize {
        self.rows + self.own() - self.kept
    }
}

/// How many of the last positions of a sequence a sliding cache holds.
fn resident(positions: usize, room: usize, window: usize) -> usize {
    let dropped_at_once = room - window + 1;
    positions - dropped_at_once * positions.saturating_sub(room).div_ceil(dropped_at_once)
}

impl Sizes {
    pub(super) fn of(node: &GroupQuery, inputs: &[Option<&Tensor>]) -> Result<Sizes, NodeError> {
        let shape = |index: usize| optional(inputs, index).map(Tensor::shape);
        let unfit = |index: usize| {
            let found = shape(index).unwrap_or_default();
            refused(format!("input {index} of shape {found:?} does not fit queries of {:?}", shape(0)))
        };
        let &[batch, new, query_width] = required(inputs, input::QUERY)?.shape() else { return Err(unfit(0)) };
        let is_packed = shape(input::KEY).is_none();
        let heads = if is_packed { node.heads + 2 * node.kv_heads } else { node.heads };
        if query_width % heads != 0 {
            return Err(refused(format!("no {heads} heads in {query_width} elements")));
        }
        let size = query_width / heads;
        let holds = |index: usize, expected: &[usize]| match shape(index) {
            Some(found) if found != expected => Err(unfit(index)),
            _ => Ok(()),
        };
        for index in [input::KEY, input::VALUE] {
            holds(index, &[batch, new, node.kv_heads * size])?;
        }
        let past = shape(input::PAST_KEY).map_or(Some(0), |shape| shape.get(2).copied());
        let past = past.ok_or_else(|| unfit(input::PAST_KEY))?;
        let (cached, of_sequence) = match shape(input::PAGES) {
            None => (batch, None),
            Some(&[sequences, pages]) if sequences == batch && pages > 0 && past > 0 => {
                (shape(input::PAST_KEY).and_then(|shape| shape.first().copied()).unwrap_or(0), Some(pages))
            }
            Some(_) => return Err(unfit(input::PAGES)),
        };
        for index in [input::PAST_KEY, input::PAST_VALUE] {
            let stored = if node.held == Held::Nibbles { size.div_ceil(2) } else { size };
            holds(index, &[cached, node.kv_heads, past, stored])?;
        }
        if node.held.is_quantized() {
            let expected = if node.per_channel { node.kv_heads * size } else { 1 };
            for index in [input::KEY_SCALE, input::VALUE_SCALE] {
                let found = required(inputs, index)?.len();
                if found != expected {
                    return Err(refused(format!("input {index} of {found} scales, where {expected} are needed")));
                }
            }
        }
        let is_padded = shape(input::QUERY_LENGTHS).is_some();
        holds(input::QUERY_LENGTHS, &[batch])?;
        for (one, other) in [
            (input::KEY, input::VALUE),
            (input::PAST_KEY, input::PAST_VALUE),
            (input::COSINES, input::SINES),
            (input::QUERY_NORM, input::KEY_NORM),
        ] {
            if shape(one).is_some() != shape(other).is_some() {
                return Err(refused(format!("input {one} without input {other}, or the other without it")));
            }
        }
        let total = match of_sequence {
            Some(pages) => past.checked_mul(pages),
            None => usize::try_from(integer(required(inputs, input::TOTAL)?)?).ok(),
        };
        // A cache that slides stages a padded chunk, which may be longer than its sequences.
        let least = if is_padded && node.slides { 0 } else { new };
        let total = total.filter(|&total| total >= least && total <= i32::MAX as usize);
        let total = total.ok_or_else(|| refused(format!("a total length that {new} new positions do not fit")))?;
        if required(inputs, input::LAST)?.len() != batch {
            return Err(unfit(input::LAST));
        }
        if let Some(bias) = shape(input::BIAS) {
            let fits = matches!(*bias, [batches, heads, rows, keys] if [1, batch].contains(&batches)
                && [1, node.heads].contains(&heads) && [1, new].contains(&rows) && keys == total);
            if !fits {
                return Err(unfit(input::BIAS));
            }
        }
        holds(input::SINK, &[node.heads])?;
        for index in [input::QUERY_NORM, input::KEY_NORM] {
            holds(index, &[size])?;
        }
        if node.rotary {
            let cosines = required(inputs, input::COSINES)?.shape();
            if !matches!(*cosines, [_, pairs] if pairs <= size / 2) {
                return Err(unfit(input::COSINES));
            }
            holds(input::SINES, cosines)?;
            holds(input::IDS, &[batch, new])?;
        }
        let (page, past) = match of_sequence {
            Some(_) => (Some(past), total),
            None => (None, past),
        };
        let mut room = past.max(total);
        let mut sliding = None;
        if let Some(window) = node.window.filter(|_| node.slides) {
            if past < window {
                return Err(refused(format!("a cache of {past} positions that slides over a window of {window}")));
            }
            (room, sliding) = (past, Some(window));
        }
        let held = node.held_in(optional(inputs, input::PAST_KEY));
        Ok(Sizes {
            batch,
            cached,
            page,
            new,
            size,
            past,
            room,
            total,
            held,
            is_packed,
            query_width,
            sliding,
            is_padded,
        })
    }

    /// The most keys that a query may see, including those that a step drops.
    pub(super) fn reach(&self) -> usize {
        if self.sliding.is_some() { self.room + self.new } else { self.room }
    }

    /// Whether all positions are new, whatever the sequences' lengths.
    pub(super) fn is_prompt(&self) -> bool {
        self.new == self.total && !self.is_padded && self.page.is_none()
    }

    /// The sequences of the batch, from the last position of each and, where the new positions are padded, from the
    /// number of valid ones of each.
    pub(super) fn sequences(&self, last: &Tensor, lengths: Option<&Tensor>) -> Result<Vec<Sequence>, NodeError> {
        let lengths = lengths.map(Tensor::to_i64_vec).transpose()?;
        let sequence = |(at, last): (usize, i64)| {
            let filled = last.checked_add(1).and_then(|filled| usize::try_from(filled).ok());
            // Positions that a prompt states beyond its own are not filled: no query of it sees them.
            let most = if self.is_prompt() { self.room.max(self.total) } else { self.total };
            let filled = filled.filter(|filled| (1..=most).contains(filled)).map(|filled| filled.min(self.total));
            let valid = match (&lengths, filled) {
                (Some(lengths), Some(filled)) => Some(self.valid(at, lengths[at], filled)?),
                _ => None,
            };
            let before = match valid {
                Some(valid) => filled.map(|filled| filled - valid),
                None if self.is_prompt() => Some(0),
                None => filled.and_then(|filled| filled.checked_sub(self.new)),
            };
            let before = before.filter(|&before| self.sliding.is_some() || before <= self.past);
            let sequence = filled.zip(before).map(|(filled, before)| {
                let rows = |positions| self.sliding.map_or(positions, |window| resident(positions, self.room, window));
                let written = valid.unwrap_or(self.new);
                Sequence { before, filled, written, rows: rows(before), kept: rows(filled) }
            });
            sequence.ok_or_else(|| {
                let Sizes { new, past, total, .. } = self;
                refused(format!("a sequence up to position {last} of {total}, with {new} new ones behind {past}"))
            })
        };
        last.to_i64_vec()?.into_iter().enumerate().map(sequence).try_collected()
    }

    /// The number of valid new positions of a sequence. Refuses a chunk that the cache has no room for as a whole.
    fn valid(&self, sequence: usize, given: i64, filled: usize) -> Result<usize, NodeError> {
        let most = self.new.min(filled);
        let valid = usize::try_from(given).ok().filter(|&valid| valid <= most).ok_or_else(|| {
            let index = input::QUERY_LENGTHS;
            refused(format!("input {index} (query_seqlens): {given} of sequence {sequence}, where {most} are the most"))
        })?;
        let chunk = filled - valid + self.new;
        match self.sliding.is_some() || chunk <= self.room {
            true => Ok(valid),
            false => {
                let Sizes { new, room, .. } = self;
                Err(refused(format!(
                    "a chunk of {new} positions behind {} of sequence {sequence}, where the cache has room for {room}",
                    filled - valid
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_slides_is_full_or_drops_what_no_later_query_sees() {
        for (room, window) in [(4, 4), (6, 4), (7, 1), (12, 5), (1, 1)] {
            let mut rows = 0;
            for positions in 1..60 {
                // One position at a time: a full cache drops rows until the new one completes a window.
                rows = if rows == room { window - 1 } else { rows } + 1;
                assert_eq!(resident(positions, room, window), rows, "{positions} in {room}, window {window}");
            }
        }
    }
}
