//! Small encoder-decoders as optimum writes them.

use kiln_model::GraphBuilder;
use kiln_model::ir::{Attr, Dim, Graph, ValueId};
use kiln_tensor::{DType, Tensor};

use crate::session::encoder_decoder::EncoderDecoderGraphs;

pub(super) const WORDS: usize = 13;
pub(super) const FEATURES: usize = 5;
pub(super) const LAYERS: usize = 2;
const HEADS: usize = 2;
const SIZE: usize = 4;
const HIDDEN: usize = HEADS * SIZE;
/// Rows of the tables of positions.
const POSITIONS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Biases by buckets of distances, added to scores that are not scaled.
    Relative,
    /// Rows of a table at numbers that are counted from the past.
    Learned,
    /// The same, with heads folded into the axis of sequences.
    Folded,
    /// Features for an encoder without a mask, and a slice of a table.
    Features,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Three files.
    Apart,
    /// Two files, the decoder an If.
    Merged,
}

pub(super) const KINDS: [Kind; 4] = [Kind::Relative, Kind::Learned, Kind::Folded, Kind::Features];

/// Values that a decoder gets.
struct Given {
    tokens: ValueId,
    states: ValueId,
    mask: Option<ValueId>,
    /// For each layer, its own key and value and those of the encoder.
    past: Option<Vec<[ValueId; 4]>>,
}

pub(super) struct Export {
    build: GraphBuilder,
    kind: Kind,
}

impl Export {
    fn new(name: &str, kind: Kind) -> Export {
        Export { build: GraphBuilder::new(name, 17), kind }
    }

    fn op(&mut self, op: &str, inputs: &[ValueId]) -> ValueId {
        self.build.op(op, inputs, &[])
    }

    fn list(&mut self, values: &[i64]) -> ValueId {
        self.build.constant(Tensor::from_vec([values.len()], values.to_vec()).unwrap())
    }

    fn number(&mut self, value: i64) -> ValueId {
        self.build.constant(Tensor::scalar(value))
    }

    fn float(&mut self, value: f32) -> ValueId {
        self.build.constant(Tensor::scalar(value))
    }

    fn cast(&mut self, of: ValueId, to: i64) -> ValueId {
        self.build.op("Cast", &[of], &[("to", Attr::Int(to))])
    }

    fn weights(&mut self, shape: &[usize], seed: usize) -> ValueId {
        let count: usize = shape.iter().product();
        let values = (0..count).map(|at| ((at * 7919 + seed * 611) % 1009) as f32 / 504.5 - 1.0).collect();
        self.build.constant(Tensor::from_vec(shape.to_vec(), values).unwrap())
    }

    fn size(&mut self, of: ValueId, axis: i64) -> ValueId {
        let (shape, axis) = (self.op("Shape", &[of]), self.number(axis));
        self.op("Gather", &[shape, axis])
    }

    fn unsqueezed(&mut self, of: ValueId, axes: &[i64]) -> ValueId {
        let axes = self.list(axes);
        self.op("Unsqueeze", &[of, axes])
    }

    fn rows(&mut self, of: ValueId, seed: usize) -> ValueId {
        let weights = self.weights(&[HIDDEN, HIDDEN], seed);
        let rows = self.op("MatMul", &[of, weights]);
        let shape = self.list(&[0, 0, HEADS as i64, SIZE as i64]);
        let apart = self.op("Reshape", &[rows, shape]);
        self.build.op("Transpose", &[apart], &[("perm", [0i64, 2, 1, 3].into())])
    }

    /// Attention to keys and values, with a term that is added to its scores.
    fn attention(&mut self, of: ValueId, [keys, values]: [ValueId; 2], added: Option<ValueId>, seed: usize) -> ValueId {
        let query = self.rows(of, seed);
        if self.kind == Kind::Folded {
            let result = self.folded(query, keys, values, added);
            return self.behind(of, result);
        }
        let columns = self.build.op("Transpose", &[keys], &[("perm", [0i64, 1, 3, 2].into())]);
        let mut scores = self.op("MatMul", &[query, columns]);
        if self.kind != Kind::Relative {
            let root = self.float((SIZE as f32).sqrt());
            scores = self.op("Div", &[scores, root]);
        }
        if let Some(added) = added {
            scores = self.op("Add", &[scores, added]);
        }
        let weights = self.build.op("Softmax", &[scores], &[("axis", Attr::Int(-1))]);
        let result = self.op("MatMul", &[weights, values]);
        self.behind(of, result)
    }

