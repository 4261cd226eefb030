//! Convolution executors: the key is the sizes, the layout of the packed weights, and what is fused; the choice is the
//! strategy and how the work is cut. The convolving is done by [`kiln_kernels::cpu::conv`].

use kiln_kernels::cpu::chain::UnaryOp;
use kiln_kernels::cpu::conv::{Conv, ConvBlocks, ConvShape, Strategy, WeightLayout};
use kiln_kernels::{Isa, Result as KernelResult};
use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::context::BuildCx;
use super::family::Family;
use crate::cache::Key;
use crate::record::Recorded;

crate::key! {
    /// Everything that determines a convolution executor. Spatial sizes are depth, height, width.
    pub struct ConvKey {
        /// Instruction-set level.
        pub isa: Isa,
        /// Threads that work may be split for.
        pub threads: u32,
        /// Images.
        pub batch: u64,
        /// Input channels.
        pub channels: u64,
        /// Output channels.
        pub filters: u64,
        /// Groups.
        pub groups: u64,
        /// Input positions.
        pub input: [u64; 3],
        /// Output positions.
        pub output: [u64; 3],
        /// Kernel positions.
        pub kernel: [u64; 3],
        /// Strides.
        pub strides: [u64; 3],
        /// Dilations.
        pub dilations: [u64; 3],
        /// Padding before the first position.
        pub pads: [u64; 3],
        /// Whether it is the transposed operation.
        pub transposed: bool,
        /// Vectors of a panel of the packed weights; 0 where they are depthwise rows.
        pub panel_vectors: u8,
        /// Applied last.
        pub activation: Option<Activation>,
    }
}

/// How a convolution is done and cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConvChoice {
    /// How it is computed.
    pub strategy: Strategy,
    /// Vectors that a tile is wide.
    pub vectors: u8,
    /// Tiles of rows that share a table.
    pub row_block: u32,
    /// Parts that rows are split into.
    pub row_tasks: u32,
    /// Parts that columns are split into.
    pub unit_tasks: u32,
}

impl ConvKey {
    /// The key of that convolution with weights in that layout.
    #[must_use]
    pub fn new(
        shape: &ConvShape,
        layout: WeightLayout,
        activation: Option<UnaryOp>,
        isa: Isa,
        threads: usize,
    ) -> ConvKey {
        let wide = |sizes: [usize; 3]| sizes.map(|size| size as u64);
        ConvKey {
            isa,
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
            batch: shape.batch as u64,
            channels: shape.channels as u64,
            filters: shape.filters as u64,
            groups: shape.groups as u64,
            input: wide(shape.input),
            output: wide(shape.output),
            kernel: wide(shape.kernel),
            strides: wide(shape.strides),
            dilations: wide(shape.dilations),
            pads: wide(shape.pads),
            transposed: shape.transposed,
            panel_vectors: match layout {
                WeightLayout::Panels { vectors } => vectors as u8,
                WeightLayout::Rows => 0,
            },
            activation: activation.map(Activation),
        }
    }

    fn shape(&self) -> ConvShape {
        let narrow = |sizes: [u64; 3]| sizes.map(|size| size as usize);
        ConvShape {
            batch: self.batch as usize,
            channels: self.channels as usize,
            filters: self.filters as usize,
            groups: self.groups as usize,
            input: narrow(self.input),
            output: narrow(self.output),
            kernel: narrow(self.kernel),
            strides: narrow(self.strides),
            dilations: narrow(self.dilations),
            pads: narrow(self.pads),
            transposed: self.transposed,
        }
    }

    fn layout(&self) -> WeightLayout {
        match self.panel_vectors {
            0 => WeightLayout::Rows,
            vectors => WeightLayout::Panels { vectors: usize::from(vectors) },
        }
    }
}

impl ConvChoice {
    fn blocks(&self) -> ConvBlocks {
        ConvBlocks {
            strategy: self.strategy,
            vectors: usize::from(self.vectors),
            row_block: self.row_block as usize,
            row_tasks: self.row_tasks as usize,
            unit_tasks: self.unit_tasks as usize,
        }
    }
}

impl Key for ConvKey {
    type Value = Conv;
    const FAMILY: &'static str = "conv";
}

impl Recorded for ConvKey {
    const REVISION: u32 = 1;
    type Choice = ConvChoice;
}

impl Family for ConvKey {
    fn choose(&self, _: &BuildCx) -> ConvChoice {
        let blocks = ConvBlocks::pick(self.isa, &self.shape(), self.layout(), self.threads as usize);
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        ConvChoice {
            strategy: blocks.strategy,
            vectors: blocks.vectors as u8,
            row_block: count(blocks.row_block),
            row_tasks: count(blocks.row_tasks),
            unit_tasks: count(blocks.unit_tasks),
        }
    }

    fn fits(&self, cx: &BuildCx) -> bool {
        // Sizes in a record are as untrusted as its choice.
        self.isa == cx.isa && self.threads as usize == cx.threads && self.shape().validate().is_ok()
    }

    fn accepts(&self, choice: &ConvChoice, _: &BuildCx) -> bool {
        choice.blocks().fits(&self.shape(), self.isa, self.layout())
    }

    fn build(&self, choice: &ConvChoice, cx: &BuildCx) -> KernelResult<Conv> {
        Conv::new(
            self.isa,
            self.shape(),
            self.layout(),
            choice.blocks(),
            self.activation.map(|activation| activation.0),
            cx,
        )
    }

    fn weigh(value: &Conv) -> usize {
        value.bytes()
    }
}

#[cfg(test)]
mod tests {
    crate::key_laws! { a_convolution_is_all_of_its_key: super::ConvKey }
}
