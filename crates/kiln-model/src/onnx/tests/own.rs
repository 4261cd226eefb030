//! Functions that a model defines.

use super::super::proto::attribute_proto::AttributeType;
use super::super::proto::{AttributeProto, GraphProto};
use super::*;

/// A function from `in` to `out`.
fn function(domain: &str, name: &str, nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: Some(name.to_owned()),
        domain: Some(domain.to_owned()),
        input: vec!["in".to_owned()],
        output: vec!["out".to_owned()],
        opset_import: vec![opset("", 16), opset("own", 1)],
        node: nodes,
        ..Default::default()
    }
}

#[test]
fn the_models_own_functions_are_expanded() {
    let mut leaky = node("LeakyRelu", &["in"], &["out"]);
    leaky.attribute.push(AttributeProto {
        name: Some("alpha".to_owned()),
        r#type: Some(1),
        ref_attr_name: Some("slope".to_owned()),
        ..Default::default()
    });
    let function = |name: &str, nodes: Vec<NodeProto>, attributes: &[&str]| FunctionProto {
        attribute: attributes.iter().map(|name| (*name).to_owned()).collect(),
        ..function("own", name, nodes)
    };
    let call = |function: &str, input: &str, output: &str| NodeProto {
        domain: Some("own".to_owned()),
        ..node(function, &[input], &[output])
    };
    let mut first = call("Inner", "x", "m");
    first.attribute.push(AttributeProto {
        name: Some("slope".to_owned()),
        r#type: Some(1),
        f: Some(0.25),
        ..Default::default()
    });
    let mut message = model(vec![first, call("Outer", "m", "y")]);
    message.opset_import.push(opset("own", 1));
    message.functions = vec![
        function("Inner", vec![leaky], &["slope"]),
        function("Outer", vec![call("Inner", "in", "t"), node("Abs", &["t"], &["out"])], &[]),
    ];
    let graph = load_message(&message).unwrap();
    let ops: Vec<&str> = graph.nodes.iter().map(|node| node.op.as_str()).collect();
    assert_eq!(ops, ["LeakyRelu", "Identity", "LeakyRelu", "Identity", "Abs", "Identity"]);
    assert_eq!((graph.nodes[0].version, graph.nodes[0].attributes().float("alpha")), (16, 0.25));
    // The second call omits the attribute, so the operator's own default applies.
    assert!(graph.nodes[2].attrs.is_empty());
    assert_eq!(graph.outputs, [graph.nodes[5].outputs[0].unwrap()]);
}

/// An `If` on `in` of one branch twice, which makes `out` of `in`.
fn branch(op: &str) -> NodeProto {
    let body = |output: &str| GraphProto {
        name: Some("branch".to_owned()),
        node: vec![node(op, &["in"], &[output])],
        output: vec![named(output)],
        ..Default::default()
    };
    let attribute = |name: &str, graph| AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::Graph.into()),
        g: Some(graph),
        ..Default::default()
    };
    NodeProto {
        attribute: vec![attribute("then_branch", body("then")), attribute("else_branch", body("else"))],
        ..node("If", &["in"], &["out"])
    }
}

#[test]
fn functions_of_a_model_come_before_operators_of_the_same_name() {
    for (of_function, of_node) in [("", ""), ("ai.onnx", ""), ("", "ai.onnx"), ("com.microsoft", "com.microsoft")] {
        // `Gelu` of com.microsoft is one that is expanded; it must not come first either.
        let call = NodeProto { domain: Some(of_node.to_owned()), ..node("Gelu", &["x"], &["y"]) };
        let mut message = model(vec![call]);
        message.opset_import.push(opset("com.microsoft", 1));
        message.functions = vec![function(of_function, "Gelu", vec![node("Neg", &["in"], &["out"])])];
        let graph = load_message(&message).unwrap();
        let ops: Vec<&str> = graph.nodes.iter().map(|node| node.op.as_str()).collect();
        assert_eq!(ops, ["Neg", "Identity"], "function of {of_function:?}, node of {of_node:?}");
    }
    // In another function, and in a body of one.
    let mut outer = model(vec![node("Outer", &["x"], &["m"]), node("Chosen", &["m"], &["y"])]);
    outer.functions = vec![
        function("", "Relu", vec![node("Neg", &["in"], &["out"])]),
        function("", "Outer", vec![node("Relu", &["in"], &["out"])]),
        function("", "Chosen", vec![branch("Relu")]),
    ];
    let graph = load_message(&outer).unwrap();
    let ops: Vec<&str> = graph.nodes.iter().map(|node| node.op.as_str()).collect();
    assert_eq!(ops, ["Neg", "Identity", "Identity", "If", "Identity"]);
    let Some(Attr::Graph(then)) = graph.nodes[3].attrs.get("then_branch") else { panic!("a body") };
    let ops: Vec<&str> = then.nodes.iter().map(|node| node.op.as_str()).collect();
    assert_eq!(ops, ["Neg", "Identity"]);
}

