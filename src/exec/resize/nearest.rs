//! Picking the nearest neighbour: elements of any type, a row of the output at a time.

use kiln_kernels::Parallel;
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
}

#[derive(Debug)]
struct Outer {
    size: usize,
    /// Elements of the input from one place to the next.
    stride: usize,
    /// The input's place for each of the output's; empty where they are the same.
    places: Vec<u32>,
}

impl Pick {
    pub(super) fn new(axes: &[ResizeAxis], mut tables: Vec<Option<Table>>) -> Pick {
        let stride = |axis: usize| axes[axis + 1..].iter().map(|axis| axis.input as usize).product::<usize>();
        let Some(last) = tables.iter().rposition(Option::is_some) else {
            return Pick { outer: vec![], row: vec![0], unit: axes.iter().map(|axis| axis.input as usize).product() };
        };
        let mut places = |axis: usize| tables[axis].take().map_or(vec![], |table| table.places);
        let outer =
            |axis: usize| Outer { size: axes[axis].output as usize, stride: stride(axis), places: places(axis) };
        Pick { outer: (0..last).map(outer).collect(), unit: stride(last), row: places(last) }
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
            let mut before: Option<(usize, &mut [T])> = None;
            for (place, out) in chunk.chunks_exact_mut(length).enumerate() {
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
            out.iter_mut().zip(&self.row).for_each(|(out, &place)| *out = from[place as usize].clone());
            return;
        }
        for (out, &place) in out.chunks_exact_mut(self.unit).zip(&self.row) {
            out.clone_from_slice(&from[place as usize * self.unit..][..self.unit]);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let outer = self.outer.iter().map(|axis| axis.places.len() * 4 + std::mem::size_of::<Outer>());
        outer.sum::<usize>() + self.row.len() * 4
    }
}
