//! Models in onnxruntime's own format (`.ort`), a flat buffer: graphs whose weights and attributes are in the file.
//!
//! The crate `ort` copies tensors by running a model of one Identity in this format, and models for phones are shipped
//! in it. Models with bodies (If, Loop, Scan) and with weights in other files are refused by name. Fields are those of
//! `onnxruntime/core/flatbuffers/schema/ort.fbs`. The result is a graph, which is checked like one from a file.

use std::collections::HashMap;

use kiln::{Attr, DType, Dim, Graph, Tensor, TensorSpec, ValueId};
use kiln_model::NodeDesc;
use kiln_model::ir::ValueInfo;
use kiln_model::onnx::flat::{CutOff, Table};

use crate::error::{Code, Error, Result};

/// The place of a flat buffer's identifier.
const MARK: std::ops::Range<usize> = 4..8;

/// Numbers of fields, by table.
mod field {
    pub(super) const SESSION_MODEL: usize = 1;
    pub(super) const MODEL_OPSETS: usize = 1;
    pub(super) const MODEL_GRAPH: usize = 7;
    pub(super) const OPSET_DOMAIN: usize = 0;
    pub(super) const OPSET_VERSION: usize = 1;
    pub(super) const GRAPH_WEIGHTS: usize = 0;
    pub(super) const GRAPH_VALUES: usize = 1;
    pub(super) const GRAPH_NODES: usize = 2;
    pub(super) const GRAPH_INPUTS: usize = 5;
    pub(super) const GRAPH_OUTPUTS: usize = 6;
    pub(super) const GRAPH_SPARSE: usize = 7;
    pub(super) const NODE_NAME: usize = 0;
    pub(super) const NODE_DOMAIN: usize = 2;
    pub(super) const NODE_OPERATOR: usize = 5;
    pub(super) const NODE_INPUTS: usize = 8;
    pub(super) const NODE_OUTPUTS: usize = 9;
    pub(super) const NODE_ATTRIBUTES: usize = 10;
    pub(super) const VALUE_NAME: usize = 0;
    pub(super) const VALUE_TYPE: usize = 2;
    pub(super) const TYPE_KIND: usize = 1;
    pub(super) const TYPE_VALUE: usize = 2;
    pub(super) const TYPE_ELEMENT: usize = 0;
    pub(super) const TYPE_SHAPE: usize = 1;
    pub(super) const SHAPE_DIMS: usize = 0;
    pub(super) const DIM_VALUE: usize = 0;
    pub(super) const DIM_KIND: usize = 0;
    pub(super) const DIM_SIZE: usize = 1;
    pub(super) const DIM_NAME: usize = 2;
    pub(super) const TENSOR_NAME: usize = 0;
    pub(super) const TENSOR_DIMS: usize = 2;
    pub(super) const TENSOR_TYPE: usize = 3;
    pub(super) const TENSOR_BYTES: usize = 4;
    pub(super) const TENSOR_TEXTS: usize = 5;
    pub(super) const TENSOR_ELSEWHERE: usize = 6;
    pub(super) const ATTRIBUTE_NAME: usize = 0;
    pub(super) const ATTRIBUTE_KIND: usize = 2;
    pub(super) const ATTRIBUTE_FLOAT: usize = 3;
    pub(super) const ATTRIBUTE_INT: usize = 4;
    pub(super) const ATTRIBUTE_TEXT: usize = 5;
    pub(super) const ATTRIBUTE_TENSOR: usize = 6;
    pub(super) const ATTRIBUTE_FLOATS: usize = 8;
    pub(super) const ATTRIBUTE_INTS: usize = 9;
    pub(super) const ATTRIBUTE_TEXTS: usize = 10;
}

/// Whether the bytes are of this format.
pub(crate) fn is_ort(bytes: &[u8]) -> bool {
    bytes.get(MARK) == Some(b"ORTM")
}

