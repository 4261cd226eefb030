//! Weights that are stored small: a constant DequantizeLinear or Cast of them, and the Sub and Mul behind a Cast that
//! dequantise by hand, become a [compact](Tensor::compact) constant.
//!
//! Nothing is computed and no memory is taken, so the bounds of folding do not hold here. Products and convolutions then
//! pack from the small elements, and a Gather widens the rows that it picks. What would take all numbers in `f32` makes
//! them when it first asks.

use kiln_kernels::memory;

use crate::graph::facts::axis;
use crate::graph::ir::{Graph, NodeDesc};
use crate::tensor::compact::{widen, widens};
use crate::tensor::{DType, Expansion, Factors, Grain, Tensor};

/// Smaller results are computed at once, so that passes may look at their elements.
const COMPACT_BYTES: usize = 1 << 16;

/// The output of a node as a compact constant, if that is what it makes of constants.
pub(super) fn compacted(graph: &Graph, node: &NodeDesc) -> Option<Tensor> {
    let tensor = match node.op.as_str() {
        "DequantizeLinear" => dequantized(graph, node),
        "Cast" if node.attributes().dtype("to") == Some(DType::F32) => {
            Tensor::compact(graph.constant_input(node, 0)?.clone(), Expansion::default()).ok()
        }
        "Sub" => {
            let (form, by) = (CompactParts::of(graph.constant_input(node, 0)?)?, graph.constant_input(node, 1)?);
            (form.expansion == Expansion::default()).then_some(())?;
            let zero = Some(form.factors(by)?);
            Tensor::compact(form.stored, Expansion { zero, scale: None }).ok()
        }
        "Mul" => {
            let (a, b) = (graph.constant_input(node, 0)?, graph.constant_input(node, 1)?);
            let (form, by) = CompactParts::of(a).map(|form| (form, b)).or_else(|| Some((CompactParts::of(b)?, a)))?;
            form.expansion.scale.is_none().then_some(())?;
            let scale = Some(form.factors(by)?);
            Tensor::compact(form.stored, Expansion { scale, ..form.expansion }).ok()
        }
        _ => None,
    };
    tensor.filter(|tensor| tensor.byte_len() >= COMPACT_BYTES)
}

fn dequantized(graph: &Graph, node: &NodeDesc) -> Option<Tensor> {
    let (stored, scale) = (graph.constant_input(node, 0)?, graph.constant_input(node, 1)?);
    let attributes = node.attributes();
    // 0 names no type: the scale's.
    let output = DType::of_onnx(attributes.int("output_dtype")).unwrap_or(scale.dtype());
    (output == DType::F32 && widens(stored.dtype())).then_some(())?;
    let block = usize::try_from(attributes.int("block_size")).ok()?;
    let along = axis(attributes.int("axis"), stored.shape().len());
    let grain = Grain::of(stored.shape(), scale.shape(), along.unwrap_or(usize::MAX), block)?;
    let factors = |values: Vec<f32>| Factors::new(values, grain, stored.len());
    let zero = match node.input(2) {
        None => None,
        Some(value) => {
            let zero = graph.constant(value).filter(|zero| zero.len() == scale.len() && widens(zero.dtype()))?;
            let mut zeros = memory::zeroed(zero.len());
            widen(zero.dtype(), zero.bytes(), &mut zeros);
            // Nothing changes where they are all zero.
            if zeros.iter().all(|&zero| zero == 0.0) { None } else { Some(factors(zeros)?) }
        }
    };
    let scale = Some(factors(memory::copied(scale.as_slice::<f32>().ok()?))?);
    Tensor::compact(stored.clone(), Expansion { zero, scale }).ok()
}

/// The parts of a compact constant, in the shape that it has here.
struct CompactParts {
    stored: Tensor,
    expansion: Expansion,
}

impl CompactParts {
    fn of(tensor: &Tensor) -> Option<CompactParts> {
        let (form, first) = tensor.compact_form()?;
        (first == 0 && form.stored.len() == tensor.len()).then_some(())?;
        let stored = form.stored.reshaped(tensor.shape().iter().copied()).ok()?;
        Some(CompactParts { stored, expansion: form.expansion.clone() })
    }

    /// A constant in `f32` as factors of its elements.
    fn factors(&self, by: &Tensor) -> Option<Factors> {
        let grain = Grain::broadcast(self.stored.shape(), by.shape())?;
        by.compact_form().is_none().then_some(())?;
        Factors::new(memory::copied(by.as_slice::<f32>().ok()?), grain, self.stored.len())
    }
}
