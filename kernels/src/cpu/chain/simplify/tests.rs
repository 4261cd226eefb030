//! What programs become, and that they still compute the same.

use super::super::build::Builder;
use crate::problem::chain::{BinaryOp, Program, Step, Storage, UnaryOp};
use crate::reference::chain::Interpreter;

/// A program over `inputs` operands, written by `write`.
fn program(inputs: usize, write: impl FnOnce(&mut Builder)) -> Program {
    let mut builder = Builder::new(&vec![Storage::F32; inputs]);
    write(&mut builder);
    builder.finish(Storage::F32).unwrap()
}

/// Runs both on the same numbers.
fn compute_the_same(one: &Program, other: &Program) {
    let values = [-20.0, -3.7, -1.0, -0.3, 0.0, 0.25, 1.0, 2.5, 6.0, 30.0];
    let run = |program: &Program| {
        let mut interpreter = Interpreter::new(program);
        for operand in 0..program.inputs.len() {
            for (place, value) in values.iter().enumerate() {
                interpreter.operand(operand)[place] = value * (1.0 + operand as f32);
            }
        }
        interpreter.run(values.len()).to_vec()
    };
    for ((a, b), x) in run(one).into_iter().zip(run(other)).zip(values) {
        assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "at {x}: {a} and {b}\n{one:?}\n{other:?}");
    }
}

const ROOT_2: f32 = std::f32::consts::SQRT_2;

/// Every way of writing an activation that the table below lists becomes that one step.
#[test]
fn activations_are_recognised_however_they_are_written() {
    use BinaryOp::{Add, Div, Max, Min, Mul, Pow};
    type Write = fn(&mut Builder);
    let forms: &[(&str, UnaryOp, Write)] = &[
        ("x / sqrt 2, erf, + 1, * x, * 0.5", UnaryOp::Gelu, |b| {
            let (root, one, half) = (b.constant(ROOT_2), b.constant(1.0), b.constant(0.5));
            let y = b.binary(Div, 0, root);
            let y = b.unary(UnaryOp::Erf, y);
            let y = b.binary(Add, y, one);
            let y = b.binary(Mul, 0, y);
            b.binary(Mul, y, half);
        }),
        ("(x * 0.5) * (1 + erf(x * 0.7071))", UnaryOp::Gelu, |b| {
            let (root, one, half) = (b.constant(std::f32::consts::FRAC_1_SQRT_2), b.constant(1.0), b.constant(0.5));
            let left = b.binary(Mul, 0, half);
            let y = b.binary(Mul, 0, root);
            let y = b.unary(UnaryOp::Erf, y);
            let y = b.binary(Add, one, y);
            b.binary(Mul, left, y);
        }),
        ("x * (0.5 * erf(x / sqrt 2) + 0.5)", UnaryOp::Gelu, |b| {
            let (root, half) = (b.constant(ROOT_2), b.constant(0.5));
            let y = b.binary(Div, 0, root);
            let y = b.unary(UnaryOp::Erf, y);
            let y = b.binary(Mul, half, y);
            let y = b.binary(Add, y, half);
            b.binary(Mul, y, 0);
        }),
        ("0.5 x (1 + tanh(0.79788 (x + 0.044715 x^3)))", UnaryOp::GeluTanh, |b| {
            let (three, small, root) = (b.constant(3.0), b.constant(0.044_715), b.constant(0.797_884_6));
            let (one, half) = (b.constant(1.0), b.constant(0.5));
            let y = b.binary(Pow, 0, three);
            let y = b.binary(Mul, y, small);
            let y = b.binary(Add, 0, y);
            let y = b.binary(Mul, y, root);
            let y = b.unary(UnaryOp::Tanh, y);
            let y = b.binary(Add, y, one);
            let left = b.binary(Mul, 0, half);
            b.binary(Mul, left, y);
        }),
        ("0.5 x (1 + tanh(0.79788 x (1 + 0.044715 x x)))", UnaryOp::GeluTanh, |b| {
            let (small, root) = (b.constant(0.044_715), b.constant(0.797_884_6));
            let (one, half) = (b.constant(1.0), b.constant(0.5));
            let y = b.binary(Mul, 0, small);
            let y = b.binary(Mul, y, 0);
            let y = b.binary(Add, one, y);
            let left = b.binary(Mul, 0, root);
            let y = b.binary(Mul, left, y);
            let y = b.unary(UnaryOp::Tanh, y);
            let y = b.binary(Add, y, one);
            let y = b.binary(Mul, 0, y);
            b.binary(Mul, half, y);
        }),
        ("x * sigmoid(x)", UnaryOp::Silu, |b| {
            let y = b.unary(UnaryOp::Sigmoid, 0);
            b.binary(Mul, y, 0);
        }),
        ("x / (1 + e^-x), as a product with the reciprocal", UnaryOp::Silu, |b| {
            let one = b.constant(1.0);
            let y = b.unary(UnaryOp::Neg, 0);
            let y = b.unary(UnaryOp::Exp, y);
            let y = b.binary(Add, one, y);
            let y = b.binary(Div, one, y);
            b.binary(Mul, 0, y);
        }),
        ("x * tanh(log(1 + e^x))", UnaryOp::Mish, |b| {
            let one = b.constant(1.0);
            let y = b.unary(UnaryOp::Exp, 0);
            let y = b.binary(Add, y, one);
            let y = b.unary(UnaryOp::Log, y);
            let y = b.unary(UnaryOp::Tanh, y);
            b.binary(Mul, 0, y);
        }),
        ("x * min(max(x + 3, 0), 6) / 6", UnaryOp::HardSwish, |b| {
            let (three, zero, six) = (b.constant(3.0), b.constant(0.0), b.constant(6.0));
            let y = b.binary(Add, 0, three);
            let y = b.binary(Max, y, zero);
            let y = b.binary(Min, y, six);
            let y = b.binary(Mul, 0, y);
            b.binary(Div, y, six);
        }),
        ("x * (clip(x + 3, 0, 6) / 6)", UnaryOp::HardSwish, |b| {
            let (three, six) = (b.constant(3.0), b.constant(6.0));
            let y = b.binary(Add, three, 0);
            let y = b.unary(UnaryOp::Clip { lo: 0.0.into(), hi: 6.0.into() }, y);
            let y = b.binary(Div, y, six);
            b.binary(Mul, 0, y);
        }),
        ("x * hardsigmoid(x)", UnaryOp::HardSwish, |b| {
            let y = b.unary(UnaryOp::HardSigmoid { alpha: (1.0 / 6.0).into(), beta: 0.5.into() }, 0);
            b.binary(Mul, 0, y);
        }),
        ("relu, then min with 6", UnaryOp::Clip { lo: 0.0.into(), hi: 6.0.into() }, |b| {
            let six = b.constant(6.0);
            let y = b.unary(UnaryOp::Relu, 0);
            b.binary(Min, y, six);
        }),
    ];
    for (form, activation, write) in forms {
        let written = program(1, write);
        let simple = written.simplified();
        assert_eq!(simple.as_unary(), Some(*activation), "{form}: {simple:?}");
        compute_the_same(&written, &simple);
    }
}

