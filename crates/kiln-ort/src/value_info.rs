//! Entries of values of graphs (`OrtValueInfo`): their names and types, and their roles in a graph.

use std::ffi::CString;
use std::sync::Arc;

use crate::error::{Result, invalid};
use crate::ownership;
use crate::parts::{Described, Node, Parts, ValueInfo};
use crate::seam::{Handle, Memory, Out, Text, c_text, entry};
use crate::type_info::{Shape, TensorType, TypeInfo};
use crate::value::Value;

/// Writes whether the value has a role in its graph.
fn says(
    value: Handle<ValueInfo>,
    out: Out<bool>,
    what: &str,
    says: impl FnOnce(&Parts, &CString) -> bool,
) -> Result<()> {
    let out = out.place(what)?;
    let value = value.get("value_info")?;
    out.put(value.in_graph(|_, parts| Ok(says(parts, &value.name)))?);
    Ok(())
}

entry! {
    fn CreateValueInfo(name: Text, type_info: Handle<TypeInfo>, out: Out<Handle<ValueInfo>>) {
        let out = out.place("value_info")?;
        let name = name.read("name")?;
        if name.is_empty() {
            return Err(invalid!("name cannot be null or empty string"));
        }
        let shape = type_info.get("type_info")?.shape().clone();
        out.put(Handle::new(ValueInfo::of(c_text(&name), Some(shape), None))?);
        Ok(())
    }

    fn GetValueInfoName(value: Handle<ValueInfo>, out: Out<Text>) {
        let out = out.place("name")?;
        out.put(Text::within(&value.get("value_info")?.name));
        Ok(())
    }

    /// The type belongs to the value; an undeclared type is a tensor's without an element type.
    fn GetValueInfoTypeInfo(value: Handle<ValueInfo>, out: Out<Handle<TypeInfo>>) {
        let out = out.place("type_info")?;
        let value = value.get("value_info")?;
        let shape = value.shape.clone().unwrap_or_else(|| Shape::Tensor(TensorType::default()));
        out.put(crate::type_info::inner(&value.type_info, TypeInfo::of(shape))?);
        Ok(())
    }

    /// The node that makes the value and the number of its output; null for inputs and initialisers.
    fn ValueInfo_GetValueProducer(value: Handle<ValueInfo>, producer: Out<Handle<Node>>, index: Out<usize>) {
        let producer = producer.place("value_producer")?;
        let value = value.get("value_info")?;
        let (node, output) = value.in_graph(|graph, parts| {
            let of_node = |(number, node): (usize, &Arc<Described>)| {
                node.outputs.iter().position(|name| *name == value.name).map(|output| (number, output))
            };
            match parts.nodes.iter().enumerate().find_map(of_node) {
                Some((number, output)) => Ok((graph.node(parts, number)?, output)),
                None => Ok((Handle::NULL, 0)),
            }
        })?;
        producer.put(node);
        index.put_if_wanted(output);
        Ok(())
    }

    fn ValueInfo_GetValueNumConsumers(value: Handle<ValueInfo>, out: Out<usize>) {
        let out = out.place("num_consumers")?;
        let value = value.get("value_info")?;
        out.put(value.in_graph(|_, parts| Ok(parts.readers(&value.name).len()))?);
        Ok(())
    }

    /// The nodes that read the value, and the numbers of their inputs. A node is listed once for each time it reads the
    /// value.
    fn ValueInfo_GetValueConsumers(
        value: Handle<ValueInfo>,
        nodes: Out<Handle<Node>>,
        inputs: Out<i64>,
        len: usize,
    ) {
        let value = value.get("value_info")?;
        let (readers, handles) = value.in_graph(|graph, parts| {
            let readers = parts.readers(&value.name);
            let handles: Result<Vec<_>> = readers.iter().map(|reader| graph.node(parts, reader.node)).collect();
            Ok((readers, handles?))
        })?;
        ownership::lend(&handles, nodes, len, "nodes")?;
        let numbers: Vec<i64> = readers.iter().map(|reader| reader.input as i64).collect();
        inputs.fill(len, &numbers, "input_indices")
    }

    /// The value of an initialiser, which the graph keeps; null for other values.
    fn ValueInfo_GetInitializerValue(value: Handle<ValueInfo>, out: Out<Handle<Value>>) {
        let out = out.place("initializer_value")?;
        let info = value.get("value_info")?;
        let value = info.in_graph(|_, parts| {
            Ok(parts.initialiser(&info.name).map(|initialiser| initialiser.value.clone()))
        })?;
        let Some(value) = value else {
            out.put(Handle::NULL);
            return Ok(());
        };
        let made = Handle::of(value)?;
        let kept = *info.initialiser.get_or_init(|| made);
        if kept.address() != made.address() {
            drop(made.release());
        }
        out.put(kept);
        Ok(())
    }

    /// Null: elements of built graphs are in memory, not in files.
    fn ValueInfo_GetExternalInitializerInfo(value: Handle<ValueInfo>, out: Out<Memory>) {
        let out = out.place("info")?;
        let _ = value.get("value_info")?;
        out.put(Memory::NULL);
        Ok(())
    }

    fn ValueInfo_IsRequiredGraphInput(value: Handle<ValueInfo>, out: Out<bool>) {
        says(value, out, "is_required_graph_input", |parts, name| {
            parts.is_input(name) && parts.initialiser(name).is_none()
        })
    }

    fn ValueInfo_IsOptionalGraphInput(value: Handle<ValueInfo>, out: Out<bool>) {
        says(value, out, "is_optional_graph_input", |parts, name| {
            parts.is_input(name) && parts.initialiser(name).is_some()
        })
    }

    fn ValueInfo_IsGraphOutput(value: Handle<ValueInfo>, out: Out<bool>) {
        says(value, out, "is_graph_output", |parts, name| parts.outputs.iter().any(|output| output.name == *name))
    }

    fn ValueInfo_IsConstantInitializer(value: Handle<ValueInfo>, out: Out<bool>) {
        says(value, out, "is_constant_initializer", |parts, name| {
            !parts.is_input(name) && parts.initialiser(name).is_some()
        })
    }

    /// Never: a built graph is not inside of another one.
    fn ValueInfo_IsFromOuterScope(value: Handle<ValueInfo>, out: Out<bool>) {
        says(value, out, "is_from_outer_scope", |_, _| false)
    }

    fn ReleaseValueInfo(value: Handle<ValueInfo>) -> (), else () => {
        ownership::release(value);
    }
}
