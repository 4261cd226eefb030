//! Normalisations of `f32`.
//!
//! [`rows`] normalises rows (layer and RMS normalisation) with code from [`emit`]; [`channels`] scales and shifts by
//! channel and normalises by instance or group; [`local`] is local response normalisation. The oracles are in
//! [`reference::norm`](crate::reference::norm). Depends on no ONNX attributes.

pub mod channels;
pub mod emit;
pub mod local;
pub mod rows;
#[cfg(test)]
mod tests;

pub use crate::problem::norm::{Channels, Local, Moments};
pub use channels::{Affine, GroupOperands, Groups};
pub use emit::{RowNormArgs, RowNormCode};
pub use local::LocalNorm;
pub use rows::{RowForm, RowNorm, RowOperands, RowResults};

use crate::error::{KernelError, Result};

pub(crate) const FAMILY: &str = "norm";

impl Channels {
    /// Elements; an error where they cannot be counted.
    pub(crate) fn elements(&self) -> Result<usize> {
        let dims = self.sizes();
        let bytes = dims.iter().try_fold(4usize, |bytes, &dim| bytes.checked_mul(dim.max(1)));
        match bytes {
            Some(bytes) if bytes <= isize::MAX as usize => Ok(dims.iter().product()),
            _ => Err(unsupported(format!("{self:?} is too large"))),
        }
    }
}

pub(crate) fn unsupported(reason: String) -> KernelError {
    KernelError::Unsupported { family: FAMILY, reason }
}

pub(crate) fn bounds(operand: &'static str, have: usize, need: usize) -> Result<()> {
    if have < need { Err(KernelError::Bounds { family: FAMILY, operand, have, need }) } else { Ok(()) }
}
