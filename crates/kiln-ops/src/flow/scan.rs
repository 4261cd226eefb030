//! Scan: a body over the slices of tensors along an axis, with values carried from slice to slice.
//!
//! Up to version 8 everything had a batch axis, every sequence its own length, and the scanned axis was the one after;
//! such a node scans one sequence of the batch after the other and puts the results side by side.

use kiln_kernels::memory::{self, Collect};
use kiln_model::{NodeDesc, Value};
use kiln_run::{Body, Flow, FlowCx, NodeError};
use kiln_tensor::{Shape, Tensor, TensorSpec};

use super::{FlowLoad, Gathered, stack};
use crate::{Blocks, OpError, around, axis_of, integers, rearrange, refused, size_attribute};

/// One scanned input or output.
#[derive(Clone, Copy)]
struct Along {
    axis: i64,
    backwards: bool,
}

struct Scan {
    body: Body,
    /// Values carried from slice to slice.
    carried: usize,
    inputs: Vec<Along>,
    /// The outputs that are gathered; `None` for those that are not wanted.
    outputs: Vec<Option<Along>>,
    /// Up to version 8.
    batched: bool,
}

pub(super) fn make(mut load: FlowLoad<'_>) -> Result<Box<dyn Flow>, OpError> {
    let body = load.body("body")?;
    let node = load.node;
    let batched = node.version < 9;
    let scanned = size_attribute(node, "num_scan_inputs", 1)?;
    let (taken, made, wanted) = (body.inputs.len(), body.outputs.len(), node.outputs.len());
    let carried = taken.checked_sub(node.captures()).and_then(|own| own.checked_sub(scanned));
    let carried = carried.ok_or_else(|| OpError::invalid(node, "num_scan_inputs is none of the body's"))?;
    load.demand(node.inputs.len() == taken + usize::from(batched) && made >= carried && made >= wanted, || {
        let given = node.inputs.len();
        format!("a body of {taken} inputs and {made} outputs in a node of {given} inputs and {wanted} outputs")
    })?;
    let (axes, directions) = match batched {
        true => ("", "directions"),
        false => ("scan_input_axes", "scan_input_directions"),
    };
    let inputs = along(node, scanned, axes, directions)?;
    let outputs = along(node, made - carried, "scan_output_axes", "scan_output_directions")?;
    let wanted = |(index, along): (usize, Along)| node.output(carried + index).map(|_| along);
    let outputs = outputs.into_iter().enumerate().map(wanted).collect();
    Ok(Box::new(Scan { body, carried, inputs, outputs, batched }))
}

/// Axes and directions of `count` inputs or outputs; attributes that are absent mean the first axis, forwards.
fn along(node: &NodeDesc, count: usize, axes: &str, directions: &str) -> Result<Vec<Along>, OpError> {
    let list = |name: &str| match node.ints(name) {
        None => Ok(vec![0; count]),
        Some(values) if values.len() == count => Ok(values.to_vec()),
        Some(values) => Err(OpError::invalid(node, format!("{name} has {} values for {count}", values.len()))),
    };
    let pairs = list(axes)?.into_iter().zip(list(directions)?);
    Ok(pairs.map(|(axis, direction)| Along { axis, backwards: direction != 0 }).collect())
}

impl Flow for Scan {
    fn family(&self) -> &'static str {
        "Scan"
    }

    fn run(&self, mut inputs: Vec<Option<Value>>, cx: &mut FlowCx<'_>) -> Result<Vec<Value>, NodeError> {
        let lengths = if self.batched { inputs.remove(0) } else { None };
        let captured = inputs.split_off(self.carried + self.inputs.len());
        let scanned: Vec<Tensor> = inputs.split_off(self.carried).into_iter().map(tensor).collect::<Result<_, _>>()?;
        if !self.batched {
            return self.scan(inputs, &scanned, usize::MAX, &captured, cx);
        }
        let carried: Vec<Tensor> = inputs.into_iter().map(tensor).collect::<Result<_, _>>()?;
        self.scan_batch(lengths, &carried, &scanned, &captured, cx)
    }
}

fn tensor(value: Option<Value>) -> Result<Tensor, NodeError> {
    Ok(value.ok_or_else(|| refused("an input is missing"))?.into_tensor()?)
}

