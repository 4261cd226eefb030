//! Packed weights as drivers read them and packing writes them, with the type of their elements.
//!
//! The layout decides how elements follow each other: [`Panels`](super::gemm::Panels) of a product,
//! [`WeightLayout`](super::conv::WeightLayout) of a convolution, [`Layout`](super::quantized::Layout) of a quantised
//! one. Sizes of layouts count 32-bit words: an element of `f32`, a bf16 pair, two elements of `f16`, or two or four
//! integers.

/// The type of an element of packed weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackedElement {
    /// `f32`.
    F32,
    /// The bits of `bf16`.
    Bf16,
    /// The bits of `f16`.
    F16,
    /// Signed 16-bit integers.
    Int16,
    /// Signed bytes.
    Int8,
}

impl PackedElement {
    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            PackedElement::F32 => 4,
            PackedElement::Bf16 | PackedElement::F16 | PackedElement::Int16 => 2,
            PackedElement::Int8 => 1,
        }
    }
}

/// Weights that a kernel reads; for a product that packs its right-hand side itself, the matrix.
#[derive(Clone, Copy, Debug)]
pub enum PackedWeights<'a> {
    /// `f32`.
    F32(&'a [f32]),
    /// The bits of `bf16`, in pairs: two elements of the reduction follow each other in each column (VNNI layout).
    Bf16(&'a [u16]),
    /// The bits of `f16`, row after row.
    F16(&'a [u16]),
    /// Integers in pairs.
    Int16(&'a [i16]),
    /// Bytes in pairs, or four at a time.
    Int8(&'a [i8]),
}

impl<'a> PackedWeights<'a> {
    /// Weights of these elements in memory of 32-bit words.
    #[must_use]
    pub fn new(element: impl Into<PackedElement>, words: &'a [u32]) -> PackedWeights<'a> {
        match element.into() {
            PackedElement::F32 => PackedWeights::F32(bytemuck::cast_slice(words)),
            PackedElement::Bf16 => PackedWeights::Bf16(bytemuck::cast_slice(words)),
            PackedElement::F16 => PackedWeights::F16(bytemuck::cast_slice(words)),
            PackedElement::Int16 => PackedWeights::Int16(bytemuck::cast_slice(words)),
            PackedElement::Int8 => PackedWeights::Int8(bytemuck::cast_slice(words)),
        }
    }

    /// The type of their elements.
    #[must_use]
    pub fn element(&self) -> PackedElement {
        match self {
            PackedWeights::F32(_) => PackedElement::F32,
            PackedWeights::Bf16(_) => PackedElement::Bf16,
            PackedWeights::F16(_) => PackedElement::F16,
            PackedWeights::Int16(_) => PackedElement::Int16,
            PackedWeights::Int8(_) => PackedElement::Int8,
        }
    }

    /// Whole 32-bit words.
    #[must_use]
    pub fn words(&self) -> usize {
        self.bytes().len() / 4
    }

    /// Whether they are of the type of these elements.
    #[must_use]
    pub fn is_of(&self, element: impl Into<PackedElement>) -> bool {
        self.element() == element.into()
    }

    /// Their bytes in memory.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        match self {
            PackedWeights::F32(elements) => bytemuck::cast_slice(elements),
            PackedWeights::Bf16(elements) | PackedWeights::F16(elements) => bytemuck::cast_slice(elements),
            PackedWeights::Int16(elements) => bytemuck::cast_slice(elements),
            PackedWeights::Int8(elements) => bytemuck::cast_slice(elements),
        }
    }

    /// The address of a 32-bit word, for kernels that read on from there.
    pub(crate) fn at(&self, word: usize) -> *const u8 {
        self.bytes().as_ptr().wrapping_add(word * 4)
    }
}

impl<'a> From<&'a [f32]> for PackedWeights<'a> {
    fn from(elements: &'a [f32]) -> PackedWeights<'a> {
        PackedWeights::F32(elements)
    }
}

/// Packed weights, to be written.
#[derive(Debug)]
pub enum PackedWeightsMut<'a> {
    /// `f32`.
    F32(&'a mut [f32]),
    /// `bf16` in pairs.
    Bf16(&'a mut [u16]),
    /// `f16`, row after row.
    F16(&'a mut [u16]),
    /// 16-bit integers in pairs.
    Int16(&'a mut [i16]),
    /// Bytes, in pairs or four at a time.
    Int8(&'a mut [i8]),
}

impl<'a> PackedWeightsMut<'a> {
    /// Weights of these elements in memory of 32-bit words.
    #[must_use]
    pub fn new(element: impl Into<PackedElement>, words: &'a mut [u32]) -> PackedWeightsMut<'a> {
        match element.into() {
            PackedElement::F32 => PackedWeightsMut::F32(bytemuck::cast_slice_mut(words)),
            PackedElement::Bf16 => PackedWeightsMut::Bf16(bytemuck::cast_slice_mut(words)),
            PackedElement::F16 => PackedWeightsMut::F16(bytemuck::cast_slice_mut(words)),
            PackedElement::Int16 => PackedWeightsMut::Int16(bytemuck::cast_slice_mut(words)),
            PackedElement::Int8 => PackedWeightsMut::Int8(bytemuck::cast_slice_mut(words)),
        }
    }

    /// Whole 32-bit words.
    #[must_use]
    pub fn words(&self) -> usize {
        match self {
            PackedWeightsMut::F32(elements) => elements.len(),
            PackedWeightsMut::Bf16(elements) | PackedWeightsMut::F16(elements) => elements.len() / 2,
            PackedWeightsMut::Int16(elements) => elements.len() / 2,
            PackedWeightsMut::Int8(elements) => elements.len() / 4,
        }
    }
}

impl<'a> From<&'a mut [f32]> for PackedWeightsMut<'a> {
    fn from(elements: &'a mut [f32]) -> PackedWeightsMut<'a> {
        PackedWeightsMut::F32(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Elements;
    use crate::cpu::gemm::{Panels, Source};
    use crate::cpu::precision::from_bf16;

    #[test]
    fn a_word_holds_two_rows() {
        // Two columns of two rows. The bits of the second word are those of a signalling NaN, and stay what they are.
        let panels = Panels { rows: 1, columns: 2, width: 2 };
        let mut words = [0; 2];
        let room = PackedWeightsMut::new(Elements::Bf16, &mut words);
        assert_eq!(room.words(), 2);
        panels.pack_as(&Source::row_major(&[1.5, 1.0, -2.0, f32::INFINITY], 2, 2), 1.0, room).unwrap();
        assert!(f32::from_bits(words[1]).is_nan());
        let packed = PackedWeights::new(Elements::Bf16, &words);
        assert!(packed.is_of(Elements::Bf16Tiles) && !packed.is_of(Elements::F32));
        let PackedWeights::Bf16(elements) = packed else { panic!("{packed:?}") };
        let rows: Vec<f32> = elements.iter().copied().map(from_bf16).collect();
        assert_eq!(rows, [1.5, -2.0, 1.0, f32::INFINITY]);
    }

    #[test]
    fn weights_of_floats_are_the_floats() {
        let floats = [1.0f32, -2.0, 3.0];
        let packed = PackedWeights::new(Elements::F32, bytemuck::cast_slice(&floats));
        assert!(packed.is_of(Elements::F32) && !packed.is_of(Elements::Bf16));
        assert_eq!((packed.words(), packed.at(2)), (3, (&raw const floats[2]).cast()));
        assert!(matches!(packed, PackedWeights::F32(found) if found == floats));
    }
}
