//! The plain form of block-quantised weights: dequantised one by one, as ONNX defines it, (code - zero point) * scale.

use crate::problem::blockwise::{BlockFormat, BlockSource, CodeBytes, ZeroPoints};

/// The weights as a row-major matrix, `k` by `n`.
#[must_use]
pub fn weights(k: usize, n: usize, format: BlockFormat, source: &BlockSource<'_>) -> Vec<f32> {
    let (bits, middle) = (format.codes.bits(), format.codes.middle());
    let code = |inner: usize, column: usize| match source.codes {
        CodeBytes::Packed { bytes, stride } => {
            bytes[column * stride + inner * bits / 8] >> (inner * bits % 8) & (u8::MAX >> (8 - bits))
        }
        CodeBytes::Apart { bytes, at } => bytes[inner * at.inner + column * at.column] & (u8::MAX >> (8 - bits)),
    };
    let weight = |inner: usize, column: usize| {
        let at = inner / format.block() * source.at.inner + column * source.at.column;
        let code = code(inner, column);
        let number = match format.codes.are_integers() {
            // Signed integers plus the middle, as for zero points.
            true => f32::from(if source.signed { code ^ middle } else { code }),
            false => return format.codes.number(code) * source.scales[at],
        };
        let zero = match format.zeros {
            ZeroPoints::Middle => f32::from(middle),
            ZeroPoints::Bytes => f32::from(source.zero_bytes[at]),
            ZeroPoints::F32 => source.zeros[at],
        };
        (number - zero) * source.scales[at]
    };
    (0..k * n).map(|at| weight(at / n, at % n)).collect()
}
