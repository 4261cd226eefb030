//! SparseAttention: attention over the blocks of keys that a table names for each block of queries, with a cache of
//! keys and values that every step writes its positions into.
//!
//! The table has a row for each block of queries; a row's elements are the blocks of keys that it sees, as in a
//! compressed sparse matrix. Several tables take turns over heads. Computed in `f32`; each head of a sequence is a
//! task.

use std::ops::Range;

use kiln_kernels::memory;
use kiln_kernels::reference::rotary::rotate;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::tasks::try_each_chunk;
use super::wide::{filled, lent};
use super::{LoadCx, OpError, Operator, integer, optional, refused, required, size_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("com.microsoft", "SparseAttention", make)];

/// Sizes of blocks, in positions.
const BLOCKS: [usize; 4] = [16, 32, 64, 128];

struct SparseAttention {
    heads: usize,
    kv_heads: usize,
    block: usize,
    scale: Option<f32>,
    /// Whether queries and new keys are rotated, and whether the two of a pair are then neighbours.
    rotates: bool,
    interleaved: bool,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let attributes = cx.node.attributes();
    let size = |name| size_attribute(cx.node, name, 1);
    let (heads, kv_heads, block) = (size("num_heads")?, size("kv_num_heads")?, size("sparse_block_size")?);
    if heads % kv_heads != 0 {
        return Err(OpError::invalid(cx.node, format!("{heads} heads of queries and {kv_heads} of keys")));
    }
    if !BLOCKS.contains(&block) {
        return Err(OpError::invalid(cx.node, format!("sparse_block_size = {block}")));
    }
    if cx.node.input(1).is_some() != cx.node.input(2).is_some() {
        return Err(OpError::invalid(cx.node, "keys and values are given together, or are behind the queries"));
    }
    let rotates = attributes.flag("do_rotary");
    if rotates && (cx.node.input(9).is_none() || cx.node.input(10).is_none()) {
        return Err(OpError::invalid(cx.node, "do_rotary without cosines and sines"));
    }
    let scale = attributes.number("scale").filter(|&scale| scale != 0.0);
    let interleaved = attributes.flag("rotary_interleaved");
    Ok(Box::new(SparseAttention { heads, kv_heads, block, scale, rotates, interleaved }))
}

/// Sizes of one run.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    positions: usize,
    size: usize,
    /// Positions that the cache has room for.
    room: usize,
    /// Tables of blocks, and the rows and elements of each table.
    tables: usize,
    rows: usize,
    columns: usize,
}

impl SparseAttention {
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<Sizes, NodeError> {
        let wrong = |index: usize| match optional(inputs, index) {
            Some(tensor) => refused(format!("input {index} has shape {:?}", tensor.shape())),
            None => refused(format!("input {index} is left out")),
        };
        let shape = |index: usize| Ok::<_, NodeError>(required(inputs, index)?.shape());
        let &[batch, positions, width] = shape(0)? else { return Err(wrong(0)) };
        let is_packed = optional(inputs, 1).is_none();
        let both = if is_packed { self.kv_heads.saturating_mul(2) } else { 0 };
        let all = self.heads.saturating_add(both);
        if width % all != 0 {
            return Err(wrong(0));
        }
        let size = width / all;
        if !is_packed {
            for index in [1, 2] {
                if shape(index)? != [batch, positions, self.kv_heads * size] {
                    return Err(wrong(index));
                }
            }
        }
        let &[of, heads, room, same] = shape(3)? else { return Err(wrong(3)) };
        if [of, heads, same] != [batch, self.kv_heads, size] {
            return Err(wrong(3));
        }
        if shape(4)? != shape(3)? {
            return Err(wrong(4));
        }
        let (&[tables, ends], &[also, columns]) = (shape(5)?, shape(6)?) else { return Err(wrong(5)) };
        if tables == 0 || ends == 0 || !self.heads.is_multiple_of(tables) {
            return Err(wrong(5));
        }
        if also != tables {
            return Err(wrong(6));
        }
        if required(inputs, 7)?.len() != 1 {
            return Err(wrong(7));
        }
        if shape(8)? != [batch] {
            return Err(wrong(8));
        }
        if self.rotates {
            let half = |index: usize| match *shape(index)? {
                [_, half] if 2 * half <= size => Ok(half),
                _ => Err(wrong(index)),
            };
            half(9)?;
            if shape(9)? != shape(10)? {
                return Err(wrong(10));
            }
        }
        Ok(Sizes { batch, positions, size, room, tables, rows: ends - 1, columns })
    }

