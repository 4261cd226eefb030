//! Chains against the definitions of their steps.

use super::super::testing::{near, numbers, run, run_f32};
use super::*;
use crate::error::KernelError;
use crate::reference::chain::{binary, unary};

/// `select(mask, x * scale, y > 0)` with a mask and an operand of booleans, as a boolean.
pub(super) fn masked() -> Program {
    let steps = vec![
        Step::Binary(BinaryOp::Mul, 0, 1),
        Step::Const(Bits::from(0.5)),
        Step::Binary(BinaryOp::Greater, 3, 4),
        Step::Select { condition: 2, on: 5, off: 0 },
    ];
    let inputs = [Storage::F32, Storage::F32, Storage::Bool].into_iter().collect();
    Program { inputs, steps, output: Storage::Bool }
}

/// Values at which functions turn, end or are not numbers, before many in between.
fn values(count: usize) -> Vec<f32> {
    let edges = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-20, 30.0, -30.0];
    let mut values: Vec<f32> = edges.into_iter().chain(numbers(count, 3)).collect();
    values.truncate(count);
    values
}

fn geometry(output: &[usize], operands: &[&[usize]]) -> Geometry {
    Geometry::new(output, operands).unwrap()
}

#[test]
fn functions_of_one_element_are_those_of_the_reference() {
    let x = values(133);
    for op in unary_ops() {
        let kernel = ChainKernel::new(&single(1, Step::Unary(op, 0)), &geometry(&[133], &[&[133]])).unwrap();
        let wanted: Vec<f32> = x.iter().map(|&x| unary(op, x)).collect();
        near(&run_f32(&kernel, &[Some(&x)], 133), &wanted, 16.0, 1e-3, &op);
    }
}

#[test]
fn functions_of_two_elements_are_those_of_the_reference() {
    let a = values(170);
    // Every edge meets every other.
    let b: Vec<f32> = (0..170).map(|index| values(26)[(index % 13 + index / 13) % 26]).collect();
    for op in binary_ops() {
        let kernel =
            ChainKernel::new(&single(2, Step::Binary(op, 0, 1)), &geometry(&[170], &[&[170], &[170]])).unwrap();
        let wanted: Vec<f32> = a.iter().zip(&b).map(|(&a, &b)| binary(op, a, b)).collect();
        near(&run_f32(&kernel, &[Some(&a), Some(&b)], 170), &wanted, 4.0, 1e-3, &op);
    }
}

#[test]
fn operands_are_broadcast_in_all_ways() {
    let cases: &[(&[usize], &[usize], &[usize])] = &[
        (&[], &[], &[]),
        (&[1], &[1], &[]),
        (&[1027], &[1027], &[1]),
        (&[3], &[3], &[3]),
        (&[0], &[0], &[1]),
        (&[5, 0, 2], &[5, 1, 2], &[1]),
        (&[2, 3, 8], &[2, 3, 8], &[3, 1]),
        (&[2, 3, 8], &[3, 1], &[2, 3, 8]),
        (&[2, 3, 7], &[2, 3, 7], &[3, 1]),
        (&[13, 12], &[13, 1], &[1, 12]),
        (&[13, 11], &[13, 1], &[1, 11]),
        (&[7, 1, 5, 4], &[1, 6, 1, 4], &[7, 6, 5, 1]),
        (&[40, 5, 12], &[40, 1, 12], &[5, 12]),
        (&[40, 5, 12], &[1], &[1]),
        (&[2, 3, 2, 3, 2, 3, 2, 3], &[2, 1, 2, 1, 2, 1, 2, 1], &[3, 1, 3, 1, 3, 1, 3]),
    ];
    let program = single(2, Step::Binary(BinaryOp::Sub, 0, 1));
    for &(output, a, b) in cases {
        let output: Vec<usize> = if output == [7, 1, 5, 4] { vec![7, 6, 5, 4] } else { output.to_vec() };
        let geometry = geometry(&output, &[a, b]);
        let (x, y) = (numbers(a.iter().product(), 1), numbers(b.iter().product(), 2));
        let place = |operand: usize, at: usize| {
            let column = at % geometry.inner();
            let along = if geometry.is_vector(operand) { column } else { 0 };
            geometry.offset(operand, at / geometry.inner()) + along
        };
        let count = output.iter().product();
        let wanted: Vec<f32> = (0..count).map(|at| x[place(0, at)] - y[place(1, at)]).collect();
        let kernel = ChainKernel::new(&program, &geometry).unwrap();
        near(&run_f32(&kernel, &[Some(&x), Some(&y)], count), &wanted, 0.0, 1e-3, &(output, a, b));
    }
}

