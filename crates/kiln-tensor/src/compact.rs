//! Numbers in `f32`, `f16` or `bf16` that are kept as smaller stored elements: quantised weights, and weights in half
//! precision.
//!
//! A pass makes such tensors of constants ([`Tensor::compact`]). A reader of all elements gets numbers, made when it
//! first asks. Other readers ask for the form itself: packing takes a piece at a time ([`super::Pieces`]), and a
//! look-up of rows widens those rows.

use bytemuck::{cast_slice, cast_slice_mut};
use half::{bf16, f16};
use kiln_kernels::Isa;
use kiln_kernels::cpu::{halves, linear};

use super::grain::{Grain, Permuted, Place};
use super::{BoolByte, DType, Tensor, minifloat};

/// Factors, and the elements to which each applies.
#[derive(Clone, Debug, PartialEq)]
pub struct Factors {
    values: Vec<f32>,
    grain: Grain,
}

impl Factors {
    /// Factors for a tensor of `elements` elements; `None` if there are fewer numbers than the grain has places, or the
    /// grain's sizes are invalid.
    #[must_use]
    pub fn new(values: Vec<f32>, grain: Grain, elements: usize) -> Option<Factors> {
        let sizes = match grain {
            Grain::Whole => [1; 4],
            Grain::Axis { size, inner } => [size, inner, 1, 1],
            Grain::Blocks { size, inner, blocks, block } => [size, inner, blocks, block],
        };
        let product = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        if elements > 0 && product.is_none_or(|product| product == 0) {
            return None;
        }
        let most = elements.checked_sub(1).map_or(0, |last| match grain {
            Grain::Whole => 1,
            Grain::Axis { size, .. } => size,
            // Places grow with the elements.
            Grain::Blocks { .. } => grain.place(last) + 1,
        });
        (values.len() >= most).then_some(Factors { values, grain })
    }

    /// The same numbers for the tensor of `shape`, of `elements` elements, with its axes in the order `perm`; `None`
    /// where [`Grain::permuted`] has none.
    #[must_use]
    pub fn permuted(self, shape: &[usize], perm: &[usize], elements: usize) -> Option<Factors> {
        let Permuted { grain, order } = self.grain.permuted(shape, perm)?;
        let values = match order {
            None => self.values,
            Some(order) => order.iter().map(|&from| self.values.get(from).copied()).collect::<Option<_>>()?,
        };
        Factors::new(values, grain, elements)
    }

    /// The numbers.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The elements to which each factor applies.
    #[must_use]
    pub fn grain(&self) -> Grain {
        self.grain
    }
}

/// How numbers are made from stored elements: less a zero point, times a scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expansion {
    /// The zero points, which are subtracted.
    pub zero: Option<Factors>,
    /// The scales, by which the difference is multiplied.
    pub scale: Option<Factors>,
}

impl Expansion {
    /// Applies it to `values`, the elements of a tensor from number `first` on.
    pub fn apply(&self, first: usize, values: &mut [f32]) {
        let isa = Isa::detect();
        let range = first..first + values.len();
        if let Some(Factors { values: zeros, grain }) = &self.zero {
            grain.runs(range.clone(), |run, place| {
                let values = &mut values[run.start - first..run.end - first];
                match place {
                    Place::Shared(place) => linear::subtract(isa, values, zeros[place]),
                    Place::Own(place) => linear::subtract_each(isa, values, &zeros[place..]),
                }
            });
        }
        if let Some(Factors { values: scales, grain }) = &self.scale {
            grain.runs(range, |run, place| {
                let values = &mut values[run.start - first..run.end - first];
                match place {
                    Place::Shared(place) => linear::multiply(isa, values, scales[place]),
                    Place::Own(place) => linear::multiply_each(isa, values, &scales[place..]),
                }
            });
        }
    }
}

/// Numbers that are converted to a narrow type at a time: in `f32` they fit L1.
const PIECE: usize = 1 << 10;

/// Stored elements, and how numbers are made from them.
#[derive(Clone, Debug)]
pub struct Compact {
    /// The elements as they are stored, of a type that [`widens`].
    pub stored: Tensor,
    /// The zero points and scales.
    pub expansion: Expansion,
}

