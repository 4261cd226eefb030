//! Loading and writing of valid models. Invalid ones are in `hostile`, files beside a model in `beside` and `links`,
//! functions of a model's own in `own`.

mod beside;
mod hostile;
mod links;
mod own;

use half::{bf16, f16};
use kiln_tensor::dtype::BoolByte;
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::proto::tensor_proto::DataType;
use super::proto::{
    FunctionProto, ModelProto, NodeProto, OperatorSetIdProto, SparseTensorProto, TensorProto, ValueInfoProto,
};
use super::*;
use crate::GraphBuilder;
use crate::ir::{Attr, Dim, Metadata};

fn load_message(model: &ModelProto) -> Result<Graph, ModelError> {
    load_bytes(model.encode_to_vec().into(), None, &Limits::default())
}

fn reloaded(graph: &Graph) -> Graph {
    let bytes = write(graph).expect("the graph can be written");
    load_bytes(bytes.into(), None, &Limits::default()).expect("what was written can be read")
}

/// A graph as text: operators with the names of inputs and outputs.
fn told(graph: &Graph) -> Vec<String> {
    let name = |value: &Option<crate::ValueId>| value.map_or("-", |id| &graph.value(id).name);
    let list = |values: &[Option<crate::ValueId>]| values.iter().map(name).collect::<Vec<_>>().join(" ");
    graph.nodes.iter().map(|node| format!("{} = {} {}", list(&node.outputs), node.op, list(&node.inputs))).collect()
}

fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    NodeProto { op_type: Some(op.to_owned()), input: owned(inputs), output: owned(outputs), ..Default::default() }
}

fn named(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.to_owned()), ..Default::default() }
}

fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) }
}

/// A model from `x` to `y` with those nodes.
fn model(nodes: Vec<NodeProto>) -> ModelProto {
    let graph = super::proto::GraphProto {
        name: Some("g".to_owned()),
        node: nodes,
        input: vec![named("x")],
        output: vec![named("y")],
        ..Default::default()
    };
    ModelProto { ir_version: Some(8), opset_import: vec![opset("", 17)], graph: Some(graph), ..Default::default() }
}

#[test]
fn a_written_graph_reads_back_the_same() {
    let mut build = GraphBuilder::new("net", 17);
    let x = build.input("x", DType::F32, ["N".into(), 3.into(), Dim::Any]);
    let w = build.constant(Tensor::from_vec([2], vec![1.5f32, -2.0]).unwrap());
    let attrs: &[(&str, Attr)] = &[
        ("int", 7.into()),
        ("float", 0.5.into()),
        ("text", "NOTSET".into()),
        ("ints", [1, -2].into()),
        ("floats", vec![1.0f32, 2.0].into()),
        ("texts", vec!["a".to_owned(), String::new()].into()),
        ("tensor", Tensor::scalar(3i64).into()),
    ];
    let y = build.op_of("org.example", "Own", &[Some(x), None, Some(w)], attrs);
    let parts = build.op_many("Split", &[Some(y), None], 2, &[]);
    build.output_of("out", parts[1], DType::F16, [Dim::Fixed(4)]);
    let before = build.finish();
    let after = reloaded(&before);
    assert_eq!(told(&after), told(&before));
    assert_eq!(format!("{:?}", after.nodes[0].attrs), format!("{:?}", before.nodes[0].attrs));
    assert_eq!(
        (after.nodes[0].domain.as_str(), after.nodes[0].version, after.nodes[1].version),
        ("org.example", 1, 17)
    );
    let (input, output) = (after.value(after.inputs[0]), after.value(after.outputs[0]));
    assert_eq!(input.dims, Some(vec![Dim::Named("N".to_owned()), Dim::Fixed(3), Dim::Any]));
    assert_eq!(
        (output.name.as_str(), output.dtype, output.dims.clone()),
        ("out", Some(DType::F16), Some(vec![Dim::Fixed(4)]))
    );
    assert_eq!(after.constant_input(&after.nodes[0], 2).unwrap().as_slice::<f32>().unwrap(), [1.5, -2.0]);
}

#[test]
fn what_a_model_says_of_itself_is_kept() {
    let mut build = GraphBuilder::new("a graph", 17);
    let x = build.input("x", DType::F32, [Dim::Any]);
    let y = build.op("Relu", &[x], &[]);
    build.output("y", y);
    let mut graph = build.finish();
    assert_eq!(*reloaded(&graph).metadata.producer_name, *"kiln", "what writes files says so where nothing is said");
    let texts = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let metadata = Metadata {
        producer_name: "a tool".to_owned(),
        producer_version: "1.2".to_owned(),
        domain: "org.example".to_owned(),
        version: -3,
        description: "what it is".to_owned(),
        graph_name: "a graph".to_owned(),
        graph_description: "what the graph is".to_owned(),
        properties: vec![texts("character", "a\nb"), texts("", ""), texts("character", "c")],
    };
    graph.metadata = Arc::new(metadata.clone());
    assert_eq!(*reloaded(&graph).metadata, metadata);
}

