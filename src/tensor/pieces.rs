//! A tensor's elements as `f32`, a piece at a time: those in memory in place, those in a file through a small buffer.
//! Packing a model's weights by pieces takes no memory for all of them in the model's layout, and each piece is in a
//! cache when it is packed.

use std::ops::Range;
use std::sync::Arc;

use super::backing::Backing;
use super::buffer::Buffer;

/// Bytes of a piece: L2 holds it together with what is made of it.
pub(crate) const PIECE: usize = 1 << 18;

/// Elements as `f32`, to be read piece by piece.
#[derive(Debug)]
pub struct Pieces<'a> {
    place: Place<'a>,
    len: usize,
}

#[derive(Debug)]
enum Place<'a> {
    Memory(&'a [f32]),
    File { backing: Arc<Backing>, offset: u64, buffer: Buffer },
}

impl<'a> From<&'a [f32]> for Pieces<'a> {
    fn from(elements: &'a [f32]) -> Pieces<'a> {
        Pieces { place: Place::Memory(elements), len: elements.len() }
    }
}

impl Pieces<'_> {
    /// `len` elements of a file from byte `offset` on.
    pub(super) fn of_file(backing: Arc<Backing>, offset: u64, len: usize) -> Pieces<'static> {
        Pieces { place: Place::File { backing, offset, buffer: Buffer::zeroed(0) }, len }
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether they are still in a file.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        matches!(self.place, Place::File { .. })
    }

    /// The elements of `range`; `None` if there are fewer. Reading errors are in [`Backing::failure`].
    pub fn get(&mut self, range: Range<usize>) -> Option<&[f32]> {
        if range.start > range.end || range.end > self.len {
            return None;
        }
        match &mut self.place {
            Place::Memory(elements) => elements.get(range),
            Place::File { backing, offset, buffer } => {
                let bytes = range.len() * size_of::<f32>();
                if buffer.len() < bytes {
                    *buffer = Buffer::lent(backing.pool(), bytes);
                }
                let piece = &mut buffer.bytes_mut()[..bytes];
                backing.read(*offset + (range.start * size_of::<f32>()) as u64, piece);
                Some(bytemuck::cast_slice(piece))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::tensor::{DType, Tensor, TensorSpec};

    #[test]
    fn pieces_of_a_file_are_those_of_memory_and_leave_the_tensor_where_it_is() {
        let numbers: Vec<f32> = (0..5000).map(|number| number as f32).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 3]).unwrap();
        file.write_all(bytemuck::cast_slice(&numbers)).unwrap();
        let backing = Backing::new(file.path(), file.reopen().unwrap());
        let buffer = Buffer::deferred(backing.clone(), 3, 20_000);
        let spec = TensorSpec::new(DType::F32, [5000]);
        let tensor = Tensor::from_buffer(spec, Arc::new(buffer), 20_000).unwrap();
        let mut memory = Pieces::from(&numbers[..]);
        for read in [false, true] {
            if read {
                tensor.fetch();
            }
            let mut pieces = tensor.pieces().unwrap();
            assert_eq!((pieces.len(), pieces.is_stored()), (5000, !read));
            for range in [0..0, 0..1, 17..4000, 4000..4010, 5000..5000, 0..5000] {
                assert_eq!(pieces.get(range.clone()), memory.get(range));
            }
            let part = tensor.part(17, [5, 100]).unwrap().expect("its bytes can be shared");
            assert_eq!(part.pieces().unwrap().get(3..500), memory.get(20..517));
            assert_eq!(part.unread().pieces().unwrap().get(0..9), memory.get(17..26));
            for range in [0..5001, 5001..5001, usize::MAX - 1..usize::MAX] {
                assert!(pieces.get(range.clone()).is_none() && memory.get(range).is_none());
            }
        }
        assert!(backing.failure().is_none());
    }
}
