//! Taps: values of a model's graph that a session returns besides the declared outputs.
//!
//! A tapped value becomes an output of the graph before the first pass. Passes keep outputs, so a value that they would
//! fuse away is computed on its own, and the nodes around it are fused without it: the graph that runs differs a little
//! from the one without the tap. [`left_by_passes`] lists the values whose taps change no fusion.

use std::collections::{BTreeMap, BTreeSet};

use kiln_model::Graph;
use kiln_model::ir::{NodeDesc, ValueId};

use super::SessionError;
use super::compile::Description;

/// The most names that an error about an unknown value lists.
const LISTED: usize = 5;

/// The values of a graph by name: inputs, constants and outputs of nodes.
fn values(graph: &Graph) -> BTreeMap<&str, ValueId> {
    let made = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
    let ids = made.chain(&graph.inputs).chain(graph.constants.keys());
    ids.map(|&id| (graph.value(id).name.as_str(), id)).filter(|(name, _)| !name.is_empty()).collect()
}

/// Makes the values with these names outputs, after the declared ones and in this order. Names of outputs change
/// nothing.
///
/// # Errors
///
/// [`SessionError::UnknownValue`] for a name that no value of the graph has. Values inside the bodies of loops and
/// branches are not values of the graph.
pub(super) fn tap(graph: &mut Graph, names: &[String]) -> Result<(), SessionError> {
    if names.is_empty() {
        return Ok(());
    }
    let values = values(graph);
    let ids: Vec<ValueId> = names
        .iter()
        .map(|name| {
            values.get(name.as_str()).copied().ok_or_else(|| SessionError::UnknownValue {
                name: name.clone(),
                near: nearest(name, values.keys().copied()),
            })
        })
        .collect::<Result<_, _>>()?;
    let mut returned: BTreeSet<ValueId> = graph.outputs.iter().copied().collect();
    graph.outputs.extend(ids.into_iter().filter(|&id| returned.insert(id)));
    Ok(())
}

/// The names most similar to `name`, the most similar first.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut ranked: Vec<(usize, &str)> = known.map(|other| (unlikeness(name, other), other)).collect();
    ranked.sort_unstable();
    ranked.into_iter().take(LISTED).map(|(_, other)| other.to_owned()).collect()
}

/// Bytes of both names outside of their common prefix and suffix; names that contain one another are the most similar.
fn unlikeness(name: &str, other: &str) -> usize {
    let (a, b) = (name.as_bytes(), other.as_bytes());
    let difference = a.len().abs_diff(b.len());
    if other.contains(name) || name.contains(other) {
        return difference;
    }
    let shorter = a.len().min(b.len());
    let head = a.iter().zip(b).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    a.len() + b.len() - 2 * (head + tail).min(shorter)
}

/// The values of a model's graph that are still computed after the passes, in the model's order: tapping all these
/// values changes no fusion. A value that the layout pass made channels-last is among them; its tap adds a Transpose.
#[must_use]
pub fn left_by_passes(model: &Graph, description: &Description) -> Vec<String> {
    let after = &description.graph;
    let mut left: BTreeSet<&str> = BTreeSet::new();
    for id in after.nodes.iter().flat_map(|node| node.outputs.iter().flatten()) {
        left.insert(model_name(&after.value(*id).name));
    }
    let made = model.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
    made.map(|&id| &model.value(id).name).filter(|name| left.contains(name.as_str())).cloned().collect()
}

/// The model's name of a value after the passes: that of a channels-last form is `NAME.last#NUMBER`.
#[must_use]
pub fn model_name(name: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once('#') {
        Some((form, number)) if is_number(number) => form.strip_suffix(".last").unwrap_or(name),
        _ => name,
    }
}

/// The nodes, by index and in order, that compute a value from inputs, constants and values for which `is_known` is
/// true; and the known values that they read.
#[must_use]
pub fn computed_by(graph: &Graph, value: ValueId, is_known: impl Fn(ValueId) -> bool) -> (Vec<usize>, Vec<ValueId>) {
    let producers = graph.producers();
    let (mut nodes, mut read, mut wanted) = (BTreeSet::new(), BTreeSet::new(), vec![value]);
    while let Some(next) = wanted.pop() {
        if next != value && is_known(next) {
            read.insert(next);
            continue;
        }
        let Some(index) = producers[next.index()] else { continue };
        if nodes.insert(index) {
            wanted.extend(graph.nodes[index].inputs.iter().flatten());
        }
    }
    (nodes.into_iter().collect(), read.into_iter().collect())
}

