//! A few operators of the domain `ai.onnx.ml`: ArrayFeatureExtractor, Binarizer, CategoryMapper, LabelEncoder.

use hashbrown::HashMap;
use kiln_kernels::memory::{Collect, Pace};
use kiln_model::{Attr, NodeDesc};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorError, TensorSpec};

use super::wide::{Width, narrow, widened};
use super::{Blocks, LoadCx, Movement, OpError, Operator, index_of, rearrange, required};

const DOMAIN: &str = "ai.onnx.ml";

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    (DOMAIN, "ArrayFeatureExtractor", |_| Ok(Box::new(Extractor))),
    (DOMAIN, "Binarizer", |cx| Ok(Box::new(Binarizer(f64::from(cx.node.attributes().float("threshold")))))),
    (DOMAIN, "CategoryMapper", make_mapper),
    (DOMAIN, "LabelEncoder", make_encoder),
];

/// Elements of the last axis, by number.
struct Extractor;

impl Node for Extractor {
    fn family(&self) -> &'static str {
        "ArrayFeatureExtractor"
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let input = io.input(0)?;
        let size = input.shape().last().copied().unwrap_or(0);
        let places = io.input(1)?.to_i64_vec()?.into_iter().map(|index| index_of(index, size));
        let blocks = Blocks { places: places.try_collected()?, size, inner: 1 };
        let output = rearrange(&blocks.copied(cx.parallel), &[input], io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

/// One above the threshold, else zero.
struct Binarizer(f64);

impl Node for Binarizer {
    fn family(&self) -> &'static str {
        "Binarizer"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        Width::of(required(inputs, 0)?.dtype()).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let above: Vec<i64> =
            widened::<f64>(io.input(0)?)?.into_iter().map(|value| i64::from(value > self.0)).collected();
        let output = narrow(&above, io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

/// A label, in a form that can be looked up. Floats are held by their bits, and every NaN by the same bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Label {
    Text(String),
    Number(i64),
    Float(u64),
}

fn labels(tensor: &Tensor) -> Result<Vec<Label>, NodeError> {
    let float = |value: f64| Label::Float(if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() });
    Ok(match tensor.dtype() {
        DType::String => tensor.as_strings()?.iter().cloned().map(Label::Text).collected(),
        dtype if dtype.is_float() => widened::<f64>(tensor)?.into_iter().map(float).collected(),
        _ => widened::<i64>(tensor)?.into_iter().map(Label::Number).collected(),
    })
}

struct Encoder {
    keys: DType,
    places: HashMap<Label, usize>,
    values: Tensor,
    default: Tensor,
}

/// A list attribute under one of the names that `stem` begins.
fn list_of_any_type(node: &NodeDesc, stem: &str) -> Result<Tensor, OpError> {
    let mut names = ["strings", "int64s", "floats", "tensor"].iter().map(|kind| format!("{stem}_{kind}"));
    match names.find(|name| node.attrs.contains_key(name)) {
        Some(name) => list(node, &name),
        None => Err(OpError::unsupported(node, format!("no {stem} that are known here"))),
    }
}

/// The list of that name.
fn list(node: &NodeDesc, name: &str) -> Result<Tensor, OpError> {
    let made = match node.attrs.get(name) {
        Some(Attr::Strs(values)) => Tensor::from_strings([values.len()], values.clone()),
        Some(Attr::Ints(values)) => Tensor::from_slice([values.len()], values),
        Some(Attr::Floats(values)) => Tensor::from_slice([values.len()], values),
        Some(Attr::Tensor(tensor)) => Ok(tensor.clone()),
        _ => return Err(OpError::invalid(node, format!("no list {name}"))),
    };
    made.map_err(|error| OpError::invalid(node, error.to_string()))
}

fn make_encoder(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    if node.attrs.contains_key("classes_strings") {
        // The first version: places of texts, or the texts at places.
        let texts = list(node, "classes_strings")?;
        let places: Vec<i64> = (0..texts.len() as i64).collect();
        let places = Tensor::from_slice([places.len()], &places).map_err(|error| invalid(node, error))?;
        return both_ways(node, places, texts);
    }
    let (keys, values) = (list_of_any_type(node, "keys")?, list_of_any_type(node, "values")?);
    let default = match (node.attrs.get("default_tensor"), values.dtype()) {
        (Some(Attr::Tensor(tensor)), _) => tensor.clone(),
        (_, DType::String) => Tensor::from_strings([], vec![node.attributes().text("default_string").to_owned()])
            .map_err(|error| OpError::invalid(node, error.to_string()))?,
        (_, DType::I64) => Tensor::scalar(node.attributes().int("default_int64")),
        (_, DType::F32) => Tensor::scalar(node.attributes().float("default_float")),
        (_, dtype) => return Err(OpError::unsupported(node, format!("values of type {dtype} without a default"))),
    };
    Ok(Box::new(Encoder::new(node, &keys, values, default)?))
}

fn invalid(node: &NodeDesc, error: impl std::fmt::Display) -> OpError {
    OpError::invalid(node, error.to_string())
}

impl Encoder {
    fn new(node: &NodeDesc, keys: &Tensor, values: Tensor, default: Tensor) -> Result<Encoder, OpError> {
        if keys.len() != values.len() || default.len() != 1 || default.dtype() != values.dtype() {
            return Err(OpError::invalid(node, "keys, values and default do not fit together"));
        }
        let known = labels(keys).map_err(|error| invalid(node, error))?;
        let places = known.into_iter().enumerate().map(|(place, label)| (label, place)).collect();
        Ok(Encoder { keys: keys.dtype(), places, values, default })
    }

    fn encode(&self, io: &mut Io<'_>) -> Result<(), NodeError> {
        let found = labels(io.input(0)?)?.iter().map(|label| self.places.get(label).copied()).collected();
        let output = rearrange(&Pick(found), &[&self.values, &self.default], io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

/// Integers of texts, and texts of integers: the type of the input decides.
struct Mapper {
    of_texts: Encoder,
    of_integers: Encoder,
}

fn make_mapper(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    both_ways(cx.node, list(cx.node, "cats_int64s")?, list(cx.node, "cats_strings")?)
}

fn both_ways(node: &NodeDesc, integers: Tensor, texts: Tensor) -> Result<Box<dyn Node>, OpError> {
    let text = vec![node.attributes().text("default_string").to_owned()];
    let text = Tensor::from_strings([], text).map_err(|error| invalid(node, error))?;
    let integer = Tensor::scalar(node.attributes().int("default_int64"));
    let of_texts = Encoder::new(node, &texts, integers.clone(), integer)?;
    Ok(Box::new(Mapper { of_texts, of_integers: Encoder::new(node, &integers, texts, text)? }))
}

impl Node for Mapper {
    fn family(&self) -> &'static str {
        "CategoryMapper"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        match required(inputs, 0)?.dtype() {
            DType::String | DType::I64 => Ok(()),
            found => Err(TensorError::Type { expected: DType::I64, found }.into()),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let is_text = io.input(0)?.dtype() == DType::String;
        if is_text { self.of_texts.encode(io) } else { self.of_integers.encode(io) }
    }
}

/// Elements picked from the first source; where a place is empty, the second's element.
struct Pick(Vec<Option<usize>>);

impl Movement for Pick {
    fn run<T: Clone>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        let mut pace = Pace::default();
        for (to, place) in to.iter_mut().zip(&self.0) {
            pace.step(if std::mem::needs_drop::<T>() { 64 } else { 1 });
            *to = place.map_or(&from[1][0], |place| &from[0][place]).clone();
        }
        Ok(())
    }
}

impl Node for Encoder {
    fn family(&self) -> &'static str {
        "LabelEncoder"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let found = required(inputs, 0)?.dtype();
        if found == self.keys { Ok(()) } else { Err(TensorError::Type { expected: self.keys, found }.into()) }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        self.encode(io)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, strings};

    fn trial(op: &str, make: crate::MakeNode) -> Trial {
        Trial::new(op).made_by(make)
    }

    #[test]
    fn features_are_picked_from_the_last_axis() {
        let row = |index: i64| {
            trial("ArrayFeatureExtractor", |_| Ok(Box::new(Extractor)))
                .input(&[2, 2], &[1f32, 2.0, 3.0, 4.0])
                .input(&[1], &[index])
        };
        row(1).gives(&[2, 1], &[2f32, 4.0]);
        row(2).is_refused("outside of 0..2");
    }

    #[test]
    fn values_above_the_threshold_are_one() {
        let make: crate::MakeNode = |_| Ok(Box::new(Binarizer(1.0)));
        trial("Binarizer", make).input(&[3], &[0.5f32, 1.0, 1.5]).gives(&[3], &[0f32, 0.0, 1.0]);
    }

    #[test]
    fn categories_become_integers_and_integers_categories() {
        let row = |op: &str| trial(op, if op == "LabelEncoder" { make_encoder } else { make_mapper });
        let mapper = || {
            let texts = Attr::Strs(vec!["a".to_owned(), "b".to_owned()]);
            row("CategoryMapper").attr("cats_strings", texts).ints("cats_int64s", &[7, 9])
        };
        mapper().tensor(strings(&[3], &["b", "c", "a"])).gives(&[3], &[9i64, -1, 7]);
        mapper().int("default_int64", 0).tensor(strings(&[1], &["c"])).gives(&[1], &[0i64]);
        mapper().input(&[2], &[9i64, 8]).gives_strings(&[2], &["b", "_Unused"]);
        mapper().input(&[1], &[9f32]).is_refused("int64");
        mapper().ints("cats_int64s", &[7]).tensor(strings(&[1], &["a"])).is_refused("do not fit");
        let old = || row("LabelEncoder").version(1).attr("classes_strings", Attr::Strs(vec!["x".to_owned()]));
        old().tensor(strings(&[2], &["x", "y"])).gives(&[2], &[0i64, -1]);
        old().input(&[2], &[0i64, 1]).gives_strings(&[2], &["x", "_Unused"]);
    }

    #[test]
    fn labels_become_values_or_the_default() {
        let row = || {
            trial("LabelEncoder", make_encoder).attr("keys_strings", Attr::Strs(vec!["a".to_owned(), "b".to_owned()]))
        };
        let texts = strings(&[3], &["b", "c", "a"]);
        row().ints("values_int64s", &[5, 6]).tensor(texts.clone()).gives(&[3], &[6i64, -1, 5]);
        row().ints("values_int64s", &[5, 6]).int("default_int64", 9).tensor(texts.clone()).gives(&[3], &[6i64, 9, 5]);
        row().ints("values_int64s", &[5]).tensor(texts.clone()).is_refused("do not fit");
        row().tensor(texts).is_refused("no values");
        let floats = trial("LabelEncoder", make_encoder).attr("keys_floats", Attr::Floats(vec![f32::NAN, 0.0]));
        let floats = floats.attr("values_strings", Attr::Strs(vec!["none".to_owned(), "zero".to_owned()]));
        floats.input(&[3], &[-0.0f32, f32::NAN, 1.0]).gives_strings(&[3], &["zero", "none", "_Unused"]);
    }
}
