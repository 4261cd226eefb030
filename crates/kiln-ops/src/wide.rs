//! Widening and narrowing: any numeric element type computed in one of four.
//!
//! Plain operators would otherwise be compiled for thirteen element types each. Instead they compute in `f32`, `f64`,
//! `i64` or `u64`, in chunks that stay in L1: [`Wide::load`] widens a run of a tensor, and
//! [`Wide::store`] narrows a chunk. Nothing is lost by that: narrow floats are rounded once, as IEEE asks for sums,
//! products, quotients and roots, and integers wrap when they are narrowed exactly as they would have in their own
//! width. No operator is known here.

use std::borrow::Cow;

use half::{bf16, f16};
use kiln_kernels::memory::{raise_if_over, zeroed};
use kiln_run::NodeError;
use kiln_tensor::{BoolByte, DType, Element, Tensor, minifloat};

use super::{Run, refused};

/// Elements of a chunk: 2 KiB of the widest type, so that the few chunks of an operator fit L1.
pub(crate) const CHUNK: usize = 256;

/// One of the four types that are computed in.
pub(crate) trait Wide:
    Copy + Default + bytemuck::Zeroable + PartialEq + PartialOrd + Send + Sync + 'static
{
    /// Reads a run of elements of type `dtype`; `to` has the run's length.
    fn load(dtype: DType, bytes: &[u8], run: Run, to: &mut [Self]) -> Result<(), NodeError>;

    /// Writes elements as type `dtype` over `bytes`, which holds exactly as many.
    fn store(from: &[Self], dtype: DType, bytes: &mut [u8]) -> Result<(), NodeError>;
}

/// Which of the four types computes elements of a type without losing any of their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    F32,
    F64,
    I64,
    U64,
}

impl Width {
    /// Strings are no numbers and are refused.
    pub(crate) fn of(dtype: DType) -> Result<Width, NodeError> {
        Ok(match dtype {
            DType::F32 | DType::F16 | DType::BF16 => Width::F32,
            DType::F64 => Width::F64,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => Width::I64,
            DType::U8 | DType::U16 | DType::U32 | DType::Bool => Width::I64,
            DType::U64 => Width::U64,
            DType::I4 | DType::U4 | DType::I2 | DType::U2 => Width::I64,
            small if small.is_minifloat() => Width::F32,
            _ => return Err(not_a_number()),
        })
    }
}

fn not_a_number() -> NodeError {
    NodeError::Unsupported("strings where numbers are needed".to_owned())
}

/// `dispatch!(width, function::<_>(arguments))` calls the function for the type of that width.
macro_rules! dispatch {
    ($width:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        match $width {
            $crate::wide::Width::F32 => $function::<f32>($($argument),*),
            $crate::wide::Width::F64 => $function::<f64>($($argument),*),
            $crate::wide::Width::I64 => $function::<i64>($($argument),*),
            $crate::wide::Width::U64 => $function::<u64>($($argument),*),
        }
    };
}
pub(crate) use dispatch;

