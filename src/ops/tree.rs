//! TreeEnsemble of the domain `ai.onnx.ml`: decision trees over rows of features, whose leaves add up by target.
//!
//! A model's trees are untrusted: every index is checked when the node is made, and a descent takes no more steps than
//! there are nodes, so that a cycle is refused.

use super::wide::{Width, narrow, widened};
use super::{LoadCx, OpError, Operator, refused, required, size_attribute};
use crate::graph::{Attr, Io, Node, NodeDesc, NodeError, Prepared, RunCx};
use crate::tensor::{Tensor, TensorSpec};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("ai.onnx.ml", "TreeEnsemble", make)];

/// How a feature is tested.
#[derive(Clone, Debug)]
enum Test {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
    Above(f64),
    Equal(f64),
    Unequal(f64),
    Member(Vec<f64>),
}

impl Test {
    fn holds(&self, value: f64) -> bool {
        match self {
            Test::AtMost(split) => value <= *split,
            Test::Below(split) => value < *split,
            Test::AtLeast(split) => value >= *split,
            Test::Above(split) => value > *split,
            Test::Equal(split) => value == *split,
            Test::Unequal(split) => value != *split,
            Test::Member(members) => members.contains(&value),
        }
    }
}

/// Where a test leads.
#[derive(Clone, Copy, Debug)]
enum Next {
    Node(usize),
    Leaf(usize),
}

#[derive(Clone, Debug)]
struct Branch {
    feature: usize,
    test: Test,
    /// Whether a missing feature passes the test.
    missing: bool,
    /// If the test holds, and if not.
    next: [Next; 2],
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    target: usize,
    weight: f64,
}

#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Average,
    Sum,
    Least,
    Greatest,
}

#[derive(Clone, Copy, Debug)]
enum After {
    Nothing,
    Softmax,
    Logistic,
}

struct Ensemble {
    branches: Vec<Branch>,
    leaves: Vec<Leaf>,
    roots: Vec<Next>,
    targets: usize,
    aggregate: Aggregate,
    after: After,
}

fn floats(node: &NodeDesc, name: &str) -> Result<Vec<f64>, OpError> {
    match node.attrs.get(name) {
        Some(Attr::Tensor(tensor)) => {
            widened(tensor).map_err(|error| OpError::invalid(node, format!("{name}: {error}")))
        }
        _ => Err(OpError::invalid(node, format!("no {name}"))),
    }
}

/// Whole numbers none of which may reach `end`.
fn indices(node: &NodeDesc, name: &str, end: usize) -> Result<Vec<usize>, OpError> {
    let given = node.ints(name).ok_or_else(|| OpError::invalid(node, format!("no {name}")))?;
    let index = |&index: &i64| usize::try_from(index).ok().filter(|&index| index < end);
    given.iter().map(index).collect::<Option<_>>().ok_or_else(|| OpError::invalid(node, format!("{name} out of range")))
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let invalid = |reason: &str| OpError::invalid(node, reason);
    let targets = size_attribute(node, "n_targets", 0)?;
    let weights = floats(node, "leaf_weights")?;
    let leaf_targets = indices(node, "leaf_targetids", targets)?;
    if weights.len() != leaf_targets.len() {
        return Err(invalid("leaves need a weight and a target each"));
    }
    let leaves: Vec<Leaf> =
        leaf_targets.into_iter().zip(weights).map(|(target, weight)| Leaf { target, weight }).collect();
    let branches = branches(node, leaves.len())?;
    // A root that has the same leaf on both sides stands for that leaf.
    let roots = indices(node, "tree_roots", branches.len())?.into_iter().map(|root| match branches[root].next {
        [Next::Leaf(one), Next::Leaf(other)] if one == other => Next::Leaf(one),
        _ => Next::Node(root),
    });
    let aggregate = match node.attributes().int("aggregate_function") {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Least,
        3 => Aggregate::Greatest,
        other => return Err(invalid(&format!("aggregate_function = {other}"))),
    };
    let after = match node.attributes().int("post_transform") {
        0 => After::Nothing,
        1 => After::Softmax,
        2 => After::Logistic,
        other => return Err(OpError::unsupported(node, format!("post_transform = {other}"))),
    };
    Ok(Box::new(Ensemble { roots: roots.collect(), branches, leaves, targets, aggregate, after }))
}

