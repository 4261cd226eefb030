//! Graphs as rows of an index, and back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytemuck::{cast_slice, try_cast_slice};
use hashbrown::HashMap;
use kiln_kernels::memory;
use kiln_model::ir::{Attr, Graph, NodeDesc, ValueId};
use kiln_model::verify::verify;
use kiln_ops::lookup_flow;
use kiln_tensor::{Backing, Buffer, Compact, DType, Expansion, Factors, InFile, Tensor, TensorSpec};

use super::index::{
    AttrRow, CompactPartRow, DataRow, ElementsRow, FactorsRow, GraphRow, NodeRow, StoredRow, TensorRow,
};
use super::{PackedError, PackedFile, Writer};

/// How many times larger elements may be than their packed form: `f32` packed into 2 bits is 16 times larger, and this
/// allows twice that.
const MOST_PACKED: usize = 32;

/// Longer lists of numbers are stored in the data.
const MANY: usize = 256;

/// The greatest depth of bodies within bodies.
const DEPTH: usize = 64;

/// A constant of a graph whose nodes have been made.
#[derive(Clone, Debug)]
pub struct Constant {
    /// Its graph's number ([`GraphRow::number`]).
    pub graph: u32,
    /// Its value.
    pub value: ValueId,
    /// Its elements.
    pub tensor: Tensor,
    /// Where a file has its elements, or the stored elements of a compact constant.
    pub stored_in: Option<InFile>,
    /// Whether its elements are kept. They need not be if only packed copies are used.
    pub kept: bool,
    /// Its row, once its elements have been added.
    pub added: Option<TensorRow>,
}

/// The rows of a graph and of its bodies, whose constants have been taken out. Kept elements are added to the data.
///
/// # Errors
///
/// [`PackedError`] as [`Writer::add`]; for elements that cannot be kept.
pub fn rows_of(graph: &Graph, constants: &mut [Constant], writer: &mut Writer) -> Result<Vec<GraphRow>, PackedError> {
    let mut flat = Flat { rows: Vec::new(), numbers: 0, constants, writer };
    flat.graph(graph, true)?;
    Ok(flat.rows.into_iter().flatten().collect())
}

struct Flat<'a> {
    /// Rows in the order in which graphs are visited; `None` while a graph's bodies are visited.
    rows: Vec<Option<GraphRow>>,
    /// Graphs whose nodes are made.
    numbers: u32,
    constants: &'a mut [Constant],
    writer: &'a mut Writer,
}

impl Flat<'_> {
    fn graph(&mut self, graph: &Graph, is_made: bool) -> Result<u32, PackedError> {
        let (index, number) = (self.rows.len(), is_made.then_some(self.numbers));
        self.rows.push(None);
        self.numbers += u32::from(is_made);
        let numbers = |values: &[ValueId]| values.iter().map(|value| value.0).collect();
        let mut row = GraphRow {
            name: graph.name.clone(),
            number,
            nodes: Vec::with_capacity(graph.nodes.len()),
            values: graph.values.clone(),
            inputs: numbers(&graph.inputs),
            outputs: numbers(&graph.outputs),
            constants: Vec::new(),
        };
        let mut own: Vec<_> = graph.constants.iter().collect();
        own.sort_unstable_by_key(|(value, _)| value.0);
        for (&value, tensor) in own {
            row.constants.push((value.0, tensor_row(tensor, true, None, self.writer)?));
        }
        for at in 0..self.constants.len() {
            let Constant { graph, value, ref tensor, ref stored_in, kept, ref added } = self.constants[at];
            if Some(graph) != number {
                continue;
            }
            let made = match added {
                Some(added) => added.clone(),
                None => {
                    let made = tensor_row(tensor, kept, stored_in.as_ref(), self.writer)?;
                    self.constants[at].added = kept.then(|| made.clone());
                    made
                }
            };
            row.constants.push((value.0, made));
        }
        // In the order of values, so that equal models give equal files.
        row.constants.sort_unstable_by_key(|(value, _)| *value);
        for node in &graph.nodes {
            row.nodes.push(self.node(node)?);
        }
        self.rows[index] = Some(row);
        Ok(index as u32)
    }

    fn node(&mut self, node: &NodeDesc) -> Result<NodeRow, PackedError> {
        let is_flow = lookup_flow(&node.domain, &node.op).is_some();
        let mut attrs = Vec::with_capacity(node.attrs.len());
        for (name, attr) in &node.attrs {
            let row = match attr {
                Attr::Int(value) => AttrRow::Int(*value),
                Attr::Float(value) => AttrRow::Float(*value),
                Attr::Str(value) => AttrRow::Str(value.clone()),
                Attr::Ints(values) if values.len() > MANY => AttrRow::ManyInts(self.writer.add(cast_slice(values))?),
                Attr::Floats(values) if values.len() > MANY => {
                    AttrRow::ManyFloats(self.writer.add(cast_slice(values))?)
                }
                Attr::Ints(values) => AttrRow::Ints(values.clone()),
                Attr::Floats(values) => AttrRow::Floats(values.clone()),
                Attr::Strs(values) => AttrRow::Strs(values.clone()),
                Attr::Tensor(tensor) => AttrRow::Tensor(tensor_row(tensor, true, None, self.writer)?),
                Attr::Graph(body) => AttrRow::Graph(self.graph(body, is_flow)?),
                Attr::Chain(program) => AttrRow::Chain((**program).clone()),
            };
            attrs.push((name.clone(), row));
        }
        let numbers = |values: &[Option<ValueId>]| values.iter().map(|value| value.map(|value| value.0)).collect();
        Ok(NodeRow {
            name: node.name.clone(),
            domain: node.domain.clone(),
            op: node.op.clone(),
            version: node.version,
            attrs,
            inputs: numbers(&node.inputs),
            outputs: numbers(&node.outputs),
        })
    }
}

