//! Models in two parts: embeddings of tokens, and a decoder that reads them.

use kiln_model::ir::{Attr, Graph, ValueId, ValueInfo};

use super::super::embedding::prepend;
use super::small::{HIDDEN, model};
use super::*;

/// The model's first node, which embeds tokens, as a model of its own, and the rest, which reads embeddings.
fn parts(positions: bool) -> (Graph, Graph) {
    let mut rest = model(None, positions);
    let at = rest.nodes.iter().position(|node| node.op == "Gather" && is_named(&rest, node.input(1), "input_ids"));
    let embeds = rest.nodes.remove(at.unwrap());
    let [tokens, made] = [embeds.input(1).unwrap(), embeds.outputs[0].unwrap()];
    let mut first = Graph { nodes: vec![embeds], inputs: vec![tokens], outputs: vec![made], ..rest.clone() };
    let dims = Some(vec!["batch".into(), "new".into(), HIDDEN.into()]);
    for graph in [&mut first, &mut rest] {
        let name = "inputs_embeds".to_owned();
        graph.values[made.index()] =
            ValueInfo { name, dtype: Some(DType::F32), dims: dims.clone(), ..ValueInfo::default() };
    }
    *rest.inputs.iter_mut().find(|input| **input == tokens).unwrap() = made;
    "gone".clone_into(&mut rest.values[tokens.index()].name);
    (first, rest)
}

fn is_named(graph: &Graph, value: Option<ValueId>, name: &str) -> bool {
    value.is_some_and(|value| graph.value(value).name == name)
}

fn joined(first: Graph, mut rest: Graph) -> Result<Decoder, DecoderError> {
    prepend(first, &mut rest)?;
    Decoder::from_graph(rest, &SessionOptions { threads: 1, ..SessionOptions::default() })
}

/// The logits of a text in two chunks are those of the model in one part.
fn says_the_same(decoder: &Decoder, what: &str) {
    let text = text(9, 3);
    let mut cache = decoder.cache(1, 4, 40).unwrap();
    for (begin, end) in [(0, 4), (4, 9)] {
        close(&step(decoder, &mut cache, &[&text[begin..end]]), &whole(None, &text[..end]), what);
    }
}

#[test]
fn both_parts_together_are_the_model_in_one_part() {
    let (first, rest) = parts(false);
    says_the_same(&joined(first, rest).unwrap(), "two parts");
}

#[test]
fn a_decoder_of_half_floats_reads_embeddings_of_whole_ones() {
    let (first, mut rest) = parts(false);
    let read = rest.values.iter().position(|value| value.name == "inputs_embeds").unwrap();
    let read = ValueId(read as u32);
    rest.values[read.index()].dtype = Some(DType::F16);
    let wide = rest.fresh("wide");
    rest.values[wide.index()].dtype = Some(DType::F32);
    for value in rest.nodes.iter_mut().flat_map(|node| &mut node.inputs).flatten() {
        *value = if *value == read { wide } else { *value };
    }
    let mut widens = rest.nodes.iter().find(|node| node.op == "Cast").unwrap().clone();
    widens.attrs.insert("to".to_owned(), Attr::Int(1));
    (widens.inputs, widens.outputs) = (vec![Some(read)], vec![Some(wide)]);
    rest.nodes.insert(0, widens);
    let decoder = joined(first, rest).unwrap();
    let (text, mut cache) = (text(5, 1), decoder.cache(1, 4, 40).unwrap());
    let found = step(&decoder, &mut cache, &[&text]);
    let expected = whole(None, &text);
    assert!(found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1e-2));
    assert_ne!(found, expected, "embeddings were rounded");
}

#[test]
fn features_are_those_of_no_image() {
    let (mut first, rest) = parts(false);
    let features = first.fresh("image_features");
    let info = ValueInfo {
        name: "image_features".to_owned(),
        dtype: Some(DType::F32),
        dims: Some(vec!["images".into(), HIDDEN.into()]),
        ..ValueInfo::default()
    };
    first.values[features.index()] = info;
    first.inputs.push(features);
    says_the_same(&joined(first, rest).unwrap(), "with room for images");
}

#[test]
fn what_does_not_belong_together_is_refused_with_the_reason() {
    let refused = |first: Graph, rest: Graph| match joined(first, rest) {
        Err(DecoderError::Model(reason)) => reason,
        other => panic!("{:?}", other.err()),
    };
    let (first, rest) = parts(false);
    assert!(refused(first.clone(), model(None, false)).contains("no input is 'inputs_embeds'"));
    let mut several = first.clone();
    several.values[first.outputs[0].index()].name = "made".to_owned();
    several.outputs.push(several.inputs[0]);
    assert!(refused(several, rest.clone()).contains("it has several"));
    let mut fixed = first.clone();
    let ids = fixed.inputs[0];
    fixed.values[ids.index()].dtype = Some(DType::F32);
    fixed.values[ids.index()].dims = Some(vec![3usize.into(), 4usize.into()]);
    assert!(refused(fixed, rest).contains("'input_ids' of the embedding is neither tokens nor rows"));
}

#[test]
fn positions_in_time_height_and_width_are_those_of_the_text() {
    let mut graph = model(None, true);
    let ids = graph.inputs.iter().copied().find(|&input| graph.value(input).name == "position_ids").unwrap();
    graph.values[ids.index()].dims = Some(vec![3usize.into(), "batch".into(), "new".into()]);
    for row in 0..3i64 {
        let mut graph = graph.clone();
        let picked = graph.fresh("picked");
        for value in graph.nodes.iter_mut().flat_map(|node| &mut node.inputs).flatten() {
            *value = if *value == ids { picked } else { *value };
        }
        let place = graph.add_constant("row", Tensor::scalar(row));
        let mut picks = graph.nodes.iter().find(|node| node.op == "Gather").unwrap().clone();
        (picks.inputs, picks.outputs) = (vec![Some(ids), Some(place)], vec![Some(picked)]);
        graph.nodes.insert(0, picks);
        let decoder = Decoder::from_graph(graph, &SessionOptions { threads: 1, ..SessionOptions::default() });
        says_the_same(&decoder.unwrap(), &format!("row {row}"));
    }
}
