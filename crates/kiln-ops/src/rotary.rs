//! RotaryEmbedding: pairs of a head's elements rotated by angles that depend on the position; and MRotaryEmbedding,
//! whose positions are three numbers, each for some of the pairs.

use std::borrow::Cow;

use kiln_kernels::cpu::rotary::{Angles, Rotary as Executor, Rotation};
use kiln_kernels::memory::{Collect, zeroed};
use kiln_run::exec::rotary::RotaryProblem;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::wide::{load_long, narrow, widened};
use super::{LoadCx, OpError, Operator, Run, index_of, optional, refused, required, size_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "RotaryEmbedding", make),
    ("com.microsoft", "RotaryEmbedding", make_contrib),
    ("com.microsoft", "MRotaryEmbedding", make_streams),
];

/// Places of the inputs behind the first.
#[derive(Clone, Copy)]
struct Places {
    cosines: usize,
    sines: usize,
    /// The ids, which say which line of angles a position has.
    ids: usize,
}

struct Rotary {
    /// Whether the two of a pair are neighbours, instead of half a head apart.
    interleaved: bool,
    /// Elements of a head that are rotated; all where it is zero.
    rotated: usize,
    /// `None` where the angles say how large a head is.
    heads: Option<usize>,
    places: Places,
    /// Whether a single id is the first position's, and the others count on from it.
    counts_on: bool,
    /// For each pair, which of a position's three ids gives its angle.
    streams: Option<Vec<usize>>,
    /// Factor of cosines and sines.
    scale: f32,
}

/// Ids that a position of an image or a film has: its time, its row and its column.
const STREAMS: usize = 3;

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let places = Places { cosines: 1, sines: 2, ids: 3 };
    Ok(Box::new(Rotary { heads: Some(heads(cx)?), ..rotary(cx, places)? }))
}

/// ONNX Runtime's, whose ids come first.
fn make_contrib(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let attributes = cx.node.attributes();
    // `is_packed_batching` only says that a batch may have more positions than the table: each has its own id.
    let scale = attributes.float("scale");
    if scale != 1.0 {
        return Err(OpError::unsupported(cx.node, format!("attribute scale = {scale}")));
    }
    let heads = Some(heads(cx)?).filter(|&heads| heads > 0);
    let rotary = rotary(cx, Places { ids: 1, cosines: 2, sines: 3 })?;
    if heads.is_none() && rotary.rotated > 0 {
        let rotated = rotary.rotated;
        return Err(OpError::invalid(cx.node, format!("rotary_embedding_dim = {rotated} without num_heads")));
    }
    Ok(Box::new(Rotary { heads, counts_on: true, ..rotary }))
}

/// ONNX Runtime's, whose positions have three ids.
fn make_streams(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let attributes = cx.node.attributes();
    let sections = cx.node.ints("mrope_section").unwrap_or_default();
    let wrong = || OpError::invalid(cx.node, format!("mrope_section = {:?}", &sections[..sections.len().min(8)]));
    let sections: Option<Vec<usize>> = sections.iter().map(|&size| usize::try_from(size).ok()).collect();
    let sections = sections.filter(|sections| sections.len() == STREAMS).ok_or_else(wrong)?;
    let pairs = sections.iter().try_fold(0usize, |sum, &size| sum.checked_add(size));
    let pairs = pairs.filter(|&pairs| pairs <= MOST_PAIRS).ok_or_else(wrong)?;
    let streams = match attributes.int("mrope_layout") {
        0 => sections.iter().enumerate().flat_map(|(stream, &size)| std::iter::repeat_n(stream, size)).collect(),
        // Every third pair belongs to rows, and every third to columns, as far as their sections reach.
        1 => {
            (0..pairs).map(|pair| if pair < STREAMS * sections[pair % STREAMS] { pair % STREAMS } else { 0 }).collect()
        }
        other => return Err(OpError::invalid(cx.node, format!("mrope_layout = {other}"))),
    };
    let heads = Some(heads(cx)?).filter(|&heads| heads > 0);
    let rotary = rotary(cx, Places { ids: 1, cosines: 2, sines: 3 })?;
    if heads.is_none() && rotary.rotated > 0 {
        let rotated = rotary.rotated;
        return Err(OpError::invalid(cx.node, format!("rotary_embedding_dim = {rotated} without num_heads")));
    }
    Ok(Box::new(Rotary { heads, streams: Some(streams), scale: attributes.float("scale"), ..rotary }))
}

