//! Operators on elements as they are stored, where an element's own type gives the same bits as a wide one: whole
//! numbers wrap to the same low bits, and `f64` is its own wide type. Nothing is widened, and the compiler vectorises
//! the loops.

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use kiln_tensor::DType;

use super::arithmetic::{Binary, Unary};

/// An operator on as many elements of a left and a right operand as of its result. Operators of one operand do not look
/// at the right one.
pub(super) type Loop = fn(&[u8], &[u8], &mut [u8]);

/// Elements of a call: a chunk of each operand stays in L1.
pub(super) const CHUNK: usize = 1024;

/// A chunk of elements of up to 8 bytes, aligned for all of them.
pub(super) type Buffer = [u64; CHUNK];

/// The loop of an operator on elements of that type, if there is one.
pub(super) fn binary(function: Binary, dtype: DType) -> Option<Loop> {
    match dtype {
        DType::Bool => of_bools(function),
        DType::F64 => of_doubles(function),
        DType::I8 => of_i8(function),
        DType::I16 => of_i16(function),
        DType::I32 => of_i32(function),
        DType::I64 => of_longs(function).or_else(|| of_i64(function)),
        DType::U8 => of_u8(function).or_else(|| shift_u8(function)),
        DType::U16 => of_u16(function).or_else(|| shift_u16(function)),
        DType::U32 => of_u32(function).or_else(|| shift_u32(function)),
        DType::U64 => of_u64(function).or_else(|| shift_u64(function)),
        _ => None,
    }
}

/// The loop of a function of elements of that type, if there is one.
pub(super) fn unary(function: Unary, dtype: DType) -> Option<Loop> {
    Some(match (function, dtype) {
        (Unary::Not, DType::Bool) => |from, _, to| each(from, to, |x: u8| u8::from(x == 0)),
        (Unary::Abs, DType::F64) => |from, _, to| each(from, to, f64::abs),
        (Unary::Neg, DType::F64) => |from, _, to| each(from, to, |x: f64| -x),
        (Unary::Abs, DType::I64) => |from, _, to| each(from, to, i64::wrapping_abs),
        (Unary::Neg, DType::I64) => |from, _, to| each(from, to, i64::wrapping_neg),
        (Unary::Abs, DType::I32) => |from, _, to| each(from, to, i32::wrapping_abs),
        (Unary::Neg, DType::I32) => |from, _, to| each(from, to, i32::wrapping_neg),
        _ => return None,
    })
}

fn each<T: Pod, R: Pod>(from: &[u8], to: &mut [u8], function: impl Fn(T) -> R) {
    let to: &mut [R] = cast_slice_mut(to);
    to.iter_mut().zip(cast_slice::<u8, T>(from)).for_each(|(to, &from)| *to = function(from));
}

fn pairs<T: Pod, R: Pod>(left: &[u8], right: &[u8], to: &mut [u8], function: impl Fn(T, T) -> R) {
    let operands = cast_slice::<u8, T>(left).iter().zip(cast_slice::<u8, T>(right));
    let to: &mut [R] = cast_slice_mut(to);
    to.iter_mut().zip(operands).for_each(|(to, (&left, &right))| *to = function(left, right));
}

/// Any byte but 0 is true.
fn of_bools(function: Binary) -> Option<Loop> {
    Some(match function {
        Binary::And => |a, b, to| pairs(a, b, to, |a: u8, b: u8| u8::from(a != 0) & u8::from(b != 0)),
        Binary::Or => |a, b, to| pairs(a, b, to, |a: u8, b: u8| u8::from(a | b != 0)),
        Binary::Xor => |a, b, to| pairs(a, b, to, |a: u8, b: u8| u8::from((a != 0) != (b != 0))),
        Binary::Equal => |a, b, to| pairs(a, b, to, |a: u8, b: u8| u8::from((a != 0) == (b != 0))),
        _ => return None,
    })
}

fn of_doubles(function: Binary) -> Option<Loop> {
    Some(match function {
        Binary::Add => |a, b, to| pairs(a, b, to, |a: f64, b: f64| a + b),
        Binary::Sub => |a, b, to| pairs(a, b, to, |a: f64, b: f64| a - b),
        Binary::Mul => |a, b, to| pairs(a, b, to, |a: f64, b: f64| a * b),
        Binary::Div => |a, b, to| pairs(a, b, to, |a: f64, b: f64| a / b),
        Binary::Equal => |a, b, to| pairs(a, b, to, |a: f64, b: f64| u8::from(a == b)),
        Binary::Less => |a, b, to| pairs(a, b, to, |a: f64, b: f64| u8::from(a < b)),
        Binary::LessOrEqual => |a, b, to| pairs(a, b, to, |a: f64, b: f64| u8::from(a <= b)),
        Binary::Greater => |a, b, to| pairs(a, b, to, |a: f64, b: f64| u8::from(a > b)),
        Binary::GreaterOrEqual => |a, b, to| pairs(a, b, to, |a: f64, b: f64| u8::from(a >= b)),
        _ => return None,
    })
}

