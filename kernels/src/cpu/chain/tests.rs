//! Chains of many forms at every level against the definitions, with NaN and canaries around all buffers.

use super::*;
use crate::EmitEach;
use crate::cpu::canaries::{Canaried, Poisoned, Scoped, levels};
use crate::parallel::Serial;
use crate::problem::chain::{MAX_INPUTS, MAX_STEPS};

/// Numbers that exercise signs, halves and magnitudes without overflow.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed | 1;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 * 8.0 - 4.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// One element by the definitions, step after step.
fn evaluate(program: &Program, operands: &[f32]) -> f32 {
    use crate::reference::chain::{binary, unary};
    let mut values = operands.to_vec();
    for step in &program.steps {
        let at = |value: u8| values[usize::from(value)];
        values.push(match *step {
            Step::Const(bits) => bits.get(),
            Step::Unary(op, a) => unary(op, at(a)),
            Step::Binary(op, a, b) => binary(op, at(a), at(b)),
            Step::Select { condition, on, off } => {
                if at(condition) != 0.0 {
                    at(on)
                } else {
                    at(off)
                }
            }
        });
    }
    values[values.len() - 1]
}

/// The operand's element for one place of the output, by numpy's rules and without any collapsing.
fn element(output: &[usize], shape: &[usize], place: usize) -> usize {
    let (mut rest, mut index, mut step) = (place, 0, 1);
    for axis in (0..output.len()).rev() {
        let at = rest % output[axis];
        rest /= output[axis];
        let Some(own) = (axis + shape.len()).checked_sub(output.len()) else { continue };
        if shape[own] != 1 {
            index += at * step;
        }
        step *= shape[own];
    }
    index
}

fn check(program: &Program, output: &[usize], shapes: &[&[usize]]) {
    let elements: usize = output.iter().product();
    let values: Vec<Vec<f32>> = shapes
        .iter()
        .zip(&program.inputs)
        .enumerate()
        .map(|(index, (shape, storage))| {
            let values = numbers(shape.iter().product(), 77 + index as u32);
            match storage {
                Storage::F32 => values,
                Storage::Bool => values.iter().map(|&v| f32::from(u8::from(v > 0.0))).collect(),
            }
        })
        .collect();
    let want: Vec<f32> = (0..elements)
        .map(|place| {
            let operands: Vec<f32> =
                values.iter().zip(shapes).map(|(values, shape)| values[element(output, shape, place)]).collect();
            evaluate(program, &operands)
        })
        .collect();
    let geometry = Geometry::new(output, shapes).unwrap();
    let poisoned: Vec<Poisoned> = values.iter().map(|values| Poisoned::new(values)).collect();
    // 200 is true as much as 1 is.
    let bytes: Vec<Vec<u8>> =
        values.iter().map(|values| values.iter().map(|&v| if v == 0.0 { 0 } else { 200 }).collect()).collect();
    let operands: Vec<Operand<'_>> = program
        .inputs
        .iter()
        .enumerate()
        .map(|(index, storage)| match storage {
            Storage::F32 => Operand::F32(poisoned[index].inside()),
            Storage::Bool => Operand::Bool(&bytes[index]),
        })
        .collect();
    for isa in levels() {
        for (wanted, tasks) in [(1, 1), (2, 3), (MAX_UNROLL, 1), (MAX_UNROLL, 5)] {
            let unroll = Chain::unroll_for(isa, program, &geometry, wanted);
            let chain = Chain::new(isa, program, &geometry, ChainPlan { unroll, tasks }, &EmitEach).unwrap();
            let case = format!("{isa}, {unroll} in flight, {tasks} tasks, {output:?} of {shapes:?}, {program:?}");
            let parallel: &dyn Parallel = if tasks == 1 { &Serial } else { &Scoped };
            let got = match program.output {
                Storage::F32 => {
                    let mut fenced = Canaried::new(elements);
                    chain.run(&operands, &mut Target::F32(fenced.inside()), parallel).unwrap();
                    fenced.open()
                }
                Storage::Bool => {
                    let mut got = vec![7u8; elements + 16];
                    chain.run(&operands, &mut Target::Bool(&mut got[8..8 + elements]), parallel).unwrap();
                    assert!(got[..8].iter().chain(&got[8 + elements..]).all(|&byte| byte == 7), "{case}");
                    got[8..8 + elements].iter().map(|&byte| f32::from(byte)).collect()
                }
            };
            for (place, (&got, &want)) in got.iter().zip(&want).enumerate() {
                let same = (got.is_nan() && want.is_nan()) || (got - want).abs() <= 2e-6 * want.abs().max(1.0);
                assert!(same, "at {place}: {got}, not {want}: {case}");
            }
        }
    }
}

