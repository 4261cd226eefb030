//! TreeEnsembleRegressor and TreeEnsembleClassifier of the domain `ai.onnx.ml`: decision trees over rows of features,
//! whose leaves add weights to targets or classes. [`scores`] turns sums into results, as ONNX Runtime does.
//!
//! A model's trees are untrusted: when the node is made, every index is checked, and a tree that leads back into itself
//! is refused, so that a walk ends. Nodes of all trees lie in one list. Rows are split over threads in blocks.

mod scores;

use std::sync::Mutex;

use hashbrown::HashMap;

use self::scores::{Finish, Label};
use super::wide::widened;
use super::{LoadCx, OpError, Operator, refused, required};
use crate::graph::{Attr, Io, Node, NodeDesc, NodeError, Prepared, RunCx};
use crate::tensor::{DType, Tensor, TensorSpec};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("ai.onnx.ml", "TreeEnsembleRegressor", |cx| make(cx, "target")),
    ("ai.onnx.ml", "TreeEnsembleClassifier", |cx| make(cx, "class")),
];

/// Rows that one task takes: some hundred microseconds of a large ensemble.
const BLOCK: usize = 64;

/// How a feature is compared with the split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    AtMost,
    Below,
    AtLeast,
    Above,
    Equal,
    Unequal,
    /// None: it is a leaf.
    Leaf,
}

/// One node of a tree. Of a leaf, `yes..no` are its weights.
#[derive(Clone, Copy, Debug)]
struct Branch<T> {
    split: T,
    feature: u32,
    yes: u32,
    no: u32,
    test: Test,
    /// Whether a missing feature passes the test.
    missing: bool,
}

/// What a leaf adds, and to what.
#[derive(Clone, Copy, Debug)]
struct Weight {
    target: u32,
    value: f32,
}

/// All trees, over features of that type.
struct Trees<T> {
    branches: Vec<Branch<T>>,
    roots: Vec<u32>,
    /// The least number of features that a row has.
    features: usize,
}

struct Forest {
    /// For rows of `f32`, and for all others.
    single: Trees<f32>,
    double: Trees<f64>,
    weights: Vec<Weight>,
    finish: Finish,
}

fn floats(node: &NodeDesc, name: &str) -> Result<Vec<f64>, OpError> {
    match (node.attrs.get(&format!("{name}_as_tensor")), node.floats(name)) {
        (Some(Attr::Tensor(tensor)), _) => {
            widened(tensor).map_err(|error| OpError::invalid(node, format!("{name}: {error}")))
        }
        (_, Some(values)) => Ok(values.iter().copied().map(f64::from).collect()),
        _ => Ok(Vec::new()),
    }
}

fn ints<'a>(node: &'a NodeDesc, name: &str, count: usize) -> Result<&'a [i64], OpError> {
    let found = node.ints(name).unwrap_or_default();
    if found.len() == count {
        return Ok(found);
    }
    Err(OpError::invalid(node, format!("{} numbers in {name}, and {count} are needed", found.len())))
}

/// A tree and one of its nodes, as the model numbers them.
type Id = (i64, i64);

fn make(cx: &LoadCx<'_>, of: &str) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let modes = match node.attrs.get("nodes_modes") {
        Some(Attr::Strs(modes)) => modes.as_slice(),
        _ => return Err(OpError::invalid(node, "no nodes_modes")),
    };
    let count = modes.len();
    let (trees, ids) = (ints(node, "nodes_treeids", count)?, ints(node, "nodes_nodeids", count)?);
    let ids: Vec<Id> = trees.iter().copied().zip(ids.iter().copied()).collect();
    let mut places: HashMap<Id, u32> = HashMap::with_capacity(count);
    for (place, &id) in ids.iter().enumerate() {
        if places.insert(id, place as u32).is_some() {
            return Err(OpError::invalid(node, format!("tree {} has two nodes {}", id.0, id.1)));
        }
    }
    let mut double = branches(node, modes, &ids, &places)?;
    let mut weights: Vec<(u32, Weight)> = Vec::new();
    let values = floats(node, &format!("{of}_weights"))?;
    let list = |name: &str| ints(node, &format!("{of}_{name}"), values.len());
    let (trees, nodes, targets) = (list("treeids")?, list("nodeids")?, list("ids")?);
    let finish = Finish::read(node, targets, &values)?;
    for (index, &value) in values.iter().enumerate() {
        let id = (trees[index], nodes[index]);
        let place = places.get(&id).copied().filter(|&place| double[place as usize].test == Test::Leaf);
        let target = usize::try_from(targets[index]).ok().filter(|&target| target < finish.targets);
        let (Some(place), Some(target)) = (place, target) else {
            let reason = format!("a weight of node {} of tree {} for {of} {}", id.1, id.0, targets[index]);
            return Err(OpError::invalid(node, reason));
        };
        weights.push((place, Weight { target: target as u32, value: value as f32 }));
    }
    // The weights of a leaf stand side by side, in their order.
    weights.sort_by_key(|(place, _)| *place);
    for branch in double.iter_mut().filter(|branch| branch.test == Test::Leaf) {
        (branch.yes, branch.no) = (0, 0);
    }
    for (index, (place, _)) in weights.iter().enumerate() {
        let leaf = &mut double[*place as usize];
        if leaf.no == 0 {
            leaf.yes = index as u32;
        }
        leaf.no = index as u32 + 1;
    }
    let weights = weights.into_iter().map(|(_, weight)| weight).collect();
    let roots = roots(node, &double)?;
    let features = double.iter().filter(|branch| branch.test != Test::Leaf).map(|branch| branch.feature as usize + 1);
    let features = features.max().unwrap_or(0);
    let single = double.iter().map(|branch| {
        let Branch { feature, yes, no, test, missing, .. } = *branch;
        Branch { split: branch.split as f32, feature, yes, no, test, missing }
    });
    let single = Trees { branches: single.collect(), roots: roots.clone(), features };
    Ok(Box::new(Forest { single, double: Trees { branches: double, roots, features }, weights, finish }))
}

