//! States of fixed size that a model hands from step to step: the last columns of a causal convolution, the matrix of a
//! linear attention or of a state-space layer.
//!
//! A state belongs to a sequence as a whole, after all of its positions. So a sequence can be forked or rewound only
//! where it ends, or to nothing, and several tokens of one sequence are no rows of a batch.

use std::sync::Arc;

use kiln_kernels::memory;
use kiln_model::ir::{Dim, Graph, ValueId};
use kiln_tensor::{BufferPool, DType, Tensor, TensorError, TensorSpec};

use super::DecoderError;

/// A state: an input, and the output that is its next value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) past: String,
    /// Its sizes, without that of the batch.
    pub(super) sizes: Vec<usize>,
    pub(super) dtype: DType,
}

impl State {
    /// The state at an input of the model. `None` for an input whose sizes, but for the first, are not all declared.
    pub(super) fn at(graph: &Graph, past: ValueId) -> Option<State> {
        let info = graph.value(past);
        let [_, sizes @ ..] = info.dims.as_deref()? else { return None };
        let known = |dim: &Dim| match dim {
            Dim::Fixed(size) => Some(*size),
            Dim::Named(_) | Dim::Any => None,
        };
        let sizes: Vec<usize> = sizes.iter().map(known).collect::<Option<_>>()?;
        let dtype = info.dtype.unwrap_or(DType::F32);
        let is_state = !sizes.is_empty() && dtype != DType::String;
        is_state.then(|| State { past: info.name.clone(), sizes, dtype })
    }

    /// The spec for that many sequences.
    fn spec(&self, sequences: usize) -> TensorSpec {
        TensorSpec::new(self.dtype, std::iter::once(sequences).chain(self.sizes.iter().copied()))
    }
}

/// The states of the sequences of a cache: one tensor for each [`State`], with a row for each sequence.
#[derive(Debug, Default)]
pub(super) struct States {
    tensors: Vec<Tensor>,
}

impl States {
    /// Zeros for that many sequences, in memory of `pool`.
    pub(super) fn new(states: &[State], sequences: usize, pool: &Arc<BufferPool>) -> Result<States, TensorError> {
        let zeros = |state: &State| {
            let mut tensor = Tensor::from_pool(pool, state.spec(sequences))?;
            memory::fill(tensor.bytes_mut(), &0);
            Ok(tensor)
        };
        Ok(States { tensors: states.iter().map(zeros).collect::<Result<_, TensorError>>()? })
    }

    /// Whether they are those of a model with these states.
    pub(super) fn are_of(&self, states: &[State], sequences: usize) -> bool {
        let mut pairs = self.tensors.iter().zip(states);
        self.tensors.len() == states.len() && pairs.all(|(tensor, state)| *tensor.spec() == state.spec(sequences))
    }

    pub(super) fn are_none(&self) -> bool {
        self.tensors.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.tensors.iter().map(|tensor| tensor.bytes().len()).sum()
    }

    /// The states of these sequences, in this order; copies are in memory of `pool`.
    pub(super) fn of(&self, sequences: &[usize], pool: &Arc<BufferPool>) -> Result<Vec<Tensor>, DecoderError> {
        let rows = |tensor: &Tensor| -> Result<Tensor, TensorError> {
            let shape = tensor.shape();
            if sequences.iter().copied().eq(0..shape[0]) {
                return Ok(tensor.clone());
            }
            let sizes = std::iter::once(sequences.len()).chain(shape[1..].iter().copied());
            let mut picked = Tensor::from_pool(pool, TensorSpec::new(tensor.dtype(), sizes))?;
            let row = tensor.bytes().len() / shape[0].max(1);
            for (to, &sequence) in picked.bytes_mut().chunks_exact_mut(row.max(1)).zip(sequences) {
                to.copy_from_slice(&tensor.bytes()[sequence * row..][..row]);
            }
            Ok(picked)
        };
        Ok(self.tensors.iter().map(rows).collect::<Result<_, _>>()?)
    }

    /// Takes the next states of these sequences. Rows of a sequence that is named again are left out.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Model`] where the model's outputs are no states of as many sequences. Nothing is taken then.
    pub(super) fn take(&mut self, sequences: &[usize], next: Vec<Tensor>) -> Result<(), DecoderError> {
        for (tensor, next) in self.tensors.iter().zip(&next) {
            let sizes = next.shape().split_first();
            let fits = sizes.is_some_and(|(count, sizes)| *count == sequences.len() && *sizes == tensor.shape()[1..]);
            if !fits || next.dtype() != tensor.dtype() {
                let (dtype, shape) = (next.dtype(), next.shape());
                return Err(DecoderError::Model(format!(
                    "a state {dtype} {shape:?} of {} sequences follows one {:?}",
                    sequences.len(),
                    tensor.spec()
                )));
            }
        }
        for (tensor, next) in self.tensors.iter_mut().zip(next) {
            if sequences.iter().copied().eq(0..tensor.shape()[0]) {
                *tensor = next;
                continue;
            }
            let row = next.bytes().len() / sequences.len().max(1);
            let mut is_taken = memory::zeroed::<u8>(tensor.shape()[0]);
            let to = tensor.bytes_mut();
            for (from, &sequence) in next.bytes().chunks_exact(row.max(1)).zip(sequences) {
                if std::mem::replace(&mut is_taken[sequence], 1) == 0 {
                    to[sequence * row..][..row].copy_from_slice(from);
                }
            }
        }
        Ok(())
    }

    /// Gives the sequence `to` the states of `from`.
    pub(super) fn copy(&mut self, from: usize, to: usize) {
        self.each_row(|bytes, row| bytes.copy_within(from * row..(from + 1) * row, to * row));
    }

    /// Gives a sequence the states before its first token.
    pub(super) fn clear(&mut self, sequence: usize) {
        self.each_row(|bytes, row| bytes[sequence * row..(sequence + 1) * row].fill(0));
    }

    /// Each tensor's bytes, and the bytes of a sequence.
    fn each_row(&mut self, change: impl Fn(&mut [u8], usize)) {
        for tensor in &mut self.tensors {
            let sequences = tensor.shape()[0].max(1);
            let bytes = tensor.bytes_mut();
            let row = bytes.len() / sequences;
            change(bytes, row);
        }
    }
}

/// The logits of several steps, one after the other: [rows, words].
pub(super) fn joined(parts: &[Tensor]) -> Result<Tensor, DecoderError> {
    let words = parts.first().map_or(0, |part| part.shape()[1]);
    let (rows, dtype) =
        (parts.iter().map(|part| part.shape()[0]).sum(), parts.first().map_or(DType::F32, Tensor::dtype));
    let mut all = Tensor::zeros(TensorSpec::new(dtype, [rows, words]))?;
    let mut to = all.bytes_mut();
    for part in parts {
        let (own, rest) = to.split_at_mut(part.bytes().len());
        own.copy_from_slice(part.bytes());
        to = rest;
    }
    Ok(all)
}
