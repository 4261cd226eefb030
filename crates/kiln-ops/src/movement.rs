//! Moving elements without looking at them: one generic body for every element type, strings included.
//!
//! A movement depends on the width of elements and not on their meaning, so a [`Movement`] is compiled for four widths
//! and for strings instead of for fourteen types. Arithmetic has no place here.

use kiln_kernels::Parallel;
use kiln_kernels::memory::{self, Pace, raise_if_over};
use kiln_kernels::parallel::{copy, for_each_chunk};
use kiln_run::{Io, NodeError};
use kiln_tensor::{DType, Tensor};

use super::View;
use super::tasks::share;

/// Most bytes of text in one rearranged tensor.
const TEXT_BYTES: usize = 1 << 30;

/// A rearrangement of the elements of some tensors of one type into another tensor.
pub(crate) trait Movement {
    /// Writes `to`, whose length is that of the output, from the sources. A movement of much data may split `to`
    /// between threads.
    fn run<T: Clone + Send + Sync>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError>;
}

/// An input in the memory of the first output, to be written over in part: the input itself where this node is its only
/// owner, and else a copy. Both are of one type and shape.
pub(crate) fn as_output(io: &mut Io<'_>, index: usize) -> Result<Tensor, NodeError> {
    if io.spec(0).dtype == DType::String || io.can_reuse(index, 0) {
        return io.take(index);
    }
    let mut output = io.alloc(0)?;
    copy(io.input(index)?.bytes(), output.bytes_mut());
    Ok(output)
}

/// Runs a movement from `from` into `to` and returns that; nothing is run where `to` has no elements. All must be of
/// one element type.
pub(crate) fn rearrange(movement: &impl Movement, from: &[&Tensor], mut to: Tensor) -> Result<Tensor, NodeError> {
    for tensor in from {
        if tensor.dtype() != to.dtype() {
            let (expected, found) = (to.dtype(), tensor.dtype());
            return Err(kiln_tensor::TensorError::Type { expected, found }.into());
        }
    }
    // Dimensions beside a zero may be huge, and iterating over them would take forever.
    if to.is_empty() {
        return Ok(to);
    }
    match to.dtype().size() {
        0 => {
            let sources = from.iter().map(|tensor| tensor.as_strings()).collect::<Result<Vec<_>, _>>()?;
            let longest = sources.iter().flat_map(|texts| texts.iter().map(String::len)).max().unwrap_or(0);
            // Every element gets a text of its own, so a repeated long text could take any amount of memory.
            if to.len().saturating_mul(longest) > TEXT_BYTES {
                return Err(NodeError::Limit {
                    what: "bytes of text that an operator makes",
                    limit: TEXT_BYTES as u64,
                });
            }
            let spec = to.spec().clone();
            let mut values = to.into_strings()?;
            movement.run(&sources, &mut values)?;
            Ok(Tensor::from_strings(spec.shape, values)?)
        }
        1 => run_as::<u8>(movement, from, &mut to).map(|()| to),
        2 => run_as::<u16>(movement, from, &mut to).map(|()| to),
        4 => run_as::<u32>(movement, from, &mut to).map(|()| to),
        _ => run_as::<u64>(movement, from, &mut to).map(|()| to),
    }
}

fn run_as<T: bytemuck::Pod + Send + Sync>(
    movement: &impl Movement,
    from: &[&Tensor],
    to: &mut Tensor,
) -> Result<(), NodeError> {
    let sources: Vec<&[T]> = from.iter().map(|tensor| bytemuck::cast_slice(tensor.bytes())).collect();
    movement.run(&sources, bytemuck::cast_slice_mut(to.bytes_mut()))
}

/// Calls `function::<T, RUN>`, where `RUN` is the number of elements of a run if it is known at compile time, and 0
/// otherwise. With a known length, a copy is a few moves instead of a call of the C library.
macro_rules! with_run {
    ($run:expr, $function:ident ( $($argument:expr),* )) => {
        match $run {
            1 => $function::<_, 1>($($argument),*),
            2 => $function::<_, 2>($($argument),*),
            3 => $function::<_, 3>($($argument),*),
            4 => $function::<_, 4>($($argument),*),
            8 => $function::<_, 8>($($argument),*),
            16 => $function::<_, 16>($($argument),*),
            _ => $function::<_, 0>($($argument),*),
        }
    };
}

/// Copies a run whose length is `RUN`, or that of `to` where that is 0.
#[inline(always)]
fn copy_run<T: Clone, const RUN: usize>(from: &[T], to: &mut [T]) {
    if RUN == 0 {
        copy(from, to);
    } else {
        to[..RUN].clone_from_slice(&from[..RUN]);
    }
}

/// Copies runs of `run` elements, which lie one behind the other, to places `stride` elements apart, until `to` is
/// full; `to` begins with the first place.
pub(crate) fn spread<T: Clone>(from: &[T], run: usize, to: &mut [T], stride: usize) {
    fn each<T: Clone, const RUN: usize>(from: &[T], run: usize, to: &mut [T], stride: usize) {
        let run = if RUN == 0 { run } else { RUN };
        let mut pace = Pace::default();
        for (from, to) in from.chunks_exact(run).zip(to.chunks_mut(stride)) {
            copy_run::<T, RUN>(from, &mut to[..run]);
            pace.step(run);
        }
    }
    with_run!(run, each(from, run, to, stride));
}

