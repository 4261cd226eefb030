//! Small decoders as exporters without a cache operator write them.

use kiln_model::ir::{Attr, Dim, ValueId};
use kiln_model::{Graph, GraphBuilder};
use kiln_tensor::{DType, Tensor};

pub(super) const WORDS: usize = 13;
pub(super) const SIZE: usize = 8;
pub(super) const HEADS: usize = 4;
pub(super) const HIDDEN: usize = 16;
/// Positions of a table.
const TABLE: usize = 24;

/// The mask of later keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Masked {
    /// The upper triangle of a full matrix, and padding.
    Triangle,
    /// Positions compared with each other, added.
    Compared,
    /// The same as a condition of Where.
    Condition,
    /// The same, and the padding of `attention_mask` picked at computed places, in their shape, as transformers 5 does.
    Picked,
    /// A window of this many last positions.
    Window(i64),
    /// The attribute of the operator.
    Causal,
    /// Nothing.
    Nothing,
    /// A table of all positions, cut to a step's lengths, before scores are scaled, as GPT-J and CodeGen have it: of all
    /// earlier keys, or of a window of this many (GPT-Neo).
    Table(Option<usize>),
    /// Chunks of four positions.
    Chunks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// MatMul, Softmax, MatMul.
    Products,
    /// The standard's Attention over its own cache.
    Standard,
    /// The standard's Attention over keys and values joined by Concat.
    Joined,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub(super) masked: Masked,
    pub(super) written: Written,
    pub(super) kv_heads: usize,
    /// Whether positions are an input; else they are counted from the past.
    pub(super) positions: bool,
}

/// A graph under construction and the values that all layers read.
pub(super) struct Export {
    pub(super) build: GraphBuilder,
    pub(super) tokens: ValueId,
    pub(super) first_past: ValueId,
}

impl Export {
    pub(super) fn op(&mut self, op: &str, inputs: &[ValueId]) -> ValueId {
        self.build.op(op, inputs, &[])
    }

    pub(super) fn list(&mut self, values: &[i64]) -> ValueId {
        self.build.constant(Tensor::from_vec([values.len()], values.to_vec()).unwrap())
    }

    pub(super) fn number(&mut self, value: i64) -> ValueId {
        self.build.constant(Tensor::scalar(value))
    }

    pub(super) fn float(&mut self, value: f32) -> ValueId {
        self.build.constant(Tensor::scalar(value))
    }

    pub(super) fn weights(&mut self, shape: &[usize], seed: usize) -> ValueId {
        let count: usize = shape.iter().product();
        let values = (0..count).map(|at| ((at * 7919 + seed * 611) % 1009) as f32 / 504.5 - 1.0).collect();
        self.build.constant(Tensor::from_vec(shape.to_vec(), values).unwrap())
    }

    /// A size as one number.
    pub(super) fn size(&mut self, of: ValueId, axis: i64) -> ValueId {
        let (shape, axis) = (self.op("Shape", &[of]), self.number(axis));
        self.op("Gather", &[shape, axis])
    }

    pub(super) fn unsqueezed(&mut self, of: ValueId, axes: &[i64]) -> ValueId {
        let axes = self.list(axes);
        self.op("Unsqueeze", &[of, axes])
    }

    /// The numbers of the new positions [new] and of all keys [total].
    fn counted(&mut self) -> [ValueId; 2] {
        // The length of the past by way of a list, as GPT-2 has it.
        let shape = self.op("Shape", &[self.first_past]);
        let [from, to, axis] = [-2, -1, 0].map(|number| self.list(&[number]));
        let cut = self.op("Slice", &[shape, from, to]);
        let past = self.op("Squeeze", &[cut, axis]);
        let new = self.size(self.tokens, 1);
        let total = self.op("Add", &[past, new]);
        let (zero, one) = (self.number(0), self.number(1));
        [self.op("Range", &[past, total, one]), self.op("Range", &[zero, total, one])]
    }

