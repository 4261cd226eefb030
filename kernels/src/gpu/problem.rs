//! Problems for libraries: sizes and the epilogue, independent of algorithms.
//!
//! Tensors are dense `f32` in ONNX's order (batch, channels, then spatial dimensions; matrices by rows). Numbers have
//! fixed widths, because problems are parts of keys and records.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use crate::cpu::chain::UnaryOp;

/// A problem of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Problem {
    /// A convolution.
    Conv(ConvProblem),
    /// A matrix product.
    MatMul(MatMulProblem),
}

/// The epilogue: bias, then residual, then activation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Epilogue {
    /// Whether an element for each channel (or column) is added.
    pub bias: bool,
    /// Whether a tensor of the output's shape is added.
    pub residual: bool,
    /// The function of each element.
    pub activation: Option<UnaryOp>,
}

impl Epilogue {
    /// An empty epilogue.
    pub const NONE: Epilogue = Epilogue { bias: false, residual: false, activation: None };

    /// Whether the epilogue is empty.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Epilogue::NONE
    }
}

/// A convolution over one to three spatial dimensions; missing dimensions come first, with size 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ConvProblem {
    /// Images.
    pub batch: u32,
    /// Channels of the input.
    pub channels: u32,
    /// Channels of the output.
    pub filters: u32,
    /// Groups: weights are `[filters, channels / groups, kernel]`, transposed `[channels, filters / groups, kernel]`.
    pub groups: u32,
    /// Size of the input.
    pub input: [u32; 3],
    /// Size of the kernel.
    pub kernel: [u32; 3],
    /// Strides of the window.
    pub strides: [u32; 3],
    /// Dilations of the kernel.
    pub dilations: [u32; 3],
    /// Zeros around the input, the same number before and behind (for a transposed convolution: positions cut off its
    /// output).
    pub pads: [u32; 3],
    /// Size of the output.
    pub output: [u32; 3],
    /// Whether it is a transposed convolution: the gradient, by its input, of the convolution from output to input.
    pub transposed: bool,
    /// The epilogue.
    pub epilogue: Epilogue,
}

impl ConvProblem {
    /// Elements of the input, the weights and the output; `None` where a count overflows.
    #[must_use]
    pub fn extents(&self) -> Option<[u64; 3]> {
        let count =
            |factors: &[u32]| factors.iter().try_fold(1u64, |product, &factor| product.checked_mul(u64::from(factor)));
        let [id, ih, iw] = self.input;
        let [kd, kh, kw] = self.kernel;
        let [od, oh, ow] = self.output;
        let (outer, inner) =
            if self.transposed { (self.channels, self.filters) } else { (self.filters, self.channels) };
        Some([
            count(&[self.batch, self.channels, id, ih, iw])?,
            count(&[outer, inner.checked_div(self.groups)?, kd, kh, kw])?,
            count(&[self.batch, self.filters, od, oh, ow])?,
        ])
    }
}

/// `batch` products of `[m, k]` by `[k, n]` matrices; either may be stored transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct MatMulProblem {
    /// Products.
    pub batch: u32,
    /// Rows of the product.
    pub m: u32,
    /// Columns of the product.
    pub n: u32,
    /// Length of the reduction.
    pub k: u32,
    /// Whether the left matrix is stored as `[k, m]`.
    pub trans_left: bool,
    /// Whether the right matrix is stored as `[n, k]`.
    pub trans_right: bool,
    /// Whether all products share the left matrix.
    pub one_left: bool,
    /// Whether all products share the right matrix.
    pub one_right: bool,
    /// The factor of the product, by its bits.
    pub scale: u32,
    /// The epilogue.
    pub epilogue: Epilogue,
}

impl MatMulProblem {
    /// Elements of the left matrix, the right one and the product; `None` where a count overflows.
    #[must_use]
    pub fn extents(&self) -> Option<[u64; 3]> {
        let count =
            |factors: &[u32]| factors.iter().try_fold(1u64, |product, &factor| product.checked_mul(u64::from(factor)));
        let of = |one: bool| if one { 1 } else { self.batch };
        Some([
            count(&[of(self.one_left), self.m, self.k])?,
            count(&[of(self.one_right), self.k, self.n])?,
            count(&[self.batch, self.m, self.n])?,
        ])
    }
}

impl Problem {
    /// The epilogue.
    #[must_use]
    pub fn epilogue(&self) -> Epilogue {
        match self {
            Problem::Conv(conv) => conv.epilogue,
            Problem::MatMul(matmul) => matmul.epilogue,
        }
    }

    /// Elements of the left operand, the right one and the output; `None` where a count overflows.
    #[must_use]
    pub fn extents(&self) -> Option<[u64; 3]> {
        match self {
            Problem::Conv(conv) => conv.extents(),
            Problem::MatMul(matmul) => matmul.extents(),
        }
    }

    /// Elements of the bias, where there is one.
    #[must_use]
    pub fn columns(&self) -> u64 {
        match self {
            Problem::Conv(conv) => u64::from(conv.filters),
            Problem::MatMul(matmul) => u64::from(matmul.n),
        }
    }
}
