//! The index of a packed model: plain rows, in which graphs and places are numbers.

use kiln_kernels::cpu::chain::Program;
use kiln_model::ir::{Metadata, ValueInfo};
use kiln_run::exec::weights::Place;
use kiln_tensor::{DType, Grain};
use serde::{Deserialize, Serialize};

/// Everything but elements.
#[derive(Debug, Serialize, Deserialize)]
pub struct Index {
    /// What the file is for ([`super::MadeFor`]).
    pub made_for: Vec<(String, String)>,
    /// The digest of the model's structure before its passes, by which its records are found.
    pub structure: u64,
    /// The declared inputs of the model.
    pub inputs: Vec<Port>,
    /// The declared outputs of the model.
    pub outputs: Vec<Port>,
    /// What the model says of itself.
    pub metadata: Metadata,
    /// The model's graph, then the bodies in it; a body comes after its node's graph.
    pub graphs: Vec<GraphRow>,
    /// Packed weights in the data.
    pub panels: Vec<PanelRow>,
    /// The data of a decoder beside its session; none for other models.
    pub steps: Option<StepsRow>,
    /// Parts of the data, which cover it without gaps.
    pub spans: Vec<SpanRow>,
    /// The files that the model was in; empty for schema 3.
    pub sources: Sources,
    /// The states of a decoder, whose outputs follow those of its cache; empty before schema 6.
    pub states: Vec<StateRow>,
}

/// The files that a model was in.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sources {
    /// The digest of their bytes ([`Files::digest`](super::folder::Files::digest)); none for a model from memory.
    pub digest: Option<[u8; 32]>,
    /// The files that parts belong to.
    pub files: Vec<FileRow>,
    /// Parts of files that take the place of data.
    pub parts: Vec<PartRow>,
    /// Packed weights that are parts; empty before schema 5.
    pub panels: Vec<PartPanelRow>,
}

/// Packed weights whose bytes a file has as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartPanelRow {
    /// Which packing made them.
    pub place: Place,
    /// Their layout.
    pub layout: String,
    /// The number of the part in [`Sources::parts`].
    pub part: u32,
}

/// A file that parts belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRow {
    /// Its path below the packed model's folder.
    pub location: String,
    /// Its bytes.
    pub len: u64,
}

/// A part of a file, and what it must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRow {
    /// The number of the file in [`Sources::files`].
    pub file: u32,
    /// Where it is in that file.
    pub data: DataRow,
    /// The BLAKE3 digest of its bytes.
    pub digest: [u8; 32],
}

/// A declared input or output.
#[derive(Debug, Serialize, Deserialize)]
pub struct Port {
    /// Name, kind, type and dimensions.
    pub info: ValueInfo,
    /// Whether a request may leave it out.
    pub has_default: bool,
}

/// A graph.
#[derive(Debug, Serialize, Deserialize)]
pub struct GraphRow {
    /// Its name.
    pub name: String,
    /// Its number among the graphs whose nodes are made, which [`Place::graph`] names; none for others.
    pub number: Option<u32>,
    /// Nodes.
    pub nodes: Vec<NodeRow>,
    /// Values.
    pub values: Vec<ValueInfo>,
    /// Values that the caller gives.
    pub inputs: Vec<u32>,
    /// Values that the graph returns.
    pub outputs: Vec<u32>,
    /// Constants.
    pub constants: Vec<(u32, TensorRow)>,
}

/// A node.
#[derive(Debug, Serialize, Deserialize)]
pub struct NodeRow {
    /// Its name.
    pub name: String,
    /// Operator domain.
    pub domain: String,
    /// Operator.
    pub op: String,
    /// Version of the operator set.
    pub version: i64,
    /// Attributes by name.
    pub attrs: Vec<(String, AttrRow)>,
    /// Inputs.
    pub inputs: Vec<Option<u32>>,
    /// Outputs.
    pub outputs: Vec<Option<u32>>,
}

/// An attribute.
#[derive(Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum AttrRow {
    Int(i64),
    Float(f32),
    Str(String),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    /// Integers in the data: the nodes of trees are millions.
    ManyInts(DataRow),
    /// Floats in the data.
    ManyFloats(DataRow),
    Strs(Vec<String>),
    Tensor(TensorRow),
    /// The graph of that number in [`Index::graphs`].
    Graph(u32),
    Chain(Program),
}

