//! Moving elements without looking at them: one generic body for every element type, strings included.
//!
//! What an operator moves depends on the width of its elements and not on their meaning, so a [`Movement`] is compiled
//! for four widths and for strings instead of for fourteen types. Arithmetic has no place here.

use crate::graph::NodeError;
use crate::tensor::Tensor;

/// Most bytes of text in one rearranged tensor.
const TEXT_BYTES: usize = 1 << 30;

/// A rearrangement of the elements of some tensors of one type into another tensor.
pub(crate) trait Movement {
    /// Writes `to`, whose length is that of the output, from the sources. A movement of much data may split `to`
    /// between threads.
    fn run<T: Clone + Send + Sync>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError>;
}

/// Runs a movement from `from` into `to` and returns that; nothing is run where `to` has no elements. All must be of
/// one element type.
pub(crate) fn rearrange(movement: &impl Movement, from: &[&Tensor], mut to: Tensor) -> Result<Tensor, NodeError> {
    for tensor in from {
        if tensor.dtype() != to.dtype() {
            let (expected, found) = (to.dtype(), tensor.dtype());
            return Err(crate::tensor::TensorError::Type { expected, found }.into());
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
            // Every element gets a text of its own, so that a long one repeated would take any memory.
            if to.len().saturating_mul(longest) > TEXT_BYTES {
                return Err(NodeError::Limit {
                    what: "bytes of text that an operator makes",
                    limit: TEXT_BYTES as u64,
                });
            }
            let mut values = to.as_strings()?.to_vec();
            movement.run(&sources, &mut values)?;
            Ok(Tensor::from_strings(to.shape().iter().copied(), values)?)
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

/// Blocks of `inner` elements out of groups of `size` blocks.
pub(crate) struct Blocks {
    pub(crate) places: Vec<usize>,
    pub(crate) size: usize,
    pub(crate) inner: usize,
}

impl Movement for Blocks {
    fn run<T: Clone>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        let groups = from[0].chunks_exact(self.size * self.inner);
        for (group, to) in groups.zip(to.chunks_exact_mut(self.places.len() * self.inner)) {
            if self.inner == 1 {
                to.iter_mut().zip(&self.places).for_each(|(to, &place)| *to = group[place].clone());
                continue;
            }
            for (&place, to) in self.places.iter().zip(to.chunks_exact_mut(self.inner)) {
                to.clone_from_slice(&group[place * self.inner..][..self.inner]);
            }
        }
        Ok(())
    }
}
