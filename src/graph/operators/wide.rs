//! What element-wise operators do to numbers of any type, computed in the wide types `f64`, `i64` and `u64`. It is what
//! runs on types other than `f32`, and the oracle for `f32`. The arithmetic itself is where tensors are known.

/// What an element-wise operator computes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wide {
    /// A function of one element.
    Unary(Unary),
    /// A function of one float, which is given the operator's attributes.
    Float(Float),
    /// A function of two elements.
    Binary(Binary),
    /// One of two functions of two elements, as the first attribute says: 0 or another number.
    Either(Binary, Binary),
    /// Any number of operands, from left to right; at last divided by their number.
    Fold {
        /// What joins two operands.
        step: Binary,
        /// Whether the result is divided.
        mean: bool,
    },
    /// A lower and an upper bound: the attributes of these names, or inputs 1 and 2 where there are none.
    Clip([&'static str; 2]),
    /// The second or the third input, where the first is true or not; elements of any type.
    Where,
    /// Strings, joined.
    Concat,
    /// A function of one float of the first input times the second.
    Gated(Float),
}

/// A function of floats that is given up to two attributes.
pub(crate) type Float = fn(&mut [f64], &[f64; 2]);

/// A function of one element.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unary {
    Abs,
    Neg,
    Sign,
    Relu,
    Not,
    BitwiseNot,
    /// One of floats only, with its attributes.
    Float(Float, [f64; 2]),
}

/// A function of two elements; comparisons and logic give 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    /// With the sign of the divisor, as in Python.
    Mod,
    /// With the sign of the dividend, as in C.
    Fmod,
    Max,
    Min,
    PRelu,
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
    Xor,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    ShiftLeft,
    ShiftRight,
}
