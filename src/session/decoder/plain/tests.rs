//! Small plain exports as torch and optimum write them: a token at a time over a cache they give the same as the whole
//! text, without copying the cache, and a use of the cache that is not recognised as attention is refused.

mod multi_head;
mod slopes;
mod small;

use self::small::{Masked, Model, Written};
use super::*;
use crate::session::decoder::Decoder;
use crate::session::decoder::tests::halves::{halved, with_wide_ports};
use crate::session::{RunOptions, Session};

const WORDS: usize = small::WORDS;

fn options() -> SessionOptions {
    SessionOptions { threads: 1, ..SessionOptions::default() }
}

fn text(count: usize, seed: usize) -> Vec<i64> {
    (0..count).map(|at| ((at * 7 + seed * 5) * (at + 3) % WORDS) as i64).collect()
}

/// The logits after a text that a session computes as a whole on the model's own graph.
fn whole(model: &Model, text: &[i64]) -> Vec<f32> {
    whole_of(model.graph(), model, text)
}

fn whole_of(graph: Graph, model: &Model, text: &[i64]) -> Vec<f32> {
    let session = Session::from_graph(graph, &options()).unwrap();
    let row = |values: Vec<i64>| Tensor::from_vec([1, text.len()], values).unwrap();
    let mut inputs = Vec::new();
    let ports: Vec<String> = session.inputs().iter().map(|port| port.name.clone()).collect();
    for name in &ports {
        let given = match name.as_str() {
            "input_ids" => row(text.to_vec()),
            "attention_mask" => row(vec![1; text.len()]),
            "position_ids" => row((0..text.len() as i64).collect()),
            _ => Tensor::from_vec([1, model.kv_heads, 0, small::SIZE], vec![0f32; 0]).unwrap(),
        };
        inputs.push((name.as_str(), given));
    }
    let outputs = session.run(&inputs).unwrap();
    outputs[0].1.as_slice::<f32>().unwrap()[(text.len() - 1) * WORDS..].to_vec()
}

fn close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-4, "{what}: {found}, expected {expected}");
    }
}

fn why(model: &Model, edit: impl FnOnce(&mut Graph)) -> String {
    let mut graph = model.graph();
    edit(&mut graph);
    match Decoder::from_graph(graph, &options()) {
        Err(DecoderError::Model(reason)) => reason,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was taken"),
    }
}

fn models() -> Vec<Model> {
    let mut all = Vec::new();
    for masked in [Masked::Triangle, Masked::Compared, Masked::Condition, Masked::Picked, Masked::Window(3)] {
        for written in [Written::Products, Written::Standard, Written::Joined] {
            for (kv_heads, positions) in [(1, true), (2, false), (4, true)] {
                all.push(Model { masked, written, kv_heads, positions });
            }
        }
    }
    for (masked, kv_heads) in [(Masked::Table(None), 4), (Masked::Table(Some(5)), 2)] {
        all.push(Model { masked, written: Written::Products, kv_heads, positions: true });
    }
    all.push(Model { masked: Masked::Causal, written: Written::Standard, kv_heads: 2, positions: true });
    all
}

#[test]
fn a_cache_that_is_converted_at_inputs_and_outputs_is_of_f16() {
    for written in [Written::Products, Written::Standard, Written::Joined] {
        let model = Model { masked: Masked::Compared, written, kv_heads: 2, positions: true };
        let narrow = halved(model.graph());
        let load = |graph: Graph| Decoder::from_graph(graph, &options()).unwrap();
        let (narrow, converted) = (load(narrow.clone()), load(with_wide_ports(narrow)));
        let [mut of_narrow, mut of_converted] = [&narrow, &converted].map(|decoder| decoder.cache(1, 4, 40).unwrap());
        assert_eq!(of_narrow.bytes(), of_converted.bytes());
        for tokens in [&text(9, 1)[..], &[3], &[5, 6]] {
            let expected = narrow.step(&mut of_narrow, &[tokens], &RunOptions::default()).unwrap();
            let found = converted.step(&mut of_converted, &[tokens], &RunOptions::default()).unwrap();
            assert_eq!(found.bytes(), expected.bytes(), "{written:?}");
        }
    }
}

