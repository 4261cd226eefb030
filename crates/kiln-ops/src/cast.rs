//! Cast and CastLike between numbers, booleans and strings.
//!
//! Numbers go through the wide type that holds every value of the source, so each is rounded once. Integers wrap. ONNX
//! leaves the conversion of NaN and of floats outside of an integer type open; here it is ONNX Runtime's
//! ([`integer_of`]).

use std::sync::OnceLock;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use half::f16;
use kiln_kernels::Isa;
use kiln_kernels::cpu::{halves, truncate};
use kiln_kernels::memory::{Collect, Pace};
use kiln_kernels::parallel::{Parallel, for_each_chunk};
use kiln_model::NodeDesc;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::compact::{widen, widens};
use kiln_tensor::minifloat::{self, PowerRounding};
use kiln_tensor::{DType, Tensor};

use super::wide::{CHUNK, Wide, Width, dispatch, widened};
use super::{LoadCx, OpError, Operator, Run, named_type, refused};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] =
    &[("", "Cast", make), ("", "CastLike", make_like), ("kiln", "Widen", make_widen)];

/// The wanted type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Known(DType),
    /// The type of input 1.
    Like,
    /// `f32` for the half-precision types; every other type stays.
    Widened,
}

struct Cast {
    to: Target,
    small: Small,
}

/// How numbers become the smallest floats.
#[derive(Clone, Copy, Debug)]
struct Small {
    saturate: bool,
    powers: PowerRounding,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let to = Target::Known(named_type(cx.node, "to")?);
    Ok(Box::new(Cast { to, small: small(cx.node)? }))
}

fn make_like(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Cast { to: Target::Like, small: small(cx.node)? }))
}

/// The conversion before a softmax whose type the model leaves open.
fn make_widen(_: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Cast { to: Target::Widened, small: Small::UNUSED }))
}

fn small(node: &NodeDesc) -> Result<Small, OpError> {
    let powers = match node.attributes().text("round_mode") {
        "up" => PowerRounding::Up,
        "down" => PowerRounding::Down,
        "nearest" => PowerRounding::Nearest,
        other => return Err(OpError::unsupported(node, format!("round_mode = {other}"))),
    };
    Ok(Small { saturate: node.attributes().flag("saturate"), powers })
}

impl Small {
    /// For casts to types that are none of the smallest floats.
    const UNUSED: Small = Small { saturate: true, powers: PowerRounding::Up };

    /// Floats as the smallest floats; the widest source is rounded once more on the way, to a type with spare digits.
    fn convert(self, from: &Tensor, to: &mut Tensor) -> Result<(), NodeError> {
        let dtype = to.dtype();
        let values = widened::<f32>(from)?;
        let encoded = values.iter().map(|&value| match dtype {
            DType::F8E8M0 => minifloat::encode_power(value, self.saturate, self.powers),
            _ => minifloat::encode(dtype, value, self.saturate),
        });
        let mut pace = Pace::default();
        to.bytes_mut().iter_mut().zip(encoded).for_each(|(to, bits)| {
            pace.step(2);
            *to = bits;
        });
        Ok(())
    }
}

impl Node for Cast {
    fn family(&self) -> &'static str {
        if self.to == Target::Like { "CastLike" } else { "Cast" }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        if io.input(0)?.dtype() == io.spec(0).dtype {
            let input = io.take(0)?;
            io.push(input);
            return Ok(());
        }
        let (input, mut output) = (io.input(0)?, io.alloc(0)?);
        if output.dtype().is_minifloat() && input.dtype() != DType::String {
            self.small.convert(input, &mut output)?;
        } else {
            output = convert(input, output, cx.parallel)?;
        }
        io.push(output);
        Ok(())
    }
}

/// The elements of `from` as the type of `to`, which has the same shape.
pub(crate) fn convert(from: &Tensor, mut to: Tensor, parallel: &dyn Parallel) -> Result<Tensor, NodeError> {
    match (from.dtype(), to.dtype()) {
        (DType::String, DType::String) => Ok(from.clone()),
        (DType::String, _) => {
            parse(from.as_strings()?, &mut to)?;
            Ok(to)
        }
        (_, DType::String) => Ok(Tensor::from_strings(to.shape().iter().copied(), print(from)?)?),
        _ => {
            convert_numbers(from, &mut to, parallel)?;
            Ok(to)
        }
    }
}