    /// The positions of each sequence with the new ones. A prompt is as long as the longest sequence.
    fn totals(&self, io: &Io<'_>, sizes: Sizes) -> Result<Vec<Range<usize>>, NodeError> {
        let longest = integer(io.input(7)?)?;
        let totals = super::integers(io.input(8)?)?;
        let is_prompt = usize::try_from(longest) == Ok(sizes.positions);
        let range = |&total: &i64| {
            let most = sizes.room.min(usize::try_from(longest).unwrap_or(0));
            let total = usize::try_from(total).ok().filter(|&total| total <= most);
            let wrong =
                || refused(format!("sequences of {totals:?} positions, of at most {longest} and {}", sizes.room));
            let total = total.ok_or_else(wrong)?;
            let before = if is_prompt { Some(0) } else { total.checked_sub(sizes.positions) }.ok_or_else(wrong)?;
            if before + sizes.positions > sizes.room.min(sizes.rows.saturating_mul(self.block)) {
                return Err(refused(format!(
                    "{} positions behind {before}, more than there is room for",
                    sizes.positions
                )));
            }
            Ok(before..before + sizes.positions)
        };
        totals.iter().map(range).collect()
    }
}

/// Tables of blocks; `ends` has the bounds of each row's elements.
struct Tables<'a> {
    ends: &'a [i64],
    blocks: &'a [i64],
    sizes: Sizes,
}

impl Tables<'_> {
    /// The blocks of keys that a block of queries sees.
    fn row(&self, table: usize, row: usize) -> Result<&[i64], NodeError> {
        let Sizes { rows, columns, .. } = self.sizes;
        let ends = &self.ends[table * (rows + 1) + row..][..2];
        let place = |end: i64| usize::try_from(end).ok().filter(|&end| end <= columns);
        match (place(ends[0]), place(ends[1])) {
            (Some(start), Some(end)) if start <= end => Ok(&self.blocks[table * columns..][start..end]),
            _ => Err(refused(format!("row {row} of table {table} has the elements {ends:?} of {columns}"))),
        }
    }
}

impl Node for SparseAttention {
    fn family(&self) -> &'static str {
        "SparseAttention"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.sizes(inputs)?;
        for (index, tensor) in inputs.iter().enumerate().filter_map(|(index, tensor)| Some((index, (*tensor)?))) {
            let fits = if (5..9).contains(&index) { tensor.dtype() == DType::I32 } else { tensor.dtype().is_float() };
            if !fits {
                return Err(NodeError::Unsupported(format!("input {index} of type {}", tensor.dtype())));
            }
        }
        Ok(())
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let sizes = self.sizes(&io.inputs())?;
        let spans = self.totals(io, sizes)?;
        let (ends, blocks) = (io.input(5)?.to_i64_vec()?, io.input(6)?.to_i64_vec()?);
        let tables = Tables { ends: &ends, blocks: &blocks, sizes };
        let (queries, keys, values) = self.heads_of(io, sizes, &spans)?;
        let (past_keys, past_values) = (lent::<f32>(io.input(3)?)?, lent::<f32>(io.input(4)?)?);
        let renewed = |past: &[f32], new: &[f32], to: &mut [f32]| {
            to.copy_from_slice(past);
            let lines = to
                .chunks_exact_mut((sizes.room * sizes.size).max(1))
                .zip(new.chunks((sizes.positions * sizes.size).max(1)));
            for (line, (to, new)) in lines.enumerate() {
                let first = spans[line / self.kv_heads].start * sizes.size;
                to[first..first + new.len()].copy_from_slice(new);
            }
            Ok(())
        };
        let cached = filled(io.alloc(1)?, |to: &mut [f32]| renewed(&past_keys, &keys, to))?;
        let also = filled(io.alloc(2)?, |to: &mut [f32]| renewed(&past_values, &values, to))?;
        let (all_keys, all_values) = (lent::<f32>(&cached)?, lent::<f32>(&also)?);
        let area = sizes.positions * sizes.size;
        let mut results: Vec<f32> = memory::zeroed(sizes.batch * self.heads * area);
        let scale = self.scale.unwrap_or(1.0 / (sizes.size as f32).sqrt());
        if area > 0 {
            try_each_chunk(cx.parallel, &mut results, area, &|place, out| {
                let (sequence, head) = (place / self.heads, place % self.heads);
                let line = sequence * self.kv_heads + head / (self.heads / self.kv_heads);
                let cache = line * sizes.room * sizes.size;
                let one = Head {
                    queries: &queries[place * area..][..area],
                    keys: &all_keys[cache..][..sizes.room * sizes.size],
                    values: &all_values[cache..][..sizes.room * sizes.size],
                    table: head % sizes.tables,
                    first: spans[sequence].start,
                    scale,
                };
                self.attend(&one, &tables, out, cx)
            })?;
        }
        let output = filled(io.alloc(0)?, |output: &mut [f32]| {
            for (place, line) in output.chunks_exact_mut(sizes.size.max(1)).enumerate() {
                let (token, head) = (place / self.heads, place % self.heads);
                let (sequence, position) = (token / sizes.positions, token % sizes.positions);
                let from = ((sequence * self.heads + head) * sizes.positions + position) * sizes.size;
                line.copy_from_slice(&results[from..][..sizes.size]);
            }
            Ok(())
        })?;
        io.push(output);
        io.push(cached);
        io.push(also);
        Ok(())
    }
}

