//! Picking the nearest neighbour: elements of any type, a row of the output at a time.

use kiln_kernels::Parallel;
use kiln_kernels::memory::{Pace, raise_if_over};
use kiln_kernels::parallel::{copy, for_each_chunk};

use super::ResizeAxis;
use super::axis::Table;

/// Where every row of the output comes from, and every element of a row.
#[derive(Debug)]
pub(super) struct Pick {
    /// The axes before the last resized one.
    outer: Vec<Outer>,
    /// The elements of that axis, in units.
    row: Vec<u32>,
    /// Elements that keep their place after it.
    unit: usize,
    /// How often each element of a row is repeated, where that is all that happens to rows.
    repeats: Option<usize>,
}

#[derive(Debug)]
struct Outer {
    size: usize,
    /// Elements of the input from one place to the next.
    stride: usize,
    /// For each place of the output, the input's place; empty where they are the same.
    places: Vec<u32>,
}

impl Pick {
    pub(super) fn new(axes: &[ResizeAxis], mut tables: Vec<Option<Table>>) -> Pick {
        let stride = |axis: usize| axes[axis + 1..].iter().map(|axis| axis.input as usize).product::<usize>();
        let Some(last) = tables.iter().rposition(Option::is_some) else {
            let unit = axes.iter().map(|axis| axis.input as usize).product();
            return Pick { outer: vec![], row: vec![0], unit, repeats: None };
        };
        let mut places = |axis: usize| tables[axis].take().map_or(vec![], |table| table.places);
        let outer =
            |axis: usize| Outer { size: axes[axis].output as usize, stride: stride(axis), places: places(axis) };
        let (outer, row) = ((0..last).map(outer).collect(), places(last));
        Pick { outer, unit: stride(last), repeats: repeats(&row), row }
    }

    /// Picks the whole of `output` from `input`.
    pub(super) fn run<T: Clone + Send + Sync>(
        &self,
        input: &[T],
        output: &mut [T],
        tasks: usize,
        parallel: &dyn Parallel,
    ) {
        let length = self.row.len() * self.unit;
        if output.is_empty() || length == 0 {
            return;
        }
        let rows = (output.len() / length).div_ceil(tasks);
        for_each_chunk(parallel, output, rows * length, &|index, chunk| {
            let mut pace = Pace::default();
            let mut before: Option<(usize, &mut [T])> = None;
            for (place, out) in chunk.chunks_exact_mut(length).enumerate() {
                pace.step(self.row.len());
                let start = self.start(index * rows + place);
                match &before {
                    // An enlarged image repeats its rows.
                    Some((same, row)) if *same == start => copy(row, out),
                    _ => self.row(&input[start..], out),
                }
                before = Some((start, out));
            }
        });
    }

    fn start(&self, mut row: usize) -> usize {
        let mut start = 0;
        for axis in self.outer.iter().rev() {
            let place = row % axis.size;
            row /= axis.size;
            start += axis.places.get(place).map_or(place, |&place| place as usize) * axis.stride;
        }
        start
    }

    fn row<T: Clone>(&self, from: &[T], out: &mut [T]) {
        if self.unit == 1 {
            match self.repeats {
                // Known at compile time, a few repetitions become shuffles of whole vectors.
                Some(2) => return repeat::<2, T>(from, out),
                Some(3) => return repeat::<3, T>(from, out),
                Some(4) => return repeat::<4, T>(from, out),
                _ => {}
            }
            for (out, row) in out.chunks_mut(Pace::UNITS).zip(self.row.chunks(Pace::UNITS)) {
                out.iter_mut().zip(row).for_each(|(out, &place)| *out = from[place as usize].clone());
                if out.len() == Pace::UNITS {
                    raise_if_over(size_of_val(out));
                }
            }
            return;
        }
        for (out, &place) in out.chunks_exact_mut(self.unit).zip(&self.row) {
            copy(&from[place as usize * self.unit..][..self.unit], out);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let outer = self.outer.iter().map(|axis| axis.places.len() * 4 + std::mem::size_of::<Outer>());
        outer.sum::<usize>() + self.row.len() * 4
    }
}

/// How often each element is repeated to make that row, if it is made so.
fn repeats(row: &[u32]) -> Option<usize> {
    let times = row.iter().take_while(|&&place| place == 0).count();
    let regular = |(at, &place): (usize, &u32)| place as usize == at / times;
    (times > 0 && row.len().is_multiple_of(times) && row.iter().enumerate().all(regular)).then_some(times)
}

fn repeat<const TIMES: usize, T: Clone>(from: &[T], out: &mut [T]) {
    out.chunks_exact_mut(TIMES).zip(from).for_each(|(out, value)| out.fill(value.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_of_equal_repetitions_are_repeated() {
        assert_eq!(repeats(&[0, 0, 1, 1, 2, 2]), Some(2));
        assert_eq!(repeats(&[0, 1, 2]), Some(1));
        assert_eq!(repeats(&[0, 0, 0]), Some(3));
        for row in [&[0, 0, 1][..], &[0, 0, 1, 2], &[1, 1], &[0, 0, 1, 1, 1, 2], &[0, 0, 2, 2], &[]] {
            assert_eq!(repeats(row), None, "{row:?}");
        }
    }

    #[test]
    fn repeated_rows_are_those_that_are_picked_one_by_one() {
        let from: Vec<u16> = (0..37).map(|at| at * 5 + 1).collect();
        for times in 1..6 {
            let row: Vec<u32> = (0..37 * times).map(|at| at / times).collect();
            let quick = Pick { outer: vec![], unit: 1, repeats: repeats(&row), row };
            let slow = Pick { outer: vec![], unit: 1, repeats: None, row: quick.row.clone() };
            let [mut one, mut other] = [(); 2].map(|()| vec![0; quick.row.len()]);
            quick.row(&from, &mut one);
            slow.row(&from, &mut other);
            assert_eq!(one, other);
            assert_eq!(quick.repeats, Some(times as usize));
        }
    }
}