#[test]
fn booleans_are_bytes_read_as_any_but_zero_and_written_as_one() {
    for (rows, columns) in [(3, 8), (3, 7), (1, 30), (33, 64)] {
        let x = numbers(rows * columns, 5);
        let scale = numbers(rows, 6);
        let mask: Vec<u8> = (0..rows * columns).map(|index| [0, 1, 200][index % 3]).collect();
        let geometry = geometry(&[rows, columns], &[&[rows, columns], &[rows, 1], &[rows, columns]]);
        let kernel = ChainKernel::new(&masked(), &geometry).unwrap();
        let inputs = [Some(bytemuck::cast_slice(&x)), Some(bytemuck::cast_slice(&scale)), Some(mask.as_slice())];
        let given = run(&kernel, &inputs, rows * columns).unwrap();
        let wanted = (0..rows * columns).map(|index| {
            let on = x[index] * scale[index / columns] > 0.5;
            u8::from(if mask[index] != 0 { on } else { x[index] != 0.0 })
        });
        assert_eq!(given, wanted.collect::<Vec<u8>>(), "{rows} x {columns}");
    }
}

#[test]
fn a_program_without_operands_is_a_constant() {
    let program = single(0, Step::Const(Bits::from(2.5)));
    let kernel = ChainKernel::new(&program, &geometry(&[2, 5], &[])).unwrap();
    assert_eq!(run_f32(&kernel, &[], 10), [2.5; 10]);
}

#[test]
fn long_programs_keep_their_order() {
    let mut steps = vec![Step::Binary(BinaryOp::Add, 0, 1)];
    for step in 2..40u8 {
        let op = if step % 2 == 0 { UnaryOp::Tanh } else { UnaryOp::Neg };
        steps.push(if step % 3 == 0 { Step::Binary(BinaryOp::Sub, step, step - 1) } else { Step::Unary(op, step) });
    }
    let program = Program { steps, ..single(2, Step::Const(Bits(0))) };
    let (x, y) = (numbers(61, 8), numbers(61, 9));
    let mut interpreter = crate::reference::chain::Interpreter::new(&program);
    interpreter.operand(0)[..61].copy_from_slice(&x);
    interpreter.operand(1)[..61].copy_from_slice(&y);
    let kernel = ChainKernel::new(&program, &geometry(&[61], &[&[61], &[61]])).unwrap();
    near(&run_f32(&kernel, &[Some(&x), Some(&y)], 61), interpreter.run(61), 64.0, 1e-3, &"long");
}

#[test]
fn what_is_too_small_or_missing_is_refused_before_anything_starts() {
    let kernel = ChainKernel::new(&single(1, Step::Unary(UnaryOp::Abs, 0)), &geometry(&[9], &[&[9]])).unwrap();
    let bounds = |error: KernelError| matches!(error, KernelError::Bounds { .. });
    assert!(bounds(run(&kernel, &[Some(&[0; 35])], 36).unwrap_err()));
    assert!(bounds(run(&kernel, &[Some(&[0; 36])], 35).unwrap_err()));
    assert!(matches!(run(&kernel, &[None], 36).unwrap_err(), KernelError::Unsupported { .. }));
    let two = geometry(&[9], &[&[9], &[9]]);
    assert!(ChainKernel::new(&single(1, Step::Unary(UnaryOp::Abs, 0)), &two).is_err());
}
