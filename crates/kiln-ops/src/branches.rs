//! Streams of features that run beside each other through a network, called branches: BranchwiseRMSNorm,
//! HyperConnectionPreMix, HyperConnectionPostMix and EngramGate. Computed in `f32`, on all threads.
//!
//! Branches are an axis before that of the features, or both are one axis whose branches an attribute counts.

use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::tasks::{share, try_each_chunk};
use super::wide::{filled, lent};
use super::{LoadCx, OpError, Operator, optional, refused, required, size_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("com.microsoft", "BranchwiseRMSNorm", |cx| {
        Ok(Box::new(On(Norm { branches: branches(cx)?, epsilon: cx.node.attributes().float("epsilon") })))
    }),
    ("com.microsoft", "HyperConnectionPreMix", |cx| {
        Ok(Box::new(On(PreMix { branches: branches(cx)?, scale: cx.node.attributes().float("reduction_scale") })))
    }),
    ("com.microsoft", "HyperConnectionPostMix", |cx| Ok(Box::new(On(PostMix { branches: branches(cx)? })))),
    ("com.microsoft", "EngramGate", |cx| {
        if cx.node.outputs.len() > 1 && cx.node.input(5).is_none() {
            return Err(OpError::invalid(cx.node, "a second output and no input 5, its scale"));
        }
        Ok(Box::new(On(Engram { epsilon: cx.node.attributes().float("epsilon") })))
    }),
];

/// How many branches share the last axis; `None` where they have an axis of their own.
fn branches(cx: &LoadCx<'_>) -> Result<Option<usize>, OpError> {
    Ok(Some(size_attribute(cx.node, "num_branches", 0)?).filter(|&count| count > 0))
}

/// Sizes of a tensor of streams.
#[derive(Clone, Copy)]
struct Streams<'a> {
    /// The axes before those of branches and features.
    lead: &'a [usize],
    branches: usize,
    features: usize,
}

impl<'a> Streams<'a> {
    fn of(inputs: &[Option<&'a Tensor>], branches: Option<usize>) -> Result<Streams<'a>, NodeError> {
        let shape = required(inputs, 0)?.shape();
        match (shape, branches) {
            ([lead @ .., last], Some(branches)) if last % branches == 0 => {
                Ok(Streams { lead, branches, features: last / branches })
            }
            (&[ref lead @ .., branches, features], None) => Ok(Streams { lead, branches, features }),
            _ => Err(refused(format!("no branches in shape {shape:?}"))),
        }
    }

    fn rows(&self) -> usize {
        self.lead.iter().product()
    }

    /// Elements of all branches of a row.
    fn width(&self) -> usize {
        self.branches * self.features
    }

    fn with(&self, rest: &[usize]) -> Vec<usize> {
        [self.lead, rest].concat()
    }

    /// Refuses an input that has none of these shapes.
    fn shaped(inputs: &[Option<&Tensor>], index: usize, shapes: &[Vec<usize>]) -> Result<(), NodeError> {
        match optional(inputs, index).map(Tensor::shape) {
            Some(shape) if !shapes.iter().any(|known| known == shape) => {
                Err(refused(format!("input {index} has shape {shape:?} where {:?} is needed", shapes[0])))
            }
            _ => Ok(()),
        }
    }

    /// Shapes of gates: one for each branch, or one for each of a branch's features.
    fn gates(&self, is_flat: bool) -> Vec<Vec<usize>> {
        let &Streams { branches, features, .. } = self;
        let mut shapes: Vec<_> = [&[branches][..], &[branches, 1], &[branches, features]].map(|x| self.with(x)).into();
        if is_flat {
            shapes.push(self.with(&[self.width()]));
        }
        shapes
    }
}

/// Refuses elements that are no floats.
fn floats(inputs: &[Option<&Tensor>]) -> Result<(), NodeError> {
    match inputs.iter().flatten().find(|tensor| !tensor.dtype().is_float()) {
        Some(tensor) => Err(NodeError::Unsupported(format!("elements of type {}", tensor.dtype()))),
        None => Ok(()),
    }
}

/// Calls `task(row, line)` for lines of `width` elements on all threads; a line takes as long as moving `cost` times
/// its elements.
fn each_line(
    output: &mut [f32],
    width: usize,
    cost: usize,
    cx: &RunCx<'_>,
    task: &(dyn Fn(usize, &mut [f32]) + Sync),
) -> Result<(), NodeError> {
    if output.is_empty() {
        return Ok(());
    }
    let bytes = size_of::<f32>().saturating_mul(cost);
    let each = share(output.len(), bytes, cx.parallel).next_multiple_of(width);
    try_each_chunk(cx.parallel, output, each, &|number, lines| {
        cx.check_stop()?;
        for (offset, line) in lines.chunks_exact_mut(width).enumerate() {
            task(number * (each / width) + offset, line);
        }
        Ok(())
    })
}

/// The outputs of an operator: one, and a second one where it is wanted.
type Outputs = [Option<Tensor>; 2];

/// An operator on streams.
trait Branched: Send + Sync + 'static {
    const NAME: &'static str;

    /// The sizes of these inputs, which fit each other.
    fn streams<'a>(&self, inputs: &[Option<&'a Tensor>]) -> Result<Streams<'a>, NodeError>;

    fn compute(&self, io: &Io<'_>, cx: &RunCx<'_>) -> Result<Outputs, NodeError>;
}

