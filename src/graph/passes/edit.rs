//! A graph while a pass rewrites it: nodes in numbered slots, who makes what, and how often each value is read.
//!
//! A pass goes through the slots in order, looks from a node up to the makers of its inputs, takes nodes out and puts
//! others in. Slots keep their places until [`Edit::finish`], so that everything stays in order as long as a node is put
//! into the slot of the last node that it replaces. All operations are constant-time in the size of the graph.

use hashbrown::HashMap;

use crate::graph::ir::{Graph, NodeDesc, ValueId};
use crate::tensor::Tensor;

/// See the [module](self).
pub(super) struct Edit<'a> {
    /// Values and constants; its nodes are here in the slots until the end.
    pub(super) graph: &'a mut Graph,
    slots: Vec<Option<NodeDesc>>,
    before: HashMap<usize, Vec<NodeDesc>>,
    makers: Vec<Option<usize>>,
    uses: Vec<u32>,
    instead: Vec<ValueId>,
    changes: usize,
}

impl<'a> Edit<'a> {
    /// Takes the graph apart.
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

    /// The node in a slot, reading what its inputs now are.
    pub(super) fn node(&mut self, slot: usize) -> Option<&NodeDesc> {
        let Edit { slots, instead, .. } = self;
        let node = slots.get_mut(slot)?.as_mut()?;
        for input in node.inputs.iter_mut().flatten() {
            *input = resolved(instead, *input);
        }
        Some(node)
    }

    /// The node in a slot, whose inputs may have been replaced since.
    pub(super) fn at(&self, slot: usize) -> Option<&NodeDesc> {
        self.slots.get(slot)?.as_ref()
    }

    /// A copy of the node in a slot, if it is one that `wanted` says yes to.
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

    /// The constant behind an input of a node.
    pub(super) fn constant(&self, node: &NodeDesc, index: usize) -> Option<&Tensor> {
        self.graph.constant_input(node, index)
    }

    /// A new constant.
    pub(super) fn add_constant(&mut self, stem: &str, tensor: Tensor) -> ValueId {
        let id = self.graph.add_constant(stem, tensor);
        self.grow();
        id
    }

    /// A new value, of the same element type as `value` and named after it.
    pub(super) fn add_value_like(&mut self, value: ValueId) -> ValueId {
        let (stem, dtype) = (self.graph.value(value).name.clone(), self.graph.value(value).dtype);
        // Names of made-up values do not grow with every value that is made up from them.
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

    /// Takes a node out of its slot. Its outputs have no maker until another node with them is put somewhere.
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

    /// Puts a node into a slot, in place of the one that was there.
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

    /// Puts a node right before a slot. It is not looked at any more in this pass.
    pub(super) fn put_before(&mut self, slot: usize, node: NodeDesc) {
        for input in node.inputs.iter().flatten() {
            self.uses[input.index()] += 1;
        }
        self.before.entry(slot).or_default().push(node);
        self.changes += 1;
    }

    /// Removes the node in `slot`, whose output `old` is the same as `new`. Where the output is returned to the caller,
    /// its name has to live on: then the maker of `new` makes `old` instead, and where it cannot (an input, a constant,
    /// another output), the node stays. Says whether it could be removed.
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

    /// Puts the graph together again and says how many changes were made.
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

/// What is read instead of a value, with the way there shortened for the next time.
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