#[test]
fn operators_that_the_standard_expands_are_made_of_its_own_operators() {
    let call = NodeProto { domain: Some("com.microsoft".to_owned()), ..node("Gelu", &["x"], &["y"]) };
    let mut message = model(vec![call]);
    message.opset_import.push(opset("com.microsoft", 1));
    let expanded = |message: &ModelProto| {
        let graph = load_message(message).unwrap();
        graph.nodes.iter().map(|node| node.op.clone()).collect::<Vec<_>>()
    };
    let standard = expanded(&message);
    assert!(standard.iter().any(|op| op == "Gelu"), "{standard:?}");
    message.functions = vec![function("", "Gelu", vec![node("Neg", &["in"], &["out"])])];
    assert_eq!(expanded(&message), standard);
}

#[test]
fn a_model_that_imports_other_operators_alone_means_the_newest_of_the_standard() {
    let mut message = model(vec![node("Relu", &["x"], &["y"])]);
    message.opset_import = vec![opset("com.microsoft", 1)];
    let graph = load_message(&message).unwrap();
    assert_eq!(graph.nodes[0].version, NEWEST_OPSET);
}

#[test]
fn a_function_that_calls_its_own_name_is_refused() {
    let through = vec![
        function("", "Relu", vec![node("Other", &["in"], &["out"])]),
        function("", "Other", vec![node("Relu", &["in"], &["out"])]),
    ];
    let cases = [
        ("directly", vec![function("", "Relu", vec![node("Relu", &["in"], &["out"])])]),
        ("through another function", through),
        ("in a body", vec![function("", "Relu", vec![branch("Relu")])]),
    ];
    for (how, functions) in cases {
        let mut message = model(vec![node("Relu", &["x"], &["y"])]);
        message.functions = functions;
        let result = load_message(&message);
        let refused = matches!(&result, Err(ModelError::Limit { what: "nesting of functions" | "nesting", .. }));
        assert!(refused, "{how}: {result:?}");
    }
}

/// A node whose output is a constant of that many bytes.
fn weights(bytes: usize) -> NodeProto {
    let tensor = TensorProto {
        data_type: Some(2),
        dims: vec![bytes as i64],
        raw_data: Some(vec![1; bytes].into()),
        ..TensorProto::default()
    };
    let value = AttributeProto {
        name: Some("value".to_owned()),
        r#type: Some(AttributeType::Tensor.into()),
        t: Some(tensor),
        ..Default::default()
    };
    NodeProto { attribute: vec![value], ..node("Constant", &[], &["out"]) }
}

#[test]
fn a_layer_that_is_a_function_may_have_any_weights_but_not_in_many_copies() {
    let with_calls = |calls: usize| {
        let call = |number: usize| NodeProto {
            domain: Some("own".to_owned()),
            ..node("Layer", &["x"], &[&format!("y{number}")])
        };
        let mut nodes: Vec<NodeProto> = (0..calls).map(call).collect();
        nodes.push(node("Identity", &["x"], &["y"]));
        let mut message = model(nodes);
        message.opset_import.push(opset("own", 1));
        message.functions = vec![function("own", "Layer", vec![weights(Limits::default().expanded_bytes / 2 + 1)])];
        load_message(&message)
    };
    assert!(with_calls(2).is_ok());
    let refused = with_calls(3).unwrap_err();
    let is_limit = matches!(&refused, ModelError::Limit { what, .. } if what.contains("bytes made of functions"));
    assert!(is_limit, "{refused}");
}

#[test]
fn an_output_may_be_named_twice() {
    let mut message = model(vec![node("Abs", &["x"], &["y"])]);
    message.graph.as_mut().unwrap().output = vec![named("y"), named("y")];
    let graph = load_message(&message).unwrap();
    assert_eq!(graph.outputs, [graph.nodes[0].outputs[0].unwrap(); 2]);
}
