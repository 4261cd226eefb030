//! Maps, of the domain `ai.onnx.ml`: ZipMap makes a map of each row, DictVectorizer and CastMap a row of a map.

use std::str::FromStr;
use std::sync::Arc;

use hashbrown::HashMap;
use kiln_kernels::memory::{self, Collect};
use kiln_model::{Attr, Map, NodeDesc, Value};
use kiln_run::{Flow, FlowCx, NodeError};
use kiln_tensor::{DType, Element, Tensor, TensorSpec};

use super::{FlowOperator, OpError, refused, size_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[FlowOperator] = &[
    ("ai.onnx.ml", "ZipMap", |load| labels(load.node).map(|labels| Box::new(Zip(labels)) as Box<dyn Flow>)),
    ("ai.onnx.ml", "DictVectorizer", |load| make_vectorizer(load.node)),
    ("ai.onnx.ml", "CastMap", |load| make_cast(load.node)),
];

/// A list of texts or of integers, which the node has one of.
fn list(node: &NodeDesc, texts: &str, integers: &str) -> Result<Tensor, OpError> {
    let made = match (node.attrs.get(texts), node.ints(integers)) {
        (Some(Attr::Strs(texts)), _) if !texts.is_empty() => Tensor::from_strings([texts.len()], texts.clone()),
        (_, Some(numbers)) if !numbers.is_empty() => Tensor::from_slice([numbers.len()], numbers),
        _ => return Err(OpError::invalid(node, format!("neither {texts} nor {integers}"))),
    };
    made.map_err(|error| OpError::invalid(node, error.to_string()))
}

fn labels(node: &NodeDesc) -> Result<Tensor, OpError> {
    list(node, "classlabels_strings", "classlabels_int64s")
}

/// A map of each row, from these keys to its numbers. A list is one row.
struct Zip(Tensor);

impl Flow for Zip {
    fn family(&self) -> &'static str {
        "ZipMap"
    }

    fn run(&self, inputs: Vec<Option<Value>>, _: &mut FlowCx<'_>) -> Result<Vec<Value>, NodeError> {
        let Zip(keys) = self;
        let rows = tensor(inputs)?;
        let (count, width) = match *rows.shape() {
            [width] => (1, width),
            [count, width] => (count, width),
            ref shape => return Err(refused(format!("rows of shape {shape:?}"))),
        };
        if width != keys.len() {
            return Err(refused(format!("rows of {width} numbers for {} labels", keys.len())));
        }
        if rows.dtype() != DType::F32 {
            return Err(NodeError::Unsupported(format!("rows of type {}", rows.dtype())));
        }
        let maps = (0..count).map(|row| {
            let values = rows.part(row * width, [width])?;
            Ok::<_, NodeError>(Map::new(keys.clone(), values.ok_or_else(|| refused("rows that are not in memory"))?)?)
        });
        Ok(vec![Value::Maps(Arc::new(maps.try_collected()?))])
    }
}

fn tensor(inputs: Vec<Option<Value>>) -> Result<Tensor, NodeError> {
    Ok(inputs.into_iter().next().flatten().ok_or_else(|| refused("input 0 is missing"))?.into_tensor()?)
}

fn map(inputs: Vec<Option<Value>>) -> Result<Arc<Map>, NodeError> {
    match inputs.into_iter().next().flatten() {
        Some(Value::Map(map)) => Ok(map),
        Some(other) => Err(other.is_no("a map").into()),
        None => Err(refused("input 0 is missing")),
    }
}

/// A row of the values of these keys, in their order; zero or an empty text where the map has none.
enum Vectorizer {
    Texts(HashMap<String, usize>, usize),
    Numbers(HashMap<i64, usize>, usize),
}

fn make_vectorizer(node: &NodeDesc) -> Result<Box<dyn Flow>, OpError> {
    let keys = list(node, "string_vocabulary", "int64_vocabulary")?;
    let count = keys.len();
    Ok(Box::new(match (keys.as_strings(), keys.as_slice::<i64>()) {
        (Ok(texts), _) => Vectorizer::Texts(texts.iter().cloned().zip(0..).collect(), count),
        (_, Ok(numbers)) => Vectorizer::Numbers(numbers.iter().copied().zip(0..).collect(), count),
        (Err(error), _) => return Err(OpError::invalid(node, error.to_string())),
    }))
}

