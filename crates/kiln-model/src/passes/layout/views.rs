//! Reshapes, transposes and Shape of channels-last values.

use kiln_tensor::Tensor;

use super::{Layout, RANKS, axes::to_last_axis};
use crate::facts::axis;
use crate::ir::{Attr, NodeDesc, ValueId};
use crate::operators::Layout as Kind;
use crate::passes::permute::{as_ints, compose, perm_of, to_first, to_last};

impl Layout<'_> {
    /// The node on the channels-last form, if there is an equivalent one.
    pub(super) fn view(&mut self, node: &NodeDesc, kind: Kind) -> Option<NodeDesc> {
        let value = node.input(0)?;
        if kind == Kind::Transpose {
            return self.transposed(node, value);
        }
        let last = *self.last.get(&value)?;
        let rank = self.facts.rank(value)?;
        match kind {
            Kind::Shape => self.shape(node, value, last, rank),
            Kind::Squeeze => self.squeeze(node, last, rank),
            Kind::Unsqueeze => self.unsqueeze(node, last, rank),
            Kind::Reshape => self.reshape(node, value, last),
            _ => None,
        }
    }

    /// A transpose of a channels-last value starts from that form. A transpose whose result is in ONNX's order, of a
    /// value that is channels-last by itself, defines the channels-last form of its result.
    fn transposed(&mut self, node: &NodeDesc, value: ValueId) -> Option<NodeDesc> {
        let rank = self.facts.rank(value).or_else(|| node.ints("perm").map(<[i64]>::len))?;
        let perm = perm_of(node, rank)?;
        if let Some(&last) = self.last.get(&value).filter(|_| !self.made[value.index()]) {
            let mut moved = node.clone();
            let perm = compose(&to_first(rank), &perm);
            moved.attrs.insert("perm".to_owned(), Attr::Ints(as_ints(&perm)));
            moved.inputs[0] = Some(last);
            self.made[node.output(0)?.index()] = true;
            return Some(moved);
        }
        if RANKS.contains(&rank) && perm == to_first(rank) && self.facts.rank(node.output(0)?).is_some() {
            self.plain(value);
            self.last.insert(node.output(0)?, value);
        }
        None
    }

    /// The sizes of the channels-last form, permuted to ONNX's order.
    fn shape(&mut self, node: &NodeDesc, value: ValueId, last: ValueId, rank: usize) -> Option<NodeDesc> {
        if self.made[value.index()] {
            return None;
        }
        let at = |at: i64| (if at < 0 { at.saturating_add(rank as i64) } else { at }).clamp(0, rank as i64) as usize;
        let attributes = node.attributes();
        let (start, end) = (at(attributes.int("start")), at(attributes.integer("end").unwrap_or(rank as i64)));
        let places: Vec<i64> = (start..end.max(start)).map(|axis| to_last_axis(axis, rank) as i64).collect();
        let places = self.add_constant("places", Tensor::from_vec([places.len()], places).ok()?);
        let sizes = self.add_value(node.output(0)?);
        let mut shape = node.clone();
        shape.attrs.clear();
        shape.inputs[0] = Some(last);
        shape.outputs = vec![Some(sizes)];
        self.out.push(shape);
        self.made[node.output(0)?.index()] = true;
        Some(NodeDesc {
            name: format!("{}.order", node.name),
            op: "Gather".to_owned(),
            version: 13,
            attrs: [("axis".to_owned(), Attr::Int(0))].into(),
            inputs: vec![Some(sizes), Some(places)],
            outputs: node.outputs.clone(),
            ..NodeDesc::default()
        })
    }

    fn squeeze(&mut self, node: &NodeDesc, last: ValueId, rank: usize) -> Option<NodeDesc> {
        let axes = self.list(node, "axes", 1)??;
        let axes = axes.into_iter().map(|at| axis(at, rank)).collect::<Option<Vec<usize>>>()?;
        let channels_go = axes.contains(&1);
        let left = rank - axes.len();
        // Without channels, or with nothing but batch and channels, both orders are the same.
        let is_plain = channels_go || (left == 2 && !axes.contains(&0));
        let stays_last = !axes.contains(&0) && RANKS.contains(&left);
        if !(is_plain || stays_last) || self.facts.rank(node.output(0)?) != Some(left) {
            return None;
        }
        let mut moved = node.clone();
        self.set_list(&mut moved, "axes", 1, axes.iter().map(|&at| to_last_axis(at, rank) as i64).collect())?;
        moved.inputs[0] = Some(last);
        self.finish(&mut moved, is_plain)?;
        Some(moved)
    }

    fn unsqueeze(&mut self, node: &NodeDesc, last: ValueId, rank: usize) -> Option<NodeDesc> {
        let axes = self.list(node, "axes", 1)??;
        let rank = rank + axes.len();
        let axes = axes.into_iter().map(|at| axis(at, rank)).collect::<Option<Vec<usize>>>()?;
        if axes.iter().any(|&at| at < 2) || !RANKS.contains(&rank) || self.facts.rank(node.output(0)?) != Some(rank) {
            return None;
        }
        let mut moved = node.clone();
        self.set_list(&mut moved, "axes", 1, axes.iter().map(|&at| to_last_axis(at, rank) as i64).collect())?;
        moved.inputs[0] = Some(last);
        self.finish(&mut moved, false)?;
        Some(moved)
    }

    /// A reshape that keeps batch and channels regroups spatial axes, in either order.
    fn reshape(&mut self, node: &NodeDesc, value: ValueId, last: ValueId) -> Option<NodeDesc> {
        let (from, to) = (self.facts.dims(value)?, self.facts.dims(node.output(0)?)?);
        if !RANKS.contains(&to.len()) || from[..2] != to[..2] {
            return None;
        }
        let mut rest = false;
        let mut target = vec![0];
        for &axis in &to_last(to.len())[1..] {
            target.push(Self::target(to[axis], &mut rest)?);
        }
        let target = self.add_constant("target", Tensor::from_vec([target.len()], target).ok()?);
        let mut moved = NodeDesc {
            name: node.name.clone(),
            op: "Reshape".to_owned(),
            version: 13,
            inputs: vec![Some(last), Some(target)],
            outputs: node.outputs.clone(),
            ..NodeDesc::default()
        };
        self.finish(&mut moved, false)?;
        Some(moved)
    }

    fn finish(&mut self, node: &mut NodeDesc, is_plain: bool) -> Option<()> {
        if !is_plain {
            return self.outputs_last(node);
        }
        for output in node.outputs.iter().flatten() {
            self.made[output.index()] = true;
        }
        Some(())
    }
}
