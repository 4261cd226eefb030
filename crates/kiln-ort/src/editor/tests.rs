//! Objects that are handed over, lent and read back while a model is built, at the seam.

use std::ffi::{CStr, c_int};

use super::*;
use crate::attribute::{CreateOpAttr, OpAttr_GetName, OpAttr_GetTensorAttributeAsOrtValue, OpAttr_GetType, ReadOpAttr};
use crate::built::{AddGraphToModel, CreateModel, ReleaseModel};
use crate::graph::*;
use crate::node::*;
use crate::seam::Allocator;
use crate::type_info::{
    CreateMapTypeInfo, CreateSequenceTypeInfo, CreateTensorTypeAndShapeInfo, CreateTensorTypeInfo, ReleaseTypeInfo,
    SetDimensions, SetTensorElementType,
};
use crate::value::CreateTensorAsOrtValue;
use crate::value_info::*;

/// The value that an entry writes.
fn made<T: Copy>(nothing: T, entry: impl FnOnce(Out<T>) -> Status) -> T {
    let mut out = nothing;
    succeeds(entry(Out::from_raw(&raw mut out)));
    out
}

fn succeeds(status: Status) {
    assert!(status.is_null(), "{}", message(status));
}

/// The text of a failure.
fn message(status: Status) -> String {
    let failure = status.release().expect("it succeeded");
    failure.message.to_string_lossy().into_owned()
}

fn of<T>(values: &[T]) -> Memory {
    Memory::of(values.as_ptr().cast_mut().cast())
}

fn tensor_type() -> Handle<TypeInfo> {
    let info = made(Handle::NULL, |out| CreateTensorTypeAndShapeInfo(out));
    succeeds(SetTensorElementType(info, 1));
    succeeds(SetDimensions(info, List::lent(&[2]), 1));
    made(Handle::NULL, |out| CreateTensorTypeInfo(info, out))
}

fn value_info(name: &'static CStr) -> Handle<ValueInfo> {
    made(Handle::NULL, |out| CreateValueInfo(Text::within(name), tensor_type(), out))
}

fn attribute(name: &'static CStr, value: i64) -> Handle<Attribute> {
    made(Handle::NULL, |out| CreateOpAttr(Text::within(name), of(&[value]), 1, 1, out))
}

