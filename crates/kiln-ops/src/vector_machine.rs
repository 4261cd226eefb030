//! Support vector machines of the domain `ai.onnx.ml`: SVMClassifier and SVMRegressor.
//!
//! A row of features becomes the values of a kernel function with all support vectors, which are kept feature by
//! feature, so that the values of neighbouring vectors are computed side by side. A classifier has a machine for every
//! pair of classes, whose signs are votes. Points that the standard leaves open are as in ONNX Runtime: the label is
//! the class with the most votes, with probabilities too; two classes without probabilities have the score of the
//! second and its negative; without support vectors the coefficients are the vectors, and the first bias is that of all
//! classes.

mod pairs;

use std::borrow::Cow;

use kiln_kernels::memory::{self, Collect};
use kiln_kernels::parallel::for_each_chunk;
use kiln_model::{Attr, NodeDesc};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use self::pairs::Pairs;
use super::forest::{After, Label};
use super::wide::lent;
use super::{LoadCx, OpError, Operator, refused, required, share};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] =
    &[("ai.onnx.ml", "SVMClassifier", make_classifier), ("ai.onnx.ml", "SVMRegressor", make_regressor)];

/// The kernel function, of the product of a row and a vector or of the square of their distance.
#[derive(Clone, Copy)]
enum Kernel {
    Linear,
    Polynomial {
        gamma: f32,
        plus: f32,
        degree: f32,
    },
    /// exp(-gamma (x - v)^2)
    Radial {
        gamma: f32,
    },
    Sigmoid {
        gamma: f32,
        plus: f32,
    },
}

impl Kernel {
    fn read(node: &NodeDesc) -> Result<Kernel, OpError> {
        let kind = node.attributes().text("kernel_type");
        let &[gamma, plus, degree] = floats(node, "kernel_params") else {
            return match kind {
                "LINEAR" => Ok(Kernel::Linear),
                kind => Err(OpError::invalid(node, format!("kernel_type = {kind:?} without three kernel_params"))),
            };
        };
        Ok(match kind {
            "LINEAR" => Kernel::Linear,
            "POLY" => Kernel::Polynomial { gamma, plus, degree },
            "RBF" => Kernel::Radial { gamma },
            "SIGMOID" => Kernel::Sigmoid { gamma, plus },
            kind => return Err(OpError::unsupported(node, format!("attribute kernel_type = {kind:?}"))),
        })
    }

    /// Turns products, or squares of distances, into the values of the kernel.
    fn finish(self, values: &mut [f32]) {
        let each =
            |values: &mut [f32], of: &dyn Fn(f32) -> f32| values.iter_mut().for_each(|value| *value = of(*value));
        match self {
            Kernel::Linear => {}
            Kernel::Polynomial { gamma, plus, degree } => each(values, &|value| (gamma * value + plus).powf(degree)),
            Kernel::Radial { gamma } => each(values, &|value| (-gamma * value).exp()),
            Kernel::Sigmoid { gamma, plus } => each(values, &|value| (gamma * value + plus).tanh()),
        }
    }
}

/// The attribute of that name, empty where it is left out.
fn floats<'n>(node: &'n NodeDesc, name: &str) -> &'n [f32] {
    node.floats(name).unwrap_or_default()
}

/// Vectors and the kernel function.
struct Vectors {
    kernel: Kernel,
    /// Feature by feature, the elements of all vectors side by side.
    columns: Vec<f32>,
    count: usize,
    features: usize,
}

impl Vectors {
    /// `count` vectors that are stated one by one.
    fn new(node: &NodeDesc, kernel: Kernel, rows: &[f32], count: usize) -> Result<Vectors, OpError> {
        if count == 0 || rows.is_empty() || !rows.len().is_multiple_of(count) {
            return Err(OpError::invalid(node, format!("{} numbers for {count} vectors", rows.len())));
        }
        let features = rows.len() / count;
        let columns = (0..rows.len()).map(|at| rows[at % count * features + at / count]).collected();
        Ok(Vectors { kernel, columns, count, features })
    }

