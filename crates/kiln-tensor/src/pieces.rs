//! A tensor's elements as `f32`, a piece at a time: elements in memory in place, elements in a file through a small
//! buffer, and numbers in compact form widened into a second buffer. Packing weights by pieces needs no memory for a
//! whole tensor in the model's layout, and each piece is in a cache when it is packed.

use std::ops::Range;
use std::sync::Arc;

use kiln_kernels::memory::raise_if_over;

use super::backing::Backing;
use super::buffer::Buffer;
use super::compact::Compact;

/// Bytes of a piece: L2 holds it together with the result of packing it.
pub const PIECE: usize = 1 << 18;

/// Elements as `f32`, to be read piece by piece.
#[derive(Debug)]
pub struct Pieces<'a> {
    place: Place<'a>,
    len: usize,
}

#[derive(Debug)]
enum Place<'a> {
    Memory(&'a [f32]),
    File(Window),
    Compact {
        form: Arc<Compact>,
        /// The number of the first element in the form.
        first: usize,
        /// The window through which stored elements are read, if they are in a file.
        stored: Option<Window>,
        numbers: Vec<f32>,
    },
}

/// A part of a file's bytes at a time.
#[derive(Debug)]
struct Window {
    backing: Arc<Backing>,
    offset: u64,
    /// Memory of the longest range so far.
    buffer: Option<Buffer>,
}

impl Window {
    /// Bytes from `offset` on.
    fn new(backing: Arc<Backing>, offset: u64) -> Window {
        Window { backing, offset, buffer: None }
    }

    fn read(&mut self, range: Range<usize>) -> &[u8] {
        // Packing of large weights may be ended between two pieces.
        raise_if_over(range.len());
        let kept = self.buffer.take().filter(|buffer| buffer.len() >= range.len());
        let lent = || Buffer::lent(self.backing.pool(), range.len()).unwrap_or_else(|refused| refused.raise());
        let buffer = self.buffer.insert(kept.unwrap_or_else(lent));
        let piece = &mut buffer.bytes_mut()[..range.len()];
        self.backing.read(self.offset + range.start as u64, piece);
        piece
    }
}

impl<'a> From<&'a [f32]> for Pieces<'a> {
    fn from(elements: &'a [f32]) -> Pieces<'a> {
        Pieces { place: Place::Memory(elements), len: elements.len() }
    }
}

impl Pieces<'_> {
    /// `len` elements of a file from byte `offset` on.
    pub(super) fn of_file(backing: Arc<Backing>, offset: u64, len: usize) -> Pieces<'static> {
        Pieces { place: Place::File(Window::new(backing, offset)), len }
    }

    /// `len` numbers in compact form from number `first` on.
    pub(super) fn of_compact(form: Arc<Compact>, first: usize, len: usize) -> Pieces<'static> {
        let stored = form.stored.in_file().map(|(backing, offset)| Window::new(backing, offset));
        Pieces { place: Place::Compact { form, first, stored, numbers: Vec::new() }, len }
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

    /// Whether they are not in memory as `f32`.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        !matches!(self.place, Place::Memory(_))
    }

    /// The elements of `range`; `None` if there are fewer. Reading errors are in [`Backing::failure`]. Raises
    /// [`Refused`](kiln_kernels::memory::Refused) where they are in a file and there is no memory for them, or loading
    /// was ended.
    pub fn get(&mut self, range: Range<usize>) -> Option<&[f32]> {
        if range.start > range.end || range.end > self.len {
            return None;
        }
        match &mut self.place {
            Place::Memory(elements) => elements.get(range),
            Place::File(window) => {
                let bytes = range.start * size_of::<f32>()..range.end * size_of::<f32>();
                Some(bytemuck::cast_slice(window.read(bytes)))
            }
            Place::Compact { form, first, stored, numbers } => {
                let (start, size) = (*first + range.start, form.stored.dtype().size());
                numbers.resize(numbers.len().max(range.len()), 0.0);
                let piece = &mut numbers[..range.len()];
                match stored {
                    Some(window) => {
                        form.write_from(window.read(start * size..(start + range.len()) * size), start, piece)
                    }
                    None => form.write(start, piece),
                }
                Some(piece)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::{DType, Tensor, TensorSpec};

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