#[test]
fn tokens_over_a_cache_say_what_the_whole_text_says() {
    for model in models() {
        let decoder =
            Decoder::from_graph(model.graph(), &options()).unwrap_or_else(|error| panic!("{model:?}: {error}"));
        let text = text(14, 1);
        for chunks in [vec![1; 14], vec![5, 1, 1, 7]] {
            let mut cache = decoder.cache(1, 4, 20).unwrap();
            let mut filled = 0;
            for chunk in chunks {
                let tokens = [&text[filled..filled + chunk]];
                let logits = decoder.step(&mut cache, &tokens, &RunOptions::default()).unwrap();
                filled += chunk;
                let expected = whole(&model, &text[..filled]);
                close(logits.as_slice().unwrap(), &expected, &format!("{model:?}, {filled} positions"));
            }
        }
    }
}

#[test]
fn steps_of_any_length_plan_and_build_nothing_and_leave_the_cache_where_it_is() {
    for written in [Written::Products, Written::Standard] {
        let model = Model { masked: Masked::Compared, written, kv_heads: 2, positions: false };
        let decoder = Decoder::from_graph(model.graph(), &options()).unwrap();
        let mut cache = decoder.cache(1, 40, 40).unwrap();
        let mut step = |tokens: &[i64]| {
            decoder.step(&mut cache, &[tokens], &RunOptions::default()).unwrap();
            let places: Vec<usize> =
                cache.parts.iter().map(|part| part.lend(part.spec()).unwrap().bytes().as_ptr().addr()).collect();
            (decoder.session().plan_stats().misses, decoder.session().cache_stats().misses, places)
        };
        step(&text(3, 1));
        let first = step(&[1]);
        for token in text(30, 2) {
            assert_eq!(step(&[token]), first, "{model:?}");
        }
    }
}

#[test]
fn sequences_of_a_batch_have_lengths_of_their_own() {
    let model = Model { masked: Masked::Compared, written: Written::Products, kv_heads: 2, positions: true };
    let decoder = Decoder::from_graph(model.graph(), &options()).unwrap();
    let texts = [text(9, 1), text(9, 2)];
    let mut cache = decoder.cache(2, 16, 16).unwrap();
    decoder.step(&mut cache, &[&texts[0], &texts[1]], &RunOptions::default()).unwrap();
    cache.rewind(1, 4).unwrap();
    let logits = decoder.step(&mut cache, &[&[4], &[7]], &RunOptions::default()).unwrap();
    let logits = logits.as_slice::<f32>().unwrap();
    close(&logits[..WORDS], &whole(&model, &[&texts[0][..], &[4]].concat()), "the longer");
    close(&logits[WORDS..], &whole(&model, &[&texts[1][..4], &[7]].concat()), "the shorter");
    // Without position_ids, the graph counts those of one sequence.
    let decoder = Decoder::from_graph(Model { positions: false, ..model }.graph(), &options()).unwrap();
    assert!(matches!(decoder.cache(2, 16, 16), Err(DecoderError::Cache(_))));
}

