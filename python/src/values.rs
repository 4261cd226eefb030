//! Inputs from Python and outputs to Python: arrays, values that become arrays, lists of these, dicts, and None.

use std::sync::Arc;

use kiln::{DType, Map, Tensor, TensorSpec, Value, ValueKind};
use numpy::prelude::*;
use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::arrays;
use crate::errors;

/// numpy's or ml_dtypes' name of an element type.
pub(crate) const fn type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F8E4M3 => "float8_e4m3fn",
        DType::F8E4M3Fnuz => "float8_e4m3fnuz",
        DType::F8E5M2 => "float8_e5m2",
        DType::F8E5M2Fnuz => "float8_e5m2fnuz",
        DType::F8E8M0 => "float8_e8m0fnu",
        DType::F4E2M1 => "float4_e2m1fn",
        other => other.name(),
    }
}

/// Element types that numpy lacks and the package ml_dtypes adds.
const ADDED: [DType; 11] = [
    DType::BF16,
    DType::F8E4M3,
    DType::F8E4M3Fnuz,
    DType::F8E5M2,
    DType::F8E5M2Fnuz,
    DType::F8E8M0,
    DType::F4E2M1,
    DType::I4,
    DType::U4,
    DType::I2,
    DType::U2,
];

/// The module of that name, imported once.
fn module<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyModule>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyModule>> {
    cell.get_or_try_init(py, || py.import(name).map(Bound::unbind)).map(|module| module.bind(py))
}

pub(crate) fn numpy(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static NUMPY: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    module(py, &NUMPY, "numpy")
}

/// numpy's element type of the same elements.
fn descriptor(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyArrayDescr>> {
    Ok(match dtype {
        DType::F32 => numpy::dtype::<f32>(py),
        DType::F64 => numpy::dtype::<f64>(py),
        DType::I8 => numpy::dtype::<i8>(py),
        DType::I16 => numpy::dtype::<i16>(py),
        DType::I32 => numpy::dtype::<i32>(py),
        DType::I64 => numpy::dtype::<i64>(py),
        DType::U8 => numpy::dtype::<u8>(py),
        DType::U16 => numpy::dtype::<u16>(py),
        DType::U32 => numpy::dtype::<u32>(py),
        DType::U64 => numpy::dtype::<u64>(py),
        DType::Bool => numpy::dtype::<bool>(py),
        DType::String => PyArrayDescr::object(py),
        DType::F16 => PyArrayDescr::new(py, "float16")?,
        other => return added(py, other),
    })
}

/// The same for a type that ml_dtypes adds.
fn added(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyArrayDescr>> {
    static PACKAGE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let name = type_name(dtype);
    let module = module(py, &PACKAGE, "ml_dtypes").map_err(|cause| {
        let error = errors::error(py, "KilnError", format!("arrays of {name} need the package ml_dtypes"));
        error.set_cause(py, Some(cause));
        error
    })?;
    PyArrayDescr::new(py, module.getattr(name)?)
}

/// The element type of an array, if it is one of Kiln's other than texts.
pub(crate) fn element_type(descr: &Bound<'_, PyArrayDescr>) -> PyResult<Option<DType>> {
    Ok(Some(match (descr.kind(), descr.itemsize()) {
        (b'f', 4) => DType::F32,
        (b'f', 8) => DType::F64,
        (b'f', 2) if descr.num() < 256 => DType::F16,
        (b'b', 1) => DType::Bool,
        (b'i', 1) if descr.num() < 256 => DType::I8,
        (b'i', 2) => DType::I16,
        (b'i', 4) => DType::I32,
        (b'i', 8) => DType::I64,
        (b'u', 1) if descr.num() < 256 => DType::U8,
        (b'u', 2) => DType::U16,
        (b'u', 4) => DType::U32,
        (b'u', 8) => DType::U64,
        // Numbers from 256 on are types that packages add.
        _ if descr.num() >= 256 => {
            let name = descr.typeobj().name()?;
            let name = name.to_cow()?;
            return Ok(ADDED.into_iter().find(|dtype| type_name(*dtype) == name));
        }
        _ => return Ok(None),
    }))
}

/// The value of an input as a request gives it.
pub(crate) fn take<'py>(py: Python<'py>, port: &kiln::Port, given: &Bound<'py, PyAny>) -> PyResult<Value> {
    let tensor = |given: &Bound<'py, PyAny>| take_tensor(py, port, given);
    match port.kind {
        ValueKind::Optional | ValueKind::OptionalSequence if given.is_none() => Ok(Value::Nothing),
        ValueKind::Tensor | ValueKind::Optional => tensor(given).map(Value::Tensor),
        ValueKind::Sequence | ValueKind::OptionalSequence => {
            if !(given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>()) {
                let kind = given.get_type().name()?;
                return Err(errors::input(py, &port.name, format!("expected a list of arrays, got {kind}"), None));
            }
            let parts = given.try_iter()?.map(|part| tensor(&part?)).collect::<PyResult<Vec<Tensor>>>()?;
            Ok(Value::sequence(parts))
        }
        ValueKind::Map(keys) => take_map(py, port, keys, given).map(|map| Value::Map(Arc::new(map))),
        ValueKind::Maps(keys) => {
            if !(given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>()) {
                let kind = given.get_type().name()?;
                return Err(errors::input(py, &port.name, format!("expected a list of dicts, got {kind}"), None));
            }
            let maps = given.try_iter()?.map(|map| take_map(py, port, keys, &map?)).collect::<PyResult<_>>()?;
            Ok(Value::Maps(Arc::new(maps)))
        }
    }
}

/// A map of a dict's keys and values.
fn take_map<'py>(py: Python<'py>, port: &kiln::Port, keys: DType, given: &Bound<'py, PyAny>) -> PyResult<Map> {
    let Ok(dict) = given.cast::<PyDict>() else {
        let kind = given.get_type().name()?;
        return Err(errors::input(py, &port.name, format!("expected a dict, got {kind}"), None));
    };
    let typed = |elements: Bound<'py, PyList>, dtype: DType| -> PyResult<Tensor> {
        let options = PyDict::new(py);
        options.set_item("dtype", descriptor(py, dtype)?)?;
        let array = numpy(py)?.call_method("array", (elements,), Some(&options));
        let array = array.map_err(|error| match errors::is_ordinary(py, &error) {
            true => errors::input(py, &port.name, format!("no map can be made of that: {error}"), Some(error)),
            false => error,
        })?;
        let array = array.cast::<PyUntypedArray>()?;
        if dtype == DType::String { take_strings(py, port, array) } else { take_array(py, port, array) }
    };
    let (keys, values) = (typed(dict.keys(), keys)?, typed(dict.values(), port.dtype.unwrap_or(DType::F32))?);
    Map::new(keys, values).map_err(|error| errors::input(py, &port.name, error, None))
}

