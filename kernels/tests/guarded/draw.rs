//! Choices drawn from bytes, one after another; when the bytes have run out, every choice is the first one.

/// The source of choices.
#[derive(Debug)]
pub(crate) struct Draw<'a> {
    bytes: &'a [u8],
    /// The largest size; where instructions are interpreted, small sizes are enough.
    most: usize,
}

impl<'a> Draw<'a> {
    pub(crate) fn new(bytes: &'a [u8], most: usize) -> Draw<'a> {
        Draw { bytes, most }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    /// A number below `count`, which is at most 256.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count.max(1)
    }

    /// From 1 to `most`.
    pub(crate) fn size(&mut self, most: usize) -> usize {
        1 + self.below(most.min(self.most))
    }

    /// From 1 to `most`, drawn from two bytes; where instructions are interpreted, as [`Draw::size`].
    pub(crate) fn wide(&mut self, most: usize) -> usize {
        let number = usize::from(self.byte()) << 8 | usize::from(self.byte());
        1 + number % most.min(if self.is_interpreted() { self.most } else { most }).max(1)
    }

    /// From 1 to `usual` mostly, and one time in four to `most`: operands that are cut into blocks have to be longer
    /// than a block.
    pub(crate) fn reach(&mut self, usual: usize, most: usize) -> usize {
        if self.below(4) == 3 { self.wide(most) } else { self.size(usual) }
    }

    /// Most elements of a problem: natively, a few problems have more than the caches near a core hold.
    pub(crate) fn room(&mut self) -> usize {
        match self.below(64) {
            63 if !self.is_interpreted() => 1 << 22,
            _ => 1 << 16,
        }
    }

    /// Whether instructions are interpreted, so that problems have to be small.
    pub(crate) fn is_interpreted(&self) -> bool {
        self.most < 256
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Bits that look random, the same for the same byte.
    fn bits(&mut self) -> impl FnMut() -> u32 + use<> {
        let mut state = u64::from(self.byte()).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u32
        }
    }

    /// Whole numbers from -4 to 4: sums of their products are exact, so that results can be compared bit by bit.
    pub(crate) fn integers(&mut self, count: usize) -> Vec<f32> {
        let mut bits = self.bits();
        (0..count).map(|_| (bits() % 9) as f32 - 4.0).collect()
    }

    /// Numbers from -1 to 1.
    pub(crate) fn floats(&mut self, count: usize) -> Vec<f32> {
        let mut bits = self.bits();
        (0..count).map(|_| (bits() >> 8) as f32 / (1 << 23) as f32 - 1.0).collect()
    }

    /// Bytes; every fourth is an extreme.
    pub(crate) fn raw(&mut self, count: usize) -> Vec<u8> {
        let mut bits = self.bits();
        let mut next = || {
            let bits = bits();
            if bits.is_multiple_of(4) { [0, 255, 128, 127][(bits >> 8) as usize % 4] } else { (bits >> 8) as u8 }
        };
        (0..count).map(|_| next()).collect()
    }
}
