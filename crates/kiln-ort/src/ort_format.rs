//! Models in onnxruntime's own format (`.ort`), a flat buffer: those of plain nodes without weights.
//!
//! The crate `ort` copies tensors by running such a model of one Identity. Others are refused by name: the format of each
//! onnxruntime is its own. Fields are those of `onnxruntime/core/flatbuffers/schema/ort.fbs`.

use std::collections::HashMap;

use kiln::{DType, Dim, Graph, GraphBuilder, ValueId};

use crate::error::{Code, Error, Result};

/// Where a flat buffer says what it is.
const MARK: std::ops::Range<usize> = 4..8;
/// Values, nodes and names of the largest model that is read.
const MOST: usize = 64;

/// Numbers of fields.
const SESSION_MODEL: usize = 1;
const MODEL_OPSETS: usize = 1;
const MODEL_GRAPH: usize = 7;
const OPSET_DOMAIN: usize = 0;
const OPSET_VERSION: usize = 1;
const GRAPH_INITIALIZERS: usize = 0;
const GRAPH_VALUES: usize = 1;
const GRAPH_NODES: usize = 2;
const GRAPH_INPUTS: usize = 5;
const GRAPH_OUTPUTS: usize = 6;
const GRAPH_SPARSE: usize = 7;
const NODE_DOMAIN: usize = 2;
const NODE_OPERATOR: usize = 5;
const NODE_INPUTS: usize = 8;
const NODE_OUTPUTS: usize = 9;
const NODE_ATTRIBUTES: usize = 10;
const VALUE_NAME: usize = 0;
const VALUE_TYPE: usize = 2;
const TYPE_KIND: usize = 1;
const TYPE_VALUE: usize = 2;
const TENSOR_ELEMENT: usize = 0;
const TENSOR_SHAPE: usize = 1;
const SHAPE_DIMS: usize = 0;
const DIM_VALUE: usize = 0;
const DIM_KIND: usize = 0;
const DIM_SIZE: usize = 1;
const DIM_NAME: usize = 2;

/// Whether the bytes are of this format.
pub(crate) fn is_ort(bytes: &[u8]) -> bool {
    bytes.get(MARK) == Some(b"ORTM")
}

/// The graph of a model.
///
/// # Errors
///
/// [`Code::NotImplemented`] for models with weights, attributes or operators of other domains, and
/// [`Code::InvalidProtobuf`] for bytes that are cut off or point beyond their end.
pub(crate) fn read(bytes: &[u8]) -> Result<Graph> {
    let session = Table::root(bytes)?;
    let model = session.table(SESSION_MODEL)?.ok_or_else(damaged)?;
    let graph = model.table(MODEL_GRAPH)?.ok_or_else(damaged)?;
    for (field, what) in [(GRAPH_INITIALIZERS, "weights"), (GRAPH_SPARSE, "sparse weights")] {
        if !graph.tables(field)?.is_empty() {
            return Err(beyond(what));
        }
    }
    let mut version = 1;
    for opset in model.tables(MODEL_OPSETS)? {
        if matches!(opset.text(OPSET_DOMAIN)?, "" | "ai.onnx") {
            version = opset.long(OPSET_VERSION)?;
        }
    }
    let declared = graph.tables(GRAPH_VALUES)?;
    let mut build = GraphBuilder::new("ort", version);
    let mut values: HashMap<&str, ValueId> = HashMap::new();
    let mut no_rank = Vec::new();
    for name in graph.texts(GRAPH_INPUTS)? {
        let mut given = None;
        for value in &declared {
            if value.text(VALUE_NAME)? == name {
                given = tensor_type(value)?;
            }
        }
        let (dtype, dims) = given.ok_or_else(|| beyond("inputs that are no tensors"))?;
        let id = build.input(name, dtype, dims.clone().unwrap_or_default());
        if dims.is_none() {
            no_rank.push(id);
        }
        values.insert(name, id);
    }
    for node in graph.tables(GRAPH_NODES)? {
        let [inputs, outputs] = [node.texts(NODE_INPUTS)?, node.texts(NODE_OUTPUTS)?];
        let is_plain = matches!(node.text(NODE_DOMAIN)?, "" | "ai.onnx") && node.tables(NODE_ATTRIBUTES)?.is_empty();
        let ([output], true) = (&outputs[..], is_plain) else { return Err(beyond("attributes or other domains")) };
        let inputs = inputs.iter().map(|name| values.get(name).copied().ok_or_else(damaged));
        let id = build.op(node.text(NODE_OPERATOR)?, &inputs.collect::<Result<Vec<_>>>()?, &[]);
        values.insert(output, id);
    }
    for name in graph.texts(GRAPH_OUTPUTS)? {
        build.output(name, values.get(name).copied().ok_or_else(damaged)?);
    }
    let mut graph = build.finish();
    no_rank.iter().for_each(|id| graph.values[id.index()].dims = None);
    Ok(graph)
}