/// The graph of a model, whose names and attributes are still to be checked.
///
/// # Errors
///
/// [`Code::NotImplemented`] for models with bodies, sparse weights or weights in other files, and
/// [`Code::InvalidProtobuf`] for bytes that are cut off or point beyond their end.
pub(crate) fn read(bytes: &[u8]) -> Result<Graph> {
    let session = Table::root(bytes)?;
    let model = session.table(field::SESSION_MODEL)?.ok_or_else(damaged)?;
    let stored = model.table(field::MODEL_GRAPH)?.ok_or_else(damaged)?;
    if !stored.tables(field::GRAPH_SPARSE)?.is_empty() {
        return Err(beyond("sparse weights"));
    }
    let mut versions: HashMap<&str, i64> = HashMap::new();
    for opset in model.tables(field::MODEL_OPSETS)? {
        versions.insert(domain(opset.text(field::OPSET_DOMAIN)?), opset.long(field::OPSET_VERSION)?);
    }
    let mut reading = Reading { graph: Graph { name: "ort".to_owned(), ..Graph::default() }, ids: HashMap::new() };
    for value in stored.tables(field::GRAPH_VALUES)? {
        let declared = declared(&value)?;
        reading.ids.insert(value.text(field::VALUE_NAME)?, reading.graph.add_value(declared));
    }
    for weight in stored.tables(field::GRAPH_WEIGHTS)? {
        let id = reading.id(weight.text(field::TENSOR_NAME)?);
        reading.graph.constants.insert(id, tensor(&weight)?);
    }
    for name in stored.texts(field::GRAPH_INPUTS)? {
        let id = reading.id(name);
        reading.graph.inputs.push(id);
    }
    for node in stored.tables(field::GRAPH_NODES)? {
        let of = domain(node.text(field::NODE_DOMAIN)?);
        let mut attrs = std::collections::BTreeMap::new();
        for attribute in node.tables(field::NODE_ATTRIBUTES)? {
            attrs.insert(attribute.text(field::ATTRIBUTE_NAME)?.to_owned(), attr(&attribute)?);
        }
        let [inputs, outputs] = [node.texts(field::NODE_INPUTS)?, node.texts(field::NODE_OUTPUTS)?]
            .map(|names| names.into_iter().map(|name| (!name.is_empty()).then(|| reading.id(name))).collect());
        reading.graph.nodes.push(NodeDesc {
            name: node.text(field::NODE_NAME)?.to_owned(),
            domain: of.to_owned(),
            op: node.text(field::NODE_OPERATOR)?.to_owned(),
            version: versions.get(of).copied().unwrap_or(1),
            attrs,
            inputs,
            outputs,
        });
    }
    for name in stored.texts(field::GRAPH_OUTPUTS)? {
        let id = reading.id(name);
        reading.graph.outputs.push(id);
    }
    Ok(reading.graph)
}

/// A graph that is being read, and its values by name.
struct Reading<'a> {
    graph: Graph,
    ids: HashMap<&'a str, ValueId>,
}

impl<'a> Reading<'a> {
    /// The value with a name, added where nothing declares it.
    fn id(&mut self, name: &'a str) -> ValueId {
        let graph = &mut self.graph;
        *self
            .ids
            .entry(name)
            .or_insert_with(|| graph.add_value(ValueInfo { name: name.to_owned(), ..ValueInfo::default() }))
    }
}

/// A domain in the form that graphs use: ONNX's own has two names.
fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