impl Compact {
    /// Writes the numbers from element `first` on.
    pub fn write(&self, first: usize, to: &mut [f32]) {
        let size = self.stored.dtype().size();
        self.write_from(&self.stored.bytes()[first * size..][..to.len() * size], first, to);
    }

    /// Writes all numbers as elements of the float type `dtype` over `to`, whose size is exact.
    pub(super) fn write_as(&self, dtype: DType, to: &mut [u8]) {
        match dtype {
            DType::F16 => self.write_narrow(cast_slice_mut(to), |from, to| halves::narrow(Isa::detect(), from, to)),
            DType::BF16 => self.write_narrow(cast_slice_mut(to), |from, to: &mut [bf16]| {
                to.iter_mut().zip(from).for_each(|(to, &from)| *to = bf16::from_f32(from));
            }),
            _ => self.write(0, cast_slice_mut(to)),
        }
    }

    /// Writes all numbers a piece at a time, each made narrow by `narrow`.
    fn write_narrow<T>(&self, to: &mut [T], narrow: impl Fn(&[f32], &mut [T])) {
        let mut numbers = [0f32; PIECE];
        for (piece, to) in to.chunks_mut(PIECE).enumerate() {
            let numbers = &mut numbers[..to.len()];
            self.write(piece * PIECE, numbers);
            narrow(numbers, to);
        }
    }

    /// As [`Compact::write`], where the stored elements from `first` on have been read.
    pub(super) fn write_from(&self, stored: &[u8], first: usize, to: &mut [f32]) {
        widen(self.stored.dtype(), stored, to);
        self.expansion.apply(first, to);
    }
}

/// Whether `f32` holds every number of that type.
#[must_use]
pub fn widens(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16 | DType::Bool | DType::I8 | DType::U8 | DType::I16 | DType::U16)
        || dtype.is_minifloat()
        || dtype.is_small_integer()
}

