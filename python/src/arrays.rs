//! Memory that numpy and Kiln share: an array's elements as a tensor, and a tensor's as an array. The only file of the
//! package with unsafe code.

use std::ffi::c_int;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};

use kiln::{Tensor, TensorError, TensorSpec};
use kiln_kernels::extent::{Foreign, ForeignMut};
use numpy::npyffi::{
    _PyArray_GET_ITEM_DATA, NPY_ARRAY_CARRAY, NPY_ARRAY_WRITEABLE, NpyTypes, PyArrayObject, get_type_object, npy_intp,
};
use numpy::prelude::*;
use numpy::{PY_ARRAY_API, PyArrayDescr, PyUntypedArray};
use pyo3::prelude::*;

/// Keeps the memory of an array's elements.
#[pyclass(frozen, module = "kiln._kiln")]
struct Memory {
    _tensor: Tensor,
}

/// A tensor over the elements of an array in C order, which it keeps alive. They are read in place, also after the
/// interpreter's lock is released: a program that writes to an array while a request reads it gets outputs from old or
/// new elements.
pub(crate) fn lend(array: &Bound<'_, PyUntypedArray>, spec: TensorSpec) -> Result<Tensor, TensorError> {
    let Some(Elements { start, bytes }) = elements(array, &spec)? else { return Tensor::from_bytes(spec, &[]) };
    // SAFETY: the elements of an array in C order are `bytes` initialised bytes from `start` on, of one allocation,
    // which lives as long as the array, and so as long as the reference that owns it here. The documents ask callers
    // not to write them while a request reads them, like other libraries that compute without the lock.
    let lent = unsafe { Foreign::new(start, bytes, array.clone().unbind()) };
    Tensor::from_foreign(spec, lent)
}

/// A tensor over the elements of a writable array in C order, which it keeps alive, to be written in place. `None` for
/// other arrays or arrays without elements, and where an element is one of `others`, which the request reads or writes
/// too.
pub(crate) fn lend_mut(
    array: &Bound<'_, PyUntypedArray>,
    spec: TensorSpec,
    others: &[Range<usize>],
) -> Result<Option<Tensor>, TensorError> {
    let Some(Elements { start, bytes }) = elements(array, &spec)? else { return Ok(None) };
    let own = start.addr().get()..start.addr().get() + bytes;
    let is_apart = others.iter().all(|other| other.end <= own.start || own.end <= other.start);
    if !(is_apart && is_writable(array) && own.start.is_multiple_of(spec.dtype.size())) {
        return Ok(None);
    }
    // SAFETY: as in `lend`, and the array is writable. The request reads or writes no other value there, as was checked
    // above. The documents ask callers to keep other threads from using the elements while a request runs.
    let lent = unsafe { ForeignMut::new(start, bytes, array.clone().unbind()) };
    Tensor::from_foreign_mut(spec, lent).map(Some)
}

/// Whether the array's elements may be written.
pub(crate) fn is_writable(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: `array` is an array object, and the interpreter's lock is held.
    unsafe { (*_PyArray_GET_ITEM_DATA(array.as_array_ptr())).flags & NPY_ARRAY_WRITEABLE != 0 }
}

/// Whether a tensor with at least one element, and of the same size, has the elements of an array in C order.
pub(crate) fn is_at(array: &Bound<'_, PyUntypedArray>, tensor: &Tensor) -> bool {
    let found = elements(array, tensor.spec()).ok().flatten();
    found.is_some_and(|found| found.start.as_ptr().addr() == tensor.bytes().as_ptr().addr())
}

/// Where an array's elements lie.
struct Elements {
    start: NonNull<u8>,
    bytes: usize,
}

/// The elements of an array in C order; `None` for another order, another number of bytes than `spec` has, or no
/// elements.
fn elements(array: &Bound<'_, PyUntypedArray>, spec: &TensorSpec) -> Result<Option<Elements>, TensorError> {
    let bytes = spec.elements()?.saturating_mul(spec.dtype.size());
    let whole = array.is_c_contiguous() && array.len() * array.dtype().itemsize() == bytes;
    // SAFETY: `array` is an array object, and the interpreter's lock is held.
    let data = unsafe { (*_PyArray_GET_ITEM_DATA(array.as_array_ptr())).data };
    let start = NonNull::new(data.cast::<u8>()).filter(|_| whole && bytes > 0);
    Ok(start.map(|start| Elements { start, bytes }))
}

/// A writable array of that element type over the tensor's memory, which lives as long as the array or any view of it.
/// It is a copy if the memory has other owners: an input that a model returns, or a constant.
pub(crate) fn array<'py>(
    py: Python<'py>,
    mut tensor: Tensor,
    dtype: Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyAny>> {
    assert_eq!(dtype.itemsize(), tensor.dtype().size(), "an element type of numpy's is as wide as Kiln's");
    let mut dims: Vec<npy_intp> = tensor.shape().iter().map(|&size| size.cast_signed()).collect();
    let rank = c_int::try_from(dims.len()).unwrap_or(c_int::MAX);
    // A copy, if necessary, is made here: from now on only this tensor owns the memory.
    let data = tensor.bytes_mut().as_mut_ptr();
    let memory = Bound::new(py, Memory { _tensor: tensor })?;
    // SAFETY: `dims` are the tensor's own. Its bytes lie at `data`, aligned for their type, and stay there while
    // `memory` holds the tensor, which no other code reads or writes. numpy takes over the reference to `dtype`, and a
    // rank beyond what it supports is an error of its own.
    let array = unsafe {
        let class = get_type_object(py, NpyTypes::PyArray_Type);
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            class,
            dtype.into_dtype_ptr(),
            rank,
            dims.as_mut_ptr(),
            null_mut(),
            data.cast(),
            NPY_ARRAY_CARRAY,
            null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, array)?
    };
    // SAFETY: `array` is the array just made, which has no base yet; numpy takes over the reference to `memory`, also
    // where it fails.
    let failed = unsafe {
        PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast::<PyArrayObject>(), memory.into_any().into_ptr())
    };
    if failed < 0 { Err(PyErr::fetch(py)) } else { Ok(array) }
}
