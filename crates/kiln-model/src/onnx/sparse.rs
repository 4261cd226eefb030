//! Import of sparse tensors, initialisers and values of `Constant`, as the dense tensors that operators read.

use kiln_tensor::{DType, Shape, Tensor, TensorError, TensorSpec};

use super::proto::SparseTensorProto;
use super::tensor::import_tensor;
use super::{External, Limits, ModelError};

/// The dense form of a sparse tensor. `values` has its elements other than zero, and `indices` their places: one number
/// each, which counts elements in row-major order, or one number each and dimension.
///
/// # Errors
///
/// Those of [`import_tensor`] for its values and indices; [`ModelError::Malformed`] where these do not fit each other
/// or the dimensions; [`TensorProblem::Memory`](super::TensorProblem::Memory) where the dense form is too large for what
/// the file has of it.
pub(super) fn import_sparse(
    proto: &SparseTensorProto,
    limits: &Limits,
    external: &mut External,
    place: &dyn Fn() -> String,
) -> Result<Tensor, ModelError> {
    let wrong = |reason: String| ModelError::Malformed { place: place(), reason };
    let mut part = |tensor: &Option<_>, name: &str| match tensor {
        Some(tensor) => import_tensor(tensor, limits, external, &|| format!("the {name} of {}", place())),
        None => Err(wrong(format!("a sparse tensor without {name}"))),
    };
    let (values, indices) = (part(&proto.values, "values")?, part(&proto.indices, "indices")?);
    limits.check("the number of dimensions", proto.dims.len() as u64, limits.rank as u64, place)?;
    let sizes: Option<Shape> = proto.dims.iter().map(|&size| usize::try_from(size).ok()).collect();
    let sizes = sizes.ok_or_else(|| wrong(format!("dimensions {:?} are not a shape", proto.dims)))?;
    let spec = TensorSpec { dtype: values.dtype(), shape: sizes.clone() };
    let bytes = spec.elements().ok().and_then(|count| count.checked_mul(spec.dtype.size()));
    let bytes = bytes.ok_or_else(|| wrong(format!("dimensions {:?} are not a shape", proto.dims)))?;
    if spec.dtype == DType::String {
        return Err(wrong("sparse tensors of texts are not supported".to_owned()));
    }
    let stored = (values.bytes().len() + indices.bytes().len()) as u64;
    let claimed = external.claims.add_dense(bytes as u64, stored);
    claimed.map_err(|problem| ModelError::Tensor { place: place(), problem })?;

    let each = match indices.shape() {
        [_] => 1,
        [_, each] if *each == sizes.len() => *each,
        shape => return Err(wrong(format!("indices of shape {shape:?} for dimensions {:?}", proto.dims))),
    };
    let linear = indices.shape().len() == 1;
    let places = indices.as_slice::<i64>().map_err(|error| wrong(format!("its indices: {error}")))?;
    if values.shape() != [indices.shape()[0]] {
        let (values, indices) = (values.shape(), indices.shape());
        return Err(wrong(format!("values of shape {values:?} for indices of shape {indices:?}")));
    }
    let size = spec.dtype.size();
    let mut dense = Tensor::zeros(spec).map_err(|error| match error {
        TensorError::Refused(refused) => refused.raise(),
        error => wrong(error.to_string()),
    })?;
    let elements = dense.bytes_mut();
    for (value, coordinates) in values.bytes().chunks(size).zip(places.chunks(each.max(1))) {
        let sizes: &[usize] = if linear { &[bytes / size] } else { &sizes };
        let at = row_major(coordinates, sizes)
            .ok_or_else(|| wrong(format!("index {coordinates:?} is not in a tensor of dimensions {:?}", proto.dims)))?;
        elements[at * size..(at + 1) * size].copy_from_slice(value);
    }
    Ok(dense)
}

/// The number of the element at these coordinates in row-major order, if there is one.
fn row_major(coordinates: &[i64], sizes: &[usize]) -> Option<usize> {
    let mut at = 0usize;
    for (&coordinate, &size) in coordinates.iter().zip(sizes) {
        at = at * size + usize::try_from(coordinate).ok().filter(|&coordinate| coordinate < size)?;
    }
    Some(at)
}
