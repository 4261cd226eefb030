//! The numerics policy: how far a result may be from the plain sum of products. It decides whether kernels may use
//! transforms, and whether the order of additions may depend on the other rows of a request.

use std::fmt;
use std::str::FromStr;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

/// A policy on rounding. The first three rise, strictest first. Under each, arithmetic is in `f32` and equal inputs
/// give equal results.
///
/// A transformed convolution (see [`winograd`](super::conv::winograd)) multiplies less and rounds differently. It also
/// mixes the positions of a small square: an infinity in the input makes all outputs of its square NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Mutate)]
pub enum Numerics {
    /// Sums of products only, in any order. Weights that are denormal are multiplied as they are; under all other
    /// policies they are zeros.
    Strict,
    /// Also transforms whose error is no larger than that of the sum: up to about 3e-6 of the output's root mean
    /// square.
    Precise,
    /// Also transforms that lose one to two bits more: up to about 2e-5 of the output's root mean square.
    #[default]
    Default,
    /// Also the transforms of `Default`, and one order of additions for a row in any batch: no choice that changes the
    /// arithmetic of a row or an image depends on the number of rows or images, or on the number of threads. So a row
    /// alone has the same bits as in any batch.
    Invariant,
}

/// A text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: expected strict, precise, default or invariant")]
pub struct NumericsError(String);

impl FromStr for Numerics {
    type Err = NumericsError;

    fn from_str(text: &str) -> Result<Numerics, NumericsError> {
        match text {
            "strict" => Ok(Numerics::Strict),
            "precise" => Ok(Numerics::Precise),
            "default" => Ok(Numerics::Default),
            "invariant" => Ok(Numerics::Invariant),
            other => Err(NumericsError(other.to_owned())),
        }
    }
}

impl fmt::Display for Numerics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Numerics::Strict => "strict",
            Numerics::Precise => "precise",
            Numerics::Default => "default",
            Numerics::Invariant => "invariant",
        })
    }
}