macro_rules! wide {
    ($($wide:ident: $half:expr, $bfloat:expr;)*) => {$(
        impl Wide for $wide {
            fn load(dtype: DType, bytes: &[u8], run: Run, to: &mut [Self]) -> Result<(), NodeError> {
                use bytemuck::cast_slice as cast;
                match dtype {
                    DType::F32 => run.map(cast(bytes), to, |v: f32| v as $wide),
                    DType::F64 => run.map(cast(bytes), to, |v: f64| v as $wide),
                    DType::F16 => run.map(cast(bytes), to, |v: f16| v.to_f32() as $wide),
                    DType::BF16 => run.map(cast(bytes), to, |v: bf16| v.to_f32() as $wide),
                    DType::I8 => run.map(cast(bytes), to, |v: i8| v as $wide),
                    DType::I16 => run.map(cast(bytes), to, |v: i16| v as $wide),
                    DType::I32 => run.map(cast(bytes), to, |v: i32| v as $wide),
                    DType::I64 => run.map(cast(bytes), to, |v: i64| v as $wide),
                    DType::U8 => run.map(cast(bytes), to, |v: u8| v as $wide),
                    DType::U16 => run.map(cast(bytes), to, |v: u16| v as $wide),
                    DType::U32 => run.map(cast(bytes), to, |v: u32| v as $wide),
                    DType::U64 => run.map(cast(bytes), to, |v: u64| v as $wide),
                    DType::Bool => run.map(cast(bytes), to, |v: BoolByte| u8::from(v.get()) as $wide),
                    DType::I4 | DType::I2 => run.map(cast(bytes), to, |v: i8| v as $wide),
                    DType::U4 | DType::U2 => run.map(bytes, to, |v: u8| v as $wide),
                    small if small.is_minifloat() => run.map(bytes, to, |v: u8| minifloat::decode(small, v) as $wide),
                    _ => return Err(not_a_number()),
                }
                Ok(())
            }

            fn store(from: &[Self], dtype: DType, bytes: &mut [u8]) -> Result<(), NodeError> {
                match dtype {
                    DType::F32 => each(from, bytes, |v| v as f32),
                    DType::F64 => each(from, bytes, |v| v as f64),
                    DType::F16 => each(from, bytes, $half),
                    DType::BF16 => each(from, bytes, $bfloat),
                    DType::I8 => each(from, bytes, |v| v as i8),
                    DType::I16 => each(from, bytes, |v| v as i16),
                    DType::I32 => each(from, bytes, |v| v as i32),
                    DType::I64 => each(from, bytes, |v| v as i64),
                    DType::U8 => each(from, bytes, |v| v as u8),
                    DType::U16 => each(from, bytes, |v| v as u16),
                    DType::U32 => each(from, bytes, |v| v as u32),
                    DType::U64 => each(from, bytes, |v| v as u64),
                    DType::Bool => each(from, bytes, |v| BoolByte::from(v != $wide::default())),
                    // Whole numbers are cut to their low bits, those of floats too: the bits above are those of the
                    // sign, or are dropped.
                    DType::I4 => each(from, bytes, |v| (v as i64 as i8) << 4 >> 4),
                    DType::I2 => each(from, bytes, |v| (v as i64 as i8) << 6 >> 6),
                    DType::U4 => each(from, bytes, |v| (v as i64 as u8) & 15),
                    DType::U2 => each(from, bytes, |v| (v as i64 as u8) & 3),
                    small if small.is_minifloat() => each(from, bytes, |v| minifloat::encode(small, v as f32, true)),
                    _ => return Err(not_a_number()),
                }
                Ok(())
            }
        }
    )*};
}

wide! {
    f32: f16::from_f32, bf16::from_f32;
    f64: f16::from_f64, bf16::from_f64;
    i64: |v| f16::from_f64(v as f64), |v| bf16::from_f64(v as f64);
    u64: |v| f16::from_f64(v as f64), |v| bf16::from_f64(v as f64);
}

fn each<W: Copy, T: bytemuck::Pod>(from: &[W], bytes: &mut [u8], convert: impl Fn(W) -> T) {
    let to: &mut [T] = bytemuck::cast_slice_mut(bytes);
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = convert(from));
}