/// Most pairs of a head.
const MOST_PAIRS: usize = 1 << 16;

/// The attribute `num_heads`; 0 where there is none.
fn heads(cx: &LoadCx<'_>) -> Result<usize, OpError> {
    let given = cx.node.attributes().integer("num_heads");
    given.map_or(Ok(0), |_| size_attribute(cx.node, "num_heads", 0))
}

fn rotary(cx: &LoadCx<'_>, places: Places) -> Result<Rotary, OpError> {
    let interleaved = cx.node.attributes().flag("interleaved");
    let rotated = size_attribute(cx.node, "rotary_embedding_dim", 0)?;
    Ok(Rotary { interleaved, rotated, heads: None, places, counts_on: false, streams: None, scale: 1.0 })
}

/// Sizes, and the order of heads and positions in memory.
struct Sizes {
    batch: usize,
    positions: usize,
    heads: usize,
    size: usize,
    /// Elements of a head that are rotated.
    rotated: usize,
    heads_first: bool,
}

impl Rotary {
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<Sizes, NodeError> {
        let shape = required(inputs, 0)?.shape();
        let Places { cosines, sines, ids } = self.places;
        // `None` where nothing says how large a head is.
        let by_angles = |hidden: usize| -> Option<usize> {
            let half = optional(inputs, cosines)?.shape().last()?;
            hidden.checked_div(2 * half)
        };
        let (batch, positions, heads, size, heads_first) = match *shape {
            [batch, heads, positions, size] => (batch, positions, heads, size, true),
            [batch, positions, hidden] => match self.heads.or_else(|| by_angles(hidden)).unwrap_or(0) {
                heads if heads > 0 && hidden % heads == 0 => (batch, positions, heads, hidden / heads, false),
                _ => return Err(refused(format!("no heads in shape {shape:?}"))),
            },
            _ => return Err(refused(format!("no heads in shape {shape:?}"))),
        };
        let rotated = if self.rotated == 0 { size } else { self.rotated };
        let fits = rotated <= size && rotated % 2 == 0;
        let (cosines, sines) = (required(inputs, cosines)?.shape(), required(inputs, sines)?.shape());
        // The ids name lines of the table, or there is one line for each batch and position, which torch writes once
        // for a batch.
        let lines = match (optional(inputs, ids), cosines) {
            (Some(ids), [_, half]) if self.streams.is_some() => {
                (ids.shape() == [STREAMS, batch, positions]).then_some(*half)
            }
            (Some(ids), [_, half]) if ids.shape() == [batch, positions] => Some(*half),
            (Some(ids), [_, half]) if self.counts_on && ids.shape() == [1] => Some(*half),
            (None, [b, p, half]) if (*b == batch || *b == 1) && *p == positions => Some(*half),
            _ => None,
        };
        let streams = self.streams.as_ref().is_none_or(|streams| streams.len() == rotated / 2);
        if !fits || !streams || cosines != sines || lines != Some(rotated / 2) {
            return Err(refused(format!("angles of {cosines:?} for {rotated} elements of heads in {shape:?}")));
        }
        Ok(Sizes { batch, positions, heads, size, rotated, heads_first })
    }
}

/// The line of a table; an id does not count from the end.
fn place_of(id: i64, known: usize) -> Result<usize, NodeError> {
    match usize::try_from(id) {
        Ok(line) if line < known => Ok(line),
        _ => Err(refused(format!("position {id} is outside of 0..{known}"))),
    }
}

