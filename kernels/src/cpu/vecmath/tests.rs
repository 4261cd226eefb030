//! Accuracy of the emitted functions against their `f64` definitions, over the whole range of `f32`.

use super::emits;
use crate::EmitEach;
use crate::cpu::chain::{BinaryOp, Builder, Chain, ChainPlan, Geometry, Operand, Program, Storage, Target, UnaryOp};
use crate::isa::Isa;
use crate::parallel::Serial;
use crate::reference::chain::{binary, unary};

/// The bound of a function's error.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// Equal to the bit (zeros of either sign are equal).
    Exact,
    /// Units in the last place of the exact result.
    Ulp(f64),
    /// Absolute error.
    Absolute(f64),
    /// The larger of an absolute error and units in the last place.
    Either(f64, f64),
}

impl Bound {
    fn holds(self, got: f32, want: f32) -> bool {
        if got.to_bits() == want.to_bits() || got == want || (got.is_nan() && want.is_nan()) {
            return true;
        }
        let error = (f64::from(got) - f64::from(want)).abs();
        match self {
            Bound::Exact => false,
            // The reference itself is rounded once, which is half an ulp.
            Bound::Ulp(most) => error <= (most + 0.5) * ulp(want),
            Bound::Absolute(most) => error <= most,
            Bound::Either(absolute, most) => error <= absolute.max((most + 0.5) * ulp(want)),
        }
    }
}

fn ulp(x: f32) -> f64 {
    let bits = x.abs().to_bits().clamp(1, f32::MAX.to_bits() - 1);
    f64::from(f32::from_bits(bits + 1)) - f64::from(f32::from_bits(bits))
}

fn promises() -> Vec<(UnaryOp, Bound)> {
    let b = |value: f32| value.into();
    // Where a sigmoid is denormal, so is its error times x.
    let gated = Bound::Either(1e-36, 4.0);
    vec![
        (UnaryOp::Abs, Bound::Exact),
        (UnaryOp::Neg, Bound::Exact),
        (UnaryOp::Reciprocal, Bound::Exact),
        (UnaryOp::Sqrt, Bound::Exact),
        (UnaryOp::Relu, Bound::Exact),
        (UnaryOp::Clip { lo: b(-1.5), hi: b(6.0) }, Bound::Exact),
        (UnaryOp::LeakyRelu { alpha: b(0.01) }, Bound::Exact),
        (UnaryOp::LeakyRelu { alpha: b(1.5) }, Bound::Exact),
        (UnaryOp::LeakyRelu { alpha: b(-0.5) }, Bound::Exact),
        (UnaryOp::ThresholdedRelu { alpha: b(1.0) }, Bound::Exact),
        (UnaryOp::HardSigmoid { alpha: b(0.2), beta: b(0.5) }, Bound::Exact),
        (UnaryOp::HardSwish, Bound::Exact),
        (UnaryOp::Softsign, Bound::Exact),
        (UnaryOp::Floor, Bound::Exact),
        (UnaryOp::Ceil, Bound::Exact),
        (UnaryOp::Round, Bound::Exact),
        (UnaryOp::Sign, Bound::Exact),
        (UnaryOp::Not, Bound::Exact),
        (UnaryOp::IsNan, Bound::Exact),
        (UnaryOp::Exp, Bound::Ulp(1.0)),
        (UnaryOp::Log, Bound::Ulp(2.0)),
        (UnaryOp::Tanh, Bound::Ulp(4.0)),
        (UnaryOp::Sigmoid, Bound::Ulp(4.0)),
        (UnaryOp::Silu, gated),
        (UnaryOp::Mish, gated),
        (UnaryOp::Softplus, Bound::Ulp(4.0)),
        (UnaryOp::Elu { alpha: b(1.0) }, Bound::Ulp(4.0)),
        (UnaryOp::Selu { alpha: b(1.673_263_2), gamma: b(1.050_701) }, Bound::Ulp(5.0)),
        (UnaryOp::Celu { alpha: b(0.7) }, Bound::Ulp(5.0)),
        (UnaryOp::Erf, Bound::Absolute(6e-7)),
        (UnaryOp::Gelu, Bound::Either(1e-6, 3.0)),
        (UnaryOp::GeluTanh, Bound::Either(1e-6, 4.0)),
        (UnaryOp::Sin, Bound::Either(7e-7, 2.0)),
        (UnaryOp::Cos, Bound::Either(7e-7, 2.0)),
        (UnaryOp::Asin, Bound::Ulp(2.0)),
        (UnaryOp::Acos, Bound::Ulp(2.0)),
        (UnaryOp::Atan, Bound::Ulp(2.0)),
        (UnaryOp::Sinh, Bound::Ulp(3.0)),
        (UnaryOp::Cosh, Bound::Ulp(3.0)),
        (UnaryOp::Asinh, Bound::Ulp(3.0)),
        (UnaryOp::Acosh, Bound::Ulp(3.0)),
        (UnaryOp::Atanh, Bound::Ulp(3.0)),
    ]
}