/// The node of such an operator.
struct On<B>(B);

impl<B: Branched> Node for On<B> {
    fn family(&self) -> &'static str {
        B::NAME
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.0.streams(inputs)?;
        floats(inputs)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let outputs = self.0.compute(io, cx)?;
        outputs.into_iter().flatten().for_each(|tensor| io.push(tensor));
        Ok(())
    }
}

/// The factor that makes the mean of a vector's squares one.
fn inverse_length(vector: &[f32], epsilon: f32) -> f32 {
    let squares: f32 = vector.iter().map(|x| x * x).sum();
    1.0 / (squares / vector.len() as f32 + epsilon).sqrt()
}

struct Norm {
    branches: Option<usize>,
    epsilon: f32,
}

impl Branched for Norm {
    const NAME: &'static str = "BranchwiseRMSNorm";

    fn streams<'a>(&self, inputs: &[Option<&'a Tensor>]) -> Result<Streams<'a>, NodeError> {
        let streams = Streams::of(inputs, self.branches)?;
        let (branches, features) = (streams.branches, streams.features);
        Streams::shaped(inputs, 1, &[vec![features], vec![branches, features], vec![streams.width()]])?;
        Ok(streams)
    }

    fn compute(&self, io: &Io<'_>, cx: &RunCx<'_>) -> Result<Outputs, NodeError> {
        let inputs = io.inputs();
        let Streams { features, .. } = self.streams(&inputs)?;
        let x = lent::<f32>(io.input(0)?)?;
        let scale = io.optional(1).map(lent::<f32>).transpose()?;
        let output = filled(io.alloc(0)?, |output: &mut [f32]| {
            each_line(output, features, 2, cx, &|row, line| {
                let from = &x[row * features..][..features];
                let factor = inverse_length(from, self.epsilon);
                line.iter_mut().zip(from).for_each(|(to, x)| *to = x * factor);
                if let Some(scale) = scale.as_deref().filter(|scale| !scale.is_empty()) {
                    let start = row * features % scale.len();
                    line.iter_mut().zip(&scale[start..]).for_each(|(to, scale)| *to *= scale);
                }
            })
        })?;
        Ok([Some(output), None])
    }
}

/// Gates of all rows: one for each branch, or one for each of a branch's features.
struct Gates<'a> {
    values: &'a [f32],
    /// Gates of a branch.
    each: usize,
}

impl<'a> Gates<'a> {
    fn of(values: &'a [f32], rows: usize, branches: usize) -> Gates<'a> {
        Gates { values, each: values.len().checked_div(rows * branches).unwrap_or(0) }
    }

    /// Adds the products of a branch's values and its gates; `place` counts the branches of all rows.
    fn add(&self, place: usize, values: &[f32], to: &mut [f32]) {
        match &self.values[place * self.each..][..self.each] {
            [gate] => to.iter_mut().zip(values).for_each(|(to, value)| *to += gate * value),
            gates => to.iter_mut().zip(values).zip(gates).for_each(|((to, value), gate)| *to += gate * value),
        }
    }
}

struct PreMix {
    branches: Option<usize>,
    scale: f32,
}

impl Branched for PreMix {
    const NAME: &'static str = "HyperConnectionPreMix";

    fn streams<'a>(&self, inputs: &[Option<&'a Tensor>]) -> Result<Streams<'a>, NodeError> {
        let streams = Streams::of(inputs, self.branches)?;
        required(inputs, 1)?;
        Streams::shaped(inputs, 1, &streams.gates(self.branches.is_some()))?;
        Ok(streams)
    }

    fn compute(&self, io: &Io<'_>, cx: &RunCx<'_>) -> Result<Outputs, NodeError> {
        let inputs = io.inputs();
        let streams = self.streams(&inputs)?;
        let Streams { branches, features, .. } = streams;
        let (x, gates) = (lent::<f32>(io.input(0)?)?, lent::<f32>(io.input(1)?)?);
        let gates = Gates::of(&gates, streams.rows(), branches);
        let output = filled(io.alloc(0)?, |output: &mut [f32]| {
            each_line(output, features, 2 * branches, cx, &|row, line| {
                line.fill(0.0);
                for place in row * branches..(row + 1) * branches {
                    gates.add(place, &x[place * features..][..features], line);
                }
                line.iter_mut().for_each(|to| *to *= self.scale);
            })
        })?;
        Ok([Some(output), None])
    }
}

struct PostMix {
    branches: Option<usize>,
}

impl Branched for PostMix {
    const NAME: &'static str = "HyperConnectionPostMix";

