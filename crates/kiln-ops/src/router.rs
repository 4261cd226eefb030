//! MoEGroupRouter: which experts a token is sent to, chosen from groups of experts, or the scores to choose by.

use std::cmp::Reverse;

use kiln_kernels::memory;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::tasks::{share, try_each_chunk};
use super::wide::{filled, lent, narrow};
use super::{LoadCx, OpError, Operator, optional, refused, required, size_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("com.microsoft", "MoEGroupRouter", make)];

/// The least score that a logarithm is taken of.
const LEAST: f32 = 1e-20;

/// Most experts whose scores can be an output, and the number that divides the width of projected rows.
const MOST_SCORES: usize = 512;
const PROJECTED: usize = 256;

struct Router {
    groups: usize,
    /// Groups that are chosen, and how many of a group's best experts make its score.
    chosen_groups: usize,
    standing: usize,
    /// Experts that are chosen.
    chosen: usize,
    /// Stands where an expert is not chosen.
    sentinel: f32,
    /// Whether scores are given out, and nothing is chosen.
    gives_scores: bool,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let size = |name| size_attribute(cx.node, name, 1);
    let output = |index: usize| cx.node.outputs.get(index).copied().flatten().is_some();
    let gives_scores = !output(0);
    if output(1) == output(0) || output(2) == output(0) {
        return Err(OpError::invalid(cx.node, "outputs are the first one, or the second and the third"));
    }
    if cx.node.input(2).is_some() && !gives_scores {
        return Err(OpError::invalid(cx.node, "input 2, a projection, without scores as outputs"));
    }
    let (groups, chosen_groups) = (size("n_group")?, size("topk_group")?);
    if chosen_groups > groups || gives_scores && groups != 1 {
        return Err(OpError::invalid(cx.node, format!("topk_group = {chosen_groups} of n_group = {groups}")));
    }
    let (standing, chosen) = (size("group_topk")?, size("top_k")?);
    let sentinel = cx.node.attributes().float("router_sentinel");
    Ok(Box::new(Router { groups, chosen_groups, standing, chosen, sentinel, gives_scores }))
}

/// Sizes of one run.
struct Sizes {
    experts: usize,
    /// Elements of a row that is projected.
    width: Option<usize>,
}

impl Router {
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<Sizes, NodeError> {
        let (rows, bias) = (required(inputs, 0)?.shape(), required(inputs, 1)?.shape());
        let wrong = || refused(format!("scores of {rows:?} with a bias of {bias:?}"));
        let &[experts] = bias else { return Err(wrong()) };
        let width = match (rows, optional(inputs, 2).map(Tensor::shape)) {
            ([.., last], None) if *last == experts => None,
            (&[_, width], Some(&[out, own]))
                if [out, own] == [experts, width] && width > 0 && width % PROJECTED == 0 =>
            {
                Some(width)
            }
            (_, Some(weights)) => {
                return Err(refused(format!("weights of {weights:?} over rows of {rows:?}, for {experts} experts")));
            }
            _ => return Err(wrong()),
        };
        if self.gives_scores && experts > MOST_SCORES {
            return Err(refused(format!("scores of {experts} experts, more than {MOST_SCORES}")));
        }
        let fits = experts > 0 && experts % self.groups == 0;
        if !fits || self.chosen > experts / self.groups * self.chosen_groups {
            let Router { groups, chosen_groups, chosen, .. } = self;
            return Err(refused(format!(
                "{chosen} of {experts} experts, from {chosen_groups} of {groups} groups of them"
            )));
        }
        Ok(Sizes { experts, width })
    }

