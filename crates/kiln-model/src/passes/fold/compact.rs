//! Weights that are stored small: DequantizeLinear or Cast of such a constant, and the Sub and Mul after a Cast that
//! dequantise by hand, become a [compact](Tensor::compact) constant. A Transpose of one moves the small elements.
//!
//! Only a Transpose computes and takes memory, so other bounds than those of folding apply. Products and convolutions
//! then pack from the small elements, and a Gather widens the rows that it picks. Other readers make all numbers in
//! `f32` when they first ask for them.

use bytemuck::{cast_slice, cast_slice_mut};
use kiln_kernels::memory;
use kiln_kernels::reference::transpose::transpose;
use kiln_tensor::compact::{widen, widens};
use kiln_tensor::{DType, Expansion, Factors, Grain, Tensor, TensorSpec};

use crate::facts::axis;
use crate::ir::{Graph, NodeDesc};

/// Smaller results are computed at once, so that passes may look at their elements.
const COMPACT_BYTES: usize = 1 << 16;

/// The output of a node as a compact constant, if the node dequantises or moves constants.
pub(super) fn compacted(graph: &Graph, node: &NodeDesc) -> Option<Tensor> {
    let tensor = match node.op.as_str() {
        "DequantizeLinear" => dequantized(graph, node),
        "Cast" if node.attributes().dtype("to") == Some(DType::F32) => graph.constant_input(node, 0)?.in_f32().ok(),
        "Transpose" => transposed(graph, node),
        "Sub" => {
            let (form, by) = (CompactParts::in_f32(graph.constant_input(node, 0)?)?, graph.constant_input(node, 1)?);
            (form.expansion == Expansion::default()).then_some(())?;
            let zero = Some(form.factors(by)?);
            Tensor::compact(form.stored, Expansion { zero, scale: None }).ok()
        }
        "Mul" => {
            let (a, b) = (graph.constant_input(node, 0)?, graph.constant_input(node, 1)?);
            let of = CompactParts::in_f32;
            let (form, by) = of(a).map(|form| (form, b)).or_else(|| Some((of(b)?, a)))?;
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
    // 0 stands for the scale's type.
    let output = DType::of_onnx(attributes.int("output_dtype")).unwrap_or(scale.dtype());
    widens(stored.dtype()).then_some(())?;
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
            // Zero points of 0 change nothing.
            if zeros.iter().all(|&zero| zero == 0.0) { None } else { Some(factors(zeros)?) }
        }
    };
    let scale = Some(factors(match scale.as_slice::<f32>() {
        Ok(scales) => memory::copied(scales),
        Err(_) => {
            widens(scale.dtype()).then_some(())?;
            let mut scales = memory::zeroed(scale.len());
            widen(scale.dtype(), scale.bytes(), &mut scales);
            scales
        }
    })?);
    Tensor::compact_as(output, stored.clone(), Expansion { zero, scale }).ok()
}

/// A compact constant with its axes permuted: its stored elements are moved, and its factors where necessary.
fn transposed(graph: &Graph, node: &NodeDesc) -> Option<Tensor> {
    let tensor = graph.constant_input(node, 0)?;
    let CompactParts { stored, expansion } = CompactParts::of(tensor)?;
    let (shape, rank) = (stored.shape(), stored.shape().len());
    let perm: Vec<usize> = match node.ints("perm") {
        None => (0..rank).rev().collect(),
        Some(perm) => perm.iter().map(|&from| axis(from, rank)).collect::<Option<_>>()?,
    };
    let is_permutation = perm.len() == rank && (0..rank).all(|axis| perm.contains(&axis));
    is_permutation.then_some(())?;
    let factors = |factors: Option<Factors>| match factors {
        None => Some(None),
        Some(factors) => factors.permuted(shape, &perm, stored.len()).map(Some),
    };
    let expansion = Expansion { zero: factors(expansion.zero)?, scale: factors(expansion.scale)? };
    let spec = TensorSpec::new(stored.dtype(), perm.iter().map(|&axis| shape[axis]));
    let mut moved = Tensor::zeros(spec).ok()?;
    match stored.dtype().size() {
        1 => transpose(&stored.bytes()[..stored.len()], shape, &perm, &mut moved.bytes_mut()[..stored.len()]),
        2 => {
            let from: &[u16] = cast_slice(&stored.bytes()[..2 * stored.len()]);
            transpose(from, shape, &perm, cast_slice_mut(&mut moved.bytes_mut()[..2 * stored.len()]));
        }
        _ => return None,
    }
    Tensor::compact_as(tensor.dtype(), moved, expansion).ok()
}

/// The parts of a compact constant, in the shape that it has here.
struct CompactParts {
    stored: Tensor,
    expansion: Expansion,
}

impl CompactParts {
    fn of(tensor: &Tensor) -> Option<CompactParts> {
        let (form, first) = tensor.form()?;
        (first == 0 && form.stored.len() == tensor.len()).then_some(())?;
        let stored = form.stored.reshaped(tensor.shape().iter().copied()).ok()?;
        Some(CompactParts { stored, expansion: form.expansion.clone() })
    }

    /// The parts of a compact constant of `f32` numbers.
    fn in_f32(tensor: &Tensor) -> Option<CompactParts> {
        if tensor.dtype() == DType::F32 { CompactParts::of(tensor) } else { None }
    }

    /// A constant in `f32` as factors of its elements.
    fn factors(&self, by: &Tensor) -> Option<Factors> {
        let grain = Grain::broadcast(self.stored.shape(), by.shape())?;
        by.compact_form().is_none().then_some(())?;
        Factors::new(memory::copied(by.as_slice::<f32>().ok()?), grain, self.stored.len())
    }
}