    /// True for keys that are seen, [1, 1, new, total], cut from a table.
    fn cut(&mut self, window: Option<usize>) -> ValueId {
        let seen = |query: usize, key: usize| key <= query && window.is_none_or(|window| query - key < window);
        let marks = (0..TABLE * TABLE).map(|at| u8::from(seen(at / TABLE, at % TABLE))).collect();
        let table = self.build.constant(Tensor::from_vec([1, 1, TABLE, TABLE], marks).unwrap());
        let (past, new) = (self.size(self.first_past, 2), self.size(self.tokens, 1));
        let total = self.op("Add", &[past, new]);
        let [from, to] = [past, total].map(|size| self.unsqueezed(size, &[0]));
        let [zero, of_rows, of_columns] = [0, 2, 3].map(|number| self.list(&[number]));
        let rows = self.op("Slice", &[table, from, to, of_rows]);
        let both = self.op("Slice", &[rows, zero, to, of_columns]);
        self.build.op("Cast", &[both], &[("to", Attr::Int(9))])
    }

    /// True for keys that are seen, [1, 1, new, total].
    fn seen(&mut self, masked: Masked) -> ValueId {
        let [queries, keys] = self.counted();
        let (queries, keys) = (self.unsqueezed(queries, &[0, 1, 3]), self.unsqueezed(keys, &[0, 1, 2]));
        if masked == Masked::Chunks {
            let four = self.number(4);
            let [queries, keys] = [queries, keys].map(|of| self.op("Div", &[of, four]));
            return self.op("LessOrEqual", &[keys, queries]);
        }
        let earlier = self.op("LessOrEqual", &[keys, queries]);
        let Masked::Window(window) = masked else { return earlier };
        let (distance, window) = (self.op("Sub", &[queries, keys]), self.number(window));
        let near = self.op("Less", &[distance, window]);
        self.op("And", &[earlier, near])
    }

    /// True for keys that are no padding, [sequences, 1, 1, total].
    fn picked(&mut self, mask: ValueId) -> ValueId {
        let [_, keys] = self.counted();
        let (batch, length) = (self.size(mask, 0), self.size(mask, 1));
        let (zero, one, all) = (self.number(0), self.number(1), self.list(&[-1]));
        let sequences = self.op("Range", &[zero, batch, one]);
        let (sequences, keys) = (self.unsqueezed(sequences, &[1, 2, 3]), self.unsqueezed(keys, &[0, 1, 2]));
        let first = self.op("Mul", &[sequences, length]);
        let places = self.op("Add", &[keys, first]);
        let shown = self.build.op("Cast", &[mask], &[("to", Attr::Int(9))]);
        let shown = self.op("Reshape", &[shown, all]);
        let shown = self.op("Gather", &[shown, places]);
        let shape = self.op("Shape", &[places]);
        let shown = self.op("Reshape", &[shown, all]);
        self.op("Reshape", &[shown, shape])
    }

    /// The mask that is added to scores.
    fn added(&mut self, masked: Masked, mask: ValueId) -> ValueId {
        let (zero, hidden) = (self.float(0.0), self.float(f32::MIN));
        if masked != Masked::Triangle {
            let mut seen = self.seen(masked);
            if masked == Masked::Picked {
                let shown = self.picked(mask);
                seen = self.op("And", &[seen, shown]);
            }
            return self.op("Where", &[seen, zero, hidden]);
        }
        // A full matrix whose upper triangle is hidden, its last rows, and padding.
        let (past, new) = (self.size(self.first_past, 2), self.size(self.tokens, 1));
        let total = self.op("Add", &[past, new]);
        let [row, column] = [new, total].map(|size| self.unsqueezed(size, &[0]));
        let shape = self.build.op("Concat", &[row, column], &[("axis", Attr::Int(0))]);
        let full = self.op("Expand", &[hidden, shape]);
        let one = self.number(1);
        let diagonal = self.op("Add", &[past, one]);
        let upper = self.build.op("Trilu", &[full, diagonal], &[("upper", Attr::Int(1))]);
        let upper = self.unsqueezed(upper, &[0, 1]);
        let padding = self.unsqueezed(mask, &[1, 2]);
        let shown = self.build.op("Cast", &[padding], &[("to", Attr::Int(9))]);
        self.op("Where", &[shown, upper, hidden])
    }