/// The graph with positions that it computes as M2M-100 does: tokens that are no padding are counted, from the
/// length of the past on, and padding has position 0.
fn counting_tokens(model: &Model, padding: i64) -> Graph {
    let mut graph = model.graph();
    let input = |graph: &Graph, name: &str| {
        graph.inputs.iter().copied().find(|&input| graph.value(input).name == name).unwrap()
    };
    let [ids, tokens, past] = ["position_ids", "input_ids", "past_key_values.0.key"].map(|name| input(&graph, name));
    graph.inputs.retain(|&input| input != ids);
    let padding = graph.add_constant("padding", Tensor::scalar(padding));
    let [one, two] = [1i64, 2].map(|number| graph.add_constant("number", Tensor::scalar(number)));
    let [is_padding, is_text, counts, sum, shape, length, all, before] =
        ["is_padding", "is_text", "counts", "sum", "shape", "length", "all", "before"].map(|name| graph.fresh(name));
    let to_i64 = Attrs::from([("to".to_owned(), Attr::Int(7))]);
    let steps = [
        made("Equal", Attrs::new(), vec![Some(tokens), Some(padding)], is_padding),
        made("Not", Attrs::new(), vec![Some(is_padding)], is_text),
        made("Cast", to_i64, vec![Some(is_text)], counts),
        made("CumSum", Attrs::new(), vec![Some(counts), Some(one)], sum),
        made("Shape", Attrs::new(), vec![Some(past)], shape),
        made("Gather", Attrs::new(), vec![Some(shape), Some(two)], length),
        made("Add", Attrs::new(), vec![Some(sum), Some(length)], all),
        made("Sub", Attrs::new(), vec![Some(all), Some(one)], before),
        made("Mul", Attrs::new(), vec![Some(before), Some(counts)], ids),
    ];
    graph.nodes.splice(0..0, steps);
    graph
}

#[test]
fn positions_that_follow_from_tokens_are_counted_from_the_length_of_the_past() {
    for masked in [Masked::Triangle, Masked::Compared, Masked::Table(None)] {
        let model = Model { masked, written: Written::Products, kv_heads: 4, positions: true };
        let text = [2, 9, 4, 0, 10, 8, 7, 7, 3];
        // No token of the text is padding, or the last one.
        for padding in [WORDS as i64, 3] {
            let graph = || counting_tokens(&model, padding);
            let decoder = Decoder::from_graph(graph(), &options()).unwrap_or_else(|error| panic!("{error}"));
            assert!(matches!(decoder.cache(2, 16, 16), Err(DecoderError::Cache(_))), "one length for all sequences");
            let mut cache = decoder.cache(1, 4, 20).unwrap();
            for (from, to) in [(0, 4), (4, 5), (5, 8), (8, 9)] {
                let logits = decoder.step(&mut cache, &[&text[from..to]], &RunOptions::default()).unwrap();
                let expected = whole_of(graph(), &model, &text[..to]);
                close(logits.as_slice().unwrap(), &expected, &format!("{model:?}, padding {padding}, {to} positions"));
            }
        }
    }
}

/// The graph with a sink for each head, as torch writes gpt-oss.
fn with_sinks(model: &Model) -> Graph {
    let mut graph = model.graph();
    let sinks = (0..small::HEADS).map(|head| 0.5 - head as f32).collect();
    let sinks = graph.add_constant("sinks", Tensor::from_vec([1, small::HEADS, 1, 1], sinks).unwrap());
    let [first, last, axis, one] =
        [0i64, -1, 3, 1].map(|number| graph.add_constant("number", Tensor::from_vec([1], vec![number]).unwrap()));
    let last_axis = || Attrs::from([("axis".to_owned(), Attr::Int(-1))]);
    for mut node in std::mem::take(&mut graph.nodes) {
        if !node.is("Softmax") {
            graph.nodes.push(node);
            continue;
        }
        let (scores, weights) = (node.inputs[0], node.outputs[0]);
        let [shape, outer, of_sinks, repeated, all, greatest, less, wide] =
            ["shape", "outer", "of_sinks", "repeated", "all", "greatest", "less", "wide"].map(|name| graph.fresh(name));
        let first_axis = || Attrs::from([("axis".to_owned(), Attr::Int(0))]);
        (node.inputs[0], node.outputs[0]) = (Some(less), Some(wide));
        graph.nodes.extend([
            made("Shape", Attrs::new(), vec![scores], shape),
            made("Slice", Attrs::new(), vec![Some(shape), Some(first), Some(axis)], outer),
            made("Concat", first_axis(), vec![Some(outer), Some(one)], of_sinks),
            made("Expand", Attrs::new(), vec![Some(sinks), Some(of_sinks)], repeated),
            made("Concat", last_axis(), vec![scores, Some(repeated)], all),
            NodeDesc { version: 18, ..made("ReduceMax", Attrs::new(), vec![Some(all), Some(axis)], greatest) },
            made("Sub", Attrs::new(), vec![Some(all), Some(greatest)], less),
            node,
            NodeDesc {
                inputs: [wide, first, last, axis, one].map(Some).to_vec(),
                ..made("Slice", Attrs::new(), Vec::new(), weights.unwrap())
            },
        ]);
    }
    graph
}

