//! Executors of recurrent layers, and their weights packed. The key is the form of the layer; the computing is done by
//! [`kiln_kernels::cpu::recurrent`], and the graph is not known here.

use kiln_kernels::cpu::chain::Bits;
use kiln_kernels::cpu::recurrent::{Cell, Direction, DirectionWeights, Recurrent, RecurrentShape};
use kiln_kernels::cpu::{Elements, PackedWeights};
use kiln_kernels::{Isa, Result as KernelResult};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::context::BuildCx;
use super::family::Family;
use super::weights::{self, MatMulWeights};
use crate::cache::Key;
use crate::record::Recorded;

/// Everything that determines an executor of a recurrent layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Key)]
#[key(family = "recurrent", value = Recurrent, laws = crate::record::laws::check)]
pub struct RecurrentKey {
    /// The cell.
    pub cell: Cell,
    /// Bound of what goes into activations.
    pub clip: Option<Bits>,
    /// One or two directions with their functions.
    pub directions: SmallVec<[Direction; 2]>,
    /// Steps in time.
    pub steps: u64,
    /// Sequences.
    pub batch: u64,
    /// Features of a step.
    pub input: u64,
    /// Features of the output.
    pub hidden: u64,
    /// Whether sequences are the outermost axis everywhere.
    pub batch_first: bool,
    /// What weights consist of.
    pub elements: Elements,
    /// Instruction-set level.
    pub isa: Isa,
    /// Threads that work may be split for.
    pub threads: u32,
}

impl RecurrentKey {
    fn shape(&self) -> RecurrentShape {
        RecurrentShape {
            cell: self.cell,
            clip: self.clip,
            directions: self.directions.clone(),
            steps: self.steps as usize,
            batch: self.batch as usize,
            input: self.input as usize,
            hidden: self.hidden as usize,
            batch_first: self.batch_first,
            elements: self.elements,
        }
    }
}

/// What a builder of recurrent layers decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecurrentChoice {
    /// Whether two directions are two tasks; otherwise every step's product is split.
    pub apart: bool,
}

impl Recorded for RecurrentKey {
    const REVISION: u32 = 2;
    type Choice = RecurrentChoice;
}

impl Family for RecurrentKey {
    /// Steps wait for each other, directions do not: two tasks for the whole sequence beat a fork and join per step.
    fn choose(&self, _: &BuildCx) -> RecurrentChoice {
        RecurrentChoice { apart: self.directions.len() == 2 && self.threads > 1 }
    }

    fn fits(&self, cx: &BuildCx) -> bool {
        let here = self.isa == cx.isa && self.threads as usize == cx.threads;
        here && self.elements.suit(self.isa)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.shape().is_valid().then_some(0)
    }

    fn accepts(&self, choice: &RecurrentChoice, _: &BuildCx) -> bool {
        !choice.apart || self.directions.len() == 2
    }

    fn build(&self, choice: &RecurrentChoice, cx: &BuildCx) -> KernelResult<Recurrent> {
        Recurrent::new(self.shape(), self.isa, choice.apart, self.threads as usize, cx)
    }
}

/// Weights as ONNX stores them, all directions: `w [directions, gates x hidden, input]`,
/// `r [directions, gates x hidden, hidden]`, `b [directions, 2 x gates x hidden]`, `p [directions, 3 x hidden]`.
#[derive(Clone, Copy, Debug)]
pub struct PlainWeights<'a> {
    /// Of the input.
    pub w: &'a [f32],
    /// Of the recurrence.
    pub r: &'a [f32],
    /// Biases: of the input, then of the recurrence.
    pub b: Option<&'a [f32]>,
    /// Peepholes of gates i, o and f.
    pub p: Option<&'a [f32]>,
}

/// The weights of one direction, packed.
#[derive(Clone, Debug)]
pub struct PackedDirection {
    input: MatMulWeights,
    recurrent: MatMulWeights,
    /// Gate h of a GRU that resets before its product.
    faded: Option<MatMulWeights>,
    bias: Vec<f32>,
    reset_bias: Vec<f32>,
    peepholes: Vec<f32>,
}

impl PackedDirection {
    /// As the kernels read them.
    #[must_use]
    pub fn view(&self) -> DirectionWeights<'_> {
        DirectionWeights {
            input: self.input.view(),
            recurrent: self.recurrent.view(),
            faded: self.faded.as_ref().map_or(PackedWeights::F32(&[]), MatMulWeights::view),
            bias: &self.bias,
            reset_bias: &self.reset_bias,
            peepholes: &self.peepholes,
        }
    }
}

/// Packs the weights of every direction as products of `elements` read them. The slices hold what [`PlainWeights`] says for
/// these sizes.
///
/// # Errors
///
/// Where they hold less.
pub fn pack(
    isa: Isa,
    elements: Elements,
    cell: Cell,
    [directions, input, hidden]: [usize; 3],
    plain: &PlainWeights<'_>,
) -> KernelResult<Vec<PackedDirection>> {
    let columns = cell.gates() * hidden;
    let packed = |plain: &[f32], rows: usize, columns: usize| {
        weights::matmul(isa, elements, plain, [1, rows, columns], true, 1.0)
    };
    let part = |all: &'_ [f32], direction: usize, len: usize| -> Vec<f32> {
        all.iter().skip(direction * len).take(len).copied().collect()
    };
    (0..directions)
        .map(|direction| {
            let w = part(plain.w, direction, columns * input);
            let r = part(plain.r, direction, columns * hidden);
            let both = plain.b.map_or(vec![0.0; 2 * columns], |b| part(b, direction, 2 * columns));
            let mut bias: Vec<f32> = both.iter().zip(&both[columns.min(both.len())..]).map(|(w, r)| w + r).collect();
            let mut reset_bias = Vec::new();
            // Before its product, a reset acts on the output alone, so gate h gets a product of its own; after it, the
            // reset acts on the recurrent bias too, which therefore stays apart.
            let (product, faded) = match cell {
                Cell::Gru { linear_before_reset: false } => {
                    let (two, last) = r.split_at((2 * hidden * hidden).min(r.len()));
                    (packed(two, hidden, 2 * hidden)?, Some(packed(last, hidden, hidden)?))
                }
                Cell::Gru { linear_before_reset: true } => {
                    bias[2 * hidden..].copy_from_slice(&both[2 * hidden..columns]);
                    reset_bias.extend_from_slice(&both[columns + 2 * hidden..]);
                    (packed(&r, hidden, columns)?, None)
                }
                Cell::Lstm { .. } | Cell::Rnn => (packed(&r, hidden, columns)?, None),
            };
            Ok(PackedDirection {
                input: packed(&w, input, columns)?,
                recurrent: product,
                faded,
                bias,
                reset_bias,
                peepholes: plain.p.map_or(Vec::new(), |p| part(p, direction, 3 * hidden)),
            })
        })
        .collect()
}
