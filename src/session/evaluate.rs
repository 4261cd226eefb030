//! Runs one node on constants, for constant folding. Independent of passes.
//!
//! Folding depends on the file alone, and happens before there is a request with a time limit. It is bounded in three
//! ways: in bytes, in steps of a single node, and by the passes in total time. A time limit that is checked between
//! nodes does not bound a single node, which may take hours: the product of two matrices of 64 MiB, each filled from a
//! few bytes of a file, takes 68 thousand million multiplications.

use std::sync::Arc;

use kiln_kernels::crash::within;
use kiln_kernels::{Parallel, Serial};
use kiln_model::ir::{Graph, NodeDesc};
use kiln_model::operators;
use kiln_model::passes::FOLDED_BYTES;
use kiln_model::stop::Stop;
use kiln_run::exec::BuildCx;
use kiln_run::inference::Inference;
use kiln_run::node::{Io, PrepareCx, RunCx};
use kiln_tensor::{BufferPool, Tensor, TensorSpec};
use smallvec::SmallVec;

use super::node::make;

/// The most steps of a folded operator whose attributes determine their number; operators with more steps wait for a
/// request, which may have a time limit.
const FOLDED_STEPS: u64 = 1 << 22;

/// The most products, or elements under windows, of a folded node: the product of two 1024 x 1024 matrices, which takes
/// a hundredth of a second in emitted code and about a second in plain Rust (used for types without kernels).
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
    if total > FOLDED_BYTES || operators::of(node)?.products(node, &borrowed, &specs)? > FOLDED_PRODUCTS {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kiln_cache::{Cache, Limits};
    use kiln_kernels::Isa;
    use kiln_model::Attr;
    use kiln_run::exec::BuildCx;
    use kiln_run::record::Store;
    use kiln_tensor::DType;

    use super::*;

    /// What nodes are made with: plain Rust, one thread, a cache of its own.
    fn build_cx() -> BuildCx {
        BuildCx {
            isa: Isa::Portable,
            threads: 1,
            numerics: Default::default(),
            precision: Default::default(),
            cache: Arc::new(Cache::new(Limits { entries: 64, bytes: 1 << 20 })),
            records: Arc::new(Store::in_memory()),
            check: false,
            gpu: None,
        }
    }

    /// Whether a node of constants of these shapes, all zeros, is computed at load.
    fn is_computed(op: &str, attrs: &[(&str, Attr)], inputs: &[&[usize]]) -> bool {
        let zeros = |shape: &[usize]| Tensor::zeros(TensorSpec::new(DType::F32, shape.iter().copied())).unwrap();
        let inputs: Vec<Option<Tensor>> = inputs.iter().map(|shape| Some(zeros(shape))).collect();
        let mut graph = Graph::default();
        let ids = inputs.iter().flatten().map(|tensor| Some(graph.add_constant("known", tensor.clone()))).collect();
        let attrs = attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
        let outputs = vec![Some(graph.fresh("y"))];
        let (name, op) = (op.to_owned(), op.to_owned());
        let node = NodeDesc { name, op, version: 23, attrs, inputs: ids, outputs, ..NodeDesc::default() };
        evaluate(&graph, &node, &inputs, &build_cx(), None).is_some()
    }

    #[test]
    fn nodes_of_much_arithmetic_wait_for_a_request() {
        // Each of the larger ones has more than 2^30 products, of inputs and outputs of at most 16 MiB.
        let equation = [("equation", Attr::Str("ij,jk->ik".to_owned()))];
        assert!(is_computed("Einsum", &equation, &[&[8, 8], &[8, 8]]));
        assert!(!is_computed("Einsum", &equation, &[&[1024, 1024], &[1024, 1024]]));
        let heads = |keys: usize| [[1, 1, keys, 16]; 3];
        let attention = |keys: usize| is_computed("Attention", &[], &heads(keys).each_ref().map(|shape| &shape[..]));
        assert!(attention(8));
        assert!(!attention(1 << 14));
        for (op, gates) in [("LSTM", 4), ("GRU", 3), ("RNN", 1)] {
            let (hidden, columns) = ([("hidden_size", Attr::Int(256))], gates * 256);
            let layer =
                |steps: usize| is_computed(op, &hidden, &[&[steps, 1, 16], &[1, columns, 16], &[1, columns, 256]]);
            assert!(layer(2), "{op}");
            assert!(!layer(1 << 14), "{op}");
        }
    }
}
