//! Dropout: the identity in inference; in training some elements become zero and the others are scaled to keep the
//! mean.
//!
//! Which ones is left to the runtime by the standard. Here it follows from the seed, by the reference implementation's
//! generator, or from the node's name where there is no seed.

use kiln_kernels::memory::{self, Collect};
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{BoolByte, Tensor};

use super::wide::{narrow, widened};
use super::{LoadCx, Numbers, OpError, Operator, optional, refused, seed_of_name};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[("", "Dropout", make)];

struct Dropout {
    seed: u32,
    mask: bool,
    /// What the mask says of every element in inference. Before version 12 the standard leaves it open, and ONNX Runtime
    /// gives zeros.
    kept: i64,
}

fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let seed = node.attributes().integer("seed").map(|seed| seed as u32);
    Ok(Box::new(Dropout {
        seed: seed.unwrap_or_else(|| seed_of_name(&node.name)),
        mask: node.outputs.len() > 1,
        kept: i64::from(node.version >= 12),
    }))
}

/// The share of elements that is dropped.
fn ratio(inputs: &[Option<&Tensor>]) -> Result<f64, NodeError> {
    let training = match optional(inputs, 2) {
        Some(flag) => flag.as_slice::<BoolByte>()?.first().is_some_and(|flag| flag.get()),
        None => false,
    };
    let given = match optional(inputs, 1) {
        _ if !training => 0.0,
        Some(ratio) => *widened::<f64>(ratio)?.first().ok_or_else(|| refused("an empty ratio"))?,
        None => 0.5,
    };
    if (0.0..1.0).contains(&given) { Ok(given) } else { Err(refused(format!("a ratio of {given}"))) }
}

impl Node for Dropout {
    fn family(&self) -> &'static str {
        "Dropout"
    }

    fn value_inputs(&self) -> u64 {
        1 << 1 | 1 << 2
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let ratio = ratio(&io.inputs())?;
        let mut kept = memory::filled(self.kept, io.input(0)?.len());
        if ratio == 0.0 {
            let input = io.take(0)?;
            io.push(input);
        } else {
            let mut numbers = Numbers::new(self.seed);
            kept.iter_mut().for_each(|kept| *kept = i64::from(numbers.fraction() >= ratio));
            let grown = 1.0 / (1.0 - ratio);
            let values = widened::<f64>(io.input(0)?)?;
            let values: Vec<f64> =
                values.iter().zip(&kept).map(|(value, &kept)| value * kept as f64 * grown).collected();
            let output = narrow(&values, io.alloc(0)?)?;
            io.push(output);
        }
        if self.mask {
            let mask = narrow(&kept, io.alloc(1)?)?;
            io.push(mask);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use crate::trial::{Trial, bools};

    #[test]
    fn inference_passes_everything_on() {
        let outputs = Trial::new("Dropout").outputs(2).input(&[2], &[0f32, 1.0]).run().unwrap();
        assert_eq!(outputs[0].as_slice::<f32>().unwrap(), [0.0, 1.0]);
        assert_eq!(outputs[1].bytes(), [1, 1]);
        let old = Trial::new("Dropout").version(7).outputs(2).input(&[2], &[f16::ONE, f16::ZERO]).run().unwrap();
        assert_eq!(old[1].as_slice::<f16>().unwrap(), [f16::ZERO; 2]);
        let training = |ratio: f32| {
            Trial::new("Dropout").input(&[2], &[0f32, 1.0]).input(&[], &[ratio]).input(&[], &bools([true]))
        };
        training(0.0).gives(&[2], &[0f32, 1.0]);
        training(1.0).is_refused("a ratio of 1");
        training(f32::NAN).is_refused("a ratio of NaN");
    }

    #[test]
    fn training_drops_after_the_seed() {
        let row = |seed| {
            let trial = Trial::new("Dropout").outputs(2).int("seed", seed).input(&[4], &[1f32, 2.0, 3.0, 4.0]);
            trial.input(&[], &[0.6f32]).input(&[], &bools([true]))
        };
        // numpy.random.RandomState(0).rand(4) is 0.549, 0.715, 0.603, 0.545.
        row(0).gives_about(&[4], &[0.0, 5.0, 7.5, 0.0]);
        assert_eq!(row(0).run().unwrap()[1].bytes(), [0, 1, 1, 0]);
        let means = Trial::new("Dropout").int("seed", 1).input(&[10_000], &[1f64; 10_000]).input(&[], &[0.25f32]);
        let made = means.input(&[], &bools([true])).run().unwrap();
        let mean = made[0].as_slice::<f64>().unwrap().iter().sum::<f64>() / 10_000.0;
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
    }
}
