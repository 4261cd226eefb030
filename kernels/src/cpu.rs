//! The CPU kernel families, and the one key type over all their code.
//!
//! A family is a file (or a folder) with three things: *code keys* (only facts that determine the instructions), an
//! *emitter* `fn(&FamilyCode, &mut Asm) -> Result<()>`, and a *driver* that splits a problem into calls of the emitted
//! code, or hands it to the reference where the level is [`Isa::Portable`].

pub mod activation;
pub mod amx;
pub mod attention;
pub mod blend;
pub mod blockwise;
#[cfg(test)]
pub(crate) mod canaries;
pub mod chain;
mod code_parts;
pub mod conv;
pub mod double;
pub(crate) mod epilogue;
pub mod extreme;
pub mod gemm;
pub mod halves;
pub mod linear;
pub mod linear_attention;
pub(crate) mod loops;
pub mod machine;
mod multiversion;
pub mod norm;
pub mod numerics;
pub mod packed;
pub mod peak;
pub mod pool;
pub mod precision;
pub mod quantized;
pub mod recurrent;
pub mod reduce;
pub mod regions;
pub mod rotary;
pub(crate) mod rounding;
pub mod running;
pub mod softmax;
pub mod stored;
pub mod stream;
pub mod transpose;
pub mod truncate;
pub(crate) mod turned;
pub mod vecmath;
pub mod whole;

pub use crate::problem::elements::{Elements, Stored};
pub(crate) use code_parts::Emitted;
pub use code_parts::{CodeParts, CodeSource, EmitEach, MOST_PARTS, Ordered, PartSet};
pub use numerics::{Numerics, NumericsError};
pub use packed::{PackedElement, PackedWeights, PackedWeightsMut};
pub use precision::{Precision, PrecisionError};
pub use stored::{Activations, ActivationsMut};

use kiln_key::Key;
use serde::{Deserialize, Serialize};

use crate::error::{KernelError, Result};
use crate::isa::{Extension, Isa};
use crate::jit::{Asm, Code};

/// The stated value, or else a default.
macro_rules! stated {
    ($default:expr,) => {
        $default
    };
    ($default:expr, $stated:expr) => {
        $stated
    };
}