/// The row of a tensor, whose elements a file may have (`stored_in`).
fn tensor_row(
    tensor: &Tensor,
    kept: bool,
    stored_in: Option<&InFile>,
    writer: &mut Writer,
) -> Result<TensorRow, PackedError> {
    let place = stored_in.filter(|_| kept);
    let elements = match (tensor.dtype(), tensor.compact_form()) {
        (DType::String, _) => {
            let texts = tensor.as_strings().map_err(|error| PackedError::Unsupported(error.to_string()))?;
            ElementsRow::Texts(texts.to_vec())
        }
        (_, Some((form, first))) => {
            let Compact { stored, expansion } = &*form;
            let factors = |factors: &Option<Factors>| {
                factors.as_ref().map(|kept| FactorsRow { values: kept.values().to_vec(), grain: kept.grain() })
            };
            let (first, zero, scale) = (first as u64, factors(&expansion.zero), factors(&expansion.scale));
            let (dtype, shape) = (stored.dtype(), sizes(stored.shape()));
            match place.and_then(|place| writer.refer(place, stored.bytes())) {
                Some(part) => {
                    let row = CompactPartRow { dtype, shape, part, first, zero, scale };
                    ElementsRow::CompactPart(Box::new(row))
                }
                None => {
                    let data = if kept { Some(writer.add(stored.bytes())?) } else { None };
                    let stored = Box::new(StoredRow { dtype, shape, data });
                    ElementsRow::Compact { stored, first, zero, scale }
                }
            }
        }
        // Small elements are kept in any case.
        _ if kept || tensor.byte_len() < super::PAGE => {
            match place.and_then(|place| writer.refer(place, tensor.bytes())) {
                Some(part) => ElementsRow::Part(part),
                None => ElementsRow::Data(writer.add(tensor.bytes())?),
            }
        }
        _ => ElementsRow::Absent,
    };
    Ok(TensorRow { dtype: tensor.dtype(), shape: sizes(tensor.shape()), elements })
}

fn sizes(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&size| size as u64).collect()
}

/// A graph of an index, with elements in the mapped file.
pub struct Rebuilt {
    /// The graph.
    pub graph: Graph,
    /// Constants without elements: the number of the graph, the value, and the backing that records an attempt to read
    /// them.
    pub absent: Vec<(u32, ValueId, Arc<Backing>)>,
}

/// The graph that an index describes.
///
/// # Errors
///
/// [`PackedError::Damaged`] for rows that make no graph.
pub fn graph_of(file: &PackedFile) -> Result<Rebuilt, PackedError> {
    let mut rebuilt = rebuilt(file, &file.index().graphs)?;
    rebuilt.graph.metadata = Arc::new(file.index().metadata.clone());
    Ok(rebuilt)
}

/// A graph in the file beside the model's graph, with all elements in the data.
///
/// # Errors
///
/// As [`graph_of`], and for missing elements.
pub fn whole_graph(file: &PackedFile, rows: &[GraphRow]) -> Result<Graph, PackedError> {
    let Rebuilt { graph, absent } = rebuilt(file, rows)?;
    match absent.first() {
        None => Ok(graph),
        Some((_, _, backing)) => {
            let reason = format!("the elements of '{}' are nowhere", backing.path().display());
            Err(PackedError::damaged(file.path(), reason))
        }
    }
}