/// Elements of a task: a few caches' worth, and longer than a thread takes to wake.
const SHARE: usize = 1 << 15;

fn convert_numbers(from: &Tensor, to: &mut Tensor, parallel: &dyn Parallel) -> Result<(), NodeError> {
    let ((source, size), target) = ((from.dtype(), from.dtype().size()), to.dtype());
    let (bytes, failed) = (from.bytes(), OnceLock::new());
    for_each_chunk(parallel, to.bytes_mut(), SHARE * target.size(), &|index, to| {
        let count = to.len() / target.size();
        if let Err(error) = convert_part(source, &bytes[index * SHARE * size..][..count * size], target, to) {
            // The first error is reported.
            let _ = failed.set(error);
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// Converts elements; `to` has room for exactly as many as `from` has.
pub(super) fn convert_part(source: DType, from: &[u8], target: DType, to: &mut [u8]) -> Result<(), NodeError> {
    match (source, target) {
        _ if source == target => to.copy_from_slice(from),
        (DType::I32, DType::U8 | DType::I8) => low_bits(from, to, |from: i32| from as u8),
        (DType::I32, DType::U16 | DType::I16) => low_bits(from, to, |from: i32| from as u16),
        (DType::I64, DType::I32 | DType::U32) => low_bits(from, to, |from: i64| from as i32),
        (DType::I32, DType::I64) => low_bits(from, to, |from: i32| i64::from(from)),
        (_, DType::F32) if widens(source) => widen(source, from, cast_slice_mut(to)),
        (DType::I32, DType::F32) => {
            let pairs = cast_slice_mut::<u8, f32>(to).iter_mut().zip(cast_slice::<u8, i32>(from));
            pairs.for_each(|(to, &from)| *to = from as f32);
        }
        (DType::F32, DType::F16) => halves::narrow(Isa::detect(), cast_slice(from), cast_slice_mut::<u8, f16>(to)),
        (DType::F32, DType::BF16) => {
            let pairs = cast_slice_mut::<u8, u16>(to).iter_mut().zip(cast_slice::<u8, u32>(from));
            pairs.for_each(|(to, &from)| *to = bf16_bits(from));
        }
        (DType::F32, DType::U8 | DType::I8) => truncate::to_8_bits(Isa::detect(), cast_slice(from), to),
        (DType::F32, DType::U16 | DType::I16) => {
            truncate::to_16_bits(Isa::detect(), cast_slice(from), cast_slice_mut(to))
        }
        (DType::F32, DType::I32) => truncate::to_i32(Isa::detect(), cast_slice(from), cast_slice_mut(to)),
        (DType::F32, DType::I64) => truncate::to_i64(Isa::detect(), cast_slice(from), cast_slice_mut(to)),
        _ if source.is_float() && is_integer(target) => to_integers(source, from, target, to)?,
        _ => dispatch!(Width::of(source)?, convert_through(source, from, target, to))?,
    }
    Ok(())
}

/// Integers of one type as those of another, whose low bits are the same.
fn low_bits<T: Pod, R: Pod>(from: &[u8], to: &mut [u8], convert: impl Fn(T) -> R) {
    let pairs = cast_slice_mut::<u8, R>(to).iter_mut().zip(cast_slice::<u8, T>(from));
    pairs.for_each(|(to, &from)| *to = convert(from));
}

fn is_integer(dtype: DType) -> bool {
    use DType::{I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(dtype, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}

/// Floats as integers of one of the whole-byte types.
fn to_integers(source: DType, from: &[u8], target: DType, to: &mut [u8]) -> Result<(), NodeError> {
    let (mut floats, mut integers) = ([0f64; CHUNK], [0i64; CHUNK]);
    for (index, to) in to.chunks_mut(CHUNK * target.size()).enumerate() {
        let count = to.len() / target.size();
        let run = Run { start: index * CHUNK, count, stride: 1 };
        f64::load(source, from, run, &mut floats[..count])?;
        let pairs = integers.iter_mut().zip(&floats[..count]);
        match (source, target) {
            (DType::F16, DType::U32) => pairs.for_each(|(to, &from)| *to = integer_of(from, DType::I64)),
            _ => pairs.for_each(|(to, &from)| *to = integer_of(from, target)),
        }
        match target {
            DType::U64 => cast_slice_mut(to).copy_from_slice(&integers[..count]),
            _ => i64::store(&integers[..count], target, to)?,
        }
    }
    Ok(())
}

/// The integer that x86 processors make of a float; `target` keeps its low bits. The conversion truncates to a signed
/// integer of 32 bits, or of 64 bits for types of 64 bits, and gives the least integer for NaN and for values out of
/// its range. A `u32` from 2^31 on, or a `u64` from 2^63 on, is converted less that power of two.
///
/// ONNX Runtime 1.32 does the same, except for `u32`: it converts `f16`, and the last few elements of a row of `f32`,
/// by way of 64 bits. Kiln does so for `f16` only.
fn integer_of(value: f64, target: DType) -> i64 {
    const TWO_TO_31: f64 = (1u64 << 31) as f64;
    const TWO_TO_63: f64 = (1u64 << 63) as f64;
    let short = |value: f64| if value > -TWO_TO_31 - 1.0 && value < TWO_TO_31 { value as i32 } else { i32::MIN };
    let long = |value: f64| if (-TWO_TO_63..TWO_TO_63).contains(&value) { value as i64 } else { i64::MIN };
    match target {
        DType::U32 if value >= TWO_TO_31 => i64::from(short(value - TWO_TO_31) ^ i32::MIN),
        DType::U64 if value >= TWO_TO_63 => long(value - TWO_TO_63) ^ i64::MIN,
        DType::I64 | DType::U64 => long(value),
        _ => i64::from(short(value)),
    }
}

/// The bits of the `bf16` nearest to an `f32` of those bits, ties to even; NaN stays NaN. Without a branch, so that it
/// is vectorised.
fn bf16_bits(bits: u32) -> u16 {
    // A carry into the exponent rounds up to the next power of two, or to infinity.
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
    (if is_nan { bits >> 16 | 0x40 } else { rounded }) as u16
}

fn convert_through<W: Wide>(source: DType, from: &[u8], target: DType, to: &mut [u8]) -> Result<(), NodeError> {
    let mut chunk = [W::default(); CHUNK];
    for (index, to) in to.chunks_mut(CHUNK * target.size()).enumerate() {
        let count = to.len() / target.size();
        let run = Run { start: index * CHUNK, count, stride: 1 };
        W::load(source, from, run, &mut chunk[..count])?;
        W::store(&chunk[..count], target, to)?;
    }
    Ok(())
}

/// Numbers from text: floats in any of the usual forms, integers in decimal.
fn parse(texts: &[String], to: &mut Tensor) -> Result<(), NodeError> {
    let dtype = to.dtype();
    let mut pace = Pace::default();
    let error = |text: &str| refused(format!("{text:?} is no {dtype}"));
    let bytes = to.bytes_mut().chunks_exact_mut(dtype.size());
    for (text, bytes) in texts.iter().map(|text| text.trim()).zip(bytes) {
        pace.step(16 + text.len());
        // Integers are parsed as such first: a float would lose the low digits of large ones.
        match text.parse::<i128>() {
            Ok(value) if dtype == DType::U64 && value > i128::from(i64::MAX) => {
                u64::store(&[u64::try_from(value).map_err(|_| error(text))?], dtype, bytes)?;
            }
            Ok(value) if !dtype.is_float() => {
                i64::store(&[i64::try_from(value).map_err(|_| error(text))?], dtype, bytes)?;
            }
            _ if dtype == DType::F32 => {
                f32::store(&[text.parse().map_err(|_| error(text))?], dtype, bytes)?;
            }
            _ => f64::store(&[text.parse().map_err(|_| error(text))?], dtype, bytes)?,
        }
    }
    Ok(())
}

/// Text from numbers: the shortest digits that read back as the same value.
fn print(from: &Tensor) -> Result<Vec<String>, NodeError> {
    Ok(match from.dtype() {
        DType::F32 => from.as_slice::<f32>()?.iter().map(|v| print_float(f64::from(*v))).collected(),
        DType::F64 => from.as_slice::<f64>()?.iter().map(|v| print_float(*v)).collected(),
        DType::F16 => from.as_slice::<half::f16>()?.iter().map(|v| print_float(f64::from(*v))).collected(),
        DType::BF16 => from.as_slice::<half::bf16>()?.iter().map(|v| print_float(f64::from(*v))).collected(),
        DType::U64 => from.as_slice::<u64>()?.iter().map(u64::to_string).collected(),
        _ => widened::<i64>(from)?.iter().map(i64::to_string).collected(),
    })
}

/// The form of ONNX Runtime, C's `%.8g`: eight digits, without zeros behind the last one, with an exponent below 1e-4 and
/// where the number has more digits before its point; `NaN` and `INF` as ONNX names them.
fn print_float(value: f64) -> String {
    const DIGITS: i32 = 8;
    match value {
        _ if value.is_nan() => return "NaN".to_owned(),
        f64::INFINITY => return "INF".to_owned(),
        f64::NEG_INFINITY => return "-INF".to_owned(),
        _ => {}
    }
    let shortened = |digits: &str| -> String {
        let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
        digits.to_owned()
    };
    // Rounded to so many digits first, because that may add one before the point.
    let scientific = format!("{value:.*e}", DIGITS as usize - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        exponent @ -4..DIGITS => shortened(&format!("{value:.*}", (DIGITS - 1 - exponent) as usize)),
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", shortened(digits), exponent.unsigned_abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::trial::{Trial, bools, onnx_code, strings};

    fn cast(to: DType) -> Trial {
        Trial::new("Cast").int("to", onnx_code(to))
    }

    #[test]
    fn floats_become_the_integers_that_processors_make_of_them() {
        let mut values = vec![0.0, -0.0, 0.9, -0.9, 254.6, 300.0, -129.0, 65536.5, f32::NAN, f32::INFINITY];
        values.extend([f32::NEG_INFINITY, 2f32.powi(31), -2f32.powi(31), 2f32.powi(63), -2f32.powi(63), 1e30, -1e30]);
        values.extend((0..1000).map(|at| (at as f32 - 500.0) * 12_345.678));
        let from: &[u8] = cast_slice(&values);
        for target in [DType::U8, DType::I8, DType::U16, DType::I16, DType::I32, DType::I64] {
            let [mut quick, mut by_definition] = [0; 2].map(|_| vec![0u8; values.len() * target.size()]);
            convert_part(DType::F32, from, target, &mut quick).unwrap();
            to_integers(DType::F32, from, target, &mut by_definition).unwrap();
            assert_eq!(quick, by_definition, "{target}");
        }
    }

    #[test]
    fn half_precision_is_widened_and_the_rest_stays() {
        Trial::new("Widen").input(&[2], &[f16::ONE, f16::INFINITY]).gives(&[2], &[1.0f32, f32::INFINITY]);
        Trial::new("Widen").input(&[1], &[bf16::from_f32(1.5)]).gives(&[1], &[1.5f32]);
        Trial::new("Widen").input(&[1], &[0.1f64]).gives(&[1], &[0.1f64]);
    }

    /// Expected values are those of ONNX Runtime 1.32, in rows that are long enough for its vectors.
    #[test]
    fn floats_outside_of_an_integer_type_become_what_they_do_in_onnx_runtime() {
        let two = |power: i32| 2f32.powi(power);
        let floats = [
            [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 300.75, -300.75, 128.0, -1.0, 65543.0],
            [two(31), -two(31) - 1024.0, two(32) + 512.0, two(63), -1e30, two(63) + two(42), two(64), 0.5],
        ];
        let row = |to| cast(to).input(&[2, 8], floats.as_flattened());
        let low = [0, 0, 0, 0, 0, 0, 0, 0];
        row(DType::I8).gives(&[2, 8], [[0, 0, 0, 44, -44, -128, -1, 7], low.map(|zero: i8| zero)].as_flattened());
        row(DType::U8).gives(&[2, 8], [[0, 0, 0, 44, 212, 128, 255, 7], low.map(|_| 0u8)].as_flattened());
        row(DType::I16).gives(&[2, 8], [[0, 0, 0, 300, -300, 128, -1, 7], low.map(i16::from)].as_flattened());
        row(DType::U16).gives(&[2, 8], [[0, 0, 0, 300, 65236, 128, 65535, 7], low.map(|_| 0u16)].as_flattened());
        const LEAST: i32 = i32::MIN;
        let second = [LEAST, LEAST, LEAST, LEAST, LEAST, LEAST, LEAST, 0];
        row(DType::I32).gives(&[2, 8], [[LEAST, LEAST, LEAST, 300, -300, 128, -1, 65543], second].as_flattened());
        const HALF: u32 = 1 << 31;
        let first = [HALF, 0, HALF, 300, 300u32.wrapping_neg(), 128, u32::MAX, 65543];
        row(DType::U32).gives(&[2, 8], [first, [HALF, HALF, 0, 0, HALF, 0, 0, 0]].as_flattened());
        const LONG: i64 = i64::MIN;
        let second = [1 << 31, -(1 << 31) - 1024, (1 << 32) + 512, LONG, LONG, LONG, LONG, 0];
        row(DType::I64).gives(&[2, 8], [[LONG, LONG, LONG, 300, -300, 128, -1, 65543], second].as_flattened());
        const TOP: u64 = 1 << 63;
        let first = [TOP, 0, TOP, 300, 300u64.wrapping_neg(), 128, u64::MAX, 65543];
        let second = [1 << 31, ((1u64 << 31) + 1024).wrapping_neg(), (1 << 32) + 512, TOP, TOP, TOP + (1 << 42), 0, 0];
        row(DType::U64).gives(&[2, 8], [first, second].as_flattened());
    }

    #[test]
    fn numbers_become_numbers() {
        cast(DType::I32).input(&[3], &[1.9f32, -1.9, f32::NAN]).gives(&[3], &[1i32, -1, i32::MIN]);
        cast(DType::I64).input(&[1], &[1e30f32]).gives(&[1], &[i64::MIN]);
        cast(DType::F32).input(&[1], &[i64::MAX]).gives(&[1], &[9.223_372e18_f32]);
        cast(DType::F64).input(&[1], &[u64::MAX]).gives(&[1], &[1.844_674_407_370_955_2e19_f64]);
        cast(DType::U8).input(&[2], &[256i64, -1]).gives(&[2], &[0u8, 255]);
        cast(DType::F16).input(&[2], &[1.0f32, 1e6]).gives(&[2], &[f16::ONE, f16::INFINITY]);
        cast(DType::F32).input(&[1], &[bf16::from_f32(1.5)]).gives(&[1], &[1.5f32]);
        cast(DType::Bool).input(&[3], &[0.0f32, -0.5, f32::NAN]).gives(&[3], &bools([false, true, true]));
        cast(DType::F32).input(&[2], &bools([false, true])).gives(&[2], &[0f32, 1.0]);
        cast(DType::F16).input::<f32>(&[0], &[]).gives::<f16>(&[0], &[]);
    }

    #[test]
    fn long_tensors_are_converted_whole() {
        let values: Vec<i32> = (0..1000).collect();
        let expected: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
        cast(DType::F64).input(&[10, 100], &values).gives(&[10, 100], &expected);
    }

    #[test]
    fn whole_tasks_and_the_rest_are_converted_as_single_elements_are() {
        const TYPES: [DType; 11] = [
            DType::F32,
            DType::F64,
            DType::F16,
            DType::BF16,
            DType::Bool,
            DType::I8,
            DType::U8,
            DType::I16,
            DType::I32,
            DType::I64,
            DType::F8E4M3,
        ];
        // Longer than a task, and no multiple of any vector.
        let count = SHARE + 77;
        let bits: Vec<u64> = (1..=count as u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for source in TYPES {
            let bytes: Vec<u8> = match source {
                DType::Bool => bits.iter().map(|bits| (bits >> 63) as u8).collect(),
                _ => cast_slice::<u64, u8>(&bits)[..count * source.size()].to_vec(),
            };
            for target in TYPES.into_iter().filter(|&target| target != source && !target.is_minifloat()) {
                let from = Tensor::from_bytes(kiln_tensor::TensorSpec::new(source, [count]), &bytes).unwrap();
                let made = cast(target).tensor(from).run().unwrap();
                let mut single = [0u64; 1];
                for (at, (from, to)) in
                    bytes.chunks_exact(source.size()).zip(made[0].bytes().chunks_exact(target.size())).enumerate()
                {
                    let (mut aligned, size) = ([0u64; 1], source.size());
                    cast_slice_mut::<u64, u8>(&mut aligned)[..size].copy_from_slice(from);
                    let from = &cast_slice::<u64, u8>(&aligned)[..size];
                    let single = &mut cast_slice_mut::<u64, u8>(&mut single)[..target.size()];
                    match source.is_float() && is_integer(target) {
                        true => to_integers(source, from, target, single).unwrap(),
                        false => dispatch!(Width::of(source).unwrap(), convert_through(source, from, target, single))
                            .unwrap(),
                    }
                    assert_eq!(single, to, "{source} to {target}, element {at}");
                }
            }
        }
    }

    #[test]
    fn bits_of_bf16_are_those_of_the_nearest_one() {
        let edges = [0, 1, 0x7f80_0000, 0x7f80_0001, 0x7fff_ffff, 0x3f80_8000, 0x3f81_8000, 0x7f7f_ffff, 0x3f80_8001];
        let spread = (0..1u32 << 20).map(|at| at.wrapping_mul(0x9e37_79b1));
        for bits in edges.into_iter().flat_map(|bits| [bits, bits | 1 << 31]).chain(spread) {
            assert_eq!(bf16_bits(bits), bf16::from_f32(f32::from_bits(bits)).to_bits(), "{bits:#x}");
        }
    }

    #[test]
    fn the_same_type_copies_nothing() {
        let input = Tensor::from_slice([2], &[1f32, 2.0]).unwrap();
        assert!(cast(DType::F32).tensor(input.clone()).run().unwrap()[0].shares_bytes(&input));
    }

    #[test]
    fn text_is_read_and_written() {
        let texts = strings(&[4], &["1.5", "-INF", "NaN", "1e2"]);
        let read = cast(DType::F32).tensor(texts).run().unwrap();
        let read = read[0].as_slice::<f32>().unwrap();
        assert!(read[0] == 1.5 && read[1] == f32::NEG_INFINITY && read[2].is_nan() && read[3] == 100.0);
        cast(DType::I64).tensor(strings(&[1], &["9007199254740993"])).gives(&[1], &[9_007_199_254_740_993i64]);
        cast(DType::F32).tensor(strings(&[1], &["x"])).is_refused("no float32");
        let printed = |values: &[f64], texts: &[&str]| {
            cast(DType::String).input(&[values.len()], values).gives_strings(&[texts.len()], texts);
        };
        printed(&[0.1, 2.0, -0.0, 0.5, f64::NAN, f64::INFINITY], &["0.1", "2", "-0", "0.5", "NaN", "INF"]);
        printed(
            &[1e-7, 1e-4, 99_999_999.4, 99_999_999.6, 123_456_789.0],
            &["1e-07", "0.0001", "99999999", "1e+08", "1.2345679e+08"],
        );
        printed(&[1.5e20, 1e100, 0.123_456_789_012], &["1.5e+20", "1e+100", "0.12345679"]);
        cast(DType::String).input(&[2], &[0.1f32, 0.296_140_2]).gives_strings(&[2], &["0.1", "0.29614019"]);
        cast(DType::String).input(&[1], &[-3i8]).gives_strings(&[1], &["-3"]);
    }

    #[test]
    fn the_smallest_types_are_rounded_to_or_cut() {
        let small = |to, saturate| cast(to).int("saturate", saturate).input(&[3], &[1.06f32, -1e9, f32::NAN]);
        let bits = |trial: Trial| trial.run().unwrap()[0].bytes().to_vec();
        assert_eq!(bits(small(DType::F8E4M3, 1)), [0x38, 0xfe, 0x7f]);
        assert_eq!(bits(small(DType::F8E5M2, 0)), [0x3c, 0xfc, 0x7f]);
        assert_eq!(bits(cast(DType::I4).input(&[3], &[7i32, 8, -9])), [7, 0xf8, 7]);
        assert_eq!(bits(cast(DType::U2).input(&[3], &[3f32, 6.0, -1.0])), [3, 2, 3]);
        assert_eq!(bits(cast(DType::U4).input(&[3], &[-1f32, -9.0, 15.0])), [15, 7, 15]);
        let nibbles = Tensor::from_bytes(kiln_tensor::TensorSpec::new(DType::I4, [2]), &[7, 0xff]).unwrap();
        cast(DType::F32).tensor(nibbles).gives(&[2], &[7f32, -1.0]);
        cast(DType::F8E8M0).text("round_mode", "sideways").is_refused("round_mode");
    }

    #[test]
    fn cast_like_takes_the_type_of_its_second_input() {
        Trial::new("CastLike").input(&[1], &[1.5f32]).input(&[0], &[0i8; 0]).gives(&[1], &[1i8]);
    }

    #[test]
    fn types_that_tensors_cannot_hold_are_refused_at_load() {
        Trial::new("Cast").int("to", 14).input(&[1], &[1f32]).is_refused("element type number 14");
        Trial::new("Cast").input(&[1], &[1f32]).is_refused("must name");
    }
}