/// Whether a node, or one in its bodies, is random.
#[must_use]
pub fn is_random(graph: &Graph, node: &NodeDesc) -> bool {
    use kiln_model::ir::Attr;
    // Dropout is random in training only, which its third input turns on.
    let trains = |node: &NodeDesc| match graph.constant_input(node, 2) {
        Some(mode) => mode.bytes().iter().any(|&byte| byte != 0),
        None => node.input(2).is_some(),
    };
    let own = !node.is_repeatable() && (!node.is("Dropout") || trains(node));
    own || node.attrs.values().any(|attr| match attr {
        Attr::Graph(body) => body.nodes.iter().any(|node| is_random(body, node)),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use kiln_model::GraphBuilder;
    use kiln_tensor::{DType, Tensor};

    use super::*;
    use crate::session::{Session, SessionOptions};

    /// `y = Relu(x W + b)`, and the values in between.
    fn dense() -> Graph {
        let mut builder = GraphBuilder::new("dense", 17);
        let x = builder.input("x", DType::F32, ["N".into(), 2.into()]);
        let w = builder.constant(Tensor::from_slice([2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap());
        let b = builder.constant(Tensor::from_slice([2], &[-100f32, 1.0]).unwrap());
        let product = builder.op("MatMul", &[x, w], &[]);
        let sum = builder.op("Add", &[product, b], &[]);
        let y = builder.op("Relu", &[sum], &[]);
        builder.output("y", y);
        builder.finish()
    }

    fn options(taps: &[&str]) -> SessionOptions {
        SessionOptions { threads: 1, taps: taps.iter().map(|&tap| tap.to_owned()).collect(), ..Default::default() }
    }

    #[test]
    fn taps_are_returned_after_the_outputs_in_the_order_in_which_they_were_named() {
        let session = Session::from_graph(dense(), &options(&["Add#4", "y", "x", "MatMul#3", "Add#4"])).unwrap();
        let x = Tensor::from_slice([1, 2], &[10f32, 1.0]).unwrap();
        let outputs = session.run(&[("x", x)]).unwrap();
        let found: Vec<(&str, &[f32])> =
            outputs.iter().map(|(name, tensor)| (name.as_str(), tensor.as_slice().unwrap())).collect();
        let expected: [(&str, &[f32]); 4] =
            [("y", &[0.0, 25.0]), ("Add#4", &[-87.0, 25.0]), ("x", &[10.0, 1.0]), ("MatMul#3", &[13.0, 24.0])];
        assert_eq!(found, expected);
        assert_eq!(session.outputs().len(), 4);
    }

    #[test]
    fn a_name_that_no_value_has_is_an_error_that_tells_what_is_near() {
        let error = Session::from_graph(dense(), &options(&["MatMul"])).err().unwrap();
        let SessionError::UnknownValue { name, near } = &error else { panic!("{error}") };
        assert_eq!((name.as_str(), near[0].as_str()), ("MatMul", "MatMul#3"));
        assert!(error.to_string().contains("'MatMul'"), "{error}");
    }

    #[test]
    fn what_passes_leave_can_be_tapped_without_undoing_a_fusion() {
        let graph = dense();
        let fused = Session::from_graph(graph.clone(), &options(&[])).unwrap();
        let left = left_by_passes(&graph, fused.describe());
        assert_eq!(left, ["y"]);
        let unfused = SessionOptions { passes: kiln_model::passes::PassOptions::none(), ..options(&[]) };
        let unfused = Session::from_graph(graph.clone(), &unfused).unwrap();
        assert_eq!(left_by_passes(&graph, unfused.describe()), ["MatMul#3", "Add#4", "y"]);
        // A fused value that is tapped anyway is computed on its own.
        let tapped = Session::from_graph(graph, &options(&["Add#4"])).unwrap();
        assert!(tapped.describe().graph.nodes.len() > fused.describe().graph.nodes.len());
    }

    #[test]
    fn channels_last_forms_are_named_after_their_values() {
        for (name, expected) in
            [("conv.last#17", "conv"), ("conv#17", "conv#17"), ("conv.last", "conv.last"), ("a.last#b", "a.last#b")]
        {
            assert_eq!(model_name(name), expected);
        }
    }

    #[test]
    fn names_that_contain_the_wanted_one_are_nearest() {
        let known = ["input", "layer1/conv/out", "layer2/conv/out", "layer1/relu"];
        assert_eq!(nearest("layer1/conv", known.into_iter())[0], "layer1/conv/out");
        assert_eq!(nearest("Layer2/conv/Out", known.into_iter())[0], "layer2/conv/out");
    }

    #[test]
    fn the_nodes_behind_a_value_end_where_values_are_known() {
        let graph = dense();
        let (product, sum) = (graph.nodes[0].output(0).unwrap(), graph.nodes[1].output(0).unwrap());
        let y = graph.outputs[0];
        assert_eq!(computed_by(&graph, y, |value| value == sum), (vec![2], vec![sum]));
        assert_eq!(computed_by(&graph, y, |value| value == product), (vec![1, 2], vec![product]));
        assert_eq!(computed_by(&graph, y, |_| false).0, [0, 1, 2]);
    }
}
