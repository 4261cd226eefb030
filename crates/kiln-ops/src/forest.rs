//! Decision trees of the domain `ai.onnx.ml` over rows of features, whose leaves add weights to targets or classes:
//! TreeEnsembleRegressor, TreeEnsembleClassifier and TreeEnsemble.
//!
//! - [`stated`]: trees as a model states them; [`numbered`] and [`listed`] read the two forms of attributes.
//! - [`layout`]: trees laid out for descents, and descents.
//! - [`scores`]: from weights to results, as ONNX Runtime does.
//!
//! Rows are split over threads in blocks. Where there are too few rows for that, the trees are split, and the weights
//! are still added in the order of trees.

mod layout;
mod listed;
mod numbered;
mod scores;
mod stated;

use std::borrow::Cow;
use std::ops::Range;

use kiln_kernels::memory::{self, Collect};
use kiln_kernels::parallel::for_each_chunk;

use self::layout::{LANES, Layout, Rows, Split};
use self::scores::Aggregate;
pub(super) use self::scores::{After, Label};
use kiln_model::NodeDesc;
use kiln_model::operators::float::Real;
use kiln_run::{NodeError, RunCx};
use kiln_tensor::{DType, Tensor};

use self::stated::{Branch, Circle, Stated, Test};
use super::wide::widened;
use super::{OpError, Operator, refused};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("ai.onnx.ml", "TreeEnsemble", listed::make),
    ("ai.onnx.ml", "TreeEnsembleRegressor", |cx| numbered::make(cx, "target")),
    ("ai.onnx.ml", "TreeEnsembleClassifier", |cx| numbered::make(cx, "class")),
];

/// Bytes of features of a block of rows, which stay in L2 while all trees pass over them, and the most rows of a block.
const BLOCK_BYTES: usize = 128 << 10;
const BLOCK_ROWS: usize = 128;

/// Steps of a row's descents from which on threads divide its trees: about eight microseconds.
const STEPS_TO_DIVIDE: usize = 4096;

/// The weight that a leaf adds, and its target.
#[derive(Clone, Copy, Debug)]
struct Weight<W> {
    target: u32,
    value: W,
}

/// The weights of all leaves, by their numbers.
struct Leaves<W> {
    weights: Vec<Weight<W>>,
    /// Where the weights of each leaf end.
    ends: Vec<u32>,
}

impl<W> Leaves<W> {
    fn of(&self, leaf: u32) -> &[Weight<W>] {
        let start = if leaf == 0 { 0 } else { self.ends[leaf as usize - 1] };
        &self.weights[start as usize..self.ends[leaf as usize] as usize]
    }

    /// The target of all weights, if it is one and each leaf has one weight.
    fn only_target(&self) -> Option<usize> {
        let target = self.weights.first()?.target;
        let is_same = self.weights.iter().all(|weight| weight.target == target);
        let is_single = self.ends.iter().zip(1..).all(|(&end, count)| end == count);
        (is_same && is_single).then_some(target as usize)
    }
}

enum Trees {
    /// All splits are numbers of 32 bits, and all tests are `<` and `>=`, or all are `<=` and `>`.
    Single {
        layout: Layout<f32>,
        is_strict: bool,
    },
    Double(Layout<f64>),
}

impl Trees {
    fn of(node: &NodeDesc, stated: &Stated) -> Result<Trees, OpError> {
        let depths = stated.depths().map_err(|Circle| circle(node))?;
        let is_strict = |branch: &Branch| matches!(branch.test, Test::Below | Test::AtLeast);
        let first = stated.branches.first().is_some_and(is_strict);
        let is_single = |branch: &Branch| {
            let is_exact = f64::from(branch.split as f32) == branch.split || branch.split.is_nan();
            is_exact && is_strict(branch) == first && !matches!(branch.test, Test::Equal | Test::Unequal)
        };
        let trees = match stated.branches.iter().all(is_single) {
            true => Layout::of(stated, &depths).map(|layout| Trees::Single { layout, is_strict: first }),
            false => Layout::of(stated, &depths).map(Trees::Double),
        };
        trees.ok_or_else(|| OpError::invalid(node, "more nodes than can be counted"))
    }
}

fn circle(node: &NodeDesc) -> OpError {
    OpError::invalid(node, "a tree leads back into itself")
}

/// The number of 32 bits that compares with splits of 32 bits as `value` does: rounded up where tests are `<=` and `>`,
/// and down where they are `<` and `>=`.
fn compared_as(value: f64, is_strict: bool) -> f32 {
    let nearest = value as f32;
    match f64::from(nearest) {
        near if near < value && !is_strict => nearest.next_up(),
        near if near > value && is_strict => nearest.next_down(),
        _ => nearest,
    }
}

/// All trees of a node and what their leaves add, in numbers of type `W`.
struct Ensemble<W> {
    trees: Trees,
    leaves: Leaves<W>,
    only_target: Option<usize>,
    targets: usize,
    /// The least number of features that a row has.
    features: usize,
    aggregate: Aggregate,
}

/// The sums of a block of rows, and flags for those that have any weight.
struct Sums<'a, W> {
    values: &'a mut [W],
    has: Vec<bool>,
}

/// Finishes the sums of a row, given which have any weight; returns the place of the row's label.
type Finish<'a, W> = &'a (dyn Fn(&mut [W], &[bool]) -> usize + Sync);

/// The results of some rows: the scores of each, and the place of its label.
struct Block<'a, W> {
    rows: Range<usize>,
    scores: &'a mut [W],
    labels: &'a mut [usize],
}