fn take_tensor<'py>(py: Python<'py>, port: &kiln::Port, given: &Bound<'py, PyAny>) -> PyResult<Tensor> {
    if given.is_none() {
        let expected = port.dtype.map_or("an array", type_name);
        return Err(errors::input(py, &port.name, format!("expected {expected}, got None"), None));
    }
    if let Ok(array) = given.cast::<PyUntypedArray>() {
        return take_array(py, port, array);
    }
    let refused = |error: PyErr| {
        if !errors::is_ordinary(py, &error) {
            return error;
        }
        let kind = given.get_type().qualname().map_or_else(|_| "that".to_owned(), |name| name.to_string());
        errors::input(py, &port.name, format!("no array can be made of {kind}: {error}"), Some(error))
    };
    let array = as_array(py, port.dtype, given).map_err(refused)?;
    take_array(py, port, array.cast::<PyUntypedArray>()?)
}

/// An array from another object: over the same memory if its owner offers that, a new one for lists and scalars.
fn as_array<'py>(py: Python<'py>, declared: Option<DType>, given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let numpy = numpy(py)?;
    let is_text = given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>();
    let is_plain = given.is_instance_of::<PyList>()
        || given.is_instance_of::<PyTuple>()
        || given.is_instance_of::<PyFloat>()
        || given.is_instance_of::<PyInt>()
        || given.is_instance_of::<PyBool>()
        || is_text
        || given.is_instance(&numpy.getattr("generic")?)?;
    if !is_plain {
        if !given.hasattr("__dlpack__")? {
            return numpy.call_method1("asarray", (given,));
        }
        // numpy takes no bfloat16 from DLPack.
        return match declared {
            Some(DType::BF16) => py.import("kiln._dlpack")?.call_method1("array_of", (given,)),
            _ => numpy.call_method1("from_dlpack", (given,)),
        };
    }
    // Lists and scalars have no element type of their own, and become what the model declares.
    let options = PyDict::new(py);
    if let Some(dtype) = declared {
        options.set_item("dtype", descriptor(py, dtype)?)?;
    }
    numpy.call_method("asarray", (given,), Some(&options))
}

