//! The code of the transforms: what shapes it, and the Rust version where none is emitted. Knows no convolution, only
//! tiles.

use std::sync::Arc;

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::args::FAMILY;
use super::emit::{self, Epilogue};
use super::filters;
use super::matrices::WinogradTile;
use crate::cpu::activation;
use crate::cpu::chain::UnaryOp;
use crate::cpu::{CodeKey, CodeSource, Stored};
use crate::error::Result;
use crate::isa::{Extension, Isa};
use crate::jit::{Asm, Code};

/// What shapes the instructions of a transform. It has two parts: one for sizes that fill whole vectors (of weights,
/// whole lines), and one for any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct WinogradCode {
    /// Level.
    pub isa: Isa,
    /// Size of the tiles.
    pub tile: WinogradTile,
    /// The transform.
    pub side: WinogradSide,
}

/// The transforms that happen while convolving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum WinogradSide {
    /// Inputs of that type to points.
    Input(Stored),
    /// Weights to the row of points that the call names.
    Filters {
        /// Whether weights are bf16 pairs, which are widened. AVX-512 only.
        pairs: bool,
    },
    /// Products to outputs.
    Output {
        /// Applied before the store.
        activation: Option<UnaryOp>,
        /// Type of the residual, which is added before it.
        residual: Stored,
        /// Type of the output.
        output: Stored,
    },
}

impl WinogradCode {
    /// Its parts.
    pub(crate) const PARTS: usize = 2;

    /// The extension that the code needs besides its level.
    pub(crate) fn extension(&self) -> Option<Extension> {
        match self.side {
            WinogradSide::Input(_) | WinogradSide::Filters { .. } => None,
            WinogradSide::Output { output, .. } => output.extension(),
        }
    }

    /// Assembles one part.
    pub(crate) fn emit(&self, part: usize, asm: &mut Asm) -> Result<()> {
        let rest = part == ANY;
        match self.side {
            WinogradSide::Input(stored) => emit::input(asm, self.tile, stored, rest),
            WinogradSide::Filters { pairs } => filters::emit(asm, self.tile, pairs, rest),
            WinogradSide::Output { activation, residual, output } => {
                activation::check(FAMILY, activation)?;
                emit::output(asm, self.tile, Epilogue { activation, residual, output }, rest);
            }
        }
        Ok(())
    }
}

/// The part for whole vectors.
const WHOLE: usize = 0;
/// The part for any size.
const ANY: usize = 1;

#[derive(Clone, Debug)]
pub(super) enum Kernel {
    Emitted(Arc<Code>),
    Portable,
}

impl Kernel {
    /// The transform of that key, for sizes that are multiples of its vector or line, or for any.
    pub(super) fn new(key: WinogradCode, whole: bool, source: &dyn CodeSource) -> Result<Kernel> {
        let part = if whole { WHOLE } else { ANY };
        match key.isa.is_jit() {
            true => source.part(&CodeKey::Winograd(key), part).map(Kernel::Emitted),
            false => Ok(Kernel::Portable),
        }
    }
}
