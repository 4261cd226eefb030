//! Strings that are combined where they are written: joined, or the first or the last of both by their bytes.

use kiln_kernels::memory::{self, Pace};
use kiln_run::NodeError;
use kiln_tensor::Tensor;

use super::Put;
use crate::generic::Binary;

/// As [`combine`](super::combine) for strings: a sum joins them, in the order of updates.
pub(super) fn combine_texts(step: Binary, put: &Put, updates: &Tensor, data: Tensor) -> Result<Tensor, NodeError> {
    let shape = data.spec().shape.clone();
    let (mut texts, updates) = (data.into_strings()?, updates.as_strings()?);
    memory::hold(updates.iter().map(String::len).sum());
    let mut pace = Pace::default();
    for (&place, updates) in put.places.iter().zip(updates.chunks_exact(put.block.max(1))) {
        for (text, update) in texts[place * put.block..][..put.block].iter_mut().zip(updates) {
            pace.step(8 + (text.len() + update.len()) / 64);
            match step {
                Binary::Add => text.push_str(update),
                Binary::Max if *update > *text => text.clone_from(update),
                Binary::Min if *update < *text => text.clone_from(update),
                Binary::Max | Binary::Min => {}
                _ => return Err(NodeError::Unsupported(format!("{step:?} of strings"))),
            }
        }
    }
    Ok(Tensor::from_strings(shape, texts)?)
}
