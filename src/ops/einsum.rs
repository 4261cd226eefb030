//! Einsum: any sum of products of elements that an equation over axis names describes.
//!
//! Every name becomes a loop, those of the output outermost, and each operand a stride along every loop; a name that
//! stands twice in one operand adds its strides, which reads a diagonal. The innermost loop runs over whole rows.

use std::sync::Arc;

use super::generic::{Arithmetic, Binary, compute};
use super::wide::{Width, narrow, widened};
use super::{LoadCx, OpError, Operator, Run, one, refused, strides};
use crate::graph::node::{PrepareCx, Specs};
use crate::graph::{Io, Node, NodeError, Prepared, RunCx};
use crate::tensor::{Shape, Tensor, TensorError, TensorSpec, element_count};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "Einsum", make)];

/// An axis name: a letter, or a place counted from the end of what an ellipsis stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Hidden(usize),
    Letter(u8),
}

/// One side of an operand: names, with an ellipsis at a place among them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Term {
    before: Vec<u8>,
    /// The names behind an ellipsis, if there is one.
    after: Option<Vec<u8>>,
}

impl Term {
    fn parse(text: &str) -> Option<Term> {
        let letters =
            |text: &str| text.bytes().map(|b| b.is_ascii_alphabetic().then_some(b)).collect::<Option<Vec<u8>>>();
        match text.split_once("...") {
            None => Some(Term { before: letters(text)?, after: None }),
            Some((before, after)) => Some(Term { before: letters(before)?, after: Some(letters(after)?) }),
        }
    }

    /// A name for each of `rank` axes.
    fn names(&self, rank: usize) -> Option<Vec<Name>> {
        let after = self.after.as_deref().unwrap_or_default();
        let hidden = rank.checked_sub(self.before.len() + after.len())?;
        if hidden > 0 && self.after.is_none() {
            return None;
        }
        let letters = |names: &[u8]| names.iter().copied().map(Name::Letter).collect::<Vec<_>>();
        Some([letters(&self.before), (0..hidden).rev().map(Name::Hidden).collect(), letters(after)].concat())
    }
}

struct Einsum {
    operands: Vec<Term>,
    output: Option<Term>,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let equation: String = cx.node.string("equation", "").chars().filter(|c| !c.is_whitespace()).collect();
    let error = || OpError::invalid(cx.node, format!("equation = {equation:?}"));
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let operands = left.split(',').map(Term::parse).collect::<Option<Vec<Term>>>().ok_or_else(error)?;
    let output = right.map(|right| Term::parse(right).ok_or_else(error)).transpose()?;
    if operands.len() != cx.node.inputs.len() {
        return Err(OpError::invalid(cx.node, format!("equation = {equation:?} for {} inputs", cx.node.inputs.len())));
    }
    Ok(Box::new(Einsum { operands, output }))
}

/// The loops of one set of shapes.
#[derive(Debug)]
struct Plan {
    /// Iterations of each loop: first those of the output's axes, then those that are summed over.
    sizes: Vec<usize>,
    output: Shape,
    /// For each operand, elements from one iteration to the next of each loop.
    strides: Vec<Vec<usize>>,
}

impl Plan {
    /// Innermost steps: every operand is read at every place of all loops.
    fn steps(&self) -> u64 {
        self.sizes.iter().fold(self.strides.len() as u64, |steps, &size| steps.saturating_mul(size as u64))
    }
}

