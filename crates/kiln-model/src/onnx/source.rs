//! The bytes of a model, front to back: from a file, one window at a time, or from memory.
//!
//! A model is a few kilobytes of structure around megabytes of weights. Large fields stay in the file until they are
//! needed (see [`kiln_tensor::backing`]): the decoder gets a placeholder, and [`Inline`] maps it to the bytes in the
//! file. Only raw bytes of tensors are decoded to fields that can be placeholders (see `proto`).

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kiln_kernels::memory::raise_if_over;
use kiln_tensor::Backing;

/// Bytes of a window; longer fields stay in the file.
pub(super) const WINDOW: usize = 64 << 10;

/// Bytes that are decoded between two checks whether loading was ended: some milliseconds.
const ASK: usize = 1 << 20;

/// The input of a decoder.
///
/// Raises [`Refused::Over`](kiln_kernels::memory::Refused::Over) where loading is over.
///
/// A decoder cannot report a reading error. After one it gets zeros, which end no message, and the caller checks the
/// file.
pub(super) struct Source {
    window: Bytes,
    /// Bytes of the file after the window.
    behind: usize,
    /// Their offset in the file.
    position: u64,
    inline: Inline,
    /// Bytes that were decoded since the last check whether loading was ended.
    unasked: usize,
}

/// Fields that stayed in the file, by the addresses of their placeholders.
#[derive(Debug, Default)]
pub(super) struct Inline {
    backing: Option<Arc<Backing>>,
    fields: HashMap<usize, Field>,
}

/// A field that stayed in the file.
#[derive(Debug)]
struct Field {
    /// Kept so that no other field gets its address.
    _placeholder: Bytes,
    offset: u64,
    length: usize,
}

/// The bytes of a field in the file.
pub(super) struct Place<'a> {
    /// The file.
    pub(super) backing: &'a Arc<Backing>,
    /// Their offset.
    pub(super) offset: u64,
    /// Their number.
    pub(super) length: usize,
}

impl Inline {
    /// The bytes in the file of a placeholder; `None` for other fields.
    pub(super) fn find(&self, field: &Bytes) -> Option<Place<'_>> {
        let &Field { offset, length, .. } = self.fields.get(&field.as_ptr().addr())?;
        self.backing.as_ref().map(|backing| Place { backing, offset, length })
    }

    /// The model's own file, if it came from one.
    pub(super) fn backing(&self) -> Option<&Arc<Backing>> {
        self.backing.as_ref()
    }
}

impl Source {
    /// A source in memory.
    pub(super) fn memory(bytes: Bytes) -> Source {
        Source { window: bytes, behind: 0, position: 0, inline: Inline::default(), unasked: 0 }
    }

    /// The first `size` bytes of a file.
    pub(super) fn file(backing: Arc<Backing>, size: usize) -> Source {
        let inline = Inline { backing: Some(backing), ..Inline::default() };
        let mut source = Source { behind: size, inline, ..Source::memory(Bytes::new()) };
        source.refill();
        source
    }

    /// The fields that stayed in the file.
    pub(super) fn finish(self) -> Inline {
        self.inline
    }

    /// Reads the next window if this one is empty; leaves it empty at the end.
    fn refill(&mut self) {
        if self.window.is_empty()
            && self.behind > 0
            && let Some(backing) = &self.inline.backing
        {
            let mut window = BytesMut::zeroed(self.behind.min(WINDOW));
            backing.read(self.position, &mut window);
            self.skip(window.len());
            self.window = window.freeze();
        }
    }

    /// Skips bytes after the window.
    fn skip(&mut self, count: usize) {
        self.behind -= count;
        self.position += count as u64;
    }

    /// Skips a field, which stays in the file; returns its placeholder.
    fn leave(&mut self, length: usize) -> Bytes {
        let offset = self.position - self.window.len() as u64;
        let inside = length.min(self.window.len());
        self.window.advance(inside);
        self.skip(length - inside);
        let placeholder = Bytes::from(vec![0]);
        let field = Field { _placeholder: placeholder.clone(), offset, length };
        self.inline.fields.insert(placeholder.as_ptr().addr(), field);
        placeholder
    }
}

impl Buf for Source {
    fn remaining(&self) -> usize {
        self.window.len() + self.behind
    }

    fn chunk(&self) -> &[u8] {
        &self.window
    }

    fn advance(&mut self, count: usize) {
        self.unasked += count;
        if self.unasked >= ASK {
            self.unasked = 0;
            raise_if_over(0);
        }
        let inside = count.min(self.window.len());
        self.window.advance(inside);
        assert!(count - inside <= self.behind, "a decoder passes over {count} bytes, more than there are");
        self.skip(count - inside);
        self.refill();
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        assert!(length <= self.remaining(), "a decoder asks for {length} of {} bytes", self.remaining());
        let field = if self.inline.backing.is_some() && length >= WINDOW {
            self.leave(length)
        } else if length <= self.window.len() {
            self.window.split_to(length)
        } else {
            let mut field = BytesMut::with_capacity(length);
            field.put((&mut *self).take(length));
            field.freeze()
        };
        self.refill();
        field
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn numbered(length: usize) -> Vec<u8> {
        (0..length).map(|index| (index * 31 % 251) as u8).collect()
    }

    fn from_file(bytes: &[u8], size: usize) -> Source {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        Source::file(Backing::new(file.path(), file.reopen().unwrap()), size)
    }

    /// The field's bytes, from memory or from the file.
    fn read(source: &Source, field: &Bytes) -> Vec<u8> {
        let Some(place) = source.inline.find(field) else { return field.to_vec() };
        let mut bytes = vec![0; place.length];
        place.backing.read(place.offset, &mut bytes);
        bytes
    }

    #[test]
    fn a_file_gives_the_same_bytes_as_memory_in_whatever_pieces_they_are_taken() {
        let bytes = numbered(5 * WINDOW + 17);
        for pieces in [vec![1, 7, WINDOW, 3], vec![4096, 2 * WINDOW], vec![WINDOW - 1, 2, 4095]] {
            let (mut memory, mut file) = (Source::memory(Bytes::from(bytes.clone())), from_file(&bytes, bytes.len()));
            for (step, &piece) in pieces.iter().cycle().enumerate() {
                let piece = piece.min(memory.remaining());
                if step % 3 == 2 {
                    memory.advance(piece);
                    file.advance(piece);
                } else {
                    let field = file.copy_to_bytes(piece);
                    assert_eq!(memory.copy_to_bytes(piece), read(&file, &field));
                    assert_eq!(file.inline.find(&field).is_some(), piece >= WINDOW);
                }
                assert_eq!(memory.remaining(), file.remaining());
                assert_eq!(file.chunk().is_empty(), !file.has_remaining(), "a chunk while there is more");
                if !memory.has_remaining() {
                    break;
                }
            }
            assert!(file.finish().backing().unwrap().failure().is_none());
        }
    }

    #[test]
    fn a_file_that_is_shorter_than_it_was_is_an_error_and_no_panic() {
        let bytes = numbered(100);
        let mut source = from_file(&bytes, 3 * WINDOW);
        assert_eq!(source.copy_to_bytes(100).len(), 100);
        source.advance(3 * WINDOW - 100);
        assert!(!source.has_remaining());
        let failure = source.finish().backing().unwrap().failure();
        assert_eq!(failure.unwrap().kind(), std::io::ErrorKind::UnexpectedEof);
    }
}
