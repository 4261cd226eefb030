//! Operators that keep every element in its place: Identity, Reshape, Flatten, Squeeze, Unsqueeze.
//!
//! They copy nothing: an output is a view of the input's bytes under another shape. What is computed here is shapes.

use super::{LoadCx, OpError, Operator, axes_of, axis_of, integers, one, optional, refused, required};
#[cfg(feature = "device")]
use crate::graph::DeviceCx;
use crate::graph::node::Specs;
use crate::graph::{Io, Node, NodeDesc, NodeError, Prepared, RunCx};
use crate::tensor::{DType, Shape, Tensor, TensorSpec};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "Identity", |cx| make(cx, Form::Identity)),
    ("", "Reshape", |cx| make(cx, Form::Reshape { keep_zeros: cx.node.int("allowzero", 0) != 0 })),
    ("", "Flatten", |cx| make(cx, Form::Flatten { axis: cx.node.int("axis", 1) })),
    ("", "Squeeze", |cx| make(cx, Form::Squeeze { axes: fixed_axes(cx.node) })),
    ("", "Unsqueeze", |cx| make(cx, Form::Unsqueeze { axes: fixed_axes(cx.node) })),
];

/// How the output's shape follows from the input's.
enum Form {
    Identity,
    Reshape {
        keep_zeros: bool,
    },
    Flatten {
        axis: i64,
    },
    /// Axes of the attribute; without them, those of input 1.
    Squeeze {
        axes: Option<Vec<i64>>,
    },
    Unsqueeze {
        axes: Option<Vec<i64>>,
    },
}

struct Reshaping(Form);

fn make(_: &LoadCx<'_>, form: Form) -> Result<Box<dyn Node>, OpError> {
    Ok(Box::new(Reshaping(form)))
}

/// Before operator set 13 axes were an attribute.
fn fixed_axes(node: &NodeDesc) -> Option<Vec<i64>> {
    node.ints("axes").map(<[i64]>::to_vec)
}

impl Form {
    fn shape(&self, inputs: &[Option<&Tensor>]) -> Result<Shape, NodeError> {
        let shape = required(inputs, 0)?.shape();
        match self {
            Form::Identity => Ok(Shape::from_slice(shape)),
            Form::Reshape { keep_zeros } => reshape(shape, &integers(required(inputs, 1)?)?, *keep_zeros),
            Form::Flatten { axis } => {
                // One past the last axis is allowed here.
                let axis = if *axis == shape.len() as i64 { shape.len() } else { axis_of(*axis, shape.len())? };
                Ok(Shape::from_slice(&[shape[..axis].iter().product(), shape[axis..].iter().product()]))
            }
            Form::Squeeze { axes } => squeeze(shape, axes_given(axes, inputs)?.as_deref()),
            Form::Unsqueeze { axes } => {
                let axes = axes_given(axes, inputs)?.ok_or_else(|| refused("no axes are given"))?;
                unsqueeze(shape, &axes)
            }
        }
    }
}

fn axes_given(fixed: &Option<Vec<i64>>, inputs: &[Option<&Tensor>]) -> Result<Option<Vec<i64>>, NodeError> {
    match (fixed, optional(inputs, 1)) {
        (Some(axes), _) => Ok(Some(axes.clone())),
        (None, Some(input)) => Ok(Some(integers(input)?)),
        (None, None) => Ok(None),
    }
}

/// The target with its 0 (copy the input's dimension) and -1 (whatever is left) resolved.
fn reshape(shape: &[usize], target: &[i64], keep_zeros: bool) -> Result<Shape, NodeError> {
    let error = || refused(format!("a tensor of shape {shape:?} cannot become {target:?}"));
    let mut result = Shape::new();
    let mut unknown = None;
    for (axis, &dim) in target.iter().enumerate() {
        result.push(match dim {
            -1 if unknown.is_none() => {
                unknown = Some(axis);
                1
            }
            0 if !keep_zeros => *shape.get(axis).ok_or_else(error)?,
            _ => usize::try_from(dim).map_err(|_| error())?,
        });
    }
    let known = TensorSpec::new(DType::U8, result.iter().copied()).elements()?;
    let count = TensorSpec::new(DType::U8, shape.iter().copied()).elements()?;
    let Some(axis) = unknown else { return if known == count { Ok(result) } else { Err(error()) } };
    // A size of 0 that is kept leaves nothing to divide by, but what the other sizes are divided into is as with any other
    // size in its place: an empty batch of pictures flattens like a full one.
    let kept = |axis: usize| !keep_zeros && target.get(axis) == Some(&0);
    let product = |sizes: &[usize], kept: &dyn Fn(usize) -> bool| {
        let others = sizes.iter().enumerate().filter(|(axis, _)| !kept(*axis));
        others.map(|(_, &size)| size).try_fold(1usize, usize::checked_mul)
    };
    let (whole, known) = match known {
        0 => product(shape, &kept).zip(product(&result, &kept)).ok_or_else(error)?,
        _ => (count, known),
    };
    if known == 0 || !whole.is_multiple_of(known) {
        return Err(error());
    }
    result[axis] = whole / known;
    Ok(result)
}

fn squeeze(shape: &[usize], axes: Option<&[i64]>) -> Result<Shape, NodeError> {
    let Some(axes) = axes else {
        return Ok(shape.iter().copied().filter(|&dim| dim != 1).collect());
    };
    let axes = axes_of(axes, shape.len())?;
    if let Some(axis) = axes.iter().find(|&&axis| shape[axis] != 1) {
        return Err(refused(format!("axis {axis} of shape {shape:?} is not 1")));
    }
    Ok(shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, &dim)| dim).collect())
}

fn unsqueeze(shape: &[usize], axes: &[i64]) -> Result<Shape, NodeError> {
    let rank = shape.len() + axes.len();
    let axes = axes_of(axes, rank)?;
    let mut old = shape.iter().copied();
    Ok((0..rank).map(|axis| if axes.contains(&axis) { 1 } else { old.next().unwrap_or(1) }).collect())
}

impl Node for Reshaping {
    fn family(&self) -> &'static str {
        match self.0 {
            Form::Identity => "Identity",
            Form::Reshape { .. } => "Reshape",
            Form::Flatten { .. } => "Flatten",
            Form::Squeeze { .. } => "Squeeze",
            Form::Unsqueeze { .. } => "Unsqueeze",
        }
    }

    fn value_inputs(&self) -> u64 {
        match &self.0 {
            Form::Identity | Form::Flatten { .. } => 0,
            Form::Squeeze { axes } | Form::Unsqueeze { axes } => u64::from(axes.is_none()) << 1,
            Form::Reshape { .. } => 1 << 1,
        }
    }

    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        let dtype = required(inputs, 0)?.dtype();
        let shape = self.0.shape(inputs)?;
        one(dtype, shape)
    }

    #[cfg(feature = "device")]
    fn prepare_device(&self, cx: &mut DeviceCx<'_>, _: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        cx.view(0, 0);
        Ok(())
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let shape = io.spec(0).shape.clone();
        let input = io.take(0)?;
        io.push(input.reshaped(shape)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