/// The gate is found where x itself is computed before, and stays alone where the numbers are not those of GELU.
#[test]
fn activations_of_intermediate_values_are_recognised_and_near_misses_are_not() {
    let gelu_of_product = |half: f32| {
        program(2, |b| {
            let (root, one, half) = (b.constant(ROOT_2), b.constant(1.0), b.constant(half));
            let x = b.binary(BinaryOp::Mul, 0, 1);
            let y = b.binary(BinaryOp::Div, x, root);
            let y = b.unary(UnaryOp::Erf, y);
            let y = b.binary(BinaryOp::Add, y, one);
            let y = b.binary(BinaryOp::Mul, y, x);
            b.binary(BinaryOp::Mul, y, half);
        })
    };
    let simple = gelu_of_product(0.5).simplified();
    assert_eq!(simple.steps, [Step::Binary(BinaryOp::Mul, 0, 1), Step::Unary(UnaryOp::Gelu, 2)]);
    let other = gelu_of_product(0.6).simplified();
    assert!(!other.steps.contains(&Step::Unary(UnaryOp::Gelu, 2)), "{other:?}");
    compute_the_same(&gelu_of_product(0.6), &other);
}

#[test]
fn steps_become_simpler_ones() {
    use BinaryOp::{Add, Div, Mul, Pow, Sub};
    type Write = fn(&mut Builder);
    let cases: &[(&str, Write, &[Step])] = &[
        (
            "x^2",
            |b| {
                let two = b.constant(2.0);
                b.binary(Pow, 0, two);
            },
            &[Step::Binary(Mul, 0, 0)],
        ),
        (
            "x^3",
            |b| {
                let three = b.constant(3.0);
                b.binary(Pow, 0, three);
            },
            &[Step::Binary(Mul, 0, 0), Step::Binary(Mul, 0, 1)],
        ),
        (
            "constants fold",
            |b| {
                let (two, three) = (b.constant(2.0), b.constant(3.0));
                let sum = b.binary(Add, two, three);
                b.binary(Mul, sum, 0);
            },
            &[Step::Const(crate::cpu::chain::Bits(0x40a0_0000)), Step::Binary(Mul, 0, 1)],
        ),
        (
            "a quotient by a power of two is a product",
            |b| {
                let eight = b.constant(8.0);
                b.binary(Div, 0, eight);
            },
            &[Step::Const(crate::cpu::chain::Bits(0x3e00_0000)), Step::Binary(Mul, 0, 1)],
        ),
        (
            "equal steps are one",
            |b| {
                let one = b.unary(UnaryOp::Exp, 0);
                let other = b.unary(UnaryOp::Exp, 0);
                b.binary(Sub, one, other);
            },
            &[Step::Unary(UnaryOp::Exp, 0), Step::Binary(Sub, 1, 1)],
        ),
        (
            "dead steps go",
            |b| {
                b.unary(UnaryOp::Exp, 0);
                b.unary(UnaryOp::Tanh, 0);
            },
            &[Step::Unary(UnaryOp::Tanh, 0)],
        ),
        (
            "an operand handed through is a product with one",
            |b| {
                let one = b.constant(1.0);
                let same = b.binary(Mul, 0, one);
                let zero = b.constant(0.0);
                b.binary(Sub, same, zero);
            },
            &[Step::Const(crate::cpu::chain::Bits(0x3f80_0000)), Step::Binary(Mul, 0, 1)],
        ),
    ];
    for (case, write, steps) in cases {
        let written = program(1, write);
        let simple = written.simplified();
        assert_eq!(simple.steps, *steps, "{case}");
        compute_the_same(&written, &simple);
    }
}

