//! Models that are wrong, by accident or on purpose. Each is refused at once, with an error that names the fault.

use std::time::{Duration, Instant};

use super::super::proto::{AttributeProto, GraphProto, SparseTensorProto, TypeProto, type_proto};
use super::*;

type Expected = fn(&ModelError) -> bool;

/// `y = Relu(x)`, changed.
fn changed(change: impl FnOnce(&mut ModelProto)) -> Vec<u8> {
    let mut message = model(vec![node("Relu", &["x"], &["y"])]);
    change(&mut message);
    message.encode_to_vec()
}

fn with_graph(change: impl FnOnce(&mut GraphProto)) -> Vec<u8> {
    changed(|model| change(model.graph.as_mut().unwrap()))
}

fn with_nodes(nodes: Vec<NodeProto>) -> Vec<u8> {
    with_graph(|graph| graph.node = nodes)
}

fn with_initialiser(tensor: TensorProto) -> Vec<u8> {
    with_graph(|graph| graph.initializer.push(TensorProto { name: Some("w".to_owned()), ..tensor }))
}

fn with_attribute(attribute: AttributeProto) -> Vec<u8> {
    with_graph(|graph| graph.node[0].attribute.push(AttributeProto { name: Some("a".to_owned()), ..attribute }))
}

fn tensor(kind: i32, dims: &[i64], raw: usize) -> TensorProto {
    TensorProto {
        data_type: Some(kind),
        dims: dims.to_vec(),
        raw_data: Some(Bytes::from(vec![0; raw])),
        ..Default::default()
    }
}

fn floats(dims: &[i64], raw: usize) -> TensorProto {
    tensor(DataType::Float as i32, dims, raw)
}

