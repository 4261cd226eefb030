//! Activations of the form x * gate(x), recognised in all forms that exporters write.
//!
//! GELU, its tanh form, SiLU, HardSwish and Mish are all x times a function T of x that goes from 0 to 1: exporters
//! write 0.5 x (1 + erf(x / sqrt 2)), x (0.5 + 0.5 erf(0.7071 x)), (x 0.5) (erf(x / 1.4142) + 1) and a dozen more. So
//! no list of forms is kept. A product is taken apart into its factors. One factor must be affine in a T (a T + b), T's
//! argument must be a polynomial of at most third degree in some value x, and the product of the other factors must be
//! x. The numbers then say which activation it is.

use smallvec::SmallVec;

use super::Draft;
use crate::problem::chain::{BinaryOp, Step, UnaryOp};

/// Coefficients of 1, x, x^2, x^3.
type Cubic = [f64; 4];

/// Tolerance of a model's constants: they were rounded to `f32`, perhaps more than once.
const TOLERANCE: f64 = 3e-6;

/// Factors of a product beyond which no activation is looked for.
const MOST_FACTORS: usize = 4;

/// sqrt(2 / pi) and 0.044715 times it, of GELU's tanh form.
const TANH_GELU: Cubic = [0.0, 0.797_884_560_802_865_4, 0.0, 0.035_677_408_136_300_125];

/// One factor of the form `slope * T(argument) + offset`.
#[derive(Clone, Copy)]
struct Gate {
    factor: u8,
    function: UnaryOp,
    argument: u8,
    slope: f64,
    offset: f64,
}

impl Draft {
    /// The activation that `product` computes, and its argument.
    pub(super) fn activation(&self, product: u8) -> Option<(UnaryOp, u8)> {
        let (factors, _) = self.factors(product, &[])?;
        factors.iter().find_map(|&factor| {
            let gate = self.gate(factor)?;
            self.candidates(gate).find_map(|x| {
                // x may itself be a product, so the whole is taken apart again without breaking x up.
                let (factors, scale) = self.factors(product, &[x, gate.factor])?;
                let is_x_times_gate = factors.as_slice() == [x, gate.factor] || factors.as_slice() == [gate.factor, x];
                let activation = self.recognise(gate, x, scale)?;
                is_x_times_gate.then_some((activation, x))
            })
        })
    }

    /// Values that the gate may be a function of: everything that its argument was made from.
    fn candidates(&self, gate: Gate) -> impl Iterator<Item = u8> {
        (0..=gate.argument).rev()
    }

    /// Takes products apart into factors: `atoms`, and values that are no products. Constants are multiplied into the
    /// scale.
    fn factors(&self, value: u8, atoms: &[u8]) -> Option<(SmallVec<[u8; MOST_FACTORS]>, f64)> {
        let mut factors = SmallVec::new();
        let mut scale = 1.0;
        let mut open: SmallVec<[u8; 8]> = SmallVec::from_slice(&[value]);
        while let Some(value) = open.pop() {
            match self.step(value) {
                _ if atoms.contains(&value) => factors.push(value),
                Some(Step::Const(bits)) => scale *= f64::from(bits.get()),
                Some(Step::Binary(BinaryOp::Mul, a, b)) => open.extend([a, b]),
                Some(Step::Binary(BinaryOp::Div, a, b)) if self.constant(b).is_some() => {
                    scale /= f64::from(self.constant(b)?);
                    open.push(a);
                }
                Some(Step::Unary(UnaryOp::Neg, a)) => {
                    scale = -scale;
                    open.push(a);
                }
                _ => factors.push(value),
            }
            if factors.len() + open.len() > MOST_FACTORS {
                return None;
            }
        }
        Some((factors, scale))
    }

    /// That factor as an affine function of a T, if it is one.
    fn gate(&self, factor: u8) -> Option<Gate> {
        let (mut value, mut slope, mut offset) = (factor, 1.0, 0.0);
        loop {
            match self.step(value)? {
                Step::Binary(op, a, b) => {
                    let known = f64::from(self.constant(b)?);
                    match op {
                        BinaryOp::Add => offset += slope * known,
                        BinaryOp::Mul => slope *= known,
                        BinaryOp::Div => slope /= known,
                        _ => return None,
                    }
                    value = a;
                }
                Step::Unary(function, argument) => return Some(Gate { factor, function, argument, slope, offset }),
                _ => return None,
            }
        }
    }

