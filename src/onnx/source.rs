//! The bytes of a model, front to back: from a file, a window at a time, or from memory.
//!
//! A model is a few kilobytes of structure around megabytes of weights. Reading the file whole and copying each tensor
//! out of it would take twice the memory, and touching fresh memory is most of what loading costs. So what is large is
//! read from the file straight into the memory that its tensor will keep; the [`Inline`] memory remembers which bytes
//! those are.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::tensor::{Buffer, Tensor, TensorSpec};

/// Bytes of a file that are read at a time.
const WINDOW: usize = 64 << 10;

/// Bytes from which memory of its own is worth having: a page.
const LARGE: usize = 4096;

/// Bytes that a decoder takes from the front.
///
/// A decoder knows no reading errors. After one it gets zeros, which no message ends in, and whoever made the source
/// asks for [`Source::finish`].
pub(super) struct Source {
    file: Option<File>,
    window: Bytes,
    /// Bytes of the file behind the window.
    behind: usize,
    failed: Option<std::io::Error>,
    inline: Inline,
}

/// Memory that large fields were read into, by its address.
#[derive(Debug, Default)]
pub(super) struct Inline {
    buffers: HashMap<usize, Arc<Buffer>>,
}

impl Inline {
    /// The tensor whose bytes are that field, if the field has memory of its own.
    pub(super) fn tensor(&mut self, spec: &TensorSpec, field: &Bytes) -> Option<Tensor> {
        let buffer = self.buffers.remove(&(field.as_ptr() as usize))?;
        Tensor::from_buffer(spec.clone(), buffer, field.len()).ok()
    }
}

/// The bytes of a field in memory that a tensor can take over.
struct Field {
    buffer: Arc<Buffer>,
    length: usize,
}

impl AsRef<[u8]> for Field {
    fn as_ref(&self) -> &[u8] {
        &self.buffer.bytes()[..self.length]
    }
}

impl Source {
    /// Bytes that are in memory already.
    pub(super) fn memory(bytes: Bytes) -> Source {
        Source { file: None, window: bytes, behind: 0, failed: None, inline: Inline::default() }
    }

    /// The first `size` bytes of a file.
    pub(super) fn file(file: File, size: usize) -> Source {
        let mut source = Source { file: Some(file), behind: size, ..Source::memory(Bytes::new()) };
        source.refill();
        source
    }

    /// What was read, or why it could not be.
    pub(super) fn finish(self) -> std::io::Result<Inline> {
        self.failed.map_or(Ok(self.inline), Err)
    }

    /// Makes sure that there is something in the window, unless this is the end.
    fn refill(&mut self) {
        if self.window.is_empty() && self.behind > 0 {
            let mut window = BytesMut::zeroed(self.behind.min(WINDOW));
            self.read(&mut window);
            self.window = window.freeze();
        }
    }

    /// Reads the next bytes behind the window.
    fn read(&mut self, out: &mut [u8]) {
        self.behind -= out.len();
        if let (Some(file), None) = (&mut self.file, &self.failed) {
            self.failed = file.read_exact(out).err();
        }
    }
}

impl Buf for Source {
    fn remaining(&self) -> usize {
        self.window.len() + self.behind
    }

    fn chunk(&self) -> &[u8] {
        &self.window
    }

    fn advance(&mut self, mut count: usize) {
        while count > self.window.len() && self.behind > 0 {
            count -= self.window.len();
            self.window.clear();
            self.refill();
        }
        self.window.advance(count);
        self.refill();
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        assert!(length <= self.remaining(), "a decoder asks for {length} of {} bytes", self.remaining());
        let field = if length <= self.window.len() {
            self.window.split_to(length)
        } else if length < LARGE {
            let mut field = BytesMut::with_capacity(length);
            field.put((&mut *self).take(length));
            field.freeze()
        } else {
            let mut buffer = Buffer::zeroed(length);
            let have = self.window.len();
            let out = &mut buffer.bytes_mut()[..length];
            out[..have].copy_from_slice(&self.window);
            self.window.clear();
            self.read(&mut out[have..]);
            let buffer = Arc::new(buffer);
            self.inline.buffers.insert(buffer.bytes().as_ptr() as usize, Arc::clone(&buffer));
            Bytes::from_owner(Field { buffer, length })
        };
        self.refill();
        field
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::tensor::DType;

    fn numbered(length: usize) -> Vec<u8> {
        (0..length).map(|index| (index * 31 % 251) as u8).collect()
    }

    fn from_file(bytes: &[u8], size: usize) -> Source {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        Source::file(file.reopen().unwrap(), size)
    }

    #[test]
    fn a_file_gives_the_same_bytes_as_memory_in_whatever_pieces_they_are_taken() {
        let bytes = numbered(5 * WINDOW + 17);
        for pieces in [vec![1, 7, WINDOW, 3], vec![LARGE, 2 * WINDOW], vec![WINDOW - 1, 2, LARGE - 1]] {
            let (mut memory, mut file) = (Source::memory(Bytes::from(bytes.clone())), from_file(&bytes, bytes.len()));
            for (step, &piece) in pieces.iter().cycle().enumerate() {
                let piece = piece.min(memory.remaining());
                if step % 3 == 2 {
                    memory.advance(piece);
                    file.advance(piece);
                } else {
                    assert_eq!(memory.copy_to_bytes(piece), file.copy_to_bytes(piece));
                }
                assert_eq!(memory.remaining(), file.remaining());
                assert_eq!(file.chunk().is_empty(), !file.has_remaining(), "a chunk while there is more");
                if !memory.has_remaining() {
                    break;
                }
            }
            assert!(file.finish().is_ok());
        }
    }

    #[test]
    fn a_large_field_becomes_a_tensor_without_a_copy() {
        let bytes = numbered(3 * WINDOW);
        let mut source = from_file(&bytes, bytes.len());
        source.advance(5);
        let field = source.copy_to_bytes(2 * WINDOW);
        assert_eq!(field, bytes[5..][..2 * WINDOW]);
        let mut inline = source.finish().unwrap();
        let spec = TensorSpec::new(DType::F32, [WINDOW / 2]);
        let tensor = inline.tensor(&spec, &field).unwrap();
        assert_eq!(tensor.bytes().as_ptr(), field.as_ptr());
        assert!(inline.tensor(&spec, &field).is_none(), "its memory is given away once");
        assert!(inline.tensor(&spec, &Bytes::from_static(b"elsewhere")).is_none());
    }

    #[test]
    fn a_file_that_is_shorter_than_it_was_is_an_error_and_no_panic() {
        let bytes = numbered(100);
        let mut source = from_file(&bytes, 3 * WINDOW);
        assert_eq!(source.copy_to_bytes(2 * WINDOW).len(), 2 * WINDOW);
        source.advance(WINDOW);
        assert!(!source.has_remaining());
        assert_eq!(source.finish().unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    }
}