/// Runs the function as a chain of one step.
fn run(isa: Isa, op: UnaryOp, inputs: &[f32]) -> Vec<f32> {
    let geometry = Geometry::new(&[inputs.len()], &[&[inputs.len()]]).unwrap();
    let plan = ChainPlan { unroll: 2, tasks: 1 };
    let chain = Chain::new(isa, &Program::unary(op), &geometry, plan, &EmitEach).unwrap();
    assert!(chain.is_emitted());
    let mut output = vec![0.0; inputs.len()];
    chain.run(&[Operand::F32(inputs)], &mut Target::F32(&mut output), &Serial).unwrap();
    output
}

fn hold(isa: Isa, inputs: &[f32]) {
    for (op, bound) in promises() {
        for (&x, got) in inputs.iter().zip(run(isa, op, inputs)) {
            let want = unary(op, x);
            assert!(bound.holds(got, want), "{isa} {op:?} of {x:e}: {got:e}, not {want:e} ({bound:?})");
        }
    }
}

/// Every `step`-th float, both signs, NaN and infinities included.
fn sweep(step: u64) -> Vec<f32> {
    (0..1u64 << 32).step_by(step as usize).map(|bits| f32::from_bits(bits as u32)).collect()
}

/// Arguments at which functions change their form or overflow.
fn corners() -> Vec<f32> {
    let around = [
        0.0,
        1e-45,
        1e-40,
        1.175_494_4e-38,
        1e-20,
        1e-7,
        0.2,
        0.346_6,
        0.414_2,
        0.5,
        0.708,
        1.0,
        1.5,
        2.5,
        3.705_5,
        5.2,
        6.0,
        8.5,
        9.02,
        17.3,
        18.0,
        20.0,
        40.0,
        87.3,
        88.0,
        88.72,
        88.73,
        89.0,
        92.0,
        103.2,
        103.9,
        104.5,
        1e5,
        8_388_607.5,
        8_388_609.0,
        1e20,
        3.402_823_5e38,
    ];
    let mut corners = vec![f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN];
    for x in around {
        for bits in f32::to_bits(x).saturating_sub(3)..=f32::to_bits(x) + 3 {
            let near = f32::from_bits(bits);
            if !near.is_nan() {
                corners.extend([near, -near]);
            }
        }
    }
    corners
}

#[test]
fn functions_keep_their_bounds_over_the_whole_range_on_avx2() {
    if Isa::detect() < Isa::Avx2 {
        return hold(Isa::Avx2, &sweep(2_000_003));
    }
    // A prime step, so that all mantissas occur; optimised builds test every 1009th float.
    let step = if cfg!(debug_assertions) { 30_011 } else { 1009 };
    hold(Isa::Avx2, &sweep(step));
}

#[test]
fn functions_keep_their_bounds_on_avx512() {
    hold(Isa::Avx512, &sweep(2_000_003));
}

#[test]
fn corners_are_as_exact_as_the_rest() {
    for isa in [Isa::Avx2, Isa::Avx512] {
        hold(isa, &corners());
    }
}

/// Runs powers as a chain of one step.
fn powers(isa: Isa, bases: &[f32], exponents: &[f32]) -> Vec<f32> {
    let mut builder = Builder::new(&[Storage::F32, Storage::F32]);
    builder.binary(BinaryOp::Pow, 0, 1);
    let program = builder.finish(Storage::F32).unwrap();
    let geometry = Geometry::new(&[bases.len()], &[&[bases.len()], &[bases.len()]]).unwrap();
    let unroll = Chain::unroll_for(isa, &program, &geometry, 2);
    let chain = Chain::new(isa, &program, &geometry, ChainPlan { unroll, tasks: 1 }, &EmitEach).unwrap();
    assert!(chain.is_emitted());
    let mut output = vec![0.0; bases.len()];
    let operands = [Operand::F32(bases), Operand::F32(exponents)];
    chain.run(&operands, &mut Target::F32(&mut output), &Serial).unwrap();
    output
}

