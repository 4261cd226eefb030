//! Operands of quantised products and convolutions beside their shape, and the types of their results.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

/// The result of the epilogue for a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Output {
    /// The sum itself: 32-bit integers.
    Sums,
    /// Scaled, shifted, clamped: `f32`.
    Floats,
    /// Scaled, shifted, clamped, rounded to even, plus the zero point: unsigned bytes.
    Unsigned,
    /// As [`Output::Unsigned`], to signed bytes.
    Signed,
}

impl Output {
    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Output::Sums | Output::Floats => 4,
            Output::Unsigned | Output::Signed => 1,
        }
    }

    /// The bounds of the type, as integers.
    #[must_use]
    pub const fn bounds(self) -> (i32, i32) {
        match self {
            Output::Unsigned => (0, 255),
            Output::Signed => (-128, 127),
            Output::Sums | Output::Floats => (i32::MIN, i32::MAX),
        }
    }
}

/// Where the weights are: filter `f`, channel `c` (of its group), position `t` of the window is byte
/// `f * filter + c * channel + t * tap`.
#[derive(Clone, Copy, Debug)]
pub struct WeightSource<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// Whether they are signed.
    pub signed: bool,
    /// Zero points: one for all or one for each filter.
    pub zeros: &'a [i32],
    /// Byte strides of filters, channels and positions.
    pub filter: usize,
    /// Stride of channels.
    pub channel: usize,
    /// Stride of positions.
    pub tap: usize,
}

/// Operands of one run besides the tensors: the model may compute them.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Whether left-hand bytes are signed.
    pub signed: bool,
    /// The left-hand zero point.
    pub left_zero: i32,
    /// Added to the sums of each filter.
    pub bias: Option<&'a [i32]>,
    /// Factor of the sums: one for all or one for each filter. Stored sums have none.
    pub scale: &'a [f32],
    /// Added to the scaled sums of each filter.
    pub shift: Option<&'a [f32]>,
    /// Lower bound of the result; for bytes, before they are rounded and the zero point is added.
    pub low: f32,
    /// Upper bound.
    pub high: f32,
    /// The output's zero point.
    pub zero: i32,
    /// Residual, added to the rounded output, if the product was prepared for one.
    pub plus: Option<Plus<'a>>,
}

/// A tensor of bytes that is added to a product's rounded result. Both, and their sum, are of one type.
#[derive(Clone, Copy, Debug)]
pub struct Plus<'a> {
    /// Its bytes, one for each of the result's.
    pub data: &'a [u8],
    /// Its zero point, and its scale over the sum's.
    pub zero: i32,
    /// See `zero`.
    pub scale: f64,
    /// The product's scale over the sum's.
    pub own_scale: f64,
    /// How the sum is rounded.
    pub rounding: Rounding,
}

/// Rounding of a real number, in units of the result's scale, to a byte.
#[derive(Clone, Copy, Debug)]
pub struct Rounding {
    /// Whether the result's bytes are signed.
    pub signed: bool,
    /// Its zero point.
    pub zero: i32,
    /// Lower bound before rounding.
    pub low: f32,
    /// Upper bound before rounding.
    pub high: f32,
}
