//! MultiHeadAttention as onnxruntime-genai's builder writes it for models in f16 on processors: over keys and values
//! that Concat joins and whose heads are repeated, or over a past of its own; with a mask added to scores, or with
//! padding.

use half::f16;
use kiln_model::GraphBuilder;
use kiln_model::onnx::{Limits, load_bytes, write};

use super::small::{Export, HEADS, HIDDEN, SIZE, WORDS};
use super::*;
use crate::session::decoder::tests::halves::halved;

/// Positions that the tables of angles have.
const ANGLES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Masked {
    /// A triangle of new positions and padding, added. After a past it has a value for only one new position.
    Added,
    /// Padding, and later positions hidden by the operator itself.
    Padding,
}

#[derive(Clone, Copy, Debug)]
struct Built {
    masked: Masked,
    /// Heads of keys. If they are as many as heads of queries, the operator has a past of its own.
    kv_heads: usize,
    is_half: bool,
}

impl Built {
    fn dtype(self) -> DType {
        if self.is_half { DType::F16 } else { DType::F32 }
    }

    /// The mask that is added to scores, [sequences, HEADS, new, total].
    fn added(self, export: &mut Export, mask: ValueId) -> ValueId {
        let (new, past) = (export.size(export.tokens, 1), export.size(export.first_past, 2));
        let (batch, total) = (export.size(export.tokens, 0), export.op("Add", &[new, past]));
        let [batch, new_row, total] = [batch, new, total].map(|size| export.unsqueezed(size, &[0]));
        let (one_row, axis) = (export.list(&[1]), [("axis", Attr::Int(0))]);
        let all = export.build.op("Concat", &[batch, one_row, new_row, total], &axis);
        let square = export.build.op("Concat", &[new_row, new_row], &axis);
        let (zero, one, none, hides) = (export.number(0), export.number(1), export.float(0.0), export.float(-65504.0));
        let full = export.op("Expand", &[hides, square]);
        let columns = export.op("Range", &[zero, new, one]);
        let rows = export.op("Add", &[columns, one]);
        let rows = export.unsqueezed(rows, &[1]);
        let seen = export.op("Less", &[columns, rows]);
        let triangle = export.op("Where", &[seen, none, full]);
        let triangle = export.unsqueezed(triangle, &[0, 1]);
        let triangle = export.op("Expand", &[triangle, all]);
        let shown = export.unsqueezed(mask, &[1, 2]);
        let shown = export.op("Expand", &[shown, all]);
        let to = [("to", Attr::Int(if self.is_half { 10 } else { 1 }))];
        let (shown, one) = (export.build.op("Cast", &[shown], &to), export.float(1.0));
        let hidden = export.op("Sub", &[one, shown]);
        let is_hidden = export.build.op("Cast", &[hidden], &[("to", Attr::Int(9))]);
        let padding = export.op("Where", &[is_hidden, hides, hidden]);
        let sum = export.op("Add", &[padding, triangle]);
        let repeats = export.list(&[1, HEADS as i64, 1, 1]);
        export.op("Tile", &[sum, repeats])
    }

    /// The result and the present keys and values.
    fn attention(
        self,
        export: &mut Export,
        [query, key, value]: [ValueId; 3],
        past: [ValueId; 2],
        mask: ValueId,
    ) -> [ValueId; 3] {
        let causal = i64::from(self.masked == Masked::Padding);
        let attrs = [("num_heads", (HEADS as i64).into()), ("unidirectional", causal.into()), ("scale", 0.4f32.into())];
        let (shown, added) = match self.masked {
            Masked::Added => (None, Some(self.added(export, mask))),
            Masked::Padding => (Some(export.build.op("Cast", &[mask], &[("to", Attr::Int(6))])), None),
        };
        let masks = [None, shown, added];
        if self.kv_heads == HEADS {
            let inputs = [query, key, value].map(Some).into_iter().chain(masks).chain(past.map(Some));
            let inputs: Vec<Option<ValueId>> = inputs.collect();
            return export.build.op_many("MultiHeadAttention", &inputs, 3, &attrs).try_into().unwrap();
        }
        let present = [(past[0], key), (past[1], value)].map(|(past, new)| {
            let new = export.heads_first(new, self.kv_heads);
            export.build.op("Concat", &[past, new], &[("axis", Attr::Int(2))])
        });
        let [keys, values] = present.map(|of| {
            let repeated = export.repeated(of, self.kv_heads);
            let turned = export.build.op("Transpose", &[repeated], &[("perm", [0i64, 2, 1, 3].into())]);
            let shape = export.list(&[0, 0, (HEADS * SIZE) as i64]);
            export.op("Reshape", &[turned, shape])
        });
        let inputs: Vec<Option<ValueId>> = [query, keys, values].map(Some).into_iter().chain(masks).collect();
        let made = export.build.op_many("MultiHeadAttention", &inputs, 1, &attrs);
        [made[0], present[0], present[1]]
    }

