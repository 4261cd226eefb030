//! Graphs that a program builds, checked as models of files are: the same rules, expansions and errors, without a file.

use kiln_tensor::Tensor;

use super::external::{Beside, External};
use super::proto::TensorProto;
use super::{ExternalData, Limits, ModelError, dtype_code, import, shown, write};
use crate::{Graph, NodeDesc, operators};

/// The graph as [`load_bytes_with`](super::load_bytes_with) would give it if it were written to a file: nodes may be in
/// any order, names are checked, and functions are expanded. Constants are neither copied nor encoded; `external` may
/// replace some.
///
/// # Errors
///
/// [`ModelError::Attribute`] for attributes of another type than their operator's. Otherwise as [`load`](super::load)
/// for wrong models, and as [`write`](super::write()) for parts of a graph for which ONNX has no message.
pub fn check_built(mut graph: Graph, external: ExternalData, limits: &Limits) -> Result<Graph, ModelError> {
    super::refusable(|| {
        let mut constants: Vec<_> = std::mem::take(&mut graph.constants).into_iter().collect();
        constants.sort_by_key(|(id, _)| *id);
        let mut model = write::message(&graph)?;
        let mut given = std::collections::HashMap::new();
        let mut headers = Vec::with_capacity(constants.len());
        for (id, tensor) in constants {
            let name = graph.value(id).name.clone();
            headers.push(header(&name, &tensor));
            given.insert(name, tensor);
        }
        given.extend(external.initialisers);
        if let Some(proto) = &mut model.graph {
            proto.initializer = headers;
        }
        let graph = import::import(model, External::of(Beside::Nowhere, given), limits)?;
        graph.nodes.iter().try_for_each(check_attributes)?;
        Ok(graph)
    })
}

/// Checks that a node's attributes have the types of their defaults: an attribute of another type would be taken as
/// absent.
fn check_attributes(node: &NodeDesc) -> Result<(), ModelError> {
    let mistyped = operators::find(&node.domain, &node.op).and_then(|row| row.attributes_of(node).mistyped());
    mistyped.map_or(Ok(()), |attribute| {
        Err(ModelError::Attribute {
            place: format!("node {}", shown(&node.name)),
            attribute: shown(attribute),
            reason: format!("it is not of the type that {} has for it", node.op),
        })
    })
}

/// An initialiser without its elements, which are handed over beside it.
fn header(name: &str, tensor: &Tensor) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(dtype_code(tensor.dtype())),
        dims: tensor.shape().iter().map(|&dim| dim as i64).collect(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use kiln_tensor::DType;

    use super::*;
    use crate::Attr;
    use crate::ir::ValueInfo;

    /// `y = Relu(x + w)`, with the nodes in that order or the other.
    fn graph(is_reversed: bool) -> Graph {
        let mut graph = Graph { name: "built".to_owned(), ..Graph::default() };
        let mut value = |name: &str| graph.add_value(ValueInfo { name: name.to_owned(), ..ValueInfo::default() });
        let [x, w, sum, y] = ["x", "w", "sum", "y"].map(&mut value);
        graph.values[x.index()].dtype = Some(DType::F32);
        graph.constants.insert(w, Tensor::from_slice([2], &[1f32, -5.0]).unwrap());
        (graph.inputs, graph.outputs) = (vec![x], vec![y]);
        let node = |op: &str, inputs: &[_], output| NodeDesc {
            op: op.to_owned(),
            version: 17,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(output)],
            ..NodeDesc::default()
        };
        graph.nodes = vec![node("Add", &[x, w], sum), node("Relu", &[sum], y)];
        if is_reversed {
            graph.nodes.reverse();
        }
        graph
    }

    fn checked(graph: Graph) -> Result<Graph, ModelError> {
        check_built(graph, ExternalData::new(), &Limits::default())
    }

    #[test]
    fn nodes_come_in_order_and_constants_are_the_ones_given() {
        let built = graph(true);
        let given = built.constants.values().next().unwrap().bytes().as_ptr();
        let read = checked(built).unwrap();
        assert_eq!(read.nodes.iter().map(|node| node.op.as_str()).collect::<Vec<_>>(), ["Add", "Relu"]);
        assert_eq!(read.constants.values().next().unwrap().bytes().as_ptr(), given);
    }

    #[test]
    fn wrong_graphs_are_refused_as_files_are() {
        let mut twice = graph(false);
        twice.nodes[0].outputs = twice.nodes[1].outputs.clone();
        assert!(matches!(checked(twice), Err(ModelError::Duplicate { .. })));
        let mut missing = graph(false);
        missing.nodes.remove(0);
        assert!(matches!(checked(missing), Err(ModelError::Undefined { name, .. }) if name.contains("sum")));
        let mut cycle = graph(false);
        cycle.nodes[0].inputs[0] = cycle.nodes[1].outputs[0];
        assert!(checked(cycle).is_err());
        let mut mistyped = graph(false);
        (mistyped.nodes[1].op, mistyped.nodes[1].attrs) =
            ("Softmax".into(), [("axis".into(), Attr::Float(0.0))].into());
        assert!(
            matches!(checked(mistyped), Err(ModelError::Attribute { attribute, .. }) if attribute.contains("axis"))
        );
        let mut other = ExternalData::new();
        other.replace("w", Tensor::from_slice([3], &[0f32; 3]).unwrap());
        let error = check_built(graph(false), other, &Limits::default()).unwrap_err().to_string();
        assert!(error.contains("was handed over to replace it"), "{error}");
    }
}