/// Elements of a type that [`widens`] as `f32`; of any other type none are written.
pub fn widen(dtype: DType, bytes: &[u8], to: &mut [f32]) {
    fn each<T: bytemuck::Pod>(bytes: &[u8], to: &mut [f32], number: impl Fn(T) -> f32) {
        to.iter_mut().zip(cast_slice::<u8, T>(bytes)).for_each(|(to, &from)| *to = number(from));
    }
    match dtype {
        DType::F16 => halves::widen(Isa::detect(), cast_slice::<u8, f16>(bytes), to),
        DType::BF16 => each(bytes, to, bf16::to_f32),
        DType::I8 | DType::I4 | DType::I2 => linear::widen(Isa::detect(), bytes, true, to),
        DType::U8 | DType::U4 | DType::U2 => linear::widen(Isa::detect(), bytes, false, to),
        DType::I16 => each(bytes, to, |value: i16| f32::from(value)),
        DType::U16 => each(bytes, to, |value: u16| f32::from(value)),
        DType::Bool => each(bytes, to, |value: BoolByte| f32::from(u8::from(value.get()))),
        small if small.is_minifloat() => {
            let numbers: [f32; 256] = std::array::from_fn(|bits| minifloat::decode(small, bits as u8));
            each(bytes, to, |bits: u8| numbers[usize::from(bits)]);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorSpec;

    #[test]
    fn every_stored_element_becomes_its_number() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut numbers = [0f32; 256];
        widen(DType::I8, &bytes, &mut numbers);
        assert!(numbers.iter().zip(&bytes).all(|(&number, &byte)| number == f32::from(byte as i8)));
        widen(DType::F8E5M2, &bytes, &mut numbers);
        let expected = bytes.iter().map(|&bits| minifloat::decode(DType::F8E5M2, bits));
        assert!(expected.zip(numbers).all(|(expected, number)| expected.to_bits() == number.to_bits()));
        let halves: Vec<u16> = (0..=u16::MAX).collect();
        let mut numbers = vec![0f32; halves.len()];
        for (dtype, number) in [
            (DType::F16, (|bits| f16::from_bits(bits).to_f32()) as fn(u16) -> f32),
            (DType::BF16, |bits| bf16::from_bits(bits).to_f32()),
            (DType::I16, |bits| f32::from(bits as i16)),
            (DType::U16, f32::from),
        ] {
            widen(dtype, cast_slice(&halves), &mut numbers);
            let differs = halves.iter().find(|&&bits| number(bits).to_bits() != numbers[usize::from(bits)].to_bits());
            assert_eq!(differs, None, "{dtype}");
        }
    }

    #[test]
    fn a_compact_tensor_has_the_numbers_that_follow_from_its_elements() {
        let stored: Vec<i8> = (0..60).map(|at| (at * 37 % 255) as i8).collect();
        let stored = Tensor::from_vec([3, 5, 4], stored).unwrap();
        let scales: Vec<f32> = (0..5).map(|at| 0.3 + at as f32).collect();
        let zero = Factors::new(vec![7.0], Grain::Whole, 60);
        let scale = Factors::new(scales.clone(), Grain::of(&[3, 5, 4], &[5], 1, 0).unwrap(), 60);
        let tensor = Tensor::compact(stored.clone(), Expansion { zero, scale }).unwrap();
        assert_eq!(tensor.spec(), &TensorSpec::new(DType::F32, [3, 5, 4]));
        let elements = stored.as_slice::<i8>().unwrap();
        let expected: Vec<f32> = (0..60).map(|at| (f32::from(elements[at]) - 7.0) * scales[at / 4 % 5]).collect();
        let (form, first) = tensor.compact_form().expect("nothing has read it");
        let mut rows = [0f32; 8];
        form.write(first + 20, &mut rows);
        assert_eq!(rows, expected[20..28]);
        let reshaped = tensor.reshaped([60]).unwrap();
        assert_eq!(reshaped.part(9, [2]).unwrap().unwrap().as_slice::<f32>().unwrap(), &expected[9..11]);
        assert_eq!(tensor.as_slice::<f32>().unwrap(), expected);
        assert!(tensor.compact_form().is_none(), "its numbers are there now");
    }

    #[test]
    fn numbers_in_half_precision_are_made_when_their_bits_are_read_and_not_on_the_way_to_float32() {
        let stored: Vec<u8> = (0..3000u32).map(|at| (at % 251) as u8).collect();
        let stored = Tensor::from_vec([3000], stored).unwrap();
        let expansion = || {
            let grain = Grain::of(&[3000], &[3], 0, 1000).unwrap();
            Expansion { zero: None, scale: Factors::new(vec![0.1, 3.0, 700.0], grain, 3000) }
        };
        let wide = Tensor::compact(stored.clone(), expansion()).unwrap();
        for dtype in [DType::F16, DType::BF16] {
            let narrow = Tensor::compact_as(dtype, stored.clone(), expansion()).unwrap();
            assert_eq!((narrow.dtype(), narrow.byte_len()), (dtype, 6000));
            assert!(narrow.compact_form().is_none(), "its numbers are not of f32");
            let again = narrow.reshaped([30, 100]).unwrap().in_f32().unwrap();
            assert_eq!(again.compact_form().expect("no number is made").0.stored.byte_len(), 3000);
            assert_eq!(again.as_slice::<f32>().unwrap(), wide.as_slice::<f32>().unwrap());
            let part = narrow.part(2999, [1]).unwrap().unwrap().in_f32().unwrap();
            let mut made = vec![0f32; 3000];
            widen(dtype, &narrow.bytes()[..6000], &mut made);
            assert_eq!(part.as_slice::<f32>().unwrap(), &made[2999..]);
            let rounded = wide.as_slice::<f32>().unwrap().iter().map(|&number| match dtype {
                DType::F16 => f16::from_f32(number).to_f32(),
                _ => bf16::from_f32(number).to_f32(),
            });
            assert!(rounded.eq(made), "{dtype}");
        }
        assert!(Tensor::compact_as(DType::F64, stored, expansion()).is_err());
    }

    #[test]
    fn too_few_factors_and_wide_elements_are_refused() {
        assert_eq!(Factors::new(vec![1.0; 4], Grain::Axis { size: 5, inner: 1 }, 10), None);
        assert_eq!(Factors::new(vec![], Grain::Whole, 1), None);
        assert!(Factors::new(vec![], Grain::Whole, 0).is_some());
        let blocks = Grain::of(&[2, 5], &[2, 3], 1, 2).unwrap();
        assert!(Factors::new(vec![1.0; 6], blocks, 10).is_some());
        assert_eq!(Factors::new(vec![1.0; 5], blocks, 10), None);
        let wide = Tensor::from_vec([1], vec![1i64]).unwrap();
        assert!(Tensor::compact(wide, Expansion::default()).is_err());
    }
}