/// Copies the blocks of `inner` elements at those places one behind the other.
fn pick<T: Clone>(from: &[T], places: &[usize], inner: usize, to: &mut [T]) {
    fn each<T: Clone, const RUN: usize>(from: &[T], places: &[usize], run: usize, to: &mut [T]) {
        let run = if RUN == 0 { run } else { RUN };
        let piece = (memory::piece_of::<T>() / run).max(1);
        for (places, to) in places.chunks(piece).zip(to.chunks_mut(piece * run)) {
            for (&place, to) in places.iter().zip(to.chunks_exact_mut(run)) {
                copy_run::<T, RUN>(&from[place * run..][..run], to);
            }
            if places.len() == piece {
                raise_if_over(size_of_val(to));
            }
        }
    }
    with_run!(inner, each(from, places, inner, to));
}

/// Blocks of `inner` elements out of groups of `size` blocks: the same places of every group.
pub(crate) struct Blocks {
    pub(crate) places: Vec<usize>,
    pub(crate) size: usize,
    pub(crate) inner: usize,
}

impl Blocks {
    /// Copies them.
    pub(crate) fn copied<'a>(&'a self, parallel: &'a dyn Parallel) -> CopiedBlocks<'a> {
        CopiedBlocks { blocks: self, parallel }
    }
}

/// The copying of [`Blocks`], split between threads.
pub(crate) struct CopiedBlocks<'a> {
    blocks: &'a Blocks,
    parallel: &'a dyn Parallel,
}

impl Movement for CopiedBlocks<'_> {
    fn run<T: Clone + Send + Sync>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        let Blocks { places, size, inner } = self.blocks;
        let each = share(to.len(), size_of::<T>(), self.parallel).div_ceil(*inner);
        for_each_chunk(self.parallel, to, each * inner, &|index, chunk| {
            let (mut group, mut first) = (index * each / places.len(), index * each % places.len());
            let mut rest = chunk;
            while !rest.is_empty() {
                let count = (places.len() - first).min(rest.len() / inner);
                let (now, later) = rest.split_at_mut(count * inner);
                pick(&from[0][group * size * inner..][..size * inner], &places[first..][..count], *inner, now);
                (rest, group, first) = (later, group + 1, 0);
            }
        });
        Ok(())
    }
}

/// Single elements at places of the whole source.
pub(crate) struct Elements<'a> {
    pub(crate) places: &'a [usize],
    pub(crate) parallel: &'a dyn Parallel,
}

impl Movement for Elements<'_> {
    fn run<T: Clone + Send + Sync>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        let share = share(to.len(), size_of::<T>(), self.parallel);
        for_each_chunk(self.parallel, to, share, &|index, chunk| {
            pick(from[0], &self.places[index * share..][..chunk.len()], 1, chunk);
        });
        Ok(())
    }
}

/// The elements of a view, in its order.
pub(crate) struct Viewed<'a> {
    pub(crate) view: &'a View,
    pub(crate) parallel: &'a dyn Parallel,
}

impl Movement for Viewed<'_> {
    fn run<T: Clone + Send + Sync>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        let share = share(to.len(), size_of::<T>(), self.parallel);
        for_each_chunk(self.parallel, to, share, &|index, chunk| self.view.copy_from(index * share, from[0], chunk));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::parallel::Pool;
    use kiln_tensor::{DType, TensorSpec};

    use super::*;

    /// More bytes than one task moves.
    const MANY: usize = 1 << 18;

    fn ramp(count: usize) -> Tensor {
        Tensor::from_vec([count], (0..count as i32).collect()).unwrap()
    }

    fn moved(movement: &impl Movement, from: &Tensor, count: usize) -> Vec<i32> {
        let to = Tensor::zeros(TensorSpec::new(DType::I32, [count])).unwrap();
        rearrange(movement, &[from], to).unwrap().as_slice::<i32>().unwrap().to_vec()
    }

    #[test]
    fn blocks_of_any_length_are_picked_out_of_every_group_by_every_thread() {
        let pool = Pool::new(3, "blocks").unwrap();
        for inner in [1, 2, 3, 4, 5, 8, 16, 17, 700] {
            let (size, groups) = (6, MANY / inner / 6);
            let blocks = Blocks { places: vec![5, 0, 0, 3, 2], size, inner };
            let moved = moved(&blocks.copied(&pool), &ramp(groups * size * inner), groups * 5 * inner);
            let place = |group: usize, place: usize, at| ((group * size + place) * inner + at) as i32;
            let of_group =
                |group| blocks.places.iter().flat_map(move |&at| (0..inner).map(move |i| place(group, at, i)));
            assert!(moved.into_iter().eq((0..groups).flat_map(of_group)), "{inner}");
        }
    }

    #[test]
    fn elements_and_views_are_read_by_every_thread() {
        let pool = Pool::new(3, "elements").unwrap();
        let places: Vec<usize> = (0..MANY).map(|at| at * 7 % MANY).collect();
        let want: Vec<i32> = places.iter().map(|&place| place as i32).collect();
        assert_eq!(moved(&Elements { places: &places, parallel: &pool }, &ramp(MANY), MANY), want);
        let view = View::permuted(&[MANY / 8, 8], &[1, 0]);
        let want: Vec<i32> = (0..MANY).map(|at| (at % (MANY / 8) * 8 + at / (MANY / 8)) as i32).collect();
        assert_eq!(moved(&Viewed { view: &view, parallel: &pool }, &ramp(MANY), MANY), want);
    }

    #[test]
    fn runs_are_spread_at_even_distances() {
        for run in [1, 2, 3, 4, 5, 8, 16, 20] {
            let (from, stride) = ((0..3 * run as i32).collect::<Vec<_>>(), run + 2);
            let mut to = vec![-1; 2 * stride + run];
            spread(&from, run, &mut to, stride);
            let want = |at: usize| if at % stride < run { (at / stride * run + at % stride) as i32 } else { -1 };
            assert_eq!(to, (0..to.len()).map(want).collect::<Vec<_>>());
        }
    }
}