fn declared(value: type_proto::Value) -> ValueInfoProto {
    ValueInfoProto { r#type: Some(TypeProto { value: Some(value), ..Default::default() }), ..named("x") }
}

fn of_kind(kind: i32) -> AttributeProto {
    AttributeProto { r#type: Some(kind), ..Default::default() }
}

/// `If` in `If`, `depth` levels deep.
fn nested(depth: usize) -> GraphProto {
    let mut graph =
        GraphProto { node: vec![node("Abs", &["x"], &["r"])], output: vec![named("r")], ..Default::default() };
    for _ in 0..depth {
        let mut branch = node("If", &["x"], &["r"]);
        for name in ["then_branch", "else_branch"] {
            let g = if name == "then_branch" { Some(std::mem::take(&mut graph)) } else { Some(GraphProto::default()) };
            branch.attribute.push(AttributeProto { name: Some(name.to_owned()), g, ..of_kind(5) });
        }
        graph = GraphProto { node: vec![branch], output: vec![named("r")], ..Default::default() };
    }
    graph
}

/// Functions that each call the next one twice, `depth` levels deep: two to the power of `depth` calls.
fn doubling(depth: usize) -> Vec<FunctionProto> {
    let call = |function: usize, input: &str, output: &str| NodeProto {
        domain: Some("own".to_owned()),
        ..node(&format!("f{function}"), &[input], &[output])
    };
    let function = |number: usize, nodes: Vec<NodeProto>| FunctionProto {
        name: Some(format!("f{number}")),
        domain: Some("own".to_owned()),
        input: vec!["i".to_owned()],
        output: vec!["o".to_owned()],
        opset_import: vec![opset("", 17), opset("own", 1)],
        node: nodes,
        ..Default::default()
    };
    let doubles = (0..depth).map(|f| function(f, vec![call(f + 1, "i", "t"), call(f + 1, "t", "o")]));
    doubles.chain([function(depth, vec![node("Abs", &["i"], &["o"])])]).collect()
}

fn calling(functions: Vec<FunctionProto>) -> Vec<u8> {
    changed(|model| {
        model.graph.as_mut().unwrap().node =
            vec![NodeProto { domain: Some("own".to_owned()), ..node("f0", &["x"], &["y"]) }];
        model.opset_import.push(opset("own", 1));
        model.functions = functions;
    })
}

fn files() -> Vec<(&'static str, Vec<u8>, Expected)> {
    vec![
        ("an empty file", Vec::new(), |e| matches!(e, ModelError::Wire(_))),
        ("no graph", changed(|m| m.graph = None), |e| matches!(e, ModelError::Wire(_))),
        ("not protobuf", b"GIF89a, in truth".to_vec(), |e| matches!(e, ModelError::Wire(_))),
        ("an overlong number", [0x08].into_iter().chain([0xff; 11]).collect(), |e| matches!(e, ModelError::Wire(_))),
        ("a length beyond the file", vec![0x3a, 0xff, 0xff, 0xff, 0x7f, 0], |e| matches!(e, ModelError::Wire(_))),
        ("a name that is not UTF-8", vec![0x3a, 0x04, 0x12, 0x02, 0xff, 0xfe], |e| matches!(e, ModelError::Wire(_))),
    ]
}

fn versions() -> Vec<(&'static str, Vec<u8>, Expected)> {
    vec![
        ("no operator set", changed(|m| m.opset_import.clear()), |e| matches!(e, ModelError::Malformed { .. })),
        ("operator set 0", changed(|m| m.opset_import = vec![opset("", 0)]), |e| {
            matches!(e, ModelError::Opset { version: 0, .. })
        }),
        (
            "a later operator set",
            changed(|m| m.opset_import = vec![opset("", NEWEST_OPSET + 1)]),
            |e| matches!(e, ModelError::Opset { version, .. } if *version == NEWEST_OPSET + 1),
        ),
        (
            "an operator that its operator set does not have yet",
            changed(|m| m.graph.as_mut().unwrap().node.push(node("Gelu", &["x"], &["g"]))),
            |e| matches!(e, ModelError::NotYetDefined { operator, first: 20, opset: 17, .. } if operator == "\"Gelu\""),
        ),
        ("two operator sets of one domain", changed(|m| m.opset_import.push(opset("ai.onnx", 11))), |e| {
            matches!(e, ModelError::Duplicate { .. })
        }),
    ]
}

fn names() -> Vec<(&'static str, Vec<u8>, Expected)> {
    vec![
        (
            "an input that nothing defines",
            with_nodes(vec![node("Relu", &["z"], &["y"])]),
            |e| matches!(e, ModelError::Undefined { name, place } if name == "\"z\"" && place.contains("Relu")),
        ),
        ("an output that nothing defines", with_graph(|g| g.output[0] = named("z")), |e| {
            matches!(e, ModelError::Undefined { .. })
        }),
        (
            "an undefined value in a body",
            with_graph(|g| {
                let mut body = nested(1);
                body.node[0].output = vec!["y".to_owned()];
                body.node[0].attribute[1].g.as_mut().unwrap().node = vec![node("Abs", &["z"], &["r"])];
                g.node = body.node;
            }),
            |e| matches!(e, ModelError::Undefined { name, .. } if name == "\"z\""),
        ),
        ("a value made twice", with_nodes(vec![node("Relu", &["x"], &["y"]), node("Abs", &["x"], &["y"])]), |e| {
            matches!(e, ModelError::Duplicate { what: "value", .. })
        }),
        ("a value made twice by one node", with_nodes(vec![node("Split", &["x"], &["y", "y"])]), |e| {
            matches!(e, ModelError::Duplicate { .. })
        }),
        ("an input made by a node", with_nodes(vec![node("Relu", &["x"], &["x"])]), |e| {
            matches!(e, ModelError::Duplicate { .. })
        }),
        (
            "an initialiser made by a node",
            with_graph(|g| {
                g.initializer.push(TensorProto { name: Some("y".to_owned()), ..floats(&[], 4) });
            }),
            |e| matches!(e, ModelError::Duplicate { .. }),
        ),
        (
            "two initialisers of one name",
            with_graph(|g| {
                g.initializer = vec![TensorProto { name: Some("w".to_owned()), ..floats(&[], 4) }; 2];
            }),
            |e| matches!(e, ModelError::Duplicate { what: "initialiser", .. }),
        ),
        ("two inputs of one name", with_graph(|g| g.input = vec![named("x"), named("x")]), |e| {
            matches!(e, ModelError::Duplicate { what: "input", .. })
        }),
        ("an input without a name", with_graph(|g| g.input = vec![named("")]), |e| {
            matches!(e, ModelError::Malformed { .. })
        }),
        ("an initialiser without a name", with_graph(|g| g.initializer = vec![floats(&[], 4)]), |e| {
            matches!(e, ModelError::Malformed { .. })
        }),
        ("an output without a name", with_graph(|g| g.output = vec![named("")]), |e| {
            matches!(e, ModelError::Malformed { .. })
        }),
        ("a name of a megabyte", with_graph(|g| g.node[0].name = Some("n".repeat(1 << 20))), |e| {
            matches!(e, ModelError::Limit { what: "the length of a name", .. }) && e.to_string().len() < 300
        }),
        ("a value's name of a megabyte", with_nodes(vec![node("Relu", &["x"], &[&"n".repeat(1 << 20)])]), |e| {
            matches!(e, ModelError::Limit { .. })
        }),
        ("no operator", with_nodes(vec![node("", &["x"], &["y"])]), |e| matches!(e, ModelError::Malformed { .. })),
    ]
}

fn graphs() -> Vec<(&'static str, Vec<u8>, Expected)> {
    vec![
        ("a node that waits for itself", with_nodes(vec![node("Add", &["x", "y"], &["y"])]), |e| {
            matches!(e, ModelError::Cycle { .. })
        }),
        (
            "two nodes that wait for each other",
            with_nodes(vec![
                node("Add", &["x", "b"], &["a"]),
                node("Abs", &["a"], &["b"]),
                node("Abs", &["x"], &["y"]),
            ]),
            |e| matches!(e, ModelError::Cycle { .. }),
        ),
        ("bodies 17 deep", with_graph(|g| g.node.extend(nested(17).node)), |e| {
            matches!(e, ModelError::Limit { what: "nesting", .. })
        }),
        ("bodies 60 deep", with_graph(|g| g.node.extend(nested(60).node)), |e| {
            matches!(e, ModelError::Wire(_) | ModelError::Limit { .. })
        }),
        ("a body that is missing", with_attribute(of_kind(5)), |e| matches!(e, ModelError::Attribute { .. })),
        (
            "a function that calls itself",
            calling(vec![FunctionProto {
                node: vec![NodeProto { domain: Some("own".to_owned()), ..node("f0", &["i"], &["o"]) }],
                ..doubling(0).remove(0)
            }]),
            |e| matches!(e, ModelError::Limit { what: "nesting of functions", .. }),
        ),
        ("functions that double 15 times", calling(doubling(15)), |e| matches!(e, ModelError::Limit { .. })),
        ("a function of two bodies", calling(vec![doubling(0).remove(0), doubling(0).remove(0)]), |e| {
            matches!(e, ModelError::Duplicate { what: "function", .. })
        }),
        ("a call with too many inputs", with_graph_and_functions(|n| n.input.push("x".to_owned())), |e| {
            matches!(e, ModelError::Malformed { .. })
        }),
        (
            "a sparse initialiser without a name",
            with_sparse(|s| s.values.as_mut().unwrap().name = None),
            |e| matches!(e, ModelError::Malformed { reason, .. } if reason.contains("has no name")),
        ),
        (
            "a sparse initialiser without indices",
            with_sparse(|s| s.indices = None),
            |e| matches!(e, ModelError::Malformed { reason, .. } if reason.contains("without indices")),
        ),
        (
            "an index beyond a sparse initialiser",
            with_sparse(|s| s.dims = vec![5]),
            |e| matches!(e, ModelError::Malformed { reason, .. } if reason.contains("index [5] is not in")),
        ),
        (
            "a sparse initialiser with more indices than values",
            with_sparse(|s| {
                s.indices.as_mut().unwrap().dims = vec![3];
                s.indices.as_mut().unwrap().int64_data = vec![1, 2, 3];
            }),
            |e| matches!(e, ModelError::Malformed { reason, .. } if reason.contains("values of shape [2]")),
        ),
        (
            "indices of more dimensions than a sparse initialiser has",
            with_sparse(|s| {
                s.indices.as_mut().unwrap().dims = vec![1, 2];
            }),
            |e| matches!(e, ModelError::Malformed { reason, .. } if reason.contains("indices of shape [1, 2]")),
        ),
        ("a sparse initialiser of a gigabyte from 24 bytes", with_sparse(|s| s.dims = vec![1 << 28]), |e| {
            matches!(e, ModelError::Tensor { problem: TensorProblem::Memory { .. }, .. })
        }),
        (
            "two sparse initialisers of 40 MiB each from 48 bytes",
            with_graph(|g| {
                g.sparse_initializer = ["s", "t"]
                    .map(|name| {
                        sparse(|s| {
                            s.values.as_mut().unwrap().name = Some(name.to_owned());
                            s.dims = vec![10 << 20];
                        })
                    })
                    .into();
            }),
            |e| matches!(e, ModelError::Tensor { place, problem: TensorProblem::Memory { .. } } if place.contains("\"t\"")),
        ),
        (
            "a sparse initialiser whose dimensions overflow",
            with_sparse(|s| s.dims = vec![i64::MAX, 8]),
            |e| matches!(e, ModelError::Malformed { reason, .. } if reason.contains("are not a shape")),
        ),
        (
            "a sparse initialiser of negative size",
            with_sparse(|s| s.dims = vec![-8]),
            |e| matches!(e, ModelError::Malformed { reason, .. } if reason.contains("are not a shape")),
        ),
        (
            "an input that is a sequence of nothing that is known",
            with_graph(|g| g.input = vec![declared(type_proto::Value::SequenceType(Default::default()))]),
            |e| matches!(e, ModelError::Unsupported { .. }),
        ),
        (
            "an input of complex numbers",
            with_graph(|g| {
                g.input = vec![declared(type_proto::Value::TensorType(type_proto::Tensor {
                    elem_type: Some(DataType::Complex64 as i32),
                    shape: None,
                }))];
            }),
            |e| matches!(e, ModelError::Unsupported { what, .. } if what.contains("complex64")),
        ),
    ]
}

/// A sparse tensor that stores two of its eight elements, after a change of it.
fn sparse(change: impl FnOnce(&mut SparseTensorProto)) -> SparseTensorProto {
    let stored =
        |data_type: DataType| TensorProto { data_type: Some(data_type as i32), dims: vec![2], ..Default::default() };
    let values =
        TensorProto { name: Some("s".to_owned()), raw_data: Some(vec![1; 8].into()), ..stored(DataType::Float) };
    let indices = TensorProto { int64_data: vec![1, 5], ..stored(DataType::Int64) };
    let mut sparse = SparseTensorProto { values: Some(values), indices: Some(indices), dims: vec![8] };
    change(&mut sparse);
    sparse
}

/// A model with such an initialiser.
fn with_sparse(change: impl FnOnce(&mut SparseTensorProto)) -> Vec<u8> {
    with_graph(|g| g.sparse_initializer.push(sparse(change)))
}

fn with_graph_and_functions(change: impl FnOnce(&mut NodeProto)) -> Vec<u8> {
    let mut message = ModelProto::decode(&*calling(doubling(0))).unwrap();
    change(&mut message.graph.as_mut().unwrap().node[0]);
    message.encode_to_vec()
}

fn tensors() -> Vec<(&'static str, Vec<u8>, Expected)> {
    fn problem(error: &ModelError) -> Option<&TensorProblem> {
        if let ModelError::Tensor { problem, .. } = error { Some(problem) } else { None }
    }
    vec![
        ("a negative dimension", with_initialiser(floats(&[-1, 4], 16)), |e| {
            matches!(problem(e), Some(TensorProblem::Dims(_)))
        }),
        ("the least dimension", with_initialiser(floats(&[i64::MIN], 0)), |e| {
            matches!(problem(e), Some(TensorProblem::Dims(_)))
        }),
        ("a product that overflows", with_initialiser(floats(&[1 << 32, 1 << 32], 0)), |e| {
            matches!(problem(e), Some(TensorProblem::Dims(_)))
        }),
        ("bytes that overflow", with_initialiser(floats(&[1 << 61], 0)), |e| {
            matches!(problem(e), Some(TensorProblem::Dims(_)))
        }),
        ("a terabyte without bytes", with_initialiser(floats(&[1 << 38], 0)), |e| {
            matches!(problem(e), Some(TensorProblem::Length { .. }))
        }),
        ("no data at all", with_initialiser(TensorProto { raw_data: None, ..floats(&[2], 0) }), |e| {
            matches!(problem(e), Some(TensorProblem::Length { .. }))
        }),
        ("too few bytes", with_initialiser(floats(&[4], 15)), |e| {
            matches!(problem(e), Some(TensorProblem::Length { need: 16, found: 15, .. }))
        }),
        ("too many bytes", with_initialiser(floats(&[4], 17)), |e| {
            matches!(problem(e), Some(TensorProblem::Length { .. }))
        }),
        (
            "data of another type",
            with_initialiser(TensorProto { raw_data: None, int32_data: vec![1, 2], ..floats(&[2], 0) }),
            |e| matches!(problem(e), Some(TensorProblem::Length { .. })),
        ),
        (
            "data in two fields",
            with_initialiser(TensorProto { float_data: vec![vec![0; 4].into()], ..floats(&[1], 4) }),
            |e| matches!(problem(e), Some(TensorProblem::Ambiguous)),
        ),
        (
            "an int8 of 200",
            with_initialiser(TensorProto { raw_data: None, int32_data: vec![200], ..tensor(3, &[1], 0) }),
            |e| matches!(problem(e), Some(TensorProblem::Element { value: 200, .. })),
        ),
        ("a rank of 33", with_initialiser(floats(&[1; 33], 4)), |e| matches!(e, ModelError::Limit { found: 33, .. })),
        ("a rank of a million", with_initialiser(floats(&vec![1; 1_000_000], 4)), |e| {
            matches!(e, ModelError::Limit { .. })
        }),
        ("no element type", with_initialiser(tensor(0, &[1], 4)), |e| {
            matches!(problem(e), Some(TensorProblem::Type(_)))
        }),
        (
            "an element type of the future",
            with_initialiser(tensor(999, &[1], 4)),
            |e| matches!(problem(e), Some(TensorProblem::Type(name)) if name.contains("999")),
        ),
        ("fewer packed bytes than elements", with_initialiser(tensor(DataType::Int4 as i32, &[5], 2)), |e| {
            matches!(problem(e), Some(TensorProblem::Length { need: 3, found: 2, .. }))
        }),
        ("complex numbers", with_initialiser(tensor(DataType::Complex64 as i32, &[1], 8)), |e| {
            matches!(problem(e), Some(TensorProblem::Type(_)))
        }),
        ("strings as raw bytes", with_initialiser(tensor(DataType::String as i32, &[1], 8)), |e| {
            matches!(problem(e), Some(TensorProblem::Type(_)))
        }),
        (
            "a string that is not UTF-8",
            with_initialiser(TensorProto { raw_data: None, string_data: vec![vec![0xff]], ..tensor(8, &[1], 0) }),
            |e| matches!(problem(e), Some(TensorProblem::Text)),
        ),
        ("a segment", with_initialiser(TensorProto { segment: Some(Default::default()), ..floats(&[1], 4) }), |e| {
            matches!(problem(e), Some(TensorProblem::Segment))
        }),
        (
            "a bad tensor in an attribute",
            with_attribute(AttributeProto { t: Some(floats(&[4], 15)), ..of_kind(4) }),
            |e| matches!(e, ModelError::Tensor { place, .. } if place.contains("Relu")),
        ),
        (
            "a bad tensor in a body",
            with_attribute(AttributeProto {
                g: Some(GraphProto {
                    initializer: vec![TensorProto { name: Some("w".to_owned()), ..floats(&[-1], 0) }],
                    ..Default::default()
                }),
                ..of_kind(5)
            }),
            |e| matches!(problem(e), Some(TensorProblem::Dims(_))),
        ),
    ]
}

fn attributes() -> Vec<(&'static str, Vec<u8>, Expected)> {
    vec![
        ("no kind and no value", with_attribute(of_kind(0)), |e| matches!(e, ModelError::Attribute { .. })),
        ("a text that is not UTF-8", with_attribute(AttributeProto { s: Some(vec![0xff]), ..of_kind(3) }), |e| {
            matches!(e, ModelError::Attribute { .. })
        }),
        ("a tensor that is missing", with_attribute(of_kind(4)), |e| matches!(e, ModelError::Attribute { .. })),
        ("a sparse tensor that is missing", with_attribute(of_kind(11)), |e| matches!(e, ModelError::Attribute { .. })),
        ("several graphs", with_attribute(of_kind(10)), |e| matches!(e, ModelError::Unsupported { .. })),
        ("a kind of the future", with_attribute(AttributeProto { r#type: Some(99), ..Default::default() }), |e| {
            matches!(e, ModelError::Attribute { .. })
        }),
        (
            "two attributes of one name",
            with_graph(|g| {
                g.node[0].attribute = vec![AttributeProto { name: Some("a".to_owned()), i: Some(1), ..of_kind(2) }; 2]
            }),
            |e| matches!(e, ModelError::Attribute { .. }),
        ),
        (
            "an attribute without a name",
            with_graph(|g| g.node[0].attribute = vec![AttributeProto { i: Some(1), ..of_kind(2) }]),
            |e| matches!(e, ModelError::Attribute { .. }),
        ),
        ("a constant of nothing", with_nodes(vec![node("Constant", &[], &["y"])]), |e| {
            matches!(e, ModelError::Malformed { .. })
        }),
    ]
}

#[test]
fn bad_models_are_refused_at_once_and_by_name() {
    let cases = [files(), versions(), names(), graphs(), tensors(), attributes()];
    let mut failed = Vec::new();
    for (case, bytes, expected) in cases.into_iter().flatten() {
        let start = Instant::now();
        match load_bytes(bytes.into(), None, &Limits::default()) {
            Ok(_) => failed.push(format!("{case}: was loaded")),
            Err(error) if !expected(&error) => failed.push(format!("{case}: {error} ({error:?})")),
            Err(_) if start.elapsed() > Duration::from_secs(2) => {
                failed.push(format!("{case}: took {:?}", start.elapsed()))
            }
            Err(_) => {}
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// A model with every kind of field, about a kilobyte long.
fn varied() -> Vec<u8> {
    let mut message = ModelProto::decode(&*calling(doubling(2))).unwrap();
    let graph = message.graph.as_mut().unwrap();
    graph.node.extend(nested(2).node);
    graph.node[0].attribute.push(AttributeProto {
        name: Some("t".to_owned()),
        t: Some(floats(&[2, 2], 16)),
        ..of_kind(4)
    });
    graph.node[0].attribute.push(AttributeProto {
        name: Some("i".to_owned()),
        ints: vec![1, -1, i64::MIN],
        ..of_kind(7)
    });
    graph.initializer.push(TensorProto { name: Some("w".to_owned()), ..floats(&[3], 12) });
    graph.value_info.push(declared(type_proto::Value::SequenceType(Default::default())));
    message.encode_to_vec()
}

#[test]
fn a_model_cut_anywhere_or_with_any_bit_flipped_is_loaded_or_refused() {
    let bytes = varied();
    assert!(load_bytes(bytes.clone().into(), None, &Limits::default()).is_ok());
    let mut refused = 0;
    for end in 0..bytes.len() {
        refused += usize::from(load_bytes(bytes[..end].to_vec().into(), None, &Limits::default()).is_err());
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        refused += usize::from(load_bytes(flipped.into(), None, &Limits::default()).is_err());
    }
    // All cuts are refused but those between the model's own fields, and most flips; the other flips change names and
    // numbers.
    assert!(refused > bytes.len(), "{refused} of {} refused", bytes.len() * 9);
}

#[test]
fn what_is_no_file_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for path in [folder.path(), &pipe, Path::new("/dev/null")] {
        assert!(matches!(load(path, &Limits::default()), Err(ModelError::NotAFile { .. })), "{path:?}");
    }
    assert!(matches!(load(&folder.path().join("missing"), &Limits::default()), Err(ModelError::Io { .. })));
}

#[test]
fn a_file_above_the_limit_is_not_read() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, &varied()).unwrap();
    let limits = Limits { file_bytes: 10, ..Limits::default() };
    assert!(matches!(load(file.path(), &limits), Err(ModelError::TooLarge { limit: 10, .. })));
    // Larger than protobuf allows, which the size alone tells.
    file.as_file().set_len((2 << 30) + 1).unwrap();
    let error = load(file.path(), &Limits::default()).unwrap_err();
    assert!(matches!(error, ModelError::TooLarge { bytes: 0x8000_0001, limit: 0x8000_0000, .. }), "{error}");
    assert!(error.to_string().contains("protobuf ends at 2 GiB: save the model with external data"), "{error}");
}
