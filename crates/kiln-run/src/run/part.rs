//! A part of an executable's nodes as an executable of its own, which shares the nodes, packed weights and constants.

use hashbrown::HashMap;
use kiln_kernels::Isa;
use kiln_model::ir::{Graph, NodeDesc, ValueId};
use kiln_model::value::Value;

use super::{Executable, Work};

/// Some nodes of an executable, ready to run.
pub struct Part {
    /// The executable of the nodes.
    pub executable: Executable,
    /// The whole graph's values that the part is given, in the order of its inputs.
    pub inputs: Vec<ValueId>,
    /// The whole graph's values that the part makes, in the order of its outputs.
    pub outputs: Vec<ValueId>,
}

impl Executable {
    /// Whether a value follows from the shapes of a request, a few numbers of its inputs, and constants.
    pub fn is_folded(&self, value: ValueId) -> bool {
        self.folded[value.index()]
    }

    /// Whether a product of `rows` rows adds in an order that does not depend on their number.
    pub fn adds_in_order(&self, product: usize, isa: Isa, rows: usize) -> bool {
        matches!(&self.steps[product].work, Work::Node(node) if node.adds_in_order(isa, rows))
    }

    /// The graph's description with the constants that its executable holds. `graph` is the one that the executable was
    /// made of.
    pub fn whole(&self, graph: &Graph) -> Graph {
        let mut whole = graph.clone();
        for (index, constant) in self.constants.iter().enumerate() {
            if let Some(Value::Tensor(tensor)) = constant {
                whole.constants.insert(ValueId(index as u32), tensor.clone());
            }
        }
        whole
    }

    /// The part with these nodes of `graph`, in the graph's order, and with the values that `wanted` names as outputs.
    /// `graph` is the one that this executable was made of, with its constants.
    pub fn part(&self, graph: &Graph, nodes: &[usize], wanted: &dyn Fn(ValueId) -> bool) -> Part {
        let mut cut = Cut { whole: graph, graph: Graph::default(), numbers: HashMap::new(), inputs: Vec::new() };
        let mut outputs = Vec::new();
        for &node in nodes {
            let desc = &graph.nodes[node];
            let inputs = desc.inputs.iter().map(|input| input.map(|value| cut.read(value))).collect();
            let made = desc.outputs.iter().map(|output| output.map(|value| cut.make(value))).collect();
            outputs.extend(desc.outputs.iter().flatten().copied().filter(|&value| wanted(value)));
            cut.graph.nodes.push(NodeDesc { inputs, outputs: made, ..desc.clone() });
        }
        let Cut { mut graph, numbers, inputs, .. } = cut;
        graph.outputs = outputs.iter().map(|value| numbers[value]).collect();
        let works = nodes.iter().map(|&node| (self.steps[node].work.clone(), self.steps[node].fused.clone()));
        Part { executable: Executable::new(&graph, works), inputs, outputs }
    }
}

/// A graph that is being cut out of another one.
struct Cut<'a> {
    whole: &'a Graph,
    graph: Graph,
    /// The part's number of each value of the whole graph that it has.
    numbers: HashMap<ValueId, ValueId>,
    inputs: Vec<ValueId>,
}

impl Cut<'_> {
    /// The number of a value that a node reads: a constant, made before, or an input.
    fn read(&mut self, value: ValueId) -> ValueId {
        if let Some(&known) = self.numbers.get(&value) {
            return known;
        }
        let number = self.make(value);
        match self.whole.constants.get(&value) {
            Some(tensor) => drop(self.graph.constants.insert(number, tensor.clone())),
            None => {
                self.graph.inputs.push(number);
                self.inputs.push(value);
            }
        }
        number
    }

    fn make(&mut self, value: ValueId) -> ValueId {
        let number = self.graph.add_value(self.whole.value(value).clone());
        self.numbers.insert(value, number);
        number
    }
}