fn hold_powers(isa: Isa, bases: &[f32], exponents: &[f32]) {
    for ((&a, &b), got) in bases.iter().zip(exponents).zip(powers(isa, bases, exponents)) {
        let want = binary(BinaryOp::Pow, a, b);
        let same_sign = got.is_nan() || got.is_sign_negative() == want.is_sign_negative();
        assert!(same_sign && Bound::Ulp(1.5).holds(got, want), "{isa}: {a:e} to {b:e}: {got:e}, not {want:e}");
    }
}

#[test]
fn powers_keep_their_bound_where_results_are_finite() {
    let count = if cfg!(debug_assertions) { 100_000 } else { 2_000_000 };
    let mut state = 88_172_645_463_325_252u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (mut bases, mut exponents) = (Vec::new(), Vec::new());
    for at in 0..count {
        let a = match at % 4 {
            // Any number, and numbers near 1, whose logarithms cancel.
            0 | 1 => f32::from_bits(next() as u32),
            2 => 1.0 + (next() as u32 as f32 / 2f32.powi(32) - 0.5),
            _ => 1.0 + (next() as u32 as f32 / 2f32.powi(32) - 0.5) * 1e-3,
        };
        // Logarithms of results in all of their range, a little beyond it, or whole exponents.
        let wanted = (next() as u32 as f32 / 2f32.powi(32)) * 220.0 - 115.0;
        let b = if at % 7 == 0 { (next() % 41) as f32 - 20.0 } else { wanted / a.abs().ln() };
        bases.push(a);
        exponents.push(b);
    }
    for isa in [Isa::Avx2, Isa::Avx512] {
        let few = if Isa::detect() < isa { 20_000 } else { count };
        hold_powers(isa, &bases[..few], &exponents[..few]);
    }
}

#[test]
fn powers_of_corners_have_the_signs_and_special_cases_of_c() {
    let special = [
        0.0,
        0.5,
        1.0,
        1.5,
        2.0,
        3.0,
        4.0,
        1e-45,
        1e-40,
        1.175_494_4e-38,
        0.999_999_94,
        1.000_000_1,
        8_388_607.0,
        8_388_607.5,
        16_777_215.0,
        16_777_216.0,
        16_777_217.0,
        1e20,
        3.402_823_5e38,
        f32::INFINITY,
        f32::NAN,
    ];
    let signed: Vec<f32> = special.iter().flat_map(|&x| [x, -x]).collect();
    let bases: Vec<f32> = signed.iter().flat_map(|&a| signed.iter().map(move |_| a)).collect();
    let exponents = signed.repeat(signed.len());
    for isa in [Isa::Avx2, Isa::Avx512] {
        hold_powers(isa, &bases, &exponents);
    }
}

/// Arguments of sines: multiples of a quarter of pi and their neighbours, random arguments below 2^18, where n has all
/// its bits, and random arguments of all exponents above.
fn angles() -> (Vec<f32>, Vec<f32>) {
    let mut small = Vec::new();
    for quarter in (0..2000).chain((2000..300_000).step_by(911)) {
        let near = (f64::from(quarter) * std::f64::consts::FRAC_PI_4) as f32;
        small.extend((-2i32..=2).map(|step| f32::from_bits(near.to_bits().saturating_add_signed(step))));
    }
    let mut state = 7u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    small.extend((0..20_000).map(|_| random() as f32 * 1.2e-4 - 131_000.0));
    let large = (0..20_000).map(|_| f32::from_bits(0x4880_0000 + random() % (0x7f80_0000 - 0x4880_0000))).collect();
    small.retain(|x| x.abs() < 262_144.0);
    (small, large)
}

