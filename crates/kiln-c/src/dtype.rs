//! Element types: ONNX's numbers and Kiln's types.

use kiln::DType;

use crate::error::{Error, KilnCode, Result, invalid};

/// The model declares no element type.
pub const KILN_UNDECLARED: i32 = 0;
/// Floats of 32 bits. The numbers of element types are ONNX's.
pub const KILN_FLOAT32: i32 = 1;
/// Unsigned integers of 8 bits.
pub const KILN_UINT8: i32 = 2;
/// Signed integers of 8 bits.
pub const KILN_INT8: i32 = 3;
/// Unsigned integers of 16 bits.
pub const KILN_UINT16: i32 = 4;
/// Signed integers of 16 bits.
pub const KILN_INT16: i32 = 5;
/// Signed integers of 32 bits.
pub const KILN_INT32: i32 = 6;
/// Signed integers of 64 bits.
pub const KILN_INT64: i32 = 7;
/// Strings. Runs of this interface neither read nor write them.
pub const KILN_STRING: i32 = 8;
/// Booleans of one byte: 0 is false, any other value is true.
pub const KILN_BOOL: i32 = 9;
/// Floats of 16 bits: 5 of exponent, 10 of mantissa.
pub const KILN_FLOAT16: i32 = 10;
/// Floats of 64 bits.
pub const KILN_FLOAT64: i32 = 11;
/// Unsigned integers of 32 bits.
pub const KILN_UINT32: i32 = 12;
/// Unsigned integers of 64 bits.
pub const KILN_UINT64: i32 = 13;
/// Floats of 16 bits: 8 of exponent, 7 of mantissa.
pub const KILN_BFLOAT16: i32 = 16;
/// Floats of 8 bits: 4 of exponent, 3 of mantissa, no infinities.
pub const KILN_FLOAT8E4M3FN: i32 = 17;
/// The same without a negative zero.
pub const KILN_FLOAT8E4M3FNUZ: i32 = 18;
/// Floats of 8 bits: 5 of exponent, 2 of mantissa.
pub const KILN_FLOAT8E5M2: i32 = 19;
/// The same without infinities and a negative zero.
pub const KILN_FLOAT8E5M2FNUZ: i32 = 20;
/// Unsigned integers of 4 bits. Runs of this interface neither read nor write elements of less than a byte.
pub const KILN_UINT4: i32 = 21;
/// Signed integers of 4 bits.
pub const KILN_INT4: i32 = 22;
/// Floats of 4 bits.
pub const KILN_FLOAT4E2M1: i32 = 23;
/// Powers of two, of 8 bits.
pub const KILN_FLOAT8E8M0: i32 = 24;
/// Unsigned integers of 2 bits.
pub const KILN_UINT2: i32 = 25;
/// Signed integers of 2 bits.
pub const KILN_INT2: i32 = 26;

const NUMBERS: [(i32, DType); 24] = [
    (KILN_FLOAT32, DType::F32),
    (KILN_UINT8, DType::U8),
    (KILN_INT8, DType::I8),
    (KILN_UINT16, DType::U16),
    (KILN_INT16, DType::I16),
    (KILN_INT32, DType::I32),
    (KILN_INT64, DType::I64),
    (KILN_STRING, DType::String),
    (KILN_BOOL, DType::Bool),
    (KILN_FLOAT16, DType::F16),
    (KILN_FLOAT64, DType::F64),
    (KILN_UINT32, DType::U32),
    (KILN_UINT64, DType::U64),
    (KILN_BFLOAT16, DType::BF16),
    (KILN_FLOAT8E4M3FN, DType::F8E4M3),
    (KILN_FLOAT8E4M3FNUZ, DType::F8E4M3Fnuz),
    (KILN_FLOAT8E5M2, DType::F8E5M2),
    (KILN_FLOAT8E5M2FNUZ, DType::F8E5M2Fnuz),
    (KILN_UINT4, DType::U4),
    (KILN_INT4, DType::I4),
    (KILN_FLOAT4E2M1, DType::F4E2M1),
    (KILN_FLOAT8E8M0, DType::F8E8M0),
    (KILN_UINT2, DType::U2),
    (KILN_INT2, DType::I2),
];

/// C's number of a type; [`KILN_UNDECLARED`] for none.
pub(crate) fn number(dtype: Option<DType>) -> i32 {
    NUMBERS.iter().find(|(_, known)| Some(*known) == dtype).map_or(KILN_UNDECLARED, |&(number, _)| number)
}

/// The type that a number stands for; `what` names the argument.
///
/// # Errors
///
/// For numbers without a type, and as [`expect_numbers`].
pub(crate) fn of_number(number: i32, what: &str) -> Result<DType> {
    let known = NUMBERS.iter().find(|(known, _)| *known == number).map(|&(_, dtype)| dtype);
    let dtype = known.ok_or_else(|| invalid!("{what}: there is no element type {number}"))?;
    expect_numbers(dtype, what).map(|()| dtype)
}

/// Fails for texts and for elements of less than a byte.
pub(crate) fn expect_numbers(dtype: DType, what: &str) -> Result<()> {
    if dtype == DType::String || dtype.packed_bits() < 8 {
        let reason = format!("{what} is of {}: kiln.h takes and gives numbers of whole bytes alone", dtype.name());
        return Err(Error::new(KilnCode::Unsupported, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_onnx() {
        for (known, dtype) in NUMBERS {
            assert_eq!(number(Some(dtype)), known);
            assert_eq!(DType::of_onnx(known.into()), Some(dtype));
        }
        assert_eq!(number(None), KILN_UNDECLARED);
    }

    #[test]
    fn what_has_no_numbers_of_whole_bytes_is_refused_by_name() {
        for unknown in [0, 14, 15, 27, -1, i32::MAX] {
            let error = of_number(unknown, "input 'x'").unwrap_err();
            assert_eq!(error.message, format!("input 'x': there is no element type {unknown}"));
        }
        for refused in [KILN_STRING, KILN_UINT4, KILN_INT2, KILN_FLOAT4E2M1] {
            assert_eq!(of_number(refused, "input 'x'").unwrap_err().code, KilnCode::Unsupported);
        }
        assert_eq!(of_number(KILN_FLOAT8E8M0, "x"), Ok(DType::F8E8M0));
    }
}