#[test]
fn sinks_take_weight_of_each_query() {
    for masked in [Masked::Compared, Masked::Window(3), Masked::Triangle] {
        let model = Model { masked, written: Written::Products, kv_heads: 2, positions: true };
        let decoder = Decoder::from_graph(with_sinks(&model), &options());
        let decoder = decoder.unwrap_or_else(|error| panic!("{model:?}: {error}"));
        let text = text(9, 1);
        let mut cache = decoder.cache(1, 4, 20).unwrap();
        for (from, to) in [(0, 4), (4, 5), (5, 9)] {
            let logits = decoder.step(&mut cache, &[&text[from..to]], &RunOptions::default()).unwrap();
            let expected = whole_of(with_sinks(&model), &model, &text[..to]);
            close(logits.as_slice().unwrap(), &expected, &format!("{model:?}, {to} positions"));
            assert!(whole(&model, &text[..to]) != expected, "sinks matter");
        }
    }
}

/// The graph with new keys whose dimensions follow from constants that it computes: elements are taken at the places of
/// ones, which are all of them.
fn taking_at_places(model: &Model) -> Graph {
    let mut graph = model.graph();
    let size = graph.add_constant("size", Tensor::from_vec([1], vec![small::SIZE as i64]).unwrap());
    let one = Attrs::from([("value".to_owned(), Tensor::from_vec([1], vec![1i64]).unwrap().into())]);
    let turned = |perm: &[i64]| Attrs::from([("perm".to_owned(), Attr::Ints(perm.to_vec()))]);
    let is_key = |graph: &Graph, node: &NodeDesc| {
        let past = node.input(0).map(|past| graph.value(past).name.clone());
        node.is("Concat") && past.is_some_and(|past| past.starts_with("past") && past.ends_with("key"))
    };
    for mut node in std::mem::take(&mut graph.nodes) {
        if is_key(&graph, &node) {
            let new = node.inputs[1];
            let [ones, places, rows, outermost, taken, back] =
                ["ones", "places", "rows", "outermost", "taken", "back"].map(|name| graph.fresh(name));
            graph.nodes.extend([
                made("ConstantOfShape", one.clone(), vec![Some(size)], ones),
                made("NonZero", Attrs::new(), vec![Some(ones)], places),
                made("Transpose", turned(&[1, 0]), vec![Some(places)], rows),
                made("Transpose", turned(&[3, 0, 1, 2]), vec![new], outermost),
                made("GatherND", Attrs::new(), vec![Some(outermost), Some(rows)], taken),
                made("Transpose", turned(&[1, 2, 3, 0]), vec![Some(taken)], back),
            ]);
            node.inputs[1] = Some(back);
        }
        graph.nodes.push(node);
    }
    graph
}