/// The element type of a declared value, and its dimensions where they are known; `None` for what is no tensor.
fn tensor_type(value: &Table<'_>) -> Result<Option<(DType, Option<Vec<Dim>>)>> {
    let Some(declared) = value.table(VALUE_TYPE)? else { return Ok(None) };
    // 1 is a tensor among the kinds of the union.
    let (Some(tensor), 1) = (declared.table(TYPE_VALUE)?, declared.byte(TYPE_KIND)?) else { return Ok(None) };
    let Some(dtype) = DType::of_onnx(tensor.int(TENSOR_ELEMENT)?.into()) else { return Ok(None) };
    let Some(shape) = tensor.table(TENSOR_SHAPE)? else { return Ok(Some((dtype, None))) };
    let mut dims = Vec::new();
    for dim in shape.tables(SHAPE_DIMS)? {
        let Some(value) = dim.table(DIM_VALUE)? else {
            dims.push(Dim::Any);
            continue;
        };
        let size = usize::try_from(value.long(DIM_SIZE)?);
        // 1 is a size among the kinds of dimensions, 2 a name.
        dims.push(match (value.byte(DIM_KIND)?, size) {
            (1, Ok(size)) => Dim::Fixed(size),
            (2, _) => Dim::from(value.text(DIM_NAME)?),
            _ => Dim::Any,
        });
    }
    Ok(Some((dtype, Some(dims))))
}

fn damaged() -> Error {
    Error::new(Code::InvalidProtobuf, "ORT format: the model is cut off or points beyond its end")
}

fn beyond(what: &str) -> Error {
    let reason =
        format!("ORT format: models with {what} are not implemented by Kiln: load the ONNX model that it was made of");
    Error::new(Code::NotImplemented, reason)
}

/// A table of a flat buffer: fields by number, each of which may be absent.
#[derive(Clone, Copy)]
struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Table<'a> {
    fn root(bytes: &'a [u8]) -> Result<Table<'a>> {
        Table { bytes, at: 0 }.follow(0)
    }

    /// Four bytes somewhere in the buffer.
    fn word(&self, at: usize) -> Result<[u8; 4]> {
        let found = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
        found.copied().ok_or_else(damaged)
    }

    /// The table that the offset at a place leads to.
    fn follow(&self, at: usize) -> Result<Table<'a>> {
        let offset = u32::from_le_bytes(self.word(at)?) as usize;
        Ok(Table { bytes: self.bytes, at: at.checked_add(offset).ok_or_else(damaged)? })
    }

    /// Where a field is, if the table has it.
    fn field(&self, number: usize) -> Result<Option<usize>> {
        let back = i64::from(i32::from_le_bytes(self.word(self.at)?));
        let names = usize::try_from(self.at as i64 - back).map_err(|_| damaged())?;
        let short = |at: usize| -> Result<usize> {
            let found = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<2>());
            found.map(|two| usize::from(u16::from_le_bytes(*two))).ok_or_else(damaged)
        };
        let place = 4 + 2 * number;
        if place + 2 > short(names)? {
            return Ok(None);
        }
        let offset = short(names + place)?;
        Ok((offset != 0).then_some(self.at + offset))
    }

    fn byte(&self, number: usize) -> Result<u8> {
        let Some(at) = self.field(number)? else { return Ok(0) };
        self.bytes.get(at).copied().ok_or_else(damaged)
    }

    fn int(&self, number: usize) -> Result<i32> {
        self.field(number)?.map_or(Ok(0), |at| self.word(at).map(i32::from_le_bytes))
    }

    fn long(&self, number: usize) -> Result<i64> {
        let Some(at) = self.field(number)? else { return Ok(0) };
        let found = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
        found.map(|eight| i64::from_le_bytes(*eight)).ok_or_else(damaged)
    }

    fn table(&self, number: usize) -> Result<Option<Table<'a>>> {
        self.field(number)?.map(|at| self.follow(at)).transpose()
    }

    fn text(&self, number: usize) -> Result<&'a str> {
        self.field(number)?.map_or(Ok(""), |at| self.text_at(at))
    }

    fn text_at(&self, at: usize) -> Result<&'a str> {
        let text = self.follow(at)?;
        let length = u32::from_le_bytes(self.word(text.at)?) as usize;
        let found = self.bytes.get(text.at + 4..).and_then(|rest| rest.get(..length));
        found.and_then(|found| std::str::from_utf8(found).ok()).ok_or_else(damaged)
    }

    /// The places of a list's elements.
    fn list(&self, number: usize) -> Result<Vec<usize>> {
        let Some(list) = self.table(number)? else { return Ok(Vec::new()) };
        let length = u32::from_le_bytes(self.word(list.at)?) as usize;
        if length > MOST {
            return Err(beyond("so many values or nodes"));
        }
        Ok((0..length).map(|element| list.at + 4 + 4 * element).collect())
    }

    fn tables(&self, number: usize) -> Result<Vec<Table<'a>>> {
        self.list(number)?.into_iter().map(|at| self.follow(at)).collect()
    }

    fn texts(&self, number: usize) -> Result<Vec<&'a str>> {
        self.list(number)?.into_iter().map(|at| self.text_at(at)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_model_are_refused_wherever_they_point() {
        for length in 0..64 {
            for fill in [0u8, 1, 8, 127, 255] {
                let mut bytes = vec![fill; length];
                if let Some(mark) = bytes.get_mut(MARK) {
                    mark.copy_from_slice(b"ORTM");
                }
                assert!(read(&bytes).is_err());
            }
        }
    }
}