    /// The graph with two layers, as it is read from a file.
    fn graph(self) -> Graph {
        let mut build = GraphBuilder::new("built", 21);
        let dims = |names: [&str; 2]| names.map(Dim::from);
        let tokens = build.input("input_ids", DType::I64, dims(["batch_size", "sequence_length"]));
        let mask = build.input("attention_mask", DType::I64, dims(["batch_size", "total_sequence_length"]));
        let ids = build.input("position_ids", DType::I64, dims(["batch_size", "sequence_length"]));
        let heads = if self.kv_heads == HEADS { Dim::from("heads") } else { self.kv_heads.into() };
        let parts = [0, 1].map(|layer| {
            ["key", "value"].map(|part| {
                let dims = ["batch_size".into(), heads.clone(), "past_sequence_length".into(), "kv_cache_dim".into()];
                build.input(&format!("past_key_values.{layer}.{part}"), DType::F32, dims)
            })
        });
        let mut export = Export { build, tokens, first_past: parts[0][0] };
        let angles = [2, 3].map(|seed| export.weights(&[ANGLES, SIZE / 2], seed));
        let table = export.weights(&[WORDS, HIDDEN], 1);
        let mut hidden = export.op("Gather", &[table, tokens]);
        let mut presents = Vec::new();
        for (layer, past) in parts.into_iter().enumerate() {
            let mut part = 0;
            let [query, key, value] = [HEADS, self.kv_heads, self.kv_heads].map(|heads| {
                part += 1;
                let weights = export.weights(&[HIDDEN, heads * SIZE], 4 * layer + part);
                let rows = export.op("MatMul", &[hidden, weights]);
                // Values are not turned.
                if part == 3 {
                    return rows;
                }
                export.build.op("RotaryEmbedding", &[rows, ids, angles[0], angles[1]], &[])
            });
            let [result, keys, values] = self.attention(&mut export, [query, key, value], past, mask);
            presents.extend([keys, values]);
            let back = export.weights(&[HEADS * SIZE, HIDDEN], 20 + layer);
            let back = export.op("MatMul", &[result, back]);
            let sum = export.op("Add", &[hidden, back]);
            hidden = export.op("Tanh", &[sum]);
        }
        let head = export.weights(&[HIDDEN, WORDS], 9);
        let logits = export.op("MatMul", &[hidden, head]);
        let mut build = export.build;
        build.output("logits", logits);
        for (at, present) in presents.into_iter().enumerate() {
            build.output(&format!("present.{}.{}", at / 2, ["key", "value"][at % 2]), present);
        }
        let mut graph = build.finish();
        for node in &mut graph.nodes {
            if ["MultiHeadAttention", "RotaryEmbedding"].contains(&node.op.as_str()) {
                (node.domain, node.version) = ("com.microsoft".to_owned(), 1);
            }
        }
        let graph = if self.is_half { halved(graph) } else { graph };
        load_bytes(write(&graph).unwrap().into(), None, &Limits::default()).unwrap()
    }

    /// The logits after a text that a session computes as a whole.
    fn whole(self, text: &[i64]) -> Vec<f32> {
        let session = Session::from_graph(self.graph(), &options()).unwrap();
        let row = |values: Vec<i64>| Tensor::from_vec([1, text.len()], values).unwrap();
        let ports: Vec<String> = session.inputs().iter().map(|port| port.name.clone()).collect();
        let given = |name: &str| match name {
            "input_ids" => row(text.to_vec()),
            "attention_mask" => row(vec![1; text.len()]),
            "position_ids" => row((0..text.len() as i64).collect()),
            _ if self.is_half => Tensor::from_vec([1, self.kv_heads, 0, SIZE], vec![f16::ZERO; 0]).unwrap(),
            _ => Tensor::from_vec([1, self.kv_heads, 0, SIZE], vec![0f32; 0]).unwrap(),
        };
        let inputs: Vec<(&str, Tensor)> = ports.iter().map(|name| (name.as_str(), given(name))).collect();
        numbers(&session.run(&inputs).unwrap()[0].1).split_off((text.len() - 1) * WORDS)
    }

    fn why(self, edit: impl FnOnce(&mut Graph)) -> String {
        let mut graph = self.graph();
        edit(&mut graph);
        match Decoder::from_graph(graph, &options()) {
            Err(DecoderError::Model(reason)) => reason,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was taken"),
        }
    }
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    match tensor.dtype() {
        DType::F16 => tensor.as_slice::<f16>().unwrap().iter().map(|number| number.to_f32()).collect(),
        _ => tensor.as_slice::<f32>().unwrap().to_vec(),
    }
}

fn all() -> Vec<Built> {
    let mut all = Vec::new();
    for is_half in [false, true] {
        for (masked, kv_heads) in [(Masked::Added, 1), (Masked::Added, 2), (Masked::Added, 4), (Masked::Padding, 4)] {
            all.push(Built { masked, kv_heads, is_half });
        }
    }
    all
}