/// The model's declaration of a value. Only the name where the value is no tensor.
fn declared(value: &Table<'_>) -> Result<ValueInfo> {
    let info = ValueInfo { name: value.text(field::VALUE_NAME)?.to_owned(), ..ValueInfo::default() };
    let Some(declared) = value.table(field::VALUE_TYPE)? else { return Ok(info) };
    // 1 is a tensor among the kinds of the union.
    let (Some(tensor), 1) = (declared.table(field::TYPE_VALUE)?, declared.byte(field::TYPE_KIND)?) else {
        return Ok(info);
    };
    let dtype = DType::of_onnx(tensor.int(field::TYPE_ELEMENT)?.into());
    let Some(shape) = tensor.table(field::TYPE_SHAPE)? else { return Ok(ValueInfo { dtype, ..info }) };
    let mut dims = Vec::new();
    for dim in shape.tables(field::SHAPE_DIMS)? {
        let Some(value) = dim.table(field::DIM_VALUE)? else {
            dims.push(Dim::Any);
            continue;
        };
        let size = usize::try_from(value.long(field::DIM_SIZE)?);
        // 1 is a size among the kinds of dimensions, 2 a name.
        dims.push(match (value.byte(field::DIM_KIND)?, size) {
            (1, Ok(size)) => Dim::Fixed(size),
            (2, _) => Dim::from(value.text(field::DIM_NAME)?),
            _ => Dim::Any,
        });
    }
    Ok(ValueInfo { dtype, dims: Some(dims), ..info })
}

/// A tensor, copied out of the file.
fn tensor(stored: &Table<'_>) -> Result<Tensor> {
    let name = stored.text(field::TENSOR_NAME)?;
    if stored.has(field::TENSOR_ELSEWHERE)? && stored.long(field::TENSOR_ELSEWHERE)? >= 0 {
        return Err(beyond("weights in other files"));
    }
    let number = stored.int(field::TENSOR_TYPE)?;
    let dtype = DType::of_onnx(number.into()).ok_or_else(|| beyond(&format!("elements of type {number}")))?;
    let mut shape = Vec::new();
    for size in stored.numbers::<8>(field::TENSOR_DIMS)? {
        shape.push(usize::try_from(i64::from_le_bytes(size)).map_err(|_| damaged())?);
    }
    let wrong = |error| Error::new(Code::InvalidGraph, format!("ORT format: tensor '{name}': {error}"));
    if dtype == DType::String {
        let texts = stored.texts(field::TENSOR_TEXTS)?.into_iter().map(str::to_owned).collect();
        return Tensor::from_strings(shape, texts).map_err(wrong);
    }
    if dtype.packed_bits() < 8 {
        return Err(beyond(&format!("elements of {}", dtype.name())));
    }
    Tensor::from_bytes(TensorSpec::new(dtype, shape), stored.bytes(field::TENSOR_BYTES)?).map_err(wrong)
}

/// An attribute, by the number of its kind in ONNX.
fn attr(stored: &Table<'_>) -> Result<Attr> {
    Ok(match stored.int(field::ATTRIBUTE_KIND)? {
        1 => Attr::Float(stored.float(field::ATTRIBUTE_FLOAT)?),
        2 => Attr::Int(stored.long(field::ATTRIBUTE_INT)?),
        3 => Attr::Str(stored.text(field::ATTRIBUTE_TEXT)?.to_owned()),
        4 => Attr::Tensor(tensor(&stored.table(field::ATTRIBUTE_TENSOR)?.ok_or_else(damaged)?)?),
        6 => {
            let floats = stored.numbers::<4>(field::ATTRIBUTE_FLOATS)?;
            Attr::Floats(floats.into_iter().map(f32::from_le_bytes).collect())
        }
        7 => {
            let ints = stored.numbers::<8>(field::ATTRIBUTE_INTS)?;
            Attr::Ints(ints.into_iter().map(i64::from_le_bytes).collect())
        }
        8 => Attr::Strs(stored.texts(field::ATTRIBUTE_TEXTS)?.into_iter().map(str::to_owned).collect()),
        5 | 10 => return Err(beyond("bodies (If, Loop, Scan)")),
        kind => return Err(beyond(&format!("attributes of kind {kind}"))),
    })
}

impl From<CutOff> for Error {
    fn from(_: CutOff) -> Error {
        damaged()
    }
}

fn damaged() -> Error {
    Error::new(Code::InvalidProtobuf, "ORT format: the model is cut off or points beyond its end")
}

fn beyond(what: &str) -> Error {
    let advice = "load the ONNX model that it was made of";
    let reason = format!("ORT format: models with {what} are not implemented by Kiln: {advice}");
    Error::new(Code::NotImplemented, reason)
}

#[cfg(test)]
mod tests;
