//! Models that programs build (`OrtModel`), and Kiln's graphs made from them.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int};
use std::sync::{Arc, PoisonError};

use kiln::{DType, Dim, Tensor, ValueId, ValueKind};
use kiln_fork::Mutex;
use kiln_model::ir::{Attrs, NodeDesc, ValueInfo};

use crate::dtype;
use crate::error::{Code, Error, Result, invalid};
use crate::parts::{Declared, Described, Graph, Initialiser, Parts};
use crate::seam::handle::kind;
use crate::seam::{Handle, List, Out, Text, entry};
use crate::type_info::{Shape, TensorType};

/// An operator set that a model imports.
#[derive(Clone)]
pub(crate) struct Opset {
    /// "" is ONNX's own.
    pub(crate) domain: String,
    pub(crate) version: i32,
}

/// A model as callers hold it.
pub(crate) struct Built {
    pub(crate) opsets: Vec<Opset>,
    graph: Mutex<Option<Arc<Graph>>>,
}

kind!(Built = "OrtModel");

impl Built {
    /// The model as Kiln's graph, with nodes in the program's order; the code that reads files checks the rest.
    ///
    /// # Errors
    ///
    /// For a model without a graph, for types that Kiln's values do not have, and for two attributes with the same
    /// name.
    pub(crate) fn graph(&self) -> Result<kiln::Graph> {
        let graph = self.graph.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let graph = graph.ok_or_else(|| wrong("the model has no graph: AddGraphToModel was not called"))?;
        graph.with(|parts| Draft { opsets: &self.opsets, ..Draft::default() }.of(parts))
    }
}

fn wrong(reason: impl std::fmt::Display) -> Error {
    Error::new(Code::InvalidGraph, format!("This is an invalid model. {reason}"))
}

/// The domain's canonical name: ONNX's own has two.
pub(crate) fn canonical(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Kiln's graph while it is made.
#[derive(Default)]
struct Draft<'a> {
    opsets: &'a [Opset],
    graph: kiln::Graph,
    names: HashMap<String, ValueId>,
}

impl Draft<'_> {
    fn of(mut self, parts: &Parts) -> Result<kiln::Graph> {
        "built".clone_into(&mut self.graph.name);
        for input in &parts.inputs {
            let id = self.declared(input)?;
            self.graph.inputs.push(id);
        }
        for output in &parts.outputs {
            let id = self.declared(output)?;
            self.graph.outputs.push(id);
        }
        for initialiser in &parts.initialisers {
            let id = self.value(&initialiser.name);
            self.graph.constants.insert(id, constant(initialiser)?);
        }
        for node in &parts.nodes {
            self.node(node)?;
        }
        Ok(self.graph)
    }

    /// The value with a name.
    fn value(&mut self, name: &CStr) -> ValueId {
        let name = name.to_string_lossy().into_owned();
        if let Some(id) = self.names.get(&name) {
            return *id;
        }
        let id = self.graph.add_value(ValueInfo { name: name.clone(), ..ValueInfo::default() });
        self.names.insert(name, id);
        id
    }

    /// The value of an input or output, with its type.
    fn declared(&mut self, declared: &Declared) -> Result<ValueId> {
        let id = self.value(&declared.name);
        if let Some(shape) = &declared.shape {
            let said = says(shape).ok_or_else(|| {
                let name = declared.name.to_string_lossy();
                Error::new(Code::NotImplemented, format!("the type of {name} is one that Kiln's values do not have"))
            })??;
            let value = &mut self.graph.values[id.index()];
            *value = ValueInfo { name: std::mem::take(&mut value.name), ..said };
        }
        Ok(id)
    }

    fn node(&mut self, node: &Described) -> Result<()> {
        let text = |text: &CString| text.to_string_lossy().into_owned();
        let domain = canonical(&text(&node.domain)).to_owned();
        let imported = self.opsets.iter().find(|opset| opset.domain == domain);
        let version = match imported {
            Some(opset) => i64::from(opset.version),
            // An operator of a domain without an import is unknown; it is refused with the other unknown operators.
            None if !domain.is_empty() => 1,
            None => {
                let reason = "is of ONNX's domain, for which the model imports no operator set";
                return Err(wrong(format!("node {:?} {reason}", text(&node.name))));
            }
        };
        let mut attrs = Attrs::new();
        for attribute in &node.attributes {
            let name = text(&attribute.name);
            if name.is_empty() || attrs.insert(name.clone(), attribute.value.clone()).is_some() {
                let place = text(&node.name);
                return Err(wrong(format!("node {place:?}: attributes need names, each its own: {name:?}")));
            }
        }
        let [inputs, outputs] = [&node.inputs, &node.outputs]
            .map(|names| names.iter().map(|name| (!name.is_empty()).then(|| self.value(name))).collect::<Vec<_>>());
        let (name, op) = (text(&node.name), text(&node.op));
        self.graph.nodes.push(NodeDesc { name, domain, op, version, attrs, inputs, outputs });
        Ok(())
    }
}

