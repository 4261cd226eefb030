//! Files that ONNX Runtime has optimised for one processor: operators of `com.microsoft.nchwc`, whose values have their
//! channels in blocks as wide as the processor's vectors, and whose weights were stored in such blocks.
//!
//! When a model is read, weights are read back to ONNX's order, and the operators become ONNX's own. Values then have
//! no blocks, and no channels that only fill up the last block where the true count is known.
//!
//! - `survey` finds which values are in blocks, how many channels they have, and which widths of a block are possible.
//! - `weights` reads weights back, and tells the width from them.
//! - `rewrite` writes the nodes.
//!
//! # The width of a block
//!
//! No attribute states it: ONNX Runtime takes the width of its own machine, 16 channels with AVX-512 and otherwise 8,
//! and computes nonsense if the file came from another machine. Here the file's counts of channels decide, if they fit
//! only one width. Otherwise the weights do: trained weights of one channel have one scale, and the right width keeps
//! channels apart. If neither decides, the width is that of ONNX Runtime on this machine.

mod rewrite;
mod survey;
mod weights;

use std::sync::Arc;

use survey::{Survey, survey};

use super::ModelError;
use super::claims::Claims;
use super::error::shown;
use crate::Graph;
use crate::ir::{Attr, NodeDesc};

/// The domain of these operators.
const DOMAIN: &str = "com.microsoft.nchwc";

/// The widths of blocks that ONNX Runtime has.
const WIDTHS: [usize; 2] = [8, 16];

/// One operator of the domain. Each makes one value.
struct Blocked {
    name: &'static str,
    /// The least and the greatest number of inputs of a node, including those that are left out.
    inputs: [usize; 2],
    attributes: &'static [&'static str],
}

const OPERATORS: &[Blocked] = &[
    Blocked {
        name: "AveragePool",
        inputs: [1, 1],
        attributes: &["auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides"],
    },
    Blocked {
        name: "Conv",
        inputs: [2, 4],
        attributes: &[
            "activation",
            "activation_params",
            "auto_pad",
            "dilations",
            "group",
            "kernel_shape",
            "pads",
            "strides",
        ],
    },
    Blocked { name: "GlobalAveragePool", inputs: [1, 1], attributes: &[] },
    Blocked { name: "GlobalMaxPool", inputs: [1, 1], attributes: &[] },
    Blocked {
        name: "MaxPool",
        inputs: [1, 1],
        attributes: &["auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"],
    },
    Blocked { name: "ReorderInput", inputs: [1, 1], attributes: &["channels_last"] },
    Blocked { name: "ReorderOutput", inputs: [1, 1], attributes: &["channels", "channels_last"] },
    Blocked { name: "Upsample", inputs: [1, 1], attributes: &["coordinate_transformation_mode", "mode", "scales"] },
];

/// The domain and the names of the operators, which are rewritten to others.
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    OPERATORS.iter().map(|operator| (DOMAIN, operator.name))
}

/// Rewrites the nodes of a model whose values are in blocks, in its graph and its bodies.
///
/// # Errors
///
/// Nodes that are invalid for their operator, counts of channels that fit no width of a block, and operators of other
/// domains that read values in blocks.
pub(super) fn rewrite(graph: &mut Graph, claims: &mut Claims) -> Result<(), ModelError> {
    if !is_blocked(graph) {
        return Ok(());
    }
    let mut surveys = Vec::new();
    survey_all(graph, &mut surveys)?;
    let width = weights::width(surveys.iter().flat_map(|survey| &survey.demands), || {
        surveys.iter().flat_map(|survey| &survey.weights)
    })?;
    rewrite_all(graph, &mut surveys.into_iter(), width, claims)
}

fn bodies(graph: &Graph) -> impl Iterator<Item = &Arc<Graph>> {
    graph.nodes.iter().flat_map(|node| node.attrs.values()).filter_map(|attr| match attr {
        Attr::Graph(body) => Some(body),
        _ => None,
    })
}

/// Whether there is a node of the domain.
fn is_blocked(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| node.domain == DOMAIN) || bodies(graph).any(|body| is_blocked(body))
}

/// Surveys of all bodies, and of the graph after them.
fn survey_all(graph: &Graph, surveys: &mut Vec<Survey>) -> Result<(), ModelError> {
    for body in bodies(graph) {
        survey_all(body, surveys)?;
    }
    surveys.push(survey(graph)?);
    Ok(())
}

/// Rewrites all bodies, and the graph after them, by surveys in that order.
fn rewrite_all(
    graph: &mut Graph,
    surveys: &mut impl Iterator<Item = Survey>,
    width: usize,
    claims: &mut Claims,
) -> Result<(), ModelError> {
    for attr in graph.nodes.iter_mut().flat_map(|node| node.attrs.values_mut()) {
        if let Attr::Graph(body) = attr {
            rewrite_all(Arc::make_mut(body), surveys, width, claims)?;
        }
    }
    match surveys.next() {
        Some(survey) => rewrite::rewrite(graph, survey, width, claims),
        None => Ok(()),
    }
}

/// A node's name for messages.
fn place(node: &NodeDesc) -> String {
    format!("node {} ({})", shown(&node.name), shown(&node.op))
}

fn malformed(node: &NodeDesc, reason: String) -> ModelError {
    ModelError::Malformed { place: place(node), reason }
}

fn unsupported(node: &NodeDesc, what: String) -> ModelError {
    ModelError::Unsupported { what, place: place(node) }
}

/// Refuses a node that is invalid for its operator.
fn check(node: &NodeDesc) -> Result<(), ModelError> {
    let Some(operator) = OPERATORS.iter().find(|operator| operator.name == node.op) else {
        return Err(unsupported(node, format!("operator {} of {DOMAIN}", shown(&node.op))));
    };
    let ([least, most], count) = (operator.inputs, node.inputs.len());
    if count < least || count > most {
        return Err(malformed(node, format!("it has {count} inputs, and the operator {least} to {most}")));
    }
    if node.outputs.len() != 1 || node.output(0).is_none() {
        return Err(malformed(node, "it does not make one value".to_owned()));
    }
    match node.attrs.keys().find(|name| !operator.attributes.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(unsupported(node, format!("attribute {}", shown(name)))),
    }
}

fn wrong_kind(node: &NodeDesc, name: &str) -> ModelError {
    let reason = "it is of another kind than the operator's".to_owned();
    ModelError::Attribute { place: place(node), attribute: shown(name), reason }
}

fn int(node: &NodeDesc, name: &str, default: i64) -> Result<i64, ModelError> {
    match node.attrs.get(name) {
        None => Ok(default),
        Some(Attr::Int(value)) => Ok(*value),
        Some(_) => Err(wrong_kind(node, name)),
    }
}

fn text<'a>(node: &'a NodeDesc, name: &str, default: &'a str) -> Result<&'a str, ModelError> {
    match node.attrs.get(name) {
        None => Ok(default),
        Some(Attr::Str(value)) => Ok(value),
        Some(_) => Err(wrong_kind(node, name)),
    }
}
