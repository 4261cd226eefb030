//! The CPU kernel families, and the one key type over all their code.
//!
//! A family is a file (or a folder) with three things: *code keys* (what shapes the instructions and nothing else),
//! an *emitter* `fn(&FamilyCode, &mut Asm) -> Result<()>`, and a *driver* that splits a problem into calls of the
//! emitted code, or hands it to the reference where the level is [`Isa::Portable`].

pub mod activation;
pub mod amx;
pub mod attention;
pub mod chain;
pub mod conv;
#[cfg(test)]
pub(crate) mod fence;
pub mod gemm;
mod kit;
pub mod norm;
pub mod numerics;
pub mod packed;
pub mod pool;
pub mod precision;
pub mod quantized;
pub mod recurrent;
pub mod reduce;
pub mod softmax;
pub mod stored;
pub(crate) mod sweep;
pub mod transpose;
mod twice;
pub mod vecmath;

pub(crate) use kit::Emitted;
pub use kit::{CodeSource, EmitEach, Kit, MOST_PARTS, Parts};
pub use numerics::{Numerics, NumericsError};
pub use packed::{PackedWeights, PackedWeightsMut};
pub use precision::{Elements, Precision, PrecisionError};
pub use stored::{Activations, ActivationsMut, Stored};

use kiln_key::Key;
use serde::{Deserialize, Serialize};

use crate::error::{KernelError, Result};
use crate::isa::{Extension, Isa};
use crate::jit::{Asm, Code};

/// Everything that determines the bytes of one emitted kernel. Shapes are not in it: they are run-time arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "code", value = Kit)]
pub enum CodeKey {
    /// The steps of attention between its two products, and packing for them.
    Attention(attention::AttentionCode),
    /// An element-wise chain.
    Chain(chain::ChainCode),
    /// Pooling.
    Pool(pool::PoolCode),
    /// The micro-kernel of a quantised product.
    Quantized(quantized::QuantizedCode),
    /// The epilogue of quantised products on AMX.
    QuantizedEpilogue(quantized::QuantizedEpilogueCode),
    /// The gates of a recurrent cell.
    Gates(recurrent::GateCode),
    /// A pass of a reduction.
    Reduce(reduce::ReduceCode),
    /// Rows normalised by their moments.
    RowNorm(norm::RowNormCode),
    /// Softmax and its relatives.
    Softmax(softmax::SoftmaxCode),
    /// Transposition.
    Transpose(transpose::TransposeCode),
    /// The AMX micro-kernel.
    Multiply(amx::MultiplyCode),
    /// The epilogue of `f32` sums of AMX: scale, bias, residual, activation.
    Epilogue(amx::EpilogueCode),
    /// Conversion of rows from `f32` to bf16 pairs.
    Bf16Convert(gemm::Bf16ConvertCode),
    /// A product with a single left-hand row.
    Row(gemm::RowCode),
    /// The micro-kernel of matrix products and dense convolutions.
    Tile(gemm::TileCode),
    /// Part of an output line of a depthwise convolution.
    Depthwise(conv::DepthwiseCode),
    /// A block of one or two output lines of a depthwise convolution.
    Slide(conv::SlideCode),
    /// A transform of a Winograd convolution.
    Winograd(conv::WinogradCode),
}

impl CodeKey {
    /// The level whose instructions the code uses.
    #[must_use]
    pub fn isa(&self) -> Isa {
        match self {
            CodeKey::Attention(code) => code.isa,
            CodeKey::Chain(code) => code.isa,
            CodeKey::Pool(code) => code.isa,
            CodeKey::Quantized(code) => code.isa,
            CodeKey::QuantizedEpilogue(code) => code.isa,
            CodeKey::Gates(code) => code.isa,
            CodeKey::Reduce(code) => code.isa,
            CodeKey::RowNorm(code) => code.isa,
            CodeKey::Softmax(code) => code.isa,
            CodeKey::Transpose(code) => code.isa,
            CodeKey::Multiply(code) => code.isa,
            CodeKey::Epilogue(code) => code.isa,
            CodeKey::Bf16Convert(code) => code.isa,
            CodeKey::Row(code) => code.isa,
            CodeKey::Tile(key) => key.isa,
            CodeKey::Depthwise(key) => key.isa,
            CodeKey::Slide(key) => key.isa,
            CodeKey::Winograd(key) => key.isa,
        }
    }

