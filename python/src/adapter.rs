//! The class `Adapter`: tensors that requests give in place of a model's defaults.

use std::path::PathBuf;

use kiln::{ModelError, Port, SessionError, ValueKind};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::{errors, values};

/// Arrays by the names of the inputs that they are for, in the file format of onnxruntime's LoRA adapters.
///
/// A model that takes adapters lists their tensors as inputs with defaults. A request takes an adapter's with the other
/// inputs: ``session.run(None, {"x": x} | adapter.parameters)``.
///
/// ``adapter_version`` is the adapter's own version, ``model_version`` that of the model which it is for.
///
/// Raises `InputError` for arrays that no tensors are made of.
///
/// >>> adapter = kiln.Adapter({"left": np.ones((4, 2), np.float32)}, adapter_version=3)
/// >>> adapter.save("my.onnx_adapter")
/// >>> again = kiln.Adapter.read("my.onnx_adapter")
/// >>> again.adapter_version, again.parameters["left"].shape
/// (3, (4, 2))
#[pyclass(frozen, module = "kiln")]
pub(crate) struct Adapter {
    adapter: kiln::Adapter,
}

fn refused(py: Python<'_>, error: ModelError) -> PyErr {
    errors::session(py, &SessionError::Model(error))
}

#[pymethods]
impl Adapter {
    #[new]
    #[pyo3(signature = (parameters, *, adapter_version=1, model_version=1))]
    fn new(
        py: Python<'_>,
        parameters: &Bound<'_, PyDict>,
        adapter_version: i32,
        model_version: i32,
    ) -> PyResult<Adapter> {
        let mut adapter = kiln::Adapter { adapter_version, model_version, ..kiln::Adapter::default() };
        for (name, array) in parameters {
            let name: String = name.extract()?;
            let port =
                Port { name: name.clone(), kind: ValueKind::Tensor, dtype: None, dims: None, has_default: false };
            let tensor = values::take(py, &port, &array)?.into_tensor();
            adapter.parameters.push((name, tensor.map_err(|error| errors::input(py, &port.name, error, None))?));
        }
        Ok(Adapter { adapter })
    }

    /// The adapter of a file.
    ///
    /// Raises `ModelNotFoundError` if there is no such file, and `ModelError` if it cannot be used.
    ///
    /// >>> kiln.Adapter({"w": np.zeros(2, np.float32)}).save("w.onnx_adapter")
    /// >>> list(kiln.Adapter.read("w.onnx_adapter").parameters)
    /// ['w']
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Adapter> {
        let adapter = py.detach(|| kiln::Adapter::read(&path)).map_err(|error| refused(py, error))?;
        Ok(Adapter { adapter })
    }

    /// The adapter of a file's bytes.
    ///
    /// Raises `ModelError` if they cannot be used.
    ///
    /// >>> kiln.Adapter.from_bytes(kiln.Adapter({}).to_bytes()).parameters
    /// {}
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Adapter> {
        Ok(Adapter { adapter: kiln::Adapter::from_bytes(data).map_err(|error| refused(py, error))? })
    }

    /// The arrays, in the order of the file. They may not be written.
    ///
    /// >>> kiln.Adapter({"w": np.float32([1, 2])}).parameters
    /// {'w': array([1., 2.], dtype=float32)}
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let arrays = PyDict::new(py);
        for (name, tensor) in &self.adapter.parameters {
            arrays.set_item(name, values::give(py, tensor.clone().into())?)?;
        }
        Ok(arrays)
    }

    /// The adapter's own version.
    ///
    /// >>> kiln.Adapter({}).adapter_version
    /// 1
    #[getter]
    fn adapter_version(&self) -> i32 {
        self.adapter.adapter_version
    }

    /// The version of the model that the adapter is for.
    ///
    /// >>> kiln.Adapter({}, model_version=2).model_version
    /// 2
    #[getter]
    fn model_version(&self) -> i32 {
        self.adapter.model_version
    }

    /// The bytes of a file.
    ///
    /// Raises `ModelError` for arrays of texts, and for more than 2 GiB.
    ///
    /// >>> kiln.Adapter({}).to_bytes()[4:8]
    /// b'TORT'
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.adapter.to_bytes().map_err(|error| refused(py, error))?))
    }

    /// Writes a file.
    ///
    /// Raises `ModelError` as :meth:`to_bytes`, and `OSError` if the file cannot be written.
    ///
    /// >>> kiln.Adapter({}).save("empty.onnx_adapter")
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let bytes = self.adapter.to_bytes().map_err(|error| refused(py, error))?;
        Ok(py.detach(|| std::fs::write(path, bytes))?)
    }
}