#[test]
fn tensors_of_every_type_read_back_the_same() {
    let tensors = [
        Tensor::from_vec([3], vec![1.0f32, f32::NAN, -0.0]).unwrap(),
        Tensor::from_vec([1, 2], vec![1.0f64, f64::INFINITY]).unwrap(),
        Tensor::from_vec([2], vec![f16::from_f32(1.5), f16::NEG_INFINITY]).unwrap(),
        Tensor::from_vec([1], vec![bf16::from_f32(-2.5)]).unwrap(),
        Tensor::from_vec([2], vec![-128i8, 127]).unwrap(),
        Tensor::from_vec([2], vec![i16::MIN, 1]).unwrap(),
        Tensor::from_vec([2, 1, 1], vec![i32::MIN, 1]).unwrap(),
        Tensor::scalar(i64::MIN),
        Tensor::from_vec([2], vec![0u8, 255]).unwrap(),
        Tensor::from_vec([1], vec![u16::MAX]).unwrap(),
        Tensor::from_vec([1], vec![u32::MAX]).unwrap(),
        Tensor::from_vec([1], vec![u64::MAX]).unwrap(),
        Tensor::from_vec([2], vec![BoolByte(0), BoolByte(1)]).unwrap(),
        Tensor::from_strings([2], vec!["a".to_owned(), String::new()]).unwrap(),
        Tensor::zeros(TensorSpec::new(DType::F32, [4, 0, 1 << 40])).unwrap(),
        Tensor::from_bytes(TensorSpec::new(DType::F8E4M3, [2]), &[0x7f, 0x80]).unwrap(),
        Tensor::from_bytes(TensorSpec::new(DType::I4, [3]), &[7, 0xf8, 0xff]).unwrap(),
        Tensor::from_bytes(TensorSpec::new(DType::F4E2M1, [1, 2]), &[15, 1]).unwrap(),
        Tensor::from_bytes(TensorSpec::new(DType::U2, [5]), &[0, 1, 2, 3, 2]).unwrap(),
        Tensor::from_bytes(TensorSpec::new(DType::I2, [2]), &[0xfe, 1]).unwrap(),
    ];
    for tensor in tensors {
        let back =
            read_tensor(write_tensor("t", &tensor)).unwrap_or_else(|error| panic!("{:?}: {error}", tensor.spec()));
        assert!(back.same(&tensor), "{:?}", tensor.spec());
    }
}

#[test]
fn typed_fields_hold_what_raw_bytes_hold() {
    let ints = |kind: DataType, values: &[i32]| TensorProto {
        data_type: Some(kind as i32),
        dims: vec![values.len() as i64],
        int32_data: values.to_vec(),
        ..Default::default()
    };
    let wide = |kind: DataType, values: &[u64]| TensorProto {
        data_type: Some(kind as i32),
        dims: vec![values.len() as i64],
        uint64_data: values.to_vec(),
        ..Default::default()
    };
    let cases: Vec<(TensorProto, Tensor)> = vec![
        (
            ints(DataType::Float16, &[0x3e00, 0x8000]),
            Tensor::from_vec([2], vec![f16::from_f32(1.5), f16::NEG_ZERO]).unwrap(),
        ),
        (ints(DataType::Bfloat16, &[0x3fc0]), Tensor::from_vec([1], vec![bf16::from_f32(1.5)]).unwrap()),
        (ints(DataType::Int8, &[-128, 127]), Tensor::from_vec([2], vec![-128i8, 127]).unwrap()),
        (ints(DataType::Uint8, &[255]), Tensor::from_vec([1], vec![255u8]).unwrap()),
        (ints(DataType::Int16, &[-32768]), Tensor::from_vec([1], vec![i16::MIN]).unwrap()),
        (ints(DataType::Uint16, &[65535]), Tensor::from_vec([1], vec![u16::MAX]).unwrap()),
        (ints(DataType::Int32, &[i32::MIN]), Tensor::from_vec([1], vec![i32::MIN]).unwrap()),
        (ints(DataType::Bool, &[0, 1]), Tensor::from_vec([2], vec![BoolByte(0), BoolByte(1)]).unwrap()),
        (wide(DataType::Uint32, &[4_294_967_295]), Tensor::from_vec([1], vec![u32::MAX]).unwrap()),
        (wide(DataType::Uint64, &[u64::MAX]), Tensor::from_vec([1], vec![u64::MAX]).unwrap()),
    ];
    for (proto, tensor) in cases {
        let read = read_tensor(proto.encode_to_vec()).unwrap_or_else(|error| panic!("{:?}: {error}", tensor.dtype()));
        assert!(read.same(&tensor), "{:?}", tensor.dtype());
    }
}