#[test]
fn sines_are_exact_to_two_units_and_those_of_large_arguments_to_some_millionths_of_a_turn() {
    let (small, large) = angles();
    for isa in [Isa::Avx2, Isa::Avx512] {
        for (op, units) in [(UnaryOp::Sin, 2.0), (UnaryOp::Cos, 2.0), (UnaryOp::Tan, 4.0)] {
            for (&x, got) in small.iter().zip(run(isa, op, &small)) {
                assert!(
                    Bound::Ulp(units).holds(got, unary(op, x)),
                    "{isa} {op:?} of {x:e}: {got:e}, not {}",
                    unary(op, x)
                );
            }
        }
        for op in [UnaryOp::Sin, UnaryOp::Cos] {
            for (&x, got) in large.iter().zip(run(isa, op, &large)) {
                assert!((got - unary(op, x)).abs() < 7e-7, "{isa} {op:?} of {x:e}: {got:e}, not {:e}", unary(op, x));
            }
        }
        for op in [UnaryOp::Sin, UnaryOp::Cos, UnaryOp::Tan] {
            // The sign of a zero stays, where the result is zero.
            let got = run(isa, op, &[0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
            assert_eq!(got[..2].iter().map(|x| x.is_sign_negative()).collect::<Vec<_>>(), [false, op != UnaryOp::Cos]);
            assert!(got[2..].iter().all(|x| x.is_nan()), "{op:?} {got:?}");
        }
    }
}

#[test]
fn a_large_argument_leaves_the_bits_of_those_beside_it() {
    let (small, _) = angles();
    let beside: Vec<f32> = small.iter().enumerate().map(|(i, &x)| if i % 5 == 3 { 1e30 } else { x }).collect();
    for isa in [Isa::Avx2, Isa::Avx512] {
        let (alone, mixed) = (run(isa, UnaryOp::Sin, &small), run(isa, UnaryOp::Sin, &beside));
        for (index, (a, b)) in alone.iter().zip(&mixed).enumerate().filter(|(index, _)| index % 5 != 3) {
            assert_eq!(a.to_bits(), b.to_bits(), "{isa} sin of {:e}", small[index]);
        }
    }
}

/// Takes a second or two a function in an optimised build: `cargo test --release -- --ignored every_37th`.
#[test]
#[ignore = "slow: every 37th float through every function"]
fn every_37th_float_keeps_the_bounds() {
    for chunk in sweep(37).chunks(1 << 20) {
        hold(Isa::detect(), chunk);
    }
}

#[test]
fn an_elu_of_a_growing_exponential_has_no_code() {
    assert!(!emits(UnaryOp::Celu { alpha: (-1.0).into() }));
    assert!(emits(UnaryOp::Celu { alpha: 1.0.into() }));
}

#[test]
fn arcs_and_sinh_cosh_and_their_inverses_are_right_at_their_ends() {
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    let arguments = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN];
    let right = std::f32::consts::FRAC_PI_2;
    let rows = [
        (UnaryOp::Asin, [0.0, -0.0, right, -right, NAN, NAN, NAN]),
        (UnaryOp::Acos, [right, right, 0.0, std::f32::consts::PI, NAN, NAN, NAN]),
        (UnaryOp::Atan, [0.0, -0.0, right / 2.0, -right / 2.0, right, -right, NAN]),
        (UnaryOp::Sinh, [0.0, -0.0, 1.175_201_2, -1.175_201_2, INF, -INF, NAN]),
        (UnaryOp::Cosh, [1.0, 1.0, 1.543_080_7, 1.543_080_7, INF, INF, NAN]),
        (UnaryOp::Asinh, [0.0, -0.0, 0.881_373_6, -0.881_373_6, INF, -INF, NAN]),
        (UnaryOp::Acosh, [NAN, NAN, 0.0, NAN, INF, NAN, NAN]),
        (UnaryOp::Atanh, [0.0, -0.0, INF, -INF, NAN, NAN, NAN]),
    ];
    for isa in [Isa::Avx2, Isa::Avx512] {
        for (op, wants) in rows {
            for ((x, want), got) in arguments.into_iter().zip(wants).zip(run(isa, op, &arguments)) {
                let signs = want.is_nan() || want.is_sign_negative() == got.is_sign_negative();
                assert!(signs && Bound::Ulp(1.0).holds(got, want), "{isa} {op:?} of {x}: {got:e}, not {want:e}");
            }
        }
    }
}

/// Arguments of either sign from 1e-30 to 1e9, dense from 1/4 to 1, where arcs change their form, and up to 90.
fn near_one() -> Vec<f32> {
    let every = |from: f32, to: f32, step: usize| (from.to_bits()..to.to_bits()).step_by(step).map(f32::from_bits);
    let positive = every(0.25, 1.01, 211).chain(every(1.01, 90.0, 2003)).chain(every(1e-30, 1e9, 4099));
    positive.flat_map(|x| [x, -x]).collect()
}

#[test]
fn arcs_and_sinh_cosh_and_their_inverses_keep_their_bounds_where_they_change_their_form() {
    let inputs = near_one();
    let arcs = [UnaryOp::Asin, UnaryOp::Acos, UnaryOp::Atan];
    let sinh = [UnaryOp::Sinh, UnaryOp::Cosh, UnaryOp::Asinh, UnaryOp::Acosh, UnaryOp::Atanh];
    for isa in [Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa <= Isa::detect()) {
        for (op, bound) in promises().into_iter().filter(|(op, _)| arcs.contains(op) || sinh.contains(op)) {
            for (&x, got) in inputs.iter().zip(run(isa, op, &inputs)) {
                let want = unary(op, x);
                assert!(bound.holds(got, want), "{isa} {op:?} of {x:e}: {got:e}, not {want:e} ({bound:?})");
            }
        }
    }
}