impl Flow for Vectorizer {
    fn family(&self) -> &'static str {
        "DictVectorizer"
    }

    fn run(&self, inputs: Vec<Option<Value>>, _: &mut FlowCx<'_>) -> Result<Vec<Value>, NodeError> {
        let map = map(inputs)?;
        // Where each value of the map goes.
        let (places, count): (Vec<Option<usize>>, usize) = match self {
            Vectorizer::Texts(known, count) => {
                (map.keys().as_strings()?.iter().map(|key| known.get(key).copied()).collected(), *count)
            }
            Vectorizer::Numbers(known, count) => {
                (map.keys().as_slice::<i64>()?.iter().map(|key| known.get(key).copied()).collected(), *count)
            }
        };
        let (values, placed) = (map.values(), places.iter().enumerate());
        let placed = placed.filter_map(|(from, to)| to.map(|to| (from, to)));
        let row = match values.as_strings() {
            Ok(texts) => {
                let mut row = memory::filled(String::new(), count);
                placed.for_each(|(from, to)| row[to].clone_from(&texts[from]));
                Tensor::from_strings([1, count], row)?
            }
            Err(_) => {
                let size = values.dtype().size();
                let mut row = memory::zeroed::<u8>(count * size);
                placed.for_each(|(from, to)| {
                    row[to * size..][..size].copy_from_slice(&values.bytes()[from * size..][..size])
                });
                Tensor::from_bytes(TensorSpec::new(values.dtype(), [1, count]), &row)?
            }
        };
        Ok(vec![row.into()])
    }
}

/// A row of a map's values by ascending keys, cast to another type.
struct CastMap {
    to: DType,
    /// The row's length, where keys are places in it and other places have zeros.
    places: Option<usize>,
}

fn make_cast(node: &NodeDesc) -> Result<Box<dyn Flow>, OpError> {
    let attributes = node.attributes();
    let to = match attributes.text("cast_to") {
        "TO_FLOAT" => DType::F32,
        "TO_STRING" => DType::String,
        "TO_INT64" => DType::I64,
        other => return Err(OpError::invalid(node, format!("cast_to = {other:?}"))),
    };
    let places = match attributes.text("map_form") {
        "DENSE" => None,
        "SPARSE" => Some(size_attribute(node, "max_map", 1)?),
        other => return Err(OpError::invalid(node, format!("map_form = {other:?}"))),
    };
    Ok(Box::new(CastMap { to, places }))
}

impl CastMap {
    /// The values in the order of their keys, or at the places that are their keys.
    fn placed<T: Clone>(
        &self,
        keys: &[i64],
        zero: T,
        value: impl Fn(usize) -> Result<T, NodeError>,
    ) -> Result<Vec<T>, NodeError> {
        let mut row = memory::filled(zero, self.places.unwrap_or(keys.len()));
        for (at, &key) in keys.iter().enumerate() {
            let place = if self.places.is_some() { key as usize } else { at };
            // Keys beyond the row have no place, as in ONNX Runtime.
            if let Some(to) = row.get_mut(place) {
                *to = value(at)?;
            }
        }
        Ok(row)
    }

    fn row<T: Element>(
        &self,
        keys: &[i64],
        zero: T,
        value: impl Fn(usize) -> Result<T, NodeError>,
    ) -> Result<Tensor, NodeError> {
        let row = self.placed(keys, zero, value)?;
        Ok(Tensor::from_vec([1, row.len()], row)?)
    }
}

/// The number that a text says.
fn parsed<T: FromStr>(text: &str) -> Result<T, NodeError> {
    text.trim().parse().map_err(|_| refused(format!("{text:?} is no number")))
}

impl Flow for CastMap {
    fn family(&self) -> &'static str {
        "CastMap"
    }

    fn run(&self, inputs: Vec<Option<Value>>, _: &mut FlowCx<'_>) -> Result<Vec<Value>, NodeError> {
        let [keys, values] = map(inputs)?.sorted();
        let keys = keys.as_slice::<i64>()?;
        if let Some(least) = keys.first().filter(|&&least| self.places.is_some() && least < 0) {
            return Err(refused(format!("key {least} is no place in a row")));
        }
        let texts = values.as_strings().ok();
        let numbers = if texts.is_some() { &[] } else { values.as_slice::<f32>()? };
        let row = match (self.to, texts) {
            (DType::F32, Some(texts)) => self.row(keys, 0f32, |at| parsed(&texts[at]))?,
            (DType::F32, None) => self.row(keys, 0f32, |at| Ok(numbers[at]))?,
            (DType::I64, Some(texts)) => self.row(keys, 0i64, |at| parsed(&texts[at]))?,
            (DType::I64, None) => self.row(keys, 0i64, |at| Ok(numbers[at] as i64))?,
            (_, texts) => {
                let written =
                    |at: usize| texts.map_or_else(|| format!("{:.6}", numbers[at]), |texts| texts[at].clone());
                // What ONNX Runtime writes where a row has no value.
                let row = self.placed(keys, "0.f".to_owned(), |at| Ok(written(at)))?;
                Tensor::from_strings([1, row.len()], row)?
            }
        };
        Ok(vec![row.into()])
    }
}