fn two(op: BinaryOp, output: Storage) -> Program {
    let mut builder = Builder::new(&[Storage::F32, Storage::F32]);
    builder.binary(op, 0, 1);
    builder.finish(output).unwrap()
}

#[test]
fn every_binary_function_computes_its_definition() {
    use BinaryOp::{Add, Div, Fmod, Max, Min, Mul, PRelu, Pow, Sub};
    for op in [Add, Sub, Mul, Div, Max, Min, Pow, Fmod, PRelu] {
        check(&two(op, Storage::F32), &[3, 37], &[&[3, 37], &[3, 37]]);
        check(&two(op, Storage::F32), &[3, 37], &[&[37], &[3, 1]]);
    }
    use BinaryOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
    for op in [Equal, Greater, GreaterOrEqual, Less, LessOrEqual] {
        check(&two(op, Storage::Bool), &[3, 37], &[&[3, 37], &[1, 37]]);
    }
    for op in [BinaryOp::And, BinaryOp::Or, BinaryOp::Xor] {
        let mut builder = Builder::new(&[Storage::Bool, Storage::Bool]);
        builder.binary(op, 0, 1);
        check(&builder.finish(Storage::Bool).unwrap(), &[5, 19], &[&[5, 19], &[5, 1]]);
    }
}

#[test]
fn operands_broadcast_in_every_pattern() {
    let add = two(BinaryOp::Add, Storage::F32);
    let patterns: &[(&[usize], [&[usize]; 2])] = &[
        (&[], [&[], &[]]),
        (&[1], [&[1], &[]]),
        (&[5], [&[5], &[1]]),
        (&[100], [&[], &[100]]),
        (&[2, 3, 4], [&[2, 3, 4], &[4]]),
        (&[2, 3, 4], [&[2, 1, 4], &[3, 1]]),
        (&[4, 1, 33], [&[4, 1, 1], &[33]]),
        (&[2, 3, 5, 7], [&[2, 3, 5, 7], &[3, 1, 1]]),
        (&[2, 3, 5, 7], [&[1, 3, 1, 7], &[2, 1, 5, 1]]),
        (&[7, 300], [&[7, 300], &[300]]),
        (&[0, 5], [&[0, 5], &[5]]),
        (&[5, 0], [&[5, 0], &[5, 1]]),
    ];
    for (output, shapes) in patterns {
        check(&add, output, shapes);
    }
}

#[test]
fn chains_of_many_steps_share_registers_rightly() {
    // (a > b ? tanh(a) + c : 2 - b) * gelu(c), a and b read twice
    let mut builder = Builder::new(&[Storage::F32, Storage::F32, Storage::F32]);
    let larger = builder.binary(BinaryOp::Greater, 0, 1);
    let tanh = builder.unary(UnaryOp::Tanh, 0);
    let sum = builder.binary(BinaryOp::Add, tanh, 2);
    let constant = builder.constant(2.0);
    let rest = builder.binary(BinaryOp::Sub, constant, 1);
    let picked = builder.select(larger, sum, rest);
    let gelu = builder.unary(UnaryOp::Gelu, 2);
    builder.binary(BinaryOp::Mul, picked, gelu);
    let program = builder.finish(Storage::F32).unwrap();
    check(&program, &[2, 70], &[&[2, 70], &[70], &[2, 1]]);
    check(&program, &[2, 70], &[&[2, 1], &[2, 70], &[]]);
}

