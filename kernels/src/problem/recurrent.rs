//! The description of a recurrent layer: cell, directions, sizes and strides. Computes nothing.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::description::sizes;
use super::elements::Elements;
use super::functions::{Bits, UnaryOp};

/// A function of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Activation {
    /// One of the element-wise functions.
    Unary(UnaryOp),
    /// alpha x + beta
    Affine {
        /// Slope.
        alpha: Bits,
        /// Offset.
        beta: Bits,
    },
    /// alpha tanh(beta x)
    ScaledTanh {
        /// Factor of the result.
        alpha: Bits,
        /// Factor of the argument.
        beta: Bits,
    },
}

/// The kind of a cell. Gates are stored in ONNX's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Cell {
    /// Gates i, o, f, c.
    Lstm {
        /// Whether the forget gate is one minus the input gate.
        input_forget: bool,
        /// Whether gates i, o and f also see the cell's state.
        peepholes: bool,
    },
    /// Gates z, r, h.
    Gru {
        /// Whether the reset gate acts on the recurrent product instead of on the state before it.
        linear_before_reset: bool,
    },
    /// One gate.
    Rnn,
}

impl Cell {
    /// Gates of the cell.
    #[must_use]
    pub fn gates(self) -> usize {
        match self {
            Cell::Lstm { .. } => 4,
            Cell::Gru { .. } => 3,
            Cell::Rnn => 1,
        }
    }

    /// Whether it has a state besides its output.
    #[must_use]
    pub fn has_memory(self) -> bool {
        matches!(self, Cell::Lstm { .. })
    }
}

/// One direction of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct Direction {
    /// Whether it runs from the last step to the first.
    pub reverse: bool,
    /// ONNX's f, g and h; cells with fewer functions use the first ones.
    pub activations: [Activation; 3],
}

/// A recurrent layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct RecurrentShape {
    /// The cell.
    pub cell: Cell,
    /// Bound of the arguments of activations, if there is one.
    pub clip: Option<Bits>,
    /// One or two.
    pub directions: SmallVec<[Direction; 2]>,
    /// Steps in time.
    pub steps: u64,
    /// Sequences.
    pub batch: u64,
    /// Features of a step.
    pub input: u64,
    /// Features of the output.
    pub hidden: u64,
    /// Whether the batch is the outermost axis of every operand (ONNX's layout 1).
    pub batch_first: bool,
    /// How weights are packed. Gates, states and sums of products are `f32`. AMX and bf16 pairs also round the left
    /// operand of a product of several rows.
    pub elements: Elements,
}

sizes!(RecurrentShape { steps: usize, batch: usize, input: usize, hidden: usize });

impl RecurrentShape {
    /// Whether no product of sizes can overflow. Keys from a record must be checked for this.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let directions = self.directions.len();
        let largest = |factors: &[usize]| {
            factors.iter().try_fold(8usize, |product, &factor| product.checked_mul(factor.max(1))).is_some_and(
                // Four gates and rounding to whole panels stay below the limit.
                |bytes| bytes < 1 << 56,
            )
        };
        let gates = self.cell.gates();
        (1..=2).contains(&directions)
            && largest(&[self.steps(), self.batch(), self.input()])
            && largest(&[self.steps(), self.batch(), directions, gates, self.hidden()])
            && largest(&[directions, gates, self.hidden(), self.input().max(self.hidden())])
    }

    /// Columns of the gates of one direction, side by side.
    #[must_use]
    pub fn gate_columns(&self) -> usize {
        self.cell.gates() * self.hidden()
    }

    /// The row of `x`, and of its products, for a step of a sequence.
    #[must_use]
    pub fn row(&self, step: usize, sequence: usize) -> usize {
        if self.batch_first { sequence * self.steps() + step } else { step * self.batch() + sequence }
    }

    /// The first element of `y` of a step of a sequence.
    #[must_use]
    pub fn y(&self, step: usize, direction: usize, sequence: usize) -> usize {
        let directions = self.directions.len();
        let row = if self.batch_first {
            (sequence * self.steps() + step) * directions + direction
        } else {
            (step * directions + direction) * self.batch() + sequence
        };
        row * self.hidden()
    }

    /// The first element of a state of a sequence.
    #[must_use]
    pub fn state(&self, direction: usize, sequence: usize) -> usize {
        let row = if self.batch_first {
            sequence * self.directions.len() + direction
        } else {
            direction * self.batch() + sequence
        };
        row * self.hidden()
    }

    /// Elements of a state.
    #[must_use]
    pub fn states(&self) -> usize {
        self.directions.len() * self.batch() * self.hidden()
    }

    /// Elements of `x`.
    #[must_use]
    pub fn xs(&self) -> usize {
        self.steps() * self.batch() * self.input()
    }

    /// Elements of `y`.
    #[must_use]
    pub fn ys(&self) -> usize {
        self.steps() * self.states()
    }
}

/// The outputs. All outputs are written, whether the model uses them or not.
#[derive(Debug)]
pub struct Outputs<'a> {
    /// The output of each step.
    pub y: &'a mut [f32],
    /// The last output of each sequence.
    pub h: &'a mut [f32],
    /// The last state of each sequence; empty for cells without one.
    pub c: &'a mut [f32],
}
