//! Arithmetic on chunks of the wide types: each element-wise operator on numbers of any type.
//!
//! Integers wrap and never trap: a division by zero gives zero. Nothing is known here of shapes.

use kiln_kernels::memory::raise_if_over;
use kiln_run::NodeError;

use crate::wide::Wide;
pub(crate) use kiln_model::operators::{Binary, Unary};

/// Elements that are computed between two checks whether the request is over.
const LONG: usize = 1 << 17;

/// Computations in a wide type. Operators that a type does not have are refused.
pub(crate) trait Arithmetic: Wide {
    /// Replaces each value by the function's result.
    fn unary(function: Unary, values: &mut [Self]) -> Result<(), NodeError>;

    /// Replaces each left value by the function's result.
    fn binary(function: Binary, left: &mut [Self], right: &[Self]) -> Result<(), NodeError>;

    /// A sum, a product or an extreme of two values, as [`Arithmetic::binary`] computes it; `None` for other functions.
    fn combiner(function: Binary) -> Option<fn(Self, Self) -> Self>;

    /// As [`Arithmetic::binary`] for any number of values. Raises
    /// [`Refused::Over`](kiln_kernels::memory::Refused::Over) where the request is over before all are replaced.
    fn long_binary(function: Binary, left: &mut [Self], right: &[Self]) -> Result<(), NodeError> {
        if left.len() <= LONG {
            return Self::binary(function, left, right);
        }
        for (left, right) in left.chunks_mut(LONG).zip(right.chunks(LONG)) {
            Self::binary(function, left, right)?;
            raise_if_over(size_of_val(left));
        }
        Ok(())
    }

    /// Combines all values, which are overwritten; `None` where there are none. By halves: rounding errors stay small,
    /// and each step is one loop over neighbours in memory.
    fn fold(function: Binary, values: &mut [Self]) -> Result<Option<Self>, NodeError> {
        let mut length = values.len();
        while length > 1 {
            let half = length / 2;
            let (left, right) = values[..length].split_at_mut(length - half);
            Self::long_binary(function, &mut left[..half], right)?;
            length -= half;
        }
        Ok(values.first().copied())
    }

    /// The quotient by a count, of a mean.
    fn divided(self, count: usize) -> Self;

    /// The square root; of floats only.
    fn root(self) -> Result<Self, NodeError> {
        refused("square root", "integers")
    }

    /// The natural logarithm; of floats only.
    fn log(self) -> Result<Self, NodeError> {
        refused("logarithm", "integers")
    }

    /// ln(sum(exp(x))), without overflow on the way; of floats only.
    fn log_sum_exp(_: &[Self]) -> Result<Self, NodeError> {
        refused("logarithm", "integers")
    }
}

fn refused<T>(function: impl std::fmt::Debug, of: &str) -> Result<T, NodeError> {
    Err(NodeError::Unsupported(format!("{function:?} of {of}")))
}

fn each<W: Copy>(values: &mut [W], function: impl Fn(W) -> W) {
    values.iter_mut().for_each(|value| *value = function(*value));
}

fn pairs<W: Copy>(left: &mut [W], right: &[W], function: impl Fn(W, W) -> W) {
    left.iter_mut().zip(right).for_each(|(left, &right)| *left = function(*left, right));
}

/// Comparisons and logic, the same for every type.
fn predicate<W: Wide>(function: Binary, one: W, left: &mut [W], right: &[W]) -> bool {
    // Generic over the test, so that each is a loop of its own without a call.
    fn test<W: Wide>(one: W, left: &mut [W], right: &[W], holds: impl Fn(W, W) -> bool) {
        pairs(left, right, |a, b| if holds(a, b) { one } else { W::default() });
    }
    let zero = W::default();
    match function {
        Binary::Equal => test(one, left, right, |a, b| a == b),
        Binary::Less => test(one, left, right, |a, b| a < b),
        Binary::LessOrEqual => test(one, left, right, |a, b| a <= b),
        Binary::Greater => test(one, left, right, |a, b| a > b),
        Binary::GreaterOrEqual => test(one, left, right, |a, b| a >= b),
        Binary::And => test(one, left, right, |a, b| a != zero && b != zero),
        Binary::Or => test(one, left, right, |a, b| a != zero || b != zero),
        Binary::Xor => test(one, left, right, |a, b| (a != zero) != (b != zero)),
        _ => return false,
    }
    true
}

/// The first value where it is the wanted one. NaN wins on either side.
fn pick(a: f64, b: f64, first: bool) -> f64 {
    if a.is_nan() || first && !b.is_nan() { a } else { b }
}

