//! The table of operators: one row each, from which all code that needs operators by name is derived.
//!
//! - [`row`] defines the fields of a row: domain, name, versions, inputs, attributes with defaults, element types,
//!   dimensions, layout, form on a device, and the function of an element-wise operator.
//! - `rows` are the rows, by theme. A new element-wise operator is a row in `rows/elementwise.rs`; any other operator
//!   is a row and a node, whose maker stands in a group of `ops`.
//! - The rules that rows name: `kinds` (element types), `shapes`, `spatial`, `signals`, `sequences` and `elements` give
//!   outputs from a [`View`] of the inputs; [`lower`] makes programs of element-wise operators, [`wide`] and `float`
//!   are their arithmetic on all other types. `work` and `arithmetic` say how nodes run and how much they compute.
//!
//! Facts, the layout pass, the fusion of chains, the element-wise nodes, devices and `kiln ops` read it. A test of
//! `ops` checks that every maker has a row and every row a maker, and that the rules agree with the nodes.

mod arithmetic;
pub mod attributes;
mod contrib;
pub mod device;
pub mod einsum;
mod elements;
pub mod error;
pub mod float;
mod kinds;
pub mod lower;
mod number;
pub mod row;
mod rows;
mod sequences;
pub mod shapes;
mod signals;
pub(crate) mod size;
pub mod spatial;
mod streams;
pub(crate) mod view;
pub(crate) mod wide;
mod work;

use std::sync::LazyLock;

use error::{Open, ShapeError};
use hashbrown::HashMap;
use kiln_tensor::{Shape, Tensor, TensorSpec};
use size::{Size, Sizes};
use smallvec::SmallVec;
use view::{Dims, Fact, Outputs, View};

use super::ir::{Attr, NodeDesc};

pub use row::Operator;
pub use row::{Applied, Broadcast, Folds, Layout, Operands, Refusal, RowWise, Shapes};
pub use wide::{Binary, Unary, Wide};
pub use work::Work;

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
pub fn of(node: &NodeDesc) -> Option<&'static Operator> {
    find(&node.domain, &node.op)
}

impl NodeDesc {
    /// Whether it gives the same result for the same inputs every time.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        of(self).is_none_or(|row| !row.draws)
    }
}

/// The facts of a node's outputs by the table, in order; missing ones are unknown.
pub(crate) fn infer(view: &View<'_>, row: &Operator, sizes: &mut Sizes) -> Vec<Fact> {
    let dims = dims(view, row, sizes).unwrap_or_default();
    let mut outputs: Vec<Fact> = dims.into_iter().map(|dims| Fact { dims: Some(dims), ..Fact::default() }).collect();
    outputs.resize_with(view.node.outputs.len(), Fact::default);
    for (output, fact) in outputs.iter_mut().enumerate() {
        fact.dtype = row.types.of(view, output);
    }
    let elements = row.elements.and_then(|rule| rule(view, sizes).ok());
    let elements = elements.filter(|elements| elements.len() <= view::MOST_ELEMENTS);
    if let (Some(first), Some(elements)) = (outputs.first_mut(), elements) {
        first.dims.get_or_insert_with(|| [Size::Known(elements.len() as i64)].into_iter().collect());
        first.elements = Some(elements);
    }
    outputs
}

/// The dimensions of a node's outputs by the rule of its operator.
fn dims(view: &View<'_>, row: &Operator, sizes: &mut Sizes) -> Result<Outputs, Open> {
    let first = match row.shapes {
        Shapes::Unknown => return Err(Open::Unknown),
        Shapes::Input(index) => view.dims(index),
        Shapes::Broadcast => shapes::broadcast_all(view, sizes),
        Shapes::First(rule) => rule(view, sizes),
        Shapes::All(rule) => return rule(view, sizes),
    };
    Ok(Outputs::from_iter([first?]))
}

/// The rule of a node's operator, by which its outputs are inferred when it runs: the one that facts are inferred by at
/// load.
pub struct Rule {
    row: &'static Operator,
    /// The node without data that rules do not read: texts, and the elements of the long lists of operators on tables,
    /// where rules only check whether a list is empty.
    node: NodeDesc,
}

impl Rule {
    /// The rule for that node, where its operator has one.
    pub fn of(desc: &NodeDesc) -> Option<Rule> {
        let row = of(desc).filter(|row| !matches!(row.shapes, Shapes::Unknown))?;
        let tables = desc.domain == "ai.onnx.ml";
        let kept = |name: &str, attr: &Attr| match attr {
            // The names of classes are few, and their number is the number of scores.
            other if name.starts_with("classlabels") => other.clone(),
            Attr::Strs(_) => Attr::Strs(Vec::new()),
            Attr::Ints(list) if tables => Attr::Ints(list.iter().take(1).copied().collect()),
            Attr::Floats(list) if tables => Attr::Floats(list.iter().take(1).copied().collect()),
            other => other.clone(),
        };
        let attrs = desc.attrs.iter().map(|(name, attr)| (name.clone(), kept(name, attr))).collect();
        let node = NodeDesc {
            name: desc.name.clone(),
            domain: desc.domain.clone(),
            op: desc.op.clone(),
            version: desc.version,
            inputs: desc.inputs.clone(),
            outputs: desc.outputs.clone(),
            attrs,
        };
        Some(Rule { row, node })
    }

    /// Types and shapes of the outputs on these tensors.
    ///
    /// # Errors
    ///
    /// Tensors that the operator does not take, with the input and its dimensions.
    pub fn specs(&self, tensors: &[Option<&Tensor>]) -> Result<SmallVec<[TensorSpec; 1]>, ShapeError> {
        let view = View::of_tensors(&self.node, self.row.attributes_of(&self.node), tensors);
        let dims = dims(&view, self.row, &mut Sizes::default())?;
        let spec = |(output, dims): (usize, &Dims)| {
            let dtype = self.row.types.of(&view, output).ok_or(ShapeError::NoType(output))?;
            let sizes = dims.iter().map(|size| usize::try_from(size.known()?).ok());
            let shape = sizes.collect::<Option<Shape>>();
            let shape = shape.ok_or_else(|| ShapeError::Output { output, dims: dims[..].into() })?;
            Ok(TensorSpec { dtype, shape })
        };
        dims.iter().enumerate().map(spec).collect()
    }
}