/// Lines of angles in `f32`, and the line of each position.
struct Gathered<'a> {
    tables: [Cow<'a, [f32]>; 2],
    lines: Vec<usize>,
}

impl Gathered<'_> {
    fn angles(&self) -> Angles<'_> {
        Angles { cosines: &self.tables[0], sines: &self.tables[1], lines: &self.lines }
    }
}

impl Rotary {
    /// The angles of all positions. Tables have a line for each position of the longest text, and a step reads few
    /// lines: only those are widened from another type to `f32`.
    fn angles<'a>(
        &self,
        sizes: &Sizes,
        tables: [&'a Tensor; 2],
        ids: Option<&Tensor>,
    ) -> Result<Gathered<'a>, NodeError> {
        let known = tables[0].shape()[0];
        let count = sizes.batch * sizes.positions;
        let ids = ids.map(Tensor::to_i64_vec).transpose()?;
        if let (Some(streams), Some(ids)) = (&self.streams, &ids) {
            return self.of_streams(sizes, tables, streams, ids);
        }
        let first = ids.as_deref().filter(|ids| self.counts_on && ids.len() == 1).map(|ids| ids[0]);
        let line = |line: usize| match (&ids, first) {
            (_, Some(first)) => index_of(first.saturating_add((line % sizes.positions) as i64), known),
            (Some(ids), None) => index_of(ids[line], known),
            (None, None) if known == 1 => Ok(line % sizes.positions),
            (None, None) => Ok(line),
        };
        let lines: Vec<usize> = (0..count).map(line).try_collected()?;
        if let [Ok(cosines), Ok(sines)] = tables.map(Tensor::as_slice::<f32>) {
            return Ok(Gathered { tables: [cosines.into(), sines.into()], lines });
        }
        let half = sizes.rotated / 2;
        let gathered = |table: &Tensor| -> Result<Cow<'a, [f32]>, NodeError> {
            let mut to: Vec<f32> = zeroed(count * half);
            for (to, line) in to.chunks_exact_mut(half.max(1)).zip(&lines) {
                load_long(table, Run { start: line * half, count: half, stride: 1 }, to)?;
            }
            Ok(to.into())
        };
        let tables = [gathered(tables[0])?, gathered(tables[1])?];
        Ok(Gathered { tables, lines: (0..count).collected() })
    }

    /// The angles of positions with three ids; each id gives those of its own pairs.
    fn of_streams<'a>(
        &self,
        sizes: &Sizes,
        tables: [&Tensor; 2],
        streams: &[usize],
        ids: &[i64],
    ) -> Result<Gathered<'a>, NodeError> {
        let (known, half, count) = (tables[0].shape()[0], sizes.rotated / 2, sizes.batch * sizes.positions);
        let mut of_stream: Vec<f32> = zeroed(half);
        let mut gathered = |table: &Tensor| -> Result<Cow<'a, [f32]>, NodeError> {
            let mut to: Vec<f32> = zeroed(count * half);
            for (position, to) in to.chunks_exact_mut(half.max(1)).enumerate() {
                for stream in 0..STREAMS {
                    let line = place_of(ids[stream * count + position], known)?;
                    load_long(table, Run { start: line * half, count: half, stride: 1 }, &mut of_stream)?;
                    let own = to.iter_mut().zip(&of_stream).zip(streams).filter(|(_, of)| **of == stream);
                    own.for_each(|((to, angle), _)| *to = angle * self.scale);
                }
            }
            Ok(to.into())
        };
        let tables = [gathered(tables[0])?, gathered(tables[1])?];
        Ok(Gathered { tables, lines: (0..count).collected() })
    }
}

