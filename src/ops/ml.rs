//! A few operators of the domain `ai.onnx.ml`: ArrayFeatureExtractor, Binarizer, LabelEncoder.

use hashbrown::HashMap;

use super::wide::{Width, narrow, widened};
use super::{Blocks, LoadCx, Movement, OpError, Operator, index_of, rearrange, required};
use crate::graph::{Attr, Io, Node, NodeDesc, NodeError, Prepared, RunCx};
use crate::tensor::{DType, Tensor, TensorError, TensorSpec};

const DOMAIN: &str = "ai.onnx.ml";

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    (DOMAIN, "ArrayFeatureExtractor", |_| Ok(Box::new(Extractor))),
    (DOMAIN, "Binarizer", |cx| Ok(Box::new(Binarizer(f64::from(cx.node.attributes().float("threshold")))))),
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
        let blocks = Blocks { places: places.collect::<Result<_, _>>()?, size, inner: 1 };
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
            widened::<f64>(io.input(0)?)?.into_iter().map(|value| i64::from(value > self.0)).collect();
        let output = narrow(&above, io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

/// A label, in a form that can be looked up. Floats are held by their bits, every NaN by the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Label {
    Text(String),
    Number(i64),
    Float(u64),
}

fn labels(tensor: &Tensor) -> Result<Vec<Label>, NodeError> {
    let float = |value: f64| Label::Float(if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() });
    Ok(match tensor.dtype() {
        DType::String => tensor.as_strings()?.iter().cloned().map(Label::Text).collect(),
        dtype if dtype.is_float() => widened::<f64>(tensor)?.into_iter().map(float).collect(),
        _ => widened::<i64>(tensor)?.into_iter().map(Label::Number).collect(),
    })
}

struct Encoder {
    keys: DType,
    places: HashMap<Label, usize>,
    values: Tensor,
    default: Tensor,
}

/// A list attribute under one of the names that `stem` begins.
fn list(node: &NodeDesc, stem: &str) -> Result<Tensor, OpError> {
    let attribute =
        ["strings", "int64s", "floats", "tensor"].iter().find_map(|kind| node.attrs.get(&format!("{stem}_{kind}")));
    let made = match attribute {
        Some(Attr::Strs(values)) => Tensor::from_strings([values.len()], values.clone()),
        Some(Attr::Ints(values)) => Tensor::from_slice([values.len()], values),
        Some(Attr::Floats(values)) => Tensor::from_slice([values.len()], values),
        Some(Attr::Tensor(tensor)) => Ok(tensor.clone()),
        _ => return Err(OpError::unsupported(node, format!("no {stem} that are known here"))),
    };
    made.map_err(|error| OpError::invalid(node, error.to_string()))
}

fn make_encoder(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let (keys, values) = (list(node, "keys")?, list(node, "values")?);
    let default = match (node.attrs.get("default_tensor"), values.dtype()) {
        (Some(Attr::Tensor(tensor)), _) => tensor.clone(),
        (_, DType::String) => Tensor::from_strings([], vec![node.attributes().text("default_string").to_owned()])
            .map_err(|error| OpError::invalid(node, error.to_string()))?,
        (_, DType::I64) => Tensor::scalar(node.attributes().int("default_int64")),
        (_, DType::F32) => Tensor::scalar(node.attributes().float("default_float")),
        (_, dtype) => return Err(OpError::unsupported(node, format!("values of type {dtype} without a default"))),
    };
    if keys.len() != values.len() || default.len() != 1 || default.dtype() != values.dtype() {
        return Err(OpError::invalid(node, "keys, values and default do not fit together"));
    }
    let known = labels(&keys).map_err(|error| OpError::invalid(node, error.to_string()))?;
    let places = known.into_iter().enumerate().map(|(place, label)| (label, place)).collect();
    Ok(Box::new(Encoder { keys: keys.dtype(), places, values, default }))
}

/// Single elements of the first source, and the second's where there is none.
struct Pick(Vec<Option<usize>>);

impl Movement for Pick {
    fn run<T: Clone>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        for (to, place) in to.iter_mut().zip(&self.0) {
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
        let found = labels(io.input(0)?)?.iter().map(|label| self.places.get(label).copied()).collect();
        let output = rearrange(&Pick(found), &[&self.values, &self.default], io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::trial::{Trial, strings};

    fn trial(op: &str, make: crate::ops::MakeNode) -> Trial {
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
        let make: crate::ops::MakeNode = |_| Ok(Box::new(Binarizer(1.0)));
        trial("Binarizer", make).input(&[3], &[0.5f32, 1.0, 1.5]).gives(&[3], &[0f32, 0.0, 1.0]);
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