/// The kinds of code, a row each: the facts that determine it, including its level; its family; the extension that it
/// needs besides the level (none unless stated); its number of parts (one unless stated); and the emitter of a part.
macro_rules! kinds {
    ($(
        $(#[$doc:meta])*
        $kind:ident($code:ty) of $family:expr,
        $(extension $extension:expr,)?
        $(parts $parts:expr,)?
        emit $emit:expr;
    )*) => {
        /// Everything that determines the bytes of one emitted kernel. Shapes are not in it: they are run-time
        /// arguments.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
        #[key(family = "code", value = CodeParts)]
        pub enum CodeKey {
            $($(#[$doc])* $kind($code),)*
        }

        impl CodeKey {
            /// The level whose instructions the code uses.
            #[must_use]
            pub fn isa(&self) -> Isa {
                match self {
                    $(CodeKey::$kind(code) => code.isa,)*
                }
            }

            /// The family, as it appears in verbose lines and symbol names.
            #[must_use]
            pub fn family(&self) -> &'static str {
                match self {
                    $(CodeKey::$kind(_) => $family,)*
                }
            }

            /// The extension that the code needs besides its level.
            #[must_use]
            pub fn extension(&self) -> Option<Extension> {
                match self {
                    $(CodeKey::$kind(code) => {
                        let extension: fn(&$code) -> Option<Extension> = stated!(|_| None, $($extension)?);
                        extension(code)
                    })*
                }
            }

            /// The number of parts of its code: one for most, for a tile one for each number of rows.
            #[must_use]
            pub fn parts(&self) -> usize {
                match self {
                    $(CodeKey::$kind(code) => {
                        let parts: fn(&$code) -> usize = stated!(|_| 1, $($parts)?);
                        parts(code)
                    })*
                }
            }

            fn emit_part(&self, part: usize, asm: &mut Asm) -> Result<()> {
                match self {
                    $(CodeKey::$kind(code) => {
                        let emit: fn(&$code, usize, &mut Asm) -> Result<()> = $emit;
                        emit(code, part, asm)
                    })*
                }
            }
        }
    };
}

kinds! {
    /// The steps of attention between its two products, and packing for them.
    Attention(attention::AttentionCode) of attention::FAMILY,
        extension |code| code.form.makes_pairs().then_some(Extension::Bf16),
        emit |code, _, asm| { attention::emit::emit(code, asm); Ok(()) };
    /// Weighted sums of rows of channels.
    Blend(blend::BlendCode) of blend::FAMILY,
        emit |code, _, asm| { blend::emit::emit(code, asm); Ok(()) };
    /// A product of one row by block-quantised weights.
    BlockRow(blockwise::BlockRowCode) of blockwise::FAMILY,
        emit |code, _, asm| code.emit(asm);
    /// A product of rows of bytes by block-quantised weights.
    BlockDot(blockwise::BlockDotCode) of blockwise::FAMILY,
        extension |code| code.products.extension(code.isa),
        emit |code, _, asm| code.emit(asm);
    /// Blocks of quantised weights as numbers.
    BlockExpand(blockwise::BlockExpandCode) of blockwise::FAMILY,
        extension |code| code.numbers.extension(),
        emit |code, _, asm| code.emit(asm);
    /// An element-wise chain.
    Chain(chain::ChainCode) of "chain",
        emit |code, _, asm| chain::emit::emit(code, asm);
    /// Places of the greatest or least elements of lines.
    Extreme(extreme::ExtremeCode) of extreme::FAMILY,
        emit |code, _, asm| { extreme::emit::emit(code, asm); Ok(()) };
    /// Pooling.
    Pool(pool::PoolCode) of "pool",
        extension |code| code.stored.extension(),
        emit |code, _, asm| { pool::emit::emit(code, asm); Ok(()) };
    /// The micro-kernel of a quantised product.
    Quantized(quantized::QuantizedCode) of quantized::FAMILY,
        extension |code| (code.form == quantized::Form::Bytes).then_some(Extension::Vnni),
        emit |code, _, asm| code.emit(asm);
    /// The micro-kernel of quantised depthwise windows over lines of bytes.
    QuantizedLines(quantized::LinesCode) of quantized::lines::FAMILY,
        extension |_| Some(Extension::Vnni),
        emit |code, _, asm| code.emit(asm);
    /// The epilogue of quantised products on AMX.
    QuantizedEpilogue(quantized::QuantizedEpilogueCode) of quantized::amx::FAMILY,
        emit |code, _, asm| code.emit(asm);
    /// Look-ups of bytes in a table.
    Lookup(quantized::lookup::LookupCode) of quantized::lookup::FAMILY,
        extension |code| code.form.extension(),
        emit |code, _, asm| { code.emit(asm); Ok(()) };
    /// The gates of a recurrent cell.
    Gates(recurrent::GateCode) of "recurrent",
        emit |code, _, asm| recurrent::emit::emit(code, asm);
    /// A pass of a reduction.
    Reduce(reduce::ReduceCode) of reduce::FAMILY,
        emit |code, _, asm| reduce::emit::emit(code, asm);
    /// Rows normalised by their moments.
    RowNorm(norm::RowNormCode) of norm::FAMILY,
        emit |code, _, asm| { norm::emit::emit(code, asm); Ok(()) };
    /// Rotations of heads by the angles of their positions.
    Rotary(rotary::RotaryCode) of rotary::FAMILY,
        emit |code, _, asm| { rotary::emit::emit(code, asm); Ok(()) };
    /// Softmax and its relatives.
    Softmax(softmax::SoftmaxCode) of softmax::FAMILY,
        emit |code, _, asm| { softmax::emit::emit(code, asm); Ok(()) };
    /// A walk of a head's state along positions.
    State(linear_attention::StateCode) of linear_attention::FAMILY,
        emit |code, _, asm| { linear_attention::emit::emit(code, asm); Ok(()) };
    /// One row by the rows of a matrix.
    Stream(stream::StreamCode) of stream::FAMILY,
        emit |code, _, asm| { stream::emit(code, asm); Ok(()) };
    /// Transposition.
    Transpose(transpose::TransposeCode) of "transpose",
        emit |code, _, asm| transpose::emit::emit(code, asm);
    /// The AMX micro-kernel.
    Multiply(amx::MultiplyCode) of amx::FAMILY,
        extension |_| Some(Extension::Amx),
        parts |_| amx::TALLEST,
        emit |code, part, asm| code.emit(part + 1, asm);
    /// The epilogue of `f32` sums of AMX: scale, bias, residual, activation.
    Epilogue(amx::EpilogueCode) of amx::EPILOGUE,
        extension |code| code.output.extension(),
        emit |code, _, asm| code.emit(asm);
    /// Conversion of rows from `f32` to bf16 pairs.
    Bf16Convert(gemm::Bf16ConvertCode) of gemm::convert::FAMILY,
        extension |_| Some(Extension::Bf16),
        emit |code, _, asm| { code.emit(asm); Ok(()) };
    /// Widening of `f16` to `f32`.
    Widen(gemm::WidenCode) of gemm::widen::FAMILY,
        emit |code, _, asm| { code.emit(asm); Ok(()) };
    /// A product with a single left-hand row.
    Row(gemm::RowCode) of gemm::row::FAMILY,
        emit |code, _, asm| code.emit(asm);
    /// The micro-kernel of matrix products and dense convolutions.
    Tile(gemm::TileCode) of gemm::tile::FAMILY,
        extension |code| code.extension(),
        parts |code| gemm::most_rows(code.isa, usize::from(code.vectors)),
        emit |code, part, asm| code.emit(part + 1, asm);
    /// Part of an output line of a depthwise convolution.
    Depthwise(conv::DepthwiseCode) of conv::depthwise::FAMILY,
        extension |code| code.stored.extension(),
        emit |code, _, asm| code.emit(asm);
    /// A block of one or two output lines of a depthwise convolution.
    Slide(conv::SlideCode) of conv::depthwise::FAMILY,
        extension |code| code.stored.extension(),
        emit |code, _, asm| code.emit(asm);
    /// A transform of a Winograd convolution.
    Winograd(conv::WinogradCode) of conv::winograd::FAMILY,
        extension |code| code.extension(),
        parts |_| conv::WinogradCode::PARTS,
        emit |code, part, asm| code.emit(part, asm);
}

impl CodeKey {
    /// Assembles a part of the kernel: the bytes alone, the same for equal keys.
    ///
    /// # Errors
    ///
    /// For a part that the code does not have, or that the emitter cannot make.
    pub fn assemble(&self, part: usize) -> Result<Vec<u8>> {
        let mut asm = Asm::new(self.isa())?;
        if part > 0 && part >= self.parts() {
            let reason = format!("part {part} of {}", self.parts());
            return Err(KernelError::Assembly { family: self.family(), reason });
        }
        self.emit_part(part, &mut asm)?;
        asm.finish(self.family())
    }

    /// Assembles a part of the kernel and seals it into executable memory.
    ///
    /// # Errors
    ///
    /// As [`CodeKey::assemble`], and where the system gives no such memory.
    pub fn emit(&self, part: usize) -> Result<Code> {
        let bytes = self.assemble(part)?;
        match self.extension() {
            Some(extension) => Code::seal_extended(self.isa(), extension, self.family(), &bytes),
            None => Code::seal(self.isa(), self.family(), &bytes),
        }
    }
}
