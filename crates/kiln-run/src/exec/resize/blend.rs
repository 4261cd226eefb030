//! Mixing neighbours by weights, two axes at a time.
//!
//! Weights of different axes multiply, so axes are done one after the other. The last two go together: the rows that a
//! row of the output needs are mixed into one, which stays in L1 while its elements are mixed along the
//! row. Elements that keep their place innermost (channels, where those come last) are mixed as one.

use kiln_kernels::Parallel;
use kiln_kernels::memory::{self, Collect, Pace};
use kiln_kernels::parallel::for_each_chunk;

use super::ResizeAxis;
use super::axis::Table;

/// All passes of a resize.
#[derive(Debug)]
pub(super) struct Blend {
    passes: Vec<Pass>,
}

/// Mixing along one or two axes of `[outer, rows, between, columns, unit]`.
#[derive(Debug)]
struct Pass {
    rows: Option<Table>,
    columns: Option<Table>,
    rows_in: usize,
    rows_out: usize,
    between: usize,
    columns_in: usize,
    columns_out: usize,
    unit: usize,
    /// What repeats along a row, where rows are mixed element by element.
    period: Option<Period>,
    /// Elements written.
    output: usize,
}

impl Blend {
    pub(super) fn new(axes: &[ResizeAxis], mut tables: Vec<Option<Table>>) -> Blend {
        let mut sizes: Vec<usize> = axes.iter().map(|axis| axis.input as usize).collect();
        let mut resized: Vec<usize> = (0..axes.len()).filter(|&axis| tables[axis].is_some()).collect();
        let product = |sizes: &[usize]| sizes.iter().product::<usize>();
        let mut passes = vec![];
        while let Some(&first) = resized.first() {
            // Two axes at the end go together; a last one alone goes by columns, unless whole rows can be mixed.
            let inner = product(&sizes[first + 1..]);
            let second = match resized.len() {
                2 => Some(resized[1]),
                1 if inner == 1 => Some(first),
                _ => None,
            };
            let done = if second.is_some() { resized.len() } else { 1 };
            resized.drain(..done);
            let row = second != Some(first);
            let rows = if row { tables[first].take() } else { None };
            let columns = second.and_then(|second| tables[second].take());
            let (last, rows_in) = (second.unwrap_or(first), if row { sizes[first] } else { 1 });
            let between = if row { second.map_or(1, |second| product(&sizes[first + 1..second])) } else { 1 };
            let unit = product(&sizes[last + 1..]);
            let columns_in = if second.is_some() { sizes[last] } else { 1 };
            for axis in [Some(first), second].into_iter().flatten() {
                sizes[axis] = axes[axis].output as usize;
            }
            let period = columns.as_ref().filter(|_| unit == 1).and_then(Period::of);
            passes.push(Pass {
                period,
                rows,
                columns,
                rows_in,
                rows_out: if row { sizes[first] } else { 1 },
                between,
                columns_in,
                columns_out: if second.is_some() { sizes[last] } else { 1 },
                unit,
                output: product(&sizes),
            });
        }
        Blend { passes }
    }

    /// Mixes `input` into the whole of `output`.
    pub(super) fn run(&self, input: &[f32], output: &mut [f32], tasks: usize, parallel: &dyn Parallel) {
        let Some((last, first)) = self.passes.split_last() else {
            let same = output.len().min(input.len());
            return output[..same].copy_from_slice(&input[..same]);
        };
        let mut between: Option<Vec<f32>> = None;
        for pass in first {
            let mut next = memory::zeroed(pass.output);
            pass.run(between.as_deref().unwrap_or(input), &mut next, tasks, parallel);
            between = Some(next);
        }
        last.run(between.as_deref().unwrap_or(input), output, tasks, parallel);
    }

    pub(super) fn bytes(&self) -> usize {
        let tables = self.passes.iter().flat_map(|pass| [&pass.rows, &pass.columns]).flatten();
        tables.map(Table::bytes).sum::<usize>() + std::mem::size_of_val(self.passes.as_slice())
    }
}

