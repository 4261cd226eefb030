//! Which sequence of a cache has which pages. A page has the same number of positions of every head of every part.
//! Sequences that begin alike have the same pages; a page that several have is copied before one of them writes it.

use std::ops::Range;

/// The pages of some sequences.
#[derive(Debug)]
pub(super) struct Pages {
    /// Positions of a page.
    positions: usize,
    /// The pages of each sequence, in the order of their positions.
    of: Vec<Vec<usize>>,
    /// How many sequences have each page.
    owners: Vec<usize>,
    /// Pages of no sequence; the last one is taken first.
    free: Vec<usize>,
}

/// A page that is to be copied into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Its first positions, which are not written.
    pub(super) positions: usize,
}

impl Pages {
    /// For `sequences` sequences without pages.
    pub(super) fn new(sequences: usize, positions: usize) -> Pages {
        Pages { positions, of: vec![Vec::new(); sequences], owners: Vec::new(), free: Vec::new() }
    }

    /// Positions of a page.
    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    /// All pages.
    pub(super) fn count(&self) -> usize {
        self.owners.len()
    }

    /// The pages of a sequence.
    pub(super) fn of(&self, sequence: usize) -> &[usize] {
        &self.of[sequence]
    }

    /// Pages behind those that there are, until there are `count`.
    pub(super) fn grow(&mut self, count: usize) {
        let new = self.owners.len()..count;
        self.free.splice(0..0, new.clone().rev());
        self.owners.resize(count.max(self.owners.len()), 0);
    }

    /// How many pages have to be free so that each of these sequences can write its positions.
    pub(super) fn needed(&self, written: &[(usize, Range<usize>)]) -> usize {
        let of = |(sequence, positions): &(usize, Range<usize>)| {
            let pages = &self.of[*sequence];
            let shared = self.touched(positions).filter(|&at| pages.get(at).is_some_and(|&page| self.owners[page] > 1));
            positions.end.div_ceil(self.positions).saturating_sub(pages.len()) + shared.count()
        };
        written.iter().map(of).sum()
    }

    /// The numbers of the pages with these positions.
    fn touched(&self, positions: &Range<usize>) -> Range<usize> {
        positions.start / self.positions..positions.end.div_ceil(self.positions)
    }

    /// Whether that many pages are free.
    pub(super) fn has_free(&self, needed: usize) -> bool {
        self.free.len() >= needed
    }

    /// Gives each of these sequences pages of its own for the positions that it writes, as many as
    /// [`needed`](Pages::needed), which are free. Returns the pages to copy.
    pub(super) fn take(&mut self, written: &[(usize, Range<usize>)]) -> Vec<Copied> {
        let mut copies = Vec::new();
        for (sequence, positions) in written {
            let touched = self.touched(positions);
            let Pages { of, owners, free, .. } = self;
            let mut take = || free.pop().inspect(|&page| owners[page] = 1);
            let pages = &mut of[*sequence];
            while pages.len() < touched.end
                && let Some(page) = take()
            {
                pages.push(page);
            }
            for (at, page) in touched.clone().zip(&mut pages[touched]) {
                if self.owners[*page] > 1
                    && let Some(to) = self.free.pop()
                {
                    let kept = positions.start.saturating_sub(at * self.positions);
                    copies.push(Copied { from: *page, to, positions: kept });
                    self.owners[*page] -= 1;
                    self.owners[to] = 1;
                    *page = to;
                }
            }
        }
        copies
    }

    /// Gives the sequence `to` the pages of the first positions of `from` in place of its own.
    pub(super) fn share(&mut self, from: usize, to: usize, positions: usize) {
        let shared = self.of[from][..positions.div_ceil(self.positions)].to_vec();
        shared.iter().for_each(|&page| self.owners[page] += 1);
        self.keep(to, 0);
        self.of[to] = shared;
    }

    /// Takes the pages behind its first positions from a sequence.
    pub(super) fn keep(&mut self, sequence: usize, positions: usize) {
        let kept = positions.div_ceil(self.positions).min(self.of[sequence].len());
        for page in self.of[sequence].drain(kept..).rev() {
            self.owners[page] -= 1;
            if self.owners[page] == 0 {
                self.free.push(page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three sequences and eight pages of four positions.
    fn pages() -> Pages {
        let mut pages = Pages::new(3, 4);
        pages.grow(8);
        pages
    }

    fn write(pages: &mut Pages, sequence: usize, positions: Range<usize>) -> Vec<Copied> {
        let written = [(sequence, positions)];
        let before = pages.free.len();
        let needed = pages.needed(&written);
        let copies = pages.take(&written);
        assert_eq!(before - pages.free.len(), needed);
        copies
    }

    #[test]
    fn sequences_take_free_pages_in_order_and_give_them_back() {
        let mut pages = pages();
        assert_eq!(write(&mut pages, 0, 0..5), []);
        assert_eq!(write(&mut pages, 1, 0..4), []);
        assert_eq!(write(&mut pages, 0, 5..9), []);
        assert_eq!([pages.of(0), pages.of(1)], [&[0, 1, 3][..], &[2]]);
        pages.keep(0, 4);
        assert_eq!(write(&mut pages, 2, 0..8), []);
        assert_eq!([pages.of(0), pages.of(2)], [&[0][..], &[1, 3]]);
    }

    #[test]
    fn a_shared_page_is_copied_by_the_one_that_writes_it() {
        let mut pages = pages();
        write(&mut pages, 0, 0..10);
        pages.share(0, 1, 6);
        assert_eq!(pages.of(1), [0, 1]);
        // The whole page that both have stays shared; the rest of the second one differs.
        assert_eq!(write(&mut pages, 1, 6..7), [Copied { from: 1, to: 3, positions: 2 }]);
        assert_eq!(write(&mut pages, 1, 7..9), []);
        assert_eq!(write(&mut pages, 0, 10..11), []);
        assert_eq!([pages.of(0), pages.of(1)], [&[0, 1, 2][..], &[0, 3, 4]]);
        pages.share(1, 2, 9);
        pages.keep(1, 0);
        assert_eq!(write(&mut pages, 2, 9..10), [], "nothing else has its last page now");
        pages.share(0, 0, 4);
        assert_eq!(pages.of(0), [0]);
        pages.keep(0, 0);
        pages.keep(2, 0);
        assert_eq!((pages.free.len(), &pages.owners[..]), (8, &[0; 8][..]), "no page is lost");
    }

    #[test]
    fn more_pages_are_taken_after_those_that_are_free() {
        let mut pages = pages();
        write(&mut pages, 0, 0..28);
        let written = [(1, 0..9)];
        assert!(!pages.has_free(pages.needed(&written)));
        pages.grow(10);
        assert!(pages.has_free(pages.needed(&written)));
        assert_eq!(pages.take(&written), []);
        assert_eq!((pages.of(1), pages.count()), (&[7, 8, 9][..], 10));
    }
}
