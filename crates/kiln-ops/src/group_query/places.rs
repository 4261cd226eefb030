//! The sequences of a cache that a request continues.

use kiln_kernels::memory::Collect;
use kiln_run::NodeError;
use kiln_tensor::Tensor;

use super::input;
use crate::refused;

/// For each sequence of a request, its place in the cache. Several may have the same one.
pub(super) struct Places {
    each: Vec<usize>,
    /// The request's sequences, ordered by their places, and in the request's order where places are the same.
    order: Vec<usize>,
}

impl Places {
    /// Reads the numbers that a request gives, for a cache of `cached` sequences.
    ///
    /// # Errors
    ///
    /// Where the cache does not have a named sequence.
    pub(super) fn of(given: &Tensor, cached: usize) -> Result<Places, NodeError> {
        let place = |(sequence, given): (usize, i64)| {
            let place = usize::try_from(given).ok().filter(|&place| place < cached);
            place.ok_or_else(|| {
                let index = input::PLACES;
                refused(format!("input {index}: sequence {sequence} is number {given} of a cache of {cached}"))
            })
        };
        let each: Vec<usize> = given.to_i64_vec()?.into_iter().enumerate().map(place).try_collected()?;
        let mut order: Vec<usize> = (0..each.len()).collected();
        order.sort_unstable_by_key(|&sequence| (each[sequence], sequence));
        Ok(Places { each, order })
    }

    /// The place of each sequence.
    pub(super) fn each(&self) -> &[usize] {
        &self.each
    }

    /// The sequences of a place.
    pub(super) fn at(&self, place: usize) -> &[usize] {
        let first = self.order.partition_point(|&sequence| self.each[sequence] < place);
        let count = self.order[first..].partition_point(|&sequence| self.each[sequence] == place);
        &self.order[first..first + count]
    }
}
