//! Layout: spatial operators run channels-last, where a 1x1 convolution is a plain matrix product, and all others are
//! loops over contiguous channels.
//!
//! # How
//!
//! The pass goes through the graph once and notes for each value in which orders it exists: ONNX's, channels-last, or
//! both. Each node then runs in an order that its operands have:
//!
//! - convolutions and pools *pull* their operand to channels-last and are marked `channels_last = 1`;
//! - other spatial operators, and operators that do not depend on the layout, *follow*: they run channels-last if that
//!   converts no more operands than ONNX's order would, with axes, pads and per-channel constants permuted ([`axes`],
//!   [`views`]);
//! - all others, and spatial operators on `f64`, get their operands in ONNX's order.
//!
//! The table of operators says which of these applies to an operator.
//!
//! A conversion is a Transpose, made where it is first needed and at most once in each direction. Constants, and
//! operands of lower rank, are permuted at load. Where the moved axes have size 1, the next cleaning makes a reshape of
//! the Transpose. A value's id stands for its form in ONNX's order, so the graph's outputs do not change; its
//! channels-last form is a separate value.

mod axes;
mod views;

use hashbrown::HashMap;
use kiln_tensor::{DType, Tensor};

use super::PassCx;
use super::permute::{as_ints, permuted, to_first, to_last};
use crate::facts::{Facts, Size};
use crate::ir::{Attr, CHANNELS_LAST, Graph, NodeDesc, ValueId};
use crate::operators::{self, Broadcast, Layout as Kind};

/// Ranks that have a channels-last order: one to three spatial dimensions.
const RANKS: std::ops::RangeInclusive<usize> = 3..=5;

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    if !graph.nodes.iter().any(pulls) {
        return 0;
    }
    let nodes = std::mem::take(&mut graph.nodes);
    let mut made = vec![false; graph.values.len()];
    for id in graph.inputs.iter().chain(graph.constants.keys()) {
        made[id.index()] = true;
    }
    let mut layout =
        Layout { graph, facts: &cx.facts, out: Vec::with_capacity(nodes.len()), last: HashMap::new(), made, moved: 0 };
    for node in nodes {
        layout.place(node);
    }
    for output in layout.graph.outputs.clone() {
        layout.plain(output);
    }
    let Layout { graph, out, moved, .. } = layout;
    graph.nodes = out;
    moved
}

struct Layout<'a> {
    graph: &'a mut Graph,
    facts: &'a Facts,
    out: Vec<NodeDesc>,
    /// Channels-last forms of values.
    last: HashMap<ValueId, ValueId>,
    /// Which values exist in ONNX's order.
    made: Vec<bool>,
    /// Nodes that run channels-last.
    moved: usize,
}

/// The node's kind in the table of operators.
fn kind(node: &NodeDesc) -> Kind {
    operators::of(node).map_or(Kind::Plain, |row| row.layout)
}

/// Whether a node needs its operand channels-last.
fn pulls(node: &NodeDesc) -> bool {
    kind(node) == Kind::Pulls && node.output(1).is_none()
}

