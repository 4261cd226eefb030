//! TreeEnsembleRegressor and TreeEnsembleClassifier: nodes, leaves included, have the number of their tree and one of
//! their own. Weights are added in `f32`.

use hashbrown::HashMap;
use kiln_kernels::memory;
use kiln_model::{Attr, NodeDesc};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::scores::Finish;
use super::stated::{Branch, Next, Stated, Test, floats};
use super::{Ensemble, Leaves, Weight, circle};
use crate::{LoadCx, OpError, refused, required};

fn ints<'a>(node: &'a NodeDesc, name: &str, count: usize) -> Result<&'a [i64], OpError> {
    let found = node.ints(name).unwrap_or_default();
    if found.len() == count {
        return Ok(found);
    }
    Err(OpError::invalid(node, format!("{} numbers in {name}, and {count} are needed", found.len())))
}

/// A tree and one of its nodes, as the model numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Id {
    tree: i64,
    node: i64,
}

/// The nodes of a model, by their numbers.
struct Nodes {
    ids: Vec<Id>,
    /// For each node, its number among the branches or among the leaves.
    nexts: Vec<Next>,
    places: Places,
    leaves: usize,
}

/// Where a node is in the lists.
enum Places {
    /// The nodes of a tree follow each other, numbered from 0 on: where each tree begins, and how many nodes it has.
    /// All known writers order trees so.
    InOrder(HashMap<i64, (usize, usize)>),
    /// By their numbers.
    Each(HashMap<Id, u32>),
}

impl Places {
    /// The places of these nodes. Refuses two nodes of one number.
    fn of(node: &NodeDesc, ids: &[Id]) -> Result<Places, OpError> {
        let mut trees = HashMap::new();
        let mut rest = ids;
        while let Some(first) = rest.first() {
            let count =
                rest.iter().zip(0..).take_while(|(id, number)| **id == Id { tree: first.tree, node: *number }).count();
            let begin = ids.len() - rest.len();
            if count == 0 || trees.insert(first.tree, (begin, count)).is_some() {
                return Places::each(node, ids);
            }
            rest = &rest[count..];
        }
        Ok(Places::InOrder(trees))
    }

    fn each(node: &NodeDesc, ids: &[Id]) -> Result<Places, OpError> {
        let mut places = HashMap::with_capacity(ids.len());
        for (&id, place) in ids.iter().zip(0..) {
            if places.insert(id, place).is_some() {
                return Err(OpError::invalid(node, format!("tree {} has two nodes {}", id.tree, id.node)));
            }
        }
        Ok(Places::Each(places))
    }

    fn get(&self, id: Id) -> Option<usize> {
        match self {
            Places::InOrder(trees) => {
                let &(begin, count) = trees.get(&id.tree)?;
                usize::try_from(id.node).ok().filter(|&node| node < count).map(|node| begin + node)
            }
            Places::Each(places) => places.get(&id).map(|&place| place as usize),
        }
    }
}

impl Nodes {
    fn read(node: &NodeDesc, modes: &[String]) -> Result<Nodes, OpError> {
        let count = modes.len();
        let (trees, nodes) = (ints(node, "nodes_treeids", count)?, ints(node, "nodes_nodeids", count)?);
        if u32::try_from(count).is_err() {
            return Err(OpError::invalid(node, format!("{count} nodes")));
        }
        let ids: Vec<Id> = trees.iter().zip(nodes).map(|(&tree, &node)| Id { tree, node }).collect();
        let mut nexts = memory::with_capacity(count);
        let (mut branches, mut leaves) = (0, 0);
        for mode in modes {
            let counted = if mode == "LEAF" { &mut leaves } else { &mut branches };
            let next = if mode == "LEAF" { Next::Leaf(*counted) } else { Next::Branch(*counted) };
            *counted += 1;
            nexts.push(next);
        }
        let places = Places::of(node, &ids)?;
        Ok(Nodes { ids, nexts, places, leaves: leaves as usize })
    }

    /// The node of that number.
    fn get(&self, id: Id) -> Option<Next> {
        self.places.get(id).map(|place| self.nexts[place])
    }
}

/// A regressor or a classifier.
struct Forest {
    ensemble: Ensemble<f32>,
    finish: Finish,
}

