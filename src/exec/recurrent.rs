//! Executors of recurrent layers, and their weights packed. The problem is the form of the layer; the computing is done
//! by [`kiln_kernels::cpu::recurrent`], and the graph is not known here.

use kiln_kernels::cpu::recurrent::{Cell, DirectionWeights, Recurrent, RecurrentShape};
use kiln_kernels::cpu::{Elements, PackedWeights};
use kiln_kernels::{CodeSource, Isa, Result as KernelResult};
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::key::{ExecutorKey, Problem};
use super::target::Target;
use super::weights::{self, MatMulWeights};

/// Everything that determines an executor of a recurrent layer.
pub type RecurrentKey = ExecutorKey<RecurrentShape>;

/// What a builder of recurrent layers decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecurrentChoice {
    /// Whether two directions are two tasks; otherwise every step's product is split.
    pub apart: bool,
}

impl Problem for RecurrentShape {
    const FAMILY: &'static str = "recurrent";
    const REVISION: u32 = 3;
    type Value = Recurrent;
    type Choice = RecurrentChoice;

    /// Steps wait for each other, directions do not: two tasks for the whole sequence beat a fork and join per step.
    fn choose(&self, target: &Target) -> RecurrentChoice {
        RecurrentChoice { apart: self.directions.len() == 2 && target.threads > 1 }
    }

    fn accepts(&self, choice: &RecurrentChoice, _: &Target) -> bool {
        !choice.apart || self.directions.len() == 2
    }

    fn build(&self, choice: &RecurrentChoice, target: &Target, source: &dyn CodeSource) -> KernelResult<Recurrent> {
        Recurrent::new(self.clone(), target.isa, choice.apart, target.threads(), source)
    }

    fn table_bytes(&self) -> Option<u64> {
        self.is_valid().then_some(0)
    }

    fn suits(&self, cx: &BuildCx) -> bool {
        self.elements.suit(cx.isa)
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

/// Packs the weights of every direction as products of `elements` read them. The slices hold what [`PlainWeights`] says
/// for these sizes.
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
