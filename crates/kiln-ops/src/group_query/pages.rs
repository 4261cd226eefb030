//! The pages of a cache in which the sequences of a request have their rows.
//!
//! A page has the same number of positions of every head. Sequences that begin alike may share pages, and a sequence
//! may be several sequences of a request.

use std::ops::Range;

use kiln_kernels::memory;
use kiln_kernels::memory::Collect;
use kiln_run::NodeError;
use kiln_tensor::Tensor;

use super::input;
use super::sizes::Sequence;
use crate::refused;

/// For each sequence of a request, the pages of its positions.
pub(super) struct Pages {
    /// The pages of each sequence in order; 0 behind its last position.
    table: Vec<usize>,
    /// Pages of a sequence in the table.
    of_sequence: usize,
    /// Positions of a page.
    positions: usize,
}

/// New positions of a sequence that lie in one page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    pub(super) page: usize,
    pub(super) sequence: usize,
    /// The first one's row of the page.
    pub(super) row: usize,
    /// The first one's number among the new positions of the sequence, and how many there are.
    first: usize,
    count: usize,
}

impl Piece {
    /// Their numbers among the new positions of the sequence.
    pub(super) fn positions(&self) -> Range<usize> {
        self.first..self.first + self.count
    }
}

impl Pages {
    /// Reads the table [sequences, pages] of a request, for a cache of `cached` pages of `positions` positions.
    ///
    /// # Errors
    ///
    /// Where the cache does not have a page of a filled position.
    pub(super) fn of(
        given: &Tensor,
        [cached, positions]: [usize; 2],
        sequences: &[Sequence],
    ) -> Result<Pages, NodeError> {
        let of_sequence = given.shape()[1];
        let page = |(at, given): (usize, i64)| {
            let (sequence, number) = (at / of_sequence, at % of_sequence);
            if sequences[sequence].filled <= number * positions {
                return Ok(0);
            }
            let page = usize::try_from(given).ok().filter(|&page| page < cached);
            page.ok_or_else(|| {
                let index = input::PAGES;
                refused(format!(
                    "input {index}: page {number} of sequence {sequence} is number {given} of a cache of {cached}"
                ))
            })
        };
        let table = given.to_i64_vec()?.into_iter().enumerate().map(page).try_collected()?;
        Ok(Pages { table, of_sequence, positions })
    }

    /// Where attention finds the rows, of `heads` heads.
    pub(super) fn rows(&self, heads: usize) -> kiln_kernels::cpu::attention::Pages<'_> {
        let Pages { table, of_sequence, positions } = self;
        kiln_kernels::cpu::attention::Pages {
            table,
            of_batch: *of_sequence,
            keys: *positions,
            page: heads * positions,
            head: *positions,
        }
    }

    /// The written positions of all sequences, by pages.
    pub(super) fn pieces(&self, sequences: &[Sequence]) -> Vec<Piece> {
        let mut pieces = memory::with_capacity(sequences.len());
        for (number, sequence) in sequences.iter().enumerate() {
            let mut first = 0;
            while first < sequence.written {
                let position = sequence.before + first;
                let row = position % self.positions;
                let count = (self.positions - row).min(sequence.written - first);
                let page = self.table[number * self.of_sequence + position / self.positions];
                pieces.push(Piece { page, sequence: number, row, first, count });
                first += count;
            }
        }
        pieces.sort_unstable();
        pieces
    }
}