    /// Which activation `x * scale * gate(x)` is.
    fn recognise(&self, gate: Gate, x: u8, scale: f64) -> Option<UnaryOp> {
        let (slope, offset) = (gate.slope * scale, gate.offset * scale);
        let (odd, plain) = (close(slope, 0.5) && close(offset, 0.5), offset == 0.0);
        if gate.function == UnaryOp::Tanh && plain && close(slope, 1.0) {
            return (self.argument(gate.argument, UnaryOp::Softplus) == Some(x)).then_some(UnaryOp::Mish);
        }
        let argument = self.cubic(gate.argument, x)?;
        let is = |wanted: Cubic| argument.iter().zip(wanted).all(|(&found, wanted)| close(found, wanted));
        match gate.function {
            UnaryOp::Erf if odd && is([0.0, std::f64::consts::FRAC_1_SQRT_2, 0.0, 0.0]) => Some(UnaryOp::Gelu),
            UnaryOp::Tanh if odd && is(TANH_GELU) => Some(UnaryOp::GeluTanh),
            UnaryOp::Sigmoid if plain && close(slope, 1.0) => {
                if is([0.0, 1.0, 0.0, 0.0]) {
                    Some(UnaryOp::Silu)
                } else {
                    is(TANH_GELU.map(|c| 2.0 * c)).then_some(UnaryOp::GeluTanh)
                }
            }
            UnaryOp::Clip { lo, hi } if plain && lo.get() == 0.0 => {
                // x clip(x + 3, 0, 6) / 6, at any scale of the clip.
                let hi = f64::from(hi.get());
                (close(slope * hi, 1.0) && is([hi / 2.0, hi / 6.0, 0.0, 0.0])).then_some(UnaryOp::HardSwish)
            }
            UnaryOp::HardSigmoid { alpha, beta } if plain && close(slope, 1.0) => {
                let is_sixth = close(f64::from(alpha.get()), 1.0 / 6.0) && close(f64::from(beta.get()), 0.5);
                (is_sixth && is([0.0, 1.0, 0.0, 0.0])).then_some(UnaryOp::HardSwish)
            }
            _ => None,
        }
    }

    /// `value` as a polynomial in `x` of at most third degree. Every value up to it is looked at once.
    fn cubic(&self, value: u8, x: u8) -> Option<Cubic> {
        let mut known: Vec<Option<Cubic>> = Vec::with_capacity(usize::from(value) + 1);
        for number in 0..=value {
            let at = |value: u8| known[usize::from(value)];
            let cubic = match self.step(number) {
                _ if number == x => Some([0.0, 1.0, 0.0, 0.0]),
                Some(Step::Const(bits)) => Some([f64::from(bits.get()), 0.0, 0.0, 0.0]),
                Some(Step::Unary(UnaryOp::Neg, a)) => at(a).map(|a| a.map(|c| -c)),
                Some(Step::Binary(BinaryOp::Add, a, b)) => zip(at(a), at(b), |a, b| a + b),
                Some(Step::Binary(BinaryOp::Sub, a, b)) => zip(at(a), at(b), |a, b| a - b),
                Some(Step::Binary(BinaryOp::Mul, a, b)) => at(a).zip(at(b)).and_then(|(a, b)| product(a, b)),
                Some(Step::Binary(BinaryOp::Div, a, b)) => {
                    at(a).zip(self.constant(b)).map(|(a, divisor)| a.map(|c| c / f64::from(divisor)))
                }
                _ => None,
            };
            known.push(cubic);
        }
        known.pop().flatten()
    }
}

fn zip(a: Option<Cubic>, b: Option<Cubic>, op: impl Fn(f64, f64) -> f64) -> Option<Cubic> {
    let (a, b) = (a?, b?);
    Some(std::array::from_fn(|power| op(a[power], b[power])))
}

fn product(a: Cubic, b: Cubic) -> Option<Cubic> {
    let mut sum = [0.0; 4];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            match sum.get_mut(i + j) {
                Some(place) => *place += x * y,
                None if x * y == 0.0 => {}
                None => return None,
            }
        }
    }
    Some(sum)
}

fn close(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= TOLERANCE * wanted.abs()
}
