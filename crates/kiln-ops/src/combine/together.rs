//! All parts of a tensor whose rows are divided into short runs, in one pass over it.
//!
//! Part by part, the hardware prefetcher, which reads ahead along a page, would load the runs between those of a part
//! as well, and the tensor would be read as often as there are parts. So blocks of rows that stay in L1 are divided
//! among all parts before the next block comes. Knows bytes alone.

use std::sync::{Mutex, PoisonError};

use kiln_kernels::Parallel;
use kiln_kernels::parallel::copy_runs;
use kiln_run::exec::tasks_for_bytes;
use kiln_tensor::Tensor;
use smallvec::SmallVec;

/// Bytes of a block of rows: half of an L1 of 32 KiB.
const BLOCK: usize = 16 << 10;

/// Longest run: half a page, after which reading goes on in another page anyway.
const LONGEST: usize = 2 << 10;

/// Least bytes of the tensor: a smaller one stays in L2, where every part finds it.
const LEAST: usize = 1 << 20;

/// Longest runs that are divided this way in tensors of any size: finding the place of each takes longer than copying
/// it.
const SHORT: usize = 64;

/// Whether a tensor whose rows consist of these runs is divided faster in one pass.
pub(super) fn pays(runs: &[usize], tensor: &Tensor) -> bool {
    let longest = if tensor.byte_len() >= LEAST { LONGEST } else { SHORT };
    runs.len() > 1 && runs.iter().all(|run| (1..=longest).contains(&(run * tensor.dtype().size())))
}

/// Divides rows of `runs`, counted in elements of `width` bytes, among as many outputs. No run is empty.
pub(super) fn divide(from: &[u8], runs: &[usize], width: usize, to: SmallVec<[&mut [u8]; 8]>, parallel: &dyn Parallel) {
    let runs: SmallVec<[usize; 8]> = runs.iter().map(|run| run * width).collect();
    let stride: usize = runs.iter().sum();
    let rows = from.len() / stride;
    let tasks = tasks_for_bytes(from.len() as u64, u32::try_from(parallel.threads()).unwrap_or(u32::MAX)) as usize;
    let each = rows.div_ceil(tasks).max(1);
    // The outputs of a task: its rows of every part.
    let mut shares: Vec<Mutex<SmallVec<[&mut [u8]; 8]>>> = Vec::new();
    shares.resize_with(rows.div_ceil(each), Mutex::default);
    for (part, &run) in to.into_iter().zip(&runs) {
        for (share, rows) in shares.iter_mut().zip(part.chunks_mut(each * run)) {
            share.get_mut().unwrap_or_else(PoisonError::into_inner).push(rows);
        }
    }
    let block = (BLOCK / stride).max(1);
    parallel.run(shares.len(), &|task| {
        let mut parts = std::mem::take(&mut *shares[task].lock().unwrap_or_else(PoisonError::into_inner));
        let from = &from[task * each * stride..rows.min((task + 1) * each) * stride];
        for rows in from.chunks(block * stride) {
            let mut start = 0;
            for (part, &run) in parts.iter_mut().zip(&runs) {
                let (now, later) = std::mem::take(part).split_at_mut(rows.len() / stride * run);
                copy_runs(&rows[start..], stride, now, run);
                (*part, start) = (later, start + run);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use kiln_kernels::parallel::Pool;

    use super::*;

    #[test]
    fn every_part_gets_its_runs_of_every_row() {
        let pool = Pool::new(3, "divide").unwrap();
        for runs in [&[1usize, 2, 5][..], &[64, 128], &[300, 4, 700], &[16, 16, 16, 16]] {
            for rows in [1, 2, 37, 5000] {
                let stride: usize = runs.iter().sum();
                let from: Vec<u8> = (0..rows * stride).map(|at| (at * 31 % 251) as u8).collect();
                let mut outputs: Vec<Vec<u8>> = runs.iter().map(|run| vec![0; rows * run]).collect();
                divide(&from, runs, 1, outputs.iter_mut().map(Vec::as_mut_slice).collect(), &pool);
                let mut start = 0;
                for (output, &run) in outputs.iter().zip(runs) {
                    let want: Vec<u8> = from.chunks(stride).flat_map(|row| &row[start..start + run]).copied().collect();
                    assert_eq!(*output, want, "{runs:?} {rows}");
                    start += run;
                }
            }
        }
    }
}
