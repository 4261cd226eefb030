//! Common subexpressions: equal nodes with equal inputs become one. Exporters write the same shape arithmetic for every
//! layer, each time with its own constants, so small constants are compared by content first.

use hashbrown::HashMap;
use kiln_tensor::{DType, Tensor};

use super::PassCx;
use super::edit::Edit;
use crate::ir::{Attr, Graph, NodeDesc, ValueId};

/// The most bytes of constants and attributes that are compared by content. Sizes, axes and scalars are a few bytes;
/// weights are rarely stored twice, and comparing them would read the whole model.
const COMPARED_BYTES: usize = 256;

pub(super) fn run(graph: &mut Graph, _: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    let mut same = equal_constants(edit.graph);
    let mut first: HashMap<Vec<u8>, Vec<Option<ValueId>>> = HashMap::new();
    for slot in edit.slots() {
        let Some(node) = edit.cloned(slot, may_be_shared) else { continue };
        let Some(key) = key_of(&node, &mut same) else { continue };
        match first.get(&key) {
            Some(outputs) if node.outputs.len() == 1 => {
                if let (Some(old), Some(new)) = (node.output(0), outputs.first().copied().flatten()) {
                    edit.bypass(slot, old, new);
                }
            }
            Some(_) => {}
            None => drop(first.insert(key, node.outputs.clone())),
        }
    }
    edit.finish()
}

/// Nodes without bodies that give the same result every time.
fn may_be_shared(node: &NodeDesc) -> bool {
    !node.outputs.is_empty() && node.is_repeatable()
}

/// For each small constant, the first one with the same content.
fn equal_constants(graph: &Graph) -> HashMap<ValueId, ValueId> {
    let mut ids: Vec<ValueId> = graph.constants.keys().copied().collect();
    ids.sort_unstable();
    let mut first: HashMap<Vec<u8>, ValueId> = HashMap::new();
    let mut same = HashMap::new();
    for id in ids {
        let mut key = Vec::new();
        if graph.constants.get(&id).is_some_and(|tensor| write_tensor(&mut key, tensor)) {
            same.insert(id, *first.entry(key).or_insert(id));
        }
    }
    same
}

/// The node's operator, attributes and inputs as bytes; `None` if they cannot be compared cheaply.
fn key_of(node: &NodeDesc, same: &mut HashMap<ValueId, ValueId>) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(64);
    write_bytes(&mut key, node.domain.as_bytes());
    write_bytes(&mut key, node.op.as_bytes());
    key.extend(node.version.to_le_bytes());
    key.extend((node.outputs.len() as u64).to_le_bytes());
    for input in &node.inputs {
        let id = input.map(|id| same.get(&id).copied().unwrap_or(id));
        key.extend(id.map_or(u64::MAX, |id| u64::from(id.0)).to_le_bytes());
    }
    for (name, attr) in &node.attrs {
        write_bytes(&mut key, name.as_bytes());
        write_attr(&mut key, attr).then_some(())?;
    }
    Some(key)
}

fn write_bytes(key: &mut Vec<u8>, bytes: &[u8]) {
    key.extend((bytes.len() as u64).to_le_bytes());
    key.extend(bytes);
}

fn write_attr(key: &mut Vec<u8>, attr: &Attr) -> bool {
    let (kind, bytes): (u8, Vec<u8>) = match attr {
        Attr::Int(value) => (1, value.to_le_bytes().to_vec()),
        Attr::Float(value) => (2, value.to_bits().to_le_bytes().to_vec()),
        Attr::Str(text) => (3, text.as_bytes().to_vec()),
        Attr::Ints(values) => (4, values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        Attr::Floats(values) => (5, values.iter().flat_map(|value| value.to_bits().to_le_bytes()).collect()),
        Attr::Tensor(tensor) => {
            let mut bytes = Vec::new();
            if !write_tensor(&mut bytes, tensor) {
                return false;
            }
            (6, bytes)
        }
        // Programs have no byte form; their debug text is used.
        Attr::Chain(program) => (7, format!("{program:?}").into_bytes()),
        Attr::Strs(_) | Attr::Graph(_) => return false,
    };
    key.push(kind);
    write_bytes(key, &bytes);
    true
}

/// Writes a small tensor; false for a large one and for strings.
fn write_tensor(key: &mut Vec<u8>, tensor: &Tensor) -> bool {
    if tensor.dtype() == DType::String || tensor.byte_len() > COMPARED_BYTES || tensor.shape().len() > 8 {
        return false;
    }
    write_bytes(key, tensor.dtype().name().as_bytes());
    for &dim in tensor.shape() {
        key.extend((dim as u64).to_le_bytes());
    }
    write_bytes(key, tensor.bytes());
    true
}