impl Einsum {
    fn plan(&self, inputs: &[Option<&Tensor>]) -> Result<Plan, NodeError> {
        let operands: Vec<&Tensor> =
            inputs.iter().copied().collect::<Option<_>>().ok_or_else(|| refused("an input is missing"))?;
        let error = || {
            refused(format!(
                "shapes {:?} do not fit the equation",
                operands.iter().map(|t| t.shape()).collect::<Vec<_>>()
            ))
        };
        let names: Vec<Vec<Name>> = operands
            .iter()
            .zip(&self.operands)
            .map(|(tensor, term)| term.names(tensor.shape().len()).ok_or_else(error))
            .collect::<Result<_, _>>()?;
        let mut all: Vec<Name> = names.iter().flatten().copied().collect();
        let hidden = all
            .iter()
            .filter_map(|name| if let Name::Hidden(at) = name { Some(at + 1) } else { None })
            .max()
            .unwrap_or(0);
        let mut loops = match &self.output {
            Some(term) => {
                let rank = term.before.len() + term.after.as_ref().map_or(0, |after| after.len() + hidden);
                term.names(rank).ok_or_else(error)?
            }
            // Without an output: what the ellipses hide, then every letter that stands once, in order.
            None => {
                let mut once: Vec<Name> =
                    all.iter().copied().filter(|name| all.iter().filter(|other| *other == name).count() == 1).collect();
                once.retain(|name| matches!(name, Name::Letter(_)));
                once.sort_unstable();
                (0..hidden).rev().map(Name::Hidden).chain(once).collect()
            }
        };
        let kept = loops.len();
        let distinct = |names: &[Name]| names.iter().enumerate().all(|(at, name)| !names[..at].contains(name));
        if !distinct(&loops) || !loops.iter().all(|name| all.contains(name)) {
            return Err(error());
        }
        all.sort_unstable();
        all.dedup();
        loops.extend(all.into_iter().filter(|name| !loops[..kept].contains(name)).collect::<Vec<_>>());
        let mut plan = Plan { sizes: vec![1; loops.len()], output: Shape::new(), strides: Vec::new() };
        for (tensor, names) in operands.iter().zip(&names) {
            let mut own = vec![0; loops.len()];
            for ((name, &size), stride) in names.iter().zip(tensor.shape()).zip(strides(tensor.shape())) {
                let at = loops.iter().position(|other| other == name).ok_or_else(error)?;
                match (plan.sizes[at], size) {
                    (_, 1) => {}
                    (1, _) => plan.sizes[at] = size,
                    (have, size) if have == size => {}
                    _ => return Err(error()),
                }
                own[at] += if size == 1 { 0 } else { stride };
            }
            plan.strides.push(own);
        }
        plan.output = plan.sizes[..kept].iter().copied().collect();
        element_count(&plan.sizes, 1)?;
        Ok(plan)
    }
}

fn sum<W: Arithmetic>(plan: &Plan, io: &Io<'_>, cx: &RunCx<'_>) -> Result<Tensor, NodeError> {
    let to = io.alloc(0)?;
    let operands = io.inputs().into_iter().flatten().map(widened::<W>).collect::<Result<Vec<_>, _>>()?;
    let mut output = vec![W::default(); to.len()];
    let kept = plan.output.len();
    let (outer, inner) = plan.sizes.split_at(plan.sizes.len().saturating_sub(1));
    let length = inner.first().copied().unwrap_or(1);
    // Whether the rows are summed up, or are rows of the output.
    let summed = kept < plan.sizes.len() || plan.sizes.is_empty();
    let output_strides = strides(&plan.output);
    let mut index = vec![0; outer.len()];
    let (mut row, mut other) = (vec![W::default(); length], vec![W::default(); length]);
    if plan.sizes.contains(&0) {
        return narrow(&output, to);
    }
    loop {
        cx.check_stop()?;
        for (number, (values, strides)) in operands.iter().zip(&plan.strides).enumerate() {
            let start = index.iter().zip(strides).map(|(at, stride)| at * stride).sum();
            let run = Run { start, count: length, stride: strides.last().copied().unwrap_or(0) as isize };
            if number == 0 {
                run.read(values, &mut row);
            } else {
                run.read(values, &mut other);
                W::binary(Binary::Mul, &mut row, &other)?;
            }
        }
        let place: usize = index.iter().zip(&output_strides).map(|(at, stride)| at * stride).sum();
        if summed {
            let total = [W::fold(Binary::Add, &mut row)?.unwrap_or_default()];
            W::binary(Binary::Add, &mut output[place..=place], &total)?;
        } else {
            W::binary(Binary::Add, &mut output[place..place + length], &row)?;
        }
        let Some(moving) = (0..outer.len()).rev().find(|&at| index[at] + 1 < outer[at]) else {
            return narrow(&output, to);
        };
        index[moving] += 1;
        index[moving + 1..].fill(0);
    }
}

