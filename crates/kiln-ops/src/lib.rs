//! Operators: what ONNX means by each, one file a group. Attributes, defaults by version, shape inference,
//! `prepare_params()`. Protobuf is not known here, and no instruction is emitted.
//!
//! The table of operators ([`operators`]) states all that is known of an operator before a node is made, and
//! element-wise nodes are made from it. For other operators each group lists makers in a table `OPERATORS`; [`lookup`]
//! searches all of these tables.

#![allow(rustdoc::private_intra_doc_links, reason = "headers guide readers of the source to private files too")]
#![deny(unsafe_code)]

mod apart;
mod arguments;
mod attention;
mod bits;
mod blockwise;
mod boxes;
mod branches;
mod cast;
mod combine;
mod constant;
mod conv;
pub mod convert;
mod crop;
mod cumulative;
mod deformable;
mod delta_net;
mod determinant;
pub mod device;
mod diagonal;
mod double;
mod dropout;
mod einsum;
mod elementwise;
mod experts;
mod flow;
mod fold;
mod forest;
mod fourier;
mod gather;
pub mod generic;
mod grid;
mod group_query;
mod integer;
mod inverse;
mod linear_attention;
mod loss;
mod maps;
mod mask;
mod matmul;
mod measure;
mod ml;
mod movement;
mod murmur;
mod ngrams;
mod norm;
mod one_step;
mod onehot;
mod optional;
mod pool;
mod quantize;
mod quantized_lstm;
mod ragged;
mod random;
mod range;
mod ranking;
mod recurrent;
mod reduce;
mod regex;
mod region;
mod region_max;
mod repeats;
mod reshape;
mod resize;
mod reverse;
mod rotary;
mod router;
mod scaler;
mod scatter;
mod selection;
mod sequence;
mod slice;
mod sliding;
mod softmax;
mod sparse;
mod state;
mod stored;
mod suppress;
mod tasks;
mod text;
mod tokens;
mod transpose;
mod unfold;
mod unpool;
mod vector_machine;
mod view;
mod warping;
mod wide;
mod window;

#[cfg(test)]
mod rows;
#[cfg(test)]
pub(crate) mod trial;

pub(crate) use arguments::{
    Axes, around, axes_of, axis_of, broadcast, counted, dimensions, index_of, integer, integers, named_type, one,
    optional, refused, required, size_attribute, strides, type_attribute,
};
pub(crate) use combine::{join, joined_spec};
pub(crate) use conv::ConvAttributes;
pub use flow::FlowLoad;
pub(crate) use flow::stack;
pub(crate) use gather::{element_places, tuple_places};
pub(crate) use matmul::fused_activation;
pub(crate) use movement::{Blocks, Elements, Movement, Viewed, as_output, rearrange, spread};
pub(crate) use random::{Numbers, seed_of_name};
pub(crate) use ranking::{Ordinal, order_first, rank};
pub(crate) use tasks::{Side, share, sides, task_count, try_each_chunk};
pub(crate) use view::{Cut, Run, View, in_step, lines};

use kiln_model::{Graph, NodeDesc, operators};
use kiln_run::exec::BuildCx;
use kiln_run::exec::weights::Packing;
use kiln_run::{Flow, Node};

/// A digest of the sources of this crate and of the compiler's settings.
pub const SOURCES: &str = env!("KILN_SOURCES");

/// Why a node of a model cannot be made into a running one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// No such operator here.
    #[error("operator {0} is not supported")]
    Unknown(String),
    /// The operator is known, this use of it is not supported.
    #[error("{op}: {reason}")]
    Unsupported {
        /// The operator.
        op: String,
        /// Which attribute or form, and its value.
        reason: String,
    },
    /// The node breaks the operator's own rules.
    #[error("{op}: {reason}")]
    Invalid {
        /// The operator.
        op: String,
        /// What is wrong.
        reason: String,
    },
}

impl OpError {
    /// An [`OpError::Unsupported`] about that node.
    pub fn unsupported(node: &NodeDesc, reason: impl Into<String>) -> OpError {
        OpError::Unsupported { op: node.op.clone(), reason: reason.into() }
    }

    /// An [`OpError::Invalid`] about that node.
    pub fn invalid(node: &NodeDesc, reason: impl Into<String>) -> OpError {
        OpError::Invalid { op: node.op.clone(), reason: reason.into() }
    }
}

