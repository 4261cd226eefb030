//! A convolution's input in parts: the inputs of a Concat along the channels, read where they are.
//!
//! The pass `concat` drops the Concat and hands the convolution its inputs. An executor that copies or transforms its
//! input reads the parts as they are; for one that reads its input in place, they are joined here, as the Concat would
//! have.

use kiln_kernels::cpu::conv::{Conv as Executor, ConvPart};
use kiln_run::{NodeError, RunCx};
use kiln_tensor::{Shape, Tensor};
use smallvec::SmallVec;

use super::super::stored::activations;
use super::super::{join, joined_spec, optional, required};
use super::Conv;

/// The place of the second part among the inputs; the others follow.
pub(super) const SECOND: usize = 4;

/// The parts of an input, in order.
pub(super) type Parts<'t> = SmallVec<[&'t Tensor; 4]>;

/// The parts among these inputs.
pub(super) fn parts<'t>(inputs: &[Option<&'t Tensor>]) -> Result<Parts<'t>, NodeError> {
    std::iter::once(0).chain(SECOND..inputs.len()).map(|index| required(inputs, index)).collect()
}

/// The number of channels of each part, its last dimension.
fn channels(parts: &[&Tensor]) -> SmallVec<[usize; 4]> {
    parts.iter().map(|part| part.shape().last().copied().unwrap_or_default()).collect()
}

/// Whether an executor reads them where they are.
pub(super) fn are_taken(conv: &Executor, parts: &[&Tensor]) -> bool {
    parts.len() > 1 && conv.takes_parts(&channels(parts))
}

/// The parts as one tensor.
pub(super) fn joined(parts: &[&Tensor], cx: &RunCx<'_>) -> Result<Tensor, NodeError> {
    let whole = Tensor::from_pool(cx.buffers, joined_spec(parts, -1)?)?;
    join(parts, -1, whole, cx.parallel)
}

/// The parts as kernels take them.
pub(super) fn read<'t>(parts: &[&'t Tensor]) -> Result<SmallVec<[ConvPart<'t>; 4]>, NodeError> {
    let part = |(part, channels): (&&'t Tensor, usize)| Ok(ConvPart { x: activations(part)?, channels });
    parts.iter().zip(channels(parts)).map(part).collect()
}

impl Conv {
    /// The shape of the input, all of its parts together.
    pub(super) fn input_shape(&self, inputs: &[Option<&Tensor>]) -> Result<Shape, NodeError> {
        if optional(inputs, SECOND).is_none() {
            return Ok(Shape::from_slice(required(inputs, 0)?.shape()));
        }
        if !self.channels_last {
            return Err(super::refused("parts of an input whose channels are not last"));
        }
        Ok(joined_spec(&parts(inputs)?, -1)?.shape)
    }
}
