//! TreeEnsemble, the operator of later versions: branches and leaves in lists, each leaf with one weight. Weights are
//! added in `f64`.

use kiln_kernels::memory;
use kiln_model::{Attr, NodeDesc};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::scores::{After, Aggregate};
use super::stated::{Branch, Next, Stated, Test};
use super::{Ensemble, Leaves, Weight};
use crate::wide::{Width, narrow, widened};
use crate::{LoadCx, OpError, refused, required, size_attribute};

struct Trees {
    ensemble: Ensemble<f64>,
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

/// Whole numbers, each less than `end`.
fn indices(node: &NodeDesc, name: &str, end: usize) -> Result<Vec<u32>, OpError> {
    let given = node.ints(name).ok_or_else(|| OpError::invalid(node, format!("no {name}")))?;
    let index = |&index: &i64| u32::try_from(index).ok().filter(|&index| (index as usize) < end);
    given.iter().map(index).collect::<Option<_>>().ok_or_else(|| OpError::invalid(node, format!("{name} out of range")))
}

pub(super) fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let invalid = |reason: &str| OpError::invalid(node, reason);
    let targets = size_attribute(node, "n_targets", 0)?;
    let weights = floats(node, "leaf_weights")?;
    let leaf_targets = indices(node, "leaf_targetids", targets)?;
    if weights.len() != leaf_targets.len() {
        return Err(invalid("leaves need a weight and a target each"));
    }
    let stated = stated(node, weights.len())?;
    let (aggregate, share) = match node.attributes().int("aggregate_function") {
        // Each tree has a share in the average.
        0 => (Aggregate::Sum, stated.roots.len() as f64),
        1 => (Aggregate::Sum, 1.0),
        2 => (Aggregate::Least, 1.0),
        3 => (Aggregate::Greatest, 1.0),
        other => return Err(invalid(&format!("aggregate_function = {other}"))),
    };
    let after = match node.attributes().int("post_transform") {
        0 => After::Nothing,
        1 => After::Softmax,
        2 => After::Logistic,
        3 => After::SoftmaxZero,
        other => return Err(OpError::unsupported(node, format!("post_transform = {other}"))),
    };
    let ends = (1..=weights.len() as u32).collect();
    let weights = weights.into_iter().zip(leaf_targets);
    let weights = weights.map(|(weight, target)| Weight { target, value: weight / share }).collect();
    let ensemble = Ensemble::new(node, &stated, Leaves { weights, ends }, targets, aggregate)?;
    Ok(Box::new(Trees { ensemble, after }))
}

/// Where the nodes lead if their test holds, or if it does not.
fn side(node: &NodeDesc, side: &str, nodes: usize, leaves: usize) -> Result<Vec<Next>, OpError> {
    let is_leaf = indices(node, &format!("nodes_{side}leafs"), 2)?;
    let ids = indices(node, &format!("nodes_{side}nodeids"), usize::MAX)?;
    let next = is_leaf.iter().zip(&ids).map(|(&is_leaf, &id)| match is_leaf {
        1 if (id as usize) < leaves => Some(Next::Leaf(id)),
        0 if (id as usize) < nodes => Some(Next::Branch(id)),
        _ => None,
    });
    next.collect::<Option<Vec<Next>>>()
        .filter(|next| next.len() == nodes && is_leaf.len() == nodes && ids.len() == nodes)
        .ok_or_else(|| OpError::invalid(node, "a branch leads nowhere"))
}

fn stated(node: &NodeDesc, leaves: usize) -> Result<Stated, OpError> {
    let invalid = |reason: &str| OpError::invalid(node, reason);
    let modes = floats(node, "nodes_modes")?;
    let (count, splits) = (modes.len(), floats(node, "nodes_splits")?);
    let features = indices(node, "nodes_featureids", usize::MAX)?;
    let (yes, no) = (side(node, "true", count, leaves)?, side(node, "false", count, leaves)?);
    let missing = match node.ints("nodes_missing_value_tracks_true") {
        Some(flags) => flags.iter().map(|&flag| flag != 0).collect(),
        None => memory::filled(false, count),
    };
    if [splits.len(), features.len(), missing.len()] != [count; 3] {
        return Err(invalid("every node needs a mode, a split and a feature"));
    }
    // Lists of members, each ended by a NaN, for the nodes that ask for one, in their order.
    let members =
        if node.attrs.contains_key("membership_values") { floats(node, "membership_values")? } else { vec![] };
    let mut lists = members.split(|value| value.is_nan());
    let (mut branches, mut further) = (memory::with_capacity(count), Vec::new());
    for index in 0..count {
        let branch = |test: Test, split: f64, no: Next| Branch {
            feature: features[index],
            test,
            split,
            missing: missing[index],
            next: [yes[index], no],
        };
        let test = match modes[index] as i64 {
            0 => Test::AtMost,
            1 => Test::Below,
            2 => Test::AtLeast,
            3 => Test::Above,
            4 => Test::Equal,
            5 => Test::Unequal,
            6 => {
                // A chain of tests, one for each member; all but the first are behind all nodes.
                let members = lists.next().ok_or_else(|| invalid("too few membership_values"))?;
                let (first, others) = members.split_first().unwrap_or((&f64::NAN, &[]));
                let mut no = no[index];
                for &member in others.iter().rev() {
                    further.push(branch(Test::Equal, member, no));
                    let place = count + further.len() - 1;
                    no = Next::Branch(u32::try_from(place).map_err(|_| invalid("too many membership_values"))?);
                }
                branches.push(branch(Test::Equal, *first, no));
                continue;
            }
            other => return Err(invalid(&format!("nodes_modes = {other}"))),
        };
        branches.push(branch(test, splits[index], no[index]));
    }
    branches.extend(further);
    // A root that has the same leaf on both sides stands for that leaf.
    let roots = indices(node, "tree_roots", count)?.into_iter().map(|root| match branches[root as usize].next {
        [Next::Leaf(one), Next::Leaf(other)] if one == other => Next::Leaf(one),
        _ => Next::Branch(root),
    });
    let roots = roots.collect();
    Ok(Stated { branches, roots })
}

impl Node for Trees {
    fn family(&self) -> &'static str {
        "TreeEnsemble"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let x = required(inputs, 0)?;
        self.ensemble.check(x.shape()[1])?;
        match x.dtype() {
            dtype if dtype.is_float() => Width::of(dtype).map(drop),
            dtype => Err(refused(format!("no rows of features in {dtype}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let (x, to) = (io.input(0)?, io.alloc(0)?);
        let (mut sums, mut labels) = (memory::zeroed::<f64>(to.len()), memory::zeroed(x.shape()[0]));
        let finish = |sums: &mut [f64], _: &[bool]| {
            self.after.apply(sums);
            0
        };
        self.ensemble.run(x, &mut sums, &mut labels, &finish, cx)?;
        let output = narrow(&sums, to)?;
        io.push(output);
        Ok(())
    }
}