fn rebuilt(file: &PackedFile, rows: &[GraphRow]) -> Result<Rebuilt, PackedError> {
    let damaged = |reason: String| PackedError::damaged(file.path(), reason);
    // Bodies come after the graphs of their nodes, so graphs are made from the last one to the first.
    let mut made: Vec<Option<Graph>> = Vec::new();
    made.resize_with(rows.len(), || None);
    let mut heights = vec![0; rows.len()];
    let mut absent = Vec::new();
    for (index, row) in rows.iter().enumerate().rev() {
        let mut builder = Builder { file, row, absent: &mut absent };
        let mut graph = builder.constants().map_err(damaged)?;
        for node in &row.nodes {
            let mut attrs = BTreeMap::new();
            for (name, attr) in &node.attrs {
                let attr = match attr {
                    AttrRow::Graph(body) => {
                        let body = *body as usize;
                        let whose = || format!("graph {index} has body {body}, which is not its own");
                        let own = made.get_mut(body).filter(|_| body > index).and_then(Option::take);
                        heights[index] = heights[index].max(heights[body.min(rows.len() - 1)] + 1);
                        Attr::Graph(Arc::new(own.ok_or_else(whose).map_err(damaged)?))
                    }
                    plain => builder.attr(plain).map_err(damaged)?,
                };
                attrs.insert(name.clone(), attr);
            }
            let ids = |values: &[Option<u32>]| values.iter().map(|value| value.map(ValueId)).collect();
            graph.nodes.push(NodeDesc {
                name: node.name.clone(),
                domain: node.domain.clone(),
                op: node.op.clone(),
                version: node.version,
                attrs,
                inputs: ids(&node.inputs),
                outputs: ids(&node.outputs),
            });
        }
        if heights[index] > DEPTH {
            return Err(damaged(format!("bodies within bodies, more than {DEPTH} deep")));
        }
        made[index] = Some(graph);
    }
    let graph = made.first_mut().and_then(Option::take).ok_or_else(|| damaged("it has no graph".to_owned()))?;
    if made.iter().any(Option::is_some) {
        return Err(damaged("it has graphs that no node has".to_owned()));
    }
    verify(&graph).map_err(|broken| damaged(broken.to_string()))?;
    Ok(Rebuilt { graph, absent })
}

/// Makes a graph of its row.
struct Builder<'a> {
    file: &'a PackedFile,
    row: &'a GraphRow,
    absent: &'a mut Vec<(u32, ValueId, Arc<Backing>)>,
}

