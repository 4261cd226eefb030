//! Fusion of attention as exporters write it, and patterns that must not be fused.

use super::*;

/// The nodes that an exporter of BERT writes around three linear layers: heads apart, scores, mask, softmax, context,
/// heads joined.
struct Written {
    build: GraphBuilder,
    layers: [ValueId; 3],
    mask: ValueId,
}

fn written() -> Written {
    let (mut build, query) = with_x(&[-2, -3, 12]);
    let key = input(&mut build, "key", &[-2, -3, 12]);
    let value = input(&mut build, "value", &[-2, -3, 12]);
    let mask = input(&mut build, "mask", &[-2, 1, 1, -3]);
    Written { build, layers: [query, key, value], mask }
}

impl Written {
    /// `[batch, steps, 12]` to three heads of width 4, transposed by `perm`.
    fn apart(&mut self, layer: usize, perm: [i64; 4]) -> ValueId {
        let target = ints(&mut self.build, &[0, 0, 3, 4]);
        let heads = self.build.op("Reshape", &[self.layers[layer], target], &[]);
        self.build.op("Transpose", &[heads], &[("perm", perm.into())])
    }

    fn scores(&mut self) -> ValueId {
        let (query, key) = (self.apart(0, [0, 2, 1, 3]), self.apart(1, [0, 2, 3, 1]));
        let product = self.build.op("MatMul", &[query, key], &[]);
        let two = scalar(&mut self.build, 2.0);
        self.build.op("Div", &[product, two], &[])
    }

    fn context(&mut self, scores: ValueId) -> ValueId {
        let value = self.apart(2, [0, 2, 1, 3]);
        let weights = self.build.op("Softmax", &[scores], &[("axis", (-1).into())]);
        self.build.op("MatMul", &[weights, value], &[])
    }

    fn joined(&mut self, context: ValueId) -> ValueId {
        let behind = self.build.op("Transpose", &[context], &[("perm", [0, 2, 1, 3].into())]);
        let target = ints(&mut self.build, &[0, 0, 12]);
        self.build.op("Reshape", &[behind, target], &[])
    }
}

/// The layouts of the operands and of the result of the only attention node.
fn lies(graph: &Graph) -> [&str; 4] {
    let node = graph.nodes.iter().find(|node| node.is_fused("FusedAttention")).expect("attention");
    ["query", "key", "value", "output"].map(|operand| node.attributes().text(operand))
}

#[test]
fn a_layer_of_bert_is_one_node_between_linear_layers() {
    let mut w = written();
    let scores = w.scores();
    let masked = w.build.op("Add", &[scores, w.mask], &[]);
    let context = w.context(masked);
    let y = w.joined(context);
    let graph = optimised(w.build, y);
    assert_eq!(ops(&graph), ["FusedAttention+mask"]);
    assert_eq!(lies(&graph), ["joined"; 4]);
    let node = &graph.nodes[0];
    let attributes = node.attributes();
    assert_eq!((attributes.float("scale"), attributes.int("query_heads"), attributes.int("rank")), (0.5, 3, 4));
}

#[test]
fn a_cache_is_read_where_it_was_joined() {
    let mut w = written();
    let past = input(&mut w.build, "past", &[-2, 3, -4, 4]);
    let (query, new, value) = (w.apart(0, [0, 2, 1, 3]), w.apart(1, [0, 2, 1, 3]), w.apart(2, [0, 2, 1, 3]));
    let present = w.build.op("Concat", &[past, new], &[("axis", 2.into())]);
    let values = w.build.op("Concat", &[past, value], &[("axis", 2.into())]);
    w.build.output("present", present);
    let transposed = w.build.op("Transpose", &[present], &[("perm", [0, 1, 3, 2].into())]);
    let product = w.build.op("MatMul", &[query, transposed], &[]);
    let dims = [Dim::from(1), Dim::from(1), Dim::from("d-3"), Dim::Any];
    let (keep, low) = (w.build.input("keep", DType::Bool, dims), scalar(&mut w.build, -1e9));
    let kept = w.build.op("Where", &[keep, product, low], &[]);
    let mask = input(&mut w.build, "wide", &[-2, 1, 1, -1]);
    let masked = w.build.op("Add", &[kept, mask], &[]);
    let weights = w.build.op("Softmax", &[masked], &[("axis", 3.into())]);
    let context = w.build.op("MatMul", &[weights, values], &[]);
    let y = w.joined(context);
    let graph = optimised(w.build, y);
    assert_eq!(lies(&graph), ["joined", "first", "first", "joined"]);
    let node = graph.nodes.last().unwrap();
    assert_eq!(
        (node.inputs.iter().flatten().count(), node.attributes().float("fill"), node.is_marked("inverted")),
        (5, -1e9, false)
    );
    assert_eq!(ops(&graph).iter().filter(|op| *op == "Softmax" || *op == "MatMul").count(), 0);
}