impl Arithmetic for f64 {
    fn unary(function: Unary, values: &mut [f64]) -> Result<(), NodeError> {
        match function {
            Unary::Abs => each(values, f64::abs),
            Unary::Neg => each(values, |x| -x),
            // `signum` of a zero is one.
            Unary::Sign => each(values, |x| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
            Unary::Relu => each(values, |x| if x < 0.0 { 0.0 } else { x }),
            Unary::Not => each(values, |x| f64::from(u8::from(x == 0.0))),
            Unary::BitwiseNot => return refused(function, "floats"),
            Unary::Float(apply, attributes) => apply(values, &attributes),
        }
        Ok(())
    }

    fn combiner(function: Binary) -> Option<fn(f64, f64) -> f64> {
        Some(match function {
            Binary::Add => |a, b| a + b,
            Binary::Mul => |a, b| a * b,
            Binary::Max => |a, b| pick(a, b, a > b),
            Binary::Min => |a, b| pick(a, b, a < b),
            _ => return None,
        })
    }

    fn binary(function: Binary, left: &mut [f64], right: &[f64]) -> Result<(), NodeError> {
        match function {
            Binary::Add => pairs(left, right, |a, b| a + b),
            Binary::Sub => pairs(left, right, |a, b| a - b),
            Binary::Mul => pairs(left, right, |a, b| a * b),
            Binary::Div => pairs(left, right, |a, b| a / b),
            Binary::Pow => pairs(left, right, f64::powf),
            Binary::Mod => pairs(left, right, |a, b| {
                let rest = a % b;
                if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
            }),
            Binary::Fmod => pairs(left, right, |a, b| a % b),
            Binary::Max => pairs(left, right, |a, b| pick(a, b, a > b)),
            Binary::Min => pairs(left, right, |a, b| pick(a, b, a < b)),
            Binary::PRelu => pairs(left, right, |x, slope| if x < 0.0 { slope * x } else { x }),
            _ if predicate(function, 1.0, left, right) => {}
            _ => return refused(function, "floats"),
        }
        Ok(())
    }

    fn divided(self, count: usize) -> f64 {
        self / count as f64
    }

    fn root(self) -> Result<f64, NodeError> {
        Ok(self.sqrt())
    }

    fn log(self) -> Result<f64, NodeError> {
        Ok(self.ln())
    }

    fn log_sum_exp(values: &[f64]) -> Result<f64, NodeError> {
        let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // An infinite greatest value is the result itself; subtracting it would give NaN.
        if greatest.is_infinite() && !values.iter().any(|value| value.is_nan()) {
            return Ok(greatest);
        }
        Ok(greatest + values.iter().map(|value| (value - greatest).exp()).sum::<f64>().ln())
    }
}

macro_rules! integers {
    ($($wide:ident)*) => {$(
        impl Arithmetic for $wide {
            fn unary(function: Unary, values: &mut [$wide]) -> Result<(), NodeError> {
                const ZERO: $wide = 0;
                match function {
                    Unary::Abs => each(values, |x| if below(x, ZERO) { x.wrapping_neg() } else { x }),
                    Unary::Neg => each(values, $wide::wrapping_neg),
                    Unary::Sign => each(values, |x| {
                        $wide::from(x != 0).wrapping_sub($wide::from(below(x, ZERO))).wrapping_sub($wide::from(below(x, ZERO)))
                    }),
                    Unary::Relu => each(values, |x| x.max(0)),
                    Unary::Not => each(values, |x| $wide::from(x == 0)),
                    Unary::BitwiseNot => each(values, |x| !x),
                    Unary::Float(..) => return refused(function, "integers"),
                }
                Ok(())
            }

            fn combiner(function: Binary) -> Option<fn($wide, $wide) -> $wide> {
                Some(match function {
                    Binary::Add => $wide::wrapping_add,
                    Binary::Mul => $wide::wrapping_mul,
                    Binary::Max => $wide::max,
                    Binary::Min => $wide::min,
                    _ => return None,
                })
            }

            fn binary(function: Binary, left: &mut [$wide], right: &[$wide]) -> Result<(), NodeError> {
                const ZERO: $wide = 0;
                match function {
                    Binary::Add => pairs(left, right, $wide::wrapping_add),
                    Binary::Sub => pairs(left, right, $wide::wrapping_sub),
                    Binary::Mul => pairs(left, right, $wide::wrapping_mul),
                    Binary::Div => pairs(left, right, |a, b| if b == 0 { 0 } else { a.wrapping_div(b) }),
                    Binary::Pow => pairs(left, right, |a, b| match a {
                        _ if !below(b, ZERO) => power(a as u64, b as u64) as $wide,
                        // A whole number's negative power is whole for 1 and -1 only.
                        1 => 1,
                        _ if a == ZERO.wrapping_sub(1) => if b & 1 == 0 { 1 } else { a },
                        _ => 0,
                    }),
                    Binary::Mod => pairs(left, right, |a, b| {
                        let rest = if b == 0 { 0 } else { a.wrapping_rem(b) };
                        if rest != 0 && below(rest, ZERO) != below(b, ZERO) { rest.wrapping_add(b) } else { rest }
                    }),
                    Binary::Fmod => pairs(left, right, |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) }),
                    Binary::Max => pairs(left, right, $wide::max),
                    Binary::Min => pairs(left, right, $wide::min),
                    Binary::PRelu => {
                        pairs(left, right, |x, slope| if below(x, ZERO) { slope.wrapping_mul(x) } else { x });
                    }
                    Binary::BitwiseAnd => pairs(left, right, |a, b| a & b),
                    Binary::BitwiseOr => pairs(left, right, |a, b| a | b),
                    Binary::BitwiseXor => pairs(left, right, |a, b| a ^ b),
                    Binary::ShiftLeft => pairs(left, right, |a, b| if b as u64 > 63 { 0 } else { a << b }),
                    Binary::ShiftRight => pairs(left, right, |a, b| match b as u64 {
                        count @ 0..=63 => a >> count,
                        // Only the sign is left.
                        _ => ZERO.wrapping_sub($wide::from(below(a, ZERO))),
                    }),
                    _ if predicate(function, 1, left, right) => {}
                    _ => return refused(function, "integers"),
                }
                Ok(())
            }

            fn divided(self, count: usize) -> $wide {
                if count == 0 { 0 } else { self / count as $wide }
            }
        }
    )*};
}

integers!(i64 u64);

/// A comparison that is idle for unsigned numbers, and may be written for them here only.
fn below<W: PartialOrd>(value: W, zero: W) -> bool {
    value < zero
}

/// Whole powers by squaring; overflow wraps, to the same bits with and without a sign.
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = 1u64;
    while exponent != 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}
