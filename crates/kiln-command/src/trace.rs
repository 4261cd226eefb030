//! Traces: the requests that a model gets, as shapes by name of dimension. Depends on no session.
//!
//! A trace file maps model names to traces:
//!
//! ```text
//! {"bert_base": {"inputs":   [{"name": "input_ids", "dtype": "int64", "shape": ["N", "S"], "fill": "ids:30522"}],
//!                "steady":   [{"N": 1, "S": 16}],
//!                "requests": [{"N": 1, "S": 29}, {"N": 2, "S": 40}]}}
//! ```
//!
//! `fill` is a rule of [`crate::values`]. Whether every request names every dimension is checked once, at load.

use std::collections::BTreeMap;
use std::path::Path;

use kiln_tensor::{DType, TensorSpec};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Outcome, WithCode};
use crate::values::{Fill, Recipe};

/// The sizes of one request, by name of dimension.
pub(crate) type Dims = BTreeMap<String, usize>;

/// All requests of one model.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Trace {
    /// The inputs of every request.
    pub(crate) inputs: Vec<TraceInput>,
    /// Shapes whose steady latency is measured.
    #[serde(default)]
    pub(crate) steady: Vec<Dims>,
    /// The requests, in order.
    pub(crate) requests: Vec<Dims>,
}

/// One input of every request.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TraceInput {
    /// The input's name in the model.
    pub(crate) name: String,
    /// numpy's name of the element type.
    dtype: String,
    /// Its dimensions.
    shape: Vec<TraceDim>,
    /// Its values.
    fill: Fill,
}

/// A dimension: a size, or the name of a size that the request gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum TraceDim {
    /// The same in every request.
    Fixed(usize),
    /// Given by the request.
    Named(String),
}

impl Trace {
    /// The trace of `model` in that file.
    pub(crate) fn load(path: &Path, model: &str) -> Outcome<Trace> {
        let file = path.display();
        let text = std::fs::read_to_string(path).usage(|| format!("cannot read the trace {file}"))?;
        let traces: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(&text).usage(|| format!("{file} is no trace file"))?;
        let names: Vec<&str> = traces.keys().map(String::as_str).collect();
        let Some(trace) = traces.get(model) else {
            return Err(Failure::usage(format!("{file} has no trace of '{model}', only of: {}", names.join(", "))));
        };
        let trace = Trace::deserialize(trace).usage(|| format!("{file}: the trace of '{model}' is malformed"))?;
        trace.validate().map_err(|failure| failure.context(format!("{file}: the trace of '{model}'")))?;
        Ok(trace)
    }

    fn validate(&self) -> Outcome {
        if self.requests.is_empty() {
            return Err(Failure::usage("has no requests"));
        }
        for dims in self.requests.iter().chain(&self.steady) {
            self.recipes(dims)?;
        }
        Ok(())
    }

    /// How to make the inputs of one request.
    pub(crate) fn recipes(&self, dims: &Dims) -> Outcome<Vec<Recipe>> {
        self.inputs.iter().zip(0u32..).map(|(input, place)| input.recipe(dims, place)).collect()
    }
}

impl TraceInput {
    fn recipe(&self, dims: &Dims, place: u32) -> Outcome<Recipe> {
        let dtype = dtype_named(&self.dtype)
            .ok_or_else(|| Failure::usage(format!("input '{}' has the unknown type '{}'", self.name, self.dtype)))?;
        let sizes: Vec<usize> = self
            .shape
            .iter()
            .map(|dim| match dim {
                TraceDim::Fixed(size) => Ok(*size),
                TraceDim::Named(name) => dims.get(name).copied().ok_or_else(|| {
                    Failure::usage(format!("input '{}' needs dimension '{name}', which a request lacks", self.name))
                }),
            })
            .collect::<Outcome<_>>()?;
        Ok(Recipe { name: self.name.clone(), spec: TensorSpec::new(dtype, sizes), fill: self.fill, place })
    }
}

/// The element type of that numpy name.
pub(crate) fn dtype_named(name: &str) -> Option<DType> {
    use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    [F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, Bool].into_iter().find(|dtype| dtype.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"m": {"inputs": [
        {"name": "ids", "dtype": "int64", "shape": ["N", "S"], "fill": "ids:100"},
        {"name": "past", "dtype": "float32", "shape": ["N", 8, "P", 64], "fill": "unit"}],
        "steady": [{"N": 1, "S": 2, "P": 0}], "requests": [{"N": 1, "S": 3, "P": 4}], "note": "ignored"}}"#;

    fn load(text: &str, model: &str) -> Outcome<Trace> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Trace::load(file.path(), model)
    }

    #[test]
    fn a_trace_gives_each_input_its_shape_type_rule_and_place() {
        let trace = load(GOOD, "m").unwrap();
        let recipes = trace.recipes(&trace.requests[0]).unwrap();
        assert_eq!(recipes[0].spec, TensorSpec::new(DType::I64, [1, 3]));
        assert_eq!((recipes[0].fill, recipes[0].place), (Fill::Ids(100), 0));
        assert_eq!(recipes[1].spec, TensorSpec::new(DType::F32, [1, 8, 4, 64]));
        assert_eq!((recipes[1].fill, recipes[1].place), (Fill::Unit, 1));
    }

    #[test]
    fn what_is_wrong_with_a_trace_is_said_in_one_line() {
        let cases = [
            ("[]", "m", "is no trace file"),
            (GOOD, "other", "has no trace of 'other', only of: m"),
            (&GOOD.replace("unit", "noise"), "m", "'noise' is no fill"),
            (&GOOD.replace("int64", "int65"), "m", "input 'ids' has the unknown type 'int65'"),
            (&GOOD.replace(r#""P": 4"#, r#""Q": 4"#), "m", "input 'past' needs dimension 'P', which a request lacks"),
            (&GOOD.replace(r#"{"N": 1, "S": 3, "P": 4}"#, ""), "m", "has no requests"),
        ];
        for (text, model, message) in cases {
            let line = load(text, model).unwrap_err().line().unwrap();
            assert!(line.contains(message) && !line.contains('\n'), "{line}");
        }
    }
}
