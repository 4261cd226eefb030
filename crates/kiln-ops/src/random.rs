//! Random tensors: RandomUniform and RandomNormal, with a shape of their own or like an input; Bernoulli and Multinomial.
//!
//! A node gives the same numbers in every run, from its seed, or from its name where it has no seed: a graph that is
//! run twice gives the same results twice, and two nodes do not give the same numbers. The standard leaves the
//! generator open; the one here is the reference implementation's, so that uniform and normal numbers with a seed are
//! the same.

use kiln_kernels::memory::{Collect, with_capacity};
use kiln_model::NodeDesc;
use kiln_run::{Io, Node, NodeError, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use super::wide::{Width, narrow, widened};
use super::{LoadCx, OpError, Operator, dimensions, required, type_attribute};

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "Bernoulli", make_bernoulli),
    ("", "Multinomial", make_multinomial),
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
    Distribution::Uniform {
        low: cx.node.attributes().float("low").into(),
        high: cx.node.attributes().float("high").into(),
    }
}

fn normal(cx: &LoadCx<'_>) -> Distribution {
    Distribution::Normal {
        mean: cx.node.attributes().float("mean").into(),
        scale: cx.node.attributes().float("scale").into(),
    }
}

struct Random {
    distribution: Distribution,
    seed: u32,
}

fn make(cx: &LoadCx<'_>, distribution: Distribution) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let like = node.op.ends_with("Like");
    type_attribute(node, "dtype")?;
    match (like, node.ints("shape")) {
        (true, _) => {}
        (false, Some(shape)) => {
            dimensions(shape).map_err(|error| OpError::invalid(node, error.to_string()))?;
        }
        (false, None) => return Err(OpError::invalid(node, "a shape is needed")),
    }
    Ok(Box::new(Random { distribution, seed: seed(node) }))
}

/// The node's seed, or one from its name.
fn seed(node: &NodeDesc) -> u32 {
    match node.attributes().number("seed") {
        Some(seed) => seed as i64 as u32,
        None => seed_of_name(&node.name),
    }
}

/// FNV-1a: any spread of names over seeds will do.
pub(crate) fn seed_of_name(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Words of the generator's state.
const WORDS: usize = 624;

/// The Mersenne twister of 32 bits (Matsumoto and Nishimura, 1998), seeded and read as numpy's `RandomState` does.
pub(crate) struct Numbers {
    words: [u32; WORDS],
    next: usize,
    /// The second number of a pair of normal ones.
    spare: Option<f64>,
}

impl Numbers {
    pub(crate) fn new(seed: u32) -> Numbers {
        let mut words = [seed; WORDS];
        for index in 1..WORDS {
            let before = words[index - 1];
            words[index] = (before ^ before >> 30).wrapping_mul(1_812_433_253).wrapping_add(index as u32);
        }
        Numbers { words, next: WORDS, spare: None }
    }

    fn refill(&mut self) {
        for index in 0..WORDS {
            let mixed = self.words[index] & 1 << 31 | self.words[(index + 1) % WORDS] & !(1 << 31);
            let twist = if mixed & 1 == 1 { 0x9908_b0df } else { 0 };
            self.words[index] = self.words[(index + 397) % WORDS] ^ mixed >> 1 ^ twist;
        }
        self.next = 0;
    }

    fn word(&mut self) -> u32 {
        if self.next == WORDS {
            self.refill();
        }
        let mut word = self.words[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    /// A number from 0 to 1, without 1: the 53 bits of a fraction, from two words.
    pub(crate) fn fraction(&mut self) -> f64 {
        let (high, low) = (self.word() >> 5, self.word() >> 6);
        (f64::from(high) * f64::from(1 << 26) + f64::from(low)) / (1u64 << 53) as f64
    }

    /// A number of mean 0 and variance 1, by Marsaglia's polar method.
    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.fraction() - 1.0, 2.0 * self.fraction() - 1.0);
            let radius = x * x + y * y;
            if radius > 0.0 && radius < 1.0 {
                let factor = (-2.0 * radius.ln() / radius).sqrt();
                self.spare = Some(factor * x);
                return factor * y;
            }
        }
    }

    fn draw(&mut self, distribution: Distribution) -> f64 {
        match distribution {
            Distribution::Uniform { low, high } => low + (high - low) * self.fraction(),
            Distribution::Normal { mean, scale } => mean + scale * self.normal(),
        }
    }
}