impl<W: Real + Send + Sync> Ensemble<W> {
    fn new(
        node: &NodeDesc,
        stated: &Stated,
        leaves: Leaves<W>,
        targets: usize,
        aggregate: Aggregate,
    ) -> Result<Self, OpError> {
        let features = stated.branches.iter().map(|branch| branch.feature as usize + 1).max().unwrap_or(0);
        let (trees, only_target) = (Trees::of(node, stated)?, leaves.only_target());
        Ok(Ensemble { trees, leaves, only_target, targets, features, aggregate })
    }

    fn check(&self, features: usize) -> Result<(), NodeError> {
        if features >= self.features {
            return Ok(());
        }
        let (last, needed) = (self.features - 1, self.features);
        Err(refused(format!("no feature {last}: {features} features, and the trees ask for {needed}")))
    }

    /// Writes the scores [rows, targets] and the place of each row's label.
    fn run(
        &self,
        x: &Tensor,
        scores: &mut [W],
        labels: &mut [usize],
        finish: Finish<'_, W>,
        cx: &RunCx<'_>,
    ) -> Result<(), NodeError> {
        let features = x.shape().last().copied().unwrap_or(0);
        match &self.trees {
            Trees::Single { layout, is_strict } => {
                let values = match x.dtype() {
                    DType::F32 => Cow::Borrowed(x.as_slice::<f32>()?),
                    DType::F16 | DType::BF16 => Cow::Owned(widened(x)?),
                    _ => Cow::Owned(widened(x)?.into_iter().map(|value| compared_as(value, *is_strict)).collected()),
                };
                self.run_on(layout, Rows { values: &values, features }, scores, labels, finish, cx)
            }
            Trees::Double(layout) => {
                self.run_on(layout, Rows { values: &widened(x)?, features }, scores, labels, finish, cx)
            }
        }
    }

    fn run_on<S: Split>(
        &self,
        layout: &Layout<S>,
        rows: Rows<'_, S>,
        scores: &mut [W],
        labels: &mut [usize],
        finish: Finish<'_, W>,
        cx: &RunCx<'_>,
    ) -> Result<(), NodeError> {
        let threads = cx.parallel.threads();
        let (count, targets) = (labels.len(), self.targets.max(1));
        if count < threads && layout.steps() >= STEPS_TO_DIVIDE {
            let (parts, labels) = (scores.chunks_exact_mut(targets), labels.chunks_exact_mut(1));
            for (row, (scores, labels)) in parts.zip(labels).enumerate() {
                let row = rows.part(row..row + 1);
                let mut ends = memory::zeroed(layout.trees().len());
                let each = ends.len().div_ceil(threads).next_multiple_of(LANES);
                for_each_chunk(cx.parallel, &mut ends, each, &|part, to| layout.descend_row(&row, part * each, to));
                cx.check_whole()?;
                let mut sums = self.sums(scores);
                ends.iter().for_each(|&leaf| self.add(leaf, 0, &mut sums));
                labels[0] = finish(sums.values, &sums.has);
            }
            return Ok(());
        }
        let bytes = size_of::<S>() * rows.features.max(1);
        let most = (BLOCK_BYTES / bytes).clamp(LANES, BLOCK_ROWS);
        let each = count.div_ceil(threads).clamp(1, most).next_multiple_of(LANES);
        let (parts, labels) = (scores.chunks_mut(each * targets), labels.chunks_mut(each));
        let mut blocks: Vec<Block<'_, W>> = parts
            .zip(labels)
            .enumerate()
            .map(|(index, (scores, labels))| Block { rows: index * each..index * each + labels.len(), scores, labels })
            .collect();
        for_each_chunk(cx.parallel, &mut blocks, 1, &|_, block| {
            if !cx.parallel.is_stopped() {
                self.block(layout, rows, &mut block[0], finish);
            }
        });
        cx.check_whole()
    }

    fn block<S: Split>(&self, layout: &Layout<S>, rows: Rows<'_, S>, block: &mut Block<'_, W>, finish: Finish<'_, W>) {
        let rows = rows.part(block.rows.clone());
        let mut sums = self.sums(block.scores);
        // The rows that fill all lanes first, and then the others one by one.
        let whole = rows.count() / LANES * LANES;
        layout.descend_rows(&rows.part(0..whole), |first, leaves| {
            leaves.iter().zip(first..).for_each(|(&leaf, row)| self.add(leaf, row, &mut sums));
        });
        let mut ends = memory::zeroed(if whole < rows.count() { layout.trees().len() } else { 0 });
        for row in whole..rows.count() {
            layout.descend_row(&rows.part(row..row + 1), 0, &mut ends);
            ends.iter().for_each(|&leaf| self.add(leaf, row, &mut sums));
        }
        let each = self.targets.max(1);
        let rows = sums.values.chunks_exact_mut(each).zip(sums.has.chunks_exact(each)).zip(&mut *block.labels);
        rows.for_each(|((sums, has), label)| *label = finish(sums, has));
    }

    /// Sums before the first weight.
    fn sums<'a>(&self, values: &'a mut [W]) -> Sums<'a, W> {
        values.fill(self.aggregate.start());
        let mut has = memory::filled(false, values.len());
        if let Some(target) = self.only_target {
            has.iter_mut().skip(target).step_by(self.targets.max(1)).for_each(|has| *has = true);
        }
        Sums { values, has }
    }

    /// Adds the weights of a leaf to the sums of a row.
    fn add(&self, leaf: u32, row: usize, sums: &mut Sums<'_, W>) {
        if let Some(target) = self.only_target {
            let value = self.leaves.weights[leaf as usize].value;
            self.aggregate.add(&mut sums.values[row * self.targets + target], value);
            return;
        }
        for weight in self.leaves.of(leaf) {
            let place = row * self.targets + weight.target as usize;
            self.aggregate.add(&mut sums.values[place], weight.value);
            sums.has[place] = true;
        }
    }
}

#[cfg(test)]
mod tests;
