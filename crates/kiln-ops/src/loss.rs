//! Losses: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss.

use kiln_kernels::memory::{self, Collect, Pace};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{Tensor, TensorSpec};

use super::wide::{Width, narrow, widened};
use super::{LoadCx, OpError, Operator, optional, refused, required};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] =
    &[("", "NegativeLogLikelihoodLoss", |cx| make(cx, false)), ("", "SoftmaxCrossEntropyLoss", |cx| make(cx, true))];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduction {
    None,
    Sum,
    Mean,
}

struct Loss {
    reduction: Reduction,
    /// A target that counts for nothing.
    ignored: Option<i64>,
    /// Whether the input is scores, whose log softmax is taken first.
    softmax: bool,
    /// Whether the logarithms are an output too.
    shows_logarithms: bool,
}

fn make(cx: &LoadCx<'_>, softmax: bool) -> Result<Box<dyn Node>, OpError> {
    let reduction = match cx.node.attributes().text("reduction") {
        "none" => Reduction::None,
        "sum" => Reduction::Sum,
        "mean" => Reduction::Mean,
        other => return Err(OpError::invalid(cx.node, format!("reduction = {other}"))),
    };
    let ignored = cx.node.attributes().integer("ignore_index");
    let shows_logarithms = softmax && cx.node.outputs.len() > 1;
    Ok(Box::new(Loss { reduction, ignored, softmax, shows_logarithms }))
}

/// Replaces scores by their logarithm of the softmax over the classes.
fn log_softmax(scores: &mut [f64], classes: usize, inner: usize) {
    let mut pace = Pace::default();
    for image in scores.chunks_exact_mut((classes * inner).max(1)) {
        for place in 0..inner {
            pace.step(8 * classes);
            let along = || (0..classes).map(move |class| class * inner + place);
            let greatest = along().map(|at| image[at]).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = along().map(|at| (image[at] - greatest).exp()).sum();
            along().for_each(|at| image[at] -= greatest + sum.ln());
        }
    }
}

impl Loss {
    /// Classes, and elements of one class of one image.
    fn sizes(&self, inputs: &[Option<&Tensor>]) -> Result<(usize, usize), NodeError> {
        let (scores, targets) = (required(inputs, 0)?.shape(), required(inputs, 1)?.shape());
        let (&[batch, classes, ref inner @ ..], Some((&same, rest))) = (scores, targets.split_first()) else {
            return Err(refused(format!("targets of {targets:?} for scores of {scores:?}")));
        };
        let weights = optional(inputs, 2).map_or(classes, Tensor::len);
        if batch != same || inner != rest || weights != classes {
            return Err(refused(format!("targets of {targets:?} and {weights} weights for scores of {scores:?}")));
        }
        Ok((classes, inner.iter().product()))
    }

    /// Loss and weight of each target.
    fn each(&self, io: &Io<'_>, logarithms: &[f64], classes: usize, inner: usize) -> Result<Vec<[f64; 2]>, NodeError> {
        let weights = io.optional(2).map(widened::<f64>).transpose()?.unwrap_or_else(|| memory::filled(1.0, classes));
        let one = |(number, target): (usize, i64)| {
            if Some(target) == self.ignored {
                return Ok([0.0, 0.0]);
            }
            let class = usize::try_from(target).ok().filter(|&class| class < classes);
            let class = class.ok_or_else(|| refused(format!("target {target} of {classes} classes")))?;
            let at = (number / inner * classes + class) * inner + number % inner;
            Ok([-logarithms[at] * weights[class], weights[class]])
        };
        io.input(1)?.to_i64_vec()?.into_iter().enumerate().map(one).try_collected()
    }
}

impl Node for Loss {
    fn family(&self) -> &'static str {
        if self.softmax { "SoftmaxCrossEntropyLoss" } else { "NegativeLogLikelihoodLoss" }
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        self.sizes(inputs)?;
        let (scores, targets) = (required(inputs, 0)?.dtype(), required(inputs, 1)?.dtype());
        if !scores.is_float() {
            return Err(NodeError::Unsupported(format!("scores of type {scores}")));
        }
        Width::of(targets).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let (classes, inner) = self.sizes(&io.inputs())?;
        let mut logarithms = widened::<f64>(io.input(0)?)?;
        if self.softmax {
            log_softmax(&mut logarithms, classes, inner);
        }
        let each = self.each(io, &logarithms, classes, inner)?;
        let sum = |part: usize| each.iter().map(|both| both[part]).sum::<f64>();
        let losses = match self.reduction {
            Reduction::None => each.iter().map(|[loss, _]| *loss).collected(),
            Reduction::Sum => vec![sum(0)],
            Reduction::Mean => vec![sum(0) / sum(1)],
        };
        let output = narrow(&losses, io.alloc(0)?)?;
        io.push(output);
        if self.shows_logarithms {
            let output = narrow(&logarithms, io.alloc(1)?)?;
            io.push(output);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn losses_are_picked_weighted_and_reduced() {
        let row = |reduction: &str| {
            let trial = Trial::new("NegativeLogLikelihoodLoss").text("reduction", reduction);
            trial.input(&[2, 2], &[-1f32, -2.0, -3.0, -4.0]).input(&[2], &[0i64, 1]).input(&[2], &[1f32, 3.0])
        };
        row("none").gives(&[2], &[1f32, 12.0]);
        row("sum").gives(&[], &[13f32]);
        row("mean").gives(&[], &[3.25f32]);
        row("mean").int("ignore_index", 1).gives(&[], &[1f32]);
        let deep = Trial::new("NegativeLogLikelihoodLoss").text("reduction", "none");
        let deep = deep.input(&[1, 2, 2], &[-1f32, -2.0, -3.0, -4.0]).input(&[1, 2], &[1i32, 0]);
        deep.gives(&[1, 2], &[3f32, 2.0]);
    }

    #[test]
    fn scores_go_through_a_softmax() {
        let row =
            Trial::new("SoftmaxCrossEntropyLoss").outputs(2).input(&[1, 2], &[1000f32, 1000.0]).input(&[1], &[0i64]);
        let outputs = row.run().unwrap();
        assert!((outputs[0].as_slice::<f32>().unwrap()[0] - std::f32::consts::LN_2).abs() < 1e-6);
        assert_eq!(outputs[1].shape(), [1, 2]);
    }

    #[test]
    fn targets_that_do_not_fit_are_refused() {
        let row = |shape: &[usize], target: i64| {
            let count = shape.iter().product();
            Trial::new("NegativeLogLikelihoodLoss").input(&[1, 2], &[0f32; 2]).input(shape, &vec![target; count])
        };
        row(&[1], 2).is_refused("target 2");
        row(&[1], i64::MIN).is_refused("target");
        row(&[2], 0).is_refused("targets of [2]");
        row(&[1, 1], 0).is_refused("targets of");
    }
}
