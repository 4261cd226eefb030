//! From sums of leaves to results: base values, averages, the function after them, and the label of a class.
//!
//! Two classes may have the weights of only one. The standard does not say what the other one's score is, nor which
//! label is given; here it is as in ONNX Runtime.

use kiln_kernels::memory::Collect;
use kiln_model::operators::float::{Real, sigmoid};
use kiln_model::{Attr, NodeDesc};
use kiln_run::{Io, NodeError};
use kiln_tensor::Tensor;

use super::stated::floats;
use crate::OpError;

/// How the weights of one target are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Average,
    Sum,
    Least,
    Greatest,
}

impl Aggregate {
    pub(super) fn start<T: Real>(self) -> T {
        match self {
            Aggregate::Average | Aggregate::Sum => T::ZERO,
            Aggregate::Least => T::INFINITY,
            Aggregate::Greatest => -T::INFINITY,
        }
    }

    pub(super) fn add<T: Real>(self, sum: &mut T, weight: T) {
        *sum = match self {
            Aggregate::Average | Aggregate::Sum => *sum + weight,
            Aggregate::Least => sum.min(weight),
            Aggregate::Greatest => sum.max(weight),
        };
    }
}

/// The function after the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Nothing,
    Logistic,
    Softmax,
    /// A softmax in which zeros stay zeros.
    SoftmaxZero,
}

impl After {
    /// The function that a node of a classical model names.
    pub(crate) fn read(node: &NodeDesc) -> Result<After, OpError> {
        Ok(match node.attributes().text("post_transform") {
            "NONE" => After::Nothing,
            "LOGISTIC" => After::Logistic,
            "SOFTMAX" => After::Softmax,
            "SOFTMAX_ZERO" => After::SoftmaxZero,
            other => return Err(OpError::unsupported(node, format!("attribute post_transform = {other:?}"))),
        })
    }

    pub(crate) fn apply<T: Real>(self, sums: &mut [T]) {
        match self {
            After::Nothing => {}
            After::Logistic => sums.iter_mut().for_each(|sum| *sum = sigmoid(*sum)),
            After::Softmax | After::SoftmaxZero => {
                let greatest = sums.iter().copied().fold(-T::INFINITY, T::max);
                let stays = |sum: T| self == After::SoftmaxZero && sum <= T::NEAR_ZERO && -sum <= T::NEAR_ZERO;
                let of = |sum: T| if stays(sum) { sum * (-greatest).exp() } else { (sum - greatest).exp() };
                let total: T = sums.iter().map(|&sum| if stays(sum) { T::ZERO } else { of(sum) }).sum();
                sums.iter_mut().for_each(|sum| *sum = of(*sum) / total);
            }
        }
    }
}

/// The names of classes.
pub(crate) enum Label {
    Numbers(Vec<i64>),
    Texts(Vec<String>),
}

impl Label {
    pub(crate) fn len(&self) -> usize {
        match self {
            Label::Numbers(all) => all.len(),
            Label::Texts(all) => all.len(),
        }
    }

    /// Adds the names at these places as a node's next output.
    pub(crate) fn push(&self, places: Vec<usize>, io: &mut Io<'_>) -> Result<(), NodeError> {
        match self {
            Label::Numbers(numbers) => {
                let mut labels = io.alloc(0)?;
                let pairs = labels.as_mut_slice::<i64>()?.iter_mut().zip(places);
                pairs.for_each(|(to, place)| *to = numbers[place]);
                io.push(labels);
            }
            Label::Texts(texts) => {
                let picked: Vec<String> = places.into_iter().map(|place| texts[place].clone()).collected();
                io.push(Tensor::from_strings([picked.len()], picked)?);
            }
        }
        Ok(())
    }
}

pub(super) struct Finish {
    pub(super) targets: usize,
    pub(super) aggregate: Aggregate,
    after: After,
    trees: usize,
    base: Vec<f32>,
    /// The names of classes, in a classifier.
    pub(super) label: Option<Label>,
    /// Whether only one of two classes has weights.
    is_binary: bool,
    /// Whether no weight is negative: then the sum is a probability.
    is_positive: bool,
}

