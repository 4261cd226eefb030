//! How a convolution is computed and its work is cut, and the types of its activations.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

use super::weights::WeightLayout;
use super::winograd::WinogradTile;
use crate::cpu::{Elements, Stored};
use crate::isa::Isa;
use crate::problem::description::sizes;

/// How a convolution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Strategy {
    /// As a matrix product over the input in place.
    Pointwise,
    /// Through indirection tables of pointers into the input.
    Direct,
    /// On copied lines, a whole line of the window at a time.
    Lines,
    /// Channel by channel.
    Depthwise,
    /// By Winograd, with tiles of that size.
    Winograd(WinogradTile),
    /// In `bf16` on AMX, over a copy of the input (im2col where channels are few).
    Amx,
}

/// Strategy and block sizes: a builder's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConvBlocks {
    /// The strategy.
    pub strategy: Strategy,
    /// The elements of weights: on AMX `Bf16Tiles`. Where weights are `Bf16Dot`, `Pointwise` and `Direct` multiply the
    /// pairs themselves, and `Winograd` widens them. All three widen `F16`. Every other strategy has `F32`.
    pub elements: Elements,
    /// Vectors that a tile is wide; 1 for depthwise.
    pub vectors: u8,
    /// Tiles of rows that share an indirection table; for lines, output lines whose inputs are copied at a time; for
    /// depthwise, lines of a task; for Winograd, transformed tiles of a group; on AMX, output lines of a band.
    pub row_block: u32,
    /// Parts that each phase's rows are split into for threads.
    pub row_tasks: u32,
    /// Parts that the columns of all groups, counted in panels, are split into.
    pub unit_tasks: u32,
}

sizes!(ConvBlocks { vectors: usize, row_block: usize, row_tasks: usize, unit_tasks: usize });

impl ConvBlocks {
    /// How weights have to be packed for these blocks.
    #[must_use]
    pub fn layout(&self) -> WeightLayout {
        let vectors = self.vectors();
        match self.strategy {
            Strategy::Depthwise => WeightLayout::Rows,
            Strategy::Amx => WeightLayout::Amx,
            Strategy::Pointwise | Strategy::Direct | Strategy::Lines | Strategy::Winograd(_) => match self.elements {
                Elements::Bf16Dot => WeightLayout::Pairs { vectors },
                Elements::F16 => WeightLayout::Halves { vectors },
                Elements::F32 | Elements::Bf16 | Elements::Bf16Tiles => WeightLayout::Panels { vectors },
            },
        }
    }
}

/// Types of a convolution's activations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ConvStored {
    /// The input.
    pub input: Stored,
    /// The residual, where there is one.
    pub residual: Stored,
    /// The output.
    pub output: Stored,
}

impl ConvStored {
    /// Whether a strategy with weights of these elements takes these types at that level. Every strategy takes `f32`.
    /// AMX, transforms and tiles that multiply pairs take any type. Tiles of `f32` read `f32`, and add and write any
    /// type. Depthwise kernels write the type that they read, and add no residual to `bf16`.
    #[must_use]
    pub fn suits(&self, strategy: Strategy, elements: Elements, isa: Isa) -> bool {
        let wide = isa == Isa::Avx512;
        *self == ConvStored::default()
            || match strategy {
                Strategy::Amx => true,
                Strategy::Winograd(_) => wide,
                Strategy::Pointwise | Strategy::Direct | Strategy::Lines => {
                    wide && (elements == Elements::Bf16Dot || self.input == Stored::F32)
                }
                Strategy::Depthwise => wide && self.input == self.output && self.residual == Stored::F32,
            }
    }
}
