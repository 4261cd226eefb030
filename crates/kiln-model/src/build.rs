//! Graphs built by hand: for demonstrations, tests and generators. Does none of a loader's checks.

use kiln_tensor::{DType, Tensor};

use super::ir::{Attr, CAPTURES, Dim, Graph, NodeDesc, ValueId, ValueInfo};

/// Builds a graph node by node.
///
/// ```
/// use kiln_model::GraphBuilder;
/// use kiln_tensor::DType;
///
/// let mut graph = GraphBuilder::new("scores", 17);
/// let x = graph.input("x", DType::F32, ["rows".into(), 8.into()]);
/// let scores = graph.op("Softmax", &[x], &[("axis", (-1).into())]);
/// graph.output("scores", scores);
/// assert_eq!(graph.finish().nodes.len(), 1);
/// ```
#[derive(Debug)]
pub struct GraphBuilder {
    graph: Graph,
    version: i64,
}

impl GraphBuilder {
    /// An empty graph whose ONNX operators are those of operator set `version`.
    #[must_use]
    pub fn new(name: &str, version: i64) -> GraphBuilder {
        GraphBuilder { graph: Graph { name: name.to_owned(), ..Graph::default() }, version }
    }

    /// An input of the graph.
    pub fn input(&mut self, name: &str, dtype: DType, dims: impl IntoIterator<Item = Dim>) -> ValueId {
        let dims = Some(dims.into_iter().collect());
        let id =
            self.graph.add_value(ValueInfo { name: name.to_owned(), dtype: Some(dtype), dims, ..ValueInfo::default() });
        self.graph.inputs.push(id);
        id
    }

    /// A constant.
    pub fn constant(&mut self, tensor: Tensor) -> ValueId {
        self.graph.add_constant("constant", tensor)
    }

    /// A node of ONNX's own domain with one output, which is returned.
    pub fn op(&mut self, op: &str, inputs: &[ValueId], attrs: &[(&str, Attr)]) -> ValueId {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        let output = self.graph.fresh(op);
        self.node("", op, &inputs, vec![Some(output)], attrs);
        output
    }

    /// A node with several outputs, or with optional inputs left out.
    pub fn op_many(
        &mut self,
        op: &str,
        inputs: &[Option<ValueId>],
        outputs: usize,
        attrs: &[(&str, Attr)],
    ) -> Vec<ValueId> {
        let outputs: Vec<ValueId> = (0..outputs).map(|_| self.graph.fresh(op)).collect();
        self.node("", op, inputs, outputs.iter().copied().map(Some).collect(), attrs);
        outputs
    }

    /// A node with bodies. Each body's last inputs are those given here as `captured` (see [`Attr::Graph`]).
    pub fn op_with_bodies(
        &mut self,
        op: &str,
        inputs: &[Option<ValueId>],
        captured: &[ValueId],
        outputs: usize,
        attrs: &[(&str, Attr)],
    ) -> Vec<ValueId> {
        let inputs: Vec<_> = inputs.iter().copied().chain(captured.iter().copied().map(Some)).collect();
        let mut attrs = attrs.to_vec();
        attrs.push((CAPTURES, Attr::Int(captured.len() as i64)));
        self.op_many(op, &inputs, outputs, &attrs)
    }

    /// A node of another domain, with one output.
    pub fn op_of(&mut self, domain: &str, op: &str, inputs: &[Option<ValueId>], attrs: &[(&str, Attr)]) -> ValueId {
        let output = self.graph.fresh(op);
        self.node(domain, op, inputs, vec![Some(output)], attrs);
        output
    }

    /// Makes `value` an output of the graph with that name.
    pub fn output(&mut self, name: &str, value: ValueId) {
        name.clone_into(&mut self.graph.values[value.index()].name);
        self.graph.outputs.push(value);
    }

    /// Makes `value` an output with that name, and declares its type and dimensions.
    pub fn output_of(&mut self, name: &str, value: ValueId, dtype: DType, dims: impl IntoIterator<Item = Dim>) {
        self.output(name, value);
        let info = &mut self.graph.values[value.index()];
        info.dtype = Some(dtype);
        info.dims = Some(dims.into_iter().collect());
    }

    /// The graph.
    #[must_use]
    pub fn finish(self) -> Graph {
        self.graph
    }

    fn node(
        &mut self,
        domain: &str,
        op: &str,
        inputs: &[Option<ValueId>],
        outputs: Vec<Option<ValueId>>,
        attrs: &[(&str, Attr)],
    ) {
        self.graph.nodes.push(NodeDesc {
            name: format!("{op}_{}", self.graph.nodes.len()),
            domain: domain.to_owned(),
            op: op.to_owned(),
            version: if domain.is_empty() { self.version } else { 1 },
            attrs: attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect(),
            inputs: inputs.to_vec(),
            outputs,
        });
    }
}
