//! Checks of a node's arguments: present inputs, axes, indices, lists of integers, broadcast shapes.
//!
//! Every mistake of a model or a caller about shapes is refused here, with a message that says what was found. Knows
//! tensors and their specs, no single operator. [`super::view`] iterates over accepted shapes.

use kiln_model::{Attr, NodeDesc};
use kiln_run::NodeError;
use kiln_run::node::Specs;
use kiln_tensor::{DType, Shape, Tensor, TensorSpec};
use smallvec::SmallVec;

use super::OpError;

/// Axes of a tensor, checked.
pub(crate) type Axes = SmallVec<[usize; 6]>;

/// The element type that an integer attribute names; `None` where the attribute is absent and has no default.
pub(crate) fn type_attribute(node: &NodeDesc, name: &str) -> Result<Option<DType>, OpError> {
    match (node.attrs.get(name), node.attributes().integer(name)) {
        (None | Some(Attr::Int(_)), None) => Ok(None),
        (None | Some(Attr::Int(_)), Some(number)) => match DType::of_onnx(number) {
            None => Err(OpError::unsupported(node, format!("{name} = element type number {number}"))),
            known => Ok(known),
        },
        _ => Err(OpError::invalid(node, format!("attribute {name} must name an element type"))),
    }
}

/// The element type that an integer attribute has to name.
pub(crate) fn named_type(node: &NodeDesc, name: &str) -> Result<DType, OpError> {
    let named = type_attribute(node, name)?;
    named.ok_or_else(|| OpError::invalid(node, format!("attribute {name} must name an element type")))
}

/// An integer attribute that has to be there and at least `least`.
pub(crate) fn size_attribute(node: &NodeDesc, name: &str, least: usize) -> Result<usize, OpError> {
    let given = node.attributes().integer(name).ok_or_else(|| OpError::invalid(node, format!("no {name}")))?;
    let size = usize::try_from(given).ok().filter(|&size| size >= least);
    size.ok_or_else(|| OpError::invalid(node, format!("{name} = {given}")))
}

/// The error of an input that cannot be used.
pub(crate) fn refused(reason: impl Into<String>) -> NodeError {
    NodeError::Input(reason.into())
}

/// Input number `index`; an error where it is absent.
pub(crate) fn required<'t>(inputs: &[Option<&'t Tensor>], index: usize) -> Result<&'t Tensor, NodeError> {
    optional(inputs, index).ok_or_else(|| refused(format!("input {index} is missing")))
}

/// Input number `index`, if it is present.
pub(crate) fn optional<'t>(inputs: &[Option<&'t Tensor>], index: usize) -> Option<&'t Tensor> {
    inputs.get(index).copied().flatten()
}

/// The spec of a single output, whose elements can be counted.
pub(crate) fn one(dtype: DType, shape: impl IntoIterator<Item = usize>) -> Result<Specs, NodeError> {
    let mut specs = Specs::new();
    specs.push(counted(dtype, shape)?);
    Ok(specs)
}

/// A spec whose elements can be counted.
pub(crate) fn counted(dtype: DType, shape: impl IntoIterator<Item = usize>) -> Result<TensorSpec, NodeError> {
    let spec = TensorSpec::new(dtype, shape);
    spec.elements()?;
    Ok(spec)
}

/// An axis counted from the end where it is negative.
pub(crate) fn axis_of(axis: i64, rank: usize) -> Result<usize, NodeError> {
    let from_start = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    from_start
        .and_then(|axis| usize::try_from(axis).ok())
        .filter(|&axis| axis < rank)
        .ok_or_else(|| refused(format!("axis {axis} does not exist in a tensor of rank {rank}")))
}

/// Axes counted from the end where they are negative, each named once.
pub(crate) fn axes_of(axes: &[i64], rank: usize) -> Result<Axes, NodeError> {
    let mut found = Axes::new();
    for &axis in axes {
        let checked = axis_of(axis, rank)?;
        if found.contains(&checked) {
            return Err(refused(format!("axis {axis} is named twice in {axes:?}")));
        }
        found.push(checked);
    }
    Ok(found)
}

