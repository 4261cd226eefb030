//! Executors of recurrent layers, and their weights packed. The problem is the form of the layer; the computing is done
//! by [`kiln_kernels::cpu::recurrent`], and the graph is not known here.

use kiln_kernels::cpu::recurrent::{Cell, DirectionWeights, Recurrent, RecurrentShape};
use kiln_kernels::cpu::{Elements, PackedWeights};
use kiln_kernels::{CodeSource, KernelError, Result as KernelResult};
use kiln_tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::context::BuildCx;
use super::key::{ExecutorKey, Problem};
use super::target::Target;
use super::weights::{self, MatMulWeights, Packing};

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
    /// Weights of the input.
    pub w: &'a Tensor,
    /// Weights of the recurrence.
    pub r: &'a Tensor,
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

/// The element type that constant weights are packed in: the type that the model stores, if it is of 16 bits and the
/// same for the input's and the recurrence's weights ([`weights::elements`]), else `asked`, the type that the precision
/// asks for.
#[must_use]
pub fn elements(asked: Elements, w: &Tensor, r: &Tensor) -> Elements {
    let kept = weights::elements(asked, w, 1.0);
    if kept == weights::elements(asked, r, 1.0) { kept } else { asked }
}

/// Packs the weights of every direction as products of `elements` read them, a panel at a time, so that weights stored
/// in less than `f32` are never all widened. The operands hold what [`PlainWeights`] says for these sizes.
///
/// # Errors
///
/// Where they hold less.
pub fn pack(
    packing: &Packing<'_>,
    elements: Elements,
    cell: Cell,
    [directions, input, hidden]: [usize; 3],
    plain: &PlainWeights<'_>,
) -> KernelResult<Vec<PackedDirection>> {
    let columns = cell.gates() * hidden;
    // `columns` columns of a transposed matrix of `rows` rows, from element `first` on.
    let packed = |plain: &Tensor, first: usize, rows: usize, columns: usize| {
        let (have, need) = (plain.len(), first + rows * columns);
        let short = || KernelError::Bounds { family: "recurrent", operand: "weights", have, need };
        let part = plain.part(first, [columns, rows]).ok().flatten().ok_or_else(short)?;
        weights::matmul(packing, elements, part.pieces().map_err(|_| short())?, [1, rows, columns], true, 1.0)
    };
    let part = |all: &'_ [f32], direction: usize, len: usize| -> Vec<f32> {
        all.iter().skip(direction * len).take(len).copied().collect()
    };
    (0..directions)
        .map(|direction| {
            let (w, r) = (direction * columns * input, direction * columns * hidden);
            let both = plain.b.map_or(vec![0.0; 2 * columns], |b| part(b, direction, 2 * columns));
            let mut bias: Vec<f32> = both.iter().zip(&both[columns.min(both.len())..]).map(|(w, r)| w + r).collect();
            let mut reset_bias = Vec::new();
            // Before its product, a reset acts on the output alone, so gate h gets a product of its own; after it, the
            // reset acts on the recurrent bias too, which therefore stays apart.
            let (product, faded) = match cell {
                Cell::Gru { linear_before_reset: false } => {
                    let last = r + 2 * hidden * hidden;
                    (packed(plain.r, r, hidden, 2 * hidden)?, Some(packed(plain.r, last, hidden, hidden)?))
                }
                Cell::Gru { linear_before_reset: true } => {
                    bias[2 * hidden..].copy_from_slice(&both[2 * hidden..columns]);
                    reset_bias.extend_from_slice(&both[columns + 2 * hidden..]);
                    (packed(plain.r, r, hidden, columns)?, None)
                }
                Cell::Lstm { .. } | Cell::Rnn => (packed(plain.r, r, hidden, columns)?, None),
            };
            Ok(PackedDirection {
                input: packed(plain.w, w, input, columns)?,
                recurrent: product,
                faded,
                bias,
                reset_bias,
                peepholes: plain.p.map_or(Vec::new(), |p| part(p, direction, 3 * hidden)),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use kiln_kernels::Isa;
    use kiln_kernels::cpu::PackedElement;
    use kiln_tensor::{DType, Expansion, TensorSpec};

    use super::*;

    #[test]
    fn weights_of_16_bits_keep_their_type_where_both_have_it_and_are_never_all_widened() {
        let stored = |dtype: DType, rows: usize| {
            let zeros = Tensor::zeros(TensorSpec::new(dtype, [2, 12, rows])).unwrap();
            Tensor::compact(zeros, Expansion::default()).unwrap()
        };
        let [w, r] = [stored(DType::F16, 5), stored(DType::F16, 4)];
        let wide = Tensor::zeros(TensorSpec::new(DType::F32, [2, 12, 4])).unwrap();
        assert_eq!(elements(Elements::F32, &w, &r), Elements::F16);
        assert_eq!(elements(Elements::F32, &w, &stored(DType::BF16, 4)), Elements::F32, "a layer has one type");
        assert_eq!(elements(Elements::F32, &w, &wide), Elements::F32);
        assert_eq!(elements(Elements::Bf16Dot, &w, &r), Elements::Bf16Dot, "asked for");
        for linear_before_reset in [false, true] {
            let plain = PlainWeights { w: &w, r: &r, b: None, p: None };
            let cell = Cell::Gru { linear_before_reset };
            let packed = pack(&Isa::Avx2.into(), Elements::F16, cell, [2, 5, 4], &plain).unwrap();
            for direction in packed.iter().map(PackedDirection::view) {
                assert!(direction.input.is_of(PackedElement::F16) && direction.recurrent.is_of(PackedElement::F16));
            }
            assert!(pack(&Isa::Avx2.into(), Elements::F16, cell, [3, 5, 4], &plain).is_err(), "no third direction");
        }
        assert!(w.compact_form().is_some() && r.compact_form().is_some());
    }
}