impl Pass {
    fn run(&self, input: &[f32], output: &mut [f32], tasks: usize, parallel: &dyn Parallel) {
        let (row_in, row_out) = (self.columns_in * self.unit, self.columns_out * self.unit);
        if output.is_empty() {
            return;
        }
        let rows = (output.len() / row_out).div_ceil(tasks);
        for_each_chunk(parallel, output, rows * row_out, &|index, chunk| {
            let both = self.rows.is_some() && self.columns.is_some();
            let mut mixed = memory::zeroed(if both { row_in } else { 0 });
            let mut pace = Pace::default();
            for (place, out) in chunk.chunks_exact_mut(row_out).enumerate() {
                pace.step(row_out);
                let row = index * rows + place;
                let (group, between) = (row / self.between, row % self.between);
                let (outer, at) = (group / self.rows_out, group % self.rows_out);
                let source = |row: usize| {
                    let start = ((outer * self.rows_in + row) * self.between + between) * row_in;
                    &input[start..start + row_in]
                };
                match (&self.rows, &self.columns) {
                    (Some(rows), None) => mix(rows.at(at).map(|(row, weight)| (source(row), weight)), out),
                    (None, Some(columns)) => self.along(columns, source(at), out),
                    (Some(rows), Some(columns)) => {
                        let mut taps = rows.at(at);
                        match (taps.next(), taps.next()) {
                            // Nothing to mix: the row is read where it is.
                            (Some((row, 1.0)), None) => self.along(columns, source(row), out),
                            _ => {
                                mix(rows.at(at).map(|(row, weight)| (source(row), weight)), &mut mixed);
                                self.along(columns, &mixed, out);
                            }
                        }
                    }
                    (None, None) => out.copy_from_slice(source(at)),
                }
            }
        });
    }

    /// Mixes the elements of one row.
    fn along(&self, columns: &Table, row: &[f32], out: &mut [f32]) {
        let unit = self.unit;
        if unit > 1 {
            for (place, out) in out.chunks_exact_mut(unit).enumerate() {
                let taps = columns.at(place).map(|(column, weight)| (&row[column * unit..][..unit], weight));
                mix(taps, out);
            }
        } else if columns.taps == 2 {
            let end = self.period.as_ref().map_or(0, |period| period.run(row, out));
            let start = self.period.as_ref().map_or(0, |period| period.lead);
            mix_pairs(columns, row, out, 0..start);
            mix_pairs(columns, row, out, end..out.len());
        } else {
            let mut pace = Pace::default();
            for (place, out) in out.iter_mut().enumerate() {
                pace.step(columns.taps);
                *out = columns.at(place).map(|(column, weight)| row[column] * weight).sum();
            }
        }
    }
}

/// The regular part of a row that becomes a whole number of times as long: every pair of neighbours is mixed in the
/// same few ways. With one set of weights for all pairs and no table of neighbours, the loop becomes vector code.
#[derive(Debug)]
struct Period {
    /// Places before the first two neighbours.
    lead: usize,
    /// Pairs of neighbours.
    pairs: usize,
    /// The weights of the places between two neighbours.
    weights: Vec<[f32; 2]>,
}

impl Period {
    /// The most places between two neighbours that have a loop of their own.
    const MOST: usize = 4;

    fn of(table: &Table) -> Option<Period> {
        if table.taps != 2 {
            return None;
        }
        let places: Vec<&[u32]> = table.places.chunks_exact(2).collected();
        let weights: Vec<&[f32]> = table.weights.chunks_exact(2).collected();
        let lead = places.iter().position(|&pair| pair == [0, 1])?;
        let times = places[lead..].iter().take_while(|&&pair| pair == [0, 1]).count();
        let regular = |&at: &usize| {
            let (pair, way) = (((at - lead) / times) as u32, (at - lead) % times);
            places[at] == [pair, pair + 1] && weights[at] == weights[lead + way]
        };
        let pairs = (lead..places.len()).take_while(regular).count() / times;
        let own = weights[lead..lead + times].iter().map(|pair| [pair[0], pair[1]]).collect();
        ((2..=Period::MOST).contains(&times) && pairs > 1).then_some(Period { lead, pairs, weights: own })
    }

