//! The definitions against known values, and the interpreter against the definitions.

use super::{BLOCK, Interpreter, binary, unary};
use crate::problem::chain::{BinaryOp, Program, Step, Storage, UnaryOp};
use crate::problem::functions::{erf, erfc};

#[test]
fn erf_has_its_tabulated_values() {
    // Abramowitz and Stegun, table 7.1, and the symmetry of the function.
    let table = [
        (0.0, 0.0),
        (0.5, 0.520_499_877_813_046_5),
        (1.0, 0.842_700_792_949_714_9),
        (2.0, 0.995_322_265_018_952_7),
        (2.5, 0.999_593_047_982_555),
        (3.0, 0.999_977_909_503_001_4),
    ];
    for (x, want) in table {
        assert!((erf(x) - want).abs() < 1e-15, "erf({x}) = {}", erf(x));
        assert_eq!(erf(-x), -erf(x));
        assert!((erfc(x) - (1.0 - want)).abs() < 1e-15);
    }
    assert!((erfc(5.0) / 1.537_459_794_428_034_8e-12 - 1.0).abs() < 1e-13);
    assert!(erf(f64::NAN).is_nan() && erfc(f64::NAN).is_nan());
    assert_eq!((erf(f64::INFINITY), erfc(f64::NEG_INFINITY)), (1.0, 2.0));
}

#[test]
fn series_and_fraction_meet() {
    let (below, above) = (erfc(2.5 - 1e-9), erfc(2.5));
    assert!((below - above) / above < 2e-8, "{below} {above}");
}

#[test]
fn functions_have_the_values_of_their_formulas() {
    let cases = [
        (UnaryOp::Clip { lo: (-1.0).into(), hi: 2.0.into() }, 3.0, 2.0),
        (UnaryOp::HardSwish, 1.0, 2.0 / 3.0),
        (UnaryOp::Gelu, 1.0, 0.841_344_8),
        (UnaryOp::GeluTanh, 1.0, 0.841_192),
        (UnaryOp::Silu, 1.0, 0.731_058_6),
        (UnaryOp::Mish, 1.0, 0.865_098_4),
        (UnaryOp::Softplus, 0.0, std::f32::consts::LN_2),
        (UnaryOp::Celu { alpha: 2.0.into() }, -1.0, -0.786_938_7),
        (UnaryOp::Round, 2.5, 2.0),
        (UnaryOp::Sign, -3.0, -1.0),
    ];
    for (op, x, want) in cases {
        assert!((unary(op, x) - want).abs() <= 1e-6 * want.abs(), "{op:?} of {x}: {}", unary(op, x));
    }
}

#[test]
fn nan_wins_in_max_and_min_from_either_side() {
    for op in [BinaryOp::Max, BinaryOp::Min] {
        assert!(binary(op, f32::NAN, 1.0).is_nan() && binary(op, 1.0, f32::NAN).is_nan(), "{op:?}");
    }
    assert_eq!((binary(BinaryOp::Max, 1.0, 2.0), binary(BinaryOp::Min, 1.0, 2.0)), (2.0, 1.0));
}

#[test]
fn the_interpreter_takes_every_step_in_order() {
    // |a| > b ? a - 2 b : b
    let steps = vec![
        Step::Unary(UnaryOp::Abs, 0),
        Step::Binary(BinaryOp::Greater, 2, 1),
        Step::Const(2f32.into()),
        Step::Binary(BinaryOp::Mul, 1, 4),
        Step::Binary(BinaryOp::Sub, 0, 5),
        Step::Select { condition: 3, on: 6, off: 1 },
    ];
    let inputs = [Storage::F32, Storage::F32].into_iter().collect();
    let program = Program { inputs, steps, output: Storage::F32 };
    assert!(program.is_valid());
    let mut interpreter = Interpreter::new(&program);
    interpreter.operand(0)[..3].copy_from_slice(&[-5.0, 1.0, 7.0]);
    interpreter.operand(1)[..3].copy_from_slice(&[2.0, 3.0, 4.0]);
    assert_eq!(interpreter.run(3), [-9.0, 3.0, -1.0]);
    assert_eq!(interpreter.run(BLOCK).len(), BLOCK);
}
