//! Runs one node on constants, for constant folding. Independent of passes.
//!
//! What is computed while a model is loaded depends on the file alone, before there is a request with a time limit. It
//! is bounded three times: in bytes, in steps of a single node, and by the passes in total time. A time that is checked
//! between nodes does not bound a single node, which may take hours: two matrices of 64 MiB, each filled from a few
//! bytes of file, have 68 thousand million products.

use std::sync::Arc;

use kiln_kernels::crash::within;
use kiln_kernels::{Parallel, Serial};
use smallvec::SmallVec;

use super::node::make;
use crate::exec::BuildCx;
use crate::graph::inference::Inference;
use crate::graph::ir::{Graph, NodeDesc};
use crate::graph::node::{Io, PrepareCx, RunCx};
use crate::graph::passes::FOLDED_BYTES;
use crate::graph::stop::Stop;
use crate::tensor::{BufferPool, Tensor, TensorSpec};

/// The most steps of a folded operator whose attributes determine their number; longer ones wait for a request, which
/// may have a time limit.
const FOLDED_STEPS: u64 = 1 << 22;

/// The most products, or elements under windows, of a folded node: a matrix of 1024 squared times another, a hundredth
/// of a second in emitted code and about a second in plain Rust, which computes types without kernels.
const FOLDED_PRODUCTS: usize = 1 << 30;

/// The outputs of a node on these inputs. `None` after any error, which a request will report.
pub(super) fn evaluate(
    graph: &Graph,
    node: &NodeDesc,
    inputs: &[Option<Tensor>],
    build: &BuildCx,
    stop: Option<&Stop>,
) -> Option<Vec<Tensor>> {
    within(&format_args!("folding node '{}' ({})", node.name, node.op), || fold(graph, node, inputs, build, stop))
}

fn fold(
    graph: &Graph,
    node: &NodeDesc,
    inputs: &[Option<Tensor>],
    build: &BuildCx,
    stop: Option<&Stop>,
) -> Option<Vec<Tensor>> {
    let made = make(graph, node, build, &build.isa.into()).ok()?;
    let borrowed: SmallVec<[Option<&Tensor>; 4]> = inputs.iter().map(Option::as_ref).collect();
    let specs = Inference::of(node).specs(made.as_ref(), &borrowed).ok()?;
    // A few bytes of model can declare petabytes; they are refused before memory is allocated.
    let bytes = |spec: &TensorSpec| spec.elements().ok()?.checked_mul(spec.dtype.size().max(1));
    let total = specs.iter().try_fold(0usize, |total, spec| total.checked_add(bytes(spec)?))?;
    if total > FOLDED_BYTES || products(node, &borrowed, &specs)? > FOLDED_PRODUCTS {
        return None;
    }
    let prepared = made.prepare_params(&PrepareCx::new(build), &borrowed, &specs).ok()?;
    // Folded constants live as long as the session, so they must not hold a pool's oversized buffers.
    let buffers: Arc<BufferPool> = BufferPool::new(0);
    let mut io = Io::new(inputs.iter().cloned().collect(), &specs, &buffers);
    let watched = stop.map(|stop| stop.watch(&Serial));
    let parallel = watched.as_ref().map_or(&Serial as &dyn Parallel, |watched| watched);
    let cx = RunCx { parallel, buffers: &buffers, steps: FOLDED_STEPS, stop };
    cx.execute(made.as_ref(), &prepared, &mut io).ok()?;
    Some(io.into_outputs().into_vec())
}

/// Products that a node computes, or elements under its windows; 0 for nodes that are bound by reading and writing.
/// `None` on overflow.
fn products(node: &NodeDesc, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Option<usize> {
    let shape = |input: usize| inputs.get(input).copied().flatten().map_or(&[][..], Tensor::shape);
    let count = |dims: &[usize]| dims.iter().try_fold(1usize, |count, dim| count.checked_mul(*dim));
    let each = match node.op.as_str() {
        "MatMul" | "MatMulInteger" | "QLinearMatMul" => shape(0).last().copied(),
        // Either axis of the first operand may be the reduction.
        "Gemm" => shape(0).iter().copied().max(),
        // A window over all channels has the size of one filter.
        "Conv" | "ConvInteger" | "DeformConv" => shape(1).get(1..).and_then(count),
        "QLinearConv" => shape(3).get(1..).and_then(count),
        "ConvTranspose" => return count(shape(0))?.checked_mul(shape(1).get(1..).and_then(count)?),
        "AveragePool" | "LpPool" | "MaxPool" => {
            let sides = node.ints("kernel_shape").unwrap_or_default().iter();
            sides.map(|&side| usize::try_from(side).ok()).try_fold(1usize, |count, side| count.checked_mul(side?))
        }
        _ => return Some(0),
    };
    outputs.first()?.elements().ok()?.checked_mul(each?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Attr;
    use crate::tensor::DType;

    #[test]
    fn products_are_those_of_the_definitions() {
        let zeros = |shape: &[usize]| Tensor::zeros(TensorSpec::new(DType::F32, shape.iter().copied())).unwrap();
        let count = |op: &str, kernel: &[i64], inputs: &[&[usize]], output: &[usize]| {
            let mut node = NodeDesc { op: op.to_owned(), ..NodeDesc::default() };
            node.attrs.insert("kernel_shape".to_owned(), Attr::Ints(kernel.to_vec()));
            let inputs: Vec<Tensor> = inputs.iter().map(|shape| zeros(shape)).collect();
            let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Some).collect();
            products(&node, &inputs, &[TensorSpec::new(DType::F32, output.iter().copied())])
        };
        assert_eq!(count("MatMul", &[], &[&[2, 3, 5], &[5, 7]], &[2, 3, 7]), Some(2 * 3 * 5 * 7));
        assert_eq!(count("Gemm", &[], &[&[5, 3], &[5, 7]], &[3, 7]), Some(3 * 5 * 7));
        assert_eq!(count("Conv", &[], &[&[1, 4, 8, 8], &[6, 2, 3, 3]], &[1, 6, 6, 6]), Some(6 * 36 * 2 * 9));
        assert_eq!(count("ConvTranspose", &[], &[&[1, 4, 8, 8], &[4, 6, 3, 3]], &[1, 6, 10, 10]), Some(256 * 54));
        assert_eq!(count("MaxPool", &[3, 3], &[&[1, 4, 8, 8]], &[1, 4, 6, 6]), Some(4 * 36 * 9));
        assert_eq!(count("Add", &[], &[&[9], &[9]], &[9]), Some(0));
        assert_eq!(count("MaxPool", &[i64::MAX, 4], &[&[1, 4, 8, 8]], &[1, 4, 6, 6]), None, "too many to count");
    }
}