impl Node for Rotary {
    fn family(&self) -> &'static str {
        "RotaryEmbedding"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.sizes(inputs)?;
        match required(inputs, 0)?.dtype() {
            dtype if dtype.is_float() => Ok(()),
            dtype => Err(NodeError::Unsupported(format!("elements of type {dtype}"))),
        }
    }

    fn prepare_params(
        &self,
        cx: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let Sizes { batch, positions, heads, size, rotated, heads_first } = self.sizes(inputs)?;
        let [batch, positions, heads, size, rotated] = [batch, positions, heads, size, rotated].map(|size| size as u64);
        let interleaved = self.interleaved;
        let rotation = Rotation { batch, positions, heads, size, rotated, interleaved, heads_first };
        Ok(Prepared::new(cx.executor(&cx.key(RotaryProblem { rotation }))?))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let executor = prepared.get::<Executor>()?;
        let sizes = self.sizes(&io.inputs())?;
        let is_f32 = io.input(0)?.dtype() == DType::F32;
        if io.input(0)?.is_empty() {
            let output = io.alloc(0)?;
            io.push(output);
            return Ok(());
        }
        // The input's memory becomes the output's where no other value has it.
        let taken = if is_f32 && io.can_reuse(0, 0) { Some(io.take(0)?) } else { None };
        let tables = [io.input(self.places.cosines)?, io.input(self.places.sines)?];
        let gathered = self.angles(&sizes, tables, io.optional(self.places.ids))?;
        let angles = gathered.angles();
        let output = match taken {
            Some(mut data) => {
                executor.run_in_place(data.as_mut_slice()?, angles, cx.parallel)?;
                data
            }
            None if is_f32 => {
                let mut output = io.alloc(0)?;
                executor.run(io.input(0)?.as_slice()?, angles, output.as_mut_slice()?, cx.parallel)?;
                output
            }
            // Other floats are computed in `f32`, and rounded once.
            None => {
                let to = io.alloc(0)?;
                let mut values = widened::<f32>(io.input(0)?)?;
                executor.run_in_place(&mut values, angles, cx.parallel)?;
                narrow(&values, to)?
            }
        };
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    /// A rotation by a quarter circle at position 1, none at position 0.
    fn angles(trial: Trial) -> Trial {
        trial.input(&[2, 1], &[1f32, 0.0]).input(&[2, 1], &[0f32, 1.0])
    }

    #[test]
    fn pairs_rotate_by_their_positions_angle() {
        let row = || angles(Trial::new("RotaryEmbedding").input(&[1, 1, 2, 2], &[1f32, 2.0, 3.0, 4.0]));
        row().input(&[1, 2], &[0i64, 1]).gives(&[1, 1, 2, 2], &[1f32, 2.0, -4.0, 3.0]);
        row().input(&[1, 2], &[1i64, 0]).gives(&[1, 1, 2, 2], &[-2f32, 1.0, 3.0, 4.0]);
        row().input(&[1, 2], &[2i64, 0]).is_refused("outside of 0..2");
        row().is_refused("angles");
    }

    #[test]
    fn a_batch_may_share_the_angles_of_its_positions() {
        let row = || {
            let heads: Vec<f32> = (1..=8).map(|value| value as f32).collect();
            Trial::new("RotaryEmbedding").input(&[2, 1, 2, 2], &heads)
        };
        let given = |batch: usize, cosines: &[f32], sines: &[f32]| {
            row().input(&[batch, 2, 1], cosines).input(&[batch, 2, 1], sines)
        };
        let expected = [1f32, 2.0, -4.0, 3.0, 5.0, 6.0, -8.0, 7.0];
        given(1, &[1.0, 0.0], &[0.0, 1.0]).gives(&[2, 1, 2, 2], &expected);
        given(2, &[1.0, 0.0, 1.0, 0.0], &[0.0, 1.0, 0.0, 1.0]).gives(&[2, 1, 2, 2], &expected);
        given(3, &[1.0; 6], &[0.0; 6]).is_refused("angles");
    }

    #[test]
    fn ids_of_onnx_runtime_come_first_and_may_be_one() {
        let row = |heads: i64| {
            let trial = Trial::new("RotaryEmbedding").of_domain("com.microsoft").int("num_heads", heads);
            trial.input(&[1, 2, 2], &[1f32, 2.0, 3.0, 4.0])
        };
        angles(row(1).input(&[1], &[0i64])).gives(&[1, 2, 2], &[1f32, 2.0, -4.0, 3.0]);
        angles(row(0).input(&[1, 2], &[1i64, 0])).gives(&[1, 2, 2], &[-2f32, 1.0, 3.0, 4.0]);
        angles(row(0).input(&[1], &[1i64])).is_refused("outside of 0..2");
        angles(row(1).attr("scale", kiln_model::Attr::Float(2.0)).input(&[1], &[0i64])).is_refused("scale = 2");
    }

    #[test]
    fn three_ids_share_out_the_pairs_of_a_head() {
        // At position p all cosines are zero and all sines p + 1.
        let row = |layout: i64, sections: &[i64]| {
            let trial = Trial::new("MRotaryEmbedding").of_domain("com.microsoft").version(1).int("num_heads", 1);
            let trial = trial.int("mrope_layout", layout).ints("mrope_section", sections);
            trial.input(&[1, 1, 8], &[0f32, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
        };
        let angles = |trial: Trial| {
            let sines: Vec<f32> = (0..12).map(|place| 1.0 + (place / 4) as f32).collect();
            trial.input(&[3, 4], &[0f32; 12]).input(&[3, 4], &sines)
        };
        // The times, rows and columns are 0, 1 and 2: sines 1, 2 and 3.
        let given = |trial: Trial| angles(trial.input(&[3, 1, 1], &[0i64, 1, 2]));
        given(row(0, &[1, 1, 2])).gives(&[1, 1, 8], &[-1f32, -2.0, -3.0, -3.0, 0.0, 0.0, 0.0, 0.0]);
        given(row(1, &[2, 1, 1])).gives(&[1, 1, 8], &[-1f32, -2.0, -3.0, -1.0, 0.0, 0.0, 0.0, 0.0]);
        let scaled = given(row(0, &[4, 0, 0]).attr("scale", kiln_model::Attr::Float(0.5)));
        scaled.gives(&[1, 1, 8], &[-0.5f32, -0.5, -0.5, -0.5, 0.0, 0.0, 0.0, 0.0]);
        angles(row(0, &[1, 1, 2]).input(&[3, 1, 1], &[0i64, 3, 0])).is_refused("position 3 is outside of 0..3");
        angles(row(0, &[1, 1, 2]).input(&[3, 1, 1], &[0i64, -1, 0])).is_refused("position -1");
        given(row(0, &[1, 1, 1])).is_refused("angles");
        given(row(0, &[1, 3])).is_refused("mrope_section");
        given(row(0, &[1, 4, -1])).is_refused("mrope_section");
        given(row(2, &[1, 1, 2])).is_refused("mrope_layout = 2");
    }

    #[test]
    fn part_of_a_head_may_rotate_as_neighbours_or_halves() {
        let row = |interleaved| {
            let trial = Trial::new("RotaryEmbedding").int("num_heads", 1).int("interleaved", interleaved);
            trial.int("rotary_embedding_dim", 4).input(&[1, 1, 5], &[1f32, 2.0, 3.0, 4.0, 5.0])
        };
        let quarter = |trial: Trial| trial.input(&[1, 1, 2], &[0f32, 0.0]).input(&[1, 1, 2], &[1f32, 1.0]);
        quarter(row(1)).gives(&[1, 1, 5], &[-2f32, 1.0, -4.0, 3.0, 5.0]);
        quarter(row(0)).gives(&[1, 1, 5], &[-3f32, -4.0, 1.0, 2.0, 5.0]);
        quarter(row(0).int("rotary_embedding_dim", 6)).is_refused("angles");
        Trial::new("RotaryEmbedding").input(&[1, 1, 5], &[0f32; 5]).is_refused("no heads");
    }
}
