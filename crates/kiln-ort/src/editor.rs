//! The table of the model editor (`OrtModelEditorApi`), with which programs build models.

use std::ffi::c_int;

use crate::attribute::Attribute;
use crate::built::Built;
use crate::env::Env;
use crate::options::Settings;
use crate::parts::{Graph, Node, ValueInfo};
use crate::seam::{Handle, List, Memory, Out, Status, Text, entry};
use crate::session::{Model, Prepacked};
use crate::sub_table::sub_table;
use crate::type_info::{TensorInfo, TypeInfo};
use crate::value::Value;

sub_table! {
    ModelEditorApi, TABLE, OrtModelEditorApi;
    CreateTensorTypeInfo(Handle<TensorInfo>, Out<Handle<TypeInfo>>) -> Status = type_info;
    CreateSparseTensorTypeInfo(Handle<TensorInfo>, Out<Handle<TypeInfo>>) -> Status;
    CreateMapTypeInfo(c_int, Handle<TypeInfo>, Out<Handle<TypeInfo>>) -> Status = type_info;
    CreateSequenceTypeInfo(Handle<TypeInfo>, Out<Handle<TypeInfo>>) -> Status = type_info;
    CreateOptionalTypeInfo(Handle<TypeInfo>, Out<Handle<TypeInfo>>) -> Status = type_info;
    CreateValueInfo(Text, Handle<TypeInfo>, Out<Handle<ValueInfo>>) -> Status = value_info;
    CreateNode(
        Text, Text, Text, List<Text>, usize, List<Text>, usize, Out<Handle<Attribute>>, usize, Out<Handle<Node>>
    ) -> Status = node;
    CreateGraph(Out<Handle<Graph>>) -> Status = graph;
    SetGraphInputs(Handle<Graph>, Out<Handle<ValueInfo>>, usize) -> Status = graph;
    SetGraphOutputs(Handle<Graph>, Out<Handle<ValueInfo>>, usize) -> Status = graph;
    AddInitializerToGraph(Handle<Graph>, Text, Handle<Value>, u8) -> Status = graph;
    AddNodeToGraph(Handle<Graph>, Handle<Node>) -> Status = graph;
    CreateModel(List<Text>, List<i32>, usize, Out<Handle<Built>>) -> Status = built;
    AddGraphToModel(Handle<Built>, Handle<Graph>) -> Status = built;
    CreateSessionFromModel(Handle<Env>, Handle<Built>, Handle<Settings>, Out<Handle<Model>>) -> Status = session;
    CreateModelEditorSession(Handle<Env>, Text, Handle<Settings>, Out<Handle<Model>>) -> Status;
    CreateModelEditorSessionFromArray(
        Handle<Env>, Memory, usize, Handle<Settings>, Out<Handle<Model>>
    ) -> Status;
    SessionGetOpsetForDomain(Handle<Model>, Text, Out<c_int>) -> Status = session;
    ApplyModelToModelEditorSession(Handle<Model>, Handle<Built>) -> Status;
    FinalizeModelEditorSession(Handle<Model>, Handle<Settings>, Handle<Prepacked>) -> Status;
}

static EDITOR: ModelEditorApi = TABLE;

entry! {
    fn GetModelEditorApi() -> Memory, else Memory::NULL => {
        Memory::of((&raw const EDITOR).cast_mut().cast())
    }
}

#[cfg(test)]
mod tests;
