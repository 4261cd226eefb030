//! Element types: C's numbers and Kiln's types, and elements of less than a byte.

use std::ffi::c_int;

use kiln::DType;

use crate::error::{Code, Error, Result, failed};

/// Kiln's types by C's numbers. From 21 on, ONNX's own numbers differ.
const NUMBERS: [(c_int, DType); 24] = [
    (1, DType::F32),
    (2, DType::U8),
    (3, DType::I8),
    (4, DType::U16),
    (5, DType::I16),
    (6, DType::I32),
    (7, DType::I64),
    (8, DType::String),
    (9, DType::Bool),
    (10, DType::F16),
    (11, DType::F64),
    (12, DType::U32),
    (13, DType::U64),
    (16, DType::BF16),
    (17, DType::F8E4M3),
    (18, DType::F8E4M3Fnuz),
    (19, DType::F8E5M2),
    (20, DType::F8E5M2Fnuz),
    (21, DType::U4),
    (22, DType::I4),
    (23, DType::F4E2M1),
    (24, DType::U2),
    (25, DType::I2),
    (26, DType::F8E8M0),
];

/// C's number of a type; 0 where no type is declared.
pub(crate) fn number(dtype: Option<DType>) -> c_int {
    NUMBERS.iter().find(|(_, known)| Some(*known) == dtype).map_or(0, |&(number, _)| number)
}

/// The type with that number in C.
///
/// # Errors
///
/// For numbers that C's header does not have, for the number of no type, and for complex types.
pub(crate) fn of_number(number: c_int) -> Result<DType> {
    let known = NUMBERS.iter().find(|(known, _)| *known == number).map(|&(_, dtype)| dtype);
    known.ok_or_else(|| {
        Error::new(Code::NotImplemented, format!("tensor type {number} is not supported: element type {number}"))
    })
}

/// onnxruntime's text of a tensor type, as in its errors.
pub(crate) fn text(dtype: DType) -> String {
    let name = match dtype {
        DType::F32 => "float",
        DType::F64 => "double",
        other => other.name(),
    };
    format!("tensor({name})")
}

/// Bytes that `count` elements take in C, where elements of less than a byte share bytes.
pub(crate) fn bytes_in_c(dtype: DType, count: usize) -> Result<usize> {
    let bits = count.checked_mul(dtype.packed_bits()).filter(|bits| *bits <= isize::MAX as usize);
    bits.map(|bits| bits.div_ceil(8)).ok_or_else(|| failed!("Integer overflow: {count} elements of {}", dtype.name()))
}

/// Whether C packs elements of this type into shared bytes, where Kiln has a byte for each.
pub(crate) fn is_packed(dtype: DType) -> bool {
    dtype != DType::String && dtype.packed_bits() < 8
}

/// A byte for each of `count` elements that C has packed, the first in the lowest bits; signed elements are
/// sign-extended.
pub(crate) fn unpacked(dtype: DType, count: usize, packed: &[u8]) -> Vec<u8> {
    let bits = dtype.packed_bits();
    let a_byte = 8 / bits;
    let signed = matches!(dtype, DType::I4 | DType::I2);
    (0..count)
        .map(|at| {
            let high = packed[at / a_byte] << (8 - bits - bits * (at % a_byte));
            if signed { ((high as i8) >> (8 - bits)) as u8 } else { high >> (8 - bits) }
        })
        .collect()
}

/// C's form of elements that have a byte each.
pub(crate) fn packed(dtype: DType, elements: &[u8]) -> Vec<u8> {
    let bits = dtype.packed_bits();
    let mask = (1u8 << bits) - 1;
    elements
        .chunks(8 / bits)
        .map(|chunk| chunk.iter().enumerate().fold(0, |byte, (at, value)| byte | (value & mask) << (bits * at)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_header() {
        for (known, dtype) in NUMBERS {
            assert_eq!(number(Some(dtype)), known);
            assert_eq!(of_number(known).unwrap(), dtype);
        }
        for unknown in [0, 14, 15, 27, 99, -1, c_int::MAX] {
            let error = of_number(unknown).unwrap_err();
            assert!(error.message.starts_with(&format!("tensor type {unknown} is not supported")), "{error}");
        }
        assert_eq!(number(None), 0);
    }

    #[test]
    fn small_elements_are_packed_from_the_lowest_bits_on() {
        assert_eq!(unpacked(DType::U4, 3, &[0x21, 0x0f]), [1, 2, 15]);
        assert_eq!(unpacked(DType::I4, 3, &[0x2f, 0x08]), [255, 2, 248]);
        assert_eq!(unpacked(DType::I2, 5, &[0b1110_0100, 3]), [0, 1, 254, 255, 255]);
        for dtype in [DType::U4, DType::I4, DType::U2, DType::I2, DType::F4E2M1] {
            let bytes: Vec<u8> = vec![0x1b, 0xe4, 0x5a];
            let count = 3 * 8 / dtype.packed_bits();
            assert_eq!(packed(dtype, &unpacked(dtype, count, &bytes)), bytes);
            assert_eq!(bytes_in_c(dtype, count - 1).unwrap(), 3);
        }
        assert_eq!(bytes_in_c(DType::F32, 3).unwrap(), 12);
        assert!(bytes_in_c(DType::F64, usize::MAX / 32).is_err());
    }
}
