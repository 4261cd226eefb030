//! A graph while a pass rewrites it: nodes in numbered slots, the maker of each value, and its number of readers.
//!
//! A pass goes through the slots in order, looks from a node up to the makers of its inputs, removes nodes and inserts
//! others. Slots keep their numbers until [`Edit::finish`], so the order stays valid as long as a node is put into the
//! slot of the last node that it replaces. All operations take constant time, whatever the size of the graph.

use hashbrown::HashMap;
use kiln_tensor::Tensor;

use crate::ir::{Graph, NodeDesc, ValueId};

/// See the [module](self).
pub(super) struct Edit<'a> {
    /// Values and constants. The nodes are in the slots until the end.
    pub(super) graph: &'a mut Graph,
    slots: Vec<Option<NodeDesc>>,
    before: HashMap<usize, Vec<NodeDesc>>,
    makers: Vec<Option<usize>>,
    uses: Vec<u32>,
    instead: Vec<ValueId>,
    changes: usize,
}

impl<'a> Edit<'a> {
    /// Moves the nodes of a graph into slots.
    pub(super) fn new(graph: &'a mut Graph) -> Edit<'a> {
        let (uses, makers) = (graph.use_counts(), graph.producers());
        let slots = std::mem::take(&mut graph.nodes).into_iter().map(Some).collect();
        let instead = (0..graph.values.len() as u32).map(ValueId).collect();
        Edit { graph, slots, before: HashMap::new(), makers, uses, instead, changes: 0 }
    }

    /// The numbers of all slots.
    pub(super) fn slots(&self) -> std::ops::Range<usize> {
        0..self.slots.len()
    }

    /// The node in a slot, with replaced inputs resolved.
    pub(super) fn node(&mut self, slot: usize) -> Option<&NodeDesc> {
        let Edit { slots, instead, .. } = self;
        let node = slots.get_mut(slot)?.as_mut()?;
        for input in node.inputs.iter_mut().flatten() {
            *input = resolved(instead, *input);
        }
        Some(node)
    }

    /// The node in a slot, without resolving inputs that were replaced.
    pub(super) fn at(&self, slot: usize) -> Option<&NodeDesc> {
        self.slots.get(slot)?.as_ref()
    }

    /// A copy of the node in a slot, if `wanted` is true for it.
    pub(super) fn cloned(&mut self, slot: usize, wanted: impl FnOnce(&NodeDesc) -> bool) -> Option<NodeDesc> {
        self.node(slot).filter(|node| wanted(node)).cloned()
    }

    /// The slot and node that make a value.
    pub(super) fn maker(&self, value: ValueId) -> Option<(usize, &NodeDesc)> {
        let slot = (*self.makers.get(value.index())?)?;
        Some((slot, self.slots[slot].as_ref()?))
    }

    /// The slot and node that make a value which is read once.
    pub(super) fn sole_maker(&self, value: ValueId) -> Option<(usize, &NodeDesc)> {
        if self.uses(value) == 1 { self.maker(value) } else { None }
    }

    /// How often a value is read, as a node's input and as an output of the graph.
    pub(super) fn uses(&self, value: ValueId) -> u32 {
        self.uses.get(value.index()).copied().unwrap_or(0)
    }

    /// Whether a value is returned to the caller.
    pub(super) fn is_output(&self, value: ValueId) -> bool {
        self.graph.outputs.contains(&value)
    }

    /// The constant of a node's input, if it is one.
    pub(super) fn constant(&self, node: &NodeDesc, index: usize) -> Option<&Tensor> {
        self.graph.constant_input(node, index)
    }

    /// A new constant.
    pub(super) fn add_constant(&mut self, stem: &str, tensor: Tensor) -> ValueId {
        let id = self.graph.add_constant(stem, tensor);
        self.grow();
        id
    }

    /// A new value with the element type of `value` and a name derived from it.
    pub(super) fn add_value_like(&mut self, value: ValueId) -> ValueId {
        let (stem, dtype) = (self.graph.value(value).name.clone(), self.graph.value(value).dtype);
        // Names of values that passes add do not grow when they are derived from each other.
        let id = self.graph.fresh(stem.split('#').next().unwrap_or_default());
        self.graph.values[id.index()].dtype = dtype;
        self.grow();
        id
    }

    fn grow(&mut self) {
        let count = self.graph.values.len();
        self.makers.resize(count, None);
        self.uses.resize(count, 0);
        self.instead.extend((self.instead.len() as u32..count as u32).map(ValueId));
    }

    /// Removes a node from its slot. Its outputs have no maker until another node with them is inserted.
    pub(super) fn take(&mut self, slot: usize) -> Option<NodeDesc> {
        self.node(slot)?;
        let node = self.slots[slot].take()?;
        for input in node.inputs.iter().flatten() {
            self.uses[input.index()] = self.uses[input.index()].saturating_sub(1);
        }
        for output in node.outputs.iter().flatten() {
            self.makers[output.index()] = None;
        }
        Some(node)
    }

    /// Puts a node into a slot, in place of its node.
    pub(super) fn put(&mut self, slot: usize, node: NodeDesc) {
        self.take(slot);
        for input in node.inputs.iter().flatten() {
            self.uses[input.index()] += 1;
        }
        for output in node.outputs.iter().flatten() {
            self.makers[output.index()] = Some(slot);
        }
        self.slots[slot] = Some(node);
        self.changes += 1;
    }

    /// Puts a node right before a slot. This pass does not visit it any more.
    pub(super) fn put_before(&mut self, slot: usize, node: NodeDesc) {
        for input in node.inputs.iter().flatten() {
            self.uses[input.index()] += 1;
        }
        self.before.entry(slot).or_default().push(node);
        self.changes += 1;
    }

    /// Removes the node in `slot`, whose output `old` equals `new`. If `old` is an output of the graph, its name has to
    /// stay: then the maker of `new` makes `old` instead, and if it cannot (for an input, a constant, another output),
    /// the node stays. Returns whether it was removed.
    pub(super) fn bypass(&mut self, slot: usize, old: ValueId, new: ValueId) -> bool {
        let new = resolved(&mut self.instead, new);
        if old == new {
            return false;
        }
        let (from, to) = if self.is_output(old) {
            let maker = self.makers.get(new.index()).copied().flatten();
            let Some(maker) = maker.filter(|&maker| maker < slot && !self.is_output(new)) else { return false };
            self.take(slot);
            let Some(node) = self.slots[maker].as_mut() else { return false };
            for output in node.outputs.iter_mut().filter(|output| **output == Some(new)) {
                *output = Some(old);
            }
            self.makers[new.index()] = None;
            self.makers[old.index()] = Some(maker);
            (new, old)
        } else {
            self.take(slot);
            (old, new)
        };
        self.instead[from.index()] = to;
        self.uses[to.index()] += std::mem::take(&mut self.uses[from.index()]);
        self.changes += 1;
        true
    }

    /// Makes the outputs of the node in `slot` constants, and drops the node.
    pub(super) fn make_constants(&mut self, slot: usize, tensors: Vec<Tensor>) {
        let Some(node) = self.take(slot) else { return };
        for (output, tensor) in node.outputs.iter().zip(tensors) {
            if let Some(output) = output {
                self.graph.set_constant(*output, tensor);
            }
        }
        self.changes += 1;
    }

    /// Puts the graph together again and returns the number of changes.
    pub(super) fn finish(mut self) -> usize {
        let slots = std::mem::take(&mut self.slots);
        let mut nodes = Vec::with_capacity(slots.len() + self.before.len());
        for (slot, node) in slots.into_iter().enumerate() {
            nodes.extend(self.before.remove(&slot).into_iter().flatten());
            nodes.extend(node);
        }
        for input in nodes.iter_mut().flat_map(|node| node.inputs.iter_mut().flatten()) {
            *input = resolved(&mut self.instead, *input);
        }
        self.graph.nodes = nodes;
        self.changes
    }
}

/// The value that replaces `value`, with the path to it shortened for the next time.
fn resolved(instead: &mut [ValueId], value: ValueId) -> ValueId {
    let mut end = value;
    while instead[end.index()] != end {
        end = instead[end.index()];
    }
    let mut at = value;
    while instead[at.index()] != end {
        at = std::mem::replace(&mut instead[at.index()], end);
    }
    end
}
