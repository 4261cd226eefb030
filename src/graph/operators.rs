//! The table of operators: one row each, from which all code that needs operators by name is derived.
//!
//! - [`row`] is what a row says: domain, name, versions, inputs, attributes with defaults, element types, dimensions,
//!   what a layout does with it, its form on a device, and what an element-wise operator computes.
//! - `rows` are the rows, by theme. A new element-wise operator is a row in `rows/elementwise.rs`; any other operator
//!   is a row and a node, whose maker stands in a group of `ops`.
//! - The rules that rows name: `kinds` (element types), `shapes`, `spatial` and `elements` say what outputs are, by
//!   what a [`View`] shows of the inputs; [`lower`] makes programs of element-wise operators, [`wide`] and `float` are
//!   what they compute on all other types.
//!
//! Facts, the layout pass, the fusion of chains, the element-wise nodes, devices and `kiln ops` read it. A test of
//! `ops` holds that every maker has a row and every row a maker, and that what the rules say is what runs.

pub(crate) mod attributes;
pub(crate) mod device;
mod elements;
mod float;
mod kinds;
pub(crate) mod lower;
pub(crate) mod row;
mod rows;
mod shapes;
pub(crate) mod size;
mod spatial;
pub(crate) mod view;
pub(crate) mod wide;

use std::sync::LazyLock;

use hashbrown::HashMap;

use super::ir::NodeDesc;
use size::Sizes;
use view::{Fact, View};

pub use row::Operator;
pub(crate) use row::{Broadcast, Layout, Operands, Shapes};
pub(crate) use wide::{Binary, Unary, Wide};

static BY_NAME: LazyLock<HashMap<(&str, &str), &Operator>> =
    LazyLock::new(|| all().map(|row| ((row.domain, row.name), row)).collect());

/// Every operator.
pub fn all() -> impl Iterator<Item = &'static Operator> {
    rows::GROUPS.iter().copied().flatten()
}

/// The row of that operator.
#[must_use]
pub fn find(domain: &str, name: &str) -> Option<&'static Operator> {
    // ai.onnx is the written-out name of ONNX's default domain.
    let domain = if domain == "ai.onnx" { "" } else { domain };
    BY_NAME.get(&(domain, name)).copied()
}

/// The row of a node's operator.
pub(crate) fn of(node: &NodeDesc) -> Option<&'static Operator> {
    find(&node.domain, &node.op)
}

/// What the table says of a node's outputs, in order; what is missing is not known.
pub(crate) fn infer(view: &View<'_>, row: &Operator, sizes: &mut Sizes) -> Vec<Fact> {
    let copied = |index: usize| view.dims(index).map(|dims| vec![Some(dims.iter().copied().collect())]);
    let dims = match row.shapes {
        Shapes::Unknown => None,
        Shapes::Input(index) => copied(index),
        Shapes::Broadcast => shapes::broadcast_all(view, sizes).map(|dims| vec![Some(dims)]),
        Shapes::First(rule) => rule(view, sizes).map(|dims| vec![Some(dims)]),
        Shapes::All(rule) => rule(view, sizes),
    };
    let mut outputs: Vec<Fact> =
        dims.unwrap_or_default().into_iter().map(|dims| Fact { dims, ..Fact::default() }).collect();
    outputs.resize_with(view.node.outputs.len(), Fact::default);
    for (output, fact) in outputs.iter_mut().enumerate() {
        fact.dtype = row.types.of(view, output);
    }
    let elements = row.elements.and_then(|rule| rule(view, sizes));
    let elements = elements.filter(|elements| elements.len() <= view::MOST_ELEMENTS);
    if let (Some(first), Some(elements)) = (outputs.first_mut(), elements) {
        first.dims.get_or_insert_with(|| [size::Size::Known(elements.len() as i64)].into_iter().collect());
        first.elements = Some(elements);
    }
    outputs
}