impl Scan {
    /// One scan, of at most `longest` slices.
    fn scan(
        &self,
        mut carried: Vec<Option<Value>>,
        scanned: &[Tensor],
        longest: usize,
        captured: &[Option<Value>],
        cx: &mut FlowCx<'_>,
    ) -> Result<Vec<Value>, NodeError> {
        let mut axes = Shape::new();
        let mut length: Option<usize> = None;
        for (along, tensor) in self.inputs.iter().zip(scanned) {
            let axis = axis_of(along.axis, tensor.shape().len())?;
            let own = tensor.shape()[axis];
            if length.is_some_and(|length| length != own) {
                return Err(refused(format!("one scan over {own} slices and {}", length.unwrap_or(0))));
            }
            length = Some(own);
            axes.push(axis);
        }
        let length = length.unwrap_or(0).min(longest);
        let mut gathered: Vec<Gathered> = self.outputs.iter().map(|_| Gathered::default()).collect();
        for iteration in 0..length {
            cx.begin_iteration()?;
            let mut given = std::mem::take(&mut carried);
            for ((tensor, &axis), along) in scanned.iter().zip(&axes).zip(&self.inputs) {
                let index = if along.backwards { length - 1 - iteration } else { iteration };
                given.push(Some(slice(tensor, axis, index, cx)?.into()));
            }
            given.extend(captured.iter().cloned());
            let mut made = cx.run(0, &self.body, given)?.into_iter();
            carried.extend(made.by_ref().take(self.carried).map(Some));
            cx.budget().carry(carried.iter().flatten().map(Value::bytes).sum())?;
            for ((gathered, made), wanted) in gathered.iter_mut().zip(made).zip(&self.outputs) {
                if wanted.is_some() {
                    gathered.push(made, cx)?;
                }
            }
        }
        let mut outputs = Vec::with_capacity(self.carried + gathered.len());
        for value in carried {
            outputs.push(value.ok_or_else(|| refused("a carried value is missing"))?);
        }
        for (index, (gathered, along)) in gathered.into_iter().zip(&self.outputs).enumerate() {
            let none = |least| self.body.none_of(self.carried + index, least);
            outputs.push(match along {
                Some(along) => gathered.stack(along.axis, along.backwards, none, cx)?.into(),
                None => Value::Nothing,
            });
        }
        Ok(outputs)
    }

    /// A scan for each sequence of the batch. Gathered results of shorter sequences are filled up with zeros.
    fn scan_batch(
        &self,
        lengths: Option<Value>,
        carried: &[Tensor],
        scanned: &[Tensor],
        captured: &[Option<Value>],
        cx: &mut FlowCx<'_>,
    ) -> Result<Vec<Value>, NodeError> {
        let batch = |tensor: &Tensor| tensor.shape().first().copied();
        let size = scanned.first().and_then(batch).filter(|&size| size > 0);
        let alike = size.is_some() && carried.iter().chain(scanned).all(|tensor| batch(tensor) == size);
        let size = size.filter(|_| alike).ok_or_else(|| refused("the inputs are not of one batch"))?;
        let longest = scanned[0].shape().get(1).copied().unwrap_or(0);
        let lengths = match lengths {
            None => memory::filled(longest, size),
            Some(value) => {
                let given = integers(&value.into_tensor()?)?;
                let length = |&length: &i64| usize::try_from(length).ok().filter(|&length| length <= longest);
                let lengths = given.iter().map_while(length).collected();
                if [lengths.len(), given.len()] != [size; 2] {
                    let wanted = format!("{size} lengths of sequences, each from 0 to {longest} slices");
                    return Err(refused(format!("sequence_lens must be {wanted}")));
                }
                lengths
            }
        };
        let mut results: Vec<Vec<Tensor>> = Vec::new();
        for (index, length) in lengths.into_iter().enumerate() {
            let own = |tensor: &Tensor| slice(tensor, 0, index, cx);
            let start: Vec<Option<Value>> =
                carried.iter().map(|tensor| own(tensor).map(|own| Some(own.into()))).collect::<Result<_, _>>()?;
            let sequences: Vec<Tensor> = scanned.iter().map(own).collect::<Result<_, _>>()?;
            let made = self.scan(start, &sequences, length, captured, cx)?;
            results.resize_with(made.len(), Vec::new);
            for (place, (all, one)) in results.iter_mut().zip(made).enumerate() {
                match one {
                    Value::Tensor(tensor) if place >= self.carried => all.push(filled_up(&tensor, longest)?),
                    Value::Tensor(tensor) => all.push(tensor),
                    // Not wanted.
                    _ => {}
                }
            }
        }
        let joined = |all: &Vec<Tensor>| match all.split_first() {
            None => Ok(Value::Nothing),
            Some((first, rest)) if rest.iter().all(|other| other.spec() == first.spec()) => {
                stack(all, 0, cx).map(Value::Tensor)
            }
            Some(_) => Err(refused("the sequences of a batch make results of several shapes")),
        };
        results.iter().map(joined).collect()
    }
}

/// Slice `index` of a tensor along an axis, without that axis.
fn slice(tensor: &Tensor, axis: usize, index: usize, cx: &FlowCx<'_>) -> Result<Tensor, NodeError> {
    let (_, size, inner) = around(tensor.shape(), axis);
    let mut shape = Shape::from_slice(tensor.shape());
    shape.remove(axis);
    let to = cx.alloc(TensorSpec { dtype: tensor.dtype(), shape })?;
    rearrange(&Blocks { places: vec![index], size, inner }.copied(cx.parallel()), &[tensor], to)
}

/// The tensor with zeros behind it along its first axis, up to `length`.
fn filled_up(tensor: &Tensor, length: usize) -> Result<Tensor, NodeError> {
    let mut shape = Shape::from_slice(tensor.shape());
    match shape.first_mut() {
        Some(first) if *first < length => *first = length,
        _ => return Ok(tensor.clone()),
    }
    let mut whole = Tensor::zeros(TensorSpec { dtype: tensor.dtype(), shape })?;
    let bytes = tensor.bytes();
    if bytes.is_empty() && !tensor.is_empty() {
        return Err(refused("sequences of strings must be of one length"));
    }
    whole.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    Ok(whole)
}
