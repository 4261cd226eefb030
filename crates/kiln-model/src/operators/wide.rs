//! Functions of element-wise operators on numbers of any type, computed in the wide types `f64`, `i64` and `u64`. They
//! run on types other than `f32`, and are the oracle for `f32`. The arithmetic itself is with the operators' nodes.

/// The function of an element-wise operator.
#[derive(Clone, Copy, Debug)]
pub enum Wide {
    /// A function of one element.
    Unary(Unary),
    /// A function of one float, which is given the operator's attributes.
    Float(Float),
    /// A function of two elements.
    Binary(Binary),
    /// One of two functions of two elements, as the first attribute says: 0 or another number.
    Either(Binary, Binary),
    /// Any number of operands, from left to right; for a mean divided by their number.
    Fold {
        /// The function of two operands.
        step: Binary,
        /// Whether the result is divided.
        mean: bool,
    },
    /// A lower and an upper bound: the attributes of these names, or inputs 1 and 2 where there are none.
    Clip([&'static str; 2]),
    /// The second input where the first is true, otherwise the third; elements of any type.
    Where,
    /// Strings, joined.
    Concat,
    /// A function of one float, applied to the first input, times the second.
    Gated(Float),
}

/// A function of floats that is given up to two attributes.
pub(crate) type Float = fn(&mut [f64], &[f64; 2]);

/// A function of one element.
#[derive(Clone, Copy, Debug)]
pub enum Unary {
    /// The magnitude.
    Abs,
    /// The number with the other sign.
    Neg,
    /// -1, 0 or 1.
    Sign,
    /// The number, or 0 where it is negative.
    Relu,
    /// The other truth value.
    Not,
    /// Every bit inverted.
    BitwiseNot,
    /// A function of floats only, with its attributes.
    Float(Float, [f64; 2]),
}

/// A function of two elements; comparisons and logic give 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Binary {
    /// The sum.
    Add,
    /// The first less the second.
    Sub,
    /// The product.
    Mul,
    /// The first over the second.
    Div,
    /// The first to the power of the second.
    Pow,
    /// With the sign of the divisor, as in Python.
    Mod,
    /// With the sign of the dividend, as in C.
    Fmod,
    /// The larger.
    Max,
    /// The smaller.
    Min,
    /// The first, times the second where it is negative.
    PRelu,
    /// Whether both are equal.
    Equal,
    /// Whether the first is less.
    Less,
    /// Whether the first is not greater.
    LessOrEqual,
    /// Whether the first is greater.
    Greater,
    /// Whether the first is not less.
    GreaterOrEqual,
    /// Whether both are true.
    And,
    /// Whether either is true.
    Or,
    /// Whether one is true and the other is not.
    Xor,
    /// Bits that both have.
    BitwiseAnd,
    /// Bits that either has.
    BitwiseOr,
    /// Bits that one of the two has.
    BitwiseXor,
    /// Bits moved towards the high end.
    ShiftLeft,
    /// Bits moved towards the low end.
    ShiftRight,
}