fn branches(
    node: &NodeDesc,
    modes: &[String],
    ids: &[Id],
    places: &HashMap<Id, u32>,
) -> Result<Vec<Branch<f64>>, OpError> {
    let count = modes.len();
    let features = ints(node, "nodes_featureids", count)?;
    let (yes, no) = (ints(node, "nodes_truenodeids", count)?, ints(node, "nodes_falsenodeids", count)?);
    let missing = match node.ints("nodes_missing_value_tracks_true") {
        None | Some([]) => &vec![0; count],
        Some(_) => &ints(node, "nodes_missing_value_tracks_true", count)?.to_vec(),
    };
    let splits = floats(node, "nodes_values")?;
    if splits.len() != count || u32::try_from(count).is_err() {
        return Err(OpError::invalid(
            node,
            format!("{} numbers in nodes_values, and {count} are needed", splits.len()),
        ));
    }
    let mut made = Vec::with_capacity(count);
    for (index, mode) in modes.iter().enumerate() {
        let test = match mode.as_str() {
            "BRANCH_LEQ" => Test::AtMost,
            "BRANCH_LT" => Test::Below,
            "BRANCH_GTE" => Test::AtLeast,
            "BRANCH_GT" => Test::Above,
            "BRANCH_EQ" => Test::Equal,
            "BRANCH_NEQ" => Test::Unequal,
            "LEAF" => Test::Leaf,
            other => return Err(OpError::unsupported(node, format!("attribute nodes_modes = {other:?}"))),
        };
        let tree = ids[index].0;
        let next = |list: &[i64]| places.get(&(tree, list[index])).copied();
        let (yes, no) = match test {
            Test::Leaf => (Some(0), Some(0)),
            _ => (next(yes), next(no)),
        };
        let feature = if test == Test::Leaf { Some(0) } else { u32::try_from(features[index]).ok() };
        let (Some(yes), Some(no), Some(feature)) = (yes, no, feature) else {
            return Err(OpError::invalid(node, format!("node {} of tree {tree} leads nowhere", ids[index].1)));
        };
        let feature = if feature < u32::MAX { feature } else { return Err(OpError::invalid(node, "a feature")) };
        made.push(Branch { split: splits[index], feature, yes, no, test, missing: missing[index] != 0 });
    }
    Ok(made)
}

/// The nodes that no other leads to, one of each tree. Refuses trees that lead back into themselves.
fn roots(node: &NodeDesc, branches: &[Branch<f64>]) -> Result<Vec<u32>, OpError> {
    let mut parents = vec![0u32; branches.len()];
    let nexts =
        |branch: &Branch<f64>| if branch.test == Test::Leaf { [None; 2] } else { [Some(branch.yes), Some(branch.no)] };
    for next in branches.iter().flat_map(nexts).flatten() {
        parents[next as usize] += 1;
    }
    let roots: Vec<u32> = (0..branches.len() as u32).filter(|&place| parents[place as usize] == 0).collect();
    // In topological order every node is reached once all that lead to it have been; on a circle none ever is.
    let (mut open, mut reached) = (roots.clone(), 0);
    while let Some(place) = open.pop() {
        reached += 1;
        for next in nexts(&branches[place as usize]).into_iter().flatten() {
            parents[next as usize] -= 1;
            if parents[next as usize] == 0 {
                open.push(next);
            }
        }
    }
    if reached == branches.len() { Ok(roots) } else { Err(OpError::invalid(node, "a tree leads back into itself")) }
}

