//! The operands of benches.

use std::ops::{Deref, DerefMut};

use kiln_tensor::Buffer;

/// A buffer like those of tensors and packed weights: at a cache line, large ones in huge pages.
pub(crate) struct Floats {
    buffer: Buffer,
    /// Requested elements: the buffer is whole cache lines long.
    count: usize,
}

impl Floats {
    /// Zeros.
    pub(crate) fn zeros(count: usize) -> Floats {
        Floats { buffer: Buffer::zeroed(count * 4).expect("there is memory for a bench"), count }
    }

    /// Numbers of ordinary size.
    pub(crate) fn numbers(count: usize) -> Floats {
        let mut floats = Floats::zeros(count);
        let each = |(i, to): (usize, &mut f32)| *to = ((i * 2_654_435_761) >> 20 & 255) as f32 / 256.0 - 0.5;
        floats.iter_mut().enumerate().for_each(each);
        floats
    }

    /// This buffer and copies of it, `count` in all.
    #[allow(dead_code, reason = "not every bench measures what no cache holds")]
    pub(crate) fn copies(self, count: usize) -> Vec<Floats> {
        let copy = |_| {
            let mut copy = Floats::zeros(self.count);
            copy.copy_from_slice(&self);
            copy
        };
        let mut all: Vec<Floats> = (1..count).map(copy).collect();
        all.push(self);
        all
    }
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &bytemuck::cast_slice(self.buffer.bytes())[..self.count]
    }
}

impl DerefMut for Floats {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(self.buffer.bytes_mut())[..self.count]
    }
}
