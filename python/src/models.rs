//! The sources of a session's model: a path, the bytes of a model and of the files that it names, or a member of an
//! archive.

use std::path::PathBuf;

use kiln::{DType, Tensor, TensorSpec};
use kiln_model::onnx::{Bytes, ExternalData};
use numpy::PyUntypedArray;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyMemoryView};

use crate::arrays;
use crate::errors;
use crate::members::{self, Member};
use crate::values;

/// The form in which a model is given.
pub(crate) enum Model {
    Path(PathBuf),
    /// A copy, unless it was given as `bytes`.
    Bytes(Py<PyBytes>),
    Member(Member),
}

impl Model {
    pub(crate) fn of(model: &Bound<'_, PyAny>) -> PyResult<Model> {
        if let Ok(bytes) = model.cast::<PyBytes>() {
            return Ok(Model::Bytes(bytes.clone().unbind()));
        }
        if model.is_instance_of::<PyByteArray>() || model.is_instance_of::<PyMemoryView>() {
            return Ok(Model::Bytes(copied(model)?.unbind()));
        }
        let py = model.py();
        match model.extract() {
            Ok(path) => Ok(Model::Path(path)),
            Err(_) if model.hasattr("joinpath")? => Ok(Model::Member(Member::new(model))),
            Err(_) if model.hasattr("read")? => Ok(Model::Bytes(PyBytes::new(py, &members::rest(model)?).unbind())),
            Err(cause) => {
                let kind = model.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
                let text = format!("a model is a path, bytes, an open file or a member of an archive, not {kind}");
                let error = errors::error(py, "ModelError", text);
                error.set_cause(py, Some(cause));
                Err(error)
            }
        }
    }

    /// The model and options, for a pickle.
    pub(crate) fn picklable<'py>(&self, py: Python<'py>, options: &Bound<'py, PyDict>) -> PyResult<Pickled<'py>> {
        let options = picklable(options)?;
        let model = match self {
            Model::Path(path) => path.into_pyobject(py)?.into_any(),
            Model::Bytes(bytes) => bytes.bind(py).clone().into_any(),
            Model::Member(member) => {
                let (model, files) = member.picklable(py)?;
                if let Some(handed) = options.get_item("external_data")? {
                    files.update(handed.cast()?)?;
                }
                options.set_item("external_data", files)?;
                model.into_any()
            }
        };
        Ok((model, options))
    }
}

/// A model and its options.
pub(crate) type Pickled<'py> = (Bound<'py, PyAny>, Bound<'py, PyDict>);

/// The bytes of an object, which are not copied.
pub(crate) fn shared(bytes: &Bound<'_, PyBytes>) -> Bytes {
    Bytes::from_owner(PyBackedBytes::from(bytes.clone()))
}

/// The bytes of a buffer, copied unless they are `bytes`.
fn copied<'py>(buffer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    match buffer.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.clone()),
        Err(_) => Ok(PyMemoryView::from(buffer)?.call_method0("tobytes")?.cast_into::<PyBytes>()?),
    }
}

/// The elements of an array, which a tensor keeps.
struct Lent(Tensor);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// The files by their locations in the model. Buffers are read in place.
pub(crate) fn external(files: &Bound<'_, PyDict>) -> PyResult<ExternalData> {
    let mut data = ExternalData::new();
    for (name, buffer) in files {
        let location: String = name.extract().map_err(|_| refused(&name, "a location in the model is a str"))?;
        let bytes = lent(&buffer).map_err(|cause| {
            let error = refused(&name, "its bytes are a contiguous buffer, as bytes, mmap or an array");
            error.set_cause(buffer.py(), Some(cause));
            error
        })?;
        data.insert(&location, bytes);
    }
    Ok(data)
}

fn refused(name: &Bound<'_, PyAny>, reason: &str) -> PyErr {
    errors::option(name.py(), "external_data", format!("{name}: {reason}"))
}

fn lent(buffer: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(bytes) = buffer.cast::<PyBytes>() {
        return Ok(shared(bytes));
    }
    let py = buffer.py();
    let view = PyMemoryView::from(buffer)?;
    let count: usize = view.getattr("nbytes")?.extract()?;
    if count == 0 {
        return Ok(Bytes::new());
    }
    let numpy = py.import("numpy")?;
    let array = numpy.getattr("frombuffer")?.call1((view, numpy.getattr("uint8")?))?;
    let array = array.cast::<PyUntypedArray>()?;
    let spec = TensorSpec::new(DType::U8, [array.len()]);
    let tensor = arrays::lend(array, spec).map_err(|error| errors::option(py, "external_data", error))?;
    Ok(Bytes::from_owner(Lent(tensor)))
}

/// Adds arrays that replace a model's initialisers, by name. They are read in place.
pub(crate) fn replace(arrays: &Bound<'_, PyDict>, data: &mut ExternalData) -> PyResult<()> {
    for (name, array) in arrays {
        let py = name.py();
        let refused = |reason: String| errors::option(py, "initializers", format!("{name}: {reason}"));
        let initialiser: String = name.extract().map_err(|_| refused("a name is a str".to_owned()))?;
        let array = array.cast::<PyUntypedArray>().map_err(|_| refused("it is no array of numpy's".to_owned()))?;
        let dtype = values::element_type(&array.dtype())?;
        let dtype = dtype.ok_or_else(|| refused(format!("there are no tensors of numpy's {}", array.dtype())))?;
        let contiguous = values::numpy(py)?.call_method1("ascontiguousarray", (array,))?;
        let shaped = contiguous.call_method1("reshape", (array.shape().to_vec(),))?;
        let spec = TensorSpec::new(dtype, array.shape().iter().copied());
        let tensor = arrays::lend(shaped.cast::<PyUntypedArray>()?, spec);
        data.replace(&initialiser, tensor.map_err(|error| refused(error.to_string()))?);
    }
    Ok(())
}

/// Options in a form for a pickle: files as bytes.
fn picklable<'py>(options: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    let options = options.copy()?;
    if let Some(files) = options.get_item("external_data")? {
        let kept = PyDict::new(options.py());
        for (name, buffer) in files.cast::<PyDict>()? {
            kept.set_item(name, copied(&buffer)?)?;
        }
        options.set_item("external_data", kept)?;
    }
    Ok(options)
}