/// The least and greatest value of an integer type.
pub(crate) fn limits(dtype: DType) -> Option<(i64, u64)> {
    Some(match dtype {
        DType::I2 => (-2, 1),
        DType::I4 => (-8, 7),
        DType::I8 => (i8::MIN.into(), i8::MAX as u64),
        DType::I16 => (i16::MIN.into(), i16::MAX as u64),
        DType::I32 => (i32::MIN.into(), i32::MAX as u64),
        DType::I64 => (i64::MIN, i64::MAX as u64),
        DType::U2 => (0, 3),
        DType::U4 => (0, 15),
        DType::U8 => (0, u8::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        DType::U64 => (0, u64::MAX),
        _ => return None,
    })
}

/// Elements that are widened or narrowed between two checks whether the request is over.
const PIECE: usize = 1 << 18;

/// As [`Wide::load`] for a run of any length. Raises [`Refused::Over`](kiln_kernels::memory::Refused::Over) where the
/// request is over before it is read.
pub(crate) fn load_long<W: Wide>(tensor: &Tensor, run: Run, to: &mut [W]) -> Result<(), NodeError> {
    for (number, piece) in to.chunks_mut(PIECE).enumerate() {
        if number > 0 {
            raise_if_over(tensor.len() * size_of::<W>());
        }
        let run = Run { start: run.at(number * PIECE), count: piece.len(), stride: run.stride };
        W::load(tensor.dtype(), tensor.bytes(), run, piece)?;
    }
    Ok(())
}

/// A whole tensor widened. Raises [`Refused`](kiln_kernels::memory::Refused) where there is no memory for it, or the
/// request is over.
pub(crate) fn widened<W: Wide>(tensor: &Tensor) -> Result<Vec<W>, NodeError> {
    let mut values = zeroed(tensor.len());
    load_long(tensor, Run { start: 0, count: values.len(), stride: 1 }, &mut values)?;
    Ok(values)
}

/// The elements of a tensor: borrowed where they are of the type itself, else widened.
pub(crate) fn lent<W: Wide + Element>(tensor: &Tensor) -> Result<Cow<'_, [W]>, NodeError> {
    Ok(match tensor.as_slice::<W>() {
        Ok(elements) => Cow::Borrowed(elements),
        Err(_) => Cow::Owned(widened(tensor)?),
    })
}

/// A whole tensor whose elements `fill` writes: in place if the tensor is of the type itself, else narrowed afterwards.
pub(crate) fn filled<W: Wide + Element>(
    mut to: Tensor,
    fill: impl FnOnce(&mut [W]) -> Result<(), NodeError>,
) -> Result<Tensor, NodeError> {
    if to.dtype() == W::DTYPE {
        fill(to.as_mut_slice()?)?;
        return Ok(to);
    }
    let mut values = zeroed(to.len());
    fill(&mut values)?;
    narrow(&values, to)
}

/// A whole tensor narrowed from as many elements.
pub(crate) fn narrow<W: Wide>(values: &[W], mut to: Tensor) -> Result<Tensor, NodeError> {
    if values.len() != to.len() {
        return Err(refused(format!("{} elements for shape {:?}", values.len(), to.shape())));
    }
    let (dtype, width) = (to.dtype(), to.dtype().size());
    let bytes = to.bytes_mut();
    for (number, piece) in values.chunks(PIECE).enumerate() {
        if number > 0 {
            raise_if_over(values.len() * width);
        }
        W::store(piece, dtype, &mut bytes[number * PIECE * width..][..piece.len() * width])?;
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrowed<W: Wide>(values: &[W], dtype: DType) -> Tensor {
        let mut tensor = Tensor::zeros(kiln_tensor::TensorSpec::new(dtype, [values.len()])).unwrap();
        W::store(values, dtype, tensor.bytes_mut()).unwrap();
        tensor
    }

    #[test]
    fn every_narrow_value_survives_widening_and_narrowing() {
        let bytes: Vec<i8> = (i8::MIN..=i8::MAX).collect();
        let tensor = Tensor::from_slice([256], &bytes).unwrap();
        assert_eq!(narrowed(&widened::<i64>(&tensor).unwrap(), DType::I8).as_slice::<i8>().unwrap(), bytes);
        let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).filter(|v| !v.is_nan()).collect();
        let tensor = Tensor::from_slice([halves.len()], &halves).unwrap();
        assert!(narrowed(&widened::<f32>(&tensor).unwrap(), DType::F16).same(&tensor));
        assert!(narrowed(&widened::<f64>(&tensor).unwrap(), DType::F16).same(&tensor));
    }

    #[test]
    fn integers_wrap_and_floats_saturate() {
        assert_eq!(narrowed(&[300i64, -1], DType::U8).as_slice::<u8>().unwrap(), [44, 255]);
        assert_eq!(narrowed(&[300f32, -1.0, f32::NAN], DType::U8).as_slice::<u8>().unwrap(), [255, 0, 0]);
        assert_eq!(narrowed(&[0.5f64, 0.0], DType::Bool).bytes(), [1, 0]);
    }
}