/// What baseline x86-64 does not vectorise.
fn of_longs(function: Binary) -> Option<Loop> {
    use kiln_kernels::Isa;
    use kiln_kernels::cpu::whole::{equal, greater, less, less_or_equal, lesser};
    Some(match function {
        Binary::Max => |a, b, to| greater(Isa::detect(), cast_slice(a), cast_slice(b), cast_slice_mut(to)),
        Binary::Min => |a, b, to| lesser(Isa::detect(), cast_slice(a), cast_slice(b), cast_slice_mut(to)),
        Binary::Equal => |a, b, to| equal(Isa::detect(), cast_slice(a), cast_slice(b), to),
        Binary::Less => |a, b, to| less(Isa::detect(), cast_slice(a), cast_slice(b), to),
        Binary::LessOrEqual => |a, b, to| less_or_equal(Isa::detect(), cast_slice(a), cast_slice(b), to),
        Binary::Greater => |a, b, to| less(Isa::detect(), cast_slice(b), cast_slice(a), to),
        Binary::GreaterOrEqual => |a, b, to| less_or_equal(Isa::detect(), cast_slice(b), cast_slice(a), to),
        _ => return None,
    })
}

macro_rules! whole_numbers {
    ($($name:ident: $type:ident)*) => {$(
        fn $name(function: Binary) -> Option<Loop> {
            Some(match function {
                Binary::Add => |a, b, to| pairs(a, b, to, $type::wrapping_add),
                Binary::Sub => |a, b, to| pairs(a, b, to, $type::wrapping_sub),
                Binary::Mul => |a, b, to| pairs(a, b, to, $type::wrapping_mul),
                Binary::Max => |a, b, to| pairs(a, b, to, |a: $type, b: $type| a.max(b)),
                Binary::Min => |a, b, to| pairs(a, b, to, |a: $type, b: $type| a.min(b)),
                Binary::BitwiseAnd => |a, b, to| pairs(a, b, to, |a: $type, b: $type| a & b),
                Binary::BitwiseOr => |a, b, to| pairs(a, b, to, |a: $type, b: $type| a | b),
                Binary::BitwiseXor => |a, b, to| pairs(a, b, to, |a: $type, b: $type| a ^ b),
                Binary::Equal => |a, b, to| pairs(a, b, to, |a: $type, b: $type| u8::from(a == b)),
                Binary::Less => |a, b, to| pairs(a, b, to, |a: $type, b: $type| u8::from(a < b)),
                Binary::LessOrEqual => |a, b, to| pairs(a, b, to, |a: $type, b: $type| u8::from(a <= b)),
                Binary::Greater => |a, b, to| pairs(a, b, to, |a: $type, b: $type| u8::from(a > b)),
                Binary::GreaterOrEqual => |a, b, to| pairs(a, b, to, |a: $type, b: $type| u8::from(a >= b)),
                _ => return None,
            })
        }
    )*};
}

whole_numbers! { of_i8: i8 of_i16: i16 of_i32: i32 of_i64: i64 of_u8: u8 of_u16: u16 of_u32: u32 of_u64: u64 }

/// Shifts by as many bits as there are, or by more, leave nothing.
macro_rules! shifts {
    ($($name:ident: $type:ident)*) => {$(
        fn $name(function: Binary) -> Option<Loop> {
            const BITS: $type = $type::BITS as $type;
            Some(match function {
                Binary::ShiftLeft => |a, b, to| pairs(a, b, to, |a: $type, b: $type| {
                    if b < BITS { a.wrapping_shl(b as u32) } else { 0 }
                }),
                Binary::ShiftRight => |a, b, to| pairs(a, b, to, |a: $type, b: $type| {
                    if b < BITS { a.wrapping_shr(b as u32) } else { 0 }
                }),
                _ => return None,
            })
        }
    )*};
}

shifts! { shift_u8: u8 shift_u16: u16 shift_u32: u32 shift_u64: u64 }

