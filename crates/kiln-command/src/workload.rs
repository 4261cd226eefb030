//! The requests of a benchmark or of tuning, from a trace, from data sets or from the command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kiln::session::{Port, Session};
use kiln_model::Value;
use serde_json::{Value as Json, json};

use crate::data_sets::{self, DataError, DataFile};
use crate::failure::{Failure, Outcome, WithCode};
use crate::feed::{self, FeedArgs};
use crate::progress::Progress;
use crate::trace::{Dims, Trace};
use crate::values::Recipe;

/// One named input of a request.
pub(crate) type Feed = (String, Value);

/// The form in which a session takes its inputs.
pub(crate) fn borrowed(feeds: &[Feed]) -> Vec<(&str, Value)> {
    feeds.iter().map(|(name, value)| (name.as_str(), value.clone())).collect()
}

/// One request: a name for its shapes, and how its inputs are made.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Its shapes, as reports write them. Equal shapes are equal requests.
    pub(crate) shape: Json,
    source: Source,
}

/// Where the inputs of a request come from.
#[derive(Clone, Debug)]
enum Source {
    /// They are made up.
    Recipes(Vec<Recipe>),
    /// They are read from a data set.
    Files(Vec<DataFile>),
}

impl Request {
    /// Makes its inputs, which is not timed.
    pub(crate) fn make(&self) -> Outcome<Vec<Feed>> {
        let make = |recipe: &Recipe| {
            let tensor = recipe.make().usage(|| "cannot make inputs")?;
            Ok((recipe.name.clone(), Value::Tensor(tensor)))
        };
        let read = |file: &DataFile| Ok((file.name.clone(), file.read().usage(|| "--data")?));
        match &self.source {
            Source::Recipes(recipes) => recipes.iter().map(make).collect(),
            Source::Files(files) => files.iter().map(read).collect(),
        }
    }
}

/// A value's shape as reports write it: the shape of a tensor or of a map's keys, a list for a sequence of tensors or
/// maps, null for an absent value.
fn shape_of(value: &Value) -> Json {
    match value {
        Value::Tensor(tensor) => json!(tensor.shape()),
        Value::Sequence(tensors) => tensors.iter().map(|tensor| json!(tensor.shape())).collect(),
        Value::Map(map) => json!(map.keys().shape()),
        Value::Maps(maps) => maps.iter().map(|map| json!(map.keys().shape())).collect(),
        Value::Nothing => Json::Null,
    }
}

/// The first request of each different shape.
fn first_of_each_shape(requests: &[Request]) -> Vec<Request> {
    let mut firsts: Vec<Request> = Vec::new();
    for request in requests {
        if firsts.iter().all(|known| known.shape != request.shape) {
            firsts.push(request.clone());
        }
    }
    firsts
}

/// All requests of a benchmark.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    /// In order; sent twice.
    pub(crate) requests: Vec<Request>,
    /// Requests whose steady latency is measured.
    pub(crate) steady: Vec<Request>,
    /// Assumptions that were made.
    pub(crate) notices: Vec<String>,
}

impl Workload {
    /// The requests of a trace.
    pub(crate) fn from_trace(trace: &Trace) -> Outcome<Workload> {
        let request = |dims: &Dims| {
            let shape = dims.iter().map(|(name, &size)| (name.clone(), Json::from(size))).collect();
            Ok(Request { shape: Json::Object(shape), source: Source::Recipes(trace.recipes(dims)?) })
        };
        let requests = trace.requests.iter().map(request).collect::<Outcome<_>>()?;
        let steady = trace.steady.iter().map(request).collect::<Outcome<_>>()?;
        Ok(Workload { requests, steady, notices: Vec::new() })
    }

    /// One request of each shape, the steady ones first.
    pub(crate) fn different(&self) -> Vec<&Request> {
        let mut different: Vec<&Request> = Vec::new();
        for request in self.steady.iter().chain(&self.requests) {
            if different.iter().all(|known| known.shape != request.shape) {
                different.push(request);
            }
        }
        different
    }

    /// The sequences of shapes of the command line; every different one is also a steady shape.
    pub(crate) fn from_shapes(ports: &[Port], args: &FeedArgs) -> Outcome<Workload> {
        let plan = feed::plan(ports, &[], args)?;
        let request = |recipes: Vec<Recipe>| {
            let shape: BTreeMap<&str, &[usize]> =
                recipes.iter().map(|recipe| (recipe.name.as_str(), recipe.spec.shape.as_slice())).collect();
            Request { shape: json!(shape), source: Source::Recipes(recipes) }
        };
        let requests: Vec<Request> = plan.requests.into_iter().map(request).collect();
        let steady = first_of_each_shape(&requests);
        Ok(Workload { requests, steady, notices: plan.notices })
    }

    /// A request for each data set of the case in that folder, by their numbers; the first of every different shape is
    /// also a steady one. Values are read when a request is made, because all data sets together may exceed the
    /// machine's memory.
    pub(crate) fn from_data(ports: &[Port], case: &Path) -> Outcome<Workload> {
        let sets = data_sets::find(case).usage(|| format!("--data {}", case.display()))?;
        let request = |set: &PathBuf| {
            let files = DataFile::inputs(set, ports);
            let shape = files.iter().map(|file| Ok((file.name.clone(), shape_of(&file.read()?))));
            let shape: BTreeMap<String, Json> =
                shape.collect::<Result<_, DataError>>().usage(|| format!("--data {}", set.display()))?;
            Ok(Request { shape: json!(shape), source: Source::Files(files) })
        };
        let requests = sets.iter().map(request).collect::<Outcome<Vec<_>>>()?;
        let steady = first_of_each_shape(&requests);
        Ok(Workload { requests, steady, notices: Vec::new() })
    }
}

/// Sends one request after the other, with a progress bar.
pub(crate) fn send_each(session: &Session, model: &Path, requests: &[&Request]) -> Outcome {
    let progress = Progress::new("shapes", requests.len());
    for request in requests {
        let feeds = request.make()?;
        let outputs = session.run_values(&borrowed(&feeds));
        outputs.map_err(|error| Failure::from(error).context(model.display().to_string()))?;
        progress.step();
    }
    Ok(())
}

/// A request's shapes for people: `N=1 S=16`, `x=[1,3]`.
pub(crate) fn shape_text(shape: &Json) -> String {
    let parts = shape.as_object().into_iter().flatten().map(|(name, size)| format!("{name}={size}"));
    parts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use kiln_model::ir::{Dim, ValueKind};
    use kiln_tensor::DType;

    use super::*;

    #[test]
    fn shapes_of_the_command_line_are_requests_and_each_different_one_is_steady() {
        let dims = Some(vec![Dim::Any]);
        let port =
            Port { name: "x".to_owned(), kind: ValueKind::Tensor, dtype: Some(DType::F32), dims, has_default: false };
        let args = FeedArgs { shapes: vec!["x[2][3][2]".parse().unwrap()], ..FeedArgs::default() };
        let workload = Workload::from_shapes(&[port], &args).unwrap();
        let texts = |requests: &[Request]| -> Vec<String> { requests.iter().map(|r| shape_text(&r.shape)).collect() };
        assert_eq!(texts(&workload.requests), ["x=[2]", "x=[3]", "x=[2]"]);
        assert_eq!(texts(&workload.steady), ["x=[2]", "x=[3]"]);
        let feeds = workload.requests[1].make().unwrap();
        assert_eq!((feeds[0].0.as_str(), feeds[0].1.as_tensor().unwrap().shape()), ("x", &[3usize][..]));
    }
}