#[test]
fn constants_stand_on_either_side_of_every_function() {
    for op in [BinaryOp::Sub, BinaryOp::Div, BinaryOp::Less, BinaryOp::Max, BinaryOp::PRelu, BinaryOp::Pow] {
        for first in [false, true] {
            let mut builder = Builder::new(&[Storage::F32]);
            let constant = builder.constant(1.5);
            let (a, b) = if first { (constant, 0) } else { (0, constant) };
            let result = builder.binary(op, a, b);
            // A second reader of the operand, so that its register has to outlive the first.
            builder.binary(BinaryOp::Add, result, 0);
            check(&builder.finish(Storage::F32).unwrap(), &[41], &[&[41]]);
        }
    }
    let mut builder = Builder::new(&[Storage::F32]);
    builder.constant(3.0);
    check(&builder.finish(Storage::F32).unwrap(), &[20], &[&[20]]);
}

#[test]
fn booleans_are_read_and_written_as_bytes() {
    let mut builder = Builder::new(&[Storage::Bool, Storage::F32, Storage::F32]);
    builder.select(0, 1, 2);
    let select = builder.finish(Storage::F32).unwrap();
    check(&select, &[3, 50], &[&[3, 50], &[3, 50], &[]]);
    check(&select, &[3, 50], &[&[50], &[3, 1], &[3, 50]]);
    check(&select, &[2, 3000], &[&[2, 1], &[2, 3000], &[3000]]);
    let mut builder = Builder::new(&[Storage::Bool]);
    builder.unary(UnaryOp::Not, 0);
    check(&builder.finish(Storage::Bool).unwrap(), &[33], &[&[33]]);
}

#[test]
fn programs_of_booleans_alone_are_computed_on_bytes() {
    let bools = [Storage::Bool; 3];
    let steps: [&dyn Fn(&mut Builder) -> u8; 6] = [
        &|it| it.binary(BinaryOp::And, 0, 1),
        &|it| it.binary(BinaryOp::Or, 0, 1),
        &|it| it.binary(BinaryOp::Xor, 2, 1),
        &|it| it.binary(BinaryOp::Equal, 0, 2),
        &|it| it.select(2, 0, 1),
        &|it| {
            let one = it.constant(1.0);
            it.binary(BinaryOp::Xor, one, 0)
        },
    ];
    for step in steps {
        let mut builder = Builder::new(&bools);
        let result = step(&mut builder);
        builder.unary(UnaryOp::Not, result);
        let program = builder.finish(Storage::Bool).unwrap();
        check(&program, &[3, 50], &[&[3, 50], &[50], &[3, 1]]);
        check(&program, &[2, 5000], &[&[2, 1], &[2, 5000], &[5000]]);
        check(&program, &[7], &[&[7], &[], &[7]]);
        let geometry = Geometry::new(&[9], &[&[9], &[9], &[9]]).unwrap();
        let plan = ChainPlan { unroll: MAX_UNROLL, tasks: 1 };
        assert!(!Chain::new(Isa::Avx2, &program, &geometry, plan, &EmitEach).unwrap().is_emitted());
    }
    let mut builder = Builder::new(&[Storage::Bool; 2]);
    builder.binary(BinaryOp::And, 0, 1);
    let and = builder.finish(Storage::Bool).unwrap();
    let geometry = Geometry::new(&[5], &[&[5], &[5]]).unwrap();
    let chain = Chain::new(Isa::detect(), &and, &geometry, ChainPlan { unroll: 1, tasks: 1 }, &EmitEach).unwrap();
    let mut place = [1, 0, 7, 1, 0];
    let operands = [Operand::Output, Operand::Bool(&[1, 1, 9, 0, 0])];
    chain.run(&operands, &mut Target::Bool(&mut place), &Serial).unwrap();
    assert_eq!(place, [1, 0, 1, 0, 0]);
}