/// A tensor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TensorRow {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub shape: Vec<u64>,
    /// Its elements.
    pub elements: ElementsRow,
}

/// Where elements are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ElementsRow {
    /// In the data.
    Data(DataRow),
    /// Texts.
    Texts(Vec<String>),
    /// Nowhere: only packed weights were made from them.
    Absent,
    /// `f32` numbers that are made from elements of a smaller type.
    Compact {
        /// Those elements.
        stored: Box<StoredRow>,
        /// The number of the first one.
        first: u64,
        /// The zero points, which are subtracted from them.
        zero: Option<FactorsRow>,
        /// The scales, by which the difference is multiplied.
        scale: Option<FactorsRow>,
    },
    /// The part of that number in [`Sources::parts`].
    Part(u32),
    /// As [`ElementsRow::Compact`], with stored elements in a part.
    CompactPart(Box<CompactPartRow>),
}

/// `f32` numbers that are made from elements of a smaller type in a file beside the packed model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompactPartRow {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub shape: Vec<u64>,
    /// The number of the part in [`Sources::parts`].
    pub part: u32,
    /// The number of the first element.
    pub first: u64,
    /// The zero points, which are subtracted.
    pub zero: Option<FactorsRow>,
    /// The scales, by which the difference is multiplied.
    pub scale: Option<FactorsRow>,
}

/// Elements of a smaller type.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredRow {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub shape: Vec<u64>,
    /// Where they are; `None` stands for [`ElementsRow::Absent`].
    pub data: Option<DataRow>,
}

/// Factors, and the elements to which each applies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FactorsRow {
    /// The numbers.
    pub values: Vec<f32>,
    /// The elements that share a factor.
    pub grain: Grain,
}

/// Bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DataRow {
    /// Where the first one is in the file.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

/// Packed weights in the data.
#[derive(Debug, Serialize, Deserialize)]
pub struct PanelRow {
    /// Which packing made them.
    pub place: Place,
    /// Their layout.
    pub layout: String,
    /// Where they are.
    pub data: DataRow,
}

/// How the steps of a decoder are served: the roles of its inputs, by name.
#[derive(Debug, Serialize, Deserialize)]
pub struct StepsRow {
    /// The tokens.
    pub tokens: String,
    /// The mask, 1 for each filled position, where the graph reads it.
    pub mask: Option<String>,
    /// The number of each new position, where the graph reads it.
    pub positions: Option<String>,
    /// The parts of the cache, in the order of the outputs after the logits.
    pub cache: Vec<CacheRow>,
    /// The output that has the logits.
    pub logits: String,
    /// Whether the graph counts the positions of one sequence for the whole batch.
    pub counts_one: bool,
    /// Whether a step is of one token.
    pub takes_one: bool,
    /// Inputs that are the same in all steps of a text.
    pub beside: Vec<String>,
    /// Biases that are added to scores by distance.
    pub biases: Vec<BiasRow>,
}

/// A part of a cache, [sequences, heads, room, size].
#[derive(Debug, Serialize, Deserialize)]
pub struct CacheRow {
    /// The input.
    pub past: String,
    /// Heads.
    pub heads: u64,
    /// Elements of a head.
    pub size: u64,
    /// Element type.
    pub dtype: DType,
}

/// A state that a decoder's model hands from step to step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRow {
    /// The input.
    pub past: String,
    /// Its sizes, without that of the batch.
    pub sizes: Vec<u64>,
    /// Element type.
    pub dtype: DType,
}

/// A bias by distance.
#[derive(Debug, Serialize, Deserialize)]
pub struct BiasRow {
    /// The input that has it.
    pub input: String,
    /// The graph that computes it, before passes, then its bodies. All elements are in the data.
    pub graphs: Vec<GraphRow>,
}

/// A part of the data, and what it must hold.
#[derive(Debug, Serialize, Deserialize)]
pub struct SpanRow {
    /// Where it is.
    pub data: DataRow,
    /// The BLAKE3 digest of its bytes.
    pub digest: [u8; 32],
}