pub(super) fn make(cx: &LoadCx<'_>, of: &str) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let modes = match node.attrs.get("nodes_modes") {
        Some(Attr::Strs(modes)) => modes.as_slice(),
        _ => return Err(OpError::invalid(node, "no nodes_modes")),
    };
    let nodes = Nodes::read(node, modes)?;
    let stated = stated(node, modes, &nodes)?;
    let values = floats(node, &format!("{of}_weights"))?;
    let list = |name: &str| ints(node, &format!("{of}_{name}"), values.len());
    let (trees, ids, targets) = (list("treeids")?, list("nodeids")?, list("ids")?);
    let finish = Finish::read(node, targets, &values, stated.roots.len())?;
    let mut weights: Vec<(u32, Weight<f32>)> = memory::with_capacity(values.len());
    for (index, &value) in values.iter().enumerate() {
        let id = Id { tree: trees[index], node: ids[index] };
        let target = usize::try_from(targets[index]).ok().filter(|&target| target < finish.targets);
        match (nodes.get(id), target) {
            (Some(Next::Leaf(leaf)), Some(target)) => {
                weights.push((leaf, Weight { target: target as u32, value: value as f32 }));
            }
            // As in ONNX Runtime, a weight of a node that is no leaf is never reached.
            (Some(_), Some(_)) => {}
            _ => {
                let reason = format!("a weight of node {} of tree {} for {of} {}", id.node, id.tree, targets[index]);
                return Err(OpError::invalid(node, reason));
            }
        }
    }
    // The weights of a leaf are side by side, in their order.
    weights.sort_by_key(|(leaf, _)| *leaf);
    let mut ends = memory::zeroed::<u32>(nodes.leaves);
    weights.iter().for_each(|(leaf, _)| ends[*leaf as usize] += 1);
    let mut end = 0;
    for own in &mut ends {
        end += *own;
        *own = end;
    }
    let leaves = Leaves { weights: weights.into_iter().map(|(_, weight)| weight).collect(), ends };
    let ensemble = Ensemble::new(node, &stated, leaves, finish.targets, finish.aggregate)?;
    Ok(Box::new(Forest { ensemble, finish }))
}

fn stated(node: &NodeDesc, modes: &[String], nodes: &Nodes) -> Result<Stated, OpError> {
    let count = modes.len();
    let features = ints(node, "nodes_featureids", count)?;
    let (yes, no) = (ints(node, "nodes_truenodeids", count)?, ints(node, "nodes_falsenodeids", count)?);
    let missing = match node.ints("nodes_missing_value_tracks_true") {
        None | Some([]) => None,
        Some(_) => Some(ints(node, "nodes_missing_value_tracks_true", count)?),
    };
    let splits = floats(node, "nodes_values")?;
    if splits.len() != count {
        let reason = format!("{} numbers in nodes_values, and {count} are needed", splits.len());
        return Err(OpError::invalid(node, reason));
    }
    let mut made = Stated::default();
    for (index, mode) in modes.iter().enumerate() {
        let test = match mode.as_str() {
            "BRANCH_LEQ" => Test::AtMost,
            "BRANCH_LT" => Test::Below,
            "BRANCH_GTE" => Test::AtLeast,
            "BRANCH_GT" => Test::Above,
            "BRANCH_EQ" => Test::Equal,
            "BRANCH_NEQ" => Test::Unequal,
            "LEAF" => continue,
            other => return Err(OpError::unsupported(node, format!("attribute nodes_modes = {other:?}"))),
        };
        let Id { tree, node: own } = nodes.ids[index];
        let next = |list: &[i64]| nodes.get(Id { tree, node: list[index] });
        let (Some(yes), Some(no), Ok(feature)) = (next(yes), next(no), u32::try_from(features[index])) else {
            return Err(OpError::invalid(node, format!("node {own} of tree {tree} leads nowhere")));
        };
        let missing = missing.is_some_and(|missing| missing[index] != 0);
        made.branches.push(Branch { feature, test, split: splits[index], missing, next: [yes, no] });
    }
    roots(node, nodes, &mut made)?;
    Ok(made)
}

/// Finds the root of each tree, the node that no other leads to. Refuses trees without such a node.
fn roots(node: &NodeDesc, nodes: &Nodes, stated: &mut Stated) -> Result<(), OpError> {
    let mut has_parent = [memory::filled(false, stated.branches.len()), memory::filled(false, nodes.leaves)];
    let place = |next: Next| match next {
        Next::Branch(place) => [0, place as usize],
        Next::Leaf(place) => [1, place as usize],
    };
    for next in stated.branches.iter().flat_map(|branch| branch.next) {
        let [kind, place] = place(next);
        has_parent[kind][place] = true;
    }
    let all = nodes.nexts.iter().copied();
    stated.roots = all
        .filter(|&next| {
            let [kind, place] = place(next);
            !has_parent[kind][place]
        })
        .collect();
    let depths = stated.depths().map_err(|_| circle(node))?;
    // A branch that no root leads to is on a circle, or behind one.
    if depths.iter().all(Option::is_some) { Ok(()) } else { Err(circle(node)) }
}

impl Node for Forest {
    fn family(&self) -> &'static str {
        "TreeEnsemble"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let x = required(inputs, 0)?;
        let features = x.shape().last().copied().unwrap_or(0);
        if features == 0 {
            return Err(refused("rows without features"));
        }
        self.ensemble.check(features)?;
        match x.dtype() {
            DType::F32 | DType::F64 | DType::I32 | DType::I64 => Ok(()),
            other => Err(NodeError::Unsupported(format!("features of type {other}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let x = io.input(0)?;
        // Before the work, because a model may ask for any number of targets.
        let mut to = io.alloc(usize::from(self.finish.label.is_some()))?;
        let mut places = memory::zeroed(to.shape()[0]);
        let finish = |sums: &mut [f32], has: &[bool]| self.finish.row(sums, has);
        self.ensemble.run(x, to.as_mut_slice()?, &mut places, &finish, cx)?;
        if let Some(label) = &self.finish.label {
            label.push(places, io)?;
        }
        io.push(to);
        Ok(())
    }
}
