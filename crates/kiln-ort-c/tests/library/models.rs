//! Models of a few nodes.

use kiln::{Attr, DType, Dim, Graph, GraphBuilder, Tensor, ValueKind};
use kiln_model::ir::ValueInfo;

fn written(graph: &Graph) -> Vec<u8> {
    kiln_model::onnx::write(graph).unwrap()
}

/// `y` is `x`, of any type, over those dimensions.
pub(crate) fn identity(dtype: DType, dims: &[Dim]) -> Vec<u8> {
    // Since version 25 it takes every type.
    let mut build = GraphBuilder::new("identity", 25);
    let x = build.input("x", dtype, dims.to_vec());
    let y = build.op("Identity", &[x], &[]);
    build.output_of("y", y, dtype, dims.to_vec());
    written(&build.finish())
}

/// `sum = a + b` and `product = a * b` over `[rows, 2]`.
pub(crate) fn pair() -> Vec<u8> {
    let mut build = GraphBuilder::new("pair", 17);
    let dims = || [Dim::from("rows"), Dim::from(2)];
    let a = build.input("a", DType::F32, dims());
    let b = build.input("b", DType::F32, dims());
    let sum = build.op("Add", &[a, b], &[]);
    let product = build.op("Mul", &[a, b], &[]);
    build.output_of("sum", sum, DType::F32, dims());
    build.output_of("product", product, DType::F32, dims());
    let mut graph = build.finish();
    let mut about = (*graph.metadata).clone();
    about.producer_name = "a test".to_owned();
    about.domain = "org.example".to_owned();
    about.description = "adds and multiplies".to_owned();
    about.graph_description = "two nodes".to_owned();
    about.version = 7;
    about.properties = vec![("language".to_owned(), "none".to_owned())];
    graph.metadata = about.into();
    written(&graph)
}

/// `y = x + w`, where `w` is an input with a default of twos.
pub(crate) fn overridable() -> Vec<u8> {
    let mut build = GraphBuilder::new("overridable", 17);
    let x = build.input("x", DType::F32, [Dim::from(2)]);
    let w = build.input("w", DType::F32, [Dim::from(2)]);
    let y = build.op("Add", &[x, w], &[]);
    build.output_of("y", y, DType::F32, [Dim::from(2)]);
    let mut graph = build.finish();
    graph.constants.insert(w, Tensor::from_vec([2], vec![2f32, 2.0]).unwrap());
    written(&graph)
}

/// `y = x + w`, where `w` is an initialiser alone.
pub(crate) fn weighted() -> Vec<u8> {
    let mut build = GraphBuilder::new("weighted", 17);
    let x = build.input("x", DType::F32, [Dim::from(2)]);
    let w = build.constant(Tensor::from_vec([2], vec![2f32, 2.0]).unwrap());
    let y = build.op("Add", &[x, w], &[]);
    build.output_of("y", y, DType::F32, [Dim::from(2)]);
    let mut graph = build.finish();
    graph.values[w.index()].name = "w".to_owned();
    written(&graph)
}

/// `y` is `x`, whose dimensions are not declared.
pub(crate) fn rankless() -> Vec<u8> {
    let mut build = GraphBuilder::new("rankless", 17);
    let x = build.input("x", DType::F32, []);
    let y = build.op("Identity", &[x], &[]);
    build.output_of("y", y, DType::F32, []);
    let mut graph = build.finish();
    for value in [x, y] {
        graph.values[value.index()].dims = None;
    }
    written(&graph)
}

/// `s` is the sequence of `x` and `x`.
pub(crate) fn sequence() -> Vec<u8> {
    let mut build = GraphBuilder::new("sequence", 17);
    let x = build.input("x", DType::F32, [Dim::from("n")]);
    let s = build.op("SequenceConstruct", &[x, x], &[]);
    build.output("s", s);
    let mut graph = build.finish();
    let name = "s".to_owned();
    graph.values[s.index()] =
        ValueInfo { name, kind: ValueKind::Sequence, elements: Some(DType::F32), ..ValueInfo::default() };
    written(&graph)
}

/// `o` is an optional value with `x`.
pub(crate) fn optional() -> Vec<u8> {
    let mut build = GraphBuilder::new("optional", 17);
    let x = build.input("x", DType::F32, [Dim::from("n")]);
    let o = build.op("Optional", &[x], &[]);
    build.output("o", o);
    let mut graph = build.finish();
    let name = "o".to_owned();
    graph.values[o.index()] =
        ValueInfo { name, kind: ValueKind::Optional, elements: Some(DType::F32), ..ValueInfo::default() };
    written(&graph)
}

/// `z` is one map for each row of scores: from the keys 10 and 20 to the row's two.
pub(crate) fn maps() -> Vec<u8> {
    let mut build = GraphBuilder::new("maps", 17);
    let x = build.input("x", DType::F32, [Dim::from("n"), Dim::from(2)]);
    // A model declares its version of ONNX's own operators only if it has such a node.
    let x = build.op("Identity", &[x], &[]);
    let z = build.op_of("ai.onnx.ml", "ZipMap", &[Some(x)], &[("classlabels_int64s", Attr::Ints(vec![10, 20]))]);
    build.output("z", z);
    let mut graph = build.finish();
    let name = "z".to_owned();
    graph.values[z.index()] =
        ValueInfo { name, kind: ValueKind::Maps(DType::I64), elements: Some(DType::F32), ..ValueInfo::default() };
    written(&graph)
}

/// A model with an operator that does not exist.
pub(crate) fn unknown_operator() -> Vec<u8> {
    let mut build = GraphBuilder::new("unknown", 17);
    let x = build.input("x", DType::F32, [Dim::from(1)]);
    let y = build.op("NoSuchOperator", &[x], &[]);
    build.output_of("y", y, DType::F32, [Dim::from(1)]);
    written(&build.finish())
}
