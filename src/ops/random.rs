//! Random tensors: RandomUniform and RandomNormal, with a shape of their own or like an input.
//!
//! A node gives the same numbers in every run, after its seed, or after its name where it has none: a graph that is run
//! twice gives the same results twice, and two nodes do not give the same numbers.

use super::wide::{Width, narrow};
use super::{LoadCx, OpError, Operator, dimensions, one, required, type_attribute};
use crate::graph::node::Specs;
use crate::graph::{Io, Node, NodeError, Prepared, RunCx};
use crate::tensor::{DType, Shape, Tensor};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "RandomUniform", |cx| make(cx, uniform(cx))),
    ("", "RandomNormal", |cx| make(cx, normal(cx))),
    ("", "RandomUniformLike", |cx| make(cx, uniform(cx))),
    ("", "RandomNormalLike", |cx| make(cx, normal(cx))),
];

#[derive(Clone, Copy, Debug)]
enum Distribution {
    Uniform { low: f64, high: f64 },
    Normal { mean: f64, scale: f64 },
}

fn uniform(cx: &LoadCx<'_>) -> Distribution {
    Distribution::Uniform { low: cx.node.float("low", 0.0).into(), high: cx.node.float("high", 1.0).into() }
}

fn normal(cx: &LoadCx<'_>) -> Distribution {
    Distribution::Normal { mean: cx.node.float("mean", 0.0).into(), scale: cx.node.float("scale", 1.0).into() }
}

struct Random {
    distribution: Distribution,
    seed: u64,
    /// That of the input where there is none.
    dtype: Option<DType>,
    shape: Option<Shape>,
}

fn make(cx: &LoadCx<'_>, distribution: Distribution) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let like = node.op.ends_with("Like");
    let dtype = match like && !node.attrs.contains_key("dtype") {
        true => None,
        false => Some(type_attribute(node, "dtype", Some(DType::F32))?),
    };
    let shape = match (like, node.ints("shape")) {
        (true, _) => None,
        (false, Some(shape)) => Some(dimensions(shape).map_err(|error| OpError::invalid(node, error.to_string()))?),
        (false, None) => return Err(OpError::invalid(node, "a shape is needed")),
    };
    // FNV-1a: any spread of names over seeds will do.
    let named = node
        .name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let given = node.attrs.contains_key("seed").then(|| u64::from(node.float("seed", 0.0).to_bits()));
    Ok(Box::new(Random { distribution, seed: given.unwrap_or(named), dtype, shape }))
}

/// SplitMix64: a counter through a mixing function, good enough for everything but secrets.
struct Numbers(u64);

impl Numbers {
    /// Between 0 and 1, without 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        // The 53 bits of a fraction.
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn draw(&mut self, distribution: Distribution) -> f64 {
        match distribution {
            Distribution::Uniform { low, high } => low + (high - low) * self.next(),
            Distribution::Normal { mean, scale } => {
                // Box and Muller; 1 - u is never zero.
                let (radius, angle) = ((-2.0 * (1.0 - self.next()).ln()).sqrt(), std::f64::consts::TAU * self.next());
                mean + scale * radius * angle.cos()
            }
        }
    }
}

impl Node for Random {
    fn family(&self) -> &'static str {
        match self.distribution {
            Distribution::Uniform { .. } => "RandomUniform",
            Distribution::Normal { .. } => "RandomNormal",
        }
    }

    fn infer(&self, inputs: &[Option<&Tensor>]) -> Result<Specs, NodeError> {
        let dtype = self.dtype.map_or_else(|| Ok(required(inputs, 0)?.dtype()), Ok::<_, NodeError>)?;
        Width::of(dtype)?;
        match &self.shape {
            Some(shape) => one(dtype, shape.iter().copied()),
            None => one(dtype, required(inputs, 0)?.shape().iter().copied()),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let to = io.alloc(0)?;
        let mut numbers = Numbers(self.seed);
        let drawn: Vec<f64> = (0..to.len()).map(|_| numbers.draw(self.distribution)).collect();
        let output = narrow(&drawn, to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Attr;
    use crate::ops::trial::{Trial, onnx_code};

    fn drawn(trial: Trial) -> Vec<f32> {
        trial.run().unwrap()[0].as_slice::<f32>().unwrap().to_vec()
    }

    #[test]
    fn numbers_have_the_distribution_and_repeat() {
        let uniform = |seed| Trial::new("RandomUniform").ints("shape", &[1000]).attr("seed", Attr::Float(seed));
        let numbers = drawn(uniform(1.0).attr("low", Attr::Float(2.0)).attr("high", Attr::Float(4.0)));
        let mean = numbers.iter().sum::<f32>() / 1000.0;
        assert!(numbers.iter().all(|number| (2.0..4.0).contains(number)) && (mean - 3.0).abs() < 0.1, "{mean}");
        assert_eq!(drawn(uniform(1.0)), drawn(uniform(1.0)));
        assert_ne!(drawn(uniform(1.0)), drawn(uniform(2.0)));
        let normal = drawn(Trial::new("RandomNormal").ints("shape", &[1000]).attr("scale", Attr::Float(3.0)));
        let spread = (normal.iter().map(|number| number * number).sum::<f32>() / 1000.0).sqrt();
        assert!((spread - 3.0).abs() < 0.3, "{spread}");
    }

    #[test]
    fn shapes_come_from_the_attribute_or_the_input() {
        let like = Trial::new("RandomNormalLike").int("dtype", onnx_code(DType::F64)).input(&[2, 1], &[0i8; 2]).run();
        assert_eq!(*like.unwrap()[0].spec(), crate::tensor::TensorSpec::new(DType::F64, [2, 1]));
        Trial::new("RandomUniform").is_refused("a shape");
        Trial::new("RandomUniform").ints("shape", &[-1]).is_refused("no dimension");
        Trial::new("RandomUniform").ints("shape", &[i64::MAX, 3]).is_refused("too large");
    }
}
