//! Arrays to which outputs of a request are written.

use std::ops::Range;

use kiln::{DType, SessionError, Tensor, TensorSpec, Value};
use numpy::PyUntypedArray;
use numpy::prelude::*;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::{arrays, values};

/// An output and its array.
pub(crate) struct Binding<'py> {
    /// The output's place among the model's.
    pub(crate) place: usize,
    array: Bound<'py, PyUntypedArray>,
    spec: TensorSpec,
    /// Whether the model computes in the array.
    is_lent: bool,
}

/// Memory that a caller lends to a request.
#[derive(Default)]
pub(crate) struct Lent<'s> {
    /// Arrays that the model can compute in, by the names of outputs.
    pub(crate) memory: Vec<(&'s str, Tensor)>,
    /// Inputs that are the arrays of outputs, and these outputs.
    pub(crate) over: Vec<(String, &'s str)>,
}

/// The bindings of `out`. An input that is the array of an output is moved from `given` to the lent memory.
pub(crate) fn bind<'s, 'py>(
    session: &'s kiln::Session,
    out: &Bound<'py, PyDict>,
    given: &mut Vec<(String, Value)>,
    lent: &mut Lent<'s>,
) -> PyResult<Vec<Binding<'py>>> {
    let py = out.py();
    let of_inputs = |given: &[(String, Value)]| -> Vec<Range<usize>> {
        given.iter().flat_map(|(_, value)| addresses(value)).collect()
    };
    let mut taken: Vec<Range<usize>> = Vec::new();
    let mut bindings = Vec::with_capacity(out.len());
    for (name, array) in out {
        let name: String = name.extract()?;
        let refused = |reason: String| errors::output(py, &name, reason);
        let ports = session.outputs();
        let Some(place) = ports.iter().position(|port| port.name == name) else {
            return Err(errors::no_output(py, session, &name));
        };
        let Ok(array) = array.cast_into::<PyUntypedArray>() else {
            return Err(refused("it is written to arrays of numpy's only".to_owned()));
        };
        if !arrays::is_writable(&array) {
            return Err(refused("its array is read-only".to_owned()));
        }
        let descr = array.dtype();
        let dtype = if descr.kind() == b'O' { Some(DType::String) } else { values::element_type(&descr)? };
        let Some(dtype) = dtype else { return Err(refused(format!("there are no tensors of numpy's {descr}"))) };
        let spec = TensorSpec::new(dtype, array.shape().iter().copied());
        // The upper bits of small integers in a byte are defined by Kiln alone.
        let is_plain = !matches!(dtype, DType::String | DType::I4 | DType::U4 | DType::I2 | DType::U2)
            && descr.is_native_byteorder() != Some(false);
        let mut is_lent = false;
        if is_plain {
            // An input that is the same array may be written, if no other value of the request lies there. It is
            // dropped before the array is lent for writing.
            let same = given.iter().position(|(name, value)| is_input_at(session, name, value, &array, &spec));
            let same = same.map(|at| (at, given.remove(at)));
            let others: Vec<Range<usize>> = of_inputs(given).into_iter().chain(taken.iter().cloned()).collect();
            let same = same.map(|(at, (name, value))| {
                drop(value);
                (at, name)
            });
            let tensor = arrays::lend_mut(&array, spec.clone(), &others).map_err(|error| refused(error.to_string()))?;
            match (tensor, same) {
                (Some(tensor), same) => {
                    is_lent = true;
                    taken.push(range(&tensor));
                    lent.memory.push((&ports[place].name, tensor));
                    lent.over.extend(same.map(|(_, name)| (name, ports[place].name.as_str())));
                }
                (None, Some((at, name))) => {
                    let read = arrays::lend(&array, spec.clone()).map_err(|error| refused(error.to_string()))?;
                    given.insert(at, (name, Value::Tensor(read)));
                }
                (None, None) => {}
            }
        }
        bindings.push(Binding { place, array, spec, is_lent });
    }
    Ok(bindings)
}

impl<'py> Binding<'py> {
    /// The array with the output in it.
    pub(crate) fn fill(self, session: &kiln::Session, value: Value) -> PyResult<Bound<'py, PyAny>> {
        let (py, name) = (self.array.py(), &session.outputs()[self.place].name);
        if self.is_lent {
            return Ok(self.array.into_any());
        }
        let made = value.into_tensor().map_err(|error| errors::output(py, name, error))?;
        if *made.spec() != self.spec {
            let (made, bound) = (made.spec().clone(), self.spec);
            return Err(errors::session(py, &SessionError::Bound { name: name.clone(), bound, made }));
        }
        let made = values::give(py, Value::Tensor(made))?;
        values::numpy(py)?.call_method1("copyto", (&self.array, made))?;
        Ok(self.array.into_any())
    }
}

/// Whether an input is the elements of that array, under the same type and shape.
fn is_input_at(
    session: &kiln::Session,
    name: &str,
    value: &Value,
    array: &Bound<'_, PyUntypedArray>,
    spec: &TensorSpec,
) -> bool {
    let has_default = session.inputs().iter().any(|port| port.name == name && port.has_default);
    let is_there = |tensor: &Tensor| tensor.spec() == spec && arrays::is_at(array, tensor);
    !has_default && value.as_tensor().is_some_and(is_there)
}

/// Where the elements of a value's tensors lie.
fn addresses(value: &Value) -> Vec<Range<usize>> {
    let of_map = |map: &kiln::Map| vec![range(map.keys()), range(map.values())];
    match value {
        Value::Tensor(tensor) => vec![range(tensor)],
        Value::Sequence(tensors) => tensors.iter().map(range).collect(),
        Value::Map(map) => of_map(map),
        Value::Maps(maps) => maps.iter().flat_map(of_map).collect(),
        Value::Nothing => Vec::new(),
    }
}

fn range(tensor: &Tensor) -> Range<usize> {
    let bytes = tensor.bytes().as_ptr_range();
    bytes.start.addr()..bytes.end.addr()
}