fn node(
    op: &'static CStr,
    inputs: &[&'static CStr],
    output: &'static CStr,
    attributes: &mut [Handle<Attribute>],
) -> Handle<Node> {
    let inputs: Vec<Text> = inputs.iter().map(|name| Text::within(name)).collect();
    let outputs = [Text::within(output)];
    let empty = Text::within(c"");
    let (inputs, outputs) = ((List::within(&inputs), inputs.len()), (List::within(&outputs), 1));
    let attributes = (Out::from_raw(attributes.as_mut_ptr()), attributes.len());
    made(Handle::NULL, |out| {
        CreateNode(
            Text::within(op),
            empty,
            Text::within(op),
            inputs.0,
            inputs.1,
            outputs.0,
            outputs.1,
            attributes.0,
            attributes.1,
            out,
        )
    })
}

fn tensor() -> Handle<Value> {
    made(Handle::NULL, |out| CreateTensorAsOrtValue(Allocator::default(), List::lent(&[2]), 1, 1, out))
}

/// `y = Relu(x + w)`.
fn graph() -> Handle<Graph> {
    let graph = made(Handle::NULL, |out| CreateGraph(out));
    let (mut inputs, mut outputs) = ([value_info(c"x")], [value_info(c"y")]);
    succeeds(SetGraphInputs(graph, Out::from_raw(inputs.as_mut_ptr()), 1));
    succeeds(SetGraphOutputs(graph, Out::from_raw(outputs.as_mut_ptr()), 1));
    succeeds(AddInitializerToGraph(graph, Text::within(c"w"), tensor(), 0));
    succeeds(AddNodeToGraph(graph, node(c"Add", &[c"x", c"w"], c"sum", &mut [])));
    succeeds(AddNodeToGraph(graph, node(c"Relu", &[c"sum"], c"y", &mut [attribute(c"seen", 7)])));
    graph
}

fn model() -> Handle<Built> {
    made(Handle::NULL, |out| CreateModel(List::within(&[Text::within(c"")]), List::lent(&[17]), 1, out))
}

#[test]
fn what_is_handed_over_is_dead_for_its_caller() {
    let mut attributes = [attribute(c"axis", 1)];
    let given = attributes[0];
    let made_node = node(c"Softmax", &[c"x"], c"y", &mut attributes);
    assert!(attributes[0].is_null() && given.live().is_none(), "the node has the attribute");
    crate::attribute::ReleaseOpAttr(given);

    let graph = graph();
    succeeds(AddNodeToGraph(graph, made_node));
    assert!(made_node.live().is_none());
    ReleaseNode(made_node);
    assert!(message(AddNodeToGraph(graph, made_node)).starts_with("node is not a live OrtNode"));

    let mut inputs = [value_info(c"a"), value_info(c"b")];
    let given = inputs;
    succeeds(SetGraphInputs(graph, Out::from_raw(inputs.as_mut_ptr()), 2));
    assert!(inputs.iter().all(|input| input.is_null()) && given.iter().all(|input| input.live().is_none()));

    let value = tensor();
    succeeds(AddInitializerToGraph(graph, Text::within(c"v"), value, 0));
    assert!(value.live().is_none());

    let model = model();
    succeeds(AddGraphToModel(model, graph));
    assert!(graph.live().is_none());
    ReleaseGraph(graph);
    let mut count = 0;
    assert!(message(Graph_GetNumNodes(graph, Out::from_raw(&raw mut count))).contains("is not a live OrtGraph"));
    ReleaseModel(model);
}

#[test]
fn nothing_is_taken_of_a_list_with_a_fault() {
    let graph = made(Handle::NULL, |out| CreateGraph(out));
    let one = value_info(c"a");
    let mut list = [one, one];
    let error = message(SetGraphInputs(graph, Out::from_raw(list.as_mut_ptr()), 2));
    assert_eq!(error, "inputs has one OrtValueInfo twice");
    let mut list = [one, Handle::NULL];
    assert_eq!(message(SetGraphInputs(graph, Out::from_raw(list.as_mut_ptr()), 2)), "inputs is null");
    assert!(one.live().is_some(), "it is still the caller's");
    ReleaseValueInfo(one);
    assert!(one.live().is_none());
    ReleaseGraph(graph);
}

#[test]
fn a_graph_is_read_as_it_was_built() {
    let graph = graph();
    let count = |entry: extern "C" fn(Handle<Graph>, Out<usize>) -> Status| made(9, |out| entry(graph, out));
    assert_eq!(
        [Graph_GetNumInputs, Graph_GetNumOutputs, Graph_GetNumInitializers, Graph_GetNumNodes].map(count),
        [1, 1, 1, 2]
    );
    let mut nodes = [Handle::NULL; 2];
    succeeds(Graph_GetNodes(graph, Out::from_raw(nodes.as_mut_ptr()), 2));
    let text = |entry: extern "C" fn(Handle<Node>, Out<Text>) -> Status, node| {
        made(Text::NULL, |out| entry(node, out)).read("text").unwrap()
    };
    assert_eq!(nodes.map(|node| text(Node_GetOperatorType, node)), ["Add", "Relu"]);
    assert_eq!(made(Handle::NULL, |out| Node_GetGraph(nodes[0], out)).address(), graph.address());

    let mut inputs = [Handle::NULL; 2];
    succeeds(Node_GetInputs(nodes[0], Out::from_raw(inputs.as_mut_ptr()), 2));
    let name = |value| made(Text::NULL, |out| GetValueInfoName(value, out)).read("text").unwrap();
    assert_eq!(inputs.map(name), ["x", "w"]);
    let is = |entry: extern "C" fn(Handle<ValueInfo>, Out<bool>) -> Status, value| made(false, |out| entry(value, out));
    assert_eq!(inputs.map(|value| is(ValueInfo_IsRequiredGraphInput, value)), [true, false]);
    assert_eq!(inputs.map(|value| is(ValueInfo_IsConstantInitializer, value)), [false, true]);
    let weight = made(Handle::NULL, |out| ValueInfo_GetInitializerValue(inputs[1], out));
    assert!(weight.get("weight").unwrap().tensor_type().is_some());

    let mut outputs = [Handle::NULL];
    succeeds(Node_GetOutputs(nodes[0], Out::from_raw(outputs.as_mut_ptr()), 1));
    let mut index = 9;
    let producer = made(Handle::NULL, |out| ValueInfo_GetValueProducer(outputs[0], out, Out::from_raw(&raw mut index)));
    assert_eq!((producer.address(), index), (nodes[0].address(), 0));
    let (mut readers, mut places) = ([Handle::NULL], [9i64]);
    assert_eq!(made(9, |out| ValueInfo_GetValueNumConsumers(outputs[0], out)), 1);
    succeeds(ValueInfo_GetValueConsumers(
        outputs[0],
        Out::from_raw(readers.as_mut_ptr()),
        Out::from_raw(places.as_mut_ptr()),
        1,
    ));
    assert_eq!((readers[0].address(), places[0]), (nodes[1].address(), 0));

    let seen = made(Handle::NULL, |out| Node_GetAttributeByName(nodes[1], Text::within(c"seen"), out));
    assert_eq!(made(0, |out| OpAttr_GetType(seen, out)), 1);
    let mut none: Handle<Attribute> = Handle::NULL;
    let error = message(Node_GetAttributeByName(nodes[1], Text::within(c"axis"), Out::from_raw(&raw mut none)));
    assert!(error.contains("the node Relu has no attribute axis"), "{error}");

    // Lent handles belong to the graph: a caller does not release them, and they end with the graph.
    ReleaseNode(nodes[0]);
    ReleaseValueInfo(inputs[0]);
    crate::attribute::ReleaseOpAttr(seen);
    assert!(nodes[0].live().is_some() && inputs[0].live().is_some() && seen.live().is_some());
    assert!(message(AddNodeToGraph(graph, nodes[0])).contains("belongs to a graph already"));
    ReleaseGraph(graph);
    assert!(nodes[0].live().is_none() && inputs[0].live().is_none() && seen.live().is_none());
}

#[test]
fn attributes_of_each_type_are_read_as_they_were_made() {
    let texts = [Text::within(c"ab"), Text::within(c"c")];
    let cases: [(c_int, Memory, c_int, Vec<u8>); 6] = [
        (1, of(&[-3i64]), 1, (-3i64).to_ne_bytes().to_vec()),
        (2, of(&[1i64, 2]), 2, [1i64, 2].iter().flat_map(|value| value.to_ne_bytes()).collect()),
        (3, of(&[0.5f32]), 1, 0.5f32.to_ne_bytes().to_vec()),
        (4, of(&[0.5f32, 2.0]), 2, [0.5f32, 2.0].iter().flat_map(|value| value.to_ne_bytes()).collect()),
        (5, of(b"linear"), 6, b"linear".to_vec()),
        (6, of(&texts), 2, b"ab\0c\0".to_vec()),
    ];
    for (kind, data, len, expected) in cases {
        let attribute = made(Handle::NULL, |out| CreateOpAttr(Text::within(c"name"), data, len, kind, out));
        assert_eq!(made(0, |out| OpAttr_GetType(attribute, out)), kind);
        assert_eq!(made(Text::NULL, |out| OpAttr_GetName(attribute, out)).read("name").unwrap(), "name");
        // The first of two calls asks for the size.
        let mut size = 0;
        let error = message(ReadOpAttr(attribute, kind, Memory::NULL, 0, Out::from_raw(&raw mut size)));
        assert!(error.starts_with("Size of data not large enough to hold the "), "{error}");
        assert_eq!(size, expected.len());
        let mut read = vec![0u8; size];
        let room = Memory::of(read.as_mut_ptr().cast());
        succeeds(ReadOpAttr(attribute, kind, room, size, Out::from_raw(&raw mut size)));
        assert_eq!(read, expected);
        let other = kind % 6 + 1;
        let error = message(ReadOpAttr(attribute, other, room, size, Out::from_raw(&raw mut size)));
        assert!(error.starts_with("Attribute has no "), "{error}");
        let mut value = Handle::NULL;
        let error = message(OpAttr_GetTensorAttributeAsOrtValue(attribute, Out::from_raw(&raw mut value)));
        assert_eq!(error, "the attribute name is no tensor");
        crate::attribute::ReleaseOpAttr(attribute);
    }
}

#[test]
fn attributes_that_are_none_are_refused() {
    let refused = |data, len, kind| {
        let mut out = Handle::NULL;
        message(CreateOpAttr(Text::within(c"name"), data, len, kind, Out::from_raw(&raw mut out)))
    };
    for kind in [0, 7, 8, 9, -1, c_int::MAX] {
        assert!(refused(of(&[1i64]), 1, kind).starts_with("Attribute type not supported yet"));
    }
    assert_eq!(refused(Memory::NULL, 1, 1), "data is null");
    assert_eq!(refused(of(&[1i64]), 0, 1), "len is 0, and the attribute has one value");
    assert_eq!(refused(of(&[1i64]), -1, 2), "len is negative: -1");
    assert!(refused(of(&[1i64]), c_int::MAX, 2).contains("more than any list has"));
    assert_eq!(refused(of(b"\xff"), 1, 5), "data is not UTF-8");
    assert_eq!(refused(of(&[Text::NULL]), 1, 6), "data is null");
}

#[test]
fn initialisers_that_no_model_can_have_are_refused_and_stay_the_callers() {
    let graph = graph();
    let value = tensor();
    let refused = |name: &'static CStr, is_external| {
        let error = message(AddInitializerToGraph(graph, Text::within(name), value, is_external));
        assert!(value.live().is_some());
        error
    };
    assert!(refused(c"w", 0).starts_with("An initializer with this name has already been added to the graph"));
    assert!(refused(c"", 0).starts_with("name cannot be null or empty"));
    assert!(refused(c"e", 1).contains("requires the tensor to be larger than 127 bytes (got 8 bytes)"));
    crate::value::ReleaseValue(value);
    assert!(message(AddInitializerToGraph(graph, Text::within(c"v"), value, 0)).contains("not a live OrtValue"));
    ReleaseGraph(graph);
}