#[test]
fn sizes_may_follow_from_constants_that_the_graph_computes() {
    for (kv_heads, positions) in [(2, true), (4, false)] {
        let model = Model { masked: Masked::Compared, written: Written::Products, kv_heads, positions };
        let decoder = Decoder::from_graph(taking_at_places(&model), &options());
        let decoder = decoder.unwrap_or_else(|error| panic!("{model:?}: {error}"));
        let text = text(9, 1);
        let mut cache = decoder.cache(1, 4, 20).unwrap();
        for (from, to) in [(0, 4), (4, 5), (5, 9)] {
            let logits = decoder.step(&mut cache, &[&text[from..to]], &RunOptions::default()).unwrap();
            close(logits.as_slice().unwrap(), &whole(&model, &text[..to]), &format!("{model:?}, {to} positions"));
        }
    }
}

#[test]
fn a_branch_whose_masks_hide_nothing_takes_steps_of_one_token() {
    for kv_heads in [2, 4] {
        let hides = Model { masked: Masked::Compared, written: Written::Products, kv_heads, positions: true };
        let model = Model { masked: Masked::Nothing, ..hides };
        let decoder = Decoder::from_graph(merged(&model), &options()).unwrap_or_else(|error| panic!("{error}"));
        let texts = [text(9, 1), text(9, 2)];
        let mut cache = decoder.cache(2, 4, 20).unwrap();
        for (from, to) in [(0, 1), (1, 6), (6, 7), (7, 9)] {
            let tokens = [&texts[0][from..to], &texts[1][from..to]];
            let logits = decoder.step(&mut cache, &tokens, &RunOptions::default()).unwrap();
            let logits = logits.as_slice::<f32>().unwrap();
            for (sequence, text) in texts.iter().enumerate() {
                let own = &logits[sequence * WORDS..][..WORDS];
                close(own, &whole(&hides, &text[..to]), &format!("{model:?}, {to} positions"));
            }
        }
        // A step that fails, because the cache has no room for its last token, changes no length.
        assert!(decoder.step(&mut cache, &[&[1; 12], &[2; 12]], &RunOptions::default()).is_err());
        assert_eq!(cache.lengths(), [9, 9]);
        let logits = decoder.step_one(&mut cache, 1, &[4, 7], &RunOptions::default()).unwrap();
        close(logits.as_slice().unwrap(), &whole(&hides, &[&texts[1][..], &[4, 7]].concat()), "one sequence");
    }
    // One that counts positions of one sequence for all reads token after token.
    let hides = Model { masked: Masked::Compared, written: Written::Products, kv_heads: 4, positions: false };
    let decoder = Decoder::from_graph(merged(&Model { masked: Masked::Nothing, ..hides }), &options()).unwrap();
    let mut cache = decoder.cache(1, 4, 8).unwrap();
    let text = text(6, 1);
    let logits = decoder.step(&mut cache, &[&text], &RunOptions::default()).unwrap();
    close(logits.as_slice().unwrap(), &whole(&hides, &text), "token after token");
    assert!(decoder.step(&mut cache, &[&[1, 2, 3]], &RunOptions::default()).is_err());
    assert_eq!(cache.lengths(), [6]);
}

/// The model as optimum's legacy exports merge it: an If on `use_cache_branch`, one branch for each kind of step.
fn merged(model: &Model) -> Graph {
    let mut graph = model.graph();
    let (then, other) = (model.graph(), Model { masked: Masked::Triangle, ..*model }.graph());
    let flag = graph.fresh("use_cache_branch");
    "use_cache_branch".clone_into(&mut graph.values[flag.index()].name);
    graph.values[flag.index()].dtype = Some(DType::Bool);
    graph.values[flag.index()].dims = Some(vec![Dim::Fixed(1)]);
    let branches = [("then_branch", then), ("else_branch", other)];
    let attrs = branches.into_iter().map(|(name, body)| (name.to_owned(), Attr::Graph(body.into()))).collect();
    let inputs = [flag].into_iter().chain(graph.inputs.iter().copied()).map(Some).collect();
    let outputs = graph.outputs.iter().copied().map(Some).collect();
    let step = made("If", attrs, inputs, graph.outputs[0]);
    graph.nodes = vec![NodeDesc { outputs, ..step }];
    graph.inputs.push(flag);
    graph
}

