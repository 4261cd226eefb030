//! Sequences of tensors: made, split and joined, changed and read. SequenceMap runs its body on one element after the
//! other.
//!
//! A sequence that no other value shares is changed in place, so that a loop that inserts into one stays linear.

use kiln_kernels::memory::{self, Collect};
use kiln_model::Value;
use kiln_run::{Body, Flow, FlowCx, NodeError};
use kiln_tensor::{DType, Shape, Tensor, TensorSpec};

use super::{
    Blocks, FlowLoad, FlowOperator, OpError, around, axis_of, dimensions, index_of, integer, join, joined_spec,
    rearrange, refused, stack,
};

/// The operators of this file.
pub(super) const OPERATORS: &[FlowOperator] = &[
    ("", "SequenceEmpty", |_| simple(Form::Empty)),
    ("", "SequenceConstruct", |_| simple(Form::Construct)),
    ("", "SequenceInsert", |_| simple(Form::Insert)),
    ("", "SequenceErase", |_| simple(Form::Erase)),
    ("", "SequenceAt", |_| simple(Form::At)),
    ("", "SequenceLength", |_| simple(Form::Length)),
    ("", "SplitToSequence", |load| {
        simple(Form::Split {
            axis: load.node.attributes().int("axis"),
            keep: load.node.attributes().int("keepdims") != 0,
        })
    }),
    ("", "ConcatFromSequence", |load| match load.node.attrs.contains_key("axis") {
        true => simple(Form::Concat {
            axis: load.node.attributes().int("axis"),
            new: load.node.attributes().int("new_axis") != 0,
        }),
        false => Err(OpError::invalid(load.node, "an axis is needed")),
    }),
    ("", "SequenceMap", make_map),
];

/// The operators without a body.
enum Form {
    Empty,
    Construct,
    Insert,
    Erase,
    At,
    Length,
    Split {
        axis: i64,
        /// Whether elements of one slice keep the axis.
        keep: bool,
    },
    Concat {
        axis: i64,
        /// Whether the elements are joined along an axis that they do not have.
        new: bool,
    },
}

fn simple(form: Form) -> Result<Box<dyn Flow>, OpError> {
    Ok(Box::new(form))
}

/// The inputs of a node, one after the other.
struct Inputs(std::vec::IntoIter<Option<Value>>);

impl Inputs {
    fn optional(&mut self) -> Option<Value> {
        self.0.next().flatten()
    }

    fn value(&mut self, what: &str) -> Result<Value, NodeError> {
        self.optional().ok_or_else(|| refused(format!("{what} is missing")))
    }

    fn sequence(&mut self) -> Result<Vec<Tensor>, NodeError> {
        Ok(self.value("the sequence")?.into_sequence()?)
    }

    fn position(&mut self) -> Result<Option<i64>, NodeError> {
        self.optional().map(|value| integer(&value.into_tensor()?)).transpose()
    }
}

impl Flow for Form {
    fn family(&self) -> &'static str {
        match self {
            Form::Empty => "SequenceEmpty",
            Form::Construct => "SequenceConstruct",
            Form::Insert => "SequenceInsert",
            Form::Erase => "SequenceErase",
            Form::At => "SequenceAt",
            Form::Length => "SequenceLength",
            Form::Split { .. } => "SplitToSequence",
            Form::Concat { .. } => "ConcatFromSequence",
        }
    }

    fn run(&self, inputs: Vec<Option<Value>>, cx: &mut FlowCx<'_>) -> Result<Vec<Value>, NodeError> {
        let mut inputs = Inputs(inputs.into_iter());
        let made = match self {
            Form::Empty => Value::sequence(Vec::new()),
            Form::Construct => {
                let tensors = inputs.0.flatten().map(Value::into_tensor).try_collected()?;
                of_one_type(tensors.iter())?;
                Value::sequence(tensors)
            }
            Form::Insert => {
                let (mut tensors, new) = (inputs.sequence()?, inputs.value("the tensor")?.into_tensor()?);
                of_one_type(tensors.first().into_iter().chain([&new]))?;
                // The place behind the last element is valid, too.
                let place = inputs.position()?.map(|place| match place {
                    place if place == tensors.len() as i64 => Ok(tensors.len()),
                    place => index_of(place, tensors.len()),
                });
                tensors.insert(place.transpose()?.unwrap_or(tensors.len()), new);
                Value::sequence(tensors)
            }
            Form::Erase => {
                let mut tensors = inputs.sequence()?;
                tensors.remove(index_of(inputs.position()?.unwrap_or(-1), tensors.len())?);
                Value::sequence(tensors)
            }
            Form::At => {
                let sequence = inputs.value("the sequence")?;
                let Value::Sequence(tensors) = &sequence else { return Err(sequence.is_no("a sequence").into()) };
                let place = inputs.position()?.ok_or_else(|| refused("the position is missing"))?;
                tensors[index_of(place, tensors.len())?].clone().into()
            }
            Form::Length => {
                let sequence = inputs.value("the sequence")?;
                let Value::Sequence(tensors) = &sequence else { return Err(sequence.is_no("a sequence").into()) };
                Tensor::scalar(tensors.len() as i64).into()
            }
            Form::Split { axis, keep } => {
                let tensor = inputs.value("the tensor")?.into_tensor()?;
                let split = inputs.optional().map(Value::into_tensor).transpose()?;
                Value::sequence(divide(&tensor, split.as_ref(), *axis, *keep, cx)?)
            }
            Form::Concat { axis, new } => {
                let tensors = inputs.sequence()?;
                if tensors.is_empty() {
                    return Err(refused("an empty sequence has nothing to join"));
                }
                match new {
                    true => stack(&tensors, *axis, cx)?.into(),
                    false => {
                        let parts: Vec<&Tensor> = tensors.iter().collected();
                        join(&parts, *axis, cx.alloc(joined_spec(&parts, *axis)?)?, cx.parallel())?.into()
                    }
                }
            }
        };
        Ok(vec![made])
    }
}

