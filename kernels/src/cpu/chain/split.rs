//! The split of a chain's rows into tasks, and of tasks into pieces, which one call of the kernel computes.
//!
//! A piece is a block of rows of one run, in which every operand has a constant stride, or a part of a single row.

use super::geometry::Geometry;
use crate::parallel::part;

/// A row is cut between threads at multiples of this, so that no two write to one cache line and few tails arise.
const CUT: usize = 64;

/// `rows` rows from `row` on, elements `from..from + count` of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) row: usize,
    pub(super) rows: usize,
    pub(super) from: usize,
    pub(super) count: usize,
}

/// A division of all elements into tasks: into bands of rows, and where there are fewer rows than tasks, of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    bands: usize,
    columns: usize,
}

impl Split {
    /// About `tasks` tasks.
    pub(super) fn new(geometry: &Geometry, tasks: usize) -> Split {
        let bands = tasks.clamp(1, geometry.rows().max(1));
        let columns = (tasks / bands).clamp(1, geometry.inner().div_ceil(CUT).max(1));
        Split { bands, columns }
    }

    pub(super) fn tasks(&self) -> usize {
        self.bands * self.columns
    }

    /// All elements as one piece, where they are one task and every operand has one stride over all rows.
    pub(super) fn whole(&self, geometry: &Geometry) -> Option<Piece> {
        let (mut whole, mut pieces) = (None, 0);
        if self.tasks() == 1 && geometry.rows() == geometry.run_rows() {
            self.pieces(geometry, 0, usize::MAX, |piece| {
                whole = Some(piece);
                pieces += 1;
            });
        }
        whole.filter(|_| pieces == 1)
    }

    /// Calls `each` with the pieces of one task, each of at most `most` elements.
    pub(super) fn pieces(&self, geometry: &Geometry, task: usize, most: usize, mut each: impl FnMut(Piece)) {
        let (rows, inner) = (geometry.rows(), geometry.inner());
        let (band, column) = (task / self.columns, task % self.columns);
        let band = part(rows, self.bands, band);
        let blocks = part(inner.div_ceil(CUT), self.columns, column);
        let (first, end) = (blocks.start * CUT, (blocks.end * CUT).min(inner));
        if first >= end {
            return;
        }
        let width = end - first;
        let run = geometry.run_rows();
        let mut row = band.start;
        while row < band.end {
            if width > most {
                for from in (first..end).step_by(most) {
                    each(Piece { row, rows: 1, from, count: most.min(end - from) });
                }
                row += 1;
            } else {
                let rows = (most / width).min(run - row % run).min(band.end - row);
                each(Piece { row, rows, from: first, count: width });
                row += rows;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_cover_every_element_once_and_pieces_stay_within_runs_and_limits() {
        let shapes: &[(&[usize], &[usize])] = &[
            (&[1], &[1]),
            (&[1000], &[1000]),
            (&[3, 5, 7], &[5, 1]),
            (&[2, 3, 400], &[2, 1, 400]),
            (&[17, 129], &[129]),
            (&[0, 4], &[4]),
            (&[4, 0], &[4, 1]),
        ];
        for (output, other) in shapes {
            let geometry = Geometry::new(output, &[output, other]).unwrap();
            let (inner, run) = (geometry.inner(), geometry.run_rows());
            for tasks in [1, 2, 3, 16, 100] {
                for most in [1, 50, 256, usize::MAX] {
                    let split = Split::new(&geometry, tasks);
                    assert!(split.tasks() <= tasks);
                    let mut seen = vec![0u8; geometry.elements()];
                    for task in 0..split.tasks() {
                        split.pieces(&geometry, task, most, |piece| {
                            assert!(piece.rows * piece.count <= most && piece.rows > 0 && piece.count > 0);
                            assert!(piece.row / run == (piece.row + piece.rows - 1) / run, "{piece:?}");
                            for row in piece.row..piece.row + piece.rows {
                                seen[row * inner + piece.from..][..piece.count].iter_mut().for_each(|n| *n += 1);
                            }
                        });
                    }
                    assert!(seen.iter().all(|&n| n == 1), "{output:?} {tasks} {most}");
                }
            }
        }
    }
}