/// A head of one sequence.
struct Head<'a> {
    queries: &'a [f32],
    keys: &'a [f32],
    values: &'a [f32],
    table: usize,
    /// The position of the first query.
    first: usize,
    scale: f32,
}

impl SparseAttention {
    /// Queries, new keys and new values by sequences, heads and positions, queries and keys rotated.
    fn heads_of(
        &self,
        io: &Io<'_>,
        sizes: Sizes,
        spans: &[Range<usize>],
    ) -> Result<(Vec<f32>, Vec<f32>, Vec<f32>), NodeError> {
        let Sizes { positions, size, .. } = sizes;
        let is_packed = io.optional(1).is_none();
        let tables = match self.rotates {
            true => Some((lent::<f32>(io.input(9)?)?, lent::<f32>(io.input(10)?)?, io.input(9)?.shape()[1])),
            false => None,
        };
        let part = |index: usize, heads: usize, skipped: usize, turned: bool| -> Result<Vec<f32>, NodeError> {
            let from = lent::<f32>(if is_packed { io.input(0)? } else { io.input(index)? })?;
            let all = if is_packed { self.heads + 2 * self.kv_heads } else { heads };
            let first = if is_packed { skipped } else { 0 };
            let mut to: Vec<f32> = memory::zeroed(sizes.batch * heads * positions * size);
            for (place, line) in to.chunks_exact_mut(size.max(1)).enumerate() {
                let (at, position) = (place / positions, place % positions);
                let (sequence, head) = (at / heads, at % heads);
                line.copy_from_slice(&from[((sequence * positions + position) * all + first + head) * size..][..size]);
                if let Some((cosines, sines, half)) = tables.as_ref().filter(|_| turned) {
                    let place = (spans[sequence].start + position) * half;
                    let (Some(cosines), Some(sines)) =
                        (cosines.get(place..place + half), sines.get(place..place + half))
                    else {
                        return Err(refused(format!("no cosines of position {}", spans[sequence].start + position)));
                    };
                    rotate(&mut line[..2 * half], cosines, sines, self.interleaved);
                }
            }
            Ok(to)
        };
        let queries = part(0, self.heads, 0, true)?;
        let keys = part(1, self.kv_heads, self.heads, true)?;
        Ok((queries, keys, part(2, self.kv_heads, self.heads + self.kv_heads, false)?))
    }

    fn attend(&self, head: &Head<'_>, tables: &Tables<'_>, out: &mut [f32], cx: &RunCx<'_>) -> Result<(), NodeError> {
        let size = tables.sizes.size;
        let mut scores: Vec<f32> = Vec::new();
        let mut places: Vec<usize> = Vec::new();
        for (step, (query, out)) in head.queries.chunks_exact(size).zip(out.chunks_exact_mut(size)).enumerate() {
            cx.check_stop()?;
            let position = head.first + step;
            scores.clear();
            places.clear();
            for &block in tables.row(head.table, position / self.block)? {
                // Blocks behind the query are not seen, whatever the table says.
                let Some(first) = usize::try_from(block).ok().and_then(|block| block.checked_mul(self.block)) else {
                    return Err(refused(format!("block {block} of keys")));
                };
                places.extend(first..(first + self.block).min(position + 1));
            }
            let score = |place: &usize| {
                let key = &head.keys[place * size..][..size];
                head.scale * query.iter().zip(key).map(|(a, b)| a * b).sum::<f32>()
            };
            scores.extend(places.iter().map(score));
            let greatest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut total = 0.0;
            for score in &mut scores {
                *score = (*score - greatest).exp();
                total += *score;
            }
            for (place, score) in places.iter().zip(&scores) {
                let value = &head.values[place * size..][..size];
                let factor = score / total;
                out.iter_mut().zip(value).for_each(|(out, value)| *out += factor * value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
