//! What a cache says of its sequences, and how they fork and rewind.

use std::sync::Arc;

use kiln_tensor::Tensor;
use kiln_tensor::destination::Destination;

use super::{DecoderCache, DecoderError};

impl DecoderCache {
    /// The positions of each sequence.
    #[must_use]
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Positions that a sequence can have before the tables of pages grow.
    #[must_use]
    pub fn room(&self) -> usize {
        self.room
    }

    /// Bytes of keys and values, those of free pages among them, and of states.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let bytes = |part: &Arc<Destination>| part.spec().elements().unwrap_or(0) * part.spec().dtype.size();
        self.parts.iter().map(bytes).sum::<usize>() + self.states.bytes()
    }

    /// Whether a sequence of `length` positions can become one of its first `positions`: with states, only where it
    /// stays as it is or becomes empty.
    pub(in crate::session) fn can_end_at(&self, length: usize, positions: usize) -> bool {
        self.states.are_none() || positions == 0 || positions == length
    }

    /// Says that a text of `length` tokens will be read into a sequence, in one step or in several. Models that rotate by
    /// other angles from some length on (Phi-3 with long contexts) then do so from the first step on, as if the text were
    /// read in one. It holds until the sequence is rewound or becomes a fork, or is longer.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Cache`] for a sequence that does not exist.
    pub fn announce(&mut self, sequence: usize, length: usize) -> Result<(), DecoderError> {
        self.length(sequence)?;
        self.announced[sequence] = length.min(self.most);
        Ok(())
    }

    /// Makes the sequence `to` begin as `from` does. Both share the pages of these positions, and nothing is copied until
    /// one of them writes a page that both have: that is the last one at most, where it is not whole.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Cache`] for a sequence that does not exist, where `from` is shorter, and where the model has
    /// states and `from` is longer. Both sequences are then unchanged.
    pub fn fork(&mut self, from: usize, to: usize, positions: usize) -> Result<(), DecoderError> {
        let length = self.length(from)?;
        self.length(to)?;
        if length < positions {
            return Err(DecoderError::Cache(format!("sequence {from} has {length} positions, not {positions}")));
        }
        self.check_end(from, positions)?;
        self.pages.share(from, to, positions);
        match positions {
            0 => self.states.clear(to),
            _ => self.states.copy(from, to),
        }
        (self.lengths[to], self.announced[to]) = (positions, 0);
        Ok(())
    }

    /// The positions of a sequence, which must exist.
    pub(super) fn length(&self, sequence: usize) -> Result<usize, DecoderError> {
        let unknown = || DecoderError::Cache(format!("there is no sequence {sequence}"));
        self.lengths.get(sequence).copied().ok_or_else(unknown)
    }

    pub(super) fn check_end(&self, sequence: usize, positions: usize) -> Result<(), DecoderError> {
        let length = self.lengths[sequence];
        match self.can_end_at(length, positions) {
            true => Ok(()),
            false => Err(DecoderError::Cache(format!(
                "sequence {sequence} has states of {length} positions, which cannot go back to {positions}"
            ))),
        }
    }

    /// The parts, lent for writing.
    pub(super) fn lent(&self) -> Result<Vec<Tensor>, DecoderError> {
        let lent: Option<Vec<Tensor>> = self.parts.iter().map(|part| part.lend(part.spec())).collect();
        lent.ok_or_else(|| DecoderError::Cache("it is in use by another step".to_owned()))
    }

    /// Forgets the positions of a sequence from `length` on.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Cache`] for a sequence that does not exist or is shorter, and for a model with states where
    /// `length` is neither 0 nor the sequence's length.
    pub fn rewind(&mut self, sequence: usize, length: usize) -> Result<(), DecoderError> {
        let old = self.length(sequence)?;
        if old < length {
            return Err(DecoderError::Cache(format!("sequence {sequence} has {old} positions, not {length}")));
        }
        self.check_end(sequence, length)?;
        (self.lengths[sequence], self.announced[sequence]) = (length, 0);
        self.pages.keep(sequence, length);
        if length == 0 {
            self.states.clear(sequence);
        }
        Ok(())
    }
}