#[test]
fn tokens_over_its_cache_say_what_the_whole_text_says() {
    for model in all() {
        let decoder =
            Decoder::from_graph(model.graph(), &options()).unwrap_or_else(|error| panic!("{model:?}: {error}"));
        let text = text(13, 1);
        // Several tokens after a past are one step here, for which the model's own triangle has no value.
        for chunks in [vec![1; 13], vec![5, 1, 3, 4]] {
            let mut cache = decoder.cache(1, 4, 20).unwrap();
            let mut filled = 0;
            for chunk in chunks {
                let tokens = [&text[filled..filled + chunk]];
                let logits = decoder.step(&mut cache, &tokens, &RunOptions::default()).unwrap();
                filled += chunk;
                let allowed = if model.is_half { 0.05 } else { 1e-4 };
                for (found, expected) in numbers(&logits).into_iter().zip(model.whole(&text[..filled])) {
                    let near = (found - expected).abs() <= allowed * expected.abs().max(1.0);
                    assert!(near, "{model:?}, {filled} positions: {found}, expected {expected}");
                }
            }
            // Four parts of heads of keys, each with a page of 20 positions.
            assert_eq!(cache.bytes(), 4 * model.kv_heads * 20 * SIZE * model.dtype().size());
        }
    }
}

#[test]
fn its_steps_of_any_length_plan_and_build_nothing_and_write_their_own_rows() {
    for model in all() {
        let decoder = Decoder::from_graph(model.graph(), &options()).unwrap();
        let mut cache = decoder.cache(1, 40, 40).unwrap();
        let row = SIZE * model.dtype().size();
        let mut step = |tokens: &[i64]| {
            decoder.step(&mut cache, &[tokens], &RunOptions::default()).unwrap();
            let parts: Vec<(usize, Vec<u8>)> = (cache.parts.iter())
                .map(|part| part.lend(part.spec()).unwrap())
                .map(|part| (part.bytes().as_ptr().addr(), part.bytes().to_vec()))
                .collect();
            ((decoder.session().plan_stats().misses, decoder.session().cache_stats().misses), parts)
        };
        step(&text(3, 1));
        let (made, mut before) = step(&[1]);
        for length in 4..24 {
            let (now_made, now) = step(&[length as i64 % 13]);
            assert_eq!(now_made, made, "{model:?}");
            for ((place, old), (now_place, new)) in before.iter().zip(&now) {
                assert_eq!(place, now_place, "{model:?}");
                let is_own = |at: usize| (at / row) % 40 == length;
                assert!((0..old.len()).all(|at| is_own(at) || old[at] == new[at]), "{model:?}, position {length}");
            }
            before = now;
        }
    }
}

#[test]
fn sequences_have_lengths_of_their_own() {
    for model in all().into_iter().filter(|model| !model.is_half) {
        let decoder = Decoder::from_graph(model.graph(), &options()).unwrap();
        let texts = [text(9, 1), text(9, 2)];
        let mut cache = decoder.cache(2, 16, 16).unwrap();
        decoder.step(&mut cache, &[&texts[0], &texts[1]], &RunOptions::default()).unwrap();
        cache.rewind(1, 4).unwrap();
        let logits = decoder.step(&mut cache, &[&[4], &[7]], &RunOptions::default()).unwrap();
        let logits = logits.as_slice::<f32>().unwrap();
        close(&logits[..WORDS], &model.whole(&[&texts[0][..], &[4]].concat()), "the longer");
        close(&logits[WORDS..], &model.whole(&[&texts[1][..4], &[7]].concat()), "the shorter");
    }
}

#[test]
fn what_is_not_known_of_it_is_refused_with_its_node() {
    for is_half in [false, true] {
        let joined = Built { masked: Masked::Added, kv_heads: 2, is_half };
        let own = Built { kv_heads: HEADS, ..joined };
        for model in [joined, own] {
            let later = model.why(|graph| {
                let less = graph.nodes.iter_mut().filter(|node| node.is("Less"));
                less.for_each(|node| (node.op, node.version) = ("LessOrEqual".to_owned(), 16));
            });
            assert!(later.contains("(Attention)") && later.contains("does not see its own"), "{later}");
            let of_heads = model.why(|graph| {
                // A number for each head.
                let tile = graph.nodes.iter().position(|node| node.is("Tile")).unwrap();
                graph.nodes[tile].op = "Expand".to_owned();
            });
            assert!(of_heads.contains("(Attention)") && of_heads.contains("none that hides keys"), "{of_heads}");
        }
        let twice = joined.why(|graph| {
            // Values are read instead of keys.
            let last = graph.nodes.iter_mut().rfind(|node| node.is("Attention")).unwrap();
            last.inputs[1] = last.inputs[2];
        });
        assert!(twice.contains("'present.1.key' is not the cache of one node of attention"), "{twice}");
        let unknown = own.why(|graph| {
            let attentions = graph.nodes.iter_mut().filter(|node| node.is("Attention"));
            attentions.for_each(|node| drop(node.attrs.insert("kv_num_heads".to_owned(), Attr::Int(3))));
        });
        assert!(unknown.contains("'past_key_values.0.key' is not [sequences, N, positions, N]"), "{unknown}");
    }
}