/// An error unless all tensors are of one element type.
fn of_one_type<'t>(tensors: impl IntoIterator<Item = &'t Tensor>) -> Result<(), NodeError> {
    let mut first: Option<DType> = None;
    for tensor in tensors {
        match *first.get_or_insert(tensor.dtype()) {
            first if first == tensor.dtype() => {}
            first => return Err(refused(format!("a sequence of {first} takes no tensor of {}", tensor.dtype()))),
        }
    }
    Ok(())
}

/// Parts of a tensor along an axis: single slices, parts of one size (the last may be smaller), or of the sizes given.
///
/// By the standard, parts of a given size keep the axis. torch writes `unbind` as parts of the size 1 that do not keep
/// it, and ONNX Runtime follows it, so single slices lose the axis where the node says so, whatever made them single.
fn divide(
    tensor: &Tensor,
    split: Option<&Tensor>,
    axis: i64,
    keep: bool,
    cx: &FlowCx<'_>,
) -> Result<Vec<Tensor>, NodeError> {
    let axis = axis_of(axis, tensor.shape().len())?;
    let (_, size, inner) = around(tensor.shape(), axis);
    let each = match split {
        None => Some(1),
        Some(split) if split.shape().is_empty() => {
            let each = usize::try_from(integer(split)?).ok().filter(|&each| each > 0);
            Some(each.ok_or_else(|| refused("parts must have a positive size"))?)
        }
        Some(_) => None,
    };
    let parts = each.map_or_else(|| split.map_or(0, Tensor::len), |each| size.div_ceil(each));
    // Slices without elements cost memory too, and a few bytes can name any number of slices.
    cx.budget().gather((parts as u64).saturating_mul(size_of::<Tensor>() as u64))?;
    let sizes: Vec<usize> = match (each, split) {
        (Some(each), _) => (0..parts).map(|part| each.min(size - part * each)).collected(),
        (None, split) => {
            // A list of any rank, as in ONNX Runtime.
            let given = split.map(Tensor::to_i64_vec).transpose()?.unwrap_or_default();
            let sizes = dimensions(&given)?;
            let sum = sizes.iter().try_fold(0usize, |sum, &part| sum.checked_add(part));
            if sum != Some(size) {
                return Err(refused(format!("{given:?} does not split {size}")));
            }
            sizes.into_vec()
        }
    };
    let mut start = 0;
    let part = |count: usize| {
        let mut shape = Shape::from_slice(tensor.shape());
        match each == Some(1) && !keep {
            true => drop(shape.remove(axis)),
            false => shape[axis] = count,
        }
        let places = (start..start + count).collected();
        start += count;
        cx.check_stop()?;
        let to = cx.alloc(TensorSpec { dtype: tensor.dtype(), shape })?;
        rearrange(&Blocks { places, size, inner }.copied(cx.parallel()), &[tensor], to)
    };
    sizes.into_iter().map(part).try_collected()
}

struct Map {
    body: Body,
    /// Inputs of the node before the captured ones: the sequence, and sequences or tensors beside it.
    given: usize,
}

fn make_map(mut load: FlowLoad<'_>) -> Result<Box<dyn Flow>, OpError> {
    let body = load.body("body")?;
    let captures = load.node.captures();
    let (inputs, taken, wanted) = (load.node.inputs.len(), body.inputs.len(), load.node.outputs.len());
    load.demand(inputs == taken && captures < inputs && body.outputs.len() >= wanted, || {
        format!("a body of {taken} inputs in a node of {inputs}, {captures} of them from around it")
    })?;
    Ok(Box::new(Map { body, given: inputs - captures }))
}

impl Flow for Map {
    fn family(&self) -> &'static str {
        "SequenceMap"
    }

    fn run(&self, mut inputs: Vec<Option<Value>>, cx: &mut FlowCx<'_>) -> Result<Vec<Value>, NodeError> {
        let captured = inputs.split_off(self.given);
        let length = match inputs.first() {
            Some(Some(Value::Sequence(tensors))) => tensors.len(),
            _ => return Err(refused("the first input must be a sequence")),
        };
        let mut outputs: Vec<Vec<Tensor>> = vec![Vec::new(); self.body.outputs.len()];
        for place in 0..length {
            cx.begin_iteration()?;
            let mut given = memory::with_capacity(inputs.len() + captured.len());
            for value in &inputs {
                given.push(match value {
                    Some(Value::Sequence(tensors)) => {
                        let tensor = tensors.get(place).filter(|_| tensors.len() == length);
                        let tensor = tensor.ok_or_else(|| {
                            refused(format!("a sequence of {} beside one of {length}", tensors.len()))
                        })?;
                        Some(tensor.clone().into())
                    }
                    other => other.clone(),
                });
            }
            given.extend(captured.iter().cloned());
            for (all, made) in outputs.iter_mut().zip(cx.run(0, &self.body, given)?) {
                cx.budget().gather(made.bytes())?;
                all.push(made.into_tensor()?);
            }
        }
        Ok(outputs.into_iter().map(Value::sequence).collect())
    }
}
