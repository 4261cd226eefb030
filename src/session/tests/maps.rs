//! Models whose inputs or outputs are maps, written and read again.

use std::sync::Arc;

use kiln_model::ir::ValueKind;
use kiln_model::onnx::{Limits, load_bytes, write};
use kiln_model::{Attr, Graph, GraphBuilder, Map, Value};
use kiln_tensor::{DType, Tensor};

use crate::session::{Session, SessionOptions};

const LEARN: &str = "ai.onnx.ml";

fn session(graph: &Graph) -> Result<Session, String> {
    let bytes = write(graph).expect("the graph can be written");
    let graph = load_bytes(bytes.into(), None, &Limits::default()).map_err(|error| error.to_string())?;
    let options = SessionOptions { threads: 1, rehearse: false, ..SessionOptions::default() };
    Session::from_graph(graph, &options).map_err(|error| error.to_string())
}

fn list(values: &[f32]) -> Tensor {
    Tensor::from_slice([values.len()], values).expect("a list")
}

fn names(values: &[&str]) -> Tensor {
    Tensor::from_strings([values.len()], values.iter().map(|&value| value.to_owned()).collect()).expect("a list")
}

/// ZipMap of rows of two scores.
fn zipped(attribute: &str, labels: Attr) -> Result<Session, String> {
    let mut build = GraphBuilder::new("zipped", 17);
    let x = build.input("x", DType::F32, ["rows".into(), 2.into()]);
    let y = build.op_of(LEARN, "ZipMap", &[Some(x)], &[(attribute, labels)]);
    build.output("y", y);
    let mut graph = build.finish();
    let declared = &mut graph.values[y.index()];
    (declared.kind, declared.elements) = (ValueKind::Maps(DType::I64), Some(DType::F32));
    session(&graph)
}

#[test]
fn each_row_of_scores_becomes_a_map() {
    let session = zipped("classlabels_int64s", Attr::Ints(vec![3, 1])).expect("it loads");
    assert_eq!(session.outputs()[0].kind, ValueKind::Maps(DType::I64));
    assert_eq!(session.outputs()[0].dtype, Some(DType::F32));
    let rows = Tensor::from_slice([2, 2], &[0.25f32, 0.75, 0.5, 0.5]).expect("rows");
    let outputs = session.run_values(&[("x", rows.into())]).expect("it runs");
    let Value::Maps(maps) = &outputs[0].1 else { panic!("a sequence of maps") };
    assert_eq!(maps.len(), 2);
    assert_eq!(maps[0].keys().as_slice::<i64>(), Ok(&[3, 1][..]));
    assert_eq!(maps[0].values().as_slice::<f32>(), Ok(&[0.25, 0.75][..]));
    assert_eq!(maps[1].values().as_slice::<f32>(), Ok(&[0.5, 0.5][..]));
    let none = Tensor::from_slice::<f32>([0, 2], &[]).expect("no rows");
    let outputs = session.run_values(&[("x", none.into())]).expect("it runs");
    assert!(matches!(&outputs[0].1, Value::Maps(maps) if maps.is_empty()));
}

#[test]
fn rows_of_another_width_than_labels_are_refused() {
    let texts = Attr::Strs(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]);
    let session = zipped("classlabels_strings", texts).expect("it loads");
    let rows = Tensor::from_slice([1, 2], &[0.25f32, 0.75]).expect("rows");
    let refused = session.run_values(&[("x", rows.into())]).expect_err("it is refused").to_string();
    assert!(refused.contains("rows of 2 numbers for 3 labels"), "{refused}");
    let refused = zipped("classlabels_strings", Attr::Strs(Vec::new())).err().expect("it is refused");
    assert!(refused.contains("neither classlabels_strings nor classlabels_int64s"), "{refused}");
}

/// DictVectorizer of a map from texts to floats.
fn vectorized() -> Session {
    let mut build = GraphBuilder::new("vectorized", 17);
    let x = build.input("x", DType::F32, []);
    let vocabulary = Attr::Strs(["a", "b", "c"].map(str::to_owned).to_vec());
    let y = build.op_of(LEARN, "DictVectorizer", &[Some(x)], &[("string_vocabulary", vocabulary)]);
    build.output("y", y);
    let mut graph = build.finish();
    let declared = &mut graph.values[x.index()];
    (declared.kind, declared.dtype) = (ValueKind::Map(DType::String), None);
    (declared.elements, declared.dims) = (Some(DType::F32), None);
    session(&graph).expect("it loads")
}

#[test]
fn a_map_becomes_a_row_in_the_order_of_the_vocabulary() {
    let session = vectorized();
    let map = |keys: Tensor, values: Tensor| Value::Map(Arc::new(Map::new(keys, values).expect("a map")));
    let given = map(names(&["c", "other", "a"]), list(&[1.0, 2.0, 3.0]));
    let outputs = session.run_values(&[("x", given)]).expect("it runs");
    let Value::Tensor(row) = &outputs[0].1 else { panic!("a tensor") };
    assert_eq!(row.shape(), [1, 3]);
    assert_eq!(row.as_slice::<f32>(), Ok(&[3.0, 0.0, 1.0][..]));
    let refusal = |value: Value| session.run_values(&[("x", value)]).expect_err("it is refused").to_string();
    let numbers = Tensor::from_slice([1], &[1i64]).expect("a list");
    let refused = refusal(map(numbers.clone(), list(&[1.0])));
    assert!(refused.contains("expected keys of type string, got int64"), "{refused}");
    let refused = refusal(map(names(&["a"]), numbers));
    assert!(refused.contains("expected elements of type float32, got int64"), "{refused}");
    let refused = refusal(list(&[1.0]).into());
    assert!(refused.contains("expected a map, got a tensor"), "{refused}");
}