    /// Mixes its part of the row; returns where it ends.
    fn run(&self, row: &[f32], out: &mut [f32]) -> usize {
        let end = self.lead + self.pairs * self.weights.len();
        let out = &mut out[self.lead..end];
        match *self.weights.as_slice() {
            [a, b] => between(row, [a, b], out),
            [a, b, c] => between(row, [a, b, c], out),
            [a, b, c, d] => between(row, [a, b, c, d], out),
            _ => return self.lead,
        }
        end
    }
}

/// Mixes each pair of neighbours of a row in `WAYS` ways.
fn between<const WAYS: usize>(row: &[f32], weights: [[f32; 2]; WAYS], out: &mut [f32]) {
    for ((out, left), right) in out.chunks_exact_mut(WAYS).zip(row).zip(&row[1..]) {
        for (out, weights) in out.iter_mut().zip(weights) {
            *out = left * weights[0] + right * weights[1];
        }
    }
}

/// Mixes the two neighbours of each of some places of a row.
fn mix_pairs(columns: &Table, row: &[f32], out: &mut [f32], places: std::ops::Range<usize>) {
    let of = places.start * 2..places.end * 2;
    let pairs = columns.places[of.clone()].chunks_exact(2).zip(columns.weights[of].chunks_exact(2));
    for (out, (places, weights)) in out[places].iter_mut().zip(pairs) {
        *out = row[places[0] as usize] * weights[0] + row[places[1] as usize] * weights[1];
    }
}

/// The weighted sum of slices.
fn mix<'a>(mut taps: impl Iterator<Item = (&'a [f32], f32)>, out: &mut [f32]) {
    match (taps.next(), taps.next()) {
        (None, _) => out.fill(0.0),
        (Some((only, 1.0)), None) => out.copy_from_slice(only),
        (Some((only, weight)), None) => out.iter_mut().zip(only).for_each(|(out, value)| *out = value * weight),
        (Some((first, a)), Some((second, b))) => {
            let pairs = first.iter().zip(second);
            out.iter_mut().zip(pairs).for_each(|(out, (first, second))| *out = first * a + second * b);
            for (next, weight) in taps {
                out.iter_mut().zip(next).for_each(|(out, value)| *out += value * weight);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Mode, ResizeProblem, Transform};
    use super::*;

    #[test]
    fn regular_rows_are_mixed_like_irregular_ones() {
        let transforms = [Transform::HalfPixel, Transform::Asymmetric, Transform::AlignCorners];
        let mut regular = 0;
        for (transform, input, output) in transforms.into_iter().flat_map(|transform| {
            [(16, 32), (5, 15), (9, 36), (7, 11), (12, 6), (1, 2), (2, 4), (3, 15)].map(|(a, b)| (transform, a, b))
        }) {
            let scale = (output as f64 / input as f64).to_bits();
            let axis = ResizeAxis { input, output, scale, ..ResizeAxis::keep(1) };
            let (mode, axes) = (Mode::Linear, [axis].into_iter().collect());
            let (exclude_outside, antialias) = (false, false);
            let key = ResizeProblem { mode, transform, exclude_outside, antialias, axes, width: 4 };
            let table = Table::new(&axis, &key).unwrap();
            let row: Vec<f32> = (0..input).map(|at| (at * 37 % 19) as f32 - 7.5).collect();
            let mut expected = vec![0.0; output as usize];
            mix_pairs(&table, &row, &mut expected, 0..output as usize);
            let blend = Blend::new(&key.axes, vec![Some(table)]);
            regular += usize::from(blend.passes[0].period.is_some());
            let mut given = vec![f32::NAN; output as usize];
            blend.run(&row, &mut given, 1, &kiln_kernels::parallel::Serial);
            assert_eq!(given, expected, "{key:?}");
        }
        // Half pixels and none: 16 to 32, 5 to 15 and 9 to 36, and with two neighbours alone nothing is regular.
        assert!(regular >= 6, "{regular}");
    }
}
