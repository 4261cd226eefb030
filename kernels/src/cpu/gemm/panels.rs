//! The packed layout of a right-hand matrix, and packing.
//!
//! A matrix of `rows` by `columns` becomes panels of `width` columns. In a panel the rows follow each other without
//! gaps, so that a micro-kernel reads the panel front to back. The last panel is filled up with zeros. The layout
//! depends only on the matrix and the panel width: no change of the left-hand side's shape repacks it.
//!
//! Where an instruction adds several elements of a column (KR), these follow each other: panels in `bf16` are panels of
//! words, and a word holds two rows, the first in its lower half (VNNI layout). Integers come in groups of two or four.
//! Panels in `f16` have rows of half the bytes: two rows count as a row of words.

use std::ops::Range;

use half::slice::HalfBitsSliceExt;

use crate::cpu::PackedWeightsMut;
use crate::cpu::halves::narrow;
use crate::cpu::precision::to_bf16;
use crate::error::{KernelError, Result};
use crate::isa::Isa;

/// The panels of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Panels {
    /// Rows: the length of the reduction.
    pub rows: usize,
    /// Columns of the matrix.
    pub columns: usize,
    /// Columns of a panel.
    pub width: usize,
}

/// Where the elements of an unpacked matrix are. Its rows are numbered over `outer` and, within each, over `inner`:
/// row `o * inner + i`, column `j` is at `outer[o] + i * inner_stride + j * column_stride`.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a, T = f32> {
    /// The elements.
    pub data: &'a [T],
    /// Where each group of rows starts.
    pub outer: &'a [usize],
    /// Rows of a group.
    pub inner: usize,
    /// Stride of rows in a group.
    pub inner_stride: usize,
    /// Stride of columns.
    pub column_stride: usize,
}

