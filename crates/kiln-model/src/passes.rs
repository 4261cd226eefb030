//! Rewriting a graph before it runs: the same results from fewer and larger steps.
//!
//! Every pass is a file with one function; `PASSES` lists them in the order in which they run, and each can be turned
//! off by name, because a pass that cannot be turned off cannot be suspected. They come in groups: a group runs again
//! until a whole round changes nothing. Passes only make the graph simpler, so the bound on rounds is a precaution.
//!
//! 1. *Clean*: products between quantised tensors, functions between them as tables, and products by block-quantised
//!    weights (before folding would dequantise the weights), constants into bodies, constant folding, no-ops, reshapes
//!    with known targets, transposes that meet, equal nodes, dead nodes.
//! 2. *Fuse*: padding and per-channel arithmetic into convolutions, branches of convolutions into one, scales, biases,
//!    transposes and residuals into matmuls, layer normalisations into their operator, attention with the heads around
//!    it, and then the cleaning again.
//! 3. *Chains*: element-wise nodes into one node; chains that are one function into the matmul or convolution before.
//! 4. *Layout*: spatial operators to channels-last, and a last cleaning.
//! 5. *Sums of bytes* into the products before them.
//! 6. *Storage*: activations in lower precision, where that was asked for and pays.
//! 7. *Parts*: convolutions read the parts of a Concat in place.
//!
//! Passes rely on [`facts`](super::facts): proofs about types and shapes that hold for every request that a session
//! accepts. They rewrite through `edit`. After each pass, debug builds [verify](super::verify) the graph.

mod activation;
mod affine;
mod attention;
mod batch_norm;
mod bf16;
mod blockwise;
mod branches;
mod captures;
mod chain;
mod concat;
mod cse;
mod dead;
mod edit;
mod fold;
mod gather;
mod gemm;
mod identity;
mod layer_norm;
mod layout;
mod matmul;
mod pad;
mod permute;
mod quantized;
mod report;
mod reshape;
mod residual;
mod round_weights;
mod transpose;
mod unflatten;
mod weights;
mod widen;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use kiln_kernels::cpu::Elements;
use kiln_tensor::Tensor;

use super::facts::Facts;
use super::ir::{Attr, Graph, NodeDesc};
use super::stop::Stop;
use super::verify::verify;

pub use fold::{FOLDED_BYTES, FOLDED_TOTAL_BYTES};
pub use report::{PassCount, PassOptions, PassReport};

/// Runs one node on constants (absent inputs are `None`): its outputs in order, or `None` if it cannot be run now. It
/// must refuse outputs of more than [`FOLDED_BYTES`] before it allocates memory for them.
pub type Evaluate<'a> = dyn Fn(&Graph, &NodeDesc, &[Option<Tensor>]) -> Option<Vec<Tensor>> + 'a;

/// The context of passes besides the graph.
struct PassCx<'a> {
    /// Facts about the values that existed when the round began.
    facts: Facts,
    evaluate: &'a Evaluate<'a>,
    folding: &'a mut fold::Budget,
    /// The element type of packed weights.
    elements: Elements,
    /// Bits of the integers to which weights of products are rounded.
    code_bits: Option<u8>,
}

/// A pass: rewrites the graph and returns the number of rewrites.
type Run = fn(&mut Graph, &mut PassCx<'_>) -> usize;

struct Group {
    passes: &'static [(&'static str, Run)],
    rounds: usize,
}

const GROUPS: &[Group] = &[
    Group { passes: &[("widen", widen::run), ("dead", dead::run)], rounds: 1 },
    Group {
        passes: &[
            ("quantized", quantized::run),
            ("byte_tables", quantized::tables::run),
            ("blockwise", blockwise::run),
            ("captures", captures::run),
            ("fold", fold::run),
            ("identity", identity::run),
            ("reshape", reshape::run),
            ("transpose", transpose::run),
            ("gather", gather::run),
            ("cse", cse::run),
            ("dead", dead::run),
        ],
        rounds: 12,
    },
    Group {
        passes: &[
            ("pad", pad::run),
            ("layer_norm", layer_norm::run),
            ("affine", affine::run),
            ("branches", branches::run),
            ("gemm", gemm::run),
            ("matmul", matmul::run),
            ("round_weights", round_weights::run),
            ("attention", attention::run),
            ("unflatten", unflatten::run),
            ("residual", residual::run),
            ("batch_norm", batch_norm::run),
            ("identity", identity::run),
            ("transpose", transpose::run),
            ("cse", cse::run),
            ("dead", dead::run),
        ],
        rounds: 12,
    },
    Group { passes: &[("chain", chain::run), ("activation", activation::run), ("dead", dead::run)], rounds: 4 },
    Group { passes: &[("layout", layout::run)], rounds: 1 },
    Group {
        passes: &[
            ("fold", fold::run),
            ("identity", identity::run),
            ("transpose", transpose::run),
            ("reshape", reshape::run),
            ("cse", cse::run),
            ("dead", dead::run),
        ],
        rounds: 6,
    },
    Group { passes: &[("quantized_sums", quantized::plus::run), ("dead", dead::run)], rounds: 1 },
    Group { passes: &[("bf16", bf16::run)], rounds: 1 },
    Group { passes: &[("concat", concat::run)], rounds: 1 },
];

/// The names of all passes, in the order in which they first run.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let mut names = Vec::new();
    for (name, _) in GROUPS.iter().flat_map(|group| group.passes) {
        if !names.contains(name) {
            names.push(*name);
        }
    }
    names
}

/// Rewrites a model's graph with the passes that `options` leave on. After `stop`, no further pass begins; the graph is
/// valid after each pass.
pub fn optimise_until(
    stop: Option<&Stop>,
    graph: &mut Graph,
    options: &PassOptions,
    evaluate: &Evaluate<'_>,
) -> PassReport {
    let mut report = PassReport { nodes_before: graph.nodes.len(), ..PassReport::default() };
    let mut folding = fold::Budget::of(graph, stop.cloned());
    rewrite(graph, options, evaluate, &mut folding, true, &mut report);
    report.nodes_after = graph.nodes.len();
    report
}

fn rewrite(
    graph: &mut Graph,
    options: &PassOptions,
    evaluate: &Evaluate<'_>,
    folding: &mut fold::Budget,
    declared: bool,
    report: &mut PassReport,
) {
    for group in GROUPS {
        for _ in 0..group.rounds {
            let mut cx = PassCx {
                facts: Facts::of(graph, declared),
                evaluate,
                folding: &mut *folding,
                elements: options.elements(),
                code_bits: options.code_bits(),
            };
            let mut changes = 0;
            for (name, run) in group.passes.iter().filter(|(name, _)| options.is_on(name)) {
                if cx.folding.is_stopped() {
                    return;
                }
                let start = Instant::now();
                let made = run(graph, &mut cx);
                report.add(name, made, start.elapsed());
                debug_assert_eq!(verify(graph), Ok(()), "after pass {name}");
                changes += made;
            }
            if changes == 0 {
                break;
            }
        }
    }
    for index in 0..graph.nodes.len() {
        let bodies: Vec<(String, Arc<Graph>)> = graph.nodes[index]
            .attrs
            .iter()
            .filter_map(
                |(name, attr)| if let Attr::Graph(body) = attr { Some((name.clone(), body.clone())) } else { None },
            )
            .collect();
        for (name, body) in bodies {
            let mut body = Arc::unwrap_or_clone(body);
            rewrite(&mut body, options, evaluate, folding, false, report);
            graph.nodes[index].attrs.insert(name, body.into());
        }
    }
}