fn branches(node: &NodeDesc, leaves: usize) -> Result<Vec<Branch>, OpError> {
    let invalid = |reason: &str| OpError::invalid(node, reason);
    let modes = floats(node, "nodes_modes")?;
    let (count, splits) = (modes.len(), floats(node, "nodes_splits")?);
    let features = indices(node, "nodes_featureids", usize::MAX)?;
    let sides = ["true", "false"].map(|side| -> Result<Vec<Next>, OpError> {
        let leaf = indices(node, &format!("nodes_{side}leafs"), 2)?;
        let ids = indices(node, &format!("nodes_{side}nodeids"), usize::MAX)?;
        let next = leaf.iter().zip(&ids).map(|(&leaf, &id)| match leaf {
            1 if id < leaves => Some(Next::Leaf(id)),
            0 if id < count => Some(Next::Node(id)),
            _ => None,
        });
        next.collect::<Option<Vec<Next>>>()
            .filter(|next| next.len() == count && leaf.len() == count && ids.len() == count)
            .ok_or_else(|| invalid("a branch leads nowhere"))
    });
    let [yes, no] = sides;
    let (yes, no) = (yes?, no?);
    let missing = match node.ints("nodes_missing_value_tracks_true") {
        Some(flags) => flags.iter().map(|&flag| flag != 0).collect(),
        None => vec![false; count],
    };
    if [splits.len(), features.len(), missing.len()] != [count; 3] {
        return Err(invalid("every node needs a mode, a split and a feature"));
    }
    // Lists of members, each ended by a NaN, for the nodes that ask for one, in their order.
    let members =
        if node.attrs.contains_key("membership_values") { floats(node, "membership_values")? } else { vec![] };
    let mut lists = members.split(|value| value.is_nan());
    let mut made = Vec::with_capacity(count);
    for index in 0..count {
        let split = splits[index];
        let test = match modes[index] as i64 {
            0 => Test::AtMost(split),
            1 => Test::Below(split),
            2 => Test::AtLeast(split),
            3 => Test::Above(split),
            4 => Test::Equal(split),
            5 => Test::Unequal(split),
            6 => Test::Member(lists.next().ok_or_else(|| invalid("too few membership_values"))?.to_vec()),
            other => return Err(invalid(&format!("nodes_modes = {other}"))),
        };
        made.push(Branch { feature: features[index], test, missing: missing[index], next: [yes[index], no[index]] });
    }
    Ok(made)
}

impl Ensemble {
    /// The leaf that a row ends in.
    fn descend(&self, root: Next, row: &[f64]) -> Result<Leaf, NodeError> {
        let mut next = root;
        for _ in 0..=self.branches.len() {
            let place = match next {
                Next::Leaf(leaf) => return Ok(self.leaves[leaf]),
                Next::Node(place) => place,
            };
            let branch = &self.branches[place];
            let value = *row.get(branch.feature).ok_or_else(|| refused(format!("no feature {}", branch.feature)))?;
            let holds = branch.test.holds(value) || branch.missing && value.is_nan();
            next = branch.next[usize::from(!holds)];
        }
        Err(refused("a tree leads back into itself"))
    }

    fn row(&self, row: &[f64], to: &mut [f64]) -> Result<(), NodeError> {
        to.fill(match self.aggregate {
            Aggregate::Average | Aggregate::Sum => 0.0,
            Aggregate::Least => f64::INFINITY,
            Aggregate::Greatest => f64::NEG_INFINITY,
        });
        for &root in &self.roots {
            let leaf = self.descend(root, row)?;
            let target = &mut to[leaf.target];
            *target = match self.aggregate {
                Aggregate::Average => *target + leaf.weight / self.roots.len() as f64,
                Aggregate::Sum => *target + leaf.weight,
                Aggregate::Least => target.min(leaf.weight),
                Aggregate::Greatest => target.max(leaf.weight),
            };
        }
        match self.after {
            After::Nothing => {}
            After::Logistic => to.iter_mut().for_each(|value| *value = 1.0 / (1.0 + (-*value).exp())),
            After::Softmax => {
                let greatest = to.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                to.iter_mut().for_each(|value| *value = (*value - greatest).exp());
                let sum: f64 = to.iter().sum();
                to.iter_mut().for_each(|value| *value /= sum);
            }
        }
        Ok(())
    }
}