    /// [sequences, positions, heads * SIZE] as [sequences, heads, positions, SIZE].
    pub(super) fn heads_first(&mut self, of: ValueId, heads: usize) -> ValueId {
        let shape = self.list(&[0, 0, heads as i64, SIZE as i64]);
        let apart = self.op("Reshape", &[of, shape]);
        self.build.op("Transpose", &[apart], &[("perm", [0i64, 2, 1, 3].into())])
    }

    /// Rotary embeddings written out, by halves of heads.
    fn rotated(&mut self, of: ValueId, [cosines, sines]: [ValueId; 2]) -> ValueId {
        let half = SIZE as i64 / 2;
        let cut = |export: &mut Export, from: i64, to: i64| {
            let [from, to, axis] = [from, to, 3].map(|number| export.list(&[number]));
            export.op("Slice", &[of, from, to, axis])
        };
        let (front, back) = (cut(self, 0, half), cut(self, half, i64::MAX));
        let negative = self.op("Neg", &[back]);
        let turned = self.build.op("Concat", &[negative, front], &[("axis", Attr::Int(-1))]);
        let (straight, across) = (self.op("Mul", &[of, cosines]), self.op("Mul", &[turned, sines]));
        self.op("Add", &[straight, across])
    }

    /// Repeats each head for the queries that share it, as torch writes `repeat_kv`.
    pub(super) fn repeated(&mut self, of: ValueId, kv_heads: usize) -> ValueId {
        if kv_heads == HEADS {
            return of;
        }
        let (shared, count) = (HEADS / kv_heads, kv_heads as i64);
        let [batch, total] = [0, 2].map(|axis| {
            let size = self.size(of, axis);
            self.unsqueezed(size, &[0])
        });
        let [count, shared, size, heads] =
            [count, shared as i64, SIZE as i64, HEADS as i64].map(|number| self.list(&[number]));
        let join = |export: &mut Export, parts: &[ValueId]| export.build.op("Concat", parts, &[("axis", Attr::Int(0))]);
        let wide = join(self, &[batch, count, shared, total, size]);
        // A size of -1 keeps the present size.
        let five = self.list(&[5]);
        let ones =
            self.build.op("ConstantOfShape", &[five], &[("value", Tensor::from_vec([1], vec![1i64]).unwrap().into())]);
        let minus = self.number(-1);
        let is_same = self.op("Equal", &[wide, minus]);
        let wide = self.op("Where", &[is_same, ones, wide]);
        let flat = join(self, &[batch, heads, total, size]);
        let apart = self.unsqueezed(of, &[2]);
        let copies = self.op("Expand", &[apart, wide]);
        self.op("Reshape", &[copies, flat])
    }

    /// The last two axes in each other's place, as onnxscript writes it: behind one axis for all before.
    fn turned(&mut self, of: ValueId) -> ValueId {
        let shape = self.op("Shape", &[of]);
        let cut = |export: &mut Export, from: i64, to: i64| {
            let [from, to] = [from, to].map(|number| export.list(&[number]));
            export.op("Slice", &[shape, from, to])
        };
        let [before, rows, columns] = [(i64::MIN, -2), (-2, -1), (-1, i64::MAX)].map(|(from, to)| cut(self, from, to));
        let all = self.list(&[-1]);
        let join = |export: &mut Export, parts: &[ValueId]| export.build.op("Concat", parts, &[("axis", Attr::Int(0))]);
        let (folded, apart) = (join(self, &[all, rows, columns]), join(self, &[before, columns, rows]));
        let folded = self.op("Reshape", &[of, folded]);
        let turned = self.build.op("Transpose", &[folded], &[("perm", [0i64, 2, 1].into())]);
        self.op("Reshape", &[turned, apart])
    }