#[test]
fn floats_in_typed_fields_are_read_as_raw_bytes_are_and_long_ones_stay_in_the_file() {
    let floats: Vec<f32> = (0..40_000).map(|at| at as f32 / 7.0).collect();
    let expected = Tensor::from_vec([40_000], floats).unwrap();
    let bytes = Bytes::copy_from_slice(expected.bytes());
    let proto = |parts: Vec<Bytes>| TensorProto {
        name: Some("w".to_owned()),
        data_type: Some(DataType::Float as i32),
        dims: vec![40_000],
        float_data: parts,
        ..Default::default()
    };
    let cut = |at: usize| vec![bytes.slice(..at), bytes.slice(at..)];
    for (parts, stays) in [(vec![bytes.clone()], true), (cut(4), false), (cut(80_000), false), (cut(0), false)] {
        assert!(read_tensor(proto(parts.clone()).encode_to_vec()).unwrap().same(&expected));
        let mut message = model(vec![node("Add", &["x", "w"], &["y"])]);
        message.graph.as_mut().unwrap().initializer.push(proto(parts));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), message.encode_to_vec()).unwrap();
        let graph = load(file.path(), &Limits::default()).unwrap();
        let weights = graph.constants.values().next().unwrap();
        assert_eq!(weights.is_in_file(), stays);
        assert!(weights.same(&expected));
    }
    let doubles = Tensor::from_vec([2], vec![1.5f64, -2.0]).unwrap();
    let proto = |bytes: &[u8], parts: &[f32]| TensorProto {
        data_type: Some(DataType::Double as i32),
        dims: vec![2],
        double_data: vec![Bytes::copy_from_slice(bytes)],
        float_data: parts.iter().map(|number| Bytes::copy_from_slice(&number.to_le_bytes())).collect(),
        ..Default::default()
    };
    assert!(read_tensor(proto(doubles.bytes(), &[]).encode_to_vec()).unwrap().same(&doubles));
    for (proto, expected) in [
        (proto(&doubles.bytes()[..8], &[]), "needs 2 elements, and it has 1"),
        (proto(&doubles.bytes()[..15], &[]), "needs 2 elements, and it has 1"),
        (proto(&[], &[1.0, 2.0]), "needs 2 elements, and it has 0"),
    ] {
        let error = read_tensor(proto.encode_to_vec()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn constants_are_no_nodes_and_initialisers_are_inputs_where_requests_may_replace_them() {
    let mut message =
        model(vec![node("Constant", &[], &["c"]), node("Add", &["x", "c"], &["d"]), node("Mul", &["d", "w"], &["y"])]);
    let graph = message.graph.as_mut().unwrap();
    graph.node[0].attribute.push(super::proto::AttributeProto {
        name: Some("value_floats".to_owned()),
        r#type: Some(6),
        floats: vec![1.0, 2.0],
        ..Default::default()
    });
    graph.initializer.push(tensor_proto("w", &Tensor::scalar(2.0f32)));
    graph.input.insert(0, named("w"));
    message.ir_version = Some(3);
    assert_eq!(load_message(&message).unwrap().inputs.len(), 1, "every initialiser had to be listed once");
    message.ir_version = Some(4);
    let graph = load_message(&message).unwrap();
    assert_eq!(told(&graph), ["d = Add x c", "y = Mul d w"]);
    assert_eq!(graph.inputs.iter().map(|id| graph.value(*id).name.as_str()).collect::<Vec<_>>(), ["w", "x"]);
    assert_eq!(graph.constant_input(&graph.nodes[0], 1).unwrap().shape(), [2]);
    assert_eq!(graph.constant_input(&graph.nodes[1], 1).unwrap().shape(), [0usize; 0]);
}

#[test]
fn sparse_tensors_are_read_as_dense_ones() {
    let dense = Tensor::from_slice([2, 3], &[0.0f32, 1.5, 0.0, 0.0, 0.0, 2.5]).unwrap();
    let values = tensor_proto("w", &Tensor::from_slice([2], &[1.5f32, 2.5]).unwrap());
    let by_number = Tensor::from_slice([2], &[1i64, 5]).unwrap();
    let by_place = Tensor::from_slice([2, 2], &[0i64, 1, 1, 2]).unwrap();
    for indices in [by_number, by_place] {
        let indices = Some(tensor_proto("", &indices));
        let sparse = SparseTensorProto { values: Some(values.clone()), indices, dims: vec![2, 3] };
        let mut message = model(vec![
            node("Constant", &[], &["c"]),
            node("Add", &["x", "c"], &["d"]),
            node("Mul", &["d", "w"], &["y"]),
        ]);
        let graph = message.graph.as_mut().unwrap();
        graph.node[0].attribute.push(super::proto::AttributeProto {
            name: Some("sparse_value".to_owned()),
            r#type: Some(11),
            sparse_tensor: Some(sparse.clone()),
            ..Default::default()
        });
        graph.sparse_initializer.push(sparse);
        let graph = load_message(&message).unwrap();
        for node in &graph.nodes {
            let constant = graph.constant_input(node, 1).unwrap();
            assert_eq!((constant.spec(), constant.bytes()), (dense.spec(), dense.bytes()));
        }
    }
}

#[test]
fn outputs_that_nothing_reads_are_not_asked_for() {
    let normed = |outputs: &[&str]| {
        let own = NodeProto {
            domain: Some("com.microsoft".to_owned()),
            ..node("SkipSimplifiedLayerNormalization", &["x", "x", "w"], outputs)
        };
        let mut message = model(vec![own, node("Identity", &["n"], &["y"])]);
        let graph = message.graph.as_mut().unwrap();
        graph.initializer.push(tensor_proto("w", &Tensor::from_slice([2], &[1.0f32, 2.0]).unwrap()));
        message.opset_import.push(opset("com.microsoft", 1));
        message
    };
    load_message(&normed(&["n", "mean", "deviation", "sum"])).expect("the names of a rewriter, which nothing reads");
    for reader in ["a node", "a body", "the results"] {
        let mut message = normed(&["n", "mean", "deviation", "sum"]);
        let graph = message.graph.as_mut().unwrap();
        match reader {
            "a node" => graph.node.push(node("Abs", &["mean"], &["z"])),
            "a body" => {
                let body = super::proto::GraphProto {
                    name: Some("b".to_owned()),
                    node: vec![node("Abs", &["mean"], &["z"])],
                    output: vec![named("z")],
                    ..Default::default()
                };
                let mut branch = node("If", &["x"], &["v"]);
                branch.attribute = ["then_branch", "else_branch"]
                    .map(|name| super::proto::AttributeProto {
                        name: Some(name.to_owned()),
                        r#type: Some(5),
                        g: Some(body.clone()),
                        ..Default::default()
                    })
                    .into();
                graph.node.push(branch);
            }
            _ => graph.output.push(named("mean")),
        }
        let refused = load_message(&message).unwrap_err();
        assert!(refused.to_string().contains("output 1 (mean) is not supported"), "{reader}: {refused}");
    }
}

#[test]
fn nodes_are_sorted_and_sorted_files_stay_as_they_are() {
    let unsorted = model(vec![node("C", &["b"], &["y"]), node("B", &["a"], &["b"]), node("A", &["x"], &["a"])]);
    assert_eq!(told(&load_message(&unsorted).unwrap()), ["a = A x", "b = B a", "y = C b"]);
    let sorted = model(vec![node("A", &["x"], &["a"]), node("B", &["x"], &["b"]), node("C", &["b", "", "a"], &["y"])]);
    assert_eq!(told(&load_message(&sorted).unwrap()), ["a = A x", "b = B x", "y = C b - a"]);
}

#[test]
fn bodies_take_outer_values_as_their_last_inputs() {
    let body = |op: &str, outer: &str| super::proto::GraphProto {
        node: vec![node(op, &[outer], &["r"])],
        output: vec![named("r")],
        ..Default::default()
    };
    let attribute = |name: &str, graph| super::proto::AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(5),
        g: Some(graph),
        ..Default::default()
    };
    let mut branch = node("If", &["x"], &["y"]);
    // The inner body captures through the outer one.
    let mut inner = node("If", &["x"], &["r"]);
    inner.attribute = vec![attribute("then_branch", body("Abs", "a")), attribute("else_branch", body("Neg", "b"))];
    let nested = super::proto::GraphProto { node: vec![inner], output: vec![named("r")], ..Default::default() };
    branch.attribute = vec![attribute("then_branch", nested), attribute("else_branch", body("Exp", "b"))];
    let message = model(vec![branch, node("A", &["x"], &["a"]), node("B", &["x"], &["b"])]);
    let check = |graph: &Graph| {
        assert_eq!(told(graph), ["a = A x", "b = B x", "y = If x b x a"]);
        let Some(Attr::Graph(then)) = graph.nodes[2].attrs.get("then_branch") else { panic!("a body") };
        assert_eq!((graph.nodes[2].captures(), then.inputs.len()), (3, 3));
        assert_eq!(told(then), ["r = If x b a"]);
        let Some(Attr::Graph(otherwise)) = graph.nodes[2].attrs.get("else_branch") else { panic!("a body") };
        assert_eq!(told(otherwise), ["r = Exp b"]);
        assert_eq!(otherwise.value(otherwise.inputs[0]).name, "b");
    };
    let graph = load_message(&message).unwrap();
    check(&graph);
    check(&reloaded(&graph));
}