impl<'a, T> Source<'a, T> {
    /// A row-major matrix whose rows are `stride` apart.
    #[must_use]
    pub fn row_major(data: &'a [T], rows: usize, stride: usize) -> Source<'a, T> {
        Source { data, outer: &[0], inner: rows, inner_stride: stride, column_stride: 1 }
    }

    /// A matrix stored by columns that are `stride` apart: a transposed row-major one.
    #[must_use]
    pub fn column_major(data: &'a [T], rows: usize, stride: usize) -> Source<'a, T> {
        Source { data, outer: &[0], inner: rows, inner_stride: 1, column_stride: stride }
    }

    /// Elements that must be present for `columns` columns.
    fn need(&self, columns: usize) -> usize {
        match (self.outer.iter().max(), self.inner.checked_sub(1), columns.checked_sub(1)) {
            (Some(outer), Some(row), Some(column)) => outer + row * self.inner_stride + column * self.column_stride + 1,
            _ => 0,
        }
    }
}

impl Panels {
    /// Number of panels.
    #[must_use]
    pub fn count(&self) -> usize {
        self.columns.div_ceil(self.width.max(1))
    }

    /// Elements of one panel.
    #[must_use]
    pub fn panel_len(&self) -> usize {
        self.rows * self.width
    }

    /// Elements of all panels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count() * self.panel_len()
    }

    /// Whether there is nothing to pack.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Columns of panel `index` that are the matrix's own.
    #[must_use]
    pub fn columns_of(&self, index: usize) -> usize {
        self.width.min(self.columns.saturating_sub(index * self.width))
    }

    /// Packs the whole matrix, each element times `scale`.
    ///
    /// # Errors
    ///
    /// Where `source` does not hold all elements, or `out` is not [`Panels::len`] long.
    pub fn pack(&self, source: &Source<'_>, scale: f32, out: &mut [f32]) -> Result<()> {
        self.check(source)?;
        self.check_room(out.len(), self.len())?;
        if !self.is_empty() {
            for (index, panel) in out.chunks_exact_mut(self.panel_len()).enumerate() {
                self.pack_panel(source, index, scale, panel);
            }
        }
        Ok(())
    }

    /// Packs the whole matrix in the elements of `out`, each times `scale`: as [`Panels::pack`], [`Panels::pack_pairs`]
    /// or [`Panels::pack_rows`].
    ///
    /// # Errors
    ///
    /// Those of these functions.
    pub fn pack_as(&self, source: &Source<'_>, scale: f32, out: PackedWeightsMut<'_>) -> Result<()> {
        match out {
            PackedWeightsMut::F32(out) => self.pack(source, scale, out),
            PackedWeightsMut::Bf16(out) => self.pack_pairs(source, scale, out),
            PackedWeightsMut::F16(out) => self.pack_rows(0..self.rows, source, scale, PackedWeightsMut::F16(out)),
            PackedWeightsMut::Int16(_) | PackedWeightsMut::Int8(_) => Err(for_integers()),
        }
    }

    /// Packs the whole matrix in `f16`, row after row without a gap between groups of the source: rows of the panels
    /// are words, and with an odd number of rows the last row of words is half zeros.
    ///
    /// # Errors
    ///
    /// As [`Panels::pack`].
    pub fn pack_halves(&self, source: &Source<'_>, out: &mut [u16]) -> Result<()> {
        let rows = source.outer.len() * source.inner;
        Panels { rows, ..*self }.check(source)?;
        if rows.div_ceil(2) != self.rows {
            return Err(KernelError::Bounds {
                family: "pack",
                operand: "words",
                have: self.rows,
                need: rows.div_ceil(2),
            });
        }
        self.check_room(out.len(), 2 * self.len())?;
        for (index, panel) in out.chunks_exact_mut((2 * self.panel_len()).max(1)).enumerate() {
            let (own, padding) = panel.split_at_mut(rows * self.width);
            self.narrow_panel(source, source.inner, index, 1.0, own);
            padding.fill(0);
        }
        Ok(())
    }

    /// Packs some rows of every panel, for a matrix that comes a few rows at a time, front to back. `rows` are rows of
    /// the panels, and `source` holds only these. For bf16 pairs and for `f16`, where two rows take the room of one row
    /// of words, `rows` counts rows of words, and the source has one group.
    ///
    /// # Errors
    ///
    /// Those of [`Panels::pack`], and where there are no such rows.
    pub fn pack_rows(
        &self,
        rows: Range<usize>,
        source: &Source<'_>,
        scale: f32,
        out: PackedWeightsMut<'_>,
    ) -> Result<()> {
        let some = Panels { rows: rows.len(), ..*self };
        if rows.end > self.rows {
            return Err(KernelError::Bounds { family: "pack", operand: "rows", have: self.rows, need: rows.end });
        }
        self.check_room(out.words(), self.len())?;
        let part = rows.start * self.width..rows.end * self.width;
        match out {
            PackedWeightsMut::F32(out) => {
                some.check(source)?;
                for (index, panel) in out.chunks_exact_mut(self.panel_len().max(1)).enumerate() {
                    some.pack_panel(source, index, scale, &mut panel[part.clone()]);
                }
            }
            PackedWeightsMut::Bf16(out) => {
                let words = some.words(source)?;
                let panels = out.as_chunks_mut::<2>().0.chunks_exact_mut(self.panel_len().max(1));
                for (index, panel) in panels.enumerate() {
                    some.pack_groups(source, words, index, |_, value| to_bf16(value * scale), &mut panel[part.clone()]);
                }
            }
            PackedWeightsMut::F16(out) => {
                let halves = 2 * some.words(source)?;
                let part = 2 * part.start..2 * part.end;
                let panels = out.chunks_exact_mut((2 * self.panel_len()).max(1));
                for (index, panel) in panels.enumerate() {
                    some.narrow_panel(source, halves, index, scale, &mut panel[part.clone()]);
                }
            }
            PackedWeightsMut::Int16(_) | PackedWeightsMut::Int8(_) => return Err(for_integers()),
        }
        Ok(())
    }

    fn check_room(&self, have: usize, need: usize) -> Result<()> {
        match have == need {
            true => Ok(()),
            false => Err(KernelError::Bounds { family: "pack", operand: "panels", have, need }),
        }
    }

    /// Refuses a source that is too short or has another number of rows.
    pub(crate) fn check<T>(&self, source: &Source<'_, T>) -> Result<()> {
        let (have, need) = (source.data.len(), source.need(self.columns));
        if have < need {
            return Err(KernelError::Bounds { family: "pack", operand: "matrix", have, need });
        }
        let rows = source.outer.len() * source.inner;
        if rows != self.rows {
            return Err(KernelError::Bounds { family: "pack", operand: "rows", have: rows, need: self.rows });
        }
        Ok(())
    }

    /// Packs panel `index` of a source that [`Panels::check`] let pass.
    pub(crate) fn pack_panel(&self, source: &Source<'_>, index: usize, scale: f32, panel: &mut [f32]) {
        self.lay_out(source, index, panel);
        if scale != 1.0 {
            panel.iter_mut().for_each(|value| *value *= scale);
        }
    }

    /// Copies panel `index` of a source that [`Panels::check`] let pass, row after row.
    fn lay_out<T: Copy + Default>(&self, source: &Source<'_, T>, index: usize, panel: &mut [T]) {
        let columns = self.columns_of(index);
        let first = index * self.width * source.column_stride;
        for (group, &outer) in panel.chunks_exact_mut((source.inner * self.width).max(1)).zip(source.outer) {
            let start = outer + first;
            if source.column_stride == 1 {
                for (row, to) in group.chunks_exact_mut(self.width).enumerate() {
                    let from = &source.data[start + row * source.inner_stride..][..columns];
                    to[..columns].copy_from_slice(from);
                    to[columns..].fill(T::default());
                }
            } else {
                self.gather(source, start, columns, group);
            }
        }
    }

    /// Packs the whole matrix in bf16 pairs, each element times `scale` before it is rounded. These are panels of
    /// *words*: `rows` counts the words of all groups, and each group has the same number. A group's last row is
    /// followed by zeros.
    ///
    /// # Errors
    ///
    /// Those of [`Panels::pack`].
    pub fn pack_pairs(&self, source: &Source<'_>, scale: f32, out: &mut [u16]) -> Result<()> {
        let words = self.words(source)?;
        self.check_room(out.len(), 2 * self.len())?;
        if !self.is_empty() {
            for (index, panel) in out.as_chunks_mut::<2>().0.chunks_exact_mut(self.panel_len()).enumerate() {
                self.pack_groups(source, words, index, |_, value| to_bf16(value * scale), panel);
            }
        }
        Ok(())
    }

    /// Words of each of the source's groups; refuses a source whose groups have other sizes.
    fn words(&self, source: &Source<'_>) -> Result<usize> {
        Panels { rows: source.outer.len() * source.inner, ..*self }.check(source)?;
        let groups = source.outer.len();
        let (words, need) = (self.rows.checked_div(groups).unwrap_or(0), groups * source.inner.div_ceil(2));
        if self.rows < need || words * groups != self.rows {
            return Err(KernelError::Bounds { family: "pack", operand: "words", have: self.rows, need });
        }
        Ok(words)
    }

    /// Packs panel `index` in groups of `KR` rows: the `KR` elements of a column follow each other, and the panel's
    /// rows are groups. Each group of the source, which [`Panels::check`] let pass, takes `groups` groups of the panel;
    /// missing rows and columns are zeros. `pack` makes an element of the panel from the column's number and an element
    /// of the source.
    pub(crate) fn pack_groups<T: Copy + Default, E: Copy + Default, const KR: usize>(
        &self,
        source: &Source<'_, T>,
        groups: usize,
        index: usize,
        pack: impl Fn(usize, T) -> E,
        panel: &mut [[E; KR]],
    ) {
        // One strip of rows after another is copied, then packed, so that both ways of reading are shared.
        const STRIP: usize = 32;
        let (width, columns) = (self.width, self.columns_of(index));
        let mut rows = vec![T::default(); STRIP * width];
        for (panel, outer) in panel.chunks_exact_mut((groups * width).max(1)).zip(source.outer) {
            for (strip, panel) in panel.chunks_mut(STRIP / KR * width).enumerate() {
                let first = (strip * STRIP).min(source.inner);
                let count = STRIP.min(source.inner - first);
                let outer = [outer + first * source.inner_stride];
                let here = Source { outer: &outer, inner: count, ..*source };
                self.lay_out(&here, index, &mut rows[..count * width]);
                for (number, group) in panel.chunks_exact_mut(width).enumerate() {
                    let (group, padding) = group.split_at_mut(columns);
                    padding.fill([E::default(); KR]);
                    let row = |row: usize| &rows[(number * KR + row) * width..][..columns];
                    let rows: [&[T]; KR] = std::array::from_fn(row);
                    let kept = count.saturating_sub(number * KR);
                    if kept >= KR {
                        for (column, to) in group.iter_mut().enumerate() {
                            *to = rows.map(|row| pack(column, row[column]));
                        }
                        continue;
                    }
                    for (column, to) in group.iter_mut().enumerate() {
                        *to = [E::default(); KR];
                        let elements = rows[..kept].iter().map(|row| pack(column, row[column]));
                        to.iter_mut().zip(elements).for_each(|(to, element)| *to = element);
                    }
                }
            }
        }
    }

    /// Packs panel `index` in `f16`, row after row. Each group of the source, which [`Panels::check`] let pass, takes
    /// `rows` rows of the panel; missing rows and columns are zeros.
    fn narrow_panel(&self, source: &Source<'_>, rows: usize, index: usize, scale: f32, panel: &mut [u16]) {
        // One strip of rows after another is copied, then rounded.
        const STRIP: usize = 32;
        let mut strip = vec![0.0; STRIP * self.width];
        for (panel, outer) in panel.chunks_exact_mut((rows * self.width).max(1)).zip(source.outer) {
            for (number, to) in panel.chunks_mut(STRIP * self.width).enumerate() {
                let first = (number * STRIP).min(source.inner);
                let count = (to.len() / self.width).min(source.inner - first);
                let outer = [outer + first * source.inner_stride];
                let (from, padding) = strip[..to.len()].split_at_mut(count * self.width);
                self.pack_panel(&Source { outer: &outer, inner: count, ..*source }, index, scale, from);
                padding.fill(0.0);
                narrow(Isa::detect(), &strip[..to.len()], to.reinterpret_cast_mut());
            }
        }
    }

    /// Packs rows whose columns are apart, sixteen rows at a time: where rows are neighbours in memory, one cache line
    /// of each column then serves sixteen rows before it is left.
    fn gather<T: Copy + Default>(&self, source: &Source<'_, T>, start: usize, columns: usize, group: &mut [T]) {
        const STRIP: usize = 16;
        for (strip, to) in group.chunks_mut(STRIP * self.width).enumerate() {
            let start = start + strip * STRIP * source.inner_stride;
            let rows = to.len() / self.width;
            for column in 0..self.width {
                if column < columns {
                    let from = &source.data[start + column * source.column_stride..];
                    for row in 0..rows {
                        to[row * self.width + column] = from[row * source.inner_stride];
                    }
                } else {
                    for row in 0..rows {
                        to[row * self.width + column] = T::default();
                    }
                }
            }
        }
    }
}

/// Why numbers are not packed as integers: packed integers are made from bytes and zero points.
fn for_integers() -> KernelError {
    KernelError::Unsupported { family: "pack", reason: "numbers in room for integers".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Elements;

    #[test]
    fn every_element_lands_in_its_panel_and_the_rest_is_zero() {
        for (rows, columns, width) in [(3, 16, 16), (5, 17, 16), (40, 7, 16), (33, 50, 24), (1, 1, 8)] {
            let data: Vec<f32> = (0..rows * columns).map(|i| i as f32 + 1.0).collect();
            let panels = Panels { rows, columns, width };
            let mut by_rows = vec![f32::NAN; panels.len()];
            panels.pack(&Source::row_major(&data, rows, columns), 1.0, &mut by_rows).unwrap();
            let mut by_columns = vec![f32::NAN; panels.len()];
            let transposed: Vec<f32> = (0..rows * columns).map(|i| data[i % rows * columns + i / rows]).collect();
            panels.pack(&Source::column_major(&transposed, rows, rows), 2.0, &mut by_columns).unwrap();
            for (index, &value) in by_rows.iter().enumerate() {
                let (panel, row, column) = (index / (rows * width), index / width % rows, index % width);
                let column = panel * width + column;
                let expected = if column < columns { data[row * columns + column] } else { 0.0 };
                assert_eq!(value, expected, "{rows}x{columns} by {width}: row {row}, column {column}");
                assert_eq!(by_columns[index], 2.0 * expected);
            }
        }
    }

    #[test]
    fn rows_of_several_groups_follow_each_other() {
        let data: Vec<f32> = (0..24).map(|i| i as f32).collect();
        // Two columns 12 apart, three rows 4 apart, of groups that start at 2 and at 1.
        let source = Source { data: &data, outer: &[2, 1], inner: 3, inner_stride: 4, column_stride: 12 };
        let panels = Panels { rows: 6, columns: 2, width: 2 };
        let mut out = vec![0.0; panels.len()];
        panels.pack(&source, 1.0, &mut out).unwrap();
        assert_eq!(out, [2., 14., 6., 18., 10., 22., 1., 13., 5., 17., 9., 21.]);
    }

    #[test]
    fn pairs_are_rows_of_a_group_rounded() {
        for (groups, inner, columns, width) in
            [(1, 6, 16, 16), (1, 7, 17, 16), (3, 5, 10, 8), (2, 67, 20, 8), (1, 1, 1, 8)]
        {
            let data: Vec<f32> = (0..groups * inner * columns).map(|i| (i as f32 - 40.0) * 1.01).collect();
            let outer: Vec<usize> = (0..groups).map(|group| group * inner * columns).collect();
            let source = Source { data: &data, outer: &outer, inner, inner_stride: columns, column_stride: 1 };
            let turned: Vec<f32> = (0..groups)
                .flat_map(|group| (0..columns).flat_map(move |column| (0..inner).map(move |row| (group, row, column))))
                .map(|(group, row, column)| data[(group * inner + row) * columns + column])
                .collect();
            let columns_first = Source { data: &turned, outer: &outer, inner, inner_stride: 1, column_stride: inner };
            let words = Panels { rows: groups * inner.div_ceil(2), columns, width };
            for source in [source, columns_first] {
                let mut out = vec![to_bf16(f32::NAN); 2 * words.len()];
                words.pack_pairs(&source, 0.5, &mut out).unwrap();
                for (index, word) in out.as_chunks::<2>().0.iter().enumerate() {
                    let column = index / words.panel_len() * width + index % width;
                    let row = index / width % words.rows;
                    let (group, row) = (row / inner.div_ceil(2), row % inner.div_ceil(2) * 2);
                    let expected = [row, row + 1].map(|row| match row < inner && column < columns {
                        true => data[(group * inner + row) * columns + column] * 0.5,
                        false => 0.0,
                    });
                    assert_eq!(*word, expected.map(to_bf16));
                }
            }
            assert!(words.pack_pairs(&source, 1.0, &mut vec![0; 2 * words.len() - 1]).is_err());
            assert!(Panels { rows: words.rows - 1, ..words }.pack_pairs(&source, 1.0, &mut []).is_err());
        }
    }

    #[test]
    fn rows_that_come_a_few_at_a_time_land_where_all_would() {
        let (rows, columns, width) = (71, 50, 24);
        let data: Vec<f32> = (0..rows * columns).map(|i| i as f32 * 1.01).collect();
        // Words: more rows than the matrix has, as AMX needs.
        for (pairs, panels) in [(false, Panels { rows, columns, width }), (true, Panels { rows: 48, columns, width })] {
            let elements = if pairs { Elements::Bf16 } else { Elements::F32 };
            // All bits set are a NaN of either type.
            let mut whole = vec![u32::MAX; panels.len()];
            let source = Source::row_major(&data, rows, columns);
            panels.pack_as(&source, 0.5, PackedWeightsMut::new(elements, &mut whole)).unwrap();
            let mut parts = vec![u32::MAX; panels.len()];
            let mut pack = |rows: Range<usize>, source: &Source<'_>, skipped: usize| {
                panels.pack_rows(rows, source, 0.5, PackedWeightsMut::new(elements, &mut parts[skipped..]))
            };
            let each = if pairs { 2 } else { 1 };
            for first in (0..rows).step_by(16) {
                let count = 16.min(rows - first);
                let end = if first + count == rows { panels.rows } else { (first + count) / each };
                let source = Source::row_major(&data[first * columns..], count, columns);
                pack(first / each..end, &source, 0).unwrap();
            }
            let source = Source::row_major(&data, 2, columns);
            for wrong in [panels.rows - 1..panels.rows + 2 / each, 0..2 / each - 1] {
                assert!(pack(wrong, &source, 0).is_err());
            }
            assert!(pack(0..2 / each, &source, 1).is_err());
            assert_eq!(parts, whole);
            let nan = |word: &u32| f32::from_bits(*word).is_nan();
            assert!(!whole.iter().any(nan), "all of it is written");
        }
    }

    #[test]
    fn short_buffers_are_refused() {
        let panels = Panels { rows: 4, columns: 5, width: 8 };
        let data = [0.0; 19];
        let mut out = vec![0.0; panels.len()];
        assert!(panels.pack(&Source::row_major(&data, 4, 5), 1.0, &mut out).is_err());
        assert!(panels.pack(&Source::row_major(&[0.0; 20], 4, 5), 1.0, &mut out[1..]).is_err());
        assert!(panels.pack(&Source::row_major(&[0.0; 20], 3, 5), 1.0, &mut out).is_err());
    }
}