#[test]
fn a_merged_decoder_is_its_branch_with_a_cache() {
    for masked in [Masked::Compared, Masked::Nothing] {
        let model = Model { masked, written: Written::Products, kv_heads: 2, positions: true };
        let decoder = Decoder::from_graph(merged(&model), &options()).unwrap_or_else(|error| panic!("{error}"));
        let text = text(9, 1);
        let mut cache = decoder.cache(1, 4, 20).unwrap();
        for (from, to) in [(0, 5), (5, 6), (6, 9)] {
            let logits = decoder.step(&mut cache, &[&text[from..to]], &RunOptions::default()).unwrap();
            let hides = Model { masked: Masked::Compared, ..model };
            close(logits.as_slice().unwrap(), &whole(&hides, &text[..to]), &format!("{model:?}, {to} positions"));
        }
    }
}

#[test]
fn positions_in_one_row_for_all_sequences_are_taken_from_those_of_the_first() {
    for masked in [Masked::Compared, Masked::Table(None)] {
        let model = Model { masked, written: Written::Products, kv_heads: 4, positions: true };
        let mut graph = model.graph();
        let ids = graph.inputs.iter().copied().find(|&input| graph.value(input).name == IDS).unwrap();
        "ids".clone_into(&mut graph.values[ids.index()].name);
        let row = graph.fresh("row");
        let info = &mut graph.values[row.index()];
        (info.name, info.dtype) = ("cache_position".to_owned(), Some(DType::I64));
        info.dims = Some(vec!["decoder_sequence_length".into()]);
        let first = list(&mut graph, "first", vec![0]).unwrap();
        graph.nodes.insert(0, made("Unsqueeze", Attrs::new(), vec![Some(row), Some(first)], ids));
        graph.inputs.iter_mut().filter(|input| **input == ids).for_each(|input| *input = row);
        let decoder = Decoder::from_graph(graph, &options()).unwrap_or_else(|error| panic!("{error}"));
        assert!(matches!(decoder.cache(2, 16, 16), Err(DecoderError::Cache(_))), "one row for all sequences");
        let (mut cache, text) = (decoder.cache(1, 4, 20).unwrap(), text(9, 1));
        for (from, to) in [(0, 4), (4, 5), (5, 9)] {
            let logits = decoder.step(&mut cache, &[&text[from..to]], &RunOptions::default()).unwrap();
            let hides = Model { masked: Masked::Compared, ..model };
            close(logits.as_slice().unwrap(), &whole(&hides, &text[..to]), &format!("{model:?}, {to} positions"));
        }
    }
}

#[test]
fn other_names_are_given_as_alias() {
    let model = Model { masked: Masked::Compared, written: Written::Products, kv_heads: 2, positions: true };
    let renamed = |graph: &mut Graph| {
        for info in &mut graph.values {
            info.name = info.name.replace("past_key_values", "cache_in").replace("present", "cache_out");
        }
    };
    assert!(why(&model, renamed).contains("no node is a GroupQueryAttention"));
    let mut graph = model.graph();
    renamed(&mut graph);
    let load = |alias: &str| {
        Decoder::from_graph(graph.clone(), &SessionOptions { alias: vec![alias.to_owned()], ..options() })
    };
    let decoder = load("cache_out.* -> cache_in.*").unwrap();
    let mut cache = decoder.cache(1, 4, 20).unwrap();
    let text = text(6, 3);
    decoder.step(&mut cache, &[&text[..5]], &RunOptions::default()).unwrap();
    let logits = decoder.step(&mut cache, &[&text[5..]], &RunOptions::default()).unwrap();
    close(logits.as_slice().unwrap(), &whole(&model, &text), "by other names");
    for wrong in
        ["cache_out.*", "cache_out -> cache_in", "a.* -> b.*", "cache_out.** -> cache_in.*", "x* -> cache_in.*"]
    {
        let refused = load(wrong).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains(wrong), "{wrong}: {refused}");
    }
}

