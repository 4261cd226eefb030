//! The graph description that passes rewrite: nodes, values, constants. Holds no executor and runs nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use kiln_tensor::{Backing, DType, Tensor};
use serde::{Deserialize, Serialize};

/// A value (an edge) of a graph, by its index in [`Graph::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The index in [`Graph::values`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One declared dimension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dim {
    /// Known when the model was written.
    Fixed(usize),
    /// Named: equal names are equal sizes.
    Named(String),
    /// Unknown.
    Any,
}

impl From<usize> for Dim {
    fn from(size: usize) -> Dim {
        Dim::Fixed(size)
    }
}

impl From<&str> for Dim {
    fn from(name: &str) -> Dim {
        Dim::Named(name.to_owned())
    }
}

impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Dim::Fixed(size) => write!(f, "{size}"),
            Dim::Named(name) => f.write_str(name),
            Dim::Any => f.write_str("?"),
        }
    }
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueKind {
    /// A tensor; also where nothing is declared.
    #[default]
    Tensor,
    /// Tensors in an order.
    Sequence,
    /// A tensor or nothing.
    Optional,
    /// A sequence or nothing.
    OptionalSequence,
    /// A map whose keys are of that type.
    Map(DType),
    /// Maps whose keys are of that type, in an order.
    Maps(DType),
}

impl std::fmt::Display for ValueKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ValueKind::Tensor => "a tensor",
            ValueKind::Sequence => "a sequence",
            ValueKind::Optional => "an optional tensor",
            ValueKind::OptionalSequence => "an optional sequence",
            ValueKind::Map(_) => "a map",
            ValueKind::Maps(_) => "a sequence of maps",
        })
    }
}

/// What the model declares about a value.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ValueInfo {
    /// Its name in the model, unique; made up for values that passes add.
    pub name: String,
    /// Declared kind.
    pub kind: ValueKind,
    /// Declared element type of a tensor, where there is one.
    pub dtype: Option<DType>,
    /// Declared element type of the tensors in a sequence or an optional value, or of the values in a map, if any.
    pub elements: Option<DType>,
    /// Declared dimensions of a tensor, where there are any.
    pub dims: Option<Vec<Dim>>,
}

/// An attribute of a node.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Attr {
    Int(i64),
    Float(f32),
    Str(String),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Strs(Vec<String>),
    Tensor(Tensor),
    /// A body of `If`, `Loop` or `Scan`. It reads only its own inputs: values that it captures from the graphs around
    /// it are the last inputs of the node and, in the same order, the last inputs of each of the node's bodies. The
    /// node's attribute [`CAPTURES`] is their number.
    Graph(Arc<Graph>),
    /// The steps of a fused element-wise chain.
    Chain(Arc<kiln_kernels::cpu::chain::Program>),
}

macro_rules! attr_from {
    ($($from:ty => $kind:ident),* $(,)?) => {
        $(impl From<$from> for Attr { fn from(value: $from) -> Attr { Attr::$kind(value.into()) } })*
    };
}

attr_from! {
    i64 => Int, f32 => Float, &str => Str, String => Str, Tensor => Tensor, Graph => Graph,
    Vec<i64> => Ints, &[i64] => Ints, Vec<f32> => Floats, &[f32] => Floats, Vec<String> => Strs,
}

impl<const N: usize> From<[i64; N]> for Attr {
    fn from(values: [i64; N]) -> Attr {
        Attr::Ints(values.to_vec())
    }
}

/// The attribute ([`Attr::Int`]) of a node with bodies that counts the values they capture (see [`Attr::Graph`]).
pub const CAPTURES: &str = "captures";

/// The mark of nodes that read and write [batch, space..., channels] where ONNX has [batch, channels, space...].
pub const CHANNELS_LAST: &str = "channels_last";

/// Attributes by name, in a stable order.
pub type Attrs = BTreeMap<String, Attr>;

/// One node: an operator applied to values.
#[derive(Clone, Debug, Default)]
pub struct NodeDesc {
    /// Its name in the model, or made from its operator and first output where the model gives none.
    pub name: String,
    /// Operator domain: "" is ONNX's own, "kiln" that of fused operators.
    pub domain: String,
    /// Operator name.
    pub op: String,
    /// Operator-set version of the domain that the model was written for.
    pub version: i64,
    /// Attributes.
    pub attrs: Attrs,
    /// Inputs; `None` where an optional one is left out.
    pub inputs: Vec<Option<ValueId>>,
    /// Outputs; `None` where an optional one is not wanted.
    pub outputs: Vec<Option<ValueId>>,
}

impl NodeDesc {
    /// Whether it is operator `op` of ONNX's own domain.
    #[must_use]
    pub fn is(&self, op: &str) -> bool {
        self.domain.is_empty() && self.op == op
    }

    /// Whether it is the fused operator `op`.
    #[must_use]
    pub fn is_fused(&self, op: &str) -> bool {
        self.domain == "kiln" && self.op == op
    }

    /// Input number `index`, if the node has it.
    #[must_use]
    pub fn input(&self, index: usize) -> Option<ValueId> {
        self.inputs.get(index).copied().flatten()
    }