impl Layout<'_> {
    /// Adds a node in the order that its operands have.
    fn place(&mut self, node: NodeDesc) {
        let is_there = |layout: &Self| node.input(0).is_some_and(|x| layout.last.contains_key(&x));
        let moved = match kind(&node) {
            Kind::Pulls if pulls(&node) => self.spatial(&node),
            Kind::Follows if node.outputs.len() == 1 && is_there(self) => self.spatial(&node),
            Kind::ElementWise => self.element_wise(&node),
            Kind::Quantizes if self.has_single_scale(&node) => self.element_wise(&node),
            Kind::Measures => self.measured(&node),
            kind => self.with_axes(&node, kind).or_else(|| self.view(&node, kind)),
        };
        match moved {
            Some(node) => {
                self.moved += 1;
                self.out.push(node);
            }
            None => self.keep(node),
        }
    }

    /// Whether a node quantises or dequantises all elements by one scale.
    fn has_single_scale(&self, node: &NodeDesc) -> bool {
        let parameters = node.inputs.iter().skip(1).flatten();
        node.attributes().int("block_size") == 0 && parameters.copied().all(|value| self.facts.rank(value) == Some(0))
    }

    /// Adds a node in ONNX's order.
    fn keep(&mut self, node: NodeDesc) {
        for input in node.inputs.iter().flatten() {
            self.plain(*input);
        }
        for output in node.outputs.iter().flatten() {
            self.made[output.index()] = true;
        }
        self.out.push(node);
    }

    fn spatial(&mut self, node: &NodeDesc) -> Option<NodeDesc> {
        let x = node.input(0)?;
        // Convolutions of `f64` are computed in ONNX's order: those of channels-last images go through `f32`.
        if self.facts.is(x, DType::F64) {
            return None;
        }
        // Weights have the rank of the image, whose own may be unknown.
        let rank = self.facts.rank(x).or_else(|| if pulls(node) { self.facts.rank(node.input(1)?) } else { None })?;
        RANKS.contains(&rank).then_some(())?;
        let mut moved = node.clone();
        moved.inputs[0] = Some(self.last(x, rank)?);
        if let Some(residual) = node.input(3).filter(|_| node.is_fused("FusedConv")) {
            moved.inputs[3] = Some(self.last(residual, rank)?);
        }
        moved.attrs.insert(CHANNELS_LAST.to_owned(), Attr::Int(1));
        self.outputs_last(&mut moved)?;
        Some(moved)
    }

    /// Gives a channels-last node channels-last outputs. Their ranks have to be known, so that they can be converted
    /// back.
    fn outputs_last(&mut self, node: &mut NodeDesc) -> Option<()> {
        let known = |value: &ValueId| self.facts.rank(*value).is_some_and(|rank| RANKS.contains(&rank));
        if !node.outputs.iter().flatten().all(known) {
            return None;
        }
        for output in node.outputs.iter_mut().flatten() {
            *output = self.new_last(*output);
        }
        Some(())
    }

    /// A new value for the channels-last form of another.
    fn new_last(&mut self, value: ValueId) -> ValueId {
        let (name, dtype) = (format!("{}.last", self.graph.value(value).name), self.graph.value(value).dtype);
        let id = self.graph.fresh(&name);
        self.graph.values[id.index()].dtype = self.facts.get(value).dtype.or(dtype);
        self.made.push(true);
        self.last.insert(value, id);
        id
    }

    fn transpose(&mut self, input: ValueId, output: ValueId, perm: &[usize]) {
        self.out.push(NodeDesc {
            name: format!("{}.order", self.graph.value(output).name),
            op: "Transpose".to_owned(),
            version: 13,
            attrs: [("perm".to_owned(), Attr::Ints(as_ints(perm)))].into(),
            inputs: vec![Some(input)],
            outputs: vec![Some(output)],
            ..NodeDesc::default()
        });
    }

    /// Makes sure that a value exists in ONNX's order.
    fn plain(&mut self, value: ValueId) {
        if std::mem::replace(&mut self.made[value.index()], true) {
            return;
        }
        if let (Some(&last), Some(rank)) = (self.last.get(&value), self.facts.rank(value)) {
            self.transpose(last, value, &to_first(rank));
        }
    }

    /// The channels-last form of a value of that rank.
    fn last(&mut self, value: ValueId, rank: usize) -> Option<ValueId> {
        if let Some(&last) = self.last.get(&value) {
            return Some(last);
        }
        if let Some(constant) = self.graph.constant(value) {
            let last = permuted(constant, &to_last(rank))?;
            return Some(self.constant_last(value, last));
        }
        let last = self.new_last(value);
        self.transpose(value, last, &to_last(rank));
        Some(last)
    }

    fn constant_last(&mut self, value: ValueId, last: Tensor) -> ValueId {
        let id = self.new_last(value);
        self.graph.set_constant(id, last);
        id
    }

    /// Whether running channels-last converts no more operands than running in ONNX's order. `None` if it converts
    /// more, a rank is unknown, or nothing is channels-last yet.
    fn is_cheaper_last(&self, operands: &[ValueId], rank: usize) -> Option<()> {
        RANKS.contains(&rank).then_some(())?;
        let full = operands.iter().filter(|&&v| self.facts.rank(v) == Some(rank) && self.graph.constant(v).is_none());
        let (mut to_last, mut to_plain, mut any) = (0, 0, false);
        for value in full {
            let is_last = self.last.contains_key(value);
            any |= is_last;
            to_last += usize::from(!is_last);
            to_plain += usize::from(!self.made[value.index()]);
        }
        (any && to_last <= to_plain).then_some(())
    }

    fn element_wise(&mut self, node: &NodeDesc) -> Option<NodeDesc> {
        let operands: Vec<ValueId> = node.inputs.iter().copied().flatten().collect();
        let rank = self.facts.rank(node.output(0)?)?;
        self.is_cheaper_last(&operands, rank)?;
        let row = operators::of(node).and_then(|row| row.element_wise);
        let scalars = row.is_some_and(|row| row.broadcast == Broadcast::Scalars);
        // Counted for all operands before any is converted.
        let as_they_are = |layout: &Self, index: usize, value: ValueId| {
            (scalars && index > 0)
                || layout.facts.dims(value).is_some_and(|dims| dims.iter().all(|d| d.is_one()) && dims.len() < rank)
        };
        for (index, value) in node.inputs.iter().enumerate() {
            let Some(value) = value else { continue };
            if !as_they_are(self, index, *value) && self.facts.rank(*value).is_none_or(|own| own > rank) {
                return None;
            }
        }
        let mut moved = node.clone();
        for (index, input) in moved.inputs.iter_mut().enumerate() {
            let Some(value) = *input else { continue };
            if as_they_are(self, index, value) {
                self.plain(value);
            } else {
                *input = Some(self.broadcast_last(value, rank)?);
            }
        }
        self.outputs_last(&mut moved)?;
        Some(moved)
    }

    /// A node of one operand, whose first output has the operand's places.
    fn measured(&mut self, node: &NodeDesc) -> Option<NodeDesc> {
        let (x, y) = (node.input(0)?, node.output(0)?);
        let rank = self.facts.rank(x).filter(|&rank| self.facts.rank(y) == Some(rank))?;
        self.is_cheaper_last(&[x], rank)?;
        let mut moved = node.clone();
        moved.inputs[0] = Some(self.last(x, rank)?);
        moved.outputs[0] = Some(self.new_last(y));
        for number in node.outputs.iter().skip(1).flatten() {
            self.made[number.index()] = true;
        }
        Some(moved)
    }

    /// The channels-last form of an operand that may have fewer dimensions than the result.
    fn broadcast_last(&mut self, value: ValueId, rank: usize) -> Option<ValueId> {
        let own = self.facts.rank(value)?;
        if own == rank {
            return self.last(value, rank);
        }
        let lead = rank - own;
        if let Some(constant) = self.graph.constant(value) {
            let shape: Vec<usize> = std::iter::repeat_n(1, lead).chain(constant.shape().iter().copied()).collect();
            let last = permuted(&constant.reshaped(shape).ok()?, &to_last(rank))?;
            let id = self.graph.add_constant(&format!("{}.last", self.graph.value(value).name), last);
            self.made.push(true);
            return Some(id);
        }
        self.plain(value);
        let axes: Vec<i64> = (0..lead as i64).collect();
        let axes = self.add_constant("axes", Tensor::from_vec([axes.len()], axes).ok()?);
        let full = self.add_value(value);
        self.out.push(NodeDesc {
            name: format!("{}.unsqueeze", self.graph.value(value).name),
            op: "Unsqueeze".to_owned(),
            version: 13,
            inputs: vec![Some(value), Some(axes)],
            outputs: vec![Some(full)],
            ..NodeDesc::default()
        });
        let last = self.add_value(value);
        self.transpose(full, last, &to_last(rank));
        Some(last)
    }

    fn add_value(&mut self, like: ValueId) -> ValueId {
        let (name, dtype) = (self.graph.value(like).name.clone(), self.facts.get(like).dtype);
        let id = self.graph.fresh(&name);
        self.graph.values[id.index()].dtype = dtype;
        self.made.push(true);
        id
    }

    fn add_constant(&mut self, stem: &str, tensor: Tensor) -> ValueId {
        let id = self.graph.add_constant(stem, tensor);
        self.made.push(true);
        id
    }

    /// A size as an element of a reshape's target; `rest` is whether -1 is in use.
    fn target(size: Size, rest: &mut bool) -> Option<i64> {
        match size {
            Size::Known(size) => (size > 0).then_some(size),
            Size::Symbol { .. } => (!std::mem::replace(rest, true)).then_some(-1),
        }
    }
}
