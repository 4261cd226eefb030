//! Models with sequences and optional values.

use kiln_model::ir::ValueKind;
use kiln_model::{Attr, Graph, GraphBuilder, Value};
use kiln_tensor::{BoolByte, DType, Tensor};

use crate::session::{Session, SessionOptions};

fn session(graph: Graph) -> Session {
    let options = SessionOptions { threads: 1, rehearse: false, ..SessionOptions::default() };
    Session::from_graph(graph, &options).expect("the graph is valid")
}

#[test]
fn single_slices_lose_the_axis_also_where_their_size_is_given() {
    for (split, keep, expected) in
        [(None, 0, vec![3]), (Some(1i64), 0, vec![3]), (Some(1), 1, vec![1, 3]), (Some(2), 0, vec![2, 3])]
    {
        let mut build = GraphBuilder::new("split", 17);
        let x = build.input("x", DType::F32, [4.into(), 3.into()]);
        let mut inputs = vec![x];
        inputs.extend(split.map(|split| build.constant(Tensor::from_slice([], &[split]).unwrap())));
        let parts = build.op("SplitToSequence", &inputs, &[("keepdims", Attr::Int(keep))]);
        let first = build.constant(Tensor::from_slice([], &[0i64]).unwrap());
        let y = build.op("SequenceAt", &[parts, first], &[]);
        build.output("y", y);
        let outputs = session(build.finish()).run(&[("x", Tensor::from_slice([4, 3], &[0f32; 12]).unwrap())]).unwrap();
        assert_eq!(outputs[0].1.shape(), expected, "parts of {split:?}, keepdims {keep}");
    }
}

#[test]
fn an_optional_input_that_is_not_given_has_no_element() {
    for kind in [ValueKind::Optional, ValueKind::OptionalSequence] {
        let mut build = GraphBuilder::new("optional", 18);
        let x = build.input("x", DType::F32, []);
        let y = build.op("OptionalHasElement", &[x], &[]);
        build.output("y", y);
        let mut graph = build.finish();
        let declared = &mut graph.values[x.index()];
        (declared.kind, declared.dims) = (kind, None);
        let outputs = session(graph).run_values(&[]).unwrap();
        let Value::Tensor(has) = &outputs[0].1 else { panic!("a tensor is expected") };
        assert_eq!(has.as_slice::<BoolByte>().unwrap(), [BoolByte::from(false)]);
    }
}
