//! Helpers of a step over a shared buffer (DecoderMaskedMultiHeadAttention), beside attention: StepPosition, the
//! position that is written, and BeamRows, the rows that beams have in common.
//!
//! A buffer of keys or values is [batch, heads, room, size]. Beams are sequences that follow each other, and one beam
//! may continue another one: `cache_indirection` [batch / beams, beams, at least the positions] names, for each earlier
//! position, the beam of the group that has it.

use kiln_kernels::memory::{self, Pace};
use kiln_kernels::parallel::{copy, for_each_chunk};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::{LoadCx, OpError, Operator, integer, optional, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] =
    &[("kiln", "StepPosition", |_| Ok(Box::new(StepPosition))), ("kiln", "BeamRows", make_rows)];

/// Places of the inputs of StepPosition. Inputs of the model's operator have its names in messages.
mod input {
    pub(super) const QUERY: usize = 0;
    pub(super) const PAST_KEY: usize = 1;
    pub(super) const PAST_LENGTH: usize = 2;
    pub(super) const MASK: usize = 3;
    pub(super) const BIAS: usize = 4;
    pub(super) const BEAMS: usize = 5;
    pub(super) const INDIRECTION: usize = 6;
}

/// The new position of each sequence, if the inputs of the step fit together.
struct StepPosition;

impl Node for StepPosition {
    fn family(&self) -> &'static str {
        "StepPosition"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let query = required(inputs, input::QUERY)?.shape();
        let &[batch, 1, _] = query else {
            return Err(refused(format!("queries of shape {query:?}, where a step has one position")));
        };
        let past = required(inputs, input::PAST_KEY)?.shape();
        if !matches!(*past, [of, _, _, _] if of == batch) {
            return Err(refused(format!("past_key of shape {past:?} for {batch} sequences")));
        }
        let length = required(inputs, input::PAST_LENGTH)?;
        if length.len() != 1 {
            return Err(refused(format!("past_sequence_length of {} elements, where one is needed", length.len())));
        }
        if let Some(beams) = optional(inputs, input::BEAMS).filter(|beams| beams.len() != 1) {
            return Err(refused(format!("beam_width of {} elements, where one is needed", beams.len())));
        }
        let mask = optional(inputs, input::MASK).map(Tensor::shape);
        if let Some(mask) = mask.filter(|mask| !matches!(**mask, [of, _] if of == batch)) {
            return Err(refused(format!("mask_index of shape {mask:?} for {batch} sequences of one new position")));
        }
        let bias = optional(inputs, input::BIAS).map(Tensor::shape);
        if let Some(bias) = bias.filter(|bias| bias.len() != 4) {
            return Err(refused(format!("attention_bias of shape {bias:?}, which has no four axes")));
        }
        let Some(indirection) = optional(inputs, input::INDIRECTION).map(Tensor::shape) else { return Ok(()) };
        let fits = matches!(*indirection, [groups, beams, _] if groups.checked_mul(beams) == Some(batch));
        match bias {
            _ if !fits => Err(refused(format!("cache_indirection of shape {indirection:?} for {batch} sequences"))),
            Some(bias) if bias[0] != 1 => {
                Err(NodeError::Unsupported(format!("attention_bias of {} sequences beside cache_indirection", bias[0])))
            }
            _ => Ok(()),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let inputs = io.inputs();
        let (room, length) = (required(&inputs, input::PAST_KEY)?.shape()[2], required(&inputs, input::PAST_LENGTH)?);
        let given = integer(length)?;
        let length = usize::try_from(given).ok().filter(|&length| length < room);
        let length = length.ok_or_else(|| {
            refused(format!("past_sequence_length = {given}, where past_key has room for {room} positions"))
        })?;
        for (what, index, axis) in [("mask_index", input::MASK, 1), ("attention_bias", input::BIAS, 3)] {
            if let Some(shape) = optional(&inputs, index).map(Tensor::shape).filter(|shape| shape[axis] != length + 1) {
                return Err(refused(format!("{what} of shape {shape:?} for {} positions", length + 1)));
            }
        }
        let beams = optional(&inputs, input::BEAMS).map(integer).transpose()?;
        if let Some(beams) = beams {
            let indirection = optional(&inputs, input::INDIRECTION).map(Tensor::shape);
            let known = indirection.map_or(Some(1), |shape| i64::try_from(shape[1]).ok());
            if known != Some(beams) {
                return Err(refused(match indirection {
                    Some(shape) => format!("beam_width = {beams} with cache_indirection of shape {shape:?}"),
                    None => format!("beam_width = {beams} without cache_indirection"),
                }));
            }
        }
        drop(inputs);
        let mut to = io.alloc(0)?;
        to.as_mut_slice::<i64>()?.fill(length as i64);
        io.push(to);
        Ok(())
    }
}