#[test]
fn types_inside_of_types_end_somewhere() {
    let mut info = tensor_type();
    let mut depth = 1;
    let error = loop {
        let mut outer = Handle::NULL;
        let status = CreateSequenceTypeInfo(info, Out::from_raw(&raw mut outer));
        ReleaseTypeInfo(info);
        if !status.is_null() {
            break message(status);
        }
        (info, depth) = (outer, depth + 1);
    };
    assert!(depth < 100 && error.contains("types inside of types"), "{error}");
    let mut out = Handle::NULL;
    assert!(message(CreateMapTypeInfo(99, tensor_type(), Out::from_raw(&raw mut out))).contains("99 is not supported"));
}

#[test]
fn models_need_operator_sets_that_there_can_be() {
    let refused = |domains: &[Text], versions: &[i32]| {
        let mut out = Handle::NULL;
        let (domains, versions) = (List::within(domains), List::within(versions));
        message(CreateModel(domains, versions, 2, Out::from_raw(&raw mut out)))
    };
    let [own, long] = [c"", c"ai.onnx"].map(Text::within);
    assert_eq!(refused(&[own, long], &[17, 17]), "domain_names has \"\" twice");
    let error = refused(&[own, Text::within(c"com.microsoft")], &[17, 0]);
    assert_eq!(error, "opset_versions has 0 for the domain \"com.microsoft\": versions begin at 1");
}

#[test]
fn the_tables_are_there_and_refuse_by_name_what_has_nothing_behind_it() {
    assert!(!GetModelEditorApi().is_null() && !crate::compile::GetCompileApi().is_null());
    let mut session = Handle::NULL;
    let status =
        (EDITOR.CreateModelEditorSession)(Handle::NULL, Text::NULL, Handle::NULL, Out::from_raw(&raw mut session));
    assert_eq!(message(status), "CreateModelEditorSession is not implemented by Kiln");
}