    fn streams<'a>(&self, inputs: &[Option<&'a Tensor>]) -> Result<Streams<'a>, NodeError> {
        let streams = Streams::of(inputs, self.branches)?;
        required(inputs, 1)?;
        required(inputs, 2)?;
        Streams::shaped(inputs, 1, &[streams.with(&[streams.features])])?;
        Streams::shaped(inputs, 2, &streams.gates(false))?;
        Streams::shaped(inputs, 3, &[streams.with(&[streams.branches, streams.branches])])?;
        Ok(streams)
    }

    fn compute(&self, io: &Io<'_>, cx: &RunCx<'_>) -> Result<Outputs, NodeError> {
        let inputs = io.inputs();
        let streams = self.streams(&inputs)?;
        let Streams { branches, features, .. } = streams;
        let (x, block, post) = (lent::<f32>(io.input(0)?)?, lent::<f32>(io.input(1)?)?, lent::<f32>(io.input(2)?)?);
        let mix = io.optional(3).map(lent::<f32>).transpose()?;
        let gates = Gates::of(&post, streams.rows(), branches);
        let cost = if mix.is_some() { 2 + branches } else { 2 };
        let output = filled(io.alloc(0)?, |output: &mut [f32]| {
            each_line(output, features, cost, cx, &|place, line| {
                let (row, branch) = (place / branches, place % branches);
                match &mix {
                    None => line.copy_from_slice(&x[place * features..][..features]),
                    Some(mix) => {
                        line.fill(0.0);
                        for from in 0..branches {
                            let factor = mix[(row * branches + from) * branches + branch];
                            let values = &x[(row * branches + from) * features..][..features];
                            line.iter_mut().zip(values).for_each(|(to, value)| *to += factor * value);
                        }
                    }
                }
                gates.add(place, &block[row * features..][..features], line);
            })
        })?;
        Ok([Some(output), None])
    }
}

struct Engram {
    epsilon: f32,
}

/// The least magnitude of a product that a root is taken of.
const LEAST: f32 = 1e-6;

impl Branched for Engram {
    const NAME: &'static str = "EngramGate";

    fn streams<'a>(&self, inputs: &[Option<&'a Tensor>]) -> Result<Streams<'a>, NodeError> {
        let streams = Streams::of(inputs, None)?;
        let (branches, features) = (streams.branches, streams.features);
        if streams.lead.len() != 2 {
            return Err(refused(format!("input 0 has shape {:?}, not of rank 4", streams.with(&[branches, features]))));
        }
        (1..5).try_for_each(|index| required(inputs, index).map(drop))?;
        Streams::shaped(inputs, 1, &[streams.with(&[branches, features])])?;
        Streams::shaped(inputs, 2, &[streams.with(&[features])])?;
        (3..6).try_for_each(|index| Streams::shaped(inputs, index, &[vec![branches, features]]))?;
        Ok(streams)
    }

    fn compute(&self, io: &Io<'_>, cx: &RunCx<'_>) -> Result<Outputs, NodeError> {
        let inputs = io.inputs();
        let Streams { branches, features, .. } = self.streams(&inputs)?;
        let [keys, queries, values, of_keys, of_queries] =
            [0, 1, 2, 3, 4].map(|index| io.input(index).map(lent::<f32>));
        let (keys, queries, values) = (keys??, queries??, values??);
        let (of_keys, of_queries) = (of_keys??, of_queries??);
        let root = (features as f32).sqrt();
        let output = filled(io.alloc(0)?, |output: &mut [f32]| {
            each_line(output, features, 5, cx, &|place, line| {
                let own = |all: &[f32], of: usize| of * features..(of * features + features).min(all.len());
                let (key, query) = (&keys[own(&keys, place)], &queries[own(&queries, place)]);
                let scales = own(&of_keys, place % branches);
                let scales = of_keys[scales.clone()].iter().zip(&of_queries[scales]);
                let products: f32 =
                    key.iter().zip(query).zip(scales).map(|((key, query), (a, b))| key * a * (query * b)).sum();
                let lengths = inverse_length(key, self.epsilon) * inverse_length(query, self.epsilon);
                let product = products * lengths / root;
                let signed = product.abs().max(LEAST).sqrt() * if product == 0.0 { 0.0 } else { product.signum() };
                let gate = 1.0 / (1.0 + (-signed).exp());
                let value = &values[own(&values, place / branches)];
                line.iter_mut().zip(value).for_each(|(to, value)| *to = gate * value);
            })
        })?;
        let normed = (io.specs().len() > 1).then(|| {
            let (gated, scale) = (lent::<f32>(&output)?, lent::<f32>(io.input(5)?)?);
            filled(io.alloc(1)?, |to: &mut [f32]| {
                each_line(to, features, 2, cx, &|place, line| {
                    let from = &gated[place * features..][..features];
                    let factor = inverse_length(from, self.epsilon);
                    let scale = &scale[place % branches * features..][..features];
                    line.iter_mut().zip(from).zip(scale).for_each(|((to, x), scale)| *to = x * factor * scale);
                })
            })
        });
        Ok([Some(output), normed.transpose()?])
    }
}

#[cfg(test)]
mod tests;