impl Builder<'_> {
    /// The graph without its nodes.
    fn constants(&mut self) -> Result<Graph, String> {
        let ids = |values: &[u32]| values.iter().copied().map(ValueId).collect();
        let mut constants = HashMap::with_capacity(self.row.constants.len());
        for (value, row) in &self.row.constants {
            let tensor = self.tensor(row, Some(ValueId(*value)))?;
            constants.insert(ValueId(*value), tensor);
        }
        Ok(Graph {
            name: self.row.name.clone(),
            values: self.row.values.clone(),
            inputs: ids(&self.row.inputs),
            outputs: ids(&self.row.outputs),
            constants,
            ..Graph::default()
        })
    }

    fn attr(&mut self, row: &AttrRow) -> Result<Attr, String> {
        Ok(match row {
            AttrRow::Int(value) => Attr::Int(*value),
            AttrRow::Float(value) => Attr::Float(*value),
            AttrRow::Str(value) => Attr::Str(value.clone()),
            AttrRow::Ints(values) => Attr::Ints(values.clone()),
            AttrRow::Floats(values) => Attr::Floats(values.clone()),
            AttrRow::ManyInts(data) => Attr::Ints(self.numbers(*data)?),
            AttrRow::ManyFloats(data) => Attr::Floats(self.numbers(*data)?),
            AttrRow::Strs(values) => Attr::Strs(values.clone()),
            AttrRow::Tensor(tensor) => Attr::Tensor(self.tensor(tensor, None)?),
            AttrRow::Graph(_) => return Err("a body out of place".to_owned()),
            AttrRow::Chain(program) => {
                // A chain without steps stands for "nothing" between a product and its activation.
                let passes_on = program.steps.is_empty() && program.inputs.len() == 1;
                if !program.is_valid() && !passes_on {
                    return Err(format!("a chain that names what is not there: {program:?}"));
                }
                Attr::Chain(Arc::new(program.clone()))
            }
        })
    }

    fn tensor(&mut self, row: &TensorRow, value: Option<ValueId>) -> Result<Tensor, String> {
        let spec = spec(row.dtype, &row.shape)?;
        match &row.elements {
            ElementsRow::Data(data) => self.mapped(spec, *data),
            ElementsRow::Texts(texts) => {
                let shape = spec.shape.clone();
                Tensor::from_strings(shape, texts.clone()).map_err(|error| error.to_string())
            }
            ElementsRow::Absent => self.nowhere(spec, value),
            ElementsRow::Compact { stored, first, zero, scale } => {
                let whole = self::spec(stored.dtype, &stored.shape)?;
                let elements = whole.elements().map_err(|error| error.to_string())?;
                let stored = match stored.data {
                    Some(data) => self.mapped(whole, data)?,
                    None => self.nowhere(whole, value)?,
                };
                compact(&spec, stored, *first, factors(zero, elements)?, factors(scale, elements)?)
            }
            ElementsRow::Part(part) => self.referred(spec, *part),
            ElementsRow::CompactPart(row) => {
                let CompactPartRow { dtype, shape, part, first, zero, scale } = &**row;
                let whole = self::spec(*dtype, shape)?;
                let elements = whole.elements().map_err(|error| error.to_string())?;
                let stored = self.referred(whole, *part)?;
                compact(&spec, stored, *first, factors(zero, elements)?, factors(scale, elements)?)
            }
        }
    }

    /// A copy of numbers in the data.
    fn numbers<T: bytemuck::Pod>(&self, data: DataRow) -> Result<Vec<T>, String> {
        let bytes = self.file.data(data)?;
        let numbers = try_cast_slice(bytes.bytes()).map_err(|error| format!("a list of numbers: {error}"))?;
        Ok(memory::copied(numbers))
    }

    /// Elements in the mapped file.
    fn mapped(&self, spec: TensorSpec, data: DataRow) -> Result<Tensor, String> {
        if spec.dtype == DType::String {
            return Err("texts are not in the data".to_owned());
        }
        Tensor::from_foreign(spec, self.file.data(data)?).map_err(|error| error.to_string())
    }

    /// Elements in a mapped file beside the packed model, or a copy of them.
    fn referred(&self, spec: TensorSpec, part: u32) -> Result<Tensor, String> {
        if spec.dtype == DType::String {
            return Err("texts are no part of a file".to_owned());
        }
        let bytes = self.file.part(part, spec.dtype.size())?;
        Tensor::from_foreign(spec, bytes).map_err(|error| error.to_string())
    }

    /// Elements that are not in the file.
    fn nowhere(&mut self, spec: TensorSpec, value: Option<ValueId>) -> Result<Tensor, String> {
        let (Some(value), Some(number)) = (value, self.row.number) else {
            return Err("elements that are nowhere, of what no node has packed".to_owned());
        };
        let name = self.row.values.get(value.index()).map_or("", |info| info.name.as_str());
        let backing = Backing::absent(Path::new(name));
        self.absent.push((number, value, backing.clone()));
        let bytes = spec.elements().map_err(|error| error.to_string())?.checked_mul(spec.dtype.size());
        let bytes = bytes.ok_or("elements that cannot be counted")?;
        // Packed weights may be parts of other files, which share no bytes.
        let there = self.file.len().saturating_add(self.file.referred());
        if bytes > there.saturating_mul(MOST_PACKED) {
            return Err(format!("{bytes} bytes of elements that are nowhere, more than the file can have packed"));
        }
        Tensor::from_buffer(spec, Arc::new(Buffer::deferred(backing, 0, bytes)), bytes)
            .map_err(|error| error.to_string())
    }
}

/// Numbers that are made from stored elements, from element `first` on.
fn compact(
    spec: &TensorSpec,
    stored: Tensor,
    first: u64,
    zero: Option<Factors>,
    scale: Option<Factors>,
) -> Result<Tensor, String> {
    let whole = Tensor::compact(stored, Expansion { zero, scale }).map_err(|error| error.to_string())?;
    let first = usize::try_from(first).map_err(|_| "a part beyond its whole")?;
    let part = whole.part(first, spec.shape.iter().copied()).map_err(|error| error.to_string())?;
    part.filter(|part| part.spec() == spec).ok_or_else(|| "numbers that are not f32".to_owned())
}

/// The factors of a row, for that number of elements.
fn factors(row: &Option<FactorsRow>, elements: usize) -> Result<Option<Factors>, String> {
    let Some(row) = row else { return Ok(None) };
    let made = Factors::new(row.values.clone(), row.grain, elements);
    made.map(Some).ok_or_else(|| "factors that do not fit their elements".to_owned())
}

/// A type and a shape, if its elements can be counted.
fn spec(dtype: DType, shape: &[u64]) -> Result<TensorSpec, String> {
    let sizes: Result<Vec<usize>, _> = shape.iter().map(|&size| usize::try_from(size)).collect();
    let spec = TensorSpec::new(dtype, sizes.map_err(|_| format!("shape {shape:?} is too large"))?);
    spec.elements().map_err(|error| error.to_string())?;
    Ok(spec)
}