/// What an operator sees when it is made: its node, the graph's constants, and the build context (to pack weights).
pub struct LoadCx<'a> {
    /// The node.
    pub node: &'a NodeDesc,
    /// The graph that it stands in.
    pub graph: &'a Graph,
    /// Level, threads, cache, records.
    pub build: &'a BuildCx,
    /// The level that weights are packed for, and the shelf where packed ones may lie ready.
    pub packing: &'a Packing<'a>,
}

/// Makes a running node.
pub type MakeNode = fn(&LoadCx<'_>) -> Result<Box<dyn Node>, OpError>;

/// One row of a group's table: domain, operator, maker.
pub type Operator = (&'static str, &'static str, MakeNode);

const GROUPS: &[&[Operator]] = &[
    attention::OPERATORS,
    bits::OPERATORS,
    blockwise::OPERATORS,
    boxes::OPERATORS,
    cast::OPERATORS,
    combine::OPERATORS,
    constant::OPERATORS,
    conv::OPERATORS,
    crop::OPERATORS,
    cumulative::OPERATORS,
    deformable::OPERATORS,
    determinant::OPERATORS,
    diagonal::OPERATORS,
    dropout::OPERATORS,
    einsum::OPERATORS,
    elementwise::OPERATORS,
    experts::OPERATORS,
    fold::OPERATORS,
    forest::OPERATORS,
    fourier::OPERATORS,
    gather::OPERATORS,
    gather::QUANTIZED,
    grid::OPERATORS,
    group_query::OPERATORS,
    integer::OPERATORS,
    inverse::OPERATORS,
    branches::OPERATORS,
    delta_net::OPERATORS,
    linear_attention::OPERATORS,
    loss::OPERATORS,
    mask::OPERATORS,
    matmul::OPERATORS,
    murmur::OPERATORS,
    measure::OPERATORS,
    ml::OPERATORS,
    ngrams::OPERATORS,
    norm::OPERATORS,
    one_step::OPERATORS,
    onehot::OPERATORS,
    pool::OPERATORS,
    quantize::OPERATORS,
    quantized_lstm::OPERATORS,
    random::OPERATORS,
    range::OPERATORS,
    ranking::OPERATORS,
    recurrent::OPERATORS,
    reduce::OPERATORS,
    regex::OPERATORS,
    region::OPERATORS,
    region_max::OPERATORS,
    repeats::OPERATORS,
    reshape::OPERATORS,
    resize::OPERATORS,
    reverse::OPERATORS,
    rotary::OPERATORS,
    router::OPERATORS,
    scaler::OPERATORS,
    scatter::OPERATORS,
    selection::OPERATORS,
    slice::OPERATORS,
    softmax::OPERATORS,
    sparse::OPERATORS,
    state::OPERATORS,
    text::OPERATORS,
    transpose::OPERATORS,
    unfold::OPERATORS,
    unpool::OPERATORS,
    vector_machine::OPERATORS,
    window::OPERATORS,
];

/// Makes a step with values other than tensors, or with bodies.
pub type MakeFlow = fn(FlowLoad<'_>) -> Result<Box<dyn Flow>, OpError>;

/// One row of a table of such operators: domain, operator, maker.
pub type FlowOperator = (&'static str, &'static str, MakeFlow);

const FLOWS: &[&[FlowOperator]] = &[
    flow::OPERATORS,
    maps::OPERATORS,
    optional::OPERATORS,
    sequence::OPERATORS,
    suppress::OPERATORS,
    tokens::OPERATORS,
    warping::OPERATORS,
];

/// The maker of that operator on tensors. An operator that also has one on values uses this one for folding only.
#[must_use]
pub fn lookup(domain: &str, op: &str) -> Option<MakeNode> {
    let has_program = |row: &&operators::Operator| row.element_wise.is_some_and(|own| own.wide.is_some());
    find(GROUPS, domain, op).or_else(|| operators::find(domain, op).filter(has_program).map(|_| elementwise::make as _))
}

/// The maker of that operator on values.
#[must_use]
pub fn lookup_flow(domain: &str, op: &str) -> Option<MakeFlow> {
    find(FLOWS, domain, op)
}

fn find<M: Copy>(groups: &[&[(&'static str, &'static str, M)]], domain: &str, op: &str) -> Option<M> {
    // ai.onnx is the written-out name of ONNX's default domain.
    let domain = if domain == "ai.onnx" { "" } else { domain };
    groups.iter().copied().flatten().find(|(d, o, _)| *d == domain && *o == op).map(|&(_, _, make)| make)
}

/// Every operator, for `kiln ops` and the documents.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    operators::all().map(|row| (row.domain, row.name))
}