/// One with the probability that the input says, else zero.
struct Bernoulli {
    seed: u32,
}

fn make_bernoulli(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    type_attribute(cx.node, "dtype")?;
    Ok(Box::new(Bernoulli { seed: seed(cx.node) }))
}

impl Node for Bernoulli {
    fn family(&self) -> &'static str {
        "Bernoulli"
    }

    fn check(&self, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        Width::of(outputs[0].dtype)?;
        Width::of(required(inputs, 0)?.dtype()).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let mut numbers = Numbers::new(self.seed);
        let chances = widened::<f64>(io.input(0)?)?;
        let drawn: Vec<i64> = chances.into_iter().map(|chance| i64::from(numbers.fraction() < chance)).collected();
        let output = narrow(&drawn, io.alloc(0)?)?;
        io.push(output);
        Ok(())
    }
}

/// Numbers of classes, each drawn with the probability whose logarithm, up to a constant, the row has for it.
struct Multinomial {
    seed: u32,
}

fn make_multinomial(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    match type_attribute(node, "dtype")? {
        Some(DType::I32 | DType::I64) => Ok(Box::new(Multinomial { seed: seed(node) })),
        _ => Err(OpError::invalid(node, "dtype must name int32 or int64")),
    }
}

/// The sums of the chances of the classes up to each one. Logarithms that are not finite stand for no chance.
fn cumulated(logarithms: &[f64]) -> Vec<f64> {
    let finite = |value: &f64| value.is_finite();
    let greatest = logarithms.iter().copied().filter(finite).fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    let sums = logarithms.iter().map(|logarithm| {
        if finite(logarithm) {
            sum += (logarithm - greatest).exp();
        }
        sum
    });
    sums.collected()
}

impl Node for Multinomial {
    fn family(&self) -> &'static str {
        "Multinomial"
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        match required(inputs, 0)?.dtype() {
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Ok(()),
            other => Err(NodeError::Input(format!("logarithms of chances of type {other}"))),
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let mut numbers = Numbers::new(self.seed);
        let input = io.input(0)?;
        let classes = input.shape()[1];
        let logarithms = widened::<f64>(input)?;
        let to = io.alloc(0)?;
        let count = to.shape()[1];
        let rows = if count == 0 { 0 } else { to.shape()[0] };
        let mut drawn: Vec<i64> = with_capacity(to.len());
        for row in 0..rows {
            let sums = cumulated(&logarithms[row * classes..][..classes]);
            let all = sums.last().copied().unwrap_or(0.0);
            if all <= 0.0 {
                return Err(NodeError::Input(format!("row {row} has no class with a chance")));
            }
            let draw = |_| {
                let place = numbers.fraction() * all;
                sums.partition_point(|&sum| sum <= place).min(classes - 1) as i64
            };
            (0..count).map(draw).collected_into(&mut drawn);
        }
        let output = narrow(&drawn, to)?;
        io.push(output);
        Ok(())
    }
}