#[test]
fn putting_one_program_into_another_joins_operands_by_name() {
    let add = program(2, |b| {
        b.binary(BinaryOp::Add, 0, 1);
    });
    let relu = Program::unary(UnaryOp::Relu);
    let (whole, names) = Program::compose(&relu, &["sum"], "sum", &add, &["x", "y"]).unwrap();
    assert_eq!(names, ["x", "y"]);
    assert_eq!(whole.steps, [Step::Binary(BinaryOp::Add, 0, 1), Step::Unary(UnaryOp::Relu, 2)]);
    // x * sigmoid(x), from two nodes.
    let mul = program(2, |b| {
        b.binary(BinaryOp::Mul, 0, 1);
    });
    let sigmoid = Program::unary(UnaryOp::Sigmoid);
    let (whole, names) = Program::compose(&mul, &["x", "s"], "s", &sigmoid, &["x"]).unwrap();
    assert_eq!((whole.as_unary(), names.as_slice()), (Some(UnaryOp::Silu), ["x"].as_slice()));
}

#[test]
fn programs_that_would_break_a_limit_are_not_joined() {
    let wide = program(4, |b| {
        let left = b.binary(BinaryOp::Add, 0, 1);
        let right = b.binary(BinaryOp::Add, 2, 3);
        b.binary(BinaryOp::Mul, left, right);
    });
    assert!(Program::compose(&wide, &[0, 1, 2, 3], 3, &wide, &[4, 5, 6, 7]).is_none());
    assert!(Program::compose(&wide, &[0, 1, 2, 3], 3, &wide, &[0, 1, 2, 4]).is_some());
}

/// Chains of products whose expansion would double with every step are simplified in good time.
#[test]
fn long_programs_are_simplified_quickly() {
    let written = program(1, |b| {
        let mut x = 0;
        for _ in 0..23 {
            let squared = b.binary(BinaryOp::Mul, x, x);
            x = b.unary(UnaryOp::Sigmoid, squared);
        }
        b.binary(BinaryOp::Mul, x, x);
    });
    let started = std::time::Instant::now();
    assert!(written.simplified().is_valid());
    assert!(started.elapsed().as_secs() < 5);
}