    /// The result of attention with heads side by side, added to the input of attention.
    fn behind(&mut self, of: ValueId, result: ValueId) -> ValueId {
        let result = self.build.op("Transpose", &[result], &[("perm", [0i64, 2, 1, 3].into())]);
        let shape = self.list(&[0, 0, HIDDEN as i64]);
        let result = self.op("Reshape", &[result, shape]);
        let sum = self.op("Add", &[of, result]);
        self.op("Tanh", &[sum])
    }

    /// Attention by products of three axes, with scaled queries and a mask that has four.
    fn folded(&mut self, query: ValueId, keys: ValueId, values: ValueId, added: Option<ValueId>) -> ValueId {
        let (batch, heads) = (self.size(query, 0), self.number(HEADS as i64));
        let all = self.op("Mul", &[batch, heads]);
        let [batch, all] = [batch, all].map(|size| self.unsqueezed(size, &[0]));
        let [heads, size, open] = [HEADS as i64, SIZE as i64, -1].map(|number| self.list(&[number]));
        let shaped = |export: &mut Export, of: ValueId, sizes: &[ValueId]| {
            let shape = export.build.op("Concat", sizes, &[("axis", Attr::Int(0))]);
            export.op("Reshape", &[of, shape])
        };
        let scale = self.float((SIZE as f32).sqrt().recip());
        let scaled = self.op("Mul", &[query, scale]);
        let [query, keys, values] = [scaled, keys, values].map(|of| shaped(self, of, &[all, open, size]));
        let columns = self.build.op("Transpose", &[keys], &[("perm", [0i64, 2, 1].into())]);
        let mut scores = self.op("MatMul", &[query, columns]);
        if let Some(added) = added {
            let (new, total) = (self.size(query, 1), self.size(keys, 1));
            let [new, total] = [new, total].map(|size| self.unsqueezed(size, &[0]));
            let apart = shaped(self, scores, &[batch, heads, new, total]);
            let sum = self.op("Add", &[apart, added]);
            scores = shaped(self, sum, &[all, new, total]);
        }
        let weights = self.build.op("Softmax", &[scores], &[("axis", Attr::Int(-1))]);
        let result = self.op("MatMul", &[weights, values]);
        shaped(self, result, &[batch, heads, open, size])
    }

    /// The term that is added to scores of self-attention; there are `total` positions with the past.
    fn added(&mut self, past: ValueId, total: ValueId, is_causal: bool) -> Option<ValueId> {
        let (zero, one) = (self.number(0), self.number(1));
        let queries = self.op("Range", &[past, total, one]);
        let keys = self.op("Range", &[zero, total, one]);
        let (queries, keys) = (self.unsqueezed(queries, &[1]), self.unsqueezed(keys, &[0]));
        let mask = is_causal.then(|| {
            let seen = self.op("LessOrEqual", &[keys, queries]);
            let (nothing, hidden) = (self.float(0.0), self.float(f32::MIN));
            let mask = self.op("Where", &[seen, nothing, hidden]);
            self.unsqueezed(mask, &[0, 1])
        });
        if self.kind != Kind::Relative {
            return mask;
        }
        // Four distances of their own, and four buckets that grow up to 16 positions.
        let distance = self.op("Sub", &[queries, keys]);
        let distance = self.op("Max", &[distance, zero]);
        let four = self.number(4);
        let is_near = self.op("Less", &[distance, four]);
        let apart = self.op("Max", &[distance, one]);
        let apart = self.cast(apart, 1);
        let (near, scale) = (self.float(4.0), self.float(4.0 / 4f32.ln()));
        let apart = self.op("Div", &[apart, near]);
        let apart = self.op("Log", &[apart]);
        let apart = self.op("Mul", &[apart, scale]);
        let apart = self.cast(apart, 7);
        let apart = self.op("Add", &[apart, four]);
        let last = self.number(7);
        let apart = self.op("Min", &[apart, last]);
        let bucket = self.op("Where", &[is_near, distance, apart]);
        let table = self.weights(&[8, HEADS], 77);
        let bias = self.op("Gather", &[table, bucket]);
        let bias = self.build.op("Transpose", &[bias], &[("perm", [2i64, 0, 1].into())]);
        let bias = self.unsqueezed(bias, &[0]);
        Some(mask.map_or(bias, |mask| self.op("Add", &[bias, mask])))
    }