#[test]
fn scores_that_are_filled_where_a_condition_holds() {
    let mut w = written();
    let scores = w.scores();
    let keep = w.build.input("drop", DType::Bool, [Dim::Any, Dim::Any]);
    let low = scalar(&mut w.build, f32::NEG_INFINITY);
    let filled = w.build.op("Where", &[keep, low, scores], &[]);
    let y = w.context(filled);
    let graph = optimised(w.build, y);
    assert_eq!(lies(&graph), ["joined", "joined", "joined", "first"]);
    assert!(graph.nodes[0].attributes().flag("inverted"));
}

#[test]
fn scores_of_three_axes_and_keys_by_columns() {
    let (mut build, query) = with_x(&[-2, -3, 8]);
    let key = input(&mut build, "key", &[-2, 8, -4]);
    let value = input(&mut build, "value", &[-2, -4, 8]);
    let product = build.op("MatMul", &[query, key], &[]);
    let weights = build.op("Softmax", &[product], &[("axis", 2.into())]);
    let y = build.op("MatMul", &[weights, value], &[]);
    let graph = optimised(build, y);
    assert_eq!(
        (ops(&graph), lies(&graph)),
        (vec!["FusedAttention".to_owned()], ["first", "columns", "first", "first"])
    );
}

#[test]
fn a_bias_of_scores_is_their_mask() {
    let (mut build, query) = with_x(&[-2, -3, 8]);
    let key = input(&mut build, "key", &[-2, 8, -4]);
    let value = input(&mut build, "value", &[-2, -4, 8]);
    let bias = input(&mut build, "bias", &[-4]);
    let product = build.op("MatMul", &[query, key], &[]);
    let sum = build.op("Add", &[product, bias], &[]);
    let weights = build.op("Softmax", &[sum], &[("axis", 2.into())]);
    let y = build.op("MatMul", &[weights, value], &[]);
    assert_eq!(ops(&optimised(build, y)), ["FusedAttention+mask"]);
}

#[test]
fn values_with_other_readers_and_other_formulas_stay_apart() {
    let fused = |build: GraphBuilder, y: ValueId| ops(&optimised(build, y)).iter().any(|op| op.contains("Attention"));
    // The weights are an output.
    let mut w = written();
    let scores = w.scores();
    let value = w.apart(2, [0, 2, 1, 3]);
    let weights = w.build.op("Softmax", &[scores], &[]);
    w.build.output("weights", weights);
    let y = w.build.op("MatMul", &[weights, value], &[]);
    assert!(!fused(w.build, y));
    // The softmax is over queries.
    let mut w = written();
    let scores = w.scores();
    let value = w.apart(2, [0, 2, 1, 3]);
    let weights = w.build.op("Softmax", &[scores], &[("axis", 2.into())]);
    let y = w.build.op("MatMul", &[weights, value], &[]);
    assert!(!fused(w.build, y));
    // A mask of more axes than the scores have.
    let mut w = written();
    let scores = w.scores();
    let mask = input(&mut w.build, "five", &[-5, 1, 1, 1, -3]);
    let masked = w.build.op("Add", &[scores, mask], &[]);
    let weights = w.build.op("Softmax", &[masked], &[("axis", (-1).into())]);
    let value = w.apart(2, [0, 2, 1, 3]);
    let y = w.build.op("MatMul", &[weights, value], &[]);
    assert!(!fused(w.build, y));
}
