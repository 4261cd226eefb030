//! A model's declarations of its inputs and outputs, and its metadata.

use kiln::{DType, Dim, ValueKind};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// An input or output as the model declares it.
///
/// >>> [x] = kiln.Session(model).inputs
/// >>> x
/// Port("x", float32, [n, 3], tensor)
#[pyclass(frozen, module = "kiln")]
pub(crate) struct Port {
    port: kiln::Port,
}

impl Port {
    pub(crate) fn new(port: &kiln::Port) -> Port {
        Port { port: port.clone() }
    }
}

#[pymethods]
impl Port {
    /// The port's name.
    ///
    /// >>> kiln.Session(model).inputs[0].name
    /// 'x'
    #[getter]
    fn name(&self) -> &str {
        &self.port.name
    }

    /// The element type by its name in numpy or ml_dtypes, or `"string"`. For a sequence or an optional value, it is
    /// the type of the tensors inside. None if the model declares no type.
    ///
    /// >>> kiln.Session(model).inputs[0].dtype
    /// 'float32'
    #[getter]
    fn dtype(&self) -> Option<&'static str> {
        self.port.dtype.map(crate::values::type_name)
    }

    /// Sizes, names of sizes, and None for unknown sizes. The whole shape is None if the rank is unknown.
    ///
    /// >>> kiln.Session(model).inputs[0].shape
    /// ('n', 3)
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Some(dims) = &self.port.dims else { return Ok(None) };
        let dims: Vec<Py<PyAny>> = dims.iter().map(|dim| dimension(py, dim)).collect::<PyResult<_>>()?;
        PyTuple::new(py, dims).map(Some)
    }

    /// "tensor", "sequence", "optional", "optional sequence", "map" or "sequence of maps".
    ///
    /// >>> kiln.Session(model).inputs[0].kind
    /// 'tensor'
    #[getter]
    fn kind(&self) -> &'static str {
        match self.port.kind {
            ValueKind::Tensor => "tensor",
            ValueKind::Sequence => "sequence",
            ValueKind::Optional => "optional",
            ValueKind::OptionalSequence => "optional sequence",
            ValueKind::Map(_) => "map",
            ValueKind::Maps(_) => "sequence of maps",
        }
    }

    /// The type of a map's keys, "int64" or "string"; None for other kinds.
    ///
    /// >>> kiln.Session(model).inputs[0].keys
    #[getter]
    fn keys(&self) -> Option<&'static str> {
        match self.port.kind {
            ValueKind::Map(DType::String) | ValueKind::Maps(DType::String) => Some("string"),
            ValueKind::Map(_) | ValueKind::Maps(_) => Some("int64"),
            _ => None,
        }
    }

    /// Whether a request may leave this input out, because the model has a default for it.
    ///
    /// >>> kiln.Session(model).inputs[0].has_default
    /// False
    #[getter]
    fn has_default(&self) -> bool {
        self.port.has_default
    }

    fn __repr__(&self) -> String {
        let dims = self.port.dims.as_ref().map_or_else(
            || "?".to_owned(),
            |dims| format!("[{}]", dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        );
        format!("Port({:?}, {}, {dims}, {})", self.port.name, self.dtype().unwrap_or("?"), self.kind())
    }
}

fn dimension(py: Python<'_>, dim: &Dim) -> PyResult<Py<PyAny>> {
    Ok(match dim {
        Dim::Fixed(size) => size.into_pyobject(py)?.into_any().unbind(),
        Dim::Named(name) => name.into_pyobject(py)?.into_any().unbind(),
        Dim::Any => py.None(),
    })
}

/// A model's metadata.
///
/// >>> metadata = kiln.Session(model).metadata
/// >>> metadata.graph_name, metadata.properties
/// ('graph', {})
#[pyclass(frozen, get_all, module = "kiln")]
pub(crate) struct Metadata {
    /// The tool that wrote the model.
    producer_name: String,
    /// The tool's version.
    producer_version: String,
    /// The model's namespace.
    domain: String,
    /// The model's own version.
    version: i64,
    /// A description of the model.
    description: String,
    /// The graph's name.
    graph_name: String,
    /// A description of the graph.
    graph_description: String,
    /// Pairs of strings in the model (`metadata_props`).
    properties: Py<PyDict>,
}

impl Metadata {
    pub(crate) fn new(py: Python<'_>, metadata: &kiln::Metadata) -> PyResult<Metadata> {
        let properties = PyDict::new(py);
        for (key, value) in &metadata.properties {
            properties.set_item(key, value)?;
        }
        let kiln::Metadata {
            producer_name,
            producer_version,
            domain,
            version,
            description,
            graph_name,
            graph_description,
            properties: _,
        } = metadata.clone();
        Ok(Metadata {
            producer_name,
            producer_version,
            domain,
            version,
            description,
            graph_name,
            graph_description,
            properties: properties.unbind(),
        })
    }
}

#[pymethods]
impl Metadata {
    fn __repr__(&self, py: Python<'_>) -> String {
        let properties = self.properties.bind(py).len();
        format!("Metadata(producer_name={:?}, version={}, {properties} properties)", self.producer_name, self.version)
    }
}