/// The facts that a type states about a value, without its name; `None` for types that Kiln's values do not have.
fn says(shape: &Shape) -> Option<Result<ValueInfo>> {
    let of = |kind, inside: &TensorType| {
        let elements = element(inside)?;
        Ok(ValueInfo { kind, elements, ..ValueInfo::default() })
    };
    let of_map = |kind: fn(DType) -> ValueKind, keys: c_int, values: &TensorType| {
        dtype::of_number(keys).and_then(|keys| of(kind(keys), values))
    };
    Some(match shape {
        Shape::Tensor(tensor) => element(tensor).map(|dtype| ValueInfo {
            dtype,
            dims: tensor.dims.as_ref().map(|_| tensor.declared_dims()).filter(|dims| !dims.is_empty()),
            ..ValueInfo::default()
        }),
        Shape::Sequence(inside) => match &**inside {
            Shape::Tensor(tensor) => of(ValueKind::Sequence, tensor),
            Shape::Map(keys, values) => match &**values {
                Shape::Tensor(tensor) => of_map(ValueKind::Maps, *keys, tensor),
                _ => return None,
            },
            _ => return None,
        },
        Shape::Map(keys, values) => match &**values {
            Shape::Tensor(tensor) => of_map(ValueKind::Map, *keys, tensor),
            _ => return None,
        },
        Shape::Optional(inside) => match &**inside {
            Shape::Tensor(tensor) => of(ValueKind::Optional, tensor),
            Shape::Sequence(inside) => match &**inside {
                Shape::Tensor(tensor) => of(ValueKind::OptionalSequence, tensor),
                _ => return None,
            },
            _ => return None,
        },
    })
}

/// The element type of a tensor, if one is declared.
fn element(tensor: &TensorType) -> Result<Option<DType>> {
    if tensor.element == 0 { Ok(None) } else { dtype::of_number(tensor.element).map(Some) }
}

impl TensorType {
    /// Its dimensions. For a rank of 0 no dimensions are declared: onnxruntime then takes tensors of any shape, and
    /// programs rely on it.
    fn declared_dims(&self) -> Vec<Dim> {
        let sizes = self.dims.iter().flatten().zip(self.names());
        let dim = |(&size, name): (&i64, &CString)| match (usize::try_from(size), name.is_empty()) {
            (Ok(size), _) => Dim::Fixed(size),
            (Err(_), false) => Dim::Named(name.to_string_lossy().into_owned()),
            (Err(_), true) => Dim::Any,
        };
        sizes.map(dim).collect()
    }
}

/// The tensor of an initialiser: a copy, unless it is in memory that the caller lends.
fn constant(initialiser: &Initialiser) -> Result<Tensor> {
    let name = || initialiser.name.to_string_lossy();
    let value = initialiser.value.to_kiln(&mut Vec::new())?;
    let tensor = value.into_tensor().map_err(|error| invalid!("initialiser {}: {error}", name()))?;
    if initialiser.is_borrowed || tensor.dtype() == DType::String {
        return Ok(tensor);
    }
    Tensor::from_bytes(tensor.spec().clone(), tensor.bytes())
        .map_err(|error| invalid!("initialiser {}: {error}", name()))
}

entry! {
    fn CreateModel(domains: List<Text>, versions: List<i32>, len: usize, out: Out<Handle<Built>>) {
        let out = out.place("model")?;
        let (domains, versions) = (domains.read(len, "domain_names")?, versions.read(len, "opset_versions")?);
        let mut opsets: Vec<Opset> = Vec::new();
        for (domain, version) in domains.iter().zip(versions) {
            let domain = canonical(&domain.read("domain_names")?).to_owned();
            if opsets.iter().any(|other| other.domain == domain) {
                return Err(invalid!("domain_names has {domain:?} twice"));
            }
            if version < 1 {
                return Err(invalid!("opset_versions has {version} for the domain {domain:?}: versions begin at 1"));
            }
            opsets.push(Opset { domain, version });
        }
        out.put(Handle::new(Built { opsets, graph: Mutex::new(None) })?);
        Ok(())
    }

    /// The model takes over the graph, and drops an earlier one.
    fn AddGraphToModel(model: Handle<Built>, graph: Handle<Graph>) {
        let model = model.get("model")?;
        let _ = graph.get("graph")?;
        let taken = graph.release().ok_or_else(|| invalid!("graph was released meanwhile"))?;
        *model.graph.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
        Ok(())
    }

    fn ReleaseModel(model: Handle<Built>) -> (), else () => {
        drop(model.release());
    }
}
