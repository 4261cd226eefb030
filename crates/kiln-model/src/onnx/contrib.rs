//! Operators of ONNX Runtime and of classical models, expanded to other operators when a model is read: optimisers save
//! fused ones, and tools write others. Fusion passes, kernels and keys are then those of the expansion.
//!
//! Expansions are written in ONNX's own operators of one version ([`super::standard::WRITTEN_FOR`]), in the order of
//! ONNX Runtime's additions. Ranks and element types of values are not known here: an expansion that needs them uses an
//! operator that finds them when it runs. An attribute, an input or an output that no expansion covers is refused with
//! its name and value.
//!
//! - `given` reads the node, `activations`, `norms`, `products`, `channels`, `attention`, `biases`, `early`, `gates`,
//!   `movement`, `quantized`, `signals`, `tables` and `words` expand it.

mod activations;
mod attention;
mod biases;
mod channels;
mod early;
mod gates;
mod given;
mod movement;
mod norms;
mod products;
mod quantized;
mod signals;
mod tables;
mod words;

use super::ModelError;
use super::draft::Draft;
use super::proto::NodeProto;
use given::Given;

/// ONNX Runtime's own domain.
pub(super) const MICROSOFT: &str = "com.microsoft";

/// Operators that run a whole decoder step by step inside of one node, which are refused.
const SEARCHES: &[&str] = &["BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"];

/// Writes what a node stands for into the draft.
type Expand = fn(&Given<'_>, &mut Draft) -> Result<(), ModelError>;

/// How one operator is expanded.
struct Expanded {
    domain: &'static str,
    name: &'static str,
    /// How many inputs a node has, at least and at most; empty ones count.
    inputs: [usize; 2],
    /// How many outputs it has at most.
    outputs: usize,
    /// The attributes that the expansion reads.
    attributes: &'static [&'static str],
    expand: Expand,
}

impl Expanded {
    /// An operator with one output.
    const fn of(
        domain: &'static str,
        name: &'static str,
        inputs: [usize; 2],
        attributes: &'static [&'static str],
        expand: Expand,
    ) -> Expanded {
        Expanded { domain, name, inputs, outputs: 1, attributes, expand }
    }

    /// An operator of ONNX Runtime's own domain with one output.
    const fn microsoft(
        name: &'static str,
        inputs: [usize; 2],
        attributes: &'static [&'static str],
        expand: Expand,
    ) -> Expanded {
        Expanded::of(MICROSOFT, name, inputs, attributes, expand)
    }

    /// An operator of ONNX's own domain with one output.
    const fn onnx(
        name: &'static str,
        inputs: [usize; 2],
        attributes: &'static [&'static str],
        expand: Expand,
    ) -> Expanded {
        Expanded::of("", name, inputs, attributes, expand)
    }
}

const GROUPS: &[&[Expanded]] = &[
    activations::OPERATORS,
    attention::OPERATORS,
    biases::OPERATORS,
    channels::OPERATORS,
    early::OPERATORS,
    gates::OPERATORS,
    movement::OPERATORS,
    norms::OPERATORS,
    products::OPERATORS,
    quantized::OPERATORS,
    signals::OPERATORS,
    tables::OPERATORS,
    words::OPERATORS,
];

/// ONNX's operator of the same name, with the same inputs and attributes.
fn renamed(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let inputs: Vec<&str> = (0..given.count()).map(|index| given.optional(index)).collect();
    draft.node("", given.op(), &inputs, given.result().to_owned(), given.attributes());
    Ok(())
}

/// Domains and names of the operators that are expanded when a model is read.
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    GROUPS.iter().copied().flatten().map(|operator| (operator.domain, operator.name))
}

/// The nodes that `node` stands for, if its operator is one of these. `number` tells expansions apart.
pub(super) fn expansion(node: &NodeProto, number: usize) -> Result<Option<Draft>, ModelError> {
    let domain = super::opsets::normal(node.domain());
    if domain == MICROSOFT && SEARCHES.contains(&node.op_type()) {
        let op = node.op_type();
        let instead = "save its decoder as a model of its own: `kiln generate` and `Decoder` run its steps and choose \
                       tokens, with an encoder `EncoderDecoder` does";
        let what = format!("operator {op}, a search in one node ({instead})");
        return Err(ModelError::Unsupported { what, place: super::place_of(node) });
    }
    let mut operators = GROUPS.iter().copied().flatten();
    let Some(operator) = operators.find(|row| row.domain == domain && row.name == node.op_type()) else {
        return Ok(None);
    };
    let given = Given::new(node);
    given.check(operator)?;
    let mut draft = Draft::new(format!("{}%{number}/", operator.name));
    (operator.expand)(&given, &mut draft)?;
    Ok(Some(draft))
}