    /// Tokens and their positions as rows.
    fn embedded(&mut self, tokens: ValueId, past: ValueId, total: ValueId) -> ValueId {
        let table = self.weights(&[WORDS, HIDDEN], 1);
        let rows = self.op("Gather", &[table, tokens]);
        let places = match self.kind {
            Kind::Relative => return rows,
            Kind::Learned | Kind::Folded => {
                let (one, two) = (self.number(1), self.number(2));
                let numbers = self.op("Range", &[past, total, one]);
                let numbers = self.op("Add", &[numbers, two]);
                let table = self.weights(&[POSITIONS, HIDDEN], 2);
                self.op("Gather", &[table, numbers])
            }
            Kind::Features => {
                let table = self.weights(&[POSITIONS, HIDDEN], 2);
                let (from, to) = (self.unsqueezed(past, &[0]), self.unsqueezed(total, &[0]));
                let axis = self.list(&[0]);
                self.op("Slice", &[table, from, to, axis])
            }
        };
        self.op("Add", &[rows, places])
    }

    /// The logits, and for each layer its own key and value and those of the encoder.
    fn decoder(&mut self, given: &Given) -> (ValueId, Vec<[ValueId; 4]>) {
        let new = self.size(given.tokens, 1);
        let past = match &given.past {
            Some(past) => self.size(past[0][0], 2),
            None => self.number(0),
        };
        let total = self.op("Add", &[past, new]);
        let mut hidden = self.embedded(given.tokens, past, total);
        let added = self.added(past, total, given.past.is_none() || self.kind == Kind::Folded);
        let hides = given.mask.map(|mask| {
            let mask = self.unsqueezed(mask, &[1, 2]);
            let mask = self.cast(mask, 1);
            let (one, least) = (self.float(1.0), self.float(f32::MIN));
            let hidden = self.op("Sub", &[one, mask]);
            self.op("Mul", &[hidden, least])
        });
        let mut presents = Vec::new();
        for layer in 0..LAYERS {
            let seed = 10 * layer + 3;
            let [key, value] = [1, 2].map(|part| self.rows(hidden, seed + part));
            let axis = [("axis", Attr::Int(2))];
            let (own, cross) = match given.past.as_ref().map(|past| past[layer]) {
                Some([past_key, past_value, keys, values]) => {
                    let join = |export: &mut Export, past, new| export.build.op("Concat", &[past, new], &axis);
                    ([join(self, past_key, key), join(self, past_value, value)], [keys, values])
                }
                None => ([key, value], [3, 4].map(|part| self.rows(given.states, seed + part))),
            };
            hidden = self.attention(hidden, own, added, seed);
            hidden = self.attention(hidden, cross, hides, seed + 5);
            presents.push([own[0], own[1], cross[0], cross[1]]);
        }
        let head = self.weights(&[HIDDEN, WORDS], 9);
        (self.op("MatMul", &[hidden, head]), presents)
    }

    /// The inputs of a decoder.
    fn given(&mut self, has_past: bool) -> Given {
        let build = &mut self.build;
        let dims = |names: [&str; 2]| names.map(Dim::from);
        let mask = (self.kind != Kind::Features).then(|| {
            build.input("encoder_attention_mask", DType::I64, dims(["batch_size", "encoder_sequence_length"]))
        });
        let tokens = build.input("input_ids", DType::I64, dims(["batch_size", "decoder_sequence_length"]));
        let states = ["batch_size".into(), "encoder_sequence_length".into(), HIDDEN.into()];
        let states = build.input("encoder_hidden_states", DType::F32, states);
        let past = has_past.then(|| {
            let mut layers = Vec::new();
            for layer in 0..LAYERS {
                layers.push([("decoder", "key"), ("decoder", "value"), ("encoder", "key"), ("encoder", "value")].map(
                    |(side, part)| {
                        let length = format!("past_{side}_sequence_length");
                        let dims = ["batch_size".into(), HEADS.into(), Dim::from(length.as_str()), SIZE.into()];
                        build.input(&format!("past_key_values.{layer}.{side}.{part}"), DType::F32, dims)
                    },
                ));
            }
            layers
        });
        Given { tokens, states, mask, past }
    }

