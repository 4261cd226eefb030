//! Numbers in tensors of any type: lengths, depths and bounds that rules read out of inputs.

use half::{bf16, f16};
use kiln_tensor::{DType, Tensor};

use super::error::{Open, ShapeError};

/// A number of any element type, without loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// An integer.
    Integer(i128),
    /// A float.
    Float(f64),
}

impl Number {
    /// The single number in a tensor of any rank.
    ///
    /// # Errors
    ///
    /// Tensors of several elements or of types that are not numeric, and elements that are not there yet.
    pub(crate) fn of(input: usize, tensor: &Tensor) -> Result<Number, Open> {
        let count = tensor.len();
        if count != 1 {
            return Err(ShapeError::Lists(format!("input {input} must be one number, found {count}")).into());
        }
        macro_rules! read {
            ($($dtype:ident: $rust:ty => $number:expr;)*) => {
                match tensor.dtype() {
                    $(DType::$dtype => {
                        let values = tensor.as_slice::<$rust>().map_err(|_| Open::Unknown)?;
                        values.first().map(|&value| $number(value)).ok_or(Open::Unknown)
                    })*
                    found => Err(ShapeError::NotNumber { input, found }.into()),
                }
            };
        }
        read! {
            I8: i8 => |value: i8| Number::Integer(value.into());
            I16: i16 => |value: i16| Number::Integer(value.into());
            I32: i32 => |value: i32| Number::Integer(value.into());
            I64: i64 => |value: i64| Number::Integer(value.into());
            U8: u8 => |value: u8| Number::Integer(value.into());
            U16: u16 => |value: u16| Number::Integer(value.into());
            U32: u32 => |value: u32| Number::Integer(value.into());
            U64: u64 => |value: u64| Number::Integer(value.into());
            F16: f16 => |value: f16| Number::Float(value.to_f64());
            BF16: bf16 => |value: bf16| Number::Float(value.to_f64());
            F32: f32 => |value: f32| Number::Float(value.into());
            F64: f64 => Number::Float;
        }
    }

    /// The number as a size: floats are truncated towards zero, and numbers beyond `i64` become the nearest `i64`.
    pub(crate) fn size(self) -> i64 {
        match self {
            Number::Integer(value) => value.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            Number::Float(value) => value as i64,
        }
    }
}

/// The number of steps of `delta` from `start` to `limit`, excluding `limit`; `None` where `delta` is 0, or the count
/// of floats is NaN or above 2^53. Larger counts of integers become [`i64::MAX`].
pub(super) fn count(start: Number, limit: Number, delta: Number) -> Option<i64> {
    match (start, limit, delta) {
        (Number::Integer(start), Number::Integer(limit), Number::Integer(delta)) => {
            // No difference of two 64-bit numbers overflows here.
            let (distance, step) = if delta < 0 { (start - limit, -delta) } else { (limit - start, delta) };
            match step {
                0 => None,
                _ if distance <= 0 => Some(0),
                _ => Some(i64::try_from((distance + step - 1) / step).unwrap_or(i64::MAX)),
            }
        }
        (Number::Float(start), Number::Float(limit), Number::Float(delta)) => {
            let count = ((limit - start) / delta).ceil();
            // 2^53: beyond it neighbouring counts are not distinct any more. A negative count saturates to none.
            let counts = delta != 0.0 && !count.is_nan() && count <= 9_007_199_254_740_992.0;
            counts.then_some(count.max(0.0) as i64)
        }
        _ => None,
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Integer(value) => value.fmt(f),
            Number::Float(value) => value.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_of_any_type_is_read() {
        let read = |tensor: Tensor| Number::of(2, &tensor);
        assert_eq!(read(Tensor::scalar(-3i8)), Ok(Number::Integer(-3)));
        assert_eq!(read(Tensor::scalar(u64::MAX)).map(Number::size), Ok(i64::MAX));
        assert_eq!(read(Tensor::scalar(bf16::from_f32(2.5))), Ok(Number::Float(2.5)));
        assert_eq!(Number::Float(-2.9).size(), -2);
        let refusal = |tensor: Tensor| read(tensor).map_err(|open| ShapeError::from(open).to_string());
        let several = Tensor::from_slice([2], &[0i64, 1]).expect("a list");
        assert_eq!(refusal(several), Err("input 2 must be one number, found 2".to_owned()));
        let boolean = Tensor::scalar(kiln_tensor::BoolByte::from(true));
        assert_eq!(refusal(boolean), Err("input 2 is of type bool, expected a number".to_owned()));
    }

    #[test]
    fn contents_that_are_not_there_yet_are_unknown() {
        let hollow = Tensor::hollow(kiln_tensor::TensorSpec::new(DType::F32, []));
        assert_eq!(Number::of(0, &hollow), Err(Open::Unknown));
    }
}