/// A buffer with the rows that `cache_indirection` names before each new position; all other rows are 0.
struct BeamRows;

fn make_rows(_: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(BeamRows))
}

impl Node for BeamRows {
    fn family(&self) -> &'static str {
        "BeamRows"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let (cache, indirection) = (required(inputs, 0)?.shape(), required(inputs, 1)?.shape());
        let positions = required(inputs, 2)?.shape();
        let fits = match (cache, indirection) {
            (&[batch, _, _, _], &[groups, beams, _]) => {
                groups.checked_mul(beams) == Some(batch) && *positions == [batch]
            }
            _ => false,
        };
        let wrong = || refused(format!("cache_indirection of shape {indirection:?} for a cache of {cache:?}"));
        if fits { Ok(()) } else { Err(wrong()) }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let mut to = io.alloc(0)?;
        let (cache, indirection) = (io.input(0)?, io.input(1)?);
        let positions = io.input(2)?.to_i64_vec()?;
        let (&[batch, heads, room, size], &[_, beams, columns]) = (cache.shape(), indirection.shape()) else {
            return Err(refused("a cache of another rank"));
        };
        let before = |sequence: usize| usize::try_from(positions[sequence]).ok().filter(|&before| before <= room);
        let given = indirection.to_i64_vec()?;
        // For each sequence and earlier position, the sequence that has the position.
        let mut from = memory::with_capacity(batch.saturating_mul(columns.min(room)));
        let mut ends = memory::with_capacity(batch);
        let mut pace = Pace::default();
        for sequence in 0..batch {
            let before = before(sequence).filter(|&before| before <= columns).ok_or_else(|| {
                let (shape, position) = (indirection.shape(), positions[sequence]);
                refused(format!("cache_indirection of shape {shape:?} for {position} earlier positions"))
            })?;
            for (position, &beam) in given[sequence * columns..][..before].iter().enumerate() {
                let own = usize::try_from(beam).ok().filter(|&beam| beam < beams).ok_or_else(|| {
                    refused(format!(
                        "cache_indirection: beam {beam} of {beams}, for position {position} of sequence {sequence}"
                    ))
                })?;
                from.push(sequence / beams * beams + own);
            }
            ends.push(from.len());
            pace.step(before);
        }
        let row = size * cache.dtype().size();
        let rows = cache.bytes();
        for_each_chunk(cx.parallel, to.bytes_mut(), room * row, &|line, to| {
            let (sequence, head) = (line / heads, line % heads);
            let start = sequence.checked_sub(1).map_or(0, |earlier| ends[earlier]);
            let (had, rest) = to.split_at_mut((ends[sequence] - start) * row);
            for (position, (to, &from)) in had.chunks_exact_mut(row.max(1)).zip(&from[start..]).enumerate() {
                copy(&rows[((from * heads + head) * room + position) * row..][..row], to);
            }
            rest.fill(0);
        });
        io.push(to);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    /// Two sequences over a buffer of three positions.
    fn step(length: i32) -> Trial {
        let row = Trial::new("StepPosition").input(&[2, 1, 4], &[0f32; 8]).input(&[2, 1, 3, 4], &[0f32; 24]);
        row.input(&[1], &[length])
    }

