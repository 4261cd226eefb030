//! What a recurrent layer is: its cell, its directions, its sizes, and where everything lies. Computes nothing.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::cpu::Elements;
use crate::cpu::chain::{Bits, UnaryOp};
use crate::cpu::description::sizes;

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
    /// Whether it goes from the last step to the first.
    pub reverse: bool,
    /// ONNX's f, g and h; cells with fewer functions use the first ones.
    pub activations: [Activation; 3],
}

/// A recurrent layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct RecurrentShape {
    /// The cell.
    pub cell: Cell,
    /// Bound of what goes into activations, if there is one.
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
    /// Whether sequences are the outermost axis everywhere (ONNX's layout 1).
    pub batch_first: bool,
    /// What weights consist of. Gates, states and what products add up to are `f32`; AMX and pairs round what
    /// goes into a product of several rows as well.
    pub elements: Elements,
}

sizes!(RecurrentShape { steps: usize, batch: usize, input: usize, hidden: usize });

impl RecurrentShape {
    /// Whether all sizes can be counted, with room to spare: what keys that come from a file have to prove.
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

    /// Columns of a direction's gates, all of them side by side.
    #[must_use]
    pub fn gate_columns(&self) -> usize {
        self.cell.gates() * self.hidden()
    }

    /// The row of `x` (and of everything computed row by row from it) that holds a step of a sequence.
    #[must_use]
    pub fn row(&self, step: usize, sequence: usize) -> usize {
        if self.batch_first { sequence * self.steps() + step } else { step * self.batch() + sequence }
    }

    /// Where a step of a sequence starts in `y`.
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

    /// Where a sequence starts in a state.
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

/// What is written: outputs that are not wanted are still given.
#[derive(Debug)]
pub struct Outputs<'a> {
    /// Every step.
    pub y: &'a mut [f32],
    /// The last output of each sequence.
    pub h: &'a mut [f32],
    /// The last state of each sequence; empty for cells without one.
    pub c: &'a mut [f32],
}