/// An index into `size` elements, counted from the end where it is negative.
pub(crate) fn index_of(index: i64, size: usize) -> Result<usize, NodeError> {
    let from_start = if index < 0 { index.checked_add(size as i64) } else { Some(index) };
    from_start
        .and_then(|index| usize::try_from(index).ok())
        .filter(|&index| index < size)
        .ok_or_else(|| refused(format!("index {index} is outside of 0..{size}")))
}

/// The elements of a scalar or a list of integers: axes, shapes, starts, repeats.
pub(crate) fn integers(tensor: &Tensor) -> Result<Vec<i64>, NodeError> {
    if tensor.shape().len() > 1 {
        return Err(refused(format!("expected a list of integers, found a tensor of shape {:?}", tensor.shape())));
    }
    Ok(tensor.to_i64_vec()?)
}

/// The single integer in a tensor.
pub(crate) fn integer(tensor: &Tensor) -> Result<i64, NodeError> {
    match tensor.to_i64_vec()?.as_slice() {
        &[value] => Ok(value),
        values => Err(refused(format!("expected one integer, found {}", values.len()))),
    }
}

/// Dimensions that are not negative.
pub(crate) fn dimensions(values: &[i64]) -> Result<Shape, NodeError> {
    values
        .iter()
        .map(|&value| usize::try_from(value).map_err(|_| refused(format!("{value} is no dimension in {values:?}"))))
        .collect()
}

/// The shape that all of `shapes` broadcast to, after numpy: aligned at the end, ones stretch.
pub(crate) fn broadcast<'s>(shapes: impl IntoIterator<Item = &'s [usize]>) -> Result<Shape, NodeError> {
    let mut whole = Shape::new();
    for shape in shapes {
        if shape.len() > whole.len() {
            let missing = shape.len() - whole.len();
            whole.insert_many(0, std::iter::repeat_n(1, missing));
        }
        let offset = whole.len() - shape.len();
        for (have, &dim) in whole[offset..].iter_mut().zip(shape) {
            match (*have, dim) {
                (a, b) if a == b || b == 1 => {}
                (1, b) => *have = b,
                _ => return Err(refused(format!("shape {shape:?} does not broadcast with {whole:?}"))),
            }
        }
    }
    Ok(whole)
}

/// Elements between neighbours along each axis of a dense tensor. The shape's elements must have been counted before.
pub(crate) fn strides(shape: &[usize]) -> Shape {
    let mut strides: Shape = std::iter::repeat_n(1, shape.len()).collect();
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    strides
}

/// A dense tensor seen around one axis: the product of the dimensions before it, its size, the product of those after.
pub(crate) fn around(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    (shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_and_indices_count_from_either_end_and_never_overflow() {
        for (axis, rank, expected) in [(0, 1, Some(0)), (-1, 3, Some(2)), (-3, 3, Some(0)), (3, 3, None), (0, 0, None)]
        {
            assert_eq!(axis_of(axis, rank).ok(), expected, "{axis} of {rank}");
            assert_eq!(index_of(axis, rank).ok(), expected, "{axis} of {rank}");
        }
        for extreme in [i64::MIN, i64::MAX] {
            assert!(axis_of(extreme, 4).is_err() && index_of(extreme, 4).is_err());
        }
        assert!(axes_of(&[0, -2], 2).is_err(), "both name axis 0");
    }

    #[test]
    fn shapes_broadcast_as_in_numpy() {
        let cases: &[(&[&[usize]], Option<&[usize]>)] = &[
            (&[&[], &[]], Some(&[])),
            (&[&[3], &[]], Some(&[3])),
            (&[&[2, 1], &[3]], Some(&[2, 3])),
            (&[&[1], &[0]], Some(&[0])),
            (&[&[4, 1, 2], &[5, 1], &[1]], Some(&[4, 5, 2])),
            (&[&[2], &[3]], None),
            (&[&[0], &[2]], None),
        ];
        for (shapes, expected) in cases {
            let found = broadcast(shapes.iter().copied());
            assert_eq!(found.ok().as_deref(), *expected, "{shapes:?}");
        }
    }
}