impl Node for Random {
    fn family(&self) -> &'static str {
        match self.distribution {
            Distribution::Uniform { .. } => "RandomUniform",
            Distribution::Normal { .. } => "RandomNormal",
        }
    }

    fn check(&self, _: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Result<(), NodeError> {
        Width::of(outputs[0].dtype).map(drop)
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let to = io.alloc(0)?;
        let mut numbers = Numbers::new(self.seed);
        let drawn: Vec<f64> = (0..to.len()).map(|_| numbers.draw(self.distribution)).collected();
        let output = narrow(&drawn, to)?;
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kiln_model::Attr;
    use kiln_tensor::DType;

    use super::*;
    use crate::trial::{Trial, onnx_code};

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
    fn numbers_are_the_reference_implementations() {
        // numpy.random.RandomState(5489).randint(2**32) and RandomState(0).rand(2), .randn(3)
        assert_eq!(Numbers::new(5489).word(), 3_499_211_612);
        let mut numbers = Numbers::new(0);
        assert_eq!([numbers.fraction(), numbers.fraction()], [0.548_813_503_927_324_8, 0.715_189_366_372_419_5]);
        let mut numbers = Numbers::new(0);
        let expected = [1.764_052_345_967_664, 0.400_157_208_367_223_3, 0.978_737_984_105_739_2];
        let found = [numbers.normal(), numbers.normal(), numbers.normal()];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{found:?}");
    }

    #[test]
    fn chances_of_one_and_zero_are_certain() {
        let chances = [0f32, 1.0, 0.25].repeat(400);
        let row = || Trial::new("Bernoulli").attr("seed", Attr::Float(3.0)).input(&[400, 3], &chances);
        let made = drawn(row());
        assert!(made.chunks(3).all(|made| made[..2] == [0.0, 1.0]));
        let share = made.iter().skip(2).step_by(3).sum::<f32>() / 400.0;
        assert!((share - 0.25).abs() < 0.07, "{share}");
        assert_eq!(made, drawn(row()));
        let spec = row().int("dtype", onnx_code(DType::Bool)).run().unwrap()[0].spec().clone();
        assert_eq!(spec, kiln_tensor::TensorSpec::new(DType::Bool, [400, 3]));
    }

    #[test]
    fn classes_are_drawn_by_their_chances() {
        let chances = [0.1f32, 0.0, 0.6, 0.3];
        let logarithms: Vec<f32> = [&chances.map(f32::ln)[..], &[1e30, f32::NAN, f32::NEG_INFINITY, -1e30]].concat();
        let drawn = |seed| {
            let trial = Trial::new("Multinomial").attr("seed", Attr::Float(seed)).int("sample_size", 2000);
            trial.input(&[2, 4], &logarithms).run().unwrap()[0].as_slice::<i32>().unwrap().to_vec()
        };
        let made = drawn(1.0);
        for (class, chance) in chances.into_iter().enumerate() {
            let share = made[..2000].iter().filter(|&&drawn| drawn == class as i32).count() as f32 / 2000.0;
            assert!((share - chance).abs() < 0.03 && (chance > 0.0 || share == 0.0), "{class}: {share}");
        }
        assert!(made[2000..].iter().all(|&drawn| drawn == 0), "the only class with a chance");
        assert_eq!(made, drawn(1.0));
        assert_ne!(made, drawn(2.0));
    }

    #[test]
    fn rows_without_a_chance_are_refused() {
        let trial =
            |shape: &[usize], value: f32| Trial::new("Multinomial").input(shape, &vec![value; shape.iter().product()]);
        trial(&[1, 3], f32::NEG_INFINITY).is_refused("row 0 has no class with a chance");
        trial(&[2, 0], 0.0).is_refused("row 0 has no class with a chance");
        trial(&[3], 0.0).is_refused("no rows of classes");
        trial(&[1, 3], 0.0).int("sample_size", -1).is_refused("a sample_size of -1");
        trial(&[1, 3], 0.0).int("dtype", onnx_code(DType::F32)).is_refused("dtype must name int32 or int64");
        let empty = trial(&[0, 3], 0.0).int("dtype", onnx_code(DType::I64)).int("sample_size", 5).run().unwrap();
        assert_eq!(*empty[0].spec(), kiln_tensor::TensorSpec::new(DType::I64, [0, 5]));
    }

    #[test]
    fn shapes_come_from_the_attribute_or_the_input() {
        let like = Trial::new("RandomNormalLike").int("dtype", onnx_code(DType::F64)).input(&[2, 1], &[0i8; 2]).run();
        assert_eq!(*like.unwrap()[0].spec(), kiln_tensor::TensorSpec::new(DType::F64, [2, 1]));
        Trial::new("RandomUniform").is_refused("a shape");
        Trial::new("RandomUniform").ints("shape", &[-1]).is_refused("no dimension");
        Trial::new("RandomUniform").ints("shape", &[i64::MAX, 3]).is_refused("too large");
    }
}