    /// Output number `index`, if it is wanted.
    #[must_use]
    pub fn output(&self, index: usize) -> Option<ValueId> {
        self.outputs.get(index).copied().flatten()
    }

    /// Whether a pass has marked it so: with an integer attribute that is not 0.
    #[must_use]
    pub fn is_marked(&self, mark: &str) -> bool {
        matches!(self.attrs.get(mark), Some(Attr::Int(value)) if *value != 0)
    }

    /// Whether the layout pass has marked it [`CHANNELS_LAST`].
    #[must_use]
    pub fn is_channels_last(&self) -> bool {
        self.is_marked(CHANNELS_LAST)
    }

    /// The number of its last inputs that are values captured by its bodies. A negative attribute, which is invalid,
    /// counts as [`usize::MAX`], which is invalid too.
    #[must_use]
    pub fn captures(&self) -> usize {
        match self.attrs.get(CAPTURES) {
            Some(Attr::Int(count)) => usize::try_from(*count).unwrap_or(usize::MAX),
            _ => 0,
        }
    }

    /// A list of integers, if present.
    #[must_use]
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attrs.get(name) {
            Some(Attr::Ints(values)) => Some(values),
            _ => None,
        }
    }

    /// A list of floats, if present.
    #[must_use]
    pub fn floats(&self, name: &str) -> Option<&[f32]> {
        match self.attrs.get(name) {
            Some(Attr::Floats(values)) => Some(values),
            _ => None,
        }
    }
}

/// What a model says of itself beside its graph. It does not change results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The tool that wrote the model.
    pub producer_name: String,
    /// Its version.
    pub producer_version: String,
    /// The model's namespace, a reversed domain name.
    pub domain: String,
    /// The model's own version.
    pub version: i64,
    /// A description of the model, in prose.
    pub description: String,
    /// The name of its graph.
    pub graph_name: String,
    /// A description of the graph, in prose.
    pub graph_description: String,
    /// Pairs of texts (`metadata_props`), in the file's order; the last pair of a key counts.
    pub properties: Vec<(String, String)>,
}

/// A graph: nodes in an order in which every value is made before it is used.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Name in the model.
    pub name: String,
    /// Nodes in topological order.
    pub nodes: Vec<NodeDesc>,
    /// Every value, by [`ValueId`].
    pub values: Vec<ValueInfo>,
    /// Values given by the caller, in the model's order.
    pub inputs: Vec<ValueId>,
    /// Values returned to the caller, in the model's order.
    pub outputs: Vec<ValueId>,
    /// Values known at load.
    pub constants: HashMap<ValueId, Tensor>,
    /// The files that constants are read from when their elements are first asked for.
    pub backings: Vec<Arc<Backing>>,
    /// What the model says of itself; empty in bodies.
    pub metadata: Arc<Metadata>,
}

impl Graph {
    /// Adds a value.
    pub fn add_value(&mut self, info: ValueInfo) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(info);
        id
    }

    /// Adds a value with a new name that begins with `stem`.
    pub fn fresh(&mut self, stem: &str) -> ValueId {
        let name = format!("{stem}#{}", self.values.len());
        self.add_value(ValueInfo { name, ..ValueInfo::default() })
    }

    /// Adds a constant.
    pub fn add_constant(&mut self, stem: &str, tensor: Tensor) -> ValueId {
        let id = self.fresh(stem);
        self.set_constant(id, tensor);
        id
    }

    /// Makes an existing value a constant.
    pub fn set_constant(&mut self, id: ValueId, tensor: Tensor) {
        let value = &mut self.values[id.index()];
        value.dtype = Some(tensor.dtype());
        value.dims = Some(tensor.shape().iter().copied().map(Dim::Fixed).collect());
        self.constants.insert(id, tensor);
    }

    /// The constant behind a value, if it is one.
    #[must_use]
    pub fn constant(&self, value: ValueId) -> Option<&Tensor> {
        self.constants.get(&value)
    }

    /// The constant behind input `index` of a node, if it is one.
    #[must_use]
    pub fn constant_input(&self, node: &NodeDesc, index: usize) -> Option<&Tensor> {
        node.input(index).and_then(|value| self.constant(value))
    }

    /// The declaration of a value.
    #[must_use]
    pub fn value(&self, value: ValueId) -> &ValueInfo {
        &self.values[value.index()]
    }

    /// How often each value is read, by nodes and as an output of the graph.
    #[must_use]
    pub fn use_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.values.len()];
        let used = self.nodes.iter().flat_map(|node| node.inputs.iter().flatten()).chain(&self.outputs);
        for value in used {
            counts[value.index()] += 1;
        }
        counts
    }

    /// The node that makes each value, by its index in [`Graph::nodes`].
    #[must_use]
    pub fn producers(&self) -> Vec<Option<usize>> {
        let mut producers = vec![None; self.values.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for value in node.outputs.iter().flatten() {
                producers[value.index()] = Some(index);
            }
        }
        producers
    }
}