impl Finish {
    /// The node's settings for results; `targets` and `weights` are those of its leaves.
    pub(super) fn read(node: &NodeDesc, targets: &[i64], weights: &[f64], trees: usize) -> Result<Finish, OpError> {
        let invalid = |reason: String| OpError::invalid(node, reason);
        let after = After::read(node)?;
        let base: Vec<f32> = floats(node, "base_values")?.into_iter().map(|value| value as f32).collect();
        let is_classifier = node.op == "TreeEnsembleClassifier";
        let label = match (node.attrs.get("classlabels_strings"), node.ints("classlabels_int64s")) {
            _ if !is_classifier => None,
            (Some(Attr::Strs(texts)), _) if !texts.is_empty() => Some(Label::Texts(texts.clone())),
            (_, Some(numbers)) if !numbers.is_empty() => Some(Label::Numbers(numbers.to_vec())),
            _ => return Err(invalid("it has no classlabels".to_owned())),
        };
        // A classifier has no such attribute.
        let aggregate = if is_classifier { "SUM" } else { node.attributes().text("aggregate_function") };
        let aggregate = match aggregate {
            "SUM" => Aggregate::Sum,
            "AVERAGE" => Aggregate::Average,
            "MIN" => Aggregate::Least,
            "MAX" => Aggregate::Greatest,
            other => return Err(invalid(format!("aggregate_function = {other:?}"))),
        };
        let count = match &label {
            Some(label) => label.len(),
            None => usize::try_from(node.attributes().int("n_targets")).unwrap_or(0),
        };
        if count == 0 || !(base.is_empty() || base.len() == count || is_classifier && count == 2 && base.len() == 1) {
            return Err(invalid(format!("{} base_values for {count} targets", base.len())));
        }
        let is_binary = count == 2 && !targets.is_empty() && targets.iter().all(|&target| target == targets[0]);
        let is_positive = weights.iter().all(|&weight| weight >= 0.0);
        Ok(Finish { targets: count, aggregate, after, trees, base, label, is_binary, is_positive })
    }

    /// Turns a row's sums into scores, and returns the place of its label.
    pub(super) fn row(&self, sums: &mut [f32], has: &[bool]) -> usize {
        if self.label.is_some() && self.targets == 2 {
            return self.two(sums, has);
        }
        for (place, (sum, has)) in sums.iter_mut().zip(has).enumerate() {
            let base = self.base.get(place).copied().unwrap_or(0.0);
            *sum = match self.aggregate {
                _ if !has => base,
                Aggregate::Average => *sum / self.trees as f32 + base,
                _ => *sum + base,
            };
        }
        let mut best = 0;
        for place in 1..sums.len() {
            if sums[place] > sums[best] {
                best = place;
            }
        }
        // As in ONNX Runtime, a function does not change a single target.
        if sums.len() > 1 {
            self.after.apply(sums);
        }
        best
    }

    /// Turns the sums of two classes into scores.
    fn two(&self, sums: &mut [f32], has: &[bool]) -> usize {
        let (weight, is_pair) = match self.base[..] {
            [_, base] if has[1] => {
                sums[1] = base + sums[0];
                sums[0] = -sums[1];
                (sums[1], true)
            }
            [first, _] => {
                sums[0] += first;
                (sums[0], true)
            }
            [base] => {
                sums[0] += base;
                (sums[usize::from(has[1])], has[1])
            }
            _ => (sums[usize::from(has[1])], has[1]),
        };
        let least = if self.is_binary && self.is_positive { 0.5 } else { 0.0 };
        let label = usize::from(weight > least);
        if is_pair {
            self.after.apply(sums);
            return label;
        }
        // The one score is of the second class.
        let score = sums[0];
        let scores = match self.after {
            After::Logistic => [sigmoid(-score), sigmoid(score)],
            _ if self.is_binary && !self.is_positive => [-score, score],
            _ => [1.0 - score, score],
        };
        sums.copy_from_slice(&scores);
        label
    }
}