#[test]
fn programs_without_code_are_interpreted() {
    let program = Program::unary(UnaryOp::Celu { alpha: (-1.0).into() });
    let geometry = Geometry::new(&[9], &[&[9]]).unwrap();
    assert_eq!(Chain::unroll_for(Isa::Avx512, &program, &geometry, MAX_UNROLL), 0);
    check(&program, &[300], &[&[300]]);
    // Fifteen values alive at once, made first and used last, do not fit the sixteen registers of AVX2 with the other
    // registers that the code needs.
    let mut builder = Builder::new(&[Storage::F32]);
    let values: Vec<u8> = (0..15)
        .map(|n| {
            let constant = builder.constant(n as f32);
            builder.binary(BinaryOp::Mul, 0, constant)
        })
        .collect();
    values[1..].iter().rev().fold(values[0], |sum, &value| builder.binary(BinaryOp::Add, sum, value));
    let program = builder.finish(Storage::F32).unwrap();
    assert!(program.steps.len() <= MAX_STEPS);
    let geometry = Geometry::new(&[50], &[&[50]]).unwrap();
    assert_eq!(Chain::unroll_for(Isa::Avx2, &program, &geometry, MAX_UNROLL), 0);
    assert_eq!(Chain::unroll_for(Isa::Avx512, &program, &geometry, MAX_UNROLL), 2);
    check(&program, &[50], &[&[50]]);
}

#[test]
fn the_output_may_be_an_operand() {
    let program = two(BinaryOp::Sub, Storage::F32);
    let geometry = Geometry::new(&[4, 45], &[&[4, 45], &[45]]).unwrap();
    let (a, b) = (numbers(180, 3), numbers(45, 4));
    for isa in levels() {
        let unroll = Chain::unroll_for(isa, &program, &geometry, 2);
        let chain = Chain::new(isa, &program, &geometry, ChainPlan { unroll, tasks: 2 }, &EmitEach).unwrap();
        let mut output = a.clone();
        chain.run(&[Operand::Output, Operand::F32(&b)], &mut Target::F32(&mut output), &Scoped).unwrap();
        assert!(output.iter().enumerate().all(|(i, &got)| got == a[i] - b[i % 45]), "{isa}");
        let refused = chain.run(&[Operand::F32(&a), Operand::Output], &mut Target::F32(&mut output), &Serial);
        assert!(refused.is_err(), "an operand that is repeated cannot be overwritten");
    }
}

#[test]
fn buffers_that_are_too_small_are_refused() {
    let program = two(BinaryOp::Add, Storage::F32);
    let geometry = Geometry::new(&[4, 45], &[&[4, 45], &[45]]).unwrap();
    let chain = Chain::new(Isa::Portable, &program, &geometry, ChainPlan { unroll: 0, tasks: 1 }, &EmitEach).unwrap();
    let (full, short) = (vec![0.0; 180], vec![0.0; 44]);
    let mut output = vec![0.0; 180];
    let refused = |a: &[f32], b: &[f32], output: &mut [f32]| {
        let operands = [Operand::F32(a), Operand::F32(b)];
        matches!(chain.run(&operands, &mut Target::F32(output), &Serial), Err(KernelError::Bounds { .. }))
    };
    assert!(refused(&full[..179], &full, &mut output));
    assert!(refused(&full, &short, &mut output));
    assert!(refused(&full, &full, &mut output[..179]));
    assert!(!refused(&full, &full, &mut output));
}

#[test]
fn equal_keys_give_equal_code_and_wrong_ones_are_refused() {
    let key = |unroll| {
        CodeKey::Chain(ChainCode {
            isa: Isa::Avx2,
            program: Program::unary(UnaryOp::Gelu),
            lanes: SmallVec::from_slice(&[Lane::Vector]),
            unroll,
        })
    };
    assert_eq!(key(2).assemble(0).unwrap(), key(2).assemble(0).unwrap());
    assert_ne!(key(2).assemble(0).unwrap(), key(3).assemble(0).unwrap());
    for unroll in [0, MAX_UNROLL + 1, u8::MAX] {
        assert!(key(unroll).assemble(0).is_err(), "{unroll} vectors in flight");
    }
    let mut program = Program::unary(UnaryOp::Relu);
    program.steps[0] = Step::Unary(UnaryOp::Relu, 9);
    let lanes = SmallVec::from_slice(&[Lane::Vector]);
    assert!(CodeKey::Chain(ChainCode { isa: Isa::Avx2, program, lanes, unroll: 1 }).assemble(0).is_err());
    assert!(Builder::new(&[Storage::F32; MAX_INPUTS + 1]).finish(Storage::F32).is_none());
}