    /// One over the root of the root of a head's size, as torch computes it from a shape.
    fn scale(&mut self, of: ValueId) -> ValueId {
        let [from, to] = [-1, i64::MAX].map(|number| self.list(&[number]));
        let shape = self.op("Shape", &[of]);
        let size = self.op("Slice", &[shape, from, to]);
        let size = self.build.op("Cast", &[size], &[("to", Attr::Int(1))]);
        let (one, root) = (self.float(1.0), self.op("Sqrt", &[size]));
        let scale = self.op("Div", &[one, root]);
        self.op("Sqrt", &[scale])
    }
}

impl Model {
    /// The graph, with two layers.
    pub(super) fn graph(&self) -> Graph {
        let mut build = GraphBuilder::new("plain", 23);
        let dims = |names: [&str; 2]| names.map(Dim::from);
        let tokens = build.input("input_ids", DType::I64, dims(["batch_size", "sequence_length"]));
        let mask =
            build.input("attention_mask", DType::I64, dims(["batch_size", "past_sequence_length + sequence_length"]));
        let ids =
            self.positions.then(|| build.input("position_ids", DType::I64, dims(["batch_size", "sequence_length"])));
        let parts = [0, 1].map(|layer| {
            ["key", "value"].map(|part| {
                let dims = ["batch_size".into(), self.kv_heads.into(), "past_sequence_length".into(), SIZE.into()];
                build.input(&format!("past_key_values.{layer}.{part}"), DType::F32, dims)
            })
        });
        let mut export = Export { build, tokens, first_past: parts[0][0] };
        let table = export.weights(&[WORDS, HIDDEN], 1);
        let mut hidden = export.op("Gather", &[table, tokens]);
        let ids = ids.unwrap_or_else(|| {
            let [queries, _] = export.counted();
            export.unsqueezed(queries, &[0])
        });
        let angles = export.angles(ids);
        let mut presents = Vec::new();
        for (layer, past) in parts.into_iter().enumerate() {
            let (result, present) = self.attention(&mut export, hidden, past, mask, angles, 4 * layer + 2);
            presents.extend(present);
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
        build.finish()
    }

    fn attention(
        &self,
        export: &mut Export,
        hidden: ValueId,
        [past_key, past_value]: [ValueId; 2],
        mask: ValueId,
        angles: [ValueId; 2],
        seed: usize,
    ) -> (ValueId, [ValueId; 2]) {
        let kv_heads = self.kv_heads;
        let heads: Vec<ValueId> = [HEADS, kv_heads, kv_heads]
            .into_iter()
            .enumerate()
            .map(|(part, heads)| {
                let weights = export.weights(&[HIDDEN, heads * SIZE], seed + part);
                let rows = export.op("MatMul", &[hidden, weights]);
                export.heads_first(rows, heads)
            })
            .collect();
        let (query, key) = (export.rotated(heads[0], angles), export.rotated(heads[1], angles));
        let value = heads[2];
        let (result, present) = match self.written {
            Written::Products => {
                let join = |export: &mut Export, past, new| {
                    export.build.op("Concat", &[past, new], &[("axis", Attr::Int(-2))])
                };
                let mut present = [join(export, past_key, key), join(export, past_value, value)];
                if let Masked::Table(_) = self.masked {
                    present[0] = export.build.op("Cast", &[present[0]], &[("to", Attr::Int(1))]);
                }
                // Falcon leaves it to the products to repeat a single head.
                let [keys, values] = match (self.masked, kv_heads) {
                    (Masked::Condition, 1) => present,
                    _ => present.map(|of| export.repeated(of, kv_heads)),
                };
                (self.products(export, query, keys, values, mask), present)
            }
            Written::Standard => {
                let causal = [("is_causal", Attr::Int(i64::from(self.masked == Masked::Causal)))];
                let added = (self.masked != Masked::Causal).then(|| export.added(self.masked, mask));
                let inputs = [Some(query), Some(key), Some(value), added, Some(past_key), Some(past_value)];
                let made = export.build.op_many("Attention", &inputs, 3, &causal);
                (made[0], [made[1], made[2]])
            }
            Written::Joined => {
                let join =
                    |export: &mut Export, past, new| export.build.op("Concat", &[past, new], &[("axis", Attr::Int(2))]);
                let present = [join(export, past_key, key), join(export, past_value, value)];
                let seen = export.seen(self.masked);
                (export.op("Attention", &[query, present[0], present[1], seen]), present)
            }
        };
        let behind = export.build.op("Transpose", &[result], &[("perm", [0i64, 2, 1, 3].into())]);
        let shape = export.list(&[0, 0, -1]);
        (export.op("Reshape", &[behind, shape]), present)
    }

    fn products(&self, export: &mut Export, query: ValueId, keys: ValueId, values: ValueId, mask: ValueId) -> ValueId {
        let columns = match self.masked {
            Masked::Condition => export.turned(keys),
            _ => export.build.op("Transpose", &[keys], &[("perm", [0i64, 1, 3, 2].into())]),
        };
        let scores = match self.masked {
            // torch scales both sides by the root of the scale, others the scores.
            Masked::Triangle | Masked::Nothing => {
                let [query, columns] = [query, columns].map(|of| {
                    let scale = export.scale(query);
                    export.op("Mul", &[of, scale])
                });
                export.op("MatMul", &[query, columns])
            }
            _ => {
                let mut scores = export.op("MatMul", &[query, columns]);
                if let Masked::Table(window) = self.masked {
                    let (seen, hidden) = (export.cut(window), export.float(f32::MIN));
                    scores = export.op("Where", &[seen, scores, hidden]);
                }
                let root = export.float((SIZE as f32).sqrt());
                let scores = export.op("Div", &[scores, root]);
                match self.masked {
                    // Gemma 2 has windows, and caps scores.
                    Masked::Window(_) => {
                        let cap = export.float(1.5);
                        let scores = export.op("Div", &[scores, cap]);
                        let scores = export.op("Tanh", &[scores]);
                        export.op("Mul", &[scores, cap])
                    }
                    _ => scores,
                }
            }
        };
        let scores = match self.masked {
            Masked::Nothing | Masked::Table(_) => scores,
            Masked::Condition => {
                let (seen, hidden) = (export.seen(self.masked), export.float(f32::NEG_INFINITY));
                export.op("Where", &[seen, scores, hidden])
            }
            _ => {
                let added = export.added(self.masked, mask);
                export.op("Add", &[scores, added])
            }
        };
        let weights = export.build.op("Softmax", &[scores], &[("axis", Attr::Int(-1))]);
        let result = export.op("MatMul", &[weights, values]);
        if self.masked != Masked::Picked {
            return result;
        }
        // transformers states the result's shape, with a head's size from the repeated values.
        let sizes = [(result, 0), (query, 1), (query, 2), (values, 3)].map(|(of, axis)| {
            let size = export.size(of, axis);
            export.unsqueezed(size, &[0])
        });
        let shape = export.build.op("Concat", &sizes, &[("axis", Attr::Int(0))]);
        export.op("Reshape", &[result, shape])
    }
}

impl Export {
    /// Cosines and sines [sequences, 1, new, SIZE] of positions [sequences, new].
    fn angles(&mut self, ids: ValueId) -> [ValueId; 2] {
        let ids = self.unsqueezed(ids, &[1, 3]);
        let positions = self.build.op("Cast", &[ids], &[("to", Attr::Int(1))]);
        let frequencies = (0..SIZE).map(|at| 0.5f32.powi((at % (SIZE / 2)) as i32)).collect();
        let frequencies = self.build.constant(Tensor::from_vec([SIZE], frequencies).unwrap());
        let angles = self.op("Mul", &[positions, frequencies]);
        [self.op("Cos", &[angles]), self.op("Sin", &[angles])]
    }
}