    /// The family, as it appears in verbose lines and symbol names.
    #[must_use]
    pub fn family(&self) -> &'static str {
        match self {
            CodeKey::Attention(_) => attention::FAMILY,
            CodeKey::Chain(_) => "chain",
            CodeKey::Pool(_) => "pool",
            CodeKey::Quantized(_) => quantized::FAMILY,
            CodeKey::QuantizedEpilogue(_) => quantized::amx::FAMILY,
            CodeKey::Gates(_) => "recurrent",
            CodeKey::Reduce(_) => reduce::FAMILY,
            CodeKey::RowNorm(_) => norm::FAMILY,
            CodeKey::Softmax(_) => softmax::FAMILY,
            CodeKey::Transpose(_) => "transpose",
            CodeKey::Multiply(_) => amx::FAMILY,
            CodeKey::Epilogue(_) => amx::EPILOGUE,
            CodeKey::Bf16Convert(_) => gemm::convert::FAMILY,
            CodeKey::Row(_) => gemm::row::FAMILY,
            CodeKey::Tile(_) => gemm::tile::FAMILY,
            CodeKey::Depthwise(_) | CodeKey::Slide(_) => conv::depthwise::FAMILY,
            CodeKey::Winograd(_) => conv::winograd::FAMILY,
        }
    }

    /// The extension that the code needs besides its level.
    #[must_use]
    pub fn extension(&self) -> Option<Extension> {
        match self {
            CodeKey::Multiply(_) => Some(Extension::Amx),
            CodeKey::Bf16Convert(_) => Some(Extension::Bf16),
            CodeKey::Epilogue(code) if code.output == Stored::Bf16 => Some(Extension::Bf16),
            CodeKey::Pool(code) if code.stored == Stored::Bf16 => Some(Extension::Bf16),
            CodeKey::Depthwise(code) if code.stored == Stored::Bf16 => Some(Extension::Bf16),
            CodeKey::Slide(code) if code.stored == Stored::Bf16 => Some(Extension::Bf16),
            CodeKey::Attention(code) if code.form.makes_pairs() => Some(Extension::Bf16),
            CodeKey::Tile(key) => key.right.extension(),
            CodeKey::Quantized(code) if code.form == quantized::Form::Bytes => Some(Extension::Vnni),
            _ => None,
        }
    }

    /// How many parts its code has: most have one, a tile one for each number of rows.
    #[must_use]
    pub fn parts(&self) -> usize {
        match self {
            CodeKey::Tile(key) => gemm::most_rows(key.isa, usize::from(key.vectors)),
            CodeKey::Winograd(_) => conv::WinogradCode::PARTS,
            CodeKey::Multiply(_) => amx::TALLEST,
            _ => 1,
        }
    }

    /// Assembles a part of the kernel: the bytes alone, the same for equal keys.
    pub fn assemble(&self, part: usize) -> Result<Vec<u8>> {
        let mut asm = Asm::new(self.isa())?;
        if part > 0 && part >= self.parts() {
            let reason = format!("part {part} of {}", self.parts());
            return Err(KernelError::Assembly { family: self.family(), reason });
        }
        match self {
            CodeKey::Attention(code) => attention::emit::emit(code, &mut asm),
            CodeKey::Chain(code) => chain::emit::emit(code, &mut asm)?,
            CodeKey::Pool(code) => pool::emit::emit(code, &mut asm),
            CodeKey::Quantized(code) => code.emit(&mut asm)?,
            CodeKey::QuantizedEpilogue(code) => code.emit(&mut asm)?,
            CodeKey::Gates(code) => recurrent::emit::emit(code, &mut asm)?,
            CodeKey::Reduce(code) => reduce::emit::emit(code, &mut asm)?,
            CodeKey::RowNorm(code) => norm::emit::emit(code, &mut asm),
            CodeKey::Softmax(code) => softmax::emit::emit(code, &mut asm),
            CodeKey::Transpose(code) => transpose::emit::emit(code, &mut asm)?,
            CodeKey::Multiply(code) => code.emit(part + 1, &mut asm)?,
            CodeKey::Epilogue(code) => code.emit(&mut asm)?,
            CodeKey::Bf16Convert(code) => code.emit(&mut asm),
            CodeKey::Row(code) => code.emit(&mut asm)?,
            CodeKey::Tile(key) => key.emit(part + 1, &mut asm)?,
            CodeKey::Depthwise(key) => key.emit(&mut asm)?,
            CodeKey::Slide(key) => key.emit(&mut asm)?,
            CodeKey::Winograd(key) => key.emit(part, &mut asm)?,
        }
        asm.finish(self.family())
    }

    /// Assembles a part of the kernel and seals it into executable memory.
    pub fn emit(&self, part: usize) -> Result<Code> {
        let bytes = self.assemble(part)?;
        match self.extension() {
            Some(extension) => Code::seal_extended(self.isa(), extension, self.family(), &bytes),
            None => Code::seal(self.isa(), self.family(), &bytes),
        }
    }
}