impl Node for Einsum {
    fn family(&self) -> &'static str {
        "Einsum"
    }

    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        let plan = self.plan(inputs)?;
        let mut types = inputs.iter().flatten().map(|tensor| tensor.dtype());
        let expected = types.next().ok_or_else(|| refused("an input is missing"))?;
        if let Some(found) = types.find(|&dtype| dtype != expected) {
            return Err(TensorError::Type { expected, found }.into());
        }
        Width::of(expected)?;
        one(expected, plan.output)
    }

    fn prepare_params(
        &self,
        _: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        _: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        let plan = self.plan(inputs)?;
        let strides = plan.strides.iter().map(|strides| size_of::<Vec<usize>>() + size_of_val(&strides[..]));
        let held = strides.sum::<usize>() + size_of_val(&plan.sizes[..]);
        Ok(Prepared::holding(Arc::new(plan), held))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        cx.check_steps(prepared.get::<Plan>()?.steps())?;
        let output = compute!(io.spec(0).dtype, sum(prepared.get::<Plan>()?, io, cx))?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::trial::Trial;

    fn einsum(equation: &str) -> Trial {
        Trial::new("Einsum").text("equation", equation)
    }

    #[test]
    fn equations_say_what_is_multiplied_and_summed() {
        let square = [1f32, 2.0, 3.0, 4.0];
        einsum("ij->ji").input(&[2, 2], &square).gives(&[2, 2], &[1f32, 3.0, 2.0, 4.0]);
        einsum("ij->i").input(&[2, 2], &square).gives(&[2], &[3f32, 7.0]);
        einsum("ii->i").input(&[2, 2], &square).gives(&[2], &[1f32, 4.0]);
        einsum("ii").input(&[2, 2], &square).gives(&[], &[5f32]);
        einsum("ij, jk -> ik").input(&[2, 2], &square).input(&[2, 1], &[1f32, 2.0]).gives(&[2, 1], &[5f32, 11.0]);
        einsum("i,i").input(&[2], &[1i32, 2]).input(&[2], &[3i32, 4]).gives(&[], &[11i32]);
        einsum("i,j").input(&[2], &[1i64, 2]).input(&[2], &[3i64, 4]).gives(&[2, 2], &[3i64, 4, 6, 8]);
        einsum(",").input(&[], &[3f64]).input(&[], &[4f64]).gives(&[], &[12f64]);
        einsum("ij->").input::<f32>(&[0, 2], &[]).gives(&[], &[0f32]);
    }

    #[test]
    fn ellipses_stand_for_axes_that_broadcast() {
        let stack: Vec<f32> = (0..8).map(|v| v as f32).collect();
        let row = einsum("...ij,...jk->...ik").input(&[2, 2, 2], &stack).input(&[2, 1], &[1f32, 1.0]);
        row.gives(&[2, 2, 1], &[1f32, 5.0, 9.0, 13.0]);
        einsum("...ii->...i").input(&[2, 2, 2], &stack).gives(&[2, 2], &[0f32, 3.0, 4.0, 7.0]);
        einsum("b...->...b").input(&[2, 3], &stack[..6]).gives(&[3, 2], &[0f32, 3.0, 1.0, 4.0, 2.0, 5.0]);
    }

    #[test]
    fn a_few_elements_cannot_ask_for_any_number_of_steps() {
        let many = |letters: &str| {
            let trial = einsum(&format!("{letters}->"));
            letters.split(',').fold(trial, |trial, _| trial.input(&[8], &[1f32; 8]))
        };
        many("a,b,c,d,e").gives(&[], &[32768f32]);
        many("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t").is_refused("steps of one operator");
    }

    #[test]
    fn broken_equations_are_refused() {
        einsum("i1->i").input(&[2], &[0f32; 2]).is_refused("equation");
        einsum("i,j->ij").input(&[2], &[0f32; 2]).is_refused("for 1 inputs");
        einsum("ij->i").input(&[2], &[0f32; 2]).is_refused("do not fit");
        einsum("i->ii").input(&[2], &[0f32; 2]).is_refused("do not fit");
        einsum("i->j").input(&[2], &[0f32; 2]).is_refused("do not fit");
        einsum("i,i->i").input(&[2], &[0f32; 2]).input(&[3], &[0f32; 3]).is_refused("do not fit");
        einsum("i,i->i").input(&[1], &[0f32]).input(&[1], &[0f64]).is_refused("float64");
    }
}