    /// The experts that these scores choose, in no order.
    fn choose(&self, scores: &[f32]) -> Vec<usize> {
        let each = scores.len() / self.groups;
        let mut groups: Vec<usize> = (0..self.groups).collect();
        if self.chosen_groups < self.groups {
            let strength: Vec<f32> = scores
                .chunks_exact(each)
                .map(|group| {
                    let mut order: Vec<f32> = group.to_vec();
                    order.sort_by(|a, b| b.total_cmp(a));
                    order.iter().take(self.standing).sum()
                })
                .collect();
            best(&mut groups, &strength, self.chosen_groups);
        }
        let mut experts: Vec<usize> = groups.iter().flat_map(|group| group * each..(group + 1) * each).collect();
        experts.sort_unstable();
        best(&mut experts, scores, self.chosen);
        experts
    }
}

/// Keeps the places with the greatest values; of equal values, the first.
fn best(places: &mut Vec<usize>, values: &[f32], count: usize) {
    places.sort_by_key(|&place| Reverse(Ordered(values[place])));
    places.truncate(count);
}

#[derive(PartialEq)]
struct Ordered(f32);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Ordered) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Ordered) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Node for Router {
    fn family(&self) -> &'static str {
        "MoEGroupRouter"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.sizes(inputs)?;
        match inputs.iter().flatten().find(|tensor| !tensor.dtype().is_float()) {
            Some(tensor) => Err(NodeError::Unsupported(format!("elements of type {}", tensor.dtype()))),
            None if required(inputs, 1)?.dtype() != DType::F32 => {
                Err(NodeError::Unsupported(format!("a bias of type {}", required(inputs, 1)?.dtype())))
            }
            None => Ok(()),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let Sizes { experts, width } = self.sizes(&io.inputs())?;
        let (rows, bias) = (lent::<f32>(io.input(0)?)?, lent::<f32>(io.input(1)?)?);
        let weights = io.optional(2).map(lent::<f32>).transpose()?;
        let tokens = rows.len() / width.unwrap_or(experts);
        let mut scores: Vec<f32> = memory::zeroed(tokens * experts);
        // A score takes as long as moving its summands or, where there are none, as its exponential.
        let bytes = size_of::<f32>().saturating_mul(width.unwrap_or(4));
        let each = share(scores.len(), bytes, cx.parallel).next_multiple_of(experts);
        try_each_chunk(cx.parallel, &mut scores, each, &|number, lines| {
            cx.check_stop()?;
            for (offset, line) in lines.chunks_exact_mut(experts).enumerate() {
                let token = number * (each / experts) + offset;
                match (&weights, width) {
                    (Some(weights), Some(width)) => {
                        let row = &rows[token * width..][..width];
                        for (score, weights) in line.iter_mut().zip(weights.chunks_exact(width)) {
                            *score = row.iter().zip(weights).map(|(a, b)| a * b).sum();
                        }
                    }
                    _ => line.copy_from_slice(&rows[token * experts..][..experts]),
                }
                line.iter_mut().for_each(|score| *score = 1.0 / (1.0 + (-*score).exp()));
            }
            Ok(())
        })?;
        let biased = |line: &[f32]| line.iter().zip(&*bias).map(|(score, bias)| score + bias).collect::<Vec<f32>>();
        let first = io.alloc(0)?;
        if self.gives_scores {
            let selection = filled(io.alloc(1)?, |to: &mut [f32]| {
                let lines = to.chunks_exact_mut(experts).zip(scores.chunks_exact(experts));
                lines.for_each(|(to, line)| to.copy_from_slice(&biased(line)));
                Ok(())
            })?;
            let plain = narrow(&scores, io.alloc(2)?)?;
            io.push(narrow(&scores, first)?);
            io.push(selection);
            io.push(plain);
            return Ok(());
        }
        let output = filled(first, |output: &mut [f32]| {
            try_each_chunk(cx.parallel, output, each, &|number, lines| {
                cx.check_stop()?;
                for (line, scores) in lines.chunks_exact_mut(experts).zip(scores[number * each..].chunks(experts)) {
                    line.fill(self.sentinel);
                    for expert in self.choose(&biased(scores)) {
                        line[expert] = scores[expert].max(LEAST).ln();
                    }
                }
                Ok(())
            })
        })?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