    #[test]
    fn a_step_writes_behind_what_there_is() {
        step(0).gives(&[2], &[0i64, 0]);
        step(2).gives(&[2], &[2i64, 2]);
        step(1).input(&[2, 2], &[1, 1, 0, 1]).input(&[1, 1, 1, 2], &[0f32; 2]).gives(&[2], &[1i64, 1]);
        step(1).absent().absent().input(&[1], &[2]).input(&[1, 2, 3], &[0; 6]).gives(&[2], &[1i64, 1]);
    }

    #[test]
    fn steps_that_do_not_fit_are_refused_with_what_does_not() {
        step(3).is_refused("past_sequence_length = 3, where past_key has room for 3 positions");
        step(-1).is_refused("past_sequence_length = -1");
        step(1).input(&[2, 3], &[1; 6]).is_refused("mask_index of shape [2, 3] for 2 positions");
        step(1).input(&[2], &[1, 1]).is_refused("mask_index of shape [2]");
        step(1).absent().input(&[1, 1, 1, 1], &[0f32]).is_refused("attention_bias of shape [1, 1, 1, 1] for 2");
        step(1).absent().absent().input(&[1], &[2]).is_refused("beam_width = 2 without cache_indirection");
        let beams = |width: i32| step(1).absent().absent().input(&[1], &[width]);
        beams(1).input(&[1, 2, 3], &[0; 6]).is_refused("beam_width = 1 with cache_indirection of shape [1, 2, 3]");
        beams(2).input(&[2, 2, 3], &[0; 12]).is_refused("cache_indirection of shape [2, 2, 3] for 2 sequences");
        let biased = step(1).absent().input(&[2, 1, 1, 2], &[0f32; 4]).absent().input(&[1, 2, 3], &[0; 6]);
        biased.is_refused("attention_bias of 2 sequences beside cache_indirection");
        let two = Trial::new("StepPosition").input(&[1, 2, 4], &[0f32; 8]).input(&[1, 1, 3, 4], &[0f32; 12]);
        two.input(&[1], &[0]).is_refused("queries of shape [1, 2, 4], where a step has one position");
    }

    /// Two groups of two beams, one head, rows of one element.
    fn rows(indirection: &[i32], before: i64) -> Trial {
        let cache: Vec<f32> = (0..12u8).map(f32::from).collect();
        Trial::new("BeamRows").input(&[4, 1, 3, 1], &cache).input(&[2, 2, 2], indirection).input(&[4], &[before; 4])
    }

    #[test]
    fn each_position_is_of_the_beam_of_the_group_that_has_it() {
        let expected = [0f32, 4.0, 0.0, 3.0, 1.0, 0.0, 9.0, 10.0, 0.0, 6.0, 7.0, 0.0];
        rows(&[0, 1, 1, 0, 1, 1, 0, 0], 2).gives(&[4, 1, 3, 1], &expected);
        rows(&[0, 9, 0, 9, 0, 9, 0, 9], 0).gives(&[4, 1, 3, 1], &[0f32; 12]);
    }

    #[test]
    fn beams_that_are_not_there_are_refused() {
        rows(&[0, 0, 0, 2, 0, 0, 0, 0], 2).is_refused("beam 2 of 2, for position 1 of sequence 1");
        rows(&[0, -1, 0, 0, 0, 0, 0, 0], 2).is_refused("beam -1 of 2");
        rows(&[0; 8], 3).is_refused("for 3 earlier positions");
        let wide =
            Trial::new("BeamRows").input(&[3, 1, 1, 1], &[0f32; 3]).input(&[1, 2, 1], &[0; 2]).input(&[3], &[0i64; 3]);
        wide.is_refused("for a cache of [3, 1, 1, 1]");
    }
}