fn take_array<'py>(py: Python<'py>, port: &kiln::Port, array: &Bound<'py, PyUntypedArray>) -> PyResult<Tensor> {
    let descr = array.dtype();
    if matches!(descr.kind(), b'U' | b'S' | b'O') {
        return match port.dtype {
            Some(declared) if declared != DType::String => {
                let found = if descr.kind() == b'O' { "an array of objects" } else { "string" };
                let reason = format!("expected {}, got {found}", type_name(declared));
                Err(errors::input(py, &port.name, reason, None))
            }
            _ => take_strings(py, port, array),
        };
    }
    let Some(dtype) = element_type(&descr)? else {
        return Err(errors::input(py, &port.name, format!("there are no tensors of numpy's {descr}"), None));
    };
    let spec = TensorSpec::new(dtype, array.shape().iter().copied());
    let refused = |error: kiln::TensorError| errors::input(py, &port.name, error, None);
    if matches!(dtype, DType::I4 | DType::U4 | DType::I2 | DType::U2) {
        // A byte for each element in both; the upper bits are defined by Kiln alone.
        let wide = if matches!(dtype, DType::I4 | DType::I2) { "int8" } else { "uint8" };
        let bytes = array.call_method1("astype", (wide, "C"))?;
        return arrays::lend(bytes.cast::<PyUntypedArray>()?, spec).map_err(refused);
    }
    let as_it_is = array.is_c_contiguous() && array.is_aligned() && descr.is_native_byteorder() != Some(false);
    if as_it_is {
        return arrays::lend(array, spec).map_err(refused);
    }
    let options = PyDict::new(py);
    options.set_item("dtype", descriptor(py, dtype)?)?;
    options.set_item("order", "C")?;
    options.set_item("copy", true)?;
    let copy = numpy(py)?.call_method("array", (array,), Some(&options))?;
    arrays::lend(copy.cast::<PyUntypedArray>()?, spec).map_err(refused)
}

fn take_strings(py: Python<'_>, port: &kiln::Port, array: &Bound<'_, PyUntypedArray>) -> PyResult<Tensor> {
    let list = array.call_method0("ravel")?.call_method0("tolist")?;
    let mut texts = Vec::with_capacity(array.len());
    for element in list.try_iter()? {
        let element = element?;
        let text = match element.cast::<PyBytes>() {
            Ok(bytes) => std::str::from_utf8(bytes.as_bytes()).map(str::to_owned).map_err(|error| error.to_string()),
            Err(_) => match element.cast::<PyString>() {
                Ok(text) => text.to_cow().map(std::borrow::Cow::into_owned).map_err(|error| error.to_string()),
                Err(_) => Err(format!("expected texts, got {}", element.get_type().name()?)),
            },
        };
        texts.push(text.map_err(|reason| errors::input(py, &port.name, reason, None))?);
    }
    let shape = array.shape().iter().copied();
    Tensor::from_strings(shape, texts).map_err(|error| errors::input(py, &port.name, error, None))
}

/// The Python value of an output.
pub(crate) fn give(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    match value {
        Value::Tensor(tensor) => give_tensor(py, tensor),
        Value::Sequence(tensors) => {
            let tensors = std::sync::Arc::unwrap_or_clone(tensors);
            let list = PyList::empty(py);
            for tensor in tensors {
                list.append(give_tensor(py, tensor)?)?;
            }
            Ok(list.into_any())
        }
        Value::Map(map) => give_map(py, &map),
        Value::Maps(maps) => {
            let list = PyList::empty(py);
            for map in maps.iter() {
                list.append(give_map(py, map)?)?;
            }
            Ok(list.into_any())
        }
        Value::Nothing => Ok(py.None().into_bound(py)),
    }
}

/// A dict of plain numbers and texts.
fn give_map<'py>(py: Python<'py>, map: &Map) -> PyResult<Bound<'py, PyAny>> {
    let listed = |tensor: &Tensor| give_tensor(py, tensor.clone())?.call_method0("tolist");
    let (keys, values) = (listed(map.keys())?, listed(map.values())?);
    let dict = PyDict::new(py);
    for (key, value) in keys.try_iter()?.zip(values.try_iter()?) {
        dict.set_item(key?, value?)?;
    }
    Ok(dict.into_any())
}

fn give_tensor(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    match tensor.dtype() {
        DType::String => {
            let shape = PyTuple::new(py, tensor.shape())?;
            let texts = PyList::new(py, tensor.as_strings().unwrap_or_default())?;
            let array = numpy(py)?.call_method1("empty", (shape, "object"))?;
            array.getattr("flat")?.set_item(pyo3::types::PySlice::full(py), texts)?;
            Ok(array)
        }
        dtype @ (DType::I4 | DType::U4 | DType::I2 | DType::U2) => {
            let signed = matches!(dtype, DType::I4 | DType::I2);
            let wide = if signed { numpy::dtype::<i8>(py) } else { numpy::dtype::<u8>(py) };
            arrays::array(py, tensor, wide)?.call_method1("astype", (descriptor(py, dtype)?,))
        }
        dtype => arrays::array(py, tensor, descriptor(py, dtype)?),
    }
}
