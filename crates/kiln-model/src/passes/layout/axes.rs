//! Operators with axes, for channels-last operands: their axes are mapped.

use kiln_tensor::{DType, Tensor};

use super::Layout;
use crate::facts::axis;
use crate::ir::{Attr, NodeDesc, ValueId};
use crate::operators::{self, Layout as Kind};
use crate::passes::permute::to_last;

/// The index in channels-last of an axis in ONNX's order.
pub(super) fn to_last_axis(axis: usize, rank: usize) -> usize {
    match axis {
        0 => 0,
        1 => rank - 1,
        space => space - 1,
    }
}

/// Whether the result has fewer axes; only a reduction can drop them.
fn drops_axes(node: &NodeDesc) -> bool {
    let attributes = node.attributes();
    attributes.declares("keepdims") && !attributes.flag("keepdims")
}

impl Layout<'_> {
    /// The node with its axes mapped, if that is all it needs and its operands are channels-last.
    pub(super) fn with_axes(&mut self, node: &NodeDesc, kind: Kind) -> Option<NodeDesc> {
        let data: Vec<ValueId> = match kind {
            Kind::Axis { since, .. } if node.version < since || drops_axes(node) => return None,
            Kind::Axis { all: true, .. } => node.inputs.iter().copied().flatten().collect(),
            Kind::Axis { .. } | Kind::Pads | Kind::Slices | Kind::Reduces => vec![node.input(0)?],
            _ => return None,
        };
        let rank = self.facts.rank(node.input(0)?)?;
        self.is_cheaper_last(&data, rank)?;
        match kind {
            Kind::Pads => self.pad(node, rank),
            Kind::Slices => self.slice(node, rank),
            Kind::Reduces => self.reduce(node, rank),
            _ => self.one_axis(node, rank, &data),
        }
    }

    fn one_axis(&mut self, node: &NodeDesc, rank: usize, data: &[ValueId]) -> Option<NodeDesc> {
        let at = axis(operators::of(node)?.attributes_of(node).int("axis"), rank)?;
        if data.iter().any(|&value| self.facts.rank(value) != Some(rank)) {
            return None;
        }
        let mut moved = node.clone();
        for input in moved.inputs.iter_mut().take(data.len()).flatten() {
            *input = self.last(*input, rank)?;
        }
        self.rest_plain(node, data.len());
        moved.attrs.insert("axis".to_owned(), Attr::Int(to_last_axis(at, rank) as i64));
        self.outputs_last(&mut moved)?;
        Some(moved)
    }

    /// Inputs that are not data stay in ONNX's order.
    fn rest_plain(&mut self, node: &NodeDesc, data: usize) {
        for input in node.inputs.iter().skip(data).flatten() {
            self.plain(*input);
        }
    }

    /// A list of integers that is an attribute or a constant input; `Some(None)` if it is absent.
    pub(super) fn list(&self, node: &NodeDesc, attribute: &str, input: usize) -> Option<Option<Vec<i64>>> {
        if let Some(values) = node.ints(attribute) {
            return Some(Some(values.to_vec()));
        }
        match node.input(input) {
            None => Some(None),
            Some(_) => {
                let constant = self.graph.constant_input(node, input)?;
                matches!(constant.dtype(), DType::I64 | DType::I32).then_some(())?;
                constant.to_i64_vec().ok().map(Some)
            }
        }
    }

    /// Stores such a list where the node has it.
    pub(super) fn set_list(
        &mut self,
        node: &mut NodeDesc,
        attribute: &str,
        input: usize,
        values: Vec<i64>,
    ) -> Option<()> {
        if node.attrs.contains_key(attribute) {
            node.attrs.insert(attribute.to_owned(), Attr::Ints(values));
            return Some(());
        }
        // Starts, ends and axes of one node have one type.
        let narrow = node.inputs.iter().skip(1).flatten().any(|&value| self.facts.is(value, DType::I32));
        let tensor = if narrow {
            let values: Vec<i32> = values.iter().map(|&value| i32::try_from(value).ok()).collect::<Option<_>>()?;
            Tensor::from_vec([values.len()], values)
        } else {
            Tensor::from_vec([values.len()], values)
        };
        let id = self.add_constant(attribute, tensor.ok()?);
        if node.inputs.len() <= input {
            node.inputs.resize(input + 1, None);
        }
        node.inputs[input] = Some(id);
        Some(())
    }

    fn pad(&mut self, node: &NodeDesc, rank: usize) -> Option<NodeDesc> {
        let pads = self.list(node, "pads", 1)??;
        if pads.len() != 2 * rank || node.input(3).is_some() {
            return None;
        }
        let (begins, ends) = pads.split_at(rank);
        let order = to_last(rank);
        let permuted = order.iter().map(|&axis| begins[axis]).chain(order.iter().map(|&axis| ends[axis])).collect();
        let mut moved = node.clone();
        self.set_list(&mut moved, "pads", 1, permuted)?;
        moved.inputs[0] = Some(self.last(node.input(0)?, rank)?);
        self.rest_plain(node, 1);
        self.outputs_last(&mut moved)?;
        Some(moved)
    }

    fn slice(&mut self, node: &NodeDesc, rank: usize) -> Option<NodeDesc> {
        let axes = match self.list(node, "axes", 3)? {
            Some(axes) => axes,
            None => {
                let starts = match node.ints("starts") {
                    Some(starts) => starts.len(),
                    None => usize::try_from(self.facts.dims(node.input(1)?)?.first()?.known()?).ok()?,
                };
                (0..starts as i64).collect()
            }
        };
        let axes =
            axes.into_iter().map(|at| Some(to_last_axis(axis(at, rank)?, rank) as i64)).collect::<Option<_>>()?;
        let mut moved = node.clone();
        if node.ints("starts").is_some() {
            moved.attrs.insert("axes".to_owned(), Attr::Ints(axes));
        } else {
            self.set_list(&mut moved, "axes", 3, axes)?;
        }
        moved.inputs[0] = Some(self.last(node.input(0)?, rank)?);
        self.rest_plain(node, 1);
        self.outputs_last(&mut moved)?;
        Some(moved)
    }

    /// A reduction that keeps its dimensions keeps the order. One that drops them has a result in ONNX's order if it
    /// drops all spatial axes, or the channels; it is not channels-last then.
    fn reduce(&mut self, node: &NodeDesc, rank: usize) -> Option<NodeDesc> {
        let keeps = node.attributes().flag("keepdims");
        let axes = match self.list(node, "axes", 1)? {
            Some(axes) if !axes.is_empty() => {
                axes.into_iter().map(|at| axis(at, rank)).collect::<Option<Vec<usize>>>()?
            }
            _ if node.attributes().flag("noop_with_empty_axes") => return None,
            _ => (0..rank).collect(),
        };
        let space_is_left = (2..rank).any(|at| !axes.contains(&at));
        if !keeps && space_is_left && !axes.contains(&1) {
            return None;
        }
        let mut moved = node.clone();
        let permuted = axes.iter().map(|&at| to_last_axis(at, rank) as i64).collect();
        // Attribute or input, depending on the version; without a list all axes are reduced, in any order.
        if node.ints("axes").is_some() || node.input(1).is_some() {
            self.set_list(&mut moved, "axes", 1, permuted)?;
        }
        moved.inputs[0] = Some(self.last(node.input(0)?, rank)?);
        self.rest_plain(node, 1);
        if keeps {
            self.outputs_last(&mut moved)?;
        } else {
            for output in node.outputs.iter().flatten() {
                self.made[output.index()] = true;
            }
        }
        Some(moved)
    }
}