impl Node for Ensemble {
    fn family(&self) -> &'static str {
        "TreeEnsemble"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        match required(inputs, 0)?.dtype() {
            dtype if dtype.is_float() => Width::of(dtype).map(drop),
            dtype => Err(refused(format!("no rows of features in {dtype}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (input, to) = (io.input(0)?, io.alloc(0)?);
        let features = input.shape()[1];
        let values = widened::<f64>(input)?;
        let mut output = vec![0f64; to.len()];
        for (row, to) in output.chunks_exact_mut(self.targets.max(1)).enumerate() {
            cx.check_stop()?;
            self.row(&values[row * features..][..features], to)?;
        }
        let output = narrow(&output, to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::trial::Trial;

    /// One split of feature 0 at 2 into the leaves 10 and 20.
    fn stump(mode: u8) -> Trial {
        let tensor = |values: &[f32]| Attr::Tensor(Tensor::from_slice([values.len()], values).unwrap());
        Trial::new("TreeEnsemble")
            .made_by(make)
            .attr("nodes_modes", Attr::Tensor(Tensor::from_slice([1], &[mode]).unwrap()))
            .attr("nodes_splits", tensor(&[2.0]))
            .attr("leaf_weights", tensor(&[10.0, 20.0]))
            .ints("leaf_targetids", &[0, 0])
            .ints("nodes_featureids", &[0])
            .ints("nodes_trueleafs", &[1])
            .ints("nodes_truenodeids", &[0])
            .ints("nodes_falseleafs", &[1])
            .ints("nodes_falsenodeids", &[1])
            .ints("tree_roots", &[0])
    }

    #[test]
    fn rows_end_in_the_leaf_that_their_features_lead_to() {
        let on = |trial: Trial| trial.input(&[4, 1], &[1f32, 2.0, 3.0, f32::NAN]);
        on(stump(0)).gives(&[4, 1], &[10f32, 10.0, 20.0, 20.0]);
        on(stump(1)).gives(&[4, 1], &[10f32, 20.0, 20.0, 20.0]);
        on(stump(2)).gives(&[4, 1], &[20f32, 10.0, 10.0, 20.0]);
        on(stump(3)).gives(&[4, 1], &[20f32, 20.0, 10.0, 20.0]);
        on(stump(4)).gives(&[4, 1], &[20f32, 10.0, 20.0, 20.0]);
        on(stump(5)).gives(&[4, 1], &[10f32, 20.0, 10.0, 10.0]);
        on(stump(0).ints("nodes_missing_value_tracks_true", &[1])).gives(&[4, 1], &[10f32, 10.0, 20.0, 10.0]);
        on(stump(0).ints("tree_roots", &[0, 0])).gives(&[4, 1], &[20f32, 20.0, 40.0, 40.0]);
        on(stump(0).ints("tree_roots", &[0, 0]).int("aggregate_function", 0))
            .gives(&[4, 1], &[10f32, 10.0, 20.0, 20.0]);
        on(stump(0).int("post_transform", 1)).gives(&[4, 1], &[1f32; 4]);
    }

    #[test]
    fn trees_that_lead_nowhere_or_back_are_refused() {
        let on = |trial: Trial| trial.input(&[1, 1], &[1f32]);
        on(stump(0).ints("nodes_trueleafs", &[0])).is_refused("back into itself");
        on(stump(0).ints("nodes_truenodeids", &[2])).is_refused("leads nowhere");
        on(stump(0).ints("nodes_featureids", &[1])).is_refused("no feature 1");
        on(stump(0).ints("tree_roots", &[-1])).is_refused("tree_roots");
        on(stump(6)).gives(&[1, 1], &[20f32]);
        on(stump(9)).is_refused("nodes_modes");
        stump(0).input(&[1], &[1f32]).is_refused("no rows");
    }
}
