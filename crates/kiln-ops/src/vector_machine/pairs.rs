//! A machine for every pair of classes: signed distances, votes, and probabilities coupled from those of pairs.

use kiln_kernels::memory;
use kiln_model::NodeDesc;

use super::{floats, greatest};
use crate::OpError;

/// The machines of all pairs, in the order (0, 1), (0, 2), ..., (1, 2), ...
pub(super) struct Pairs {
    classes: usize,
    /// The first vector of each class, and at the end the number of all vectors.
    starts: Vec<usize>,
    /// For each class but one, the coefficients of all vectors: in the machine of classes c and d, a vector of class c
    /// has the coefficient of row d - 1 where d is the later class, and of row d where d is the earlier one.
    coefficients: Vec<f32>,
    biases: Vec<f32>,
    /// Slope and shift of each machine's probability; empty where there are none.
    sigmoids: Vec<Sigmoid>,
}

/// 1 / (1 + exp(slope s + shift))
#[derive(Clone, Copy)]
struct Sigmoid {
    slope: f32,
    shift: f32,
}

impl Pairs {
    /// `counts` are the numbers of vectors of each class.
    pub(super) fn read(node: &NodeDesc, classes: usize, counts: &[i64]) -> Result<Pairs, OpError> {
        let invalid = |reason: String| OpError::invalid(node, reason);
        if classes < 2 || counts.len() != classes {
            return Err(invalid(format!("vectors of {} classes for {classes} labels", counts.len())));
        }
        let mut starts = vec![0usize];
        for &count in counts {
            let end = usize::try_from(count).ok().and_then(|count| starts[starts.len() - 1].checked_add(count));
            starts.push(end.ok_or_else(|| invalid(format!("vectors_per_class has {count}")))?);
        }
        let (coefficients, biases) = (floats(node, "coefficients"), floats(node, "rho"));
        let (vectors, pairs) = (starts[classes], classes * (classes - 1) / 2);
        // As in ONNX Runtime, coefficients and biases of further classes are not read.
        let enough = vectors.checked_mul(classes - 1).is_some_and(|needed| coefficients.len() >= needed);
        if !enough || biases.len() < pairs {
            let (count, biases) = (coefficients.len(), biases.len());
            return Err(invalid(format!("{count} coefficients and {biases} rho for {vectors} vectors, {pairs} pairs")));
        }
        let (slopes, shifts) = (floats(node, "prob_a"), floats(node, "prob_b"));
        if slopes.len() != shifts.len() || !slopes.is_empty() && slopes.len() != pairs {
            return Err(invalid(format!("{} prob_a and {} prob_b for {pairs} pairs", slopes.len(), shifts.len())));
        }
        let sigmoids = slopes.iter().zip(shifts).map(|(&slope, &shift)| Sigmoid { slope, shift }).collect();
        Ok(Pairs { classes, starts, coefficients: coefficients.to_vec(), biases: biases.to_vec(), sigmoids })
    }

    pub(super) fn vectors(&self) -> usize {
        self.starts[self.classes]
    }

    /// Whether the only score is that of two classes' one machine.
    pub(super) fn is_one_score(&self) -> bool {
        self.classes == 2 && self.sigmoids.is_empty()
    }

    /// The part of a machine's sum from vectors of class `own` against class `other`.
    fn part(&self, values: &[f32], own: usize, other: usize) -> f64 {
        let row = if other > own { other - 1 } else { other };
        let (start, end) = (self.starts[own], self.starts[own + 1]);
        let coefficients = &self.coefficients[row * self.vectors()..][start..end];
        let products = coefficients.iter().zip(&values[start..end]);
        products.map(|(coefficient, value)| f64::from(coefficient * value)).sum()
    }

    /// Turns the kernel's values into scores: the sums of all machines, or probabilities of all classes. Returns the
    /// class with the most votes.
    pub(super) fn row(&self, values: &[f32], scores: &mut [f32]) -> usize {
        let classes = self.classes;
        let (mut votes, mut between) = (memory::zeroed::<u32>(classes), memory::zeroed::<f64>(classes * classes));
        let mut machine = 0;
        for first in 0..classes {
            for second in first + 1..classes {
                let sum = self.part(values, first, second) + self.part(values, second, first);
                let sum = (sum + f64::from(self.biases[machine])) as f32;
                votes[if sum > 0.0 { first } else { second }] += 1;
                match self.sigmoids.get(machine) {
                    None => scores[machine] = sum,
                    Some(Sigmoid { slope, shift }) => {
                        let wins = 1.0 / (1.0 + f64::from(slope * sum + shift).exp());
                        // Neither outcome is certain, or no coupling would exist.
                        let wins = wins.clamp(1e-7, 1.0 - 1e-7);
                        between[first * classes + second] = wins;
                        between[second * classes + first] = 1.0 - wins;
                    }
                }
                machine += 1;
            }
        }
        if !self.sigmoids.is_empty() {
            couple(&between, scores);
        }
        greatest(&votes)
    }
}

/// Probabilities of classes from those of pairs, by the second method of Wu, Lin and Weng (2004), as LIBSVM iterates
/// it.
fn couple(between: &[f64], to: &mut [f32]) {
    let classes = to.len();
    let mut weights = memory::zeroed::<f64>(classes * classes);
    for one in 0..classes {
        for other in (0..classes).filter(|&other| other != one) {
            let loses = between[other * classes + one];
            weights[one * classes + one] += loses * loses;
            weights[one * classes + other] = -loses * between[one * classes + other];
        }
    }
    let mut chances = memory::filled(1.0 / classes as f64, classes);
    let enough = 0.005 / classes as f64;
    for _ in 0..classes.max(100) {
        let rows = weights.chunks_exact(classes);
        let mut products: Vec<f64> = rows.map(|row| row.iter().zip(&chances).map(|(a, b)| a * b).sum()).collect();
        let mut whole: f64 = products.iter().zip(&chances).map(|(a, b)| a * b).sum();
        if products.iter().all(|product| (product - whole).abs() < enough) {
            break;
        }
        for (class, row) in weights.chunks_exact(classes).enumerate() {
            let step = (whole - products[class]) / row[class];
            chances[class] += step;
            let scale = 1.0 + step;
            whole = (whole + step * (step * row[class] + 2.0 * products[class])) / (scale * scale);
            products.iter_mut().zip(row).for_each(|(product, weight)| *product = (*product + step * weight) / scale);
            chances.iter_mut().for_each(|chance| *chance /= scale);
        }
    }
    to.iter_mut().zip(chances).for_each(|(to, chance)| *to = chance as f32);
}