    /// The kernel's values of a row with all vectors.
    fn values(&self, row: &[f32], to: &mut [f32]) {
        to.fill(0.0);
        for (&feature, column) in row.iter().zip(self.columns.chunks_exact(self.count)) {
            match self.kernel {
                Kernel::Radial { .. } => to.iter_mut().zip(column).for_each(|(sum, own)| {
                    let difference = feature - own;
                    *sum += difference * difference;
                }),
                _ => to.iter_mut().zip(column).for_each(|(sum, own)| *sum += feature * own),
            }
        }
        self.kernel.finish(to);
    }

    fn check(&self, inputs: &[Option<&Tensor>]) -> Result<(), NodeError> {
        let x = required(inputs, 0)?;
        let found = x.shape().last().copied().unwrap_or(0);
        match x.dtype() {
            _ if found != self.features => Err(refused(format!("{found} features for vectors of {}", self.features))),
            DType::F32 | DType::F64 | DType::I32 | DType::I64 => Ok(()),
            other => Err(NodeError::Unsupported(format!("features of type {other}"))),
        }
    }

    /// Calls `finish` with the kernel's values of every row, its results and the place of its label, on all threads.
    fn each_row(&self, x: &Tensor, made: Made<'_>, finish: Finish<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let x: Cow<'_, [f32]> = lent(x)?;
        let width = made.scores.len() / made.places.len().max(1);
        // A multiply-add takes about as long as moving a byte.
        let rows = share(made.places.len(), self.columns.len(), cx.parallel);
        let parts = made.scores.chunks_mut((rows * width).max(1)).zip(made.places.chunks_mut(rows));
        let mut blocks: Vec<Made<'_>> = parts.map(|(scores, places)| Made { scores, places }).collect();
        for_each_chunk(cx.parallel, &mut blocks, 1, &|index, block| {
            let Some(Made { scores, places }) = block.first_mut() else { return };
            let mut values = memory::zeroed::<f32>(self.count);
            let given = x[index * rows * self.features..].chunks_exact(self.features);
            for ((row, scores), place) in given.zip(scores.chunks_exact_mut(width)).zip(places.iter_mut()) {
                if cx.parallel.is_stopped() {
                    return;
                }
                self.values(row, &mut values);
                *place = finish(&values, scores);
            }
        });
        cx.check_whole()
    }
}

/// The results of rows: scores beside each other, and the place of a label.
struct Made<'a> {
    scores: &'a mut [f32],
    places: &'a mut [usize],
}

/// Turns the kernel's values of a row into its scores, and returns the place of its label.
type Finish<'a> = &'a (dyn Fn(&[f32], &mut [f32]) -> usize + Sync);

/// The place of the first greatest value.
fn greatest<T: PartialOrd>(values: &[T]) -> usize {
    (1..values.len()).fold(0, |best, place| if values[place] > values[best] { place } else { best })
}

/// How a classifier's scores follow from the values of its kernel.
enum Scores {
    /// A machine for every pair of classes.
    Pairs(Pairs),
    /// The values themselves are the scores of classes.
    Classes { bias: f32, is_positive: bool },
}

struct Classifier {
    vectors: Vectors,
    scores: Scores,
    after: After,
    label: Label,
}

fn make_classifier(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let label = match (node.attrs.get("classlabels_strings"), node.ints("classlabels_ints")) {
        (Some(Attr::Strs(texts)), _) if !texts.is_empty() => Label::Texts(texts.clone()),
        (_, Some(numbers)) if !numbers.is_empty() => Label::Numbers(numbers.to_vec()),
        _ => return Err(OpError::invalid(node, "it has no classlabels")),
    };
    let (classes, coefficients) = (label.len(), floats(node, "coefficients"));
    let counts = node.ints("vectors_per_class").unwrap_or_default();
    let (vectors, scores) = if counts.is_empty() {
        let Some(&bias) = floats(node, "rho").first() else { return Err(OpError::invalid(node, "it has no rho")) };
        let is_positive = coefficients.iter().all(|&coefficient| coefficient >= 0.0);
        let vectors = Vectors::new(node, Kernel::Linear, coefficients, classes)?;
        (vectors, Scores::Classes { bias, is_positive })
    } else {
        let pairs = Pairs::read(node, classes, counts)?;
        let vectors = Vectors::new(node, Kernel::read(node)?, floats(node, "support_vectors"), pairs.vectors())?;
        (vectors, Scores::Pairs(pairs))
    };
    Ok(Box::new(Classifier { vectors, scores, after: After::read(node)?, label }))
}