/// Elements at even distances, one after the other in `to`.
pub(super) fn gather(from: &[u8], run: super::Run, width: usize, to: &mut [u8]) {
    match width {
        1 => run.map(from, to, |value: u8| value),
        2 => run.map(cast_slice(from), cast_slice_mut(to), |value: u16| value),
        4 => run.map(cast_slice(from), cast_slice_mut(to), |value: u32| value),
        _ => run.map(cast_slice(from), cast_slice_mut(to), |value: u64| value),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arithmetic, Run};
    use super::*;
    use crate::wide::Width;

    const BINARY: [Binary; 23] = [
        Binary::Add,
        Binary::Sub,
        Binary::Mul,
        Binary::Div,
        Binary::Pow,
        Binary::Mod,
        Binary::Fmod,
        Binary::Max,
        Binary::Min,
        Binary::PRelu,
        Binary::Equal,
        Binary::Less,
        Binary::LessOrEqual,
        Binary::Greater,
        Binary::GreaterOrEqual,
        Binary::And,
        Binary::Or,
        Binary::Xor,
        Binary::BitwiseAnd,
        Binary::BitwiseOr,
        Binary::BitwiseXor,
        Binary::ShiftLeft,
        Binary::ShiftRight,
    ];

    const TYPES: [DType; 10] = [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F64,
    ];

    /// Elements of every kind: random bits, small numbers, the least and the greatest.
    fn elements(dtype: DType, seed: u64) -> Vec<u64> {
        let count = CHUNK * dtype.size() / 8;
        let mut state = seed;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let small = |bits: u64| {
            if dtype == DType::F64 { ((bits % 7) as f64 - 3.0).to_bits() } else { bits & 0x0101_0101_0101_0101 }
        };
        (0..count)
            .map(|at| match at % 4 {
                0 => small(next()),
                1 => [0, u64::MAX, 0x8080_8080_8080_8080, 0x7F7F_7F7F_7F7F_7F7F][next() as usize % 4],
                _ => next(),
            })
            .collect()
    }

    fn widened<W: Arithmetic>(dtype: DType, bytes: &[u8]) -> Vec<W> {
        let mut to = vec![W::default(); CHUNK];
        W::load(dtype, bytes, Run { start: 0, count: CHUNK, stride: 1 }, &mut to).unwrap();
        to
    }

    fn by_wide<W: Arithmetic>(dtype: DType, result: DType, [a, b]: [&[u8]; 2], of: impl Fn(&mut [W], &[W])) -> Vec<u8> {
        let (mut left, right) = (widened::<W>(dtype, a), widened::<W>(dtype, b));
        of(&mut left, &right);
        let mut to = vec![0u64; CHUNK * result.size() / 8];
        let to: &mut [u8] = cast_slice_mut(&mut to);
        W::store(&left, result, to).unwrap();
        to.to_vec()
    }

    /// NaNs are equal whatever their bits.
    fn same(dtype: DType, a: &[u8], b: &[u8]) -> bool {
        let is_same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        if dtype == DType::F64 {
            let [a, b] = [a, b].map(|bytes| {
                bytes.chunks_exact(8).map(|eight| f64::from_le_bytes(eight.try_into().unwrap())).collect::<Vec<f64>>()
            });
            return a.iter().zip(&b).all(is_same);
        }
        a == b
    }

    #[test]
    fn each_loop_gives_the_bits_of_the_wide_type() {
        let mut loops = 0;
        for dtype in TYPES {
            let (a, b) = (elements(dtype, 88_172_645_463_325_252), elements(dtype, 362_436_069));
            let [a, b]: [&[u8]; 2] = [cast_slice(&a), cast_slice(&b)];
            let mut check = |each: Loop, result: DType, expected: Vec<u8>, what: &dyn std::fmt::Debug| {
                let mut to = vec![0u64; CHUNK * result.size() / 8];
                let to: &mut [u8] = cast_slice_mut(&mut to);
                each(a, b, to);
                assert!(same(result, to, &expected), "{what:?} of {dtype}");
                loops += 1;
            };
            for function in BINARY {
                let Some(each) = binary(function, dtype) else { continue };
                let is_predicate = matches!(
                    function,
                    Binary::Equal
                        | Binary::Less
                        | Binary::LessOrEqual
                        | Binary::Greater
                        | Binary::GreaterOrEqual
                        | Binary::And
                        | Binary::Or
                        | Binary::Xor
                );
                let result = if is_predicate { DType::Bool } else { dtype };
                let expected = match Width::of(dtype).unwrap() {
                    Width::F32 | Width::F64 => {
                        by_wide::<f64>(dtype, result, [a, b], |a, b| f64::binary(function, a, b).unwrap())
                    }
                    Width::I64 => by_wide::<i64>(dtype, result, [a, b], |a, b| i64::binary(function, a, b).unwrap()),
                    Width::U64 => by_wide::<u64>(dtype, result, [a, b], |a, b| u64::binary(function, a, b).unwrap()),
                };
                check(each, result, expected, &function);
            }
            for function in [Unary::Not, Unary::Abs, Unary::Neg] {
                let Some(each) = unary(function, dtype) else { continue };
                let expected = match dtype {
                    DType::F64 => by_wide::<f64>(dtype, dtype, [a, b], |a, _| f64::unary(function, a).unwrap()),
                    _ => by_wide::<i64>(dtype, dtype, [a, b], |a, _| i64::unary(function, a).unwrap()),
                };
                check(each, dtype, expected, &function);
            }
        }
        assert!(loops > 120, "{loops} loops");
    }
}