    fn outputs(&mut self, logits: ValueId, presents: &[[ValueId; 4]], has_encoder: bool) {
        self.build.output("logits", logits);
        for (layer, [key, value, cross_key, cross_value]) in presents.iter().enumerate() {
            self.build.output(&format!("present.{layer}.decoder.key"), *key);
            self.build.output(&format!("present.{layer}.decoder.value"), *value);
            if has_encoder {
                // In a branch with a cache these are inputs, which have other names.
                let [key, value] = [*cross_key, *cross_value].map(|of| self.op("Identity", &[of]));
                self.build.output(&format!("present.{layer}.encoder.key"), key);
                self.build.output(&format!("present.{layer}.encoder.value"), value);
            }
        }
    }
}

pub(super) fn encoder(kind: Kind) -> Graph {
    let mut export = Export::new("encoder_model", kind);
    let batch = || Dim::from("batch_size");
    let hidden = if kind == Kind::Features {
        let dims = [batch(), FEATURES.into(), "frames".into()];
        let features = export.build.input("input_features", DType::F32, dims);
        let rows = export.build.op("Transpose", &[features], &[("perm", [0i64, 2, 1].into())]);
        let weights = export.weights(&[FEATURES, HIDDEN], 31);
        export.op("MatMul", &[rows, weights])
    } else {
        let tokens = export.build.input("input_ids", DType::I64, [batch(), "encoder_sequence_length".into()]);
        let mask = export.build.input("attention_mask", DType::I64, [batch(), "encoder_sequence_length".into()]);
        let table = export.weights(&[WORDS, HIDDEN], 30);
        let rows = export.op("Gather", &[table, tokens]);
        let mask = export.cast(mask, 1);
        let mask = export.unsqueezed(mask, &[2]);
        export.op("Mul", &[rows, mask])
    };
    let hidden = export.op("Tanh", &[hidden]);
    let dims = [batch(), "encoder_sequence_length".into(), HIDDEN.into()];
    export.build.output_of("last_hidden_state", hidden, DType::F32, dims);
    export.build.finish()
}

/// The decoder without a cache, which is also used for whole texts.
pub(super) fn whole(kind: Kind) -> Graph {
    let mut export = Export::new("decoder_model", kind);
    let given = export.given(false);
    let (logits, presents) = export.decoder(&given);
    export.outputs(logits, &presents, true);
    export.build.finish()
}

pub(super) fn with_past(kind: Kind) -> Graph {
    let mut export = Export::new("decoder_with_past_model", kind);
    let given = export.given(true);
    let (logits, presents) = export.decoder(&given);
    export.outputs(logits, &presents, false);
    export.build.finish()
}

fn merged(kind: Kind) -> Graph {
    let branch = |has_past: bool| {
        let mut export = Export::new("branch", kind);
        let given = export.given(true);
        let given = if has_past { given } else { Given { past: None, ..given } };
        let (logits, presents) = export.decoder(&given);
        export.outputs(logits, &presents, true);
        export.build.finish()
    };
    let mut export = Export::new("decoder_model_merged", kind);
    let given = export.given(true);
    let flag = export.build.input("use_cache_branch", DType::Bool, [1.into()]);
    let captured: Vec<ValueId> = given
        .mask
        .into_iter()
        .chain([given.tokens, given.states])
        .chain(given.past.into_iter().flatten().flatten())
        .collect();
    let branches = [("then_branch", branch(true).into()), ("else_branch", branch(false).into())];
    let made = export.build.op_with_bodies("If", &[Some(flag)], &captured, 1 + 4 * LAYERS, &branches);
    export.build.output("logits", made[0]);
    for (layer, parts) in made[1..].chunks(4).enumerate() {
        for (part, name) in parts.iter().zip(["decoder.key", "decoder.value", "encoder.key", "encoder.value"]) {
            export.build.output(&format!("present.{layer}.{name}"), *part);
        }
    }
    export.build.finish()
}

pub(super) fn graphs(kind: Kind, form: Form) -> EncoderDecoderGraphs {
    match form {
        Form::Apart => {
            EncoderDecoderGraphs { encoder: encoder(kind), decoder: whole(kind), with_past: Some(with_past(kind)) }
        }
        Form::Merged => EncoderDecoderGraphs { encoder: encoder(kind), decoder: merged(kind), with_past: None },
    }
}