impl<T: Copy + PartialOrd> Trees<T> {
    /// The weights of the leaf that a row ends in, as a range. The row has all features.
    fn walk(&self, root: u32, row: &[T]) -> std::ops::Range<usize> {
        let mut place = root as usize;
        loop {
            let branch = &self.branches[place];
            if branch.test == Test::Leaf {
                return branch.yes as usize..branch.no as usize;
            }
            let (value, split) = (row[branch.feature as usize], branch.split);
            let holds = match branch.test {
                Test::AtMost => value <= split,
                Test::Below => value < split,
                Test::AtLeast => value >= split,
                Test::Above => value > split,
                Test::Equal => value == split,
                Test::Unequal | Test::Leaf => value != split,
            };
            // Only no number at all is not equal to itself.
            let is_missing = branch.missing && value.partial_cmp(&value).is_none();
            place = if holds || is_missing { branch.yes as usize } else { branch.no as usize };
        }
    }
}

/// Results of a block of rows.
#[derive(Default)]
struct Block {
    scores: Vec<f32>,
    labels: Vec<usize>,
}

impl Forest {
    fn block<T: Copy + PartialOrd>(&self, trees: &Trees<T>, rows: &[T], features: usize) -> Block {
        let (targets, count) = (self.finish.targets, rows.len() / features.max(1));
        let mut sums = vec![self.finish.aggregate.start(); count * targets];
        let mut has = vec![false; count * targets];
        // A tree's nodes stay in the cache while all rows of the block walk it.
        for &root in &trees.roots {
            for (row, values) in rows.chunks_exact(features.max(1)).enumerate() {
                for weight in &self.weights[trees.walk(root, values)] {
                    let place = row * targets + weight.target as usize;
                    self.finish.aggregate.add(&mut sums[place], weight.value);
                    has[place] = true;
                }
            }
        }
        let mut made = Block::default();
        for (sums, has) in sums.chunks_exact_mut(targets.max(1)).zip(has.chunks_exact(targets.max(1))) {
            let label = self.finish.row(sums, has, trees.roots.len(), &mut made.scores);
            made.labels.push(label);
        }
        made
    }

    fn blocks<T: Copy + PartialOrd + Sync>(
        &self,
        trees: &Trees<T>,
        rows: &[T],
        features: usize,
        cx: &RunCx<'_>,
    ) -> Result<Vec<Block>, NodeError> {
        let parts: Vec<&[T]> = rows.chunks(BLOCK * features.max(1)).collect();
        let made: Vec<Mutex<Block>> = parts.iter().map(|_| Mutex::default()).collect();
        cx.parallel.run(parts.len(), &|index| {
            if let Ok(mut slot) = made[index].lock()
                && !cx.parallel.is_stopped()
            {
                *slot = self.block(trees, parts[index], features);
            }
        });
        cx.check_whole()?;
        Ok(made.into_iter().map(|slot| slot.into_inner().unwrap_or_default()).collect())
    }
}

impl Node for Forest {
    fn family(&self) -> &'static str {
        "TreeEnsemble"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let x = required(inputs, 0)?;
        let features = x.shape().last().copied().unwrap_or(0);
        match x.dtype() {
            _ if features < self.single.features || features == 0 => {
                Err(refused(format!("{features} features, and the trees ask for {}", self.single.features)))
            }
            DType::F32 | DType::F64 | DType::I32 | DType::I64 => Ok(()),
            other => Err(NodeError::Unsupported(format!("features of type {other}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let x = io.input(0)?;
        let features = x.shape().last().copied().unwrap_or(0);
        // First of all, because a model may ask for any number of targets.
        let mut to = io.alloc(usize::from(self.finish.label.is_some()))?;
        let blocks = match x.as_slice::<f32>() {
            Ok(rows) => self.blocks(&self.single, rows, features, cx)?,
            Err(_) => self.blocks(&self.double, &widened::<f64>(x)?, features, cx)?,
        };
        let scores: Vec<f32> = blocks.iter().flat_map(|block| block.scores.iter().copied()).collect();
        if let Some(label) = &self.finish.label {
            let picked = blocks.iter().flat_map(|block| &block.labels).copied();
            let labels = match label {
                Label::Numbers(numbers) => {
                    let mut to = io.alloc(0)?;
                    let pairs = to.as_mut_slice::<i64>()?.iter_mut().zip(picked);
                    pairs.for_each(|(to, place)| *to = numbers[place]);
                    to
                }
                Label::Texts(texts) => {
                    let picked: Vec<String> = picked.map(|place| texts[place].clone()).collect();
                    Tensor::from_strings([picked.len()], picked)?
                }
            };
            io.push(labels);
        }
        to.as_mut_slice::<f32>()?.copy_from_slice(&scores);
        io.push(to);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