/// The graph as torch traces the caches of transformers 5: inputs of the cache go through a Concat of their own and an
/// Identity, outputs are copies, and shapes after attention have sizes of the joined tensors.
fn traced(model: &Model) -> Graph {
    let mut graph = model.graph();
    let is_past = |graph: &Graph, value: ValueId| graph.value(value).name.starts_with("past_key_values");
    let pasts: Vec<ValueId> = graph.inputs.iter().copied().filter(|&input| is_past(&graph, input)).collect();
    let mut copies = Vec::new();
    for past in pasts {
        let (alone, copy) = (graph.fresh("alone"), graph.fresh("copy"));
        let joins = graph.nodes.iter_mut().filter(|node| node.is("Concat"));
        joins.flat_map(|node| &mut node.inputs).filter(|input| **input == Some(past)).for_each(|input| {
            *input = Some(copy);
        });
        let axis = Attrs::from([("axis".to_owned(), Attr::Int(-2))]);
        copies.push(made("Concat", axis, vec![Some(past)], alone));
        copies.push(made("Identity", Attrs::new(), vec![Some(alone)], copy));
    }
    let joined = graph.outputs[1];
    for at in 1..graph.outputs.len() {
        let (inner, outer) = (graph.outputs[at], graph.fresh("outer"));
        let name = std::mem::replace(&mut graph.values[inner.index()].name, format!("joined.{at}"));
        graph.values[outer.index()].name = name;
        graph.nodes.push(made("Identity", Attrs::new(), vec![Some(inner)], outer));
        graph.outputs[at] = outer;
    }
    let is_flat = |graph: &Graph, node: &NodeDesc| {
        let shape = node.input(1).filter(|_| node.is("Reshape")).and_then(|shape| graph.constant(shape));
        shape.is_some_and(|shape| shape.to_i64_vec().unwrap() == [0, 0, -1])
    };
    let places: Vec<usize> = (0..graph.nodes.len()).filter(|&at| is_flat(&graph, &graph.nodes[at])).collect();
    assert_eq!(places.len(), 2);
    for place in places.into_iter().rev() {
        let [shape, first, batch, size, width, all] =
            ["shape", "first", "batch", "size", "width", "all"].map(|name| graph.fresh(name));
        let [zero, three, heads, open] = [0, 3, 4, -1].map(|number| list(&mut graph, "number", vec![number]).unwrap());
        // One as a list and one as a number.
        let none = list(&mut graph, "none", Vec::new()).unwrap();
        let axis = Attrs::from([("axis".to_owned(), Attr::Int(0))]);
        let scalar = graph.fresh("scalar");
        let steps = [
            made("Shape", Attrs::new(), vec![Some(joined)], shape),
            made("Gather", Attrs::new(), vec![Some(shape), Some(zero)], first),
            made("Reshape", Attrs::new(), vec![Some(first), Some(none)], scalar),
            made("Reshape", Attrs::new(), vec![Some(scalar), Some(open)], batch),
            made("Gather", Attrs::new(), vec![Some(shape), Some(three)], size),
            made("Mul", Attrs::new(), vec![Some(size), Some(heads)], width),
            made("Concat", axis, vec![Some(batch), Some(open), Some(width)], all),
        ];
        graph.nodes[place].inputs[1] = Some(all);
        graph.nodes.splice(place..place, steps);
    }
    graph.nodes.splice(0..0, copies);
    graph
}

