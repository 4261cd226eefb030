//! Heads of queries, keys and values as a request gives them, and their norms and rotations before they are multiplied.

use kiln_kernels::memory::Collect;
use kiln_kernels::reference::rotary::rotate;
use kiln_run::NodeError;
use kiln_tensor::Tensor;

use super::sizes::{Sequence, Sizes};
use crate::index_of;

/// Rows of heads: those of queries, keys or values in an input.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) elements: &'a [f32],
    /// Elements from one position to the next.
    pub(super) width: usize,
    /// Elements before the first head.
    pub(super) first: usize,
    /// Elements of a head.
    pub(super) size: usize,
}

impl<'a> Rows<'a> {
    pub(super) fn head(&self, line: usize, head: usize) -> &'a [f32] {
        &self.elements[line * self.width + self.first + head * self.size..][..self.size]
    }
}

/// The norm and the rotation of heads of queries or of keys.
pub(super) struct Turn<'a> {
    /// Weights of the norm of a head.
    pub(super) norm: Option<&'a [f32]>,
    pub(super) epsilon: f32,
    pub(super) angles: Option<&'a Angles<'a>>,
}

/// The angles of all new positions.
pub(super) struct Angles<'a> {
    pub(super) cosines: &'a [f32],
    pub(super) sines: &'a [f32],
    /// Pairs of a head that are rotated.
    pub(super) pairs: usize,
    pub(super) interleaved: bool,
    /// The line of angles of each new position.
    pub(super) lines: Vec<usize>,
}

impl Turn<'_> {
    pub(super) const NOTHING: Turn<'static> = Turn { norm: None, epsilon: 0.0, angles: None };

    pub(super) fn is_nothing(&self) -> bool {
        self.norm.is_none() && self.angles.is_none()
    }

    /// The head of the new position `line`.
    pub(super) fn apply(&self, head: &mut [f32], line: usize) {
        if let Some(weights) = self.norm {
            let squares: f32 = head.iter().map(|value| value * value).sum();
            let factor = 1.0 / (squares / head.len().max(1) as f32 + self.epsilon).sqrt();
            head.iter_mut().zip(weights).for_each(|(value, weight)| *value *= factor * weight);
        }
        if let Some(Angles { cosines, sines, pairs, interleaved, lines }) = self.angles {
            let first = lines[line] * pairs;
            rotate(&mut head[..2 * pairs], &cosines[first..][..*pairs], &sines[first..][..*pairs], *interleaved);
        }
    }
}

/// The line of angles of each new position: in a prompt, they count on from the first id. Padding behind the valid
/// positions of a chunk has the first line.
pub(super) fn lines_of_angles(
    ids: Option<&Tensor>,
    sizes: &Sizes,
    sequences: &[Sequence],
    known: usize,
) -> Result<Vec<usize>, NodeError> {
    let ids = ids.map(Tensor::to_i64_vec).transpose()?;
    let first = ids.as_deref().and_then(|ids| ids.first().copied()).unwrap_or(0);
    let line = |line: usize| {
        let (sequence, position) = (line / sizes.new, line % sizes.new);
        if position >= sequences[sequence].written {
            return Ok(0);
        }
        let id = match &ids {
            _ if sizes.is_prompt() => first.saturating_add(position as i64),
            Some(ids) => ids[line],
            None => (sequences[sequence].before + position) as i64,
        };
        index_of(id, known)
    };
    (0..sizes.batch * sizes.new).map(line).try_collected()
}
