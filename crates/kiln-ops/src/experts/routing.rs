//! Which rows go to which experts, and with what weight.
//!
//! A row goes to the experts of its largest scores; of equal scores the later one counts as larger, as in ONNX Runtime.
//! An expert whose weight is zero (below a small bound) or NaN gets no row.

use kiln_kernels::memory::{self, Pace};

/// How scores become weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The softmax of a row's scores.
    OfAll {
        /// Whether weights are divided by the sum of the chosen ones.
        normalised: bool,
    },
    /// The softmax of the chosen scores.
    OfChosen,
    /// Weights of their own, which stand beside the scores.
    Given {
        /// Whether weights are divided by the sum of the chosen ones.
        normalised: bool,
    },
}

/// A row on its way to an expert.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Route {
    pub(super) row: usize,
    pub(super) weight: f32,
}

/// The rows of each expert, in order.
#[derive(Debug)]
pub(super) struct Routes {
    routes: Vec<Route>,
    /// Where each expert's routes begin, and where the last one's end.
    starts: Vec<usize>,
}

impl Routes {
    /// The rows of an expert.
    pub(super) fn of(&self, expert: usize) -> &[Route] {
        &self.routes[self.starts[expert]..self.starts[expert + 1]]
    }

    /// Most rows of an expert.
    pub(super) fn most(&self) -> usize {
        self.starts.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0)
    }
}

/// An expert that a row has chosen.
#[derive(Clone, Copy)]
struct Choice {
    expert: usize,
    weight: f32,
}

impl Rule {
    /// Routes each row to `chosen` of `experts` experts (at least one, at most all), by scores `[rows, experts]`.
    /// `weights` are as many numbers, and count for [`Rule::Given`] only.
    pub(super) fn routes(self, chosen: usize, experts: usize, scores: &[f32], weights: &[f32]) -> Routes {
        let rows = scores.len() / experts;
        let mut choices: Vec<Choice> = memory::with_capacity(rows.saturating_mul(chosen));
        let mut starts: Vec<usize> = memory::zeroed(experts + 1);
        let mut order: Vec<Choice> = memory::with_capacity(experts);
        let mut pace = Pace::default();
        for (scores, weights) in scores.chunks_exact(experts).zip(weights.chunks_exact(experts)) {
            pace.step(experts);
            order.clear();
            // Adding zero removes the sign of a zero.
            order.extend(scores.iter().enumerate().map(|(expert, score)| Choice { expert, weight: score + 0.0 }));
            self.weigh(choose(&mut order, chosen), scores, weights);
            for choice in &mut order[..chosen] {
                if choice.weight > self.least() {
                    starts[choice.expert + 1] += 1;
                } else {
                    choice.expert = experts;
                }
            }
            choices.extend_from_slice(&order[..chosen]);
        }
        (0..experts).for_each(|expert| starts[expert + 1] += starts[expert]);
        let mut routes: Vec<Route> = memory::filled(Route::default(), starts[experts]);
        let mut next = memory::copied(&starts);
        for (index, choice) in choices.iter().enumerate().filter(|(_, choice)| choice.expert < experts) {
            routes[next[choice.expert]] = Route { row: index / chosen, weight: choice.weight };
            next[choice.expert] += 1;
        }
        Routes { routes, starts }
    }

    /// Weights that are not larger than this count as zero.
    fn least(self) -> f32 {
        match self {
            Rule::OfAll { .. } => 0.0,
            Rule::OfChosen | Rule::Given { .. } => 1e-8,
        }
    }

    /// Turns the chosen scores, the largest first, into weights.
    fn weigh(self, chosen: &mut [Choice], scores: &[f32], weights: &[f32]) {
        let largest = chosen[0].weight;
        let (divisor, normalised) = match self {
            Rule::OfAll { normalised } => {
                chosen.iter_mut().for_each(|choice| choice.weight = (choice.weight - largest).exp());
                (scores.iter().map(|score| (score - largest).exp()).sum::<f32>(), normalised)
            }
            Rule::OfChosen => {
                chosen.iter_mut().for_each(|choice| choice.weight = (choice.weight - largest).exp());
                (1.0, true)
            }
            Rule::Given { normalised } => {
                chosen.iter_mut().for_each(|choice| choice.weight = weights[choice.expert]);
                (1.0, normalised)
            }
        };
        chosen.iter_mut().for_each(|choice| choice.weight /= divisor);
        if normalised {
            let sum: f32 = chosen.iter().map(|choice| choice.weight).sum();
            chosen.iter_mut().for_each(|choice| choice.weight /= sum);
        }
    }
}

/// Puts the `count` largest first, in order.
fn choose(order: &mut [Choice], count: usize) -> &mut [Choice] {
    let later = |a: &Choice, b: &Choice| b.weight.total_cmp(&a.weight).then(b.expert.cmp(&a.expert));
    if count < order.len() {
        order.select_nth_unstable_by(count, later);
    }
    let chosen = &mut order[..count];
    chosen.sort_unstable_by(later);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(routes: &Routes, expert: usize) -> Vec<(usize, f32)> {
        routes.of(expert).iter().map(|route| (route.row, route.weight)).collect()
    }

    #[test]
    fn rows_are_grouped_by_expert_in_order() {
        let scores = [1f32, 3.0, 2.0, 5.0, 5.0, 5.0, 0.0, 1.0, 9.0];
        let weights = [0.1f32, 0.2, 0.6, 1.0, 2.0, 3.0, 0.5, 0.0, 0.5];
        let routes = Rule::Given { normalised: false }.routes(2, 3, &scores, &weights);
        assert_eq!(rows(&routes, 0), []);
        assert_eq!(rows(&routes, 1), [(0, 0.2), (1, 2.0)], "the third row's weight of it is nothing");
        assert_eq!(rows(&routes, 2), [(0, 0.6), (1, 3.0), (2, 0.5)], "of equals the later ones");
        assert_eq!(routes.most(), 3);
        let routes = Rule::Given { normalised: true }.routes(2, 3, &scores, &weights);
        assert_eq!(rows(&routes, 1), [(0, 0.2 / 0.8), (1, 0.4)]);
    }

    #[test]
    fn softmax_is_of_all_scores_or_of_those_that_are_chosen() {
        let scores = [2f32.ln(), 6f32.ln(), 0.0, 0.0];
        let near = |rule: Rule, wanted: [f32; 2]| {
            let routes = rule.routes(2, 4, &scores, &scores);
            for (expert, wanted) in wanted.into_iter().enumerate() {
                let found = rows(&routes, expert)[0].1;
                assert!((found - wanted).abs() < 1e-6, "{rule:?}: {found}");
            }
        };
        near(Rule::OfAll { normalised: false }, [0.2, 0.6]);
        near(Rule::OfAll { normalised: true }, [0.25, 0.75]);
        near(Rule::OfChosen, [0.25, 0.75]);
    }

    #[test]
    fn what_is_no_number_goes_nowhere() {
        for rule in [Rule::OfAll { normalised: true }, Rule::OfChosen, Rule::Given { normalised: true }] {
            let scores = [f32::NAN, 1.0, f32::NAN, f32::NEG_INFINITY];
            let routes = rule.routes(2, 2, &scores, &scores);
            assert_eq!(routes.most(), 0, "{rule:?}");
        }
    }
}