#[test]
fn copies_of_the_cache_and_its_sizes_are_read_where_they_come_from() {
    for (masked, kv_heads) in [(Masked::Triangle, 4), (Masked::Compared, 2), (Masked::Condition, 1)] {
        let model = Model { masked, written: Written::Products, kv_heads, positions: true };
        let decoder = Decoder::from_graph(traced(&model), &options()).unwrap_or_else(|error| panic!("{error}"));
        let mut cache = decoder.cache(2, 4, 20).unwrap();
        let texts = [text(8, 1), text(8, 2)];
        decoder.step(&mut cache, &[&texts[0][..5], &texts[1][..5]], &RunOptions::default()).unwrap();
        // A step of one of the cache's sequences.
        for end in 6..=8 {
            let logits = decoder.step_some(&mut cache, &[(1, &texts[1][end - 1..end])], &RunOptions::default());
            let expected = whole(&model, &texts[1][..end]);
            close(logits.unwrap().as_slice().unwrap(), &expected, &format!("{model:?}, {end} positions"));
        }
    }
}

#[test]
fn sizes_that_no_request_has_are_refused_before_masks_are_computed() {
    let causal = Model { masked: Masked::Causal, written: Written::Standard, kv_heads: 2, positions: true };
    let compared = Model { masked: Masked::Compared, written: Written::Products, kv_heads: 2, positions: false };
    for (model, axis) in [(causal, 0), (causal, 1), (compared, 0), (compared, 1)] {
        for size in [1 << 24, usize::MAX] {
            let reason = why(&model, |graph| {
                let tokens = graph.values.iter_mut().find(|info| info.name == "input_ids").unwrap();
                tokens.dims.as_mut().unwrap()[axis] = Dim::Fixed(size);
            });
            assert!(reason.contains("input 'input_ids'") && reason.contains(&size.to_string()), "{reason}");
        }
    }
}

#[test]
fn what_is_not_known_to_be_attention_over_the_cache_is_refused_with_its_node() {
    let model = Model { masked: Masked::Compared, written: Written::Products, kv_heads: 2, positions: true };
    let all_seen = why(&Model { masked: Masked::Nothing, ..model }, |_| {});
    assert!(all_seen.contains("does not see its own and earlier ones"), "{all_seen}");
    let chunked = why(&Model { masked: Masked::Chunks, ..model }, |_| {});
    assert!(chunked.contains("follows from more than lengths"), "{chunked}");
    let shifted = why(&model, |graph| {
        graph.nodes.iter_mut().filter(|node| node.is("LessOrEqual")).for_each(|node| node.op = "Less".to_owned());
    });
    assert!(shifted.contains("does not see its own"), "{shifted}");
    let other = why(&model, |graph| {
        graph.nodes.iter_mut().filter(|node| node.is("Softmax")).for_each(|node| node.op = "LogSoftmax".to_owned());
    });
    assert!(other.contains("LogSoftmax") && other.contains("no known part of attention"), "{other}");
    let read = why(&model, |graph| {
        // The logits follow from the length of the mask.
        let mask = graph.inputs.iter().copied().find(|&input| graph.value(input).name == "attention_mask").unwrap();
        let (sum, float) = (graph.fresh("sum"), graph.fresh("float"));
        let logits = graph.outputs[0];
        let inner = graph.fresh("inner");
        let place = graph.nodes.iter().position(|node| node.output(0) == Some(logits)).unwrap();
        graph.nodes[place].outputs[0] = Some(inner);
        graph.nodes.push(made("ReduceSum", Attrs::new(), vec![Some(mask)], sum));
        graph.nodes.push(made("Cast", Attrs::from([("to".to_owned(), Attr::Int(1))]), vec![Some(sum)], float));
        graph.nodes.push(made("Add", Attrs::new(), vec![Some(inner), Some(float)], logits));
    });
    assert!(read.contains("reads 'attention_mask'"), "{read}");
    let unnamed = why(&model, |graph| {
        let past = graph.inputs.iter().copied().find(|&input| graph.value(input).name.ends_with("0.key")).unwrap();
        graph.values[past.index()].dims = None;
    });
    assert!(unnamed.contains("past_key_values.0.key"), "{unnamed}");
}