impl Classifier {
    /// Makes the scores of a row.
    fn row(&self, values: &[f32], scores: &mut [f32]) -> usize {
        match &self.scores {
            Scores::Classes { bias, is_positive } => {
                scores.iter_mut().zip(values).for_each(|(score, value)| *score = value + bias);
                let best = greatest(scores);
                let least = if *is_positive { scores[best] >= 0.5 } else { scores[best] > 0.0 };
                // As in ONNX Runtime, of two classes it is the second where any score says yes.
                let place = if scores.len() == 2 && least { 1 } else { best };
                if scores.len() > 1 {
                    self.after.apply(scores);
                }
                place
            }
            Scores::Pairs(pairs) => {
                let place = pairs.row(values, scores);
                if pairs.is_one_score() {
                    let score = scores[0];
                    let other = match self.after {
                        After::Nothing | After::Logistic => -score,
                        After::Softmax | After::SoftmaxZero => 1.0 - score,
                    };
                    scores.copy_from_slice(&[other, score]);
                    if self.after == After::Logistic {
                        self.after.apply(scores);
                    }
                } else {
                    self.after.apply(scores);
                }
                place
            }
        }
    }
}

impl Node for Classifier {
    fn family(&self) -> &'static str {
        "SVMClassifier"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.vectors.check(inputs)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let mut scores = io.alloc(1)?;
        let mut places = memory::zeroed(scores.shape()[0]);
        let made = Made { scores: scores.as_mut_slice()?, places: &mut places };
        self.vectors.each_row(io.input(0)?, made, &|values, scores| self.row(values, scores), cx)?;
        self.label.push(places, io)?;
        io.push(scores);
        Ok(())
    }
}

struct Regressor {
    vectors: Vectors,
    /// One for each vector; empty where the vectors themselves have the coefficients.
    coefficients: Vec<f32>,
    bias: f32,
    /// Whether the result is only the side, as 1 or -1.
    one_class: bool,
}

fn make_regressor(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    // As in ONNX Runtime, a function does not change a single target.
    After::read(node)?;
    let Some(&bias) = floats(node, "rho").first() else { return Err(OpError::invalid(node, "it has no rho")) };
    let (coefficients, supports) = (floats(node, "coefficients"), node.attributes().int("n_supports"));
    let supports = usize::try_from(supports).map_err(|_| OpError::invalid(node, format!("n_supports = {supports}")))?;
    let one_class = node.attributes().flag("one_class");
    if supports == 0 {
        let vectors = Vectors::new(node, Kernel::Linear, coefficients, 1)?;
        return Ok(Box::new(Regressor { vectors, coefficients: vec![1.0], bias, one_class }));
    }
    if coefficients.len() != supports {
        let count = coefficients.len();
        return Err(OpError::invalid(node, format!("{count} coefficients for {supports} support vectors")));
    }
    let vectors = Vectors::new(node, Kernel::read(node)?, floats(node, "support_vectors"), supports)?;
    Ok(Box::new(Regressor { vectors, coefficients: coefficients.to_vec(), bias, one_class }))
}

impl Node for Regressor {
    fn family(&self) -> &'static str {
        "SVMRegressor"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.vectors.check(inputs)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let mut results = io.alloc(0)?;
        let mut places = memory::zeroed(results.shape()[0]);
        let made = Made { scores: results.as_mut_slice()?, places: &mut places };
        let finish = |values: &[f32], result: &mut [f32]| {
            let sum: f32 = values.iter().zip(&self.coefficients).map(|(value, own)| value * own).sum();
            let sum = sum + self.bias;
            result[0] = match self.one_class {
                true if sum > 0.0 => 1.0,
                true => -1.0,
                false => sum,
            };
            0
        };
        self.vectors.each_row(io.input(0)?, made, &finish, cx)?;
        io.push(results);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
